"""The learned vectors of positions in the sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numjax.errors import UsageError
from numjax.runtime import processes

if TYPE_CHECKING:
    from numjax.api import Loaded


def embed_positions(model: Loaded, count: int, first: int = 0) -> np.ndarray:
    """The learned vectors of `count` positions from `first` on, float32[count, D].

    An encoder–decoder has a table in each stack: those of the decoder are returned.

    Raises:
      UsageError: the model has no learned positions, or too few; or `first` or `count` is negative.
    """
    names = [name for name, block in model.system.config.positions.items() if block.name == "learned"]
    if not names:
        raise UsageError("this model has no learned positions: load a run with positions.sequence=learned")
    if first < 0 or count < 0:
        raise UsageError(f"first={first}, count={count}: neither may be negative")
    offset = model.system.config.positions[names[0]].get("offset", 0)
    backbone = model.params["backbone"]
    # An encoder–decoder and TabBERT have their positions in stacks of their own.
    stack = backbone.get("decoder") or backbone.get("rows") or backbone
    table = stack[f"order_{names[0]}"]["places"]
    table_of_positions = processes.fetch(table)[offset:]
    if first + count > len(table_of_positions):
        raise UsageError(f"{first + count} positions are more than the context of {len(table_of_positions)}")
    return table_of_positions[first : first + count].astype(np.float32)
