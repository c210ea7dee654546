"""Channels (see `types.Channel`) during generation: the automaton, or the part that reads a channel, computes it
token by token.

Legend: B rows (or beams), P positions of the prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numjax.decode import grammar as automaton
from numjax.errors import UsageError
from numjax.protocols import Producer
from numjax.types import TREE_POSITIONS, TYPES, Grammar, Tokens


class AutomatonState(NamedTuple):
    """The automaton before a token: its tables and the state of each row."""

    tables: Grammar
    state: automaton.GrammarState


class _Types(Producer):
    channel = TYPES

    def step(self, state: Any, token: jax.Array, automaton_state: AutomatonState) -> tuple[Any, jax.Array]:
        return state, automaton.token_types(automaton_state.tables, automaton_state.state, token)


class _TreePositions(Producer):
    channel = TREE_POSITIONS

    def step(self, state: Any, token: jax.Array, automaton_state: AutomatonState) -> tuple[Any, jax.Array]:
        return state, automaton.tree_positions(automaton_state.tables, automaton_state.state)


OF_AUTOMATON: tuple[Producer, ...] = (_Types(), _TreePositions())


def find_producers(tokens: Tokens, producers: Sequence[Producer]) -> dict[str, Producer]:
    """The producer of each channel of `tokens`, by name: one of `producers`, or the automaton's.

    Raises:
      UsageError: a channel has no producer, so it is unknown during generation.
    """
    all_producers = {producer.channel.name: producer for producer in (*OF_AUTOMATON, *producers)}
    for name in tokens.channels:
        if name not in all_producers:
            raise UsageError(f"the channel {name!r} exists only for whole texts: the model cannot generate with it")
    return {name: all_producers[name] for name in tokens.channels}


def begin(producers: Mapping[str, Producer], rows: int) -> dict[str, Any]:
    """The states before the first token."""
    return {name: producer.begin(rows) for name, producer in producers.items()}


def step(
    producers: Mapping[str, Producer], states: Mapping[str, Any], token: jax.Array, automaton_state: AutomatonState
) -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """(the states behind a token int32[B], the channels' values at it)."""
    results = {name: producer.step(states[name], token, automaton_state) for name, producer in producers.items()}
    return {name: state for name, (state, _) in results.items()}, {
        name: value for name, (_, value) in results.items()
    }


def read_prompt(
    producers: Mapping[str, Producer], automaton_state: AutomatonState, ids: jax.Array, valid: jax.Array
) -> dict[str, Any]:
    """The states behind a prompt, ids int32[B, P]; positions where valid bool[B, P] is False are skipped."""
    states = begin(producers, len(ids))
    if not jax.tree.leaves(states):
        return states

    def body(carry: Any, column: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        states, grammar_state = carry
        token, keep = column
        new = (
            step(producers, states, token, automaton_state._replace(state=grammar_state))[0],
            automaton.step(automaton_state.tables, grammar_state, token),
        )
        return keep_where(keep, new, (states, grammar_state)), None

    return jax.lax.scan(body, (states, automaton_state.state), (ids.T, valid.T))[0][0]


def keep_where(keep: jax.Array, new: Any, old: Any) -> Any:
    """Merges two pytrees of arrays [B, …]: rows of `new` where keep[B] is True, else rows of `old`."""
    return jax.tree.map(lambda a, b: jnp.where(keep.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), new, old)
