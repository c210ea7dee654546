"""The problem of given operands, one function an operation. Every question names its operation."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from .problem import EXACT, Problem, round_half_up, spell

SIGNIFICANT = 7  # digits of the products and quotients of decimals


def make_sum(a: int, b: int) -> Problem:
    return Problem(f"{a} + {b} =", str(a + b), f"{min(a, b)} + {max(a, b)}", (str(a), str(b)), "+")


def make_difference(a: int, b: int) -> Problem:
    return Problem(f"{a} - {b} =", str(a - b), f"{a} - {b}", (str(a), str(b)), "-")


def make_product(a: int, b: int) -> Problem:
    return Problem(f"{a} * {b} =", str(a * b), f"{min(a, b)} * {max(a, b)}", (str(a), str(b)), "*")


def make_decimal_sum(a: Decimal, b: Decimal) -> Problem:
    """All digits of the sum, without zeros at its end."""
    texts, low, high = (spell(a), spell(b)), min(a, b), max(a, b)
    question = f"{texts[0]} + {texts[1]} ="
    return Problem(question, spell(EXACT.add(a, b)), f"{spell(low)} + {spell(high)}", texts, "+")


def make_largest(numbers: Sequence[Decimal]) -> Problem:
    texts = tuple(spell(number) for number in numbers)
    return Problem(f"max {' , '.join(texts)} =", spell(max(numbers)), f"max {sorted(texts)}", texts, "max")


def make_sorted(numbers: Sequence[Decimal]) -> Problem:
    texts = tuple(spell(number) for number in numbers)
    answer = " , ".join(spell(number) for number in sorted(numbers))
    return Problem(f"sort {' , '.join(texts)} =", answer, f"sort {sorted(texts)}", texts, "sort")


def make_residue(a: int, sign: str, b: int, p: int) -> Problem:
    value = a + b if sign == "+" else a * b
    key = f"{min(a, b)} {sign} {max(a, b)} mod {p}"
    return Problem(f"{a} {sign} {b} mod {p} =", str(value % p), key, (str(a), str(b), str(p)), f"{sign} mod")


def make_digit(place: int, number: int) -> Problem:
    """The digit at a place, counted from the right, from 1."""
    question = f"digit {place} of {number} ="
    return Problem(question, str(number)[-place], question, (str(place), str(number)), "digit")


def make_length(number: int) -> Problem:
    question = f"length of {number} ="
    return Problem(question, str(len(str(number))), question, (str(number),), "length")


def make_count(digit: int, number: int) -> Problem:
    question = f"count {digit} in {number} ="
    return Problem(question, str(str(number).count(str(digit))), question, (str(digit), str(number)), "count")


def make_rounded(number: Decimal, digits: int) -> Problem:
    question = f"round {spell(number)} to {digits} ="
    return Problem(question, round_half_up(number, digits), question, (spell(number), str(digits)), "round")


def make_converted(digits: str, power: int, as_power: bool) -> Problem:
    """d.ddd · 10^power as a power or plainly. Both ways have the same values: only one of them is kept."""
    digits = digits.rstrip("0")
    scientific = digits[0] + (f".{digits[1:]}" if digits[1:] else "") + f"e{power}"
    plain = spell(Decimal(scientific))
    source, target = (plain, scientific) if as_power else (scientific, plain)
    way = "as power" if as_power else "plainly"
    return Problem(f"write {source} {way} =", target, f"write {scientific}", (source,), f"write {way}")


def _spell_fraction(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator} / {value.denominator}"


def make_reduced(a: int, b: int) -> Problem:
    value = Fraction(a, b)
    return Problem(f"reduce {a} / {b} =", _spell_fraction(value), f"reduce {value}", (str(a), str(b)), "reduce")


def make_fraction_sum(a: int, b: int, c: int, d: int) -> Problem:
    first, second = Fraction(a, b), Fraction(c, d)
    key = f"{min(first, second)} + {max(first, second)}"
    question, operands = f"{a} / {b} + {c} / {d} =", tuple(map(str, (a, b, c, d)))
    return Problem(question, _spell_fraction(first + second), key, operands, "/ + /")


def make_scaled_product(a: Decimal, b: Decimal) -> Problem:
    """a · b to `SIGNIFICANT` digits; the question says so, since other products have all digits."""
    texts, low, high = (spell(a), spell(b)), min(a, b), max(a, b)
    answer = _round_significant(EXACT.multiply(a, b))
    question = f"{texts[0]} * {texts[1]} to {SIGNIFICANT} ="
    return Problem(question, answer, f"{spell(low)} * {spell(high)} to {SIGNIFICANT}", texts, "* to")


def make_scaled_quotient(a: Decimal, b: Decimal) -> Problem:
    """a / b to `SIGNIFICANT` digits."""
    question = f"{spell(a)} / {spell(b)} to {SIGNIFICANT} ="
    return Problem(question, _round_significant(EXACT.divide(a, b)), question, (spell(a), spell(b)), "/ to")


def _round_significant(value: Decimal) -> str:
    return spell(Decimal(round_half_up(value, SIGNIFICANT))) if value else "0"


def make_copy(text: str) -> Problem:
    """The key is the value: 0017 and 17 count as one."""
    return Problem(f"copy {text} =", text, f"copy {spell(Decimal(text.replace(',', '')))}", (text,), "copy")


def make_pick(answer: int, other: int, is_first: bool) -> Problem:
    a, b = (answer, other) if is_first else (other, answer)
    key = f"pick {min(a, b)} {max(a, b)}"
    return Problem(f"pick {a} or {b} =", str(answer), key, (str(a), str(b)), "pick", (str(other),))
