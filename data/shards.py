"""Builders whose source falls into shards, read by themselves: one after the other here, or on many machines.

What is read of a shard can be kept in a part: one ArrayRecord file of records, ready to be written, and remarks.
Parts are made in any order, anywhere, again after a crash; the dataset is put together from them in the order of the
shards, so it is the same to the byte as one built in one go.
"""

from __future__ import annotations

import json
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from .builder import NO_CHARACTER, ArrayRecordBuilder
from .records import encode, whole
from .sampling import SPLITS

LEFT_OUT, MENDED = "left out", "mended"
_GROUP = 64  # entries of a part that are packed together
_KINDS = (*SPLITS, LEFT_OUT, MENDED)  # their order is that of the first byte of a part's entries


class Made(NamedTuple):
    """A record of a split, or {"id", "reason"} of one that is left out, or kept with something amiss."""

    kind: str
    record: Mapping[str, Any]


class ShardedBuilder(ArrayRecordBuilder, skip_registration=True):
    """A builder that states its shards and reads one of them at a time.

    Attributes:
      parts: a file of `write_part` for each shard, in order, to build from instead of from the source.
    """

    parts: Sequence[pathlib.Path] | None = None

    @classmethod
    def shards(cls, options: Mapping[str, Any]) -> list[Any]:
        """What the source falls into, in order; each can be pickled and takes seconds to minutes to read."""
        raise NotImplementedError

    @classmethod
    def read(cls, shard: Any, options: Mapping[str, Any]) -> Iterator[Made]:
        """What is in a shard: a pure function of the shard and the options."""
        raise NotImplementedError

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for shard in self.shards(self.options):
            for kind, record in self.read(shard, self.options):
                if kind in SPLITS:
                    yield kind, dict(record)
                else:
                    self._remark(kind, record)

    def _encoded_examples(self) -> Iterator[tuple[str, bytes]]:
        if self.parts is None:
            yield from super()._encoded_examples()
            return
        for part in self.parts:
            for kind, data in read_part(part):
                if kind in SPLITS:
                    yield kind, data
                else:
                    self._remark(kind, json.loads(data))

    def _remark(self, kind: str, record: Mapping[str, Any]) -> None:
        (self.skip if kind == LEFT_OUT else self.mend)(record["id"], record["reason"])


def part_of(folder: pathlib.Path, number: int, shards: int) -> pathlib.Path:
    """Where the part of a shard is kept."""
    return folder / f"part-{number:05d}-of-{shards:05d}"


def write_part(name: str, shard: Any, options: Mapping[str, Any], path: str) -> int:
    """Reads a shard of the dataset `name` into a part, which is there whole or not at all; returns its entries.

    One that is there already is left as it is (−1). Several processes may write the same one.
    """
    from . import builder_of

    target = pathlib.Path(path)
    if target.exists():
        return -1
    cls = builder_of(name)
    assert issubclass(cls, ShardedBuilder)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    count = 0
    try:
        writer = ArrayRecordWriter(str(fresh), f"group_size:{_GROUP}")
        try:
            for kind, record in cls.read(shard, options):
                writer.write(_entry(kind, record, cls.FIELDS))
                count += 1
        finally:
            writer.close()
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    return count


def read_part(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """(kind, encoded record or JSON of a remark) of each entry of a part.

    Raises:
      DataError: it is damaged.
    """
    with whole(path):
        reader = ArrayRecordReader(str(path))
        count = reader.num_records()
        for start in range(0, count, _GROUP):
            for entry in reader.read(range(start, min(start + _GROUP, count))):
                yield _KINDS[entry[0]], entry[1:]
        reader.close()


def _entry(kind: str, record: Mapping[str, Any], fields: Mapping[str, type]) -> bytes:
    if kind in SPLITS:
        try:
            return bytes([_KINDS.index(kind)]) + encode(record, fields)
        except UnicodeEncodeError:
            kind, record = LEFT_OUT, {"id": record["id"], "reason": NO_CHARACTER}
    return bytes([_KINDS.index(kind)]) + json.dumps(dict(record)).encode()


def grouped(paths: Sequence[pathlib.Path], alone: Callable[[pathlib.Path], bool], size: int) -> list[tuple[str, ...]]:
    """Files in shards: those that `alone` says by themselves, neighbouring others together up to `size` bytes."""
    out: list[tuple[str, ...]] = []
    open_: list[str] = []
    room = size
    for path in paths:
        needed = path.stat().st_size
        if open_ and (alone(path) or needed > room):
            out.append(tuple(open_))
            open_, room = [], size
        open_.append(os.fspath(path))
        room -= needed
        if alone(path):
            out.append(tuple(open_))
            open_, room = [], size
    return [*out, tuple(open_)] if open_ else out
