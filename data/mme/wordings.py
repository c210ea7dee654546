"""Questions about measures in many wordings: sentences × verbs × positions of the unit × ways of typing.

A sentence has alternatives and slots, "[how much|what] {do} {k} {things} weigh in {unit}". It has no capital and no
mark at its end: how a question is typed is drawn independently. Each kind of measure has its own sentences, and all
share those of `any`. A hash of their text decides which wordings are trained on (`data.problems.wording`).
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

from numjax.numeral.words import spell

from ..problems import wording

SPELLED = 100  # the largest count that is written in words
USES = ("train", "validation", "wordings", "sentences")


class _Words(NamedTuple):
    """The contents of wordings.toml."""

    names: dict[str, list[str]]
    units: dict[str, list[list[str]]]
    numbered: dict[str, str]
    openers: tuple[str, ...]
    closers: list[str]
    thanks: list[str]
    typical: list[str]
    sentences: dict[str, tuple[str, ...]]


def _load_words() -> _Words:
    """Loads the words, with the parts of sentences inserted."""
    config = tomllib.loads((pathlib.Path(__file__).parent / "wordings.toml").read_text(encoding="utf-8"))

    def insert_parts(sentence: str) -> str:
        return re.sub("<([a-z ]+)>", lambda m: config["parts"][m[1]], sentence)

    sentences = {
        kind: tuple(map(insert_parts, kind_sentences)) for kind, kind_sentences in config["sentences"].items()
    }
    phrases = config["around"] | {"openers": tuple(config["around"]["openers"])}
    return _Words(config["names"], config["units"], config["numbered"], **phrases, sentences=sentences)


WORDS = _load_words()
KINDS = {
    "weight": ("grams", "kilograms"),
    "length": ("centimetres", "metres"),
    "volume": ("millilitres", "litres"),
    "time": ("minutes",),
}
_KIND_OF = {unit: kind for kind, units in KINDS.items() for unit in units}


class TypedQuestion(NamedTuple):
    """A question as it is typed, its wording with open slots, and the index of its sentence in `sentences`."""

    text: str
    wording: str
    sentence: int


@functools.cache
def sentences(kind: str | None = None) -> tuple[str, ...]:
    """The sentences that ask for a kind of measure, or all of them."""
    return tuple(s for name in ((kind, "any") if kind else (*KINDS, "any")) for s in WORDS.sentences[name])


@functools.cache
def make_pools(kind: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Use → wordings that ask for a kind of measure, grouped by sentence; see `wording.make_pools`. A wording that is
    trained on for any kind has no other use."""
    pools_by_use = dict(wording.make_pools(sentences(kind)))
    for use in USES[1:]:
        groups = (tuple(text for text in group if text not in trained_wordings()) for group in pools_by_use[use])
        pools_by_use[use] = tuple(group for group in groups if group)
    return pools_by_use


@functools.cache
def trained_wordings() -> frozenset[str]:
    """Every wording that is trained on, for any kind of measure."""
    groups = (group for kind in KINDS for group in wording.make_pools(sentences(kind))["train"])
    return frozenset(text for group in groups for text in group)


@functools.cache
def _index_sentences() -> dict[str, int]:
    """Wording → the first sentence that has it."""
    indices: dict[str, int] = {}
    for index, sentence in enumerate(sentences()):
        for text in wording.expand(sentence):
            indices.setdefault(text, index)
    return indices


def draw_question(rng: np.random.Generator, thing: str, unit: str, k: int, use: str) -> TypedQuestion:
    """Draws a question about k of a thing.

    Args:
      thing, unit: as in `generate.THINGS`. k: how many.
      use: one of `USES`: which wordings the question may have.
    """
    groups = make_pools(_KIND_OF[unit])[use]
    group = groups[int(rng.integers(len(groups)))]
    text = group[int(rng.integers(len(group)))]
    return TypedQuestion(
        _type_question(rng, text, fill(rng, text, thing, unit, k), use), text, _index_sentences()[text]
    )


def fill(rng: np.random.Generator, text: str, thing: str, unit: str, k: int) -> str:
    """Fills the slots of a wording."""
    singular, _, plural = _pick(rng, WORDS.names[thing] if rng.random() < 0.5 else WORDS.names[thing][:1]).partition(
        "/"
    )
    name = singular if k == 1 else plural
    if rng.random() < 0.05:
        name = f"{_pick(rng, WORDS.typical)} {name}"
    full, short = WORDS.units[unit]
    values = {slot: forms.split("/")[k != 1] for slot, forms in WORDS.numbered.items()}
    values |= {"k": write_count(rng, k), "things": name, "unit": _pick(rng, short if rng.random() < 0.3 else full)}
    return re.sub(r"\{(\w+)\}", lambda m: values[m[1]], text)


def write_count(rng: np.random.Generator, k: int) -> str:
    """Writes a count in digits, or up to a hundred also in words: 25, twenty-five, twenty five; 1000, 1,000."""
    if k <= SPELLED and rng.random() < 0.3:
        return spell(k) if rng.random() < 0.7 else spell(k).replace("-", " ")
    return f"{k:,}" if rng.random() < 0.5 else str(k)


def draw_answer(rng: np.random.Generator, low: int, high: int, factor: int, unit: str, right: bool) -> str:
    """Draws a log-uniform answer from low to high; if not `right`, one up to `factor` times below or above.

    Its value is a whole number or has two or three significant digits; some answers have commas or their unit.
    """
    if right:
        least, greatest = low, high
    else:
        least, greatest = (low / factor, low) if rng.random() < 0.5 else (high, factor * high)
    while True:
        value = Decimal(math.exp(rng.uniform(math.log(least), math.log(greatest))))
        value = round_to(value, (2, 3, 3, 0, 0, 0)[int(rng.integers(6))])
        if (low <= value <= high) == right:
            break
    text = f"{value:,f}" if rng.random() < 0.1 else f"{value:f}"
    full, short = WORDS.units[unit]
    return f"{text} {_pick(rng, (*full, *short))}" if rng.random() < 0.1 else text


def round_to(value: Decimal, digits: int) -> Decimal:
    """Rounds a positive value to `digits` significant digits, without trailing zeros after the point; 0: to a whole
    number, but to three digits below 10."""
    if digits == 0 and value >= 10:
        return value.quantize(Decimal(1))
    places = (digits or 3) - 1 - value.adjusted()
    rounded = round(value, places).normalize()
    return rounded.quantize(Decimal(1)) if rounded == rounded.to_integral() else rounded


def _type_question(rng: np.random.Generator, pattern: str, text: str, use: str) -> str:
    """Types a filled wording as a person does: with or without a greeting, capitals and a mark at its end."""
    if rng.random() < 0.2:
        opener, _ = wording.draw(rng, WORDS.openers, "wordings" if use in USES[2:] else use)
        text = f"{opener} {text}"
    if rng.random() < 0.15:
        text += _pick(rng, WORDS.closers)
    is_question = re.search(r"\b(how|what|what's|is there|do you|can you|could you|any idea)\b", pattern) is not None
    text += _pick(
        rng, ("?",) * 9 + ("",) * 4 + ("??", " ?", ".") if is_question else ("", "", ".", ".", "?", "?", ":")
    )
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
