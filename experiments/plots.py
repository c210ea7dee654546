"""Figures without a screen, saved as files."""

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

__all__ = ["COLOURS", "MARKS", "STYLES", "bars", "bars_of", "figure"]

STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


@contextlib.contextmanager
def figure(path: pathlib.Path, width: float = 8.0, height: float = 4.5, panels: int = 1) -> Iterator[Any]:
    """The axes of a figure that is saved to `path` (PNG) at the end; a list of them for several panels side by side.

    Raises:
      UsageError: it cannot be written.
    """
    fig, found = plt.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)
    for axes in found[0]:
        axes.spines[["top", "right"]].set_visible(False)
    try:
        yield found[0, 0] if panels == 1 else list(found[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        # No creation date and no version: the same numbers make the same file.
        fig.savefig(path, dpi=150, metadata={"Software": None})
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): choose another --out") from error
    finally:
        plt.close(fig)


def bars(
    axes: Any,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float | None] | None]],
    published: Mapping[str, Sequence[float | None]],
    label: str,
) -> None:
    """Bars with error bars, a group a task and a colour a system; the paper's numbers as short black lines.

    Args:
      series: system → (mean, standard deviation) by group, None where there is none.
      published: system → the paper's mean by group.
      label: of the y axis.
    """
    wide = 0.8 / max(1, len(series))
    shown_paper = False
    for i, (name, numbers) in enumerate(series.items()):
        at = [g + (i - (len(series) - 1) / 2) * wide for g in range(len(groups))]
        there = [(x, n) for x, n in zip(at, numbers, strict=True) if n is not None]
        axes.bar(
            [x for x, _ in there],
            [mean for _, (mean, _) in there],
            0.92 * wide,
            yerr=[std or 0.0 for _, (_, std) in there],
            capsize=2,
            color=COLOURS[i % len(COLOURS)],
            label=name,
        )
        for x, paper in zip(at, published.get(name, [None] * len(groups)), strict=True):
            if paper is not None:
                axes.plot(
                    [x - wide / 2, x + wide / 2], [paper] * 2, color="black", linewidth=1.5,
                    label=None if shown_paper else "paper",
                )  # fmt: skip
                shown_paper = True
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(label)
    # As many columns as fit: some twelve small characters an inch, and five for the patch.
    wide = max(map(len, series), default=0) + 5
    ncols = min(3, max(1, int(12.5 * axes.figure.get_figwidth() / wide)))
    axes.legend(fontsize="small", ncols=ncols, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def bars_of(path: pathlib.Path, entries: Sequence[Mapping[str, Any]], label: str, real: bool, width: float) -> None:
    """A table's cells as `bars`, a group a column; the paper's marks only where the data are the paper's.

    Args:
      entries: {"row", "column", "here", "paper"} each, as a table saves them.
      label: of the y axis.
    """
    groups = list(dict.fromkeys(entry["column"] for entry in entries))
    ours = list(dict.fromkeys(entry["row"] for entry in entries if entry["here"]))
    found = {(entry["row"], entry["column"]): entry for entry in entries}

    def cells(row: str, which: str) -> list[Any]:
        return [found[row, group][which] for group in groups]

    series = {row: [(e["mean"], e["std"]) if e else None for e in cells(row, "here")] for row in ours}
    published = {row: [e["mean"] if e and real else None for e in cells(row, "paper")] for row in ours}
    with figure(path, width=width) as axes:
        bars(axes, groups, series, published, label + ("" if real else ", stand-in data"))
