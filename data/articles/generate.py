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


class Written(NamedTuple):
    """An expression in TeX, presentation and content MathML, and how strongly it holds together.

    Attributes:
      power: 3 for a single sign, 2 for a power, 1 for a product, 0 for a sum.
    """

    tex: str
    shown: str
    meant: str
    power: int


def page(number: int, seed: int) -> Piece:
    """The article of a number: a pure function of both."""
    rng = np.random.default_rng([seed, number])
    name = f"{_pick(rng, _NAMES)} {_pick(rng, _NOUNS)}"
    body, formulas = [f"<h1>{name}</h1>"], 0
    sentences = [_pick(rng, _OPENINGS), *(_pick(rng, _SENTENCES) for _ in range(int(rng.integers(3, 10))))]
    paragraph: list[str] = []
    for place, sentence in enumerate(sentences):
        for slot in ("{f}", "{r}", "{x}", "{n}"):
            while slot in sentence:
                math = _math(_formula(rng, slot), f"{name.replace(' ', '_')}:{formulas}", slot == "{r}")
                sentence = sentence.replace(slot, math, 1)
                formulas += 1
        words = {"adjective": _ADJECTIVES, "noun": _NOUNS, "name": _NAMES}
        for slot, choices in words.items():
            while f"{{{slot}}}" in sentence:
                sentence = sentence.replace(f"{{{slot}}}", _pick(rng, choices), 1)
        paragraph.append(sentence)
        if place + 1 == len(sentences) or rng.random() < 0.35:
            body.append(f"<p>{' '.join(paragraph)}</p>")
            paragraph = []
            if place + 1 < len(sentences) and rng.random() < 0.4:
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


def _math(made: Written, name: str, display: bool) -> str:
    """A <math> element as LaTeXML writes it."""
    tex = html.escape(made.tex)
    return (
        f'<math id="{name}" xmlns="http://www.w3.org/1998/Math/MathML" alttext="{tex}" '
        f'display="{"block" if display else "inline"}"><semantics>{made.shown}'
        f'<annotation-xml encoding="MathML-Content">{made.meant}</annotation-xml>'
        f'<annotation encoding="application/x-tex">{tex}</annotation></semantics></math>'
    )


def _formula(rng: np.random.Generator, slot: str) -> Written:
    if slot == "{x}":
        return _letter(rng)
    if slot == "{n}":
        return _number(rng)
    if slot == "{f}":
        return _expression(rng, 3)
    tex = _pick(rng, list(_RELATIONS))
    sign, name = _RELATIONS[tex]
    left, right = _expression(rng, 2), _expression(rng, 3)
    return _infix(tex, sign, name, [left, right], -1)


def _expression(rng: np.random.Generator, levels: int) -> Written:
    if levels == 0 or rng.random() < 0.15:
        return _letter(rng) if rng.random() < 0.7 else _number(rng)
    return _KINDS[int(rng.integers(len(_KINDS)))](rng, levels - 1)


def _letter(rng: np.random.Generator) -> Written:
    if rng.random() < 0.15:
        name = _pick(rng, list(_GREEK))
        return Written(rf"\{name}", f"<mi>{_GREEK[name]}</mi>", f"<ci>{_GREEK[name]}</ci>", 3)
    letter = _pick(rng, _LETTERS)
    return Written(letter, f"<mi>{letter}</mi>", f"<ci>{letter}</ci>", 3)


def _number(rng: np.random.Generator) -> Written:
    written = str(int(rng.integers(0, 10 ** int(rng.integers(1, 4)))))
    if rng.random() < 0.1:
        written += f".{int(rng.integers(1, 100)):02d}"
    kind = "float" if "." in written else "integer"
    return Written(written, f"<mn>{written}</mn>", f'<cn type="{kind}">{written}</cn>', 3)


def _infix(tex: str, sign: str, name: str, parts: list[Written], power: int) -> Written:
    return Written(
        f" {tex} ".join(part.tex for part in parts),
        "<mrow>" + f"<mo>{sign}</mo>".join(part.shown for part in parts) + "</mrow>",
        f"<apply><{name}/>{''.join(part.meant for part in parts)}</apply>",
        power,
    )


def _grouped(made: Written, power: int) -> Written:
    """In parentheses, if it holds together less strongly than that."""
    if made.power >= power:
        return made
    shown = f"<mrow><mo>(</mo>{made.shown}<mo>)</mo></mrow>"
    return Written(rf"\left({made.tex}\right)", shown, made.meant, 3)


def _sum(rng: np.random.Generator, levels: int) -> Written:
    if rng.random() < 0.4:
        parts = [_grouped(_expression(rng, levels), 1) for _ in range(2)]
        return _infix("-", "-", "minus", parts, 0)
    return _infix(
        "+", "+", "plus", [_grouped(_expression(rng, levels), 1) for _ in range(int(rng.integers(2, 4)))], 0
    )


def _product(rng: np.random.Generator, levels: int) -> Written:
    # A dot, so that a letter before a bracket is no function; no product inside, so that all make one.
    parts = [_grouped(_expression(rng, levels), 2) for _ in range(2)]
    return _infix(r"\times", "×", "times", parts, 1)


def _fraction(rng: np.random.Generator, levels: int) -> Written:
    above, below = _expression(rng, levels), _expression(rng, levels)
    return Written(
        rf"\frac{{{above.tex}}}{{{below.tex}}}",
        f"<mfrac>{above.shown}{below.shown}</mfrac>",
        f"<apply><divide/>{above.meant}{below.meant}</apply>",
        2,
    )


def _power(rng: np.random.Generator, levels: int) -> Written:
    base, exponent = _grouped(_expression(rng, levels), 3), _expression(rng, levels)
    script = '<apply><csymbol cd="ambiguous">superscript</csymbol>'
    return Written(
        f"{base.tex}^{{{exponent.tex}}}",
        f"<msup>{base.shown}{exponent.shown}</msup>",
        f"{script}{base.meant}{exponent.meant}</apply>",
        2,
    )


def _index(rng: np.random.Generator, levels: int) -> Written:
    base, index = _letter(rng), _letter(rng) if rng.random() < 0.6 else _number(rng)
    script = '<apply><csymbol cd="ambiguous">subscript</csymbol>'
    return Written(
        f"{base.tex}_{{{index.tex}}}",
        f"<msub>{base.shown}{index.shown}</msub>",
        f"{script}{base.meant}{index.meant}</apply>",
        2,
    )


def _root(rng: np.random.Generator, levels: int) -> Written:
    below = _expression(rng, levels)
    return Written(
        rf"\sqrt{{{below.tex}}}",
        f"<msqrt>{below.shown}</msqrt>",
        f"<apply><root/>{below.meant}</apply>",
        3,
    )


def _function(rng: np.random.Generator, levels: int) -> Written:
    name = _pick(rng, _FUNCTIONS)
    of = _expression(rng, levels)
    return Written(
        rf"\{name}\left({of.tex}\right)",
        f"<mrow><mi>{name}</mi>{_APPLY}<mrow><mo>(</mo>{of.shown}<mo>)</mo></mrow></mrow>",
        f"<apply><{name}/>{of.meant}</apply>",
        1,
    )


_KINDS = (_sum, _sum, _product, _product, _fraction, _power, _index, _root, _function)


def _pick(rng: np.random.Generator, choices):
    return choices[int(rng.integers(len(choices)))]
