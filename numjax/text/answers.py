"""The form of an answer: what may be written behind a prompt where a task asks for one number, or for one formula.

The prompt is free text; the answer is a blank, one number and [EOS], or one formula (`tree_grammar.edges`) and [EOS].
A number that is spelled has digits, perhaps a minus before them and one point among them, and no zeros in front, so
that every set of numeral rules reads one number in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from numjax.text.base_vocabulary import BaseVocabulary
from numjax.text.tables import Edge

FORMS = ("text", "number", "formula")  # text: whatever the scheme writes
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


def number(prefix: str = "answer's ") -> Moves:
    """`NUMBER` under names of its own, beside other states."""
    return {prefix + at: {kind: prefix + to for kind, to in row.items()} for at, row in NUMBER.items()}


def complete(prefix: str = "answer's ") -> list[str]:
    """The states of `number` in which the number may end."""
    return [prefix + at for at in COMPLETE]


def path(state: str, ids: Sequence[int], to: str) -> list[Edge]:
    """Edges that read these ids, one after the other, and nothing else."""
    states = [state, *(f"{state} {i + 1} {to}" for i in range(len(ids) - 1)), to]
    return [Edge(at, [token], states[i + 1]) for i, (at, token) in enumerate(zip(states, ids, strict=False))]


def spelled(moves: Moves, spell: Callable[[str], Sequence[int]]) -> list[Edge]:
    """Edges over the ids that spell the characters one by one, several of a character through states between them.

    Args:
      spell: the ids of a character.
    """
    targets: dict[tuple[str, int], str] = {}
    for state, row in moves.items():
        for characters, to in row.items():
            for character in characters:
                *first, last = spell(character)
                at, read = state, ()
                for token in first:
                    read = (*read, token)
                    targets[at, token] = between = f"{state} {read}"
                    at = between
                targets[at, last] = to
    return [Edge(state, [token], to) for (state, token), to in targets.items()]


def in_pieces(moves: Moves, vocab: BaseVocabulary, ids: Iterable[int]) -> list[Edge]:
    """Edges over the pieces, of one character or several, all of whose characters may come next.

    Args:
      ids: of the pieces to choose from, all of which spell something.
    """
    steps = {state: {c: to for characters, to in row.items() for c in characters} for state, row in moves.items()}
    alphabet = {c for row in steps.values() for c in row}
    pieces = {i: vocab.bytes_of(i).decode("ascii", "replace") for i in ids}
    # Of a large vocabulary few pieces have these characters alone: the others need not be walked.
    pieces = {i: piece for i, piece in pieces.items() if alphabet.issuperset(piece)}
    edges = []
    for state in moves:
        ends: dict[str, list[int]] = {}
        for token, piece in pieces.items():
            end = functools.reduce(lambda at, c: steps.get(at, {}).get(c, ""), piece, state)
            if end:
                ends.setdefault(end, []).append(token)
        edges += [Edge(state, tokens, end) for end, tokens in ends.items()]
    return edges
