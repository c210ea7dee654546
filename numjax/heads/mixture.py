"""A token or a numeral: NumGPT's mixture of a selector, a vocabulary, an exponent and a mantissa."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import cross_entropy, gaussians
from numjax.nn.dense import project
from numjax.nn.numerals import exponent_id, exponent_of_id, from_mantissa
from numjax.protocols import FromContext
from numjax.types import Allowed, Estimate, HeadOut, NumberRange, Numeral, Scores, Targets, Tokens

DENSITIES = ("printed", "scaled", "learned")
MANTISSAS = ("mean", "sampled")


def mantissa_log_density(x: jax.Array, mean: jax.Array, log_variance: jax.Array | float) -> jax.Array:
    """log N(x; mean, variance). Eq. 11 as printed is variance ½: −(x − μ)² − ½ ln π."""
    log_variance = jnp.asarray(log_variance, jnp.float32)
    return -0.5 * (jnp.square(x - mean) * jnp.exp(-log_variance) + log_variance + np.log(2 * np.pi))


class Head(protocols.Head, base.NumberDistribution, nn.Module):
    """log p(x_t) = log p(z_t) + [text] log p(token) + [numeral] (log p(exponent) + log p(mantissa)).

    NumGPT eq. 7–11. The selector, token and exponent parts are log masses; the mantissa part is a log
    density: their sum is not comparable with a plain model's log-likelihood.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use; num_id: the id of [NUM], which the token part
        never predicts.
      low, high: exponents with a class of their own; 0 and 1 are the classes below and above.
      density: "printed" (variance ½), "scaled" (the residual is divided by `scale`) or "learned" (a second
        output gives the log-variance).
      keep: significant digits of a generated number, which is fed back rounded to them. Nine digits identify every
        float32: they are nearest to the paper's code, which feeds the unrounded mantissa back.
      mantissas: the mantissa of a number in sampled decoding: the "mean" of its density, or one "sampled" from it.
        Greedy decoding and beams take the mean.
      share: the share of the mantissa's density that lies in `interval`.
      digits: K of the predicted numerals.
      tied: W is the token embedding's table (the paper's code: it is not).
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    num_id: FromContext[int]
    tied: bool = False
    low: int = -8
    high: int = 12
    density: str = "printed"
    scale: float = 2.5
    keep: int = 5
    mantissas: str = "mean"
    share: float = 0.9
    digits: FromContext[int] = 20
    chunk_rows: int | None = None
    init_std: float = 0.02

    densities: ClassVar[tuple[str, ...]] = ("mantissa",)
    by_token = True
    answers = "language_model"
    numbers = True

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        if self.density not in DENSITIES:
            raise UsageError(f"mixture: density must be one of {', '.join(DENSITIES)}, not {self.density!r}")
        if not 1 <= self.keep <= min(9, self.digits):
            raise UsageError(f"mixture: keep must lie between 1 and {min(9, self.digits)}, not {self.keep}")
        if self.mantissas not in MANTISSAS:
            raise UsageError(f"mixture: mantissas must be {' or '.join(MANTISSAS)}, not {self.mantissas!r}")
        if not 0 < self.share < 1:
            raise UsageError(f"mixture: share must lie between 0 and 1, not {self.share}")
        if self.low > self.high or not self.scale > 0:
            raise UsageError(
                f"mixture: low must not be above high, and scale above 0, not {self.low}, {self.high}, {self.scale:g}"
            )
        init = nn.initializers.normal(self.init_std)
        shapes = {"selector": 2, "exponent": self.high - self.low + 3, "mantissa": 1}
        if self.density == "learned":
            shapes["log_variance"] = 1
        weights = {name: self.param(name, init, (self.width, n), jnp.float32) for name, n in shapes.items()}
        return HeadOut(h_BTD, weights | {"kernel": base.choose_table(self, table_VD, self.width)})

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """Log masses "selector", "token", "exponent" and the log density "mantissa", each [B, T], zero
        where they do not apply."""
        is_numeral = _is_numeral(targets)
        token = cross_entropy.log_prob(out.hidden, out.weights["kernel"], targets.ids, **self._options(allowed))
        return self._numeral_parts(out, targets, allowed) | {"token": jnp.where(is_numeral, 0.0, token)}

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; a loss should use this."""
        parts = {k: (v * weights_BT).sum() for k, v in self._numeral_parts(out, targets, allowed).items()}
        text_weights = jnp.where(_is_numeral(targets), 0.0, weights_BT)
        kernel, options = out.weights["kernel"], self._options(allowed)
        return parts | {
            "token": cross_entropy.total_log_prob(out.hidden, kernel, targets.ids, text_weights, **options)
        }

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """The scores of hidden states [B, D]. The mass of [NUM] is the selector's. The exponent is the likeliest or,
        with a key, sampled; the mantissa is its mean or, with a key, as `mantissas` says.

        The estimate's interval is that of the mantissa at the number's exponent: mean ± z · √variance of eq. 11's
        N(mean, variance). It does not include the uncertainty of the exponent. A number predicted as zero stands for
        all numbers below 10^`low`, and its interval holds all of them.
        """
        is_text = jnp.arange(self.vocab_size) != self.num_id
        logits = cross_entropy.step_logits(out.hidden, out.weights, self.size, banned=self.num_id)
        selector = self._project(out, "selector")
        if allowed_BV is not None:
            logits = jnp.where(allowed_BV, logits, cross_entropy.FORBIDDEN)
            has_legal = jnp.stack([(allowed_BV & is_text).any(-1), allowed_BV[:, self.num_id]], axis=-1)
            selector = jnp.where(has_legal, selector, cross_entropy.FORBIDDEN)
        log_selector = jax.nn.log_softmax(selector, axis=-1)
        mass = jax.nn.log_softmax(logits, axis=-1) + log_selector[:, :1]
        mass = mass.at[:, self.num_id].set(log_selector[:, 1])
        exponents = self._project(out, "exponent")
        exponent_class = exponents.argmax(-1) if key is None else jax.random.categorical(key, exponents)
        exponent = exponent_of_id(exponent_class, self.low, self.high)
        mantissa = self._project(out, "mantissa")[..., 0]
        if key is not None and self.mantissas == "sampled":
            noise = jax.random.normal(jax.random.fold_in(key, 1), mantissa.shape)
            mantissa += jnp.exp(self._log_variance(out) / 2) * noise
        # −INF means zero, as in the paper's code.
        mantissa = jnp.where(exponent_class == 0, 0.0, mantissa)
        numeral = from_mantissa(mantissa, exponent, self.digits, self.keep)
        return Scores(mass, numeral, self._estimate(out, mantissa, exponent))

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact for the mixture of all exponents: m · 10^e with the exponent's mass and the mantissa's density, and 0
        with the mass of the lowest class."""
        del targets
        masses = jax.nn.log_softmax(self._project(out, "exponent"), axis=-1)
        levels = jnp.broadcast_to(levels, (*masses.shape[:-1], levels.shape[-1]))
        mantissa, exponent = gaussians.find_mixture_quantiles(
            self._by_exponent(masses),
            jnp.arange(self.low, self.high + 2),
            jnp.exp(masses[..., 0]),
            self._project(out, "mantissa")[..., 0],
            jnp.exp(self._find_log_variance(out) / 2),
            levels,
        )
        return from_mantissa(mantissa, exponent, self.digits, self.keep)

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """The log mass of the numbers that round to the one at hand, over all exponents. That of 0 is the mass of the
        lowest class."""
        if targets.numerals is None:
            return jnp.zeros(out.hidden.shape[:-1])
        masses = jax.nn.log_softmax(self._project(out, "exponent"), axis=-1)
        mean, deviation = self._project(out, "mantissa"), jnp.exp(self._find_log_variance(out) / 2)[..., None]
        center, half = (x[..., None] for x in gaussians.find_cell(targets.numerals, self.keep))
        shift = targets.numerals.exponent[..., None] - jnp.arange(self.low, self.high + 2)
        ratio = jnp.power(10.0, jnp.clip(shift, -37, 30).astype(jnp.float32))
        low, high, middle = (((center + side * half) * ratio - mean) / deviation for side in (-1, 1, 0))
        by_exponent = gaussians.log_mass(low, high, middle, half * ratio / deviation) + self._by_exponent(masses)
        return jnp.where(targets.numerals.n_digits == 0, masses[..., 0], jax.nn.logsumexp(by_exponent, axis=-1))

    def _by_exponent(self, by_class: jax.Array) -> jax.Array:
        """What the classes of `exponent_id` have, [..., E] in the order of their exponents `low` … `high` + 1."""
        return jnp.concatenate([by_class[..., 2:], by_class[..., 1:2]], axis=-1)

    def _find_log_variance(self, out: HeadOut) -> jax.Array:
        """`_log_variance` of each position, float32[...]."""
        return jnp.broadcast_to(jnp.asarray(self._log_variance(out), jnp.float32), out.hidden.shape[:-1])

    def token_logits(self, out: HeadOut, ids: jax.Array) -> jax.Array:
        """float32[B, T, n] of tokens int32[n], within the text's softmax."""
        return cross_entropy.token_logits(out.hidden, out.weights["kernel"], ids)

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most `keep` significant digits and an exponent between `low` and `high`.

        Other numbers become the nearest of these: rounded half-even, zero below, 10^(`high` + 1) and more above."""
        return NumberRange(digits=self.keep, low=self.low, high=self.high)

    @property
    def exact(self) -> bool:
        """Whether a float32 mantissa holds `keep` digits: its steps below 10 are those of seven digits at most."""
        return self.keep <= 7

    def _estimate(self, out: HeadOut, mantissa: jax.Array, exponent: jax.Array) -> Estimate:
        mean, log_variance = self._project(out, "mantissa")[..., 0], self._log_variance(out)
        reach = statistics.NormalDist().inv_cdf((1 + self.share) / 2) * jnp.exp(log_variance / 2)
        is_zero = exponent < self.low
        low, high = jnp.where(is_zero, -10.0, mean - reach), jnp.where(is_zero, 10.0, mean + reach)
        low, high = (from_mantissa(end, exponent, self.digits, self.keep) for end in (low, high))
        return Estimate(mantissa, exponent, low, high, jnp.full(mantissa.shape, self.share, jnp.float32))

    def _options(self, allowed) -> dict[str, Any]:
        return dict(size=self.size, allowed=allowed, banned=self.num_id, chunk_rows=self.chunk_rows)

    def _log_variance(self, out: HeadOut) -> jax.Array | float:
        """The log variance of the mantissa's density: a number, or one per position if it is learned."""
        if self.density == "learned":
            # Kept within e^±10, so that one confident mistake cannot overflow.
            return 10 * jnp.tanh(self._project(out, "log_variance")[..., 0] / 10)
        return float(np.log(0.5) + (2 * np.log(self.scale) if self.density == "scaled" else 0.0))

    def _project(self, out: HeadOut, name: str) -> jax.Array:
        # Numeral maths stays float32 whatever the compute type.
        return project(out.hidden.astype(jnp.float32), out.weights[name].astype(jnp.float32))

    def _numeral_parts(self, out: HeadOut, targets: Targets, allowed: Allowed | None):
        is_numeral = _is_numeral(targets)
        selector = self._project(out, "selector")
        if allowed is not None:
            num_class = allowed.class_of[self.num_id]
            is_text = jnp.arange(allowed.class_of.shape[0]) != self.num_id
            classes = jnp.arange(allowed.classes.shape[-1])
            holds_text = jnp.any((allowed.class_of[:, None] == classes) & is_text[:, None], axis=0)
            has_text = (allowed.classes & holds_text).any(-1)
            has_legal = jnp.stack([has_text, allowed.classes[..., num_class]], axis=-1)
            selector = jnp.where(has_legal, selector, cross_entropy.FORBIDDEN)
        log_selector = jax.nn.log_softmax(selector, axis=-1)
        parts = {"selector": jnp.where(is_numeral, log_selector[..., 1], log_selector[..., 0])}
        if targets.numerals is None:
            return parts
        index = exponent_id(targets.numerals.exponent, self.low, self.high)
        log_exponent = jax.nn.log_softmax(self._project(out, "exponent"), axis=-1)
        exponent = jnp.take_along_axis(log_exponent, index[..., None], axis=-1)[..., 0]
        mean = self._project(out, "mantissa")[..., 0]
        mantissa = mantissa_log_density(targets.numerals.mantissa, mean, self._log_variance(out))
        return parts | {
            "exponent": jnp.where(is_numeral, exponent, 0.0),
            "mantissa": jnp.where(is_numeral, mantissa, 0.0),
        }


def _is_numeral(targets: Targets) -> jax.Array:
    if targets.numeral_index is None:
        return jnp.zeros(targets.ids.shape, bool)
    return targets.numeral_index >= 0
