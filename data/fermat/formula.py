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

LONGEST = 200  # characters: deeper ones are no word problem's
LARGEST = 10**30  # of a result

_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ARRAYS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}


def evaluate(formula: str, values: Mapping[str, Fraction] | None = None) -> Fraction:
    """The value of a formula of + − * /, signs, parentheses, decimal numbers and the names in `values`.

    Raises:
      ValueError: anything else stands in it, it divides by zero, or it is too long or large. One line.
    """
    return _value(_parsed(formula), values or {})


def approximate(formula: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The same for many values at once, float64; NaN or infinite where it divides by zero."""
    with np.errstate(all="ignore"):
        return np.asarray(_estimate(_parsed(formula), values), np.float64)


def shape(formula: str) -> str:
    """The formula with its numbers and names as a, b, c, … in the order in which they stand: "a*(b-c)".

    Raises:
      ValueError: as `evaluate`, but for values.
    """
    return _shape(_parsed(formula), iter("abcdefghijklmnopqrstuvwxyz"), top=True)


def decimal(value: Fraction, longest: int = 15) -> str | None:
    """A number as the published answers write it, "273.0" or "0.25"; None where it has no last digit or takes more
    than `longest` characters, the ".0" of a whole number not counted."""
    text = numbers.decimal(value)
    text = text if "." in text else f"{text}.0"
    return None if "/" in text or len(text.removesuffix(".0")) > longest else text


@functools.lru_cache(maxsize=1024)
def _parsed(formula: str) -> ast.expr:
    if len(formula) > LONGEST:
        raise ValueError(f"the formula has {len(formula)} characters, more than {LONGEST}")
    if re.search(r"[^0-9A-Za-z_+\-*/(). ]", formula):
        raise ValueError(f"{formula[:40]!r} is no formula of + - * / and numbers")
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{formula[:40]!r} is no formula of + - * / and numbers") from None


def _value(node: ast.expr, values: Mapping[str, Fraction]) -> Fraction:
    if isinstance(node, ast.Constant):
        found = node.value
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < LARGEST:
            return Fraction(Decimal(str(found)))
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise ValueError(f"{node.id} has no value")
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        found = _value(node.operand, values)
        return -found if isinstance(node.op, ast.USub) else found
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SYMBOLS:
        raise ValueError(f"{ast.unparse(node)[:40]!r} is no formula of + - * / and numbers")
    left, right = _value(node.left, values), _value(node.right, values)
    if isinstance(node.op, ast.Add):
        found = left + right
    elif isinstance(node.op, ast.Sub):
        found = left - right
    elif isinstance(node.op, ast.Mult):
        found = left * right
    elif right:
        found = left / right
    else:
        raise ValueError("it divides by zero")
    if abs(found) > LARGEST or found.denominator > LARGEST:
        raise ValueError("its value is too large or too fine")
    return found


def _estimate(node: ast.expr, values: Mapping[str, np.ndarray]) -> np.ndarray | float:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        found = _estimate(node.operand, values)
        return -found if isinstance(node.op, ast.USub) else found
    if not isinstance(node, ast.BinOp):
        return float(_value(node, {}))
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
