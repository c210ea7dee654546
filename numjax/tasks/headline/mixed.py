"""Text with formulas between <m> and </m>: parsed into documents, and written documents as tokens between blanks.

A formula is kept as its operator tree and as the text that the tree prints. This text is the same for all systems, so
that systems that write trees and systems that write LaTeX are compared with the same text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from numjax.expr import canonical, latex, printer
from numjax.expr.printer import published
from numjax.expr.prose.wrap import CLOSE, OPEN
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree
from numjax.text import document as documents
from numjax.text.document.marked import FORMULA
from numjax.types import Document, Formula, Mark, Segment, Text

# The limits of the model's trees: 31 open levels, of which a spelled symbol takes two, and 62 children.
DEEPEST, LONGEST_SYMBOL = 29, 60

_OPEN_FORMULA = re.compile(r"<m>(.*?)(?:</m>|$)", re.DOTALL)
# Names, text, environments and the printer's own notation for a node are one token each.
_WHOLE = r"\\(?:mathrm|text|begin|end)\{[^{}\\]*\}|\\tree\[[^\[\]]*\]\{[^{}\\]*\}"
_TOKEN = re.compile(rf"{_WHOLE}|\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\S", re.DOTALL)


class Stretch(NamedTuple):
    """A stretch of a written document, text or formula, with blanks between its tokens.

    Attributes:
      text: the text, or the LaTeX of a formula. formula: whether it is a formula. tree: the formula's tree; None for
        text and for a formula that cannot be parsed.
    """

    text: str
    formula: bool = False
    tree: Tree | None = None


def parse_document(
    text: str, parse: Callable[[str], Document], as_published: bool = False
) -> tuple[Document, list[tuple[str, str]]]:
    """(the document, formulas that cannot be parsed with the reasons; these stay in it as text).

    A formula's surface begins with the blank before it, like a word's.

    Args:
      as_published: as in MathGPT: blanks stay in the text, and formulas have two blanks of their own.
    """
    out: list[Segment] = []
    unread: list[tuple[str, str]] = []
    plain, end = "", 0
    for match in FORMULA.finditer(text):
        preceding = text[end : match.start()]
        end = match.end()
        result = parse_formula(match[1], as_published)
        if isinstance(result, str):
            unread.append((match[1].strip(), result))
            plain += preceding + match[0]
            continue
        plain += preceding if as_published else preceding.rstrip(" ")
        out += parse(plain)
        out.append(result)
        plain = ""
    out += parse(plain + text[end:])
    return tuple(out), unread


@functools.lru_cache(maxsize=1 << 16)
def parse_formula(body: str, as_published: bool = False) -> Formula | str:
    """The formula of a LaTeX text, with the surface that its tree prints; or the reason why it cannot be parsed."""
    tree = _parse_tree(body, as_published)
    if not isinstance(tree, Tree):
        return tree
    surface = f" {OPEN} {format_tree(tree, as_published)} {CLOSE}"
    return Formula(surface + " " * as_published, tree)


def _parse_tree(body: str, as_published: bool) -> Tree | str:
    tree = latex.parse(body, Rules.as_published() if as_published else DEFAULT)
    if not isinstance(tree, Tree):
        return tree.error
    if tree.depth > DEEPEST:
        return f"{tree.depth} levels deep, more than {DEEPEST}"
    if any(len(node.symbol.encode(errors="replace")) > LONGEST_SYMBOL for node in tree.walk()):
        return f"a symbol or text of more than {LONGEST_SYMBOL} bytes"
    return canonical.find_problem(tree, as_published) or tree


def format_tree(tree: Tree, as_published: bool = False) -> str:
    """The tree's LaTeX with blanks between tokens."""
    return space_tokens(published.latex(tree) if as_published else printer.latex(tree), as_published)


def space_tokens(text: str, as_published: bool = False) -> str:
    """LaTeX with one blank between commands, numbers and signs; the published printer sets its own blanks."""
    return " ".join(text.split() if as_published else _TOKEN.findall(text))


def split_written(document: Iterable[Segment], as_published: bool = False) -> list[Stretch]:
    """The stretches of a document up to its first mark. Formulas in text are parsed; the last may lack its </m>."""
    out: list[Stretch] = []
    plain = ""
    for segment in document:
        if isinstance(segment, Mark):
            break
        if isinstance(segment, Formula):
            out += _split(plain, as_published)
            plain = ""
            text = "" if segment.tree is None else format_tree(segment.tree, as_published)
            out.append(Stretch(text, True, segment.tree))
        else:
            plain += documents.surface_of(segment)
    return [part for part in (*out, *_split(plain, as_published)) if part.text or part.formula]


def join_tokens(parts: Iterable[Stretch]) -> str:
    """The tokens of all stretches, without the marks around formulas."""
    return " ".join(part.text for part in parts if part.text)


def make_text_document(text: str) -> Document:
    """A document with the whole text as one segment; numbers are not recognised."""
    return (Text(text),) if text else ()


def _split(text: str, as_published: bool) -> list[Stretch]:
    out, end = [], 0
    for match in _OPEN_FORMULA.finditer(text):
        out.append(Stretch(" ".join(text[end : match.start()].split())))
        tree = _parse_tree(match[1], as_published)
        out.append(Stretch(space_tokens(match[1], as_published), True, tree if isinstance(tree, Tree) else None))
        end = match.end()
    return [*out, Stretch(" ".join(text[end:].split()))]
