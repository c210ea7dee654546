"""Numbers in groups of up to four digits, each a symbol (Singh and Strouse 2024, arXiv 2402.14903)."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import digits
from numjax.text.base import EOS, RowBuilder
from numjax.text.digits import CLOSE, COMPLETE, DIGITS_ONLY, KINDS, OPEN, SPELLING
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Document, Grammar, Mark, Number, Segment

DIRECTIONS = ("r2l", "l2r")
_RUN = re.compile(r"(?P<point>(?<=\.))?(?P<digits>[0-9]+)|[^0-9]")  # digits, perhaps behind a point, or a character
_DIGITS = frozenset("0123456789")

# What the last symbol was → (what a full group, what a shorter one makes of it; "" where none may come next).
_GROUPING = {
    "start": ("full", "short"),  # a whole number from the right: only its first group may be short
    "full": ("full", ""),
    "short": ("full", ""),
    "left": ("left full", "end"),  # from the left: only its last group may be short
    "left full": ("left full", "end"),
    "end": ("", ""),
}


class Scheme(digits.Scheme):
    """1234567 is 1 234 567: each run of digits of a number is written in symbols of up to `size` digits.

    The symbols are all runs of digits with leading zeros, 10 + 100 + … + 10^size, and no text spells them. Other
    characters of a number, and digits that are no number, are the vocabulary's. So every surface is restored exactly.

    Over a vocabulary that drops blanks (WordPiece), "12 34" would run together: there each number stands between [F]
    and [/F].
    """

    marks = ()
    digit_tokens = False

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        size: int = 3,
        direction: str = "r2l",
    ):
        """
        Args:
          size: most digits of a group, 1 to 4.
          direction: "r2l": whole numbers are grouped from the right, so that a digit's place in its group is that of
            the number. "l2r": from the left, as GPT-3.5 and GPT-4 have it. Digits behind a point are always grouped
            from the point on.

        Raises:
          UsageError: an option has another value.
        """
        if not 1 <= size <= 4:
            raise UsageError(f"chunks: size must be from 1 to 4, not {size}")
        if direction not in DIRECTIONS:
            raise UsageError(f"chunks: direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
        self.size, self.direction = size, direction
        self._groups = tuple(tuple(f"{i:0{n}}" for i in range(10**n)) for n in range(1, size + 1))
        self._is_fenced = not vocab.exact
        super().__init__(vocab, rules, pad_multiple, layout="digits" if self._is_fenced else "plain", until="")
        self._name_of = {self.vocab.mark(name): name for group in self._groups for name in group}

    def _list_marks(self) -> tuple[str, ...]:
        names = tuple(name for group in self._groups for name in group)
        return (*names, OPEN, CLOSE) if self._is_fenced else names

    def abilities(self) -> Abilities:
        """Groups keep every digit, over any vocabulary."""
        return super().abilities()._replace(exact=True, keeps_format=True)

    def aggregation(self) -> dict[str, Any]:
        """Empty: a digit is no token of its own."""
        return {}

    def split_digits(self, digits: str, is_fraction: bool = False) -> list[str]:
        """The groups of a run of digits."""
        head = 0 if is_fraction or self.direction == "l2r" else len(digits) % self.size
        tail = [digits[i : i + self.size] for i in range(head, len(digits), self.size)]
        return [digits[:head], *tail] if head else tail

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. Without fences the rules find the numbers in the text again; see `digits.Scheme`."""
        if self._is_fenced:
            return super().decode(ids, numbers)
        segments: list[Segment] = []
        for run in self._split_runs(ids):
            segments += [Mark(run)] if isinstance(run, str) else self.parse(self._read_text(run))
        return tuple(segments)

    def _split_runs(self, ids: Sequence[int], texts: Container[int] = ()) -> Iterator[str | list[int]]:
        """As in the base, but groups of digits stay in the runs of text."""
        return super()._split_runs(ids, texts or self._name_of)

    def _read_text(self, ids: Sequence[int]) -> str:
        text, pending = "", []
        for token in ids:
            if token in self._name_of:
                text += self.vocab.decode(pending) + self._name_of[token]
                pending = []
            else:
                pending.append(token)
        return text + self.vocab.decode(pending)

    def _read_spelling(self, fence: str, ids: Sequence[int]) -> str:
        del fence
        return self._read_text(ids).replace(" ", "")  # between words, which its characters are for WordPiece

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        index = len(row.numbers) - 1
        if self._is_fenced:
            row.add([self.vocab.mark(OPEN)])
        for match in _RUN.finditer(number.surface):
            if match["digits"]:
                groups = self.split_digits(match["digits"], match["point"] is not None)
                row.add([self.vocab.mark(name) for name in groups], index)
            else:
                row.add(self._spell(match[0]), index)
        if self._is_fenced:
            row.add([self.vocab.mark(CLOSE)])

    def _make_grammar(self) -> Grammar:
        if self._is_fenced:
            return super()._make_grammar()
        edges, given_marks = self._text_edges()
        *short, full = ([self.vocab.mark(name) for name in group] for group in self._groups)
        shorter = [i for group in short for i in group]
        # A shorter group may begin a run of digits (a whole number), or end it (a fraction).
        states = {
            "text": {"full": full, "short first": shorter},
            "full": {"full": full, "short last": shorter},
            "short first": {"full": full},
            "short last": {},
        }
        begins = list(edges)
        for state, row in states.items():
            edges += [edge._replace(state=state) for edge in begins if state != "text"]
            edges += [Edge(state, tokens, to) for to, tokens in row.items() if tokens]
        return self._tables(edges, (*states, "end"), given=given_marks)

    def _fence_edges(self) -> list[Edge]:
        moves = {state: {KINDS[kind]: to for kind, to in row.items()} for state, row in SPELLING.items()}
        first, edges, ends = self._grouped_edges(moves, COMPLETE)
        if self.rules not in DIGITS_ONLY:
            edges += self._word_edges(edges)
            ends = [*ends, "words"]
        edges.append(Edge("text", [self.vocab.mark(OPEN)], first))
        return edges + [Edge(state, [self.vocab.mark(CLOSE)], "text") for state in ends]

    def _answer_edges(self) -> list[Edge]:
        first, edges, ends = self._grouped_edges(answers.number_moves(), answers.complete_states())
        edges += answers.path_edges(answers.START, self._spell(" "), first)
        return edges + [Edge(state, [self.vocab.mark(EOS)], "end") for state in ends]

    def _grouped_edges(self, moves: answers.Moves, complete: Iterable[str]) -> tuple[str, list[Edge], list[str]]:
        """(first state, edges, states in which a number may end): the texts of `moves`, with their digits in groups.

        A state is one of `moves` with one of `_GROUPING`.
        """
        steps = {state: {c: to for kind, to in row.items() for c in kind} for state, row in moves.items()}
        start = "start" if self.direction == "r2l" else "left"
        waiting = [(next(iter(moves)), start)]
        reached, characters, edges = set(waiting), {}, []
        while waiting:
            state, grouping = waiting.pop()
            targets: dict[tuple[str, str], list[int]] = {}
            for group in self._groups:
                is_short = len(group[0]) < self.size
                if not (behind := _GROUPING[grouping][is_short]):
                    continue
                for name in group:
                    if to := functools.reduce(lambda at, digit: steps.get(at, {}).get(digit, ""), name, state):
                        targets.setdefault((to, behind), []).append(self.vocab.mark(name))
            edges += [Edge(f"{state}, {grouping}", tokens, ", ".join(to)) for to, tokens in targets.items()]
            others = {
                character: (to, "left" if character == "." else start)
                for character, to in steps.get(state, {}).items()
                if character not in _DIGITS
            }
            characters[f"{state}, {grouping}"] = {character: ", ".join(to) for character, to in others.items()}
            new = {*targets, *others.values()} - reached
            reached |= new
            waiting += sorted(new)
        edges += answers.spelling_edges(characters, self._spell)
        ends = [f"{state}, {grouping}" for state, grouping in sorted(reached) if state in set(complete)]
        return f"{next(iter(moves))}, {start}", edges, ends
