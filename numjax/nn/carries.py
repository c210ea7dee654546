"""Numbers as strings of redundant digits, whose carries are resolved later.

A string s_0 s_1 …, lowest place first, denotes Σ s_i · 10^i. Its digits may be above 9 or below 0, so several strings
denote one number: 12 is "2 1" and "12 0". With independent digits at all places, the probability of a number is the
sum over its strings. It is a product of small matrices over the carries: with α_0(0) = 1,

    α_{i+1}(c') = Σ_c α_i(c) · p_i(d_i + 10c' − c),

α_P(0) is the probability of the number with the digits d. We know of no earlier loss of this form; redundant digits
themselves are those of carry-save adders.

Legend: P places, S redundant digits, C carries.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.nn.einsum import einsum

IMPOSSIBLE = -1e30  # a log-probability of 0; finite, so that gradients stay finite


class Digits(NamedTuple):
    """The redundant digits `least` … `most` of a string."""

    least: int
    most: int

    @property
    def count(self) -> int:
        """S."""
        return self.most - self.least + 1

    @property
    def carries(self) -> tuple[int, ...]:
        """All carries that can occur, which are the least and the largest fixed point of ⌊(s + c) / 10⌋ and those
        between."""
        low = high = 0
        while True:
            bounds = min(low, (self.least + low) // 10), max(high, (self.most + high) // 10)
            if bounds == (low, high):
                return tuple(range(low, high + 1))
            low, high = bounds

    def list_columns(self) -> np.ndarray:
        """The column of log-probabilities of s = d + 10c' − c, int[10, C, C] by d, c' and c; S where there is no such
        digit."""
        carries = np.asarray(self.carries)
        digits = np.arange(10)[:, None, None] + 10 * carries[:, None] - carries
        return np.where((digits >= self.least) & (digits <= self.most), digits - self.least, self.count)


def log_prob(log_probs: jax.Array, digits: jax.Array, kind: Digits, last_carry: int = 0) -> jax.Array:
    """The log-probability of a number, over all strings that denote it; `IMPOSSIBLE` or below if none does.

    Args:
      log_probs: float[..., P, S], of the redundant digits of each place, lowest place first.
      digits: int[..., P], 0 … 9, of the number modulo 10^P.
      last_carry: what is left of the number, divided by 10^P.

    Returns:
      float32[...].
    """
    return _sum_strings(_pick(log_probs, digits, kind), kind)[..., kind.carries.index(last_carry)]


def log_total(log_probs: jax.Array, kind: Digits) -> jax.Array:
    """The log-probability that the last carry is 0: that of all numbers together, float32[...]; arguments as in
    `choose`."""
    steps = jax.nn.logsumexp(_spread(log_probs, kind), axis=-3)
    return _sum_strings(steps, kind)[..., kind.carries.index(0)]


def _sum_strings(steps: jax.Array, kind: Digits) -> jax.Array:
    """The log-probability of each last carry, float32[..., C], from those of each place by next carry and carry,
    float32[..., P, C, C]."""

    def add_place(alpha, step):
        return jax.nn.logsumexp(alpha[..., None, :] + step, axis=-1), None

    return jax.lax.scan(add_place, _start(steps.shape[:-3], kind), jnp.moveaxis(steps, -3, 0))[0]


def score_places(
    log_probs: jax.Array, digits: jax.Array, ends: tuple[jax.Array, jax.Array], last_carry: jax.Array, kind: Digits
) -> jax.Array:
    """The log-probability of each place of several numbers in a row, given the places below it.

    The sum over the places of a number is its `log_prob`. Values outside numbers are finite and mean nothing.

    Args:
      log_probs: float[..., T, S], of the redundant digits of each position. digits: int[..., T], 0 … 9.
      ends: (whether a position is the lowest place of a number, whether it is the highest), both bool[..., T].
      last_carry: int[..., T], what is left of the number above its highest place.

    Returns:
      float32[..., T].
    """
    start, indices = _start(digits.shape[:-1], kind), last_carry - kind.carries[0]

    def add_place(alpha, place):
        step, is_lowest, is_highest, index = place
        alpha = jnp.where(is_lowest[..., None], start, alpha)
        paths = jax.nn.logsumexp(alpha[..., None, :] + step, axis=-1)
        at_end = jnp.take_along_axis(paths, index[..., None], axis=-1)[..., 0]
        score = jnp.where(is_highest, at_end, jax.nn.logsumexp(paths, axis=-1))
        return paths - score[..., None], score

    steps = jnp.moveaxis(_pick(log_probs, digits, kind), -3, 0)
    places = (steps, *(jnp.moveaxis(x, -1, 0) for x in (*ends, indices)))
    _, scores = jax.lax.scan(add_place, start, places)
    return jnp.moveaxis(scores, 0, -1)


def choose(log_probs: jax.Array, kind: Digits, key: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """The number of the likeliest string or, with a key, of a string that is drawn.

    Only strings count whose last carry is 0: they denote numbers from 0 to 10^P − 1.

    Args:
      log_probs: float[..., P, S], of the redundant digits of each place, lowest place first.

    Returns:
      (its digits, int32[..., P], 0 … 9, lowest place first; float32[...], the log-probability of all strings that
      count, or with no key of the likeliest one).
    """
    steps = jnp.moveaxis(_spread(log_probs, kind), -4, 0)
    n_carries, zero = len(kind.carries), kind.carries.index(0)
    first = _start(log_probs.shape[:-2], kind)

    def go_up(alpha, step):
        # [..., 10, C', C]: a digit, the next carry, this carry.
        paths = alpha[..., None, None, :] + step
        combine = jnp.max if key is None else jax.nn.logsumexp
        return combine(paths, axis=(-3, -1)), alpha

    last, alphas = jax.lax.scan(go_up, first, steps)

    def go_down(carry, place):
        index, alpha, step = place
        paths = alpha[..., None, None, :] + step
        paths = jnp.take_along_axis(paths, carry[..., None, None, None], axis=-2)[..., 0, :]
        flat = paths.reshape(*paths.shape[:-2], -1)
        best = flat.argmax(-1) if key is None else jax.random.categorical(jax.random.fold_in(key, index), flat)
        return best % n_carries, (best // n_carries).astype(jnp.int32)

    places = (jnp.arange(len(steps)), alphas, steps)
    _, digits = jax.lax.scan(go_down, jnp.full(log_probs.shape[:-2], zero), places, reverse=True)
    return jnp.moveaxis(digits, 0, -1), last[..., zero]


def find_quantiles(
    log_probs: jax.Array, kind: Digits, levels: jax.Array, is_upper: jax.Array, last_carries: tuple[int, ...] = (0,)
) -> tuple[jax.Array, jax.Array]:
    """Quantiles of the number, over all strings whose last carry is one of `last_carries`.

    The quantile of the level u is the least number n with P(N ≤ n) ≥ u; the upper one is the largest with
    P(N ≥ n) ≥ u. Digit by digit from the highest place, the digit is the first at which the mass of what is smaller
    (or larger) reaches u, and u becomes the share of this digit's mass that is still wanted. A rounding error of u
    shrinks with every digit, so the result is exact for a level near u.

    Args:
      log_probs: float[..., P, S], as in `choose`, a distribution at each place.
      levels: float32[..., Q] in (0, 1). is_upper: bool[..., Q].

    Returns:
      (its digits, int32[..., Q, P], 0 … 9, lowest place first; the last carry, int32[..., Q]).
    """
    steps = jnp.moveaxis(jnp.exp(_spread(log_probs, kind)), -4, 0)  # [P, ..., 10, C', C]
    first = jnp.exp(_start(log_probs.shape[:-2], kind))

    def go_up(alpha, step):
        return (alpha[..., None, None, :] * step).sum((-3, -1)), alpha

    last, alphas = jax.lax.scan(go_up, first, steps)
    carries = jnp.asarray(kind.carries)
    counts = (carries[:, None] == jnp.asarray(last_carries)).any(-1)
    shape = jnp.broadcast_shapes(levels.shape, (*log_probs.shape[:-2], 1))
    levels, is_upper = (jnp.broadcast_to(x, shape) for x in (levels, is_upper))
    masses = jnp.broadcast_to((last * counts)[..., None, :], (*shape, len(carries)))
    index, level = _find_level(masses, levels, is_upper)
    # The likelihood of the digits so far for each carry into the place above the next one.
    belief = jax.nn.one_hot(index, len(carries))

    def go_down(state, place):
        belief, level = state
        alpha, step = place
        # [..., Q, 10, C]: the mass of a digit and the carry below it, with that of the digits above.
        above = einsum("...qe,...dec->...qdc", belief, step)
        digit, level = _find_level((above * alpha[..., None, None, :]).sum(-1), level, is_upper)
        belief = jnp.take_along_axis(above, digit[..., None, None], axis=-2)[..., 0, :]
        return (belief / jnp.maximum(belief.max(-1, keepdims=True), 1e-37), level), digit

    _, digits = jax.lax.scan(go_down, (belief, level), (alphas, steps), reverse=True)
    return jnp.moveaxis(digits, 0, -1), carries[index]


def _find_level(masses: jax.Array, level: jax.Array, is_upper: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(the first of the choices at which the sum of masses reaches a share `level` of all, from the last one where
    `is_upper`; the share of this choice's mass that its part of the level is); masses float[..., n]."""
    count = masses.shape[-1]
    ordered = jnp.where(is_upper[..., None], masses[..., ::-1], masses)
    sums = jnp.cumsum(ordered, axis=-1)
    wanted = level * sums[..., -1]
    # Rounding must not lead to a choice without mass.
    last = count - 1 - jnp.argmax(ordered[..., ::-1] > 0, axis=-1)
    index = jnp.minimum((sums < wanted[..., None]).sum(-1), last)
    mass = jnp.take_along_axis(ordered, index[..., None], axis=-1)[..., 0]
    before = jnp.take_along_axis(sums, index[..., None], axis=-1)[..., 0] - mass
    share = jnp.clip((wanted - before) / jnp.maximum(mass, 1e-37), 1e-7, 1.0)
    return jnp.where(is_upper, count - 1 - index, index).astype(jnp.int32), share


