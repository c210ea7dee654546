"""Where numbers of several tokens stand in a text, for channels that the host computes (NumPy)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import numpy as np

EVERYTHING = -2  # as `until`: all numbers are given


class UntilMark:
    """For producers that are dataclasses with a field `until`: the numbers before the first such mark are given."""

    @functools.cached_property
    def given(self) -> Self:
        own: Any = self
        return dataclasses.replace(own, until=EVERYTHING)


def count_given(ids: np.ndarray, until: int) -> int:
    """How many positions stand before the first token `until`, ids int32[T]; 0 if there is none."""
    if until == EVERYTHING:
        return len(ids)
    marks = np.flatnonzero(ids == until)
    return int(marks[0]) if len(marks) else 0


def find_runs(opens: np.ndarray, inside: np.ndarray) -> list[tuple[int, int]]:
    """(position of the token that opens a run, end of the run) of each longest run of a token that `opens` and tokens
    `inside` behind it; both bool[T]."""
    starts = np.flatnonzero(opens)
    ends = _find_next(~inside, starts)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def find_fenced(opens: np.ndarray, closes: np.ndarray, breaks: np.ndarray) -> list[tuple[int, int]]:
    """(position of each token that `opens` a run, end of the run): up to the next that `closes`, with it, or before
    the next that `opens` or `breaks`; all bool[T]."""
    starts = np.flatnonzero(opens)
    ends = _find_next(opens | closes | breaks, starts)
    ends = ends + np.append(closes, False)[ends]
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _find_next(wanted: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The first position behind each of `starts` at which `wanted`, bool[T], is True; T if there is none."""
    found = np.append(np.flatnonzero(wanted), len(wanted))
    return found[np.searchsorted(found, starts, side="right")]
