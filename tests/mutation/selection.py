"""Which tests run a function, and from what files: read from what `tests/mutation/reach.py` recorded."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable

from tests.mutation.reach import IMPORT, ROOT, text_hash

REACH = ROOT / ".cache" / "mutants" / "reach"
# They run minutes, mostly in processes of their own, which a mutant does not reach.
SLOW = ("beam_builder", "benchmarks", "examples", "install", "laws", "meshes", "notebooks", "pairs", "plan")
SLOW += ("processes", "quickstart", "readme")


def stale_files() -> list[pathlib.Path]:
    """Test files whose text is another one than when they were recorded."""
    files = sorted({*(ROOT / "tests").glob("*_test.py")} - {ROOT / "tests" / f"{name}_test.py" for name in SLOW})
    records = {path.stem: json.loads(path.read_text())["hash"] for path in REACH.glob("*.json")}
    return [path for path in files if records.get(path.stem) != text_hash(path)]


def record(files: Iterable[pathlib.Path]) -> None:
    """Runs test files and records which functions each test runs. Tests that fail are recorded and then left out."""
    names = [str(path.relative_to(ROOT)) for path in files]
    if not names:
        return
    print(f"recording which functions {len(names)} test files run", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.reach", *names]
    environment = os.environ | {"REACH_DIR": str(REACH)}
    subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)


class Selection:
    """For each function the tests that run it, the narrowest first: those that run the fewest functions."""

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
        for path in sorted(REACH.glob("*.json")):
            for test, run in json.loads(path.read_text())["tests"].items():
                if run["outcome"] != "passed":
                    continue
                rank = len(run["functions"]), run["seconds"]
                for function in {*run["functions"], *(f"{f.rpartition(':')[0]}:{IMPORT}" for f in run["functions"])}:
                    self._tests[function][test] = rank

    def tests(self, module: str, function: str, budget: float) -> tuple[list[list[str]], float]:
        """(the narrowest tests that run a function, file by file, until their seconds reach the budget; their
        seconds)."""
        files: dict[str, list[str]] = defaultdict(list)
        ranks, seconds = self._tests.get(f"{module}:{function}", {}), 0.0
        for test in sorted(ranks, key=lambda test: ranks[test]):
            if seconds + ranks[test][1] <= budget or not files:
                files[test.partition("::")[0]].append(test)
                seconds += ranks[test][1]
        return [*files.values()], seconds
