"""Records on disk: flat dicts of str and int as tf.train.Example in ArrayRecord files, without TensorFlow.

tensorflow-datasets writes and reads the same files. Its own code encodes through NumPy, holds up to 1 GB of a
split in memory, needs TensorFlow beyond that, and decodes 6 thousand records a second. This module streams and
decodes ten times as many.
"""

# pyright: reportAttributeAccessIssue=false
# Protocol buffers get their attributes at import.

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from google.protobuf.json_format import ParseError
from google.protobuf.message import DecodeError
from tensorflow_datasets.proto import tf_example_pb2

from numjax.errors import DataError, UsageError

Record = dict[str, Any]

# Files beside the data, one JSON line each: skipped records, kept records with a fault, and remarks for reports.
SKIPPED, MENDED, REMARKS = "skipped.jsonl", "mended.jsonl", "remarks.jsonl"

_CHUNK = 512
_SHARD_BYTES = 256 << 20


def encode(record: Mapping[str, Any], fields: Mapping[str, type]) -> bytes:
    """Returns a record as a serialised tf.train.Example; `fields` gives str or int for each name."""
    example = tf_example_pb2.Example()
    feature = example.features.feature
    for name, kind in fields.items():
        if kind is str:
            feature[name].bytes_list.value.append(record[name].encode())
        else:
            feature[name].int64_list.value.append(int(record[name]))
    return example.SerializeToString(deterministic=True)


def decode(data: bytes, fields: Mapping[str, type]) -> Record:
    """Returns the record of a serialised tf.train.Example; its fields are in the order of `fields`."""
    feature = tf_example_pb2.Example.FromString(data).features.feature
    return {
        name: feature[name].bytes_list.value[0].decode() if kind is str else feature[name].int64_list.value[0]
        for name, kind in fields.items()
    }


@contextlib.contextmanager
def report_damage(folder: pathlib.Path) -> Iterator[None]:
    """Turns the errors of array_record, protobuf and JSON on a damaged built dataset into one DataError.

    Raises:
      DataError: a file in the folder is damaged. The message says to delete the folder.
    """
    try:
        yield
    # array_record raises RuntimeError for a missing file and for a wrong checksum, tensorflow-datasets AssertionError
    # for a wrong version. ValueError has many causes.
    except (RuntimeError, ValueError, LookupError, AssertionError, DecodeError, ParseError) as error:
        if isinstance(error, UsageError | DataError):
            raise
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise DataError(f"{folder} is damaged ({reason}): delete it and run again to rebuild it") from error


def check_shards(folder: pathlib.Path, shards: Mapping[str, int]) -> None:
    """Checks that a built folder holds exactly the files {name: number of records} of its list, all complete.

    Their contents are checked when they are read: each record has a checksum.

    Raises:
      DataError: a file is missing, not on the list or too short.
    """
    names = {path.name for path in folder.glob("*.array_record-*")}
    with report_damage(folder):
        for name in sorted(names | shards.keys()):
            if name not in shards or name not in names:
                raise ValueError(f"{name} is {'not in dataset_info.json' if name in names else 'missing'}")
            reader = ArrayRecordReader(str(folder / name))
            count = reader.num_records()
            reader.close()
            if count != shards[name]:
                raise ValueError(f"{name} has {count} records, not {shards[name]}")


@contextlib.contextmanager
def _raise_os_error() -> Iterator[None]:
    # array_record raises RuntimeError "write() failed: No space left on device; …" when the disk is full.
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error).partition(";")[0]) from error


class SplitWriter:
    """Writes one split record by record, with a new shard every 256 MiB, in constant memory.

    Attributes:
      shard_lengths: records in each shard so far.
      num_bytes: bytes of all records so far.
    """

    def __init__(self, prefix: str):
        self.shard_lengths: list[int] = []
        self.num_bytes = 0
        self._prefix = prefix
        self._room = 0
        self._writer: Any = None

    def write(self, data: bytes) -> None:
        if self._writer is None or self._room < len(data):
            self._close_shard()
            path = f"{self._prefix}.{len(self.shard_lengths)}"
            # Random access reads one record at a time, so each is its own group.
            self._writer = ArrayRecordWriter(path, "group_size:1")
            self._room = _SHARD_BYTES
            self.shard_lengths.append(0)
        with _raise_os_error():
            self._writer.write(data)
        self._room -= len(data)
        self.shard_lengths[-1] += 1
        self.num_bytes += len(data)

    def close(self, names: Sequence[str] | None = None) -> None:
        """Ends the last shard and renames the shards to `names`; without names it only ends the last shard.

        Raises:
          OSError: for example, the disk is full.
        """
        self._close_shard()
        for index, name in enumerate(names or ()):
            pathlib.Path(f"{self._prefix}.{index}").rename(name)

    def _close_shard(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with _raise_os_error():
                writer.close()


class Records(Sequence[Record]):
    """A split on disk as a random-access sequence of dicts. Cheap to pickle; safe to read from threads.

    Attributes:
      fields: name → str or int.
      folder: where the dataset was built.
    """

    def __init__(self, instructions: Sequence[Any], fields: Mapping[str, type], folder: pathlib.Path):
        """Args:
        instructions: `tfds.core.SplitInfo.file_instructions`: files, skip and take.
        fields: name → str or int.
        folder: where the dataset was built.
        """
        self.fields = dict(fields)
        self.folder = folder
        with report_damage(folder):
            self._source = ArrayRecordDataSource(list(instructions))

    @property
    def skipped(self) -> list[dict[str, str]]:
        """The records that the builder skipped, `{"id", "reason"}` each."""
        return read_skipped(self.folder)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        record_index = index.__index__()
        if not -len(self) <= record_index < len(self):
            raise IndexError(f"record {record_index} of {len(self)}")
        with report_damage(self.folder):
            return decode(self._source[record_index % len(self)], self.fields)

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Record]:
        """Returns many records at once, several times faster than one by one. grain calls it too."""
        indexes = [index.__index__() for index in indices]
        with report_damage(self.folder):
            return [decode(data, self.fields) for data in self._source.__getitems__(indexes)] if indexes else []

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), _CHUNK):
            yield from self.__getitems__(range(start, min(start + _CHUNK, len(self))))

    def __repr__(self) -> str:
        return f"Records({str(self.folder)!r}, {len(self)} records of {', '.join(self.fields)})"


def read_notes(folder: pathlib.Path, name: str) -> list[dict[str, str]]:
    """Returns the notes of a folder's builder in `SKIPPED`, `MENDED` or `REMARKS`, `{"id", "reason"}` each."""
    path = folder / name
    if not path.exists():
        return []
    with report_damage(folder):
        notes = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for note in notes:
            if not (isinstance(note, dict) and all(isinstance(note.get(key), str) for key in ("id", "reason"))):
                raise ValueError(f"{name} has a line without id and reason")
        return notes


def read_skipped(folder: pathlib.Path) -> list[dict[str, str]]:
    """Returns the records that the builder of a folder skipped, `{"id", "reason"}` each."""
    return read_notes(folder, SKIPPED)
