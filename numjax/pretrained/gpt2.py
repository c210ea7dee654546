"""Hugging Face's GPT-2 ↔ numjax: the same weights under other names (Radford et al. 2019).

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

# numjax's name → Hugging Face's, in a layer. Theirs are Conv1D: kernels [in, out], as in numjax.
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
POSITIONS = "wpe.weight"
OUTPUT = "lm_head.weight"
IGNORED = r"h\.\d+\.attn\.(bias|masked_bias)"  # masks
PREFIX = "transformer."


def to_params(tensors: Mapping[str, np.ndarray], heads: int) -> dict[str, Any]:
    """Converts tensors to parameters {"backbone": …, "embeds_token": {"table"}}, an entry a layer, float32.

    Args:
      tensors: as in the file; names with or without "transformer.". Other heads and masks are ignored.
      heads: H; the tensors do not say it.

    Raises:
      UsageError: a tensor is missing or has no place, the output weights are not the tokens' table, or D does not
        divide over H.
    """
    plain, used = {name.removeprefix(PREFIX): x for name, x in tensors.items()}, set()

    def take(name: str) -> np.ndarray:
        used.add(name)
        return weights.take_tensor(plain, name, "GPT-2")

    table = take("wte.weight")
    if OUTPUT in plain and not np.array_equal(take(OUTPUT), table):
        raise UsageError(f"not GPT-2's weights: {OUTPUT!r} is not the table of the tokens, as it is in GPT-2")
    width = table.shape[1]
    if width % heads:
        raise UsageError(f"GPT-2's width {width} does not divide over {heads} heads")
    backbone: dict[str, Any] = {param: take(tensor) for param, tensor in STACK.items()}
    backbone["order_sequence"] = {"places": take(POSITIONS)}
    layers = {int(m[1]) for name in plain if (m := re.match(r"h\.(\d+)\.", name))}
    for layer in sorted(layers):
        block = {param: take(f"h.{layer}.{tensor}") for param, tensor in LAYER.items()}
        block["qkv_kernel"] = block["qkv_kernel"].reshape(width, 3, heads, -1)
        block["qkv_bias"] = block["qkv_bias"].reshape(3, heads, -1)
        backbone[f"layer_{layer}"] = block
    weights.refuse_unused(plain.keys() - used, IGNORED, "GPT-2")
    return {"backbone": backbone, "embeds_token": {"table": table}}


def to_tensors(params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """Converts parameters with an entry a layer to tensors under Hugging Face's names.

    Args:
      size: rows of GPT-2's token table; padding, marks and symbols beyond it are left out.
    """
    backbone = params["backbone"]
    tensors = {PREFIX + tensor: np.asarray(backbone[param]) for param, tensor in STACK.items()}
    tensors[PREFIX + POSITIONS] = np.asarray(backbone["order_sequence"]["places"])
    tensors[PREFIX + "wte.weight"] = np.asarray(params["embeds_token"]["table"])[:size]
    width = tensors[PREFIX + "wte.weight"].shape[1]
    for name, block in backbone.items():
        if not name.startswith("layer_"):
            continue
        for param, tensor in LAYER.items():
            x = np.asarray(block[param])
            if param == "qkv_kernel":
                x = x.reshape(width, -1)
            tensors[f"{PREFIX}h.{name.removeprefix('layer_')}.{tensor}"] = x.reshape(-1) if param == "qkv_bias" else x
    return {name: np.ascontiguousarray(x) for name, x in tensors.items()}


def read_params(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """Reads the parameters from a .safetensors file, or from the one in a folder.

    Raises:
      UsageError: the file cannot be read, has not these tensors, or its config.json has another number of heads.
    """
    weights.check_config(path, heads, "n_head")
    return weights.load_params(path, to_params, heads)


def find_function(params: Mapping[str, Any]) -> tuple[bool, dict[str, int]]:
    """The arguments `scaled` and `offsets` of `weights.check_function`."""
    del params
    return True, {"": 0}


def map_marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Maps each numjax mark to the row that it starts from: none, since GPT-2's vocabulary has the marks by name."""
    del params
    return {}


def limit_spare_rows(params: Mapping[str, Any]) -> int:
    """How many rows the token table may have beyond the vocabulary: none."""
    del params
    return 0


def write_params(path: pathlib.Path, params: Mapping[str, Any], size: int) -> None:
    """Writes the tensors of `to_tensors` as a .safetensors file."""
    weights.save_tensors(path, to_tensors(params, size))
