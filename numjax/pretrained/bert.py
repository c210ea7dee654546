"""Hugging Face's BERT and RoBERTa ↔ numjax: the same weights under other names (Devlin, Liu et al. 2019).

If a file has heads, they are converted too: the masked language model's as "masked", that of a fine-tuned span
answerer as "span", the pooler as a part of the classifier "label".

Legend: D width, H heads, E width of a head.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import weights

# numjax's name → Hugging Face's. Theirs are Linear: kernels [out, in], transposed here.
STACK = {
    "types_0": "embeddings.token_type_embeddings.weight",
    "ln_0_scale": "embeddings.LayerNorm.weight",
    "ln_0_bias": "embeddings.LayerNorm.bias",
}
POSITIONS = "embeddings.position_embeddings.weight"
TABLE = "embeddings.word_embeddings.weight"
LAYER = {
    "out_kernel": "attention.output.dense.weight",
    "out_bias": "attention.output.dense.bias",
    "ln_1_scale": "attention.output.LayerNorm.weight",
    "ln_1_bias": "attention.output.LayerNorm.bias",
    "up_kernel": "intermediate.dense.weight",
    "up_bias": "intermediate.dense.bias",
    "down_kernel": "output.dense.weight",
    "down_bias": "output.dense.bias",
    "ln_2_scale": "output.LayerNorm.weight",
    "ln_2_bias": "output.LayerNorm.bias",
}
IGNORED = r"embeddings\.(position_ids|token_type_ids)"
QKV = ("query", "key", "value")
POOLER = {"pooler_kernel": "pooler.dense.weight", "pooler_bias": "pooler.dense.bias"}
SPAN = {"kernel": "qa_outputs.weight", "bias": "qa_outputs.bias"}
MASKED = {
    "bert": {
        "transform_kernel": "cls.predictions.transform.dense.weight",
        "transform_bias": "cls.predictions.transform.dense.bias",
        "ln_scale": "cls.predictions.transform.LayerNorm.weight",
        "ln_bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    },
    "roberta": {
        "transform_kernel": "lm_head.dense.weight",
        "transform_bias": "lm_head.dense.bias",
        "ln_scale": "lm_head.layer_norm.weight",
        "ln_bias": "lm_head.layer_norm.bias",
        "bias": "lm_head.bias",
    },
}


def to_params(tensors: Mapping[str, np.ndarray], heads: int) -> dict[str, Any]:
    """Converts tensors to parameters {"backbone": …, "embeds_token": {"table"}, heads …}, an entry a layer, float32.

    Args:
      tensors: as in the file, of BERT or RoBERTa, with or without a prefix and heads. Tied output weights and other
        heads are ignored.
      heads: H; the tensors do not say it.

    Raises:
      UsageError: a tensor is missing or has no place, or D does not divide over H.
    """
    plain, used = {plain_name(name): x for name, x in tensors.items()}, set()

    def take(name: str) -> np.ndarray:
        used.add(name)
        return weights.take_tensor(plain, name, "BERT")

    def make_part(names: Mapping[str, str], prefix: str = "") -> dict[str, np.ndarray]:
        return {param: _transpose_kernel(param, take(prefix + tensor)) for param, tensor in names.items()}

    table = take(TABLE)
    width = table.shape[1]
    if width % heads:
        raise UsageError(f"BERT's width {width} does not divide over {heads} heads")
    backbone: dict[str, Any] = make_part(STACK) | {"order_sequence": {"places": take(POSITIONS)}}
    layers = {int(m[1]) for name in plain if (m := re.match(r"encoder\.layer\.(\d+)\.", name))}
    for layer in sorted(layers):
        layer_prefix = f"encoder.layer.{layer}."
        attention = f"{layer_prefix}attention.self."
        kernels = [take(f"{attention}{name}.weight").T.reshape(width, heads, -1) for name in QKV]
        biases = [take(f"{attention}{name}.bias").reshape(heads, -1) for name in QKV]
        qkv = {"qkv_kernel": np.stack(kernels, axis=1), "qkv_bias": np.stack(biases)}
        backbone[f"layer_{layer}"] = qkv | make_part(LAYER, layer_prefix)
    params = {"backbone": backbone, "embeds_token": {"table": table}}
    head_tensors = {"heads_masked": MASKED["bert"], "heads_label": POOLER, "heads_span": SPAN}
    if MASKED["roberta"]["bias"] in plain:
        head_tensors["heads_masked"] = MASKED["roberta"]
    params |= {name: make_part(names) for name, names in head_tensors.items() if next(iter(names.values())) in plain}
    weights.refuse_unused(plain.keys() - used, IGNORED, "BERT")
    return params


def to_tensors(params: Mapping[str, Any], size: int, family: str = "bert") -> dict[str, np.ndarray]:
    """Converts parameters with an entry a layer to tensors under Hugging Face's names.

    Args:
      params: of an encoder with one table of types; only the heads that `to_params` gives are converted.
      size: rows of Hugging Face's token table; padding and marks beyond it are left out.
      family: "bert" or "roberta", whose names to use.
    """
    if family not in MASKED:
        raise UsageError(f"family={family!r}: choose {' or '.join(MASKED)}")
    backbone, prefix = params["backbone"], f"{family}."

    def make_part(block: Mapping[str, Any], names: Mapping[str, str], path: str) -> dict[str, np.ndarray]:
        return {path + tensor: _transpose_kernel(param, np.asarray(block[param])) for param, tensor in names.items()}

    tensors = make_part(backbone, STACK, prefix)
    tensors[prefix + POSITIONS] = np.asarray(backbone["order_sequence"]["places"])
    tensors[prefix + TABLE] = np.asarray(params["embeds_token"]["table"])[:size]
    width = tensors[prefix + TABLE].shape[1]
    for name, block in backbone.items():
        if not name.startswith("layer_"):
            continue
        layer_prefix = f"{prefix}encoder.layer.{name.removeprefix('layer_')}."
        tensors |= make_part(block, LAYER, layer_prefix)
        for i, projection in enumerate(QKV):
            tensors[f"{layer_prefix}attention.self.{projection}.weight"] = (
                np.asarray(block["qkv_kernel"])[:, i].reshape(width, -1).T
            )
            tensors[f"{layer_prefix}attention.self.{projection}.bias"] = np.asarray(block["qkv_bias"])[i].reshape(-1)
    if "heads_masked" in params:
        tensors |= make_part(params["heads_masked"], MASKED[family], "")
        name = MASKED[family]["bias"]
        tensors[name] = tensors[name][:size]
    if "pooler_kernel" in params.get("heads_label", {}):
        tensors |= make_part(params["heads_label"], POOLER, prefix)
    if "heads_span" in params:
        tensors |= make_part(params["heads_span"], SPAN, "")
    return {name: np.ascontiguousarray(x) for name, x in tensors.items()}


def read_params(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """Reads the parameters from a .safetensors file, or from the one in a folder.

    Raises:
      UsageError: the file cannot be read, or its config.json has another number of heads or other positions.
    """
    weights.check_config(path, heads, "num_attention_heads")
    return weights.load_params(path, to_params, heads)


def find_function(params: Mapping[str, Any]) -> tuple[bool, dict[str, int]]:
    """The arguments `scaled` and `offsets` of `weights.check_function`: RoBERTa's first position is its third row."""
    del params
    return True, {"bert": 0} | dict.fromkeys(("roberta", "xlm-roberta", "camembert"), 2)


def map_marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Maps each numjax mark to the row that it starts from: none, since BERT's vocabulary has the marks by name."""
    del params
    return {}


def limit_spare_rows(params: Mapping[str, Any]) -> int:
    """How many rows the token table may have beyond the vocabulary: none."""
    del params
    return 0


def write_params(path: pathlib.Path, params: Mapping[str, Any], size: int, family: str = "bert") -> None:
    """Writes the tensors of `to_tensors` as a .safetensors file."""
    weights.save_tensors(path, to_tensors(params, size, family))


def plain_name(name: str) -> str:
    """A tensor's name without prefix, and with today's names of norms."""
    name = re.sub(r"^(bert|roberta)\.", "", name)
    # In the first releases a norm's scale is gamma and its bias beta.
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _transpose_kernel(param: str, x: np.ndarray) -> np.ndarray:
    return x.T if param.endswith("kernel") else x
