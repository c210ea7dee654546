"""TAT-QA's metric, written a second time step by step, on perturbed predictions."""

from __future__ import annotations

import collections
import itertools
import json
import math
import random
import re
import string
from typing import Any

import numpy as np
import pytest

from numjax.errors import DataError
from numjax.tasks.tatqa import metric

REMOVED = "'\"\\$€£¥%(),[]"
FACTORS = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "percent": 0.01}
SCALES = ["", "thousand", "million", "billion", "percent"]


def clean(text: str) -> str:
    return "".join(character for character in text if character not in REMOVED)


def find_factor(text: str) -> float:
    for name, factor in FACTORS.items():
        if name in text.lower():
            return factor
    return 1


def is_number(text: str) -> bool:
    """A float, and behind it nothing or a scale."""
    words = [word for raw in text.split() for word in clean(raw).split()]
    if not words:
        return False
    try:
        value = float(words[0])
    except ValueError:
        return False
    return not math.isnan(value) and (len(words) == 1 or find_factor(words[1]) != 1)


def parse_number(text: str) -> float | None:
    """The first digits with their sign, times the scale behind them, negative in brackets, a hundredth with %."""
    cleaned = clean(text)
    for start, character in enumerate(cleaned):
        if character in "+-" and cleaned[start + 1 : start + 2] == ".":
            if cleaned[start + 2 : start + 3].isdigit():
                return None
        elif character == "." and cleaned[start + 1 : start + 2].isdigit():
            return None
        elif character.isdigit():
            break
    else:
        return None
    digits = "".join(itertools.takewhile(str.isdigit, cleaned[start:]))
    fraction = cleaned[start + len(digits) :]
    value: float = int(digits)
    if fraction[:1] == "." and fraction[1:2].isdigit():
        value = float(digits + "." + "".join(itertools.takewhile(str.isdigit, fraction[1:])))
    if start and cleaned[start - 1] == "-":
        value = -value
    behind = re.search(r"[\d.]+\s?[a-zA-Z]+", text)
    factor = find_factor(behind[0]) if behind else 1
    sign = -1 if re.search(r"\([\d.\s]+\)", text.strip()) else 1
    return round(value * factor * sign * (0.01 if re.search(r"[\d.\s]+%", text.strip()) else 1), 4)


def join_parts(answers: list[Any], scale: str) -> str:
    texts = []
    for answer in sorted(answers):
        text = str(answer)
        if is_number(text):
            value = parse_number(text)
            if value is not None:
                # A percentage is a fraction by now.
                texts.append(f"{value if '%' in text else round(value, 2) * find_factor(scale):.4f}")
                continue
        texts.append(f"{text} {scale}" if scale else text)
    return " ".join(texts)


def normalise(text: str) -> str:
    words = []
    for word in text.lower().split(" "):
        if not is_number(word):
            word = "".join(character for character in word if character not in string.punctuation)
        if is_number(word):
            word = str(parse_number(word))
        words += re.sub(r"\b(a|an|the)\b", " ", word).split()
    return " ".join(words)


def compare(prediction: str, gold: str) -> tuple[float, float]:
    left, right = normalise(prediction), normalise(gold)
    left_words, right_words = set(left.split()), set(right.split())
    shared = len(left_words & right_words)
    precision = shared / len(left_words) if left_words else 1.0
    recall = shared / len(right_words) if right_words else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return float(left == right), round(f1, 2)


def score(answer: Any, kind: str, scale: str, prediction: Any, prediction_scale: str) -> tuple[float, float, float]:
    """(exact match, F1, scale).

    Raises:
      TypeError: texts and numbers are sorted together.
    """
    gold = [str(answer)] if kind in ("arithmetic", "count") else answer
    if not prediction or not gold:
        return 0.0, 0.0, 0.0
    parts = prediction if isinstance(prediction, list) else [prediction]
    candidates = [join_parts(parts, prediction_scale)]
    text = str(parts[0])
    if len(parts) == 1 and not prediction_scale and is_number(text) and "%" not in text:
        value = parse_number(text)
        if value is not None:
            candidates.append(f"{value:.4f}")
    em, f1 = max(compare(candidate, join_parts(gold, scale)) for candidate in candidates)
    return em, em if kind in ("arithmetic", "count") else f1, float(prediction_scale == scale)


def test_the_second_form_is_the_official_metric(real_data):
    folder = real_data("tatqa_metric_reference")
    for case in json.loads((folder / "number_reader.json").read_text()):
        for name, compute in (("is_number", is_number), ("to_number", parse_number), ("normalize_answer", normalise)):
            if name in case and "__" not in str(case[name]):
                assert compute(case["text"]) == case[name], (name, case["text"])
    cases = [case for case in json.loads((folder / "single_cases.json").read_text()) if "error" not in case]
    for case in cases:
        prediction = math.nan if case["pred"] == "__NaN__" else case["pred"]
        scores = score(case["gold"], case["answer_type"], case["gold_scale"], prediction, case["pred_scale"])
        assert scores == pytest.approx((case["em"], case["f1"], case["scale_match"]), abs=1e-9), case
    assert len(cases) > 300


