"""Long short-term memory over rows of any length, as pure functions (Hochreiter and Schmidhuber 1997).

Legend: B rows, T positions, D width of the input, H width of the state, G = 4·H gates in the order input, forget,
cell, output.

Padding keeps the state and outputs zeros, so a row's result does not depend on its padding, and the backward
direction starts at the row's last position. A new segment of a packed row starts from a zero state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numjax.nn.dense import project


class LstmWeights(NamedTuple):
    """The weights of one direction: gates = x @ input[D, G] + h @ recurrent[H, G] + bias[G]."""

    input: jax.Array
    recurrent: jax.Array
    bias: jax.Array


class LstmState(NamedTuple):
    """Hidden and cell state, float32[B, H]."""

    hidden: jax.Array
    cell: jax.Array


def lstm(
    x_BTD: jax.Array,
    weights: LstmWeights,
    segments_BT: jax.Array | None = None,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[jax.Array, LstmState]:
    """Runs one direction: (hidden states[B, T, H] in x's dtype, zero in padding; the state after the last position).

    Args:
      weights: cast to x's dtype; gates and states are float32.
      segments_BT: 0 in padding, 1, 2, … for the texts of a packed row; None if every position counts.
      reverse: run from the end.
      unroll: positions per step of the compiled loop.
    """
    dtype = x_BTD.dtype
    gates_BTG = project(x_BTD, weights.input.astype(dtype)) + weights.bias.astype(dtype)
    valid_TB = starts_TB = None
    if segments_BT is not None:
        previous = jnp.roll(segments_BT, -1 if reverse else 1, axis=1)
        is_valid = segments_BT > 0
        starts_TB = ((segments_BT != previous) & is_valid).T
        valid_TB = is_valid.T
    gates_TBG = jnp.moveaxis(gates_BTG, 1, 0)
    recurrent = weights.recurrent.astype(dtype)
    h_TBH, last = _recur(reverse, unroll, gates_TBG, recurrent, valid_TB, starts_TB)  # type: ignore[misc]
    return jnp.moveaxis(h_TBH, 0, 1), last


def run_bidirectional(
    x_BTD: jax.Array,
    forward: LstmWeights,
    backward: LstmWeights,
    segments_BT: jax.Array | None = None,
    *,
    unroll: int = 1,
) -> tuple[tuple[jax.Array, LstmState], tuple[jax.Array, LstmState]]:
    """Runs `lstm` from the start and from the end: two pairs, which the caller sums or concatenates."""
    return (
        lstm(x_BTD, forward, segments_BT, unroll=unroll),
        lstm(x_BTD, backward, segments_BT, reverse=True, unroll=unroll),
    )


def final_states(
    x_BTD: jax.Array,
    layers: Sequence[tuple[LstmWeights, LstmWeights]],
    segments_BT: jax.Array | None = None,
    between_layers: Callable[[jax.Array], jax.Array] | None = None,
) -> list[jax.Array]:
    """The final hidden states [B, H] of bidirectional layers; the input of each is both directions of the one below.

    Args:
      layers: (forward, backward), from the lowest. between_layers: is applied to the states between layers, such as
        dropout.

    Returns:
      two states per layer, forward first.
    """
    finals = []
    for layer, (forward_weights, backward_weights) in enumerate(layers):
        x_BTD = x_BTD if between_layers is None or not layer else between_layers(x_BTD)
        (forward, last_forward), (backward, last_backward) = run_bidirectional(
            x_BTD, forward_weights, backward_weights, segments_BT
        )
        x_BTD = jnp.concatenate([forward, backward], axis=-1)
        finals += [last_forward.hidden, last_backward.hidden]
    return finals


def declare_weights(parameter: Callable[..., Any], name: str, width: int, hidden: int) -> LstmWeights:
    """The weights of one direction as parameters NAME_… of a module, whose `param` is `parameter`."""
    parts = shapes(width, hidden).items()
    return LstmWeights(*(parameter(f"{name}_{part}", uniform(hidden), shape, jnp.float32) for part, shape in parts))


def declare_stack(
    parameter: Callable[..., Any], layers: int, width: int, hidden: int
) -> list[tuple[LstmWeights, LstmWeights]]:
    """The weights of `final_states` as parameters layer_N_forward_… and layer_N_backward_…; `width`: of the input."""
    directions = []
    for layer in range(layers):
        inputs = width if layer == 0 else 2 * hidden
        forward = declare_weights(parameter, f"layer_{layer}_forward", inputs, hidden)
        directions.append((forward, declare_weights(parameter, f"layer_{layer}_backward", inputs, hidden)))
    return directions


def shapes(width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The shapes of `LstmWeights`, in their order, by the parameter's name."""
    gates = 4 * hidden
    return {"input_kernel": (width, gates), "recurrent_kernel": (hidden, gates), "bias": (gates,)}


def uniform(fan_in: int) -> Callable[..., jax.Array]:
    """An initialiser: uniform over ±1/√fan_in. An LSTM's input kernel and bias, too, take the state's width H."""
    reach = fan_in**-0.5

    def draw(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -reach, reach)

    return draw


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recur(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    # The gradient is written by hand: that of the recurrent kernel is then one product after the loop. JAX would sum
    # it step by step, and over a mesh exchange it at each step.
    h_TBH, last, _ = _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB)
    return h_TBH, last


def _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    def step(state, inputs):
        gates, valid, start = inputs
        previous = state if start is None else jax.tree.map(lambda s: jnp.where(start[:, None], 0, s), state)
        recurrent = previous.hidden.astype(recurrent_HG.dtype) @ recurrent_HG
        i, f, g, o = jnp.split(gates.astype(jnp.float32) + recurrent.astype(jnp.float32), 4, axis=-1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        cell = f * previous.cell + i * g
        squashed = jnp.tanh(cell)
        next_state, out = LstmState(o * squashed, cell), o * squashed
        if valid is not None:
            next_state = jax.tree.map(lambda new, old: jnp.where(valid[:, None], new, old), next_state, state)
            out = jnp.where(valid[:, None], out, 0)
        return next_state, (out.astype(gates.dtype), (i, f, g, o, squashed, *previous))

    zero = jnp.zeros((gates_TBG.shape[1], recurrent_HG.shape[0]), jnp.float32)
    inputs = (gates_TBG, valid_TB, starts_TB)
    last, (h_TBH, saved) = jax.lax.scan(step, LstmState(zero, zero), inputs, reverse=reverse, unroll=unroll)
    return h_TBH, last, saved


def _recur_forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB):
    h_TBH, last, saved = _forward(reverse, unroll, gates_TBG, recurrent_HG, valid_TB, starts_TB)
    return (h_TBH, last), (recurrent_HG, valid_TB, starts_TB, saved)


def _recur_backward(reverse, unroll, saved, d):
    recurrent_HG, valid_TB, starts_TB, saved_steps = saved
    dh_TBH, d_last = d
    dtype = recurrent_HG.dtype

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
        d_gates = d_gates.astype(dtype)
        d_before = LstmState((d_gates @ recurrent_HG.T).astype(jnp.float32), d_cell * f)
        if start is not None:
            d_before = jax.tree.map(lambda s: jnp.where(start[:, None], 0, s), d_before)
        if valid is not None:
            d_before = jax.tree.map(lambda new, old: jnp.where(valid[:, None], new, old), d_before, d_after)
        return d_before, d_gates

    inputs = (dh_TBH, valid_TB, starts_TB, saved_steps)
    _, d_gates_TBG = jax.lax.scan(step, d_last, inputs, reverse=not reverse, unroll=unroll)
    hidden_before = saved_steps[5].astype(dtype)
    (d_recurrent_HG,) = jax.linear_transpose(lambda w: project(hidden_before, w), recurrent_HG)(d_gates_TBG)
    return d_gates_TBG, d_recurrent_HG, None, None


_recur.defvjp(_recur_forward, _recur_backward)
