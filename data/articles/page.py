"""A page of HTML or XHTML → its running text, with a mark for each formula."""

from __future__ import annotations

import html
import re
from collections import Counter

from numjax.expr import mathml
from numjax.text.marked import IDENTIFIER

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/<>]*+)(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+'|[\"'])*+>|<!--|<[!?][^<>]*+>")
_HIDDEN = frozenset("head script style template svg nav object iframe".split())
_BLOCKS = frozenset(
    "address article aside blockquote br caption center dd details div dl dt figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr li main ol p pre section summary table tbody tfoot thead tr ul".split()
)
_CELLS = frozenset(("td", "th"))
_FORMULA = "\ue000"  # of private use: none is left in what is shown


def read(page: str) -> tuple[str, list[str]]:
    """(text with `IDENTIFIER` at each formula, the <math> elements there); a line a block, blanks run together.

    Nothing raises: what is no HTML is text. A <math> element that is not closed is read as text; those in a head or
    in a comment are not there.
    """
    shown, end = _Shown(), 0
    for at, source in mathml.formulas(page):
        shown.read(page[end:at])
        shown.formula(source)
        end = at + len(source)
    shown.read(page[end:])
    text = "".join(shown.parts)
    while IDENTIFIER in text:
        text = text.replace(IDENTIFIER, "")
    lines = (" ".join(line.split()) for line in text.split("\n"))
    text = "\n".join(line for line in lines if line)
    return text.replace(_FORMULA, IDENTIFIER), shown.formulas


class _Shown:
    """Collects what is shown. Tags need not match; an attempt at one never goes beyond the next "<"."""

    def __init__(self):
        self.parts: list[str] = []
        self.formulas: list[str] = []
        self._hidden: Counter[str] = Counter()
        self._comment = False

    def formula(self, source: str) -> None:
        """A formula where the page stands now."""
        if not self._comment and not self._hidden:
            self.parts.append(_FORMULA)
            self.formulas.append(source)

    def read(self, page: str) -> None:
        """The next stretch of the page."""
        end = 0
        while end < len(page):
            if self._comment:
                closed = page.find("-->", end)
                self._comment = closed < 0
                end = len(page) if closed < 0 else closed + 3
                continue
            match = _TAG.search(page, end)
            self._data(page[end : match.start()] if match else page[end:])
            end = match.end() if match else len(page)
            if match and match[2]:
                self._tag(match[2].lower(), bool(match[1]), match[0].endswith("/>"))
            elif match:
                self._comment = match[0] == "<!--"

    def _tag(self, name: str, closes: bool, empty: bool) -> None:
        if name in _BLOCKS:
            self.parts.append("\n")
        elif name in _CELLS:
            self.parts.append(" ")
        elif name == "body":
            self._hidden.clear()  # of a head that was never closed
        elif name in _HIDDEN and closes:
            self._hidden -= Counter([name])  # never below 0
        elif name in _HIDDEN and not empty:
            self._hidden[name] += 1

    def _data(self, data: str) -> None:
        if not self._hidden:
            # Line ends in the source are blanks.
            self.parts.append(html.unescape(data).replace("\n", " ").replace(_FORMULA, ""))
