"""The laws of the two halves, read from the syntax trees, and what importing the host half brings in."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

from numjax.build import BASE_OF_KIND, names

ROOT = pathlib.Path(__file__).resolve().parents[1]

HOST = {"numeral", "expr", "text", "pipeline", "metrics", "tasks"}
DEVICE = {"nn", "embed", "positions", "backbone", "heads", "objectives", "decode", "model"}
GROUND = {"types", "protocols", "errors"}  # everyone may import these
GEOMETRY = {"geometry"}  # arrays of NumPy alone: it serves notebooks and experiments, whatever made the vectors
MEETING = {"train", "evals", "main", "api", "experiments", "system", "config", "inspect", "probes", "plan"}
MACHINE = {"runtime.files"}  # of the room below them all, what the host half may import
ARRAYS = {"jax", "jaxlib", "flax", "optax", "orbax", "chex"}
LONGEST = 600


def modules(*folders: str) -> list[pathlib.Path]:
    """Every Python file of the folders, checked out or not yet committed."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str = "", type_checking: bool = False) -> set[str]:
    """Dotted names that a module imports anywhere, also inside functions; `from a import b` gives a.b.

    Imports under `if TYPE_CHECKING:` never run and are left out, unless asked for.
    """
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not type_checking:
            for other in node.orelse:
                found |= imports(ast.Module([other], []), module)
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [base])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
        found |= imports(node, module, type_checking)
    return found


def part(name: str) -> str:
    """numjax.text.vocab → text; jax.numpy → "" (not ours)."""
    pieces = name.split(".")
    return pieces[1] if pieces[0] == "numjax" and len(pieces) > 1 else ""


def unfit(name: str, parts: set[str]) -> bool:
    """Whether it is of one of the parts, or of the machine's that are not for the host half."""
    return part(name) in parts or (part(name) == "runtime" and ".".join(name.split(".")[1:3]) not in MACHINE)


def of(path: pathlib.Path) -> set[str]:
    return imports(ast.parse(path.read_text(encoding="utf-8")), name_of(path))


def belonging(parts: set[str]) -> list[pathlib.Path]:
    return [path for path in modules("numjax") if part(name_of(path)) in parts]


def shown(broken: dict[str, set[str]]) -> str:
    return "; ".join(f"{name} imports {', '.join(sorted(found))}" for name, found in sorted(broken.items()))


def test_the_host_half_knows_no_arrays_of_the_device():
    broken = {}
    for path in [*belonging(HOST | GROUND), *modules("data")]:
        found = of(path)
        wrong = {n for n in found if n.split(".")[0] in ARRAYS or unfit(n, DEVICE | MEETING | GEOMETRY)}
        if wrong:
            broken[name_of(path)] = wrong
    assert not broken, shown(broken)
    assert len(belonging(HOST)) > 15  # the walk finds the files


def test_the_device_half_knows_no_text_no_files_and_no_configs():
    never = {
        "ml_collections",
        "absl",
        "tokenizers",
        "sentencepiece",
        "grain",
        "tensorflow_datasets",
        "configs",
        "data",
    }
    broken = {}
    for path in belonging(DEVICE):
        found = of(path)
        wrong = {n for n in found if n.split(".")[0] in never or part(n) in HOST | MEETING | GEOMETRY | {"runtime"}}
        if wrong:
            broken[name_of(path)] = wrong
    assert not broken, shown(broken)
    assert len(belonging(DEVICE)) > 10


def test_geometry_knows_arrays_alone():
    allowed = {"__future__", "numpy", "scipy", "sklearn", "threadpoolctl", "matplotlib"} | sys.stdlib_module_names
    broken = {}
    for path in belonging(GEOMETRY):
        wrong = {n for n in of(path) if n.split(".")[0] not in allowed and part(n) not in GEOMETRY | GROUND}
        if wrong:
            broken[name_of(path)] = wrong
    assert not broken, shown(broken)
    assert len(belonging(GEOMETRY)) > 3


