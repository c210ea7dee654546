"""MathML → operator tree: content MathML as it is, presentation MathML through the TeX it was made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from numjax.expr import content, latex, markup
from numjax.expr.markup import Node
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree

CONTENT = frozenset(("MathML-Content", "application/mathml-content+xml"))
TEX = frozenset(("application/x-tex", "TeX", "LaTeX", "application/x-latex"))
PRESENTATION = frozenset(
    "mrow mi mn mo mspace ms mfrac msqrt mroot mstyle merror mpadded mphantom mfenced menclose msub msup msubsup "
    "munder mover munderover mmultiscripts mtable maction mglyph".split()
)
_NAME = r"(?:[A-Za-z][\w.-]*:)?math\b"
# An attempt never goes beyond the next <math, so that pages full of what is not closed take linear time too.
_OPENING = re.compile(
    rf"<({_NAME})(?:[^<>\"']++|\"(?:[^\"<]|<(?!{_NAME}))*+\"|'(?:[^'<]|<(?!{_NAME}))*+')*+>", re.ASCII
)


def parse(source: str, *, as_published: bool = False) -> Tree | Unreadable:
    """The tree of one formula: a <math> element, or a bare content MathML element.

    Content MathML is taken where there is some, also as an annotation; else the TeX of an annotation or of `alttext`
    is read by `numjax.expr.latex`. Never raises for what is in the source: an Unreadable says what is wrong where.

    Args:
      as_published: the trees of the original pipeline (LaTeXML, Tangent-CFT): minus and divide of many operands,
        no query variables, bounds only as scripts. By default they are nested from the left.
    """
    root = markup.read(source)
    return root if isinstance(root, Unreadable) else of(root, as_published=as_published)


def of(root: Node, *, as_published: bool = False, through_tex: bool = True) -> Tree | Unreadable:
    """The tree of an element that is parsed already, as `parse` gives it; <share>s are put in place in it.

    Args:
      through_tex: read the TeX where there is no content MathML; else that is Unreadable.
    """
    found = _content(root)
    if isinstance(found, Node):
        shared = _resolve(root, as_published)
        if shared is not None:
            return shared
        return content.tree(found, _shown(root), as_published=as_published)
    if found is not None:
        return found
    return _from_tex(root, as_published) if through_tex else Unreadable("there is no content MathML", root.at)


def formulas(page: str) -> Iterator[tuple[int, str]]:
    """(place, source) of each <math> element of a page, which need not be well-formed around them."""
    closing: dict[str, re.Pattern[str] | None] = {}
    end = 0
    while match := _OPENING.search(page, end):
        end, name = match.end(), match[1]
        if not match[0].endswith("/>"):
            if name not in closing:
                closing[name] = re.compile(rf"</{re.escape(name)}\s*+>")
            pattern = closing[name]
            closed = None if pattern is None else pattern.search(page, end)
            if closed is None:
                closing[name] = None  # nor will any later one be closed
                continue
            end = closed.end()
        yield match.start(), page[match.start() : end]


def _content(root: Node) -> Node | Unreadable | None:
    """The content MathML element of a formula; None where there is only presentation."""
    for node in root.walk():
        if node.name == "annotation-xml" and node.attributes.get("encoding") in CONTENT:
            if not node.children:
                return Unreadable("the formula is empty", node.at)
            return _sole(node)
    if root.name != "math":
        return None if root.name in PRESENTATION else root
    inner = root.children
    while len(inner) == 1 and inner[0].name in ("semantics", "mrow", "mstyle"):
        inner = inner[0].children
    if not inner and "alttext" not in root.attributes:
        return Unreadable("the formula is empty", root.at)
    return inner[0] if len(inner) == 1 and inner[0].name not in PRESENTATION else None


def _sole(node: Node) -> Node:
    """The only child, or of several a cerror: they are fragments of a formula."""
    if len(node.children) == 1:
        return node.children[0]
    made = Node("cerror", {}, node.at)
    kind = Node("csymbol", {"cd": "ambiguous"}, node.at)
    kind.contents.append("fragments")
    made.contents.extend([kind, *node.children])
    return made


def _resolve(root: Node, as_published: bool) -> Unreadable | None:
    """Puts in place of each <share href="#id"/> the element that it names; published: nothing if there is none."""
    if not any(node.name == "share" for node in root.walk()):
        return None
    known = {node.attributes["id"]: node for node in root.walk() if "id" in node.attributes}
    for node in list(root.walk()):
        for place, child in enumerate(node.contents):
            if isinstance(child, Node) and child.name == "share":
                href = child.attributes.get("href", "")
                target = known.get(href.removeprefix("#"), "" if as_published else None)
                if target is None:
                    return Unreadable(f"<share> names nothing: {href[:40]!r}", child.at)
                node.contents[place] = target
    return _looped(root)


def _looped(root: Node) -> Unreadable | None:
    """Refuses shares that contain themselves or grow the formula beyond measure."""
    done: dict[int, int] = {}
    path: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, left = stack.pop()
        if left:
            path.discard(id(node))
            done[id(node)] = 1 + sum(done[id(child)] for child in node.children)
            if done[id(node)] > markup.LARGEST // 16:
                return Unreadable("<share>s make the formula too large", node.at)
        elif id(node) in path:
            return Unreadable("a <share> contains itself", node.at)
        elif id(node) not in done:
            path.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in node.children)
    return None


def _shown(root: Node) -> Callable[[Node], Node | None]:
    """The presentation of an element of content MathML, through its `xref`."""
    known = {node.attributes["id"]: node for node in root.walk() if "id" in node.attributes}
    return lambda node: known.get(node.attributes.get("xref", ""))


def _from_tex(root: Node, as_published: bool) -> Tree | Unreadable:
    for node in root.walk():
        if node.name == "annotation" and node.attributes.get("encoding") in TEX:
            return _latex(node.text, node.at, as_published)
    if root.attributes.get("alttext"):
        return _latex(root.attributes["alttext"], root.at, as_published)
    return Unreadable("presentation MathML without the TeX it was made from", root.at)


def _latex(source: str, at: int, as_published: bool) -> Tree | Unreadable:
    found = latex.parse(source, Rules.as_published() if as_published else DEFAULT)
    return found if isinstance(found, Tree) else Unreadable(f"in its TeX: {found.error}", at)
