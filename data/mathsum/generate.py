"""A seeded stand-in for MathSum's files: questions of our own with formulas, and the headlines that follow from them.

The files' form: lower case, a blank around every token, formulas between <m> and </m>, brackets by their names. A
headline repeats the question's formulas and states its topic, method or doubt in other words, so a model can learn
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

_PATIENCE = 200  # draws for one question before the templates count as used up
_SLOT = re.compile(r"\{(\w+)\}")

Draw = Callable[[np.random.Generator], str]


class QuestionTemplate(NamedTuple):
    """A question and its headline. {a}, {b}, … are formulas, the same in both. {how} is a method or a doubt: each
    pair of `wordings` has its words in the question and its words in the headline."""

    post: str
    title: str
    wordings: Sequence[tuple[str, str]] = (("", ""),)


def _draw_number(rng: np.random.Generator, low: int = 2, high: int = 40) -> str:
    return " ".join(str(rng.integers(low, high + 1)))


def _make_letter_draw(letters: str) -> Draw:
    return lambda rng: str(rng.choice(letters.split()))


def _draw_polynomial(rng: np.random.Generator) -> str:
    power, sign = rng.integers(2, 8), rng.choice(["+", "-"])
    return f"x ^ {power} {sign} {_draw_number(rng)} x + {_draw_number(rng)}"


def _draw_function(rng: np.random.Generator) -> str:
    name = rng.choice(["\\sin", "\\cos", "\\exp", "\\log"])
    forms = [
        f"x ^ {rng.integers(2, 8)} {name} x",
        f"\\frac {{ {name} x }} {{ x + {_draw_number(rng)} }}",
        f"{name} x",
    ]
    return forms[int(rng.integers(len(forms)))]


def _draw_integral(rng: np.random.Generator) -> str:
    upper = rng.choice(["\\pi", "\\infty", _draw_number(rng)])
    return f"\\int _ {{ 0 }} ^ {{ {upper} }} {_draw_function(rng)} \\, d x"


def _draw_limit(rng: np.random.Generator) -> str:
    point, power = rng.choice(["0", "1", "\\infty"]), rng.integers(2, 8)
    return f"\\lim _ {{ x \\to {point} }} \\frac {{ {_draw_polynomial(rng)} }} {{ x ^ {power} }}"


def _draw_series(rng: np.random.Generator) -> str:
    term = f"\\frac {{ {_draw_number(rng)} }} {{ n ^ {rng.integers(2, 8)} + {_draw_number(rng)} }}"
    return f"\\sum _ {{ n = 1 }} ^ {{ \\infty }} {term}"


def _draw_equation(rng: np.random.Generator) -> str:
    return f"{_draw_polynomial(rng)} = {rng.choice(['0', _draw_number(rng)])}"


def _draw_map(rng: np.random.Generator) -> str:
    spaces = ["X", "Y", "\\mathbb { R } ^ n", "\\mathbb { C }", "[ 0 , 1 ]", "S ^ 2"]
    name, domain, codomain = rng.choice(["f", "g", "\\phi"]), rng.choice(spaces), rng.choice(spaces)
    return f"{name} : {domain} \\to {codomain}"


def _draw_ring(rng: np.random.Generator) -> str:
    number = _draw_number(rng)
    forms = f"\\mathbb {{ Z }} / {number} \\mathbb {{ Z }}", f"\\mathbb {{ Q }} [ \\sqrt {{ {number} }} ]"
    return forms[int(rng.integers(len(forms)))]


def _draw_sequence(rng: np.random.Generator) -> str:
    return f"a _ {{ n + 1 }} = \\frac {{ a _ n + {_draw_number(rng)} }} {{ {_draw_number(rng)} }}"


def _draw_bound(rng: np.random.Generator) -> str:
    return f"a ^ {rng.integers(2, 8)} + b ^ {rng.integers(2, 8)} \\geq {_draw_number(rng)} a b"


# Slot → the function that draws its text.
SLOTS: dict[str, Draw] = {
    "integral": _draw_integral,
    "limit": _draw_limit,
    "series": _draw_series,
    "equation": _draw_equation,
    "polynomial": _draw_polynomial,
    "function": _draw_function,
    "map": _draw_map,
    "ring": _draw_ring,
    "sequence": _draw_sequence,
    "bound": _draw_bound,
    "number": _draw_number,
    "group": _make_letter_draw("G H K"),
    "prime": _make_letter_draw("p q \\ell"),
    "space": _make_letter_draw("X Y Z M V"),
}

TEMPLATES = (
    QuestionTemplate(
        "i am trying to evaluate <m> {integral} </m> for my homework . i have tried {how} , but the terms only get "
        "longer . is there a better way ? any hint is welcome .",
        "evaluating <m> {integral} </m> {how}",
        (
            ("integration by parts -LRB- twice -RRB-", "without integration by parts"),
            ("a substitution", "without substitution"),
            ("a contour in the upper half plane", "without residues"),
        ),
    ),
    QuestionTemplate(
        "my lecturer claims that the limit <m> {limit} </m> {how} . i do not see why . could someone explain this "
        "step by step ?",
        "why does <m> {limit} </m> {how} ?",
        (("can not exist", "not exist"), ("is finite", "exist"), ("tends to infinity", "diverge")),
    ),
    QuestionTemplate(
        "does the series <m> {series} </m> converge ? i know the {how} , but i am not sure that it applies here .",
        "convergence of <m> {series} </m> by the {how}",
        (
            ("ratio test", "ratio test"),
            ("root test", "root test"),
            ("comparison with <m> 1 / n </m>", "comparison test"),
        ),
    ),
    QuestionTemplate(
        "let <m> x </m> be a {how} . i want to find all <m> x </m> such that <m> {equation} </m> . plotting suggests "
        "that there are at least two of them .",
        "solving <m> {equation} </m> for {how} <m> x </m>",
        (("real number", "real"), ("complex number", "complex"), ("positive integer", "integer")),
    ),
    QuestionTemplate(
        "suppose that <m> {group} </m> is a group of order <m> {number} </m> . i suspect that it has to be {how} , "
        "since i could not find any example that is not . is that so ?",
        "is every group <m> {group} </m> of order <m> {number} </m> {how} ?",
        (("abelian", "abelian"), ("cyclic", "cyclic"), ("solvable", "solvable"), ("simple", "simple")),
    ),
    QuestionTemplate(
        "i came across a function <m> {map} </m> in a book . the author says -LRB- without a proof -RRB- that it is "
        "{how} . how does one see this ?",
        "showing that <m> {map} </m> is {how}",
        (("continuous", "continuous"), ("injective", "one-to-one"), ("surjective", "onto"), ("smooth", "smooth")),
    ),
    QuestionTemplate(
        "consider the ring <m> {ring} </m> and an ideal <m> I </m> of it . when is <m> I </m> {how} ? i only know "
        "the answer for <m> \\mathbb {{ Z }} </m> .",
        "when is an ideal <m> I </m> of <m> {ring} </m> {how} ?",
        (("a prime ideal", "prime"), ("a maximal ideal", "maximal"), ("principal", "principal")),
    ),
    QuestionTemplate(
        "a sequence is given by <m> a _ 1 = {number} </m> and <m> {sequence} </m> . i have computed some terms and "
        "think that it is {how} , but the induction does not work out .",
        "proving that <m> {sequence} </m> is {how}",
        (("bounded", "bounded"), ("monotone", "monotone"), ("convergent", "convergent")),
    ),
    QuestionTemplate(
        "let <m> a , b > 0 </m> . i would like to prove the inequality <m> {bound} </m> . i thought of {how} , and "
        "it did not help .",
        "an inequality <m> {bound} </m> for <m> a , b > 0 </m>",
        (("the means", ""), ("`` convexity ''", ""), ("the inequality of cauchy and schwarz", "")),
    ),
    QuestionTemplate(
        "what is the derivative of <m> {function} </m> with respect to <m> x </m> ? i keep getting a wrong sign when "
        "i use the {how} .",
        "derivative of <m> {function} </m> with the {how}",
        (("product rule", "product rule"), ("chain rule", "chain rule"), ("definition", "definition")),
    ),
    QuestionTemplate(
        "let <m> {prime} </m> be a prime number with <m> {prime} > {number} </m> . is it true that <m> {polynomial} "
        "</m> is {how} modulo <m> {prime} </m> ? it holds in all the cases that i have checked .",
        "is <m> {polynomial} </m> {how} modulo a prime <m> {prime} > {number} </m> ?",
        (("irreducible", "irreducible"), ("separable", "separable"), ("a square", "a square")),
    ),
    QuestionTemplate(
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


def generate_pairs(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yields (question, headline) as lines of the files; no question twice.

    Args:
      size: how many. seed: of everything random.

    Raises:
      UsageError: the templates have too few different questions.
    """
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    for _ in range(size):
        for _ in range(_PATIENCE):
            post, title = _draw_pair(rng)
            if post not in seen:
                break
        else:
            raise UsageError(f"mathsum: the stand-in does not hold {size} different questions; choose a smaller size")
        seen.add(post)
        yield post, title


def _draw_pair(rng: np.random.Generator) -> tuple[str, str]:
    template = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
    question_words, headline_words = template.wordings[int(rng.integers(len(template.wordings)))]
    slots = dict.fromkeys(name for name in _SLOT.findall(template.post) if name != "how")
    formulas = {name: SLOTS[name](rng) for name in slots}
    post, title = (
        template.post.format(how=question_words, **formulas),
        template.title.format(how=headline_words, **formulas),
    )
    return post, " ".join(title.split())
