"""One article, as a page with MathML or in the original's form → a record. Pure: text in, records and remarks out."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.expr import canonical, latex, markup, mathml, printer, published
from numjax.expr.markup import Node
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree, from_json
from numjax.text.marked import IDENTIFIER

from ..pieces import Piece
from ..shards import LEFT_OUT, MENDED, Made
from . import page as pages

PAGES = (".html", ".xhtml", ".htm")
KINDS = (*PAGES, ".json", ".jsonl")

# Of an element that is not well-formed.
_TEX = re.compile(
    r"<(?:\w+:)?annotation\b[^<>]*\bencoding=[\"'](?:application/x-(?:la)?tex|(?:La)?TeX)[\"'][^<>]*>([^<]*)<"
)
_ALTTEXT = re.compile(r"\balttext=(?:\"([^\"]*)\"|'([^']*)')")


class Read:
    """What was made of one formula.

    Attributes:
      tree: or None where it stays text. tex: how it is written; "" if nothing is known of it.
      reason: why its MathML (or its tree) was refused; "" if it was not.
    """

    __slots__ = ("reason", "tex", "tree")

    def __init__(self, tree: Tree | None, tex: str, reason: str = ""):
        self.tree, self.tex, self.reason = tree, tex, reason


def articles(piece: Piece, as_published: bool = False) -> Iterator[Made]:
    """What a piece of a file holds: records without a split, and what was left out or mended."""
    if piece.data is None:
        yield Made(LEFT_OUT, {"id": piece.id, "reason": piece.reason})
        return
    try:
        text = piece.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Made(LEFT_OUT, {"id": piece.id, "reason": f"not UTF-8 at byte {error.start}"})
        return
    if piece.suffix in PAGES:
        found, sources = pages.read(text)
        formulas = {str(i): of_mathml(source, as_published) for i, source in enumerate(sources)}
        yield from _made(piece.id, found, formulas)
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield Made(LEFT_OUT, {"id": piece.id, "reason": "not JSON"})
        return
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _of_json(f"{piece.id}:{number}", one, as_published)
    else:
        yield from _of_json(piece.id, value, as_published)


def of_mathml(source: str, as_published: bool = False) -> Read:
    """A formula of a page: its content MathML, else its TeX."""
    root = markup.read(source)
    tex = _tex(source if isinstance(root, Unreadable) else root)
    try:
        found = root if isinstance(root, Unreadable) else mathml.of(root, as_published=as_published)
    except RecursionError:
        found = Unreadable("nested too deep", 0)
    return _readable(found, tex, as_published)


def of_json(value: Any, as_published: bool = False) -> Read:
    """A formula of an article in the original's form, {"opt": [type, symbol, children], "tex": …}.

    Raises:
      ValueError: it is not of that form, and has no TeX either.
    """
    if not isinstance(value, Mapping) or not ({"opt", "tex"} & value.keys()):
        raise ValueError("is no object with opt and tex")
    tex = value.get("tex")
    tex = tex.strip() if isinstance(tex, str) else ""
    opt = value.get("opt")
    if opt is None and tex:
        return _readable(Unreadable("there is no tree", 0), tex, as_published)
    try:
        found = from_json(opt)
        found = found if as_published else canonical.nested(found)
    except ValueError as error:
        found = Unreadable(str(error), 0)
    except RecursionError:
        found = Unreadable("nested too deep", 0)
    return _readable(found, tex, as_published)


def _readable(found: Tree | Unreadable, tex: str, as_published: bool) -> Read:
    """The tree if the model can write it, else that of the TeX, else the TeX alone."""
    reason = found.error if isinstance(found, Unreadable) else canonical.problem(found, as_published) or ""
    if isinstance(found, Tree) and not reason:
        return Read(found, tex or (published if as_published else printer).latex(found))
    if tex:
        read = latex.parse(tex, Rules.as_published() if as_published else DEFAULT)
        if isinstance(read, Tree) and not canonical.problem(read, as_published):
            return Read(read, tex, reason)
    return Read(None, tex, reason)


def _tex(source: Node | str) -> str:
    """The TeX that a <math> element says it was made from; "" if it says none."""
    if isinstance(source, str):
        found = _TEX.search(source) or _ALTTEXT.search(source)
        text = "" if found is None else html.unescape(next(filter(None, found.groups()), ""))
    else:
        notes = (node for node in source.walk() if node.name == "annotation")
        said = next((node.text for node in notes if node.attributes.get("encoding") in mathml.TEX), "")
        text = said or source.attributes.get("alttext", "")
    text = " ".join(text.split())
    return "" if text == "unknown" else text


def _of_json(record_id: str, value: Any, as_published: bool) -> Iterator[Made]:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        yield Made(LEFT_OUT, {"id": record_id, "reason": 'is no object with a "text"'})
        return
    known = value.get("formulas")
    if not isinstance(known, Mapping):
        yield Made(LEFT_OUT, {"id": record_id, "reason": 'has no object "formulas"'})
        return
    text, formulas = value["text"], {}
    for i in range(text.count(IDENTIFIER)):
        try:
            formulas[str(i)] = of_json(known[str(i)], as_published)
        except KeyError:
            formulas[str(i)] = Read(None, "", "is missing")
        except ValueError as error:
            formulas[str(i)] = Read(None, "", str(error))
    yield from _made(record_id, text, formulas)


def _made(record_id: str, text: str, found: Mapping[str, Read]) -> Iterator[Made]:
    """The record, and a remark on each formula that was mended: read from its TeX, kept as text, or lost."""
    if not text.replace(IDENTIFIER, "").strip() and not any(read.tex for read in found.values()):
        yield Made(LEFT_OUT, {"id": record_id, "reason": "holds no text"})
        return
    for key, read in found.items():
        if read.reason:
            done = "read from its TeX" if read.tree else "kept as text" if read.tex else "left out"
            yield Made(MENDED, {"id": record_id, "reason": f"formula {key} {done}: {read.reason}"})
    formulas = {
        key: {"opt": None if read.tree is None else read.tree.to_json(), "tex": read.tex}
        for key, read in found.items()
        if read.tree is not None or read.tex
    }
    yield Made(
        "",
        {
            "id": record_id,
            "text": text,
            "formulas": json.dumps(formulas, ensure_ascii=False, separators=(",", ":")),
            "n_formulas": len(found),
            "from_tex": sum(read.tree is not None and bool(read.reason) for read in found.values()),
            "as_text": sum(read.tree is None and bool(read.tex) for read in found.values()),
            "lost": sum(read.tree is None and not read.tex for read in found.values()),
        },
    )
