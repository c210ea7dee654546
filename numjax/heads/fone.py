"""Every decimal place of a number at once, as a direction in a plane (FoNE; Zhou et al. 2025, arXiv 2502.09741).

Legend: B rows, T positions, D width, P decimal places, K digits of a `Numeral`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.heads import softmax
from numjax.nn.norm import layer_norm
from numjax.nn.numerals import as_kept, from_places, to_places
from numjax.types import HeadOut, Numeral, Tokens

# (cos 2πj/10, sin 2πj/10) of the digits j.
CODES = np.stack([f(2 * np.pi * np.arange(10) / 10) for f in (np.cos, np.sin)]).astype(np.float32)


class Head(softmax.NumberWriter):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] p(digit j of place k) = softmax_j(h_k ·
    code_j).

    h_k is the k-th pair of the normed hidden state times a matrix. Places are independent; a number is its likeliest
    digits and sign, exactly where K digits hold them.

    Attributes, beside those of `softmax.NumberWriter`:
      integer, fraction: places before and behind the point.
      projected: the published code reads the first pairs of the normed hidden state itself, without a matrix.
      signed: also the sign is predicted; the published code has none.
    """

    integer: int = 9
    fraction: int = 4
    projected: bool = True
    signed: bool = True

    @property
    def places(self) -> int:
        """P."""
        return self.integer + self.fraction

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        wanted = 2 * self.places + self.signed
        if not self.projected and wanted > self.width:
            raise UsageError(f"fone: {wanted} features do not fit a width of {self.width}: set projected=True")
        init, ones, zeros = nn.initializers.normal(self.init_std), nn.initializers.ones, nn.initializers.zeros
        weights = {
            "kernel": softmax.table(self, table_VD, self.width),
            "number_scale": self.param("number_scale", ones, (self.width,), jnp.float32),
            "number_bias": self.param("number_bias", zeros, (self.width,), jnp.float32),
        }
        if self.projected:
            weights["number_kernel"] = self.param("number_kernel", init, (self.width, wanted), jnp.float32)
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"digits", "sign"}, log masses. A number beyond the places counts as the largest that they write, and what
        is behind them is cut off."""
        logits, sign = self._read(out)
        digits, _ = to_places(numerals, -self.fraction, self.places)
        large = numerals.exponent >= self.integer
        digits = jnp.where((large & (numerals.n_digits > 0))[..., None], 9, digits)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), digits[..., None], axis=-1)
        parts = {"digits": chosen[..., 0].sum(-1)}
        if sign is not None:
            parts["sign"] = jax.nn.log_sigmoid(sign * numerals.sign.astype(jnp.float32))
        return parts

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The likeliest digit of every place, or with a key drawn ones."""
        logits, sign = self._read(out)
        if key is None:
            digits, negative = logits.argmax(-1), jnp.zeros(logits.shape[:-2], bool) if sign is None else sign < 0
        else:
            one, other = jax.random.split(key)
            digits = jax.random.categorical(one, logits)
            chance = jax.nn.sigmoid(-sign) if sign is not None else jnp.zeros(logits.shape[:-2])
            negative = jax.random.bernoulli(other, chance)
        return as_kept(from_places(jnp.where(negative, -1, 1), digits, -self.fraction, self.digits)), None

    def represents(self, value: Decimal) -> bool:
        """Of `integer` digits before the point and `fraction` behind it, at most, and of no more than K in all."""
        exponent = value.normalize().as_tuple().exponent
        if not value:
            return True
        known = isinstance(exponent, int) and exponent >= -self.fraction and value.adjusted() < self.integer
        return known and len(value.normalize().as_tuple().digits) <= self.digits and (self.signed or value > 0)

    def _read(self, out: HeadOut) -> tuple[jax.Array, jax.Array | None]:
        """(logits float32[..., P, 10] of the digits, the lowest place first; of a positive sign, [...])."""
        w = out.weights
        normed = layer_norm(out.hidden.astype(jnp.float32), w["number_scale"], w["number_bias"])
        found = normed @ w["number_kernel"] if self.projected else normed
        pairs = found[..., : 2 * self.places].reshape(*found.shape[:-1], self.places, 2)
        return pairs @ CODES, found[..., 2 * self.places] if self.signed else None
