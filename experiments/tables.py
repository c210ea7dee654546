"""Results as tables: mean ± standard deviation over seeds, the paper's number beside it, and a paired t-test."""

from __future__ import annotations

import math
import pathlib
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scipy import stats

from numjax.bundled.experiments.runs import Result, Results
from numjax.errors import UsageError

SIGNIFICANT = 0.05


class Published(NamedTuple):
    """A number of a paper, in its own unit."""

    mean: float
    std: float | None = None


class Column(NamedTuple):
    """A metric on a task.

    Attributes:
      title: what it is called.
      task: of the results; metric: of their test split.
      scale: the paper's unit is the metric times this.
      digits: decimals to show.
      tested: whether it varies from seed to seed, so that a t-test over seeds means something.
    """

    title: str
    task: str
    metric: str
    scale: float = 100.0
    digits: int = 2
    tested: bool = True


class Row(NamedTuple):
    """A system.

    Attributes:
      label: what it is called. system: of the results, None for a row that only the paper has.
      published: column title → the paper's number.
      constant: column title → value of a system that needs no training, in the column's unit.
    """

    label: str
    system: str | None
    published: Mapping[str, Published] = {}
    constant: Mapping[str, float] = {}


class TTest(NamedTuple):
    """Student's t-test on the differences of the seeds that both have."""

    t: float
    p: float
    n: int


def values(results: Mapping[int, Result], column: Column) -> dict[int, float]:
    """Seed → value in the column's unit; diverged seeds and metrics that are not there are left out."""
    found = {seed: result.metrics.get("test", {}).get(column.metric) for seed, result in results.items()}
    return {seed: value * column.scale for seed, value in found.items() if value is not None}


def spread(numbers: Sequence[float]) -> tuple[float, float | None] | None:
    """(mean, sample standard deviation), the latter None for one number; None for none."""
    if not numbers:
        return None
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None


def paired(mine: Mapping[int, float], theirs: Mapping[int, float]) -> TTest | None:
    """Two-sided paired t-test of theirs against mine by seed; None with fewer than two seeds in common.

    Differences that are all zero have p = 1, differences that are all the same p = 0.
    """
    seeds = sorted(mine.keys() & theirs.keys())
    if len(seeds) < 2:
        return None
    differences = [theirs[seed] - mine[seed] for seed in seeds]
    if max(differences) - min(differences) <= 1e-12 * max(map(abs, [*differences, 1e-300])):
        same = abs(differences[0]) <= 1e-12
        return TTest(0.0 if same else math.copysign(math.inf, differences[0]), float(same), len(seeds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly equal differences lose precision, which the p-value shows
        found: Any = stats.ttest_1samp(differences, 0.0)
    return TTest(float(found.statistic), float(found.pvalue), len(seeds))


def compare(results: Results, rows: Sequence[Row], columns: Sequence[Column], reference: str) -> list[dict[str, Any]]:
    """One entry a row and column: the paper's number, ours, and the test of the system against `reference`.

    Rows that neither the paper nor the results know are left out.
    """
    out = []
    for row in rows:
        for column in columns:
            mine = results.get((column.task, row.system), {}) if row.system else {}
            by_seed = values(mine, column)
            here = spread(list(by_seed.values()))
            test = None
            if column.tested and row.system not in (None, reference):
                test = paired(values(results.get((column.task, reference), {}), column), by_seed)
            if column.title in row.constant:
                here = (row.constant[column.title], None)
            published = row.published.get(column.title)
            if here is None and published is None and not mine:
                continue
            out.append(
                {
                    "row": row.label,
                    "system": row.system,
                    "column": column.title,
                    "task": column.task,
                    "metric": column.metric,
                    "paper": published._asdict() if published else None,
                    "here": {"mean": here[0], "std": here[1], "n": max(len(by_seed), 1)} if here else None,
                    "seeds": {str(seed): value for seed, value in by_seed.items()},
                    "diverged": sorted(seed for seed, result in mine.items() if result.diverged),
                    "against": reference if test else None,
                    "t_test": test._asdict() if test else None,
                }
            )
    return out


def markdown(entries: Sequence[Mapping[str, Any]], columns: Sequence[Column], reference: str) -> str:
    """The entries of `compare` as a table: for each column the paper's number, ours and the p-value.

    A column that the paper does not have shows ours alone.
    """
    cells = {(entry["row"], entry["column"]): entry for entry in entries}
    labels = list(dict.fromkeys(entry["row"] for entry in entries))
    in_paper = {c.title for c in columns if any(e["paper"] for e in entries if e["column"] == c.title)}
    tested = {c.title for c in columns if any(e["t_test"] for e in entries if e["column"] == c.title)}
    header, body = ["system"], [[label] for label in labels]
    for column in columns:
        parts = [("paper", _paper)] * (column.title in in_paper) + [("here", _here)]
        parts += [("p", _p)] * (column.title in tested)
        header += [
            f"{column.title} {name}" if name != "here" or len(parts) > 1 else column.title for name, _ in parts
        ]
        for line, label in zip(body, labels, strict=True):
            entry = cells.get((label, column.title))
            line += [shown(entry, column.digits) if entry else "–" for _, shown in parts]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *body]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    if tested:
        table += f"\np: paired t-test over seeds against {reference}; * where p < {SIGNIFICANT}.\n"
    return table


def _paper(entry: Mapping[str, Any], digits: int) -> str:
    return _spread(entry["paper"], digits)


def _here(entry: Mapping[str, Any], digits: int) -> str:
    lost = entry["diverged"]
    note = f" ({len(lost)} diverged: seed {', '.join(map(str, lost))})" if lost else ""
    return _spread(entry["here"], digits) + note


def _spread(found: Mapping[str, Any] | None, digits: int) -> str:
    if not found:
        return "–"
    std = found.get("std")
    return f"{found['mean']:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _p(entry: Mapping[str, Any], digits: int) -> str:
    del digits
    test = entry["t_test"]
    if not test:
        return "–"
    shown = "< 0.001" if test["p"] < 0.001 else f"{test['p']:.3f}"
    return shown + (" *" if test["p"] < SIGNIFICANT else "")


def machines(results: Results) -> str:
    """The hardware and versions of the results, in a line."""
    found = [r.machine for of in results.values() for r in of.values()]
    shown = {
        f"{m['device']} ({m['devices']} device{'s' * (m['devices'] > 1)}, {m['cores']} cores), jax {m['jax']}"
        for m in found
    }
    return "; ".join(sorted(shown)) or "nothing was trained"


def write(path: pathlib.Path, text: str) -> None:
    """Writes a text file.

    Raises:
      UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): choose another --out") from error
