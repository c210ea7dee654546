"""TAT-QA's official metric (Zhu et al. 2021): exact match, F1 and the scale, with the rules of its number reader.

The rules have oddities that are part of the metric, and are kept: an empty prediction ("", 0, [] or None) is wrong
whatever the gold is; all spans of an answer are sorted and joined into one text; the F1 is one of sets of words,
rounded to two decimals; "(134)" is worth −134, but "(1,746)" 1746; ".5" has no value. A number that no double can
hold, at which the official script stops, is none. Answers are computed with another reader, that of tatqa_units.py.
"""

from __future__ import annotations

import functools
import math
import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

NUMERIC = ("arithmetic", "count")  # kinds of answers that are right or wrong, nothing between
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "percent": 0.01}

_IGNORED = str.maketrans("", "", "'\"\\$€£¥%(),[]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?|[+-]?\.\d+")
_IN_BRACKETS = re.compile(r"\([\d.\s]+\)")
# The released "[\d.\s]+%" and "[\d.]+\s?[a-zA-Z]+", which take the square of a long run's time where they fail.
_PERCENT = re.compile(r"[\d.\s]%")
_WITH_WORD = re.compile(r"(?<![\d.])[\d.]+\s?[a-zA-Z]+")


class Score(NamedTuple):
    """Of one question: exact match, F1, and whether the scale is the gold one."""

    em: float
    f1: float
    scale: float


def factor(scale: str) -> float:
    """What the scale that a text names multiplies by, 1 without one."""
    found = scale.lower()
    return next((value for name, value in SCALES.items() if name in found), 1)


def is_number(text: str) -> bool:
    """Whether a text is a number, alone or with a scale behind it."""
    words = " ".join(word.translate(_IGNORED) for word in text.split()).split()
    if not words or (len(words) > 1 and factor(words[1]) == 1):
        return False
    try:
        return not np.isnan(float(words[0])) and not _endless(_NUMBER.search(words[0]))
    except ValueError:
        return False


def to_number(text: str) -> float | None:
    """What the first number of a text is worth, rounded to four decimals; None without one that a double can hold."""
    found = _NUMBER.search(text.translate(_IGNORED))
    if found is None or re.match(r"[+-]?\.", found[0]) or _endless(found):
        return None
    value = float(found[0]) if found[1] else int(found[0])
    with_word = _WITH_WORD.search(text)
    scale = factor(with_word[0]) if with_word else 1
    sign = -1 if _IN_BRACKETS.search(text.strip()) else 1
    percent = 0.01 if _PERCENT.search(text.strip()) else 1
    return _held(lambda: round(value * scale * sign * percent, 4))


@functools.lru_cache(4096)
def normalised(text: str) -> str:
    """Lower case, without articles and punctuation; a word that is a number is its value."""
    words = []
    for word in text.lower().split(" "):
        bare = word if is_number(word) else word.translate(_PUNCTUATION)
        if is_number(bare):
            bare = str(to_number(bare))
        words += _ARTICLES.sub(" ", bare).split()
    return " ".join(words)


def written(answers: Iterable[Any], scale: str) -> str:
    """The parts of an answer with their scale, in order, as one text."""
    parts = []
    for answer in sorted(str(answer) for answer in answers):
        value = to_number(answer) if is_number(answer) else None
        if value is not None and "%" not in answer:
            value = _held(lambda value=value: round(value, 2) * factor(scale))
        if value is None:
            parts.append(f"{answer} {scale}" if scale else answer)
        else:
            parts.append(f"{value:.4f}")
    return " ".join(parts)


def compare(said: str, gold: str) -> tuple[float, float]:
    """(exact match, F1) of two texts."""
    left, right = normalised(said), normalised(gold)
    f1 = round(_f1(set(left.split()), set(right.split())), 2)
    return float(left == right), f1


def golds(answer: Any, kind: str) -> list[str]:
    """The parts of a gold answer as texts."""
    if kind in ("span", "multi-span"):
        return [str(part) for part in answer]
    return [str(int(answer))] if kind == "count" else [str(answer)]


def question(answer: Any, kind: str, scale: str, said: Any, said_scale: str | None) -> Score:
    """The score of a prediction.

    Args:
      answer: the gold one; kind: its type; scale: its scale, "" for none.
      said: a text, a number, a list of them, or nothing; said_scale: its scale.
    """
    gold = golds(answer, kind)
    if not said or not gold:
        return Score(0.0, 0.0, 0.0)
    parts = said if isinstance(said, list) else [said]
    wanted = written(gold, scale)
    tried = [written(parts, said_scale or "")]
    first = str(parts[0])
    # 0.2342 counts as 23.42 percent.
    if len(parts) == 1 and not said_scale and "%" not in first and is_number(first):
        if (value := to_number(first)) is not None:
            tried.append(f"{value:.4f}")
    em, f1 = max(compare(one, wanted) for one in tried)
    return Score(em, em if kind in NUMERIC else f1, float(said_scale == scale))


def overall(scores: Sequence[Score], kinds: Sequence[str], sources: Sequence[str] = ()) -> dict[str, float]:
    """Means over questions: "em", "f1", "scale", "em_num" (over arithmetic), and em and f1 of each type.

    Args:
      kinds: the types of the gold answers. sources: where they come from: adds "em/TYPE/SOURCE".
    """
    groups: dict[str, list[Score]] = defaultdict(list)
    for place, (score, kind) in enumerate(zip(scores, kinds, strict=True)):
        groups[kind].append(score)
        if sources:
            groups[f"{kind}/{sources[place]}"].append(score)
    out = {name: _mean(scores, name) for name in Score._fields}
    if "arithmetic" in groups:
        out["em_num"] = _mean(groups["arithmetic"], "em")
    for group in sorted(groups):
        out |= {f"{name}/{group}": _mean(groups[group], name) for name in ("em", "f1")}
    return out


def _endless(found: re.Match[str] | None) -> bool:
    """Whether a number has more digits than a double can hold."""
    return found is not None and math.isinf(float(found[0]))


def _held(value: Callable[[], float]) -> float | None:
    """A value that is computed, None where a double cannot hold it: whole numbers have no largest one."""
    try:
        found = value()
        return found if math.isfinite(found) else None
    except OverflowError:
        return None


def _mean(scores: Sequence[Score], name: str) -> float:
    return float(np.mean([getattr(score, name) for score in scores])) if scores else 0.0


def _f1(said: set[str], gold: set[str]) -> float:
    shared = len(said & gold)
    precision = shared / len(said) if said else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
