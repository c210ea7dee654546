"""Tables with texts about them, without labels: what LUNA pre-trains on."""

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
from numjax.text.document import beginning

from .. import builder_of, load, prepare
from ..builder import ArrayRecordBuilder
from ..records import read_skipped

PASSAGE = CHARACTERS["text"]  # of a piece of running text, as many as the task reads beside a table
SPLITS = ("train", "validation")  # no text of a test split is read, and there is none of this
SOURCES = {"tatqa": {}, "tabfact": {}, "text": {"validation": 0.1, "test": 0.0}}


class TableText(ArrayRecordBuilder):
    """Options: folders `tatqa`, `tabfact` and `text`, each of the dataset of that name; all empty for the stand-ins
    of the first two, of so many `contexts` and `statements` (0: as many as those datasets have, so that their test
    splits stay unread); `size`, at most so many records of each source and split (0: all); `seed` of the splits
    and of the order of tables."""

    VERSION = tfds.core.Version("1.4.0")  # with those of tatqa and tabfact, which it reads
    FIELDS = {"id": str, "source": str, "text": str, "table": str}
    OPTIONS = {"tatqa": "", "tabfact": "", "text": "", "contexts": 0, "statements": 0, "size": 0, "seed": 0}
    KEYS = {"source": ("source",), "table": ("table",), "text": ("text",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        for name in ("contexts", "statements", "size"):
            if options[name] < 0:
                raise UsageError(f"{cls.name}: {name}={options[name]} is negative; 0 takes all")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [file for name, own in _sources(options) for file in builder_of(name).files(own)]

    @classmethod
    def config_name(cls, options: Mapping[str, Any]) -> str:
        """What stands under the folders, not where they are, makes the name, as of every dataset."""
        own = dict(_sources(options))
        named = hashlib.sha256(repr([(name, builder_of(name).config_name(own[name])) for name in own]).encode())
        return f"sources_{named.hexdigest()[:16]}-size_{options['size']}-seed_{options['seed']}"

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, root = self.options["size"], pathlib.Path(self._data_dir_root)
        for name, own in _sources(self.options):
            built = prepare(name, root, strict=self.chosen_config.strict, **own)
            for row in read_skipped(pathlib.Path(built.data_dir)):
                self.skip(f"{name}/{row['id']}", row["reason"])
            for split in SPLITS:
                if split not in built.info.splits:
                    continue
                pairs = READERS[name](load(name, split, root, **own))
                for place, text, table in itertools.islice(pairs, size or None):
                    yield split, {"id": f"{name}/{place}", "source": name, "text": text, "table": table}


def _sources(options: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(dataset, its options) of what is to be read."""
    stand_in = not any(options[name] for name in SOURCES)
    made = {"tatqa": options["contexts"], "tabfact": options["statements"]}
    for name, known in SOURCES.items():
        builder, own = builder_of(name), {**known, "seed": options["seed"]}
        if options[name]:
            yield name, builder.chosen(own | {"path": options[name]})
        elif stand_in and name in made:
            yield name, builder.chosen(own | {"size": made[name]})


def _contexts(records: Any) -> Iterator[tuple[str, str, str]]:
    """Each paragraph and each question with the table beside it."""
    seen = set()
    for record in records:
        if record["context"] not in seen:
            seen.add(record["context"])
            for place, text in enumerate(json.loads(record["paragraphs"])):
                yield f"{record['context']}/{place}", text, record["table"]
        yield record["id"], record["question"], record["table"]


def _statements(records: Any) -> Iterator[tuple[str, str, str]]:
    """Each true statement with its table."""
    for record in records:
        if record["label"] == 1:
            yield record["id"], record["statement"], record["table"]


def _passages(records: Any) -> Iterator[tuple[str, str, str]]:
    """Running text in pieces that end at a blank."""
    for record in records:
        for place, text in enumerate(passages(record["text"])):
            yield f"{record['id']}/{place}", text, "[]"


def passages(text: str, most: int = PASSAGE) -> Iterator[str]:
    """Pieces of at most `most` characters, parted at blanks where there are any."""
    text = text.strip()
    while len(text) > most:
        yield (piece := beginning(text, most))
        text = text[len(piece) :].lstrip()
    if text:
        yield text


READERS = {"tatqa": _contexts, "tabfact": _statements, "text": _passages}
Builder = TableText
