"""What is made of a text that is longer than a row: pieces, or one that is shorter; formulas are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.types import TYPES, UNITS, Example, Features, Formula, Text

Span = tuple[int, int]  # first position, and the one behind the last


def formulas(example: Example, found: Features) -> list[Span]:
    """The positions of each formula that is a tree, in order."""
    segments = zip(example.document, found.starts[:-1], found.starts[1:], strict=True)
    return [(start, stop) for segment, start, stop in segments if isinstance(segment, Formula) and segment.tree]


def pieces(count: int, length: int, whole: Sequence[Span] = ()) -> tuple[list[Span], list[Span]]:
    """(pieces of `count` positions, the spans of `whole` that fit none and are left out).

    A piece reads at most `length` positions and predicts the ones behind them. Neighbours share one position, the
    last target of one and the first input of the next, which lies in no span: every position but the first is a
    target once. Only where there is none to share (between spans that touch, and after one that is left out) the
    first position of the next piece is no target.

    Args:
      whole: spans to keep whole, in order.
    """
    free = np.ones(count, bool)
    for start, stop in whole:
        free[start:stop] = False
    # The last free position up to each one.
    before = np.maximum.accumulate(np.where(free, np.arange(count), -1)) if count else np.zeros(0, int)
    out: list[Span] = []
    lost: list[Span] = []
    begin, following = 0, list(whole)[::-1]
    while count - begin > length + 1:
        shared = int(before[begin + length])
        if shared > begin:
            out.append((begin, shared + 1))
            begin = shared
            continue
        # Nothing but spans as far as a piece reaches: as many as fit, else the first is left out.
        while following and following[-1][1] <= begin:
            following.pop()
        stop = begin
        while following and following[-1][1] - begin <= length + 1 and following[-1][0] <= max(stop, begin + 1):
            stop = following.pop()[1]
        if stop == begin:
            lost.append(following.pop())
            stop = lost[-1][1]
        else:
            out.append((begin, stop))
        begin = stop
    out.append((begin, count))
    return [(start, stop) for start, stop in out if stop - start > 1], lost


def slid(found: Features, example: Example, room: int, stride: int) -> list[np.ndarray]:
    """The positions of each window: all that does not slide, and of what does as many as there is room for.

    Windows begin `stride` positions apart, or as many as they hold where that is less; the last ends with the text.

    Raises:
      UsageError: the task lets nothing slide, or the stride is not positive.
      DataError: nothing fits beside what does not slide.
    """
    if example.slide is None:
        raise UsageError("this task has no text that could be read in windows: set data.overflow to skip or truncate")
    if stride < 1:
        raise UsageError(f"data.stride={stride} must be positive")
    count = len(found.ids)
    begin, end = (found.starts[place] for place in example.slide)
    width = room - (count - (end - begin))
    if width < 1:
        raise DataError(f"{count - (end - begin)} positions beside the context leave no room in data.length={room}")
    places = [*range(begin, end - width, min(stride, width)), end - width]
    return [np.r_[:begin, place : place + width, end:count] for place in places]


def placed(example: Example, found: Features) -> dict[str, np.ndarray]:
    """The labels of an example's spans: first and last position of each in this row, −1 where it is not all there.

    Raises:
      DataError: a span is empty.
    """
    out = {}
    for name, span in example.spans.items():
        out[name] = np.full(2, -1, np.int32)
        if span is None:
            continue
        start, stop = span
        if start >= stop:
            raise DataError(f"the span {name!r} is empty")
        offsets: Any = found.offsets
        at = np.flatnonzero((offsets[:, 0] < stop) & (offsets[:, 1] > start))
        if len(at) and offsets[at[0], 0] <= start and offsets[at[-1], 1] >= stop:
            out[name][:] = at[0], at[-1]
    return out


def limited(found: Features, example: Example) -> np.ndarray:
    """Which positions the example's limits leave: bool[T]."""
    keep = np.ones(len(found.ids), bool)
    for first, end, most in example.limits:
        keep[found.starts[first] + most : found.starts[end]] = False
    return keep


def united(found: Features, example: Example) -> Features:
    """With the numbers of traits as further types, those of units as a channel, and without offsets. Of two units in
    a position the first counts."""
    assert found.offsets is not None
    channels = dict(found.channels)
    if example.traits:
        own = channels.get(TYPES.name, np.zeros(len(found.ids), np.int32))
        channels[TYPES.name] = np.column_stack([own, _of_spans(example.traits, found.offsets)[:, 1:]])
    if example.units:
        channels[UNITS.name] = _of_spans(example.units, found.offsets)
    return found._replace(channels=channels, offsets=None)


def _of_spans(spans: Sequence[tuple[int, ...]], offsets: np.ndarray) -> np.ndarray:
    """For each position the number of the span that it lies in, from 1, and the numbers of that span; 0 outside:
    int32[T, …]."""
    table = np.asarray(spans, np.int32)
    at = np.minimum(np.searchsorted(table[:, 1], offsets[:, 0], side="right"), len(table) - 1)
    inside = (table[at, 0] < offsets[:, 1]) & (table[at, 1] > offsets[:, 0])
    return np.where(inside[:, None], np.column_stack([at + 1, table[at, 2:]]), 0).astype(np.int32)


def kept(found: Features, example: Example, prompt: int, room: int) -> np.ndarray:
    """Which positions stay when the prompt, the first `prompt` of them, gives up what it is longer than `room` by:
    bool[N]. How much that is does not depend on what is to be written.

    Raises:
      DataError: the task cannot spare as much.
    """
    keep = np.ones(len(found.ids), bool)
    excess = prompt - room
    for first, end in example.spare:
        start, stop = found.starts[first], found.starts[end]
        if end - first == 1 and isinstance(example.document[first], Text):
            start = max(start, stop - excess)
        keep[start:stop] = False
        excess -= stop - start
        if excess <= 0:
            return keep
    raise DataError(f"{room + excess} positions must be read at least, and no more than {room} fit: see data.length")
