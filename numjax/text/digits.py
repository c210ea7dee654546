"""Numbers spelled character by character, optionally between [F] and [/F]."""

from __future__ import annotations

from collections.abc import Sequence

from numjax import numeral
from numjax.text import document as documents
from numjax.text import tables
from numjax.text.base import BaseScheme, Row
from numjax.text.tables import Edge
from numjax.text.vocab import BaseVocabulary
from numjax.types import Document, Grammar, Mark, Number, Segment, Text

OPEN, CLOSE = "[F]", "[/F]"

# Rules whose numbers are written in digits only; others may have words.
DIGITS_ONLY = ("default", "numgpt", "numtok", "digits")

KINDS = {
    "digit": "0123456789",
    "sign": "+-\u2212\u2013\ufe63\uff0d\uff0b",
    "point": ".",
    "group": ", '\u00a0\u2009\u202f\u2019_",
    "exponent": "eE",
    "before": "($€£¥₹₩₽¢",
    "after": ")%‰",
}

# state → kind of character → state, for any surface that the rules find: at most one point, a digit
# before the end, a sign only first (or after the exponent). "2." and ".5" are numbers.
SPELLING = {
    "first": {"sign": "signed", "digit": "whole", "point": "point", "before": "first"},
    "signed": {"digit": "whole", "point": "point", "before": "signed", "group": "signed"},
    "whole": {"digit": "whole", "point": "part", "group": "group", "exponent": "power", "after": "after"},
    "group": {"digit": "whole", "after": "after"},
    "point": {"digit": "part"},
    "part": {"digit": "part", "group": "gap", "exponent": "power", "after": "after"},
    "gap": {"digit": "part", "after": "after"},
    "power": {"sign": "power signed", "digit": "power digits"},
    "power signed": {"digit": "power digits"},
    "power digits": {"digit": "power digits", "group": "gap", "after": "after"},
    "after": {"after": "after", "group": "gap"},
}
COMPLETE = ("whole", "part", "power digits", "after")


class Scheme(BaseScheme):
    """A character of a number is a position: one of the characters that every vocabulary has as a piece, or
    the bytes of another one. Positions of [F] and [/F] belong to no number."""

    marks = (OPEN, CLOSE)

    def __init__(
        self,
        vocab: BaseVocabulary,
        rules: str = "default",
        pad_multiple: int = 128,
        marks: bool = False,
    ):
        """
        Args:
          marks: put each number between [F] and [/F] (digit aggregation), and let the grammar hold what
            is between them to the form of a number.
        """
        super().__init__(vocab, rules, pad_multiple)
        self.fenced = marks
        self._spelled: dict[str, list[int]] = {}

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """Without marks the numbers are found anew in the text. With marks each is what stands between [F]
        and [/F]; its value is that of the number given in its place, if it is written the same, else what
        the rules read; what they do not read as a number becomes text. A mark without its other half stays.
        """
        if not self.fenced:
            return self._decode_parsed(ids)
        left, runs = iter(numbers), list(self._runs(ids))
        segments: list[Segment] = []
        at = 0
        while at < len(runs):
            run, inner = runs[at], runs[at + 1] if at + 2 < len(runs) else None
            at += 1
            if isinstance(run, list):
                segments.append(Text(self.vocab.decode(run)))
            elif run == OPEN and isinstance(inner, list) and runs[at + 1] == CLOSE:
                segments.append(self._read_number(self.vocab.decode(inner), next(left, None)))
                at += 2
            else:
                segments.append(Mark(run))
        return documents.merge(segments)

    def _read_number(self, surface: str, given: Number | None) -> Number | Text:
        if given is not None and given.surface == surface:
            return given
        spans = numeral.find(surface, self.rules)
        if len(spans) == 1 and spans[0].text == surface:
            return Number(surface, spans[0].value)
        return Text(surface)

    def _make_grammar(self) -> Grammar:
        edges, given = self._text_edges()
        if self.fenced:
            edges.append(Edge("text", [self.vocab.mark(OPEN)], "first"))
            edges += self._number_edges()
        return tables.build(self.vocab_size, edges, "text", ("text", "end"), given=given)

    def _number_edges(self) -> list[Edge]:
        """The spelling of numbers, character by character, over the ids that spell them."""
        targets: dict[tuple[str, tuple[int, ...]], str] = {}
        for state, moves in SPELLING.items():
            for kind, to in moves.items():
                for character in KINDS[kind]:
                    *prefix, last = self._spell(character)
                    path: tuple[int, ...] = ()
                    at = state
                    for token in prefix:
                        path = (*path, token)
                        between = f"{state} {path}"
                        targets[at, (token,)] = between
                        at = between
                    targets[at, (last,)] = to
        edges = [Edge(state, tokens, to) for (state, tokens), to in targets.items()]
        close = [self.vocab.mark(CLOSE)]
        edges += [Edge(state, close, "text") for state in COMPLETE]
        if self.rules not in DIGITS_ONLY:
            edges += self._word_edges(edges)
            edges.append(Edge("words", close, "text"))
        return edges

    def _word_edges(self, edges: Sequence[Edge]) -> list[Edge]:
        """From everywhere in a number, what the spelling of digits does not take leads to words."""
        taken: dict[str, set[int]] = {"words": set()}
        for edge in edges:
            taken.setdefault(edge.state, set()).update(edge.tokens)
        return [Edge(s, [i for i in self.text_ids if i not in ids], "words") for s, ids in taken.items()]

    def _write_number(self, number: Number, row: Row) -> None:
        if self.fenced:
            row.add([self.vocab.mark(OPEN)])
        for character in number.surface:
            row.add(self._spell(character), len(row.numbers) - 1)
        if self.fenced:
            row.add([self.vocab.mark(CLOSE)])

    def _spell(self, character: str) -> list[int]:
        if character not in self._spelled:
            self._spelled[character] = self.vocab.encode(character)
        return self._spelled[character]
