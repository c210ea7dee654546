"""Names, nouns and invented words, and the rules of English for them."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import inflect
import numpy as np

from ..sampling import split_by_hash
from .wording import SEED

FOLDER = pathlib.Path(__file__).parent / "words"
HELD_NOUNS = 0.12  # share of a list's nouns that training does not use

_ONSETS = "b bl br ch cl cr d dr f fl fr g gl gr h j k kl l m n p pl pr qu r s sk sl sn sp st t tr v w z zw".split()
_VOWELS = "a e i o u a e i o oo ee ai".split()
_CODAS = "b ck d ff g l ll m n ng nk p r rb rk rn sp st t x zz".split()
# Words that must not arise by chance.
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
    """A noun of something countable: "box", "boxes"."""

    singular: str
    plural: str


@functools.cache
def make_engine() -> inflect.engine:
    """Returns the engine that forms plurals."""
    return inflect.engine()


@functools.cache
def load_nouns(name: str) -> tuple[Noun, ...]:
    """Returns the nouns of words/NAME.txt, one a line; an irregular plural stands behind a comma."""
    nouns = []
    for line in _read_lines(name):
        singular, _, plural = (part.strip() for part in line.partition(","))
        nouns.append(Noun(singular, plural or make_engine().plural_noun(singular) or singular))
    return tuple(nouns)


@functools.cache
def load_people() -> tuple[Person, ...]:
    """Returns the people of words/names.txt: "Ann f", "Tom m"."""
    return tuple(
        Person(name, *_PRONOUNS[kind]) for name, kind in (line.rsplit(" ", 1) for line in _read_lines("names"))
    )


@functools.cache
def load_words(name: str) -> tuple[str, ...]:
    """Returns the lines of words/NAME.txt."""
    return tuple(_read_lines(name))


@functools.cache
def select_nouns(name: str, is_held_out: bool) -> tuple[Noun, ...]:
    """Returns the nouns of a list that training uses, or with `is_held_out` the others."""
    selection = [
        n for n in load_nouns(name) if (split_by_hash(n.singular, SEED, 0.0, HELD_NOUNS) == "test") == is_held_out
    ]
    return tuple(selection) or load_nouns(name)


def invent_noun(rng: np.random.Generator) -> Noun:
    """Returns a noun that English does not have: "skorn", "skorns"."""
    word = ""
    while not word or _RUDE.match(word):
        syllables = 1 if rng.random() < 0.5 else 2
        word = "".join(_pick(rng, _ONSETS) + _pick(rng, _VOWELS) for _ in range(syllables)) + _pick(rng, _CODAS)
    return Noun(word, word + ("es" if re.search(r"(x|zz|st|sp|ch)$", word) else "s"))


def tidy_text(text: str) -> str:
    """Returns a text with "an" for "a" before a vowel, and a capital at the beginning of each sentence."""
    text = re.sub(r"\b([Aa]) (?=[aeio]|u(?!ni|se|ti)|hour)", r"\1n ", text)
    return re.sub(r"(^|[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), text)


def _pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]


def _read_lines(name: str) -> list[str]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
