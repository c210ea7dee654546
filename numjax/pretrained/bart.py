"""Hugging Face's BART ↔ numjax: the same weights under other names (Lewis et al. 2020).

`configs/presets.py` has the backbone and the head that these weights need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from numjax.pretrained import entries as entry_lists
from numjax.pretrained.entries import ParamEntry

NAME = "BART"
PREFIX = "model."
TELLTALE = f"{PREFIX}encoder.layers.0.self_attn.q_proj.weight"

# Each numjax mark starts from this row. BART starts its output with </s>, which also ends it; <s> opens a source.
MARKS = {"[PAD]": 1, "[CLS]": 2, "[EOS]": 2, "[SEP]": 0, "[MASK]": 50_264}
MAX_SPARE_ROWS = 0
IGNORED = r"model\.(encoder|decoder)\.(embed_tokens\.weight|version)"


def make_entries(encoder: int, decoder: int, has_bias: bool) -> Iterator[ParamEntry]:
    """Makes the entries of a model.

    Args:
      encoder, decoder: counts of layers. has_bias: whether there is `final_logits_bias`, the bias of numjax's head.
    """
    yield ParamEntry("embeds_token/table", ("model.shared.weight",))
    if has_bias:
        yield ParamEntry("heads_next/bias", ("final_logits_bias",), "row")
    for side, count in (("encoder", encoder), ("decoder", decoder)):
        param, tensor = f"backbone/{side}", f"model.{side}"
        yield ParamEntry(f"{param}/order_sequence/places", (f"{tensor}.embed_positions.weight",))
        yield from norm_entries(f"{param}/ln_0", f"{tensor}.layernorm_embedding")
        for i in range(count):
            yield from _layer_entries(f"{param}/layer_{i}", f"{tensor}.layers.{i}", side == "decoder")


def _layer_entries(param: str, tensor: str, is_decoder: bool) -> Iterator[ParamEntry]:
    yield from _attention_entries(f"{param}/", f"{tensor}.self_attn", ("qkv",))
    yield from norm_entries(f"{param}/ln_1", f"{tensor}.self_attn_layer_norm")
    if is_decoder:
        yield from _attention_entries(f"{param}/cross_", f"{tensor}.encoder_attn", ("q", "kv"))
        yield from norm_entries(f"{param}/ln_cross", f"{tensor}.encoder_attn_layer_norm")
    yield from linear_entries(f"{param}/up", f"{tensor}.fc1")
    yield from linear_entries(f"{param}/down", f"{tensor}.fc2")
    yield from norm_entries(f"{param}/ln_2", f"{tensor}.final_layer_norm")


def _attention_entries(param: str, tensor: str, kernels: tuple[str, ...]) -> Iterator[ParamEntry]:
    for name in kernels:
        yield ParamEntry(f"{param}{name}_kernel", tuple(f"{tensor}.{x}_proj.weight" for x in name), "heads")
        yield ParamEntry(f"{param}{name}_bias", tuple(f"{tensor}.{x}_proj.bias" for x in name), "bias")
    yield from linear_entries(f"{param}out", f"{tensor}.out_proj")


def linear_entries(param: str, tensor: str) -> Iterator[ParamEntry]:
    """The entries of a kernel and its bias."""
    yield ParamEntry(f"{param}_kernel", (f"{tensor}.weight",), "transposed")
    yield ParamEntry(f"{param}_bias", (f"{tensor}.bias",))


def norm_entries(param: str, tensor: str) -> Iterator[ParamEntry]:
    """The entries of a layer norm's scale and bias."""
    yield ParamEntry(f"{param}_scale", (f"{tensor}.weight",))
    yield ParamEntry(f"{param}_bias", (f"{tensor}.bias",))


def find_entries(names: Iterable[str]) -> Iterator[ParamEntry]:
    """Finds the entries for a file with tensors of these names."""
    tensors = set(names)
    encoder, decoder = (
        entry_lists.count_layers(tensors, rf"model\.{side}\.layers\.(\d+)\.") for side in ("encoder", "decoder")
    )
    return make_entries(encoder, decoder, "final_logits_bias" in tensors)


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """Converts parameters with an entry a layer to tensors under Hugging Face's names.

    Args:
      size: rows of BART's token table; rows beyond it are left out.
    """
    encoder, decoder = (
        entry_lists.count_layers(params["backbone"][side], r"layer_(\d+)") for side in ("encoder", "decoder")
    )
    return entry_lists.to_tensors(
        make_entries(encoder, decoder, "bias" in params.get("heads_next", {})), params, size
    )
