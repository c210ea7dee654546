"""Long short-term memory over rows of any length, as pure functions (Hochreiter and Schmidhuber 1997).

Legend: B rows, T positions, D width of the input, H width of the state, G = 4·H gates in the order input, forget,
cell, output.

Padding leaves the state as it is and gives zeros, so a row's result does not depend on what it is padded to, and the
backward direction starts at the row's last position. A new segment of a packed row starts from a zero state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Weights(NamedTuple):
    """Of one direction: gates = x @ input[D, G] + h @ recurrent[H, G] + bias[G]."""

    input: jax.Array
    recurrent: jax.Array
    bias: jax.Array


class State(NamedTuple):
    """Hidden and cell state, float32[B, H]."""

    hidden: jax.Array
    cell: jax.Array


def lstm(
    x_BTD: jax.Array,
    weights: Weights,
    segments_BT: jax.Array | None = None,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[jax.Array, State]:
    """One direction: (hidden states[B, T, H] in x's dtype, zero in padding; the state after the last position read).

    Args:
      weights: cast to x's dtype; gates and states are float32.
      segments_BT: 0 in padding, 1, 2, … for the texts of a packed row; None where every position counts.
      reverse: read from the end.
      unroll: positions a step of the compiled loop.
    """
    low = x_BTD.dtype
    gates_BTG = x_BTD @ weights.input.astype(low) + weights.bias.astype(low)
    valid_TB = starts_TB = None
    if segments_BT is not None:
        before = jnp.roll(segments_BT, -1 if reverse else 1, axis=1)
        valid = segments_BT > 0
        starts_TB = ((segments_BT != before) & valid).T
        valid_TB = valid.T
    gates_TBG = jnp.moveaxis(gates_BTG, 1, 0)
    recurrent = weights.recurrent.astype(low)
    h_TBH, last = _recur(reverse, unroll, gates_TBG, recurrent, valid_TB, starts_TB)  # type: ignore[misc]
    return jnp.moveaxis(h_TBH, 0, 1), last


def bidirectional(
    x_BTD: jax.Array, forward: Weights, backward: Weights, segments_BT: jax.Array | None = None, *, unroll: int = 1
) -> tuple[tuple[jax.Array, State], tuple[jax.Array, State]]:
    """`lstm` from the start and from the end: two pairs, to be summed or concatenated by the caller."""
    return (
        lstm(x_BTD, forward, segments_BT, unroll=unroll),
        lstm(x_BTD, backward, segments_BT, reverse=True, unroll=unroll),
    )


def stack(
    x_BTD: jax.Array,
    layers: Sequence[tuple[Weights, Weights]],
    segments_BT: jax.Array | None = None,
    between: Callable[[jax.Array], jax.Array] | None = None,
) -> list[jax.Array]:
    """The final hidden states [B, H] of bidirectional layers, each reading both directions of the one below.

    Args:
      layers: (forward, backward), from the lowest. between: what is done to the states on their way up, as dropout.

    Returns:
      two a layer, forward first.
    """
    finals = []
    for place, (there, back) in enumerate(layers):
        x_BTD = x_BTD if between is None or not place else between(x_BTD)
        (forward, last_forward), (backward, last_backward) = bidirectional(x_BTD, there, back, segments_BT)
        x_BTD = jnp.concatenate([forward, backward], axis=-1)
        finals += [last_forward.hidden, last_backward.hidden]
    return finals


def weights(parameter: Callable[..., Any], name: str, width: int, hidden: int) -> Weights:
    """The weights of one direction as parameters NAME_… of a module, whose `param` is `parameter`."""
    parts = shapes(width, hidden).items()
    return Weights(*(parameter(f"{name}_{part}", uniform(hidden), shape, jnp.float32) for part, shape in parts))


def declare(parameter: Callable[..., Any], layers: int, width: int, hidden: int) -> list[tuple[Weights, Weights]]:
    """The weights of `stack` as parameters layer_N_forward_… and layer_N_backward_…; `width`: of the lowest input."""
    found = []
    for layer in range(layers):
        reads = width if layer == 0 else 2 * hidden
        there = weights(parameter, f"layer_{layer}_forward", reads, hidden)
        found.append((there, weights(parameter, f"layer_{layer}_backward", reads, hidden)))
    return found


def shapes(width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The shapes of `Weights`, in their order, by a name for each as a parameter."""
    gates = 4 * hidden
    return {"input_kernel": (width, gates), "recurrent_kernel": (hidden, gates), "bias": (gates,)}


def uniform(fan_in: int) -> Callable[..., jax.Array]:
    """Initialiser: uniform over ±1/√fan_in, with the width H of the state also for an LSTM's input and bias."""
    reach = fan_in**-0.5

    def draw(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -reach, reach)

    return draw


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recur(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    # By hand, since the gradient to the recurrent kernel is then one product after the loop. JAX would sum it up step
    # by step, and over a mesh exchange it at each.
    h_TBH, last, _ = _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB)
    return h_TBH, last


def _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    def step(state, inputs):
        gates, valid, start = inputs
        before = state if start is None else jax.tree.map(lambda s: jnp.where(start[:, None], 0, s), state)
        moved = before.hidden.astype(recurrent_HG.dtype) @ recurrent_HG
        i, f, g, o = jnp.split(gates.astype(jnp.float32) + moved.astype(jnp.float32), 4, axis=-1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        cell = f * before.cell + i * g
        squashed = jnp.tanh(cell)
        after, out = State(o * squashed, cell), o * squashed
        if valid is not None:
            after = jax.tree.map(lambda new, old: jnp.where(valid[:, None], new, old), after, state)
            out = jnp.where(valid[:, None], out, 0)
        return after, (out.astype(gates.dtype), (i, f, g, o, squashed, *before))

    zero = jnp.zeros((gates_TBG.shape[1], recurrent_HG.shape[0]), jnp.float32)
    inputs = (gates_TBG, valid_TB, starts_TB)
    last, (h_TBH, kept) = jax.lax.scan(step, State(zero, zero), inputs, reverse=reverse, unroll=unroll)
    return h_TBH, last, kept


def _recur_forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    h_TBH, last, kept = _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB)
    return (h_TBH, last), (recurrent_HG, valid_TB, starts_TB, kept)


def _recur_backward(reverse, unroll, saved, d):
    recurrent_HG, valid_TB, starts_TB, kept = saved
    dh_TBH, d_last = d
    low = recurrent_HG.dtype

    def step(d_after, inputs):
        dh, valid, start, (i, f, g, o, squashed, _, cell_before) = inputs
        d_hidden = d_after.hidden + dh.astype(jnp.float32)
        d_cell = d_after.cell + d_hidden * o * (1 - squashed * squashed)
        d_gates = jnp.concatenate(
            [
                d_cell * g * i * (1 - i),
                d_cell * cell_before * f * (1 - f),
                d_cell * i * (1 - g * g),
                d_hidden * squashed * o * (1 - o),
            ],
            axis=-1,
        )
        if valid is not None:
            d_gates = jnp.where(valid[:, None], d_gates, 0)
        d_gates = d_gates.astype(low)
        d_before = State((d_gates @ recurrent_HG.T).astype(jnp.float32), d_cell * f)
        if start is not None:
            d_before = jax.tree.map(lambda s: jnp.where(start[:, None], 0, s), d_before)
        if valid is not None:
            d_before = jax.tree.map(lambda new, old: jnp.where(valid[:, None], new, old), d_before, d_after)
        return d_before, d_gates

    inputs = (dh_TBH, valid_TB, starts_TB, kept)
    _, d_gates_TBG = jax.lax.scan(step, d_last, inputs, reverse=not reverse, unroll=unroll)
    hidden_before = kept[5].astype(low)
    return d_gates_TBG, jnp.einsum("tbh,tbg->hg", hidden_before, d_gates_TBG), None, None


_recur.defvjp(_recur_forward, _recur_backward)
