"""BART of Hugging Face ↔ numjax: the same numbers under other names (Lewis et al. 2020).

What the backbone and the head must be is in `configs/presets.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from numjax.pretrained import entries as lists
from numjax.pretrained.entries import Entry

NAME = "BART"
PREFIX = "model."
TELLTALE = f"{PREFIX}encoder.layers.0.self_attn.q_proj.weight"

# The rows that marks of ours start from: BART starts to write with </s>, which also ends; <s> opens a source.
MARKS = {"[PAD]": 1, "[CLS]": 2, "[EOS]": 2, "[SEP]": 0, "[MASK]": 50_264}


def entries(encoder: int, decoder: int, biased: bool) -> Iterator[Entry]:
    """Of models with so many layers; `biased`: with `final_logits_bias`, the bias of our head."""
    yield Entry("embeds_token/table", ("model.shared.weight",))
    if biased:
        yield Entry("heads_next/bias", ("final_logits_bias",), "row")
    for side, count in (("encoder", encoder), ("decoder", decoder)):
        ours, theirs = f"backbone/{side}", f"model.{side}"
        yield Entry(f"{ours}/order_sequence/places", (f"{theirs}.embed_positions.weight",))
        yield from norm(f"{ours}/ln_0", f"{theirs}.layernorm_embedding")
        for i in range(count):
            yield from _layer(f"{ours}/layer_{i}", f"{theirs}.layers.{i}", side == "decoder")


def _layer(ours: str, theirs: str, decodes: bool) -> Iterator[Entry]:
    yield from _attention(f"{ours}/", f"{theirs}.self_attn", ("qkv",))
    yield from norm(f"{ours}/ln_1", f"{theirs}.self_attn_layer_norm")
    if decodes:
        yield from _attention(f"{ours}/cross_", f"{theirs}.encoder_attn", ("q", "kv"))
        yield from norm(f"{ours}/ln_cross", f"{theirs}.encoder_attn_layer_norm")
    yield from linear(f"{ours}/up", f"{theirs}.fc1")
    yield from linear(f"{ours}/down", f"{theirs}.fc2")
    yield from norm(f"{ours}/ln_2", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str, kernels: tuple[str, ...]) -> Iterator[Entry]:
    for name in kernels:
        yield Entry(f"{ours}{name}_kernel", tuple(f"{theirs}.{x}_proj.weight" for x in name), "heads")
        yield Entry(f"{ours}{name}_bias", tuple(f"{theirs}.{x}_proj.bias" for x in name), "bias")
    yield from linear(f"{ours}out", f"{theirs}.out_proj")


def linear(ours: str, theirs: str) -> Iterator[Entry]:
    """A kernel and its bias."""
    yield Entry(f"{ours}_kernel", (f"{theirs}.weight",), "turned")
    yield Entry(f"{ours}_bias", (f"{theirs}.bias",))


def norm(ours: str, theirs: str) -> Iterator[Entry]:
    """A layer norm's scale and bias."""
    yield Entry(f"{ours}_scale", (f"{theirs}.weight",))
    yield Entry(f"{ours}_bias", (f"{theirs}.bias",))


def of_tensors(names: Iterable[str]) -> Iterator[Entry]:
    """The entries of a file that holds these tensors."""
    known = set(names)
    encoder, decoder = (lists.layers(known, rf"model\.{side}\.layers\.(\d+)\.") for side in ("encoder", "decoder"))
    return entries(encoder, decoder, "final_logits_bias" in known)


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """The tensors of parameters with an entry a layer, under Hugging Face's names.

    Args:
      size: rows of the token table that BART has: what lies behind is left out.
    """
    encoder, decoder = (lists.layers(params["backbone"][side], r"layer_(\d+)") for side in ("encoder", "decoder"))
    return lists.to_tensors(entries(encoder, decoder, "bias" in params.get("heads_next", {})), params, size)
