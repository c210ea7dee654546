"""The automaton of `types.Grammar` on the device: masks the next token, steps, and computes tree positions.

Pure functions of the tables and a state of fixed size. Pass the tables as an argument of the jitted program
(`Grammar` is a pytree): one executable then serves every grammar of the same shape. All lookups of a step are by
class; there is no table of states × vocabulary.

Legend: B rows (or beams), C classes, V vocabulary, D levels of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.types import NEXT, NONE, POP, PUSH, Allowed, Grammar, Tokens

# The cost of a text that cannot be closed, as on the host.
NEVER = 1 << 24
LONGEST_ENDING = 4  # tokens; a text that has more of them without a choice ends like any other


class GrammarState(NamedTuple):
    """The automaton's state of each row. Rows can be gathered (beams) and masked (finished rows) like any batch.

    Level i of the stack is the i-th open node; level 0 is the text itself and never changes.

    Attributes:
      state: int32[B].
      depth: int32[B], open nodes.
      return_state: int32[B, D + 1], the state after the node is closed.
      count: int32[B, D + 1], children of the node so far.
      lacking, room: int32[B, D + 1], children that it still needs, and that it may still get.
      pending: int32[B, D + 1], least number of tokens that end the text once the node is closed.
      recallable: bool[B, C], which recalled classes (see `Grammar.recalled`) have occurred, in the source too.
    """

    state: jax.Array
    depth: jax.Array
    return_state: jax.Array
    count: jax.Array
    lacking: jax.Array
    room: jax.Array
    pending: jax.Array
    recallable: jax.Array


def init(tables: Grammar, batch: int, source: Tokens | None = None) -> GrammarState:
    """The state of `batch` rows before their first token; `source`: an encoder's tokens, if there is one."""
    levels = jnp.zeros((batch, tables.max_depth + 1), jnp.int32)
    start = jnp.full((batch,), tables.start, jnp.int32)
    recallable = jnp.zeros((batch, tables.recalled.shape[0]), bool)
    g = GrammarState(start, jnp.zeros((batch,), jnp.int32), levels, levels, levels, levels, levels, recallable)
    return g if source is None else recall(tables, g, source.ids, source.segment_ids > 0)


def recall(tables: Grammar, g: GrammarState, ids: jax.Array, valid: jax.Array) -> GrammarState:
    """`g` with the recalled classes of ids int32[B, T] where valid bool[B, T], in whatever order they stand."""
    classes_BT = jnp.asarray(tables.class_of)[ids]
    found = jnp.zeros_like(g.recallable).at[jnp.arange(len(ids))[:, None], classes_BT].max(valid)
    return g._replace(recallable=g.recallable | (found & jnp.asarray(tables.recalled)))


def begin_answer(tables: Grammar, g: GrammarState) -> GrammarState:
    """`g` in the state in which an answer begins, with no open node; of a grammar with answers."""
    return g._replace(state=jnp.full_like(g.state, tables.answer), depth=jnp.zeros_like(g.depth))


def allowed_tokens(tables: Grammar, g: GrammarState, remaining: jax.Array | None = None) -> Allowed:
    """The tokens that may be generated next: `classes` bool[B, C] with `class_of`; `token_mask` expands them.

    Args:
      remaining: int32[B], tokens that still fit, this one included. While cost(g) ≤ remaining, some token is allowed
        or the text is finished, and this holds after any allowed token. None for no limit.

    A row whose text has ended and cannot continue has no allowed class.
    """
    op_BC, legal_BC = _legal(tables, g)
    limit = jnp.full(g.state.shape, NEVER, jnp.int32) if remaining is None else remaining
    cost_BC = _cost_by_class(tables, g, op_BC)
    within = cost_BC <= jnp.minimum(limit, NEVER)[:, None] - 1
    legal_BC &= ~jnp.asarray(tables.given)[g.state] & (g.recallable | ~jnp.asarray(tables.recalled))
    return Allowed(legal_BC & within, jnp.asarray(tables.class_of))


def token_mask(allowed: Allowed) -> jax.Array:
    """Expands classes bool[..., C] to tokens bool[..., V]."""
    # A word's bits are 32 classes: shifts are vectorized and fuse with the mask's consumer; a gather does neither.
    classes = allowed.classes.shape[-1]
    bits = jnp.pad(allowed.classes, [(0, 0)] * (allowed.classes.ndim - 1) + [(0, -classes % 32)])
    bits = bits.reshape(*bits.shape[:-1], -1, 32).astype(jnp.uint32) << jnp.arange(32, dtype=jnp.uint32)
    word_of, bit_of = allowed.class_of // 32, (allowed.class_of % 32).astype(jnp.uint32)
    mask = jnp.zeros((), bool)
    for i in range(bits.shape[-2]):
        word = bits[..., i, :].sum(-1, dtype=jnp.uint32)[..., None]
        mask |= (word_of == i) & ((word >> bit_of) & 1).astype(bool)
    return mask


