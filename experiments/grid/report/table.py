"""A map as a file of its own: grid.json, and what it renders (grid.md) and draws (grid.png)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.configs import schemes
from numjax.bundled.experiments import plots, tables
from numjax.bundled.experiments.grid.report import maps, summary
from numjax.bundled.experiments.grid.report.folder import ALL, Cell
from numjax.bundled.experiments.grid.report.maps import Map
from numjax.bundled.experiments.grid.report.metrics import METRICS

NAME = "grid.report.table"
BEST = (
    "The row with the highest mean, and its percent of right answers. **Bold**: each of its seeds, three or more, is "
    "better than each seed of all other rows. What is not bold may be chance.\n"
)
MEANS = (
    "Percent of right answers, the mean over the columns that have the stream; rows that lack one are left out. "
    "**Bold**: the highest of a trained row, which may be chance. Baselines are not trained.\n"
)
STREAMS = dict.fromkeys(maps.SAME, "Lengths of training") | {
    ALL: "All streams together", "edges": "Edge cases", "carries": "Carries through all places",
    "magnitude": "Larger numbers than in training", "wordings": "Other wordings than in training",
}  # fmt: skip


def make_content(grid: Map, faults: Sequence[str]) -> dict[str, Any]:
    """The content of a map's JSON.

    Args:
      faults: a line for each file of the folder that is left out.
    """
    streams = [*grid.streams, ALL]
    rows = {row: summary.describe_row(grid, row) for row in grid.rows}
    cells = []
    for row in grid.rows:
        for column in grid.columns:
            members = grid.cells.get((row, column), ())
            if members:
                values = {stream: maps.collect(grid, row, column, stream, summary.METRIC.key) for stream in streams}
                cells.append(
                    {
                        "row": row,
                        "column": column,
                        "seeds": [cell.seed for cell in members],
                        "values": {stream: numbers for stream, numbers in values.items() if numbers},
                        "others": _collect_others(grid, row, column),
                        "validation": [cell.curve[-1][2] for cell in members if cell.curve],
                        "ceiling": maps.average_ceiling(members),
                        "diverged": sum(bool(cell.diverged) for cell in members),
                        "not_applicable": next((cell.reason for cell in members if cell.reason), ""),
                    }
                )
    return {
        "map": grid.label,
        "scale": grid.scale,
        "rows": rows,
        "columns": list(grid.columns),
        "streams": streams,
        "main": maps.get_main_stream(grid),
        "cells": cells,
        "clock": grid.clock,
        "least_seconds": {c: seconds for c in grid.columns if (seconds := maps.find_seconds(grid, c)) is not None},
        "machines": count_values(grid, lambda cell: cell.hardware),
        "commits": count_values(grid, lambda cell: cell.commit + "-dirty" * cell.dirty),
        "settings": {cell.key: cell.options for own in grid.cells.values() for cell in own if cell.options},
        "absent": [row for row in schemes.ROWS if row not in rows],
        "faults": list(faults),
        "left_out": list(grid.left_out),
        "drawn_by": NAME,
    }


def _collect_others(grid: Map, row: str, column: str) -> dict[str, list[float]]:
    """The other metrics of a cell's seeds, of all streams together."""
    values = {metric.key: maps.collect(grid, row, column, ALL, metric.key) for metric in METRICS[1:]}
    return {key: [float(f"{value:.4g}") for value in numbers] for key, numbers in values.items() if numbers}


