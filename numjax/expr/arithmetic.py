"""Values of operators and functions. Fractions stay exact wherever the result is rational.

Sizes are checked before a result is computed. An operation without a defined result raises Unevaluable.
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


def count_bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def check_size(value: Value, subject: str) -> Value:
    if isinstance(value, Fraction):
        if count_bits(value) > BITS:
            raise Unevaluable(f"{subject} has too many digits")
        return value
    if isinstance(value, complex) and not value.imag:
        value = value.real
    if not cmath.isfinite(value):
        raise Unevaluable(f"{subject} is not finite")
    return value


def require_real(value: Value, subject: str) -> Fraction | float:
    if isinstance(value, complex):
        raise Unevaluable(f"{subject} of a complex number")
    return value


def require_integer(value: Value, subject: str) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise Unevaluable(f"{subject} of a number that is not whole")
    return value.numerator


def _sum(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        # Checked at each step, as in a product: fractions of different denominators grow too.
        total = check_size(total + value, "a sum")
    return total


def _difference(values: list[Value]) -> Value:
    return -values[0] if len(values) == 1 else values[0] - _sum(values[1:])


def _product(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        # Checked at each step: a product of many large numbers would grow first.
        total = check_size(total * value, "a product")
    return total


def _quotient(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        if not value:
            raise Unevaluable("division by zero")
        total = check_size(total / value, "a quotient")
    return total


def power(values: list[Value]) -> Value:
    base, exponent = values
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            return _integer_power(base, exponent.numerator)
        if exponent.denominator <= 64 and base >= 0:
            root = _exact_root(base, exponent.denominator)
            if root is not None:
                return _integer_power(root, exponent.numerator)
    if not base:
        if require_real(exponent, "zero to the power") <= 0:
            raise Unevaluable("zero to a power that is not positive")
        return base
    if isinstance(base, complex) or isinstance(exponent, complex) or base < 0:
        return complex(base) ** complex(exponent)
    if isinstance(base, Fraction) and not 1e-300 < base < 1e300:  # its power may be a float all the same
        return math.exp(float(exponent) * _fraction_log(base))
    return float(base) ** float(exponent)


def _integer_power(base: Fraction, exponent: int) -> Fraction:
    if not base and exponent < 0:
        raise Unevaluable("division by zero")
    if base in (0, 1, -1):
        return base if exponent % 2 else base**2 if exponent else Fraction(1)
    bits = count_bits(base) - 1
    if abs(exponent) * max(bits, 1) > BITS:
        raise Unevaluable("a power with too many digits")
    return base**exponent


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root of a fraction ≥ 0 if it is rational, else None."""
    roots = []
    for part in (value.numerator, value.denominator):
        root = math.isqrt(part) if degree == 2 else _integer_root(part, degree)
        if root**degree != part:
            return None
        roots.append(root)
    return Fraction(*roots)


def _integer_root(value: int, degree: int) -> int:
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
    is_odd = isinstance(degree, Fraction) and degree.denominator == 1 and degree.numerator % 2
    if is_odd and not isinstance(radicand, complex) and radicand < 0:
        # The real root, where a power of 1/3 would give the principal one.
        return -power([-radicand, 1 / degree])
    return power([radicand, 1 / degree])


def _factorial(values: list[Value]) -> Value:
    number = require_integer(values[0], "factorial")
    if not 0 <= number <= LARGEST_FACTORIAL:
        raise Unevaluable(f"a factorial of {'a negative number' if number < 0 else 'a number too large'}")
    return Fraction(math.factorial(number))


def _double_factorial(values: list[Value]) -> Value:
    number = require_integer(values[0], "double factorial")
    if not 0 <= number <= LARGEST_FACTORIAL:
        raise Unevaluable("a double factorial out of range")
    return Fraction(math.prod(range(number, 0, -2)))


def _binomial(values: list[Value]) -> Value:
    n, k = (require_integer(value, "binomial") for value in values)
    if not 0 <= k <= LARGEST_FACTORIAL or not 0 <= n <= LARGEST_FACTORIAL:
        raise Unevaluable("a binomial out of range")
    return Fraction(math.comb(n, k))


def _remainder(values: list[Value]) -> Value:
    value, divisor = (require_real(v, "remainder") for v in values)
    if not divisor:
        raise Unevaluable("division by zero")
    return value % divisor


