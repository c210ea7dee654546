"""Sentences with alternatives: "{A} [has|owns] {a} {things}." stands for two wordings, each in a split of its own.

A wording is a sentence with its alternatives chosen and its slots open. A hash of its text decides the split of a
wording or of a whole sentence, so that new sentences do not change the split of others.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence

import numpy as np

from ..sampling import split_by_hash

SEED = 23  # of the splits: the same for every dataset made from the plans
# Shares of the sentences without a training wording, and of the wordings of all other sentences.
HELD_SENTENCES = dict(validation=0.04, test=0.08)
HELD_WORDINGS = dict(validation=0.06, test=0.12)

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@functools.cache
def expand(sentence: str) -> tuple[str, ...]:
    """Returns every wording of a sentence, in order."""
    pieces = _CHOICE.split(sentence)
    choices = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return tuple(dict.fromkeys(re.sub(" +", " ", "".join(words)).strip() for words in itertools.product(*choices)))


@functools.cache
def make_pools(sentences: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Returns use → groups of wordings of alternative sentences, one group for each sentence.

    Uses: "train"; "validation" and "wordings" (other wordings of training sentences); "sentences" (sentences without
    a training wording). "train" is never empty.
    """
    splits = {sentence: split_by_hash(f"sentence {sentence}", SEED, **HELD_SENTENCES) for sentence in sentences}
    if "train" not in splits.values():
        splits = dict.fromkeys(sentences, "train")
    groups_by_use: dict[str, list[tuple[str, ...]]] = {
        name: [] for name in ("train", "validation", "wordings", "sentences")
    }
    for sentence, split in splits.items():
        wordings = expand(sentence)
        if split != "train":
            groups_by_use["sentences" if split == "test" else "validation"].append(wordings)
            continue
        by_split: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for wording in wordings:
            by_split[split_by_hash(wording, SEED, **HELD_WORDINGS)].append(wording)
        if not by_split["train"]:
            by_split = {"train": list(wordings), "validation": [], "test": []}
        for name, use in (("train", "train"), ("validation", "validation"), ("test", "wordings")):
            if by_split[name]:
                groups_by_use[use].append(tuple(by_split[name]))
    # A wording that two sentences share is for training if it is for training in one of them.
    training_texts = {text for group in groups_by_use["train"] for text in group}
    for name in groups_by_use.keys() - {"train"}:
        new_groups = (tuple(text for text in group if text not in training_texts) for group in groups_by_use[name])
        groups_by_use[name] = [group for group in new_groups if group]
    return {name: tuple(groups) for name, groups in groups_by_use.items()}


def draw(rng: np.random.Generator, sentences: Sequence[str], use: str) -> tuple[str, bool]:
    """Draws a sentence, then one of its wordings; returns (wording, whether training lacks it).

    Args:
      use: "train" or another use of `make_pools`; if that use has no wording here, a training wording is drawn.
    """
    groups_by_use = make_pools(tuple(sentences))
    is_new = use != "train" and bool(groups_by_use[use])
    groups = groups_by_use[use] if is_new else groups_by_use["train"]
    group = groups[int(rng.integers(len(groups)))]
    return group[int(rng.integers(len(group)))], is_new


def find_slots(wording: str) -> list[str]:
    """Returns the names of a wording's slots, in order."""
    return re.findall(r"\{(\w+)\}", wording)
