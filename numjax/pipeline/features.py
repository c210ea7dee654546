"""Records, encoded once by a task and a scheme.

A record that cannot be used is left out and reported in `Encoded.skipped`; it does not stop the run.
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
from numjax.pipeline.columns import MEMORY, Columns, ColumnsWriter, EncodedRow, EncodedRows
from numjax.protocols import Producer, Scheme, Task
from numjax.text import document as documents
from numjax.text.grammar import automaton as grammars
from numjax.types import Channel, Document, Example, Features, Grammar, Number

__all__ = ["OVERFLOWS", "Encoded", "EncodedRow", "cut", "encode", "from_features"]

INPUT = "input"  # the split of records that come without answers
OVERFLOWS = ("skip", "truncate", "split", "shorten", "windows")
STRIDE = 128


class Encoded:
    """A split as encoded rows: one per example, or one per window of a text that was split.

    Attributes:
      kind: the task's kind.
      rows: a sequence of `EncodedRow`s. columns: the same, flat.
      lengths, numbers: int32[E], positions and numerals of each row in a batch. source: the encoder's inputs, None
        without them.
      characters: int32[E], of the text that each row comes from, whatever the scheme makes of it; None if the rows
        were encoded elsewhere.
      packed: whether several rows may share one row of a batch.
      skipped: {"id", "reason", "split"} of each record that was left out.
      shortened: number of a record that is only partly used → (id, description of the unused part).
      origin: int64[E], number of the record that each row comes from.
      masking: how to mask, if the task is of kind "masked".
      pad_id: the id of padding. start_state: the grammar's state of padding.
      declared: the channels of scheme, task and producers, by name.
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
        characters: np.ndarray | None = None,
    ):
        self.declared, self.characters = dict(declared or {}), characters
        self.shortened = dict(shortened or {})
        self.origin = np.arange(len(columns.loss_from)) if origin is None else origin
        self.kind, self.columns, self.skipped, self.packed = kind, columns, list(skipped), packed
        self.pad_id, self.start_state, self.masking = pad_id, start_state, masking
        self.rows = EncodedRows(columns)
        # The inputs of a language model are all ids but the last.
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
        """Eight hexadecimal digits that change with the ids, numerals, labels, channels and the order of the rows."""
        columns = self.columns
        parts = [columns.starts, columns.ids, columns.numeral_index, columns.numbers, columns.loss_from]
        parts += [*columns.numerals]
        parts += [arrays[name] for arrays in (columns.labels, columns.channels) for name in sorted(arrays)]
        checksum = 0 if self.source is None else int(self.source.fingerprint, 16)
        for part in parts:
            flat: Any = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            checksum = zlib.crc32(flat, checksum)
        return f"{checksum:08x}"

    def example(self, i: int) -> Example:
        """The task's example of the record that row i comes from: its id, document and reference.

        It is built from the record again, so that references take no memory.
        """
        if self._look_up is None:
            raise UsageError("these rows were encoded elsewhere: their records are not at hand")
        return self._look_up(i)

    def unread(self, i: int) -> dict[str, str]:
        """{"shortened": description of the unused part of row i's record}, empty if all of it is used."""
        _, lost = self.shortened.get(int(self.origin[i]), ("", ""))
        return {"shortened": lost} if lost else {}

    def subset(self, indices: Iterable[int]) -> Encoded:
        """The split with only these rows, in this order."""
        rows = list(indices)
        look_up = self._look_up
        return Encoded(
            self.kind,
            self.columns.take(rows),
            None if look_up is None else lambda i: look_up(rows[i]),
            packed=self.packed,
            pad_id=self.pad_id,
            start_state=self.start_state,
            shortened=self.shortened,
            origin=self.origin[rows],
            masking=self.masking,
            declared=self.declared,
            characters=None if self.characters is None else self.characters[rows],
        )

    def leave_out(self, reasons: Mapping[int, str], split: str) -> Encoded:
        """The split without these rows, whose records are listed in `skipped` with the reasons."""
        kept = self.subset(i for i in range(len(self)) if i not in reasons)
        named = [{"id": self.example(i).id, "split": split, "reason": reason} for i, reason in reasons.items()]
        kept.skipped = [*self.skipped, *named]
        return kept

    def __getstate__(self) -> dict[str, Any]:
        # Reader processes need the arrays, but not the records, the task and the scheme.
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
      options: the config's data block: `length` (positions), `overflow` (for longer texts: "skip", "truncate" or
        "split" them, "shorten" the prompt by the parts that the task can spare, or read the part that the task lets
        slide in "windows"), `digits` (K), `pack`, and optionally `memory` (MiB before positions go to a temporary
        file), `reserve` (positions that a shortened prompt leaves for the text behind it), `stride` (positions from
        one window to the next), `source_length` (positions of the encoder's input, by default `length`) and `masking`
        (see `masking.make_masking`; kind "masked" needs it).
      split: its name, for `skipped`; in the split "input" records may lack the task's `unanswered` fields.
      strict: raise an error at the first record that cannot be used.
      limit: the number of records to read, from the first (0: all).
      producers: make further channels, besides the scheme's and the task's.

    Raises:
      DataError: under `strict`, a record that cannot be used.
      UsageError: options that do not go together.
    """
    if options.overflow not in OVERFLOWS:
        raise UsageError(f"data.overflow must be one of {', '.join(OVERFLOWS)}, not {options.overflow!r}")
    shifted = task.kind == "language_model"
    if options.overflow == "split" and not shifted:
        raise UsageError("only language models can split a text: set data.overflow to skip or truncate")
    if options.overflow == "split" and scheme.points:
        raise UsageError(
            "data.overflow=split would part formulas from the numbers that they point to: set data.overflow=skip, or "
            "scheme.pointers=0"
        )
    reserve = options.get("reserve", 0)
    if options.overflow == "shorten" and not shifted <= reserve < options.length:
        raise UsageError(f"data.overflow=shorten wants data.reserve from 1 to data.length, not {reserve}")
    # Records to predict may lack their answers.
    defaults: Mapping[str, Any] = task.unanswered if split == INPUT else {}

    def make_example(record: Mapping[str, Any]) -> Example:
        try:
            return task.example({**defaults, **record}, scheme.parse)
        except (UsageError, KeyError):
            raise
        except ValueError as error:
            # A wrong answer field is replaced by its default; errors in other fields are still raised.
            for name in () if strict else filter(record.__contains__, defaults):
                with contextlib.suppress(ValueError):
                    example = task.example({**defaults, **record, name: defaults[name]}, scheme.parse)
                    return example._replace(unread=f"field {name!r}, since {' '.join(str(error).split())}")
            raise

    writer = ColumnsWriter(options.digits, options.get("memory", MEMORY))
    origin, characters, skipped = [], [], []
    shortened: dict[int, tuple[str, str]] = {}
    for number, record in enumerate(records):
        if limit and number >= limit:
            break
        record = _name_record(record, number, split)
        name = record["id"]
        try:
            example = make_example(record)
            source, source_unread = (
                (None, "") if example.source is None else _encode_source(example, scheme, options, producers)
            )
            rows, lost, unread = _encode_rows(example, scheme, options, task.kind, source, producers)
            if lost and strict:
                raise DataError(lost)
            for features, loss_from in rows:
                labels = {**example.labels, **windows.locate_spans(example, features)}
                if not (example.spans or task.kind == "masked"):
                    features = features._replace(offsets=None)  # units and traits alone needed them
                writer.add(features, loss_from, labels, source)
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
        origin += [number] * len(rows)
        characters += [len(documents.surface((*(example.source or ()), *example.document)))] * len(rows)
        if unread := ", ".join(filter(None, (example.unread, unread, source_unread))):
            shortened[number] = name, unread
    origin = np.asarray(origin, np.int64)

    def look_up(i: int) -> Example:
        number = int(origin[i])
        return make_example(_name_record(records[number], number, split))

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
        masking=masking.make_masking(options.masking, scheme) if task.kind == "masked" else None,
        declared=list_channels(scheme, task, producers),
        characters=np.asarray(characters, np.int32),
    )


def list_channels(scheme: Scheme, task: Task, producers: Sequence[Producer] = ()) -> dict[str, Channel]:
    """The channels that a scheme, a task and producers give, by name."""
    channels = (*scheme.channels, *task.channels, *(producer.channel for producer in producers))
    return {channel.name: channel for channel in channels}


def add_produced_channels(features: Features, producers: Sequence[Producer]) -> Features:
    """The features of a document, or of a shortened one, with the channels that producers make from its ids."""
    channels = {producer.channel.name: np.asarray(producer.compute(features.ids), np.int32) for producer in producers}
    return features._replace(channels={**features.channels, **channels}) if channels else features


def encode_source(document: Document, scheme: Scheme, producers: Sequence[Producer] = ()) -> Features:
    """An encoder's input with the channels of producers; all of its numbers are given."""
    numbers = [s for s in document if isinstance(s, Number) and s.value.is_finite()]
    return add_produced_channels(scheme.after(numbers).encode(document), [producer.given for producer in producers])


def balance_classes(encoded: Encoded, label: str, seed: int) -> Encoded:
    """The same rows, with those of rarer classes repeated until every class has as many rows as the largest one.

    All rows of a class are repeated equally often, except a seeded choice of rows that occur once more.

    Raises:
      UsageError: the rows have no such label.
    """
    if label not in encoded.columns.labels:
        raise UsageError(
            f"data.balance={label!r}: the task's labels are {', '.join(encoded.columns.labels) or 'none'}"
        )
    labels = encoded.columns.labels[label]
    classes, counts = np.unique(labels, return_counts=True)
    largest, rng, repeated = int(counts.max(initial=0)), np.random.default_rng(seed), []
    for label_class, count in zip(classes, counts, strict=True):
        rows = np.flatnonzero(labels == label_class)
        times, rest = divmod(largest, int(count))
        repeated += [np.tile(rows, times), rng.permutation(rows)[:rest]]
    return encoded.subset(np.concatenate([*repeated, np.zeros(0, np.int64)]).tolist())


def from_features(
    features: Features, digits: int, loss_from: int = 0, labels: Mapping[str, Any] | None = None
) -> EncodedRow:
    """The row of one encoded document."""
    return EncodedRow(
        ids=np.asarray(features.ids, np.int32),
        numeral_index=np.asarray(features.numeral_index, np.int32),
        grammar_state=np.asarray(features.grammar_state[: len(features.ids)], np.int32),
        numerals=to_numeral([number.value for number in features.numbers], digits),
        surfaces=tuple(number.surface for number in features.numbers),
        loss_from=loss_from,
        labels=labels or {},
        channels=features.channels,
    )


def cut(features: Features, keep: slice | np.ndarray) -> Features:
    """Only these positions of a row, with the numbers that they belong to; `starts` are of what is left."""
    index = features.numeral_index[keep]
    used = np.unique(index[index >= 0])
    renumber = np.full(len(features.numbers) + 1, -1, np.int32)
    renumber[used] = np.arange(len(used))
    return Features(
        ids=features.ids[keep],
        numeral_index=renumber[index],  # −1 reads the last entry, which stays −1
        numbers=tuple(features.numbers[i] for i in used),
        starts=tuple(np.searchsorted(np.arange(len(features.ids))[keep], features.starts).tolist()),
        grammar_state=features.grammar_state[: len(features.ids)][keep],
        channels={name: values[keep] for name, values in features.channels.items()},
        offsets=None if features.offsets is None else features.offsets[keep],
    )


def _name_record(record: Mapping[str, Any], number: int, split: str) -> dict[str, Any]:
    return {**record, "id": str(record.get("id", f"{split}-{number}"))}


def _encode_rows(
    example: Example, scheme: Scheme, options: Any, kind: str, source: Features | None, producers: Sequence[Producer]
) -> tuple[list[tuple[Features, int]], str, str]:
    """(rows, each with its `loss_from`; what part of the document fits into no row, or ""; what else is not read)."""
    shifted = kind == "language_model"
    # Not every scheme has offsets: they are computed only if spans, units or traits, or masking, need them.
    offsets = bool(example.spans or example.units or example.traits) or kind == "masked"
    features = scheme.encode(example.document, offsets=offsets, source=source)
    loss_from, length = features.starts[min(example.loss_from, len(features.starts) - 1)], options.length
    if shifted and scheme.grammar().answer >= 0:
        features = _add_answer_states(features, loss_from, scheme.grammar())
    n_all, numbers = len(features.ids), features.numbers
    if shifted and scheme.unwritten:
        for token in features.ids[loss_from:].tolist():
            if token in scheme.unwritten:
                raise UsageError(scheme.unwritten[token])
    if example.units or example.traits:
        features = windows.add_unit_channels(features, example)
    if example.limits:
        keep = windows.apply_limits(features, example)
        features, loss_from = cut(features, keep), int(keep[:loss_from].sum())
    if options.overflow == "shorten":
        # For a classifier, all positions are prompt.
        prompt = loss_from if shifted else len(features.ids)
        if prompt > length - options.get("reserve", 0):
            keep = windows.shorten_prompt(features, example, prompt, length - options.get("reserve", 0))
            features, loss_from = cut(features, np.flatnonzero(keep)), int(keep[:loss_from].sum())
    if shifted and len(features.numbers) < len(numbers):
        _check_given(scheme, numbers)
    # Those of a shortened row, as in the decoder, which never sees what is cut.
    features = add_produced_channels(features, producers)
    room = length + shifted  # the inputs of a shifted row are one id fewer
    count = len(features.ids)
    if count < 1 + shifted:
        raise DataError("the text is empty")
    if count <= room:
        return [(features, loss_from)], "", _describe_unread(n_all, count)
    if options.overflow == "skip":
        raise DataError(f"{count} positions are more than data.length={length}")
    if options.overflow == "windows":
        slid = windows.slide_windows(features, example, room, options.get("stride", STRIDE))
        return [(cut(features, keep), loss_from) for keep in slid], "", _describe_unread(n_all, count)
    if options.overflow == "split":
        parts, lost = windows.cut_pieces(count, length, windows.find_formulas(example, features))
        sizes = ", ".join(str(stop - start) for start, stop in lost)
        rows = [(cut(features, slice(*part)), max(0, loss_from - part[0])) for part in parts]
        reason_lost = f"left out formulas of {sizes} positions: data.length={length}" if lost else ""
        return rows, reason_lost, _describe_unread(n_all, count)
    if shifted:
        # The target text loses its end; so does a shortened row.
        return [(cut(features, slice(room)), loss_from)], "", _describe_unread(n_all, room)
    # A classifier reads the last position, so that one is kept.
    return [(cut(features, np.r_[: room - 1, count - 1]), loss_from)], "", _describe_unread(n_all, room)


def _check_given(scheme: Scheme, numbers: Sequence[Number]) -> None:
    """Raises DataError if what is written behind these numbers means something only with all of them."""
    if scheme.points or scheme.after(numbers) is not scheme:
        raise DataError(
            "it is too long, and what is written depends on numbers that would be cut off: give more data.length, or "
            "choose a scheme without pointers and scales"
        )


def _add_answer_states(features: Features, loss_from: int, grammar: Grammar) -> Features:
    """The row with the grammar states of an answer (see `Grammar.answer`) from `loss_from` on.

    Raises:
      DataError: the answer does not have the form that the grammar enforces.
    """
    trace = grammars.run(grammars.make_answer_grammar(grammar), features.ids[loss_from:])
    if trace.error is not None:
        raise DataError(f"the answer is not of the form that the task asks for: {trace.error}")
    return features._replace(grammar_state=np.concatenate([features.grammar_state[:loss_from], trace.states]))


def _describe_unread(count: int, n_used: int, what: str = "") -> str:
    return f"positions{what} not read: {count - n_used} of {count}" if n_used < count else ""


def source_length(options: Any) -> int:
    """The number of positions of the encoder's input."""
    return options.get("source_length", 0) or options.length


def _encode_source(
    example: Example, scheme: Scheme, options: Any, producers: Sequence[Producer]
) -> tuple[Features, str]:
    """(the encoder's input, which keeps its last position if it is truncated; what is not read)."""
    if options.pack:
        raise UsageError("rows with a source for an encoder cannot be packed: set data.pack to False")
    if options.overflow not in ("skip", "truncate"):
        raise UsageError(f"with an encoder data.overflow must be skip or truncate, not {options.overflow}")
    features, room = encode_source(example.source or (), scheme, producers), source_length(options)
    count = len(features.ids)
    if not count:
        raise DataError("the source is empty")
    if count <= room:
        return features, ""
    if options.overflow == "skip":
        raise DataError(f"{count} positions of the source are more than data.source_length={room}")
    return cut(features, np.r_[: room - 1, count - 1]), _describe_unread(count, room, " of the source")
