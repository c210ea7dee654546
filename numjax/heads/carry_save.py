"""Each decimal place of a number, or three of them, at a position of its own, as digits that may hold a carry.

Legend: B rows, T positions, D width, N decimal places of a position, S redundant digits.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn import carries
from numjax.nn.dense import project
from numjax.nn.numerals import from_integer, from_places, recount_digits
from numjax.protocols import FromContext
from numjax.types import HeadOut, Numeral, Targets, Tokens, WrittenPlaces


class Head(base.NumberWriter, base.NumberDistribution):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at each [NUM] N softmaxes over redundant digits.

    It belongs to scheme carry_save, whose [NUM]s are the decimal places of a number (N = 1) or limbs of three places
    (its `size`, N = 3); `heads/carry` predicts all places at one position. The loss is that of the number, over all
    strings of redundant digits that denote it (`nn/carries.py`). A written number has the likeliest digit at each
    place, or sampled ones: there the model needs no carry at all. Numbers below 0 are strings with digits below 0;
    their digits are those of the ten's complement, and −1 is what is left above the highest place.

    Attributes, besides those of `base.NumberWriter`:
      written_places: the scheme's; without a scheme, places from the units on, with the digits 0 … 19.
    """

    written_places: FromContext[WrittenPlaces | None] = None
    written_as = "places"

    @property
    def layout(self) -> WrittenPlaces:
        """The places and their digits."""
        layout = self.written_places or WrittenPlaces(0, self.digits, 0, 19)
        if layout.count > self.digits:
            raise UsageError(
                f"carry_save: numbers have {layout.count} places, and of their digits {self.digits} are kept: set "
                f"config.data.digits={layout.count}, or scheme.places"
            )
        return layout

    @property
    def kind(self) -> carries.Digits:
        """The digits of a place."""
        return carries.Digits(self.layout.least, self.layout.most)

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, zeros = nn.initializers.normal(self.init_std), nn.initializers.zeros
        n_outputs = self.layout.size * self.kind.count
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            **self.make_norm(),
            "number_kernel": self.param("number_kernel", init, (self.width, n_outputs), jnp.float32),
            "digit_bias": self.param("digit_bias", zeros, (n_outputs,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, None]:
        """Σ digit · 10^i of the likeliest digits of the position's places or, with a key, of sampled ones."""
        logits = self._logits(out)
        column = logits.argmax(-1) if key is None else jax.random.categorical(key, logits)
        digits = column.astype(jnp.int32) + self.layout.least
        return from_integer((digits * 10 ** jnp.arange(self.layout.size)).sum(-1), 0, self.digits), None

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact for the numbers of as many places as the one at hand, at its highest place: over all strings of
        redundant digits, whose sums may need a digit more than there are places."""
        inside, first, _ = self._find_numbers(targets)
        at = jnp.arange(inside.shape[-1])
        log_probs = jax.nn.log_softmax(self._logits(out), axis=-1)
        # Above the highest place the digit is 0, and carries arrive there.
        more = len(str(self.kind.carries[-1]))
        index = first[..., None] + jnp.arange(-(-(self.layout.count + more) // self.layout.size))
        is_part = (index <= at[:, None]) & inside[..., None]
        flat = jnp.clip(index, 0, inside.shape[-1] - 1).reshape(*inside.shape[:-1], -1)
        parts = jnp.take_along_axis(log_probs, flat[..., None, None], axis=-3).reshape(
            *index.shape, self.layout.size, -1
        )
        empty = jnp.where(jnp.arange(self.kind.count) == -self.layout.least, 0.0, carries.IMPOSSIBLE)
        parts = jnp.where(is_part[..., None, None], parts, empty)
        places = parts.reshape(*inside.shape, -1, self.kind.count)
        lasts = (-1, 0) if self.layout.least < 0 else (0,)
        levels = jnp.broadcast_to(levels, (*inside.shape, levels.shape[-1]))
        digits, last = carries.find_quantiles(places, self.kind, levels, jnp.zeros(levels.shape, bool), lasts)
        # What is left of −1 above the highest place makes the digits those of the ten's complement.
        has_lower = jnp.cumsum(digits, axis=-1) - digits > 0
        complement = jnp.where(has_lower, 9 - digits, (10 - digits) % 10)
        digits = jnp.where(last[..., None] < 0, complement, digits)
        return recount_digits(from_places(jnp.where(last < 0, -1, 1), digits, self.layout.lowest, self.digits))

    def _find_numbers(self, targets: Targets) -> tuple[jax.Array, jax.Array, tuple[jax.Array, jax.Array]]:
        """(whether a position is part of a number; the position of its number's lowest places, int32[..., T];
        whether it has the lowest places, whether it has the highest)."""
        if (index := targets.numeral_index) is None:
            raise ValueError("places belong to numbers: targets need a numeral_index")
        inside = (index >= 0) & (targets.ids == self.num_id)
        number = jnp.where(inside, index, -1)
        changes = number[..., 1:] != number[..., :-1]
        edge = jnp.ones_like(changes[..., :1])
        is_lowest = inside & jnp.concatenate([edge, changes], axis=-1)
        is_highest = inside & jnp.concatenate([changes, edge], axis=-1)
        first = jax.lax.cummax(jnp.where(is_lowest, jnp.arange(inside.shape[-1]), 0), axis=inside.ndim - 1)
        return inside, first, (is_lowest, is_highest)

    def _number_parts(self, out: HeadOut, targets: Targets) -> dict[str, jax.Array]:
        """{"digits"}: the log mass of each position's places, given the places below them. A sum over positions is
        exact: it is the log mass of the number."""
        if targets.numerals is None or targets.numeral_index is None:
            return {}
        inside, first, (is_lowest, is_highest) = self._find_numbers(targets)
        # The places of all positions in a row, [..., T·N].
        size = self.layout.size
        within = jnp.tile(jnp.arange(size), inside.shape[-1])
        numerals, is_lowest, is_highest = (
            jax.tree.map(lambda x: jnp.repeat(x, size, axis=inside.ndim - 1), tree)
            for tree in (targets.numerals, is_lowest, is_highest)
        )
        ends = is_lowest & (within == 0), is_highest & (within == size - 1)
        place = jnp.repeat(jnp.arange(inside.shape[-1]) - first, size, axis=-1) * size + within + self.layout.lowest
        is_negative = (numerals.sign < 0) & (numerals.n_digits > 0) & (self.layout.least < 0)
        digits = find_digits(numerals, place, is_negative)
        log_probs = jax.nn.log_softmax(self._logits(out), axis=-1).reshape(*place.shape, -1)
        last = self._find_rest(numerals, place, is_negative)
        index = jnp.clip(last, self.kind.carries[0], self.kind.carries[-1])
        scores = carries.score_places(log_probs, digits, ends, index, self.kind)
        # No string of these places denotes a number that leaves more than a carry above them.
        scores = jnp.where(ends[1] & (index != last), carries.IMPOSSIBLE, scores)
        return {"digits": jnp.where(inside, scores.reshape(*inside.shape, size).sum(-1), 0.0)}

    def _total_number_parts(self, out: HeadOut, targets: Targets, weights_BT: jax.Array) -> dict[str, jax.Array]:
        # A number has several positions, which depend on each other.
        return {name: (part * weights_BT).sum() for name, part in self._number_parts(out, targets).items()}

    def _find_rest(self, numerals: Numeral, place: jax.Array, is_negative: jax.Array) -> jax.Array:
        """What is left of each number above a decimal place, int32[...]; more than any carry if it is too large. A
        written number has a rest if its highest digit is redundant: 12 at the tens leaves 1."""
        more = len(str(self.kind.carries[-1]))
        digits = [find_digits(numerals, place + 1 + i, is_negative) * 10**i for i in range(more)]
        rest = sum(digits, start=jnp.zeros_like(place)) - jnp.where(is_negative, 10**more, 0)
        return jnp.where((numerals.n_digits > 0) & (numerals.exponent > place + more), 10**more, rest)

    def _logits(self, out: HeadOut) -> jax.Array:
        """Logits of the redundant digits of each place, float32[..., N, S]."""
        logits = project(self.norm(out), out.weights["number_kernel"]) + out.weights["digit_bias"]
        return logits.reshape(*logits.shape[:-1], self.layout.size, self.kind.count)


def find_digits(numerals: Numeral, place: jax.Array, is_negative: jax.Array) -> jax.Array:
    """The digit of each number at a decimal place, int32[...]; of the ten's complement where `is_negative`."""
    keep = numerals.digits.shape[-1]
    index = numerals.exponent - place
    known = jnp.take_along_axis(numerals.digits, jnp.clip(index, 0, keep - 1)[..., None], axis=-1)[..., 0]
    digit = jnp.where((index >= 0) & (index < keep), known.astype(jnp.int32), 0)
    last = numerals.exponent - numerals.n_digits + 1  # the place of the last digit that is not 0
    complement = jnp.where(place > last, 9 - digit, (10 - digit) % 10)
    return jnp.where(is_negative, complement, digit)
