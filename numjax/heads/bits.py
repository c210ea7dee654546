"""The bits of a number's binary64, each by itself (BitTokens; Kreitner et al. 2025, arXiv 2510.06824).

Legend: B rows, T positions, D width, K digits of a `Numeral`.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import binary64, carries
from numjax.nn.dense import project
from numjax.types import HeadOut, NumberRange, Numeral, Targets, Tokens


class Head(base.NumberWriter, base.NumberDistribution):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] p(bit i is 1) = σ(h_i) of 64 outputs.

    Bits are independent. The predicted number has the likelier value of each bit, rounded to `keep` significant
    digits; the bits of infinity and of no number become the largest number.

    Attributes, besides those of `base.NumberWriter`:
      keep: significant digits of a generated number, K if that is less; all numbers of 15 digits survive the way
        through binary64.
    """

    keep: int = 15

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        if not 1 <= self.keep <= 17:
            raise UsageError(f"bits: keep must lie between 1 and 17, not {self.keep}")
        init = nn.initializers.normal(self.init_std)
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            "number_kernel": self.param("number_kernel", init, (self.width, binary64.BITS), jnp.float32),
            "number_bias": self.param("number_bias", nn.initializers.zeros, (binary64.BITS,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"bits": the sum of the log masses of 64 bits}. The published loss is 10/64 of it."""
        logits = self._logits(out)
        bits = binary64.encode(numerals)
        return {"bits": jax.nn.log_sigmoid(jnp.where(bits > 0, logits, -logits)).sum(-1)}

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The number of the likelier bits or, with a key, of sampled ones."""
        logits = self._logits(out)
        bits = logits > 0 if key is None else jax.random.bernoulli(key, jax.nn.sigmoid(logits))
        return binary64.decode(bits.astype(jnp.int32), self.digits, self.keep), None

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact: bits are independent, and numbers of a sign have the order of their bits."""
        del targets
        logits = self._logits(out)
        is_negative, level = base.split_levels(jax.nn.sigmoid(logits[..., 0]), levels)
        # The bits behind the sign, as places of which each has a digit 0 or 1.
        log_probs = jax.nn.log_sigmoid(jnp.stack([-logits, logits], axis=-1))[..., :0:-1, :]
        bits, _ = carries.find_quantiles(log_probs, carries.Digits(0, 1), level, is_negative)
        bits = jnp.concatenate([is_negative[..., None].astype(jnp.int32), bits[..., ::-1]], axis=-1)
        return binary64.decode(bits, self.digits, self.keep)

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """The log mass of all bits that are written as the number. `number_log_prob` is that of one of them."""
        if targets.numerals is None:
            return jnp.zeros(out.hidden.shape[:-1])
        logits = self._logits(out)
        bits, low, high = binary64.find_cell(targets.numerals, self.digits, self.keep)
        log_probs = jax.nn.log_sigmoid(jnp.stack([-logits, logits], axis=-1))
        sign = jnp.take_along_axis(log_probs[..., 0, :], bits[..., :1], axis=-1)[..., 0]
        # 0 and −0 are one number.
        sign = jnp.where((high > 0).any(-1), sign, 0.0)
        return jnp.where(self._is_number(targets), sign + binary64.log_mass(log_probs[..., 1:, :], low, high), 0.0)

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most `keep` significant digits, and of at most 15, within binary64's normal numbers."""
        return NumberRange(digits=min(self.keep, self.digits, 15), low=-307, high=307)

    def _logits(self, out: HeadOut) -> jax.Array:
        return project(out.hidden.astype(jnp.float32), out.weights["number_kernel"]) + out.weights["number_bias"]
