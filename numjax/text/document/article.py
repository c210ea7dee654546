"""MathGPT's articles: a text with formulas, with a mark in the text for each formula.

    {"text": "If [_mathGPT_formula_] then …", "formulas": {"0": {"opt": [type, symbol, children], "tex": "x = 1"}}}

Keys count the marks from 0. A missing formula becomes nothing; one whose `opt` is null becomes text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numjax.expr.tree import from_json
from numjax.text.document.marked import IDENTIFIER
from numjax.types import Document, Formula, Segment, Text


def render_formula(tex: str) -> str:
    """A formula in running text, as MathGPT's baseline reads it."""
    return f" <m> {tex} </m> "


def surface(text: str, formulas: Mapping[str, Mapping[str, Any]]) -> str:
    """The article as running text."""
    first, *rest = text.split(IDENTIFIER)
    numbered = (formulas.get(str(i)) for i in range(len(rest)))
    return first + "".join(
        (render_formula(formula["tex"]) if formula else "") + chunk
        for formula, chunk in zip(numbered, rest, strict=True)
    )


def make_document(
    text: str,
    formulas: Mapping[str, Mapping[str, Any]],
    parse: Callable[[str], Document],
    *,
    as_published: bool = False,
) -> Document:
    """The article as segments; `parse` makes those of running text.

    Args:
      as_published: stretches of text are not joined where a formula is missing, and an empty stretch between formulas
        is a blank, from the third stretch on.

    Raises:
      ValueError: the `opt` of a formula is no tree.
    """
    chunks = text.split(IDENTIFIER)
    out: list[Segment] = []
    pending = ""
    for i, chunk in enumerate(chunks):
        last = i == len(chunks) - 1
        pending += " " if as_published and not chunk and i > 1 and not last else chunk
        formula = None if last else formulas.get(str(i))
        if formula is not None and formula["opt"] is None:
            pending += render_formula(formula["tex"])
        elif formula is not None or as_published or last:
            out += _stretch(pending, parse, as_published)
            pending = ""
        if formula is not None and formula["opt"] is not None:
            out.append(Formula(render_formula(formula["tex"]), from_json(formula["opt"])))
    return tuple(out)


def _stretch(text: str, parse: Callable[[str], Document], as_text: bool) -> Sequence[Segment]:
    # The released code has no numbers in text, and tokenises each stretch by itself.
    return () if not text else (Text(text),) if as_text else parse(text)
