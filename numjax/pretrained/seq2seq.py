"""Files that encoder–decoders start from: T5's, BART's, BERT's for the encoder alone; what they hold tells them."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import bart, bert_reader, entries, t5, weights

FAMILIES: tuple[Any, ...] = (t5, bart, bert_reader)


def family(names: Any) -> Any:
    """`t5`, `bart` or `bert_reader`, whose file holds tensors of these names.

    Raises:
      UsageError: neither's does.
    """
    for module in FAMILIES:
        if module.TELLTALE in names:
            return module
    raise UsageError("neither T5's nor BART's nor BERT's weights: an encoder–decoder starts from one of these")


def to_params(tensors: Mapping[str, np.ndarray], heads: int) -> dict[str, Any]:
    """Parameters {"backbone", "embeds_token", "heads_next" where the head has some}, an entry a layer, float32.

    Args:
      heads: H, which the tensors do not tell.

    Raises:
      UsageError: a tensor is missing, or a width does not divide over the heads.
    """
    if bart.TELLTALE.removeprefix(bart.PREFIX) in tensors:
        # A file of the bare model, without the head.
        bare = (name for name in tensors if name != "final_logits_bias")
        tensors = dict(tensors) | {bart.PREFIX + name: tensors[name] for name in bare}
    if f"bert.{bert_reader.TELLTALE}" in tensors:
        tensors = {name.removeprefix("bert."): x for name, x in tensors.items()}
    found = family(tensors)
    return entries.to_params(found.of_tensors(tensors), tensors, heads, found.NAME)


def read(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """`to_params` of a .safetensors file, or of the one in a folder.

    Raises:
      UsageError: it cannot be read, or its config.json names another number of heads.
    """
    names = ("num_heads", "encoder_attention_heads", "decoder_attention_heads", "num_attention_heads")
    weights.check_heads(path, heads, *names)
    return to_params(weights.load(path), heads)


def marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Name of a mark of ours → the row of theirs that it starts from, by parameters that `read` gave."""
    if bert_reader.is_here(params):
        return bert_reader.MARKS
    module = bart if "places" in params["backbone"]["encoder"]["order_sequence"] else t5
    rows = len(params["embeds_token"]["table"])
    return {name: row for name, row in module.MARKS.items() if row < rows}


def write(path: pathlib.Path, params: Mapping[str, Any], size: int) -> None:
    """Writes the tensors of T5 or BART as a .safetensors file; `size`: rows of the token table that it has."""
    module = bart if "places" in params["backbone"]["encoder"]["order_sequence"] else t5
    weights.save(path, module.to_tensors(params, size))
