r"""Formulas in LaTeX's running text: $…$, \(…\), displays and their environments.

marked(r"Since $x^2=4,$ we have \[x = \boxed{2}.\]")  →  "Since <m> x^2=4 </m>, we have <m> x = 2 </m>."
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPENING = re.compile(
    r"\\\$|\$\$|\$|\\\(|\\\[|\\begin\{(?P<name>(?:align|alignat|equation|eqnarray|gather|multline|displaymath|math)\*?)\}"
)
_CLOSING = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
_DRAWING = re.compile(r"\[asy\].*?(?:\[/asy\]|\Z)", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{|[0-9A-Za-z])")
_END = re.compile(r"(?:\\[!,;: ]|[\s.,;:])+\Z")
_POINTS = re.compile(r"[.,;:]")


def marked(text: str) -> str:
    r"""The text with `<m> … </m>` around its formulas, without boxes, drawings ([asy]) and the dollars of prices.

    Points that end a formula are put behind it. An opening without its closing is text.
    """
    text = _DRAWING.sub(" ", text)
    out: list[str] = []
    end = 0
    for start, stop, opening, body, closing in _formulas(text):
        out.append(text[end:start].replace(r"\$", "$"))
        body = _BOX.sub("", body)
        found = _END.search(body)
        points = "".join(_POINTS.findall(re.sub(r"\\[!,;: ]", "", found[0]))) if found else ""
        body = body[: found.start()] if found else body
        formula = " ".join(f"{opening}{body}{closing}".split())
        out.append(f"<m> {formula} </m>{points}" if body.strip() else points)
        end = stop
    return "".join([*out, text[end:].replace(r"\$", "$")])


def _formulas(text: str) -> Iterator[tuple[int, int, str, str, str]]:
    """(start, end, opening, body, closing) of each formula; of an environment they are kept, of the others empty."""
    end = 0
    while match := _OPENING.search(text, end):
        end = match.end()
        opening = match[0]
        if opening == r"\$":
            continue
        closing = _CLOSING.get(opening) or rf"\end{{{match['name']}}}"
        close = _closing(text, end, closing)
        if close < 0:
            continue
        body, end = text[end:close], close + len(closing)
        kept = (opening, closing) if match["name"] else ("", "")
        yield match.start(), end, kept[0], body, kept[1]


def _closing(text: str, start: int, closing: str) -> int:
    r"""Where a formula ends: in no braces, as the dollars of \text{ if $x$} are; −1 if nowhere."""
    depth, place, inner = 0, start, -1
    while place < len(text):
        if text.startswith(closing, place):
            if depth <= 0:
                return place
            inner = place if inner < 0 else inner
        if text[place] == "\\":
            place += 2
            continue
        depth += (text[place] == "{") - (text[place] == "}")
        place += 1
    return inner  # braces do not match: at the first that there is
