"""Text with formulas between <m> and </m>: read into documents, and what was written as tokens that blanks part.

A formula is kept as its operator tree and as the text that the tree prints, which is the same for all systems, so
that one that writes trees and one that writes LaTeX are held against the same text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from numjax.expr import canonical, latex, printer, published
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree
from numjax.expr.wrap import CLOSE, OPEN
from numjax.text import document as documents
from numjax.text.marked import FORMULA
from numjax.types import Document, Formula, Mark, Segment, Text

# What the model's trees hold: of 31 levels that may be open, a symbol that is spelled takes two; 62 children.
DEEPEST, LONGEST_SYMBOL = 29, 60

_AS_FAR = re.compile(r"<m>(.*?)(?:</m>|$)", re.DOTALL)
# Names, text, environments and the printer's own notation for a node are one token each.
_WHOLE = r"\\(?:mathrm|text|begin|end)\{[^{}\\]*\}|\\tree\[[^\[\]]*\]\{[^{}\\]*\}"
_TOKEN = re.compile(rf"{_WHOLE}|\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\S", re.DOTALL)


class Written(NamedTuple):
    """A stretch of what was written, its tokens parted by blanks.

    Attributes:
      text: of a formula, its LaTeX. formula: whether it is one. tree: None for text and for what is no formula.
    """

    text: str
    formula: bool = False
    tree: Tree | None = None


def read(
    text: str, parse: Callable[[str], Document], as_published: bool = False
) -> tuple[Document, list[tuple[str, str]]]:
    """(the document, formulas that cannot be read and why, which stay in it as text).

    A formula's surface begins with the blank before it, so that words keep theirs too.

    Args:
      as_published: MathGPT's: blanks stay in the text, and formulas have two of their own.
    """
    out: list[Segment] = []
    unread: list[tuple[str, str]] = []
    plain, end = "", 0
    for found in FORMULA.finditer(text):
        before = text[end : found.start()]
        end = found.end()
        made = formula(found[1], as_published)
        if isinstance(made, str):
            unread.append((found[1].strip(), made))
            plain += before + found[0]
            continue
        plain += before if as_published else before.rstrip(" ")
        out += parse(plain)
        out.append(made)
        plain = ""
    out += parse(plain + text[end:])
    return tuple(out), unread


@functools.lru_cache(maxsize=1 << 16)
def formula(body: str, as_published: bool = False) -> Formula | str:
    """A formula from its LaTeX, its surface as the tree prints it; or why it cannot be read."""
    tree = _tree(body, as_published)
    if not isinstance(tree, Tree):
        return tree
    written = f" {OPEN} {printed(tree, as_published)} {CLOSE}"
    return Formula(written + " " * as_published, tree)


def _tree(body: str, as_published: bool) -> Tree | str:
    found = latex.parse(body, Rules.as_published() if as_published else DEFAULT)
    if not isinstance(found, Tree):
        return found.error
    if found.depth > DEEPEST:
        return f"{found.depth} levels deep, more than {DEEPEST}"
    if any(len(node.symbol.encode(errors="replace")) > LONGEST_SYMBOL for node in found.walk()):
        return f"a symbol or text of more than {LONGEST_SYMBOL} bytes"
    return canonical.problem(found, as_published) or found


def printed(tree: Tree, as_published: bool = False) -> str:
    """The tokens of a tree's LaTeX."""
    return spaced(published.latex(tree) if as_published else printer.latex(tree), as_published)


def spaced(text: str, as_published: bool = False) -> str:
    """LaTeX with a blank between commands, numbers and signs; the published printer has set its own."""
    return " ".join(text.split() if as_published else _TOKEN.findall(text))


def written(document: Iterable[Segment], as_published: bool = False) -> list[Written]:
    """What a document says, up to its first mark. Formulas that are text are read; the last may lack its </m>."""
    out: list[Written] = []
    plain = ""
    for segment in document:
        if isinstance(segment, Mark):
            break
        if isinstance(segment, Formula):
            out += _split(plain, as_published)
            plain = ""
            text = "" if segment.tree is None else printed(segment.tree, as_published)
            out.append(Written(text, True, segment.tree))
        else:
            plain += documents.surface_of(segment)
    return [part for part in (*out, *_split(plain, as_published)) if part.text or part.formula]


def tokens(parts: Iterable[Written]) -> str:
    """All stretches one after the other; the marks around formulas do not count."""
    return " ".join(part.text for part in parts if part.text)


def as_text(text: str) -> Document:
    """A text as it is, its numbers not told apart."""
    return (Text(text),) if text else ()


def _split(text: str, as_published: bool) -> list[Written]:
    out, end = [], 0
    for found in _AS_FAR.finditer(text):
        out.append(Written(" ".join(text[end : found.start()].split())))
        tree = _tree(found[1], as_published)
        out.append(Written(spaced(found[1], as_published), True, tree if isinstance(tree, Tree) else None))
        end = found.end()
    return [*out, Written(" ".join(text[end:].split()))]