WORDS = "the a an net sales cost of revenue, in France (restated) due to higher-priced materials; U.S. No.".split()


def draw_number(draw: random.Random) -> str:
    number = round(10 ** draw.uniform(-2, 7), draw.randrange(4))
    text = draw.choice([f"{number:,}", f"{number}", f"{int(number):,}", f"{int(number)}", f"{number:.1f}"])
    forms = ["{}", "{}", "-{}", "({})", "${}", "$ {}", "{}%", "{} %", "({}%)", "+{}", "{} million", "€{} thousand"]
    return draw.choice(forms).format(text)


def draw_span(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return draw_number(draw)
    return " ".join(draw.choices([*WORDS, draw_number(draw)], k=draw.randrange(1, 5)))


def draw_gold(draw: random.Random) -> tuple[Any, str, str]:
    kind = draw.choice(["span", "multi-span", "multi-span", "arithmetic", "count"])
    scale = draw.choice(SCALES)
    if kind == "count":
        return draw.randrange(9), kind, ""
    if kind == "arithmetic":
        return round(draw.uniform(-2000, 2000), draw.randrange(5)), kind, scale
    if draw.random() < 0.4:
        return [draw_number(draw) for _ in range(1 if kind == "span" else draw.randrange(2, 4))], kind, scale
    return [draw_span(draw) for _ in range(1 if kind == "span" else draw.randrange(2, 4))], kind, scale


def perturb_part(draw: random.Random, part: Any) -> Any:
    text = str(part)
    value = parse_number(text) if is_number(text) else None
    changes: list[Any] = [part, part, text, text.upper(), text.replace(",", ""), f" {text}", f"the {text}."]
    changes.append(draw_span(draw))
    if value is not None:
        numbers = [value, round(value, 2), round(value), -value, value * 100, value / 100, value + 0.004]
        changes += [*numbers, *numbers, *map(str, numbers), f"{value}%", f"({abs(value)})", f"${value:,}"]
    return draw.choice(changes)


def perturb(draw: random.Random, answer: Any) -> Any:
    parts = [perturb_part(draw, part) for part in (answer if isinstance(answer, list) else [answer])]
    action = draw.randrange(6)
    if action == 0:
        parts.reverse()
    elif action == 1:
        parts.pop(draw.randrange(len(parts)))
    elif action == 2:
        parts.append(draw_span(draw))
    elif action == 3 and all(is_number(str(part)) for part in parts):
        parts = [parse_number(str(part)) or 0 for part in parts]
    return parts if len(parts) != 1 or draw.random() < 0.4 else parts[0]


def test_perturbed_predictions_score_as_in_the_second_form():
    draw = random.Random(11)
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(20_000):
        answer, kind, scale = draw_gold(draw)
        prediction = perturb(draw, answer)
        prediction_scale = scale if draw.random() < 0.6 else draw.choice(SCALES)
        case = answer, kind, scale, prediction, prediction_scale
        is_list_of_numbers = isinstance(prediction, list) and sum(isinstance(p, float | int) for p in prediction) > 1
        try:
            expected = score(*case)
        except TypeError:
            counts["mixed"] += 1
            with pytest.raises(DataError, match="mixes texts and numbers"):
                metric.score_question(*case)
            continue
        assert tuple(metric.score_question(*case)) == expected, case
        counts["list of numbers"] += is_list_of_numbers
        counts[f"{kind}, {'right' if expected[0] else 'partly right' if expected[1] else 'wrong'}"] += 1
    outcomes = [f"{kind}, right" for kind in ("span", "multi-span", "arithmetic", "count")]
    outcomes += ["multi-span, partly right", "arithmetic, wrong", "mixed", "list of numbers"]
    assert all(counts[outcome] > 200 for outcome in outcomes), counts


@pytest.mark.parametrize(
    ("gold", "prediction", "em"),
    [
        (["85", "1,210"], [85.0, 1210.0], 0), (["1,210", "85"], [1210, 85], 0), (["85", "1,210"], ["85", "1,210"], 1),
        (["12", "34"], [34, 12.0], 1), (["7", "25"], ["25", "7"], 1), (["7", "25"], [25, 7], 0),
        ([85, 1210], ["85", "1210"], 0), ([85, 1210], [1210, 85], 1),
    ],
)  # fmt: skip
def test_numbers_are_sorted_as_numbers_and_texts_as_texts(gold, prediction, em):
    assert metric.score_question(gold, "multi-span", "", prediction, "").em == em


def test_means_are_sums_from_first_to_last():
    """Pairwise or exact summation ends in other last digits."""
    draw = random.Random(3)
    values = [round(draw.random(), 2) for _ in range(1700)]
    *_, total = itertools.accumulate(values)
    assert total not in (math.fsum(values), float(np.sum(values)))
    scores = [metric.Score(0.0, value, 1.0) for value in values]
    assert metric.average_scores(scores, ["span"] * len(scores))["f1"] == total / len(values)
