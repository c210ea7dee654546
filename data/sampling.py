"""Seeded sampling for all generated datasets. NumPy only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

import numpy as np

from numjax.errors import UsageError

SPLITS = ("train", "validation", "test")
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1  # of the records that are not test; the papers have no validation split

_ROUNDS = 60  # a range that has not filled its quotas by then counts as exhausted


def log_uniform(rng: np.random.Generator, low, high, size: int) -> np.ndarray:
    """Draws integers whose logarithm is uniform: floor(exp(U(ln low, ln(high + 1)))).

    Args:
      rng: source of randomness.
      low, high: inclusive bounds, 1 ≤ low ≤ high, each a number or int64[size].
      size: how many integers to draw.

    Returns:
      int64[size], each within its bounds.
    """
    low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
    log_low, log_end = np.log(low), np.log(high + 1)
    values = np.exp(log_low + rng.random(size) * (log_end - log_low)).astype(np.int64)
    # exp(log(n)) may be slightly below n or slightly above the upper bound.
    return np.clip(values, low, high)


def draw_unique_rows(draw: Callable[[int], np.ndarray], quotas: dict[int, int], what: str) -> dict[int, np.ndarray]:
    """Draws rows until every group has its number of different rows; of equal rows the first stays.

    Args:
      draw: n → int64[n, 1 + C], group in column 0, the row's key in the others.
      quotas: group → how many rows it needs. Rows of other groups are ignored.
      what: names the rows in the error message.

    Returns:
      group → int64[quota, C], in the order of drawing.

    Raises:
      UsageError: the range does not hold that many different rows.
    """
    rows_by_group = {group: np.empty((0, 0), np.int64) for group in quotas}
    for _ in range(_ROUNDS):
        missing = max(quotas[group] - len(rows_by_group[group]) for group in quotas)
        if missing <= 0:
            return {group: rows[: quotas[group]] for group, rows in rows_by_group.items()}
        rows = draw(4 * missing + 64)
        for group, quota in quotas.items():
            new_rows = rows[rows[:, 0] == group, 1:]
            if len(rows_by_group[group]) >= quota or not len(new_rows):
                continue
            pool = np.concatenate([rows_by_group[group].reshape(-1, new_rows.shape[1]), new_rows])
            first_indices = np.sort(np.unique(pool, axis=0, return_index=True)[1])
            rows_by_group[group] = pool[first_indices]
    raise UsageError(
        f"{what}: the range does not hold {max(quotas.values())} different samples; choose a smaller size"
    )


def compute_split_sizes(total: int) -> dict[str, int]:
    """Returns the sizes of the splits: a fifth is test, a tenth of the rest validation."""
    test = round(total * TEST_SHARE)
    validation = round((total - test) * VALIDATION_SHARE)
    return {"train": total - test - validation, "validation": validation, "test": test}


def split_by_hash(text: str, seed: int, validation: float, test: float) -> str:
    """Returns the split of a text by its seeded hash: equal texts share a split, and more texts change no split.

    Args:
      text: its hash decides.
      seed: another seed gives another split.
      validation, test: shares of all texts.
    """
    key = seed.to_bytes(8, "little")
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=key).digest()
    fraction = int.from_bytes(digest, "little") / 2**64
    return "test" if fraction < test else "validation" if fraction < test + validation else "train"


def count_per_group(name: str, size: int, groups: int) -> int:
    """Returns the samples of one label in each group, if `size` samples fill `groups` groups with two labels each."""
    step = 2 * groups
    if size < step or size % step:
        nearest = max(step, round(size / step) * step)
        raise UsageError(f"{name}: size={size} is not a multiple of {step} ({groups} × 2 labels); try size={nearest}")
    return size // step


def divide_records(count: int, seed: int, fixed_splits: Collection[str] = ()) -> dict[str, list[int]]:
    """Returns the record indices of each split: a seeded fifth is test, a tenth of the rest validation.

    Args:
      fixed_splits: splits that have records of their own and take none of these.
    """
    shuffled = np.random.default_rng(seed).permutation(count)
    test = 0 if "test" in fixed_splits else round(count * TEST_SHARE)
    validation = 0 if "validation" in fixed_splits else round((count - test) * VALIDATION_SHARE)
    parts = {
        "train": shuffled[test + validation :],
        "validation": shuffled[test : test + validation],
        "test": shuffled[:test],
    }
    return {split: sorted(indices.tolist()) for split, indices in parts.items()}
