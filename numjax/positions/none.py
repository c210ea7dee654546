"""No positions: a decoder has order only from causality (NoPE; Kazemnejad et al. 2023), an encoder has none."""

from __future__ import annotations

import flax.linen as nn

from numjax import protocols
from numjax.protocols import FromContext


class Positions(protocols.Positions, nn.Module):
    """Adds nothing, rotates nothing and has no bias."""

    stack: FromContext[protocols.Stack | None] = None
