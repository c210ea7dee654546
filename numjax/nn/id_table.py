"""Small values that belong to token ids, read for a whole text at once, for channels of the host (NumPy)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def make(values: Iterable[tuple[int, int]], dtype: Any = np.int32) -> np.ndarray:
    """The value of each id, dtype[V]; 0 for ids without one, and at the end, where `look_up` reads those beyond.

    Ids below 0, which stand for "none", are left out.
    """
    known = {token: value for token, value in values if token >= 0}
    table = np.zeros(max(known, default=-1) + 2, dtype)
    table[list(known)] = list(known.values())
    return table


def make_set(ids: Iterable[int]) -> np.ndarray:
    """Whether each id is one of `ids`, bool[V]; as `make`."""
    return make(((token, 1) for token in ids), bool)


def look_up(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The values of ids int[T], dtype[T]."""
    return table[np.minimum(ids, len(table) - 1)]
