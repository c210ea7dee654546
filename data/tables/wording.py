"""The wordings of each split, and phrases that name one number of a table."""

from __future__ import annotations

from collections.abc import Sequence

from .draw import Draw
from .sheet import Ref, TableSheet

SPLITS = ("train", "validation", "test")
_PERIOD = 6  # of so many wordings of a plan, one is for validation and one for test
# Prepositions between a measure and a row's name.
_PREPOSITIONS = {
    "month": ("in",),
    "day": ("on",),
    "city": ("in", "in", "of"),
    "country": ("in", "of", "for"),
    "district": ("in", "of"),
    "school": ("at", "of"),
    "hotel": ("at", "of"),
    "farm": ("on", "of"),
    "hospital": ("at", "of"),
    "department": ("in", "of"),
    "company": ("at", "of"),
    "source": ("of", "from", "for"),
}


def select_wordings(wordings: Sequence[str], split: str) -> list[str]:
    """Returns the wordings of a plan that a split uses. Splits share no wording of plans with enough wordings."""
    remainders = {"validation": _PERIOD - 2, "test": _PERIOD - 1}
    if split in remainders:
        return [text for index, text in enumerate(wordings) if index % _PERIOD == remainders[split]] or list(
            wordings[-1:]
        )
    return [text for index, text in enumerate(wordings) if index % _PERIOD not in remainders.values()]


def name_measure(sheet: TableSheet, m: int, draw: Draw) -> str:
    """Returns a name of a measure: usually that of its header."""
    measure = sheet.measures[m]
    if measure.synonyms and draw.chance(0.2):
        return draw.choice(measure.synonyms)
    return sheet.case(measure.name) if draw.chance(0.15) else measure.name


def name_entity(sheet: TableSheet, e: int, draw: Draw) -> str:
    """Returns an entity's name, sometimes in lower case."""
    name = sheet.entities[e]
    return name.lower() if draw.chance(0.08) else name


def name_quantity(sheet: TableSheet, ref: Ref, draw: Draw, article: bool = True) -> str:
    """Returns a phrase for a number, with entity and time if `ref` has them: "the revenue of Arvo in 2019".

    Args:
      article: begin with "the", unless there is a genitive.
    """
    m = name_measure(sheet, ref.measure, draw)
    t = sheet.times[ref.time] if ref.time >= 0 else ""
    e = name_entity(sheet, ref.entity, draw) if ref.entity >= 0 else ""
    if not e and sheet.subject and draw.chance(0.2):
        e = sheet.subject
    if not e and t and draw.chance(0.25):
        return f"the {t} {m}" if article else f"{t} {m}"
    if sheet.measures[ref.measure].countable and draw.chance(0.3):
        m = f"number of {m}"
    text = m
    has_genitive = bool(e) and draw.chance(0.35) and sheet.field.singular not in ("month", "day")
    if has_genitive:
        text = f"{e}'s {m}" if not e.endswith("s") else f"{e}' {m}"
    elif e:
        preposition = draw.choice(_PREPOSITIONS.get(sheet.field.singular, ("of", "of", "for")))
        entity_phrase = (
            f"{preposition} {e}"
            if draw.chance(0.85) or sheet.total == ref.entity
            else f"{preposition} the {sheet.field.singular} {e}"
        )
        text = f"{m} {entity_phrase}"
    if t:
        text = f"{text} {draw.choice(('in', 'in', 'in', 'for', 'during'))} {t}"
    return text if has_genitive or not article else f"the {text}"
