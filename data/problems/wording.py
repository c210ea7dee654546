"""Sentences with alternatives: "{A} [has|owns] {a} {things}." stands for two wordings, each in a split of its own.

A wording is a sentence with its alternatives chosen and its slots open. Which split a wording, or a whole sentence,
belongs to is a hash of its text, so that adding sentences moves none.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence

import numpy as np

from ..sampling import hashed_split

SEED = 23  # of the splits: the same for every dataset made from the plans
# Shares of the sentences of which no wording is trained on, and of the wordings of all other sentences.
HELD_SENTENCES = dict(validation=0.04, test=0.08)
HELD_WORDINGS = dict(validation=0.06, test=0.12)

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@functools.cache
def expand(sentence: str) -> tuple[str, ...]:
    """Every wording of a sentence, in order."""
    pieces = _CHOICE.split(sentence)
    choices = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return tuple(dict.fromkeys(re.sub(" +", " ", "".join(words)).strip() for words in itertools.product(*choices)))


@functools.cache
def pools(sentences: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Wordings of alternative sentences, those of a sentence together, by what they are for.

    "train"; "validation" and "wordings" (of sentences that are trained on, in other wordings); "sentences" (no
    wording of which is trained on). Something is always left to train on.
    """
    whole = {sentence: hashed_split(f"sentence {sentence}", SEED, **HELD_SENTENCES) for sentence in sentences}
    if "train" not in whole.values():
        whole = dict.fromkeys(sentences, "train")
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in ("train", "validation", "wordings", "sentences")}
    for sentence, split in whole.items():
        wordings = expand(sentence)
        if split != "train":
            found["sentences" if split == "test" else "validation"].append(wordings)
            continue
        parted: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for wording in wordings:
            parted[hashed_split(wording, SEED, **HELD_WORDINGS)].append(wording)
        if not parted["train"]:
            parted = {"train": list(wordings), "validation": [], "test": []}
        for name, into in (("train", "train"), ("validation", "validation"), ("test", "wordings")):
            if parted[name]:
                found[into].append(tuple(parted[name]))
    # A wording that two sentences share is trained on if one of them is.
    trained = {text for group in found["train"] for text in group}
    for name in found.keys() - {"train"}:
        kept = (tuple(text for text in group if text not in trained) for group in found[name])
        found[name] = [group for group in kept if group]
    return {name: tuple(groups) for name, groups in found.items()}


def draw(rng: np.random.Generator, sentences: Sequence[str], use: str) -> tuple[str, bool]:
    """(a wording, whether it is one that training has not): a sentence first, then one of its wordings.

    Args:
      use: "train", or one of the others of `pools`; where that has none here, one that is trained on.
    """
    found = pools(tuple(sentences))
    new = use != "train" and bool(found[use])
    groups = found[use] if new else found["train"]
    group = groups[int(rng.integers(len(groups)))]
    return group[int(rng.integers(len(group)))], new


def slots(wording: str) -> list[str]:
    """The names of a wording's slots, in order."""
    return re.findall(r"\{(\w+)\}", wording)
