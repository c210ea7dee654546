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
    starts = np.flatnonzero(np.isin(ids, list(opening)))
    ends = _find_next(~np.isin(ids, list(inside)), starts)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def find_fenced(ids: np.ndarray, opening: int, closing: int, breaks: Collection[int] = ()) -> list[tuple[int, int]]:
    """(position of each token `opening`, end of the run): up to the next `closing`, with it, or before the next
    `opening` or one of `breaks`; ids int32[T]."""
    starts = np.flatnonzero(ids == opening)
    ends = _find_next(np.isin(ids, [opening, closing, *breaks]), starts)
    ends = ends + np.append(ids == closing, False)[ends]
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _find_next(wanted: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The first position behind each of `starts` at which `wanted`, bool[T], is True; T if there is none."""
    found = np.append(np.flatnonzero(wanted), len(wanted))
    return found[np.searchsorted(found, starts, side="right")]
