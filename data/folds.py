"""Datasets without splits of their own, in folds for cross-validation, from your files or from a stand-in."""

from __future__ import annotations

import collections
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from numjax.errors import DataError, UsageError

from .builder import ArrayRecordBuilder
from .sampling import VALIDATION_SHARE


class FoldedBuilder(ArrayRecordBuilder, skip_registration=True):
    """A builder of records that this class divides into folds.

    Attributes:
      STAND_IN_SIZE: number of records of the stand-in if `size` is 0.
      UNIT: what an error message counts.
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
        if options["seed"] >= 2**32:
            raise UsageError(f"{cls.name}: seed={options['seed']} must be below 2^32")

    def read_records(self, paths: Sequence[pathlib.Path]) -> Iterable[tuple[str, dict[str, Any] | ValueError]]:
        """Yields (name, record or the error why it cannot be used) for each record of the files."""
        raise NotImplementedError

    def make_records(self, size: int, seed: int) -> Iterable[tuple[str, dict[str, Any] | ValueError]]:
        """Yields the same for the stand-in."""
        raise NotImplementedError

    def fold_criteria(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        """Returns the arguments `labels` or `groups` of `split_by_fold`, if there are any."""
        del records
        return {}

    def records(
        self, splits: Mapping[str, Sequence[int]], records: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields (split, record); `splits` has the indices of each split's records."""
        for split, indices in splits.items():
            for i in indices:
                yield split, {"id": f"{self.name}-{i:06d}"} | records[i]

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        fold, folds, size, seed = (self.options[name] for name in ("fold", "folds", "size", "seed"))
        paths = self.files(self.options)
        limit = size or (0 if paths else self.STAND_IN_SIZE)
        records: list[dict[str, Any]] = []
        for name, record in self.read_records(paths) if paths else self.make_records(limit, seed):
            if limit and len(records) == limit:
                break
            if isinstance(record, ValueError):
                self.skip(f"{self.name}-{name}", str(record))
            else:
                records.append(record)
        criteria = self.fold_criteria(records)
        parts = len(set(criteria.get("groups", range(len(records)))))
        if parts < folds:
            raise DataError(f"{self.name}: {parts} {self.UNIT} are too few for {folds} folds{self._first_skip()}")
        for label, count in collections.Counter(criteria.get("labels", ())).items():
            if count < folds:
                self.remark(
                    f"{self.name}-label-{label}", f"has {count} records: some of {folds} folds lack it in test"
                )
        yield from self.records(split_by_fold(len(records), fold, folds, seed, **criteria), records)


def check_optional_fold(name: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError if `fold` is none of `folds`; with folds=0 a dataset `name` has its files' own splits."""
    fold, folds = options["fold"], options["folds"]
    if folds < 0 or folds == 1 or not 0 <= fold < max(1, folds):
        raise UsageError(f"{name}: fold={fold} is none of folds={folds}, counted from 0; folds=0 for none")


def split_by_fold(
    count: int,
    fold: int,
    folds: int,
    seed: int,
    *,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
) -> dict[str, list[int]]:
    """Returns the record indices of each split: one fold is test, a seeded tenth of the others validation.

    Args:
      count: number of records. fold: which of `folds` is test. seed: of the folds, and with `fold` of the validation
        split.
      labels: spread evenly over the folds (StratifiedKFold), unless each has fewer records than folds.
      groups: never divided, not even by the validation split, which is then the first groups that make up a tenth
        (GroupKFold, which does not shuffle).
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    order = np.arange(count)
    if groups is not None:
        pairs = GroupKFold(folds).split(order, groups=np.asarray(groups))
    elif labels is not None and max(collections.Counter(labels).values()) >= folds:
        pairs = StratifiedKFold(folds, shuffle=True, random_state=seed).split(order, np.asarray(labels))
    else:
        pairs = KFold(folds, shuffle=True, random_state=seed).split(order)
    with warnings.catch_warnings():
        # A label with fewer records than folds is missing from some of them: builders say so. Others are shown.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        train, test = list(pairs)[fold]
    rng = np.random.default_rng([seed, fold])
    end = round(len(train) * VALIDATION_SHARE)
    if groups is None:
        shuffled = rng.permutation(train)
    else:
        owners = np.asarray(groups)[train]
        names = np.unique(owners)
        rank = dict(zip(rng.permutation(names).tolist(), range(len(names)), strict=True))
        shuffled = train[np.argsort([rank[owner] for owner in owners.tolist()], kind="stable")]
        end = _end_of_group(np.asarray(groups)[shuffled], end)
    parts = {"train": shuffled[end:], "validation": shuffled[:end], "test": test}
    return {split: sorted(indices.tolist()) for split, indices in parts.items()}


def _end_of_group(owners: np.ndarray, cut: int) -> int:
    """Returns the first index from `cut` on where another group begins, 0 if there is none."""
    while 0 < cut < len(owners) and owners[cut] == owners[cut - 1]:
        cut += 1
    return cut if cut < len(owners) else 0
