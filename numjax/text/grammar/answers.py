"""The form of an answer behind a prompt, if a task asks for one number or one formula.

The prompt is free text; the answer is a blank, one number and [EOS], or one formula (`trees.grammar`) and [EOS]. A
spelled number has digits, optionally a minus before them and one point among them, and no leading zeros, so that
every set of numeral rules reads it as one number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary

FORMS = ("text", "number", "formula")  # text: anything that the scheme writes
NUMBERS = FORMS[:2]  # of schemes that write numbers
START = "answer"  # the state in which an answer begins

Moves = Mapping[str, Mapping[str, str]]  # state → the characters that may come next → state

NUMBER: Moves = {
    "number": {"-": "signed", "0": "zero", "123456789": "whole"},
    "signed": {"0": "zero", "123456789": "whole"},
    "zero": {".": "point"},
    "whole": {"0123456789": "whole", ".": "point"},
    "point": {"0123456789": "part"},
    "part": {"0123456789": "part"},
}
COMPLETE = ("zero", "whole", "part")


def number_moves(prefix: str = "answer's ") -> Moves:
    """`NUMBER` with prefixed state names, so that they differ from other states."""
    return {prefix + state: {kind: prefix + to for kind, to in row.items()} for state, row in NUMBER.items()}


def complete_states(prefix: str = "answer's ") -> list[str]:
    """The states of `number_moves` in which the number may end."""
    return [prefix + state for state in COMPLETE]


def reverse(moves: Moves, complete: Iterable[str], name: str = "reversed") -> tuple[Moves, list[str]]:
    """(moves, complete states) of the automaton that reads every text of `moves` from its end to its beginning.

    Its states are sets of states of `moves`, whose first state begins a text; its own first state is `name`.
    """
    begin = next(iter(moves))
    backward: dict[str, dict[str, set[str]]] = {}  # state → character → the states before it
    for state, row in moves.items():
        for characters, to in row.items():
            for character in characters:
                backward.setdefault(to, {}).setdefault(character, set()).add(state)
    first = frozenset(complete)
    names, waiting = {first: name}, [first]
    reversed_moves: dict[str, dict[str, str]] = {}
    while waiting:
        states = waiting.pop()
        before: dict[str, set[str]] = {}
        for state in states:
            for character, sources in backward.get(state, {}).items():
                before.setdefault(character, set()).update(sources)
        targets: dict[frozenset[str], str] = {}  # → the characters that lead there
        for character, sources in before.items():
            targets[frozenset(sources)] = targets.get(frozenset(sources), "") + character
        for target in targets:
            if target not in names:
                names[target] = f"{name} {len(names)}"
                waiting.append(target)
        reversed_moves[names[states]] = {characters: names[target] for target, characters in targets.items()}
    return reversed_moves, [state_name for states, state_name in names.items() if begin in states]


def count_places(moves: Moves, complete: Iterable[str], most: int) -> tuple[Moves, list[str], list[str]]:
    """(moves, complete states, first states) of reversed numbers that say how many digits stand behind their point.

    From the first state k, exactly k digits come before the point; from the first state 0 there is no point, or more
    than `most` digits come before it.

    Args:
      moves, complete: those of `reverse`.
    """
    counted: dict[str, dict[str, str]] = {state: dict(row) for state, row in moves.items()}
    begin, ends = next(iter(moves)), list(complete)

    def name(state: str, wanted: int, read: int) -> str:
        return f"{state}, {read} of {wanted} read"

    waiting = [(begin, wanted, 0) for wanted in range(most + 1)]
    seen = set(waiting)
    while waiting:
        state, wanted, read = waiting.pop()
        row = counted[name(state, wanted, read)] = {}
        for characters, to in moves[state].items():
            digits = "".join(c for c in characters if c.isdigit())
            if digits and (not wanted or read < wanted):
                following = (to, wanted, min(read + 1, most + 1))
                row[digits] = name(*following)
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
            if "." in characters and read == (wanted or most + 1):
                row["."] = to
            if "-" in characters and not wanted:
                row["-"] = to
        if state in ends and not wanted:
            ends.append(name(state, wanted, read))
    return counted, ends, [name(begin, wanted, 0) for wanted in range(most + 1)]


def path_edges(state: str, ids: Sequence[int], to: str) -> list[Edge]:
    """Edges that read exactly these ids, one after the other."""
    states = [state, *(f"{state} {i + 1} {to}" for i in range(len(ids) - 1)), to]
    return [Edge(source, [token], states[i + 1]) for i, (source, token) in enumerate(zip(states, ids, strict=False))]


def blank_edges(ids: Sequence[int], to: str) -> tuple[list[Edge], str]:
    """(edges that read the blank before an answer, the state behind it): none, and the first state, where a
    vocabulary has no blank."""
    return (path_edges(START, ids, to), to) if ids else ([], START)


def fence_edges(state: str, marks: Sequence[int], to: str) -> list[Edge]:
    """Edges over the first of three marks, one or more of the second, and the third."""
    opening, inner, closing = marks
    first, behind = f"first mark before {to}", f"mark before {to}"
    edges = [Edge(state, [opening], first), Edge(first, [inner], behind), Edge(behind, [inner], behind)]
    return [*edges, Edge(behind, [closing], to)]


def spelling_edges(moves: Moves, spell: Callable[[str], Sequence[int]]) -> list[Edge]:
    """Edges over the ids that spell the characters one by one; several ids of a character pass through new states.

    Args:
      spell: the ids of a character; none if the vocabulary does not write it.
    """
    targets: dict[tuple[str, int], str] = {}
    for state, row in moves.items():
        for characters, to in row.items():
            for character in characters:
                if not (ids := spell(character)):
                    continue  # the vocabulary does not write it, such as WordPiece a blank
                *first, last = ids
                current, prefix = state, ()
                for token in first:
                    prefix = (*prefix, token)
                    targets[current, token] = between = f"{state} {prefix}"
                    current = between
                targets[current, last] = to
    return [Edge(state, [token], to) for (state, token), to in targets.items()]


def piece_edges(moves: Moves, vocab: BaseVocabulary, ids: Iterable[int]) -> list[Edge]:
    """Edges over pieces of one or several characters that may all come next.

    Args:
      ids: the pieces to choose from; each spells something.
    """
    steps = {state: {c: to for characters, to in row.items() for c in characters} for state, row in moves.items()}
    alphabet = {c for row in steps.values() for c in row}
    pieces = {i: vocab.bytes_of(i).decode("ascii", "replace") for i in ids}
    # Few pieces of a large vocabulary have only these characters; the others need not be walked.
    pieces = {i: piece for i, piece in pieces.items() if alphabet.issuperset(piece)}
    edges = []
    for state in moves:
        ends: dict[str, list[int]] = {}
        for token, piece in pieces.items():
            end = functools.reduce(lambda current, c: steps.get(current, {}).get(c, ""), piece, state)
            if end:
                ends.setdefault(end, []).append(token)
        edges += [Edge(state, tokens, end) for end, tokens in ends.items()]
    return edges
