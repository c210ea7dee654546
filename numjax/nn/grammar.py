"""The mask of a training step: where the host's automaton stood, turned into classes of legal tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from numjax.types import NEXT, NO_NEXT, NO_POP, NO_PUSH, POP, PUSH, Allowed, Grammar, Tokens


def allowed(tables: Grammar, codes: jax.Array, given: bool = True, shown: jax.Array | None = None) -> Allowed:
    """What a training mask leaves where the automaton stands (`Batch.grammar_state`, int32[B, T]).

    Args:
      given: leave also what is read but never generated, so that no text of the grammar has an infinite loss.
      shown: bool[B, T, C] from `shown`; None where the grammar recalls nothing.
    """
    op_SC, legal_SC = jnp.asarray(tables.stack_op), jnp.asarray(tables.next_state) >= 0
    if not given:
        legal_SC &= ~jnp.asarray(tables.given)
    bit_of = jnp.zeros(4, jnp.int32).at[jnp.asarray([PUSH, NEXT, POP])].set(jnp.asarray([NO_PUSH, NO_NEXT, NO_POP]))
    forbids = jnp.arange(8 if tables.max_depth else 1)[:, None, None]
    legal_XC = (legal_SC & (forbids & bit_of[op_SC] == 0)).reshape(-1, op_SC.shape[1])
    legal = legal_XC[codes]
    if shown is not None:
        # What is only ever given, such as the numbers of a text, need not have been shown.
        legal &= shown | jnp.asarray(tables.given)[codes % op_SC.shape[0]]
    return Allowed(legal, jnp.asarray(tables.class_of))


def shown(tables: Grammar, tokens: Tokens, source: Tokens | None = None) -> jax.Array | None:
    """Which classes a row may recall (see `Grammar.recalled`) after each of its positions, bool[B, T, C]; those that
    are no matter of recalling always. None where the grammar recalls nothing.

    Args:
      tokens: what is read, several examples a row or one. source: what an encoder reads beside it.
    """
    recalled = np.flatnonzero(np.asarray(tables.recalled))
    if not len(recalled):
        return None
    class_of = jnp.asarray(tables.class_of)
    read_BTR = (class_of[tokens.ids][..., None] == recalled) & (tokens.segment_ids > 0)[..., None]
    count_BTR = jnp.cumsum(read_BTR, axis=1)
    # What other examples of the row have shown, before this one began, does not count.
    first_BT = jnp.arange(tokens.ids.shape[1]) - tokens.positions
    before_BTR = jnp.take_along_axis(count_BTR - read_BTR, first_BT[..., None], axis=1)
    shown_BTR = count_BTR > before_BTR
    if source is not None:
        there_BSR = (class_of[source.ids][..., None] == recalled) & (source.segment_ids > 0)[..., None]
        shown_BTR |= there_BSR.any(axis=1)[:, None]
    out = jnp.ones((*tokens.ids.shape, len(tables.recalled)), bool)
    return out.at[..., recalled].set(shown_BTR)
