"""Builder of problems with step-by-step solutions and final answers: GSM8K and MATH."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import divide_records
from . import word_problems
from .generate import make_problems
from .read import FORMS, find_files, read_problems

STAND_IN_SIZE = 6000


class Solving(ArrayRecordBuilder):
    """Options: `form`, gsm8k or math; `path` of its files, or empty for the stand-in; `size`, at most so many records
    of each file (0: all, 6,000 of the stand-in); `seed` of the splits and of the stand-in. GSM8K's stand-in has
    composed problems, whose test wordings differ from those of training."""

    VERSION = tfds.core.Version("1.2.0")  # GSM8K's stand-in is composed, with stories around the facts
    FIELDS = {"id": str, "problem": str, "solution": str, "answer": str, "level": str, "subject": str}
    OPTIONS = {"form": "gsm8k", "path": "", "size": 0, "seed": 221}
    KEYS = {"problem": ("problem",), "answer": ("answer",)}

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
        elif form == "gsm8k":
            for number, (split, raw) in enumerate(word_problems.make_problems(size or STAND_IN_SIZE, seed)):
                yield split, {"id": f"stand-in-{number:06d}"} | FORMS[form](raw)
            return
        else:
            raw_problems = make_problems(size or STAND_IN_SIZE, seed)
            source = ((f"stand-in-{number:06d}", False, raw) for number, raw in enumerate(raw_problems))
        # The files' names say which records are for test; each of the two keeps its first `size` records.
        records: dict[bool, dict[str, dict[str, Any]]] = {False: {}, True: {}}
        for name, is_test, raw in source:
            if size and len(records[is_test]) == size:
                continue
            try:
                record = {"id": name} | FORMS[form](raw)
                question = " ".join(record["problem"].split())
                if question in records[is_test]:
                    raise ValueError(f"asks what {records[is_test][question]['id']} asks")
                records[is_test][question] = record
            except ValueError as error:
                self.skip(name, str(error))
        for question in [question for question in records[False] if question in records[True]]:
            tested = records[True][question]["id"]
            self.skip(records[False].pop(question)["id"], f"asks what {tested} of the test asks")
        train, test = (list(records[is_test].values()) for is_test in (False, True))
        if not train:
            train, test = test, []
        if len(train) < 10:
            raise DataError(f"{self.name}: {len(train)} usable records are too few to split{self._first_skip()}")
        for split, indices in divide_records(len(train), seed, ("test",) if test else ()).items():
            yield from ((split, train[index]) for index in indices)
        yield from (("test", record) for record in test)


Builder = Solving
