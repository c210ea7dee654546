"""TagOp (Zhu et al. 2021, sections 4.2–4.3): an operator, a scale, a tag for each sub-word, and an order.

A unit is a cell of a table, or a word of a text: the channel "units" has of each position its unit's number from 1,
its group (1 the table, more a paragraph each) and whether it holds a number; 0 outside.

Legend: B rows, T positions, D width, U units, of which no row has more than positions, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.protocols import Told
from numjax.types import TYPES, UNITS, Allowed, HeadOut, Tokens

PARTS = ("operator", "scale", "tags", "order")


def unit_scores(p_BT: jax.Array, unit_BT: jax.Array) -> jax.Array:
    """The largest of its positions for each unit, float32[B, T], −1 where there is none; unit u is column u − 1."""
    size = p_BT.shape[1]

    def one(p_T, unit_T):
        return jnp.full(size + 1, -1.0, jnp.float32).at[jnp.minimum(unit_T, size)].max(p_T)[1:]

    return jax.vmap(one)(p_BT, unit_BT)


def mean_of(h_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """The mean of some positions, float32[B, D]; 0 where there are none."""
    weights = mask_BT.astype(jnp.float32)
    total = jnp.einsum("bt,btd->bd", weights, h_BTD, preferred_element_type=jnp.float32)
    return total / jnp.maximum(weights.sum(axis=1), 1)[:, None]


def at_units(h_BTD: jax.Array, unit_BT: jax.Array, chosen_B2: jax.Array) -> jax.Array:
    """The mean vectors of two units of each row, given by their columns: float32[B, 2, D]."""
    return jnp.stack([mean_of(h_BTD, unit_BT == chosen_B2[:, i : i + 1] + 1) for i in range(2)], axis=1)


def headers_of(h_BTD: jax.Array, line_BT: jax.Array, header_BT: jax.Array, lines: int) -> jax.Array:
    """For each position the mean vector of its line's header: float32[B, T, D], 0 where it has none.

    Args:
      line_BT: the row, or the column, of each position, from 1; 0 outside the table. header_BT: what is a header.
      lines: how many there may be.
    """
    of_BTL = jax.nn.one_hot(line_BT - 1, lines, dtype=jnp.float32)
    heads_BTL = of_BTL * header_BT[..., None]
    total = jnp.einsum("btl,btd->bld", heads_BTL, h_BTD, preferred_element_type=jnp.float32)
    means = total / jnp.maximum(heads_BTL.sum(axis=1), 1)[..., None]
    return jnp.einsum("btl,bld->btd", of_BTL, means)


class Head(protocols.Head, nn.Module):
    """Four networks W₂ norm(gelu(W₁ x)), the first for [CLS], the second for [CLS] beside the means of the table and
    of the texts, the third for each position, the fourth for two units.

    Attributes:
      width: D.
      operators, scales: C of the first two.
      order: "concat" reads both units side by side, so that it sees which comes first; "mean" reads their mean, which
        does not change when they change places, as in TagOp's own code.
      operands: of which units the two best are put in order: "numbers", or "all", as where units without a number are
        let through (`tasks/tatqa_answers.py`, as published).
      cells: "alone", or "crossed": the third and the fourth network read beside a cell the headers of its row and its
        column. That needs the token types of `tasks/table_traits.py`.
      lines: how many rows and how many columns are told apart, as many as those token types do.
      asked: "first", or "both": the first two networks read beside [CLS] the mean of the question, for encoders that
        were trained to have another vector of a sentence than [CLS]; the other two read that mean too, since which
        cells answer, and which of them comes first, depends on what is asked.
      tagged: of which rows the tags are scored: of those with a unit of the answer among what is read ("found"), or
        of "all" with an operator, as in TagOp's code, where a row cut before its answer teaches that nothing is one.
      dropout: on what each network reads, in training.
      epsilon: of the layer norms.
    """

    width: Told[int]
    operators: int = 10
    scales: int = 5
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
        more = int(self.asked == "both")
        wide = 1 + more
        if self.cells == "crossed":
            wide += 2
            types = tokens.channel(TYPES.name)
            if types.ndim < 3:
                raise UsageError("tagop: cells=crossed wants to know rows and columns: set task.traits=True")
            weights["grid"] = types[..., 1:3]
        sizes = {"operator": (1 + more, self.operators), "scale": (3 + more, self.scales), "tags": (wide, 2)}
        sizes["order"] = (2 * wide if self.order == "concat" else wide, 2)
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

    def log_probs_of(self, out: HeadOut, name: str, x: jax.Array) -> jax.Array:
        """log p of the classes of a part for vectors x[..., inputs], float32[..., C]."""
        w = out.weights[name]
        if "keys" in out.weights:
            x = dropout(x, self.dropout, out.weights["keys"][name])
        low = x.dtype
        up = jax.nn.gelu(x @ w["up_kernel"].astype(low) + w["up_bias"].astype(low), approximate=False)
        normed = layer_norm(up, w["ln_scale"], w["ln_bias"], self.epsilon).astype(jnp.float32)
        return jax.nn.log_softmax(normed @ w["down_kernel"] + w["down_bias"], axis=-1)

    def operator(self, out: HeadOut) -> jax.Array:
        """log p of the operators, float32[B, C]."""
        return self.log_probs_of(out, "operator", jnp.concatenate(self._question(out), axis=-1))

    def scale(self, out: HeadOut) -> jax.Array:
        """log p of the scales, float32[B, C]."""
        group = out.weights["units"][..., 1]
        parts = [*self._question(out), mean_of(out.hidden, group == 1), mean_of(out.hidden, group > 1)]
        return self.log_probs_of(out, "scale", jnp.concatenate([p.astype(jnp.float32) for p in parts], axis=-1))

    def _question(self, out: HeadOut) -> list[jax.Array]:
        """[CLS], and the mean of what follows it up to the first unit."""
        if self.asked == "first":
            return [out.hidden[:, 0]]
        before = (jnp.cumsum(out.weights["units"][..., 0] > 0, axis=1) == 0) & out.weights["used"]
        return [out.hidden[:, 0], mean_of(out.hidden, before.at[:, 0].set(False)).astype(out.hidden.dtype)]

    def tags(self, out: HeadOut) -> jax.Array:
        """log p of being outside and inside the answer, float32[B, T, 2]."""
        return self.log_probs_of(out, "tags", self.crossed(out))

    def crossed(self, out: HeadOut) -> jax.Array:
        """What the networks of positions read, [B, T, …]: its own vector, and what is beside it."""
        beside = []
        if self.asked == "both":
            beside.append(jnp.broadcast_to(self._question(out)[1][:, None], out.hidden.shape))
        if self.cells == "crossed":
            row, column = out.weights["grid"][..., 0], out.weights["grid"][..., 1]
            beside.append(headers_of(out.hidden, row, column == 1, self.lines))
            beside.append(headers_of(out.hidden, column, row == 1, self.lines))
        return jnp.concatenate([out.hidden, *(x.astype(out.hidden.dtype) for x in beside)], axis=-1)

    def orders(self, out: HeadOut, chosen_B2: jax.Array) -> jax.Array:
        """log p of two units standing in their order, and of the other, float32[B, 2]."""
        both = at_units(self.crossed(out), out.weights["units"][..., 0], chosen_B2)
        x = both.reshape(len(both), -1) if self.order == "concat" else both.mean(axis=1)
        return self.log_probs_of(out, "order", x)

    def scored(self, out: HeadOut, labels: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Which rows have a part to score, bool[B] each: a missing label is −1, a unit may have been cut off."""
        unit = out.weights["units"][..., 0]
        there = [(unit == labels["operands"][:, i : i + 1] + 1).any(axis=1) for i in range(2)]
        known = labels["operator"] >= 0
        order = (labels["order"] >= 0) & (labels["operands"] >= 0).all(axis=1) & there[0] & there[1]
        labelled, column = _columns(out, labels["tags"])
        found = (labelled & jnp.take_along_axis(labels["tags"], column, axis=1)).any(axis=1) | (self.tagged == "all")
        return {"operator": known, "scale": labels["scale"] >= 0, "tags": known & found, "order": order}

    def log_prob(
        self, out: HeadOut, targets: Mapping[str, jax.Array], allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """{"operator", "scale", "tags", "order"}: log p[B] of the labels, of the tags summed over the positions of a
        row's units.

        Args:
          targets: int[B] operator, scale, order (1: the later of the two units comes first); bool[B, U] tags by unit;
            int[B, 2] operands, columns of the units that the order is of. Units beyond U are not scored.
        """
        del allowed
        labelled, column = _columns(out, targets["tags"])
        tag = jnp.take_along_axis(targets["tags"], column, axis=1).astype(jnp.int32)
        tagged = jnp.take_along_axis(self.tags(out), tag[..., None], axis=-1)[..., 0]
        found = {
            "operator": _at(self.operator(out), targets["operator"]),
            "scale": _at(self.scale(out), targets["scale"]),
            "tags": jnp.where(labelled, tagged, 0).sum(axis=1),
            "order": _at(self.orders(out, targets["operands"]), targets["order"]),
        }
        return {name: jnp.where(rows, found[name], 0) for name, rows in self.scored(out, targets).items()}

    def right(self, out: HeadOut, labels: Mapping[str, jax.Array], part: str) -> jax.Array:
        """Where the likeliest class is the label, bool[B]; of tags where all of a row's positions are."""
        if part == "tags":
            labelled, column = _columns(out, labels["tags"])
            same = self.tags(out).argmax(-1) == jnp.take_along_axis(labels["tags"], column, axis=1)
            return (same | ~labelled).all(axis=1)
        found = {"operator": self.operator, "scale": self.scale}
        scores = found[part](out) if part in found else self.orders(out, labels["operands"])
        return scores.argmax(-1) == labels[part]

    def best(self, out: HeadOut) -> jax.Array:
        """float32[B, 4 + T]: operator, scale, whether the two best operands change places, log p of operator and
        scale, and the probability of each unit to be part of the answer, that of its likeliest position (−1: no
        such unit among what is read)."""
        unit, numeric = out.weights["units"][..., 0], out.weights["units"][..., 2]
        inside = jnp.exp(self.tags(out)[..., 1])
        scores = unit_scores(jnp.where(unit > 0, inside, 0), unit)
        operand = (unit > 0) & ((numeric > 0) | (self.operands == "all"))
        _, two = jax.lax.top_k(unit_scores(jnp.where(operand, inside, 0), unit), 2)
        order = self.orders(out, jnp.sort(two, axis=1)).argmax(-1)
        operator, scale = self.operator(out), self.scale(out)
        sure = operator.max(-1) + scale.max(-1)
        said = [x.astype(jnp.float32) for x in (operator.argmax(-1), scale.argmax(-1), order, sure)]
        return jnp.concatenate([jnp.stack(said, axis=1), scores], axis=1)


def _columns(out: HeadOut, tags_BU: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which positions belong to a unit that has a label, bool[B, T], and its column among `tags_BU`."""
    unit, most = out.weights["units"][..., 0], tags_BU.shape[1]
    return (unit > 0) & (unit <= most), jnp.clip(unit - 1, 0, most - 1)


def _at(log_probs_BC: jax.Array, labels_B: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs_BC, jnp.maximum(labels_B, 0)[:, None], axis=1)[:, 0]
