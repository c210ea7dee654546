"""The magnitude, the sign and a hundred residues of a number (IntSeqBERT; arXiv 2603.05556).

Legend: B rows, T positions, D width, R moduli 2 … M, C classes of all moduli together.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import residues
from numjax.nn.dense import project
from numjax.nn.numerals import from_places, recount_digits
from numjax.types import HeadOut, NumberRange, Numeral, Tokens


def lay_out_classes(most: int) -> tuple[np.ndarray, np.ndarray]:
    """(int32[R, M], the class among all C of each residue r of each modulus m; bool[R, M], whether r < m)."""
    moduli = np.arange(2, most + 1)
    first = np.cumsum(moduli) - moduli
    is_residue = np.arange(most) < moduli[:, None]
    return np.where(is_residue, first[:, None] + np.arange(most), 0).astype(np.int32), is_residue


class Head(base.NumberWriter):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] N(v; h·w, ½) of v = 1 + log10 |x|, a softmax
    over three signs, and one over the residues of x by each of 2 … M.

    So the loss of the magnitude is the squared error of the paper up to a constant. A number without residues, such
    as a decimal (see `embed/intseq`), is scored by magnitude and sign alone.

    The written number has the likeliest sign; if that is none, it is 0. Its absolute value is that of
    `nn.residues.solve`: the probabilistic Chinese remainder theorem with a deterministic beam, for whole numbers
    below 10^`places`. Larger numbers are never written.

    Attributes, besides those of `base.NumberWriter`:
      most: M. fraction: as in `embed/intseq`; written numbers are multiples of 10^−fraction.
      places: most digits of |x| · 10^fraction, K if that is less. beams: width of the beam.
    """

    most: int = 101
    fraction: int = 0
    places: int = 18
    beams: int = 16

    densities = ("residues", "magnitude")  # no masses: moduli overlap

    def __post_init__(self):
        super().__post_init__()
        if not 2 <= self.most <= 1000 or self.fraction < 0:
            raise UsageError("intseq: most must lie between 2 and 1000, and fraction be at least 0")
        if not 1 <= self.places <= residues.MOST_PLACES or self.beams < 1:
            raise UsageError(f"intseq: places must lie between 1 and {residues.MOST_PLACES}, and beams be at least 1")
        if not residues.choose_coprime(self._moduli, self._n_places)[1]:
            raise UsageError(
                f"intseq: the moduli 2 … {self.most} do not tell numbers of {self._n_places} digits apart: "
                "raise most, or lower places"
            )

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, zeros = nn.initializers.normal(self.init_std), nn.initializers.zeros
        weights = {"kernel": base.choose_table(self, table_VD, self.width)}
        sizes = {"magnitude": 1, "sign": 3, "residue": sum(self._moduli)}
        for name, size in sizes.items():
            weights[f"{name}_kernel"] = self.param(f"{name}_kernel", init, (self.width, size), jnp.float32)
            weights[f"{name}_bias"] = self.param(f"{name}_bias", zeros, (size,), jnp.float32)
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"magnitude", a log density; "sign"; "residues", the sum of the log masses of R residues}. Moduli overlap,
        so the sum is no log mass of the number."""
        error = residues.log_magnitude(numerals) - self._project(out, "magnitude")[..., 0]
        signs = jax.nn.log_softmax(self._project(out, "sign"), axis=-1)
        number_residues, is_whole = residues.find_residues(numerals, self._moduli, self.fraction)
        log_probs = jnp.take_along_axis(self._residue_log_probs(out), number_residues[..., None], axis=-1)
        return {
            "magnitude": -jnp.square(error) - 0.5 * np.log(np.pi),
            "sign": jnp.take_along_axis(signs, residues.sign_id(numerals)[..., None], axis=-1)[..., 0],
            "residues": jnp.where(is_whole, log_probs[..., 0].sum(-1), 0.0),
        }

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The number of the likeliest sign and residues or, with a key, of a sampled sign, magnitude and residues."""
        mean, signs = self._project(out, "magnitude")[..., 0], self._project(out, "sign")
        log_probs = self._residue_log_probs(out)
        if key is not None:
            sign_key, size_key, residue_key = jax.random.split(key, 3)
            signs = signs + jax.random.gumbel(sign_key, signs.shape)
            mean = mean + np.sqrt(0.5) * jax.random.normal(size_key, mean.shape)
            # The largest of log p + Gumbel noise is a sample, and the beam compares samples.
            log_probs = log_probs + jax.random.gumbel(residue_key, log_probs.shape)
        sign = signs.argmax(-1) - 1
        moduli = np.asarray(self._moduli)
        flipped = np.where(np.arange(self.most) < moduli[:, None], -np.arange(self.most) % moduli[:, None], 0)
        of_negative = jnp.take_along_axis(log_probs, jnp.broadcast_to(flipped, log_probs.shape), axis=-1)
        log_probs = jnp.where((sign < 0)[..., None, None], of_negative, log_probs)
        log10 = (mean - 1 + self.fraction)[..., None]

        def rate(digits):
            value = residues.value_of_places(digits)
            return jnp.where(value > 0, -jnp.square(jnp.log10(jnp.maximum(value, 1)) - log10), residues.NEVER)

        digits = residues.solve(log_probs, self._moduli, self._n_places, self.beams, rate)
        digits = jnp.where((sign == 0)[..., None], 0, digits)
        return recount_digits(from_places(jnp.where(sign < 0, -1, 1), digits, -self.fraction, self.digits)), None

    @property
    def number_range(self) -> NumberRange:
        """Multiples of 10^−`fraction` with at most `places` digits down to that place."""
        return NumberRange(places=self.fraction, high=self._n_places - self.fraction - 1)

    @property
    def _moduli(self) -> tuple[int, ...]:
        return tuple(range(2, self.most + 1))

    @property
    def _n_places(self) -> int:
        return min(self.places, self.digits)

    def _project(self, out: HeadOut, name: str) -> jax.Array:
        return project(out.hidden.astype(jnp.float32), out.weights[f"{name}_kernel"]) + out.weights[f"{name}_bias"]

    def _residue_log_probs(self, out: HeadOut) -> jax.Array:
        """float32[..., R, M], `residues.NEVER` where a modulus has no such residue."""
        classes, is_residue = lay_out_classes(self.most)
        kernel, bias = out.weights["residue_kernel"][:, classes], out.weights["residue_bias"][classes]
        logits = project(out.hidden.astype(jnp.float32), kernel) + bias
        log_probs = jax.nn.log_softmax(jnp.where(is_residue, logits, residues.NEVER), axis=-1)
        return jnp.where(is_residue, log_probs, residues.NEVER)
