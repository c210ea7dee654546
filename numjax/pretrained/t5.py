"""T5, T5 1.1 and FLAN-T5 of Hugging Face ↔ numjax: the same numbers under other names (Raffel et al. 2020).

What the backbone and the head must be is in `configs/presets.py`; with `head_size` and
`mlp_width` of the model where they are not the usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from numjax.pretrained import entries as lists
from numjax.pretrained.entries import Entry

NAME = "T5"
TELLTALE = "encoder.block.0.layer.0.SelfAttention.q.weight"

# The rows that marks of ours start from: T5 starts to write with its padding, and ends with </s>. [MASK] is
# <extra_id_0>, where there is one.
MARKS = {"[PAD]": 0, "[CLS]": 0, "[EOS]": 1, "[SEP]": 1, "[MASK]": 32_099}


def entries(encoder: int, decoder: int, gated: bool, untied: bool) -> Iterator[Entry]:
    """Of models with so many layers; `gated`: T5 1.1 and later; `untied`: with an output table of its own."""
    yield Entry("embeds_token/table", ("shared.weight",))
    if untied:
        yield Entry("heads_next/kernel", ("lm_head.weight",))
    for side, count in (("encoder", encoder), ("decoder", decoder)):
        ours = f"backbone/{side}"
        first = f"{side}.block.0.layer.0.SelfAttention"
        yield Entry(f"{ours}/order_sequence/distances", (f"{first}.relative_attention_bias.weight",))
        yield Entry(f"{ours}/ln_f_scale", (f"{side}.final_layer_norm.weight",))
        for i in range(count):
            yield from _layer(f"{ours}/layer_{i}", f"{side}.block.{i}.layer", side == "decoder", gated)


def _layer(ours: str, theirs: str, decodes: bool, gated: bool) -> Iterator[Entry]:
    def own(part: str, *names: str) -> tuple[str, ...]:
        return tuple(f"{theirs}.{part}.{name}.weight" for name in names)

    yield Entry(f"{ours}/ln_1_scale", own("0", "layer_norm"))
    yield Entry(f"{ours}/qkv_kernel", own("0.SelfAttention", "q", "k", "v"), "heads")
    yield Entry(f"{ours}/out_kernel", own("0.SelfAttention", "o"), "turned")
    if decodes:
        yield Entry(f"{ours}/ln_cross_scale", own("1", "layer_norm"))
        yield Entry(f"{ours}/cross_q_kernel", own("1.EncDecAttention", "q"), "heads")
        yield Entry(f"{ours}/cross_kv_kernel", own("1.EncDecAttention", "k", "v"), "heads")
        yield Entry(f"{ours}/cross_out_kernel", own("1.EncDecAttention", "o"), "turned")
    last = "2" if decodes else "1"
    yield Entry(f"{ours}/ln_2_scale", own(last, "layer_norm"))
    dense = f"{last}.DenseReluDense"
    yield Entry(f"{ours}/up_kernel", own(dense, "wi_1" if gated else "wi"), "turned")
    if gated:
        yield Entry(f"{ours}/gate_kernel", own(dense, "wi_0"), "turned")
    yield Entry(f"{ours}/down_kernel", own(dense, "wo"), "turned")


def of_tensors(names: Iterable[str]) -> Iterator[Entry]:
    """The entries of a file that holds these tensors."""
    known = set(names)
    encoder, decoder = (lists.layers(known, rf"{side}\.block\.(\d+)\.") for side in ("encoder", "decoder"))
    gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in known
    return entries(encoder, decoder, gated, "lm_head.weight" in known)


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """The tensors of parameters with an entry a layer, under Hugging Face's names.

    Args:
      size: rows of the token table that T5 has: what lies behind is left out.
    """
    sides = [params["backbone"][side] for side in ("encoder", "decoder")]
    encoder, decoder = (lists.layers(side, r"layer_(\d+)") for side in sides)
    gated = "gate_kernel" in sides[0]["layer_0"]
    found = entries(encoder, decoder, gated, "kernel" in params.get("heads_next", {}))
    return lists.to_tensors(found, params, size)
