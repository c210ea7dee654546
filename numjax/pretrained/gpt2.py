"""GPT-2 of Hugging Face ↔ numjax: the same numbers under other names (Radford et al. 2019).

Legend: D width, H heads, E width of a head, L layers.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import weights

# Ours → theirs within a layer. Theirs are Conv1D: kernels [in, out], as ours.
LAYER = {
    "ln_1_scale": "ln_1.weight",
    "ln_1_bias": "ln_1.bias",
    "qkv_kernel": "attn.c_attn.weight",
    "qkv_bias": "attn.c_attn.bias",
    "out_kernel": "attn.c_proj.weight",
    "out_bias": "attn.c_proj.bias",
    "ln_2_scale": "ln_2.weight",
    "ln_2_bias": "ln_2.bias",
    "up_kernel": "mlp.c_fc.weight",
    "up_bias": "mlp.c_fc.bias",
    "down_kernel": "mlp.c_proj.weight",
    "down_bias": "mlp.c_proj.bias",
}
STACK = {"ln_f_scale": "ln_f.weight", "ln_f_bias": "ln_f.bias"}
PLACES = "wpe.weight"
PREFIX = "transformer."


def to_params(tensors: Mapping[str, np.ndarray], heads: int) -> dict[str, Any]:
    """Parameters {"backbone": …, "embeds_token": {"table"}}, an entry a layer, float32.

    Args:
      tensors: as in the file; names with or without "transformer.", tied output weights and masks left aside.
      heads: H, which the tensors do not tell.

    Raises:
      UsageError: a tensor is missing, or D does not divide over H.
    """
    found = {name.removeprefix(PREFIX): np.asarray(x, np.float32) for name, x in tensors.items()}

    def take(name: str) -> np.ndarray:
        if name not in found:
            raise UsageError(f"not GPT-2's weights: there is no tensor {name!r}")
        return found[name]

    table = take("wte.weight")
    width = table.shape[1]
    if width % heads:
        raise UsageError(f"GPT-2's width {width} does not divide over {heads} heads")
    backbone: dict[str, Any] = {mine: take(theirs) for mine, theirs in STACK.items()}
    backbone["order_sequence"] = {"places": take(PLACES)}
    layers = {int(m[1]) for name in found if (m := re.match(r"h\.(\d+)\.", name))}
    for layer in sorted(layers):
        block = {mine: take(f"h.{layer}.{theirs}") for mine, theirs in LAYER.items()}
        block["qkv_kernel"] = block["qkv_kernel"].reshape(width, 3, heads, -1)
        block["qkv_bias"] = block["qkv_bias"].reshape(3, heads, -1)
        backbone[f"layer_{layer}"] = block
    return {"backbone": backbone, "embeds_token": {"table": table}}


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """The tensors of parameters with an entry a layer, under Hugging Face's names.

    Args:
      size: rows of the token table that GPT-2 has: what pads the vocabulary, marks and symbols are left out.
    """
    backbone = params["backbone"]
    out = {PREFIX + theirs: np.asarray(backbone[mine]) for mine, theirs in STACK.items()}
    out[PREFIX + PLACES] = np.asarray(backbone["order_sequence"]["places"])
    out[PREFIX + "wte.weight"] = np.asarray(params["embeds_token"]["table"])[:size]
    width = out[PREFIX + "wte.weight"].shape[1]
    for name, block in backbone.items():
        if not name.startswith("layer_"):
            continue
        for mine, theirs in LAYER.items():
            x = np.asarray(block[mine])
            if mine == "qkv_kernel":
                x = x.reshape(width, -1)
            out[f"{PREFIX}h.{name.removeprefix('layer_')}.{theirs}"] = x.reshape(-1) if mine == "qkv_bias" else x
    return {name: np.ascontiguousarray(x) for name, x in out.items()}


def read(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """`to_params` of a .safetensors file, or of the one in a folder.

    Raises:
      UsageError: it cannot be read.
    """
    return to_params(weights.load(path), heads)


def marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Name of a mark of ours → the row of theirs that it starts from: none, its vocabulary has them by name."""
    del params
    return {}


def write(path: pathlib.Path, params: Mapping[str, Any], size: int) -> None:
    """Writes `to_tensors` as a .safetensors file."""
    weights.save(path, to_tensors(params, size))
