"""A decoder: each position sees itself and earlier ones. The defaults are GPT-2's (Radford et al. 2019).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

from numjax.backbone.stack import Transformer


class Backbone(Transformer):
    """See `stack.TransformerOptions`.

    Attributes:
      packed: mask attention between segments of a row; without packing, causality is enough.
    """

    packed: bool = True

    @property
    def is_single_text(self) -> bool:
        return not self.packed

    @property
    def masks_segments(self) -> bool:
        return self.packed
