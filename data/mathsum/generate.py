"""A seeded stand-in for MathSum's files: questions of our own with formulas, and the headlines that follow from them.

In the files' form: lower case, a blank around every token, formulas between <m> and </m>, brackets by their names. A
headline repeats the question's formulas and tells its topic, its method or its doubt in other words: it can be
learned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

_PATIENCE = 200  # draws for one question before the templates are taken to be used up
_SLOT = re.compile(r"\{(\w+)\}")

Draw = Callable[[np.random.Generator], str]


class Template(NamedTuple):
    """A question and its headline. {a}, {b}, … are formulas, the same in both; {how} a way or a doubt, told in the
    question by the first and in the headline by the second words of a pair."""

    post: str
    title: str
    how: Sequence[tuple[str, str]] = (("", ""),)


def _number(rng: np.random.Generator, low: int = 2, high: int = 40) -> str:
    return " ".join(str(rng.integers(low, high + 1)))


def _letter(letters: str) -> Draw:
    return lambda rng: str(rng.choice(letters.split()))


def _polynomial(rng: np.random.Generator) -> str:
    power, sign = rng.integers(2, 8), rng.choice(["+", "-"])
    return f"x ^ {power} {sign} {_number(rng)} x + {_number(rng)}"


def _function(rng: np.random.Generator) -> str:
    name = rng.choice(["\\sin", "\\cos", "\\exp", "\\log"])
    forms = [f"x ^ {rng.integers(2, 8)} {name} x", f"\\frac {{ {name} x }} {{ x + {_number(rng)} }}", f"{name} x"]
    return forms[int(rng.integers(len(forms)))]


def _integral(rng: np.random.Generator) -> str:
    upper = rng.choice(["\\pi", "\\infty", _number(rng)])
    return f"\\int _ {{ 0 }} ^ {{ {upper} }} {_function(rng)} \\, d x"


def _limit(rng: np.random.Generator) -> str:
    to, power = rng.choice(["0", "1", "\\infty"]), rng.integers(2, 8)
    return f"\\lim _ {{ x \\to {to} }} \\frac {{ {_polynomial(rng)} }} {{ x ^ {power} }}"


def _series(rng: np.random.Generator) -> str:
    term = f"\\frac {{ {_number(rng)} }} {{ n ^ {rng.integers(2, 8)} + {_number(rng)} }}"
    return f"\\sum _ {{ n = 1 }} ^ {{ \\infty }} {term}"


def _equation(rng: np.random.Generator) -> str:
    return f"{_polynomial(rng)} = {rng.choice(['0', _number(rng)])}"


def _map(rng: np.random.Generator) -> str:
    spaces = ["X", "Y", "\\mathbb { R } ^ n", "\\mathbb { C }", "[ 0 , 1 ]", "S ^ 2"]
    name, of, to = rng.choice(["f", "g", "\\phi"]), rng.choice(spaces), rng.choice(spaces)
    return f"{name} : {of} \\to {to}"


def _ring(rng: np.random.Generator) -> str:
    number = _number(rng)
    forms = f"\\mathbb {{ Z }} / {number} \\mathbb {{ Z }}", f"\\mathbb {{ Q }} [ \\sqrt {{ {number} }} ]"
    return forms[int(rng.integers(len(forms)))]


def _sequence(rng: np.random.Generator) -> str:
    return f"a _ {{ n + 1 }} = \\frac {{ a _ n + {_number(rng)} }} {{ {_number(rng)} }}"


def _bound(rng: np.random.Generator) -> str:
    return f"a ^ {rng.integers(2, 8)} + b ^ {rng.integers(2, 8)} \\geq {_number(rng)} a b"


# Slot → what fills it.
SLOTS: dict[str, Draw] = {
    "integral": _integral,
    "limit": _limit,
    "series": _series,
    "equation": _equation,
    "polynomial": _polynomial,
    "function": _function,
    "map": _map,
    "ring": _ring,
    "sequence": _sequence,
    "bound": _bound,
    "number": _number,
    "group": _letter("G H K"),
    "prime": _letter("p q \\ell"),
    "space": _letter("X Y Z M V"),
}

TEMPLATES = (
    Template(
        "i am trying to evaluate <m> {integral} </m> for my homework . i have tried {how} , but the terms only get "
        "longer . is there a better way ? any hint is welcome .",
        "evaluating <m> {integral} </m> {how}",
        (
            ("integration by parts -LRB- twice -RRB-", "without integration by parts"),
            ("a substitution", "without substitution"),
            ("a contour in the upper half plane", "without residues"),
        ),
    ),
    Template(
        "my lecturer claims that the limit <m> {limit} </m> {how} . i do not see why . could someone explain this "
        "step by step ?",
        "why does <m> {limit} </m> {how} ?",
        (("can not exist", "not exist"), ("is finite", "exist"), ("tends to infinity", "diverge")),
    ),
    Template(
        "does the series <m> {series} </m> converge ? i know the {how} , but i am not sure that it applies here .",
        "convergence of <m> {series} </m> by the {how}",
        (
            ("ratio test", "ratio test"),
            ("root test", "root test"),
            ("comparison with <m> 1 / n </m>", "comparison test"),
        ),
    ),
    Template(
        "let <m> x </m> be a {how} . i want to find all <m> x </m> such that <m> {equation} </m> . plotting suggests "
        "that there are at least two of them .",
        "solving <m> {equation} </m> for {how} <m> x </m>",
        (("real number", "real"), ("complex number", "complex"), ("positive integer", "integer")),
    ),
    Template(
        "suppose that <m> {group} </m> is a group of order <m> {number} </m> . i suspect that it has to be {how} , "
        "since i could not find any example that is not . is that so ?",
        "is every group <m> {group} </m> of order <m> {number} </m> {how} ?",
        (("abelian", "abelian"), ("cyclic", "cyclic"), ("solvable", "solvable"), ("simple", "simple")),
    ),
    Template(
        "i came across a function <m> {map} </m> in a book . the author says -LRB- without a proof -RRB- that it is "
        "{how} . how does one see this ?",
        "showing that <m> {map} </m> is {how}",
        (("continuous", "continuous"), ("injective", "one-to-one"), ("surjective", "onto"), ("smooth", "smooth")),
    ),
    Template(
        "consider the ring <m> {ring} </m> and an ideal <m> I </m> of it . when is <m> I </m> {how} ? i only know "
        "the answer for <m> \\mathbb {{ Z }} </m> .",
        "when is an ideal <m> I </m> of <m> {ring} </m> {how} ?",
        (("a prime ideal", "prime"), ("a maximal ideal", "maximal"), ("principal", "principal")),
    ),
    Template(
        "a sequence is given by <m> a _ 1 = {number} </m> and <m> {sequence} </m> . i have computed some terms and "
        "think that it is {how} , but the induction does not work out .",
        "proving that <m> {sequence} </m> is {how}",
        (("bounded", "bounded"), ("monotone", "monotone"), ("convergent", "convergent")),
    ),
    Template(
        "let <m> a , b > 0 </m> . i would like to prove the inequality <m> {bound} </m> . i thought of {how} , and "
        "it did not help .",
        "an inequality <m> {bound} </m> for <m> a , b > 0 </m>",
        (("the means", ""), ("`` convexity ''", ""), ("the inequality of cauchy and schwarz", "")),
    ),
    Template(
        "what is the derivative of <m> {function} </m> with respect to <m> x </m> ? i keep getting a wrong sign when "
        "i use the {how} .",
        "derivative of <m> {function} </m> with the {how}",
        (("product rule", "product rule"), ("chain rule", "chain rule"), ("definition", "definition")),
    ),
    Template(
        "let <m> {prime} </m> be a prime number with <m> {prime} > {number} </m> . is it true that <m> {polynomial} "
        "</m> is {how} modulo <m> {prime} </m> ? it holds in all the cases that i have checked .",
        "is <m> {polynomial} </m> {how} modulo a prime <m> {prime} > {number} </m> ?",
        (("irreducible", "irreducible"), ("separable", "separable"), ("a square", "a square")),
    ),
    Template(
        "let <m> {space} </m> be a topological space which is {how} . does every map <m> {map} </m> extend to <m> "
        "{space} \\times [ 0 , 1 ] </m> ? a reference would be enough .",
        "extending <m> {map} </m> to <m> {space} \\times [ 0 , 1 ] </m> for {how} <m> {space} </m>",
        (
            ("compact", "compact"),
            ("connected", "connected"),
            ("a manifold", "smooth"),
            ("not hausdorff", "non-hausdorff"),
        ),
    ),
)


def pairs(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """(question, headline) as lines of the files; no question twice.

    Args:
      size: how many. seed: of everything random.

    Raises:
      UsageError: the templates do not hold that many questions.
    """
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    for _ in range(size):
        for _ in range(_PATIENCE):
            post, title = _drawn(rng)
            if post not in seen:
                break
        else:
            raise UsageError(f"mathsum: the stand-in does not hold {size} different questions; choose a smaller size")
        seen.add(post)
        yield post, title


def _drawn(rng: np.random.Generator) -> tuple[str, str]:
    template = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
    asked, told = template.how[int(rng.integers(len(template.how)))]
    slots = dict.fromkeys(name for name in _SLOT.findall(template.post) if name != "how")
    filled = {name: SLOTS[name](rng) for name in slots}
    post, title = template.post.format(how=asked, **filled), template.title.format(how=told, **filled)
    return post, " ".join(title.split())
