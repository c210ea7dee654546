"""TagOp's labels of a question, derived from its answer and derivation: operator, units, and their order.

Labels are proposed, and accepted only if the answer assembled from them is right by the official metric. A question
without accepted labels is not trained on, but is still scored.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from numjax.tasks.tatqa import metric
from numjax.tasks.tatqa.answers import ORDERED, SHARES, THRESHOLD, answer_text, assemble
from numjax.tasks.tatqa.units import TABLE, TableContext, Value

_OPERAND = re.compile(
    r"(?P<open>\()?\s?[$€£¥]?\s?(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)\s?(?P<percent>%?)"
    r"(?:\s?(?P<word>thousand|million|billion)s?\b)?\s?(?P<close>\))?"
)
_PLAIN = str.maketrans({"[": "(", "]": ")", "−": "-", "–": "-", "×": "*", "÷": "/"})
_MAX_TRIALS = 64  # proposals for one question


class Labels(NamedTuple):
    """The labels of one question. units: indices in the context; swapped: the later of two units comes first."""

    operator: str
    units: tuple[int, ...]
    swapped: bool = False


class Derived(NamedTuple):
    """A derivation as one operator over numbers, in order."""

    operator: str
    values: tuple[Value, ...]


def find_labels(
    context: TableContext, question: Mapping[str, Any], as_published: bool = False, shares: bool = False
) -> Labels | None:
    """The labels of a question, None if no operator over the context's units gives its answer.

    Args:
      question: `answer`, `derivation`, `answer_type`, `answer_from`, `scale`, `question`, `rel_paragraphs` (the
        groups of the relevant paragraphs), and optionally `cells`, (row, column) of the evidence in the order of the
        derivation.
      as_published: see `assemble`. shares: also try the operators `SHARES`.
    """
    for labels in itertools.islice(propose_labels(context, question, shares), _MAX_TRIALS):
        if give_answer(context, question, labels, as_published):
            return labels
    return None


def propose_labels(context: TableContext, question: Mapping[str, Any], shares: bool = False) -> Iterator[Labels]:
    """Yields labels that follow from a question's answer and derivation, the likeliest first; see `find_labels`."""
    kind = question["answer_type"]
    yield from _propose_mapped(context, question)
    yield from {"arithmetic": _propose_arithmetic, "count": _propose_counts}.get(kind, _propose_spans)(
        context, question
    )
    if shares and kind == "arithmetic":
        yield from _propose_shares(context, question)


def give_answer(
    context: TableContext, question: Mapping[str, Any], labels: Labels, as_published: bool = False
) -> bool:
    """Whether the answer that is assembled from labels is right by the official metric."""
    unit_scores, scale = certain_scores(context, labels), question["scale"]
    answer = assemble(context, labels.operator, scale, unit_scores, labels.swapped, as_published)
    score = metric.score_question(question["answer"], question["answer_type"], scale, answer, scale)
    return bool(score.em) or _is_zero(question["answer"], answer)


def certain_scores(context: TableContext, labels: Labels) -> list[float]:
    """The scores for `assemble` of a model that is certain of the labels."""
    out = [10 * THRESHOLD] * len(context.units)
    for i in labels.units:
        out[i] = 0.0
    return out


def _is_zero(gold: Any, prediction: Any) -> bool:
    """Whether answer and prediction are both zero, which the metric counts as wrong."""
    return (
        isinstance(gold, int | float) and not isinstance(prediction, list | str) and round(prediction, 2) == gold == 0
    )


def _propose_mapped(context: TableContext, question: Mapping[str, Any]) -> Iterator[Labels]:
    """Proposals from the cells that a question names as evidence."""
    index_of, cells = {cell: i for i, cell in enumerate(context.cells)}, question.get("cells") or ()
    units = tuple(index_of[cell] for cell in cells if cell in index_of)
    if not units or len(units) != len(cells):
        return
    ordered, kind = tuple(sorted(units)), question["answer_type"]
    if kind == "arithmetic":
        for derived in parse_derivation(question["derivation"], question["scale"]):
            if len(derived.values) == len(units):
                yield Labels(derived.operator, ordered, derived.operator in ORDERED and units[0] > units[1])
    else:
        operator = "COUNT" if kind == "count" else "MULTI-SPAN" if kind == "multi-span" else "SPAN-TABLE"
        yield Labels(operator, ordered)


