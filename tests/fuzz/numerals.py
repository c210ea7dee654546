"""Numerals in a text, by every set of rules."""

from __future__ import annotations

from numjax import numeral
from numjax.numeral.surface import take_apart

FINDERS = [numeral.load_finder(rules) for rules in numeral.names()]
SEEDS = (b"It rose 12.5% to $(1,746) in 2019-2020.", b"-3e-5 of 1/2", "two hundred and seven, ½ × 10⁶".encode())


def check(data: bytes) -> None:
    """Numerals lie in the text in order, without overlap, and have finite values."""
    text = data.decode("utf-8", "surrogateescape")
    for find in FINDERS:
        end = 0
        for span in find(text):
            assert end <= span.start < span.end <= len(text) and span.text == text[span.start : span.end]
            assert span.value.is_finite()
            end = span.end
    take_apart(text)
