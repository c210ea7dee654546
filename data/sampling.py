"""Seeded sampling that all generated datasets share. NumPy only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

import numpy as np

from numjax.errors import UsageError

SPLITS = ("train", "validation", "test")
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1  # of what is not test: the papers have no validation split

_ROUNDS = 60  # a range that has not filled its quota by then is as good as used up


def log_uniform(rng: np.random.Generator, low, high, size: int) -> np.ndarray:
    """Draws integers whose logarithm is uniform: floor(exp(U(ln low, ln(high + 1)))).

    Args:
      rng: source of randomness.
      low, high: inclusive bounds, 1 ≤ low ≤ high, each a number or int64[size].
      size: how many to draw.

    Returns:
      int64[size], each within its bounds.
    """
    low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
    log_low, log_end = np.log(low), np.log(high + 1)
    drawn = np.exp(log_low + rng.random(size) * (log_end - log_low)).astype(np.int64)
    # exp(log(n)) may fall just short of n, and just beyond the end.
    return np.clip(drawn, low, high)


def unique_rows(draw: Callable[[int], np.ndarray], quotas: dict[int, int], what: str) -> dict[int, np.ndarray]:
    """Draws rows until every group has its number of different ones; the first of equal rows stays.

    Args:
      draw: n → int64[n, 1 + C], group in column 0, the row's key in the others.
      quotas: group → how many rows it needs. Rows of other groups are ignored.
      what: names the rows in the error.

    Returns:
      group → int64[quota, C], in the order drawn.

    Raises:
      UsageError: the range does not hold that many different rows.
    """
    found = {group: np.empty((0, 0), np.int64) for group in quotas}
    for _ in range(_ROUNDS):
        missing = max(quotas[group] - len(found[group]) for group in quotas)
        if missing <= 0:
            return {group: rows[: quotas[group]] for group, rows in found.items()}
        rows = draw(4 * missing + 64)
        for group, quota in quotas.items():
            fresh = rows[rows[:, 0] == group, 1:]
            if len(found[group]) >= quota or not len(fresh):
                continue
            pool = np.concatenate([found[group].reshape(-1, fresh.shape[1]), fresh])
            kept = np.sort(np.unique(pool, axis=0, return_index=True)[1])
            found[group] = pool[kept]
    raise UsageError(
        f"{what}: the range does not hold {max(quotas.values())} different samples; choose a smaller size"
    )


def split_sizes(total: int) -> dict[str, int]:
    """Sizes of a plain split: a fifth is test, a tenth of the rest validation."""
    test = round(total * TEST_SHARE)
    validation = round((total - test) * VALIDATION_SHARE)
    return {"train": total - test - validation, "validation": validation, "test": test}


def hashed_split(text: str, seed: int, validation: float, test: float) -> str:
    """The split of a text by its seeded hash: equal texts never part, and more texts move none.

    Args:
      text: what decides.
      seed: another seed gives another split.
      validation, test: shares of all texts.
    """
    key = seed.to_bytes(8, "little")
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=key).digest()
    place = int.from_bytes(digest, "little") / 2**64
    return "test" if place < test else "validation" if place < test + validation else "train"


def per_group(name: str, size: int, groups: int) -> int:
    """Samples of one label in each group, when `size` samples fill `groups` groups with two labels each."""
    step = 2 * groups
    if size < step or size % step:
        nearest = max(step, round(size / step) * step)
        raise UsageError(f"{name}: size={size} is not a multiple of {step} ({groups} × 2 labels); try size={nearest}")
    return size // step


def divided(count: int, seed: int, given: Collection[str] = ()) -> dict[str, list[int]]:
    """Places of each split's records: a seeded fifth is test, a tenth of the rest validation, the rest training.

    Args:
      given: splits that have records of their own and take none of these.
    """
    shuffled = np.random.default_rng(seed).permutation(count)
    test = 0 if "test" in given else round(count * TEST_SHARE)
    held = 0 if "validation" in given else round((count - test) * VALIDATION_SHARE)
    parts = {"train": shuffled[test + held :], "validation": shuffled[test : test + held], "test": shuffled[:test]}
    return {split: sorted(places.tolist()) for split, places in parts.items()}
