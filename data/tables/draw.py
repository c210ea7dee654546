"""Random choices of a seeded generator, in the words that the makers of tables use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Draw:
    """Choices that follow one another from one seed."""

    def __init__(self, *seed: int):
        self.rng = np.random.default_rng(seed)

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both among them."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return bool(self.rng.random() < share)

    def real(self, low: float, high: float) -> float:
        """A number between two."""
        return float(self.rng.uniform(low, high))

    def one(self, of: Sequence[T]) -> T:
        """One of several."""
        return of[int(self.rng.integers(len(of)))]

    def some(self, of: Sequence[T], count: int) -> list[T]:
        """So many different ones, in random order; all where there are fewer."""
        return [of[i] for i in self.rng.permutation(len(of))[:count].tolist()]
