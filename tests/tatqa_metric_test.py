"""TAT-QA's metric at numbers for which the official script has no rule."""

from __future__ import annotations

from numjax.tasks.tatqa import metric


def test_numbers_that_no_double_holds_are_none_and_equal_to_none():
    """Whatever multiplies them: the official script stops at some of them."""
    for digits in (401, 5000):
        long, other = "9" * digits, "8" * digits
        assert not metric.is_number(long) and not metric.is_number(f"{long} million")
        assert not metric.is_number(long + "e-390")
        for text in (long, f"{long}%", f"({long})", f"{long} billion", f"{long}.5"):
            assert metric.to_number(text) is None
            for kind, scale in (("arithmetic", ""), ("span", "percent"), ("span", "million")):
                gold = [text] if kind == "span" else text
                assert metric.score_question(gold, kind, scale, text, scale).em == 1
                assert metric.score_question(gold, kind, scale, text.replace(long, other), scale).em == 0
                assert metric.score_question(gold, kind, scale, 12, scale).em == 0
                assert metric.score_question(12, "arithmetic", scale, text, scale).em == 0
    # A double holds these, but not what the scale makes of them.
    large, more = "9" * 305, "8" * 305
    assert metric.to_number(large) == int(large) and metric.to_number(f"{large} billion") is None
    assert metric.score_question(int(large), "arithmetic", "billion", large, "billion").em == 1
    assert metric.score_question(int(large), "arithmetic", "billion", more, "billion").em == 0
    assert metric.is_number("inf") and metric.normalise("inf") == "None", "words are what they were"
