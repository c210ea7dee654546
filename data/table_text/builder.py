"""Builder of tables with texts about them, without labels: LUNA's pre-training data."""

from __future__ import annotations

import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import UsageError
from numjax.tasks.table_text import CHARACTERS
from numjax.text.document.segments import take_beginning

from .. import find_builder, load, prepare
from ..builder import ArrayRecordBuilder
from ..folds import check_optional_fold
from ..records import read_skipped

PASSAGE = CHARACTERS["text"]  # characters of a passage, as many as the task reads beside a table
SPLITS = ("train", "validation")  # test splits of the sources are not read, and this dataset has none
SOURCES = {"tatqa": {}, "tabfact": {}, "text": {"validation": 0.1, "test": 0.0}}


class TableText(ArrayRecordBuilder):
    """Options: folders `tatqa`, `tabfact` and `text`, each of the dataset of that name. If all are empty, the
    stand-ins of the first two are used, of so many `contexts` and `statements` (0: as many as those datasets have, so
    that their test splits stay unread). `size`, at most so many records of each source and split (0: all); `seed` of
    the splits and of the order of tables; `fold` of `folds` of TAT-QA that stays unread (folds=0: its test split)."""

    VERSION = tfds.core.Version("1.4.0")  # changes with the versions of tatqa and tabfact, which it reads
    FIELDS = {"id": str, "source": str, "text": str, "table": str}
    OPTIONS = {"tatqa": "", "tabfact": "", "text": "", "contexts": 0, "statements": 0, "size": 0, "seed": 0}
    OPTIONS |= {"fold": 0, "folds": 0}
    PATHS = tuple(SOURCES)
    KEYS = {"source": ("source",), "table": ("table",), "text": ("text",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        for name in ("contexts", "statements", "size"):
            if options[name] < 0:
                raise UsageError(f"{cls.name}: {name}={options[name]} is negative; 0 takes all")
        check_optional_fold(cls.name, options)
        if options["folds"] and "tatqa" not in dict(_list_sources(options)):
            raise UsageError(f"{cls.name}: folds={options['folds']} are TAT-QA's: give tatqa=FOLDER too")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [
            file
            for name, source_options in _list_sources(options)
            for file in find_builder(name).files(source_options)
        ]

    @classmethod
    def config_name(cls, options: Mapping[str, Any]) -> str:
        """Returns a name that depends on the contents of the folders, not on their paths, as for every dataset."""
        source_options = dict(_list_sources(options))
        digest = hashlib.sha256(
            repr([(name, find_builder(name).config_name(source_options[name])) for name in source_options]).encode()
        )
        return f"sources_{digest.hexdigest()[:16]}-size_{options['size']}-seed_{options['seed']}"

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, root = self.options["size"], pathlib.Path(self._data_dir_root)
        for name, source_options in _list_sources(self.options):
            builder = prepare(name, root, strict=self.chosen_config.strict, **source_options)
            for row in read_skipped(pathlib.Path(builder.data_dir)):
                self.skip(f"{name}/{row['id']}", row["reason"])
            for split in SPLITS:
                if split not in builder.info.splits:
                    continue
                pairs = READERS[name](load(name, split, root, **source_options))
                for record_id, text, table in itertools.islice(pairs, size or None):
                    yield split, {"id": f"{name}/{record_id}", "source": name, "text": text, "table": table}


def _list_sources(options: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (dataset, its options) for each source."""
    stand_in = not any(options[name] for name in SOURCES)
    sizes = {"tatqa": options["contexts"], "tabfact": options["statements"]}
    for name, defaults in SOURCES.items():
        builder, source_options = find_builder(name), {**defaults, "seed": options["seed"]}
        if name == "tatqa":
            source_options |= {key: options[key] for key in ("fold", "folds")}
        if options[name]:
            yield name, builder.complete_options(source_options | {"path": options[name]})
        elif stand_in and name in sizes:
            yield name, builder.complete_options(source_options | {"size": sizes[name]})


def _read_contexts(records: Any) -> Iterator[tuple[str, str, str]]:
    """Yields each paragraph and each question with its table: (id, text, table)."""
    contexts = set()
    for record in records:
        if record["context"] not in contexts:
            contexts.add(record["context"])
            for index, text in enumerate(json.loads(record["paragraphs"])):
                yield f"{record['context']}/{index}", text, record["table"]
        yield record["id"], record["question"], record["table"]


def _read_statements(records: Any) -> Iterator[tuple[str, str, str]]:
    """Yields each true statement with its table: (id, text, table)."""
    for record in records:
        if record["label"] == 1:
            yield record["id"], record["statement"], record["table"]


def _read_passages(records: Any) -> Iterator[tuple[str, str, str]]:
    """Yields running text in passages without a table: (id, text, table)."""
    for record in records:
        for index, text in enumerate(split_passages(record["text"])):
            yield f"{record['id']}/{index}", text, "[]"


def split_passages(text: str, longest: int = PASSAGE) -> Iterator[str]:
    """Yields passages of at most `longest` characters, divided at blanks if there are any."""
    text = text.strip()
    while len(text) > longest:
        yield (piece := take_beginning(text, longest))
        text = text[len(piece) :].lstrip()
    if text:
        yield text


READERS = {"tatqa": _read_contexts, "tabfact": _read_statements, "text": _read_passages}
Builder = TableText
