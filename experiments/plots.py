"""Figures that are saved as files; no screen is needed."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from numjax.errors import UsageError
from numjax.geometry.plots import COLOURS, MARKS

__all__ = ["COLOURS", "MARKS", "STYLES", "draw_bars", "draw_table_bars", "figure"]

STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


@contextlib.contextmanager
def figure(path: pathlib.Path, width: float = 8.0, height: float = 4.5, panels: int = 1) -> Iterator[Any]:
    """Yields the axes of a figure and saves it to `path` (PNG) at the end; several panels give a list of axes.

    Raises:
      UsageError: the file cannot be written.
    """
    fig, axes_grid = plt.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)
    for axes in axes_grid[0]:
        axes.spines[["top", "right"]].set_visible(False)
    try:
        yield axes_grid[0, 0] if panels == 1 else list(axes_grid[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        # No creation date and no version: the same numbers make the same file.
        fig.savefig(path, dpi=150, metadata={"Software": None})
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): choose another --out") from error
    finally:
        plt.close(fig)


def draw_bars(
    axes: Any,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float | None] | None]],
    published: Mapping[str, Sequence[float | None]],
    label: str,
) -> None:
    """Draws bars with error bars, a group per task and a colour per system; black lines are the paper's numbers.

    Args:
      series: system → (mean, standard deviation) by group, None where there is no result.
      published: system → the paper's mean by group.
      label: of the y axis.
    """
    bar_width = 0.8 / max(1, len(series))
    has_paper_label = False
    for i, (name, numbers) in enumerate(series.items()):
        positions = [g + (i - (len(series) - 1) / 2) * bar_width for g in range(len(groups))]
        points = [(x, n) for x, n in zip(positions, numbers, strict=True) if n is not None]
        axes.bar(
            [x for x, _ in points],
            [mean for _, (mean, _) in points],
            0.92 * bar_width,
            yerr=[std or 0.0 for _, (_, std) in points],
            capsize=2,
            color=COLOURS[i % len(COLOURS)],
            label=name,
        )
        for x, paper in zip(positions, published.get(name, [None] * len(groups)), strict=True):
            if paper is not None:
                axes.plot(
                    [x - bar_width / 2, x + bar_width / 2], [paper] * 2, color="black", linewidth=1.5,
                    label=None if has_paper_label else "paper",
                )  # fmt: skip
                has_paper_label = True
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(label)
    # As many columns as fit: about twelve small characters an inch, and five for the patch.
    label_width = max(map(len, series), default=0) + 5
    ncols = min(3, max(1, int(12.5 * axes.figure.get_figwidth() / label_width)))
    axes.legend(fontsize="small", ncols=ncols, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def draw_table_bars(
    path: pathlib.Path, entries: Sequence[Mapping[str, Any]], label: str, is_real: bool, width: float
) -> None:
    """Draws a table's cells with `draw_bars`, a group per column; the paper's marks only on the paper's data.

    Args:
      entries: each {"row", "column", "here", "paper"}, as a table saves them.
      label: of the y axis.
      is_real: whether the data are the paper's.
    """
    groups = list(dict.fromkeys(entry["column"] for entry in entries))
    labels = list(dict.fromkeys(entry["row"] for entry in entries if entry["here"]))
    by_cell = {(entry["row"], entry["column"]): entry for entry in entries}

    def list_cells(row: str, source: str) -> list[Any]:
        return [by_cell[row, group][source] for group in groups]

    series = {row: [(e["mean"], e["std"]) if e else None for e in list_cells(row, "here")] for row in labels}
    published = {row: [e["mean"] if e and is_real else None for e in list_cells(row, "paper")] for row in labels}
    with figure(path, width=width) as axes:
        draw_bars(axes, groups, series, published, label + ("" if is_real else ", stand-in data"))
