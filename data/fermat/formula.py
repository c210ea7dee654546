"""Answer formulas such as "(( num3-num2 )* num1 )", evaluated exactly from their syntax tree: nothing is executed."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ..problems import numbers

LONGEST = 200  # characters: no word problem has a longer formula
LARGEST = 10**30  # the bound on a result's absolute value and denominator

_DECIMAL = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ARRAYS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}


def evaluate(formula: str, values: Mapping[str, Fraction] | None = None) -> Fraction:
    """The value of a formula of + − * /, signs, parentheses, decimal numbers and the names in `values`.

    Raises:
      ValueError: it contains anything else, it divides by zero, or it is too long or large. The message is one line.
    """
    return _evaluate(_parse(formula), values or {}, formula.strip())


def approximate(formula: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The formula's values for arrays of values, float64; NaN or infinite where it divides by zero."""
    with np.errstate(all="ignore"):
        return np.asarray(_estimate(_parse(formula), values), np.float64)


def shape(formula: str) -> str:
    """The formula with its numbers and names as a, b, c, … in their order in it: "a*(b-c)".

    Raises:
      ValueError: as `evaluate`, except for values.
    """
    return _shape(_parse(formula), iter("abcdefghijklmnopqrstuvwxyz"), top=True)


def format_decimal(value: Fraction, longest: int = 15) -> str | None:
    """A number as in the published answers, "273.0" or "0.25"; None if its decimals never end or it has more than
    `longest` characters, not counting the ".0" of a whole number."""
    text = numbers.format_decimal(value)
    text = text if "." in text else f"{text}.0"
    return None if "/" in text or len(text.removesuffix(".0")) > longest else text


@functools.lru_cache(maxsize=1024)
def _parse(formula: str) -> ast.expr:
    if len(formula) > LONGEST:
        raise ValueError(f"the formula has {len(formula)} characters, more than {LONGEST}")
    if re.search(r"[^0-9A-Za-z_+\-*/(). ]", formula):
        raise ValueError(f"{formula[:40]!r} is no formula of + - * / and numbers")
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{formula[:40]!r} is no formula of + - * / and numbers") from None


def _evaluate(node: ast.expr, values: Mapping[str, Fraction], source: str) -> Fraction:
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
            # A decimal as it is written: a float has no more than 17 digits of it.
            text = source[node.col_offset : node.end_col_offset]
            return Fraction(text) if _DECIMAL.fullmatch(text) else Fraction(Decimal(str(value)))
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise ValueError(f"{node.id} has no value")
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _evaluate(node.operand, values, source)
        return -value if isinstance(node.op, ast.USub) else value
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SYMBOLS:
        raise ValueError(f"{ast.unparse(node)[:40]!r} is no formula of + - * / and numbers")
    left, right = _evaluate(node.left, values, source), _evaluate(node.right, values, source)
    if isinstance(node.op, ast.Add):
        value = left + right
    elif isinstance(node.op, ast.Sub):
        value = left - right
    elif isinstance(node.op, ast.Mult):
        value = left * right
    elif right:
        value = left / right
    else:
        raise ValueError("it divides by zero")
    if abs(value) > LARGEST or value.denominator > LARGEST:
        raise ValueError("its value is too large or too fine")
    return value


def _estimate(node: ast.expr, values: Mapping[str, np.ndarray]) -> np.ndarray | float:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _estimate(node.operand, values)
        return -operand if isinstance(node.op, ast.USub) else operand
    if not isinstance(node, ast.BinOp):
        return float(_evaluate(node, {}, ""))
    left, right = _estimate(node.left, values), _estimate(node.right, values)
    return _ARRAYS[type(node.op)](left, right)


def _shape(node: ast.expr, letters: Iterator[str], top: bool = False) -> str:
    if isinstance(node, ast.Constant | ast.Name):
        try:
            return next(letters)
        except StopIteration:
            raise ValueError("the formula has too many numbers") from None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        return f"-{_shape(node.operand, letters)}" if isinstance(node.op, ast.USub) else _shape(node.operand, letters)
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SYMBOLS:
        raise ValueError(f"{ast.unparse(node)[:40]!r} is no formula of + - * / and numbers")
    text = f"{_shape(node.left, letters)}{_SYMBOLS[type(node.op)]}{_shape(node.right, letters)}"
    return text if top else f"({text})"
