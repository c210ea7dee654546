"""The digits of a number's exponent and mantissa, each by itself (BitTokens' base-10 code; Kreitner et al. 2025,
arXiv 2510.06824).

Legend: B rows, T positions, D width, K digits of a `Numeral`.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import base
from numjax.nn import base10
from numjax.nn.dense import project
from numjax.types import HeadOut, NumberRange, Numeral, Tokens


class Head(base.NumberWriter):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] σ(h w) that the number is not negative, and a
    softmax over ten digits at each of twenty places: three of the exponent, seventeen of the mantissa.

    Places are independent. The predicted number has the likeliest digits and sign.
    """

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, n_outputs = nn.initializers.normal(self.init_std), 1 + 10 * base10.DIGITS
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            "number_kernel": self.param("number_kernel", init, (self.width, n_outputs), jnp.float32),
            "number_bias": self.param("number_bias", nn.initializers.zeros, (n_outputs,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"sign", "digits"}: log masses of the sign, and of all digits of the number's canonical code."""
        sign, logits = self._logits(out)
        digits = base10.encode(numerals)[..., None]
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), digits, axis=-1)
        return {
            "sign": jax.nn.log_sigmoid(sign * jnp.asarray(numerals.sign).astype(jnp.float32)),
            "digits": log_probs[..., 0].sum(-1),
        }

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The number of the likeliest sign and digits or, with a key, of sampled ones."""
        sign, logits = self._logits(out)
        if key is not None:
            sign_key, digit_key = jax.random.split(key)
            sign = sign + jax.random.logistic(sign_key, sign.shape)
            logits = logits + jax.random.gumbel(digit_key, logits.shape)
        return base10.decode(logits.argmax(-1), jnp.where(sign < 0, -1, 1), self.digits), None

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most 17 digits, and of at most K, between 10^−500 and 10^500."""
        return NumberRange(digits=min(base10.MANTISSA_DIGITS, self.digits), low=base10.LOW, high=base10.HIGH)

    def _logits(self, out: HeadOut) -> tuple[jax.Array, jax.Array]:
        """(logit of no minus, float32[...]; those of the digits, [..., 20, 10])."""
        outputs = project(out.hidden.astype(jnp.float32), out.weights["number_kernel"]) + out.weights["number_bias"]
        return outputs[..., 0], outputs[..., 1:].reshape(*outputs.shape[:-1], base10.DIGITS, 10)
