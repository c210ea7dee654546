"""A seeded stand-in for the corpus: pages of our own prose with formulas, in the file form of NTCIR-12's articles."""

from __future__ import annotations

import html
from typing import NamedTuple

import numpy as np

from ..pieces import Piece

_LETTERS = "abcdkmnpqrstuvxyz"
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "lambda": "λ", "mu": "μ", "sigma": "σ"}
_RELATIONS = {
    "=": ("=", "eq"),
    r"\leq": ("≤", "leq"),
    "<": ("&lt;", "lt"),
    r"\geq": ("≥", "geq"),
    r"\neq": ("≠", "neq"),
}
_FUNCTIONS = ("sin", "cos", "log", "exp", "ln", "tan")
_APPLY = "<mo>⁡</mo>"  # U+2061, an invisible sign

_ADJECTIVES = "regular finite dual smooth harmonic bounded linear compact weighted central cyclic stable".split()
_NOUNS = "sequence operator lattice kernel series index filter measure group transform graph potential".split()
_NAMES = "Aldane Berrick Corvin Delmar Estrand Fallow Gessner Halvor Irwin Joss Kestrel Lorne".split()

_OPENINGS = (
    "In mathematics, the {adjective} {noun} is given by {f} for every {x}.",
    "The {name} {noun} of {x} is a {adjective} {noun} that satisfies {r}.",
    "A {adjective} {noun} assigns to {x} the value {f}, as {name} first noted.",
)
_SENTENCES = (
    "Let {x} be {adjective}; then {r}.",
    "If {r}, then also {r}.",
    "For {x} between {n} and {n} the {noun} is {f}.",
    "Substituting {f} for {x} gives {r}.",
    "The bound {r} is sharp when {x} is {adjective}.",
    "{name} showed that {r} whenever {r}.",
    "Its mean is {f} and its variance is {f}.",
    "Here {x} denotes the {adjective} {noun} and {f} its {noun}.",
    "The case {r} is due to {name}, who took {x} to be {n}.",
    "By induction on {x}, one obtains {r}.",
    "No closed form is known, but {r} holds for {n} of the first {n} terms.",
    "Both sides of {r} agree up to the factor {f}.",
)
_SECTIONS = ("Definition", "Properties", "Examples", "Proof", "Applications", "History")


class MathMarkup(NamedTuple):
    """An expression in TeX, presentation and content MathML, and how strongly it binds.

    Attributes:
      binding: 3 for a single sign, 2 for a power, 1 for a product, 0 for a sum.
    """

    tex: str
    presentation: str
    content: str
    binding: int


def generate_page(number: int, seed: int) -> Piece:
    """The article with a number: a pure function of the number and the seed."""
    rng = np.random.default_rng([seed, number])
    name = f"{_pick(rng, _NAMES)} {_pick(rng, _NOUNS)}"
    body, formulas = [f"<h1>{name}</h1>"], 0
    sentences = [_pick(rng, _OPENINGS), *(_pick(rng, _SENTENCES) for _ in range(int(rng.integers(3, 10))))]
    paragraph: list[str] = []
    for i, sentence in enumerate(sentences):
        for slot in ("{f}", "{r}", "{x}", "{n}"):
            while slot in sentence:
                math = _write_math(_draw_formula(rng, slot), f"{name.replace(' ', '_')}:{formulas}", slot == "{r}")
                sentence = sentence.replace(slot, math, 1)
                formulas += 1
        words = {"adjective": _ADJECTIVES, "noun": _NOUNS, "name": _NAMES}
        for slot, choices in words.items():
            while f"{{{slot}}}" in sentence:
                sentence = sentence.replace(f"{{{slot}}}", _pick(rng, choices), 1)
        paragraph.append(sentence)
        if i + 1 == len(sentences) or rng.random() < 0.35:
            body.append(f"<p>{' '.join(paragraph)}</p>")
            paragraph = []
            if i + 1 < len(sentences) and rng.random() < 0.4:
                body.append(f"<h2>{_pick(rng, _SECTIONS)}</h2>")
    text = "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            '<html xmlns="http://www.w3.org/1999/xhtml">',
            f"<head><title>{name}</title></head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
        ]
    )
    return Piece(f"stand-in/{number:06d}.html", ".html", text.encode())


def _write_math(formula: MathMarkup, name: str, display: bool) -> str:
    """A <math> element as LaTeXML writes it."""
    tex = html.escape(formula.tex)
    return (
        f'<math id="{name}" xmlns="http://www.w3.org/1998/Math/MathML" alttext="{tex}" '
        f'display="{"block" if display else "inline"}"><semantics>{formula.presentation}'
        f'<annotation-xml encoding="MathML-Content">{formula.content}</annotation-xml>'
        f'<annotation encoding="application/x-tex">{tex}</annotation></semantics></math>'
    )


def _draw_formula(rng: np.random.Generator, slot: str) -> MathMarkup:
    if slot == "{x}":
        return _draw_letter(rng)
    if slot == "{n}":
        return _draw_number(rng)
    if slot == "{f}":
        return _draw_expression(rng, 3)
    tex = _pick(rng, list(_RELATIONS))
    sign, name = _RELATIONS[tex]
    left, right = _draw_expression(rng, 2), _draw_expression(rng, 3)
    return _join_infix(tex, sign, name, [left, right], -1)


