"""Invents words: names of rows, and nouns that replace those of a field."""

from __future__ import annotations

from .draw import Draw
from .fields import Field, Measure

_ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t tr v w z".split()
_VOWELS = "a e i o u ai ea oo".split()
_CODAS = "n r l s t m k rd nt x lm rn ck".split()
_ENDS = "burg dale ford ham mere ton vik wick stad mouth port field ridge".split()
_KINDS = ("Group", "Holdings", "Industries", "Ltd", "Partners")


def invent_word(draw: Draw, syllables: int = 2) -> str:
    """Returns an invented word in lower case, such as "drosken"."""
    parts = [draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(syllables)]
    return "".join(parts) + draw.choice(_CODAS)


def invent_names(singular: str, count: int, draw: Draw) -> list[str]:
    """Returns different names of rows, for example of companies or towns.

    Args:
      singular: the noun for a row; some names contain it.
    """
    form = draw.integer(0, 4)
    names: dict[str, None] = {}
    while len(names) < count:
        name = invent_word(draw, draw.integer(1, 2)).capitalize()
        if form == 0:
            name = (invent_word(draw, 1) + draw.choice(_ENDS)).capitalize()
        elif form == 1 and singular == "company":
            name = f"{name} {draw.choice(_KINDS)}"
        elif form == 2:
            name = f"{singular.capitalize()} {'ABCDEFGHIJKLMNOP'[len(names)]}"
        elif form == 3 and draw.chance(0.5):
            name = f"{name} {invent_word(draw, 1).capitalize()}"
        if name != "Sum":  # a row of this name would be one of totals
            names[name] = None
    return list(names)


def invent_field(field: Field, draw: Draw) -> Field:
    """Returns a field with invented nouns for its rows, its measures or both, and without names."""
    singular, plural = field.singular, field.plural
    if draw.chance(0.6):
        singular = invent_word(draw, draw.integer(1, 2))
        plural = f"{singular}es" if singular[-1] in "sx" else f"{singular}s"
    measures = [_invent_measure(measure, draw) if draw.chance(0.7) else measure for measure in field.measures]
    return field._replace(singular=singular, plural=plural, names=(), measures=tuple(measures))


def _invent_measure(measure: Measure, draw: Draw) -> Measure:
    name = invent_word(draw, draw.integer(1, 2))
    if measure.countable:
        name = f"{name}es" if name[-1] in "sx" else f"{name}s"
    elif draw.chance(0.3):
        name = f"{name} {draw.choice(('rate', 'level', 'index', 'value', 'size'))}"
    return measure._replace(name=name, synonyms=())
