"""BERT and RoBERTa of Hugging Face ↔ numjax: the same numbers under other names (Devlin, Liu et al. 2019).

Heads go with the stack where a file has them: the masked language model's as "masked", a fine-tuned span
answerer's as "span", the pooler as a part of the classifier "label".

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

# Ours → theirs. Theirs are Linear: kernels [out, in], turned here.
STACK = {
    "types_0": "embeddings.token_type_embeddings.weight",
    "ln_0_scale": "embeddings.LayerNorm.weight",
    "ln_0_bias": "embeddings.LayerNorm.bias",
}
PLACES = "embeddings.position_embeddings.weight"
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
    """Parameters {"backbone": …, "embeds_token": {"table"}, and what heads there are}, an entry a layer, float32.

    Args:
      tensors: as in the file, of BERT or RoBERTa, with or without a prefix and heads. Tied output weights and the
        next-sentence classifier are left aside.
      heads: H, which the tensors do not tell.

    Raises:
      UsageError: a tensor is missing, or D does not divide over H.
    """
    found = {_plain(name): np.asarray(x, np.float32) for name, x in tensors.items()}

    def take(name: str) -> np.ndarray:
        if name not in found:
            raise UsageError(f"not BERT's weights: there is no tensor {name!r}")
        return found[name]

    def part(names: Mapping[str, str], under: str = "") -> dict[str, np.ndarray]:
        return {mine: _turned(mine, take(under + theirs)) for mine, theirs in names.items()}

    table = take(TABLE)
    width = table.shape[1]
    if width % heads:
        raise UsageError(f"BERT's width {width} does not divide over {heads} heads")
    backbone: dict[str, Any] = part(STACK) | {"order_sequence": {"places": take(PLACES)}}
    layers = {int(m[1]) for name in found if (m := re.match(r"encoder\.layer\.(\d+)\.", name))}
    for layer in sorted(layers):
        under = f"encoder.layer.{layer}."
        attention = f"{under}attention.self."
        kernels = [take(f"{attention}{name}.weight").T.reshape(width, heads, -1) for name in QKV]
        biases = [take(f"{attention}{name}.bias").reshape(heads, -1) for name in QKV]
        qkv = {"qkv_kernel": np.stack(kernels, axis=1), "qkv_bias": np.stack(biases)}
        backbone[f"layer_{layer}"] = qkv | part(LAYER, under)
    params = {"backbone": backbone, "embeds_token": {"table": table}}
    heads_of = {"heads_masked": MASKED["bert"], "heads_label": POOLER, "heads_span": SPAN}
    if MASKED["roberta"]["bias"] in found:
        heads_of["heads_masked"] = MASKED["roberta"]
    return params | {name: part(names) for name, names in heads_of.items() if next(iter(names.values())) in found}


def to_tensors(params: Mapping[str, Any], size: int, family: str = "bert") -> dict[str, np.ndarray]:
    """The tensors of parameters with an entry a layer, under Hugging Face's names.

    Args:
      params: of an encoder with one table of types; of heads those that `to_params` gives.
      size: rows of the token table that theirs has: what pads the vocabulary and marks behind it are left out.
      family: "bert" or "roberta", whose names to use.
    """
    if family not in MASKED:
        raise UsageError(f"family={family!r}: choose {' or '.join(MASKED)}")
    backbone, prefix = params["backbone"], f"{family}."

    def part(block: Mapping[str, Any], names: Mapping[str, str], under: str) -> dict[str, np.ndarray]:
        return {under + theirs: _turned(mine, np.asarray(block[mine])) for mine, theirs in names.items()}

    out = part(backbone, STACK, prefix)
    out[prefix + PLACES] = np.asarray(backbone["order_sequence"]["places"])
    out[prefix + TABLE] = np.asarray(params["embeds_token"]["table"])[:size]
    width = out[prefix + TABLE].shape[1]
    for name, block in backbone.items():
        if not name.startswith("layer_"):
            continue
        under = f"{prefix}encoder.layer.{name.removeprefix('layer_')}."
        out |= part(block, LAYER, under)
        for i, which in enumerate(QKV):
            out[f"{under}attention.self.{which}.weight"] = np.asarray(block["qkv_kernel"])[:, i].reshape(width, -1).T
            out[f"{under}attention.self.{which}.bias"] = np.asarray(block["qkv_bias"])[i].reshape(-1)
    if "heads_masked" in params:
        out |= part(params["heads_masked"], MASKED[family], "")
        name = MASKED[family]["bias"]
        out[name] = out[name][:size]
    if "pooler_kernel" in params.get("heads_label", {}):
        out |= part(params["heads_label"], POOLER, prefix)
    if "heads_span" in params:
        out |= part(params["heads_span"], SPAN, "")
    return {name: np.ascontiguousarray(x) for name, x in out.items()}


def read(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """`to_params` of a .safetensors file, or of the one in a folder.

    Raises:
      UsageError: it cannot be read, or its config.json names another number of heads.
    """
    weights.check_heads(path, heads, "num_attention_heads")
    return to_params(weights.load(path), heads)


def marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Name of a mark of ours → the row of theirs that it starts from: none, its vocabulary has them by name."""
    del params
    return {}


def write(path: pathlib.Path, params: Mapping[str, Any], size: int, family: str = "bert") -> None:
    """Writes `to_tensors` as a .safetensors file."""
    weights.save(path, to_tensors(params, size, family))


def _plain(name: str) -> str:
    name = re.sub(r"^(bert|roberta)\.", "", name)
    # The first releases called a norm's scale gamma and its bias beta.
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _turned(mine: str, x: np.ndarray) -> np.ndarray:
    return x.T if mine.endswith("kernel") else x
