"""A fact about a table, the statement that phrases it, and the evidence: what to compute from which cells."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import wording
from .draw import Draw
from .sheet import CellIndex
from .statement_wordings import DENIALS, WORDINGS

# Slots that name a direction, and those of them that name the opposite of the fact's.
_DIRECTED = re.compile(
    r"\{(?:more|less|higher|lower|most|first|above|below|ahead|before|beats|exceeds?|rise|rose|a_rise|had_risen)\}"
)
_OPPOSITE = re.compile(r"\{(?:less|lower|below)\}")
# "No club has fewer than 5" says of all that they are above.
_REVERSED = {"GREATER": "LESS", "LESS": "GREATER", "ALL-ABOVE": "NONE-BELOW", "ALL-BELOW": "NONE-ABOVE"}
_UNDIRECTED = {"MORE-BY": "DIFFERENCE", "LESS-BY": "DIFFERENCE", "UP-PERCENT": "PERCENT", "DOWN-PERCENT": "PERCENT"}
# What stands before and behind a number that the statement claims, and before one that it only compares with.
_CLAIMED, _LIMIT, _END = "\x01", "\x02", "\x03"
_NUMBER_SLOTS = {"v": _CLAIMED, "k": _CLAIMED, "n": _LIMIT}
_MARKERS = re.compile(f"([{_CLAIMED}{_LIMIT}{_END}])")

Span = tuple[int, int]  # characters [start, end)


class Fact(NamedTuple):
    """A plan, the slots of its wordings, and its evidence.

    Attributes:
      operation: of `numjax.tasks.claims.operations.OPERATORS`.
      first, second: its operands. `second` are cells that the first ones are compared with.
    """

    plan: str
    slots: dict[str, str]
    operation: str
    first: tuple[CellIndex, ...]
    second: tuple[CellIndex, ...] = ()


class Evidence(NamedTuple):
    """How to judge a statement.

    Attributes:
      operation, first, second: as in `Fact`, for this wording. denied: the statement denies the fact.
      claimed, limit: characters of the number that the operation should give, and of the number that cells are
        compared with; empty if there is none.
    """

    operation: str
    denied: bool
    first: tuple[CellIndex, ...]
    second: tuple[CellIndex, ...]
    claimed: Span | tuple[()]
    limit: Span | tuple[()]


def phrase_fact(fact: Fact, denies: bool, split: str, draw: Draw) -> tuple[str, Evidence]:
    """Returns a statement of a fact and its evidence.

    Args:
      denies: deny the fact, if the plan has wordings for that.
    """
    denies = denies and fact.plan in DENIALS
    wordings = DENIALS[fact.plan] if denies else wording.select_wordings(WORDINGS[fact.plan], split)
    template = draw.choice(wordings)
    text, spans = _fill_slots(template, fact.slots)
    text = text if draw.chance(0.15) else text[0].upper() + text[1:]
    text += "" if draw.chance(0.2) else "."
    operation, first, second = fact.operation, fact.first, fact.second
    if _OPPOSITE.search(template) and operation in _REVERSED:
        operation = _REVERSED[operation]
        first, second = (second, first) if second else (first, second)
    elif not _DIRECTED.search(template):
        operation = _UNDIRECTED.get(operation, operation)
    return text, Evidence(operation, denies, first, second, spans.get(_CLAIMED, ()), spans.get(_LIMIT, ()))


def _fill_slots(template: str, slots: dict[str, str]) -> tuple[str, dict[str, Span]]:
    """Returns (the text, {marker: the characters of its number})."""
    marked_slots = {
        name: f"{_NUMBER_SLOTS[name]}{text}{_END}" if name in _NUMBER_SLOTS else text for name, text in slots.items()
    }
    text, spans, opened = "", {}, ("", 0)
    for part in _MARKERS.split(template.format(**marked_slots)):
        if part == _END:
            spans[opened[0]] = (opened[1], len(text))
        elif part in (_CLAIMED, _LIMIT):
            opened = (part, len(text))
        else:
            text += part
    return text, spans
