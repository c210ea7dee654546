"""Text with its formulas marked, `<m> … </m>` in LaTeX, as a document; and MathGPT's articles in that form."""

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


def document(text: str, parse: Callable[[str], Document], as_published: bool = False) -> Document:
    """Text, numbers and formulas; what cannot be read as a formula is text.

    Args:
      parse: a scheme's, for what stands between formulas.
      as_published: a formula's surface is ` <m> tex </m> ` as it was typed, not what the printer makes of its tree.
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


def formula(text: str) -> str:
    """A text that is one formula, marked; empty where there is none."""
    return f"<m> {text.strip()} </m>" if text.strip() else ""


def of_article(article: Any) -> str:
    """The marked text of an article: {"text": "… [_mathGPT_formula_] …", "formulas": {"0": {"opt": …, "tex": …}}}.

    A formula that is missing is left out; one whose LaTeX cannot be read is printed from its tree.

    Raises:
      ValueError: it is not of this form.
    """
    if not isinstance(article, Mapping) or not isinstance(article.get("text"), str):
        raise ValueError("is no article, an object with text and formulas")
    formulas = article.get("formulas") or {}
    if not isinstance(formulas, Mapping):
        raise ValueError("has formulas that are no object")
    parts = article["text"].split(IDENTIFIER)
    out = [parts[0]]
    for place, part in enumerate(parts[1:]):
        found = formulas.get(str(place))
        out += [formula(_tex(found)) if found is not None else "", part]
    return "".join(out)


def to_article(text: str) -> dict[str, Any]:
    """The article of a marked text; the inverse of `of_article` but for the blanks in a formula."""
    parts = FORMULA.split(text)
    formulas = {}
    for place, tex in enumerate(parts[1::2]):
        tree = latex.parse(tex)
        if isinstance(tree, Tree):
            formulas[str(place)] = {"opt": tree.to_json(), "tex": tex.strip()}
    return {"text": IDENTIFIER.join(parts[::2]), "formulas": formulas}


def _tex(found: Any) -> str:
    if not isinstance(found, Mapping):
        raise ValueError("has a formula that is no object with opt and tex")
    tex = found.get("tex")
    if isinstance(tex, str) and isinstance(latex.parse(tex), Tree):
        return tex
    return printer.latex(from_json(found.get("opt")))
