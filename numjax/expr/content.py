"""Content MathML → operator tree: the names of elements and symbols, and what each becomes.

Symbols are those of LaTeXML's output and of MathML 3, under the names of MathGPT's trees (Tangent-CFT's).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from numjax.expr.elements import (
    BIG,
    CLOSURES,
    COMMUTATIVE,
    CONSTANTS,
    DERIVATIVES,
    FOLDED,
    FUNCTIONS,
    LETTERS,
    MISSING,
    ORDERED,
    QUALIFIERS,
    RENAMED,
    SEMANTIC,
)
from numjax.expr.markup import Node
from numjax.expr.presentation import plain, written_of
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree

DEEPEST = 200  # levels of a tree
WIDEST = 62  # children of a node


class Refused(Exception):
    """Ends a conversion; `why` is what `tree` then returns."""

    def __init__(self, error: str, node: Node):
        super().__init__(error)
        self.why = Unreadable(error, node.at)


def tree(
    root: Node, shown: Callable[[Node], Node | None] | None = None, *, as_published: bool = False
) -> Tree | Unreadable:
    """The operator tree of a content MathML element, or Unreadable.

    Args:
      root: the element. shown: gives the presentation of an element, or None. Symbols of Wikidata and DLMF are then
        called what is written, and are not applied to their subscripts.
      as_published: a - b - c and a / b / c stay one node, text is something missing, qualifiers are refused.
    """
    try:
        return _Reader(shown or (lambda node: None), as_published).read(root, 1)
    except Refused as refused:
        return refused.why


class _Reader:
    def __init__(self, shown: Callable[[Node], Node | None], as_published: bool):
        self.shown = shown
        self.published = as_published
        self.by_name: Mapping[str, Callable[[Node, int], Tree]] = {
            "apply": self.apply,
            "reln": self.apply,
            "bind": self.apply,
            "ci": self.identifier,
            "cn": self.number,
            "csymbol": self.symbol,
            "qvar": self.query,
            "cerror": self.error,
            "mtext": self.text,
            "cs": self.text,
            "interval": self.interval,
            "matrix": self.matrix,
            "matrixrow": self.row,
            "list": self.group,
            "set": self.group,
            "vector": self.group,
            "piecewise": self.piecewise,
            "semantics": self.first,
            "fn": self.first,
        }

    def read(self, node: Node, level: int) -> Tree:
        if level > DEEPEST:
            raise Refused(f"more than {DEEPEST} levels deep", node)
        found = self.by_name.get(node.name)
        if found is not None:
            return found(node, level)
        if node.children:
            raise Refused(f"<{node.name}> has no contents in content MathML", node)
        return self.named(node.name, node)

    def below(self, nodes: list[Node], level: int) -> list[Tree]:
        return [self.read(node, level + 1) for node in nodes]

    def escaped(self, symbol: str) -> str:
        """Published: the signs of queries and fences are written as entities."""
        if not self.published:
            return symbol
        return symbol.replace("?", "&quest;").replace("[", "&lsqb;").replace("]", "&rsqb;")

    # --- Leaves.

    def named(self, name: str, node: Node) -> Tree:
        """The sign that an empty element stands for."""
        name = RENAMED.get(name, name)
        if name in COMMUTATIVE:
            return Tree("U", name)
        if name in ORDERED or name in ("SUP", "differential-d"):
            return Tree("O", name)
        if name in FUNCTIONS:
            return Tree("F", name)
        if name in CONSTANTS:
            return Tree("C", name)
        if name in LETTERS:
            return Tree("V", LETTERS[name])
        raise Refused(f"<{node.name}> is not content MathML", node)

    def identifier(self, node: Node, level: int) -> Tree:
        inner = node.children
        if inner and self.published:
            # Only what stands right in the element is seen.
            return Tree("W", "")
        if inner and inner[0].name == "merror":
            raise Refused(f"{node.text[:40]} is not known to LaTeXML", inner[0])
        if inner and all(child.name == "mtext" for child in inner):
            return self.text(node, level)
        symbol = self.escaped(plain(node.text))
        if not symbol:
            return Tree("W", "")
        return Tree("C", symbol) if symbol in CONSTANTS else Tree("V", symbol)

    def number(self, node: Node, level: int) -> Tree:
        kind = node.attributes.get("type", "")
        parts = _parts(node)
        if len(parts) == 1:
            return Tree("N", parts[0]) if parts[0] else Tree("W", "")
        if len(parts) != 2 or not all(parts):
            raise Refused("a number of two parts has one <sep/> between them", node)
        one, other = parts
        if kind == "e-notation":
            return Tree("N", f"{one}e{other}")
        if kind == "rational":
            return Tree("O", "divide", [Tree("N", one), Tree("N", other)])
        if kind == "complex-cartesian":
            along = Tree("U", "times", [Tree("N", other), Tree("C", "imaginaryi")])
            return Tree("U", "plus", [Tree("N", one), along])
        if kind == "complex-polar":
            turn = Tree("U", "times", [Tree("C", "imaginaryi"), Tree("N", other)])
            return Tree("U", "times", [Tree("N", one), Tree("F", "exp", [turn])])
        raise Refused(f"a number of type {kind or 'real'!r} has no parts", node)

    def symbol(self, node: Node, level: int) -> Tree:
        dictionary, name = node.attributes.get("cd", ""), node.text
        if dictionary == "dlmf" or re.fullmatch(r"Q[0-9]+", name):
            written = None if self.published else written_of(self.shown(node))
            if written is not None:
                return written
        if dictionary == "unknown":
            return Tree("-", plain(name)) if name else Tree("W", "")
        name = plain(RENAMED.get(name, name))
        if not name or name in MISSING:
            return Tree("W", "")
        if name in CONSTANTS:
            return Tree("C", name)
        if name in FUNCTIONS:
            return Tree("F", name)
        if name.startswith("delimited-"):
            # "[]" as "lsqb;&rsqb;": Tangent-CFT cuts the first character off an escaped pair.
            fences = name.removeprefix("delimited-").replace("[", "&lsqb;").replace("]", "&rsqb;")
            return Tree("M", "D-" + fences[1:])
        return Tree("U" if name in COMMUTATIVE else "O", name)

    def query(self, node: Node, level: int) -> Tree:
        if self.published:
            raise Refused("query variables have no type", node)
        return Tree("-", "?" + (node.text.strip("*") or node.attributes.get("name", "")))

    def text(self, node: Node, level: int) -> Tree:
        words = " ".join(node.text.split())
        return Tree("T", plain(words)) if words else Tree("W", "")

    # --- Nodes.

    def first(self, node: Node, level: int) -> Tree:
        if not node.children:
            raise Refused(f"<{node.name}> is empty", node)
        return self.read(node.children[0], level)

    def error(self, node: Node, level: int) -> Tree:
        return Tree("E", "cerror", self.below(node.children, level)) if node.children else Tree("E", "")

    def interval(self, node: Node, level: int) -> Tree:
        closure = CLOSURES.get(node.attributes.get("closure", "closed"))
        if closure is None:
            raise Refused(f"an interval is not {node.attributes['closure'][:40]!r}", node)
        if len(node.children) != 2:
            raise Refused(f"an interval has two ends, not {len(node.children)}", node)
        return Tree("O", f"interval({closure})", self.below(node.children, level))

    def group(self, node: Node, level: int) -> Tree:
        inner = [child for child in node.children if child.name not in QUALIFIERS]
        if len(inner) != len(node.children):
            if self.published or len(inner) != 1:
                raise Refused(f"a {node.name} by a rule is not read", node)
            conditions = [self.read(c.children[0], level + 1) for c in node.children if c.name == "condition"]
            if len(conditions) != 1:
                raise Refused(f"a {node.name} by a rule has one condition", node)
            return Tree("O", "conditional-set", [self.read(inner[0], level + 1), conditions[0]])
        return Tree("M", f"{node.name[0].upper()}-{len(inner)}", self.below(inner, level))

    def matrix(self, node: Node, level: int) -> Tree:
        rows = self.below(node.children, level)
        if not rows or not all(row.symbol == "R!" and row.children for row in rows):
            raise Refused("a matrix has rows", node)
        width = max(len(row.children or ()) for row in rows)
        padded = [
            Tree("M", "R!", [*(row.children or ()), *[Tree("E", "")] * (width - len(row.children or ()))])
            for row in rows
        ]
        return Tree("M", f"M-{len(rows)}x{width}", padded)

    def row(self, node: Node, level: int) -> Tree:
        return Tree("M", "R!", self.below(node.children, level))

    def piecewise(self, node: Node, level: int) -> Tree:
        cells: list[Tree] = []
        for piece in node.children:
            inner = self.below(piece.children, level)
            wanted = {"piece": 2, "otherwise": 1}.get(piece.name)
            if len(inner) != wanted:
                raise Refused(f"<{piece.name}> has another number of parts", piece)
            cells += inner if wanted == 2 else [*inner, Tree("T", "otherwise")]
        return Tree("O", "cases", cells)

    def apply(self, node: Node, level: int) -> Tree:
        children = node.children
        if not children:
            return Tree("W", "")
        qualified = [child for child in children[1:] if child.name in QUALIFIERS and child.children]
        if children[0].name == "root" and [q.name for q in qualified] == ["degree"] and len(children) == 3:
            radicand = next(child for child in children[1:] if child is not qualified[0])
            return Tree("O", "root", self.below([radicand, qualified[0].children[0]], level))
        if qualified:
            return self.qualified(node, children, level)
        head, *arguments = self.below(children, level)
        if (head.type, head.symbol) == ("O", "matrix") and len(arguments) == 1 and arguments[0].type == "M":
            return arguments[0]
        if not arguments:
            return Tree("+", "", [head]) if head.children and self.published else head
        if len(arguments) == 1 and not self.published and (head.type == "V" or head.symbol in BIG):
            presented = self.shown(node)
            if presented is not None and presented.name in ("msub", "munder"):
                return Tree("O", "SUB", [head, arguments[0]])
            if presented is not None and presented.name == "msup":
                return Tree("O", "SUP", [head, arguments[0]])
        return self.applied(head, arguments, node)

    def applied(self, head: Tree, arguments: list[Tree], node: Node) -> Tree:
        if head.children:
            base = head.children[0]
            scripted = head.symbol in ("SUB", "SUP") and base.type not in "+W"
            return Tree("+", f"{base.type}!{base.symbol}" if scripted else "", [head, *arguments])
        kind, name = head.type, head.symbol
        if name in SEMANTIC and not self.published:
            return _bounded(SEMANTIC[name], arguments)
        if name in DERIVATIVES and 2 <= len(arguments) <= 3 and not self.published:
            return _derivative(DERIVATIVES[name], [arguments[1]], arguments[2:], arguments[:1])
        if name == "root" and len(arguments) == 1:
            arguments = [*arguments, Tree("N", "2")]
        if kind == "V":
            kind = "F"
        if kind in "UOFM":
            if name == "int" and self.published:
                # Where the bounds would stand.
                arguments = [*arguments, Tree("W", ""), Tree("W", "")]
            if name in FOLDED and len(arguments) > 2 and not self.published:
                folded = arguments[0]
                for argument in arguments[1:]:
                    folded = Tree(kind, name, [folded, argument])
                return folded
            if len(arguments) > WIDEST:
                return self.halved(kind, name, arguments, node)
            return Tree(kind, name, arguments)
        if kind in "CT-":
            return Tree("F", name, arguments)
        if kind == "E":
            return Tree("+", "E!", [head, *arguments])
        if kind == "W":
            return Tree("W", "", arguments) if self.published else Tree("+", "", [head, *arguments])
        raise Refused(f"a {kind} cannot be applied", node)

    def halved(self, kind: str, name: str, arguments: list[Tree], node: Node) -> Tree:
        """A sum or the like with more operands than a tree position can count, as a sum of two."""
        if len(arguments) <= WIDEST:
            return Tree(kind, name, arguments)
        if kind != "U":
            raise Refused(f"{name} has {len(arguments)} operands, more than {WIDEST}", node)
        middle = (len(arguments) + 1) // 2
        halves = (self.halved(kind, name, part, node) for part in (arguments[:middle], arguments[middle:]))
        return Tree(kind, name, list(halves))

    def qualified(self, node: Node, children: list[Node], level: int) -> Tree:
        """Bounds and bound variables of MathML proper, in the form that LaTeX's own have."""
        if self.published:
            raise Refused("qualifiers have no type", node)
        head = self.read(children[0], level + 1)
        bounded = children[0].name in ("int", "sum", "product") and any(c.name == "bvar" for c in children)
        ends = next((c for c in children[1:] if bounded and c.name == "interval"), None)
        inner = [self.read(c, level + 1) for c in children[1:] if c.name not in QUALIFIERS and c is not ends]
        parts: dict[str, list[Tree]] = {}
        for child in children[1:]:
            if child.name in QUALIFIERS:
                simple = [c for c in child.children if c.name != "degree"]
                parts.setdefault(child.name, []).extend(self.below(simple, level))
                for degree in (c for c in child.children if c.name == "degree"):
                    parts.setdefault("order", []).extend(self.below(degree.children, level))
        below = parts.get("lowlimit") or parts.get("condition") or parts.get("domainofapplication")
        variables = parts.get("bvar", [])
        if head.symbol in ("sum", "product") and parts.get("lowlimit") and variables:
            below = [Tree("U", "eq", [variables[0], parts["lowlimit"][0]])]
        if ends is not None:
            both = self.below(ends.children, level)
            below, parts["uplimit"] = both[:1], both[1:2]
        below = below or parts.get("logbase")
        if below:
            head = Tree("O", "SUB", [head, below[0]])
        if parts.get("uplimit"):
            head = Tree("O", "SUP", [head, parts["uplimit"][0]])
        if children[0].name == "int" and inner and variables:
            inner = [Tree("U", "times", [inner[0], *(Tree("O", "differential-d", [v]) for v in variables)])]
        elif children[0].name in ("diff", "partialdiff") and inner and variables:
            orders = parts.get("order", [])
            sign = children[0].name.removesuffix("diff") or "differential-d"
            return _derivative("partialdiff" if sign == "partial" else "differential-d", variables, orders, inner)
        elif children[0].name in ("forall", "exists") and inner:
            inner = [*variables, *inner]
        return self.applied(head, inner or [Tree("W", "")], node)


