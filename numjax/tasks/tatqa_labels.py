"""What TagOp has to say of a question, found from its answer and derivation: operator, units, and their order.

What is proposed counts only if the assembly makes the gold answer of it, by the official metric. Where nothing does,
the question has no labels to learn from; it is scored all the same.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from numjax.tasks import tatqa_metric as metric
from numjax.tasks.tatqa_answers import ORDERED, SHARES, THRESHOLD, assemble, said
from numjax.tasks.tatqa_units import TABLE, Context, Value

_OPERAND = re.compile(
    r"(?P<open>\()?\s?[$€£¥]?\s?(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)\s?(?P<percent>%?)"
    r"(?:\s?(?P<word>thousand|million|billion)s?\b)?\s?(?P<close>\))?"
)
_PLAIN = str.maketrans({"[": "(", "]": ")", "−": "-", "–": "-", "×": "*", "÷": "/"})
_TRIED = 64  # choices of units for one derivation


class Labels(NamedTuple):
    """Of one question: places of units in the context; swapped: the later of the two comes first."""

    operator: str
    units: tuple[int, ...]
    swapped: bool = False


class Derived(NamedTuple):
    """A derivation as one operator over numbers, in order."""

    operator: str
    values: tuple[Value, ...]


def find(
    context: Context, question: Mapping[str, Any], as_published: bool = False, shares: bool = False
) -> Labels | None:
    """The labels of a question, None where no operator over the context's units gives its answer.

    Args:
      question: `answer`, `derivation`, `answer_type`, `answer_from`, `scale`, `question`, `rel_paragraphs`, the
        groups of the paragraphs that matter, and optionally `cells`, (row, column) of the evidence in the order of
        the derivation.
      as_published: see `assemble`. shares: also with the operators `SHARES`.
    """
    kind = question["answer_type"]
    proposed = {"arithmetic": _arithmetic, "count": _counted}.get(kind, _spanned)(context, question)
    shared = _shared(context, question) if shares and kind == "arithmetic" else ()
    for labels in itertools.islice(itertools.chain(_mapped(context, question), proposed, shared), _TRIED):
        certain, scale = scores(context, labels), question["scale"]
        answer = assemble(context, labels.operator, scale, certain, labels.swapped, as_published)
        found = metric.question(question["answer"], kind, scale, answer, scale)
        if found.em or _zero(question["answer"], answer):
            return labels
    return None


def scores(context: Context, labels: Labels) -> list[float]:
    """What `assemble` reads of a model that is certain of the labels."""
    out = [10 * THRESHOLD] * len(context.units)
    for i in labels.units:
        out[i] = 0.0
    return out


def _zero(gold: Any, said: Any) -> bool:
    """An answer of nought, to which the metric gives no point."""
    return isinstance(gold, int | float) and not isinstance(said, list | str) and round(said, 2) == gold == 0


def _mapped(context: Context, question: Mapping[str, Any]) -> Iterator[Labels]:
    """What the evidence says, where a question names its cells."""
    at, cells = {cell: i for i, cell in enumerate(context.cells)}, question.get("cells") or ()
    units = tuple(at[cell] for cell in cells if cell in at)
    if not units or len(units) != len(cells):
        return
    ordered, kind = tuple(sorted(units)), question["answer_type"]
    if kind == "arithmetic":
        for derived in derivations(question["derivation"], question["scale"]):
            if len(derived.values) == len(units):
                yield Labels(derived.operator, ordered, derived.operator in ORDERED and units[0] > units[1])
    else:
        operator = "COUNT" if kind == "count" else "MULTI-SPAN" if kind == "multi-span" else "SPAN-TABLE"
        yield Labels(operator, ordered)


def _spanned(context: Context, question: Mapping[str, Any]) -> Iterator[Labels]:
    parts = [str(part) for part in question["answer"]]
    tables_first = question["answer_from"] != "text"
    ways = [_located(context, part, question) for part in parts]
    for first in (tables_first, not tables_first):
        ordered = [sorted(way, key=lambda units: (context.units[units[0]].group == TABLE) != first) for way in ways]
        for chosen in itertools.islice(_combined(ordered), _TRIED // 4):
            units = tuple(sorted({i for part in chosen for i in part}))
            if len(parts) > 1 or question["answer_type"] == "multi-span":
                yield Labels("MULTI-SPAN", units)
            elif context.units[units[0]].group == TABLE:
                yield Labels("SPAN-TABLE", units)
            else:
                yield Labels("SPAN-TEXT", units)


def _counted(context: Context, question: Mapping[str, Any]) -> Iterator[Labels]:
    parts = [part.strip() for part in question["derivation"].split("##") if part.strip()]
    ways = [_located(context, part, question, inside=True) for part in parts]
    for first in (True, False):
        ordered = [sorted(way, key=lambda units: (context.units[units[0]].group == TABLE) != first) for way in ways]
        for chosen in itertools.islice(_combined(ordered), _TRIED // 4):
            yield Labels("COUNT", tuple(sorted({i for part in chosen for i in part})))


def _combined(ways: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """One way of each part: the first of all, then others."""
    return iter(()) if not ways or not all(ways) else itertools.product(*(way[:4] for way in ways))


def _located(context: Context, text: str, question: Mapping[str, Any], inside: bool = False) -> list[tuple[int, ...]]:
    """The units of each place where a text stands: cells that answer with it (`inside`: that have it anywhere), and
    runs of words, those of the paragraphs that matter first."""
    wanted, scale = metric.normalised(text), question["scale"]
    exact = metric.normalised(metric.written([text], scale))
    groups: dict[int, list[int]] = {}
    for i, unit in enumerate(context.units):
        groups.setdefault(unit.group, []).append(i)
    whole, found, within = context.text, [], []
    for i in groups.get(TABLE, ()):
        cell = said(context, i, i)
        if metric.normalised(cell) == wanted or metric.normalised(metric.written([cell], scale)) == exact:
            found.append((i,))
        elif inside and wanted in metric.normalised(cell):
            within.append((i,))
    parts = [re.escape(word) for word in text.split()]
    if not parts:
        return found
    pattern = re.compile(r"\s+".join(parts), re.IGNORECASE)
    runs = []
    for group, members in groups.items():
        if group == TABLE:
            continue
        start, end = context.units[members[0]].start, context.units[members[-1]].end + 1
        for match in pattern.finditer(whole, start, end):
            units = tuple(i for i in members if _touches(context, i, *match.span()))
            runs.append((group not in question["rel_paragraphs"], units))
    return found + within + [units for _, units in sorted(runs, key=lambda run: run[0]) if units]


def _touches(context: Context, i: int, start: int, end: int) -> bool:
    return context.units[i].start < end and context.units[i].end > start


def _arithmetic(context: Context, question: Mapping[str, Any]) -> Iterator[Labels]:
    for derived in derivations(question["derivation"], question["scale"]):
        ways = [_worth(context, value) for value in derived.values]
        if not all(ways):
            continue
        choices = [chosen for chosen in itertools.islice(itertools.product(*ways), 4096) if _apart(chosen)]
        for chosen in sorted(choices, key=lambda units: -_together(context, units)):
            if derived.operator in ORDERED:
                swapped = chosen[0] > chosen[1]
                yield Labels(derived.operator, tuple(sorted(chosen)), swapped)
                if derived.operator == "DIFF":  # of costs in brackets that the derivation writes without them
                    yield Labels(derived.operator, tuple(sorted(chosen)), not swapped)
            else:
                yield Labels(derived.operator, tuple(sorted(chosen)))


def _shared(context: Context, question: Mapping[str, Any]) -> Iterator[Labels]:
    """Of "5/(5+7+3)": the share of a cell in its column or row."""
    over, slash, rest = question["derivation"].partition("/")
    found = next(derivations(f"{over}+{over}", question["scale"]), None) if slash and "+" in rest else None
    at, cells = {cell: i for i, cell in enumerate(context.cells)}, question.get("cells") or ()
    evident = [at[cell] for cell in cells[:1] if cell in at]
    for unit in (evident or _worth(context, found.values[0])) if found else ():
        for operator in SHARES:
            yield Labels(operator, (unit,))


def _apart(chosen: Sequence[int]) -> bool:
    return len(set(chosen)) == len(chosen)


def _worth(context: Context, value: Value) -> list[int]:
    """The units that hold a number: those of its sign first, for signs are often left out."""
    found = [i for i, unit in enumerate(context.units) if unit.value and abs(unit.value.number) == abs(value.number)]
    return sorted(found, key=lambda i: context.units[i].value.number != value.number)  # type: ignore[union-attr]


def _together(context: Context, chosen: Sequence[int]) -> float:
    """How much several units look like operands of one question: cells rather than words, and near each other."""
    tables = sum(context.units[i].group == TABLE for i in chosen)
    spread = max(chosen) - min(chosen)
    return tables - spread / (1 + len(context.units))


def derivations(text: str, scale: str = "") -> Iterator[Derived]:
    """The operators that a derivation such as "(44.1-56.7)/56.7" may be meant as, the likeliest first.

    Args:
      scale: of the answer: "60.3 million" is 60,300 thousand.
    """
    for bracketed in (False, True):
        values: list[Value] = []

        def name(match: re.Match, values: list[Value] = values, bracketed: bool = bracketed) -> str:
            value = Decimal(match["number"].replace(",", ""))
            if match["word"] and scale and scale != "percent":
                value *= Decimal(str(metric.factor(match["word"]))) / Decimal(str(metric.factor(scale)))
            if negative := bracketed and match["open"] and match["close"]:
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
        yield from _read(tree, values)


def _read(tree: ast.expr, values: Sequence[Value]) -> Iterator[Derived]:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and not isinstance(tree.operand, ast.Name):
        # The sign of a whole derivation is that of its numbers.
        for found in _read(tree.operand, values):
            flipped = tuple(Value(-value.number, value.percent) for value in found.values)
            yield found if found.operator in ("CHANGE-RATIO", "DIVIDE") else found._replace(values=flipped)
        return
    if not isinstance(tree, ast.BinOp):
        return
    left, right = _leaf(tree.left, values), _leaf(tree.right, values)
    if isinstance(tree.op, ast.Sub):
        if left and right:
            yield Derived("DIFF", (left, right))
        elif right and right.number == 1 and isinstance(tree.left, ast.BinOp) and isinstance(tree.left.op, ast.Div):
            yield from _ratio(tree.left.left, tree.left.right, values)
    if isinstance(tree.op, ast.Div):
        over = tree.left
        divisor = _constant(tree.right, values)
        terms = _terms(over, ast.Add, values)
        if terms and len(terms) > 1 and divisor == len(terms):
            yield Derived("AVERAGE", terms)
        if isinstance(over, ast.BinOp) and isinstance(over.op, ast.Sub):
            below = _leaf(over.right, values)
            if below and right and abs(below.number) == abs(right.number):
                yield from _ratio(over.left, over.right, values)
        if left and right:
            yield Derived("DIVIDE", (left, right))
            yield Derived("CHANGE-RATIO", (left, right))
    for kind, operator in ((ast.Add, "SUM"), (ast.Mult, "TIMES")):
        terms = _terms(tree, kind, values)
        if terms and len(terms) > 1:
            yield Derived(operator, terms)


def _ratio(above: ast.expr, below: ast.expr, values: Sequence[Value]) -> Iterator[Derived]:
    left, right = _leaf(above, values), _leaf(below, values)
    if left and right:
        yield Derived("CHANGE-RATIO", (left, right))


def _leaf(tree: ast.expr, values: Sequence[Value]) -> Value | None:
    """The number that a leaf stands for, with the signs before it."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        inner = _leaf(tree.operand, values)
        sign = -1 if isinstance(tree.op, ast.USub) else 1
        return inner and Value(sign * inner.number, inner.percent)
    return values[int(tree.id[1:])] if isinstance(tree, ast.Name) and re.fullmatch(r"n\d+", tree.id) else None


def _terms(tree: ast.expr, kind: type, values: Sequence[Value]) -> tuple[Value, ...] | None:
    """The leaves that one operator joins, None if there is anything else; a difference is a sum of opposite signs."""
    if leaf := _leaf(tree, values):
        return (leaf,)
    adds = kind is ast.Add
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and adds:
        return _flipped(_terms(tree.operand, kind, values))
    if isinstance(tree, ast.BinOp) and (isinstance(tree.op, kind) or (adds and isinstance(tree.op, ast.Sub))):
        left, right = _terms(tree.left, kind, values), _terms(tree.right, kind, values)
        if left and right:
            return left + ((_flipped(right) or ()) if isinstance(tree.op, ast.Sub) else right)
    return None


def _flipped(terms: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    return terms and tuple(Value(-value.number, value.percent) for value in terms)


def _constant(tree: ast.expr, values: Sequence[Value]) -> Decimal | None:
    """What sums and differences of leaves come to, None if there is anything else."""
    if leaf := _leaf(tree, values):
        return leaf.number
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
        left, right = _constant(tree.left, values), _constant(tree.right, values)
        if left is not None and right is not None:
            return left + right if isinstance(tree.op, ast.Add) else left - right
    return None