def step(tables: Grammar, g: GrammarState, token: jax.Array) -> GrammarState:
    """The state after one token per row, int32[B]. A row whose token cannot be read (padding after its end) keeps its
    state."""
    c_B = jnp.asarray(tables.class_of)[token]
    op_BC, legal_BC = _legal(tables, g)
    op_B = jnp.where(_pick(legal_BC, c_B), _pick(op_BC, c_B), -1)
    to_B = jnp.asarray(tables.next_state)[g.state, c_B]
    return_B = jnp.asarray(tables.return_state)[g.state, c_B]
    levels = jnp.arange(g.return_state.shape[1])
    push, pop = op_B == PUSH, op_B == POP

    state = jnp.where(pop, _pick(g.return_state, g.depth), to_B)
    state = jnp.where(op_B < 0, g.state, state)
    depth = g.depth + push - pop
    # NEXT counts in the open node, POP in the parent of the closed one: in both cases the top level afterwards.
    counts = (op_B == NEXT) | (pop & jnp.asarray(tables.counted)[depth])
    counted = counts[:, None] & (levels == depth[:, None]) & (levels > 0)
    opened = push[:, None] & (levels == depth[:, None])

    pending_B = _cost_with_child(tables, g, return_B)

    def level(opened_with: jax.Array | int, unchanged: jax.Array) -> jax.Array:
        value = jnp.broadcast_to(jnp.asarray(opened_with, jnp.int32), depth.shape)
        return jnp.where(opened, value[:, None], unchanged)

    return GrammarState(
        state=state,
        depth=depth,
        return_state=level(return_B, g.return_state),
        count=level(0, g.count + counted),
        lacking=level(jnp.asarray(tables.least_children)[c_B], jnp.maximum(g.lacking - counted, 0)),
        room=level(jnp.asarray(tables.most_children)[c_B], g.room - counted),
        pending=level(pending_B, g.pending),
        recallable=g.recallable
        | (jnp.asarray(tables.recalled) & (jnp.arange(g.recallable.shape[1]) == c_B[:, None])),
    )


def read_prompt(tables: Grammar, g: GrammarState, ids: jax.Array, valid: jax.Array) -> GrammarState:
    """The state after a prompt, ids int32[B, T]; positions where valid bool[B, T] is False are skipped."""

    def body(g: GrammarState, column: tuple[jax.Array, jax.Array]) -> tuple[GrammarState, None]:
        token, keep = column
        new = step(tables, g, token)
        return jax.tree.map(lambda a, b: jnp.where(keep.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), new, g), None

    return jax.lax.scan(body, g, (ids.T, valid.T))[0]


def cost(tables: Grammar, g: GrammarState) -> jax.Array:
    """The least number of tokens after which the text may end, int32[B]; at least NEVER if it cannot end."""
    top = [_pick(x, g.depth) for x in (g.lacking, g.room, g.pending)]
    return _cost(tables, g.state, g.depth, *top)


def accepts(tables: Grammar, g: GrammarState) -> jax.Array:
    """Whether the text may end here, bool[B]."""
    return (g.depth == 0) & jnp.asarray(tables.accept)[g.state]


class Endings(NamedTuple):
    """How a text ends from a state without a choice.

    Attributes:
      token: int32[S], see `find_only_tokens`.
      length: int32[S], how many tokens end the text, the last of which is its end, if none of them can be chosen; 0
        where some can, or where there are more than `LONGEST_ENDING`.
    """

    token: jax.Array
    length: jax.Array


def find_only_tokens(tables: Grammar) -> tuple[jax.Array, jax.Array]:
    """(the only token that may be generated in a state, −1 where there is a choice; the state behind it), int32[S]. A
    token that opens or closes a node, or must have occurred before, counts as a choice."""
    class_of = jnp.asarray(tables.class_of)
    n_classes = tables.recalled.shape[0]
    n_tokens_C = jnp.zeros(n_classes, jnp.int32).at[class_of].add(1)
    first_token_C = jnp.full(n_classes, len(class_of)).at[class_of].min(jnp.arange(len(class_of)))
    next_SC = jnp.asarray(tables.next_state)
    open_SC = (next_SC >= 0) & ~jnp.asarray(tables.given)
    plain_SC = open_SC & (jnp.asarray(tables.stack_op) == NONE) & ~jnp.asarray(tables.recalled)
    class_S = open_SC.argmax(axis=1)
    is_only = (jnp.where(open_SC, n_tokens_C, 0).sum(axis=1) == 1) & _pick(plain_SC, class_S)
    token_S = jnp.where(is_only, first_token_C[class_S], -1).astype(jnp.int32)
    return token_S, jnp.maximum(_pick(next_SC, class_S), 0)


