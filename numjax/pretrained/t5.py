"""Hugging Face's T5, T5 1.1 and FLAN-T5 ↔ numjax: the same weights under other names (Raffel et al. 2020).

`configs/presets.py` has the backbone and the head that these weights need. Set `head_size` and `mlp_width` too if the
model's differ from the defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from numjax.pretrained import entries as entry_lists
from numjax.pretrained.entries import ParamEntry

NAME = "T5"
TELLTALE = "encoder.block.0.layer.0.SelfAttention.q.weight"

# Each numjax mark starts from this row. T5 starts its output with the padding token and ends it with </s>. [MASK]
# starts from <extra_id_0>, if the table has it.
MARKS = {"[PAD]": 0, "[CLS]": 0, "[EOS]": 1, "[SEP]": 1, "[MASK]": 32_099}
# The table may have so many rows more than the vocabulary has pieces: T5's has 128, for <extra_id_*> and padding.
MAX_SPARE_ROWS = 256
# Copies of the token table, and a table of the cross attention that T5 never uses.
IGNORED = (
    r"(encoder|decoder)\.embed_tokens\.weight"
    r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
)


def make_entries(encoder: int, decoder: int, is_gated: bool, has_output_table: bool) -> Iterator[ParamEntry]:
    """Makes the entries of a model.

    Args:
      encoder, decoder: counts of layers. is_gated: T5 1.1 and later. has_output_table: the output is not tied.
    """
    yield ParamEntry("embeds_token/table", ("shared.weight",))
    if has_output_table:
        yield ParamEntry("heads_next/kernel", ("lm_head.weight",))
    for side, count in (("encoder", encoder), ("decoder", decoder)):
        param = f"backbone/{side}"
        first = f"{side}.block.0.layer.0.SelfAttention"
        yield ParamEntry(f"{param}/order_sequence/distances", (f"{first}.relative_attention_bias.weight",))
        yield ParamEntry(f"{param}/ln_f_scale", (f"{side}.final_layer_norm.weight",))
        for i in range(count):
            yield from _layer_entries(f"{param}/layer_{i}", f"{side}.block.{i}.layer", side == "decoder", is_gated)


def _layer_entries(param: str, tensor: str, is_decoder: bool, is_gated: bool) -> Iterator[ParamEntry]:
    def tensor_names(layer: str, *names: str) -> tuple[str, ...]:
        return tuple(f"{tensor}.{layer}.{name}.weight" for name in names)

    yield ParamEntry(f"{param}/ln_1_scale", tensor_names("0", "layer_norm"))
    yield ParamEntry(f"{param}/qkv_kernel", tensor_names("0.SelfAttention", "q", "k", "v"), "heads")
    yield ParamEntry(f"{param}/out_kernel", tensor_names("0.SelfAttention", "o"), "transposed")
    if is_decoder:
        yield ParamEntry(f"{param}/ln_cross_scale", tensor_names("1", "layer_norm"))
        yield ParamEntry(f"{param}/cross_q_kernel", tensor_names("1.EncDecAttention", "q"), "heads")
        yield ParamEntry(f"{param}/cross_kv_kernel", tensor_names("1.EncDecAttention", "k", "v"), "heads")
        yield ParamEntry(f"{param}/cross_out_kernel", tensor_names("1.EncDecAttention", "o"), "transposed")
    last = "2" if is_decoder else "1"
    yield ParamEntry(f"{param}/ln_2_scale", tensor_names(last, "layer_norm"))
    dense = f"{last}.DenseReluDense"
    yield ParamEntry(f"{param}/up_kernel", tensor_names(dense, "wi_1" if is_gated else "wi"), "transposed")
    if is_gated:
        yield ParamEntry(f"{param}/gate_kernel", tensor_names(dense, "wi_0"), "transposed")
    yield ParamEntry(f"{param}/down_kernel", tensor_names(dense, "wo"), "transposed")


def find_entries(names: Iterable[str]) -> Iterator[ParamEntry]:
    """Finds the entries for a file with tensors of these names."""
    tensors = set(names)
    encoder, decoder = (
        entry_lists.count_layers(tensors, rf"{side}\.block\.(\d+)\.") for side in ("encoder", "decoder")
    )
    is_gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in tensors
    return make_entries(encoder, decoder, is_gated, "lm_head.weight" in tensors)


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """Converts parameters with an entry a layer to tensors under Hugging Face's names.

    Args:
      size: rows of T5's token table; rows beyond it are left out.
    """
    sides = [params["backbone"][side] for side in ("encoder", "decoder")]
    encoder, decoder = (entry_lists.count_layers(side, r"layer_(\d+)") for side in sides)
    is_gated = "gate_kernel" in sides[0]["layer_0"]
    entries = make_entries(encoder, decoder, is_gated, "kernel" in params.get("heads_next", {}))
    return entry_lists.to_tensors(entries, params, size)
