"""How far a predicted number is from the gold one, by the aggregates of their digits (digit aggregation, eq. 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import cross_entropy, digits, parallel
from numjax.protocols import Told
from numjax.types import Batch, HeadOut, Loss

PREDICTIONS = ("soft", "straight", "literal")
SCALES = ("log2", "log1p")
NO_NUMBER = 20.0  # the paper's penalty for an answer that is no number; it has no gradient


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ log2 ‖W(p) − W(l)‖₂ over the numbers to be written, W the weighted sum of digit vectors (eq. 1 and 2).

    The paper's λ · CE + (1 − λ) · AUX (eq. 3) is the weights λ and 1 − λ of the config's two objectives. The vectors
    are those of the token embedding, and constants here: the loss is to move what is predicted, and would else be
    least where all digits have the same vector. A scored row without a number costs `NO_NUMBER`; the count is of
    numbers and of such rows.

    Reported: "distance" ‖W(p) − W(l)‖₂, and "numeric", the share that is numbers.

    Attributes:
      head: which head; one that predicts tokens.
      digit_ids: tokens of the digits 0 … 9.
      prediction: "soft", the expected vector under the softmax over the ten digits, at each digit of the gold number
        (teacher-forced), with the gold number's weights. "literal", the paper's: the digits among the likeliest
        tokens at the number's positions and the one behind it, with weights by their own count. Its digits have no
        gradient; its vectors W(p) are therefore all that it can move. Without a digit it costs `NO_NUMBER`.
        "straight": the value of "literal" with the gradient of "soft".
      scale: "log2", or "log1p", log2(1 + d), which is bounded below.
      floor: ε; a distance counts as at least this, and has no gradient below.
      aggregate: "weighted", "place", "sum" or "mean".
      longest: digits of a number that count; of more, the first ones.
    """

    head: str
    digit_ids: Told[tuple[int, ...] | None] = None
    prediction: str = "soft"
    scale: str = "log2"
    floor: float = 1e-3
    aggregate: str = "weighted"
    longest: int = 20

    head_methods = ("step_scores",)  # it reads a head that predicts the next token
    kinds = ("language_model",)
    reads_digits = True

    def __post_init__(self):
        if self.prediction not in PREDICTIONS:
            raise UsageError(f"prediction must be one of {', '.join(PREDICTIONS)}, not {self.prediction!r}")
        if self.scale not in SCALES:
            raise UsageError(f"scale must be one of {', '.join(SCALES)}, not {self.scale!r}")
        if not self.floor > 0:
            raise UsageError(f"floor={self.floor} must be above 0: log2 0 is not finite")
        digits.known(self.aggregate, digits.WEIGHTED)

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        if self.digit_ids is None:
            raise UsageError("digit_aggregate needs a vocabulary in which each digit is a token: use scheme digits")
        out, targets = outs[self.head], batch.targets
        if targets is None or targets.numeral_index is None or batch.inputs.numerals is None:
            raise UsageError("digit_aggregate needs numbers in the targets: use scheme digits")
        index_BT = jnp.where(targets.mask, targets.numeral_index, -1)
        numbers = batch.inputs.numerals.valid.shape[-1]
        gold = _Spelled(self, targets.ids, index_BT, numbers)
        shares_BNX = gold.shares(gold.one_hot())
        expected_BNX = gold.shares(self._expected(out))
        numeric_BN = answered_BN = gold.count > 0
        if self.prediction != "soft":
            # What stands where a number's end should makes it longer.
            behind_BT = jnp.pad(index_BT, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
            widened_BT = jnp.where((index_BT < 0) & targets.mask, behind_BT, index_BT)
            found = _Spelled(self, self._likeliest(heads[self.head], out), widened_BT, numbers)
            literal_BNX, answered_BN = found.shares(found.one_hot()), numeric_BN & (found.count > 0)
            straight = self.prediction == "straight"
            gradient = expected_BNX - jax.lax.stop_gradient(expected_BNX) if straight else 0
            expected_BNX = literal_BNX + gradient
        table_XD = self._rows(acts.get("table", out.weights["kernel"])).astype(jnp.float32)
        fixed_XD = jax.lax.stop_gradient(table_XD)
        moved_XD = table_XD if self.prediction == "literal" else fixed_XD
        apart_BND = _weigh(expected_BNX, moved_XD) - _weigh(shares_BNX, fixed_XD)
        squared_BN = jnp.square(apart_BND).sum(-1)
        # The root of what is too near is taken of a constant: it has no gradient, and none that is not finite.
        far_BN = answered_BN & (squared_BN > self.floor**2)
        distance_BN = jnp.sqrt(jnp.where(far_BN, squared_BN, self.floor**2))
        loss_BN = jnp.log2(distance_BN if self.scale == "log2" else 1 + distance_BN)
        lacking_B = targets.mask.any(-1) & ~numeric_BN.any(-1)
        total = (
            jnp.where(answered_BN, loss_BN, jnp.where(numeric_BN, NO_NUMBER, 0)).sum() + NO_NUMBER * lacking_B.sum()
        )
        answered = answered_BN.sum().astype(jnp.float32)
        count = (numeric_BN.sum() + lacking_B.sum()).astype(jnp.float32)  # of the data alone, see `train_step`
        parts = {"distance": (jnp.where(far_BN, distance_BN, 0).sum(), answered), "numeric": (answered, count)}
        return Loss(total, count, parts)

    def _expected(self, out: HeadOut) -> jax.Array:
        """p(digit)[B, T, 10], a softmax over the ten digits alone, float32."""
        kernel_XD = self._rows(out.weights["kernel"]).astype(out.hidden.dtype)
        logits = jnp.einsum("btd,xd->btx", out.hidden, kernel_XD, preferred_element_type=jnp.float32)
        if (bias := out.weights.get("bias")) is not None:
            logits = logits + self._rows(bias)
        return jax.nn.softmax(logits, axis=-1)

    def _likeliest(self, head: Any, out: HeadOut) -> jax.Array:
        """The token of the largest logit, int32[B, T]; a position at a time, so that there is no [B, T, V]."""

        def one(hidden_BD):
            bias = out.weights.get("bias")
            logits = cross_entropy.vocabulary_logits(hidden_BD, out.weights["kernel"], head.size, bias=bias)
            return logits.argmax(-1).astype(jnp.int32)

        hidden_TBD = jnp.moveaxis(jax.lax.stop_gradient(out.hidden), 1, 0)
        return jnp.moveaxis(jax.lax.map(one, hidden_TBD), 0, 1)

    def _rows(self, table: jax.Array) -> jax.Array:
        """Rows of the ten digits. Over a mesh a product with ones and zeros, since the rows may lie anywhere."""
        ids = jnp.asarray(self.digit_ids, jnp.int32)
        if parallel.mesh() is None:
            return jnp.take(table, ids, axis=0)
        chosen = (ids[:, None] == jnp.arange(table.shape[0])).astype(table.dtype)
        return jnp.einsum("xv,v...->x...", chosen, table, precision="highest")


class _Spelled:
    """Numbers as tokens spell them: digits, the number that each belongs to, and what it weighs there."""

    def __init__(self, objective: Objective, ids_BT: jax.Array, index_BT: jax.Array, numbers: int):
        assert objective.digit_ids is not None
        self.value, rank_BT = digits.ranked(ids_BT, index_BT, objective.digit_ids, numbers)
        self.member = (index_BT[..., None] == jnp.arange(numbers)) & (self.value >= 0)[..., None]
        self.count = self.member.sum(1)
        longest = objective.longest
        table = jnp.asarray(digits.weight_table(longest, objective.aggregate), jnp.float32)
        table = jnp.pad(table, ((0, 0), (0, 1)))  # what is beyond the longest weighs nothing
        count_BT = jnp.take_along_axis(self.count, jnp.maximum(index_BT, 0), axis=-1)
        self.weight = table[jnp.minimum(count_BT, longest), jnp.minimum(rank_BT, longest)]

    def one_hot(self) -> jax.Array:
        """The digits themselves, float32[B, T, 10]."""
        return jax.nn.one_hot(self.value, 10)

    def shares(self, chance_BTX: jax.Array) -> jax.Array:
        """What each of the ten digits weighs in each number, [B, N, 10], from its chance at each position."""
        weighted_BTX = self.weight[..., None] * chance_BTX
        return jnp.einsum("btn,btx->bnx", self.member.astype(jnp.float32), weighted_BTX, precision="highest")


def _weigh(shares_BNX: jax.Array, table_XD: jax.Array) -> jax.Array:
    return jnp.einsum("bnx,xd->bnd", shares_BNX, table_XD, precision="highest")