def find_endings(tables: Grammar, end_id: int, num_id: int) -> Endings:
    """The endings of all states. A number, whose value is always chosen, is in none."""
    token_S, next_S = find_only_tokens(tables)
    length_S = jnp.where(token_S == end_id, 1, 0)
    for _ in range(LONGEST_ENDING - 1):
        behind_S = jnp.where((token_S >= 0) & (token_S != num_id), length_S[next_S], 0)
        length_S = jnp.where((length_S == 0) & (behind_S > 0), behind_S + 1, length_S)
    return Endings(token_S, length_S)


def list_first_tokens(tables: Grammar, end_id: int, num_id: int) -> tuple[int, ...]:
    """The tokens with which every answer begins without a choice; none where answers have no form."""
    token_S, next_S = (np.asarray(x) for x in find_only_tokens(tables))
    state, tokens = int(tables.answer), []
    while state >= 0 and token_S[state] not in (-1, end_id, num_id) and len(tokens) < len(token_S):
        tokens.append(int(token_S[state]))
        state = int(next_S[state])
    return tuple(tokens)


def tree_positions(tables: Grammar, g: GrammarState) -> jax.Array:
    """The tree position of the next token, int32[B, D + 1]: the child index at each level, the root's first; −1 below
    the node, and everywhere in text."""
    inside = jnp.asarray(tables.placed)[g.state][:, None] & (jnp.arange(g.count.shape[1]) <= g.depth[:, None])
    return jnp.where(inside, g.count, -1)


def token_types(tables: Grammar, g: GrammarState, token: jax.Array) -> jax.Array:
    """The type of a token int32[B] in this state, int32[B]."""
    return jnp.asarray(tables.token_type)[g.state, jnp.asarray(tables.class_of)[token]]


def _pick(x: jax.Array, index: jax.Array) -> jax.Array:
    """x[b, index[b]]."""
    return jnp.take_along_axis(x, index[:, None], axis=1)[:, 0]


def _legal(tables: Grammar, g: GrammarState) -> tuple[jax.Array, jax.Array]:
    """(the operation of each class, whether the state and the stack allow it), both [B, C]."""
    op = jnp.asarray(tables.stack_op)[g.state]
    is_inside = (g.depth > 0)[:, None]
    has_room = (_pick(g.room, g.depth) > 0)[:, None]
    is_complete = (_pick(g.lacking, g.depth) == 0)[:, None]
    has_level = (g.depth < tables.max_depth)[:, None]
    by_stack = (
        (op == NONE)
        | ((op == NEXT) & is_inside & has_room)
        | ((op == POP) & is_inside & is_complete)
        | ((op == PUSH) & has_level & (~is_inside | has_room))
    )
    return op, by_stack & (jnp.asarray(tables.next_state)[g.state] >= 0)


def _cost(tables: Grammar, state, depth, lacking, room, pending) -> jax.Array:
    """The least number of tokens to an end from a state within the open node; shapes broadcast."""
    close = jnp.asarray(tables.close_cost)[state, lacking, room, tables.max_depth - depth]
    total = jnp.where(depth > 0, close + pending, jnp.asarray(tables.end_cost)[state])
    return jnp.minimum(total, NEVER)


def _cost_with_child(tables: Grammar, g: GrammarState, state: jax.Array) -> jax.Array:
    """The cost from `state` ([B] or [B, C]) with one more child counted in the open node."""
    depth, lacking, room, pending = (
        x.reshape((-1,) + (1,) * (state.ndim - 1))
        for x in (g.depth, *(_pick(y, g.depth) for y in (g.lacking, g.room, g.pending)))
    )
    return _cost(tables, state, depth, jnp.maximum(lacking - 1, 0), jnp.maximum(room - 1, 0), pending)


def _cost_by_class(tables: Grammar, g: GrammarState, op_BC: jax.Array) -> jax.Array:
    """The cost of the state after each class, int32[B, C]."""
    next_BC = jnp.maximum(jnp.asarray(tables.next_state)[g.state], 0)
    depth, lacking, room, pending = (
        x[:, None] for x in (g.depth, *(_pick(y, g.depth) for y in (g.lacking, g.room, g.pending)))
    )
    unchanged = _cost(tables, next_BC, depth, lacking, room, pending)
    counted = _cost_with_child(tables, g, next_BC)
    after_node = _cost_with_child(tables, g, jnp.asarray(tables.return_state)[g.state])
    opened = jnp.asarray(tables.close_cost)[
        next_BC,
        jnp.asarray(tables.least_children)[None],
        jnp.asarray(tables.most_children)[None],
        jnp.maximum(tables.max_depth - depth - 1, 0),
    ]
    cost_BC = jnp.where(op_BC == NEXT, counted, unchanged)
    cost_BC = jnp.where(op_BC == POP, pending, cost_BC)
    return jnp.where(op_BC == PUSH, jnp.minimum(opened + after_node, NEVER), cost_BC)