def _start(shape: tuple[int, ...], kind: Digits) -> jax.Array:
    """α_0, float32[*shape, C]: no carry comes into the lowest place."""
    return jnp.full((*shape, len(kind.carries)), IMPOSSIBLE).at[..., kind.carries.index(0)].set(0.0)


def _pick(log_probs: jax.Array, digits: jax.Array, kind: Digits) -> jax.Array:
    """float32[..., P, C, C]: the log-probability of each place with its resolved digit, by next carry and carry."""
    columns = jnp.asarray(kind.list_columns())[digits]
    flat = jnp.take_along_axis(_pad(log_probs), columns.reshape(*digits.shape, -1), axis=-1)
    return flat.reshape(columns.shape)


def _spread(log_probs: jax.Array, kind: Digits) -> jax.Array:
    """float32[..., P, 10, C, C]: the log-probability of each place by its resolved digit, next carry and carry."""
    return _pad(log_probs)[..., kind.list_columns()]


def _pad(log_probs: jax.Array) -> jax.Array:
    """The log-probabilities with one more column, of digits that do not exist."""
    padding = [(0, 0)] * (log_probs.ndim - 1) + [(0, 1)]
    return jnp.pad(log_probs.astype(jnp.float32), padding, constant_values=IMPOSSIBLE)
