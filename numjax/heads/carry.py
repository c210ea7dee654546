"""All decimal places of a number at once, each as a digit that may hold a carry (carry-marginalised).

Legend: B rows, T positions, D width, P decimal places, S redundant digits.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import carries
from numjax.nn.dense import project
from numjax.types import HeadOut, Numeral, Targets, Tokens


class Head(base.PlaceDistribution):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] p(number) over all ways to carry.

    Each place has a softmax over the digits `least` … `most`, of the normed hidden state times a matrix. The
    probability of a number is that of all strings of such digits that denote it (`nn/carries.py`). So the model may
    write a sum place by place without a carry: 18 at one place and 5 at the next is 68. Nothing says where it has to
    resolve carries itself. The predicted number is that of the likeliest string that the places hold. Strings with a
    carry out of the highest place denote no such number: samples, quantiles and `number_log_mass` leave them out. In
    the loss their probability is lost to all numbers, so that the model learns to give it to strings that the places
    hold; a loss that left them out would not care.

    Attributes, besides those of `base.PlaceWriter`:
      least, most: the digits of a place: 0 … 9 has no carries; 0 … 19 holds the sum of two digits and a carry;
        −9 … 18 a difference too; 0 … 81·m the products of numbers of which one has m digits.
    """

    least: int = 0
    most: int = 19

    @property
    def kind(self) -> carries.Digits:
        """The digits of a place."""
        if self.least > 0 or self.most < 9:
            raise UsageError(f"carry: the digits {self.least} … {self.most} must hold 0 … 9: set least and most")
        return carries.Digits(self.least, self.most)

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, zeros = nn.initializers.normal(self.init_std), nn.initializers.zeros
        n_outputs = self.places * self.kind.count + self.signed
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            **self.make_norm(),
            "number_kernel": self.param("number_kernel", init, (self.width, n_outputs), jnp.float32),
            "digit_bias": self.param("digit_bias", zeros, (n_outputs,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"digits", "sign"}, log masses of the number that `to_digits` returns."""
        log_probs, sign = self._place_log_probs(out)
        parts = {"digits": carries.log_prob(log_probs, self.to_digits(numerals), self.kind)}
        if sign is not None:
            parts["sign"] = jax.nn.log_sigmoid(sign * numerals.sign.astype(jnp.float32))
        return parts

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The number of the likeliest string of digits, and the likelier sign; with a key, sampled ones."""
        log_probs, sign = self._place_log_probs(out)
        digit_key, sign_key = (None, None) if key is None else jax.random.split(key)
        digits, _ = carries.choose(log_probs, self.kind, digit_key)
        return self.from_digits(digits, sign, sign_key), None

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact, over all ways to carry that stay within the places."""
        del targets
        return self.find_quantiles(*self._place_log_probs(out), self.kind, levels)

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """Given that no carry leaves the places, as in what is written: the loss has no such condition."""
        log_probs, _ = self._place_log_probs(out)
        inside = carries.log_total(log_probs, self.kind)
        return super().number_log_mass(out, targets) - jnp.where(self._is_number(targets), inside, 0.0)

    def _place_log_probs(self, out: HeadOut) -> tuple[jax.Array, jax.Array | None]:
        """(log-probabilities float32[..., P, S], lowest place first; the logit of a positive sign or None)."""
        w, size = out.weights, self.places * self.kind.count
        logits = project(self.norm(out), w["number_kernel"]) + w["digit_bias"]
        by_place = logits[..., :size].reshape(*logits.shape[:-1], self.places, self.kind.count)
        return jax.nn.log_softmax(by_place, axis=-1), logits[..., size] if self.signed else None