def test_the_machine_knows_nothing_of_what_runs_on_it():
    broken = {}
    for path in belonging({"runtime"}):
        wrong = {n for n in of(path) if part(n) and part(n) not in GROUND | {"runtime"}}
        if wrong:
            broken[name_of(path)] = wrong
    assert not broken, shown(broken)
    assert len(belonging({"runtime"})) > 5


def test_eight_modules_stand_at_the_top():
    top = {path.stem for path in (ROOT / "numjax").glob("*.py")} - {"__init__"}
    assert top == {"main", "api", "build", "types", "protocols", "model", "errors", "system"}


def test_types_import_only_the_standard_library_and_errors():
    named = of(ROOT / "numjax/types.py") - {"numjax.errors", "numjax.errors.UsageError"}
    foreign = {n for n in named if n.split(".")[0] not in sys.stdlib_module_names}
    assert not foreign, foreign


RECIPES = ("numjax.config.recipe", "numjax.bundled.configs")


def test_configs_are_data():
    """They import what makes a recipe of it, and names of the host half, and ask nothing."""
    broken = {}
    for path in modules("configs"):
        found = of(path)
        ours = {n for n in found if n.startswith(RECIPES) or part(n) in HOST}
        wrong = {n for n in found - ours if n.split(".")[0] not in sys.stdlib_module_names}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wrong |= {f"line {node.lineno}: if" for node in ast.walk(tree) if isinstance(node, ast.If)}
        if wrong:
            broken[name_of(path)] = wrong
    assert not broken, shown(broken)


def test_nothing_imports_what_lies_to_its_right():
    """embed → backbone → heads → objectives; layers are pure functions that know none of them."""
    order = ["nn", "embed", "positions", "backbone", "heads", "objectives"]
    broken = {}
    for i, name in enumerate(order):
        for path in belonging({name}):
            later = {*order[i + 1 :], "model", "decode"} | ({*order[:i]} - {"nn"})
            wrong = {n for n in of(path) if part(n) in later}
            if wrong:
                broken[name_of(path)] = wrong
    assert not broken, shown(broken)
    layers = {n for path in belonging({"nn"}) for n in of(path) if n.split(".")[0] == "flax"}
    assert not layers, "nn/ holds pure functions: no modules"


# Beside parts: the base class of several, and what the backbones are built of.
BESIDE = {"text": {"base"}, "heads": {"base"}, "backbone": {"block", "stack"}}
FAMILIES = {"text": {"document", "grammar", "vocab"}}  # folders beside the schemes that hold no scheme


def test_folders_of_parts_hold_parts():
    for kind in BASE_OF_KIND:
        modules_ = {path.stem for path in (ROOT / "numjax" / kind).glob("*.py")} - {"__init__"}
        folders = {path.parent.name for path in (ROOT / "numjax" / kind).glob("*/__init__.py")}
        others = (modules_ | folders) - set(names(kind))
        assert others == BESIDE.get(kind, set()) | FAMILIES.get(kind, set()), kind


@pytest.mark.parametrize("folder", ["numjax", "configs", "data", "experiments"])
def test_files_are_short_and_have_names_that_say_something(folder):
    for path in modules(folder):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= LONGEST, f"{path.relative_to(ROOT)} has {lines} lines, more than {LONGEST}"
        vague = {"util", "utils", "helper", "helpers", "manager", "misc", "common_utils"}
        assert not vague & {path.stem, *path.relative_to(ROOT).parts}, path


