"""Text → document and back. A document is canonical when no Text is empty and no two stand side by side."""

from __future__ import annotations

from collections.abc import Iterable

from numjax import numeral
from numjax.numeral.surface import format_trimmed, shift
from numjax.types import Document, Mark, Number, Segment, Text


def parse(text: str, rules: str = "default") -> Document:
    """Splits a text into Text and Number segments; `surface(parse(text)) == text`.

    Args:
      rules: name of the numeral rules in numjax/numeral/.

    Raises:
      UsageError: there are no such rules.
    """
    segments: list[Segment] = []
    end = 0
    for span in numeral.find(text, rules):
        if span.start > end:
            segments.append(Text(text[end : span.start]))
        segments.append(Number(span.text, span.value))
        end = span.end
    if end < len(text):
        segments.append(Text(text[end:]))
    return tuple(segments)


def surface(document: Iterable[Segment]) -> str:
    """The document as text; a mark is its name."""
    return "".join(surface_of(segment) for segment in document)


def surface_of(segment: Segment) -> str:
    """One segment as text."""
    if isinstance(segment, Text):
        return segment.text
    if isinstance(segment, Mark):
        return segment.name
    return segment.surface


def written_text(document: Iterable[Segment]) -> str:
    """The text of a written document, up to its first mark.

    Two numbers with nothing between them are apart by a blank where they would be read as one: 1 and 2 are not 12.
    """
    surfaces: list[str] = []
    number_before: Number | None = None
    for segment in document:
        if isinstance(segment, Mark):
            break
        number = segment if isinstance(segment, Number) else None
        if number is not None and number_before is not None and not _stay_apart(number_before, number):
            surfaces.append(" ")
        surfaces.append(surface_of(segment))
        number_before = number
    return "".join(surfaces)


def _stay_apart(first: Number, second: Number) -> bool:
    """Whether two numbers are still read as two if nothing stands between them."""
    both = [first.surface, second.surface]
    return [surface_of(segment) for segment in parse("".join(both))] == both


def take_beginning(text: str, limit: int) -> str:
    """The first `limit` characters of a text at most, cut at a blank if there is one, so that no number is cut."""
    if len(text) <= limit:
        return text
    end = max(text.rfind(blank, 0, limit + 1) for blank in " \n\t")
    return text[: end if end > 0 else limit].rstrip()


def spell_in_formula(number: Number) -> str:
    """A text's number as a formula spells it: 15 for "15%", where % is an operator, and 2340 for "2,340"."""
    return format_trimmed(shift(number.value, 2) if number.surface.endswith("%") else number.value)


def merge(document: Iterable[Segment]) -> Document:
    """Makes a document canonical: joins neighbouring Texts and drops empty ones."""
    merged: list[Segment] = []
    for segment in document:
        if isinstance(segment, Text):
            if not segment.text:
                continue
            if merged and isinstance(merged[-1], Text):
                merged[-1] = Text(merged[-1].text + segment.text)
                continue
        merged.append(segment)
    return tuple(merged)