def log(values: list[Value]) -> Value:
    argument, base = values if len(values) == 2 else (values[0], Fraction(10))
    if not argument or base in (0, 1):
        raise Unevaluable("a logarithm of zero, or to the base 0 or 1")
    if isinstance(argument, Fraction) and isinstance(base, Fraction) and argument > 0 and base > 0:
        quotient = _fraction_log(argument) / _fraction_log(base)
        nearest = round(quotient)
        # 1000 to the base 10 is 3, not 2.9999999999999996.
        if abs(nearest) < 10_000 and abs(quotient - nearest) < 1e-9 and _is_power(base, nearest, argument):
            return Fraction(nearest)
        return quotient
    if isinstance(argument, complex) or isinstance(base, complex) or argument < 0 or base < 0:
        return cmath.log(complex(argument)) / cmath.log(complex(base))
    return math.log(argument) / math.log(base)


def _fraction_log(value: Fraction) -> float:
    if abs(value - 1) < 0.5:  # a difference of logarithms loses its digits near 1
        return math.log1p(float(value - 1))
    # Whole numbers have logarithms beyond the range of floats.
    return math.log(value.numerator) - math.log(value.denominator)


def _is_power(base: Fraction, exponent: int, value: Fraction) -> bool:
    return count_bits(base) * abs(exponent) <= 2 * BITS and base**exponent == value


def _ln(values: list[Value]) -> Value:
    if not values[0]:
        raise Unevaluable("a logarithm of zero")
    if isinstance(values[0], Fraction) and values[0] > 0:
        return Fraction(0) if values[0] == 1 else _fraction_log(values[0])
    return _make_function(math.log, cmath.log)(values)


def _make_function(real_function: Callable[[float], float], complex_function: Callable[[complex], complex] | None):
    """A function from its real and complex forms; the complex one is used where the real one is not defined."""

    def compute(values: list[Value]) -> Value:
        value = values[0]
        if not isinstance(value, complex):
            try:
                return real_function(float(value))
            except ValueError:
                if complex_function is None:
                    raise
        if complex_function is None:
            raise Unevaluable("a function of the reals of a complex number")
        return complex_function(complex(value))

    return compute


def _abs(values: list[Value]) -> Value:
    return abs(values[0])


def _make_choice(choose: Callable[..., Fraction | float]):
    return lambda values: choose([require_real(value, "least or greatest") for value in values])


def _make_integer_operation(join: Callable[..., int], subject: str):
    return lambda values: Fraction(join(*(require_integer(value, subject) for value in values)))


def _make_rounding(choose: Callable[[Fraction | float], int], subject: str):
    return lambda values: Fraction(choose(require_real(values[0], subject)))


def _make_reciprocal(real_function: Callable[[float], float], complex_function: Callable[[complex], complex]):
    compute = _make_function(real_function, complex_function)

    def compute_reciprocal(values: list[Value]) -> Value:
        return _quotient([Fraction(1), compute(values)])

    return compute_reciprocal


Compute = Callable[[list[Value]], Value]
_MANY = 1 << 20
FUNCTIONS: dict[str, Compute] = {
    name: _make_function(getattr(math, short), getattr(cmath, short))
    for name, short in {
        **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")},
        **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    }.items()
}
FUNCTIONS |= {
    name: _make_reciprocal(getattr(math, short), getattr(cmath, short))
    for name, short in {
        "sec": "cos",
        "csc": "sin",
        "cot": "tan",
        "sech": "cosh",
        "csch": "sinh",
        "coth": "tanh",
    }.items()
}
FUNCTIONS |= {"log": log, "lg": log, "ln": _ln, "abs": _abs}
# Symbol → least operands, most operands, computation.
OPERATIONS: dict[str, tuple[int, int, Compute]] = {
    **{name: (1, 1, compute) for name, compute in FUNCTIONS.items()},
    "plus": (1, _MANY, _sum),
    "minus": (1, _MANY, _difference),
    "times": (1, _MANY, _product),
    "divide": (2, _MANY, _quotient),
    "SUP": (2, 2, power),
    "root": (1, 2, _root),
    "percent": (1, 1, lambda values: values[0] / 100),
    "degree": (1, 1, lambda values: require_real(values[0], "degree") * math.pi / 180),
    "factorial": (1, 1, _factorial),
    "double-factorial": (1, 1, _double_factorial),
    "binomial": (2, 2, _binomial),
    "rem": (2, 2, _remainder),
    "floor": (1, 1, _make_rounding(math.floor, "floor")),
    "ceiling": (1, 1, _make_rounding(math.ceil, "ceiling")),
    "min": (1, _MANY, _make_choice(min)),
    "max": (1, _MANY, _make_choice(max)),
    "gcd": (1, _MANY, _make_integer_operation(math.gcd, "gcd")),
    "lcm": (1, _MANY, _make_integer_operation(math.lcm, "lcm")),
}
