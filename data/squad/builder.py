"""Builder of SQuAD 1.1, questions with their answers in a paragraph, and of DICE's numeric sub-splits."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..folds import check_optional_fold, split_by_fold
from ..sampling import TEST_SHARE, VALIDATION_SHARE
from .generate import make_articles
from .read import find_files, has_number, is_strictly_numeric, is_test, parse_articles, read_questions

STAND_IN_ARTICLES = 240


class Squad(ArrayRecordBuilder):
    """Options: `path` of the files, or empty for the stand-in; `numbers`, 0 (all questions), 1 or 2 (DICE's
    sub-splits); `size`, at most so many questions of each split (0: all); `seed` of splits and stand-in; `fold` of
    `folds` that is test (folds=0: the files' own splits)."""

    FIELDS = {
        "id": str,
        "title": str,
        "question": str,
        "context": str,
        "answer": str,
        "answer_start": int,
        "answers": str,
    }
    OPTIONS = {"path": "", "numbers": 0, "size": 0, "seed": 0, "fold": 0, "folds": 0}
    UNNAMED = {"fold": 0, "folds": 0}
    KEYS = {"title": ("title",), "context": ("context",), "question": ("question", "context")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["numbers"] not in (0, 1, 2):
            raise UsageError(f"{cls.name}: numbers={options['numbers']}; choose 0 (all), or sub-split 1 or 2")
        check_optional_fold(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return find_files(options["path"]) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        numbers, size, seed = (self.options[name] for name in ("numbers", "size", "seed"))
        train, test = self._read_questions(seed)
        if not train or not test or self.options["folds"]:
            train, test = train + test, []
        indices = self._divide([record["title"] for record in train], bool(test))
        splits = {split: [train[index] for index in split_indices] for split, split_indices in indices.items()}
        splits["test"] = splits["test"] or test
        for split, records in splits.items():
            selection = [record for record in records if _is_asked(record["answer"], split, numbers)]
            if not selection and (purpose := {"train": "to train on", "test": "to test with"}.get(split)):
                raise DataError(f"{self.name}: no question is left {purpose}{self._first_skip()}")
            yield from ((split, record) for record in selection[: size or None])

    def _divide(self, titles: Sequence[str], has_test: bool) -> dict[str, list[int]]:
        """Returns the question indices of each split, in whole articles."""
        fold, folds, seed = (self.options[name] for name in ("fold", "folds", "seed"))
        if not folds:
            return divide_articles(titles, seed, has_test)
        if (count := len(set(titles))) < folds:
            raise DataError(f"{self.name}: {count} articles are too few for {folds} folds")
        return split_by_fold(len(titles), fold, folds, seed, groups=titles)

    def _read_questions(self, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Returns (questions of training files, questions of development files)."""
        files = self.files(self.options)
        sources = [(read_questions(path), is_test(path)) for path in files]
        if not files:
            sources = [(parse_articles(make_articles(STAND_IN_ARTICLES, seed), "stand-in"), False)]
        records: dict[bool, dict[str, dict[str, Any]]] = {False: {}, True: {}}
        for source, is_test_file in sources:
            seen = (True, False) if self.options["folds"] else (is_test_file,)
            for name, record in source:
                if isinstance(record, ValueError):
                    self.skip(name, str(record))
                elif any(name in records[kind] for kind in seen):
                    self.skip(name, "a question before it has the same id")
                else:
                    records[is_test_file][name] = record
        return list(records[False].values()), list(records[True].values())


def _is_asked(answer: str, split: str, numbers: int) -> bool:
    """Whether DICE's sub-split has a question. Both sub-splits are tested on answers that are only digits.

    Validation selects the model that is then tested, so it has the same questions as the test split.
    """
    if numbers == 0:
        return True
    return is_strictly_numeric(answer) if numbers == 1 or split != "train" else has_number(answer)


def divide_articles(titles: Sequence[str], seed: int, has_test: bool) -> dict[str, list[int]]:
    """Returns the question indices of each split: whole articles, so that no context is in two splits.

    The articles have a seeded order. The first, with about a fifth of the questions, are test unless there is a test
    file; the next, with about a tenth of the rest, are validation.

    Raises:
      DataError: there are too few articles.
    """
    names = list(dict.fromkeys(titles))
    if len(names) < 3:
        raise DataError(f"squad: {len(names)} articles are too few to split; give files with 3 or more")
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    counts = dict.fromkeys(names, 0)
    for title in titles:
        counts[title] += 1
    split_of: dict[str, str] = {}
    n_left = len(titles)
    for split, share in (("test", 0.0 if has_test else TEST_SHARE), ("validation", VALIDATION_SHARE)):
        n_taken, target = 0, n_left * share
        # As close to the share as whole articles allow; the last articles are always for training.
        while target and len(split_of) < len(order) - 1 - (split == "test"):
            title = order[len(split_of)]
            if n_taken and n_taken + counts[title] / 2 > target:
                break
            split_of[title] = split
            n_taken += counts[title]
        n_left -= n_taken
    indices: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for index, title in enumerate(titles):
        indices[split_of.get(title, "train")].append(index)
    return indices


Builder = Squad
