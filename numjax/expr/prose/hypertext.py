"""HTML as plain text with LaTeX where it shows formulas: scripts, and embedded MathML as one types it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Tags that end a line, and with it a formula.
_BLOCKS = frozenset("p br div li ul ol td th tr table tbody thead h1 h2 h3 h4 h5 h6 hr pre blockquote center".split())
_SILENT = frozenset(("script", "style", "head", "title"))
_SCRIPTS = {"sup": "^", "sub": "_"}
# Elements of presentation MathML whose children take part in a form; all others are read in a row.
_FORMS = {
    "mfrac": r"\frac {0} {1}", "msup": "{0} ^ {1}", "msub": "{0} _ {1}", "msubsup": "{0} _ {1} ^ {2}",
    "msqrt": r"\sqrt {0}", "mroot": r"\sqrt [ {1} ] {0}", "mover": "{0} ^ {1}", "munder": "{0} _ {1}",
    "munderover": "{0} _ {1} ^ {2}",
}  # fmt: skip
_WORD = re.compile(r"[^\s+−-]\S*")
_EMPTY = frozenset(("mspace", "mprescripts", "none", "malignmark", "maligngroup"))
_INVISIBLE = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b\u200c\u200d\ufeff"))
_FRACTIONS = {sign: rf" \frac {{ {a} }} {{ {b} }} " for sign, a, b in (("½", 1, 2), ("¼", 1, 4), ("¾", 3, 4))}
_POWERS = str.maketrans({"¹": " ^ { 1 } ", "²": " ^ { 2 } ", "³": " ^ { 3 } ", **_FRACTIONS})
# An editor's own marks around MathML in an attribute.
_EDITOR = str.maketrans({"«": "<", "»": ">", "¨": '"', "§": "&"})


def from_html(text: str) -> str:
    """Plain text with LaTeX's `^ { … }`, `_ { … }` and `\\frac`; backslashes and braces of the text are escaped.

    Paragraphs, table cells and the like stand on lines of their own. Entities become their characters, MathML (also
    in the `data-mathml` of an image) becomes what one types for it, and a blank to fill in one underscore. Other tags
    are dropped. Broken HTML is read as far as possible.
    """
    reader = _HtmlReader()
    reader.feed(text)
    reader.close()
    return re.sub(r"[^\S\n]*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", reader.get_text())).strip()


class _Element:
    """An open element and its content so far: text, or in MathML one string per child."""

    def __init__(self, name: str):
        self.name = name
        self.parts: list[str] = []


class _HtmlReader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self._open_elements = [_Element("")]
        self._silent_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent_depth += 1
            return
        mathml = dict(attrs).get("data-mathml")
        if mathml:
            self._add_text(f" {from_html(mathml.translate(_EDITOR))} ")
        elif tag in _SCRIPTS or tag == "math" or self._is_in_math():
            if tag not in _EMPTY:
                self._open_elements.append(_Element(tag))
        elif tag in _BLOCKS:
            self._add_text("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if len(self._open_elements) > 1 and self._open_elements[-1].name == tag:
            self._close_element()

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent_depth = max(0, self._silent_depth - 1)
        elif any(element.name == tag for element in self._open_elements[1:]):
            while self._close_element() != tag:
                pass
        elif tag in _BLOCKS:
            self._add_text("\n")

    def handle_data(self, data: str) -> None:
        if self._silent_depth:
            return
        if self._is_in_math():
            data = data.translate(_INVISIBLE).strip()
            if not data:
                return
        data = re.sub(r"\s+", " ", data)
        data = data.replace("\\", "\\textbackslash ").replace("{", r"\{").replace("}", r"\}")
        self._add_text(re.sub(r"_+", r"\\_", data).replace("\xa0", " ").translate(_POWERS))

    def get_text(self) -> str:
        """All text."""
        while len(self._open_elements) > 1:
            self._close_element()
        return "".join(self._open_elements[0].parts)

    def _is_in_math(self) -> bool:
        return any(element.name == "math" for element in self._open_elements)

    def _add_text(self, text: str) -> None:
        if not self._silent_depth:
            self._open_elements[-1].parts.append(text)

    def _close_element(self) -> str:
        element = self._open_elements.pop()
        self._add_text(_format_element(element, self._is_in_math()))
        return element.name


def _format_element(element: _Element, in_math: bool) -> str:
    parts = [part.strip() for part in element.parts if part.strip()]
    if element.name in _SCRIPTS:
        script = " ".join("".join(element.parts).split())
        return f" {_SCRIPTS[element.name]} {{ {script} }} " if script else ""
    if element.name == "mfenced":
        return f"( {' , '.join(parts)} )"
    template = _FORMS.get(element.name)
    if template is None:
        return f" {' '.join(parts)} " if in_math or element.name == "math" else "".join(element.parts)
    if element.name == "msqrt":
        parts = [" ".join(parts)]
    if len(parts) != 1 + max(map(int, re.findall(r"\d", template))):
        return " ".join(parts)
    # The base of a power needs no braces where it is one word without a sign; a script always has them.
    grouped = [
        part if i == 0 and template[0] == "{" and _WORD.fullmatch(part) else f"{{ {part} }}"
        for i, part in enumerate(parts)
    ]
    return template.format(*grouped)
