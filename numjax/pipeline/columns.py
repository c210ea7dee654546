"""Encoded rows in flat columns, the same for a small split and a large corpus.

A column that exceeds its share of memory goes to an unnamed temporary file and is read through the page cache.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_numeral
from numjax.types import Features, Numeral

MEMORY = 512  # MiB
CHANNEL = "channels/"  # prefix of a channel's name among the writer's columns


class EncodedRow(NamedTuple):
    """One encoded example, or one window of it.

    Attributes:
      ids, numeral_index, grammar_state: int32[T], as in `types.Features` (the state before each id).
      numerals: Numeral[N], arrays of the row's numbers.
      surfaces: their surfaces.
      loss_from: first id that is scored.
      labels: name → number or array.
      channels: name → int32[T, …].
      source: the encoder's input, another row; None without one.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    grammar_state: np.ndarray
    numerals: Numeral
    surfaces: tuple[str, ...]
    loss_from: int
    labels: Mapping[str, Any]
    channels: Mapping[str, np.ndarray] = {}
    source: EncodedRow | None = None


class Columns(NamedTuple):
    """E rows of S positions and M numerals in all; `rows[i]` is row i.

    Attributes:
      ids, numeral_index, grammar_state: int32[S], row after row.
      channels: name → int32[S, …], row after row.
      starts: int64[E + 1], first position of each row, and at the end S.
      numbers: int32[M] into `numerals`, row after row. number_starts: int64[E + 1].
      numerals: Numeral[U + 1], each number once; the last entry, at index −1, is invalid.
      surfaces: the surface of each, and "" for the last.
      loss_from: int32[E], the first id of the row that is scored.
      labels: name → [E, …].
      offsets: int32[S, 2] as in `Features`, or None. They stay on the host, to interpret predicted positions.
      spilled: whether a column is in a file.
      source: the encoder's input, E rows with numerals of their own; None without one.
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

    def row(self, i: int) -> EncodedRow:
        """Row i as it was added; a negative i counts from the end."""
        i = range(len(self.loss_from))[i]
        positions, numbers = slice(*self.starts[i : i + 2]), self.numbers[slice(*self.number_starts[i : i + 2])]
        return EncodedRow(
            ids=self.ids[positions],
            numeral_index=self.numeral_index[positions],
            grammar_state=self.grammar_state[positions],
            numerals=Numeral(*(x[numbers] for x in self.numerals)),
            surfaces=tuple(self.surfaces[n] for n in numbers),
            loss_from=int(self.loss_from[i]),
            labels={name: column[i] for name, column in self.labels.items()},
            channels={name: values[positions] for name, values in self.channels.items()},
            source=None if self.source is None else self.source.row(i),
        )

    def take(self, indices: Sequence[int] | np.ndarray) -> Columns:
        """The columns of only these rows, in this order."""
        rows = np.asarray(indices, np.int64)
        sizes, n_numbers = np.diff(self.starts)[rows], np.diff(self.number_starts)[rows]
        positions = ranges(self.starts[rows], sizes)
        return self._replace(
            ids=self.ids[positions],
            numeral_index=self.numeral_index[positions],
            grammar_state=self.grammar_state[positions],
            channels={name: values[positions] for name, values in self.channels.items()},
            offsets=None if self.offsets is None else self.offsets[positions],
            starts=_cumulate(sizes),
            numbers=self.numbers[ranges(self.number_starts[rows], n_numbers)],
            number_starts=_cumulate(n_numbers),
            loss_from=self.loss_from[rows],
            labels={name: column[rows] for name, column in self.labels.items()},
            spilled=False,
            source=None if self.source is None else self.source.take(rows),
        )


class EncodedRows(Sequence[EncodedRow]):
    """`Columns` as a sequence of `EncodedRow`s, each built when it is accessed."""

    def __init__(self, columns: Columns):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns.loss_from)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self.columns.row(j) for j in range(*i.indices(len(self)))]
        return self.columns.row(int(i))

    def __iter__(self) -> Iterator[EncodedRow]:
        return (self.columns.row(i) for i in range(len(self)))


class ColumnsWriter:
    """Collects encoded rows one by one; `finish` returns the columns.

    Each distinct number is converted to arrays once.
    """

    def __init__(self, digits: int, memory: int = MEMORY):
        """
        Args:
          digits: K.
          memory: MiB of positions to keep in memory before they go to a temporary file.
        """
        self._digits, self._memory, self._limit = digits, memory, max(1, (memory << 20) // 3)
        self._source: ColumnsWriter | None = None
        self._flat: dict[str, _Column] = {}
        self._index: dict[tuple[str, Any, bool], int] = {}
        self._sizes, self._n_numbers, self._loss_from = [], [], []
        self._numbers: list[int] = []
        self._labels: dict[str, list[np.ndarray]] = {}

    def add(
        self,
        features: Features,
        loss_from: int = 0,
        labels: Mapping[str, Any] | None = None,
        source: Features | None = None,
    ) -> None:
        """Adds one row, with the encoder's input for it.

        Raises:
          DataError: its labels or channels differ from those of earlier rows, or it has a source and they have none,
            or the reverse.
          UsageError: a temporary file cannot be written.
        """
        if self._sizes and (source is None) != (self._source is None):
            raise DataError("some records have a source for an encoder and others have none")
        arrays = _list_arrays(features)
        named_labels = {name: _label(name, value) for name, value in (labels or {}).items()}
        # A refused row leaves nothing behind: all checks come before the first array is kept.
        self._check_arrays(arrays)
        self._check_labels(named_labels)
        if source is not None:
            self._source = self._source or ColumnsWriter(self._digits, self._memory)
            self._source.add(source)
        for name, array in arrays.items():
            if name not in self._flat:
                self._flat[name] = _Column(self._limit, array.shape[1:])
            self._flat[name].append(array)
        for name, value in named_labels.items():
            self._labels.setdefault(name, []).append(value)
        for number in features.numbers:
            key = (number.surface, number.value, number.value.is_signed())
            self._numbers.append(self._index.setdefault(key, len(self._index)))
        self._sizes.append(len(features.ids))
        self._n_numbers.append(len(features.numbers))
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
            starts=_cumulate(self._sizes),
            numbers=np.asarray(self._numbers, np.int32),
            number_starts=_cumulate(self._n_numbers),
            numerals=to_numeral([*(value for _, value, _ in self._index), None], self._digits),
            surfaces=(*(surface for surface, _, _ in self._index), ""),
            loss_from=np.asarray(self._loss_from, np.int32),
            labels={name: np.stack(column) for name, column in self._labels.items()},
            spilled=any(column.spilled for column in self._flat.values()) or bool(source and source.spilled),
            source=source,
        )

    def _check_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        if not self._sizes:
            return
        if arrays.keys() != self._flat.keys():
            names = ", ".join(sorted(name.removeprefix(CHANNEL) for name in arrays.keys() ^ self._flat.keys()))
            raise DataError(
                f"{names}: of this record and the first, only one has numbers of this name at each position"
            )
        for name, array in arrays.items():
            if array.shape[1:] != self._flat[name].shape:
                width, first_width = (int(np.prod(shape)) for shape in (array.shape[1:], self._flat[name].shape))
                raise DataError(
                    f"{name.removeprefix(CHANNEL)}: {width} numbers at each position instead of {first_width} as in "
                    "the first record"
                )

    def _check_labels(self, labels: Mapping[str, np.ndarray]) -> None:
        if self._sizes and labels.keys() != self._labels.keys():
            raise DataError(f"labels {sorted(labels)} instead of {sorted(self._labels)} as in the first record")
        for name, value in labels.items():
            previous = self._labels.get(name)
            if previous and (previous[0].shape, previous[0].dtype) != (value.shape, value.dtype):
                raise DataError(
                    f"label {name!r} is {value.dtype}{list(value.shape)} instead of "
                    f"{previous[0].dtype}{list(previous[0].shape)} as in the first record"
                )


def from_rows(rows: Sequence[EncodedRow], digits: int) -> Columns:
    """The columns of these rows; each occurrence of a numeral stays a separate entry."""
    n_numbers = [len(row.surfaces) for row in rows]
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
        starts=_cumulate([len(row.ids) for row in rows]),
        numbers=np.arange(sum(n_numbers), dtype=np.int32),
        number_starts=_cumulate(n_numbers),
        numerals=Numeral(*(np.concatenate(parts) for parts in zip(*(r.numerals for r in rows), blank, strict=True))),
        surfaces=(*(surface for row in rows for surface in row.surfaces), ""),
        loss_from=np.asarray([row.loss_from for row in rows], np.int32),
        labels={name: np.stack([_label(name, row.labels[name]) for row in rows]) for name in names},
        source=from_rows(sources, digits) if len(sources) == len(rows) > 0 else None,
    )


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The integers start, start + 1, … of each (start, size), concatenated: int64[sum of sizes]."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


class _Column:
    """A growing array of int32 values; `shape` is that of one position's."""

    def __init__(self, limit: int, shape: tuple[int, ...]):
        self._limit, self.shape, self._bytes = limit, shape, 0
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
        return np.frombuffer(buffer, np.int32).reshape(-1, *self.shape)


def _list_arrays(features: Features) -> dict[str, np.ndarray]:
    """The arrays of a row with an entry a position, by the names of their columns."""
    arrays = {
        "ids": features.ids,
        "numeral_index": features.numeral_index,
        "grammar_state": features.grammar_state[: len(features.ids)],
        "offsets": features.offsets,
    }
    arrays |= {CHANNEL + name: values for name, values in features.channels.items()}
    return {name: np.ascontiguousarray(x, np.int32) for name, x in arrays.items() if x is not None}


def _label(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise DataError(f"label {name!r} must be a number or an array of numbers, not {repr(value)[:60]}")
    return array.astype({"b": np.bool_, "f": np.float32}.get(array.dtype.kind, np.int32))


def _cumulate(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(sizes, np.int64))])
