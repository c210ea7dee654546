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
from numjax.pipeline.columns import Columns, Row, ranges
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
    """A batch of B = len(counts) rows, each of several examples (packed), of one, or of none (padding).

    Args:
      members: int[sum of counts], examples row after row. counts: int[B].
      kind: "language_model" (targets shifted by one inside each example) or another ("classify": labels only).
      length: T. numerals: N.
      grammar: also ship the automaton's states.
      pad_id, start_state: what fills ids and states up. declared: the same of channels, 0 for those it lacks.
      host_features: what embeddings compute on the host, per numeral; or `features`, the same for every entry
        of `columns.numerals`.
      source: what an encoder reads in these rows, see `gather_source`.
      shared: (group of each row, W), where rows share tables of distinct numerals: see `pipeline.distinct`.
      masking: for kind "masked" how, and the seed and epoch of the draws; what is hidden is no numeral any more, and
        `targets` say what it was.

    Returns:
      `labels` are those of rows with one example, zeros elsewhere; `example_id` is −1 elsewhere.
    """
    shifted, rows = kind == "language_model", len(counts)
    row = np.repeat(np.arange(rows), counts)
    # Index of each row's first member; a member's rank in its row is its distance from it.
    first = np.cumsum(counts) - counts
    sizes = np.diff(columns.starts)[members] - shifted
    many = np.diff(columns.number_starts)[members]
    begin, used = _within(sizes, first, row), _within(many, first, row)

    taken = ranges(columns.starts[members], sizes)
    target = ranges(row * length + begin, sizes)

    def lay(values: np.ndarray, fill: int | bool) -> np.ndarray:
        out = np.full((rows * length, *values.shape[1:]), fill, values.dtype)
        out[target] = values
        return out.reshape(rows, length, *values.shape[1:])

    def index_at(at: np.ndarray) -> np.ndarray:
        index = columns.numeral_index[at]
        return lay(np.where(index < 0, -1, index + np.repeat(used, sizes)).astype(np.int32), -1)

    numbers_BN = np.full(rows * numerals, -1, np.int64)
    numbers_BN[ranges(row * numerals + used, many)] = columns.numbers[ranges(columns.number_starts[members], many)]
    numbers_BN = numbers_BN.reshape(rows, numerals)
    table = Numeral(*(x[numbers_BN] for x in columns.numerals))
    place = ranges(np.zeros(len(members), np.int64), sizes)
    ids, index, targets, states = columns.ids[taken], index_at(taken), None, None
    channels = {
        name: (values[taken], (declared or {}).get(name, Channel(name))) for name, values in columns.channels.items()
    }
    if masking is not None:
        assert columns.offsets is not None
        how, seed, epoch = masking
        owners = np.repeat(members, sizes)
        hiding = masks.mask(how, seed, epoch, owners, place, ids, columns.offsets[taken])
        targets = Targets(lay(ids, pad_id), lay(hiding.chosen, False), index)
        ids, index = hiding.ids, np.where(lay(hiding.hidden, False), np.int32(-1), index)
        for values, channel in channels.values():
            if channel.of_ids:
                values[hiding.hidden] = channel.fill
    # What embeddings read: the rows' own tables, or those that rows share.
    read, entries, place_BT = table, numbers_BN, None
    if shared is not None:
        entries, place_BT = distinct.tables(numbers_BN, index, *shared)
        read = Numeral(*(x[entries] for x in columns.numerals))
    if features is not None:
        found = {name: values[entries] for name, values in features.items()}
    else:
        found = _features(host_features, read, [columns.surfaces[i] for i in entries.ravel()])
    inputs = Tokens(
        ids=lay(ids, pad_id),
        positions=lay(place.astype(np.int32), 0),
        segment_ids=lay(np.repeat(np.arange(len(members)) - first[row] + 1, sizes).astype(np.int32), 0),
        channels={name: lay(values, channel.fill) for name, (values, channel) in channels.items()},
        numeral_index=index,
        numerals=table,
        features=found,
        distinct=None if shared is None else read,
        distinct_index=place_BT,
    )
    if shifted:
        scored = place + 1 >= np.repeat(columns.loss_from[members], sizes)
        targets = Targets(lay(columns.ids[taken + 1], pad_id), lay(scored, False), index_at(taken + 1))
    if grammar:
        states = lay(columns.grammar_state[taken + shifted], start_state)
    alone = counts == 1
    only = np.where(alone, np.append(members, -1)[np.minimum(first, len(members))], -1)
    labels = {}
    for name, column in columns.labels.items():
        labels[name] = np.zeros((rows, *column.shape[1:]), column.dtype)
        labels[name][alone] = column[only[alone]]
    return Batch(
        inputs=inputs,
        targets=targets,
        source=source,
        grammar_state=states,
        labels=labels,
        example_id=only.astype(np.int32),
        valid=counts > 0,
    )


def gather_source(columns: Columns, members: np.ndarray, counts: np.ndarray, **options: Any) -> Tokens | None:
    """What an encoder reads beside `gather`'s rows, one example each: its own columns, length and numerals."""
    if columns.source is None:
        return None
    return gather(columns.source, members, counts, kind="source", **options).inputs


def assemble(
    rows: Sequence[Sequence[Row]],
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
    """A batch of rows at hand, as `gather`. `ids`: index of each example, as `rows`; K = `digits`."""
    found = gather(
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
    return found._replace(example_id=np.asarray([i[0] if len(i) == 1 else -1 for i in ids], np.int32))


def from_features(
    found: Sequence[Features],
    digits: int,
    host_features: HostFeatures | None = None,
    declared: Mapping[str, Channel] | None = None,
) -> Batch:
    """A batch of whole encoded documents, for looking at embeddings; lengths rounded up to 8."""
    rows = [encoded.from_features(f, digits) for f in found]
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
    """What `host_features` gives for every entry of `columns.numerals`, each computed once, or None where it
    would take more than `memory` MiB."""
    numerals, surfaces = columns.numerals, columns.surfaces
    count, step = len(surfaces), 4096

    def some(start: int, stop: int) -> dict[str, np.ndarray]:
        return host_features(Numeral(*(x[start:stop] for x in numerals)), surfaces[start:stop])

    if sum(values.nbytes for values in some(count - 1, count).values()) * count > memory << 20:
        return None
    parts = [some(start, min(start + step, count)) for start in range(0, count, step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _within(sizes: np.ndarray, first: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Where each member begins in its row, from the members' sizes."""
    before = np.cumsum(sizes) - sizes
    return before - before[first[row]]


def _features(host_features: HostFeatures | None, table: Numeral, surfaces: list[str]) -> dict[str, np.ndarray]:
    if host_features is None:
        return {}
    rows, most = table.valid.shape
    flat = Numeral(*(np.reshape(x, (rows * most, *x.shape[2:])) for x in table))
    return {k: v.reshape(rows, most, *v.shape[1:]) for k, v in host_features(flat, surfaces).items()}
