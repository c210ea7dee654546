"""The base of losses on the distribution over the tokens that are numbers.

Legend: B rows, T positions, S tokens that are numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError, check_choice
from numjax.nn.places import Places, find_inside, find_places
from numjax.nn.scored import apply_at_scored
from numjax.protocols import FromContext
from numjax.types import Batch, HeadOut, Loss

SYMBOLS = ("digits", "numbers")
LARGEST = 1e38  # of a token's number; float32 holds the distance of two of these


@dataclasses.dataclass(frozen=True)
class NumberLoss(protocols.Objective):
    """The mean of `error` over the scored positions whose target is a token that is a number.

    Attributes:
      head: name of a head with a softmax over tokens.
      symbols: the tokens that count: single "digits", or all "numbers", including pieces of several digits.
      room: see `nn.scored.apply_at_scored`; 0: all positions are computed.
    """

    head: str
    symbols: str = "digits"
    room: float = 0.0
    digit_ids: FromContext[tuple[int, ...] | None] = None
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    number_symbols: FromContext[tuple[tuple[int, float], ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    point_ids: FromContext[tuple[int, ...] | None] = None
    head_methods: ClassVar[tuple[str, ...]] = ("token_logits",)
    kinds: ClassVar[tuple[str, ...]] = ("language_model", "masked")

    def __post_init__(self):
        check_choice(self.part_name(), SYMBOLS, symbols=self.symbols)
        if not self._list_symbols():
            raise UsageError(f"{self.part_name()}: no token of this vocabulary is a number: split its digits")
        self.check_largest(LARGEST)
        if self.needs_places and self.digit_ids is None:
            raise UsageError(
                f"{self.part_name()}: it reads the places of digits that are tokens of their own, side by side: "
                "choose scheme digits"
            )

    def check_largest(self, largest: float) -> None:
        """Raises UsageError if a token is a number beyond the largest with which the loss is finite in float32."""
        token = max((value for _, value in self._list_symbols()), key=abs)
        if abs(token) > largest:
            raise UsageError(
                f"{self.part_name()}: a token of this vocabulary is the number {token:g}, and above {largest:g} the "
                "loss is not finite: leave symbols=digits, or let the scheme write smaller numbers"
            )

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The loss at each position, float32[...].

        Args:
          logits_S: float32[..., S], of the tokens that are numbers. values_S: float32[S], their values.
          gold: float32[...], the value of the target. mass: float32[...], the probability of all these tokens; 1
            unless `needs_mass`.
        """
        raise NotImplementedError

    @property
    def needs_mass(self) -> bool:
        """Whether `error` reads `mass`, which takes the whole softmax."""
        return False

    @property
    def needs_places(self) -> bool:
        """Whether `sum_errors` and `count_errors` read the decimal places of the targets."""
        return False

    def sum_errors(self, error: jax.Array, mass: jax.Array, scored: jax.Array, places: Places | None) -> jax.Array:
        """The sum over a batch of what `error` gives at each position, float32[B, T].

        Args:
          mass: as in `error`. scored: bool[B, T], where the target is a number. places: of the targets; None unless
            `needs_places`.
        """
        del mass, places
        return jnp.where(scored, error, 0).sum()

    def count_errors(self, scored: jax.Array, places: Places | None) -> jax.Array:
        """The count by which the sum is divided."""
        del places
        return scored.sum()

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        head, out, targets, name = heads[self.head], outs[self.head], batch.targets, self.part_name()
        if targets is None:
            raise UsageError(f"{name} needs target tokens: choose a task of kind language_model or masked")
        ids = jnp.asarray([token for token, _ in self._list_symbols()], jnp.int32)
        values_S = jnp.asarray([value for _, value in self._list_symbols()], jnp.float32)
        is_target = targets.ids[..., None] == ids
        scored = targets.mask & is_target.any(-1)
        gold = jnp.where(is_target, values_S, 0).sum(-1)
        places = self._find_places(targets.ids, targets.mask, scored) if self.needs_places else None

        def compute(take):
            part = out._replace(hidden=take(out.hidden))
            logits = head.token_logits(part, ids).astype(jnp.float32)
            mass = jnp.ones(logits.shape[:-1], jnp.float32)
            if self.needs_mass:
                # log Z is the target's logit without its log-probability.
                target_logit = jnp.where(take(is_target), logits, 0).sum(-1)
                log_z = target_logit - head.log_prob(part, take(targets))["token"]
                mass = jnp.exp(jnp.minimum(jax.nn.logsumexp(logits, axis=-1) - log_z, 0.0))
            error = self.error(logits, values_S, take(gold), mass)
            return {name: self.sum_errors(error, mass, take(scored), take(places))}

        total = apply_at_scored(scored, self.room, compute)[name]
        return Loss(total, self.count_errors(scored, places).astype(jnp.float32), {})

    def _find_places(self, ids: jax.Array, mask: jax.Array, is_digit: jax.Array) -> Places:
        """The places of scored digits; a number between [R] and [/R] has its last digit first."""
        is_point = mask & (ids[..., None] == jnp.asarray(self.point_ids or (-1,), jnp.int32)).any(-1)
        marks = dict(self.marks or ())
        is_reversed = find_inside(ids, marks.get("[R]", -1), marks.get("[/R]", -1))
        return find_places(is_digit, is_point, is_reversed)

    def _list_symbols(self) -> tuple[tuple[int, float], ...]:
        symbols = self.digit_symbols if self.symbols == "digits" else self.number_symbols
        return tuple((token, float(value)) for token, value in symbols or () if np.isfinite(value))
