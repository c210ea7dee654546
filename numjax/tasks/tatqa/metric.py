"""TAT-QA's official metric (Zhu et al. 2021): exact match, F1 and the scale, with the rules of its number reader.

The oddities of the rules are part of the metric, and are kept: an empty prediction ("", 0, [] or None) is always
wrong; all spans of an answer are sorted, texts as texts and numbers as numbers, and joined into one text; F1 is over
sets of words, rounded to two decimals; "(134)" is −134, but "(1,746)" is 1746; ".5" has no value. A number that no
double can hold, at which the official script stops, counts as no number. Answers are computed with another reader,
`units.parse_value`.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import string
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import DataError

NUMERIC = ("arithmetic", "count")  # kinds of answers without partial credit
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "percent": 0.01}

_IGNORED = str.maketrans("", "", "'\"\\$€£¥%(),[]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?|[+-]?\.\d+")
_IN_BRACKETS = re.compile(r"\([\d.\s]+\)")
# As the released "[\d.\s]+%" and "[\d.]+\s?[a-zA-Z]+", which take quadratic time if they fail on a long run.
_PERCENT = re.compile(r"[\d.\s]%")
_WITH_WORD = re.compile(r"(?<![\d.])[\d.]+\s?[a-zA-Z]+")


class Score(NamedTuple):
    """The score of one question: exact match, F1, and whether the scale is right."""

    em: float
    f1: float
    scale: float


def scale_factor(scale: str) -> float:
    """The factor of the scale that a text names, 1 without a scale."""
    lowered = scale.lower()
    return next((value for name, value in SCALES.items() if name in lowered), 1)


def is_number(text: str) -> bool:
    """Whether a text is a number, with or without a scale behind it."""
    words = " ".join(word.translate(_IGNORED) for word in text.split()).split()
    if not words or (len(words) > 1 and scale_factor(words[1]) == 1):
        return False
    try:
        return not np.isnan(float(words[0])) and not _is_endless(_NUMBER.search(words[0]))
    except ValueError:
        return False


def to_number(text: str) -> float | None:
    """The value of the first number of a text, rounded to four decimals; None without one that a double can hold."""
    match = _NUMBER.search(text.translate(_IGNORED))
    if match is None or re.match(r"[+-]?\.", match[0]) or _is_endless(match):
        return None
    value = float(match[0]) if match[1] else int(match[0])
    with_word = _WITH_WORD.search(text)
    scale = scale_factor(with_word[0]) if with_word else 1
    sign = -1 if _IN_BRACKETS.search(text.strip()) else 1
    percent = 0.01 if _PERCENT.search(text.strip()) else 1
    return _compute_float(lambda: round(value * scale * sign * percent, 4))


@functools.lru_cache(4096)
def normalise(text: str) -> str:
    """The text in lower case, without articles and punctuation; a word that is a number becomes its value."""
    words = []
    for word in text.lower().split(" "):
        bare = word if is_number(word) else word.translate(_PUNCTUATION)
        if is_number(bare):
            bare = str(to_number(bare))
        words += _ARTICLES.sub(" ", bare).split()
    return " ".join(words)


def format_answer(answers: Sequence[Any], scale: str) -> str:
    """The sorted parts of an answer with their scale, as one text.

    Raises:
      DataError: the answer mixes texts and numbers.
    """
    try:
        texts = [str(answer) for answer in sorted(answers)]
    except TypeError:
        raise DataError(
            f"the answer {str(answers)[:60]} mixes texts and numbers, which cannot be sorted: write all as texts"
        ) from None
    parts = []
    for answer in texts:
        value = to_number(answer) if is_number(answer) else None
        if value is not None and "%" not in answer:
            value = _compute_float(lambda value=value: round(value, 2) * scale_factor(scale))
        if value is None:
            parts.append(f"{answer} {scale}" if scale else answer)
        else:
            parts.append(f"{value:.4f}")
    return " ".join(parts)


def compare(prediction: str, gold: str) -> tuple[float, float]:
    """(exact match, F1) of two texts."""
    left, right = normalise(prediction), normalise(gold)
    f1 = round(_f1(set(left.split()), set(right.split())), 2)
    return float(left == right), f1


def gold_parts(answer: Any, kind: str) -> list[Any]:
    """The parts of a gold answer; numbers of arithmetic and counts as texts."""
    if kind in ("span", "multi-span"):
        return list(answer)
    return [str(int(answer))] if kind == "count" else [str(answer)]


def score_question(answer: Any, kind: str, scale: str, prediction: Any, prediction_scale: str | None) -> Score:
    """The score of a prediction.

    Args:
      answer: the gold answer; kind: its type; scale: its scale, "" for none.
      prediction: a text, a number, a list of either, or nothing; prediction_scale: its scale.

    Raises:
      DataError: the prediction mixes texts and numbers, at which the official script stops.
    """
    gold = gold_parts(answer, kind)
    if not prediction or not gold:
        return Score(0.0, 0.0, 0.0)
    parts = prediction if isinstance(prediction, list) else [prediction]
    gold_text = format_answer(gold, scale)
    candidates = [format_answer(parts, prediction_scale or "")]
    first = str(parts[0])
    # 0.2342 counts as 23.42 percent.
    if len(parts) == 1 and not prediction_scale and "%" not in first and is_number(first):
        if (value := to_number(first)) is not None:
            candidates.append(f"{value:.4f}")
    em, f1 = max(compare(candidate, gold_text) for candidate in candidates)
    return Score(em, em if kind in NUMERIC else f1, float(prediction_scale == scale))


def average_scores(scores: Sequence[Score], kinds: Sequence[str], sources: Sequence[str] = ()) -> dict[str, float]:
    """Means over questions: "em", "f1", "scale", "em_num" (over arithmetic), and em and f1 of each type.

    Args:
      kinds: the types of the gold answers. sources: their sources, which add "em/TYPE/SOURCE" and "f1/TYPE/SOURCE".
    """
    groups: dict[str, list[Score]] = defaultdict(list)
    for index, (score, kind) in enumerate(zip(scores, kinds, strict=True)):
        groups[kind].append(score)
        if sources:
            groups[f"{kind}/{sources[index]}"].append(score)
    out = {name: _mean(scores, name) for name in Score._fields}
    if "arithmetic" in groups:
        out["em_num"] = _mean(groups["arithmetic"], "em")
    for group in sorted(groups):
        out |= {f"{name}/{group}": _mean(groups[group], name) for name in ("em", "f1")}
    return out


def _is_endless(match: re.Match[str] | None) -> bool:
    """Whether a number has more digits than a double can hold."""
    return match is not None and math.isinf(float(match[0]))


def _compute_float(compute: Callable[[], float]) -> float | None:
    """The value that `compute` returns, None if a double cannot hold it (integers can be arbitrarily large)."""
    try:
        result = compute()
        return result if math.isfinite(result) else None
    except OverflowError:
        return None


def _mean(scores: Sequence[Score], name: str) -> float:
    """The mean of a field, summed from the first to the last as the official script does."""
    total = functools.reduce(operator.add, (getattr(score, name) for score in scores), 0.0)
    return total / len(scores) if scores else 0.0


def _f1(prediction: set[str], gold: set[str]) -> float:
    shared = len(prediction & gold)
    precision = shared / len(prediction) if prediction else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
