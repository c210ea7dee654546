"""Results as tables: mean ± standard deviation over seeds, the paper's number, and a paired t-test."""

from __future__ import annotations

import math
import pathlib
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scipy import stats

from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import UsageError

SIGNIFICANT = 0.05


class Published(NamedTuple):
    """A number of a paper, in the paper's unit."""

    mean: float
    std: float | None = None


class TableColumn(NamedTuple):
    """A column of a table: a metric on a task.

    Attributes:
      title: heading of the column.
      task: of the results; metric: of their test split.
      scale: the paper's unit is the metric times this.
      digits: decimals to show.
      tested: whether the metric varies with the seed, so that a t-test over seeds is meaningful.
    """

    title: str
    task: str
    metric: str
    scale: float = 100.0
    digits: int = 2
    tested: bool = True


class TableRow(NamedTuple):
    """A row of a table: a system.

    Attributes:
      label: heading of the row. system: of the results, None for a row that only the paper has.
      published: column title → the paper's number.
      constant: column title → value of a system that needs no training, in the column's unit.
    """

    label: str
    system: str | None
    published: Mapping[str, Published] = {}
    constant: Mapping[str, float] = {}


class TTest(NamedTuple):
    """Student's t-test on the differences over the seeds that both systems have."""

    t: float
    p: float
    n: int


def collect_values(results: Mapping[int, RunResult], column: TableColumn) -> dict[int, float]:
    """Seed → value in the column's unit; diverged seeds and missing metrics are left out."""
    raw_values = {seed: result.metrics.get("test", {}).get(column.metric) for seed, result in results.items()}
    return {seed: value * column.scale for seed, value in raw_values.items() if value is not None}


def mean_and_std(numbers: Sequence[float]) -> tuple[float, float | None] | None:
    """(mean, sample standard deviation); of one number the deviation is None, without numbers the result."""
    if not numbers:
        return None
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None


