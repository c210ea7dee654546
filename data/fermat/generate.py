"""Generates FERMAT's training problems from templates, and a stand-in for its files: problems of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from numjax.errors import DataError

from .formula import approximate, evaluate, format_decimal, shape
from .read import NOT_COMMUTABLE, VIEWS, FormulaTemplate, parse_template

KINDS = ("small", "large", "tenths", "hundredths")
_AT_ONCE = 4096  # candidates that are drawn at once
_KEPT = 32  # at most this many of them are checked exactly
_PATIENCE = 1000  # attempts before the generator gives up on a template

# View → lowest number, one above the highest, and the number of digits after the point.
RANGES = {
    "Integers_0_to_1000": (1, 1000, 0),
    "2_digit_integer": (10, 100, 0),
    "3_digit_integer": (100, 1000, 0),
    "4_digit_integer": (1000, 10_000, 0),
    "1000+": (1000, 1_000_000, 0),
    "1000+_comma": (1000, 1_000_000, 0),
    "1000+_spac": (1000, 1_000_000, 0),
    "1dp_random": (1, 10_000, 1),
    "2dp_random": (1, 100_000, 2),
}

# Text and answer formula: two numbers and each of the four operations, then three numbers.
OWN = (
    ("Nora had num1 stamps and bought num2 more . How many stamps does she have now ?", "( num1+num2 )"),
    ("A tank holds num1 litres of water , another num2 litres . How many litres do both hold ?", "( num1+num2 )"),
    ("A shop had num1 candles and sold num2 of them . How many candles are left ?", "( num1-num2 )"),
    ("Omar ran num1 metres , Paula num2 metres . How many metres more did Omar run ?", "( num1-num2 )"),
    ("A box weighs num1 kg . How many kg do num2 such boxes weigh ?", "( num1*num2 )"),
    ("Each of num1 rows has num2 seats . How many seats are there ?", "( num1*num2 )"),
    ("A rope of num1 metres is cut into pieces of num2 metres . How many pieces are there ?", "( num1/num2 )"),
    ("num1 coins are shared equally by num2 friends . How many coins does each get ?", "( num1/num2 )"),
    ("Rosa had num1 beads , found num2 and gave num3 away . How many beads does she have ?", "(( num1+num2 )-num3)"),
    ("A farmer fills num1 crates with num2 pears each and keeps num3 . How many are there ?", "(( num1*num2 )+num3)"),
    ("Of num1 pages Ben read num2 , num3 pages a day . How many days are left ?", "(( num1-num2 )/ num3 )"),
    ("num1 red and num2 blue tiles lie in rows of num3 . How many rows are there ?", "(( num1+num2 )/ num3 )"),
    ("Ada earns num1 dollars an hour and worked num2 and num3 hours . What does she get ?", "( num1*(num2+num3))"),
    ("Of num1 seats num2 are taken , and num3 people get off . How many are taken now ?", "( num2-num3 )"),
    ("num1 machines make num2 parts each , packed by num3 . How many packs are there ?", "(( num1*num2 )/ num3 )"),
)


def make_own_templates() -> list[FormulaTemplate]:
    """Makes the templates of the stand-in."""
    return [parse_template({"templates": text, "answers": formula}) for text, formula in OWN]


def generate_problems(
    templates: Sequence[FormulaTemplate], size: int, rng: np.random.Generator, longest: int = 15
) -> Iterator[dict[str, Any]]:
    """Yields problems as the published generator does: template after template, a quarter of them with each kind of
    number (integers below 1,000; integers of four to six digits; one decimal place; two), none of them twice.

    Args:
      longest: at most this many characters in an answer, which must be above 0.

    Raises:
      DataError: a template gives no such answer.
    """
    seen: set[str] = set()
    pools = {(t, kind): Pool(t, rng, kind, longest) for t in templates for kind in KINDS}
    for number in range(size):
        template, kind = templates[number % len(templates)], KINDS[min(4 * number // size, 3)]
        for _ in range(_PATIENCE):
            numbers, answer = pools[template, kind].take()
            question = fill(template.text, numbers)
            if question not in seen:
                break
        else:
            raise DataError(f"fermat: {template.text[:60]!r} gives no more different problems; choose a smaller size")
        seen.add(question)
        equation = fill(template.formula, numbers).replace(" ", "")
        operation = shape(template.formula)
        yield {"question": question, "answer": answer, "equation": equation, "kind": kind, "operation": operation}


class Pool:
    """Numbers for a template whose answer is above 0 and short, drawn many at a time: few large ones divide evenly.

    A kind is one of KINDS, or (lowest number, one above the highest, the number of digits after the point).
    """

    def __init__(
        self, template: FormulaTemplate, rng: np.random.Generator, kind: str | tuple[int, int, int], longest: int
    ):
        self._template, self._rng, self._kind, self._longest = template, rng, kind, longest
        self._ready: list[tuple[dict[str, str], str]] = []

    def take(self) -> tuple[dict[str, str], str]:
        """Returns (name → number as written, the answer) and removes it from the pool.

        Raises:
          DataError: there are none.
        """
        for _ in range(_PATIENCE):
            if self._ready:
                return self._ready.pop()
            self._fill()
        text = self._template.text[:60]
        raise DataError(f"fermat: no numbers give {text!r} an answer above 0 of at most {self._longest} characters")

    def _fill(self) -> None:
        drawn = {name: draw(self._rng, self._kind, _AT_ONCE) for name in self._template.names}
        places = count_places(self._kind)
        estimates = approximate(
            self._template.formula, {name: numbers / 10**places for name, numbers in drawn.items()}
        )
        # A value of at most twelve digits is near a multiple of a power of ten; the exact value decides.
        with np.errstate(all="ignore"):
            scaled = estimates * 10.0 ** np.maximum(12 - np.ceil(np.log10(np.abs(estimates))), 0)
            is_short = (estimates > 0) & np.isfinite(estimates) & (np.abs(scaled - np.round(scaled)) < 0.02)
        # Many problems of small numbers qualify: to check the rest exactly would be wasted work.
        for index in np.flatnonzero(is_short)[:_KEPT].tolist():
            numbers = {name: f"{values[index] / 10**places:.{places}f}" for name, values in drawn.items()}
            answer = compute_answer(self._template, numbers, self._longest)
            if answer is not None:
                self._ready.append((numbers, answer))


def draw(rng: np.random.Generator, kind: str | tuple[int, int, int], count: int) -> np.ndarray:
    """Draws numbers of a kind without their point, int64[count]."""
    if kind in ("small", "large"):
        return rng.integers(*((1, 1000) if kind == "small" else (1000, 1_000_000)), count)
    if isinstance(kind, str):
        return np.round(rng.random(count) * 10.0 ** (rng.integers(0, 4, count) + count_places(kind))).astype(np.int64)
    return rng.integers(kind[0], kind[1], count)


def count_places(kind: str | tuple[int, int, int]) -> int:
    """The number of digits after the point in a number of this kind."""
    return {"tenths": 1, "hundredths": 2}.get(kind, 0) if isinstance(kind, str) else kind[2]


def fill(text: str, numbers: Mapping[str, str]) -> str:
    """A template's text with its numbers filled in; num10 before num1."""
    for name in sorted(numbers, key=len, reverse=True):
        text = text.replace(name, numbers[name])
    return text


