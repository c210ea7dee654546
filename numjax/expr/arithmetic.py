"""What operators and functions make of numbers: Fractions stay exact wherever the result is rational.

Sizes are bounded before a result is computed, and whatever is not defined raises Unevaluable.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from fractions import Fraction

from numjax.errors import DataError

Value = Fraction | float | complex

BITS = 1 << 15  # of a numerator or a denominator: nearly ten thousand digits
LARGEST_FACTORIAL = 1000


class Unevaluable(DataError):
    """A tree without a value, or with one that is too large to compute. The message names the node."""


def bounded(value: Value, what: str) -> Value:
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
            raise Unevaluable(f"{what} has too many digits")
        return value
    if isinstance(value, complex) and not value.imag:
        value = value.real
    if not cmath.isfinite(value):
        raise Unevaluable(f"{what} is not finite")
    return value


def real(value: Value, what: str) -> Fraction | float:
    if isinstance(value, complex):
        raise Unevaluable(f"{what} of a complex number")
    return value


def whole(value: Value, what: str) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise Unevaluable(f"{what} of what is no whole number")
    return value.numerator


def _sum(values: list[Value]) -> Value:
    return sum(values[1:], values[0])


def _minus(values: list[Value]) -> Value:
    return -values[0] if len(values) == 1 else values[0] - _sum(values[1:])


def _product(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        # Bounded at each step: a product of many large numbers grows before it is looked at.
        total = bounded(total * value, "a product")
    return total


def _divide(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        if not value:
            raise Unevaluable("division by zero")
        total = bounded(total / value, "a quotient")
    return total


def power(values: list[Value]) -> Value:
    base, exponent = values
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            return _whole_power(base, exponent.numerator)
        if exponent.denominator <= 64 and base >= 0:
            exact = _exact_root(base, exponent.denominator)
            if exact is not None:
                return _whole_power(exact, exponent.numerator)
    if not base:
        if real(exponent, "zero to the power") <= 0:
            raise Unevaluable("zero to the power of what is not positive")
        return base
    if isinstance(base, complex) or isinstance(exponent, complex) or base < 0:
        return complex(base) ** complex(exponent)
    return float(base) ** float(exponent)


def _whole_power(base: Fraction, exponent: int) -> Fraction:
    if not base and exponent < 0:
        raise Unevaluable("division by zero")
    if base in (0, 1, -1):
        return base if exponent % 2 else base**2 if exponent else Fraction(1)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if abs(exponent) * max(bits, 1) > BITS:
        raise Unevaluable("a power with too many digits")
    return base**exponent


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root of a fraction ≥ 0 where it is rational."""
    roots = []
    for part in (value.numerator, value.denominator):
        root = math.isqrt(part) if degree == 2 else _whole_root(part, degree)
        if root**degree != part:
            return None
        roots.append(root)
    return Fraction(*roots)


