"""The mask of a training step: the states of the host's automaton as classes of legal tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from numjax.types import NEXT, NO_NEXT, NO_POP, NO_PUSH, POP, PUSH, Allowed, Grammar, Tokens


def allowed_tokens(
    tables: Grammar, codes: jax.Array, allow_given: bool = True, recallable: jax.Array | None = None
) -> Allowed:
    """The tokens that a training mask allows in the automaton's states `codes` (`Batch.grammar_state`, int32[B, T]).

    Args:
      allow_given: also allow tokens that are read but never generated, so that no text of the grammar has an infinite
        loss.
      recallable: bool[B, T, C] from `recall_mask`; None if the grammar recalls nothing.
    """
    op_SC, legal_SC = jnp.asarray(tables.stack_op), jnp.asarray(tables.next_state) >= 0
    if not allow_given:
        legal_SC &= ~jnp.asarray(tables.given)
    bit_of = jnp.zeros(4, jnp.int32).at[jnp.asarray([PUSH, NEXT, POP])].set(jnp.asarray([NO_PUSH, NO_NEXT, NO_POP]))
    forbids = jnp.arange(8 if tables.max_depth else 1)[:, None, None]
    legal_XC = (legal_SC & (forbids & bit_of[op_SC] == 0)).reshape(-1, op_SC.shape[1])
    legal = legal_XC[codes]
    if recallable is not None:
        # Tokens that are only given, such as the numbers of a text, need not be recallable.
        legal &= recallable | jnp.asarray(tables.given)[codes % op_SC.shape[0]]
    return Allowed(legal, jnp.asarray(tables.class_of))


def recall_mask(tables: Grammar, tokens: Tokens, source: Tokens | None = None) -> jax.Array | None:
    """Which classes a row may recall (see `Grammar.recalled`) after each of its positions, bool[B, T, C]; True for
    classes that need no recalling. None if the grammar recalls nothing.

    Args:
      tokens: rows of one example or several. source: an encoder's tokens, if there is one.
    """
    recalled = np.flatnonzero(np.asarray(tables.recalled))
    if not len(recalled):
        return None
    class_of = jnp.asarray(tables.class_of)
    occurs_BTR = (class_of[tokens.ids][..., None] == recalled) & (tokens.segment_ids > 0)[..., None]
    count_BTR = jnp.cumsum(occurs_BTR, axis=1)
    # Classes in earlier examples of the row do not count.
    first_BT = jnp.arange(tokens.ids.shape[1]) - tokens.positions
    before_BTR = jnp.take_along_axis(count_BTR - occurs_BTR, first_BT[..., None], axis=1)
    recallable_BTR = count_BTR > before_BTR
    if source is not None:
        in_source_BSR = (class_of[source.ids][..., None] == recalled) & (source.segment_ids > 0)[..., None]
        recallable_BTR |= in_source_BSR.any(axis=1)[:, None]
    out = jnp.ones((*tokens.ids.shape, len(tables.recalled)), bool)
    return out.at[..., recalled].set(recallable_BTR)
