"""TAT-QA's metric at numbers for which the official script has no rule."""

from __future__ import annotations

from numjax.tasks.tatqa import metric


def test_numbers_beyond_a_double_are_compared_as_texts():
    """With any scale and suffix. The official script stops at some of these numbers."""
    for digits in (401, 5000):
        long_number, other_number = "9" * digits, "8" * digits
        assert not metric.is_number(long_number) and not metric.is_number(f"{long_number} million")
        assert not metric.is_number(long_number + "e-390")
        for text in (
            long_number,
            f"{long_number}%",
            f"({long_number})",
            f"{long_number} billion",
            f"{long_number}.5",
        ):
            assert metric.to_number(text) is None
            for kind, scale in (("arithmetic", ""), ("span", "percent"), ("span", "million")):
                gold = [text] if kind == "span" else text
                assert metric.score_question(gold, kind, scale, text, scale).em == 1
                assert (
                    metric.score_question(gold, kind, scale, text.replace(long_number, other_number), scale).em == 0
                )
                assert metric.score_question(gold, kind, scale, 12, scale).em == 0
                assert metric.score_question(12, "arithmetic", scale, text, scale).em == 0
    # These fit a double, but not after their scale multiplies them.
    large, other_large = "9" * 305, "8" * 305
    assert metric.to_number(large) == int(large) and metric.to_number(f"{large} billion") is None
    assert metric.score_question(int(large), "arithmetic", "billion", large, "billion").em == 1
    assert metric.score_question(int(large), "arithmetic", "billion", other_large, "billion").em == 0
    assert metric.is_number("inf") and metric.normalise("inf") == "None", "words do not change"