def _propose_spans(context: TableContext, question: Mapping[str, Any]) -> Iterator[Labels]:
    parts = [str(part) for part in question["answer"]]
    tables_first = question["answer_from"] != "text"
    ways = [_locate(context, part, question) for part in parts]
    for table_first in (tables_first, not tables_first):
        ordered = [
            sorted(way, key=lambda units: (context.units[units[0]].group == TABLE) != table_first) for way in ways
        ]
        for choice in itertools.islice(_combine(ordered), _MAX_TRIALS // 4):
            units = tuple(sorted({i for part in choice for i in part}))
            if len(parts) > 1 or question["answer_type"] == "multi-span":
                yield Labels("MULTI-SPAN", units)
            elif context.units[units[0]].group == TABLE:
                yield Labels("SPAN-TABLE", units)
            else:
                yield Labels("SPAN-TEXT", units)


def _propose_counts(context: TableContext, question: Mapping[str, Any]) -> Iterator[Labels]:
    parts = [part.strip() for part in question["derivation"].split("##") if part.strip()]
    ways = [_locate(context, part, question, inside=True) for part in parts]
    for table_first in (True, False):
        ordered = [
            sorted(way, key=lambda units: (context.units[units[0]].group == TABLE) != table_first) for way in ways
        ]
        for choice in itertools.islice(_combine(ordered), _MAX_TRIALS // 4):
            yield Labels("COUNT", tuple(sorted({i for part in choice for i in part})))


def _combine(ways: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Combinations of one way for each part, the first ways first."""
    return iter(()) if not ways or not all(ways) else itertools.product(*(way[:4] for way in ways))


def _locate(
    context: TableContext, text: str, question: Mapping[str, Any], inside: bool = False
) -> list[tuple[int, ...]]:
    """The units of each occurrence of a text: cells whose answer it is (`inside`: also cells that contain it), then
    runs of words, those of relevant paragraphs first."""
    normal_text, scale = metric.normalise(text), question["scale"]
    normal_answer = metric.normalise(metric.format_answer([text], scale))
    groups: dict[int, list[int]] = {}
    for i, unit in enumerate(context.units):
        groups.setdefault(unit.group, []).append(i)
    full_text, exact_cells, containing_cells = context.text, [], []
    for i in groups.get(TABLE, ()):
        cell = answer_text(context, i, i)
        if (
            metric.normalise(cell) == normal_text
            or metric.normalise(metric.format_answer([cell], scale)) == normal_answer
        ):
            exact_cells.append((i,))
        elif inside and normal_text in metric.normalise(cell):
            containing_cells.append((i,))
    parts = [re.escape(word) for word in text.split()]
    if not parts:
        return exact_cells
    pattern = re.compile(r"\s+".join(parts), re.IGNORECASE)
    runs = []
    for group, members in groups.items():
        if group == TABLE:
            continue
        start, end = context.units[members[0]].start, context.units[members[-1]].end + 1
        for match in pattern.finditer(full_text, start, end):
            units = tuple(i for i in members if _touches(context, i, *match.span()))
            runs.append((group not in question["rel_paragraphs"], units))
    return exact_cells + containing_cells + [units for _, units in sorted(runs, key=lambda run: run[0]) if units]


def _touches(context: TableContext, i: int, start: int, end: int) -> bool:
    return context.units[i].start < end and context.units[i].end > start


def _propose_arithmetic(context: TableContext, question: Mapping[str, Any]) -> Iterator[Labels]:
    for derived in parse_derivation(question["derivation"], question["scale"]):
        ways = [_find_units(context, value) for value in derived.values]
        if not all(ways):
            continue
        choices = [choice for choice in itertools.islice(itertools.product(*ways), 4096) if _are_distinct(choice)]
        for choice in sorted(choices, key=lambda units: -_rate_closeness(context, units)):
            if derived.operator in ORDERED:
                swapped = choice[0] > choice[1]
                yield Labels(derived.operator, tuple(sorted(choice)), swapped)
                if derived.operator == "DIFF":  # of costs in brackets that the derivation writes without them
                    yield Labels(derived.operator, tuple(sorted(choice)), not swapped)
            else:
                yield Labels(derived.operator, tuple(sorted(choice)))


def _propose_shares(context: TableContext, question: Mapping[str, Any]) -> Iterator[Labels]:
    """Proposals for derivations like "5/(5+7+3)": the share of a cell in its column or row."""
    numerator, slash, rest = question["derivation"].partition("/")
    derived = (
        next(parse_derivation(f"{numerator}+{numerator}", question["scale"]), None) if slash and "+" in rest else None
    )
    index_of, cells = {cell: i for i, cell in enumerate(context.cells)}, question.get("cells") or ()
    evidence = [index_of[cell] for cell in cells[:1] if cell in index_of]
    for unit in (evidence or _find_units(context, derived.values[0])) if derived else ():
        for operator in SHARES:
            yield Labels(operator, (unit,))


def _are_distinct(units: Sequence[int]) -> bool:
    return len(set(units)) == len(units)


def _find_units(context: TableContext, value: Value) -> list[int]:
    """The units that hold a number, those with its sign first; others count too, as signs are often left out."""
    units = [i for i, unit in enumerate(context.units) if unit.value and abs(unit.value.number) == abs(value.number)]
    return sorted(units, key=lambda i: context.units[i].value.number != value.number)  # type: ignore[union-attr]


def _rate_closeness(context: TableContext, units: Sequence[int]) -> float:
    """How plausible units are as operands of one question: cells rather than words, and close together."""
    n_cells = sum(context.units[i].group == TABLE for i in units)
    spread = max(units) - min(units)
    return n_cells - spread / (1 + len(context.units))


def parse_derivation(text: str, scale: str = "") -> Iterator[Derived]:
    """The operators that a derivation such as "(44.1-56.7)/56.7" may mean, the likeliest first.

    Args:
      scale: of the answer: in thousands "60.3 million" is 60,300.
    """
    for with_brackets in (False, True):
        values: list[Value] = []

        def name(match: re.Match, values: list[Value] = values, with_brackets: bool = with_brackets) -> str:
            value = Decimal(match["number"].replace(",", ""))
            if match["word"] and scale and scale != "percent":
                value *= Decimal(str(metric.scale_factor(match["word"]))) / Decimal(str(metric.scale_factor(scale)))
            if negative := with_brackets and match["open"] and match["close"]:
                value = -value
            values.append(Value(value, bool(match["percent"])))
            leaf = f" n{len(values) - 1} "
            return leaf if negative else f"{match['open'] or ''}{leaf}{match['close'] or ''}"

        plain = text.translate(_PLAIN)
        source = re.sub(r"[$€£¥%]", "", _OPERAND.sub(name, plain))
        try:
            tree = ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        yield from _parse_tree(tree, values)


def _parse_tree(tree: ast.expr, values: Sequence[Value]) -> Iterator[Derived]:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and not isinstance(tree.operand, ast.Name):
        # A minus before the whole derivation flips the signs of its numbers.
        for derived in _parse_tree(tree.operand, values):
            flipped = tuple(Value(-value.number, value.percent) for value in derived.values)
            yield derived if derived.operator in ("CHANGE-RATIO", "DIVIDE") else derived._replace(values=flipped)
        return
    if not isinstance(tree, ast.BinOp):
        return
    left, right = _leaf_value(tree.left, values), _leaf_value(tree.right, values)
    if isinstance(tree.op, ast.Sub):
        if left and right:
            yield Derived("DIFF", (left, right))
        elif right and right.number == 1 and isinstance(tree.left, ast.BinOp) and isinstance(tree.left.op, ast.Div):
            yield from _parse_ratio(tree.left.left, tree.left.right, values)
    if isinstance(tree.op, ast.Div):
        dividend = tree.left
        divisor = _constant_value(tree.right, values)
        terms = _leaf_values(dividend, ast.Add, values)
        if terms and len(terms) > 1 and divisor == len(terms):
            yield Derived("AVERAGE", terms)
        if isinstance(dividend, ast.BinOp) and isinstance(dividend.op, ast.Sub):
            base = _leaf_value(dividend.right, values)
            if base and right and abs(base.number) == abs(right.number):
                yield from _parse_ratio(dividend.left, dividend.right, values)
        if left and right:
            yield Derived("DIVIDE", (left, right))
            yield Derived("CHANGE-RATIO", (left, right))
    for kind, operator in ((ast.Add, "SUM"), (ast.Mult, "TIMES")):
        terms = _leaf_values(tree, kind, values)
        if terms and len(terms) > 1:
            yield Derived(operator, terms)


def _parse_ratio(dividend: ast.expr, divisor: ast.expr, values: Sequence[Value]) -> Iterator[Derived]:
    left, right = _leaf_value(dividend, values), _leaf_value(divisor, values)
    if left and right:
        yield Derived("CHANGE-RATIO", (left, right))


def _leaf_value(tree: ast.expr, values: Sequence[Value]) -> Value | None:
    """The number of a leaf, with the signs before it; None if it is no leaf."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        inner = _leaf_value(tree.operand, values)
        sign = -1 if isinstance(tree.op, ast.USub) else 1
        return inner and Value(sign * inner.number, inner.percent)
    return values[int(tree.id[1:])] if isinstance(tree, ast.Name) and re.fullmatch(r"n\d+", tree.id) else None


def _leaf_values(tree: ast.expr, kind: type, values: Sequence[Value]) -> tuple[Value, ...] | None:
    """The leaves that one operator joins, None with other nodes. A difference is a sum with opposite signs."""
    if leaf := _leaf_value(tree, values):
        return (leaf,)
    adds = kind is ast.Add
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and adds:
        return _flip_signs(_leaf_values(tree.operand, kind, values))
    if isinstance(tree, ast.BinOp) and (isinstance(tree.op, kind) or (adds and isinstance(tree.op, ast.Sub))):
        left, right = _leaf_values(tree.left, kind, values), _leaf_values(tree.right, kind, values)
        if left and right:
            return left + ((_flip_signs(right) or ()) if isinstance(tree.op, ast.Sub) else right)
    return None


def _flip_signs(terms: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    return terms and tuple(Value(-value.number, value.percent) for value in terms)


def _constant_value(tree: ast.expr, values: Sequence[Value]) -> Decimal | None:
    """The value of sums and differences of leaves, None if there are other nodes."""
    if leaf := _leaf_value(tree, values):
        return leaf.number
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
        left, right = _constant_value(tree.left, values), _constant_value(tree.right, values)
        if left is not None and right is not None:
            return left + right if isinstance(tree.op, ast.Add) else left - right
    return None
