"""The mask of a training step: where the host's automaton stood, turned into classes of legal tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numjax.types import NEXT, NO_NEXT, NO_POP, NO_PUSH, POP, PUSH, Allowed, Grammar


def allowed(tables: Grammar, codes: jax.Array, given: bool = True) -> Allowed:
    """What a training mask leaves where the automaton stands (`Batch.grammar_state`, int32[B, T]).

    Args:
      given: leave also what is read but never generated, so that no text of the grammar has an infinite loss.
    """
    op_SC, legal_SC = jnp.asarray(tables.stack_op), jnp.asarray(tables.next_state) >= 0
    if not given:
        legal_SC &= ~jnp.asarray(tables.given)
    bit_of = jnp.zeros(4, jnp.int32).at[jnp.asarray([PUSH, NEXT, POP])].set(jnp.asarray([NO_PUSH, NO_NEXT, NO_POP]))
    forbids = jnp.arange(8 if tables.max_depth else 1)[:, None, None]
    legal_XC = (legal_SC & (forbids & bit_of[op_SC] == 0)).reshape(-1, op_SC.shape[1])
    return Allowed(legal_XC[codes], jnp.asarray(tables.class_of))
