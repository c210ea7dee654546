"""The symbols that each scheme writes for a number, and the spans that each set of numeral rules finds in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from numjax import build, numeral
from numjax.config import blocks
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.numeral.exact import format_plain
from numjax.text import vocab as vocabularies
from numjax.text.digits import LAYOUTS
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Document, Features, Formula

# The vocabulary for layouts where no run gives one: sub-words trained on numbers alone.
VOCABULARY = "sentencepiece:size=400,model=bpe"
BLANK = "\u2423"  # shown for a blank, which would be invisible at the end of a symbol
FORMULA = "in a formula"

# Scheme → further options to show beside its defaults.
_VARIANTS = {"digits": tuple(f"layout={layout}" for layout in LAYOUTS if layout != "plain")}
_TRAINED_ON = range(10_000)


class Layout(NamedTuple):
    """How one scheme writes numbers.

    Attributes:
      name: the scheme and its options. description: what the scheme does, in a sentence; or why it cannot be used
        with this vocabulary.
      slot: whether a symbol stands for the whole number, whose value is given beside the symbols.
      rows: for each number its `Features`, None where the scheme cannot write it. symbols: their ids as text.
      scheme: the scheme; None if it cannot be used with this vocabulary. in_formula: numbers are written as formulas.
    """

    name: str
    description: str
    slot: bool
    rows: tuple[Features | None, ...]
    symbols: tuple[tuple[str, ...] | None, ...]
    scheme: Any = None
    in_formula: bool = False


class Reading(NamedTuple):
    """The numbers that a set of rules finds in a text: (text, exact value) each."""

    rules: str
    spans: tuple[tuple[str, str], ...]


def make_vocabulary(spec: str = VOCABULARY) -> BaseVocabulary:
    """The vocabulary of a specification `name:key=value,…`, see `vocab.build`. One that must be trained is trained on
    0 … 9,999 and on grouped numbers up to 10 million.

    Raises:
      UsageError: the name or an option is unknown, or its files cannot be read.
    """
    name, options = blocks.split_spec(spec)
    if name not in vocabularies.KINDS or name == "cells":
        names = ", ".join(kind for kind in vocabularies.KINDS if kind != "cells")
        raise UsageError(f"--vocab={spec}: choose one of {names}, such as {VOCABULARY}")
    defaults = vocabularies.KINDS[name].make.__kwdefaults__
    block: dict[str, Any] = {"name": name}
    for key, text in options.items():
        is_whole = isinstance(defaults.get(key), int) and text.isdecimal()
        block[key] = int(text) if is_whole else {"true": True, "false": False}.get(text.lower(), text)
    texts = [*map(str, _TRAINED_ON), *(f"{1000 * number + 357:,}" for number in _TRAINED_ON)]
    return vocabularies.build(block, texts)


def list_layouts(vocab: BaseVocabulary, texts: Sequence[str]) -> list[Layout]:
    """The layouts of every scheme of the library that writes text, with the vocabulary.

    A scheme for formulas also has a layout in which each number is a formula.
    """
    trees = [tree for tree in map(latex.parse, texts) if isinstance(tree, Tree)]
    layouts = []
    for name in build.names("text"):
        cls = build.find("text", name)
        if cls.reads != "text":
            continue
        for options in ("", *_VARIANTS.get(name, ())):
            spec = f"{name}:{options}" if options else name
            try:
                scheme = build.build(
                    "text", blocks.parse_block("text", spec), vocab=vocab.with_marks(cls.marks_of({}, trees))
                )
            except (DataError, UsageError) as error:
                layouts.append(Layout(spec, f"not with this vocabulary: {error}", False, (), ()))
                continue
            layouts += write_layouts(spec, scheme, texts)
    return layouts


def write_layouts(name: str, scheme: Any, texts: Sequence[str]) -> list[Layout]:
    """The layout of a scheme, and for a scheme of formulas also that of numbers as formulas."""
    first_paragraph = (sys.modules[type(scheme).__module__].__doc__ or "").strip().partition("\n\n")[0]
    description = " ".join(first_paragraph.split())
    layouts = [_write_layout(name, description, scheme, texts, in_formula=False)]
    if "formula" in type(scheme).forms:
        layouts.append(_write_layout(f"{name}, {FORMULA}", description, scheme, texts, in_formula=True))
    return layouts


def make_document(scheme: Any, text: str, in_formula: bool = False) -> Document:
    """The document of a number, as running text or as a formula.

    Raises:
      DataError: the text is no formula.
    """
    if not in_formula:
        return scheme.parse(text)
    tree = latex.parse(text)
    if not isinstance(tree, Tree):
        raise DataError(f"{text!r} is no formula: {tree.error}")
    return (Formula(text, tree),)


def _write_layout(name: str, description: str, scheme: Any, texts: Sequence[str], in_formula: bool) -> Layout:
    rows: list[Features | None] = []
    for text in texts:
        try:
            rows.append(scheme.encode(make_document(scheme, text, in_formula)))
        except (DataError, UsageError):  # such as a character that the vocabulary lacks
            rows.append(None)
    symbols = tuple(None if row is None else name_symbols(scheme.vocab, row.ids.tolist()) for row in rows)
    return Layout(name, description, scheme.numbers != "spelled", tuple(rows), symbols, scheme, in_formula)


def name_symbols(vocab: BaseVocabulary, ids: Sequence[int]) -> tuple[str, ...]:
    """Each id as text: a mark by its name, a piece by its characters. Bytes that are no whole character are shown as
    hexadecimal numbers, such as ⟨e2⟩."""
    names = []
    for token in ids:
        name = vocab.mark_name(token)
        if name is None:
            piece = vocab.bytes_of(token)
            try:
                name = piece.decode("utf-8").replace(" ", BLANK)
            except UnicodeDecodeError:
                name = "".join(f"\u27e8{byte:02x}\u27e9" for byte in piece)
        names.append(name)
    return tuple(names)


def read_by_rules(text: str) -> list[Reading]:
    """What each set of numeral rules finds in a text."""
    return [
        Reading(rules, tuple((span.text, format_plain(span.value)) for span in numeral.find(text, rules)))
        for rules in numeral.names()
    ]
