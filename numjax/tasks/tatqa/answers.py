"""Assembles an answer from an operator, a scale and the units that a model selects (TagOp; Zhu et al. 2021, section
4.3).

Text is cut from the original context; numbers are exact decimals until the last rounding.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from numjax.tasks.tatqa import metric
from numjax.tasks.tatqa.traits import is_total
from numjax.tasks.tatqa.units import TABLE, TableContext, Value

OPERATORS = (
    "SPAN-TEXT", "SPAN-TABLE", "MULTI-SPAN", "CHANGE-RATIO", "AVERAGE", "COUNT", "SUM", "DIFF", "TIMES", "DIVIDE",
)  # fmt: skip
SCALES = ("", "thousand", "million", "billion", "percent")
SHARES = ("SHARE-COLUMN", "SHARE-ROW")  # of the best cell in its line; not TagOp's, see `tasks/tatqa/task.py`
ORDERED = ("CHANGE-RATIO", "DIFF", "DIVIDE")  # of two units, whose order matters
THRESHOLD = math.log(0.5)  # a unit is selected above it

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WHICH_YEAR = re.compile(r"\b(?:which|what|how many) (?:\w+ ){0,2}?(?:years?|FYs?|periods?)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[a-z]{3}\.$")
_FOOTNOTE = re.compile(r"(?<=[a-z]{3})\d$")

Answer = list[str] | float | int | str


def assemble(
    context: TableContext,
    operator: str,
    scale: str,
    scores: Sequence[float],
    swapped: bool = False,
    as_published: bool = False,
) -> Answer:
    """The answer.

    Args:
      operator, scale: of `OPERATORS` and `SCALES`.
      scores: of each unit, the largest log-probability over its sub-words of being part of the answer. Operators use
        units above `THRESHOLD`, or the best unit if there is none.
      swapped: the later one of the two best numbers comes first, for the operators of `ORDERED`.
      as_published: without a unit above `THRESHOLD` the answer is empty; numbers are read as by the metric, so that
        "(1,746)" is positive and a percentage a fraction; units without a number may be selected and make the answer
        NaN; a zero divisor gives 1 in a ratio and 0 in a quotient; every percentage is multiplied by 100.

    Returns:
      Texts for the first three operators, an integer for COUNT, else a number; "" if there is no answer.
    """
    if operator in OPERATORS[:3] or operator == "COUNT":
        spans = _select_spans(context, operator, scores, as_published)
        if operator == "COUNT":
            return len(spans)
        if as_published:
            return [_unit_text(context, *span) for span in spans] or ""
        return _unify_currency([answer_text(context, *span) for span in spans]) or ""
    if operator in SHARES:
        return _compute_share(context, operator, scale, scores)
    numbers = [i for i, unit in enumerate(context.units) if unit.value is not None or as_published]
    if operator in ORDERED:
        best_two = sorted(sorted(numbers, key=lambda i: -scores[i])[:2])
        selected = best_two[::-1] if swapped else best_two
        if len(selected) < 2:
            return ""
    else:
        selected = [i for i in numbers if scores[i] > THRESHOLD]
        if not selected and not as_published:
            selected = _take_best(numbers, scores)
    if not selected:
        return ""
    if as_published:
        return _compute_published(operator, scale, [_unit_text(context, i, i) for i in selected])
    values = [context.units[i].value for i in selected]
    spans = compute(operator, scale, [value for value in values if value is not None])
    answer = math.nan if spans is None else round_answer(spans)
    return answer if math.isfinite(answer) else ""


def compute(operator: str, scale: str, values: Sequence[Value]) -> Decimal | None:
    """The exact result of an operator; None for a division by zero.

    In percent, sums, means and differences are over the percentages as written; quotients and products are multiplied
    by 100. A quotient is one of magnitudes: "(111)" of 372 is a share of 29.8%.
    """
    is_percent = scale == "percent"
    points = [value.number for value in values]
    fractions = [value.number / 100 if value.percent else value.number for value in values]
    operands = points if is_percent else fractions
    hundred = 100 if is_percent else 1
    if operator == "SUM":
        return sum(operands, Decimal(0))
    if operator == "AVERAGE":
        return sum(operands, Decimal(0)) / len(operands)
    if operator == "DIFF":
        return operands[0] - operands[1]
    if operator == "TIMES":
        return math.prod(fractions, start=Decimal(1)) * hundred
    if not fractions[1]:
        return None
    ratio = fractions[0] / fractions[1]
    return (ratio - 1 if operator == "CHANGE-RATIO" else abs(ratio)) * hundred


def _compute_share(context: TableContext, operator: str, scale: str, scores: Sequence[float]) -> Answer:
    """The best cell divided by the sum of its column or row, without headers and totals; "" if that sum is zero."""
    texts = {cell: _unit_text(context, i, i) for i, cell in enumerate(context.cells)}
    numbers = {
        cell: unit.value.number
        for cell, unit in zip(context.cells, context.units, strict=False)
        if min(cell) > 0 and unit.value is not None and not any(map(is_total, _find_headers(texts, cell)))
    }
    best = _take_best([i for i, cell in enumerate(context.cells) if cell in numbers], scores)
    if not best:
        return ""
    cell, axis = context.cells[best[0]], int(operator == "SHARE-COLUMN")
    line_total = sum((number for other_cell, number in numbers.items() if other_cell[axis] == cell[axis]), Decimal(0))
    return round_answer(numbers[cell] / line_total * (100 if scale == "percent" else 1)) if line_total else ""


def _find_headers(texts: Mapping[tuple[int, int], str], cell: tuple[int, int]) -> tuple[str, str]:
    return texts.get((cell[0], 0), ""), texts.get((0, cell[1]), "")


def round_answer(number: Decimal) -> float:
    """The number rounded to two decimals, as in gold answers, halves away from zero; to four if two give zero.

    The metric would round twice, first to four decimals. From 10^20 on the result is the nearest double.
    """
    if abs(number) >= 10**20:
        return float(number)
    hundredths = number.quantize(Decimal("0.01"), ROUND_HALF_UP)
    return float(hundredths or number.quantize(Decimal("0.0001"), ROUND_HALF_UP))


def _select_spans(
    context: TableContext, operator: str, scores: Sequence[float], as_published: bool
) -> list[tuple[int, int]]:
    """(first unit, last unit) of each cell or run of words that an operator selects."""
    units = context.units
    candidates = [i for i, unit in enumerate(units) if (unit.group == TABLE) != (operator == "SPAN-TEXT")]
    if operator in ("MULTI-SPAN", "COUNT"):
        candidates = list(range(len(units)))
    selected = [i for i in candidates if scores[i] > THRESHOLD]
    if not selected and not as_published:
        selected = _take_best(candidates, scores)
    if operator == "SPAN-TABLE":
        selected = _take_best(selected, scores)
    runs: list[list[int]] = []
    for i in selected:
        if runs and i == runs[-1][-1] + 1 and units[i].group == units[i - 1].group != TABLE:
            runs[-1].append(i)
        else:
            runs.append([i])
    if operator == "SPAN-TEXT" and runs:
        runs = [max(runs, key=lambda run: sum(scores[i] for i in run) / len(run))]
    elif not as_published:
        runs = [part for run in runs for part in _split_items(context, run, operator == "COUNT")]
    return [(run[0], run[-1]) for run in runs]


def _split_items(context: TableContext, run: list[int], counted: bool) -> list[list[int]]:
    """The items of a run: of a list such as "2019, 2018" the parts between commas and semicolons; else its sentences.

    Args:
      counted: the run is a list even if a sentence ends before it.
    """
    texts = [_unit_text(context, i, i) for i in run]
    preceding = context.text[: context.units[run[0]].start].rstrip()
    if texts[-1].endswith(".") or (preceding.endswith(".") and not counted):
        pairs = enumerate(itertools.pairwise(texts), 1)
        parts = [
            index for index, (word, next_word) in pairs if _SENTENCE_END.search(word) and next_word[:1].isupper()
        ]
    else:
        parts = [index for index, word in enumerate(texts[:-1], 1) if word[-1] in ",;"]
    return [run[start:end] for start, end in zip([0, *parts], [*parts, len(run)], strict=True)]


def answer_text(context: TableContext, first: int, last: int) -> str:
    """The text from the first unit to the last, with a closing quotation mark if it has an opening one; of a cell
    without its footnote, or only its year if the question asks for a year."""
    text, end = _unit_text(context, first, last), context.units[last].end
    if text.count("“") > text.count("”") and context.text[end : end + 1] == "”":
        return text + "”"
    if context.units[first].group == TABLE:
        years = _YEAR.findall(text)
        if len(years) == 1 and _WHICH_YEAR.search(context.question):
            return years[0]
        return _FOOTNOTE.sub("", text)
    return text


def _unify_currency(texts: Sequence[str]) -> list[str]:
    """The texts; without currency signs if all are amounts and only some have a sign, as in a table's first row."""
    signed = [text for text in texts if text.lstrip()[:1] in "$€£¥"]
    if 0 < len(signed) < len(texts) and all(metric.is_number(text) for text in texts):
        return [text.lstrip("$€£¥ ") for text in texts]
    return list(texts)


def _take_best(units: Sequence[int], scores: Sequence[float]) -> list[int]:
    return [max(units, key=lambda i: scores[i])] if units else []


def _unit_text(context: TableContext, first: int, last: int) -> str:
    return context.text[context.units[first].start : context.units[last].end]


def _compute_published(operator: str, scale: str, texts: Sequence[str]) -> Answer:
    numbers = [metric.to_number(text) for text in texts]
    values = [math.nan if value is None else float(value) for value in numbers]
    result: Any = 0.0
    if operator == "SUM":
        result = sum(values)
    elif operator == "AVERAGE":
        result = sum(values) / len(values)
    elif operator == "TIMES":
        result = math.prod(values)
    elif operator == "DIFF":
        result = values[0] - values[1]
    elif operator == "DIVIDE":
        result = values[0] / values[1] if values[1] else 0.0
    else:
        result = values[0] / values[1] - 1 if values[1] else 1.0
    return round(result * 100 if scale == "percent" else result, 4)
