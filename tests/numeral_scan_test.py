"""Finding and writing numerals against slower ways to do the same: a search at every position, and all styles."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from numjax.numeral import default
from numjax.numeral.exact import to_numeral
from numjax.numeral.format import PLAIN, format, parse_value, style_of
from numjax.numeral.surface import CURRENCY, MINUS, format_plain


def test_the_scan_finds_what_a_search_at_every_position_finds(rng):
    """The scan tries the pattern only near digits; a search by the pattern alone must give the same spans."""
    letters = [*"0123456789", *"0123456789", *MINUS, *"+((.,,$$€%)e ax^'"]
    texts = ["".join(rng.choice(letters, rng.integers(1, 14))) for _ in range(3000)]
    leads = ["".join(lead) for n in range(5) for lead in itertools.product("(+-.$", repeat=n)]
    texts += [f"{before}{lead}{digits}" for lead in leads for before in ("", "abcdefgh ") for digits in ("5", "5)")]
    for text in texts:
        spans = [(span.start, span.end) for span in default.find(text)]
        assert spans == [match.span() for match in default._PATTERN.finditer(text)], text


SIGNED = [f"{sign}{currency}{{}}" for sign in ("", "+", *MINUS) for currency in ("", *CURRENCY)]
ACCOUNTED = [form.format(currency) for currency in CURRENCY for form in ("({}{{}})", "{}({{}})")]


@pytest.mark.parametrize("body", ["5", "1,746", "0.50", ".5", "1746.25", "007", "5%", "1.20e-09"])
def test_every_way_to_write_a_numeral_is_written_again(body):
    for form in [*SIGNED, *ACCOUNTED]:
        surface = form.format(body)
        if [span.text for span in default.find(surface)] == [surface]:
            assert format(parse_value(surface), style_of(surface)) == surface


@pytest.mark.parametrize("example", ["2.5", "0.125", "1,746", "$(1.50)", "3%"])
def test_zeros_at_a_values_end_change_nothing(rng, example):
    style = style_of(example)
    for n in rng.integers(-(10**6), 10**6, 40).tolist():
        for power in (-4, 0, 3):
            value = Decimal(n).scaleb(power)
            longer = value.quantize(Decimal(1).scaleb(min(power, 0) - 5))
            assert format(longer, style) == format(value, style)


def test_numbers_are_written_in_a_style_up_to_its_length_and_plainly_beyond():
    style = style_of("2.50")
    for power in range(-60, 60):
        for digits in (1, 7, 12345):
            value = Decimal(digits).scaleb(power)
            length = max(len(str(digits)) + power, 0) + max(-power, 0)
            written = format(value, style)
            assert Decimal(written) == value
            assert (written == format_plain(value)) if length > PLAIN.digits else "e" not in written.lower()


def test_places_without_a_number_hold_zeros():
    numerals = to_numeral([None, Decimal("12.5"), None], 4)
    assert numerals.valid.tolist() == [False, True, False]
    for array in (numerals.digits, numerals.n_digits, numerals.exponent):
        assert not np.asarray(array)[[0, 2]].any()
    assert numerals.sign.tolist() == [1, 1, 1]
