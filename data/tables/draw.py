"""Random choices of a seeded generator, for the generators of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Draw:
    """A sequence of random choices from one seed."""

    def __init__(self, *seed: int):
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """Returns an integer from `low` to `high`, inclusive."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """Returns True with probability `share`."""
        return bool(self.rng.random() < share)

    def uniform(self, low: float, high: float) -> float:
        """Returns a real number from `low` to `high`."""
        return float(self.rng.uniform(low, high))

    def choice(self, options: Sequence[T]) -> T:
        """Returns one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Returns `count` different options in random order, or all if there are fewer."""
        return [options[i] for i in self.rng.permutation(len(options))[:count].tolist()]
