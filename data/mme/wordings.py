"""Questions about measures in many wordings: sentences × verbs × places of the unit × ways of writing it all.

A sentence has alternatives and slots, "[how much|what] {do} {k} {things} weigh in {unit}", and is written without a
capital and without a mark at its end: how a question is typed is drawn apart from what it says. Each kind of measure
has sentences of its own, and all share those of `any`. Which wordings are trained on is a hash of their text
(`data.problems.wording`).
"""

from __future__ import annotations

import functools
import math
import pathlib
import re
import tomllib
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from numjax.numeral.words import spelled

from ..problems import wording

SPELLED = 100  # no count above it is written in words
USES = ("train", "validation", "wordings", "sentences")


class _Words(NamedTuple):
    """What wordings.toml holds."""

    names: dict[str, list[str]]
    units: dict[str, list[list[str]]]
    numbered: dict[str, str]
    openers: tuple[str, ...]
    closers: list[str]
    thanks: list[str]
    typical: list[str]
    sentences: dict[str, tuple[str, ...]]


def _read() -> _Words:
    """The words, with the parts of sentences put in."""
    told = tomllib.loads((pathlib.Path(__file__).parent / "wordings.toml").read_text(encoding="utf-8"))

    def whole(sentence: str) -> str:
        return re.sub("<([a-z ]+)>", lambda m: told["parts"][m[1]], sentence)

    sentences = {kind: tuple(map(whole, several)) for kind, several in told["sentences"].items()}
    around = told["around"] | {"openers": tuple(told["around"]["openers"])}
    return _Words(told["names"], told["units"], told["numbered"], **around, sentences=sentences)


WORDS = _read()
KINDS = {
    "weight": ("grams", "kilograms"),
    "length": ("centimetres", "metres"),
    "volume": ("millilitres", "litres"),
    "time": ("minutes",),
}
_KIND_OF = {unit: kind for kind, units in KINDS.items() for unit in units}


class Question(NamedTuple):
    """A question as it is typed, its wording with open slots, and which sentence that is of (its place in
    `sentences`)."""

    text: str
    wording: str
    sentence: int


@functools.cache
def sentences(kind: str | None = None) -> tuple[str, ...]:
    """The sentences that ask for a kind of measure, or all of them."""
    return tuple(s for name in ((kind, "any") if kind else (*KINDS, "any")) for s in WORDS.sentences[name])


@functools.cache
def pools(kind: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Wordings that ask for a kind of measure, those of a sentence together, by what they are for, see
    `wording.pools`. None that is trained on for any kind is for another use."""
    found = dict(wording.pools(sentences(kind)))
    for use in USES[1:]:
        kept = (tuple(text for text in group if text not in trained()) for group in found[use])
        found[use] = tuple(group for group in kept if group)
    return found


@functools.cache
def trained() -> frozenset[str]:
    """Every wording that is trained on, for whichever kind of measure."""
    groups = (group for kind in KINDS for group in wording.pools(sentences(kind))["train"])
    return frozenset(text for group in groups for text in group)


@functools.cache
def _places() -> dict[str, int]:
    """Wording → the first sentence that has it."""
    found: dict[str, int] = {}
    for place, sentence in enumerate(sentences()):
        for text in wording.expand(sentence):
            found.setdefault(text, place)
    return found


def question(rng: np.random.Generator, thing: str, unit: str, k: int, use: str) -> Question:
    """A question about k of a thing.

    Args:
      thing, unit: as in `generate.THINGS`. k: how many.
      use: of `USES`: which wordings it may have.
    """
    groups = pools(_KIND_OF[unit])[use]
    group = groups[int(rng.integers(len(groups)))]
    text = group[int(rng.integers(len(group)))]
    return Question(_typed(rng, text, fill(rng, text, thing, unit, k), use), text, _places()[text])


def fill(rng: np.random.Generator, text: str, thing: str, unit: str, k: int) -> str:
    """A wording with its slots filled."""
    one, _, many = _pick(rng, WORDS.names[thing] if rng.random() < 0.5 else WORDS.names[thing][:1]).partition("/")
    name = one if k == 1 else many
    if rng.random() < 0.05:
        name = f"{_pick(rng, WORDS.typical)} {name}"
    full, short = WORDS.units[unit]
    written = {slot: forms.split("/")[k != 1] for slot, forms in WORDS.numbered.items()}
    written |= {"k": count(rng, k), "things": name, "unit": _pick(rng, short if rng.random() < 0.3 else full)}
    return re.sub(r"\{(\w+)\}", lambda m: written[m[1]], text)


def count(rng: np.random.Generator, k: int) -> str:
    """A count in digits, or up to a hundred in words: 25, twenty-five, twenty five; 1000, 1,000."""
    if k <= SPELLED and rng.random() < 0.3:
        return spelled(k) if rng.random() < 0.7 else spelled(k).replace("-", " ")
    return f"{k:,}" if rng.random() < 0.5 else str(k)


def answer(rng: np.random.Generator, low: int, high: int, beyond: int, unit: str, right: bool) -> str:
    """A log-uniform answer from low to high, or with `right` False one up to `beyond` times below or above.

    Its value is a whole number or one of two or three digits that count; some have commas or their unit.
    """
    if right:
        least, most = low, high
    else:
        least, most = (low / beyond, low) if rng.random() < 0.5 else (high, beyond * high)
    while True:
        value = Decimal(math.exp(rng.uniform(math.log(least), math.log(most))))
        value = round_to(value, (2, 3, 3, 0, 0, 0)[int(rng.integers(6))])
        if (low <= value <= high) == right:
            break
    text = f"{value:,f}" if rng.random() < 0.1 else f"{value:f}"
    full, short = WORDS.units[unit]
    return f"{text} {_pick(rng, (*full, *short))}" if rng.random() < 0.1 else text


def round_to(value: Decimal, digits: int) -> Decimal:
    """A positive value with so many digits that count, without trailing zeros behind the point; 0: a whole number,
    but three digits below 10."""
    if digits == 0 and value >= 10:
        return value.quantize(Decimal(1))
    places = (digits or 3) - 1 - value.adjusted()
    rounded = round(value, places).normalize()
    return rounded.quantize(Decimal(1)) if rounded == rounded.to_integral() else rounded


def _typed(rng: np.random.Generator, wording_: str, text: str, use: str) -> str:
    """A filled wording as someone types it: with or without a greeting, capitals and a mark at its end."""
    if rng.random() < 0.2:
        opener, _ = wording.draw(rng, WORDS.openers, "wordings" if use in USES[2:] else use)
        text = f"{opener} {text}"
    if rng.random() < 0.15:
        text += _pick(rng, WORDS.closers)
    asks = re.search(r"\b(how|what|what's|is there|do you|can you|could you|any idea)\b", wording_) is not None
    text += _pick(rng, ("?",) * 9 + ("",) * 4 + ("??", " ?", ".") if asks else ("", "", ".", ".", "?", "?", ":"))
    if rng.random() < 0.05:
        text += _pick(rng, WORDS.thanks)
    style = rng.random()
    if style < 0.65:
        return re.sub(r"(^|[.?!:] )([a-z])", lambda m: m[1] + m[2].upper(), text)
    if style < 0.67:
        return text.upper()
    return text.lower() if style < 0.85 else text


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
