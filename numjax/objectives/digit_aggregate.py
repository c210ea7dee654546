"""The distance of a predicted number from the gold one, by aggregates of their digits (digit aggregation, eq. 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import cross_entropy, digits, parallel
from numjax.nn.einsum import einsum
from numjax.nn.places import find_inside
from numjax.protocols import FromContext
from numjax.types import Batch, HeadOut, Loss

PREDICTIONS = ("soft", "straight", "literal")
SCALES = ("log2", "log1p")
NO_NUMBER = 20.0  # the paper's penalty for an answer that is no number; it has no gradient


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ log2 ‖W(p) − W(l)‖₂ over the target numbers, W the weighted sum of digit vectors (eq. 1 and 2).

    For the paper's λ · CE + (1 − λ) · AUX (eq. 3), give the config's two objectives the weights λ and 1 − λ. The
    vectors are those of the token embedding. They are constants here: the loss shall change the prediction, and would
    otherwise be least if all digits had the same vector. A scored row without a number costs `NO_NUMBER`; the count
    is of numbers and such rows.

    Reported: "distance" ‖W(p) − W(l)‖₂, and "numeric", the share of the count for which a number is predicted.

    Attributes:
      head: name of a head that predicts tokens.
      digit_ids: ids of the digits 0 … 9.
      prediction: "soft", the expected vector under the softmax over the ten digits, at each digit of the gold number
        (teacher-forced), with the gold number's weights. "literal", the paper's: the digits among the likeliest
        tokens at the number's positions and the one behind it, with weights by their own count. Its digits have no
        gradient, so it can only change the vectors W(p). A prediction without digits costs `NO_NUMBER`.
        "straight": the value of "literal" with the gradient of "soft".
      scale: "log2", or "log1p", log2(1 + d), which is bounded below.
      floor: ε; a smaller distance counts as ε and has no gradient.
      aggregate: "weighted", "place", "sum" or "mean".
      longest: most digits of a number that count, the first ones. A number between [R] and [/R] is written from its
        last digit on.
    """

    head: str
    digit_ids: FromContext[tuple[int, ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    prediction: str = "soft"
    scale: str = "log2"
    floor: float = 1e-3
    aggregate: str = "weighted"
    longest: int = 20

    head_methods = ("step_scores",)  # the head must predict the next token
    kinds = ("language_model",)
    reads_digits = True

    def __post_init__(self):
        if self.prediction not in PREDICTIONS:
            raise UsageError(f"prediction must be one of {', '.join(PREDICTIONS)}, not {self.prediction!r}")
        if self.scale not in SCALES:
            raise UsageError(f"scale must be one of {', '.join(SCALES)}, not {self.scale!r}")
        if not self.floor > 0:
            raise UsageError(f"floor={self.floor} must be above 0: log2 0 is not finite")
        digits.check_aggregate(self.aggregate, digits.WEIGHTED)

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
        marks = dict(self.marks or ())
        is_reversed_BT = find_inside(targets.ids, marks.get("[R]", -1), marks.get("[/R]", -1))
        gold = _SpelledNumbers(self, targets.ids, index_BT, is_reversed_BT, numbers)
        gold_BNX = gold.shares(gold.one_hot())
        expected_BNX = gold.shares(self._expected(out))
        is_number_BN = is_answered_BN = gold.count > 0
        if self.prediction != "soft":
            # A digit where the number should end makes it longer.
            behind_BT = jnp.pad(index_BT, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
            widened_BT = jnp.where((index_BT < 0) & targets.mask, behind_BT, index_BT)
            is_reversed_BT |= jnp.pad(is_reversed_BT, ((0, 0), (1, 0)))[:, :-1]
            likeliest_BT = self._likeliest(heads[self.head], out)
            literal = _SpelledNumbers(self, likeliest_BT, widened_BT, is_reversed_BT, numbers)
            literal_BNX, is_answered_BN = literal.shares(literal.one_hot()), is_number_BN & (literal.count > 0)
            is_straight = self.prediction == "straight"
            gradient = expected_BNX - jax.lax.stop_gradient(expected_BNX) if is_straight else 0
            expected_BNX = literal_BNX + gradient
        table_XD = self._rows(acts.get("table", out.weights["kernel"])).astype(jnp.float32)
        fixed_XD = jax.lax.stop_gradient(table_XD)
        moved_XD = table_XD if self.prediction == "literal" else fixed_XD
        difference_BND = _weigh(expected_BNX, moved_XD) - _weigh(gold_BNX, fixed_XD)
        squared_BN = jnp.square(difference_BND).sum(-1)
        # Below the floor the root is taken of a constant: no gradient, in particular no infinite one.
        is_far_BN = is_answered_BN & (squared_BN > self.floor**2)
        distance_BN = jnp.sqrt(jnp.where(is_far_BN, squared_BN, self.floor**2))
        loss_BN = jnp.log2(distance_BN if self.scale == "log2" else 1 + distance_BN)
        lacks_number_B = targets.mask.any(-1) & ~is_number_BN.any(-1)
        total = (
            jnp.where(is_answered_BN, loss_BN, jnp.where(is_number_BN, NO_NUMBER, 0)).sum()
            + NO_NUMBER * lacks_number_B.sum()
        )
        n_answered = is_answered_BN.sum().astype(jnp.float32)
        count = (is_number_BN.sum() + lacks_number_B.sum()).astype(
            jnp.float32
        )  # depends only on the data, see `train_step`
        parts = {"distance": (jnp.where(is_far_BN, distance_BN, 0).sum(), n_answered), "numeric": (n_answered, count)}
        return Loss(total, count, parts)

    def _expected(self, out: HeadOut) -> jax.Array:
        """p(digit)[B, T, 10], a softmax over only the ten digits, float32."""
        kernel_XD = self._rows(out.weights["kernel"]).astype(out.hidden.dtype)
        logits = einsum("btd,xd->btx", out.hidden, kernel_XD, preferred_element_type=jnp.float32)
        if (bias := out.weights.get("bias")) is not None:
            logits = logits + self._rows(bias)
        return jax.nn.softmax(logits, axis=-1)

    def _likeliest(self, head: Any, out: HeadOut) -> jax.Array:
        """The token of the largest logit, int32[B, T]; computed position by position, to avoid a [B, T, V] array."""

        def pick_at_position(hidden_BD):
            bias = out.weights.get("bias")
            logits = cross_entropy.vocabulary_logits(hidden_BD, out.weights["kernel"], head.size, bias=bias)
            return logits.argmax(-1).astype(jnp.int32)

        hidden_TBD = jnp.moveaxis(jax.lax.stop_gradient(out.hidden), 1, 0)
        return jnp.moveaxis(jax.lax.map(pick_at_position, hidden_TBD), 0, 1)

    def _rows(self, table: jax.Array) -> jax.Array:
        """The rows of the ten digits. Over a mesh by a product with a 0/1 matrix, since the rows may lie anywhere."""
        ids = jnp.asarray(self.digit_ids, jnp.int32)
        if parallel.mesh() is None:
            return jnp.take(table, ids, axis=0)
        is_row = (ids[:, None] == jnp.arange(table.shape[0])).astype(table.dtype)
        return einsum("xv,v...->x...", is_row, table, precision="highest")


class _SpelledNumbers:
    """The digits that tokens spell: each digit's value, the number that it belongs to, and its weight there, which
    follows from its place. Where `is_reversed_BT`, a number's last digit comes first."""

    def __init__(
        self, objective: Objective, ids_BT: jax.Array, index_BT: jax.Array, is_reversed_BT: jax.Array, numbers: int
    ):
        assert objective.digit_ids is not None
        self.value, rank_BT = digits.rank_digits(ids_BT, index_BT, objective.digit_ids, numbers)
        self.member = (index_BT[..., None] == jnp.arange(numbers)) & (self.value >= 0)[..., None]
        self.count = self.member.sum(1)
        longest = objective.longest
        table = jnp.asarray(digits.weight_table(longest, objective.aggregate), jnp.float32)
        table = jnp.pad(table, ((0, 0), (0, 1)))  # digits beyond the longest weigh nothing
        count_BT = jnp.take_along_axis(self.count, jnp.maximum(index_BT, 0), axis=-1)
        rank_BT = jnp.where(is_reversed_BT, jnp.maximum(count_BT - 1 - rank_BT, 0), rank_BT)
        self.weight = table[jnp.minimum(count_BT, longest), jnp.minimum(rank_BT, longest)]

    def one_hot(self) -> jax.Array:
        """The digits themselves, float32[B, T, 10]."""
        return jax.nn.one_hot(self.value, 10)

    def shares(self, p_BTX: jax.Array) -> jax.Array:
        """The weight of each of the ten digits in each number, [B, N, 10], from its probability at each position."""
        weighted_BTX = self.weight[..., None] * p_BTX
        return einsum("btn,btx->bnx", self.member.astype(jnp.float32), weighted_BTX, precision="highest")


def _weigh(shares_BNX: jax.Array, table_XD: jax.Array) -> jax.Array:
    return einsum("bnx,xd->bnd", shares_BNX, table_XD, precision="highest")
