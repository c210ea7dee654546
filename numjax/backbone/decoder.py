"""A decoder: each position sees those before it. As it stands it is GPT-2's (Radford et al. 2019).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

from numjax.backbone.stack import Stack


class Backbone(Stack):
    """See `stack.Options`.

    Attributes:
      packed: mask attention between segments of a row; causality alone is enough without packing.
    """

    packed: bool = True

    @property
    def alone(self) -> bool:
        return not self.packed

    @property
    def masked(self) -> bool:
        return self.packed
