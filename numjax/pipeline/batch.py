"""Rows → `types.Batch` of NumPy arrays.

Legend: B rows, T positions, N numerals of a row, K digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numjax.pipeline import features as encoded
from numjax.pipeline.features import Row
from numjax.types import Batch, Features, Numeral, Targets, Tokens

HostFeatures = Callable[[Numeral, Sequence[str] | None], dict[str, np.ndarray]]


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
    label_shapes: dict[str, Any] | None = None,
) -> Batch:
    """A batch of B = len(rows) rows, each of several examples (packed), of one, or of none (padding).

    Args:
      ids: index of each example, as `rows`.
      kind: "language_model" (targets shifted by one inside each example) or "classify" (labels only).
      length: T. numerals: N. digits: K.
      host_features: what embeddings compute on the host, per numeral.
      grammar: also ship the automaton's states.
      label_shapes: a row's labels, for batches that hold none.
    """
    shifted = kind == "language_model"
    size, blank = (len(rows), length), (len(rows), length)
    token_ids, positions, segments = (np.zeros(size, np.int32) for _ in range(3))
    index = np.full(size, -1, np.int32)
    target_ids, mask, target_index = np.zeros(blank, np.int32), np.zeros(blank, bool), np.full(blank, -1, np.int32)
    states = np.zeros(size, np.int32) if grammar else None
    table = blank_numerals((len(rows), numerals), digits)
    surfaces: list[list[str]] = [[] for _ in rows]
    first = next((row for several in rows for row in several), None)
    types = _extra(first, "types", size)
    trees = _extra(first, "tree_positions", size)
    for b, several in enumerate(rows):
        start = used = 0
        for segment, row in enumerate(several, 1):
            count = len(row.ids) - shifted
            at = slice(start, start + count)
            token_ids[b, at] = row.ids[:count]
            positions[b, at] = np.arange(count)
            segments[b, at] = segment
            numeral_index = np.where(row.numeral_index >= 0, row.numeral_index + used, -1)
            index[b, at] = numeral_index[:count]
            if shifted:
                target_ids[b, at] = row.ids[1:]
                target_index[b, at] = numeral_index[1:]
                mask[b, at] = np.arange(1, count + 1) >= row.loss_from
            if states is not None:
                states[b, at] = row.grammar_state[shifted:]
            if types is not None and row.types is not None:
                types[b, at] = row.types[:count]
            if trees is not None and row.tree_positions is not None:
                trees[b, at] = row.tree_positions[:count]
            many = len(row.surfaces)
            for column, values in zip(table, row.numerals, strict=True):
                column[b, used : used + many] = values
            surfaces[b] += row.surfaces
            start, used = start + count, used + many
    features = {}
    if host_features is not None:
        features = _features(host_features, table, surfaces)
    return Batch(
        inputs=Tokens(token_ids, positions, segments, types, trees, index, table, features),
        targets=Targets(target_ids, mask, target_index) if shifted else None,
        grammar_state=states,
        labels=_labels(rows, first.labels if first is not None else label_shapes or {}),
        example_id=np.asarray([i[0] if len(i) == 1 else -1 for i in ids], np.int32),
        valid=np.asarray([len(several) > 0 for several in rows]),
    )


def from_features(found: Sequence[Features], digits: int, host_features: HostFeatures | None = None) -> Batch:
    """A batch of whole encoded documents, for looking at embeddings; lengths rounded up to 8."""
    rows = [encoded.from_features(f, digits) for f in found]
    length = max(8, -(-max(len(row.ids) for row in rows) // 8) * 8)
    numerals = max(1, *(len(row.surfaces) for row in rows)) if rows else 1
    return assemble(
        [[row] for row in rows],
        [[i] for i in range(len(rows))],
        kind="classify",
        length=length,
        numerals=numerals,
        digits=digits,
        host_features=host_features,
    )


def blank_numerals(shape: tuple[int, ...], digits: int) -> Numeral:
    """A table of invalid zeros."""
    return Numeral(
        sign=np.ones(shape, np.int8),
        digits=np.zeros((*shape, digits), np.int8),
        n_digits=np.zeros(shape, np.int32),
        exponent=np.zeros(shape, np.int32),
        valid=np.zeros(shape, bool),
    )


def _features(host_features: HostFeatures, table: Numeral, surfaces: list[list[str]]) -> dict[str, np.ndarray]:
    rows, most = table.valid.shape
    flat = Numeral(*(np.reshape(x, (rows * most, *x.shape[2:])) for x in table))
    written = [text for row in surfaces for text in row + [""] * (most - len(row))]
    return {k: v.reshape(rows, most, *v.shape[1:]) for k, v in host_features(flat, written).items()}


def _labels(rows: Sequence[Sequence[Row]], like: Any) -> dict[str, np.ndarray]:
    out = {}
    for name, value in like.items():
        example = np.asarray(value)
        kind = np.int32 if np.issubdtype(example.dtype, np.integer) else np.float32
        column = np.zeros((len(rows), *example.shape), kind)
        for b, several in enumerate(rows):
            if several:
                column[b] = several[0].labels[name]
        out[name] = column
    return out


def _extra(first: Row | None, name: str, size: tuple[int, int]) -> np.ndarray | None:
    example = getattr(first, name) if first is not None else None
    if example is None:
        return None
    return np.full((*size, *np.shape(example)[1:]), -1 if name == "tree_positions" else 0, np.int32)
