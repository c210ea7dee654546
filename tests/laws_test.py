"""Checks which modules may import which, from the syntax trees, and what an import of the host half loads."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

from numjax.build import BASE_OF_KIND, names
from tests.conftest import SLOW_TESTS

ROOT = pathlib.Path(__file__).resolve().parents[1]

HOST = {"numeral", "expr", "text", "pipeline", "metrics", "tasks"}
DEVICE = {"nn", "embed", "positions", "backbone", "heads", "objectives", "decode", "model"}
SHARED = {"types", "protocols", "errors"}  # every module may import these
GEOMETRY = {"geometry"}  # NumPy arrays only: notebooks and experiments use it for vectors of any origin
COMPOSITION = {"train", "evals", "main", "api", "experiments", "system", "config", "inspect", "probes", "plan"}
HOST_RUNTIME = {"runtime.files"}  # the modules of runtime that the host half may import
ARRAYS = {"jax", "jaxlib", "flax", "optax", "orbax", "chex"}
MAX_LINES = 600


def list_modules(*folders: str) -> list[pathlib.Path]:
    """Lists every Python file of the folders, also files that are not committed."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def get_module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(tree: ast.AST, module: str = "", type_checking: bool = False) -> set[str]:
    """Returns the dotted names that a module imports anywhere, also inside functions. `from a import b` gives a.b.

    Imports under `if TYPE_CHECKING:` never run. They are included only with `type_checking`.
    """
    imports: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not type_checking:
            for statement in node.orelse:
                imports |= find_imports(ast.Module([statement], []), module)
            continue
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [base])])
            imports |= {f"{base}.{alias.name}" for alias in node.names}
        imports |= find_imports(node, module, type_checking)
    return imports


def get_part(name: str) -> str:
    """Returns the part of a module: numjax.text.vocab → text; jax.numpy → "", because it is not ours."""
    pieces = name.split(".")
    return pieces[1] if pieces[0] == "numjax" and len(pieces) > 1 else ""


def is_forbidden(name: str, parts: set[str]) -> bool:
    """Whether a module is of one of the parts, or of the runtime modules that the host half may not import."""
    return get_part(name) in parts or (
        get_part(name) == "runtime" and ".".join(name.split(".")[1:3]) not in HOST_RUNTIME
    )


def find_file_imports(path: pathlib.Path) -> set[str]:
    return find_imports(ast.parse(path.read_text(encoding="utf-8")), get_module_name(path))


def list_modules_of_parts(parts: set[str]) -> list[pathlib.Path]:
    return [path for path in list_modules("numjax") if get_part(get_module_name(path)) in parts]


def format_violations(violations: dict[str, set[str]]) -> str:
    return "; ".join(f"{name} imports {', '.join(sorted(imports))}" for name, imports in sorted(violations.items()))


def test_host_half_imports_no_array_library_and_no_device_module():
    violations = {}
    for path in [*list_modules_of_parts(HOST | SHARED), *list_modules("data")]:
        imports = find_file_imports(path)
        wrong_imports = {
            n for n in imports if n.split(".")[0] in ARRAYS or is_forbidden(n, DEVICE | COMPOSITION | GEOMETRY)
        }
        if wrong_imports:
            violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)
    assert len(list_modules_of_parts(HOST)) > 15  # the search finds the files


def test_device_half_imports_no_text_file_or_config_module():
    forbidden = {
        "ml_collections",
        "absl",
        "tokenizers",
        "sentencepiece",
        "grain",
        "tensorflow_datasets",
        "configs",
        "data",
    }
    violations = {}
    for path in list_modules_of_parts(DEVICE):
        imports = find_file_imports(path)
        wrong_imports = {
            n
            for n in imports
            if n.split(".")[0] in forbidden or get_part(n) in HOST | COMPOSITION | GEOMETRY | {"runtime"}
        }
        if wrong_imports:
            violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)
    assert len(list_modules_of_parts(DEVICE)) > 10


def test_geometry_imports_only_array_libraries():
    allowed = {"__future__", "numpy", "scipy", "sklearn", "threadpoolctl", "matplotlib"} | sys.stdlib_module_names
    violations = {}
    for path in list_modules_of_parts(GEOMETRY):
        wrong_imports = {
            n
            for n in find_file_imports(path)
            if n.split(".")[0] not in allowed and get_part(n) not in GEOMETRY | SHARED
        }
        if wrong_imports:
            violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)
    assert len(list_modules_of_parts(GEOMETRY)) > 3


def test_runtime_imports_only_shared_modules():
    violations = {}
    for path in list_modules_of_parts({"runtime"}):
        wrong_imports = {
            n for n in find_file_imports(path) if get_part(n) and get_part(n) not in SHARED | {"runtime"}
        }
        if wrong_imports:
            violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)
    assert len(list_modules_of_parts({"runtime"})) > 5


