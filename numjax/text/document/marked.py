"""Text with marked formulas, `<m> … </m>` in LaTeX, as a document; and MathGPT's articles in that form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from numjax.expr import latex, printer
from numjax.expr.tree import Tree, from_json
from numjax.text import document as documents
from numjax.types import Document, Formula, Segment

IDENTIFIER = "[_mathGPT_formula_]"
FORMULA = re.compile(r"<m>(.*?)</m>", re.DOTALL)


def parse_document(text: str, parse: Callable[[str], Document], as_published: bool = False) -> Document:
    """Text, numbers and formulas; a formula that cannot be parsed becomes text.

    Args:
      parse: a scheme's `parse`, for the text between formulas.
      as_published: a formula's surface is ` <m> tex </m> ` as typed, not as the printer writes its tree.
    """
    segments: list[Segment] = []
    for i, part in enumerate(FORMULA.split(text)):
        tree = latex.parse(part) if i % 2 else None
        if isinstance(tree, Tree):
            surface = f" <m> {part.strip()} </m> " if as_published else printer.latex(tree)
            segments.append(Formula(surface, tree))
        else:
            segments += parse(part.strip() if i % 2 else part)
    return documents.merge(segments)


def mark_formula(text: str) -> str:
    """The text between the marks of a formula; empty for an empty text."""
    return f"<m> {text.strip()} </m>" if text.strip() else ""


def from_article(article: Any) -> str:
    """The marked text of an article: {"text": "… [_mathGPT_formula_] …", "formulas": {"0": {"opt": …, "tex": …}}}.

    A missing formula is left out; one whose LaTeX cannot be parsed is printed from its tree.

    Raises:
      ValueError: the article does not have this form.
    """
    if not isinstance(article, Mapping) or not isinstance(article.get("text"), str):
        raise ValueError("is no article, an object with text and formulas")
    formulas = article.get("formulas") or {}
    if not isinstance(formulas, Mapping):
        raise ValueError("has formulas that are no object")
    parts = article["text"].split(IDENTIFIER)
    out = [parts[0]]
    for index, part in enumerate(parts[1:]):
        formula_entry = formulas.get(str(index))
        out += [mark_formula(_find_latex(formula_entry)) if formula_entry is not None else "", part]
    return "".join(out)


def to_article(text: str) -> dict[str, Any]:
    """The article of a marked text; the inverse of `from_article` except for blanks in a formula."""
    parts = FORMULA.split(text)
    formulas = {}
    for index, tex in enumerate(parts[1::2]):
        tree = latex.parse(tex)
        if isinstance(tree, Tree):
            formulas[str(index)] = {"opt": tree.to_json(), "tex": tex.strip()}
    return {"text": IDENTIFIER.join(parts[::2]), "formulas": formulas}


def _find_latex(formula_entry: Any) -> str:
    if not isinstance(formula_entry, Mapping):
        raise ValueError("has a formula that is no object with opt and tex")
    tex = formula_entry.get("tex")
    if isinstance(tex, str) and isinstance(latex.parse(tex), Tree):
        return tex
    try:
        return printer.latex(from_json(formula_entry.get("opt")))
    except RecursionError:
        raise ValueError("has a formula that is nested too deep") from None
