"""Builder of TabFact: statements that a table entails or refutes (Chen et al. 2020)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError

from .. import sampling
from ..builder import ArrayRecordBuilder
from ..files import read_json
from ..tables import statements
from ..tables.options import check_tables
from . import read
from .generate import make_release

STAND_IN_STATEMENTS = 16_000
MANY_SIZES = {"train": 40_000, "validation": 1_200, "test": 1_200}  # statements on tables of many layouts


class Tabfact(ArrayRecordBuilder):
    """Options: `path` of the folder, or empty for the stand-in; `size`, at most so many statements of each split, or
    of the whole stand-in (0: all, 16,000 of the stand-in); `seed` of splits, stand-in and the order of a folder's
    tables; `tables` of the stand-in: "few" subjects, or "many" (../tables), for which `size` counts the training
    statements (0: 40,000); `wordings` of the latter: "apart" (each split has its own), or "seen" (all splits use
    those of training)."""

    VERSION = tfds.core.Version("1.3.0")  # the evidence of statements on tables of many layouts
    MADE_VERSION = tfds.core.Version("1.4.0")  # 1.4: "the year before" is; scales and falls are said
    FIELDS = {
        "id": str,
        "table_id": str,
        "caption": str,
        "table": str,
        "statement": str,
        "label": int,
        "kind": str,
        "evidence": str,
    }
    OPTIONS = {"path": "", "size": 0, "seed": 0, "tables": "few", "wordings": "apart"}
    KEYS = {"table": ("table_id",), "table's cells": ("table",), "statement": ("statement", "table_id")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_tables(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        if not options["path"]:
            return []
        return sorted([*read.find_files(options["path"]).values(), *read.find_table_files(options["path"])])

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        if not self.options["path"] and self.options["tables"] == "many":
            for split, limit in MANY_SIZES.items():
                count = min(limit, max(1, size // 10)) if size and split != "train" else size or limit
                stand_in_records = statements.make_records(
                    -(-count // statements.STATEMENTS), seed, split, self.options["wordings"]
                )
                for record in stand_in_records:
                    texts = {name: json.dumps(record[name], ensure_ascii=False) for name in ("table", "evidence")}
                    yield split, record | texts
            return
        statements_by_split, tables, kinds = (
            self._read_release() if self.options["path"] else self._make_release(size, seed)
        )
        # Join first, so that the splits contain only usable statements.
        records_by_split = {
            split: list(self._join_tables(split_statements, tables, kinds))
            for split, split_statements in statements_by_split.items()
        }
        if not any(records_by_split.values()):
            raise DataError(f"{self.name}: no statement is left{self._first_skip()}")
        limit = size if self.options["path"] else 0
        for split, records in divide_by_table(records_by_split, seed).items():
            # The release's pairs begin with those of complex tables, so `size` would select only these.
            ordered = shuffle_tables(records, seed) if self.options["path"] else records
            yield from ((split, record) for record in ordered[: limit or None])

    def _make_release(self, size: int, seed: int):
        examples, texts, kinds = make_release(size or STAND_IN_STATEMENTS, seed)
        statements_by_split = {"train": self._keep_valid(read.parse_statements(examples, "stand-in"))}
        return statements_by_split, {name: read.encode_table(text.encode()) for name, text in texts.items()}, kinds

    def _read_release(self):
        """Returns (statements by split, table by id, kind by table id) of the folder."""
        files = read.find_files(self.options["path"])
        statements_by_split = {
            split: self._keep_valid(read.parse_statements(read_json(files[name]), str(files[name])))
            for split, name in read.SPLIT_FILES.items()
            if name in files
        }
        if "train" not in statements_by_split and read.PAIRS in files:
            table_ids = read.read_ids(files[read.TRAIN_IDS]) if read.TRAIN_IDS in files else None
            other_ids = {statement["table_id"] for split in statements_by_split.values() for statement in split}
            paired_statements = self._keep_valid(
                read.parse_pairs(read_json(files[read.PAIRS]), str(files[read.PAIRS]), table_ids)
            )
            statements_by_split["train"] = [
                statement for statement in paired_statements if statement["table_id"] not in other_ids
            ]
        table_ids = {statement["table_id"] for split in statements_by_split.values() for statement in split}
        tables: dict[str, read.Table] = {}
        for name, table in read.read_tables(self.options["path"], table_ids):
            if name not in table_ids:
                self.skip(name, str(table))
            tables.setdefault(name, table)
        kinds = {
            table: kind
            for kind, names in read.KIND_FILES.items()
            for name in names
            if name in files
            for table in read.read_ids(files[name])
        }
        return statements_by_split, tables, kinds

    def _keep_valid(self, results: Iterable[tuple[str, read.Statement | ValueError]]) -> list[read.Statement]:
        valid_statements = []
        for name, statement in results:
            if isinstance(statement, ValueError):
                self.skip(name, str(statement))
            else:
                valid_statements.append(statement)
        return valid_statements

    def _join_tables(
        self, split_statements: Iterable[read.Statement], tables: Mapping[str, read.Table], kinds: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Yields the statements with their tables; skips those without a usable table."""
        for statement in split_statements:
            table = tables.get(statement["table_id"], ValueError("its table's file is missing"))
            if isinstance(table, ValueError):
                self.skip(statement["id"], str(table))
            else:
                yield {**statement, "table": table, "kind": kinds.get(statement["table_id"], ""), "evidence": ""}


def divide_by_table(
    records_by_split: Mapping[str, Sequence[Mapping[str, Any]]], seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Returns the records of all three splits; a split without a file gets whole tables of another split.

    If there is a validation file but no test file, its tables are halved, since the training pairs may have another
    form. Otherwise a fifth of the training tables is test and a tenth of the rest validation, if these are missing.
    """
    splits: Any = {split: list(records) for split, records in records_by_split.items() if records}
    if "train" in splits and "validation" in splits and "test" not in splits:
        validation = splits.pop("validation")
        names = list(dict.fromkeys(record["table_id"] for record in validation))
        order = np.random.default_rng(seed).permutation(len(names))
        validation_names = {names[i] for i in order[: len(names) // 2].tolist()}
        splits["validation"] = [record for record in validation if record["table_id"] in validation_names]
        splits["test"] = [record for record in validation if record["table_id"] not in validation_names]
    elif len(splits) < 3:
        pool = splits.pop("train", None) or splits.pop("validation", None) or splits.pop("test", [])
        names = list(dict.fromkeys(record["table_id"] for record in pool))
        if len(names) < 7:
            raise DataError(f"tabfact: {len(names)} tables are too few to split; give files with 7 or more")
        for split, indices in sampling.divide_records(len(names), seed, splits).items():
            split_names = {names[i] for i in indices}
            splits[split] = splits.get(split) or [record for record in pool if record["table_id"] in split_names]
    return {split: splits[split] for split in sampling.SPLITS}


def shuffle_tables(records: Iterable[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Returns the records table by table, with the tables in random order."""
    records_by_table: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        records_by_table.setdefault(record["table_id"], []).append(record)
    tables = list(records_by_table.values())
    return [record for i in np.random.default_rng(seed).permutation(len(tables)).tolist() for record in tables[i]]


Builder = Tabfact
