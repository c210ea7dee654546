"""Word problems whose answer is one number: MAWPS, SVAMP, ASDiv and AddSub."""

from __future__ import annotations

import collections
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import SPLITS, divide_records
from .generate import generate_raw_problems
from .read import FORMS, find_files, read_problems

STAND_IN_SIZE = 2000
_WORD = re.compile(r"\w+(?:\.\d+)?")


class Mawps(ArrayRecordBuilder):
    """Options: `form`, mawps, svamp, asdiv or addsub, or several joined by "+"; `path` of its files, of several forms
    a folder with a folder of each form's name, or empty for the stand-in; `size`, at most this many records of each
    form and each split that the files name (0: all, 2,000 of the stand-in); `seed` of the splits that they do not
    name and of the stand-in. Records of several forms have a field `view`, their form; they are divided as one set,
    and of the splits that files name only test counts."""

    VERSION = tfds.core.Version("1.2.0")  # 1.2: an answer of several numbers is not read as its first
    FIELDS = {"id": str, "question": str, "answer": str, "equation": str, "operation": str}
    OPTIONS = {"form": "mawps", "path": "", "size": 0, "seed": 42}
    KEYS = {"question": ("question",), "operation": ("operation",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if not set(forms := options["form"].split("+")) <= FORMS.keys() or len(set(forms)) < len(forms):
            raise UsageError(f"{cls.name}: form={options['form']}; choose {', '.join(FORMS)}, or several as a+b")

    @property
    def fields(self) -> Mapping[str, type]:
        return self.FIELDS | ({"view": str} if "+" in self.options["form"] else {})

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [file for folder in _list_folders(options).values() for file in find_files(folder)]

    def _read_sources(self) -> Iterator[tuple[str, str, str, Any]]:
        """Yields (form, id, the split that a file's name states or "", object or ValueError)."""
        form, size, seed = (self.options[name] for name in ("form", "size", "seed"))
        forms = form.split("+")
        if folders := _list_folders(self.options):
            for part, folder in folders.items():
                for name, split, raw in read_problems(folder):
                    yield part, f"{part}/{name}" if len(forms) > 1 else name, split, raw
            return
        for number, part in enumerate(forms):
            for index, raw in enumerate(generate_raw_problems(part, size or STAND_IN_SIZE, seed + number)):
                yield part, f"{part}/stand-in-{index:06d}" if len(forms) > 1 else f"stand-in-{index:06d}", "", raw

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed, is_joined = self.options["size"], self.options["seed"], "+" in self.options["form"]
        records_by_split: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for form, name, split, raw in self._read_sources():
            # Of several forms, only files that are named test count as a split: the rest is divided together.
            split = split if split == "test" or (split and not is_joined) else "train"
            if size and counts[form, split] == size:
                continue
            try:
                if isinstance(raw, ValueError):
                    raise raw
                view = {"view": form} if is_joined else {}
                records_by_split[split].append({"id": name} | FORMS[form](raw) | view)
                counts[form, split] += 1
            except ValueError as error:
                self.skip(name, str(error))
        # Equal questions stay in one split.
        by_question: dict[str, list[dict[str, Any]]] = {}
        asked = {_find_words(record["question"]) for record in records_by_split["test"]} if is_joined else set()
        for record in records_by_split.pop("train"):
            question = _find_words(record["question"]) if is_joined else record["question"].casefold()
            if question not in asked:
                by_question.setdefault(question, []).append(record)
        groups = list(by_question.values())
        if len(groups) < 10:
            raise DataError(f"{self.name}: {len(groups)} usable records for training are too few{self._first_skip()}")
        # Splits that no file name states are taken from the training records; of several forms, form by form.
        tested = {form for form, split in counts if split == "test"} if is_joined else set()
        alone = [group for group in groups if tested.isdisjoint(record.get("view") for record in group)]
        others = [group for group in groups if not tested.isdisjoint(record.get("view") for record in group)]
        named = [name for name in records_by_split if records_by_split[name] and not is_joined]
        for part, fixed_splits in ((alone, named), (others, ["test"])):
            for split, indices in divide_records(len(part), seed, fixed_splits).items():
                yield from ((split, record) for index in indices for record in part[index])
        for split, records in records_by_split.items():
            yield from ((split, record) for record in records)


def _find_words(question: str) -> str:
    """The words and numbers of a question: forms differ in blanks and marks."""
    return " ".join(_WORD.findall(question.casefold()))


def _list_folders(options: Mapping[str, Any]) -> dict[str, str]:
    """Form → the folder of its files; empty for the stand-in."""
    forms, path = options["form"].split("+"), options["path"]
    if not path:
        return {}
    return {form: str(pathlib.Path(path) / form) if len(forms) > 1 else path for form in forms}


Builder = Mawps
