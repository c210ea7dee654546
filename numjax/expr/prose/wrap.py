"""Formulas in the text that people type, for data that come without marks (MathGPT, section 3.1).

    wrap_formulas("She sold 48/2 = 24 clips")          →  "She sold <m> 48 / 2 = 24 </m> clips"
    wrap_formulas(from_html("4<sup>2</sup> &times; x"))  →  "<m> 4 ^ { 2 } \\times x </m>"

A formula is a run of signs and operands: numbers, single letters ("2x", "x2"), blanks to fill in, "?". Two operands
with a blank between them end a run ("3 a day"), and so does a new line. Signs that cannot begin or end a formula and
brackets without their partner are text. One operand alone is a formula only if it is a number, a Greek letter or one
of k, x, y, z.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from numjax.expr.prose.hypertext import from_html

__all__ = ["from_html", "wrap_formulas"]

OPEN, CLOSE = "<m>", "</m>"

# LaTeX for characters in formulas; outside of formulas, back to characters.
_SIGNS = {
    "×": r"\times", "·": r"\cdot", "⋅": r"\cdot", "∙": r"\cdot", "÷": r"\div", "−": "-", "–": "-", "∕": "/",
    "≠": r"\ne", "≥": r"\ge", "≤": r"\le", "≈": r"\approx", "≡": r"\equiv", "∈": r"\in", "∉": r"\notin",
    "∨": r"\vee", "∧": r"\wedge", "±": r"\pm", "°": r"\degree", "√": r"\surd", "∠": r"\angle", "∀": r"\forall",
    "∃": r"\exists", "∏": r"\prod", "∑": r"\sum", "→": r"\rightarrow", "∗": "*", "∣": "|",
}  # fmt: skip
_LETTERS = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\epsilon", "ϵ": r"\epsilon",
    "θ": r"\theta", "λ": r"\lambda", "μ": r"\mu", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "φ": r"\phi",
    "ω": r"\omega", "Δ": r"\Delta", "Σ": r"\Sigma", "Ω": r"\Omega", "∞": r"\infty", "∅": r"\emptyset",
}  # fmt: skip
_CHARACTERS = {macro: sign for sign, macro in [*_SIGNS.items(), *_LETTERS.items()] if macro.startswith("\\")}
_MACROS = "|".join(sorted((re.escape(macro) for macro in _CHARACTERS), reverse=True))

_NUMBER = r"(?:(?<![A-Za-z0-9])|(?<=[0-9][xX]))(?>[0-9]++(?:[.,][0-9]++)*+|\.[0-9]++)"
_TOKEN = re.compile(
    rf"""
    (?P<times>(?<=[0-9])[xX](?=\.?[0-9]))  # 2x3
    |(?P<operand>{_NUMBER}(?=[xX]\.?[0-9]|(?![A-Za-z]))
                 |(?:{_NUMBER}|(?<![A-Za-z]))[A-Za-z](?![A-Za-z])[0-9]*+(?![A-Za-z]))
    |(?P<script>(?<![A-Za-z]{{2}})(?<=[A-Za-z])_(?=[A-Za-z0-9](?![A-Za-z]))|_(?=\s*\{{))  # x_1
    |(?P<blank>\\_|_+|(?<![A-Za-z])\?)
    |(?P<letter>[{"".join(_LETTERS)}]|\\(?:{"|".join(m[1:] for m in _LETTERS.values())})(?![A-Za-z]))
    |(?P<prefix>[√∠∀∃∏∑]|\\(?:surd|sqrt|frac|angle|forall|exists|prod|sum)(?![A-Za-z]))
    |(?P<postfix>%|\\%|°|\\degree(?![A-Za-z]))
    |(?P<dollar>\$|\\\$)
    |(?P<open>[(\[{{]|\\\{{)
    |(?P<close>[)\]}}]|\\\}})
    |(?P<sign>[-+−–])
    |(?P<relation>[=<>≠≥≤≈≡∈∉]|\\(?:ne|ge|le|approx|equiv|in|notin)(?![A-Za-z]))
    |(?P<infix>[*/∕:^×·⋅∙÷∨∧±∗→]|\\(?:times|cdot|div|vee|wedge|pm|rightarrow)(?![A-Za-z]))
    """,
    re.VERBOSE,
)
_LONE_OPERAND = re.compile(rf"{_NUMBER}[A-Za-z]?|[kxyz]")
_PARTNER = {")": "(", "]": "[", "}": "{", r"\}": r"\{"}
_ESCAPED = re.compile(rf"\\textbackslash ?|\\([{{}}$%_&])|(?:{_MACROS})(?![A-Za-z])")
_FENCED = re.compile(rf"({re.escape(OPEN)}.*?{re.escape(CLOSE)})", re.DOTALL)
# What cannot end a formula.
_UNENDING = frozenset(("sign", "relation", "infix", "script", "times", "prefix", "dollar"))


class Word(NamedTuple):
    """A piece of a possible formula: its kind, its LaTeX, and where it stands."""

    kind: str
    latex: str
    start: int
    end: int


def wrap_formulas(text: str) -> str:
    """The text with `<m> … </m>` around its formulas, in LaTeX with blanks between its words.

    What is outside stays as it is; escapes such as \\{ are undone there. Formulas that are wrapped already stay too.
    """
    fenced = text.rfind(CLOSE) + len(CLOSE) if CLOSE in text else 0
    parts = _FENCED.split(text[:fenced])
    parts[-1] += text[fenced:]  # an opening without its closing would be searched to the end
    return "".join(part if i % 2 else _wrap_text(part) for i, part in enumerate(parts))


def _wrap_text(text: str) -> str:
    out, end = [], 0
    for run in _find_runs(text):
        for words in _find_formulas(run, text):
            out += [_unescape(text[end : words[0].start]), f"{OPEN} {' '.join(w.latex for w in words)} {CLOSE}"]
            end = words[-1].end
    return "".join([*out, _unescape(text[end:])])


def _unescape(text: str) -> str:
    """Text outside of formulas, as one reads it."""
    return _ESCAPED.sub(lambda m: m[1] or _CHARACTERS.get(m[0], "\\"), text) if "\\" in text else text


def _find_runs(text: str) -> Iterator[list[Word]]:
    """Neighbouring words with nothing but blanks between them, no two operands side by side."""
    run: list[Word] = []
    open_braces = 0
    for match in _TOKEN.finditer(text):
        kind, sign = str(match.lastgroup), match[0]
        word = Word(kind, _to_latex(kind, sign), match.start(), match.end())
        if kind == "operand" and sign in "xX" and run and _is_times(text, run[-1], word):
            word = word._replace(kind="infix", latex=r"\times")
        elif kind == "infix" and sign == ":" and (_is_blank(text, word.start - 1) != _is_blank(text, word.end)):
            word = word._replace(kind="text")  # "Answer: 5" is no ratio
        between = text[run[-1].end : word.start] if run else ""
        if run and (
            word.kind == "text"
            or between.strip()
            or "\n" in between
            or (open_braces <= 0 and _ends_run(run, word, between))
        ):
            yield run
            run, open_braces = [], 0
        if word.kind != "text":
            run.append(word)
            open_braces += (word.latex == "{") - (word.latex == "}")
    if run:
        yield run


def _to_latex(kind: str, sign: str) -> str:
    if kind == "blank":
        return "?" if sign == "?" else r"\_"
    replacement = {"%": r"\%", "$": r"\$"}.get(sign) or _SIGNS.get(sign) or _LETTERS.get(sign)
    return r"\times" if kind == "times" else replacement or sign


def _is_times(text: str, last: Word, x: Word) -> bool:
    """Whether an x between two operands and blanks is a sign: "0.2 x 50", "a x b"."""
    if last.kind not in ("operand", "close", "letter") or not _is_blank(text, x.start - 1):
        return False
    blanks = re.match(r"[ \t]+", text[x.end :])
    next_match = _TOKEN.match(text, x.end + blanks.end()) if blanks else None
    return next_match is not None and (
        next_match.lastgroup in ("operand", "letter", "dollar") or next_match[0] == "("
    )


def _ends_run(run: Sequence[Word], word: Word, between: str) -> bool:
    """Whether a word outside of braces begins another formula: an operand after an operand."""
    last = run[-1]
    if word.kind not in ("operand", "blank", "letter", "dollar"):
        return False
    if "letter" in (word.kind, last.kind) and last.kind in ("operand", "letter"):
        return False  # 2 π r
    if word.kind == "blank" or last.kind == "blank":
        return last.kind in ("operand", "blank", "letter", "postfix", "close")
    if word.kind == "dollar" and not between:
        return False  # 5$
    if last.kind == "dollar":  # 5$ 3, but $ 3
        return bool(between) and len(run) > 1 and run[-2].kind == "operand"
    return bool(between) and last.kind in ("operand", "postfix", "close")


def _find_formulas(run: Sequence[Word], text: str) -> Iterator[Sequence[Word]]:
    """The formulas in a run: cut at brackets without their partner, and without what cannot begin or end one."""
    stack: list[int] = []
    paired: set[int] = set()
    for i, word in enumerate(run):
        if word.kind == "open":
            stack.append(i)
        elif word.kind == "close" and stack and run[stack[-1]].latex == _PARTNER[word.latex]:
            paired |= {stack.pop(), i}
    start = 0
    for i, word in enumerate(run):
        if word.kind in ("open", "close") and i not in paired:
            yield from _trim_formula(run[start:i], text)
            start = i + 1
    yield from _trim_formula(run[start:], text)


def _trim_formula(words: Sequence[Word], text: str) -> Iterator[Sequence[Word]]:
    start, stop = 0, len(words)
    while start < stop and _cannot_begin(words, start, text):
        start += 1
    while start < stop and words[stop - 1].kind in _UNENDING:
        if words[stop - 1].kind == "dollar" and stop - start > 1 and words[stop - 2].end == words[stop - 1].start:
            break
        stop -= 1
    words = words[start:stop]
    while len(words) == 3 and words[0].kind == "open" and words[2].kind == "close":
        words = words[1:2]
    if len(words) == 1:
        word = words[0]
        if word.kind == "letter" or (word.kind == "operand" and _LONE_OPERAND.fullmatch(word.latex)):
            yield words
    elif any(word.kind in ("operand", "blank", "letter") for word in words):
        yield words


def _cannot_begin(words: Sequence[Word], start: int, text: str) -> bool:
    first = words[start]
    if first.kind in ("infix", "script", "times", "postfix"):
        return True
    if first.kind != "sign":
        return first.kind == "blank" and start == len(words) - 1
    # A hyphen or a dash ("covid-19", "- 5 apples") unless it is the line's first and the formula all of it.
    prefix = text[text.rfind("\n", 0, first.start) + 1 : first.start]
    suffix = text[words[-1].end :].partition("\n")[0]
    is_attached = start < len(words) - 1 and words[start + 1].start == first.end
    if is_attached:
        return prefix[-1:].isalnum() or prefix[-1:] in (")", "]")
    return bool(prefix.strip() or suffix.strip(" ."))


def _is_blank(text: str, index: int) -> bool:
    """Whether there is a blank, or no character, at an index."""
    return not 0 <= index < len(text) or text[index].isspace()
