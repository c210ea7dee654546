r"""Formulas in LaTeX's running text: $…$, \(…\), displays and their environments.

mark_formulas(r"Since $x^2=4,$ we have \[x = \boxed{2}.\]")  →  "Since <m> x^2=4 </m>, we have <m> x = 2 </m>."
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


def mark_formulas(text: str) -> str:
    r"""The text with `<m> … </m>` around its formulas, without boxes, drawings ([asy]) and the dollars of prices.

    Points that end a formula are put behind it. An opening without its closing is text.
    """
    text = _DRAWING.sub(" ", text)
    out: list[str] = []
    end = 0
    for start, stop, opening, body, closing in _find_formulas(text):
        out.append(text[end:start].replace(r"\$", "$"))
        body = _BOX.sub("", body)
        ending = _END.search(body)
        points = "".join(_POINTS.findall(re.sub(r"\\[!,;: ]", "", ending[0]))) if ending else ""
        body = body[: ending.start()] if ending else body
        formula = " ".join(f"{opening}{body}{closing}".split())
        out.append(f"<m> {formula} </m>{points}" if body.strip() else points)
        end = stop
    return "".join([*out, text[end:].replace(r"\$", "$")])


def _find_formulas(text: str) -> Iterator[tuple[int, int, str, str, str]]:
    """(start, end, opening, body, closing) of each formula; opening and closing are empty but for an environment."""
    end = 0
    unclosed: set[str] = set()  # closings that do not come any more: each opening would be searched to the end
    while match := _OPENING.search(text, end):
        end = match.end()
        opening = match[0]
        if opening == r"\$":
            continue
        closing = _CLOSING.get(opening) or rf"\end{{{match['name']}}}"
        if closing in unclosed:
            continue
        stop = _find_closing(text, end, closing)
        if stop < 0:
            if text.find(closing, end) < 0:
                unclosed.add(closing)
            continue
        body, end = text[end:stop], stop + len(closing)
        fences = (opening, closing) if match["name"] else ("", "")
        yield match.start(), end, fences[0], body, fences[1]


def _find_closing(text: str, start: int, closing: str) -> int:
    r"""The index of the closing outside of braces, unlike the dollars of \text{ if $x$}; −1 if there is none."""
    depth, index, inner_index = 0, start, -1
    while index < len(text):
        if text.startswith(closing, index):
            if depth <= 0:
                return index
            inner_index = index if inner_index < 0 else inner_index
        if text[index] == "\\":
            index += 2
            continue
        depth += (text[index] == "{") - (text[index] == "}")
        index += 1
    return inner_index  # braces do not match: the first closing of all