def _whole_root(value: int, degree: int) -> int:
    """The largest whole number whose power is not above the value, by bisection."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low


def _root(values: list[Value]) -> Value:
    radicand, degree = values if len(values) == 2 else (values[0], Fraction(2))
    if not degree:
        raise Unevaluable("a root of degree zero")
    odd = isinstance(degree, Fraction) and degree.denominator == 1 and degree.numerator % 2
    if odd and not isinstance(radicand, complex) and radicand < 0:
        # The real root, where a power of 1/3 would give the principal one.
        return -power([-radicand, 1 / degree])
    return power([radicand, 1 / degree])


def _factorial(values: list[Value]) -> Value:
    number = whole(values[0], "factorial")
    if not 0 <= number <= LARGEST_FACTORIAL:
        raise Unevaluable(f"a factorial of {'a negative number' if number < 0 else 'a number too large'}")
    return Fraction(math.factorial(number))


def _double_factorial(values: list[Value]) -> Value:
    number = whole(values[0], "double factorial")
    if not 0 <= number <= LARGEST_FACTORIAL:
        raise Unevaluable("a double factorial out of range")
    return Fraction(math.prod(range(number, 0, -2)))


def _binomial(values: list[Value]) -> Value:
    above, below = (whole(value, "binomial") for value in values)
    if not 0 <= below <= LARGEST_FACTORIAL or not 0 <= above <= LARGEST_FACTORIAL:
        raise Unevaluable("a binomial out of range")
    return Fraction(math.comb(above, below))


def _rem(values: list[Value]) -> Value:
    value, divisor = (real(v, "remainder") for v in values)
    if not divisor:
        raise Unevaluable("division by zero")
    return value % divisor


def log(values: list[Value]) -> Value:
    argument, base = values if len(values) == 2 else (values[0], Fraction(10))
    if not argument or base in (0, 1):
        raise Unevaluable("a logarithm of zero, or to the base 0 or 1")
    if isinstance(argument, Fraction) and isinstance(base, Fraction) and argument > 0 and base > 0:
        quotient = _log_of(argument) / _log_of(base)
        near = round(quotient)
        # 1000 to the base 10 is 3, not 2.9999999999999996.
        if abs(near) < 10_000 and abs(quotient - near) < 1e-9 and _same_power(base, near, argument):
            return Fraction(near)
        return quotient
    if isinstance(argument, complex) or isinstance(base, complex) or argument < 0 or base < 0:
        return cmath.log(complex(argument)) / cmath.log(complex(base))
    return math.log(argument) / math.log(base)


def _log_of(value: Fraction) -> float:
    # Whole numbers have logarithms beyond the range of floats.
    return math.log(value.numerator) - math.log(value.denominator)


def _same_power(base: Fraction, exponent: int, value: Fraction) -> bool:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    return bits * abs(exponent) <= 2 * BITS and base**exponent == value


def _ln(values: list[Value]) -> Value:
    if not values[0]:
        raise Unevaluable("a logarithm of zero")
    if isinstance(values[0], Fraction) and values[0] > 0:
        return Fraction(0) if values[0] == 1 else _log_of(values[0])
    return _function(math.log, cmath.log)(values)


def _function(real: Callable[[float], float], off: Callable[[complex], complex] | None):
    """A function by its real and its complex form; the complex one where the real one is not defined."""

    def compute(values: list[Value]) -> Value:
        value = values[0]
        if not isinstance(value, complex):
            try:
                return real(float(value))
            except ValueError:
                if off is None:
                    raise
        if off is None:
            raise Unevaluable("a function of the reals of a complex number")
        return off(complex(value))

    return compute


def _abs(values: list[Value]) -> Value:
    return abs(values[0])


def _picked(choose: Callable[..., Fraction | float]):
    return lambda values: choose([real(value, "least or greatest") for value in values])


def _whole_numbers(join: Callable[..., int], what: str):
    return lambda values: Fraction(join(*(whole(value, what) for value in values)))


def _rounded(choose: Callable[[Fraction | float], int], what: str):
    return lambda values: Fraction(choose(real(values[0], what)))


def _reciprocal(real: Callable[[float], float], off: Callable[[complex], complex]):
    compute = _function(real, off)

    def divided(values: list[Value]) -> Value:
        return _divide([Fraction(1), compute(values)])

    return divided


Compute = Callable[[list[Value]], Value]
_MANY = 1 << 20
NAMED: dict[str, Compute] = {
    name: _function(getattr(math, short), getattr(cmath, short))
    for name, short in {
        **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")},
        **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    }.items()
}
NAMED |= {
    name: _reciprocal(getattr(math, short), getattr(cmath, short))
    for name, short in {
        "sec": "cos",
        "csc": "sin",
        "cot": "tan",
        "sech": "cosh",
        "csch": "sinh",
        "coth": "tanh",
    }.items()
}
NAMED |= {"log": log, "lg": log, "ln": _ln, "abs": _abs}
# Symbol → least operands, most operands, computation.
OPERATIONS: dict[str, tuple[int, int, Compute]] = {
    **{name: (1, 1, compute) for name, compute in NAMED.items()},
    "plus": (1, _MANY, _sum),
    "minus": (1, _MANY, _minus),
    "times": (1, _MANY, _product),
    "divide": (2, _MANY, _divide),
    "SUP": (2, 2, power),
    "root": (1, 2, _root),
    "percent": (1, 1, lambda values: values[0] / 100),
    "degree": (1, 1, lambda values: real(values[0], "degree") * math.pi / 180),
    "factorial": (1, 1, _factorial),
    "double-factorial": (1, 1, _double_factorial),
    "binomial": (2, 2, _binomial),
    "rem": (2, 2, _rem),
    "floor": (1, 1, _rounded(math.floor, "floor")),
    "ceiling": (1, 1, _rounded(math.ceil, "ceiling")),
    "min": (1, _MANY, _picked(min)),
    "max": (1, _MANY, _picked(max)),
    "gcd": (1, _MANY, _whole_numbers(math.gcd, "gcd")),
    "lcm": (1, _MANY, _whole_numbers(math.lcm, "lcm")),
}