def test_top_level_has_eight_modules():
    # `__main__` is the command, which no module imports.
    module_names = {path.stem for path in (ROOT / "numjax").glob("*.py")} - {"__init__", "__main__"}
    assert module_names == {"main", "api", "build", "types", "protocols", "model", "errors", "system"}


def test_types_import_only_the_standard_library_and_errors():
    imports = find_file_imports(ROOT / "numjax/types.py") - {"numjax.errors", "numjax.errors.UsageError"}
    foreign_imports = {n for n in imports if n.split(".")[0] not in sys.stdlib_module_names}
    assert not foreign_imports, foreign_imports


RECIPES = ("numjax.config.recipe", "numjax.bundled.configs")


def test_configs_import_only_recipes_and_have_no_conditions():
    """Configs import the recipe functions and modules of the host half. They have no `if` statements."""
    violations = {}
    for path in list_modules("configs"):
        imports = find_file_imports(path)
        allowed_imports = {n for n in imports if n.startswith(RECIPES) or get_part(n) in HOST}
        wrong_imports = {n for n in imports - allowed_imports if n.split(".")[0] not in sys.stdlib_module_names}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wrong_imports |= {f"line {node.lineno}: if" for node in ast.walk(tree) if isinstance(node, ast.If)}
        if wrong_imports:
            violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)


def test_parts_import_no_later_parts():
    """The order is embed → backbone → heads → objectives. Layers in nn are pure functions and import none of them."""
    parts = ["nn", "embed", "positions", "backbone", "heads", "objectives"]
    violations = {}
    for i, name in enumerate(parts):
        for path in list_modules_of_parts({name}):
            forbidden_parts = {*parts[i + 1 :], "model", "decode"} | ({*parts[:i]} - {"nn"})
            wrong_imports = {n for n in find_file_imports(path) if get_part(n) in forbidden_parts}
            if wrong_imports:
                violations[get_module_name(path)] = wrong_imports
    assert not violations, format_violations(violations)
    flax_imports = {
        n for path in list_modules_of_parts({"nn"}) for n in find_file_imports(path) if n.split(".")[0] == "flax"
    }
    assert not flax_imports, "nn/ holds pure functions: no modules"


# Modules beside the parts: shared base classes, and the pieces of the backbones.
HELPER_MODULES = {
    "text": {"base", "coded", "known", "scaled"},
    "positions": {"base"},
    "heads": {"base"},
    "objectives": {"base"},
    "backbone": {"block", "stack"},
}
FAMILIES = {"text": {"document", "grammar", "vocab"}}  # folders beside the schemes that contain no scheme


def test_part_folders_contain_only_parts():
    for kind in BASE_OF_KIND:
        part_modules = {path.stem for path in (ROOT / "numjax" / kind).glob("*.py")} - {"__init__"}
        folders = {path.parent.name for path in (ROOT / "numjax" / kind).glob("*/__init__.py")}
        other_names = (part_modules | folders) - set(names(kind))
        assert other_names == HELPER_MODULES.get(kind, set()) | FAMILIES.get(kind, set()), kind


@pytest.mark.parametrize("folder", ["numjax", "configs", "data", "experiments"])
def test_files_are_short_and_have_specific_names(folder):
    for path in list_modules(folder):
        n_lines = path.read_text(encoding="utf-8").count("\n")
        assert n_lines <= MAX_LINES, f"{path.relative_to(ROOT)} has {n_lines} lines, more than {MAX_LINES}"
        vague_names = {"util", "utils", "helper", "helpers", "manager", "misc", "common_utils"}
        assert not vague_names & {path.stem, *path.relative_to(ROOT).parts}, path


# Functions with more than 60 lines without the docstring, or with more than 8 arguments. Each does one thing that is
# clearer in one piece, or its arguments are the options of a config.
LARGE_FUNCTIONS = {
    "experiments.report": ("publish",),
    "numjax.decode.beam": ("search",),
    "numjax.decode.sample": ("generate",),
    "numjax.decode.uncertainty": ("measure",),
    "numjax.evals.generate": ("generate",),
    "numjax.evals.report": ("score_split",),
    "numjax.expr.latex.lexer": ("_expand_macros",),
    "numjax.expr.latex.reader": ("parse_expression",),
    "numjax.nn.attention": ("attend",),
    "numjax.nn.cross_entropy": ("_forward", "_sum", "_total", "total_log_prob", "total_soft_log_prob"),
    "numjax.pipeline.batch": ("assemble", "gather"),
    "numjax.pipeline.features": ("__init__", "encode"),
    "numjax.tasks.arithmetic": ("__init__",),
    "numjax.tasks.equation_extraction": ("__init__",),
    "numjax.tasks.fraud": ("__init__",),
    "numjax.tasks.table_text": ("__init__",),
    "numjax.tasks.tatqa.task": ("__init__",),
    "numjax.text.carry_save": ("__init__",),
    "numjax.text.grammar.tables": ("build",),
    "numjax.text.limbs": ("__init__",),
    "numjax.text.scientific": ("__init__",),
    "numjax.text.trees.scheme": ("__init__",),
    "numjax.train.loop": ("__init__",),
    "numjax.train.step": ("train_step",),
}


