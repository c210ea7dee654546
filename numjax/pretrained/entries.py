"""Parameters of ours made of tensors of theirs: one list of entries serves both ways.

Legend: D width, H heads, E width of a head, n tensors of an entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

# One for each row of the vocabulary, of which ours has more.
ROWS = ("embeds_token/table", "heads_next/kernel", "heads_next/bias")


class Entry(NamedTuple):
    """A parameter, the tensors that it is made of, and how: "same"; "turned" (Linear's [out, in] ↔ [in, out]);
    "heads" (n of [H · E, D] ↔ [D, n, H, E], or [D, H, E] of one); "bias" (n of [H · E] ↔ [n, H, E], or [H, E]);
    "row" ([1, V] ↔ [V]); "first" (the first tensor with row 0 of the second added to each row; one way only)."""

    ours: str
    theirs: tuple[str, ...]
    how: str = "same"


def to_params(entries: Iterable[Entry], tensors: Mapping[str, np.ndarray], heads: int, whose: str) -> dict[str, Any]:
    """Nested parameters, float32.

    Raises:
      UsageError: a tensor is missing, or does not divide over the heads.
    """
    out: dict[str, Any] = {}
    for entry in entries:
        found = []
        for name in entry.theirs:
            if name not in tensors:
                raise UsageError(f"not {whose}'s weights: there is no tensor {name!r}")
            found.append(np.asarray(tensors[name], np.float32))
        *path, last = entry.ours.split("/")
        node = out
        for key in path:
            node = node.setdefault(key, {})
        node[last] = _ours(entry, found, heads, whose)
    return out


def to_tensors(entries: Iterable[Entry], params: Mapping[str, Any], size: int) -> dict[str, np.ndarray]:
    """The tensors of nested parameters with an entry a layer; of tables with a row a token the first `size` rows."""
    out = {}
    for entry in entries:
        node: Any = params
        for key in entry.ours.split("/"):
            node = node[key]
        x = np.asarray(node)
        for name, tensor in zip(entry.theirs, _theirs(entry, x[:size] if entry.ours in ROWS else x), strict=True):
            out[name] = np.ascontiguousarray(tensor)
    return out


def layers(names: Iterable[str], pattern: str) -> int:
    """How many layers the names have: one more than the largest number that `pattern` finds."""
    return max((int(m[1]) + 1 for name in names if (m := re.match(pattern, name))), default=0)


def _ours(entry: Entry, found: Sequence[np.ndarray], heads: int, whose: str) -> np.ndarray:
    if entry.how in ("heads", "bias"):
        if found[0].shape[0] % heads:
            raise UsageError(
                f"{whose}'s {entry.theirs[0]!r} of {found[0].shape[0]} does not divide over {heads} heads"
            )
        parts = [x.reshape(heads, -1, *x.shape[1:]) for x in found]
        x = np.stack(parts) if len(parts) > 1 else parts[0]
        return np.moveaxis(x, -1, 0) if entry.how == "heads" else x
    if entry.how == "first":
        return found[0] + found[1][0]
    (x,) = found
    return x.T if entry.how == "turned" else x[0] if entry.how == "row" else x


def _theirs(entry: Entry, x: np.ndarray) -> list[np.ndarray]:
    if entry.how in ("heads", "bias"):
        x = np.moveaxis(x, 0, -1) if entry.how == "heads" else x
        parts = list(x) if len(entry.theirs) > 1 else [x]
        return [part.reshape(-1, *part.shape[2:]) for part in parts]
    return [x.T if entry.how == "turned" else x[None] if entry.how == "row" else x]
