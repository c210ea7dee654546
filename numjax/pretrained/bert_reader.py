"""BERT of Hugging Face as the encoder of an encoder–decoder whose decoder starts fresh.

What the backbone must be is `bert_reader` of `configs/presets.py`. What BERT adds to every position of a first text,
its type 0, goes into the positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numjax.pretrained import bart, entries
from numjax.pretrained.entries import Entry

NAME = "BERT"
TELLTALE = "encoder.layer.0.attention.self.query.weight"
# BERT's own tokens are ours, at the same places.
MARKS: dict[str, int] = {}

_POSITIONS = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")


def of_tensors(names: Iterable[str]) -> Iterator[Entry]:
    """The entries of a file that holds these tensors, named without a prefix."""
    ours = "backbone/encoder"
    yield Entry("embeds_token/table", ("embeddings.word_embeddings.weight",))
    yield Entry(f"{ours}/order_sequence/places", _POSITIONS, "first")
    yield from bart.norm(f"{ours}/ln_0", "embeddings.LayerNorm")
    for i in range(entries.layers(names, r"encoder\.layer\.(\d+)\.")):
        yield from _layer(f"{ours}/layer_{i}", f"encoder.layer.{i}")


def _layer(ours: str, theirs: str) -> Iterator[Entry]:
    attention = tuple(f"{theirs}.attention.self.{name}" for name in ("query", "key", "value"))
    yield Entry(f"{ours}/qkv_kernel", tuple(f"{name}.weight" for name in attention), "heads")
    yield Entry(f"{ours}/qkv_bias", tuple(f"{name}.bias" for name in attention), "bias")
    yield from bart.linear(f"{ours}/out", f"{theirs}.attention.output.dense")
    yield from bart.norm(f"{ours}/ln_1", f"{theirs}.attention.output.LayerNorm")
    yield from bart.linear(f"{ours}/up", f"{theirs}.intermediate.dense")
    yield from bart.linear(f"{ours}/down", f"{theirs}.output.dense")
    yield from bart.norm(f"{ours}/ln_2", f"{theirs}.output.LayerNorm")


def is_here(params: Any) -> bool:
    """Whether parameters that were read are of this family: they have no decoder."""
    return "decoder" not in params["backbone"]