def test_functions_are_small_except_listed_ones():
    n_functions, large_functions = 0, set()
    for path in list_modules("numjax", "configs", "data", "experiments"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            n_functions += 1
            docstring = node.body[0] if ast.get_docstring(node) else None
            n_lines = (node.end_lineno or 0) - node.lineno + 1
            n_lines -= (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if n_lines > 60 or len({*arguments} - {"self", "cls"}) > 8:
                large_functions.add((get_module_name(path), node.name))
    listed_functions = {(module, name) for module, names in LARGE_FUNCTIONS.items() for name in names}
    assert large_functions == listed_functions, large_functions ^ listed_functions
    assert len(large_functions) < 0.02 * n_functions


def test_find_imports_finds_nested_imports():
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
    imports = find_imports(ast.parse(source), "numjax.text.made_up")
    assert imports == {
        *("os", "typing.TYPE_CHECKING", "flax.linen", "optax"),
        *("numjax.nn.attention", "numjax.embed.dice"),
    }
    assert "jax" in find_imports(ast.parse(source), "numjax.text.made_up", type_checking=True)


def test_host_half_and_configs_do_not_import_jax():
    host_modules = [
        get_module_name(path)
        for path in [*list_modules_of_parts(HOST | SHARED | GEOMETRY), *list_modules("data", "configs")]
    ]
    host_modules += ["numjax.main", "numjax.config.origin"]
    script = (
        "import importlib, sys\n"
        f"for name in {host_modules!r}:\n"
        "    importlib.import_module(name)\n"
        "    bad = sorted({*'jax jaxlib flax optax orbax tensorflow grain'.split()} & sys.modules.keys())\n"
        "    assert not bad, f'{name} brings in {bad}'\n"
        f"print(len({host_modules!r}))\n"
    )
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) == len(host_modules) > 20


def test_committed_results_contain_no_machine_paths():
    paths = [path for kind in ("json", "md") for path in (ROOT / "experiments").glob(f"*/results/**/*.{kind}")]
    assert len(paths) > 20
    for path in paths:
        assert not re.search(r'["`(](?:/tmp|/work|/home|/root|/mnt|/Users)/', path.read_text()), path


# Modules that may call `hasattr`, or `getattr` with a default: they ask objects of other libraries, not our parts.
HASATTR_REASONS = {
    "protocols": "Part.provides, the one function that asks a part",
    "nn.parallel": "JAX's mesh may or may not have a device",
    "runtime.shard": "leaves of any tree, and keys of its paths",
    "train.checkpoint": "named tuples of any library, and Orbax's trees",
    "plan.flops": "jaxprs, closed or open",
    "plan.plan": "arrays with a sharding, or shapes",
    "tools.geometry": "flags of one of its commands",
}


def test_only_listed_modules_use_hasattr():
    """`protocols.py` gives each optional method of a part a default, so that no module needs `hasattr` for a part."""
    modules_with_hasattr = set()
    for path in list_modules("numjax"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                modules_with_hasattr.add(get_module_name(path).removeprefix("numjax."))
    assert modules_with_hasattr == set(HASATTR_REASONS), (
        f"ask `provides`, or give the base class a default: {modules_with_hasattr ^ set(HASATTR_REASONS)}"
    )


def test_only_one_module_calls_the_einsum_of_jax():
    """JAX keeps a jitted function for each call of `jnp.einsum`, but one for all calls of `nn.einsum`."""
    modules = {get_module_name(path) for path in list_modules("numjax") if "jnp.einsum(" in path.read_text()}
    assert modules == {"numjax.nn.einsum"}


# From the ground up. A folder may import those before it, so that no two folders import each other.
FLOORS = (
    *("bundled", "errors", "types", "runtime", "geometry", "nn", "numeral", "protocols", "build", "expr", "metrics"),
    *("text", "pipeline", "tasks", "embed", "positions", "backbone", "heads", "objectives", "model", "decode"),
    *(
        "pretrained",
        "config",
        "system",
        "train",
        "evals",
        "plan",
        "api",
        "inspect",
        "modes",
        "main",
        "probes",
        "tools",
        "__main__",
    ),
)


def test_no_folder_imports_one_above_it():
    violations = {}
    for path in list_modules("numjax"):
        name = get_module_name(path)
        if name == "numjax" or "bundled" in path.parts:
            continue
        assert get_part(name) in FLOORS, f"{name}: say in FLOORS what may import it"
        floor = FLOORS.index(get_part(name))
        imported = {get_part(module) for module in find_file_imports(path) if module.startswith("numjax.")}
        if above := imported & {*FLOORS[floor + 1 :]}:
            violations[name] = above
    assert not violations, format_violations(violations)


def test_slow_tests_are_there():
    for name in sorted(SLOW_TESTS):
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8"), name
