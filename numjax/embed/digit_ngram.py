"""The digits before a digit in its number (of our own): an n-gram embedding for digits alone.

Legend: B rows, T positions, D width, J digits before.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.einsum import einsum
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

MOST = 8
# A limb of one digit.
_LIMB = re.compile(r"\[:([0-9])\]")


@dataclasses.dataclass(frozen=True)
class Before(protocols.Producer):
    """The channel "digits_before", int32[T, count]: 1 + the digit j + 1 positions before a digit in the same run of
    digits; 0 where there is none, and for all other tokens.

    Attributes:
      digits: (id, digit) of the tokens that are one digit. count: how many before.
    """

    digits: tuple[tuple[int, int], ...]
    count: int

    @property
    def channel(self) -> Channel:
        """The channel."""
        return Channel("digits_before", of_ids=True, reach=self.count)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T, count]."""
        values = np.zeros((len(ids), self.count), np.int32)
        own = np.zeros(len(ids), np.int32)
        for token, digit in self.digits:
            own[ids == token] = digit + 1
        before, inside = own, own > 0
        for j in range(self.count):
            before = np.concatenate([[0], before[:-1]])
            inside = inside & (before > 0)
            values[:, j] = np.where(inside, before, 0)
        return values

    def begin(self, rows: int) -> jax.Array:
        """1 + the latest digits of the run, the last one first; 0 before it: int32[rows, count]."""
        return jnp.zeros((rows, self.count), jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it)."""
        del automaton_state
        tokens, digits = (jnp.asarray(column, jnp.int32) for column in zip(*self.digits, strict=True))
        own = ((token[:, None] == tokens) * (digits + 1)).sum(-1)[:, None]
        return (own > 0) * jnp.concatenate([own, state[:, :-1]], axis=-1), (own > 0) * state


class Embed(protocols.Embed, nn.Module):
    """Σ_j v_j(d_j), added to the vector of a digit: d_j is the digit j + 1 positions before it in the same number.
    Nothing is added to other tokens.

    So a position can be found by the digits that led to it: two numbers that share a digit seldom share four. That is
    what copying either of two numbers takes, and choosing the larger one. Attention alone needs a layer to learn what
    stands before a token. With the lowest digit first, the last position of a number has its leading digits.

    N-gram embeddings of all tokens have a vector for each n-gram; here it is a sum, so that 10,000 n-grams of digits
    share 40 vectors.

    Attributes:
      dim: D. before: J, 1 to 8. init_std: of the vectors.

    Raises:
      UsageError: `before` is not from 1 to 8, or no token of the vocabulary is a digit.
    """

    dim: FromContext[int]
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    before: int = 3
    init_std: float = 0.02
    kind = "type"
    reads_channels = ("digits_before",)

    def producers(self) -> tuple[protocols.Producer, ...]:
        if not 1 <= self.before <= MOST:
            raise UsageError(f"embed digit_ngram: before must be from 1 to {MOST}, not {self.before}")
        limbs = tuple((token, int(m[1])) for name, token in self.marks or () if (m := _LIMB.fullmatch(name)))
        if not (digits := (*(self.digit_symbols or ()), *limbs)):
            raise UsageError("embed digit_ngram: no token of this vocabulary is a digit: split its digits")
        return (Before(digits, self.before),)

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        init = nn.initializers.normal(self.init_std)
        vectors = self.param("vectors", init, (self.before, 10, self.dim), jnp.float32)
        digits = tokens.channel("digits_before")
        # No digit is −1, which has no 1 at all.
        return einsum("btjc,jcd->btd", jax.nn.one_hot(digits - 1, 10, dtype=jnp.float32), vectors)
