"""A seeded stand-in for TAT-QA, in its JSON form: reports of invented companies, and questions for every operator.

A table has a few items over two or three years, some in brackets; the text beside it says why items changed, what
they hold and where the company works. Every answer follows from the derivation that is written beside it.
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
_PLACES = ("France", "Brazil", "Japan", "Kenya", "Canada", "Norway", "India", "Chile", "Poland", "Vietnam")
_NAMES = ("Arvo", "Belmar", "Corin", "Delphi", "Estra", "Falke", "Garda", "Hestia", "Ivara", "Jorvik")
_WORDS = {"thousand": "thousands", "million": "millions"}

Draw = Callable[[int, int], int]


class Sheet(NamedTuple):
    """What questions are asked of: values[item][year] of a table in a scale; the sentences are kept apart."""

    items: tuple[str, ...]
    years: tuple[int, ...]
    values: dict[str, dict[int, Decimal]]
    scale: str
    causes: dict[str, str]
    parts: dict[str, tuple[str, ...]]
    places: tuple[str, ...]


def contexts(count: int, seed: int) -> list[dict[str, Any]]:
    """`count` contexts with six questions each.

    Args:
      count: contexts. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    return [_context(place, rng) for place in range(count)]


def _context(place: int, rng: np.random.Generator) -> dict[str, Any]:
    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def some(words: tuple[str, ...], least: int, most: int) -> tuple[str, ...]:
        return tuple(words[i] for i in rng.permutation(len(words))[: draw(least, most)])

    items, last = some(_ITEMS, 4, 6), draw(2009, 2020)
    years = tuple(range(last, last - draw(2, 3), -1))
    values = {item: _row(years, draw) for item in items}
    causes = dict(zip(items, some(_CAUSES, 2, 2), strict=False))
    parts = {items[2]: some(_PARTS, 2, 3)}
    sheet = Sheet(items, years, values, ("thousand", "million")[draw(0, 1)], causes, parts, some(_PLACES, 2, 4))
    paragraphs = _paragraphs(sheet, f"{_NAMES[draw(0, 9)]} {('Group', 'Holdings', 'Industries')[draw(0, 2)]}", draw)
    makers = [_MAKERS[i] for i in rng.permutation(len(_MAKERS))[:6]]
    questions = []
    for order, maker in enumerate(makers, 1):
        asked = maker(sheet, draw)
        asked = {"uid": f"stand-in-{place:05d}-{order}", "order": order} | asked
        questions.append(asked | {"req_comparison": ">" in asked["derivation"] or "##" in asked["derivation"]})
    return {
        "table": {"uid": f"stand-in-{place:05d}", "table": _table(sheet)},
        "paragraphs": [
            {"uid": f"stand-in-{place:05d}-p{i}", "order": i, "text": text} for i, text in enumerate(paragraphs, 1)
        ],
        "questions": questions,
    }


def _row(years: tuple[int, ...], draw: Draw) -> dict[int, Decimal]:
    places, sign = draw(0, 1), -1 if draw(0, 5) == 0 else 1
    low, high = (10, 99_999) if draw(0, 1) else (10, 999)
    found: dict[int, Decimal] = {}
    while len(found) < len(years):
        value = sign * Decimal(draw(low, high)).scaleb(-places)
        if value not in found.values():
            found[years[len(found)]] = value
    return found


def written(value: Decimal, dollar: bool = False) -> str:
    """A value as a report has it: 1,234.5, or (1,234.5) where it is negative."""
    text = f"{abs(value):,f}"
    text = f"({text})" if value < 0 else text
    return f"$ {text}" if dollar else text


def _table(sheet: Sheet) -> list[list[str]]:
    head = [f"(in {_WORDS[sheet.scale]})", *map(str, sheet.years)]
    rows = [
        [item, *(written(sheet.values[item][year], place == 0) for year in sheet.years)]
        for place, item in enumerate(sheet.items)
    ]
    return [head, *rows]


def _paragraphs(sheet: Sheet, name: str, draw: Draw) -> list[str]:
    last, before = sheet.years[:2]
    first = f"The table below sets out figures of {name} for the years {last} and {before}."
    why = [
        f"{item} changed in {last} compared to {before}, primarily due to {cause}."
        for item, cause in sheet.causes.items()
    ]
    what = [f"{item} consists of {_listed(found)}." for item, found in sheet.parts.items()]
    where = f"{name} works in {_listed(sheet.places)} and employs {draw(200, 90_000):,} people."
    return [first, " ".join(why), *what, where]


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _two_years(sheet: Sheet, draw: Draw) -> tuple[int, int]:
    at = draw(0, len(sheet.years) - 2)
    return sheet.years[at], sheet.years[at + 1]


def _item(sheet: Sheet, draw: Draw) -> str:
    return sheet.items[draw(0, len(sheet.items) - 1)]


def _asked(question: str, answer: Any, derivation: str, kind: str, source: str, scale: str) -> dict[str, Any]:
    return {
        "question": question,
        "answer": answer,
        "derivation": derivation,
        "answer_type": kind,
        "answer_from": source,
        "rel_paragraphs": [],
        "scale": scale,
    }


