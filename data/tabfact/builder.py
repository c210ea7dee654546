"""Statements that a table entails or refutes (TabFact, Chen et al. 2020)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from .. import sampling
from ..builder import ArrayRecordBuilder
from ..files import parsed
from ..tables import statements
from ..tables.options import check_tables
from . import read
from .generate import release

STAND_IN_STATEMENTS = 16_000
MANY = {"train": 40_000, "validation": 1_200, "test": 1_200}  # statements on tables of many layouts


class Tabfact(ArrayRecordBuilder):
    """Options: `path` of the folder, or empty for the stand-in; `size`, at most so many statements of each split, of
    the stand-in so many in all (0: all, 16,000); `seed` of splits, stand-in and the order of a folder's
    tables; `tables` of the stand-in: "few" subjects, or "many" (../tables), of which `size` is what there is to train
    on (0: 40,000); `wordings` of the latter: "apart" in each split, or "seen", those to train on in all."""

    VERSION = tfds.core.Version("1.2.0")  # pairs without the full stop that gave their label away
    FIELDS = {
        "id": str,
        "table_id": str,
        "caption": str,
        "table": str,
        "statement": str,
        "label": int,
        "kind": str,
    }
    OPTIONS = {"path": "", "size": 0, "seed": 0, "tables": "few", "wordings": "apart"}
    KEYS = {"table": ("table_id",), "table's cells": ("table",), "statement": ("statement", "table_id")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative; 0 takes all")
        check_tables(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        if not options["path"]:
            return []
        return sorted([*read.find_files(options["path"]).values(), *read.table_files(options["path"])])

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        if not self.options["path"] and self.options["tables"] == "many":
            for split, most in MANY.items():
                count = min(most, max(1, size // 10)) if size and split != "train" else size or most
                made = statements.records(-(-count // statements.STATEMENTS), seed, split, self.options["wordings"])
                for one in made:
                    yield split, one | {"table": json.dumps(one["table"], ensure_ascii=False)}
            return
        given, tables, kinds = self._released() if self.options["path"] else self._made(size, seed)
        # Joined first, so that splits are made of what can be used.
        joined = {split: list(self._joined(found, tables, kinds)) for split, found in given.items()}
        if not any(joined.values()):
            raise DataError(f"{self.name}: no statement is left{self._first_skip()}")
        most = size if self.options["path"] else 0
        for split, found in divided(joined, seed).items():
            # The release's pairs begin with all those of complex tables, and the first so many may be asked for.
            ordered = by_table(found, seed) if self.options["path"] else found
            yield from ((split, record) for record in ordered[: most or None])

    def _made(self, size: int, seed: int):
        examples, texts, kinds = release(size or STAND_IN_STATEMENTS, seed)
        given = {"train": self._kept(read.statements(examples, "stand-in"))}
        return given, {name: read.packed(text.encode()) for name, text in texts.items()}, kinds

    def _released(self):
        """(statements by split, table by id, kind by table id) of the folder."""
        found = read.find_files(self.options["path"])
        given = {
            split: self._kept(read.statements(parsed(found[name]), str(found[name])))
            for split, name in read.SPLIT_FILES.items()
            if name in found
        }
        if "train" not in given and read.PAIRS in found:
            wanted = read.ids(found[read.TRAIN_IDS]) if read.TRAIN_IDS in found else None
            held = {one["table_id"] for split in given.values() for one in split}
            paired = self._kept(read.pairs(parsed(found[read.PAIRS]), str(found[read.PAIRS]), wanted))
            given["train"] = [one for one in paired if one["table_id"] not in held]
        wanted = {one["table_id"] for split in given.values() for one in split}
        tables: dict[str, read.Table] = {}
        for name, table in read.tables(self.options["path"], wanted):
            if name not in wanted:
                self.skip(name, str(table))
            tables.setdefault(name, table)
        kinds = {
            table: kind
            for kind, names in read.KIND_FILES.items()
            for name in names
            if name in found
            for table in read.ids(found[name])
        }
        return given, tables, kinds

    def _kept(self, found: Iterable[tuple[str, read.Statement | ValueError]]) -> list[read.Statement]:
        kept = []
        for name, one in found:
            if isinstance(one, ValueError):
                self.skip(name, str(one))
            else:
                kept.append(one)
        return kept

    def _joined(
        self, found: Iterable[read.Statement], tables: Mapping[str, read.Table], kinds: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """The statements with their tables."""
        for one in found:
            table = tables.get(one["table_id"], ValueError("its table's file is missing"))
            if isinstance(table, ValueError):
                self.skip(one["id"], str(table))
            else:
                yield {**one, "table": table, "kind": kinds.get(one["table_id"], "")}


def divided(given: Mapping[str, Sequence[Mapping[str, Any]]], seed: int) -> dict[str, list[dict[str, Any]]]:
    """The records of all three splits; those that no file gives are made of whole tables of another's.

    Validation alone of the two is cut in halves, since it is of one form and the pairs that train may be of another.
    Otherwise a fifth of the training tables is test and a tenth of the rest validation, whichever is lacking.
    """
    splits: Any = {split: list(found) for split, found in given.items() if found}
    if "train" in splits and "validation" in splits and "test" not in splits:
        held = splits.pop("validation")
        names = list(dict.fromkeys(one["table_id"] for one in held))
        order = np.random.default_rng(seed).permutation(len(names))
        first = {names[i] for i in order[: len(names) // 2].tolist()}
        splits["validation"] = [one for one in held if one["table_id"] in first]
        splits["test"] = [one for one in held if one["table_id"] not in first]
    elif len(splits) < 3:
        whole = splits.pop("train", None) or splits.pop("validation", None) or splits.pop("test", [])
        names = list(dict.fromkeys(one["table_id"] for one in whole))
        if len(names) < 7:
            raise DataError(f"tabfact: {len(names)} tables are too few to split; give files with 7 or more")
        for split, places in sampling.divided(len(names), seed, splits).items():
            mine = {names[i] for i in places}
            splits[split] = splits.get(split) or [one for one in whole if one["table_id"] in mine]
    return {split: splits[split] for split in sampling.SPLITS}


def by_table(found: Iterable[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The records table by table, the tables in random order."""
    of: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        of.setdefault(one["table_id"], []).append(one)
    tables = list(of.values())
    return [one for i in np.random.default_rng(seed).permutation(len(tables)).tolist() for one in tables[i]]


Builder = Tabfact