def _bounded(sign: Tree, bounds: list[Tree]) -> Tree:
    """A sum as LaTeX writes it, of DLMF's sum(i, from, to) or sum(condition)."""
    below = Tree("U", "eq", bounds[:2]) if len(bounds) > 1 else bounds[0]
    made = Tree("O", "SUB", [sign, below])
    return Tree("O", "SUP", [made, bounds[2]]) if len(bounds) > 2 else made


def _derivative(sign: str, variables: list[Tree], orders: list[Tree], inner: list[Tree]) -> Tree:
    """d f / d x, with the orders above both signs."""
    order = orders[0] if orders else None
    top = Tree("O", sign)
    above = Tree("+", f"O!{sign}", [Tree("O", "SUP", [top, order]), *inner]) if order else Tree("O", sign, inner)
    each = [Tree("O", sign, [v]) for v in variables]
    if order and len(each) == 1:
        each = [Tree("O", sign, [Tree("O", "SUP", [variables[0], order])])]
    return Tree("O", "divide", [above, each[0] if len(each) == 1 else Tree("U", "times", each)])


def _parts(node: Node) -> list[str]:
    """What stands between <sep/>s, without blanks and thousands separators."""
    parts = [""]
    for part in node.contents:
        if isinstance(part, str):
            parts[-1] += part
        elif part.name == "sep":
            parts.append("")
        else:
            parts[-1] += part.text
    return ["".join(part.replace(",", "").split()) for part in parts]
