"""A bidirectional LSTM whose directions are summed (DICE, Sundararaman et al. 2020, section 5.1).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
from flax.core import FrozenDict

from numjax import protocols
from numjax.backbone.stack import sum_positions
from numjax.errors import UsageError
from numjax.nn.dropout import dropout
from numjax.nn.lstm import declare_weights, run_bidirectional
from numjax.nn.parallel import ROWS, constrain
from numjax.protocols import FromContext
from numjax.types import Tokens


class Backbone(protocols.Backbone, nn.Module):
    """h_n = forward h_n + backward h_n: every position sees its whole text, so this stack cannot generate.

    Attributes:
      width: D, of the tokens and of both directions' states.
      max_length: longest text, for positions that need it.
      layers: number of layers; the input of each is the sums of the one below.
      dropout: rate on the embedding and on each layer's output.
      dtype: compute type of the products, "float32" or "bfloat16"; parameters, gates and states stay float32.
      positions: are added to the tokens; the recurrence encodes order without any.
      init_std: of the fusion of numerals with tokens (see `model.Fusion`); the LSTM's own weights are uniform over
        ±1/√D.
    """

    width: int = 256
    layers: int = 1
    max_length: int = 512
    dropout: float = 0.0
    dtype: str = "float32"
    init_std: float = 0.02
    positions: FromContext[Mapping[str, Any]] = FrozenDict()
    takes = ("added",)

    @nn.compact
    def __call__(
        self, x_BTD: jax.Array, tokens: Tokens, *, cache: Any = None, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, Any], None]:
        """(hidden states[B, T, D], zero in padding; every layer's output by name; no cache)."""
        if cache is not None:
            raise UsageError("backbone bilstm reads whole texts and cannot generate: use backbone decoder")

        def drop(x):
            return x if deterministic else dropout(x, self.dropout, self.make_rng("dropout"))

        stack = protocols.Stack(self.width, max_length=self.max_length, dtype=self.dtype)
        order = {
            name: part.clone(parent=self, name=f"order_{name}", stack=stack) for name, part in self.positions.items()
        }
        x = constrain(drop((x_BTD + sum_positions(order, tokens, deterministic)).astype(self.dtype)), ROWS)
        acts: dict[str, Any] = {"embedded": x}
        for layer in range(self.layers):
            forward_weights, backward_weights = (
                declare_weights(self.param, f"layer_{layer}_{direction}", self.width, self.width)
                for direction in ("forward", "backward")
            )
            (forward, _), (backward, _) = run_bidirectional(x, forward_weights, backward_weights, tokens.segment_ids)
            x = constrain(drop(forward + backward), ROWS)
            acts[f"layer_{layer}"] = x
        acts["final"] = x
        return x, acts, None
