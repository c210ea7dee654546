"""Records, encoded once: what a task reads and a scheme makes of it.

A record that cannot be used is left out, counted and named; nothing else stops.
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_numeral
from numjax.pipeline import masking, windows
from numjax.pipeline.columns import MEMORY, Columns, Row, Rows, Writer
from numjax.protocols import Producer, Scheme, Task
from numjax.text import grammar as grammars
from numjax.types import Channel, Example, Features, Grammar

__all__ = ["OVERFLOWS", "Encoded", "Row", "cut", "encode", "from_features"]

INPUT = "input"  # the split of records that come without answers
OVERFLOWS = ("skip", "truncate", "split", "shorten", "windows")
STRIDE = 128


class Encoded:
    """A split as encoded rows: one an example, or one a window of a text that was split.

    Attributes:
      kind: the task's kind.
      rows: a sequence of `Row`s. columns: the same, flat.
      lengths, numbers: int32[E], positions and numerals of each row in a batch. source: those of what an encoder
        reads, None without one.
      packed: whether several rows may share one row of a batch.
      skipped: {"id", "reason", "split"} of each record left out.
      shortened: of each record that is not read whole, by its number: (id, what is not read).
      origin: int64[E], number of the record that each row comes from.
      masking: how to mask, where the task is of kind "masked".
      pad_id: the id that fills rows up. start_state: the grammar's, for the same positions.
      declared: the channels that are known of, by name.
    """

    def __init__(
        self,
        kind: str,
        columns: Columns,
        look_up: Callable[[int], Example] | None,
        skipped: Sequence[dict[str, str]] = (),
        packed: bool = False,
        pad_id: int = 0,
        start_state: int = 0,
        shortened: Mapping[int, tuple[str, str]] | None = None,
        origin: np.ndarray | None = None,
        masking: masking.Masking | None = None,
        declared: Mapping[str, Channel] | None = None,
    ):
        self.declared = dict(declared or {})
        self.shortened = dict(shortened or {})
        self.origin = np.arange(len(columns.loss_from)) if origin is None else origin
        self.kind, self.columns, self.skipped, self.packed = kind, columns, list(skipped), packed
        self.pad_id, self.start_state, self.masking = pad_id, start_state, masking
        self.rows = Rows(columns)
        # A row of a language model reads all ids but the last.
        self.lengths = (np.diff(columns.starts) - (kind == "language_model")).astype(np.int32)
        self.numbers = np.diff(columns.number_starts).astype(np.int32)
        self.source: Encoded | None = None
        if columns.source is not None:
            self.source = Encoded(
                "source", columns.source, None, pad_id=pad_id, start_state=start_state, declared=declared
            )
        self._look_up = look_up

    def __len__(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that change when an id, a numeral, a label, a channel or the order of the rows
        does."""
        columns = self.columns
        parts = [columns.starts, columns.ids, columns.numeral_index, columns.numbers, columns.loss_from]
        parts += [*columns.numerals]
        parts += [named[name] for named in (columns.labels, columns.channels) for name in sorted(named)]
        seen = 0 if self.source is None else int(self.source.fingerprint, 16)
        for part in parts:
            flat: Any = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            seen = zlib.crc32(flat, seen)
        return f"{seen:08x}"

    def example(self, i: int) -> Example:
        """What the task made of the record that row i comes from: its id, document and reference.

        It is read again from the record, so that references take no memory.
        """
        if self._look_up is None:
            raise UsageError("these rows were encoded elsewhere: their records are not at hand")
        return self._look_up(i)

    def unread(self, i: int) -> dict[str, str]:
        """{"shortened": what of the record of row i is not read}, empty where it is read whole."""
        _, lost = self.shortened.get(int(self.origin[i]), ("", ""))
        return {"shortened": lost} if lost else {}

    def subset(self, indices: Iterable[int]) -> Encoded:
        """Only these rows, in this order."""
        at = list(indices)
        look_up = self._look_up
        return Encoded(
            self.kind,
            self.columns.take(at),
            None if look_up is None else lambda i: look_up(at[i]),
            packed=self.packed,
            pad_id=self.pad_id,
            start_state=self.start_state,
            shortened=self.shortened,
            origin=self.origin[at],
            masking=self.masking,
            declared=self.declared,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Reader processes need the arrays, not the records, the task and the scheme behind them.
        return self.__dict__ | {"_look_up": None, "shortened": {}}


def encode(
    task: Task,
    scheme: Scheme,
    records: Sequence[Mapping[str, Any]],
    options: Any,
    split: str,
    strict: bool = False,
    limit: int = 0,
    producers: Sequence[Producer] = (),
) -> Encoded:
    """Encodes a split.

    Args:
      options: the config's data block: `length` (positions), `overflow` ("skip", "truncate" or "split" what is
        longer, "shorten" its prompt by what the task can spare, or read what the task lets slide in "windows"),
        `digits` (K), `pack`, and optionally `memory` (MiB before positions go to a temporary file), `reserve`
        (positions that a shortened prompt leaves for what follows it), `stride` (positions from one window to the
        next), `source_length` (positions of what an encoder reads, else `length`) and `masking` (see `masking.make`;
        kind "masked" needs it).
      split: its name, for `skipped`; under "input" records may lack the task's `unanswered` fields.
      strict: raise at the first record that cannot be used.
      limit: read only the first so many records (0: all).
      producers: what makes channels beside the scheme's and the task's.

    Raises:
      DataError: under `strict`, a record that cannot be used.
      UsageError: options that do not go together.
    """
    if options.overflow not in OVERFLOWS:
        raise UsageError(f"data.overflow must be one of {', '.join(OVERFLOWS)}, not {options.overflow!r}")
    shifted = task.kind == "language_model"
    if options.overflow == "split" and not shifted:
        raise UsageError("only language models can split a text: set data.overflow to skip or truncate")
    reserve = options.get("reserve", 0)
    if options.overflow == "shorten" and not shifted <= reserve < options.length:
        raise UsageError(f"data.overflow=shorten wants data.reserve from 1 to data.length, not {reserve}")
    # Records to predict may lack what is to be predicted.
    known: Mapping[str, Any] = task.unanswered if split == INPUT else {}

    def read(record: Mapping[str, Any]) -> Example:
        try:
            return task.example({**known, **record}, scheme.parse)
        except (UsageError, KeyError):
            raise
        except ValueError as error:
            # What is to be predicted may be wrong; what is wrong elsewhere still raises.
            for name in () if strict else filter(record.__contains__, known):
                with contextlib.suppress(ValueError):
                    example = task.example({**known, **record, name: known[name]}, scheme.parse)
                    return example._replace(unread=f"field {name!r}, since {' '.join(str(error).split())}")
            raise

    writer = Writer(options.digits, options.get("memory", MEMORY))
    origin, skipped = [], []
    shortened: dict[int, tuple[str, str]] = {}
    for number, record in enumerate(records):
        if limit and number >= limit:
            break
        record = _named(record, number, split)
        name = record["id"]
        try:
            example = read(record)
            source, beside = (None, "") if example.source is None else _source(example, scheme, options, producers)
            made, lost, unread = _windows(example, scheme, options, task.kind, source, producers)
            if lost and strict:
                raise DataError(lost)
            for found, loss_from in made:
                writer.add(found, loss_from, {**example.labels, **windows.placed(example, found)}, source)
        except UsageError:
            raise
        except (ValueError, KeyError) as error:
            reason = f"there is no field {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            reason = reason or type(error).__name__
            if strict:
                raise DataError(f"record {name} of {split}: {reason}") from error
            skipped.append({"id": name, "split": split, "reason": reason})
            continue
        if lost:
            skipped.append({"id": name, "split": split, "reason": lost})
        origin += [number] * len(made)
        if unread := ", ".join(filter(None, (example.unread, unread, beside))):
            shortened[number] = name, unread
    origin = np.asarray(origin, np.int64)

    def look_up(i: int) -> Example:
        number = int(origin[i])
        return read(_named(records[number], number, split))

    return Encoded(
        task.kind,
        writer.finish(),
        look_up,
        skipped,
        packed=bool(options.pack) and shifted,
        pad_id=scheme.vocab.mark("[PAD]"),
        start_state=int(scheme.grammar().start),
        shortened=shortened,
        origin=origin,
        masking=masking.make(options.masking, scheme) if task.kind == "masked" else None,
        declared=declared(scheme, task, producers),
    )


def declared(scheme: Scheme, task: Task, producers: Sequence[Producer] = ()) -> dict[str, Channel]:
    """The channels that a scheme, a task and producers give, by name."""
    found = (*scheme.channels, *task.channels, *(producer.channel for producer in producers))
    return {channel.name: channel for channel in found}


def produced(found: Features, producers: Sequence[Producer]) -> Features:
    """A whole document with the channels that producers make of its ids."""
    more = {one.channel.name: np.asarray(one.of(found.ids), np.int32) for one in producers}
    return found._replace(channels={**found.channels, **more}) if more else found


def balanced(encoded: Encoded, label: str, seed: int) -> Encoded:
    """The same rows, with those of rarer classes repeated until every class has as many as the most frequent one.

    Each is repeated equally often, but for a seeded choice of those that come once more.

    Raises:
      UsageError: the rows have no such label.
    """
    if label not in encoded.columns.labels:
        raise UsageError(
            f"data.balance={label!r}: the task's labels are {', '.join(encoded.columns.labels) or 'none'}"
        )
    of = encoded.columns.labels[label]
    classes, counts = np.unique(of, return_counts=True)
    most, rng, more = int(counts.max(initial=0)), np.random.default_rng(seed), []
    for one, count in zip(classes, counts, strict=True):
        at = np.flatnonzero(of == one)
        times, rest = divmod(most, int(count))
        more += [np.tile(at, times), rng.permutation(at)[:rest]]
    return encoded.subset(np.concatenate([*more, np.zeros(0, np.int64)]).tolist())


def from_features(found: Features, digits: int, loss_from: int = 0, labels: Mapping[str, Any] | None = None) -> Row:
    """A row of one encoded document."""
    return Row(
        ids=np.asarray(found.ids, np.int32),
        numeral_index=np.asarray(found.numeral_index, np.int32),
        grammar_state=np.asarray(found.grammar_state[: len(found.ids)], np.int32),
        numerals=to_numeral([number.value for number in found.numbers], digits),
        surfaces=tuple(number.surface for number in found.numbers),
        loss_from=loss_from,
        labels=labels or {},
        channels=found.channels,
    )


def cut(found: Features, keep: slice | np.ndarray) -> Features:
    """Only these positions of a row, and the numbers that they belong to. `starts` are lost."""
    index = found.numeral_index[keep]
    used = np.unique(index[index >= 0])
    renumber = np.full(len(found.numbers) + 1, -1, np.int32)
    renumber[used] = np.arange(len(used))
    return Features(
        ids=found.ids[keep],
        numeral_index=renumber[index],  # −1 reads the last entry, which stays −1
        numbers=tuple(found.numbers[i] for i in used),
        starts=(),
        grammar_state=found.grammar_state[: len(found.ids)][keep],
        channels={name: values[keep] for name, values in found.channels.items()},
        offsets=None if found.offsets is None else found.offsets[keep],
    )


def _named(record: Mapping[str, Any], number: int, split: str) -> dict[str, Any]:
    return {**record, "id": str(record.get("id", f"{split}-{number}"))}


def _windows(
    example: Example, scheme: Scheme, options: Any, kind: str, source: Features | None, producers: Sequence[Producer]
) -> tuple[list[tuple[Features, int]], str, str]:
    """(rows, each with the first of its ids that is scored; what of the document no row could hold, if anything; what
    else is not read)."""
    shifted = kind == "language_model"
    # Not every scheme knows them: only where there is a span or a unit to find, or a number to be masked as one.
    offsets = bool(example.spans or example.units or example.traits) or kind == "masked"
    found = produced(scheme.encode(example.document, offsets=offsets, source=source), producers)
    loss_from, length = found.starts[min(example.loss_from, len(found.starts) - 1)], options.length
    if shifted and scheme.grammar().answer >= 0:
        found = _answered(found, loss_from, scheme.grammar())
    whole = len(found.ids)
    # What a scheme reads and cannot write, by id, with the reason.
    for token, reason in scheme.unwritten.items() if shifted else ():
        if (found.ids[loss_from:] == token).any():
            raise UsageError(reason)
    if example.units or example.traits:
        found = windows.united(found, example)
    if example.limits:
        keep = windows.limited(found, example)
        found, loss_from = cut(found, keep), int(keep[:loss_from].sum())
    if options.overflow == "shorten":
        # All that a classifier reads is its prompt.
        prompt = loss_from if shifted else len(found.ids)
        if prompt > length - options.get("reserve", 0):
            keep = windows.kept(found, example, prompt, length - options.get("reserve", 0))
            found, loss_from = cut(found, np.flatnonzero(keep)), int(keep[:loss_from].sum())
    room = length + shifted  # a shifted row reads one id less than it has
    count = len(found.ids)
    if count < 1 + shifted:
        raise DataError("the text is empty")
    if count <= room:
        return [(found, loss_from)], "", _unread(whole, count)
    if options.overflow == "skip":
        raise DataError(f"{count} positions are more than data.length={length}")
    if options.overflow == "windows":
        slid = windows.slid(found, example, room, options.get("stride", STRIDE))
        return [(cut(found, keep), loss_from) for keep in slid], "", _unread(whole, count)
    if options.overflow == "split":
        parts, lost = windows.pieces(count, length, windows.formulas(example, found))
        sizes = ", ".join(str(stop - start) for start, stop in lost)
        rows = [(cut(found, slice(*part)), max(0, loss_from - part[0])) for part in parts]
        told = f"left out formulas of {sizes} positions: data.length={length}" if lost else ""
        return rows, told, _unread(whole, count)
    if shifted:
        # What is to be written loses its end, the end of a shortened row too.
        return [(cut(found, slice(room)), loss_from)], "", _unread(whole, room)
    # A classifier reads its label off the last position.
    return [(cut(found, np.r_[: room - 1, count - 1]), loss_from)], "", _unread(whole, room)


def _answered(found: Features, loss_from: int, grammar: Grammar) -> Features:
    """The row with the states of an answer (see `Grammar.answer`) from `loss_from` on.

    Raises:
      DataError: the answer has another form.
    """
    trace = grammars.run(grammars.of_answers(grammar), found.ids[loss_from:])
    if trace.error is not None:
        raise DataError(f"the answer is not of the form that the task asks for: {trace.error}")
    return found._replace(grammar_state=np.concatenate([found.grammar_state[:loss_from], trace.states]))


def _unread(count: int, read: int, of: str = "") -> str:
    return f"positions{of} not read: {count - read} of {count}" if read < count else ""


def source_length(options: Any) -> int:
    """Positions of what an encoder reads."""
    return options.get("source_length", 0) or options.length


def _source(example: Example, scheme: Scheme, options: Any, producers: Sequence[Producer]) -> tuple[Features, str]:
    """(what the encoder reads, which keeps its last position where it is truncated; what is not read)."""
    if options.pack:
        raise UsageError("rows with a source for an encoder cannot be packed: set data.pack to False")
    if options.overflow not in ("skip", "truncate"):
        raise UsageError(f"with an encoder data.overflow must be skip or truncate, not {options.overflow}")
    found, room = produced(scheme.encode(example.source or ()), producers), source_length(options)
    count = len(found.ids)
    if not count:
        raise DataError("the source is empty")
    if count <= room:
        return found, ""
    if options.overflow == "skip":
        raise DataError(f"{count} positions of the source are more than data.source_length={room}")
    return cut(found, np.r_[: room - 1, count - 1]), _unread(count, room, " of the source")
