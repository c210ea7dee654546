"""Rows → `types.Batch` of NumPy arrays, a whole batch at a time: no loop over rows or positions.

Legend: B rows, T positions, N numerals of a row, K digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.pipeline import columns as stores
from numjax.pipeline import distinct
from numjax.pipeline import features as encoded
from numjax.pipeline import masking as masks
from numjax.pipeline.columns import Columns, EncodedRow, ranges
from numjax.types import Batch, Channel, Features, Numeral, Targets, Tokens

HostFeatures = Callable[[Numeral, Sequence[str] | None], dict[str, np.ndarray]]


def gather(
    columns: Columns,
    members: np.ndarray,
    counts: np.ndarray,
    *,
    kind: str,
    length: int,
    numerals: int,
    grammar: bool = False,
    pad_id: int = 0,
    start_state: int = 0,
    declared: Mapping[str, Channel] | None = None,
    host_features: HostFeatures | None = None,
    features: Mapping[str, np.ndarray] | None = None,
    source: Tokens | None = None,
    shared: tuple[np.ndarray, int] | None = None,
    masking: tuple[masks.Masking, int, int] | None = None,
) -> Batch:
    """A batch of B = len(counts) rows, each with several examples (packed), one, or none (padding).

    Args:
      members: int[sum of counts], examples row after row. counts: int[B].
      kind: "language_model" (targets shifted by one inside each example) or another ("classify": labels only).
      length: T. numerals: N.
      grammar: also ship the automaton's states.
      pad_id, start_state: values of ids and states in padding. declared: the channels, with their values in padding;
        0 for others.
      host_features: computes the embeddings' features of numerals on the host; or `features`, those of every entry of
        `columns.numerals`.
      source: the encoder's input of these rows, see `gather_source`.
      shared: (group of each row, W), if rows share tables of distinct numerals: see `pipeline.distinct`.
      masking: for kind "masked", (how to mask, seed, epoch). A hidden position belongs to no numeral; `targets` keep
        its original id.

    Returns:
      `labels` are those of rows with one example, zeros in other rows; `example_id` is −1 in other rows.
    """
    shifted, rows = kind == "language_model", len(counts)
    row = np.repeat(np.arange(rows), counts)
    # Index of each row's first member; a member's rank in its row is its distance from this.
    first = np.cumsum(counts) - counts
    sizes = np.diff(columns.starts)[members] - shifted
    n_numbers = np.diff(columns.number_starts)[members]
    begin, numbers_before = _start_in_row(sizes, first, row), _start_in_row(n_numbers, first, row)

    source_index = ranges(columns.starts[members], sizes)
    target_index = ranges(row * length + begin, sizes)

    def lay(values: np.ndarray, fill: int | bool) -> np.ndarray:
        out = np.full((rows * length, *values.shape[1:]), fill, values.dtype)
        out[target_index] = values
        return out.reshape(rows, length, *values.shape[1:])

    def index_at(source: np.ndarray) -> np.ndarray:
        index = columns.numeral_index[source]
        return lay(np.where(index < 0, -1, index + np.repeat(numbers_before, sizes)).astype(np.int32), -1)

    numbers_BN = np.full(rows * numerals, -1, np.int64)
    numbers_BN[ranges(row * numerals + numbers_before, n_numbers)] = columns.numbers[
        ranges(columns.number_starts[members], n_numbers)
    ]
    numbers_BN = numbers_BN.reshape(rows, numerals)
    table = Numeral(*(x[numbers_BN] for x in columns.numerals))
    position = ranges(np.zeros(len(members), np.int64), sizes)
    ids, index, targets, states = columns.ids[source_index], index_at(source_index), None, None
    channels = {
        name: (values[source_index], (declared or {}).get(name, Channel(name)))
        for name, values in columns.channels.items()
    }
    if masking is not None:
        assert columns.offsets is not None
        how, seed, epoch = masking
        owners = np.repeat(members, sizes)
        hiding = masks.mask(how, seed, epoch, owners, position, ids, columns.offsets[source_index])
        targets = Targets(lay(ids, pad_id), lay(hiding.chosen, False), index)
        ids, index = hiding.ids, np.where(lay(hiding.hidden, False), np.int32(-1), index)
        for values, channel in channels.values():
            if channel.of_ids:
                values[masks.spread(hiding.hidden, position, channel.reach, channel.ahead)] = channel.fill
    # The numerals that embeddings read: the rows' own tables, or those that rows share.
    shared_numerals, entries, entry_BT = table, numbers_BN, None
    if shared is not None:
        entries, entry_BT = distinct.make_tables(numbers_BN, index, *shared)
        shared_numerals = Numeral(*(x[entries] for x in columns.numerals))
    if features is not None:
        embedded = {name: values[entries] for name, values in features.items()}
    else:
        embedded = _compute_features(host_features, shared_numerals, [columns.surfaces[i] for i in entries.ravel()])
    inputs = Tokens(
        ids=lay(ids, pad_id),
        positions=lay(position.astype(np.int32), 0),
        segment_ids=lay(np.repeat(np.arange(len(members)) - first[row] + 1, sizes).astype(np.int32), 0),
        channels={name: lay(values, channel.fill) for name, (values, channel) in channels.items()},
        numeral_index=index,
        numerals=table,
        features=embedded,
        distinct=None if shared is None else shared_numerals,
        distinct_index=entry_BT,
    )
    if shifted:
        scored = position + 1 >= np.repeat(columns.loss_from[members], sizes)
        targets = Targets(lay(columns.ids[source_index + 1], pad_id), lay(scored, False), index_at(source_index + 1))
    if grammar:
        states = lay(columns.grammar_state[source_index + shifted], start_state)
    is_single = counts == 1
    example_of_row = np.where(is_single, np.append(members, -1)[np.minimum(first, len(members))], -1)
    labels = {}
    for name, column in columns.labels.items():
        labels[name] = np.zeros((rows, *column.shape[1:]), column.dtype)
        labels[name][is_single] = column[example_of_row[is_single]]
    return Batch(
        inputs=inputs,
        targets=targets,
        source=source,
        grammar_state=states,
        labels=labels,
        example_id=example_of_row.astype(np.int32),
        valid=counts > 0,
    )


def gather_source(columns: Columns, members: np.ndarray, counts: np.ndarray, **options: Any) -> Tokens | None:
    """The encoder's input for `gather`'s rows, one example each; None without sources. It has its own columns, length
    and numerals."""
    if columns.source is None:
        return None
    return gather(columns.source, members, counts, kind="source", **options).inputs


def assemble(
    rows: Sequence[Sequence[EncodedRow]],
    ids: Sequence[Sequence[int]],
    *,
    kind: str,
    length: int,
    numerals: int,
    digits: int,
    host_features: HostFeatures | None = None,
    grammar: bool = False,
    pad_id: int = 0,
    declared: Mapping[str, Channel] | None = None,
) -> Batch:
    """A batch of these rows, as `gather` makes it. `ids`: index of each example, in the form of `rows`; K =
    `digits`."""
    batch = gather(
        stores.from_rows([row for several in rows for row in several], digits),
        np.arange(sum(map(len, rows))),
        np.asarray([len(several) for several in rows], np.int64),
        kind=kind,
        length=length,
        numerals=numerals,
        grammar=grammar,
        pad_id=pad_id,
        declared=declared,
        host_features=host_features,
    )
    return batch._replace(example_id=np.asarray([i[0] if len(i) == 1 else -1 for i in ids], np.int32))


def from_features(
    documents: Sequence[Features],
    digits: int,
    host_features: HostFeatures | None = None,
    declared: Mapping[str, Channel] | None = None,
) -> Batch:
    """A batch of whole encoded documents, used to inspect embeddings; the length is rounded up to a multiple of 8."""
    rows = [encoded.from_features(f, digits) for f in documents]
    return assemble(
        [[row] for row in rows],
        [[i] for i in range(len(rows))],
        kind="classify",
        length=max([8, *(-(-len(row.ids) // 8) * 8 for row in rows)]),
        numerals=max([1, *(len(row.surfaces) for row in rows)]),
        digits=digits,
        declared=declared,
        host_features=host_features,
    )


def feature_table(columns: Columns, host_features: HostFeatures, memory: int) -> dict[str, np.ndarray] | None:
    """The host features of every entry of `columns.numerals`, each computed once; None if they need more than
    `memory` MiB."""
    numerals, surfaces = columns.numerals, columns.surfaces
    count, step = len(surfaces), 4096

    def some(begin: int, end: int) -> dict[str, np.ndarray]:
        return host_features(Numeral(*(x[begin:end] for x in numerals)), surfaces[begin:end])

    if sum(values.nbytes for values in some(count - 1, count).values()) * count > memory << 20:
        return None
    parts = [some(start, min(start + step, count)) for start in range(0, count, step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _start_in_row(sizes: np.ndarray, first: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The position at which each member begins in its row, from the members' sizes."""
    positions_before = np.cumsum(sizes) - sizes
    return positions_before - positions_before[first[row]]


def _compute_features(
    host_features: HostFeatures | None, table: Numeral, surfaces: list[str]
) -> dict[str, np.ndarray]:
    if host_features is None:
        return {}
    rows, width = table.valid.shape
    flat = Numeral(*(np.reshape(x, (rows * width, *x.shape[2:])) for x in table))
    return {k: v.reshape(rows, width, *v.shape[1:]) for k, v in host_features(flat, surfaces).items()}
