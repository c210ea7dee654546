"""Numbers spelled character by character, optionally between [F] and [/F] and next to an [AGG], a [PAUSE] or their
value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax import numeral
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text.base import EOS, NUM, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Document, Grammar, Mark, Number, Segment, Text

OPEN, CLOSE = "[F]", "[/F]"
AGG, PAUSE = "[AGG]", "[PAUSE]"

REVEALING = (
    "{} would stand in the text to be written, and tell its digits before they are written: set config.scheme.until "
    "to the mark before answers, or config.scheme.layout=digits"
)

# Layout → (mark before the digits, mark behind them), between [F] and [/F]; plain has no marks.
LAYOUTS = {
    "plain": ("", ""),
    "digits": ("", ""),
    "agg": (AGG, ""),
    "agg_after": ("", AGG),
    "pause": (PAUSE, ""),
    "value": (NUM, ""),
    "value_after": ("", NUM),
    "value_alone": ("", ""),
}
# Layouts of given numbers in which [NUM] has the value.
VALUES = ("value", "value_after", "value_alone")

# Rules whose numbers are written only in digits; others may have words.
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

# State → kind of character → state, for any surface that the rules find: at most one point, a digit
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
    """Each character of a number is a position, or several for a character that the vocabulary spells in bytes.

    Positions of [F], [/F] and [PAUSE] belong to no number, [AGG] to the number next to it. Where [NUM] has the value
    of a number, only [NUM] belongs to it: an embedding of numbers acts there, and not on digits that are written.
    """

    marks = (OPEN, CLOSE)
    forms = answers.NUMBERS
    digit_tokens = True
    fences = {OPEN: CLOSE}

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        layout: str = "plain",
        until: str = "[SEP]",
        types: bool = False,
    ):
        """
        Args:
          layout: "plain": only the number's characters. "digits": between [F] and [/F], where the grammar enforces
            the form of a number. "agg": [F] [AGG] d…d [/F] (digit aggregation, section 4.1), where an embedding puts
            the aggregate of the digits; "agg_after": [F] d…d [AGG] [/F]; "pause": [F] [PAUSE] d…d [/F], a mark with a
            vector of its own (section 7). "value": [F] [NUM] d…d [/F], where [NUM] has the number's value (the
            value-aware prefix of arXiv 2601.09706); "value_after": [F] d…d [NUM] [/F] (as LUNA's AddBack);
            "value_alone": [NUM] without digits (as DICE), so that only answers are spelled.
          until: numbers behind this mark are answers and have the layout "digits", since an answer to be written has
            no aggregate and no value yet: what is known of it then is the vector of [F]. With "" every number has the
            layout, and the model writes [PAUSE] too. It never writes [AGG] or [NUM]: a target text that would hold
            one is refused (`unwritten`). All numbers behind an encoder's source are answers.

        Raises:
          UsageError: there is no such layout.
        """
        if layout not in LAYOUTS:
            raise UsageError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
        self.layout, self.until, self.hides_digits = layout, until, layout == "value_alone"
        if layout not in ("plain", "digits") or not vocab.exact:  # its digits are words of their own
            self.forms = ("text",)
        self.mark_before, self.mark_behind = LAYOUTS[layout]
        self.marks = self._list_marks()
        super().__init__(vocab, rules, pad_multiple, types)
        self.has_fences = layout != "plain"
        # Id → why a target text may not hold it: it would reveal the digits of its number during training.
        self.unwritten = {self.vocab.mark(m): REVEALING.format(m) for m in (AGG, NUM) if m in self.marks}
        self._spellings: dict[str, list[int]] = {}

    @classmethod
    def gives_values(cls, options: Mapping[str, Any]) -> bool:
        return options.get("layout") in VALUES

    def abilities(self) -> Abilities:
        """With value_alone the numbers that are given have no digits in the row."""
        abilities = super().abilities()
        return abilities._replace(keeps_format=abilities.keeps_format and not self.hides_digits)

    def _list_marks(self) -> tuple[str, ...]:
        return (OPEN, CLOSE, *((NUM,) if self.layout == "value_alone" else filter(None, LAYOUTS[self.layout])))

    def aggregation(self) -> dict[str, Any]:
        """The ids that digit aggregation needs: {"digit_ids": of 0 … 9, "agg_id": of [AGG], or None}; empty if a
        digit is no single token."""
        spellings = [self._spell(digit) for digit in "0123456789"]
        if any(len(ids) != 1 for ids in spellings):
            return {}
        agg_id = self.vocab.mark(AGG) if AGG in self.marks else None
        return {"digit_ids": tuple(ids[0] for ids in spellings), "agg_id": agg_id}

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row.

        Without marks, the rules find the numbers in the text again. With marks, a number is the text between [F] and
        [/F]. Its value is that of the matching number of `numbers` if the surfaces are equal, else the value that the
        rules read; a surface that they do not read as a number becomes text. A mark without its other half stays.
        """
        if not self.has_fences:
            return self._decode_parsed(ids)
        remaining, runs = iter(numbers), list(self._split_runs(ids))
        segments: list[Segment] = []
        index = 0
        while index < len(runs):
            run = runs[index]
            close = self.fences.get(run) if isinstance(run, str) else None
            inner, end = self._find_inner(runs, index + 1, close) if close else (None, 0)
            index += 1
            if isinstance(run, list):
                segments.append(Text(self.vocab.decode(run)))
            elif run == NUM and self.hides_digits:
                segments.append(next(remaining, Mark(NUM)))
            elif inner is not None:
                segments.append(self._parse_number(self._read_spelling(run, inner), next(remaining, None)))
                index = end
            else:
                segments.append(Mark(run))
        return documents.merge(segments)

    def _read_spelling(self, fence: str, ids: Sequence[int]) -> str:
        """The surface that the ids behind a fence spell."""
        del fence
        return self.vocab.decode(ids)

    def _find_inner(self, runs: Sequence[str | list[int]], index: int, close: str) -> tuple[list[int] | None, int]:
        """(ids between the fence before `index` and its closing mark, index of the run behind it), or (None, 0)."""
        rest = list(runs[index : index + 4])
        if self.mark_before and rest[:1] == [self.mark_before]:
            rest.pop(0)
            index += 1
        inner = rest.pop(0) if rest else None
        if self.mark_behind and rest[:1] == [self.mark_behind]:
            rest.pop(0)
            index += 1
        return (inner, index + 2) if isinstance(inner, list) and rest[:1] == [close] else (None, 0)

    def _parse_number(self, surface: str, number: Number | None) -> Number | Text:
        if number is not None and number.surface == surface:
            return number
        spans = numeral.find(surface, self.rules)
        if len(spans) == 1 and spans[0].text == surface:
            return Number(surface, spans[0].value)
        return Text(surface)

    def _make_grammar(self) -> Grammar:
        edges, given_marks = self._text_edges()
        if self.has_fences:
            edges += self._fence_edges()
        return self._tables(edges, ("text", "end"), given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        end, numbers = [self.vocab.mark(EOS)], answers.number_moves()
        first, blank = next(iter(numbers)), self._spell(" ")
        edges = answers.spelling_edges(numbers, self._spell)
        if not self.has_fences:
            edges += answers.path_edges(answers.START, blank, first)
            return [*edges, *(Edge(state, end, "end") for state in answers.complete_states())]
        edges += answers.path_edges(answers.START, [*blank, *self._list_opening()], first)
        edges += [Edge(state, [self.vocab.mark(CLOSE)], "answered") for state in answers.complete_states()]
        return [*edges, Edge("answered", end, "end")]

    def _list_opening(self) -> list[int]:
        """The marks before the digits of an answer."""
        return [self.vocab.mark(OPEN)]

    def _fence_edges(self) -> list[Edge]:
        """Edges from "text" over a number, character by character, and back."""
        spelling = SPELLING | ({"open": SPELLING["first"]} if self.mark_before else {})
        moves = {state: {KINDS[kind]: to for kind, to in row.items()} for state, row in spelling.items()}
        edges = answers.spelling_edges(moves, self._spell)
        complete = COMPLETE
        if self.rules not in DIGITS_ONLY:
            edges += self._word_edges(edges)
            complete = (*COMPLETE, "words")
        edges.append(Edge("text", [self.vocab.mark(OPEN)], "open" if self.mark_before else "first"))
        close = [self.vocab.mark(CLOSE)]
        edges += [Edge(state, close, "text") for state in complete]
        if self.hides_digits:
            edges.append(Edge("text", [self.vocab.mark(NUM)], "text", given=True))
        # With `until` the mark is only read, in prompts; [AGG] and [NUM] are never written.
        is_given = bool(self.until or self.unwritten)
        if self.mark_before:
            edges.append(Edge("open", [self.vocab.mark(self.mark_before)], "first", given=is_given))
        if self.mark_behind:
            edges += [
                Edge(state, [self.vocab.mark(self.mark_behind)], "closing", given=is_given) for state in complete
            ]
            edges.append(Edge("closing", close, "text"))
        return edges

    def _word_edges(self, edges: Sequence[Edge], words: str = "words") -> list[Edge]:
        """Edges to the state `words` from every state of a number, for tokens without an edge in the spelling of
        digits."""
        tokens_by_state: dict[str, set[int]] = {words: set()}
        for edge in edges:
            tokens_by_state.setdefault(edge.state, set()).update(edge.tokens)
        return [Edge(s, [i for i in self.text_ids if i not in ids], words) for s, ids in tokens_by_state.items()]

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        index = len(row.numbers) - 1
        is_prompt = self._is_prompt(row)
        mark_before, mark_behind = (self.mark_before, self.mark_behind) if is_prompt else ("", "")
        if is_prompt and self.hides_digits:
            row.add([self.vocab.mark(NUM)], index)
            return
        if self.has_fences:
            row.add([self.vocab.mark(OPEN)])
        if mark_before:
            row.add([self.vocab.mark(mark_before)], -1 if mark_before == PAUSE else index)
        for character in number.surface:
            row.add(self._spell(character), -1 if self.layout in VALUES else index)
        if mark_behind:
            row.add([self.vocab.mark(mark_behind)], index)
        if self.has_fences:
            row.add([self.vocab.mark(CLOSE)])

    def _is_prompt(self, row: RowBuilder) -> bool:
        """Whether the row has not yet reached the mark `until`, behind which answers stand; False for what is written
        behind an encoder's source."""
        return not self.until or not (row.is_target or self.vocab.mark(self.until) in row.marks)

    def _spell(self, character: str) -> list[int]:
        if character not in self._spellings:
            self._spellings[character] = self.vocab.encode(character)
        return self._spellings[character]
