"""Runs a module's mutants against the tests that run it: `make mutants MODULE=numjax/train/optim.py`.

  python -m tests.mutation numjax/heads --sample=60
  python -m tests.mutation numjax/heads --survivors   # only those that survived the last time, after a new test
  python -m tests.mutation --report                   # writes tests/mutants.md again, after new reasons

The tests run without the shared data. `tests/mutation/results.json` keeps what became of each module's mutants,
`tests/mutation/equivalent.toml` the mutants that no test can kill, with reasons; both make `tests/mutants.md`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import time
from collections import deque

from tests.mutation import report
from tests.mutation.mutants import Mutant, all_mutants, sample
from tests.mutation.reach import ROOT
from tests.mutation.selection import REACH, Selection, record, stale_files

LOGS = REACH.parent / "logs"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="modules or folders, such as numjax/heads")
    parser.add_argument("--sample", type=int, default=60, help="mutants of a module at most")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the changes")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of tests for a mutant, as recorded")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--recorded", action="store_true", help="use what is recorded: run no test file to record it")
    parser.add_argument("--survivors", action="store_true", help="run only the last run's survivors")
    parser.add_argument("--report", action="store_true", help="only write the report")
    return parser.parse_args()


def modules(paths: list[str]) -> list[str]:
    """Python files with code in the order of the paths, relative to the checkout."""
    files: list[pathlib.Path] = []
    for path in paths:
        whole = (ROOT / path).resolve()
        if not whole.exists():
            raise SystemExit(f"{path}: no such module or folder in {ROOT}")
        files += sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
    return [str(path.relative_to(ROOT)) for path in files]


def run_mutants(mutants: list[Mutant], selection: Selection, args: argparse.Namespace) -> dict[str, str]:
    """{mutant's name: killed, survived or timeout}."""
    from tests.mutation import fork

    waiting, running, outcomes = deque(mutants), {}, {}
    LOGS.mkdir(parents=True, exist_ok=True)
    while waiting or running:
        while waiting and len(running) < args.jobs:
            mutant = waiting.popleft()
            files, seconds = selection.tests(mutant.module, mutant.function, args.budget)
            if not files:
                outcomes[mutant.name] = fork.SURVIVED
                print(f"no test  {mutant.name}", flush=True)
                continue
            # Processor time, which a busy machine does not stretch; the deadline is for what waits and does nothing.
            pid = fork.start(mutant, files, LOGS / f"{len(waiting)}.log", cpu_seconds=30 + 3 * round(seconds))
            running[pid] = mutant, time.monotonic() + 300 + 20 * seconds
        for pid, (mutant, deadline) in [*running.items()]:
            outcome = fork.finish(pid, deadline)
            if outcome is not None:
                del running[pid]
                outcomes[mutant.name] = outcome
                print(f"{outcome:8} {mutant.line:4} {mutant.name}", flush=True)
        time.sleep(0.02)
    return outcomes


def main() -> None:
    args = parse_arguments()
    if not args.report:
        os.environ |= {"NUMJAX_DATA": os.devnull + "/none", "JAX_PLATFORMS": "cpu"}
        names = modules(args.paths)
        if not args.recorded:
            record(stale_files())
        from tests.mutation import fork

        fork.import_others([*(ROOT / "numjax").rglob("*.py"), *(ROOT / "tests").glob("*.py")])
        selection = Selection()
        for name in names:
            survivors = report.survivors(name)
            if args.survivors and not survivors:
                continue
            mutants = all_mutants(ROOT, name, args.seed)
            chosen = sample(mutants, args.sample, args.seed)
            if args.survivors:
                chosen = [mutant for mutant in mutants if mutant.name in survivors]
            begin = time.monotonic()
            outcomes = run_mutants(chosen, selection, args)
            seconds = time.monotonic() - begin
            report.keep(name, len(mutants), outcomes, seconds, is_partial=args.survivors)
            print(f"{name}: {report.line(name)}, {seconds:.0f} s", flush=True)
    report.write()


if __name__ == "__main__":
    main()
