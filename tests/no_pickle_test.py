"""The law of loading: no file that is loaded can run code."""

from __future__ import annotations

import ast

import pytest

from tests.conftest import ROOT

FOLDERS = ("numjax", "data", "experiments", "configs")
# Modules whose loaders run code of the file.
RUNNING = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}  # builtins that run text


def faults(source: str) -> list[str]:
    """What a module does that could run code of a file that it loads: "line: reason" each."""
    out = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = {name.split(".")[0] for name in [*base, *(alias.name for alias in node.names)]}
            if isinstance(node, ast.ImportFrom) and node.module not in RUNNING:
                names -= {alias.name for alias in node.names}
            out += [f"{node.lineno}: imports {name}" for name in sorted(names & RUNNING)]
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            out.append(f"{node.lineno}: calls {node.func.id}")
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func) in ("torch.load", "importlib.reload"):
            out.append(f"{node.lineno}: calls {ast.unparse(node.func)}")
        if ast.unparse(node.func).endswith("import_module") and node.args and isinstance(node.args[0], ast.Constant):
            out += [f"{node.lineno}: imports {node.args[0].value}"] * (str(node.args[0].value) in RUNNING)
        for keyword in node.keywords:
            is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "allow_pickle" and not is_false:
                out.append(f"{node.lineno}: allow_pickle")
        if ast.unparse(node.func) in ("np.load", "numpy.load") and len(node.args) > 2:
            out.append(f"{node.lineno}: allow_pickle")  # by position
    return out


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_that_is_loaded_can_run_code(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert len(paths) > 5
    broken = {
        str(path.relative_to(ROOT)): violations
        for path in paths
        if "bundled" not in path.parts[:-2] and (violations := faults(path.read_text(encoding="utf-8")))
    }
    assert not broken, broken


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from pickle import load", "def f():\n    import cloudpickle as c",
        "import joblib.numpy_pickle",
        "np.load(f, allow_pickle=True)", "np.load(f, None, True)", "np.load(f, allow_pickle=flag)", "torch.load(f)",
        "eval(text)", "exec(text)", "importlib.import_module('dill')", "__import__(name)",
    ],
)  # fmt: skip
def test_the_law_sees(line):
    assert faults(line)


@pytest.mark.parametrize(
    "line", ["np.load(f)", "np.load(f, allow_pickle=False)", "model.eval()", "from a import dill_"]
)
def test_the_law_lets_pass(line):
    assert not faults(line)
