"""How far off the digits are, on the number line (number token loss; Zausinger et al. 2025, arXiv 2411.02083).

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
from numjax.nn.scored import at_scored
from numjax.protocols import Told
from numjax.types import Batch, HeadOut, Loss

FORMS, SYMBOLS = ("was", "mse"), ("digits", "numbers")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """With p the softmax among the tokens that are numbers and y the value of the one that is right, "was" is
    Σ_v p(v) |v − y| (the Wasserstein distance to it) and "mse" is (Σ_v p(v) v − y)²; averaged over the scored
    positions whose target is such a token. Beside a cross-entropy, whose weight is 1, the paper weighs it by 0.3.

    Attributes:
      head: which head, one with a softmax over tokens.
      form: "was" or "mse".
      symbols: the tokens that count: single "digits", or all "numbers", pieces of several digits too.
      room: see `nn.scored.at_scored`; 0: all positions are read.
    """

    head: str
    form: str = "was"
    symbols: str = "digits"
    room: float = 0.0
    digit_symbols: Told[tuple[tuple[int, int], ...] | None] = None
    number_symbols: Told[tuple[tuple[int, float], ...] | None] = None
    head_methods = ("token_logits",)
    kinds = ("language_model", "masked")

    def __post_init__(self):
        for name, known in (("form", FORMS), ("symbols", SYMBOLS)):
            if getattr(self, name) not in known:
                raise UsageError(f"ntl: {name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if not self._symbols():
            raise UsageError("ntl: no token of this vocabulary is a number: split its digits")

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        head, out, targets = heads[self.head], outs[self.head], batch.targets
        if targets is None:
            raise UsageError("ntl reads tokens that are to be predicted: choose a task that writes")
        ids = jnp.asarray([token for token, _ in self._symbols()], jnp.int32)
        values = jnp.asarray([value for _, value in self._symbols()], jnp.float32)
        which = targets.ids[..., None] == ids
        scored = targets.mask & which.any(-1)
        gold = (which * values).sum(-1)

        def read(take):
            logits = head.token_logits(out._replace(hidden=take(out.hidden)), ids)
            p, y = jax.nn.softmax(logits.astype(jnp.float32), axis=-1), take(gold)
            if self.form == "mse":
                found = jnp.square((p * values).sum(-1) - y)
            else:
                found = (p * jnp.abs(values - y[..., None])).sum(-1)
            return {"ntl": (found * take(scored)).sum()}

        total = at_scored(scored, self.room, read)["ntl"]
        return Loss(total, scored.sum().astype(jnp.float32), {})

    def _symbols(self) -> tuple[tuple[int, float], ...]:
        found = self.digit_symbols if self.symbols == "digits" else self.number_symbols
        return tuple((token, float(value)) for token, value in found or () if np.isfinite(value))
