"""Weight files for encoder–decoders: T5, BART, or BERT (encoder only). Names of tensors tell which."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import bart, bert_reader, entries, t5, weights

FAMILIES: tuple[Any, ...] = (t5, bart, bert_reader)


def find_family(names: Any) -> Any:
    """Finds the module (`t5`, `bart` or `bert_reader`) for a file with tensors of these names.

    Raises:
      UsageError: none of them fits.
    """
    for module in FAMILIES:
        if module.TELLTALE in names:
            return module
    raise UsageError("neither T5's nor BART's nor BERT's weights: an encoder–decoder starts from one of these")


def to_params(tensors: Mapping[str, np.ndarray], heads: int) -> dict[str, Any]:
    """Converts tensors to parameters {"backbone", "embeds_token", "heads_next" if the head has parameters}, with an
    entry a layer, float32.

    Args:
      heads: H; the tensors do not say it.

    Raises:
      UsageError: a tensor is missing, or a width does not divide over the heads.
    """
    if bart.TELLTALE.removeprefix(bart.PREFIX) in tensors:
        # The file has only the model, without the head: its names lack the prefix.
        bare_names = (name for name in tensors if name != "final_logits_bias")
        tensors = dict(tensors) | {bart.PREFIX + name: tensors[name] for name in bare_names}
    if f"bert.{bert_reader.TELLTALE}" in tensors:
        tensors = {name.removeprefix("bert."): x for name, x in tensors.items()}
    family = find_family(tensors)
    return entries.to_params(family.find_entries(tensors), tensors, heads, family.NAME)


def read_params(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """Reads the parameters from a .safetensors file, or from the one in a folder.

    Raises:
      UsageError: the file cannot be read, or its config.json has another number of heads.
    """
    names = ("num_heads", "encoder_attention_heads", "decoder_attention_heads", "num_attention_heads")
    weights.check_heads(path, heads, *names)
    return weights.load_params(path, to_params, heads)


def map_marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Maps each numjax mark to the row that it starts from; `params` are from `read_params`."""
    if bert_reader.is_encoder_only(params):
        return bert_reader.MARKS
    module = bart if "places" in params["backbone"]["encoder"]["order_sequence"] else t5
    rows = len(params["embeds_token"]["table"])
    return {name: row for name, row in module.MARKS.items() if row < rows}


def write_params(path: pathlib.Path, params: Mapping[str, Any], size: int) -> None:
    """Writes the tensors of T5 or BART as a .safetensors file. `size`: rows of its token table."""
    module = bart if "places" in params["backbone"]["encoder"]["order_sequence"] else t5
    weights.save_tensors(path, module.to_tensors(params, size))
