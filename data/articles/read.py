"""Turns an article, a page with MathML or the original's form, into a record. Pure: text in, records, remarks out."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.expr import canonical, latex, mathml, printer
from numjax.expr.mathml import markup
from numjax.expr.mathml.markup import Node
from numjax.expr.printer import published
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree, from_json
from numjax.text.document.marked import IDENTIFIER

from ..pieces import Piece
from ..shards import LEFT_OUT, MENDED, ShardEntry
from . import page as pages

PAGES = (".html", ".xhtml", ".htm")
KINDS = (*PAGES, ".json", ".jsonl")

# The TeX of an element that is not well-formed.
_TEX = re.compile(
    r"<(?:\w+:)?annotation\b[^<>]*\bencoding=[\"'](?:application/x-(?:la)?tex|(?:La)?TeX)[\"'][^<>]*>([^<]*)<"
)
_ALTTEXT = re.compile(r"\balttext=(?:\"([^\"]*)\"|'([^']*)')")


class ParsedFormula:
    """A formula as it was parsed.

    Attributes:
      tree: or None where the formula stays text. tex: its source; "" if it is unknown.
      reason: why its MathML (or its tree) was refused; "" if it was not.
    """

    __slots__ = ("reason", "tex", "tree")

    def __init__(self, tree: Tree | None, tex: str, reason: str = ""):
        self.tree, self.tex, self.reason = tree, tex, reason


def parse_piece(piece: Piece, as_published: bool = False) -> Iterator[ShardEntry]:
    """Yields the records of a piece of a file, without a split, and remarks on what was left out or mended."""
    if piece.data is None:
        yield ShardEntry(LEFT_OUT, {"id": piece.id, "reason": piece.reason})
        return
    try:
        text = piece.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield ShardEntry(LEFT_OUT, {"id": piece.id, "reason": f"not UTF-8 at byte {error.start}"})
        return
    if piece.suffix in PAGES:
        page_text, sources = pages.extract_text(text)
        formulas = {str(i): parse_mathml_formula(source, as_published) for i, source in enumerate(sources)}
        yield from _make_record(piece.id, page_text, formulas)
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield ShardEntry(LEFT_OUT, {"id": piece.id, "reason": "not JSON"})
        return
    if isinstance(value, list):
        for number, article in enumerate(value):
            yield from _parse_article(f"{piece.id}:{number}", article, as_published)
    else:
        yield from _parse_article(piece.id, value, as_published)


def parse_mathml_formula(source: str, as_published: bool = False) -> ParsedFormula:
    """Parses a formula of a page: its content MathML, else its TeX."""
    root = markup.parse_xml(source)
    tex = _find_tex(source if isinstance(root, Unreadable) else root)
    try:
        tree = root if isinstance(root, Unreadable) else mathml.parse_element(root, as_published=as_published)
    except RecursionError:
        tree = Unreadable("nested too deep", 0)
    return _choose_tree(tree, tex, as_published)


def parse_json_formula(value: Any, as_published: bool = False) -> ParsedFormula:
    """Parses a formula of an article in the original's form, {"opt": [type, symbol, children], "tex": …}.

    Raises:
      ValueError: it does not have that form, and has no TeX either.
    """
    if not isinstance(value, Mapping) or not ({"opt", "tex"} & value.keys()):
        raise ValueError("is no object with opt and tex")
    tex = value.get("tex")
    tex = tex.strip() if isinstance(tex, str) else ""
    opt = value.get("opt")
    if opt is None and tex:
        return _choose_tree(Unreadable("there is no tree", 0), tex, as_published)
    try:
        tree = from_json(opt)
        tree = tree if as_published else canonical.nest_left(tree)
    except ValueError as error:
        tree = Unreadable(str(error), 0)
    except RecursionError:
        tree = Unreadable("nested too deep", 0)
    return _choose_tree(tree, tex, as_published)


def _choose_tree(tree: Tree | Unreadable, tex: str, as_published: bool) -> ParsedFormula:
    """The tree if the model can write it, else the tree of the TeX, else the TeX alone."""
    reason = tree.error if isinstance(tree, Unreadable) else canonical.find_problem(tree, as_published) or ""
    if isinstance(tree, Tree) and not reason:
        return ParsedFormula(tree, tex or (published if as_published else printer).latex(tree))
    if tex:
        tex_tree = latex.parse(tex, Rules.as_published() if as_published else DEFAULT)
        if isinstance(tex_tree, Tree) and not canonical.find_problem(tex_tree, as_published):
            return ParsedFormula(tex_tree, tex, reason)
    return ParsedFormula(None, tex, reason)


def _find_tex(source: Node | str) -> str:
    """The TeX that a <math> element names as its source; "" if it names none."""
    if isinstance(source, str):
        match = _TEX.search(source) or _ALTTEXT.search(source)
        text = "" if match is None else html.unescape(next(filter(None, match.groups()), ""))
    else:
        notes = (node for node in source.walk() if node.name == "annotation")
        annotation = next((node.text for node in notes if node.attributes.get("encoding") in mathml.TEX), "")
        text = annotation or source.attributes.get("alttext", "")
    text = " ".join(text.split())
    return "" if text == "unknown" else text


def _parse_article(record_id: str, value: Any, as_published: bool) -> Iterator[ShardEntry]:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        yield ShardEntry(LEFT_OUT, {"id": record_id, "reason": 'is no object with a "text"'})
        return
    raw_formulas = value.get("formulas")
    if not isinstance(raw_formulas, Mapping):
        yield ShardEntry(LEFT_OUT, {"id": record_id, "reason": 'has no object "formulas"'})
        return
    text, formulas = value["text"], {}
    for i in range(text.count(IDENTIFIER)):
        try:
            formulas[str(i)] = parse_json_formula(raw_formulas[str(i)], as_published)
        except KeyError:
            formulas[str(i)] = ParsedFormula(None, "", "is missing")
        except ValueError as error:
            formulas[str(i)] = ParsedFormula(None, "", str(error))
    yield from _make_record(record_id, text, formulas)


def _make_record(record_id: str, text: str, parsed: Mapping[str, ParsedFormula]) -> Iterator[ShardEntry]:
    """Yields the record, and a remark on each formula that was mended: read from its TeX, kept as text, or lost."""
    if not text.replace(IDENTIFIER, "").strip() and not any(formula.tex for formula in parsed.values()):
        yield ShardEntry(LEFT_OUT, {"id": record_id, "reason": "holds no text"})
        return
    for key, formula in parsed.items():
        if formula.reason:
            outcome = "read from its TeX" if formula.tree else "kept as text" if formula.tex else "left out"
            yield ShardEntry(MENDED, {"id": record_id, "reason": f"formula {key} {outcome}: {formula.reason}"})
    formulas = {
        key: {"opt": None if formula.tree is None else formula.tree.to_json(), "tex": formula.tex}
        for key, formula in parsed.items()
        if formula.tree is not None or formula.tex
    }
    yield ShardEntry(
        "",
        {
            "id": record_id,
            "text": text,
            "formulas": json.dumps(formulas, ensure_ascii=False, separators=(",", ":")),
            "n_formulas": len(parsed),
            "from_tex": sum(formula.tree is not None and bool(formula.reason) for formula in parsed.values()),
            "as_text": sum(formula.tree is None and bool(formula.tex) for formula in parsed.values()),
            "lost": sum(formula.tree is None and not formula.tex for formula in parsed.values()),
        },
    )
