"""Records, encoded once: what a task reads and a scheme makes of it, in compact arrays.

A record that cannot be used is left out, counted and named; nothing else stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_numeral
from numjax.types import Example, Features, Mark, Number, Numeral, Scheme, Task

OVERFLOWS = ("skip", "truncate", "split")


class Row(NamedTuple):
    """One encoded example, or one window of it.

    Attributes:
      ids, numeral_index, grammar_state: int32[T], as in `types.Features` (the state before each id).
      numerals: Numeral[N], arrays of the row's numbers.
      surfaces: how they were written.
      loss_from: first id that is scored.
      labels: name → number or array.
      types, tree_positions: int32[T], [T, L], or None.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    grammar_state: np.ndarray
    numerals: Numeral
    surfaces: tuple[str, ...]
    loss_from: int
    labels: Mapping[str, Any]
    types: np.ndarray | None = None
    tree_positions: np.ndarray | None = None


class Reference(NamedTuple):
    """What is kept of an example for scoring: its id and what predictions are compared with."""

    id: str
    reference: Any


class Encoded:
    """A split as rows in memory.

    Attributes:
      kind: the task's kind.
      rows: encoded rows; lengths, numbers: int32, ids and numbers of each.
      skipped: {"id", "reason", "split"} of each record left out.
    """

    def __init__(
        self, kind: str, rows: Sequence[Row], references: Sequence[Reference], skipped: list[dict], packed: bool
    ):
        self.kind, self.rows, self.skipped, self.packed = kind, list(rows), skipped, packed
        self._references = list(references)
        shifted = kind == "language_model"
        self.lengths = np.asarray([len(row.ids) - shifted for row in self.rows], np.int32)
        self.numbers = np.asarray([len(row.surfaces) for row in self.rows], np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, i: int) -> Reference:
        """Id and reference of row i."""
        return self._references[i]

    def subset(self, indices: Iterable[int]) -> Encoded:
        """Only these rows, in this order."""
        at = list(indices)
        rows, references = [self.rows[i] for i in at], [self._references[i] for i in at]
        return Encoded(self.kind, rows, references, [], self.packed)


def encode(
    task: Task,
    scheme: Scheme,
    records: Iterable[Mapping[str, Any]],
    options: Any,
    split: str,
    strict: bool = False,
    limit: int = 0,
) -> Encoded:
    """Encodes a split.

    Args:
      options: the config's data block: `length` (positions), `overflow` ("skip", "truncate" or "split" what is
        longer), `digits` (K), `pack`.
      split: its name, for `skipped`.
      strict: raise at the first record that cannot be used.
      limit: read only the first so many records (0: all).

    Raises:
      DataError: under `strict`, a record that cannot be used.
    """
    if options.overflow not in OVERFLOWS:
        raise UsageError(f"data.overflow must be one of {', '.join(OVERFLOWS)}, not {options.overflow!r}")
    shifted = task.kind == "language_model"
    rows, references, skipped = [], [], []
    for number, record in enumerate(records):
        if limit and number >= limit:
            break
        name = str(record.get("id", f"{split}-{number}"))
        try:
            example = task.example(record, scheme.parse)
            name = example.id
            made = list(_windows(example, _row(example, scheme, options.digits), options, shifted))
        except (DataError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if strict:
                raise DataError(f"record {name} of {split}: {reason}") from error
            skipped.append({"id": name, "split": split, "reason": reason})
            continue
        rows += made
        references += [Reference(example.id, example.reference)] * len(made)
    return Encoded(task.kind, rows, references, skipped, bool(options.pack) and shifted)


def _row(example: Example, scheme: Scheme, digits: int) -> Row:
    found = scheme.encode(example.document)
    scored = found.starts[example.loss_from] if example.loss_from < len(found.starts) else len(found.ids)
    return from_features(found, digits, scored, dict(example.labels))


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
        types=found.types,
        tree_positions=found.tree_positions,
    )


def _windows(example: Example, row: Row, options: Any, shifted: bool):
    """The row, or what is made of one that is too long."""
    room = options.length + shifted  # a shifted row reads one id less than it has
    count = len(row.ids)
    if count < 1 + shifted:
        raise DataError("the text is empty")
    if count <= room:
        yield row
    elif options.overflow == "skip":
        raise DataError(f"{count} positions are more than data.length={options.length}")
    elif options.overflow == "truncate":
        yield _cut(row, 0, room)
    elif not shifted:
        raise DataError("only language models can split a text: set data.overflow to skip or truncate")
    else:
        # Neighbouring windows share one id: the last target of one is the first input of the next.
        for start in range(0, count - 1, options.length):
            yield _cut(row, start, min(start + room, count))


def _cut(row: Row, start: int, stop: int) -> Row:
    index = row.numeral_index[start:stop]
    used = np.unique(index[index >= 0])
    renumber = np.full(len(row.surfaces) + 1, -1, np.int32)
    renumber[used] = np.arange(len(used))
    return row._replace(
        ids=row.ids[start:stop],
        numeral_index=renumber[index],  # −1 reads the last entry, which stays −1
        grammar_state=row.grammar_state[start:stop],
        numerals=Numeral(*(x[used] for x in row.numerals)),
        surfaces=tuple(row.surfaces[i] for i in used),
        loss_from=max(0, row.loss_from - start),
        types=None if row.types is None else row.types[start:stop],
        tree_positions=None if row.tree_positions is None else row.tree_positions[start:stop],
    )


def text_of(document: Iterable[Any]) -> str:
    """A document's plain text, marks left out: what a vocabulary is trained on."""
    return "".join(s.surface if isinstance(s, Number) else s.text for s in document if not isinstance(s, Mark))