def _arithmetic(question: str, value: Decimal, derivation: str, scale: str) -> dict[str, Any]:
    rounded = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    number = int(rounded) if rounded == rounded.to_integral_value() else float(rounded)
    return _asked(question, number, derivation, "arithmetic", "table", scale)


def _plain(value: Decimal) -> str:
    """In a derivation."""
    return f"{value:,f}" if value >= 0 else f"(-{abs(value):,f})"


def _cell(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item, year = _item(sheet, draw), sheet.years[draw(0, len(sheet.years) - 1)]
    text = written(sheet.values[item][year], item == sheet.items[0])
    return _asked(f"What was the amount of {item} in {year}?", [text], "", "span", "table", sheet.scale)


def _largest(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item = _item(sheet, draw)
    ordered = sorted(sheet.years, key=lambda year: -sheet.values[item][year])
    derivation = ">".join(_plain(sheet.values[item][year]) for year in ordered)
    return _asked(f"In which year was {item} the largest?", [str(ordered[0])], derivation, "span", "table", "")


def _cause(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item = list(sheet.causes)[draw(0, len(sheet.causes) - 1)]
    found = _asked(f"Why did {item} change in {sheet.years[0]}?", [sheet.causes[item]], "", "span", "text", "")
    return found | {"rel_paragraphs": ["2"]}


def _kinds(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    del draw
    ((item, found),) = sheet.parts.items()
    asked = _asked(f"What does {item} consist of?", list(found), "", "multi-span", "text", "")
    return asked | {"rel_paragraphs": ["3"]}


def _respective(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = sheet.items[draw(1, len(sheet.items) - 1)], _two_years(sheet, draw)
    texts = [written(sheet.values[item][year]) for year in (late, early)]
    question = f"What were the respective amounts of {item} in {late} and {early}?"
    return _asked(question, texts, "", "multi-span", "table", sheet.scale)


def _count(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item = _item(sheet, draw)
    ordered = sorted(sheet.values[item].values())
    limit = (ordered[0] + ordered[1]) / 2 if draw(0, 1) else ordered[0] - 1
    years = [str(year) for year in sheet.years if sheet.values[item][year] > limit]
    bound = f"{limit.quantize(Decimal('0.1')):,f}"
    question = f"How many years did {item} exceed {bound} {sheet.scale}?"
    return _asked(question, len(years), "##".join(years), "count", "table", "")


def _places(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    del draw
    asked = _asked(
        "In how many countries does the company work?", len(sheet.places), "##".join(sheet.places), "", "", ""
    )
    return asked | {"answer_type": "count", "answer_from": "text", "rel_paragraphs": ["4"]}


def _change(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = _item(sheet, draw), _two_years(sheet, draw)
    a, b = sheet.values[item][late], sheet.values[item][early]
    question = f"What was the change in {item} from {early} to {late}?"
    return _arithmetic(question, a - b, f"{_plain(a)}-{_plain(b)}", sheet.scale)


def _less(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    """The earlier year less the later: the order is not always that of the table."""
    item, (late, early) = _item(sheet, draw), _two_years(sheet, draw)
    a, b = sheet.values[item][early], sheet.values[item][late]
    question = f"By how much did {item} in {early} exceed that in {late}?"
    return _arithmetic(question, a - b, f"{_plain(a)}-{_plain(b)}", sheet.scale)


def _percent(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item, (late, early) = _item(sheet, draw), _two_years(sheet, draw)
    a, b = sheet.values[item][late], sheet.values[item][early]
    question = f"What was the percentage change in {item} from {early} to {late}?"
    return _arithmetic(question, (a - b) / b * 100, f"({_plain(a)}-{_plain(b)})/{_plain(b)}", "percent")


def _average(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    item = _item(sheet, draw)
    years = sheet.years if draw(0, 1) else _two_years(sheet, draw)
    found = [sheet.values[item][year] for year in years]
    derivation = f"({'+'.join(map(_plain, found))})/{len(found)}"
    question = f"What was the average {item} for {' and '.join(map(str, years))}?"
    return _arithmetic(question, sum(found, Decimal(0)) / len(found), derivation, sheet.scale)


def _total(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    at, year = draw(0, len(sheet.items) - 2), sheet.years[draw(0, len(sheet.years) - 1)]
    items = sheet.items[at : at + 2]
    found = [sheet.values[item][year] for item in items]
    question = f"What was the total of {items[0]} and {items[1]} in {year}?"
    return _arithmetic(question, sum(found, Decimal(0)), "+".join(map(_plain, found)), sheet.scale)


def _ratio(sheet: Sheet, draw: Draw) -> dict[str, Any]:
    at, year = draw(0, len(sheet.items) - 2), sheet.years[draw(0, len(sheet.years) - 1)]
    items = sheet.items[at : at + 2] if draw(0, 1) else sheet.items[at : at + 2][::-1]
    a, b = (abs(sheet.values[item][year]) for item in items)
    question = f"What was the ratio of {items[0]} to {items[1]} in {year}?"
    return _arithmetic(question, a / b, f"{_plain(a)}/{_plain(b)}", "")


_MAKERS = (
    _cell, _largest, _cause, _kinds, _respective, _count, _places, _change, _less, _percent, _average, _total, _ratio,
)  # fmt: skip
