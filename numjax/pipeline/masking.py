"""The positions that a masked language model must recover, and the ids that replace them.

Every draw is a hash of (seed, epoch, example, position): it depends neither on the batch of an example nor on the
number of processes, so a resumed run masks like the run that was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.protocols import Scheme

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CHOICE, KIND, TOKEN = range(3)  # what is drawn


class Masking(NamedTuple):
    """How to mask (Devlin et al. 2019, section 3.1; LUNA, section 3.2.1).

    Attributes:
      rate: share of positions to recover. keep, random: shares of these that stay unchanged, or become a random
        token; the others become [MASK].
      whole: a number's pieces and its [NUM] share their draws, so that no part of a masked number is visible.
      mask_id: the id of [MASK]. tokens: int32[…], the ids from which a random token is drawn.
      fixed: bool[V], ids that are never masked.
      everywhere: every position must be recovered, masked or not (a defect of LUNA's code for TabBERT), except [UNK],
        which is no value. unknown: the id of [UNK], −1 if there is none.
    """

    rate: float
    keep: float
    random: float
    whole: bool
    mask_id: int
    tokens: np.ndarray
    fixed: np.ndarray
    everywhere: bool = False
    unknown: int = -1


class Masked(NamedTuple):
    """Positions in a row, flat.

    Attributes:
      ids: int32[S], after masking. chosen: bool[S], positions to recover. hidden: bool[S], positions whose id may
        have changed.
    """

    ids: np.ndarray
    chosen: np.ndarray
    hidden: np.ndarray


def make_masking(options: Mapping[str, Any], scheme: Scheme) -> Masking:
    """The masking of a config's block `data.masking`: `rate`, `keep`, `random`, `literals` (see `Masking.whole`),
    `separators` (mask [SEP] and [EOS] too, as LUNA's code does), and optionally `everywhere`.

    Raises:
      UsageError: `rate`, `keep` and `random` are no shares.
    """
    rate, keep, random = (float(options[name]) for name in ("rate", "keep", "random"))
    if not (0 < rate < 1 and keep >= 0 and random >= 0 and keep + random <= 1):
        raise UsageError(f"data.masking: rate={rate}, keep={keep} and random={random} must be shares")
    vocab: Any = scheme.vocab
    fixed = np.zeros(scheme.vocab_size, bool)
    free = {"[NUM]", "[SEP]", "[EOS]"} if options["separators"] else {"[NUM]"}
    fixed[[vocab.mark(name) for name in vocab.marks if name not in free]] = True
    everywhere = bool(options.get("everywhere", False))
    tokens = np.asarray([i for i in range(vocab.base) if vocab.bytes_of(i)], np.int32)
    unknown = vocab.mark("[UNK]") if "[UNK]" in vocab.marks else -1
    return Masking(
        rate, keep, random, bool(options["literals"]), vocab.mark("[MASK]"), tokens, fixed, everywhere, unknown
    )


def mask(
    masking: Masking,
    seed: int,
    epoch: int,
    examples: np.ndarray,
    positions: np.ndarray,
    ids: np.ndarray,
    offsets: np.ndarray,
) -> Masked:
    """Masks the positions of rows that follow each other.

    Args:
      seed, epoch: of the run; each epoch masks differently.
      examples: int[S], the example of each position. positions: int[S], its index in the example.
      ids: int32[S]. offsets: int32[S, 2], as in `Features`: neighbours with equal ones are one number, or
        one character in pieces of its bytes.
    """
    first = np.arange(len(ids))
    if masking.whole and len(ids):
        is_same_number = (examples[1:] == examples[:-1]) & (offsets[1:] == offsets[:-1]).all(axis=1)
        first = np.maximum.accumulate(np.where(np.append(False, is_same_number), 0, first))
    run = (seed % 2**64, epoch % 2**64)
    by_unit = (*run, examples[first], positions[first])
    chosen = (uniform(CHOICE, *by_unit) < masking.rate) & ~masking.fixed[ids]
    kind = uniform(KIND, *by_unit)
    hidden = chosen & (kind >= masking.keep)
    token_index = (uniform(TOKEN, *run, examples, positions) * len(masking.tokens)).astype(np.int64)
    token = np.where(kind < masking.keep + masking.random, masking.tokens[token_index], masking.mask_id)
    chosen |= masking.everywhere & (ids != masking.unknown)
    return Masked(np.where(hidden, token, ids).astype(np.int32), chosen, hidden)


def uniform(*words: Any) -> np.ndarray:
    """float64 in [0, 1), a hash of integers or arrays of them (SplitMix64's finaliser, a round a word)."""
    with np.errstate(over="ignore"):
        state = np.zeros(1, np.uint64)
        for word in words:
            state = state + np.asarray(word).astype(np.uint64) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return (state >> np.uint64(11)) * 2.0**-53


def spread(hidden: np.ndarray, position: np.ndarray, reach: int, ahead: int = 0) -> np.ndarray:
    """The positions hidden, bool[S], up to `reach` behind each, and up to `ahead` before each, within its example;
    `position`, int32[S], is counted from 0 in each example."""
    reached = hidden.copy()
    for distance in range(1, max(reach, ahead) + 1):
        is_same = position[distance:] >= distance
        if distance <= reach:
            reached[distance:] |= hidden[:-distance] & is_same
        if distance <= ahead:
            reached[:-distance] |= hidden[distance:] & is_same
    return reached
