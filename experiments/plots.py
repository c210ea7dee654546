"""The charts of all experiments: lines, dots by row, and maps of cells. A chart takes numbers and returns a figure.

A title is the chart's message. The module that draws computes it from the numbers, so that it stays true when they
change. Lines have their names at their ends. There are at most five lines a panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from numjax.geometry import plots as pictures
from numjax.geometry.style import COLOURS, DASHES, EDGE, MARKS, ORDERED, SHADE, SMALL, TEXT_COLOURS, WIDTH

MOST_LINES = len(COLOURS)
_HEADING_WIDTH = 44  # characters of the headings of panels beside each other
_ROW_WIDTH = 24  # characters of the name of a row
_NAME_WIDTH = 16  # characters of the name of a line
_MAP_COLOURS = 21  # of a map: so few that the file keeps them as they are
_GAP = 8.0  # points between the end of a line and its name


class Axis(NamedTuple):
    """An axis: its name in words with its unit, and what is written at it.

    Attributes:
      ticks: positions of ticks, each labelled with its number or with one of `labels`; None: chosen from the numbers.
    """

    name: str
    is_log: bool = False
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    labels: Sequence[str] | None = None


class Line(NamedTuple):
    """A line of a chart: points (x, y, standard deviation of y or None); no marks where there are many points."""

    name: str
    points: Sequence[tuple[float, float, float | None]]
    has_marks: bool = True


class Shade(NamedTuple):
    """The x values that are right, or as good as the best."""

    low: float
    high: float
    name: str


class Dots(NamedTuple):
    """Dots of a panel: for each row (mean, standard deviation or None), or None where there is no result.

    Attributes:
      beside: open marks stand at the height of the dots with this name; "": in the middle of the row. None: not open.
    """

    name: str
    numbers: Sequence[tuple[float, float | None] | None]
    beside: str | None = None


class Cloud(NamedTuple):
    """Labelled points in the plane, see `numjax.geometry.plots.scatter`."""

    title: str
    points: Sequence[Sequence[float]]
    labels: Sequence[str]
    families: Sequence[str]
    edges: Sequence[Sequence[int]] = ()
    axes: Sequence[str] = ("t-SNE, first axis (no unit)", "t-SNE, second axis (no unit)")


class MapCell(NamedTuple):
    """A cell of a map.

    Attributes:
      share: from 0 to 1, the colour; None: nothing to show.
      barred: the share that is out of reach, hatched. is_best: marked. has_no_meaning: instead of a share.
    """

    share: float | None = None
    barred: float = 0.0
    is_best: bool = False
    has_no_meaning: bool = False


def draw_lines(
    title: str,
    panels: Mapping[str, Sequence[Line]],
    x: Axis,
    y: Axis,
    shade: Shade | None = None,
    height: float = 3.6,
) -> Figure:
    """Draws lines with their names at their right ends, and panels below each other with the same axes.

    Args:
      panels: heading ("" for none) → lines, at most five.
      height: of the figure, in inches.
    """
    figure = _make_figure(title, height)
    all_axes = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, (axes, (heading, lines)) in enumerate(zip(all_axes, panels.items(), strict=True)):
        if len(lines) > MOST_LINES:
            raise ValueError(f"{len(lines)} lines in a panel, more than {MOST_LINES}: use more panels")
        if shade:
            axes.axvspan(shade.low, shade.high, color=SHADE, linewidth=0)
        for i, line in enumerate(lines):
            _draw_line(axes, line, i, len(lines))
        _set_axis(axes.xaxis, x)
        _set_axis(axes.yaxis, y)
        axes.grid(axis="y", zorder=0)
        axes.set_axisbelow(True)
        if axes is all_axes[-1]:
            axes.set_xlabel(x.name)
        axes.set_ylabel(y.name if len(panels) == 1 else "")
        if heading:
            axes.set_title(heading, loc="left", pad=4 if index or not shade else 20)
        if shade and not index:
            middle = math.sqrt(shade.low * shade.high) if x.is_log else (shade.low + shade.high) / 2
            place = dict(textcoords="offset points", ha="center", va="bottom", annotation_clip=False)
            axes.annotate(
                shade.name, (middle, 1), (0, 3), xycoords=("data", "axes fraction"), color=TEXT_COLOURS[3],
                fontsize=SMALL + 1, **place,
            )  # fmt: skip
    if len(panels) > 1:
        figure.supylabel(y.name, fontsize=all_axes[0].xaxis.label.get_fontsize())
    for axes, lines in zip(all_axes, panels.values(), strict=True):
        _name_lines(axes, lines)
    return figure


def draw_dots(title: str, rows: Sequence[str], panels: Mapping[str, tuple[Axis, Sequence[Dots]]]) -> Figure:
    """Draws a panel for each measure beside each other, with a row for each system: dots with standard deviations.

    Args:
      rows: names of the rows, from top to bottom.
      panels: heading → (the axis of its numbers, its dots). Dots of the same name look the same in all panels. A key
        below the panels names them if there are several names.
    """
    kinds = list(
        dict.fromkeys(dots.name for _, all_dots in panels.values() for dots in all_dots if dots.beside is None)
    )
    row_height = 0.36 if len(kinds) == 1 else 0.14 + 0.15 * len(kinds)
    figure = _make_figure(title, 1.6 + row_height * len(rows))
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, (axis, all_dots)) in zip(all_axes, panels.items(), strict=True):
        for dots in all_dots:
            _draw_dots(axes, dots, kinds)
        _set_axis(axes.xaxis, axis, 3 if len(panels) < 4 else 2)
        axes.set_xlabel(axis.name)
        axes.margins(x=0.09)
        width = _HEADING_WIDTH // len(panels)
        axes.set_title("\n".join(textwrap.wrap(heading, width)), loc="left" if len(panels) == 1 else "center")
        axes.grid(axis="both")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    all_axes[0].set_yticks(range(len(rows)), ["\n".join(textwrap.wrap(row, _ROW_WIDTH)) for row in rows])
    all_axes[0].set_ylim(len(rows) - 0.5, -0.5)
    open_names = dict.fromkeys(d.name for _, dots in panels.values() for d in dots if d.beside is not None)
    _add_key(figure, [*kinds, *open_names])
    return figure


def _draw_dots(axes: Any, dots: Dots, kinds: Sequence[str]) -> None:
    is_open = dots.beside is not None
    # The kinds of a row stand below each other, so that equal numbers do not cover each other.
    index = kinds.index(dots.beside or dots.name) if (dots.beside or dots.name) in kinds else (len(kinds) - 1) / 2
    shift = 0.75 / len(kinds) * (index - (len(kinds) - 1) / 2)
    points = [(number, row + shift) for row, number in enumerate(dots.numbers) if number is not None]
    look: dict[str, Any] = dict(marker="D", color=COLOURS[2], markersize=8, markerfacecolor="none", zorder=3)
    if not is_open:
        kind = kinds.index(dots.name)
        look = dict(marker=MARKS[kind], color=COLOURS[kind % len(COLOURS)], zorder=4)
    stds = [math.nan if std is None else std for (_, std), _ in points]
    axes.errorbar(
        [mean for (mean, _), _ in points], [y for _, y in points],
        xerr=None if all(map(math.isnan, stds)) else stds, linestyle="none", label=dots.name, capsize=2.5,
        elinewidth=1.2, **look,
    )  # fmt: skip


def _add_key(figure: Figure, names: Sequence[str]) -> None:
    # Dots have no end at which a name could stand. One name needs no key.
    handles = {}
    for axes in figure.axes:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)) | handles
    entries = {name: handles[name] for name in sorted(handles, key=names.index)}
    if len(entries) > 1:
        figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), handletextpad=0.3
        )


def draw_clouds(title: str, clouds: Sequence[Cloud], height: float = 4.6) -> Figure:
    """Draws labelled points in the plane, clouds below each other. `height` is that of one cloud, in inches."""
    figure = _make_figure(title, height * len(clouds))
    all_axes = figure.subplots(len(clouds), 1, squeeze=False)[:, 0]
    for axes, cloud in zip(all_axes, clouds, strict=True):
        across, up = cloud.axes
        edges = [(start, end) for start, end in cloud.edges]
        pictures.scatter(
            axes, np.asarray(cloud.points), cloud.labels, cloud.families, edges, cloud.title, (across, up)
        )  # fmt: skip
    return figure


def draw_entries(title: str, entries: Sequence[Mapping[str, Any]], axes: Mapping[str, Axis], is_real: bool) -> Figure:
    """Draws cells of a table with `draw_dots`: a panel for each column, the paper's numbers as open marks.

    Args:
      entries: each {"row", "column", "here", "paper"}, as a table saves them.
      axes: heading of a column → the axis of its numbers, for the columns to draw.
      is_real: whether the data are the paper's; otherwise its numbers are left out.
    """
    rows = list(dict.fromkeys(entry["row"] for entry in entries if entry["here"] and entry["column"] in axes))
    by_cell = {(entry["row"], entry["column"]): entry for entry in entries}

    def list_numbers(column: str, source: str) -> list[tuple[float, float | None] | None]:
        numbers = [(by_cell.get((row, column)) or {}).get(source) for row in rows]
        return [(number["mean"], number["std"]) if number else None for number in numbers]

    has_paper = is_real and any(e["paper"] for e in entries if e["row"] in rows and e["column"] in axes)
    panels = {}
    for column, axis in axes.items():
        all_dots = [Dots("here", list_numbers(column, "here"))]
        all_dots += [Dots("the paper", list_numbers(column, "paper"), "")] * has_paper
        panels[column] = (axis, all_dots)
    return draw_dots(title, rows, panels)


def draw_spread(content: Mapping[str, Any], columns: Sequence[str], unit: str, other: str) -> Figure:
    """Draws a table whose message is how far its rows are apart, with `draw_entries`.

    Args:
      content: of the table's JSON. columns: headings of the columns to draw. unit: the name of their axis.
      other: what the data are, if they are not the paper's: then its numbers are left out; else "".
    """
    entries = content["tables"][content["name"]]
    spans = []
    for column in columns:
        means = [entry["here"]["mean"] for entry in entries if entry["column"] == column and entry["here"]]
        if means:
            spans.append(f"{max(means) - min(means):.1f} points of {column}")
    title = f"The systems differ by at most {' and '.join(spans)}" + (f" ({other})" if other else "")
    return draw_entries(title, entries, {column: Axis(unit) for column in columns}, not other)


def draw_map(
    title: str, groups: Mapping[str, Sequence[str]], columns: Sequence[str], cells: Mapping[tuple[str, str], MapCell],
    axis: Axis, barred: str,
) -> Figure:  # fmt: skip
    """Draws cells by colour, a row for each row of the groups below the name of its group, and a key below the map.

    Args:
      groups: name → its rows. cells: (row, column) → cell; cells that are not there are empty.
      axis: its name says what the shares are; its limits are the numbers at the ends of the colours.
      barred: what the hatching means.
    """
    lines = [line for group, rows in groups.items() for line in (group, *rows)]
    figure = _make_figure(title, 2.1 + 0.19 * len(lines))
    axes, key = figure.subplots(2, 1, height_ratios=[len(lines), 3])
    at = {row: y for y, row in enumerate(lines)}
    columns_at = {column: x for x, column in enumerate(columns)}
    drawn = {
        (columns_at[column], at[row]): cells.get((row, column), MapCell())
        for rows in groups.values() for row in rows for column in columns
    }  # fmt: skip
    _draw_cells(axes, drawn)
    axes.set_yticks(range(len(lines)), lines)
    for label in axes.get_yticklabels():
        if label.get_text() in groups:
            label.set(fontweight="bold", color=TEXT_COLOURS[0])
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(lines) - 0.5, -0.5))
    for each in (axes, key):
        each.tick_params(length=0)
        for side in ("left", "bottom", "top", "right"):
            each.spines[side].set_visible(False)
    _draw_map_key(key, axis, barred)
    return figure


def _draw_cells(axes: Any, cells: Mapping[tuple[Any, Any], MapCell], size: float = 0.94) -> None:
    ramp = matplotlib.colormaps[ORDERED].resampled(_MAP_COLOURS)

    def add(boxes: Sequence[Rectangle], **look: Any) -> None:
        axes.add_collection(PatchCollection(boxes, **look))

    def make_box(x: float, y: float, height: float = 1.0) -> Rectangle:
        # Hatching stands at the bottom of its cell. The axis of rows points downwards.
        return Rectangle((x - size / 2, y + size / 2 - size * height), size, size * height)

    shares = {at: cell.share for at, cell in cells.items() if cell.share is not None}
    add([make_box(*at) for at in shares], facecolors=[ramp(share) for share in shares.values()], linewidth=0)
    empty = [at for at, cell in cells.items() if cell.share is None and not cell.has_no_meaning]
    add([make_box(*at) for at in empty], facecolor="none", edgecolor=EDGE, linewidth=0.6)
    hatched = {at: cells[at].barred for at in shares if cells[at].barred > 0}
    add([make_box(*at, share) for at, share in hatched.items()], facecolor="none", edgecolor=EDGE, hatch="//////",
        linewidth=0)  # fmt: skip
    without = [at for at, cell in cells.items() if cell.has_no_meaning]
    axes.plot([x for x, _ in without], [y for _, y in without], "x", color=EDGE, markersize=4)
    for colour, low, high in ((COLOURS[2], -1.0, 0.5), ("white", 0.5, 1.0)):
        best = [at for at, share in shares.items() if cells[at].is_best and low < share <= high]
        axes.plot([x for x, _ in best], [y for _, y in best], "*", color=colour, markersize=7)


def _draw_map_key(axes: Any, axis: Axis, barred: str) -> None:
    steps = 11
    axes.set(xlim=(0, 64), ylim=(3.3, -1))
    _draw_cells(axes, {(1 + 1.7 * i, 0.0): MapCell(i / (steps - 1)) for i in range(steps)}, 1.6)
    low, high = axis.limits or (0.0, 100.0)
    for i, end in ((0, low), (steps - 1, high)):
        axes.annotate(_format_tick(end), (1 + 1.7 * i, 2.2), ha="center", va="center", fontsize=SMALL)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(axis.name, loc="left")
    signs = [
        (24, 0.0, MapCell(0.0, 1.0), barred), (24, 2.2, MapCell(), "not run"),
        (43.5, 0.0, MapCell(1.0, is_best=True), "best beyond the seeds"),
        (43.5, 2.2, MapCell(has_no_meaning=True), "has no meaning"),
    ]  # fmt: skip
    _draw_cells(axes, {(x, height): cell for x, height, cell, _ in signs}, 1.6)
    for x, height, _, name in signs:
        axes.annotate(name, (x + 1.4, height), va="center", fontsize=SMALL, color=TEXT_COLOURS[2])


def list_colours(count: int) -> list[tuple[int, int, int]]:
    """Colours (red, green, blue) of the map of quantities, from least to most."""
    colours = matplotlib.colormaps[ORDERED](np.linspace(0, 1, count))[:, :3]
    return [tuple(round(255 * float(part)) for part in colour) for colour in colours]  # type: ignore[misc]


def _make_figure(title: str, height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.06))
    # At the left edge, where reading starts, in as few lines as fit.
    text = figure.suptitle(title, x=0.01, ha="left")
    width = len(title)
    while text.get_window_extent().x1 > 0.99 * figure.bbox.x1:
        width -= 1
        text.set_text("\n".join(textwrap.wrap(title, width)))
    figure.set_figheight(height + 0.2 * text.get_text().count("\n"))
    return figure


def _draw_line(axes: Any, line: Line, index: int, count: int) -> None:
    stds = [std for _, _, std in line.points]
    axes.errorbar(
        [x for x, _, _ in line.points], [y for _, y, _ in line.points],
        yerr=[std or 0.0 for std in stds] if any(std is not None for std in stds) else None,
        color=COLOURS[index], linestyle=DASHES[index], marker=MARKS[index] if line.has_marks else "none", capsize=2.5,
        elinewidth=1.2, label=line.name,
        # The first line is the one to look at: it lies on top, and where there are many points it is thicker.
        zorder=3 + count - index, linewidth=None if line.has_marks else (2.6 if index == 0 else 1.0),
    )  # fmt: skip


def _set_axis(axis: Any, choice: Axis, most_ticks: int = 5) -> None:
    if choice.is_log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if choice.limits:
        axis.axes.set(**{f"{axis.axis_name}lim": choice.limits})
    if choice.ticks is not None:
        axis.set_ticks(choice.ticks, choice.labels or [_format_tick(tick) for tick in choice.ticks])
        axis.set_minor_locator(NullLocator())
    elif choice.is_log:
        axis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value)))
        axis.get_major_locator().set_params(numticks=most_ticks)
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(most_ticks, steps=[1, 2, 5, 10]))


def _format_tick(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _name_lines(axes: Any, lines: Sequence[Line]) -> None:
    # Names stand right of the ends, spread upwards and downwards as far as they would overlap.
    right = max((line.points[-1][0] for line in lines if line.points), default=0.0)
    names = []
    for i, line in enumerate(lines):
        if line.points:
            name = "\n".join(textwrap.wrap(line.name, _NAME_WIDTH))
            text = axes.annotate(
                name, (right, line.points[-1][1]), (_GAP, 0), textcoords="offset points", va="center",
                color=TEXT_COLOURS[i], annotation_clip=False, fontsize=SMALL + 1,
            )  # fmt: skip
            names.append(text)
    names.sort(key=lambda text: text.xy[1])
    # Names that stick out of the axes make them smaller, and so bring the ends nearer to each other.
    for _ in range(3):
        axes.figure.draw_without_rendering()  # lays out the axes: pixel positions are known only then
        ends = [axes.transData.transform(text.xy)[1] for text in names]
        centres = spread(ends, [1.1 * text.get_window_extent().height for text in names])
        for text, end, centre in zip(names, ends, centres, strict=True):
            text.set_position((_GAP, (centre - end) * 72 / axes.figure.dpi))


def spread(centres: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Moves sorted centres of labels as little as it takes for labels of these heights not to overlap."""
    groups: list[tuple[list[float], list[float]]] = []  # (wanted centres, heights) of labels that touch
    for centre, height in zip(centres, heights, strict=True):
        groups.append(([centre], [height]))
        while len(groups) > 1 and _top(*groups[-2]) > _bottom(*groups[-1]):
            wanted, sizes = groups.pop()
            groups[-1][0].extend(wanted)
            groups[-1][1].extend(sizes)
    result = []
    for wanted, sizes in groups:
        bottom = _bottom(wanted, sizes)
        for size in sizes:
            result.append(bottom + size / 2)
            bottom += size
    return result


def _bottom(wanted: Sequence[float], sizes: Sequence[float]) -> float:
    return sum(wanted) / len(wanted) - sum(sizes) / 2


def _top(wanted: Sequence[float], sizes: Sequence[float]) -> float:
    return sum(wanted) / len(wanted) + sum(sizes) / 2
