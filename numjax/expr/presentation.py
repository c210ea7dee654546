"""Symbols as they are written: without LaTeXML's fonts, and as presentation MathML shows them."""

from __future__ import annotations

import unicodedata

from numjax.expr.elements import FONTS
from numjax.expr.markup import Node
from numjax.expr.tree import Tree


def plain(symbol: str) -> str:
    """A symbol without its font: prefixes of LaTeXML removed, mathematical italics as plain letters."""
    for font in FONTS:
        symbol = symbol.replace(font, "")
    if symbol.isascii():
        return symbol
    return "".join(_upright(c) if "\u210e" <= c else c for c in symbol)


def _upright(character: str) -> str:
    if character == "\u210e":
        return "h"
    if not "\U0001d400" <= character <= "\U0001d7ff":
        return character
    italic = unicodedata.name(character, "").startswith("MATHEMATICAL ITALIC")
    return unicodedata.normalize("NFKC", character) if italic else character


def written_of(presented: Node | None) -> Tree | None:
    """A symbol as it is presented: a letter, number or word, maybe accented. A sign such as ∑ is none."""
    if presented is None:
        return None
    parts = presented.children
    if presented.name == "mover" and len(parts) == 2 and parts[1].name == "mo":
        base = written_of(parts[0])
        return None if base is None else Tree("F", parts[1].text, [base])
    leaves = [node for node in presented.walk() if node.name in ("mi", "mn", "mtext")]
    if len(leaves) != 1 or not leaves[0].text:
        return None
    return Tree("N" if leaves[0].name == "mn" else "V", plain(leaves[0].text))
