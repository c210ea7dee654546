"""The automaton of `types.Grammar` on the host: steps, runs over gold sequences, validates.

`text/grammar/tables.py` makes the tables, `decode/grammar.py` is the same automaton on device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from numjax.text.grammar.tables import NEVER
from numjax.types import NEXT, NO_NEXT, NO_POP, NO_PUSH, NONE, POP, TREE_POSITIONS, TYPES, Grammar


class OpenNode(NamedTuple):
    """An open node of the stack.

    Attributes:
      back: the state after it is closed. count: its children so far. lacking: children that it still needs.
      room: children that it may still have. pending: least number of tokens that end the text once it is closed.
    """

    back: int
    count: int
    lacking: int
    room: int
    pending: int


class Configuration(NamedTuple):
    """Where the automaton stands: its state, its stack and the pointers it has seen. Immutable: a beam may keep
    several."""

    state: int
    stack: tuple[OpenNode, ...] = ()
    shown: frozenset[int] = frozenset()  # recalled classes (see `Grammar.recalled`) that it has read


class Trace(NamedTuple):
    """A sequence as the automaton reads it.

    Attributes:
      states: int32[T + 1], where it stands before each token and after the last (see `Automaton.code`); −1 after an
        error.
      types: int32[T], or None when the grammar has only type 0.
      tree_positions: int32[T, D + 1], or None when the grammar has no trees; −1 below a node and in text.
      error: the token that the automaton cannot read and where, or None.
      place: where it stands after the last token it could read.
    """

    states: np.ndarray
    types: np.ndarray | None
    tree_positions: np.ndarray | None
    error: str | None
    configuration: Configuration

    @property
    def channels(self) -> dict[str, np.ndarray]:
        """The types and tree positions that it has, by the names of their channels."""
        arrays = {TYPES.name: self.types, TREE_POSITIONS.name: self.tree_positions}
        return {name: values for name, values in arrays.items() if values is not None}


class Illegal(ValueError):
    """A token that cannot be read where it stands."""


class Automaton:
    """Steps over a grammar's tables with an explicit stack."""

    def __init__(self, grammar: Grammar):
        self.grammar = grammar
        self._class_of = grammar.class_of
        self._next = grammar.next_state.tolist()
        self._op = grammar.stack_op.tolist()
        self._back = grammar.return_state.tolist()
        self._least = grammar.least_children.tolist()
        self._most = grammar.most_children.tolist()
        self._given = grammar.given.tolist()
        self._counts = grammar.counted.tolist()
        self._recalled = grammar.recalled.tolist()
        self._placed = grammar.placed.tolist()
        self._has_trees, self._has_types = bool(grammar.placed.any()), bool(grammar.token_type.any())

    def start(self, source: Iterable[int] = ()) -> Configuration:
        """The configuration before the first token; `source`: ids of the encoder's input."""
        classes = {int(self._class_of[token]) for token in source}
        return Configuration(int(self.grammar.start), (), frozenset(c for c in classes if self._recalled[c]))

    def step(self, configuration: Configuration, token: int) -> Configuration:
        """The configuration after it reads a token.

        Raises:
          Illegal: the token cannot be read there.
        """
        legal = 0 <= token < len(self._class_of)
        return self._step_class(configuration, int(self._class_of[token]) if legal else 0)

    def accepts(self, configuration: Configuration) -> bool:
        """Whether a text may end here."""
        return not configuration.stack and bool(self.grammar.accept[configuration.state])

    def cost(self, configuration: Configuration) -> int:
        """Least number of tokens after which the text may end; at least NEVER if it never can."""
        return self._cost(configuration.state, configuration.stack)

    def classes(self, configuration: Configuration, remaining: int | None = None) -> np.ndarray:
        """Classes that may be generated, bool[C].

        Args:
          remaining: tokens that still fit, this one included; a class is forbidden if the text could not end within
            them. None for no limit.
        """
        limit = NEVER - 1 if remaining is None else remaining - 1
        allowed = np.zeros(len(self._least), bool)
        for c, given in enumerate(self._given[configuration.state]):
            if (
                given
                or self._next[configuration.state][c] < 0
                or (self._recalled[c] and c not in configuration.shown)
            ):
                continue
            try:
                allowed[c] = self.cost(self._step_class(configuration, c)) <= limit
            except Illegal:
                continue
        return allowed

    def allowed(self, configuration: Configuration, remaining: int | None = None) -> np.ndarray:
        """Tokens that may be generated, bool[V]."""
        return self.classes(configuration, remaining)[self._class_of]

    def code(self, configuration: Configuration) -> int:
        """state + S · what the stack forbids there: the index by which training masks are gathered."""
        if not configuration.stack:
            return configuration.state
        top, deep = configuration.stack[-1], len(configuration.stack) == self.grammar.max_depth
        forbids = NO_PUSH * (deep or not top.room) + NO_NEXT * (not top.room) + NO_POP * bool(top.lacking)
        return configuration.state + len(self._next) * forbids

    def tree_position(self, configuration: Configuration) -> tuple[int, ...]:
        """Child index at each level of the next token, the root's first; empty in text."""
        return (0, *(node.count for node in configuration.stack)) if self._placed[configuration.state] else ()

    def run(self, ids: Sequence[int] | np.ndarray) -> Trace:
        """The trace of a sequence from the start; after the first token that cannot be read the states are −1.

        It is also an error if the text may not end where the sequence ends.
        """
        grammar = self.grammar
        ids_T = np.asarray(ids, np.int64)
        is_known = (ids_T >= 0) & (ids_T < len(grammar.class_of))
        classes = np.where(is_known, grammar.class_of[np.where(is_known, ids_T, 0)], 0)
        states = np.full(len(ids) + 1, -1, np.int32)
        states[0] = grammar.start
        positions = np.full((len(ids), grammar.max_depth + 1), -1, np.int32) if self._has_trees else None
        if grammar.max_depth == 0 and positions is None:
            configuration, error = self._run_flat(classes.tolist(), states)
        else:
            configuration, error = self.start(), None
            for t, c in enumerate(classes.tolist()):
                if positions is not None and (at := self.tree_position(configuration)):
                    positions[t, : len(at)] = at
                try:
                    configuration = self._step_class(configuration, c)
                except Illegal as illegal:
                    error = f"token {t} (id {ids[t]}): {illegal}"
                    break
                states[t + 1] = self.code(configuration) if configuration.stack else configuration.state
        types = None
        if self._has_types:
            at = states[:-1] % len(grammar.accept)
            types = np.where(states[1:] >= 0, grammar.token_type[at, classes], 0).astype(np.int32)
        if error is None and not self.accepts(configuration):
            error = (
                f"the text may not end after its {len(ids)} tokens: it takes {self.cost(configuration)} more at least"
            )
        return Trace(states, types, positions, error, configuration)

    def _run_flat(self, classes: list[int], states: np.ndarray) -> tuple[Configuration, str | None]:
        """As `run`, for a grammar without a stack: a walk through one table, about 50 ns a token."""
        table, state = self._next, int(self.grammar.start)
        walk = []
        for t, c in enumerate(classes):
            to = table[state][c]
            if to < 0:
                states[1 : t + 1] = walk
                return Configuration(state), f"token {t}: no token of its kind may stand in state {state}"
            walk.append(state := to)
        states[1:] = walk
        return Configuration(state), None

    def _step_class(self, configuration: Configuration, c: int) -> Configuration:
        state, stack, shown = configuration
        if self._recalled[c]:
            shown = shown | {c}
        to, op = self._next[state][c], self._op[state][c]
        if to < 0:
            raise Illegal(f"no token of its kind may stand in state {state}")
        if op == NONE:
            return Configuration(to, stack, shown)
        if op == NEXT:
            return Configuration(to, self._count_child(stack), shown)
        if op == POP:
            if not stack:
                raise Illegal("no node is open")
            if stack[-1].lacking:
                raise Illegal(f"the open node lacks {stack[-1].lacking} children")
            return Configuration(stack[-1].back, self._close_node(stack[:-1]), shown)
        if len(stack) == self.grammar.max_depth:
            raise Illegal(f"nodes are {len(stack)} deep already")
        back = self._back[state][c]
        # The parent counts the node when it is closed; the cost after that is already fixed.
        if stack and not stack[-1].room:
            raise Illegal(f"the open node has {stack[-1].count} children already")
        pending = self._cost(back, self._close_node(stack))
        return Configuration(to, (*stack, OpenNode(back, 0, self._least[c], self._most[c], pending)), shown)

    def _close_node(self, stack: tuple[OpenNode, ...]) -> tuple[OpenNode, ...]:
        """The stack after a node above it is closed."""
        return self._count_child(stack) if stack and self._counts[len(stack)] else stack

    def _count_child(self, stack: tuple[OpenNode, ...]) -> tuple[OpenNode, ...]:
        if not stack:
            raise Illegal("no node is open")
        top = stack[-1]
        if not top.room:
            raise Illegal(f"the open node has {top.count} children already")
        top = top._replace(count=top.count + 1, lacking=max(top.lacking - 1, 0), room=top.room - 1)
        return (*stack[:-1], top)

    def _cost(self, state: int, stack: tuple[OpenNode, ...]) -> int:
        if not stack:
            return int(self.grammar.end_cost[state])
        top, free = stack[-1], self.grammar.max_depth - len(stack)
        return min(int(self.grammar.close_cost[state, top.lacking, top.room, free]) + top.pending, NEVER)


def run(grammar: Grammar, ids: Sequence[int] | np.ndarray) -> Trace:
    """`Automaton.run` for a single sequence."""
    return Automaton(grammar).run(ids)


def validate(grammar: Grammar, ids: Sequence[int] | np.ndarray) -> str | None:
    """None for a complete text of the grammar, else one line that says what is wrong and where."""
    return run(grammar, ids).error


def make_answer_grammar(grammar: Grammar) -> Grammar:
    """The same grammar, but it starts where an answer begins (see `Grammar.answer`).

    Raises:
      ValueError: the grammar has no state for answers.
    """
    if grammar.answer < 0:
        raise ValueError("the grammar has no state in which answers begin")
    return grammar._replace(start=np.asarray(grammar.answer))


def digest(grammar: Grammar) -> str:
    """A short hash of the tables, which checkpoints store to detect other tables."""
    total = hashlib.sha256()
    for name, field in zip(Grammar._fields, grammar, strict=True):
        array = np.asarray(field)
        total.update(f"{name} {array.dtype.kind} {array.shape}".encode() + array.astype(np.int64).tobytes())
    return total.hexdigest()[:16]
