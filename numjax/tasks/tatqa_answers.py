"""From an operator, a scale and the units that a model points at to an answer (TagOp; Zhu et al. 2021, section 4.3).

Text is cut from the context as it was; numbers are exact decimals until the last rounding.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from numjax.tasks import tatqa_metric as metric
from numjax.tasks.table_traits import is_total
from numjax.tasks.tatqa_units import TABLE, Context, Value

OPERATORS = (
    "SPAN-TEXT", "SPAN-TABLE", "MULTI-SPAN", "CHANGE-RATIO", "AVERAGE", "COUNT", "SUM", "DIFF", "TIMES", "DIVIDE",
)  # fmt: skip
SCALES = ("", "thousand", "million", "billion", "percent")
SHARES = ("SHARE-COLUMN", "SHARE-ROW")  # of the best cell in its line; not TagOp's, see `tasks/tatqa.py`
ORDERED = ("CHANGE-RATIO", "DIFF", "DIVIDE")  # of two units, whose order counts
THRESHOLD = math.log(0.5)  # a unit is selected above it

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WHICH_YEAR = re.compile(r"\b(?:which|what|how many) (?:\w+ ){0,2}?(?:years?|FYs?|periods?)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[a-z]{3}\.$")
_FOOTNOTE = re.compile(r"(?<=[a-z]{3})\d$")

Answer = list[str] | float | int | str


def assemble(
    context: Context,
    operator: str,
    scale: str,
    scores: Sequence[float],
    swapped: bool = False,
    as_published: bool = False,
) -> Answer:
    """The answer.

    Args:
      operator, scale: of `OPERATORS` and `SCALES`.
      scores: a unit's largest log-probability of being part of the answer, over its sub-words. What operators read
        is above `THRESHOLD`; where nothing is, the best one.
      swapped: of the two best numbers the later one comes first, for the operators of `ORDERED`.
      as_published: what no unit supports is the empty answer; numbers are read as the metric reads them, so that
        "(1,746)" is positive and a percentage a fraction; units without a number may be chosen and make the answer
        not a number; a zero divisor gives 1 in a ratio and 0 in a quotient; every percentage is multiplied by 100.

    Returns:
      Texts for the first three operators, a whole number for COUNT, else a number; "" where there is no answer.
    """
    if operator in OPERATORS[:3] or operator == "COUNT":
        found = _spans(context, operator, scores, as_published)
        if operator == "COUNT":
            return len(found)
        if as_published:
            return [_text(context, *span) for span in found] or ""
        return _alike([said(context, *span) for span in found]) or ""
    if operator in SHARES:
        return _share(context, operator, scale, scores)
    numbers = [i for i, unit in enumerate(context.units) if unit.value is not None or as_published]
    if operator in ORDERED:
        best = sorted(sorted(numbers, key=lambda i: -scores[i])[:2])
        chosen = best[::-1] if swapped else best
        if len(chosen) < 2:
            return ""
    else:
        chosen = [i for i in numbers if scores[i] > THRESHOLD]
        if not chosen and not as_published:
            chosen = _best(numbers, scores)
    if not chosen:
        return ""
    if as_published:
        return _published(operator, scale, [_text(context, i, i) for i in chosen])
    values = [context.units[i].value for i in chosen]
    found = compute(operator, scale, [value for value in values if value is not None])
    answer = math.nan if found is None else rounded(found)
    return answer if math.isfinite(answer) else ""


def compute(operator: str, scale: str, values: Sequence[Value]) -> Decimal | None:
    """The exact result of an operator; None for a division by zero.

    Sums, means and differences in percent are those of the percentages as written, quotients and products times 100.
    A quotient is one of magnitudes: "(111)" of 372 is a share of 29.8%.
    """
    whole = scale == "percent"
    points = [value.number for value in values]
    fractions = [value.number / 100 if value.percent else value.number for value in values]
    plain = points if whole else fractions
    hundred = 100 if whole else 1
    if operator == "SUM":
        return sum(plain, Decimal(0))
    if operator == "AVERAGE":
        return sum(plain, Decimal(0)) / len(plain)
    if operator == "DIFF":
        return plain[0] - plain[1]
    if operator == "TIMES":
        return math.prod(fractions, start=Decimal(1)) * hundred
    if not fractions[1]:
        return None
    ratio = fractions[0] / fractions[1]
    return (ratio - 1 if operator == "CHANGE-RATIO" else abs(ratio)) * hundred


def _share(context: Context, operator: str, scale: str, scores: Sequence[float]) -> Answer:
    """The best cell over the sum of its column or row, without headers and totals; "" where that is nought."""
    texts = {cell: _text(context, i, i) for i, cell in enumerate(context.cells)}
    inner = {
        cell: unit.value.number
        for cell, unit in zip(context.cells, context.units, strict=False)
        if min(cell) > 0 and unit.value is not None and not any(map(is_total, _headers(texts, cell)))
    }
    best = _best([i for i, cell in enumerate(context.cells) if cell in inner], scores)
    if not best:
        return ""
    cell, axis = context.cells[best[0]], int(operator == "SHARE-COLUMN")
    whole = sum((number for other, number in inner.items() if other[axis] == cell[axis]), Decimal(0))
    return rounded(inner[cell] / whole * (100 if scale == "percent" else 1)) if whole else ""


def _headers(texts: Mapping[tuple[int, int], str], cell: tuple[int, int]) -> tuple[str, str]:
    return texts.get((cell[0], 0), ""), texts.get((0, cell[1]), "")


def rounded(number: Decimal) -> float:
    """Two decimals, as gold answers have, halves away from zero; four where that leaves nothing. The metric would
    round twice, first to four. Beyond 10^20 as a double has it."""
    if abs(number) >= 10**20:
        return float(number)
    short = number.quantize(Decimal("0.01"), ROUND_HALF_UP)
    return float(short or number.quantize(Decimal("0.0001"), ROUND_HALF_UP))


def _spans(context: Context, operator: str, scores: Sequence[float], as_published: bool) -> list[tuple[int, int]]:
    """(first unit, last unit) of the cells and of the runs of words that an operator selects."""
    units = context.units
    inside = [i for i, unit in enumerate(units) if (unit.group == TABLE) != (operator == "SPAN-TEXT")]
    if operator in ("MULTI-SPAN", "COUNT"):
        inside = list(range(len(units)))
    chosen = [i for i in inside if scores[i] > THRESHOLD]
    if not chosen and not as_published:
        chosen = _best(inside, scores)
    if operator == "SPAN-TABLE":
        chosen = _best(chosen, scores)
    runs: list[list[int]] = []
    for i in chosen:
        if runs and i == runs[-1][-1] + 1 and units[i].group == units[i - 1].group != TABLE:
            runs[-1].append(i)
        else:
            runs.append([i])
    if operator == "SPAN-TEXT" and runs:
        runs = [max(runs, key=lambda run: sum(scores[i] for i in run) / len(run))]
    elif not as_published:
        runs = [part for run in runs for part in _items(context, run, operator == "COUNT")]
    return [(run[0], run[-1]) for run in runs]


def _items(context: Context, run: list[int], counted: bool) -> list[list[int]]:
    """The items of a list, "2019, 2018", which commas and semicolons part; of sentences each is one.

    Args:
      counted: a list may begin with its sentence.
    """
    texts = [_text(context, i, i) for i in run]
    before = context.text[: context.units[run[0]].start].rstrip()
    if texts[-1].endswith(".") or (before.endswith(".") and not counted):
        pairs = enumerate(itertools.pairwise(texts), 1)
        parts = [place for place, (word, after) in pairs if _SENTENCE_END.search(word) and after[:1].isupper()]
    else:
        parts = [place for place, word in enumerate(texts[:-1], 1) if word[-1] in ",;"]
    return [run[start:end] for start, end in zip([0, *parts], [*parts, len(run)], strict=True)]


def said(context: Context, first: int, last: int) -> str:
    """The text of two units and what is between, a quotation whole; a cell without its footnote, its year alone where
    one is asked for."""
    text, end = _text(context, first, last), context.units[last].end
    if text.count("“") > text.count("”") and context.text[end : end + 1] == "”":
        return text + "”"
    if context.units[first].group == TABLE:
        years = _YEAR.findall(text)
        if len(years) == 1 and _WHICH_YEAR.search(context.question):
            return years[0]
        return _FOOTNOTE.sub("", text)
    return text


def _alike(texts: Sequence[str]) -> list[str]:
    """Amounts of which only some have the sign of a currency, as the first row of a table has it, without it."""
    signed = [text for text in texts if text.lstrip()[:1] in "$€£¥"]
    if 0 < len(signed) < len(texts) and all(metric.is_number(text) for text in texts):
        return [text.lstrip("$€£¥ ") for text in texts]
    return list(texts)


def _best(places: Sequence[int], scores: Sequence[float]) -> list[int]:
    return [max(places, key=lambda i: scores[i])] if places else []


def _text(context: Context, first: int, last: int) -> str:
    return context.text[context.units[first].start : context.units[last].end]


def _published(operator: str, scale: str, texts: Sequence[str]) -> Answer:
    read = [metric.to_number(text) for text in texts]
    values = [math.nan if value is None else float(value) for value in read]
    found: Any = 0.0
    if operator == "SUM":
        found = sum(values)
    elif operator == "AVERAGE":
        found = sum(values) / len(values)
    elif operator == "TIMES":
        found = math.prod(values)
    elif operator == "DIFF":
        found = values[0] - values[1]
    elif operator == "DIVIDE":
        found = values[0] / values[1] if values[1] else 0.0
    else:
        found = values[0] / values[1] - 1 if values[1] else 1.0
    return round(found * 100 if scale == "percent" else found, 4)
