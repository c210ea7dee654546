"""Turns a page of HTML or XHTML into its running text, with a mark for each formula."""

from __future__ import annotations

import html
import re
from collections import Counter

from numjax.expr import mathml
from numjax.text.document.marked import IDENTIFIER

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/<>]*+)(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+'|[\"'])*+>|<!--|<[!?][^<>]*+>")
_HIDDEN = frozenset("head script style template svg nav object iframe".split())
_BLOCKS = frozenset(
    "address article aside blockquote br caption center dd details div dl dt figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr li main ol p pre section summary table tbody tfoot thead tr ul".split()
)
_CELLS = frozenset(("td", "th"))
_FORMULA = "\ue000"  # a private-use character: it is removed from visible text


def extract_text(page: str) -> tuple[str, list[str]]:
    """(text with `IDENTIFIER` at each formula, the <math> elements there); one line per block, runs of blanks as one.

    Never raises: what is not HTML is text. A <math> element that is not closed is text. Elements in a head or in a
    comment are left out.
    """
    visible, end = _VisibleText(), 0
    for start, source in mathml.find_formulas(page):
        visible.feed(page[end:start])
        visible.add_formula(source)
        end = start + len(source)
    visible.feed(page[end:])
    text = "".join(visible.parts)
    while IDENTIFIER in text:
        text = text.replace(IDENTIFIER, "")
    lines = (" ".join(line.split()) for line in text.split("\n"))
    text = "\n".join(line for line in lines if line)
    return text.replace(_FORMULA, IDENTIFIER), visible.formulas


class _VisibleText:
    """Collects the visible text. Tags need not match; the search for the end of a tag stops at the next "<"."""

    def __init__(self):
        self.parts: list[str] = []
        self.formulas: list[str] = []
        self._hidden: Counter[str] = Counter()
        self._comment = False

    def add_formula(self, source: str) -> None:
        """Adds a formula at the current position."""
        if not self._comment and not self._hidden:
            self.parts.append(_FORMULA)
            self.formulas.append(source)

    def feed(self, page: str) -> None:
        """Reads the next stretch of the page."""
        end = 0
        while end < len(page):
            if self._comment:
                closed = page.find("-->", end)
                self._comment = closed < 0
                end = len(page) if closed < 0 else closed + 3
                continue
            match = _TAG.search(page, end)
            self._add_text(page[end : match.start()] if match else page[end:])
            end = match.end() if match else len(page)
            if match and match[2]:
                self._handle_tag(match[2].lower(), bool(match[1]), match[0].endswith("/>"))
            elif match:
                self._comment = match[0] == "<!--"

    def _handle_tag(self, name: str, is_closing: bool, is_empty: bool) -> None:
        if name in _BLOCKS:
            self.parts.append("\n")
        elif name in _CELLS:
            self.parts.append(" ")
        elif name == "body":
            self._hidden.clear()  # of a head that was never closed
        elif name in _HIDDEN and is_closing:
            self._hidden -= Counter([name])  # never below 0
        elif name in _HIDDEN and not is_empty:
            self._hidden[name] += 1

    def _add_text(self, text: str) -> None:
        if not self._hidden:
            # Line ends in the source count as blanks.
            self.parts.append(html.unescape(text).replace("\n", " ").replace(_FORMULA, ""))
