"""The short answer of a map: the best row of each column, what rows cost, and what was not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import tables
from numjax.bundled.experiments.grid import groups
from numjax.bundled.experiments.grid.report import maps
from numjax.bundled.experiments.grid.report.folder import Cell
from numjax.bundled.experiments.grid.report.maps import Map
from numjax.bundled.experiments.grid.report.metrics import EQUAL_SECONDS, METRICS

METRIC = METRICS[0]  # exact answers
COSTS = ("slots_per_number", "parameters", "ms_per_step", "seconds")
_FORMS = {"slots_per_number": ".1f", "parameters": ",.0f", "ms_per_step": ".0f", "minutes": ".0f"}
_PARTS = ("scheme", "embeds", "heads", "objectives", "positions")
_MOST_NAMES = 2


def describe_row(grid: Map, row: str) -> dict[str, Any]:
    """What a row's cells share: its group, its parts in words, seeds, learning rates and machines, and its `COSTS` as
    means over cells, None where they are not known."""
    cells = [cell for column in grid.columns for cell in grid.cells.get((row, column), ())]
    trained = [cell for cell in cells if cell.settings]
    rates = Counter(cell.settings["learning_rate"] for cell in trained if cell.settings.get("learning_rate"))
    parts = next((parts for cell in trained if isinstance(parts := cell.settings.get("parts"), dict)), {})
    return {
        "group": groups.find_group(row),
        "parts": " · ".join(str(parts[kind]) for kind in _PARTS if parts.get(kind)),
        "seeds": sorted({cell.seed for cell in trained}),
        "learning_rates": sorted(rates),
        "machines": sorted({cell.hardware for cell in trained if cell.hardware}),
        "is_timed": bool(trained) and all(cell.clock for cell in trained),
        "keys": sorted({cell.key for cell in cells}),
        **{name: _average(cells, name) for name in COSTS},
    }


def _average(cells: Sequence[Cell], name: str) -> float | None:
    values = [cell.costs[name] for cell in cells if name in cell.costs]
    return float(f"{sum(values) / len(values):.4g}") if values else None


def find_winners(content: Mapping[str, Any], stream: str) -> dict[str, str]:
    """Column → the row that is best beyond the seeds, of the columns that have one. It follows from the values that a
    map's JSON holds, see `maps.find_winner`."""
    winners = {}
    for column in content["columns"]:
        cells = {cell["row"]: cell for cell in content["cells"] if cell["column"] == column}
        values = {row: cell["values"].get(stream, []) for row, cell in cells.items()}
        winner = maps.find_winner(values, METRIC)
        # A seed without a value is no good one.
        if winner is not None and len(values[winner]) == len(cells[winner]["seeds"]):
            winners[column] = winner
    return winners


def format_best(content: Mapping[str, Any], name_stream: Callable[[str], str]) -> str:
    """The Markdown table of the best row of each column, on each stream that its cells have.

    Args:
      content: of a map's JSON. name_stream: stream → its name in words.
    """
    streams = [content["main"], *(stream for stream in content["streams"] if stream != content["main"])]
    streams = [stream for stream in streams if any(stream in cell["values"] for cell in content["cells"])]
    lines = [["", *map(name_stream, streams)], ["---"] * (1 + len(streams))]
    wins = {stream: find_winners(content, stream) for stream in streams}
    for column in content["columns"]:
        leaders = (_format_leader(content, column, stream, wins[stream].get(column)) for stream in streams)
        lines.append([f"`{column}`", *leaders])
    return _join(lines)


def _format_leader(content: Mapping[str, Any], column: str, stream: str, winner: str | None) -> str:
    means: dict[str, float] = {}
    for cell in content["cells"]:
        is_rival = cell["column"] == column and content["rows"][cell["row"]]["group"] != groups.BASELINES
        number = tables.mean_and_std(cell["values"].get(stream, [])) if is_rival else None
        if number is not None and not cell["not_applicable"]:
            means[cell["row"]] = round(100 * number[0], 1)
    if not means or not (best := max(means.values())):
        return "nobody" if means else "–"
    leaders = [row for row, mean in means.items() if mean == best]
    more = f" and {len(leaders) - _MOST_NAMES} more" * (len(leaders) > _MOST_NAMES)
    text = f"{', '.join(leaders[:_MOST_NAMES])}{more} {best:.1f}"
    return f"**{text}**" if winner in leaders else text


def average_columns(content: Mapping[str, Any], stream: str, of_baselines: bool = False) -> dict[str, float]:
    """Row → the mean of its shares of right answers over the columns that have the stream. Of rows with a value in
    each of these, either the trained ones or the baselines."""
    values: dict[str, dict[str, float]] = {}
    for cell in content["cells"]:
        number = tables.mean_and_std(cell["values"].get(stream, []))
        if number is not None and (content["rows"][cell["row"]]["group"] == groups.BASELINES) == of_baselines:
            values.setdefault(cell["row"], {})[cell["column"]] = number[0]
    columns = {column for own in values.values() for column in own}
    return {row: sum(own.values()) / len(own) for row, own in values.items() if own.keys() == columns}


