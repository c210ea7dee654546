"""A number by several views at once: residues by primes, digits, magnitude and sign (of our own).

Several views, because none makes everything easy: sums and products act on each residue by itself, while comparison
and rounding live in digits and magnitude. Spare primes detect errors: a number with one wrong residue is most often
outside of what the digits hold.

Legend: B rows, T positions, D width, R primes 7 … M, F features of a residue, P decimal places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import residue_codes, residues
from numjax.nn.dense import project
from numjax.nn.einsum import einsum
from numjax.types import HeadOut, Numeral, Tokens


class Head(base.PlaceWriter):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] softmaxes over the residues by each prime and
    over the digit of each place, N(v; μ, ½) of v = 1 + log10 |x|, and the probability of a positive sign.

    All are linear in the normed hidden state. The logit of a residue r is `scale` times the product of p's features
    with the code of r (`nn/residue_codes`), which the embedding `residues` has too: a head turns angles, and learns
    no table. The codes of neighbours are close, so only large features tell them apart: with `scale` a small kernel
    makes them.

    The loss is the sum of what each view says of the number; views overlap, so it is no log mass of the number. The
    written number has the likelier sign, and the absolute value that maximises the sum of the log-probabilities of
    its residues and digits, less (v − μ)². Candidates are those of the Chinese remainder theorem
    (`nn.residues.solve`) and the likeliest digits. A wide beam is needed: where each of ten residues is one of two
    neighbours, a thousand tuples are alike until the checks by digits, magnitude and the spare primes.

    Attributes, besides those of `base.PlaceWriter`:
      most: M. harmonics, multiplies: as in the embedding. scale: of the logits of residues. beams: width of the beam
        over residues. alone: without digits and magnitude; the written number is what the residues say.
    """

    most: int = 53
    harmonics: int = 1
    multiplies: bool = True
    scale: float = 8.0
    beams: int = 128
    alone: bool = False

    densities = ("residues", "digits", "magnitude")  # no masses: they overlap

    def __post_init__(self):
        super().__post_init__()
        residue_codes.check_options(self.most, self.harmonics)
        if self.beams < 1 or not 1 <= self.places <= residues.MOST_PLACES:
            raise UsageError(
                f"residues: beams must be at least 1, and integer and fraction together from 1 to "
                f"{residues.MOST_PLACES}, whose magnitude float32 holds"
            )
        if not residues.choose_coprime(self._primes, self.places)[1]:
            raise UsageError(
                f"residues: the primes 7 … {self.most} do not tell numbers of {self.places} digits apart: raise "
                "most, or lower integer or fraction"
            )

    @property
    def _primes(self) -> tuple[int, ...]:
        return residue_codes.list_primes(self.most)

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, zeros = nn.initializers.normal(self.init_std), nn.initializers.zeros
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            **self.make_norm(),
        }
        n_features = len(self._primes) * residue_codes.count_features(self.harmonics, self.multiplies)
        sizes = {"residue": n_features, "sign": int(self.signed)}
        sizes |= {} if self.alone else {"digit": 10 * self.places, "magnitude": 1}
        for name, size in sizes.items():
            if size:
                weights[f"{name}_kernel"] = self.param(f"{name}_kernel", init, (self.width, size), jnp.float32)
                weights[f"{name}_bias"] = self.param(f"{name}_bias", zeros, (size,), jnp.float32)
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"residues", "digits", "sign"}, log masses, of R residues and P digits; and "magnitude", a log density.
        With `alone`, residues and sign are all.

        Residues of a number with more digits than are kept are not known, and count nothing.
        """
        normed = self.norm(out)
        number_residues, is_known = residues.find_decimal_residues(numerals, self._primes)
        by_prime = jnp.take_along_axis(self._residue_log_probs(out, normed), number_residues[..., None], axis=-1)
        parts = {"residues": jnp.where(is_known, by_prime[..., 0].sum(-1), 0.0)}
        if not self.alone:
            by_place = jnp.take_along_axis(
                self._digit_log_probs(out, normed), self.to_digits(numerals)[..., None], axis=-1
            )
            parts["digits"] = by_place[..., 0].sum(-1)
            error = residues.log_magnitude(numerals) - self._project(out, normed, "magnitude")[..., 0]
            parts["magnitude"] = -jnp.square(error) - 0.5 * np.log(np.pi)
        if self.signed:
            sign = self._project(out, normed, "sign")[..., 0]
            parts["sign"] = jax.nn.log_sigmoid(sign * numerals.sign.astype(jnp.float32))
        return parts

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """The number of the likeliest sign, residues, digits and magnitude or, with a key, of sampled ones."""
        normed = self.norm(out)
        by_prime = self._residue_log_probs(out, normed)
        sign = self._project(out, normed, "sign")[..., 0] if self.signed else None
        size_key = None
        if key is not None:
            sign_key, residue_key, size_key = jax.random.split(key, 3)
            # The largest of log p + Gumbel noise is a sample, and the search compares samples.
            by_prime = by_prime + jax.random.gumbel(residue_key, by_prime.shape)
            if sign is not None:
                sign = sign + jax.random.logistic(sign_key, sign.shape)
        is_negative = jnp.zeros(normed.shape[:-1], bool) if sign is None else sign < 0
        rate, also = (_rate_all_alike, None) if self.alone else self._rate_by_size(out, normed, size_key)
        digits = residues.solve(
            self._turn_to_scaled(by_prime, is_negative), self._primes, self.places, self.beams, rate, also
        )
        return self.from_digits(digits, jnp.where(is_negative, -1.0, 1.0), None), None

    def _rate_by_size(
        self, out: HeadOut, normed: jax.Array, key: jax.Array | None
    ) -> tuple[Callable[[jax.Array], jax.Array], jax.Array]:
        """(what digits and magnitude say of numbers, as `residues.solve` takes it; the likeliest digits)."""
        by_place, magnitude = self._digit_log_probs(out, normed), self._project(out, normed, "magnitude")
        if key is not None:
            size_key, digit_key = jax.random.split(key)
            magnitude = magnitude + np.sqrt(0.5) * jax.random.normal(size_key, magnitude.shape)
            by_place = by_place + jax.random.gumbel(digit_key, by_place.shape)

        def rate(digits):
            of_digits = jnp.take_along_axis(by_place[..., None, :, :], digits[..., None], axis=-1)[..., 0].sum(-1)
            value = residues.value_of_places(digits) * 10.0**-self.fraction
            v = jnp.where(value > 0, 1 + jnp.log10(jnp.maximum(value, 1e-30)), 0.0)
            return of_digits - jnp.square(v - magnitude)

        return rate, by_place.argmax(-1).astype(jnp.int32)

    def _turn_to_scaled(self, by_prime: jax.Array, is_negative: jax.Array) -> jax.Array:
        """What `by_prime`, of the residues of x, says of those of |x| · 10^fraction, float32[..., R, M]."""
        index = np.zeros((2, len(self._primes), max(self._primes)), np.int32)
        for row, prime in enumerate(self._primes):
            of_number = np.arange(prime) * pow(10, -self.fraction, prime) % prime
            index[:, row, :prime] = of_number, -of_number % prime
            index[:, row, prime:] = np.arange(prime, max(self._primes))
        chosen = jnp.where(is_negative[..., None, None], index[1], index[0])
        return jnp.take_along_axis(by_prime, chosen, axis=-1)

    def _project(self, out: HeadOut, normed: jax.Array, name: str) -> jax.Array:
        return project(normed, out.weights[f"{name}_kernel"]) + out.weights[f"{name}_bias"]

    def _residue_log_probs(self, out: HeadOut, normed: jax.Array) -> jax.Array:
        """float32[..., R, M], `residues.NEVER` where a prime has no such residue."""
        codes = residue_codes.make_codes(self._primes, self.harmonics, self.multiplies)
        features = self.scale * self._project(out, normed, "residue")
        features = features.reshape(*normed.shape[:-1], len(self._primes), -1)
        is_residue = np.arange(max(self._primes)) < np.asarray(self._primes)[:, None]
        logits = jnp.where(is_residue, einsum("...rf,rmf->...rm", features, codes), residues.NEVER)
        return jnp.where(is_residue, jax.nn.log_softmax(logits, axis=-1), residues.NEVER)

    def _digit_log_probs(self, out: HeadOut, normed: jax.Array) -> jax.Array:
        """float32[..., P, 10], the lowest place first."""
        logits = self._project(out, normed, "digit").reshape(*normed.shape[:-1], self.places, 10)
        return jax.nn.log_softmax(logits, axis=-1)


def _rate_all_alike(digits: jax.Array) -> jax.Array:
    return jnp.zeros(digits.shape[:-1])
