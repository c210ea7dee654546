"""Weight files for encoder–decoders: T5, BART, or BERT (encoder only). Names of tensors tell which."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import bart, bert, bert_reader, entries, t5, weights
from numjax.text.vocab.base import BaseVocabulary

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
      UsageError: a tensor is missing or has no place, or a width does not divide over the heads.
    """
    if bart.TELLTALE.removeprefix(bart.PREFIX) in tensors:
        # The file has only the model, without the head: its names lack the prefix.
        tensors = {_add_prefix(name): x for name, x in tensors.items()}
    if bert_reader.TELLTALE in {name.removeprefix("bert.") for name in tensors}:
        tensors = {bert.plain_name(name): x for name, x in tensors.items()}
    family = find_family(tensors)
    return entries.to_params(family.find_entries(tensors), tensors, heads, family.NAME, family.IGNORED)


def _add_prefix(name: str) -> str:
    return bart.PREFIX + name if name.startswith(("encoder.", "decoder.", "shared.")) else name


def read_params(path: pathlib.Path, heads: int) -> dict[str, Any]:
    """Reads the parameters from a .safetensors file, or from the one in a folder.

    Raises:
      UsageError: the file cannot be read, or its config.json has another number of heads or a setting that numjax
        lacks.
    """
    names = ("num_heads", "encoder_attention_heads", "decoder_attention_heads", "num_attention_heads")
    weights.check_config(path, heads, *names)
    return weights.load_params(path, to_params, heads)


def find_function(params: Mapping[str, Any]) -> tuple[bool, dict[str, int]]:
    """The arguments `scaled` and `offsets` of `weights.check_function`."""
    family = _family_of(params)
    if family is bart:
        return True, {"": 2, "blenderbot-small": 0}
    return family is not t5, {"": 0} | (bert.find_function(params)[1] if family is bert_reader else {})


def map_marks(params: Mapping[str, Any]) -> dict[str, int]:
    """Maps each numjax mark to the row that it starts from; `params` are from `read_params`."""
    rows = len(params["embeds_token"]["table"])
    return {name: row for name, row in _family_of(params).MARKS.items() if row < rows}


def limit_spare_rows(params: Mapping[str, Any]) -> int:
    """How many rows the token table may have beyond the vocabulary."""
    return _family_of(params).MAX_SPARE_ROWS


def _family_of(params: Mapping[str, Any]) -> Any:
    if bert_reader.is_encoder_only(params):
        return bert_reader
    return bart if "places" in params["backbone"]["encoder"]["order_sequence"] else t5


def write_params(
    path: pathlib.Path,
    params: Mapping[str, Any],
    size: int,
    vocab: BaseVocabulary,
    source_params: Mapping[str, Any] | None = None,
) -> None:
    """Writes the tensors of T5 or BART as a .safetensors file.

    A mark's row is written where `MARKS` has it. If several marks share a row there, it is that of [EOS], else of
    [CLS].

    Args:
      size: rows of the file's token table. vocab: the vocabulary of the run.
      source_params: of the file that the run started from, see `read_params`. Rows that the vocabulary lacks, such as
        T5's <extra_id_1>, are taken from there; by default they are the mean row.
    """
    family = _family_of(params)
    tokens = [row if row < vocab.known else -1 for row in range(size)]
    for name in ("[SEP]", "[MASK]", "[PAD]", "[CLS]", "[EOS]"):  # the last of a row stays
        if family.MARKS[name] < size:
            tokens[family.MARKS[name]] = vocab.mark(name)
    params = dict(params)
    for part, name in (param.split("/") for param in entries.ROWS):
        if name in params.get(part, {}):
            source = (source_params or {}).get(part, {}).get(name)
            params[part] = {**params[part], name: _take_rows(np.asarray(params[part][name]), tokens, source)}
    weights.save_tensors(path, family.to_tensors(params, size))


def _take_rows(x: np.ndarray, tokens: Sequence[int], source: np.ndarray | None) -> np.ndarray:
    """The rows of these tokens; for −1 the row of `source`, by default the mean."""
    index = np.asarray(tokens)
    rest = x[index[index >= 0]].mean(axis=0, keepdims=True) if source is None else np.asarray(source)[: len(index)]
    has_row = (index >= 0).reshape(-1, *(1,) * (x.ndim - 1))
    return np.where(has_row, x[np.maximum(index, 0)], rest)
