"""Builds the tables of `types.Grammar` from edges: classes of tokens that behave alike, and exact closing costs.

Legend: V vocabulary, S states, C classes, D levels, W children of a node, N lacking children.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from numjax.types import NEXT, NONE, POP, PUSH, Grammar

# Cost of a node that cannot be closed; sums of a stack of them stay within int32.
NEVER = 1 << 24


class Edge(NamedTuple):
    """In state `state` the automaton may read each of `tokens`, which leads to `to`.

    Attributes:
      op: NONE, PUSH (`back` is the state after the node is closed), POP (`to` is not used), NEXT.
      token_type: type of the token there.
      given: the tokens may be read there but are never generated.
    """

    state: str
    tokens: Collection[int]
    to: str = ""
    op: int = NONE
    back: str = ""
    token_type: int = 0
    given: bool = False


def build(
    vocab_size: int,
    edges: Sequence[Edge],
    start: str,
    accept: Collection[str],
    *,
    given: Collection[int] = (),
    arity: Mapping[int, tuple[int, int]] | None = None,
    placed: Collection[str] = (),
    max_depth: int = 0,
    max_width: int = 0,
    counted: Sequence[bool] | None = None,
    recalled: Collection[int] = (),
    answer: str = "",
) -> Grammar:
    """The tables of an automaton with these edges. Tokens that behave alike share a class.

    Args:
      vocab_size: V with padding; a token without an edge can never be read.
      start, accept: names of states.
      given: tokens that may be read but are never generated, in any state.
      arity: token → least and most children of the node that it opens; by default 0 … max_width.
      placed: states whose token stands in a tree.
      max_depth, max_width: D and W.
      counted: see `Grammar`; all by default.
      recalled: tokens that may be generated only after they have been read, each in a class of its own.
      answer: name of the state in which answers begin, if they have one.

    Raises:
      ValueError: two edges for one token in one state, an edge to an unknown state, or no way to an end.
    """
    names = list(dict.fromkeys([start, *filter(None, [answer]), *(edge.state for edge in edges)]))
    names += [name for edge in edges for name in (edge.to, edge.back) if name]
    names = list(dict.fromkeys([*names, *accept, *placed]))
    index_of = {name: i for i, name in enumerate(names)}

    edge_VS = np.full((vocab_size, len(names)), -1, np.int32)
    for i, edge in enumerate(edges):
        if (edge.op == PUSH and not edge.back) or (edge.op != POP and not edge.to):
            raise ValueError(f"edge {i} from {edge.state!r} does not say where it leads")
        tokens = np.fromiter(edge.tokens, np.int64)
        column = edge_VS[:, index_of[edge.state]]
        if len(taken := tokens[column[tokens] >= 0]):
            raise ValueError(f"state {edge.state!r} has two edges for token {taken[0]}")
        column[tokens] = i

    least_V = np.zeros(vocab_size, np.int32)
    most_V = np.full(vocab_size, max_width, np.int32)
    for token, (least, most) in (arity or {}).items():
        least_V[token], most_V[token] = least, min(most, max_width)
    given_V = np.zeros(vocab_size, np.int32)
    given_V[list(given)] = 1
    recalled_V = np.zeros(vocab_size, np.int32)
    recalled_V[list(recalled)] = np.arange(1, len(recalled) + 1)
    rows_VX = np.column_stack([edge_VS, recalled_V, given_V, least_V, most_V])
    rows_VX[(edge_VS < 0).all(axis=1)] = dead = [-1] * rows_VX.shape[1]
    # The dead row comes first, so that class 0 can never be read, even if no token is dead.
    kinds_CX, class_of = _find_distinct(np.vstack([dead, rows_VX]))
    edge_SC = kinds_CX[:, : len(names)].T

    def table(values: Sequence[int], default: int) -> np.ndarray:
        return np.asarray([*values, default], np.int32)[edge_SC]

    grammar = Grammar(
        class_of=class_of[1:].astype(np.int32),
        next_state=table([index_of.get(e.to, 0) for e in edges], -1),
        stack_op=table([e.op for e in edges], NONE),
        return_state=table([index_of.get(e.back, 0) for e in edges], 0),
        token_type=table([e.token_type for e in edges], 0),
        placed=np.asarray([name in placed for name in names]),
        given=(table([e.given for e in edges], 0) > 0) | (kinds_CX[:, -3] > 0),
        least_children=np.maximum(kinds_CX[:, -2], 0).astype(np.int32),
        most_children=np.maximum(kinds_CX[:, -1], 0).astype(np.int32),
        close_cost=np.zeros((len(names), 1, max_width + 1, max_depth + 1), np.int32),
        end_cost=np.zeros(len(names), np.int32),
        start=np.asarray(index_of[start], np.int32),
        accept=np.asarray([name in accept for name in names]),
        recalled=kinds_CX[:, -4] > 0,
        counted=np.ones(max_depth + 1, bool) if counted is None else np.asarray(counted, bool),
        answer=np.asarray(index_of[answer] if answer else -1, np.int32),
    )
    grammar = grammar._replace(close_cost=_compute_close_cost(grammar))
    grammar = grammar._replace(end_cost=_compute_end_cost(grammar))
    for name in filter(None, (start, answer)):
        if grammar.end_cost[index_of[name]] >= NEVER:
            raise ValueError(f"no text from state {name!r} can ever end within depth {max_depth}, width {max_width}")
    return grammar


def _find_distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct rows in lexicographic order, index of each row among them).

    It works column by column: for 50,000 rows this is many times faster than sorting whole rows.
    """
    code = np.zeros(len(rows), np.int64)
    first = np.zeros(1, np.int64)
    for column in rows.T.astype(np.int64):
        span = int(column.max() - column.min()) + 1
        _, first, code = np.unique(code * span + column - column.min(), return_index=True, return_inverse=True)
    return rows[first], code