def count_values(grid: Map, read: Any) -> dict[str, int]:
    """What `read` gives for the trained cells → their number, the most frequent first."""
    trained: list[Cell] = [cell for cells in grid.cells.values() for cell in cells if cell.settings]
    return {key: count for key, count in Counter(map(read, trained)).most_common() if key}


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of a map's JSON: the best rows, a table for each stream, what rows cost. A page includes the parts
    between two comments of one name."""
    cells = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    rows, columns = list(content["rows"]), content["columns"]
    n_missing = len(rows) * len(columns) - len(cells)
    n_empty = sum(bool(cell["not_applicable"]) for cell in content["cells"])
    text = f"# The grid: {summary.METRIC.label}\n\n"
    text += f"{content['map']}. {len(rows)} rows × {len(columns)} columns: {len(cells) - n_empty} cells"
    text += f", {n_empty} that have no meaning" * bool(n_empty) + f", {n_missing} not run" * bool(n_missing) + ".\n"
    text += _enclose("origin", "".join(f"\n{line}\n" for line in _describe_origin(content)))
    text += f"\n## Best rows\n\n{BEST}" + _enclose("best", f"\n{summary.format_best(content, name_stream)}")
    means = summary.format_means(content, name_stream)
    text += f"\n## Means over the columns\n\n{MEANS}" + _enclose("means", f"\n{means}")
    text += _describe_seconds(content)
    text += "\n## Every score\n"
    text += (
        "\nPercent of right answers, mean ± standard deviation (number of seeds). *Of 80*: the row can represent 80% "
        "of the answers, so it cannot score more. **Bold**: every seed is better than every seed of all other rows. "
        f"A row with fewer than {maps.LEAST_SEEDS} seeds cannot be bold, and counts as varying as much as the row "
        "that varies most.\n"
    )
    for stream in [content["main"], *(name for name in content["streams"] if name != content["main"])]:
        if any(stream in cell["values"] for cell in cells.values()):
            text += f"\n### {name_stream(stream)}\n\n{_format_table(content, cells, stream)}"
    text += (
        "\n## Costs\n"
        + f"\n{_describe_clock(content)}\n" * bool(content["clock"])
        + _enclose("costs", f"\n{summary.format_costs(content)}")
    )
    return text + _list_reasons(content)


def _describe_seconds(content: Mapping[str, Any]) -> str:
    """The section of scores at equal seconds; "" where seconds cannot be compared."""
    if not (least := content["least_seconds"]):
        return ""
    minutes = " to ".join(
        dict.fromkeys(f"{seconds / 60:.1f}" for seconds in (min(least.values()), max(least.values())))
    )
    text = (
        "\n## At equal seconds\n\nPercent of right answers to the validation problems, the mean over the columns: "
        f"after all steps, and when each row has trained as long as the fastest one, {minutes} minutes, on the line "
        f"between its validations before and after. {_describe_clock(content)} **Bold**: the highest, which may be "
        "chance.\n"
    )
    return text + _enclose("seconds", f"\n{summary.format_seconds(content)}")


def _describe_clock(content: Mapping[str, Any]) -> str:
    clock = content["clock"]
    return f"The seconds are those of {clock}, where a step of each row took turns with one of `digits`." * bool(
        clock
    )


def _enclose(name: str, text: str) -> str:
    return f"\n<!-- {name} -->\n{text}\n<!-- end of {name} -->\n"


def name_stream(stream: str) -> str:
    """A stream in words."""
    length = maps.find_length(stream)
    return f"Numbers of {length} digits" if length else STREAMS.get(stream, stream.capitalize())


def _describe_origin(content: Mapping[str, Any]) -> list[str]:
    commits = [f"{name} ({count} cells)" for name, count in content["commits"].items()]
    lines = [f"Trained on {'; '.join(content['machines'])}."] * bool(content["machines"])
    lines += [f"Code of the cells: {', '.join(commits)}."] * bool(commits)
    lines += [f"**{len(content['faults'])} files are left out**: {'; '.join(content['faults'])}."] * bool(
        content["faults"]
    )
    return [*lines, *(f"**Left out**: {line}." for line in content["left_out"]), *summary.list_gaps(content)]


def _format_table(content: Mapping[str, Any], cells: Mapping[tuple[str, str], Any], stream: str) -> str:
    wins = summary.find_winners(content, stream)
    lines = [["group", "row", *content["columns"]], ["---", "---", *["---:"] * len(content["columns"])]]
    for row, facts in content["rows"].items():
        line = [facts["group"], f"`{row}`"]
        for column in content["columns"]:
            text = _format_cell(cells.get((row, column)), stream)
            line.append(f"**{text}**" if wins.get(column) == row else text)
        lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _format_cell(cell: Mapping[str, Any] | None, stream: str) -> str:
    if cell is None:
        return "–"
    if cell["not_applicable"]:
        return "n/a"
    number = tables.mean_and_std(cell["values"].get(stream, []))
    if number is None:
        return "–"
    mean, std = number
    text = f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if std is not None else "")
    ceiling = cell["ceiling"].get(stream)
    limit = "" if ceiling is None or ceiling >= 1 else f" of {100 * ceiling:.1f}"
    diverged = f", {cell['diverged']} diverged" * bool(cell["diverged"])
    return f"{text}{limit} ({len(cell['values'][stream])}{diverged})"


def _list_reasons(content: Mapping[str, Any]) -> str:
    reasons: dict[str, list[str]] = {}
    for cell in content["cells"]:
        if cell["not_applicable"]:
            reasons.setdefault(cell["not_applicable"], []).append(f"{cell['row']} on {cell['column']}")
    lines = [f"- {reason}: {', '.join(names)}.\n" for reason, names in reasons.items()]
    return "\n## n/a\n\n" + "".join(lines) if lines else ""


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: exact answers of the main stream by colour."""
    stream, by_group = content["main"], {}
    wins = summary.find_winners(content, stream)
    for row, facts in content["rows"].items():
        by_group.setdefault(facts["group"], []).append(row)
    cells = {}
    for cell in content["cells"]:
        number = tables.mean_and_std(cell["values"].get(stream, []))
        cells[cell["row"], cell["column"]] = plots.MapCell(
            None if number is None or cell["not_applicable"] else number[0],
            1 - cell["ceiling"].get(stream, 1.0),
            wins.get(cell["column"]) == cell["row"],
            bool(cell["not_applicable"]),
        )
    where = name_stream(stream)
    axis = plots.Axis(f"Exact answers (%), {where[0].lower()}{where[1:]}\n{content['map']}", limits=(0, 100))
    figure = plots.draw_map(describe(content), by_group, content["columns"], cells, axis, "cannot be written")
    return {f"{content['name']}.png": figure}


def describe(content: Mapping[str, Any]) -> str:
    """The message of a map: which rows win columns beyond what seeds do."""
    wins = Counter(summary.find_winners(content, content["main"]).values())
    n_columns = len(content["columns"])
    if not wins:
        means = summary.average_columns(content, content["main"])
        nobody = f"o row is best beyond its seeds on any of the {n_columns} kinds of problem"
        if not means:
            return f"N{nobody}"
        leader = max(means, key=means.__getitem__)
        return f"{leader} has the highest mean, {100 * means[leader]:.0f}%; n{nobody}"
    (row, count), *others = wins.most_common(3)
    parts = [f"{row} is best beyond the seeds on {count} of {n_columns} kinds of problem"]
    parts += [f"{row} on {count}" for row, count in others]
    rest = sum(wins.values()) - sum(count for _, count in wins.most_common(3))
    return ", ".join([*parts, *[f"others on {rest}"] * bool(rest)])
