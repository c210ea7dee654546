"""Cross-validation that several datasets share: which records are train, validation and test."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError

from .sampling import VALIDATION_SHARE

OPTIONS = {"fold": 0, "folds": 5, "size": 0, "seed": 221}  # 221 is MathGPT's seed


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError where `OPTIONS` are out of range."""
    if options["folds"] < 2 or not 0 <= options["fold"] < options["folds"]:
        raise UsageError(f"{name}: fold={options['fold']} is none of folds={options['folds']}, counted from 0")
    if options["size"] < 0:
        raise UsageError(f"{name}: size={options['size']} is negative; 0 takes all")
    if options["seed"] >= 2**32:
        raise UsageError(f"{name}: seed={options['seed']} must be below 2^32")


def folded(
    count: int,
    fold: int,
    folds: int,
    seed: int,
    *,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
) -> dict[str, list[int]]:
    """Places of the records of each split: a fold is test, a seeded tenth of the others validation.

    Args:
      count: records. fold: which of `folds` is test. seed: of the folds, and with `fold` of the validation split.
      labels: spread evenly over the folds (StratifiedKFold). groups: never parted, also not by the validation split,
        which is then the first groups that make up a tenth (GroupKFold, which is not shuffled).
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    order = np.arange(count)
    if groups is not None:
        found = GroupKFold(folds).split(order, groups=np.asarray(groups))
    elif labels is not None:
        found = StratifiedKFold(folds, shuffle=True, random_state=seed).split(order, np.asarray(labels))
    else:
        found = KFold(folds, shuffle=True, random_state=seed).split(order)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a label with fewer records than folds is missing from some: no harm
        train, test = list(found)[fold]
    rng = np.random.default_rng([seed, fold])
    cut = round(len(train) * VALIDATION_SHARE)
    if groups is None:
        shuffled = rng.permutation(train)
    else:
        owners = np.asarray(groups)[train]
        names = np.unique(owners)
        place = dict(zip(rng.permutation(names).tolist(), range(len(names)), strict=True))
        shuffled = train[np.argsort([place[owner] for owner in owners.tolist()], kind="stable")]
        cut = _whole_groups(np.asarray(groups)[shuffled], cut)
    parts = {"train": shuffled[cut:], "validation": shuffled[:cut], "test": test}
    return {split: sorted(places.tolist()) for split, places in parts.items()}


def _whole_groups(owners: np.ndarray, cut: int) -> int:
    """The first place from `cut` on where another group begins."""
    while 0 < cut < len(owners) and owners[cut] == owners[cut - 1]:
        cut += 1
    return cut if cut < len(owners) else 0
