"""Words that no one has seen: names of rows, and nouns in place of those of a field."""

from __future__ import annotations

from .draw import Draw
from .fields import Field, Measure

_ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t tr v w z".split()
_VOWELS = "a e i o u ai ea oo".split()
_CODAS = "n r l s t m k rd nt x lm rn ck".split()
_ENDS = "burg dale ford ham mere ton vik wick stad mouth port field ridge".split()
_KINDS = ("Group", "Holdings", "Industries", "Ltd", "Partners")


def word(draw: Draw, syllables: int = 2) -> str:
    """A word in lower case, such as "drosken"."""
    parts = [draw.one(_ONSETS) + draw.one(_VOWELS) for _ in range(syllables)]
    return "".join(parts) + draw.one(_CODAS)


def names(one: str, count: int, draw: Draw) -> list[str]:
    """Different names of rows of a kind, as of companies or towns.

    Args:
      one: what a row is, which some names say.
    """
    form = draw.whole(0, 4)
    found: dict[str, None] = {}
    while len(found) < count:
        plain = word(draw, draw.whole(1, 2)).capitalize()
        if form == 0:
            plain = (word(draw, 1) + draw.one(_ENDS)).capitalize()
        elif form == 1 and one == "company":
            plain = f"{plain} {draw.one(_KINDS)}"
        elif form == 2:
            plain = f"{one.capitalize()} {'ABCDEFGHIJKLMNOP'[len(found)]}"
        elif form == 3 and draw.chance(0.5):
            plain = f"{plain} {word(draw, 1).capitalize()}"
        found[plain] = None
    return list(found)


def field(known: Field, draw: Draw) -> Field:
    """The same field with invented nouns: what a row is, what is measured, or both, and no known names."""
    one, many = known.one, known.many
    if draw.chance(0.6):
        one = word(draw, draw.whole(1, 2))
        many = f"{one}es" if one[-1] in "sx" else f"{one}s"
    measures = [_measure(measure, draw) if draw.chance(0.7) else measure for measure in known.measures]
    return known._replace(one=one, many=many, names=(), measures=tuple(measures))


def _measure(known: Measure, draw: Draw) -> Measure:
    name = word(draw, draw.whole(1, 2))
    if known.countable:
        name = f"{name}es" if name[-1] in "sx" else f"{name}s"
    elif draw.chance(0.3):
        name = f"{name} {draw.one(('rate', 'level', 'index', 'value', 'size'))}"
    return known._replace(name=name, others=())
