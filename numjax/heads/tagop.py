"""TagOp (Zhu et al. 2021, sections 4.2–4.3): an operator, a scale, a tag for each sub-word, and an order.

A unit is a cell of a table or a word of a text. The channel "units" holds for each position its unit's number from 1,
its group (0 for the question, 1 for the table, 2 and more for the paragraphs) and whether the unit holds a number; 0
outside.

Legend: B rows, T positions, D width, U units (at most T in a row), C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.nn.dropout import dropout
from numjax.nn.einsum import einsum
from numjax.nn.norm import layer_norm
from numjax.protocols import FromContext
from numjax.types import TYPES, UNITS, Allowed, HeadOut, Tokens

PARTS = ("operator", "scale", "tags", "order")


def unit_scores(p_BT: jax.Array, unit_BT: jax.Array) -> jax.Array:
    """The largest value of each unit's positions, float32[B, T], −1 if it has none; unit u is column u − 1."""
    size = p_BT.shape[1]

    def score_row(p_T, unit_T):
        return jnp.full(size + 1, -1.0, jnp.float32).at[jnp.minimum(unit_T, size)].max(p_T)[1:]

    return jax.vmap(score_row)(p_BT, unit_BT)


def masked_mean(h_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """The mean vector of the masked positions, float32[B, D]; 0 if there are none."""
    weights = mask_BT.astype(jnp.float32)
    total = einsum("bt,btd->bd", weights, h_BTD, preferred_element_type=jnp.float32)
    return total / jnp.maximum(weights.sum(axis=1), 1)[:, None]


def unit_means(h_BTD: jax.Array, unit_BT: jax.Array, chosen_B2: jax.Array) -> jax.Array:
    """The mean vectors of two units of each row, whose columns are `chosen_B2`: float32[B, 2, D]."""
    return jnp.stack([masked_mean(h_BTD, unit_BT == chosen_B2[:, i : i + 1] + 1) for i in range(2)], axis=1)


def header_means(h_BTD: jax.Array, line_BT: jax.Array, header_BT: jax.Array, lines: int) -> jax.Array:
    """For each position the mean vector of its line's header: float32[B, T, D], 0 if it has none.

    Args:
      line_BT: the row, or the column, of each position, from 1; 0 outside the table. header_BT: is a header.
      lines: the largest number of lines.
    """
    line_BTL = jax.nn.one_hot(line_BT - 1, lines, dtype=jnp.float32)
    header_BTL = line_BTL * header_BT[..., None]
    total = einsum("btl,btd->bld", header_BTL, h_BTD, preferred_element_type=jnp.float32)
    means = total / jnp.maximum(header_BTL.sum(axis=1), 1)[..., None]
    return einsum("btl,bld->btd", line_BTL, means)


class Head(protocols.Head, nn.Module):
    """Four networks W₂ norm(gelu(W₁ x)): the first for [CLS], the second for [CLS] with the means of the table and of
    the texts, the third for each position, the fourth for two units.

    Attributes:
      width: D.
      operators, scales: C of the first two networks.
      roles: the roles that a unit may have in the answer. TagOp has one: being part of it.
      order: the input of the fourth network: "concat", both units side by side, so that it sees which comes first; or
        "mean", their mean, which does not depend on their order, as in TagOp's own code.
      operands: the units whose two best are put in order: those with "numbers", or "all", for answers that accept
        units without a number (`tasks/tatqa/answers.py`, as published).
      cells: "alone", or "crossed": the third and the fourth network also get the headers of a cell's row and column.
        That needs the token types of `tasks/tatqa/traits.py`.
      lines: how many rows and how many columns are distinguished, as many as those token types distinguish.
      asked: "first", or "both": the first two networks get [CLS] and the mean of the question, for encoders that were
        trained with another sentence vector than [CLS]. The other two get that mean too, since the question decides
        which cells answer it and which of them comes first.
      tagged: the rows whose tags are scored: those whose input holds a unit of the answer ("found"), or "all" with an
        operator, as in TagOp's code, where a row cut before its answer teaches that no unit is one.
      dropout: rate on the input of each network, in training.
      epsilon: of the layer norms.
    """

    width: FromContext[int]
    operators: int = 10
    scales: int = 5
    roles: int = 1
    order: str = "concat"
    operands: str = "numbers"
    tagged: str = "found"
    cells: str = "alone"
    lines: int = 32
    asked: str = "first"
    dropout: float = 0.1
    epsilon: float = 1e-5
    init_std: float = 0.02

    labels: ClassVar[tuple[str, ...]] = ("operator", "scale", "tags", "operands", "order")

    answers = "units"

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del table_VD
        if self.order not in ("concat", "mean"):
            raise UsageError(f"tagop: order must be concat or mean, not {self.order!r}")
        if self.operands not in ("numbers", "all"):
            raise UsageError(f"tagop: operands must be numbers or all, not {self.operands!r}")
        if self.tagged not in ("found", "all"):
            raise UsageError(f"tagop: tagged must be found or all, not {self.tagged!r}")
        if self.cells not in ("alone", "crossed"):
            raise UsageError(f"tagop: cells must be alone or crossed, not {self.cells!r}")
        if self.asked not in ("first", "both"):
            raise UsageError(f"tagop: asked must be first or both, not {self.asked!r}")
        weights: dict[str, Any] = {"units": tokens.channel(UNITS.name), "used": tokens.segment_ids > 0}
        n_extra = int(self.asked == "both")
        n_inputs = 1 + n_extra
        if self.cells == "crossed":
            n_inputs += 2
            types = tokens.channel(TYPES.name)
            if types.ndim < 3:
                raise UsageError("tagop: cells=crossed needs token types of rows and columns: set task.traits=True")
            weights["grid"] = types[..., 1:3]
        sizes = {
            "operator": (1 + n_extra, self.operators),
            "scale": (3 + n_extra, self.scales),
            "tags": (n_inputs, 1 + self.roles),
        }
        sizes["order"] = (2 * n_inputs if self.order == "concat" else n_inputs, 2)
        normal, ones, zeros = nn.initializers.normal(self.init_std), nn.initializers.ones, nn.initializers.zeros
        for name in PARTS:
            inputs, classes = sizes[name]
            weights[name] = {
                "up_kernel": self.param(f"{name}_up_kernel", normal, (inputs * self.width, self.width), jnp.float32),
                "up_bias": self.param(f"{name}_up_bias", zeros, (self.width,), jnp.float32),
                "ln_scale": self.param(f"{name}_ln_scale", ones, (self.width,), jnp.float32),
                "ln_bias": self.param(f"{name}_ln_bias", zeros, (self.width,), jnp.float32),
                "down_kernel": self.param(f"{name}_down_kernel", normal, (self.width, classes), jnp.float32),
                "down_bias": self.param(f"{name}_down_bias", zeros, (classes,), jnp.float32),
            }
        if self.has_rng("dropout") and self.dropout:
            key = self.make_rng("dropout")
            weights["keys"] = {name: jax.random.fold_in(key, i) for i, name in enumerate(PARTS)}
        return HeadOut(h_BTD, weights)

    def part_log_probs(self, out: HeadOut, name: str, x: jax.Array) -> jax.Array:
        """log p of the classes of part `name` for vectors x[..., inputs], float32[..., C]."""
        w = out.weights[name]
        if "keys" in out.weights:
            x = dropout(x, self.dropout, out.weights["keys"][name])
        dtype = x.dtype
        up = jax.nn.gelu(project(x, w["up_kernel"].astype(dtype)) + w["up_bias"].astype(dtype), approximate=False)
        normed = layer_norm(up, w["ln_scale"], w["ln_bias"], self.epsilon).astype(jnp.float32)
        return jax.nn.log_softmax(project(normed, w["down_kernel"]) + w["down_bias"], axis=-1)

    def operator(self, out: HeadOut) -> jax.Array:
        """log p of the operators, float32[B, C]."""
        return self.part_log_probs(out, "operator", jnp.concatenate(self._question(out), axis=-1))

    def scale(self, out: HeadOut) -> jax.Array:
        """log p of the scales, float32[B, C]."""
        group = out.weights["units"][..., 1]
        parts = [*self._question(out), masked_mean(out.hidden, group == 1), masked_mean(out.hidden, group > 1)]
        return self.part_log_probs(out, "scale", jnp.concatenate([p.astype(jnp.float32) for p in parts], axis=-1))

    def _question(self, out: HeadOut) -> list[jax.Array]:
        """[CLS] and, if `asked` is "both", the mean of the positions between it and the first unit behind the
        question."""
        if self.asked == "first":
            return [out.hidden[:, 0]]
        is_question = (jnp.cumsum(out.weights["units"][..., 1] > 0, axis=1) == 0) & out.weights["used"]
        return [out.hidden[:, 0], masked_mean(out.hidden, is_question.at[:, 0].set(False)).astype(out.hidden.dtype)]

    def tags(self, out: HeadOut) -> jax.Array:
        """log p of being outside the answer and of each role in it, float32[B, T, 1 + roles]."""
        return self.part_log_probs(out, "tags", self.position_inputs(out))

    def position_inputs(self, out: HeadOut) -> jax.Array:
        """The input of the networks for positions, [B, T, …]: vectors of position, question and headers."""
        extra_inputs = []
        if self.asked == "both":
            extra_inputs.append(jnp.broadcast_to(self._question(out)[1][:, None], out.hidden.shape))
        if self.cells == "crossed":
            row, column = out.weights["grid"][..., 0], out.weights["grid"][..., 1]
            extra_inputs.append(header_means(out.hidden, row, column == 1, self.lines))
            extra_inputs.append(header_means(out.hidden, column, row == 1, self.lines))
        return jnp.concatenate([out.hidden, *(x.astype(out.hidden.dtype) for x in extra_inputs)], axis=-1)

    def orders(self, out: HeadOut, chosen_B2: jax.Array) -> jax.Array:
        """log p that two units are in their order, and that they are reversed, float32[B, 2]."""
        units_B2D = unit_means(self.position_inputs(out), out.weights["units"][..., 0], chosen_B2)
        x = units_B2D.reshape(len(units_B2D), -1) if self.order == "concat" else units_B2D.mean(axis=1)
        return self.part_log_probs(out, "order", x)

    def scored(self, out: HeadOut, labels: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Which rows are scored, bool[B] for each part: a missing label is −1, and a unit may have been cut off."""
        unit = out.weights["units"][..., 0]
        has_operand = [(unit == labels["operands"][:, i : i + 1] + 1).any(axis=1) for i in range(2)]
        has_operator = labels["operator"] >= 0
        has_order = (labels["order"] >= 0) & (labels["operands"] >= 0).all(axis=1) & has_operand[0] & has_operand[1]
        is_labelled, column = _columns(out, labels["tags"])
        is_answer = is_labelled & (jnp.take_along_axis(labels["tags"], column, axis=1) > 0)
        has_answer = is_answer.any(axis=1) | (self.tagged == "all")
        return {
            "operator": has_operator,
            "scale": labels["scale"] >= 0,
            "tags": has_operator & has_answer,
            "order": has_order,
        }

    def log_prob(
        self, out: HeadOut, targets: Mapping[str, jax.Array], allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """{"operator", "scale", "tags", "order"}: log p[B] of the labels; that of tags is summed over the positions
        of a row's units.

        Args:
          targets: int[B] operator, scale, order (1: the later of the two units comes first); [B, U] tags by unit, its
            role from 1, or 0; int[B, 2] operands, columns of the units whose order it is. Units beyond U are not
            scored.
        """
        del allowed
        is_labelled, column = _columns(out, targets["tags"])
        tag = jnp.take_along_axis(targets["tags"], column, axis=1).astype(jnp.int32)
        tag_log_probs = jnp.take_along_axis(self.tags(out), tag[..., None], axis=-1)[..., 0]
        log_probs = {
            "operator": _pick_label(self.operator(out), targets["operator"]),
            "scale": _pick_label(self.scale(out), targets["scale"]),
            "tags": jnp.where(is_labelled, tag_log_probs, 0).sum(axis=1),
            "order": _pick_label(self.orders(out, targets["operands"]), targets["order"]),
        }
        return {name: jnp.where(rows, log_probs[name], 0) for name, rows in self.scored(out, targets).items()}

    def right(self, out: HeadOut, labels: Mapping[str, jax.Array], part: str) -> jax.Array:
        """Whether the likeliest class is the label, bool[B]; for tags, at all of a row's positions."""
        if part == "tags":
            is_labelled, column = _columns(out, labels["tags"])
            same = self.tags(out).argmax(-1) == jnp.take_along_axis(labels["tags"], column, axis=1)
            return (same | ~is_labelled).all(axis=1)
        part_methods = {"operator": self.operator, "scale": self.scale}
        scores = part_methods[part](out) if part in part_methods else self.orders(out, labels["operands"])
        return scores.argmax(-1) == labels[part]

    def best(self, out: HeadOut) -> jax.Array:
        """float32[B, 4 + roles · T]: operator, scale, whether the two best operands are reversed, log p of operator
        and scale, and for each role and each unit the probability that the unit has the role: that of its likeliest
        position (−1: the input has no such unit)."""
        unit, numeric = out.weights["units"][..., 0], out.weights["units"][..., 2]
        inside_RBT = jnp.moveaxis(jnp.exp(self.tags(out)[..., 1:]), -1, 0)
        scores = [unit_scores(jnp.where(unit > 0, inside_BT, 0), unit) for inside_BT in inside_RBT]
        is_operand = (unit > 0) & ((numeric > 0) | (self.operands == "all"))
        _, best_B2 = jax.lax.top_k(unit_scores(jnp.where(is_operand, inside_RBT[0], 0), unit), 2)
        order = self.orders(out, jnp.sort(best_B2, axis=1)).argmax(-1)
        operator, scale = self.operator(out), self.scale(out)
        log_p = operator.max(-1) + scale.max(-1)
        row_outputs = [x.astype(jnp.float32) for x in (operator.argmax(-1), scale.argmax(-1), order, log_p)]
        return jnp.concatenate([jnp.stack(row_outputs, axis=1), *scores], axis=1)


def _columns(out: HeadOut, tags_BU: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(whether each position belongs to a unit with a label, bool[B, T]; the unit's column in `tags_BU`)."""
    unit, n_units = out.weights["units"][..., 0], tags_BU.shape[1]
    return (unit > 0) & (unit <= n_units), jnp.clip(unit - 1, 0, n_units - 1)


def _pick_label(log_probs_BC: jax.Array, labels_B: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs_BC, jnp.maximum(labels_B, 0)[:, None], axis=1)[:, 0]
