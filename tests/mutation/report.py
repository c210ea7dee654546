"""The report of all modules, `tests/mutants.md`, from the kept results and the reasons of equivalent mutants."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from tests.mutation.reach import ROOT

REPORT = ROOT / "tests" / "mutants.md"
RESULTS = ROOT / "tests" / "mutation" / "results.json"
EQUIVALENT = ROOT / "tests" / "mutation" / "equivalent.toml"
HEAD = """# Mutants

`make mutants MODULE=numjax/train/optim.py` makes small changes of a module, one at a time, and runs the tests that
run the changed function, without the shared data. A change that no test notices survives. That command writes this
file (`tests/mutation/`); the changes are cosmic-ray's (another operator, another number, `not`, dropped keywords).

- *mutants*: places that can be changed, one change of a kind at each. *run*: all, or a random sample of that size
  (seed 0; `--sample`).
- *killed*: a test fails, or the tests do not end. *equivalent*: nothing that the code promises changes; the reasons
  are in `tests/mutation/equivalent.toml`. *score*: killed of those that are not equivalent.
- A mutant is run against the tests that run its function, those first that run the least else, for some seconds of
  tests at most (`--budget`). Tests in processes of their own do not count, and neither do the slow files
  (`tests/mutation/selection.py`). *seconds* are those of the first run, on two shared cores.
- Tests were written against the survivors of these very samples, so the scores say that what was looked at is
  guarded. For a fair estimate of a whole module draw another sample: `--seed`. One with seed 1, five mutants of each
  of 31 modules of train, objectives, positions, evals and heads: 125 of 155 killed; of the other 30 about 13 are
  equivalent.

"""


def load_results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def equivalents() -> dict[str, str]:
    """{mutant's name: why no test can kill it}."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {entry["mutant"]: entry["reason"] for entry in entries}


def survivors(module: str) -> list[str]:
    return load_results().get(module, {}).get("survived", [])


def keep(module: str, n_mutants: int, outcomes: dict[str, str], seconds: float, is_partial: bool) -> None:
    """Keeps a run's outcomes. A partial run, of the survivors alone, changes theirs and leaves the others."""
    results = load_results()
    survived = [name for name, outcome in outcomes.items() if outcome == "survived"]
    if is_partial:
        earlier = results[module]
        n_gone = len({*earlier["survived"]} - outcomes.keys())  # of code that has changed since
        result = earlier | {"survived": survived, "run": earlier["run"] - n_gone, "mutants": n_mutants}
    else:
        result = {"mutants": n_mutants, "run": len(outcomes), "seconds": round(seconds), "survived": survived}
    results[module] = result
    text = json.dumps(dict(sorted(results.items())), indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def figures(result: dict[str, Any], reasons: dict[str, str]) -> tuple[int, int, int]:
    """(killed, survived, equivalent) of a module."""
    equivalent = sum(name in reasons for name in result["survived"])
    return result["run"] - len(result["survived"]), len(result["survived"]) - equivalent, equivalent


def score(killed: int, survived: int) -> str:
    return f"{100 * killed / (killed + survived):.0f}%" if killed + survived else "–"


def line(module: str) -> str:
    killed, survived, equivalent = figures(load_results()[module], equivalents())
    return f"{killed} killed, {survived} survived, {equivalent} equivalent, {score(killed, survived)}"


def folder_of(module: str) -> str:
    return module.rpartition("/")[0]


def write() -> None:
    """Writes the report: a table by folder, a table by module, and what survived."""
    results, reasons = load_results(), equivalents()
    results = {module: result for module, result in results.items() if result["mutants"]}
    rows = {module: figures(result, reasons) for module, result in results.items()}
    lines = [HEAD + "| folder | mutants | run | killed | survived | equivalent | score |", "|---" * 7 + "|"]
    for folder in sorted({*map(folder_of, results)}):
        inside = [module for module in results if folder_of(module) == folder]
        mutants, run = (sum(results[module][name] for module in inside) for name in ("mutants", "run"))
        counts = [rows[module] for module in inside]
        lines.append(table_row(folder, mutants, run, [sum(column) for column in zip(*counts, strict=True)]))
    lines += ["", "| module | mutants | run | killed | survived | equivalent | score | seconds |", "|---" * 8 + "|"]
    for module, result in results.items():
        lines.append(f"{table_row(module, result['mutants'], result['run'], rows[module])} {result['seconds']} |")
    lines += ["", "## Survivors", ""]
    names = [name for result in results.values() for name in result["survived"]]
    lines += [f"- `` {name} ``" for name in names if name not in reasons]
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table_row(name: str, mutants: int, run: int, counts: Sequence[int]) -> str:
    killed, survived, equivalent = counts
    size = "all" if run == mutants else run
    return f"| `{name}` | {mutants} | {size} | {killed} | {survived} | {equivalent} | {score(killed, survived)} |"
