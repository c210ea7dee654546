"""Numbers spelled character by character, optionally between [F] and [/F] and beside an [AGG] or a [PAUSE]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numjax import numeral
from numjax.errors import UsageError
from numjax.protocols import Told
from numjax.text import answers
from numjax.text import document as documents
from numjax.text.base import EOS, BaseScheme, Row
from numjax.text.base_vocabulary import BaseVocabulary
from numjax.text.tables import Edge
from numjax.types import Document, Grammar, Mark, Number, Segment, Text

OPEN, CLOSE = "[F]", "[/F]"
AGG, PAUSE = "[AGG]", "[PAUSE]"

AGG_FIRST = (
    "[AGG] would stand in what is to be written, before its digits are known: name the mark that answers stand "
    "behind with config.scheme.until, or choose config.scheme.layout=digits"
)

# Layout → (what stands before the digits, what behind them), between [F] and [/F]; plain has no marks.
LAYOUTS = {"plain": ("", ""), "digits": ("", ""), "agg": (AGG, ""), "agg_after": ("", AGG), "pause": (PAUSE, "")}

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
    the bytes of another one. Positions of [F], [/F] and [PAUSE] belong to no number, [AGG] to the one beside it."""

    marks = (OPEN, CLOSE)
    forms = answers.NUMBERS
    digit_tokens = True

    def __init__(
        self,
        vocab: Told[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        layout: str = "plain",
        until: str = "[SEP]",
    ):
        """
        Args:
          layout: "plain": the number's characters alone. "digits": between [F] and [/F], and the grammar holds what
            is between them to the form of a number. "agg": [F] [AGG] d…d [/F] (digit aggregation, section 4.1), where
            an embedding puts the aggregate of the digits; "agg_after": [F] d…d [AGG] [/F]; "pause": [F] [PAUSE] d…d
            [/F], a mark with a vector of its own (section 7).
          until: numbers behind this mark are answers, laid out as by "digits": what is to be written has no aggregate
            yet. With "" every number has the layout, and [PAUSE] is written too; [AGG] never is: a text to be written
            that would hold one is refused (`unwritten`).

        Raises:
          UsageError: there is no such layout.
        """
        if layout not in LAYOUTS:
            raise UsageError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
        self.layout, self.until = layout, until
        if layout not in ("plain", "digits") or not vocab.exact:  # its digits are words of their own
            self.forms = ("text",)
        self.before, self.behind = LAYOUTS[layout]
        self.marks = (OPEN, CLOSE, *filter(None, LAYOUTS[layout]))
        super().__init__(vocab, rules, pad_multiple)
        self.fenced = layout != "plain"
        # Id → why a text to be written may not hold it: an [AGG] read while training would give its digits away.
        self.unwritten = {self.vocab.mark(AGG): AGG_FIRST} if AGG in self.marks else {}
        self._spelled: dict[str, list[int]] = {}

    def aggregation(self) -> dict[str, Any]:
        """What embeddings and objectives that aggregate digits must know: {"digit_ids": of 0 … 9, "agg_id": of [AGG],
        or None}; empty where a digit is no token of its own."""
        spelled = [self._spell(digit) for digit in "0123456789"]
        if any(len(ids) != 1 for ids in spelled):
            return {}
        agg_id = self.vocab.mark(AGG) if AGG in self.marks else None
        return {"digit_ids": tuple(ids[0] for ids in spelled), "agg_id": agg_id}

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
            run = runs[at]
            inner, end = self._inner(runs, at + 1) if run == OPEN else (None, 0)
            at += 1
            if isinstance(run, list):
                segments.append(Text(self.vocab.decode(run)))
            elif inner is not None:
                segments.append(self._read_number(self.vocab.decode(inner), next(left, None)))
                at = end
            else:
                segments.append(Mark(run))
        return documents.merge(segments)

    def _inner(self, runs: Sequence[str | list[int]], at: int) -> tuple[list[int] | None, int]:
        """(what is between the [F] before `at` and its [/F], and where the text goes on), or (None, 0)."""
        rest = list(runs[at : at + 4])
        if self.before and rest[:1] == [self.before]:
            rest.pop(0)
            at += 1
        inner = rest.pop(0) if rest else None
        if self.behind and rest[:1] == [self.behind]:
            rest.pop(0)
            at += 1
        return (inner, at + 2) if isinstance(inner, list) and rest[:1] == [CLOSE] else (None, 0)

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
            edges.append(Edge("text", [self.vocab.mark(OPEN)], "open" if self.before else "first"))
            edges += self._number_edges()
        return self._tables(edges, ("text", "end"), given=given)

    def _answer_edges(self) -> list[Edge]:
        end, numbers = [self.vocab.mark(EOS)], answers.number()
        first, blank = next(iter(numbers)), self._spell(" ")
        edges = answers.spelled(numbers, self._spell)
        if not self.fenced:
            edges += answers.path(answers.START, blank, first)
            return [*edges, *(Edge(state, end, "end") for state in answers.complete())]
        edges += answers.path(answers.START, [*blank, self.vocab.mark(OPEN)], first)
        edges += [Edge(state, [self.vocab.mark(CLOSE)], "answered") for state in answers.complete()]
        return [*edges, Edge("answered", end, "end")]

    def _number_edges(self) -> list[Edge]:
        """The spelling of numbers, character by character, over the ids that spell them."""
        spelling = SPELLING | ({"open": SPELLING["first"]} if self.before else {})
        moves = {state: {KINDS[kind]: to for kind, to in row.items()} for state, row in spelling.items()}
        edges = answers.spelled(moves, self._spell)
        complete = COMPLETE
        if self.rules not in DIGITS_ONLY:
            edges += self._word_edges(edges)
            complete = (*COMPLETE, "words")
        close = [self.vocab.mark(CLOSE)]
        edges += [Edge(state, close, "text") for state in complete]
        # With `until` the mark is read in prompts and never written; [AGG] never is.
        given = bool(self.until or self.unwritten)
        if self.before:
            edges.append(Edge("open", [self.vocab.mark(self.before)], "first", given=given))
        if self.behind:
            edges += [Edge(state, [self.vocab.mark(self.behind)], "closing", given=given) for state in complete]
            edges.append(Edge("closing", close, "text"))
        return edges

    def _word_edges(self, edges: Sequence[Edge]) -> list[Edge]:
        """From everywhere in a number, what the spelling of digits does not take leads to words."""
        taken: dict[str, set[int]] = {"words": set()}
        for edge in edges:
            taken.setdefault(edge.state, set()).update(edge.tokens)
        return [Edge(s, [i for i in self.text_ids if i not in ids], "words") for s, ids in taken.items()]

    def _write_number(self, number: Number, row: Row) -> None:
        index = len(row.numbers) - 1
        before, behind = (self.before, self.behind) if self._asks(row) else ("", "")
        if self.fenced:
            row.add([self.vocab.mark(OPEN)])
        if before:
            row.add([self.vocab.mark(before)], index if before == AGG else -1)
        for character in number.surface:
            row.add(self._spell(character), index)
        if behind:
            row.add([self.vocab.mark(behind)], index)
        if self.fenced:
            row.add([self.vocab.mark(CLOSE)])

    def _asks(self, row: Row) -> bool:
        """Whether what comes next is still before the mark that answers stand behind."""
        return not self.until or self.vocab.mark(self.until) not in row.ids

    def _spell(self, character: str) -> list[int]:
        if character not in self._spelled:
            self._spelled[character] = self.vocab.encode(character)
        return self._spelled[character]