def _list_moves(grammar: Grammar) -> np.ndarray:
    """The moves of a decoder, [M, 6]: state, op, next state, return state, least and most children."""
    # Recalled tokens are left out: they may not have been shown.
    s, c = np.nonzero((grammar.next_state >= 0) & ~grammar.given & ~grammar.recalled)
    moves = [s, grammar.stack_op[s, c], grammar.next_state[s, c], grammar.return_state[s, c]]
    moves += [grammar.least_children[c], grammar.most_children[c]]
    return np.unique(np.column_stack(moves), axis=0)


def _compute_close_cost(grammar: Grammar) -> np.ndarray:
    """`Grammar.close_cost` by dynamic programming: children are counted against the node's room, and opened nodes
    against the depth; moves that change neither are relaxed until nothing improves."""
    moves = _list_moves(grammar)
    n_states, width, depth = len(grammar.accept), grammar.max_width, grammar.max_depth
    lacks = int(grammar.least_children.max(initial=0)) + 1
    cost = np.full((n_states, lacks, width + 1, depth + 1), NEVER, np.int32)
    if not (moves[:, 1] == PUSH).any():
        return cost
    fewer = np.maximum(np.arange(lacks) - 1, 0)
    by_op = {op: moves[moves[:, 1] == op].T for op in (NONE, NEXT, POP, PUSH)}
    for d in range(depth + 1):
        for w in range(width + 1):
            best = np.full((n_states, lacks), NEVER, np.int32)
            best[by_op[POP][0], 0] = 1
            if w:
                s, _, to = by_op[NEXT][:3]
                np.minimum.at(best, s, 1 + cost[to, :, w - 1, d][:, fewer])
            if w and d:
                s, _, to, back, least, most = by_op[PUSH]
                node = cost[to, least, np.minimum(most, width), d - 1]
                np.minimum.at(best, s, 1 + node[:, None] + cost[back, :, w - 1, d][:, fewer])
            s, _, to = by_op[NONE][:3]
            while True:
                previous = best.copy()
                np.minimum.at(best, s, 1 + best[to])
                if (best == previous).all():
                    break
            cost[:, :, w, d] = np.minimum(best, NEVER)
    return cost


def _compute_end_cost(grammar: Grammar) -> np.ndarray:
    """`Grammar.end_cost`: shortest paths at an empty stack, where a whole tree is one step."""
    moves = _list_moves(grammar)
    cost = np.where(grammar.accept, 0, NEVER).astype(np.int32)
    s, op, to, back, least, most = moves[np.isin(moves[:, 1], (NONE, PUSH))].T
    node = np.zeros(len(s), np.int32)
    opens = op == PUSH
    free = grammar.max_depth - 1
    node[opens] = NEVER if free < 0 else grammar.close_cost[to[opens], least[opens], most[opens], free]
    while True:
        previous = cost.copy()
        np.minimum.at(cost, s, np.minimum(1 + node + cost[np.where(opens, back, to)], NEVER))
        if (cost == previous).all():
            return cost
