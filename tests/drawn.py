"""Draws random inputs for several tests: numbers, batches with packed segments and numerals, small models and their
parameters.

Every number is drawn as a Decimal. A test can compute its reference from the Decimal, without the arrays under test.
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
VOCAB, SIZE, NUM = 24, 21, 17  # padded size, used ids, and the id of [NUM], which lies between the others


def draw_decimals(rng: np.random.Generator, count: int, low: int = -6, high: int = 8) -> list[Decimal]:
    """Numbers of 1 to 8 digits and of both signs. Their first digit has a place from 10^low to 10^high."""
    values = []
    for _ in range(count):
        digits = [rng.integers(1, 10), *rng.integers(0, 10, rng.integers(0, DIGITS))]
        number = Decimal((int(rng.integers(2)), tuple(map(int, digits)), 0))
        values.append(number.scaleb(int(rng.integers(low, high + 1)) - number.adjusted()))
    return values


def make_numeral_table(values: list[list[Decimal | None]], digits: int = DIGITS) -> Numeral:
    """Returns Numeral[B, N] for rows of equal length. None becomes an invalid slot."""
    return jax.tree.map(lambda *rows: np.stack(rows), *(to_numeral(row, digits) for row in values))


def draw_tokens(
    rng: np.random.Generator, rows: int = 3, length: int = 12, slots: int = 4, lengths: list[list[int]] | None = None
) -> tuple[Tokens, list[list[Decimal | None]]]:
    """Returns (rows, their numbers). A row has two packed segments and padding, or segments of the given `lengths`.

    The last slot of each row is empty. About a third of the positions are numerals, and a few always are.
    """
    lengths = lengths or [[length // 2, length // 2 - 1 - b % 3] for b in range(rows)]
    rows = len(lengths)
    values: list[list[Decimal | None]] = [[*draw_decimals(rng, slots - 1), None] for _ in range(rows)]
    ids = rng.integers(0, SIZE - 1, (rows, length)).astype(np.int32)
    ids += ids >= NUM
    positions, segments = np.zeros((rows, length), np.int32), np.zeros((rows, length), np.int32)
    for b, row in enumerate(lengths):
        start = 0
        for segment, count in enumerate(row, 1):
            positions[b, start : start + count] = np.arange(count)
            segments[b, start : start + count] = segment
            start += count
    index = np.where(rng.random((rows, length)) < 0.35, rng.integers(0, slots - 1, (rows, length)), -1)
    index[:, 1:slots:2] = np.arange(1, slots, 2) - 1  # at least a few numerals
    index = np.where(segments > 0, index, -1).astype(np.int32)
    ids = np.where(segments == 0, 0, np.where(index >= 0, NUM, ids)).astype(np.int32)
    return Tokens(ids, positions, segments, numeral_index=index, numerals=make_numeral_table(values)), values


def draw_batch(
    rng: np.random.Generator, rows: int = 3, length: int = 12, numerals: bool = True, **more: Any
) -> Batch:
    """A language-model batch. Targets are shifted within each segment; each row has a label and a span."""
    inputs, _ = draw_tokens(rng, rows, length, **more)
    if not numerals:
        inputs = inputs._replace(numerals=None, numeral_index=None)
    rows = inputs.ids.shape[0]
    has_target = np.zeros((rows, length), bool)
    has_target[:, :-1] = (inputs.segment_ids[:, 1:] == inputs.segment_ids[:, :-1]) & (inputs.segment_ids[:, 1:] > 0)

    def shift(x, fill):
        return np.where(has_target, np.roll(x, -1, axis=1), fill).astype(np.int32)

    index = None if inputs.numeral_index is None else shift(inputs.numeral_index, -1)
    targets = Targets(shift(inputs.ids, 0), has_target, index)
    first = rng.integers(0, np.maximum((inputs.segment_ids == 1).sum(axis=1) - 1, 1))
    labels = {"label": rng.integers(0, 3, rows).astype(np.int32)}
    labels["span"] = np.stack([first, first + (inputs.segment_ids[:, 1] == 1)], axis=1).astype(np.int32)
    return Batch(inputs, targets, labels=labels, valid=np.ones(rows, bool))


def add_units(batch: Batch, rng: np.random.Generator) -> Batch:
    """Adds units of a few positions, cells first, and the labels of units that heads/tagop.py expects."""
    rows, length = batch.inputs.ids.shape
    begins = rng.integers(0, 2, (rows, length)).astype(np.int32)
    begins[:, :4] = [0, 1, 0, 1]  # at least two units, which hold numbers
    units = np.cumsum(begins, axis=1)
    units = np.where(batch.inputs.segment_ids > 0, units, 0)
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
    return batch._replace(inputs=batch.inputs._replace(channels=channels), labels=dict(batch.labels) | labels)


def add_numerals(batch: Batch) -> Targets:
    """Returns the targets with the numeral of each position, as an objective passes them to a head."""
    assert batch.targets is not None and batch.inputs.numerals is not None
    if batch.targets.numeral_index is None:
        return batch.targets
    table = jax.tree.map(np.asarray, batch.inputs.numerals)
    return batch.targets._replace(numerals=gather(table, batch.targets.numeral_index))


CONTEXT = {"vocab_size": VOCAB, "size": SIZE, "num_id": NUM, "digits": DIGITS, "width": 16}
CONTEXT |= {"digit_ids": tuple(range(10)), "agg_id": 18, "num_classes": 3}
CONTEXT |= {
    "digit_symbols": tuple((d, d) for d in range(10)),
    "number_symbols": tuple((d, float(d)) for d in range(10)),
    "marks": (
        # Limbs are digits too, so that one text has both.
        *(("[#]", 10), ("[#1]", 11), ("[:007]", 1), ("[:12]", 2), ("[.5]", 3), ("[:3]", 4), ("[.45]", 5)),
        *(("[@1]", 12), ("[@2]", 13), ("[^]", 14), ("[.]", 15), ("[SEP]", 19)),
    ),
}
DECODER = {"name": "decoder", "width": 16, "layers": 2, "heads": 2, "max_length": 16}
LEARNED_POSITIONS = {"sequence": {"name": "learned"}}


def build_backbone(block: Mapping[str, Any], positions: Mapping[str, Any] = LEARNED_POSITIONS) -> Any:
    """Builds a backbone with positions. The default positions are those of GPT-2 and BERT."""
    fields = ("digit_symbols", "number_symbols", "marks")
    return make_backbone(block, positions, **{name: CONTEXT[name] for name in fields})


def build_model(
    embed: Mapping[str, Any] | None = None,
    head: Mapping[str, Any] | None = None,
    fusion: str = "concat+linear",
    positions: Mapping[str, Any] = LEARNED_POSITIONS,
    **backbone: Any,
) -> Model:
    """Builds a decoder of two layers with the head "next". `embed` is fused into the tokens as "numeral"."""
    embeds = {"token": build("embed", {"name": "token"}, dim=16, **CONTEXT)}
    fusions = {}
    if embed is not None:
        embeds["numeral"] = build("embed", {"dim": 12} | dict(embed), **CONTEXT)
        fusions["numeral"] = fusion
    head = {"name": "token"} if head is None else dict(head)
    heads = {"next": build("heads", head, **CONTEXT)}
    return Model(embeds, fusions, build_backbone(DECODER | backbone, positions), heads)


def draw_params(module: Any, rng: np.random.Generator, *args: Any, scale: float = 0.3, **more: Any) -> Any:
    """Draws random parameters of a module. Scales of norms are around 1. Zero biases and unit scales hide bugs."""
    shapes = jax.eval_shape(functools.partial(module.init, **more), jax.random.key(0), *args).get("params", {})

    def draw_leaf(path, leaf):
        centre = 1.0 if path[-1].key.endswith("scale") else 0.0
        return np.asarray(centre + scale * rng.standard_normal(leaf.shape), np.float32)

    return jax.tree_util.tree_map_with_path(draw_leaf, shapes)
