"""Questions whose answers stand in a paragraph (SQuAD 1.1), and DICE's numeric sub-splits of them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import TEST_SHARE, VALIDATION_SHARE
from .generate import articles
from .read import find_files, has_number, is_test, of_articles, questions, strictly_numeric

STAND_IN_ARTICLES = 240


class Squad(ArrayRecordBuilder):
    """Options: `path` of the files, or empty for the stand-in; `numbers`, 0 (all questions), 1 or 2 (DICE's
    sub-splits); `size`, at most so many questions of each split (0: all); `seed` of splits and stand-in."""

    FIELDS = {
        "id": str,
        "title": str,
        "question": str,
        "context": str,
        "answer": str,
        "answer_start": int,
        "answers": str,
    }
    OPTIONS = {"path": "", "numbers": 0, "size": 0, "seed": 0}
    KEYS = {"title": ("title",), "context": ("context",), "question": ("question", "context")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["numbers"] not in (0, 1, 2):
            raise UsageError(f"{cls.name}: numbers={options['numbers']}; choose 0 (all), or sub-split 1 or 2")
        if options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative; 0 takes all")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return find_files(options["path"]) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        numbers, size, seed = (self.options[name] for name in ("numbers", "size", "seed"))
        given, test = self._read(seed)
        if not given or not test:
            given, test = given or test, []
        places = divided([record["title"] for record in given], seed, bool(test))
        splits = {split: [given[place] for place in at] for split, at in places.items()}
        splits["test"] = splits["test"] or test
        for split, records in splits.items():
            wanted = [record for record in records if _asked(record["answer"], split, numbers)]
            if not wanted and (purpose := {"train": "to train on", "test": "to test with"}.get(split)):
                raise DataError(f"{self.name}: no question is left {purpose}{self._first_skip()}")
            yield from ((split, record) for record in wanted[: size or None])

    def _read(self, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """(questions of training files, of development files)."""
        files = self.files(self.options)
        sources = [(questions(path), is_test(path)) for path in files]
        if not files:
            sources = [(of_articles(articles(STAND_IN_ARTICLES, seed), "stand-in"), False)]
        kept: dict[bool, dict[str, dict[str, Any]]] = {False: {}, True: {}}
        for source, of_test in sources:
            for name, found in source:
                if isinstance(found, ValueError):
                    self.skip(name, str(found))
                elif name in kept[of_test]:
                    self.skip(name, "a question before it has the same id")
                else:
                    kept[of_test][name] = found
        return list(kept[False].values()), list(kept[True].values())


def _asked(answer: str, split: str, numbers: int) -> bool:
    """Whether DICE asks a question: both sub-splits are tested on answers that are digits alone.

    Validation chooses what is then tested, so that it is like the test split.
    """
    if numbers == 0:
        return True
    return strictly_numeric(answer) if numbers == 1 or split != "train" else has_number(answer)


def divided(titles: Sequence[str], seed: int, has_test: bool) -> dict[str, list[int]]:
    """Places of each split's questions: whole articles, so that no context is in two splits.

    Articles in a seeded order: the first that hold about a fifth of the questions are test where none is given, the
    next that hold about a tenth of the rest validation.

    Raises:
      DataError: there are too few articles.
    """
    names = list(dict.fromkeys(titles))
    if len(names) < 3:
        raise DataError(f"squad: {len(names)} articles are too few to split; give files with 3 or more")
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    held = dict.fromkeys(names, 0)
    for title in titles:
        held[title] += 1
    split_of: dict[str, str] = {}
    left = len(titles)
    for split, share in (("test", 0.0 if has_test else TEST_SHARE), ("validation", VALIDATION_SHARE)):
        taken, wanted = 0, left * share
        # As near to the share as whole articles come; the last ones are for training, however few there are.
        while wanted and len(split_of) < len(order) - 1 - (split == "test"):
            title = order[len(split_of)]
            if taken and taken + held[title] / 2 > wanted:
                break
            split_of[title] = split
            taken += held[title]
        left -= taken
    places: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for place, title in enumerate(titles):
        places[split_of.get(title, "train")].append(place)
    return places


Builder = Squad