def _draw_expression(rng: np.random.Generator, levels: int) -> MathMarkup:
    if levels == 0 or rng.random() < 0.15:
        return _draw_letter(rng) if rng.random() < 0.7 else _draw_number(rng)
    return _KINDS[int(rng.integers(len(_KINDS)))](rng, levels - 1)


def _draw_letter(rng: np.random.Generator) -> MathMarkup:
    if rng.random() < 0.15:
        name = _pick(rng, list(_GREEK))
        return MathMarkup(rf"\{name}", f"<mi>{_GREEK[name]}</mi>", f"<ci>{_GREEK[name]}</ci>", 3)
    letter = _pick(rng, _LETTERS)
    return MathMarkup(letter, f"<mi>{letter}</mi>", f"<ci>{letter}</ci>", 3)


def _draw_number(rng: np.random.Generator) -> MathMarkup:
    numeral = str(int(rng.integers(0, 10 ** int(rng.integers(1, 4)))))
    if rng.random() < 0.1:
        numeral += f".{int(rng.integers(1, 100)):02d}"
    kind = "float" if "." in numeral else "integer"
    return MathMarkup(numeral, f"<mn>{numeral}</mn>", f'<cn type="{kind}">{numeral}</cn>', 3)


def _join_infix(tex: str, sign: str, name: str, parts: list[MathMarkup], binding: int) -> MathMarkup:
    return MathMarkup(
        f" {tex} ".join(part.tex for part in parts),
        "<mrow>" + f"<mo>{sign}</mo>".join(part.presentation for part in parts) + "</mrow>",
        f"<apply><{name}/>{''.join(part.content for part in parts)}</apply>",
        binding,
    )


def _parenthesize(formula: MathMarkup, binding: int) -> MathMarkup:
    """The formula in parentheses if it binds less strongly than `binding`, else the formula itself."""
    if formula.binding >= binding:
        return formula
    presentation = f"<mrow><mo>(</mo>{formula.presentation}<mo>)</mo></mrow>"
    return MathMarkup(rf"\left({formula.tex}\right)", presentation, formula.content, 3)


def _draw_sum(rng: np.random.Generator, levels: int) -> MathMarkup:
    if rng.random() < 0.4:
        parts = [_parenthesize(_draw_expression(rng, levels), 1) for _ in range(2)]
        return _join_infix("-", "-", "minus", parts, 0)
    return _join_infix(
        "+", "+", "plus", [_parenthesize(_draw_expression(rng, levels), 1) for _ in range(int(rng.integers(2, 4)))], 0
    )


def _draw_product(rng: np.random.Generator, levels: int) -> MathMarkup:
    # With ×, a letter before a bracket is no function. In brackets, a product inside stays a product of its own.
    parts = [_parenthesize(_draw_expression(rng, levels), 2) for _ in range(2)]
    return _join_infix(r"\times", "×", "times", parts, 1)


def _draw_fraction(rng: np.random.Generator, levels: int) -> MathMarkup:
    numerator, denominator = _draw_expression(rng, levels), _draw_expression(rng, levels)
    return MathMarkup(
        rf"\frac{{{numerator.tex}}}{{{denominator.tex}}}",
        f"<mfrac>{numerator.presentation}{denominator.presentation}</mfrac>",
        f"<apply><divide/>{numerator.content}{denominator.content}</apply>",
        2,
    )


def _draw_power(rng: np.random.Generator, levels: int) -> MathMarkup:
    base, exponent = _parenthesize(_draw_expression(rng, levels), 3), _draw_expression(rng, levels)
    script = '<apply><csymbol cd="ambiguous">superscript</csymbol>'
    return MathMarkup(
        f"{base.tex}^{{{exponent.tex}}}",
        f"<msup>{base.presentation}{exponent.presentation}</msup>",
        f"{script}{base.content}{exponent.content}</apply>",
        2,
    )


def _draw_index(rng: np.random.Generator, levels: int) -> MathMarkup:
    base, index = _draw_letter(rng), _draw_letter(rng) if rng.random() < 0.6 else _draw_number(rng)
    script = '<apply><csymbol cd="ambiguous">subscript</csymbol>'
    return MathMarkup(
        f"{base.tex}_{{{index.tex}}}",
        f"<msub>{base.presentation}{index.presentation}</msub>",
        f"{script}{base.content}{index.content}</apply>",
        2,
    )


def _draw_root(rng: np.random.Generator, levels: int) -> MathMarkup:
    radicand = _draw_expression(rng, levels)
    return MathMarkup(
        rf"\sqrt{{{radicand.tex}}}",
        f"<msqrt>{radicand.presentation}</msqrt>",
        f"<apply><root/>{radicand.content}</apply>",
        3,
    )


def _draw_function(rng: np.random.Generator, levels: int) -> MathMarkup:
    name = _pick(rng, _FUNCTIONS)
    argument = _draw_expression(rng, levels)
    return MathMarkup(
        rf"\{name}\left({argument.tex}\right)",
        f"<mrow><mi>{name}</mi>{_APPLY}<mrow><mo>(</mo>{argument.presentation}<mo>)</mo></mrow></mrow>",
        f"<apply><{name}/>{argument.content}</apply>",
        1,
    )


_KINDS = (
    _draw_sum,
    _draw_sum,
    _draw_product,
    _draw_product,
    _draw_fraction,
    _draw_power,
    _draw_index,
    _draw_root,
    _draw_function,
)


def _pick(rng: np.random.Generator, choices):
    return choices[int(rng.integers(len(choices)))]
