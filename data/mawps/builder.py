"""Word problems whose answer is one number: MAWPS, SVAMP, ASDiv and AddSub."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import SPLITS, divide_records
from .generate import generate_raw_problems
from .read import FORMS, find_files, read_problems

STAND_IN_SIZE = 2000


class Mawps(ArrayRecordBuilder):
    """Options: `form`, mawps, svamp, asdiv or addsub; `path` of its files, or empty for the stand-in; `size`, at most
    this many records of each split that the files name (0: all, 2,000 of the stand-in); `seed` of the splits that
    they do not name and of the stand-in."""

    VERSION = tfds.core.Version("1.1.0")
    FIELDS = {"id": str, "question": str, "answer": str, "equation": str, "operation": str}
    OPTIONS = {"form": "mawps", "path": "", "size": 0, "seed": 42}
    KEYS = {"question": ("question",), "operation": ("operation",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["form"] not in FORMS:
            raise UsageError(f"{cls.name}: form={options['form']}; choose one of {', '.join(FORMS)}")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return find_files(options["path"]) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        form, path, size, seed = (self.options[name] for name in ("form", "path", "size", "seed"))
        if path:
            source = read_problems(path)
        else:
            problems = generate_raw_problems(form, size or STAND_IN_SIZE, seed)
            source = ((f"stand-in-{index:06d}", "", raw) for index, raw in enumerate(problems))
        records_by_split: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
        for name, split, raw in source:
            records = records_by_split[split or "train"]
            if size and len(records) == size:
                continue
            try:
                if isinstance(raw, ValueError):
                    raise raw
                records.append({"id": name} | FORMS[form](raw))
            except ValueError as error:
                self.skip(name, str(error))
        # Equal questions stay in one split.
        by_question: dict[str, list[dict[str, Any]]] = {}
        for record in records_by_split.pop("train"):
            by_question.setdefault(record["question"].casefold(), []).append(record)
        groups = list(by_question.values())
        if len(groups) < 10:
            raise DataError(f"{self.name}: {len(groups)} usable records for training are too few{self._first_skip()}")
        # Splits that no file name states are taken from the training records.
        for split, indices in divide_records(
            len(groups), seed, [name for name in records_by_split if records_by_split[name]]
        ).items():
            yield from ((split, record) for index in indices for record in groups[index])
        for split, records in records_by_split.items():
            yield from ((split, record) for record in records)


Builder = Mawps
