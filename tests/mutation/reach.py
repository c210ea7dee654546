"""A pytest plugin, `-p tests.mutation.reach`: which functions of the code each test runs, and for how many seconds.

It writes one JSON file for each test file into REACH_DIR. The files are kept between runs, and a test file is run
again when its text changes (see `tests/mutation/selection.py`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator

import coverage
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("numjax", "experiments")
IMPORT = "<module>"


@functools.cache
def function_of_line(path: str) -> dict[int, str]:
    """The qualified name of the innermost function that holds each line; lines of nested functions and lambdas belong
    to the outer function. Lines outside of functions are left out."""
    lines: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{name}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                for line in range(child.body[0].lineno, (child.end_lineno or 0) + 1):
                    lines[line] = name + child.name
            else:
                visit(child, name)

    visit(ast.parse(pathlib.Path(path).read_text(encoding="utf-8")), "")
    return lines


def text_hash(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Reach:
    """Measures with coverage, whose context is the test that runs."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._coverage = coverage.Coverage(
            data_file=None, source=[str(ROOT / name) for name in FOLDERS], config_file=False, messages=False
        )
        self._tests: dict[str, dict] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        if not self._tests:
            self._coverage.start()
        self._coverage.switch_context(item.nodeid)
        self._tests[item.nodeid] = {"seconds": 0.0, "outcome": "passed"}
        result = yield
        if nextitem is None or nextitem.path != item.path:
            self._coverage.stop()
            self._write(item.path)
            self._coverage.erase()
            self._tests = {}
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests[report.nodeid]
        test["seconds"] += report.duration
        if report.outcome != "passed":
            test["outcome"] = report.outcome

    def _write(self, path: pathlib.Path) -> None:
        functions: dict[str, set[str]] = {name: set() for name in self._tests}
        measured = self._coverage.get_data()
        for name in measured.measured_files():
            module, of_line = str(pathlib.Path(name).resolve().relative_to(ROOT)), function_of_line(name)
            for line, tests in measured.contexts_by_lineno(name).items():
                for test in functions.keys() & tests:
                    functions[test].add(f"{module}:{of_line.get(line, IMPORT)}")
        tests = {name: test | {"functions": sorted(functions[name])} for name, test in self._tests.items()}
        content = {"hash": text_hash(path), "tests": tests}
        (self._folder / f"{path.stem}.json").write_text(json.dumps(content, indent=0))


def pytest_configure(config: pytest.Config) -> None:
    folder = pathlib.Path(os.environ["REACH_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Reach(folder))
