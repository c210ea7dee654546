"""Builder of TAT-QA: questions about a table and its paragraphs, with derivations (Zhu et al. 2021)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError
from numjax.tasks.tatqa import records as tatqa_records

from ..builder import ArrayRecordBuilder
from ..files import read_json
from ..folds import check_optional_fold, split_by_fold
from ..sampling import VALIDATION_SHARE
from ..tables import questions as tables
from ..tables.options import check_tables
from .generate import make_contexts

STAND_IN_CONTEXTS = 480
MANY_SIZES = {"train": 4000, "validation": 150, "test": 150}  # contexts of many layouts
HELD_SHARE = 0.1  # of contexts, for validation and also for test, if there is only one kind of file

_NAMES = re.compile(r"(?:^|[/_.-])(train|dev|test)(?:[/_.-]|$)")


class Tatqa(ArrayRecordBuilder):
    """Options: `path` of a file or a folder of files, or empty for the stand-in; `size`, at most so many contexts of
    each file (0: all; of the stand-in 480, or 4,000 for training with many layouts); `seed` of splits and stand-in;
    `tables` of the stand-in: "few" (like TAT-QA's), or "many" (../tables); `wordings` of the latter: "apart" (each
    split has its own), or "seen" (all splits use those of training); `fold` of `folds` that is test (folds=0: the
    files' own splits)."""

    VERSION = tfds.core.Version("1.2.0")  # with the cells of the evidence
    MADE_VERSION = tfds.core.Version("1.3.0")  # 1.3: "the year before" is; scales are those of all
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
    OPTIONS = {"path": "", "size": 0, "seed": 0, "tables": "few", "wordings": "apart", "fold": 0, "folds": 0}
    UNNAMED = {"fold": 0, "folds": 0}
    KEYS = {"context": ("context",), "question": ("question", "context"), "answer_type": ("answer_type",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_tables(cls.name, options)
        check_optional_fold(cls.name, options)
        if options["folds"] and options["tables"] == "many":
            raise UsageError(f"{cls.name}: tables=many has splits with wordings of their own: set folds=0")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return find_files(options["path"]) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        files = self.files(self.options)
        records_by_kind: dict[str, list[dict[str, Any]]] = {"train": [], "dev": [], "test": []}
        if not files and self.options["tables"] == "many":
            for split, limit in MANY_SIZES.items():
                count = min(limit, max(1, size // 10)) if size and split != "train" else size or limit
                contexts = list(tables.make_contexts(count, seed, split, self.options["wordings"]))
                yield from ((split, record) for record in self._parse_records(contexts, "tables", 0))
            return
        if files:
            for path in files:
                records_by_kind[find_kind(path)] += self._parse_records(read_json(path), str(path), size)
            records_by_kind = self._drop_duplicates(records_by_kind)
        else:
            records_by_kind["train"] = self._parse_records(
                make_contexts(size or STAND_IN_CONTEXTS, seed), "stand-in", 0
            )
        for split, records in self._divide(records_by_kind).items():
            yield from ((split, record) for record in records)

    def _divide(self, records_by_kind: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Returns the records by split: the fold's, of all files together, or those of `divide_contexts`."""
        fold, folds, seed = (self.options[name] for name in ("fold", "folds", "seed"))
        if not folds:
            return divide_contexts(records_by_kind, seed)
        records = [record for kind in ("train", "dev", "test") for record in records_by_kind[kind]]
        contexts = [record["context"] for record in records]
        if (count := len(set(contexts))) < folds:
            raise DataError(f"{self.name}: {count} contexts are too few for {folds} folds")
        indices = split_by_fold(len(records), fold, folds, seed, groups=contexts)
        return {split: [records[i] for i in split_indices] for split, split_indices in indices.items()}

    def _drop_duplicates(
        self, records_by_kind: Mapping[str, list[dict[str, Any]]]
    ) -> dict[str, list[dict[str, Any]]]:
        """Returns the records without questions of another file, without contexts of test files in dev files, and
        without contexts of either in training files."""
        unique_records: dict[str, list[dict[str, Any]]] = {}
        ids: set[str] = set()
        contexts: set[str] = set()
        for kind in ("test", "dev", "train"):
            unique_records[kind] = []
            for record in records_by_kind[kind]:
                if record["id"] in ids:
                    self.skip(record["id"], "a question of another file has the same uid")
                elif record["context"] in contexts:
                    self.skip(record["id"], "its context stands in a dev or test file too")
                else:
                    ids.add(record["id"])
                    unique_records[kind].append(record)
            contexts |= {record["context"] for record in unique_records[kind]}
        return unique_records

    def _parse_records(self, contexts: Any, name: str, size: int) -> list[dict[str, Any]]:
        """Returns the records of a file's contexts; notes mended tables and skips bad records."""
        if size and isinstance(contexts, list):
            contexts = contexts[:size]
        for index, context in enumerate(contexts if isinstance(contexts, list) else ()):
            table = context.get("table") if isinstance(context, Mapping) else None
            if isinstance(table, Mapping) and (fault := tatqa_records.describe_ragged(table.get("table"))):
                self.mend(str(table.get("uid", f"context-{index}")), fault)
        records: list[dict[str, Any]] = []
        for uid, record in tatqa_records.from_contexts(contexts, name):
            if isinstance(record, ValueError):
                self.skip(uid, str(record))
            else:
                records.append(record)
        return records


def find_files(path: str) -> list[pathlib.Path]:
    """Returns `path` itself, or the files of a folder whose names contain train, dev or test.

    Raises:
      DataError: there are no such files.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if root.is_file():
        return [root]
    candidates = [file for ending in ("*.json", "*.json.gz") for file in root.glob(ending) if file.is_file()]
    files = sorted(file for file in candidates if _NAMES.search(file.name.lower()))
    if not files:
        raise DataError(f"{root}: no file there has train, dev or test in its name; set path to TAT-QA's files")
    return files


def find_kind(path: pathlib.Path) -> str:
    """Returns "train", "dev" or "test" by a file's name; "train" if the name has none of them."""
    match = _NAMES.search(path.name.lower())
    return match[1] if match else "train"


def divide_contexts(
    records_by_kind: Mapping[str, Sequence[dict[str, Any]]], seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Returns the records by split; no context is in two splits.

    With train and test files, the development file is for validation. Without a test file, the development file is
    for test, and a tenth of the training contexts is for validation. With only a development and a test file, the
    former is for training and validation. One kind of file alone is divided 8 : 1 : 1.

    Raises:
      DataError: there are too few contexts.
    """
    train, dev, test = (list(records_by_kind[kind]) for kind in ("train", "dev", "test"))
    if train and dev and test:
        return {"train": train, "validation": dev, "test": test}
    # Divide the first kind of file that exists, so that a test file is divided only if it is the only one.
    pool = train or dev or test
    test = (test or dev) if train else (test if dev else [])
    names = list(dict.fromkeys(record["context"] for record in pool))
    if len(names) < 3:
        raise DataError(f"tatqa: {len(names)} contexts are too few to divide; give files with 3 or more")
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    count = max(1, round(len(names) * (VALIDATION_SHARE if test else HELD_SHARE)))
    split_of = dict.fromkeys(order[:count], "validation")
    if not test:
        split_of |= dict.fromkeys(order[count : 2 * count], "test")
    records_by_split: dict[str, list[dict[str, Any]]] = {"train": [], "validation": [], "test": test}
    for record in pool:
        records_by_split[split_of.get(record["context"], "train")].append(record)
    return records_by_split


Builder = Tatqa
