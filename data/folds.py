"""Datasets without splits of their own: folds for cross-validation, of your files or of a stand-in."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from numjax.errors import DataError, UsageError

from .builder import ArrayRecordBuilder
from .sampling import VALIDATION_SHARE


class FoldedBuilder(ArrayRecordBuilder, skip_registration=True):
    """A builder that states what it reads; its records are divided here.

    Attributes:
      STAND_IN_SIZE: records of the stand-in, unless `size` says otherwise.
      UNIT: what a message counts.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {"path": "", "fold": 0, "folds": 5, "size": 0, "seed": 221}  # MathGPT's seed
    STAND_IN_SIZE: ClassVar[int]
    UNIT: ClassVar[str] = "usable records"

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["folds"] < 2 or not 0 <= options["fold"] < options["folds"]:
            raise UsageError(
                f"{cls.name}: fold={options['fold']} is none of folds={options['folds']}, counted from 0"
            )
        if options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative; 0 takes all")
        if options["seed"] >= 2**32:
            raise UsageError(f"{cls.name}: seed={options['seed']} must be below 2^32")

    def read(self, paths: Sequence[pathlib.Path]) -> Iterable[tuple[str, dict[str, Any] | ValueError]]:
        """(name, record, or what is wrong with it) of all that the files hold."""
        raise NotImplementedError

    def make(self, size: int, seed: int) -> Iterable[tuple[str, dict[str, Any] | ValueError]]:
        """The same of a stand-in."""
        raise NotImplementedError

    def kinds(self, kept: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        """`labels` or `groups` of `folded`, where there are any."""
        del kept
        return {}

    def records(
        self, splits: Mapping[str, Sequence[int]], kept: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(split, record) of what was read; `splits` has its places."""
        for split, places in splits.items():
            for i in places:
                yield split, {"id": f"{self.name}-{i:06d}"} | kept[i]

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        fold, folds, size, seed = (self.options[name] for name in ("fold", "folds", "size", "seed"))
        paths = self.files(self.options)
        most = size or (0 if paths else self.STAND_IN_SIZE)
        kept: list[dict[str, Any]] = []
        for name, found in self.read(paths) if paths else self.make(most, seed):
            if most and len(kept) == most:
                break
            if isinstance(found, ValueError):
                self.skip(f"{self.name}-{name}", str(found))
            else:
                kept.append(found)
        kinds = self.kinds(kept)
        parts = len(set(kinds.get("groups", range(len(kept)))))
        if parts < folds:
            raise DataError(f"{self.name}: {parts} {self.UNIT} are too few for {folds} folds{self._first_skip()}")
        yield from self.records(folded(len(kept), fold, folds, seed, **kinds), kept)


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
