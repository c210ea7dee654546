"""The automaton of `types.Grammar` on device: masks the next token, steps, and yields tree positions.

Pure functions of the tables and a state of fixed size. Give the tables as an argument of the jitted program
(`Grammar` is a pytree): one executable then serves every grammar of the same shape. All that a step looks
up is by class; no table of states × vocabulary exists.

Legend: B rows (or beams), C classes, V vocabulary, D levels of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numjax.types import NEXT, NONE, POP, PUSH, Allowed, Grammar, Tokens

# Same as the host's: the cost of what cannot be closed.
NEVER = 1 << 24


class GrammarState(NamedTuple):
    """Where each row stands. Rows can be gathered (beams) and masked (finished rows) like any batch.

    Level i of the stack is the i-th open node; level 0 is the text itself and stays as it was made.

    Attributes:
      state: int32[B].
      depth: int32[B], open nodes.
      back: int32[B, D + 1], the state after the node is closed.
      count: int32[B, D + 1], children of the node so far.
      lacking, room: int32[B, D + 1], children that it still needs, and still may have.
      pending: int32[B, D + 1], least number of tokens that end the text once the node is closed.
      shown: bool[B, C], which recalled classes (see `Grammar.recalled`) were read, in the source too.
    """

    state: jax.Array
    depth: jax.Array
    back: jax.Array
    count: jax.Array
    lacking: jax.Array
    room: jax.Array
    pending: jax.Array
    shown: jax.Array


def init(tables: Grammar, batch: int, source: Tokens | None = None) -> GrammarState:
    """The state of `batch` rows before their first token; `source`: what an encoder reads."""
    levels = jnp.zeros((batch, tables.max_depth + 1), jnp.int32)
    start = jnp.full((batch,), tables.start, jnp.int32)
    shown = jnp.zeros((batch, tables.recalled.shape[0]), bool)
    if source is not None:
        classes_BS = jnp.asarray(tables.class_of)[source.ids]
        shown = shown.at[jnp.arange(batch)[:, None], classes_BS].max(source.segment_ids > 0)
        shown &= jnp.asarray(tables.recalled)
    return GrammarState(start, jnp.zeros((batch,), jnp.int32), levels, levels, levels, levels, levels, shown)


def begin_answer(tables: Grammar, g: GrammarState) -> GrammarState:
    """`g` in the state in which an answer begins, with no node open; as it is where answers have no form."""
    begins = jnp.asarray(tables.answer) >= 0
    return g._replace(
        state=jnp.where(begins, tables.answer, g.state).astype(jnp.int32), depth=jnp.where(begins, 0, g.depth)
    )


def allowed(tables: Grammar, g: GrammarState, remaining: jax.Array | None = None) -> Allowed:
    """What may be generated next: `classes` bool[B, C] with `class_of`; `token_mask` makes bool[B, V] of it.

    Args:
      remaining: int32[B], tokens that still fit, this one included. While cost(g) ≤ remaining some token
        is allowed or the text is finished, and whatever is taken keeps it so. None for no limit.

    A row whose text has ended for good has no class left.
    """
    op_BC, legal_BC = _legal(tables, g)
    limit = jnp.full(g.state.shape, NEVER, jnp.int32) if remaining is None else remaining
    cost_BC = _cost_after(tables, g, op_BC)
    within = cost_BC <= jnp.minimum(limit, NEVER)[:, None] - 1
    legal_BC &= ~jnp.asarray(tables.given)[g.state] & (g.shown | ~jnp.asarray(tables.recalled))
    return Allowed(legal_BC & within, jnp.asarray(tables.class_of))


def token_mask(allowed: Allowed) -> jax.Array:
    """bool[..., V] of classes bool[..., C]."""
    # A word's bits are 32 classes: shifts run in vectors and fuse with what reads the mask; a gather does neither.
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
    """Reads one token a row, int32[B]. A row whose token cannot be read (padding after its end) stays."""
    c_B = jnp.asarray(tables.class_of)[token]
    op_BC, legal_BC = _legal(tables, g)
    op_B = jnp.where(_pick(legal_BC, c_B), _pick(op_BC, c_B), -1)
    to_B = jnp.asarray(tables.next_state)[g.state, c_B]
    back_B = jnp.asarray(tables.return_state)[g.state, c_B]
    levels = jnp.arange(g.back.shape[1])
    push, pop = op_B == PUSH, op_B == POP

    state = jnp.where(pop, _pick(g.back, g.depth), to_B)
    state = jnp.where(op_B < 0, g.state, state)
    depth = g.depth + push - pop
    # NEXT counts in the open node, POP in the parent of the one it closes: both are the top level after it.
    counts = (op_B == NEXT) | (pop & jnp.asarray(tables.counted)[depth])
    counted = counts[:, None] & (levels == depth[:, None]) & (levels > 0)
    opened = push[:, None] & (levels == depth[:, None])

    pending_B = _after(tables, g, back_B)

    def level(opened_with: jax.Array | int, otherwise: jax.Array) -> jax.Array:
        value = jnp.broadcast_to(jnp.asarray(opened_with, jnp.int32), depth.shape)
        return jnp.where(opened, value[:, None], otherwise)

    return GrammarState(
        state=state,
        depth=depth,
        back=level(back_B, g.back),
        count=level(0, g.count + counted),
        lacking=level(jnp.asarray(tables.least_children)[c_B], jnp.maximum(g.lacking - counted, 0)),
        room=level(jnp.asarray(tables.most_children)[c_B], g.room - counted),
        pending=level(pending_B, g.pending),
        shown=g.shown | (jnp.asarray(tables.recalled) & (jnp.arange(g.shown.shape[1]) == c_B[:, None])),
    )


def read(tables: Grammar, g: GrammarState, ids: jax.Array, valid: jax.Array) -> GrammarState:
    """Reads a prompt: ids int32[B, T], skipping positions where valid bool[B, T] is False."""

    def body(g: GrammarState, column: tuple[jax.Array, jax.Array]) -> tuple[GrammarState, None]:
        token, keep = column
        new = step(tables, g, token)
        return jax.tree.map(lambda a, b: jnp.where(keep.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), new, g), None

    return jax.lax.scan(body, g, (ids.T, valid.T))[0]


def cost(tables: Grammar, g: GrammarState) -> jax.Array:
    """Least number of tokens after which the text may end, int32[B]; at least NEVER when none does."""
    top = [_pick(x, g.depth) for x in (g.lacking, g.room, g.pending)]
    return _cost(tables, g.state, g.depth, *top)


def accepts(tables: Grammar, g: GrammarState) -> jax.Array:
    """Whether the text may end here, bool[B]."""
    return (g.depth == 0) & jnp.asarray(tables.accept)[g.state]


def tree_positions(tables: Grammar, g: GrammarState) -> jax.Array:
    """Tree position of the token read next, int32[B, D + 1]: child index at each level, the root's first;
    −1 below the node, and everywhere in text."""
    inside = jnp.asarray(tables.placed)[g.state][:, None] & (jnp.arange(g.count.shape[1]) <= g.depth[:, None])
    return jnp.where(inside, g.count, -1)


def token_types(tables: Grammar, g: GrammarState, token: jax.Array) -> jax.Array:
    """Type of a token int32[B] read in this state, int32[B]."""
    return jnp.asarray(tables.token_type)[g.state, jnp.asarray(tables.class_of)[token]]


def _pick(x: jax.Array, index: jax.Array) -> jax.Array:
    """x[b, index[b]]."""
    return jnp.take_along_axis(x, index[:, None], axis=1)[:, 0]


def _legal(tables: Grammar, g: GrammarState) -> tuple[jax.Array, jax.Array]:
    """Operation of each class and whether it can be read, both [B, C], by state and stack."""
    op = jnp.asarray(tables.stack_op)[g.state]
    inside = (g.depth > 0)[:, None]
    room = (_pick(g.room, g.depth) > 0)[:, None]
    full = (_pick(g.lacking, g.depth) == 0)[:, None]
    free = (g.depth < tables.max_depth)[:, None]
    by_stack = (
        (op == NONE)
        | ((op == NEXT) & inside & room)
        | ((op == POP) & inside & full)
        | ((op == PUSH) & free & (~inside | room))
    )
    return op, by_stack & (jnp.asarray(tables.next_state)[g.state] >= 0)


def _cost(tables: Grammar, state, depth, lacking, room, pending) -> jax.Array:
    """Least number of tokens to an end from a state within the open node; shapes broadcast."""
    close = jnp.asarray(tables.close_cost)[state, lacking, room, tables.max_depth - depth]
    total = jnp.where(depth > 0, close + pending, jnp.asarray(tables.end_cost)[state])
    return jnp.minimum(total, NEVER)


def _after(tables: Grammar, g: GrammarState, back: jax.Array) -> jax.Array:
    """Cost from state `back` ([B] or [B, C]) with one more child counted in the open node."""
    depth, lacking, room, pending = (
        x.reshape((-1,) + (1,) * (back.ndim - 1))
        for x in (g.depth, *(_pick(y, g.depth) for y in (g.lacking, g.room, g.pending)))
    )
    return _cost(tables, back, depth, jnp.maximum(lacking - 1, 0), jnp.maximum(room - 1, 0), pending)


def _cost_after(tables: Grammar, g: GrammarState, op_BC: jax.Array) -> jax.Array:
    """Cost of the state that reading each class leads to, int32[B, C]."""
    to_BC = jnp.maximum(jnp.asarray(tables.next_state)[g.state], 0)
    depth, lacking, room, pending = (
        x[:, None] for x in (g.depth, *(_pick(y, g.depth) for y in (g.lacking, g.room, g.pending)))
    )
    stay = _cost(tables, to_BC, depth, lacking, room, pending)
    counted = _after(tables, g, to_BC)
    after_node = _after(tables, g, jnp.asarray(tables.return_state)[g.state])
    opened = jnp.asarray(tables.close_cost)[
        to_BC,
        jnp.asarray(tables.least_children)[None],
        jnp.asarray(tables.most_children)[None],
        jnp.maximum(tables.max_depth - depth - 1, 0),
    ]
    cost_BC = jnp.where(op_BC == NEXT, counted, stay)
    cost_BC = jnp.where(op_BC == POP, pending, cost_BC)
    return jnp.where(op_BC == PUSH, jnp.minimum(opened + after_node, NEVER), cost_BC)
