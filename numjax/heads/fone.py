"""All decimal places of a number at once, each as a direction in a plane (FoNE; Zhou et al. 2025, arXiv 2502.09741).

Legend: B rows, T positions, D width, P decimal places, M bases.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import carries, fourier
from numjax.nn.dense import project
from numjax.types import HeadOut, Numeral, Targets, Tokens


class Head(base.PlaceDistribution):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] p(digit j of place k) = softmax_j(h_k ·
    code_j).

    code_j has (cos 2πj/base, sin 2πj/base) of each base, and h_k is the k-th 2 M of the normed hidden state times a
    matrix. Places are independent; the predicted number has
    the likeliest digits and sign, exactly if K digits hold them.

    Attributes, besides those of `base.PlaceWriter`, of which the published code has no `signed`:
      bases: M numbers joined by "+", as in `embed/fone`.
      projected: False: the first pairs of the normed hidden state itself, without a matrix, as in the published code.
    """

    bases: str = "10"
    projected: bool = True

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        n_features = self._n_directions * self.places + self.signed
        if not self.projected and n_features > self.width:
            raise UsageError(f"fone: {n_features} features do not fit a width of {self.width}: set projected=True")
        init = nn.initializers.normal(self.init_std)
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            **self.make_norm(),
        }
        if self.projected:
            weights["number_kernel"] = self.param("number_kernel", init, (self.width, n_features), jnp.float32)
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"digits", "sign"}, log masses of the number that `to_digits` returns."""
        logits, sign = self._logits(out)
        digits = self.to_digits(numerals)
        digit_log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), digits[..., None], axis=-1)
        parts = {"digits": digit_log_probs[..., 0].sum(-1)}
        if sign is not None:
            parts["sign"] = jax.nn.log_sigmoid(sign * numerals.sign.astype(jnp.float32))
        return parts

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The likeliest digit of every place or, with a key, sampled ones."""
        logits, sign = self._logits(out)
        digit_key, sign_key = (None, None) if key is None else jax.random.split(key)
        digits = logits.argmax(-1) if digit_key is None else jax.random.categorical(digit_key, logits)
        return self.from_digits(digits, sign, sign_key), None

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact: places and sign are independent."""
        del targets
        logits, sign = self._logits(out)
        return self.find_quantiles(jax.nn.log_softmax(logits, axis=-1), sign, carries.Digits(0, 9), levels)

    def _logits(self, out: HeadOut) -> tuple[jax.Array, jax.Array | None]:
        """(logits float32[..., P, 10] of the digits, lowest place first; that of a positive sign, [...], or None)."""
        normed = self.norm(out)
        features = project(normed, out.weights["number_kernel"]) if self.projected else normed
        n_directions = self._n_directions * self.places
        directions = features[..., :n_directions].reshape(*features.shape[:-1], self.places, self._n_directions)
        logits = directions @ fourier.code_digits(fourier.parse_bases(self.bases))
        return logits, features[..., n_directions] if self.signed else None

    @property
    def _n_directions(self) -> int:
        """2 M."""
        return 2 * len(fourier.parse_bases(self.bases))
