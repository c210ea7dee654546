"""Runs tests against a mutant in a fork of one process that has imported JAX and everything else but our own code.

The mutant is compiled from memory when its module is imported: no file on disk changes, so that several mutants can
run at the same time. Processes that a test starts see the module as it is on disk.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import resource
import signal
import sys
import time
from collections.abc import Sequence
from types import CodeType

import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.reach import ROOT

OURS = ("numjax", "configs", "data", "experiments", "tests")
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Compiles the mutant's source instead of the file's."""

    source = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)


class MutantFinder(importlib.machinery.PathFinder):
    """Finds one module, by whatever name it is imported, with the mutant's source."""

    def __init__(self, mutant: Mutant):
        self._path, self._source = (ROOT / mutant.module).resolve(), mutant.source

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[override]
        spec = super().find_spec(fullname, path, target)
        if spec is None or not spec.origin or pathlib.Path(spec.origin).resolve() != self._path:
            return None
        loader = MutantLoader(fullname, spec.origin)
        loader.source = self._source
        places = spec.submodule_search_locations
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=loader, submodule_search_locations=places
        )


def import_others(files: Sequence[pathlib.Path]) -> None:
    """Imports what the files import and is not ours, after the settings of `tests/conftest.py`."""
    importlib.import_module("tests.conftest")
    names = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module or "")
    for name in sorted(names):
        if name.partition(".")[0] not in (*OURS, ""):
            try:
                importlib.import_module(name)
            except ImportError:
                continue  # an extra that is not installed: the tests skip what needs it
    for name in [*sys.modules]:
        if name.partition(".")[0] in OURS and not name.startswith("tests.mutation"):
            del sys.modules[name]


def _run_tests(mutant: Mutant | None, files: list[list[str]], log: pathlib.Path, cpu_seconds: int) -> int:
    """In the fork: 0 if all tests pass."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.modules.pop("tests", None)
    if mutant is not None:
        sys.meta_path.insert(0, MutantFinder(mutant))
    for tests in files:
        code = pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *tests])
        if code != pytest.ExitCode.OK:
            return int(code)
    return 0


def start(mutant: Mutant | None, files: list[list[str]], log: pathlib.Path, cpu_seconds: int) -> int:
    """Starts the tests in a fork; returns its process id. The system ends it after its seconds of processor time."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _run_tests(mutant, files, log, cpu_seconds)
    finally:
        sys.stdout.flush()
        os._exit(code)  # no clean-up of the parent's: this is its copy


def finish(pid: int, deadline: float) -> str | None:
    """What became of a fork: killed, survived, or timeout once its time is over; None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        code = os.waitstatus_to_exitcode(status)
        return SURVIVED if code == 0 else TIMEOUT if code in (-signal.SIGXCPU, -signal.SIGKILL) else KILLED
    if time.monotonic() < deadline:
        return None
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return TIMEOUT
