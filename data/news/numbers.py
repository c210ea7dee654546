"""The numbers of a text whose magnitude can be asked, and groups of texts that repeat one another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from numjax import numeral

RUN = 8  # words; two texts that share a run of so many belong together
MAGNITUDES = range(8)
_DIGITS = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"[0-9]+(?: ?[.,][0-9]+)*")
# What makes digits a part of something else: of a date or score (9/11, 2-1, 2 - 1), a time (10:30, 7 p.m.), a year
# ('04), a version, a name (Q3, A380), a telephone number (+33 1 46), or a number that a tokenizer has cut (2 .5 and
# 928 ,000).
_BEFORE = re.compile(r"[^\W_]$|[-–—−/:.,+'’]$|(?:^|\W)[0-9]+ $|[0-9] ?[-–—−] $")
_AFTER = re.compile(r"[^\W_]|/|[-–—−:.,][0-9]| [.,]?[0-9]+(?!\w)| [-–—−] ?[0-9]| ?[ap]\.?m\b", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"0[0-9]")


def find_numbers(text: str) -> Iterator[tuple[int, str, int]]:
    """Yields (offset, digits as written, magnitude) of each number without a sign that stands for itself.

    The magnitude is the count of digits before the point, 0 below 1, as in Numeracy-600K. Percent signs and
    currencies are not among the digits. Numbers of eight digits and more are left out.
    """
    for span in numeral.find(text):
        if (match := _DIGITS.search(span.text)) is None or re.search(r"[eE]", span.text):
            continue
        offset, digits = span.start + match.start(), match[0]
        is_part = _BEFORE.search(text[:offset]) or _AFTER.match(text[offset + len(digits) :])
        if is_part or _LEADING_ZERO.match(digits):
            continue
        value = int(Decimal(digits.replace(",", "")))
        magnitude = len(str(value)) if value else 0
        if magnitude in MAGNITUDES:
            yield offset, digits, magnitude


def group_articles(articles: Sequence[Sequence[str]]) -> list[int]:
    """Returns the group of each article, the number of its first member. Articles of one group are linked by common
    runs of `RUN` words (capitals, marks and digits aside), or by equal texts that are shorter."""
    parents = list(range(len(articles)))

    def find(i: int) -> int:
        while parents[i] != i:
            parents[i] = i = parents[parents[i]]
        return i

    first_with: dict[tuple[str, ...], int] = {}
    for i, texts in enumerate(articles):
        for text in texts:
            for run in list_runs(text):
                j = find(first_with.setdefault(run, i))
                parents[max(find(i), j)] = min(find(i), j)
    return [find(i) for i in range(len(articles))]


def list_runs(text: str) -> set[tuple[str, ...]]:
    """The runs of `RUN` words of a text, each number as 0, 1,250 and 3.8 too; of a shorter text all its words."""
    words = _WORD.findall(_NUMBER.sub("0", text.lower()))
    return {tuple(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))} - {()}
