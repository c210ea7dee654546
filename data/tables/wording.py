"""Which wordings a split may use, and phrases that name one number of a table."""

from __future__ import annotations

from collections.abc import Sequence

from .draw import Draw
from .sheet import Ref, Sheet

SPLITS = ("train", "validation", "test")
_EVERY = 6  # of so many wordings of a plan one is for validation and one for the test
# How one says that something is measured somewhere.
_PLACED = {
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


def of_split(wordings: Sequence[str], split: str) -> list[str]:
    """The wordings of a plan that a split uses: no two splits share one."""
    held = {"validation": _EVERY - 2, "test": _EVERY - 1}
    if split in held:
        return [one for place, one in enumerate(wordings) if place % _EVERY == held[split]] or list(wordings[-1:])
    return [one for place, one in enumerate(wordings) if place % _EVERY not in held.values()]


def measure(sheet: Sheet, m: int, draw: Draw) -> str:
    """What a measure is called: mostly as in its header."""
    known = sheet.measures[m]
    if known.others and draw.chance(0.2):
        return draw.one(known.others)
    return sheet.case(known.name) if draw.chance(0.15) else known.name


def entity(sheet: Sheet, e: int, draw: Draw) -> str:
    """What an entity is called: its name, in lower case at times."""
    name = sheet.entities[e]
    return name.lower() if draw.chance(0.08) else name


def quantity(sheet: Sheet, ref: Ref, draw: Draw, article: bool = True) -> str:
    """A phrase for what is measured, as far as `ref` says of whom and when: "the revenue of Arvo in 2019".

    Args:
      article: begin with "the", where there is no genitive.
    """
    m = measure(sheet, ref.measure, draw)
    t = sheet.times[ref.time] if ref.time >= 0 else ""
    e = entity(sheet, ref.entity, draw) if ref.entity >= 0 else ""
    if not e and sheet.subject and draw.chance(0.2):
        e = sheet.subject
    if not e and t and draw.chance(0.25):
        return f"the {t} {m}" if article else f"{t} {m}"
    if sheet.measures[ref.measure].countable and draw.chance(0.3):
        m = f"number of {m}"
    text = m
    genitive = bool(e) and draw.chance(0.35) and sheet.field.one not in ("month", "day")
    if genitive:
        text = f"{e}'s {m}" if not e.endswith("s") else f"{e}' {m}"
    elif e:
        joined = draw.one(_PLACED.get(sheet.field.one, ("of", "of", "for")))
        who = (
            f"{joined} {e}"
            if draw.chance(0.85) or sheet.total == ref.entity
            else f"{joined} the {sheet.field.one} {e}"
        )
        text = f"{m} {who}"
    if t:
        text = f"{text} {draw.one(('in', 'in', 'in', 'for', 'during'))} {t}"
    return text if genitive or not article else f"the {text}"
