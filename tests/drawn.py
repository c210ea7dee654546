"""Random inputs that several tests share: numbers, batches with packed segments and numerals,
small models and their parameters.

Every number is drawn as a Decimal, so that a reference can be computed from it without going through the
arrays under test.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import jax
import numpy as np

from numjax.build import build
from numjax.model import Model
from numjax.nn.numerals import gather
from numjax.numeral.exact import to_numeral
from numjax.system import make_backbone
from numjax.types import Batch, Numeral, Targets, Tokens

DIGITS = 8
VOCAB, SIZE, NUM = 24, 21, 17  # padded, in use, and an id amid the others for [NUM]


def decimals(rng: np.random.Generator, count: int, low: int = -6, high: int = 8) -> list[Decimal]:
    """Numbers of 1 to 8 digits and either sign whose first digit stands at 10^low … 10^high."""
    out = []
    for _ in range(count):
        digits = [rng.integers(1, 10), *rng.integers(0, 10, rng.integers(0, DIGITS))]
        value = Decimal((int(rng.integers(2)), tuple(map(int, digits)), 0))
        out.append(value.scaleb(int(rng.integers(low, high + 1)) - value.adjusted()))
    return out


def numeral_table(values: list[list[Decimal | None]], digits: int = DIGITS) -> Numeral:
    """Numeral[B, N] of rows of equal length; None makes an invalid slot."""
    return jax.tree.map(lambda *rows: np.stack(rows), *(to_numeral(row, digits) for row in values))


def tokens(
    rng: np.random.Generator, rows: int = 3, length: int = 12, slots: int = 4, lengths: list[list[int]] | None = None
) -> tuple[Tokens, list[list[Decimal | None]]]:
    """Rows with two packed segments and padding, or with segments of the given `lengths`; and their numbers.

    Each row's last slot is empty; about a third of its positions are numerals, some always.
    """
    lengths = lengths or [[length // 2, length // 2 - 1 - b % 3] for b in range(rows)]
    rows = len(lengths)
    values: list[list[Decimal | None]] = [[*decimals(rng, slots - 1), None] for _ in range(rows)]
    ids = rng.integers(0, SIZE - 1, (rows, length)).astype(np.int32)
    ids += ids >= NUM
    positions, segments = np.zeros((rows, length), np.int32), np.zeros((rows, length), np.int32)
    for b, row in enumerate(lengths):
        at = 0
        for segment, count in enumerate(row, 1):
            positions[b, at : at + count] = np.arange(count)
            segments[b, at : at + count] = segment
            at += count
    index = np.where(rng.random((rows, length)) < 0.35, rng.integers(0, slots - 1, (rows, length)), -1)
    index[:, 1:slots:2] = np.arange(1, slots, 2) - 1  # a few at least
    index = np.where(segments > 0, index, -1).astype(np.int32)
    ids = np.where(segments == 0, 0, np.where(index >= 0, NUM, ids)).astype(np.int32)
    return Tokens(ids, positions, segments, numeral_index=index, numerals=numeral_table(values)), values


def batch(rng: np.random.Generator, rows: int = 3, length: int = 12, numerals: bool = True, **more: Any) -> Batch:
    """A language-model batch: shifted targets within each segment, a label and a span a row."""
    inputs, _ = tokens(rng, rows, length, **more)
    if not numerals:
        inputs = inputs._replace(numerals=None, numeral_index=None)
    rows = inputs.ids.shape[0]
    same = np.zeros((rows, length), bool)
    same[:, :-1] = (inputs.segment_ids[:, 1:] == inputs.segment_ids[:, :-1]) & (inputs.segment_ids[:, 1:] > 0)

    def shift(x, fill):
        return np.where(same, np.roll(x, -1, axis=1), fill).astype(np.int32)

    index = None if inputs.numeral_index is None else shift(inputs.numeral_index, -1)
    targets = Targets(shift(inputs.ids, 0), same, index)
    first = rng.integers(0, np.maximum((inputs.segment_ids == 1).sum(axis=1) - 1, 1))
    labels = {"label": rng.integers(0, 3, rows).astype(np.int32)}
    labels["span"] = np.stack([first, first + (inputs.segment_ids[:, 1] == 1)], axis=1).astype(np.int32)
    return Batch(inputs, targets, labels=labels, valid=np.ones(rows, bool))


def with_units(found: Batch, rng: np.random.Generator) -> Batch:
    """The batch with units of a few positions, cells first, and labels of them as heads/tagop.py reads them."""
    rows, length = found.inputs.ids.shape
    begins = rng.integers(0, 2, (rows, length)).astype(np.int32)
    begins[:, :4] = [0, 1, 0, 1]  # two at least, which hold numbers
    units = np.cumsum(begins, axis=1)
    units = np.where(found.inputs.segment_ids > 0, units, 0)
    group = np.where(units > 3, 2, (units > 0).astype(np.int32))
    numeric = (units > 0) & (units % 5 != 0)
    channels = {"units": np.stack([units, group, numeric.astype(np.int32)], axis=-1).astype(np.int32)}
    labels = {
        "operator": rng.integers(0, 10, rows).astype(np.int32),
        "scale": rng.integers(0, 5, rows).astype(np.int32),
        "tags": rng.random((rows, length)) < 0.3,
        "operands": np.tile(np.int32([0, 1]), (rows, 1)),
        "order": rng.integers(0, 2, rows).astype(np.int32),
    }
    return found._replace(inputs=found.inputs._replace(channels=channels), labels=dict(found.labels) | labels)


def with_numerals(found: Batch) -> Targets:
    """The targets as an objective hands them to a head: with the numeral of each position."""
    assert found.targets is not None and found.inputs.numerals is not None
    if found.targets.numeral_index is None:
        return found.targets
    table = jax.tree.map(np.asarray, found.inputs.numerals)
    return found.targets._replace(numerals=gather(table, found.targets.numeral_index))


KNOWN = {"vocab_size": VOCAB, "size": SIZE, "num_id": NUM, "digits": DIGITS, "width": 16}
KNOWN |= {"digit_ids": tuple(range(10)), "agg_id": 18, "num_classes": 3}
KNOWN |= {
    "digit_symbols": tuple((d, d) for d in range(10)),
    "number_symbols": tuple((d, float(d)) for d in range(10)),
}
DECODER = {"name": "decoder", "width": 16, "layers": 2, "heads": 2, "max_length": 16}
LEARNED = {"sequence": {"name": "learned"}}


def stack(block: Mapping[str, Any], positions: Mapping[str, Any] = LEARNED) -> Any:
    """A backbone with positions, those of GPT-2 and BERT by default."""
    return make_backbone(block, positions, **{name: KNOWN[name] for name in ("digit_symbols", "number_symbols")})


def model(
    embed: Mapping[str, Any] | None = None,
    head: Mapping[str, Any] | None = None,
    fusion: str = "concat+linear",
    positions: Mapping[str, Any] = LEARNED,
    **backbone: Any,
) -> Model:
    """A decoder of two layers with head "next"; `embed` is fused into the tokens as "numeral"."""
    embeds = {"token": build("embed", {"name": "token"}, dim=16, **KNOWN)}
    fusions = {}
    if embed is not None:
        embeds["numeral"] = build("embed", {"dim": 12} | dict(embed), **KNOWN)
        fusions["numeral"] = fusion
    head = {"name": "token"} if head is None else dict(head)
    heads = {"next": build("heads", head, **KNOWN)}
    return Model(embeds, fusions, stack(DECODER | backbone, positions), heads)


def draw(module: Any, rng: np.random.Generator, *args: Any, scale: float = 0.3, **more: Any) -> Any:
    """Parameters of a module at random, norms' scales around 1: zero biases and unit scales hide mistakes."""
    shapes = jax.eval_shape(functools.partial(module.init, **more), jax.random.key(0), *args).get("params", {})

    def one(path, leaf):
        centre = 1.0 if path[-1].key.endswith("scale") else 0.0
        return np.asarray(centre + scale * rng.standard_normal(leaf.shape), np.float32)

    return jax.tree_util.tree_map_with_path(one, shapes)
