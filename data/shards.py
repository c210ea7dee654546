"""Builders whose source is divided into shards, which are read one after the other here, or on many machines.

A part keeps what was read from one shard: an ArrayRecord file of encoded records and remarks. Parts can be made in
any order, on any machine, and again after a crash. The dataset joins them in the order of the shards, so it has the
same bytes as a dataset that was built at once.
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
from .records import encode, report_damage
from .sampling import SPLITS

LEFT_OUT, MENDED = "left out", "mended"
_GROUP = 64  # entries of a part that are packed together
_KINDS = (*SPLITS, LEFT_OUT, MENDED)  # the first byte of an entry in a part is an index of these


class ShardEntry(NamedTuple):
    """A record of a split, or {"id", "reason"} of a record that was skipped, or kept with a fault."""

    kind: str
    record: Mapping[str, Any]


class ShardedBuilder(ArrayRecordBuilder, skip_registration=True):
    """A builder that lists its shards and reads one of them at a time.

    Attributes:
      parts: for each shard, in order, a file of `write_part`; if set, they replace the source.
    """

    parts: Sequence[pathlib.Path] | None = None

    @classmethod
    def shards(cls, options: Mapping[str, Any]) -> list[Any]:
        """Returns the shards of the source in order. Each can be pickled and takes seconds to minutes to read."""
        raise NotImplementedError

    @classmethod
    def read_shard(cls, shard: Any, options: Mapping[str, Any]) -> Iterator[ShardEntry]:
        """Yields the entries of a shard: a pure function of the shard and the options."""
        raise NotImplementedError

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for shard in self.shards(self.options):
            for kind, record in self.read_shard(shard, self.options):
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


def locate_part(folder: pathlib.Path, number: int, shards: int) -> pathlib.Path:
    """Returns the path of a shard's part."""
    return folder / f"part-{number:05d}-of-{shards:05d}"


def write_part(name: str, shard: Any, options: Mapping[str, Any], path: str) -> int:
    """Reads a shard of the dataset `name` and writes its part atomically; returns the number of entries.

    If the part exists, it stays as it is and −1 is returned. Several processes may write the same part.
    """
    from . import find_builder

    target = pathlib.Path(path)
    if target.exists():
        return -1
    cls = find_builder(name)
    assert issubclass(cls, ShardedBuilder)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary_path = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    count = 0
    try:
        writer = ArrayRecordWriter(str(temporary_path), f"group_size:{_GROUP}")
        try:
            for kind, record in cls.read_shard(shard, options):
                writer.write(_encode_entry(kind, record, cls.FIELDS))
                count += 1
        finally:
            writer.close()
        temporary_path.replace(target)
    finally:
        temporary_path.unlink(missing_ok=True)
    return count


def read_part(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Yields (kind, encoded record or JSON of a remark) for each entry of a part.

    Raises:
      DataError: the part is damaged.
    """
    with report_damage(path):
        reader = ArrayRecordReader(str(path))
        count = reader.num_records()
        for start in range(0, count, _GROUP):
            for entry in reader.read(range(start, min(start + _GROUP, count))):
                yield _KINDS[entry[0]], entry[1:]
        reader.close()


def _encode_entry(kind: str, record: Mapping[str, Any], fields: Mapping[str, type]) -> bytes:
    if kind in SPLITS:
        try:
            return bytes([_KINDS.index(kind)]) + encode(record, fields)
        except UnicodeEncodeError:
            kind, record = LEFT_OUT, {"id": record["id"], "reason": NO_CHARACTER}
    return bytes([_KINDS.index(kind)]) + json.dumps(dict(record)).encode()


def group_files(
    paths: Sequence[pathlib.Path], is_single: Callable[[pathlib.Path], bool], size: int
) -> list[tuple[str, ...]]:
    """Groups files into shards: a file with `is_single` alone, neighbours together up to `size` bytes."""
    groups: list[tuple[str, ...]] = []
    group: list[str] = []
    room = size
    for path in paths:
        needed = path.stat().st_size
        if group and (is_single(path) or needed > room):
            groups.append(tuple(group))
            group, room = [], size
        group.append(os.fspath(path))
        room -= needed
        if is_single(path):
            groups.append(tuple(group))
            group, room = [], size
    return [*groups, tuple(group)] if group else groups
