"""Converts Hugging Face's tensors to numjax parameters and back, by one list of entries for both directions.

Legend: D width, H heads, E width of a head, n tensors of an entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.pretrained import weights

# Parameters with a row for each token. numjax's vocabulary has more rows.
ROWS = ("embeds_token/table", "heads_next/kernel", "heads_next/bias")


class ParamEntry(NamedTuple):
    """A parameter, the tensors that it is made from, and how.

    Forms: "same"; "transposed" (Linear's [out, in] ↔ [in, out]); "heads" (n tensors [H · E, D] ↔ [D, n, H, E], or one
    ↔ [D, H, E]); "bias" (n tensors [H · E] ↔ [n, H, E], or one ↔ [H, E]); "row" ([1, V] ↔ [V]); "first" (the first
    tensor, with row 0 of the second added to each row; to parameters only).
    """

    param: str
    tensors: tuple[str, ...]
    form: str = "same"


def to_params(
    entries: Iterable[ParamEntry], tensors: Mapping[str, np.ndarray], heads: int, model_name: str, ignored: str
) -> dict[str, Any]:
    """Converts tensors to nested parameters, float32.

    Args:
      ignored: pattern of the names of tensors that may be left out, see `weights.refuse_unused`.

    Raises:
      UsageError: a tensor is missing, has no place, or does not divide over the heads.
    """
    params: dict[str, Any] = {}
    entries = list(entries)
    used = {name for entry in entries for name in entry.tensors}
    for entry in entries:
        arrays = [weights.take_tensor(tensors, name, model_name) for name in entry.tensors]
        *path, last = entry.param.split("/")
        node = params
        for key in path:
            node = node.setdefault(key, {})
        node[last] = _make_param(entry, arrays, heads, model_name)
    weights.refuse_unused(tensors.keys() - used, ignored, model_name)
    return params


def to_tensors(entries: Iterable[ParamEntry], params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """Converts nested parameters with an entry a layer to tensors; tables with a row a token keep `size` rows."""
    tensors = {}
    for entry in entries:
        node: Any = params
        for key in entry.param.split("/"):
            node = node[key]
        x = np.asarray(node)
        for name, tensor in zip(
            entry.tensors, _make_tensors(entry, x[:size] if entry.param in ROWS else x), strict=True
        ):
            tensors[name] = np.ascontiguousarray(tensor)
    return tensors


def count_layers(names: Iterable[str], pattern: str) -> int:
    """Counts the layers in the names: one more than the largest number that `pattern` matches."""
    return max((int(m[1]) + 1 for name in names if (m := re.match(pattern, name))), default=0)


def _make_param(entry: ParamEntry, arrays: Sequence[np.ndarray], heads: int, model_name: str) -> np.ndarray:
    if entry.form in ("heads", "bias"):
        if arrays[0].shape[0] % heads:
            raise UsageError(
                f"{model_name}'s {entry.tensors[0]!r} of {arrays[0].shape[0]} does not divide over {heads} heads"
            )
        parts = [x.reshape(heads, -1, *x.shape[1:]) for x in arrays]
        x = np.stack(parts) if len(parts) > 1 else parts[0]
        return np.moveaxis(x, -1, 0) if entry.form == "heads" else x
    if entry.form == "first":
        return arrays[0] + arrays[1][0]
    (x,) = arrays
    return x.T if entry.form == "transposed" else x[0] if entry.form == "row" else x


def _make_tensors(entry: ParamEntry, x: np.ndarray) -> list[np.ndarray]:
    if entry.form in ("heads", "bias"):
        x = np.moveaxis(x, 0, -1) if entry.form == "heads" else x
        parts = list(x) if len(entry.tensors) > 1 else [x]
        return [part.reshape(-1, *part.shape[2:]) for part in parts]
    return [x.T if entry.form == "transposed" else x[None] if entry.form == "row" else x]
