"""Encoded rows in flat columns: a small split or a large corpus, read by the same few gathers.

A column beyond its share of memory goes to an unnamed temporary file and is read through the page cache.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_numeral
from numjax.types import Features, Numeral

MEMORY = 512  # MiB
CHANNEL = "channels/"  # before a channel's name among the columns that are written


class Row(NamedTuple):
    """One encoded example, or one window of it.

    Attributes:
      ids, numeral_index, grammar_state: int32[T], as in `types.Features` (the state before each id).
      numerals: Numeral[N], arrays of the row's numbers.
      surfaces: how they were written.
      loss_from: first id that is scored.
      labels: name → number or array.
      channels: name → int32[T, …].
      source: what an encoder reads, a row of its own; None without one.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    grammar_state: np.ndarray
    numerals: Numeral
    surfaces: tuple[str, ...]
    loss_from: int
    labels: Mapping[str, Any]
    channels: Mapping[str, np.ndarray] = {}
    source: Row | None = None


class Columns(NamedTuple):
    """E rows of S positions and M numerals in all; `rows[i]` is row i.

    Attributes:
      ids, numeral_index, grammar_state: int32[S], row after row.
      channels: name → int32[S, …], row after row.
      starts: int64[E + 1], first position of each row, and at the end S.
      numbers: int32[M] into `numerals`, row after row. number_starts: int64[E + 1].
      numerals: Numeral[U + 1], each number once; the last slot is invalid, so that index −1 reads it.
      surfaces: how each was written, and "" for the last.
      loss_from: int32[E], the first id of the row that is scored.
      labels: name → [E, …].
      offsets: int32[S, 2] as in `Features`, or None. They stay on the host, for those who read predicted positions.
      spilled: whether a column lies in a file.
      source: E rows that an encoder reads, with numerals of their own; None without one.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    grammar_state: np.ndarray
    channels: Mapping[str, np.ndarray]
    starts: np.ndarray
    numbers: np.ndarray
    number_starts: np.ndarray
    numerals: Numeral
    surfaces: tuple[str, ...]
    loss_from: np.ndarray
    labels: Mapping[str, np.ndarray]
    spilled: bool = False
    offsets: np.ndarray | None = None
    source: Columns | None = None

    def row(self, i: int) -> Row:
        """Row i as it was written; negative counts from the end."""
        i = range(len(self.loss_from))[i]
        at, numbers = slice(*self.starts[i : i + 2]), self.numbers[slice(*self.number_starts[i : i + 2])]
        return Row(
            ids=self.ids[at],
            numeral_index=self.numeral_index[at],
            grammar_state=self.grammar_state[at],
            numerals=Numeral(*(x[numbers] for x in self.numerals)),
            surfaces=tuple(self.surfaces[n] for n in numbers),
            loss_from=int(self.loss_from[i]),
            labels={name: column[i] for name, column in self.labels.items()},
            channels={name: values[at] for name, values in self.channels.items()},
            source=None if self.source is None else self.source.row(i),
        )

    def take(self, indices: Sequence[int] | np.ndarray) -> Columns:
        """Only these rows, in this order."""
        at = np.asarray(indices, np.int64)
        sizes, many = np.diff(self.starts)[at], np.diff(self.number_starts)[at]
        positions = ranges(self.starts[at], sizes)
        return self._replace(
            ids=self.ids[positions],
            numeral_index=self.numeral_index[positions],
            grammar_state=self.grammar_state[positions],
            channels={name: values[positions] for name, values in self.channels.items()},
            offsets=None if self.offsets is None else self.offsets[positions],
            starts=_offsets(sizes),
            numbers=self.numbers[ranges(self.number_starts[at], many)],
            number_starts=_offsets(many),
            loss_from=self.loss_from[at],
            labels={name: column[at] for name, column in self.labels.items()},
            spilled=False,
            source=None if self.source is None else self.source.take(at),
        )


class Rows(Sequence[Row]):
    """`Columns` as a sequence of `Row`s, made when asked for."""

    def __init__(self, columns: Columns):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns.loss_from)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self.columns.row(j) for j in range(*i.indices(len(self)))]
        return self.columns.row(int(i))

    def __iter__(self) -> Iterator[Row]:
        return (self.columns.row(i) for i in range(len(self)))


class Writer:
    """Takes encoded rows one by one; `finish` gives the columns.

    Numbers are turned into arrays once each, however often they are written.
    """

    def __init__(self, digits: int, memory: int = MEMORY):
        """
        Args:
          digits: K.
          memory: MiB of positions to hold before they go to a temporary file.
        """
        self._digits, self._memory, self._limit = digits, memory, max(1, (memory << 20) // 3)
        self._source: Writer | None = None
        self._flat: dict[str, _Column] = {}
        self._channels: Collection[str] = ()
        self._index: dict[tuple[str, Any, bool], int] = {}
        self._sizes, self._many, self._loss_from = [], [], []
        self._numbers: list[int] = []
        self._labels: dict[str, list[np.ndarray]] | None = None

    def add(
        self,
        found: Features,
        loss_from: int = 0,
        labels: Mapping[str, Any] | None = None,
        source: Features | None = None,
    ) -> None:
        """Adds one row, with what an encoder reads beside it.

        Raises:
          DataError: its labels or channels differ from those before, or it alone has a source or none.
          UsageError: a temporary file cannot be written.
        """
        if self._sizes and (source is None) != (self._source is None):
            raise DataError("some records have a source for an encoder and others have none")
        self._add_labels({name: _label(name, value) for name, value in (labels or {}).items()})
        if source is not None:
            self._source = self._source or Writer(self._digits, self._memory)
            self._source.add(source)
        columns = {
            "ids": found.ids,
            "numeral_index": found.numeral_index,
            "grammar_state": found.grammar_state[: len(found.ids)],
            "offsets": found.offsets,
        }
        if self._sizes and found.channels.keys() != self._channels:
            raise DataError(
                f"channels {sorted(found.channels)} instead of {sorted(self._channels)} as in those before"
            )
        self._channels = found.channels.keys()
        columns |= {CHANNEL + name: values for name, values in found.channels.items()}
        for name, values in columns.items():
            if values is not None:
                array = np.ascontiguousarray(values, np.int32)
                if name not in self._flat:
                    self._flat[name] = _Column(self._limit, array.shape[1:])
                self._flat[name].append(array)
        for number in found.numbers:
            key = (number.surface, number.value, number.value.is_signed())
            self._numbers.append(self._index.setdefault(key, len(self._index)))
        self._sizes.append(len(found.ids))
        self._many.append(len(found.numbers))
        self._loss_from.append(loss_from)

    def finish(self) -> Columns:
        """All rows added so far."""
        empty = np.zeros(0, np.int32)
        flat = {name: column.finish() for name, column in self._flat.items()}
        source = None if self._source is None else self._source.finish()
        return Columns(
            ids=flat.get("ids", empty),
            numeral_index=flat.get("numeral_index", empty),
            grammar_state=flat.get("grammar_state", empty),
            channels={name.removeprefix(CHANNEL): flat[name] for name in flat if name.startswith(CHANNEL)},
            offsets=flat.get("offsets"),
            starts=_offsets(self._sizes),
            numbers=np.asarray(self._numbers, np.int32),
            number_starts=_offsets(self._many),
            numerals=to_numeral([*(value for _, value, _ in self._index), None], self._digits),
            surfaces=(*(surface for surface, _, _ in self._index), ""),
            loss_from=np.asarray(self._loss_from, np.int32),
            labels={name: np.stack(column) for name, column in (self._labels or {}).items()},
            spilled=any(column.spilled for column in self._flat.values()) or bool(source and source.spilled),
            source=source,
        )

    def _add_labels(self, labels: Mapping[str, np.ndarray]) -> None:
        if self._labels is None:
            self._labels = {name: [] for name in labels}
        if labels.keys() != self._labels.keys():
            raise DataError(f"labels {sorted(labels)} instead of {sorted(self._labels)} as in the first record")
        for name, value in labels.items():
            before = self._labels[name]
            if before and (before[0].shape, before[0].dtype) != (value.shape, value.dtype):
                raise DataError(
                    f"label {name!r} is {value.dtype}{list(value.shape)} instead of "
                    f"{before[0].dtype}{list(before[0].shape)} as in the first record"
                )
        for name, value in labels.items():
            self._labels[name].append(value)


def from_rows(rows: Sequence[Row], digits: int) -> Columns:
    """Columns of rows at hand; their numerals stay as they are, each occurrence by itself."""
    many = [len(row.surfaces) for row in rows]
    names = rows[0].labels if rows else ()
    sources = [row.source for row in rows if row.source is not None]
    blank = to_numeral([None], digits)
    empty = np.zeros(0, np.int32)

    def flat(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts) if parts else empty

    return Columns(
        ids=flat([row.ids for row in rows]),
        numeral_index=flat([row.numeral_index for row in rows]),
        grammar_state=flat([row.grammar_state for row in rows]),
        channels={name: flat([row.channels[name] for row in rows]) for name in (rows[0].channels if rows else ())},
        starts=_offsets([len(row.ids) for row in rows]),
        numbers=np.arange(sum(many), dtype=np.int32),
        number_starts=_offsets(many),
        numerals=Numeral(*(np.concatenate(parts) for parts in zip(*(r.numerals for r in rows), blank, strict=True))),
        surfaces=(*(surface for row in rows for surface in row.surfaces), ""),
        loss_from=np.asarray([row.loss_from for row in rows], np.int32),
        labels={name: np.stack([_label(name, row.labels[name]) for row in rows]) for name in names},
        source=from_rows(sources, digits) if len(sources) == len(rows) > 0 else None,
    )


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """start, start + 1, … for each (start, size), one after the other: int64[sum of sizes]."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


class _Column:
    """int32 values, appended."""

    def __init__(self, limit: int, shape: tuple[int, ...]):
        self._limit, self._shape, self._bytes = limit, shape, 0
        self._file = tempfile.SpooledTemporaryFile(limit)

    @property
    def spilled(self) -> bool:
        return self._bytes > self._limit

    def append(self, values: np.ndarray) -> None:
        self._bytes += values.nbytes
        try:
            self._file.write(values.tobytes())
        except OSError as error:
            raise UsageError(
                f"cannot write encoded data to {tempfile.gettempdir()} ({error.strerror}): "
                "make room, set TMPDIR, or raise data.memory"
            ) from error

    def finish(self) -> np.ndarray:
        if self.spilled:
            self._file.flush()
            buffer: Any = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        else:
            self._file.seek(0)
            buffer = self._file.read()
        return np.frombuffer(buffer, np.int32).reshape(-1, *self._shape)


def _label(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise DataError(f"label {name!r} must be a number or an array of numbers, not {repr(value)[:60]}")
    return array.astype({"b": np.bool_, "f": np.float32}.get(array.dtype.kind, np.int32))


def _offsets(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(sizes, np.int64))])
