"""Hugging Face's BERT as the encoder of an encoder–decoder; the decoder starts from random weights.

The backbone must be `bert_reader` of `configs/presets.py`. BERT adds the vector of type 0 to every position of a
first text; here it is added to the position vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numjax.pretrained import bart, bert, entries
from numjax.pretrained.entries import ParamEntry

NAME = "BERT"
TELLTALE = "encoder.layer.0.attention.self.query.weight"
# numjax uses BERT's own tokens, with the same ids.
MARKS: dict[str, int] = {}
MAX_SPARE_ROWS = 0
IGNORED = bert.IGNORED

_POSITIONS = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")


def find_entries(names: Iterable[str]) -> Iterator[ParamEntry]:
    """Finds the entries for a file with tensors of these names, which have no prefix."""
    param = "backbone/encoder"
    yield ParamEntry("embeds_token/table", ("embeddings.word_embeddings.weight",))
    yield ParamEntry(f"{param}/order_sequence/places", _POSITIONS, "first")
    yield from bart.norm_entries(f"{param}/ln_0", "embeddings.LayerNorm")
    for i in range(entries.count_layers(names, r"encoder\.layer\.(\d+)\.")):
        yield from _layer_entries(f"{param}/layer_{i}", f"encoder.layer.{i}")


def _layer_entries(param: str, tensor: str) -> Iterator[ParamEntry]:
    attention = tuple(f"{tensor}.attention.self.{name}" for name in ("query", "key", "value"))
    yield ParamEntry(f"{param}/qkv_kernel", tuple(f"{name}.weight" for name in attention), "heads")
    yield ParamEntry(f"{param}/qkv_bias", tuple(f"{name}.bias" for name in attention), "bias")
    yield from bart.linear_entries(f"{param}/out", f"{tensor}.attention.output.dense")
    yield from bart.norm_entries(f"{param}/ln_1", f"{tensor}.attention.output.LayerNorm")
    yield from bart.linear_entries(f"{param}/up", f"{tensor}.intermediate.dense")
    yield from bart.linear_entries(f"{param}/down", f"{tensor}.output.dense")
    yield from bart.norm_entries(f"{param}/ln_2", f"{tensor}.output.LayerNorm")


def is_encoder_only(params: Any) -> bool:
    """Whether parameters are of this family: they have no decoder."""
    return "decoder" not in params["backbone"]