def compute_answer(template: FormulaTemplate, numbers: Mapping[str, str], longest: int) -> str | None:
    """The value of the formula as a decimal; None if it is not above 0 or too long."""
    try:
        value = evaluate(template.formula, {name: Fraction(text) for name, text in numbers.items()})
    except ValueError:
        return None
    return format_decimal(value, longest) if value > 0 else None


# ---------------------------------------------------------------------------------------------------
# The stand-in's test files.


def generate_files(size: int, seed: int) -> tuple[list[dict[str, str]], dict[str, tuple[list[Any], list[Any]]]]:
    """(rows of templates.csv, view → (objects of its .q, objects of its .a)) of `size` problems in every view, each
    file in its own random order."""
    rng = np.random.default_rng([seed, 1])
    rows = [{"templates": text, "answers": formula, "expressions": shape(formula)} for text, formula in OWN]
    views: dict[str, tuple[list[Any], list[Any]]] = {view: ([], []) for view in VIEWS}
    templates = make_own_templates()
    bases = {t: Pool(t, rng, (1, 100, 2), 12) for t in templates}
    pools = {(t, view): Pool(t, rng, kind, 15) for t in templates for view, kind in RANGES.items()}
    for index in range(size):
        template = templates[index % len(templates)]
        # Small numbers whose answer stays short when they are divided by 100.
        base = {name: round(100 * float(text)) for name, text in bases[template].take()[0].items()}
        for view, (questions, answers) in views.items():
            drawn = pools[template, view].take()[0] if view in RANGES else None
            text, answer, equation = _make_view(view, template, base, drawn)
            questions.append({"index": index, "question": text})
            answers.append({"answer": answer, "index": index, "equation": equation})
    for questions, answers in views.values():
        rng.shuffle(questions)
        rng.shuffle(answers)
    return rows, views


def _make_view(
    view: str, template: FormulaTemplate, base: Mapping[str, int], drawn_numbers: dict[str, str] | None
) -> tuple[str, str, str]:
    """(question, answer, equation) of a problem in a view, with numbers drawn for it or derived from `base`."""
    if drawn_numbers is not None:
        numbers = drawn_numbers
    elif view == "1000+_sam":
        numbers = {name: str(1000 * n) for name, n in base.items()}
    elif view.startswith("Original_as"):
        numbers = {name: f"{n:.{view[-3]}f}" for name, n in base.items()}
    elif view.startswith("Original_made"):
        places = int(view.removeprefix("Original_made_")[0])
        numbers = {name: f"{n / 10**places:.{places}f}" for name, n in base.items()}
    else:
        numbers = {name: str(n) for name, n in base.items()}
    if view == "Commuted":
        if shape(template.formula) not in ("a+b", "a*b") or len(template.names) != 2:
            return NOT_COMMUTABLE, NOT_COMMUTABLE, NOT_COMMUTABLE
        numbers = dict(zip(template.names, reversed([numbers[name] for name in template.names]), strict=True))
    surfaces = {name: _write_number(view, text) for name, text in numbers.items()}
    answer = compute_answer(template, numbers, 40)
    assert answer is not None, (view, template, numbers)
    return fill(template.text, surfaces), answer, fill(template.formula, numbers).replace(" ", "")


def _write_number(view: str, number: str) -> str:
    if view == "1000+_comma":
        return f"{int(number):,}"
    if view == "1000+_spac":
        return f"{int(number):,}".replace(",", " ")
    if view == "Worded":
        return to_words(int(number))
    return number.removeprefix("0") if view.endswith("without_0") else number


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = ". . twenty thirty forty fifty sixty seventy eighty ninety".split()


def to_words(number: int) -> str:
    """A number below 100 in words."""
    if number < 20:
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return f"{_TENS[tens]}-{_ONES[ones]}" if ones else _TENS[tens]
