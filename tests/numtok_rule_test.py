"""NumTok's rule in its stated form, step by step on plain strings, beside `numjax.numeral.numtok`."""

from __future__ import annotations

import collections
import random
import re
from decimal import Decimal

import pytest

from numjax import numeral

ALLOWED = "0123456789+-,.%"
PATTERNS = [
    re.compile(pattern, re.ASCII)
    for pattern in (r"[+-]?\d+(\.\d*)?%?", r"[+-]?\d{1,3}(,\d{3})*(\.\d+)?%?", r"[+-]?\.\d+%?")
]
PIECES = [*"0123456789" * 2, *"+-,.%" * 6, "1,234", "12,345.6", ".5", "2019", "100%", *"  \t\n$−()/:=xMeé½٣"]
PIECES += ["[NUM]", "USD", "kg", "Q4", "e-9", " and "]


def is_numeral(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in PATTERNS)


def filter_runs(text: str) -> list[tuple[int, str]]:
    """(position, characters) of the longest runs of allowed characters that hold a digit."""
    runs: list[tuple[int, str]] = []
    run = ""
    for index, character in enumerate([*text, "end"]):
        if character in ALLOWED:
            run += character
            continue
        if any(c in "0123456789" for c in run):
            runs.append((index - len(run), run))
        run = ""
    return runs


def strip_mark(start: int, run: str, after_blank: bool) -> tuple[int, str]:
    return (start + 1, run[1:]) if not after_blank and run[:1] in [",", "-", ".", "+"] else (start, run)


def split_run(start: int, run: str, separators: str) -> list[tuple[int, str]]:
    parts = [(start, "")]
    for index, character in enumerate(run, start):
        if character in separators:
            parts.append((index + 1, ""))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + character)
    while parts and not parts[0][1]:
        parts = parts[1:]
    while parts and not parts[-1][1]:
        parts = parts[:-1]
    return parts


def check_run(start: int, run: str, after_blank: bool) -> tuple[str, list[tuple[int, str]]]:
    """(what became of a run, its numerals)."""
    position, whole = strip_mark(start, run, after_blank)
    if is_numeral(whole):
        return "whole", [(position, whole)]
    for separators in (",", "-", ".", "+", "-+"):
        parts = split_run(start, run, separators)
        if parts and all(is_numeral(part) for _, part in parts):
            first = strip_mark(*parts[0], after_blank)
            return f"split{' behind a mark' * (first != parts[0])}", [first, *parts[1:]]
    return "lost", []


def find_numerals(text: str) -> tuple[list[str], list[tuple[int, str, Decimal]]]:
    """(what became of each run, the numerals with their positions and values)."""
    outcomes, numerals = [], []
    for start, run in filter_runs(text):
        after_blank = start == 0 or text[start - 1].isspace()
        outcome, parts = check_run(start, run, after_blank)
        outcomes.append(f"{outcome}{'' if after_blank else ', glued'}")
        for position, part in parts:
            digits = part.replace(",", "").removesuffix("%").removesuffix(".")
            numerals.append((position, part, Decimal(f"{digits}e-2" if "%" in part else digits)))
    return outcomes, numerals


def test_the_rule_on_random_strings():
    draw = random.Random(20)
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(100_000):
        text = "".join(draw.choices(PIECES, k=draw.randrange(1, 12)))
        outcomes, expected = find_numerals(text)
        counts.update(outcomes)
        spans = numeral.find(text, "numtok")
        assert [(span.start, span.text, span.value) for span in spans] == expected, text
        assert all(text[span.start : span.end] == span.text for span in spans), text
    outcomes = [f"{outcome}{glued}" for outcome in ("whole", "split", "lost") for glued in ("", ", glued")]
    assert min(counts[outcome] for outcome in [*outcomes, "split behind a mark, glued"]) > 500


@pytest.mark.parametrize(
    ("text", "numerals"),
    [
        ("kg-.25-", ["25"]), ("x.75.5,", []), ("(,2.5-3.5%", []), ("Q-1,500", ["1,500"]), ("a-3,1", ["3", "1"]),
        ("a.5-.7", ["5", ".7"]), (" .75.5,", []), ("-.25-", [".25"]),
    ],
)  # fmt: skip
def test_a_run_that_touches_a_word_is_split_with_its_marks(text, numerals):
    assert [span.text for span in numeral.find(text, "numtok")] == numerals
