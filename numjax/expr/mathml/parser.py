"""MathML → operator tree: content MathML directly, presentation MathML through its TeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from numjax.expr import latex
from numjax.expr.mathml import content, markup
from numjax.expr.mathml.markup import Node
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree

CONTENT = frozenset(("MathML-Content", "application/mathml-content+xml"))
TEX = frozenset(("application/x-tex", "TeX", "LaTeX", "application/x-latex"))
PRESENTATION = frozenset(
    "mrow mi mn mo mspace ms mfrac msqrt mroot mstyle merror mpadded mphantom mfenced menclose msub msup msubsup "
    "munder mover munderover mmultiscripts mtable maction mglyph".split()
)
_NAME = r"(?:[A-Za-z][\w.-]*:)?math\b"
# A match never goes beyond the next <math, so pages full of unclosed elements take linear time too.
_OPENING = re.compile(
    rf"<({_NAME})(?:[^<>\"']++|\"(?:[^\"<]|<(?!{_NAME}))*+\"|'(?:[^'<]|<(?!{_NAME}))*+')*+>", re.ASCII
)


def parse(source: str, *, as_published: bool = False) -> Tree | Unreadable:
    """The tree of one formula: a <math> element, or a bare content MathML element.

    Content MathML is used where there is some, also as an annotation; else the TeX of an annotation or of `alttext`
    is read by `numjax.expr.latex`. A bad source never raises: an Unreadable says what is wrong and where.

    Args:
      as_published: the trees of the original pipeline (LaTeXML, Tangent-CFT): minus and divide of many operands,
        no query variables, bounds only as scripts. By default they are nested from the left.
    """
    root = markup.parse_xml(source)
    return root if isinstance(root, Unreadable) else parse_element(root, as_published=as_published)


def parse_element(root: Node, *, as_published: bool = False, through_tex: bool = True) -> Tree | Unreadable:
    """The tree of an element of parsed XML, as from `parse`. Its <share>s are replaced by the elements they name.

    Args:
      through_tex: read the TeX where there is no content MathML; else that is Unreadable.
    """
    element = _find_content(root)
    if isinstance(element, Node):
        shared = _resolve_shares(root, as_published)
        if shared is not None:
            return shared
        return content.to_tree(element, _make_presentation_finder(root), as_published=as_published)
    if element is not None:
        return element
    return _parse_tex(root, as_published) if through_tex else Unreadable("there is no content MathML", root.offset)


def find_formulas(page: str) -> Iterator[tuple[int, str]]:
    """(offset, source) of each <math> element of a page, which need not be well-formed around them."""
    closing: dict[str, re.Pattern[str] | None] = {}
    end = 0
    while match := _OPENING.search(page, end):
        end, name = match.end(), match[1]
        if not match[0].endswith("/>"):
            if name not in closing:
                closing[name] = re.compile(rf"</{re.escape(name)}\s*+>")
            pattern = closing[name]
            closing_match = None if pattern is None else pattern.search(page, end)
            if closing_match is None:
                closing[name] = None  # nor will any later one be closed
                continue
            end = closing_match.end()
        yield match.start(), page[match.start() : end]


def _find_content(root: Node) -> Node | Unreadable | None:
    """The content MathML element of a formula; None where there is only presentation."""
    for node in root.walk():
        if node.name == "annotation-xml" and node.attributes.get("encoding") in CONTENT:
            if not node.children:
                return Unreadable("the formula is empty", node.offset)
            return _merge_children(node)
    if root.name != "math":
        return None if root.name in PRESENTATION else root
    inner = root.children
    while len(inner) == 1 and inner[0].name in ("semantics", "mrow", "mstyle"):
        inner = inner[0].children
    if not inner and "alttext" not in root.attributes:
        return Unreadable("the formula is empty", root.offset)
    return inner[0] if len(inner) == 1 and inner[0].name not in PRESENTATION else None


def _merge_children(node: Node) -> Node:
    """The only child, or a cerror of several children: they are fragments of a formula."""
    if len(node.children) == 1:
        return node.children[0]
    error_node = Node("cerror", {}, node.offset)
    kind = Node("csymbol", {"cd": "ambiguous"}, node.offset)
    kind.contents.append("fragments")
    error_node.contents.extend([kind, *node.children])
    return error_node


def _resolve_shares(root: Node, as_published: bool) -> Unreadable | None:
    """Replaces each <share href="#id"/> by the element that it names; published, by nothing if there is none."""
    if not any(node.name == "share" for node in root.walk()):
        return None
    nodes_by_id = {node.attributes["id"]: node for node in root.walk() if "id" in node.attributes}
    for node in list(root.walk()):
        for index, child in enumerate(node.contents):
            if isinstance(child, Node) and child.name == "share":
                href = child.attributes.get("href", "")
                target = nodes_by_id.get(href.removeprefix("#"), "" if as_published else None)
                if target is None:
                    return Unreadable(f"<share> names nothing: {href[:40]!r}", child.offset)
                node.contents[index] = target
    return _check_shares(root)


def _check_shares(root: Node) -> Unreadable | None:
    """Unreadable if a share contains itself or makes the formula too large, else None."""
    sizes: dict[int, int] = {}
    path: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, is_finished = stack.pop()
        if is_finished:
            path.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in node.children)
            if sizes[id(node)] > markup.LARGEST // 16:
                return Unreadable("<share>s make the formula too large", node.offset)
        elif id(node) in path:
            return Unreadable("a <share> contains itself", node.offset)
        elif id(node) not in sizes:
            path.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in node.children)
    return None


def _make_presentation_finder(root: Node) -> Callable[[Node], Node | None]:
    """The presentation of an element of content MathML, through its `xref`."""
    nodes_by_id = {node.attributes["id"]: node for node in root.walk() if "id" in node.attributes}
    return lambda node: nodes_by_id.get(node.attributes.get("xref", ""))


def _parse_tex(root: Node, as_published: bool) -> Tree | Unreadable:
    for node in root.walk():
        if node.name == "annotation" and node.attributes.get("encoding") in TEX:
            return _parse_latex(node.text, node.offset, as_published)
    if root.attributes.get("alttext"):
        return _parse_latex(root.attributes["alttext"], root.offset, as_published)
    return Unreadable("presentation MathML without the TeX it was made from", root.offset)


def _parse_latex(source: str, offset: int, as_published: bool) -> Tree | Unreadable:
    result = latex.parse(source, Rules.as_published() if as_published else DEFAULT)
    return result if isinstance(result, Tree) else Unreadable(f"in its TeX: {result.error}", offset)
