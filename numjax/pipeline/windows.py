"""Texts that are longer than a row: cut into pieces or windows, or shortened; formulas are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.types import TYPES, UNITS, Example, Features, Formula, Text

Span = tuple[int, int]  # first position, and the one behind the last


def find_formulas(example: Example, features: Features) -> list[Span]:
    """The positions of each formula that has a tree, in order."""
    segments = zip(example.document, features.starts[:-1], features.starts[1:], strict=True)
    return [(start, stop) for segment, start, stop in segments if isinstance(segment, Formula) and segment.tree]


def cut_pieces(count: int, length: int, spans: Sequence[Span] = ()) -> tuple[list[Span], list[Span]]:
    """(pieces of `count` positions, the spans that fit into no piece and are left out).

    The inputs of a piece are at most `length` positions, its targets are the ones behind them. Neighbours share one
    position outside all spans, the last target of one and the first input of the next, so that every position but the
    first is a target once. If there is no position to share (between spans that touch, and after a span that is left
    out), the first position of the next piece is no target.

    Args:
      spans: spans that must not be cut, in order.
    """
    free = np.ones(count, bool)
    for start, stop in spans:
        free[start:stop] = False
    # The last free position up to each one.
    last_free = np.maximum.accumulate(np.where(free, np.arange(count), -1)) if count else np.zeros(0, int)
    out: list[Span] = []
    lost: list[Span] = []
    begin, remaining = 0, list(spans)[::-1]
    while count - begin > length + 1:
        shared = int(last_free[begin + length])
        if shared > begin:
            out.append((begin, shared + 1))
            begin = shared
            continue
        # A piece would hold only spans: it takes as many as fit; if the first does not fit, it is left out.
        while remaining and remaining[-1][1] <= begin:
            remaining.pop()
        stop = begin
        while remaining and remaining[-1][1] - begin <= length + 1 and remaining[-1][0] <= max(stop, begin + 1):
            stop = remaining.pop()[1]
        if stop == begin:
            lost.append(remaining.pop())
            stop = lost[-1][1]
        else:
            out.append((begin, stop))
        begin = stop
    out.append((begin, count))
    return [(start, stop) for start, stop in out if stop - start > 1], lost


def slide_windows(features: Features, example: Example, room: int, stride: int) -> list[np.ndarray]:
    """The positions of each window: all outside `example.slide`, and as many inside it as there is room for.

    Windows begin `stride` positions apart, or by their own width if that is less; the last ends with the text.

    Raises:
      UsageError: the task has no `slide`, or the stride is not positive.
      DataError: there is no room besides the positions that do not slide.
    """
    if example.slide is None:
        raise UsageError("this task has no text that could be read in windows: set data.overflow to skip or truncate")
    if stride < 1:
        raise UsageError(f"data.stride={stride} must be positive")
    count = len(features.ids)
    begin, end = (features.starts[start] for start in example.slide)
    width = room - (count - (end - begin))
    if width < 1:
        raise DataError(f"{count - (end - begin)} positions beside the context leave no room in data.length={room}")
    starts = [*range(begin, end - width, min(stride, width)), end - width]
    return [np.r_[:begin, start : start + width, end:count] for start in starts]


def locate_spans(example: Example, features: Features) -> dict[str, np.ndarray]:
    """The labels of an example's spans: first and last position of each, −1 if the row does not hold all of it.

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
        offsets: Any = features.offsets
        positions = np.flatnonzero((offsets[:, 0] < stop) & (offsets[:, 1] > start))
        if len(positions) and offsets[positions[0], 0] <= start and offsets[positions[-1], 1] >= stop:
            out[name][:] = positions[0], positions[-1]
    return out


def apply_limits(features: Features, example: Example) -> np.ndarray:
    """The positions that the example's limits keep, bool[T]."""
    keep = np.ones(len(features.ids), bool)
    for first, end, limit in example.limits:
        keep[features.starts[first] + limit : features.starts[end]] = False
    return keep


def add_unit_channels(features: Features, example: Example) -> Features:
    """The features with the numbers of traits as further types and those of units as a channel. If a position covers
    two units, the first counts."""
    assert features.offsets is not None
    channels = dict(features.channels)
    if example.traits:
        types = channels.get(TYPES.name, np.zeros(len(features.ids), np.int32))
        channels[TYPES.name] = np.column_stack([types, _number_spans(example.traits, features.offsets)[:, 1:]])
    if example.units:
        channels[UNITS.name] = _number_spans(example.units, features.offsets)
    return features._replace(channels=channels)


def _number_spans(spans: Sequence[tuple[int, ...]], offsets: np.ndarray) -> np.ndarray:
    """For each position the index of its span, from 1, and the numbers of that span; 0 outside: int32[T, …]."""
    table = np.asarray(spans, np.int32)
    index = np.minimum(np.searchsorted(table[:, 1], offsets[:, 0], side="right"), len(table) - 1)
    inside = (table[index, 0] < offsets[:, 1]) & (table[index, 1] > offsets[:, 0])
    return np.where(inside[:, None], np.column_stack([index + 1, table[index, 2:]]), 0).astype(np.int32)


def shorten_prompt(features: Features, example: Example, prompt: int, room: int) -> np.ndarray:
    """The positions to keep, bool[N], if the prompt, the first `prompt` positions, is shortened to `room`.

    The result for the prompt does not depend on the text to be written.

    Raises:
      DataError: the task cannot spare enough positions.
    """
    keep = np.ones(len(features.ids), bool)
    excess = prompt - room
    for first, end in example.spare:
        start, stop = features.starts[first], features.starts[end]
        if end - first == 1 and isinstance(example.document[first], Text):
            start = max(start, stop - excess)
        keep[start:stop] = False
        excess -= stop - start
        if excess <= 0:
            return keep
    raise DataError(f"{room + excess} positions must be read at least, and no more than {room} fit: see data.length")
