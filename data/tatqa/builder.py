"""TAT-QA: questions about a table and the paragraphs beside it, with derivations (Zhu et al. 2021)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError
from numjax.tasks import tatqa_records

from ..builder import ArrayRecordBuilder
from ..files import parsed
from ..sampling import VALIDATION_SHARE
from ..tables import questions as tables
from ..tables.options import check_tables
from .generate import contexts

STAND_IN_CONTEXTS = 480
MANY = {"train": 4000, "validation": 150, "test": 150}  # contexts of many layouts
HELD_SHARE = 0.1  # of contexts, for validation and as much for the test, where one file is all there is

_NAMES = re.compile(r"(?:^|[/_.-])(train|dev|test)(?:[/_.-]|$)")


class Tatqa(ArrayRecordBuilder):
    """Options: `path` of a file or a folder with some, or empty for the stand-in; `size`, at most so many contexts of
    each file (0: all; of the stand-in 480, or 4,000 to train on of many layouts); `seed` of splits and stand-in;
    `tables` of the stand-in: "few" (like TAT-QA's), or "many" (../tables); `wordings` of the latter: "apart" in each
    split, or "seen", those to train on in all."""

    VERSION = tfds.core.Version("1.2.0")  # with the cells of the evidence
    FIELDS = {
        "id": str,
        "context": str,
        "question": str,
        "table": str,
        "paragraphs": str,
        "answer": str,
        "derivation": str,
        "answer_type": str,
        "answer_from": str,
        "scale": str,
        "rel_paragraphs": str,
        "mapping": str,
    }
    OPTIONS = {"path": "", "size": 0, "seed": 0, "tables": "few", "wordings": "apart"}
    KEYS = {"context": ("context",), "question": ("question", "context"), "answer_type": ("answer_type",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative; 0 takes all")
        check_tables(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return find_files(options["path"]) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        files = self.files(self.options)
        given: dict[str, list[dict[str, Any]]] = {"train": [], "dev": [], "test": []}
        if not files and self.options["tables"] == "many":
            for split, most in MANY.items():
                count = min(most, max(1, size // 10)) if size and split != "train" else size or most
                made = list(tables.contexts(count, seed, split, self.options["wordings"]))
                yield from ((split, record) for record in self._kept(made, "tables", 0))
            return
        if files:
            for path in files:
                given[kind_of(path)] += self._kept(parsed(path), str(path), size)
            given = self._apart(given)
        else:
            given["train"] = self._kept(contexts(size or STAND_IN_CONTEXTS, seed), "stand-in", 0)
        for split, records in divided(given, seed).items():
            yield from ((split, record) for record in records)

    def _apart(self, given: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Without what another file has too: a question twice, and of the contexts of test or dev files those that a
        file to train on has."""
        out: dict[str, list[dict[str, Any]]] = {}
        seen: set[str] = set()
        held: set[str] = set()
        for kind in ("test", "dev", "train"):
            out[kind] = []
            for record in given[kind]:
                if record["id"] in seen:
                    self.skip(record["id"], "a question of another file has the same uid")
                elif record["context"] in held:
                    self.skip(record["id"], "its context stands in a dev or test file too")
                else:
                    seen.add(record["id"])
                    out[kind].append(record)
            held |= {record["context"] for record in out[kind]}
        return out

    def _kept(self, found: Any, name: str, size: int) -> list[dict[str, Any]]:
        """The records of a file; the rest is noted."""
        if size and isinstance(found, list):
            found = found[:size]
        for place, one in enumerate(found if isinstance(found, list) else ()):
            table = one.get("table") if isinstance(one, Mapping) else None
            if isinstance(table, Mapping) and (what := tatqa_records.ragged(table.get("table"))):
                self.mend(str(table.get("uid", f"context-{place}")), what)
        kept: list[dict[str, Any]] = []
        for uid, record in tatqa_records.of_contexts(found, name):
            if isinstance(record, ValueError):
                self.skip(uid, str(record))
            else:
                kept.append(record)
        return kept


def find_files(path: str) -> list[pathlib.Path]:
    """The files that `path` names: itself, or those of a folder whose names say train, dev or test.

    Raises:
      DataError: there are none.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if root.is_file():
        return [root]
    every = [file for ending in ("*.json", "*.json.gz") for file in root.glob(ending) if file.is_file()]
    found = sorted(file for file in every if _NAMES.search(file.name.lower()))
    if not found:
        raise DataError(f"{root}: no file there is called after train, dev or test; set path to TAT-QA's files")
    return found


def kind_of(path: pathlib.Path) -> str:
    """ "train", "dev" or "test" by a file's name; one that says nothing is to train on."""
    match = _NAMES.search(path.name.lower())
    return match[1] if match else "train"


def divided(given: Mapping[str, Sequence[dict[str, Any]]], seed: int) -> dict[str, list[dict[str, Any]]]:
    """Records by split; no context is in two.

    With train and test files the development file is for validation; without a test file it is the test, and a tenth
    of the training contexts is for validation. With a development and a test file alone the former is to train on and
    for validation; one kind of file alone is divided 8 : 1 : 1.

    Raises:
      DataError: there are too few contexts.
    """
    train, dev, test = (list(given[kind]) for kind in ("train", "dev", "test"))
    if train and dev and test:
        return {"train": train, "validation": dev, "test": test}
    # What there is no other file for is divided: that of tests never, where there is another.
    whole = train or dev or test
    test = (test or dev) if train else (test if dev else [])
    names = list(dict.fromkeys(record["context"] for record in whole))
    if len(names) < 3:
        raise DataError(f"tatqa: {len(names)} contexts are too few to divide; give files with 3 or more")
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    held = max(1, round(len(names) * (VALIDATION_SHARE if test else HELD_SHARE)))
    split_of = dict.fromkeys(order[:held], "validation")
    if not test:
        split_of |= dict.fromkeys(order[held : 2 * held], "test")
    out: dict[str, list[dict[str, Any]]] = {"train": [], "validation": [], "test": test}
    for record in whole:
        out[split_of.get(record["context"], "train")].append(record)
    return out


Builder = Tatqa
