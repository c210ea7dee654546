"""Builder of arithmetic problems."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from . import nupa
from .generate import make_problems
from .operations import OPERATIONS


class Arithmetic(ArrayRecordBuilder):
    """Options: `operations`, names joined by "+", or "all"; `size`, training problems in all; `test`, problems in
    each stream of each operation; `seed`; `length`, most digits of operands in training; `longer`, lengths of further
    test streams joined by "+"; `path`, a folder with NUPA's problems instead (see nupa.py)."""

    VERSION = tfds.core.Version("2.0.1")
    FIELDS = dict.fromkeys(
        ("id", "question", "answer", "accepted", "operands", "operator", "operation", "stream"), str
    )
    OPTIONS = {
        "operations": "add", "size": 20_000, "test": 200, "seed": 0, "length": 6, "longer": "8+12+20+30", "path": "",
    }  # fmt: skip
    UNNAMED = {"path": ""}
    KEYS = {"question": ("question",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        # Which operations a folder has is known when its files are read.
        if not options["path"] and (unknown := [name for name in cls._split(options) if name not in OPERATIONS]):
            raise UsageError(f"{cls.name}: no operation {unknown[0]!r}; there are {', '.join(OPERATIONS)}")
        if not options["path"] and len({*cls._split(options)}) < len(cls._split(options)):
            raise UsageError(f"{cls.name}: operations={options['operations']} has one twice: give each once")
        if options["size"] < 1 or options["test"] < 1 or not 1 <= options["length"] <= 100:
            raise UsageError(f"{cls.name}: size and test must be at least 1, and length from 1 to 100")
        try:
            lengths = [int(text) for text in options["longer"].split("+") if text]
        except ValueError:
            raise UsageError(f"{cls.name}: longer={options['longer']!r}: give lengths such as 8+12") from None
        if any(not options["length"] < n <= 100 for n in lengths):
            raise UsageError(f"{cls.name}: longer has lengths from {options['length'] + 1} to 100")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return nupa.find_files(options["path"]) if options["path"] else []

    @staticmethod
    def _split(options: Mapping[str, Any]) -> list[str]:
        return list(OPERATIONS) if options["operations"] == "all" else options["operations"].split("+")

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = self.options
        if options["path"]:
            for split, problem in nupa.read_records(*(options[n] for n in ("path", "operations", "size", "test"))):
                if problem.reason:
                    self.skip(problem.id, problem.reason)
                else:
                    yield split, nupa.make_record(problem)
            return
        longer = [int(text) for text in options["longer"].split("+") if text]
        yield from make_problems(
            self._split(options), options["size"], options["test"], options["seed"], options["length"], longer
        )


Builder = Arithmetic
