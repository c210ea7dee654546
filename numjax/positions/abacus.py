"""The place of a digit in its number (Abacus; McLeish et al. 2024, arXiv 2405.17399).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

DRAWS = ("row", "batch")


@dataclasses.dataclass(frozen=True)
class Run(protocols.Producer):
    """The channel "digit_run": a token's number within its run of digits, from 1; 0 if it is no digit.

    Attributes:
      digits: ids of the tokens that are one digit.
    """

    digits: tuple[int, ...]
    channel = Channel("digit_run", of_ids=True)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T]."""
        inside = np.isin(ids, self.digits)
        at = np.arange(1, len(ids) + 1)
        return np.where(inside, at - np.maximum.accumulate(np.where(inside, 0, at)), 0).astype(np.int32)

    def begin(self, rows: int) -> jax.Array:
        """The number of digits in the run so far, int32[rows]."""
        return jnp.zeros(rows, jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the number of digits in the run with this token, the channel's value, which is the same number)."""
        del automaton_state
        inside = (token[:, None] == jnp.asarray(self.digits, jnp.int32)).any(-1)
        state = jnp.where(inside, state + 1, 0)
        return state, state


class Positions(protocols.Positions, nn.Module):
    """A learned vector for each place in a run of digits, added to the stack's input; nothing is added to text.

    Write numbers with their last digit first, so that digits of the same power of ten have the same place.

    The authors' code differs in three ways. It draws one offset for a batch (`draw`). It adds a learned vector to
    text too (`text`). It fails beyond its table, whose last vector is used here. As there, places begin again
    behind a decimal point: this aligns the whole parts of reversed numbers, not their fractions, whose lengths
    nobody knows while they are written.

    Attributes:
      most: number of places with a vector of their own; further places use the last one.
      offset: in training places are shifted by a random number up to this, so that places that few numbers reach are
        trained too.
      draw: "row": each row has its own offset; "batch": all rows of a step have the same.
      text: whether tokens that are no digit get a vector too, one for all of them.
      init_std: as in `learned`.

    Raises:
      UsageError: `draw` is none of these.
    """

    stack: FromContext[protocols.Stack | None] = None
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    most: int = 128
    offset: int = 99
    draw: str = "row"
    text: bool = False
    init_std: float = 0.02
    reads_channels = ("digit_run",)

    def setup(self):
        width, init = self.require_stack().width, nn.initializers.normal(self.init_std)
        self.runs = self.param("runs", init, (self.most + self.offset, width), jnp.float32)
        if self.text:
            self.text_vector = self.param("text", init, (width,), jnp.float32)

    def producers(self) -> tuple[protocols.Producer, ...]:
        if self.draw not in DRAWS:
            raise UsageError(f"positions abacus: draw must be one of {', '.join(DRAWS)}, not {self.draw!r}")
        if not self.digit_symbols:
            raise UsageError("positions abacus: no token of this vocabulary is a digit: split its digits")
        return (Run(tuple(token for token, _ in self.digit_symbols)),)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        places = tokens.channel("digit_run")
        index = jnp.minimum(places, self.most) - 1
        if not deterministic:
            rows = (places.shape[0] if self.draw == "row" else 1, 1)
            index = index + jax.random.randint(self.make_rng("dropout"), rows, 0, self.offset + 1)
        vectors = jnp.take(self.runs, jnp.maximum(index, 0), axis=0)
        return jnp.where((places > 0)[..., None], vectors, self.text_vector if self.text else 0.0)
