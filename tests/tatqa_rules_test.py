"""The rules that TAT-QA's metric documents, over our own answers: numbers, partial credit, scales and means."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from numjax.tasks.tatqa import metric
from numjax.tasks.tatqa.metric import Score, compare, score_question


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234), ("$ 5.25", 5.25), ("-3", -3), ("+3", 3), ("(134)", -134), ("(1,746)", 1746), (".5", None),
        ("-.5", None), ("12%", 0.12), ("12 %", 0.12), ("3 million", 3e6), ("2.5billion", 2.5e9),
        ("4 Thousand", 4000), ("5 hundred", 500), ("2 percent", 0.02), ("1.23456", 1.2346), ("text", None),
        ("", None), ("about 7 of 9", 7),
    ],
)  # fmt: skip
def test_texts_have_the_value_of_their_first_number(text, value):
    number = metric.to_number(text)
    assert number == (None if value is None else pytest.approx(value, abs=1e-12))
    assert number is None or (isinstance(number, float) or float(number).is_integer())


@pytest.mark.parametrize("text", ["5", "$5", "5,000", "-5.5", "5%", "5 million", "5 percent", ".5", "(5)", "1e3"])
def test_numbers_with_or_without_a_scale_are_numbers(text):
    assert metric.is_number(text)


@pytest.mark.parametrize("text", ["", " ", "$", "five", "5 apples", "apples 5", "5 6", "nan", "5-6", "million x"])
def test_other_texts_are_none(text):
    assert not metric.is_number(text)


def test_words_are_compared_without_case_articles_and_punctuation():
    assert compare("The net Sales, of a firm!", "net sales of firm") == (1.0, 1.0)
    assert compare("$1,000", "1000") == compare("(5)", "-5") == (1.0, 1.0), "numbers by value"
    assert compare("net sales", "sales net") == (0.0, 1.0), "the order counts for the exact match alone"


def test_f1_is_of_sets_of_words(rng):
    words = ["net", "sales", "cost", "plant", "tax", "loss"]
    for _ in range(200):
        left, right = (rng.choice(words, rng.integers(1, 6)).tolist() for _ in range(2))
        shared = len({*left} & {*right})
        wanted = round(2 * shared / (len({*left}) + len({*right})), 2)
        em, f1 = compare(" ".join(left), " ".join(right))
        assert f1 == pytest.approx(wanted, abs=1e-12) and em == (left == right)
    assert compare("", "sales") == (0.0, 0.0) and compare("the", "a") == (1.0, 1.0)


@pytest.mark.parametrize("prediction", ["", 0, [], None])
def test_nothing_is_always_wrong(prediction):
    assert score_question(0, "arithmetic", "", prediction, "") == Score(0, 0, 0)
    assert score_question(5, "arithmetic", "", prediction, "") == Score(0, 0, 0)


def test_a_fraction_counts_as_its_percentage_if_it_stands_alone():
    def exact(prediction, scale=""):
        return score_question(23.42, "arithmetic", "percent", prediction, scale)

    assert exact(23.42, "percent") == Score(1, 1, 1)
    assert exact(0.2342) == exact("0.2342") == exact([0.2342]) == Score(1, 1, 0)
    assert exact([0.2342, 5]).em == 0 and exact(0.2342, "percent").em == 0
    assert exact("about 0.2342").em == 0 and exact("0.2342%").em == 0 and exact("23.42%").em == 1
    assert exact(0.2343).em == 0


def test_amounts_are_compared_in_their_scale():
    for scale, factor in metric.SCALES.items():
        if scale != "percent":
            assert score_question(2.5, "arithmetic", scale, 2.5 * factor, "") == Score(1, 1, 0)
            assert score_question(2.5, "arithmetic", scale, 2.5, "") == Score(0, 0, 0)
        assert metric.scale_factor(f"in {scale.upper()}s") == factor
    assert metric.scale_factor("dollars") == 1
    assert score_question(2.506, "arithmetic", "million", 2.51, "million") == Score(1, 1, 1), "two decimals"


def test_only_spans_have_partial_credit():
    assert score_question(["net sales"], "span", "", "net cost", "") == Score(0, 0.5, 1)
    assert score_question(["2019", "2018"], "multi-span", "", ["2018"], "") == Score(0, 0.67, 1)
    assert score_question(["2019", "2018"], "multi-span", "", ["2018", "2019"], "") == Score(1, 1, 1), "in any order"
    assert score_question(3, "count", "", "3 of 4", "") == Score(0, 0, 1)
    assert score_question(3.0, "count", "", 3, "") == Score(1, 1, 1)


def test_means_are_over_all_questions_and_over_each_kind_and_source(rng):
    kinds, sources = ("arithmetic", "span", "count"), ("table", "text")
    pairs = [pair for pair in itertools.product(kinds, sources) for _ in range(3)]
    scores = [Score(*rng.random(3).tolist()) for _ in pairs]
    means = metric.average_scores(scores, [kind for kind, _ in pairs], [source for _, source in pairs])

    def mean(name, chosen):
        return pytest.approx(
            np.mean([getattr(s, name) for s, pair in zip(scores, pairs, strict=True) if chosen(*pair)])
        )

    for name in Score._fields:
        assert means[name] == mean(name, lambda kind, source: True)
    assert means["em_num"] == means["em/arithmetic"]
    for name, kind in itertools.product(("em", "f1"), kinds):
        assert means[f"{name}/{kind}"] == mean(name, lambda k, s, kind=kind: k == kind)
        for source in sources:
            wanted = mean(name, lambda k, s, kind=kind, source=source: (k, s) == (kind, source))
            assert means[f"{name}/{kind}/{source}"] == wanted
    assert len(means) == 3 + 1 + 2 * 3 + 2 * 6
    assert "em_num" not in metric.average_scores(scores[6:], [kind for kind, _ in pairs[6:]])
    assert metric.average_scores([], []) == {"em": 0, "f1": 0, "scale": 0}
