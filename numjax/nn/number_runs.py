"""Where numbers of several tokens stand in a text, for channels that the host computes (NumPy)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np


def count_given(ids: np.ndarray, until: int) -> int:
    """How many positions stand before the first token `until`, int32[T]; 0 if there is none."""
    marks = np.flatnonzero(ids == until)
    return int(marks[0]) if len(marks) else 0


def find_runs(ids: np.ndarray, opening: Collection[int], inside: Collection[int]) -> list[tuple[int, int]]:
    """(position of the token that opens a run, end of the run) of each longest run of an `opening` token and `inside`
    tokens behind it; ids int32[T]."""
    is_inside, runs = np.isin(ids, list(inside)), []
    for start in np.flatnonzero(np.isin(ids, list(opening))).tolist():
        rest = np.flatnonzero(~is_inside[start + 1 :])
        runs.append((start, start + 1 + int(rest[0]) if len(rest) else len(ids)))
    return runs


def find_fenced(ids: np.ndarray, opening: int, closing: int, breaks: Collection[int] = ()) -> list[tuple[int, int]]:
    """(position of each token `opening`, end of the run): up to the next `closing`, with it, or before the next
    `opening` or one of `breaks`; ids int32[T]."""
    is_end, runs = np.isin(ids, [opening, closing, *breaks]), []
    for start in np.flatnonzero(ids == opening).tolist():
        ends = np.flatnonzero(is_end[start + 1 :])
        end = start + 1 + int(ends[0]) if len(ends) else len(ids)
        runs.append((start, end + int(end < len(ids) and ids[end] == closing)))
    return runs
