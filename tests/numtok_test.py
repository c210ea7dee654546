"""NumTok: LUNA's own edge cases, and every case of the authors' code if its folder is there."""

from __future__ import annotations

import json

import pytest

from numjax import numeral
from numjax.numeral.exact import to_numeral
from numjax.types import Span

GOLDEN = {
    "1.76%-2.50%": [("1.76%", "0.0176"), ("2.50%", "0.0250")],
    "2019-2020": [("2019", "2019"), ("2020", "2020")],
    "+1000% -50": [("+1000%", "10.00"), ("-50", "-50")],
    "USD -100": [("-100", "-100")],
    "$-1000": [("1000", "1000")],
    "-$100": [("100", "100")],
    "F-1": [("1", "1")],
    "=-5": [("5", "5")],
    "--5": [("5", "5")],
    "- 5": [("5", "5")],
    "\u22125": [("5", "5")],
    "(1,746)": [("1,746", "1746")],
    "+-10": [("-10", "-10")],
    "a +-10": [("-10", "-10")],
    "2019/05/31": [("2019", "2019"), ("05", "5"), ("31", "31")],
    "10:30": [("10", "10"), ("30", "30")],
    "05-31-2019": [("05", "5"), ("31", "31"), ("2019", "2019")],
    "1.2.3": [("1", "1"), ("2", "2"), ("3", "3")],
    "10.0.0.1": [("10", "10"), ("0", "0"), ("0", "0"), ("1", "1")],
    "1234,5678": [("1234", "1234"), ("5678", "5678")],
    "1,234.": [("1", "1"), ("234.", "234")],
    "2. .3 0,123": [("2.", "2"), (".3", "0.3"), ("0,123", "123")],
    "1.5e-9": [("1.5", "1.5"), ("9", "9")],
    "0x12BF": [("0", "0"), ("12", "12")],
    "H2O": [("2", "2")],
    "5%% 1.5-2.5,3 1..2 x-,5": [],
    "no number - at all, none.": [],
}


@pytest.mark.parametrize("text", GOLDEN)
def test_golden_table(text):
    assert [(s.text, str(s.value)) for s in numeral.find(text, "numtok")] == GOLDEN[text]


def insert_marks(text: str, spans: list[Span], keep: bool) -> str:
    """Returns the text with [NUM] after each numeral, or instead of it."""
    out, end = [], 0
    for span in spans:
        out += [text[end : span.end if keep else span.start], "[NUM]"]
        end = span.end
    return "".join([*out, text[end:]])


def test_the_authors_cases_give_the_same_spans(real_data):
    cases = json.loads((real_data("luna_reference") / "numtok_cases.json").read_text())
    assert len(cases) == 881
    for case in cases:
        text = case["text"]
        spans = numeral.find(text, "numtok")
        assert [[s.text, s.start, s.end, float(s.value)] for s in spans] == [n[:4] for n in case["numbers"]], text
        numerals = to_numeral([s.value for s in spans], 20)
        for n, mantissa, exponent in zip(case["numbers"], numerals.mantissa, numerals.exponent, strict=True):
            # The authors keep six decimals, and give zero an exponent of -1.
            assert abs(mantissa - n[4]) < 1e-6 and exponent == (n[5] if n[3] else 0), text
        # They remove a written "[NUM]" first; here it stays text (tests/text_test.py).
        bare = text.replace("[NUM]", "")
        spans = numeral.find(bare, "numtok")
        for name, keep in (("addback", True), ("replace", False)):
            assert insert_marks(bare, spans, keep) == case[name]
            assert [s.text for s in spans] == case[f"{name}_numbers"]
