"""Checks what is committed: every table and picture against its JSON, every quoted figure against its source.

    python -m experiments.verify             # prints disagreements with file and line; exits 1 if there are any
    python -m experiments.verify --write     # renders the tables, pictures and the front table again

- Each results/**/NAME.md is what its JSON renders.
- Means, deviations and t-tests in a JSON are those of its runs.
- The figures in READMEs are those of their sources (`quotes.py`), and each figure with ± names one.
- Cells of a grid that are committed are whole, and its table follows from them.
- Each picture shows what its JSON draws, and each PNG has a JSON that draws it.
- `experiments/README.md` holds the front table that `claims.py` makes of the JSON files.
"""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numjax import bundled
from numjax.bundled.experiments import claims, command, pictures, quotes, report, stored, tables
from numjax.bundled.experiments.grid import archive
from numjax.bundled.experiments.grid.report import committed
from numjax.bundled.experiments.quotes import Problem
from numjax.tools.command import Parser


def main(words: Sequence[str] | None = None) -> int:
    """Prints the disagreements and returns 1, or 0 if there are none."""
    parser = Parser(prog="python -m experiments.verify", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables, pictures and the front table anew")
    options = parser.parse_args(words)
    root = bundled.HOME
    if options.write:
        for path in list_results(root):
            tables.write_text(path.with_suffix(".md"), report.render_file(path))
            pictures.write(path)
        claims.write(root / "experiments")
    problems, n_figures = list_problems(root)
    for path, line, message in problems:
        print(f"{path.relative_to(root)}:{line}: {message}")
    for note in list_notes(root):
        print(f"note: {note}")
    n_tables = len(list_results(root))
    print(f"{len(problems)} disagreements; {n_tables} tables rendered, {n_figures} quoted figures compared")
    return int(bool(problems))


def list_results(root: pathlib.Path) -> list[pathlib.Path]:
    """The JSON files of committed tables and pictures."""
    paths = (root / "experiments").glob("*/results/**/*.json")
    return sorted(path for path in paths if path.name != archive.STEP_TIMES)


def list_problems(root: pathlib.Path) -> tuple[list[Problem], int]:
    """(all disagreements of a checkout, the number of quoted figures compared)."""
    problems = [problem for path in list_results(root) for problem in check_table(path)]
    problems += check_pictures(root / "experiments")
    problems += committed.check(root / "experiments" / "grid" / "results")
    n_figures = 0
    front = root / "experiments" / claims.README
    for path in quotes.list_readmes(root):
        if path == front:
            continue
        readme_problems, n_compared = quotes.check_readme(path)
        problems += readme_problems
        n_figures += n_compared
    return [*problems, *claims.check(root / "experiments")], n_figures


def check_pictures(folder: pathlib.Path) -> Iterator[Problem]:
    """Yields pictures that are missing, or do not show what their JSON draws, or that no JSON draws."""
    known: set[pathlib.Path] = set()
    for path in sorted(folder.glob("*/results/**/*.json")):
        known |= {path.parent / name for name in pictures.draw(pictures.load(path))}
        yield from (Problem(picture, 1, message) for picture, message in pictures.check(path))
    for picture in sorted(folder.glob("*/results/**/*.png")):
        if picture not in known:
            yield Problem(picture, 1, "no JSON beside it draws it: draw it from one, or remove it")


def check_table(path: pathlib.Path) -> Iterator[Problem]:
    """Yields where a table differs from what its JSON renders, and where the JSON differs from its runs."""
    table = path.with_suffix(".md")
    try:
        expected = report.render_file(path)
        text = table.read_text(encoding="utf-8")
    except (OSError, KeyError, json.JSONDecodeError) as error:
        yield Problem(path, 1, f"cannot be rendered ({error!r:.100})")
        return
    if text != expected:
        line, ours, theirs = tables.find_difference(text, expected)
        yield Problem(table, line, f"is {ours[:60]!r}, and its JSON renders {theirs[:60]!r}")
    content = json.loads(path.read_text(encoding="utf-8"))
    for heading, entries in content.get("tables", {}).items():
        for entry in entries:
            if message := check_entry(entry, entries, content):
                yield Problem(path, 1, f"{heading}: {entry['row']}, {entry['column']}: {message}")


def check_entry(entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> str:
    """What is wrong with an entry of a table, "" if it follows from the runs."""
    here, seeds = entry["here"], {int(seed): value for seed, value in entry["seeds"].items()}
    if not seeds:
        return ""
    columns = [c for cs in content["columns"].values() for c in cs if c["title"] == entry["column"]]
    scale = columns[0]["scale"]
    found_seeds = set()
    for run in content["runs"]:
        value = run["metrics"].get("test", {}).get(entry["metric"])
        if run["system"] != entry["system"] or entry["task"] not in list_tasks(run["task"]):
            continue
        if run["seed"] not in seeds and value is not None and math.isfinite(value):
            return f"leaves out seed {run['seed']}, whose run has {value}"
        if run["seed"] in seeds:
            found_seeds.add(run["seed"])
            if value is None or not math.isclose(seeds[run["seed"]], scale * value, rel_tol=1e-9, abs_tol=1e-12):
                return f"seed {run['seed']} is {seeds[run['seed']]}, and its run has {value} times {scale:g}"
    if missing_seeds := sorted(seeds.keys() - found_seeds):
        return f"no run of seed {', '.join(map(str, missing_seeds))}"
    mean, std = tables.mean_and_std(list(seeds.values())) or (math.nan, None)
    if not _is_close(here["mean"], mean) or not _is_close(here["std"], std):
        return f"is {here['mean']} ± {here['std']}, and its seeds give {mean} ± {std}"
    if entry["t_test"]:
        against = next(e for e in entries if (e["system"], e["column"]) == (entry["against"], entry["column"]))
        test = tables.paired_t_test({int(s): v for s, v in against["seeds"].items()}, seeds)
        if test is None or not _is_close(entry["t_test"]["p"], test.p):
            return f"p is {entry['t_test']['p']}, and the seeds give {test and test.p}"
    return ""


def list_tasks(name: str) -> set[str]:
    """The tasks of a table that a run of this name can be of: some runs name their fold (math23k-0), or their dataset
    (ofeq-headline)."""
    before, _, after = name.rpartition("-")
    if not before:
        return {name}
    return {name, before if after.isdigit() else name.partition("-")[2]}


def list_notes(root: pathlib.Path) -> Iterator[str]:
    """Yields what is no disagreement and worth knowing: results of unknown commits, or of uncommitted code."""
    for path in list_results(root):
        content = json.loads(path.read_text(encoding="utf-8"))
        commits = {run["machine"].get("commit", "") for run in content.get("runs", [])}
        for commit in sorted(commits):
            if commit.endswith(stored.DIRTY):
                name = commit.removesuffix(stored.DIRTY)
                yield f"{path.relative_to(root)}: runs of {name} with changes that were not committed"
            elif commit and not _is_commit(commit, root):
                yield f"{path.relative_to(root)}: runs of {commit}, which is not in this checkout's history"


def _is_commit(commit: str, root: pathlib.Path) -> bool:
    command_words = ["git", "-C", str(root), "cat-file", "-e", f"{commit}^{{commit}}"]
    try:
        return subprocess.run(command_words, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return True  # without git nothing can be said


def _is_close(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-9)


if __name__ == "__main__":
    command.entry(lambda: sys.exit(main()))