# Functions of more than 60 lines, docstring apart, or more than 8 arguments. Each is one thing to be read in a piece,
# or says in its signature what a config can say.
LARGE = {
    "experiments.report": ("publish",),
    "numjax.decode.beam": ("search",),
    "numjax.decode.sample": ("generate",),
    "numjax.evals.generate": ("_continue", "generate"),
    "numjax.evals.report": ("score_split",),
    "numjax.expr.latex.lexer": ("_clean", "_expand_macros"),
    "numjax.expr.latex.reader": ("parse_expression",),
    "numjax.nn.attention": ("attend",),
    "numjax.nn.cross_entropy": ("_forward", "_sum", "_total", "total_log_prob", "total_soft_log_prob"),
    "numjax.pipeline.batch": ("assemble", "gather"),
    "numjax.pipeline.features": ("__init__", "encode"),
    "numjax.tasks.equation_extraction": ("__init__",),
    "numjax.tasks.fraud": ("__init__",),
    "numjax.tasks.tatqa.task": ("__init__",),
    "numjax.text.grammar.tables": ("build",),
    "numjax.text.trees.scheme": ("__init__",),
    "numjax.train.loop": ("__init__",),
    "numjax.train.optim": ("adamw",),
    "numjax.train.step": ("train_step",),
}


def test_functions_are_small_but_for_those_that_are_named():
    seen, large = 0, set()
    for path in modules("numjax", "configs", "data", "experiments"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            seen += 1
            told = node.body[0] if ast.get_docstring(node) else None
            lines = (node.end_lineno or 0) - node.lineno + 1
            lines -= (told.end_lineno or 0) - told.lineno + 1 if told else 0
            given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if lines > 60 or len({*given} - {"self", "cls"}) > 8:
                large.add((name_of(path), node.name))
    named = {(module, name) for module, names in LARGE.items() for name in names}
    assert large == named, large ^ named
    assert len(large) < 0.02 * seen


def test_the_walk_sees_imports_wherever_they_hide():
    source = """
import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import jax
else:
    import flax.linen as nn
def late():
    from numjax.nn import attention
    try:
        from ..embed import dice
    except ImportError:
        import optax
"""
    found = imports(ast.parse(source), "numjax.text.made_up")
    assert found == {
        *("os", "typing.TYPE_CHECKING", "flax.linen", "optax"),
        *("numjax.nn.attention", "numjax.embed.dice"),
    }
    assert "jax" in imports(ast.parse(source), "numjax.text.made_up", type_checking=True)


def test_importing_the_host_half_and_reading_a_config_brings_no_jax():
    whole = [name_of(path) for path in [*belonging(HOST | GROUND | GEOMETRY), *modules("data", "configs")]]
    whole += ["numjax.main", "numjax.config.origin"]
    script = (
        "import importlib, sys\n"
        f"for name in {whole!r}:\n"
        "    importlib.import_module(name)\n"
        "    bad = sorted({*'jax jaxlib flax optax orbax tensorflow grain'.split()} & sys.modules.keys())\n"
        "    assert not bad, f'{name} brings in {bad}'\n"
        f"print(len({whole!r}))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) == len(whole) > 20


def test_committed_results_name_no_folder_of_the_machine_they_were_made_on():
    found = [path for kind in ("json", "md") for path in (ROOT / "experiments").glob(f"*/results/**/*.{kind}")]
    assert len(found) > 20
    for path in found:
        assert not re.search(r'["`(](?:/tmp|/work|/home|/root|/mnt|/Users)/', path.read_text()), path


# What is asked with `hasattr` or with a default of `getattr` is no part of ours but something of others.
ASKED = {
    "protocols": "Part.provides, which asks for everybody",
    "nn.parallel": "JAX's mesh knows its device, or does not",
    "runtime.shard": "leaves of any tree, and keys of its paths",
    "train.checkpoint": "named tuples of any library, and Orbax's trees",
    "plan.flops": "jaxprs, closed or open",
    "plan.plan": "arrays that lie somewhere, or shapes",
    "tools.geometry": "flags of one of its commands",
}


def test_no_part_is_asked_what_it_has():
    """`protocols.py` gives each kind's optional methods a default; whoever asks with `hasattr` knows better."""
    asking = set()
    for path in modules("numjax"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                asking.add(name_of(path).removeprefix("numjax."))
    assert asking == set(ASKED), f"ask `provides`, or give the base class a default: {asking ^ set(ASKED)}"
