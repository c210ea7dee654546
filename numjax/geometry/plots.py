"""Scatter plots of symbols: labels are typeset as mathematics and moved so that they do not overlap."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import font_manager, mathtext, patheffects

from numjax.geometry.style import COLOURS, EDGE, MARKS, SMALL

# Directions of a label from its mark, and distances in multiples of the gap.
_DIRECTIONS = np.stack([np.cos(np.arange(16) * np.pi / 8), np.sin(np.arange(16) * np.pi / 8)], axis=1)
_RINGS = (1.0, 2.0, 3.5, 5.0)
_GAP = 4.0  # points between a mark and its label


@functools.lru_cache(maxsize=1 << 12)
def make_label(latex: str, name: str = "") -> str:
    """Makes a label that matplotlib can show: typeset as mathematics, or else as plain text.

    Args:
      latex: such as \\leq. name: the text if it cannot be typeset; by default the LaTeX itself.
    """
    source = _WITH_OPERAND.get(latex, f"{latex}{{x}}" if latex in _ACCENTS else latex)
    if source and _can_typeset(source):
        return f"${source}$"
    plain = name or latex
    return (plain if all(map(_can_show, plain)) else " ".join(f"U+{ord(c):04X}" for c in plain)).replace("$", r"\$")


_WITH_OPERAND = {"^": "x^n", "_": "x_n"}
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9!-]")
# Shown over an operand x.
_ACCENTS = frozenset(
    r"\hat \widehat \tilde \widetilde \bar \overline \vec \dot \ddot \dddot \check \breve \acute \grave \mathring "
    r"\sqrt".split()
)


def _can_typeset(source: str) -> bool:
    # Only single letters, signs and commands are mathematics. Other words stay text.
    if not source.isascii() or ("\\" not in source and _WORD.search(source)):
        return False
    try:
        mathtext.MathTextParser("path").parse(f"${source}$")
    except (ValueError, RuntimeError):
        return False
    return True


def _can_show(character: str) -> bool:
    return character.isprintable() and bool(_load_font().get_char_index(ord(character)))


@functools.cache
def _load_font() -> Any:
    return font_manager.get_font(font_manager.findfont("DejaVu Sans"))


def scatter(
    axes: Any,
    points_N2: np.ndarray,
    labels: Sequence[str],
    families: Sequence[Hashable] | None = None,
    edges: Iterable[tuple[int, int]] = (),
    title: str = "",
    names: tuple[str, str] = ("t-SNE 1", "t-SNE 2"),
    size: float = SMALL,
) -> None:
    """Draws labelled points on matplotlib axes. Do not change the limits of the axes afterwards.

    Args:
      labels: from `make_label`.
      families: the family of each point: it has a colour, a mark and an entry in the legend. None: no families.
      edges: pairs of points to join by a thin line.
      names: names of the axes. size: font size of the labels, in points.
    """
    points_N2 = np.asarray(points_N2, np.float64)
    for start, end in edges:
        axes.plot(*points_N2[[start, end]].T, color=EDGE, linewidth=0.7, zorder=1)
    # Sorted, so that panels with the same families have the same colours.
    kinds = sorted(set(families), key=str) if families is not None else [""]
    for i, kind in enumerate(kinds):
        members = np.asarray([families is None or family == kind for family in families or labels])
        axes.scatter(
            *points_N2[members].T, s=20, zorder=2, linewidths=0, color=COLOURS[i % len(COLOURS)],
            marker=MARKS[i % len(MARKS)], label=str(kind),
        )  # fmt: skip
    axes.set_title(title)
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.margins(0.06)
    axes.set_xticks([])
    axes.set_yticks([])
    if families is not None:
        axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.06), frameon=False)
    _write_labels(axes, points_N2, labels, size)


def _write_labels(axes: Any, points_N2: np.ndarray, labels: Sequence[str], size: float) -> None:
    figure = axes.figure
    figure.draw_without_rendering()  # lays out the axes: pixel positions are known only then
    marks = axes.transData.transform(points_N2)
    texts = [axes.text(x, y, text, fontsize=size) for (x, y), text in zip(points_N2, labels, strict=True)]
    boxes = [text.get_window_extent() for text in texts]
    for text in texts:
        text.remove()
    pixel = figure.dpi / 72
    frame = axes.get_window_extent()
    sizes = np.asarray([[box.width, box.height] for box in boxes]) + pixel
    limits = np.asarray([[frame.x0, frame.y0], [frame.x1, frame.y1]])
    centres = arrange_labels(marks, sizes, _GAP * pixel, limits)
    for mark, point, centre, text in zip(marks, points_N2, centres, labels, strict=True):
        offset = (centre - mark) / pixel
        is_far = np.hypot(*np.maximum(np.abs(centre - mark) - sizes.mean(axis=0) / 2, 0)) > 2 * _GAP * pixel
        axes.annotate(
            text, point, offset, textcoords="offset points", ha="center", va="center", fontsize=size, zorder=3,
            path_effects=[patheffects.withStroke(linewidth=2, foreground="white")],  # readable over lines
            arrowprops=dict(arrowstyle="-", linewidth=0.4, color=EDGE, shrinkA=0, shrinkB=2) if is_far else None,
        )  # fmt: skip


def arrange_labels(marks_N2: np.ndarray, sizes_N2: np.ndarray, gap: float, limits_22: np.ndarray) -> np.ndarray:
    """Arranges labels and returns their centres, [N, 2].

    Labels are near their marks. As far as there is room, they do not overlap each other or the marks, and stay inside
    the limits. Labels of crowded marks are arranged first.

    Args:
      marks_N2: positions of the marks. sizes_N2: sizes of the labels, in pixels.
      gap: distance between a mark and its label. limits_22: lower left and upper right corner.
    """
    count = len(marks_N2)
    gaps = np.abs(marks_N2[:, None] - marks_N2[None]).max(axis=2)
    crowding = (gaps < 8 * gap).sum(axis=1)
    chosen_N2, is_set = np.zeros((count, 2)), np.zeros(count, bool)
    for i in sorted(range(count), key=lambda i: (-crowding[i], i)):
        offsets = np.concatenate([_DIRECTIONS * (sizes_N2[i] / 2 + ring * gap) for ring in _RINGS])
        centres = marks_N2[i] + offsets
        half = sizes_N2[i] / 2
        cost = 0.3 * np.repeat(np.arange(len(_RINGS)), len(_DIRECTIONS)) + 1e-3 * np.arange(len(offsets))
        cost += 4 * _overlap(centres, half, chosen_N2[is_set], sizes_N2[is_set] / 2)
        others = np.arange(count) != i
        cost += _overlap(centres, half, marks_N2[others], np.full((count - 1, 2), gap / 2))
        outside = np.maximum(limits_22[0] - (centres - half), 0) + np.maximum(centres + half - limits_22[1], 0)
        cost += 10 * (outside > 0).any(axis=1)
        chosen_N2[i], is_set[i] = centres[np.argmin(cost)], True
    return chosen_N2


def _overlap(centres_C2: np.ndarray, half_2: np.ndarray, others_M2: np.ndarray, halves_M2: np.ndarray) -> np.ndarray:
    """How much the other boxes cover a box at each centre. An overlap counts 0.1 plus its share of a box
    with the smaller width and the smaller height of the two."""
    offsets = np.abs(centres_C2[:, None] - others_M2)
    common = np.minimum(half_2 + halves_M2 - offsets, 2 * np.minimum(half_2, halves_M2)).clip(0)
    area = common.prod(axis=2) / (4 * np.minimum(half_2, halves_M2).prod(axis=-1)).clip(1e-9)
    return np.where(area > 0, 0.1 + area, 0).sum(axis=1)