def format_means(content: Mapping[str, Any], name_stream: Callable[[str], str]) -> str:
    """The Markdown table of each row's mean over columns, on each stream that several columns have; the row with the
    best mean of all streams together first, and the best of a stream in bold. Baselines stand among the rows, but for
    the one that is always right."""
    counts = Counter(
        stream for stream, _ in {(s, cell["column"]) for cell in content["cells"] for s in cell["values"]}
    )
    streams = [content["main"], *(stream for stream in content["streams"] if stream != content["main"])]
    streams = [stream for stream in streams if counts[stream] > 1]
    means = {stream: average_columns(content, stream) for stream in streams}
    streams = [stream for stream in streams if means[stream]]
    lines = [["row", "group", *map(name_stream, streams)], ["---", "---", *["---:"] * len(streams)]]
    shown = {stream: average_columns(content, stream, of_baselines=True) | means[stream] for stream in streams}
    last = shown[streams[-1]] if streams else {}
    rows = (row for row in content["rows"] if row in last and row != "oracle")
    for row in sorted(rows, key=lambda row: -last[row]):
        texts = [_format_mean(shown[stream], row, means[stream]) for stream in streams]
        lines.append([f"`{row}`", content["rows"][row]["group"], *texts])
    return _join(lines)


def format_seconds(content: Mapping[str, Any]) -> str:
    """The Markdown table of each row's mean over columns on the validation problems, after all steps and at equal
    seconds, the row that is best at equal seconds first. Rows that lack a column are left out."""
    at_end: dict[str, float] = {}
    at_equal_seconds: dict[str, float] = {}
    for row in content["rows"]:
        cells = [cell for cell in content["cells"] if cell["row"] == row]
        pairs = [
            (tables.mean_and_std(cell["validation"]), tables.mean_and_std(cell["others"].get(EQUAL_SECONDS, [])))
            for cell in cells
        ]
        means = [(last[0], equal[0]) for last, equal in pairs if last is not None and equal is not None]
        if len(means) == len(content["columns"]):
            at_end[row], at_equal_seconds[row] = (sum(numbers) / len(means) for numbers in zip(*means, strict=True))
    lines = [["row", "group", "ms a step", "all steps", "equal seconds"], ["---", "---", "---:", "---:", "---:"]]
    for row in sorted(at_end, key=lambda row: -at_equal_seconds[row]):
        facts = content["rows"][row]
        step = "–" if facts["ms_per_step"] is None else f"{facts['ms_per_step']:.0f}"
        texts = [_format_mean(by_row, row, by_row) for by_row in (at_end, at_equal_seconds)]
        lines.append([f"`{row}`", facts["group"], step, *texts])
    return _join(lines)


def _format_mean(shown: Mapping[str, float], row: str, rivals: Mapping[str, float]) -> str:
    if row not in shown:
        return "–"
    text = f"{100 * shown[row]:.1f}"
    return f"**{text}**" if row in rivals and rivals[row] == max(rivals.values()) else text


def format_costs(content: Mapping[str, Any]) -> str:
    """The Markdown table of what the trained rows are made of and cost."""
    lines = [["row", "parts", "slots a number", "parameters", "ms a step", "minutes", "learning rate", "seeds", "on"]]
    lines.append(["---", "---", *["---:"] * 6, "---"])
    for row, facts in content["rows"].items():
        if facts["seeds"]:
            numbers = {name: facts[name] for name in _FORMS if name in facts}
            numbers["minutes"] = None if facts["seconds"] is None else facts["seconds"] / 60
            texts = ["–" if value is None else f"{value:{_FORMS[name]}}" for name, value in numbers.items()]
            rates = ", ".join(f"{rate:g}" for rate in facts["learning_rates"]) or "–"
            devices = dict.fromkeys(machine.partition(",")[0] for machine in facts["machines"])
            lines.append([f"`{row}`", facts["parts"], *texts, rates, str(len(facts["seeds"])), "; ".join(devices)])
    return _join(lines)


def list_gaps(content: Mapping[str, Any]) -> list[str]:
    """Lines about what was not run: cells and rows that are missing, and rows with too few seeds for a winner."""
    present = {(cell["row"], cell["column"]) for cell in content["cells"]}
    missing = {
        row: [column for column in content["columns"] if (row, column) not in present] for row in content["rows"]
    }
    parts = [
        f"{row} on {', '.join(columns) if len(columns) < len(content['columns']) / 2 else f'{len(columns)} columns'}"
        for row, columns in missing.items()
        if columns
    ]
    lines = [f"Not run: {'; '.join(parts)}."] * bool(parts)
    if absent := content.get("absent"):
        lines.append(f"{len(absent)} rows of `configs/schemes.py` have no cell here: {', '.join(absent)}.")
    by_count: dict[int, list[str]] = {}
    for row, facts in content["rows"].items():
        if 0 < len(facts["seeds"]) < maps.LEAST_SEEDS:
            by_count.setdefault(len(facts["seeds"]), []).append(row)
    for count, rows in sorted(by_count.items()):
        seeds = f"{count} seed{'s' * (count > 1)}"
        lines.append(f"Rows with {seeds}, of which nobody knows how far they vary: {', '.join(rows)}.")
    return lines


def _join(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
