"""A seeded stand-in for TAT-QA in its JSON form: reports of invented companies, and questions for every operator.

A table has a few items over two or three years, some in brackets. The text beside it says why items changed, what
they contain and where the company works. Every answer follows from its derivation.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import numpy as np

_ITEMS = (
    "Net sales", "Cost of sales", "Gross profit", "Research and development", "Marketing expenses", "Interest income",
    "Income taxes", "Operating income", "Rental income", "Trade receivables", "Inventories", "Goodwill",
    "Deferred revenue", "Lease liabilities", "Warranty provisions", "Service revenue", "Licence fees", "Wages",
)  # fmt: skip
_CAUSES = (
    "higher prices of raw materials", "the sale of a plant", "an increase in the number of customers",
    "lower average borrowings", "the opening of new stores", "changes in currency rates", "a longer winter season",
    "the acquisition of a competitor",
)  # fmt: skip
_PARTS = (
    "software licences", "consulting services", "spare parts", "rented buildings", "hardware products",
    "training courses", "patents", "stored goods", "transport services",
)  # fmt: skip
_COUNTRIES = ("France", "Brazil", "Japan", "Kenya", "Canada", "Norway", "India", "Chile", "Poland", "Vietnam")
_NAMES = ("Arvo", "Belmar", "Corin", "Delphi", "Estra", "Falke", "Garda", "Hestia", "Ivara", "Jorvik")
_WORDS = {"thousand": "thousands", "million": "millions"}

Draw = Callable[[int, int], int]


class ReportSheet(NamedTuple):
    """The contents of a report: values[item][year] of a table in a scale, and the contents of its sentences."""

    items: tuple[str, ...]
    years: tuple[int, ...]
    values: dict[str, dict[int, Decimal]]
    scale: str
    causes: dict[str, str]
    parts: dict[str, tuple[str, ...]]
    countries: tuple[str, ...]


def make_contexts(count: int, seed: int) -> list[dict[str, Any]]:
    """Returns `count` contexts with six questions each.

    Args:
      count: number of contexts. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    return [_make_context(index, rng) for index in range(count)]


def _make_context(index: int, rng: np.random.Generator) -> dict[str, Any]:
    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def draw_some(words: tuple[str, ...], least: int, largest: int) -> tuple[str, ...]:
        return tuple(words[i] for i in rng.permutation(len(words))[: draw(least, largest)])

    items, last = draw_some(_ITEMS, 4, 6), draw(2009, 2020)
    years = tuple(range(last, last - draw(2, 3), -1))
    values = {item: _draw_row(years, draw) for item in items}
    causes = dict(zip(items, draw_some(_CAUSES, 2, 2), strict=False))
    parts = {items[2]: draw_some(_PARTS, 2, 3)}
    sheet = ReportSheet(
        items, years, values, ("thousand", "million")[draw(0, 1)], causes, parts, draw_some(_COUNTRIES, 2, 4)
    )
    paragraphs = _make_paragraphs(
        sheet, f"{_NAMES[draw(0, 9)]} {('Group', 'Holdings', 'Industries')[draw(0, 2)]}", draw
    )
    makers = [_MAKERS[i] for i in rng.permutation(len(_MAKERS))[:6]]
    questions = []
    for order, maker in enumerate(makers, 1):
        question = maker(sheet, draw)
        question = {"uid": f"stand-in-{index:05d}-{order}", "order": order} | question
        questions.append(
            question | {"req_comparison": ">" in question["derivation"] or "##" in question["derivation"]}
        )
    return {
        "table": {"uid": f"stand-in-{index:05d}", "table": _make_table(sheet)},
        "paragraphs": [
            {"uid": f"stand-in-{index:05d}-p{i}", "order": i, "text": text} for i, text in enumerate(paragraphs, 1)
        ],
        "questions": questions,
    }


