"""The distance of predicted digits on the number line (number token loss; Zausinger et al. 2025, arXiv 2411.02083).

Legend: B rows, T positions, S tokens that are numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.scored import apply_at_scored
from numjax.protocols import FromContext
from numjax.types import Batch, HeadOut, Loss

FORMS, SYMBOLS = ("was", "mse"), ("digits", "numbers")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """With p the softmax over the tokens that are numbers and y the value of the target token, "was" is
    Σ_v p(v) |v − y| (the Wasserstein distance) and "mse" is (Σ_v p(v) v − y)²; averaged over the scored positions
    whose target is such a token. The paper adds it with weight 0.3 to a cross-entropy with weight 1.

    Attributes:
      head: name of a head with a softmax over tokens.
      form: "was" or "mse".
      symbols: the tokens that count: single "digits", or all "numbers", including pieces of several digits.
      room: see `nn.scored.apply_at_scored`; 0: all positions are computed.
    """

    head: str
    form: str = "was"
    symbols: str = "digits"
    room: float = 0.0
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    number_symbols: FromContext[tuple[tuple[int, float], ...] | None] = None
    head_methods = ("token_logits",)
    kinds = ("language_model", "masked")

    def __post_init__(self):
        for name, choices in (("form", FORMS), ("symbols", SYMBOLS)):
            if getattr(self, name) not in choices:
                raise UsageError(f"ntl: {name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        if not self._symbols():
            raise UsageError("ntl: no token of this vocabulary is a number: split its digits")

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        head, out, targets = heads[self.head], outs[self.head], batch.targets
        if targets is None:
            raise UsageError("ntl needs target tokens: choose a task of kind language_model or masked")
        ids = jnp.asarray([token for token, _ in self._symbols()], jnp.int32)
        values = jnp.asarray([value for _, value in self._symbols()], jnp.float32)
        is_target = targets.ids[..., None] == ids
        scored = targets.mask & is_target.any(-1)
        gold = (is_target * values).sum(-1)

        def compute(take):
            logits = head.token_logits(out._replace(hidden=take(out.hidden)), ids)
            p, y = jax.nn.softmax(logits.astype(jnp.float32), axis=-1), take(gold)
            if self.form == "mse":
                error = jnp.square((p * values).sum(-1) - y)
            else:
                error = (p * jnp.abs(values - y[..., None])).sum(-1)
            return {"ntl": (error * take(scored)).sum()}

        total = apply_at_scored(scored, self.room, compute)["ntl"]
        return Loss(total, scored.sum().astype(jnp.float32), {})

    def _symbols(self) -> tuple[tuple[int, float], ...]:
        symbols = self.digit_symbols if self.symbols == "digits" else self.number_symbols
        return tuple((token, float(value)) for token, value in symbols or () if np.isfinite(value))
