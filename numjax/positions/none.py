"""No positions: a decoder's causality alone tells order (NoPE; Kazemnejad et al. 2023), an encoder reads a bag."""

from __future__ import annotations

import flax.linen as nn

from numjax import protocols
from numjax.protocols import Told


class Positions(protocols.Positions, nn.Module):
    """Adds, turns and biases nothing."""

    stack: Told[protocols.Stack | None] = None