def _draw_row(years: tuple[int, ...], draw: Draw) -> dict[int, Decimal]:
    places, sign = draw(0, 1), -1 if draw(0, 5) == 0 else 1
    low, high = (10, 99_999) if draw(0, 1) else (10, 999)
    values: dict[int, Decimal] = {}
    while len(values) < len(years):
        value = sign * Decimal(draw(low, high)).scaleb(-places)
        if value not in values.values():
            values[years[len(values)]] = value
    return values


def format_cell(value: Decimal, has_dollar: bool = False) -> str:
    """Returns a value as a report writes it: 1,234.5, or (1,234.5) if it is negative."""
    text = f"{abs(value):,f}"
    text = f"({text})" if value < 0 else text
    return f"$ {text}" if has_dollar else text


def _make_table(sheet: ReportSheet) -> list[list[str]]:
    head = [f"(in {_WORDS[sheet.scale]})", *map(str, sheet.years)]
    rows = [
        [item, *(format_cell(sheet.values[item][year], index == 0) for year in sheet.years)]
        for index, item in enumerate(sheet.items)
    ]
    return [head, *rows]


def _make_paragraphs(sheet: ReportSheet, name: str, draw: Draw) -> list[str]:
    last, previous = sheet.years[:2]
    first = f"The table below sets out figures of {name} for the years {last} and {previous}."
    causes = [
        f"{item} changed in {last} compared to {previous}, primarily due to {cause}."
        for item, cause in sheet.causes.items()
    ]
    parts = [f"{item} consists of {_join_words(names)}." for item, names in sheet.parts.items()]
    countries = f"{name} works in {_join_words(sheet.countries)} and employs {draw(200, 90_000):,} people."
    return [first, " ".join(causes), *parts, countries]