def paired_t_test(reference_values: Mapping[int, float], system_values: Mapping[int, float]) -> TTest | None:
    """Two-sided paired t-test of a system against a reference by seed; None with fewer than two seeds in common.

    If all differences are zero, p = 1; if all are the same otherwise, p = 0.
    """
    seeds = sorted(reference_values.keys() & system_values.keys())
    if len(seeds) < 2:
        return None
    differences = [system_values[seed] - reference_values[seed] for seed in seeds]
    if max(differences) - min(differences) <= 1e-12 * max(map(abs, [*differences, 1e-300])):
        is_zero = abs(differences[0]) <= 1e-12
        return TTest(0.0 if is_zero else math.copysign(math.inf, differences[0]), float(is_zero), len(seeds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly equal differences lose precision; the p-value shows it
        t_test: Any = stats.ttest_1samp(differences, 0.0)
    return TTest(float(t_test.statistic), float(t_test.pvalue), len(seeds))


def compare(
    results: Results, rows: Sequence[TableRow], columns: Sequence[TableColumn], reference: str
) -> list[dict[str, Any]]:
    """One entry for each row and column: the paper's number, ours, and the test of the system against `reference`.

    Cells for which neither the paper nor the results have anything are left out.
    """
    entries = []
    for row in rows:
        for column in columns:
            results_by_seed = results.get((column.task, row.system), {}) if row.system else {}
            by_seed = collect_values(results_by_seed, column)
            our_number = mean_and_std(list(by_seed.values()))
            test = None
            if column.tested and row.system not in (None, reference):
                test = paired_t_test(collect_values(results.get((column.task, reference), {}), column), by_seed)
            if column.title in row.constant:
                our_number = (row.constant[column.title], None)
            published = row.published.get(column.title)
            if our_number is None and published is None and not results_by_seed:
                continue
            entries.append(
                {
                    "row": row.label,
                    "system": row.system,
                    "column": column.title,
                    "task": column.task,
                    "metric": column.metric,
                    "paper": published._asdict() if published else None,
                    "here": {"mean": our_number[0], "std": our_number[1], "n": max(len(by_seed), 1)}
                    if our_number
                    else None,
                    "seeds": {str(seed): value for seed, value in by_seed.items()},
                    "diverged": sorted(seed for seed, result in results_by_seed.items() if result.diverged),
                    "against": reference if test else None,
                    "t_test": test._asdict() if test else None,
                }
            )
    return entries


def describe_best(entries: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Which row has the highest mean of each column, in words: "NumGPT on MME; GPT on GNC, MWPAS"."""
    columns_by_row: dict[str, list[str]] = {}
    for column in columns:
        column_entries = [entry for entry in entries if entry["column"] == column and entry["here"]]
        if column_entries:
            best = max(column_entries, key=lambda entry: entry["here"]["mean"])["row"]
            columns_by_row.setdefault(best, []).append(column)
    return "; ".join(f"{row} on {', '.join(names)}" for row, names in columns_by_row.items())


def format_markdown(entries: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn], reference: str) -> str:
    """The entries of `compare` as a Markdown table: for each column the paper's number, ours and the p-value.

    A column that the paper does not have shows only ours.
    """
    cells = {(entry["row"], entry["column"]): entry for entry in entries}
    labels = list(dict.fromkeys(entry["row"] for entry in entries))
    paper_titles = {c.title for c in columns if any(e["paper"] for e in entries if e["column"] == c.title)}
    tested_titles = {c.title for c in columns if any(e["t_test"] for e in entries if e["column"] == c.title)}
    header, body = ["system"], [[label] for label in labels]
    for column in columns:
        parts = [("paper", _format_paper)] * (column.title in paper_titles) + [("here", _format_ours)]
        parts += [("p", _format_p)] * (column.title in tested_titles)
        header += [
            f"{column.title} {name}" if name != "here" or len(parts) > 1 else column.title for name, _ in parts
        ]
        for line, label in zip(body, labels, strict=True):
            entry = cells.get((label, column.title))
            line += [format_cell(entry, column.digits) if entry else "–" for _, format_cell in parts]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *body]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    if tested_titles:
        table += f"\np: paired t-test over seeds against {reference}; * where p < {SIGNIFICANT}.\n"
    return table


def _format_paper(entry: Mapping[str, Any], digits: int) -> str:
    return _format_mean(entry["paper"], digits)


def _format_ours(entry: Mapping[str, Any], digits: int) -> str:
    diverged_seeds = entry["diverged"]
    note = f" ({len(diverged_seeds)} diverged: seed {', '.join(map(str, diverged_seeds))})" if diverged_seeds else ""
    return _format_mean(entry["here"], digits) + note


def _format_mean(number: Mapping[str, Any] | None, digits: int) -> str:
    if not number:
        return "–"
    std = number.get("std")
    return f"{number['mean']:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _format_p(entry: Mapping[str, Any], digits: int) -> str:
    del digits
    test = entry["t_test"]
    if not test:
        return "–"
    text = "< 0.001" if test["p"] < 0.001 else f"{test['p']:.3f}"
    return text + (" *" if test["p"] < SIGNIFICANT else "")


def describe_machines(entries: Iterable[Mapping[str, Any]]) -> str:
    """The hardware and versions of the runs of a table's JSON, in one line."""
    hardware = [entry["machine"] for entry in entries]
    descriptions = {
        f"{m['device']} ({m['devices']} device{'s' * (m['devices'] > 1)}, {m['cores']} cores), jax {m['jax']}"
        for m in hardware
    }
    return "; ".join(sorted(descriptions)) or "nothing was trained"


def find_difference(text: str, expected: str) -> tuple[int, str, str]:
    """(number of the first line that differs, the line of each text with its end) of two texts that are not equal."""
    pairs = zip(*([*lines.splitlines(keepends=True), ""] for lines in (text, expected)), strict=False)
    return next((line, ours, theirs) for line, (ours, theirs) in enumerate(pairs, 1) if ours != theirs)


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file.

    Raises:
      UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): choose another --out") from error
