"""Channels (see `types.Channel`) while a text is written: each is made token by token, by the automaton or by the
part that reads it.

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


class At(NamedTuple):
    """The automaton before a token: its tables, and where each row stands."""

    tables: Grammar
    place: automaton.GrammarState


class _Types(Producer):
    channel = TYPES

    def step(self, state: Any, token: jax.Array, at: At) -> tuple[Any, jax.Array]:
        return state, automaton.token_types(at.tables, at.place, token)


class _TreePositions(Producer):
    channel = TREE_POSITIONS

    def step(self, state: Any, token: jax.Array, at: At) -> tuple[Any, jax.Array]:
        return state, automaton.tree_positions(at.tables, at.place)


OF_AUTOMATON: tuple[Producer, ...] = (_Types(), _TreePositions())


def find(like: Tokens, producers: Sequence[Producer]) -> dict[str, Producer]:
    """What makes each channel that `like` has, by name: one of `producers`, or the automaton.

    Raises:
      UsageError: nobody makes one of them while a text is written.
    """
    known = {one.channel.name: one for one in (*OF_AUTOMATON, *producers)}
    for name in like.channels:
        if name not in known:
            raise UsageError(f"the channel {name!r} is of whole texts: no text can be written with it")
    return {name: known[name] for name in like.channels}


def begin(makers: Mapping[str, Producer], rows: int) -> dict[str, Any]:
    """The states before the first token."""
    return {name: maker.begin(rows) for name, maker in makers.items()}


def step(
    makers: Mapping[str, Producer], states: Mapping[str, Any], token: jax.Array, at: At
) -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """(the states behind a token int32[B], the channels' values at it)."""
    found = {name: maker.step(states[name], token, at) for name, maker in makers.items()}
    return {name: state for name, (state, _) in found.items()}, {name: value for name, (_, value) in found.items()}


def read(makers: Mapping[str, Producer], at: At, ids: jax.Array, valid: jax.Array) -> dict[str, Any]:
    """The states behind a prompt, ids int32[B, P], of which positions where valid bool[B, P] is False are skipped."""
    states = begin(makers, len(ids))
    if not jax.tree.leaves(states):
        return states

    def body(carry: Any, column: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        states, place = carry
        token, keep = column
        after = step(makers, states, token, at._replace(place=place))[0], automaton.step(at.tables, place, token)
        return keep_where(keep, after, (states, place)), None

    return jax.lax.scan(body, (states, at.place), (ids.T, valid.T))[0][0]


def keep_where(keep: jax.Array, new: Any, old: Any) -> Any:
    """Of two pytrees of arrays [B, …] the new one in rows where keep bool[B], else the old one."""
    return jax.tree.map(lambda a, b: jnp.where(keep.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), new, old)