def _join_words(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _draw_two_years(sheet: ReportSheet, draw: Draw) -> tuple[int, int]:
    index = draw(0, len(sheet.years) - 2)
    return sheet.years[index], sheet.years[index + 1]


def _draw_item(sheet: ReportSheet, draw: Draw) -> str:
    return sheet.items[draw(0, len(sheet.items) - 1)]


def _make_question(question: str, answer: Any, derivation: str, kind: str, source: str, scale: str) -> dict[str, Any]:
    return {
        "question": question,
        "answer": answer,
        "derivation": derivation,
        "answer_type": kind,
        "answer_from": source,
        "rel_paragraphs": [],
        "scale": scale,
    }


def _make_arithmetic(question: str, value: Decimal, derivation: str, scale: str) -> dict[str, Any]:
    rounded = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    number = int(rounded) if rounded == rounded.to_integral_value() else float(rounded)
    return _make_question(question, number, derivation, "arithmetic", "table", scale)


def _format_operand(value: Decimal) -> str:
    """Returns a value as a derivation writes it: 1,234.5, or (-1,234.5) if it is negative."""
    return f"{value:,f}" if value >= 0 else f"(-{abs(value):,f})"


def _ask_cell(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item, year = _draw_item(sheet, draw), sheet.years[draw(0, len(sheet.years) - 1)]
    text = format_cell(sheet.values[item][year], item == sheet.items[0])
    return _make_question(f"What was the amount of {item} in {year}?", [text], "", "span", "table", sheet.scale)


def _ask_largest(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item = _draw_item(sheet, draw)
    years = sorted(sheet.years, key=lambda year: -sheet.values[item][year])
    derivation = ">".join(_format_operand(sheet.values[item][year]) for year in years)
    return _make_question(f"In which year was {item} the largest?", [str(years[0])], derivation, "span", "table", "")


def _ask_cause(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item = list(sheet.causes)[draw(0, len(sheet.causes) - 1)]
    question = _make_question(
        f"Why did {item} change in {sheet.years[0]}?", [sheet.causes[item]], "", "span", "text", ""
    )
    return question | {"rel_paragraphs": ["2"]}


def _ask_parts(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    del draw
    ((item, parts),) = sheet.parts.items()
    question = _make_question(f"What does {item} consist of?", list(parts), "", "multi-span", "text", "")
    return question | {"rel_paragraphs": ["3"]}


def _ask_respective(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = sheet.items[draw(1, len(sheet.items) - 1)], _draw_two_years(sheet, draw)
    texts = [format_cell(sheet.values[item][year]) for year in (late, early)]
    question = f"What were the respective amounts of {item} in {late} and {early}?"
    return _make_question(question, texts, "", "multi-span", "table", sheet.scale)


def _ask_count(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item = _draw_item(sheet, draw)
    values = sorted(sheet.values[item].values())
    limit = ((values[0] + values[1]) / 2 if draw(0, 1) else values[0] - 1).quantize(Decimal("0.1"))
    years = [str(year) for year in sheet.years if sheet.values[item][year] > limit]
    question = f"How many years did {item} exceed {limit:,f} {sheet.scale}?"
    return _make_question(question, len(years), "##".join(years), "count", "table", "")


def _ask_country_count(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    del draw
    question = _make_question(
        "In how many countries does the company work?", len(sheet.countries), "##".join(sheet.countries), "", "", ""
    )
    return question | {"answer_type": "count", "answer_from": "text", "rel_paragraphs": ["4"]}


def _ask_change(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = _draw_item(sheet, draw), _draw_two_years(sheet, draw)
    a, b = sheet.values[item][late], sheet.values[item][early]
    question = f"What was the change in {item} from {early} to {late}?"
    return _make_arithmetic(question, a - b, f"{_format_operand(a)}-{_format_operand(b)}", sheet.scale)


def _ask_excess(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    """Asks for the earlier year minus the later, so that the order is not always that of the table."""
    item, (late, early) = _draw_item(sheet, draw), _draw_two_years(sheet, draw)
    a, b = sheet.values[item][early], sheet.values[item][late]
    question = f"By how much did {item} in {early} exceed that in {late}?"
    return _make_arithmetic(question, a - b, f"{_format_operand(a)}-{_format_operand(b)}", sheet.scale)


def _ask_percent(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = _draw_item(sheet, draw), _draw_two_years(sheet, draw)
    a, b = sheet.values[item][late], sheet.values[item][early]
    question = f"What was the percentage change in {item} from {early} to {late}?"
    return _make_arithmetic(
        question, (a - b) / b * 100, f"({_format_operand(a)}-{_format_operand(b)})/{_format_operand(b)}", "percent"
    )


def _ask_average(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    item = _draw_item(sheet, draw)
    years = sheet.years if draw(0, 1) else _draw_two_years(sheet, draw)
    values = [sheet.values[item][year] for year in years]
    derivation = f"({'+'.join(map(_format_operand, values))})/{len(values)}"
    question = f"What was the average {item} for {' and '.join(map(str, years))}?"
    return _make_arithmetic(question, sum(values, Decimal(0)) / len(values), derivation, sheet.scale)


def _ask_total(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    index, year = draw(0, len(sheet.items) - 2), sheet.years[draw(0, len(sheet.years) - 1)]
    items = sheet.items[index : index + 2]
    values = [sheet.values[item][year] for item in items]
    question = f"What was the total of {items[0]} and {items[1]} in {year}?"
    return _make_arithmetic(question, sum(values, Decimal(0)), "+".join(map(_format_operand, values)), sheet.scale)


def _ask_ratio(sheet: ReportSheet, draw: Draw) -> dict[str, Any]:
    index, year = draw(0, len(sheet.items) - 2), sheet.years[draw(0, len(sheet.years) - 1)]
    items = sheet.items[index : index + 2] if draw(0, 1) else sheet.items[index : index + 2][::-1]
    a, b = (abs(sheet.values[item][year]) for item in items)
    question = f"What was the ratio of {items[0]} to {items[1]} in {year}?"
    return _make_arithmetic(question, a / b, f"{_format_operand(a)}/{_format_operand(b)}", "")


_MAKERS = (
    _ask_cell, _ask_largest, _ask_cause, _ask_parts, _ask_respective, _ask_count, _ask_country_count,
    _ask_change, _ask_excess, _ask_percent, _ask_average, _ask_total, _ask_ratio,
)  # fmt: skip
