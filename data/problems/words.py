"""Names, nouns and invented words, and how English joins them."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import inflect
import numpy as np

from ..sampling import hashed_split
from .wording import SEED

FOLDER = pathlib.Path(__file__).parent / "words"
HELD_NOUNS = 0.12  # share of the nouns of a list that are not trained on

_ONSETS = "b bl br ch cl cr d dr f fl fr g gl gr h j k kl l m n p pl pr qu r s sk sl sn sp st t tr v w z zw".split()
_VOWELS = "a e i o u a e i o oo ee ai".split()
_CODAS = "b ck d ff g l ll m n ng nk p r rb rk rn sp st t x zz".split()
# What chance should not make of them.
_RUDE = re.compile(
    "crap|crack|prick|dick|cock|piss|tit|fag|hoe|twat|nig|kik|whor|slag|spas|pak|wank|poof|tart|fat|fuk|fuck"
)
_PRONOUNS = {"f": ("she", "her", "her"), "m": ("he", "him", "his"), "n": ("they", "them", "their")}


class Person(NamedTuple):
    """A first name and its pronouns: she, her, her."""

    name: str
    he: str
    him: str
    his: str


class Noun(NamedTuple):
    """A thing that is counted: "box", "boxes"."""

    one: str
    many: str


@functools.cache
def engine() -> inflect.engine:
    """What knows plurals."""
    return inflect.engine()


@functools.cache
def nouns(name: str) -> tuple[Noun, ...]:
    """The nouns of words/NAME.txt, one a line; a plural that the rules miss stands behind a comma."""
    out = []
    for line in _lines(name):
        one, _, many = (part.strip() for part in line.partition(","))
        out.append(Noun(one, many or engine().plural_noun(one) or one))
    return tuple(out)


@functools.cache
def people() -> tuple[Person, ...]:
    """The names of words/names.txt: "Ann f", "Tom m"."""
    return tuple(Person(name, *_PRONOUNS[kind]) for name, kind in (line.rsplit(" ", 1) for line in _lines("names")))


@functools.cache
def words(name: str) -> tuple[str, ...]:
    """The lines of words/NAME.txt."""
    return tuple(_lines(name))


@functools.cache
def parted(name: str, held: bool) -> tuple[Noun, ...]:
    """The nouns of a list that are trained on, or with `held` the others."""
    found = [n for n in nouns(name) if (hashed_split(n.one, SEED, 0.0, HELD_NOUNS) == "test") == held]
    return tuple(found) or nouns(name)


def invented(rng: np.random.Generator) -> Noun:
    """A word that English does not have: "skorn", "skorns"."""
    one = ""
    while not one or _RUDE.match(one):
        syllables = 1 if rng.random() < 0.5 else 2
        one = "".join(_pick(rng, _ONSETS) + _pick(rng, _VOWELS) for _ in range(syllables)) + _pick(rng, _CODAS)
    return Noun(one, one + ("es" if re.search(r"(x|zz|st|sp|ch)$", one) else "s"))


def join(text: str) -> str:
    """A text with "a" before a vowel as "an", and a capital at the beginning of each sentence."""
    text = re.sub(r"\b([Aa]) (?=[aeio]|u(?!ni|se|ti)|hour)", r"\1n ", text)
    return re.sub(r"(^|[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), text)


def _pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]


def _lines(name: str) -> list[str]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
