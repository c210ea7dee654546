"""Content MathML → operator tree: the names of elements and symbols, and their nodes.

Symbols are those of LaTeXML's output and of MathML 3, under the names of MathGPT's trees (Tangent-CFT's).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from numjax.expr.mathml.markup import Node
from numjax.expr.rules import Unreadable
from numjax.expr.symbols import WIDEST
from numjax.expr.tree import Tree

COMMUTATIVE = frozenset("eq neq approx equivalent union intersect plus times and or".split())
# Elements that are operators under their own names. A symbol that is in no list here is ordered too.
ORDERED = frozenset(
    "lt gt leq geq minus divide subset prsubset notsubset notprsubset setdiff in notin forall exists int sum product "
    "partialdiff diff limit factorial compose root rem quotient implies not xor tendsto factorof grad divergence "
    "curl laplacian transpose scalarproduct vectorproduct outerproduct cartesianproduct selector "
    "tensor-product".split()
)
FUNCTIONS = frozenset(
    "sin cos tan sec csc cot sinh cosh tanh sech csch coth arcsin arccos arctan arccosh arcsinh arctanh arccot "
    "arccoth arccsc arccsch arcsec arcsech exp ln log min max gcd lcm abs floor ceiling real imaginary arg conjugate "
    "inverse ident domain codomain image card mean sdev variance median mode moment det".split()
)
CONSTANTS = frozenset("infinity emptyset imaginaryi hbar".split())
RENAMED = {
    "power": "SUP",
    "determinant": "det",
    "for-all": "forall",
    "superscript": "SUP",
    "subscript": "SUB",
    "formulae-sequence": "form-seq",
    "Planck-constant-over-2-pi": "hbar",
    "Weierstrass-p": "weierstrass-p",
    "reln": "apply",
    "diff": "differential-d",
    "modulo": "rem",
}
# Constants of MathML that a reader of LaTeX sees as letters.
LETTERS = {
    "pi": "π",
    "exponentiale": "e",
    "eulergamma": "γ",
    "naturalnumbers": "ℕ",
    "integers": "ℤ",
    "rationals": "ℚ",
    "reals": "ℝ",
    "complexes": "ℂ",
    "primes": "ℙ",
    "true": "true",
    "false": "false",
    "notanumber": "NaN",
}
MISSING = frozenset(("absent", "missing-subexpression", "empty"))
# Fonts before a symbol, as older LaTeXML writes them.
FONTS = ("normal-", "sans-serif-", "bold-", "italic-")
CLOSURES = {"open": "O-O", "closed": "C-C", "open-closed": "O-C", "closed-open": "C-O"}
FOLDED = frozenset(("minus", "divide"))
QUALIFIERS = frozenset("bvar lowlimit uplimit condition domainofapplication degree logbase".split())
# Signs that take what is below and above them as bounds.
BIG = frozenset("sum product int limit union intersect".split())
SEMANTIC = {"semantic-sum": Tree("O", "sum"), "semantic-product": Tree("O", "product")}
DERIVATIVES = {"derivative": "differential-d", "partial-derivative": "partialdiff"}


def strip_font(symbol: str) -> str:
    """A symbol without its font: prefixes of LaTeXML removed, mathematical italics as plain letters."""
    for font in FONTS:
        symbol = symbol.replace(font, "")
    if symbol.isascii():
        return symbol
    return "".join(_to_upright(c) if "\u210e" <= c else c for c in symbol)


def _to_upright(character: str) -> str:
    if character == "\u210e":
        return "h"
    if not "\U0001d400" <= character <= "\U0001d7ff":
        return character
    italic = unicodedata.name(character, "").startswith("MATHEMATICAL ITALIC")
    return unicodedata.normalize("NFKC", character) if italic else character


def find_presented_symbol(presentation: Node | None) -> Tree | None:
    """A symbol as it is presented: a letter, number or word, maybe accented; None for a sign such as ∑."""
    if presentation is None:
        return None
    parts = presentation.children
    if presentation.name == "mover" and len(parts) == 2 and parts[1].name == "mo":
        base = find_presented_symbol(parts[0])
        return None if base is None else Tree("F", parts[1].text, [base])
    leaves = [node for node in presentation.walk() if node.name in ("mi", "mn", "mtext")]
    if len(leaves) != 1 or not leaves[0].text:
        return None
    return Tree("N" if leaves[0].name == "mn" else "V", strip_font(leaves[0].text))


DEEPEST = 200  # levels of a tree
LARGEST = 200_000  # cells of a matrix, whose short rows are filled up


class ContentError(Exception):
    """Ends a conversion; `to_tree` returns its `problem`."""

    def __init__(self, error: str, node: Node):
        super().__init__(error)
        self.problem = Unreadable(error, node.offset)


def to_tree(
    root: Node, find_presentation: Callable[[Node], Node | None] | None = None, *, as_published: bool = False
) -> Tree | Unreadable:
    """The operator tree of a content MathML element, or Unreadable.

    Args:
      root: the element. find_presentation: returns the presentation of an element, or None. With it symbols of
        Wikidata and DLMF have the names that are presented, and are not applied to their subscripts.
      as_published: a - b - c and a / b / c stay one node, text is something missing, qualifiers are refused.
    """
    try:
        return _ContentReader(find_presentation or (lambda node: None), as_published).convert(root, 1)
    except ContentError as error:
        return error.problem
    except RecursionError:
        return Unreadable("nested too deep", root.offset)


class _ContentReader:
    def __init__(self, find_presentation: Callable[[Node], Node | None], as_published: bool):
        self.find_presentation = find_presentation
        self.as_published = as_published
        self.handlers: Mapping[str, Callable[[Node, int], Tree]] = {
            "apply": self.convert_application,
            "reln": self.convert_application,
            "bind": self.convert_application,
            "ci": self.convert_identifier,
            "cn": self.convert_number,
            "csymbol": self.convert_symbol,
            "qvar": self.convert_query,
            "cerror": self.convert_error,
            "mtext": self.convert_text,
            "cs": self.convert_text,
            "interval": self.convert_interval,
            "matrix": self.convert_matrix,
            "matrixrow": self.convert_row,
            "list": self.convert_group,
            "set": self.convert_group,
            "vector": self.convert_group,
            "piecewise": self.convert_piecewise,
            "semantics": self.convert_first,
            "fn": self.convert_first,
        }

    def convert(self, node: Node, level: int) -> Tree:
        if level > DEEPEST:
            raise ContentError(f"more than {DEEPEST} levels deep", node)
        handler = self.handlers.get(node.name)
        if handler is not None:
            return handler(node, level)
        if node.children:
            raise ContentError(f"<{node.name}> has no contents in content MathML", node)
        return self.convert_sign(node.name, node)

    def convert_all(self, nodes: list[Node], level: int) -> list[Tree]:
        return [self.convert(node, level + 1) for node in nodes]

    def escape(self, symbol: str) -> str:
        """Published: the signs of queries and fences are written as entities."""
        if not self.as_published:
            return symbol
        return symbol.replace("?", "&quest;").replace("[", "&lsqb;").replace("]", "&rsqb;")

    # --- Leaves.

    def convert_sign(self, name: str, node: Node) -> Tree:
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
        raise ContentError(f"<{node.name}> is not content MathML", node)

    def convert_identifier(self, node: Node, level: int) -> Tree:
        inner = node.children
        if inner and self.as_published:
            # Only text directly in the element counts.
            return Tree("W", "")
        if inner and inner[0].name == "merror":
            raise ContentError(f"{node.text[:40]} is not known to LaTeXML", inner[0])
        if inner and all(child.name == "mtext" for child in inner):
            return self.convert_text(node, level)
        symbol = self.escape(strip_font(node.text))
        if not symbol:
            return Tree("W", "")
        return Tree("C", symbol) if symbol in CONSTANTS else Tree("V", symbol)

    def convert_number(self, node: Node, level: int) -> Tree:
        kind = node.attributes.get("type", "")
        parts = _split_parts(node)
        if not self.as_published:
            if kind == "constant":
                symbol = LETTERS.get(parts[0], parts[0])
                return Tree("C" if symbol in CONSTANTS else "V" if symbol else "W", symbol)
            parts = [_to_decimal(part, node) for part in parts]
        if len(parts) == 1:
            return Tree("N", parts[0]) if parts[0] else Tree("W", "")
        if len(parts) != 2 or not all(parts):
            raise ContentError("a number of two parts has one <sep/> between them", node)
        first, second = parts
        if kind == "e-notation":
            return Tree("N", f"{first}e{second}")
        if kind == "rational":
            return Tree("O", "divide", [Tree("N", first), Tree("N", second)])
        if kind == "complex-cartesian":
            imaginary = Tree("U", "times", [Tree("N", second), Tree("C", "imaginaryi")])
            return Tree("U", "plus", [Tree("N", first), imaginary])
        if kind == "complex-polar":
            angle = Tree("U", "times", [Tree("C", "imaginaryi"), Tree("N", second)])
            return Tree("U", "times", [Tree("N", first), Tree("F", "exp", [angle])])
        raise ContentError(f"a number of type {kind or 'real'!r} has no parts", node)

    def convert_symbol(self, node: Node, level: int) -> Tree:
        dictionary, name = node.attributes.get("cd", ""), node.text
        if dictionary == "dlmf" or re.fullmatch(r"Q[0-9]+", name):
            presented = None if self.as_published else find_presented_symbol(self.find_presentation(node))
            if presented is not None:
                return presented
        if dictionary == "unknown":
            return Tree("-", strip_font(name)) if name else Tree("W", "")
        name = strip_font(RENAMED.get(name, name))
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

    def convert_query(self, node: Node, level: int) -> Tree:
        if self.as_published:
            raise ContentError("query variables have no type", node)
        return Tree("-", "?" + (node.text.strip("*") or node.attributes.get("name", "")))

    def convert_text(self, node: Node, level: int) -> Tree:
        words = " ".join(node.text.split())
        return Tree("T", strip_font(words)) if words else Tree("W", "")

    # --- Nodes.

    def convert_first(self, node: Node, level: int) -> Tree:
        if not node.children:
            raise ContentError(f"<{node.name}> is empty", node)
        return self.convert(node.children[0], level + 1)

    def convert_error(self, node: Node, level: int) -> Tree:
        return Tree("E", "cerror", self.convert_all(node.children, level)) if node.children else Tree("E", "")

    def convert_interval(self, node: Node, level: int) -> Tree:
        closure = CLOSURES.get(node.attributes.get("closure", "closed"))
        if closure is None:
            raise ContentError(f"an interval is not {node.attributes['closure'][:40]!r}", node)
        if len(node.children) != 2:
            raise ContentError(f"an interval has two ends, not {len(node.children)}", node)
        return Tree("O", f"interval({closure})", self.convert_all(node.children, level))

    def convert_group(self, node: Node, level: int) -> Tree:
        inner = [child for child in node.children if child.name not in QUALIFIERS]
        if len(inner) != len(node.children):
            if self.as_published or len(inner) != 1:
                raise ContentError(f"a {node.name} by a rule is not read", node)
            conditions = [self.convert_first(c, level) for c in node.children if c.name == "condition"]
            if len(conditions) != 1:
                raise ContentError(f"a {node.name} by a rule has one condition", node)
            return Tree("O", "conditional-set", [self.convert(inner[0], level + 1), conditions[0]])
        return Tree("M", f"{node.name[0].upper()}-{len(inner)}", self.convert_all(inner, level))

    def convert_matrix(self, node: Node, level: int) -> Tree:
        rows = self.convert_all(node.children, level)
        if not rows or not all(row.symbol == "R!" and row.children for row in rows):
            raise ContentError("a matrix has rows", node)
        width = max(len(row.children or ()) for row in rows)
        if width * len(rows) > LARGEST:
            raise ContentError(f"a matrix of more than {LARGEST} cells", node)
        padded = [
            Tree("M", "R!", [*(row.children or ()), *[Tree("E", "")] * (width - len(row.children or ()))])
            for row in rows
        ]
        return Tree("M", f"M-{len(rows)}x{width}", padded)

    def convert_row(self, node: Node, level: int) -> Tree:
        return Tree("M", "R!", self.convert_all(node.children, level))

    def convert_piecewise(self, node: Node, level: int) -> Tree:
        cells: list[Tree] = []
        for piece in node.children:
            inner = self.convert_all(piece.children, level)
            n_parts = {"piece": 2, "otherwise": 1}.get(piece.name)
            if len(inner) != n_parts:
                raise ContentError(f"<{piece.name}> has another number of parts", piece)
            cells += inner if n_parts == 2 else [*inner, Tree("T", "otherwise")]
        return Tree("O", "cases", cells)

    def convert_application(self, node: Node, level: int) -> Tree:
        children = node.children
        if not children:
            return Tree("W", "")
        qualifiers = [child for child in children[1:] if child.name in QUALIFIERS and child.children]
        if children[0].name == "root" and [q.name for q in qualifiers] == ["degree"] and len(children) == 3:
            radicand = next(child for child in children[1:] if child is not qualifiers[0])
            return Tree("O", "root", self.convert_all([radicand, qualifiers[0].children[0]], level))
        if qualifiers:
            return self.convert_qualified(node, children, level)
        head, *arguments = self.convert_all(children, level)
        if (head.type, head.symbol) == ("O", "matrix") and len(arguments) == 1 and arguments[0].type == "M":
            return arguments[0]
        if not arguments:
            return Tree("+", "", [head]) if head.children and self.as_published else head
        if len(arguments) == 1 and not self.as_published and (head.type == "V" or head.symbol in BIG):
            presented = self.find_presentation(node)
            if presented is not None and presented.name in ("msub", "munder"):
                return Tree("O", "SUB", [head, arguments[0]])
            if presented is not None and presented.name == "msup":
                return Tree("O", "SUP", [head, arguments[0]])
        return self.make_application(head, arguments, node)

    def make_application(self, head: Tree, arguments: list[Tree], node: Node) -> Tree:
        if head.children:
            base = head.children[0]
            scripted = head.symbol in ("SUB", "SUP") and base.type not in "+W"
            return Tree("+", f"{base.type}!{base.symbol}" if scripted else "", [head, *arguments])
        kind, name = head.type, head.symbol
        if name in SEMANTIC and not self.as_published:
            return _add_bounds(SEMANTIC[name], arguments)
        if name in DERIVATIVES and 2 <= len(arguments) <= 3 and not self.as_published:
            return _make_derivative(DERIVATIVES[name], [arguments[1]], arguments[2:], arguments[:1])
        if name == "root" and len(arguments) == 1:
            arguments = [*arguments, Tree("N", "2")]
        if kind == "V":
            kind = "F"
        if kind in "UOFM":
            if name == "int" and self.as_published:
                # In place of the bounds.
                arguments = [*arguments, Tree("W", ""), Tree("W", "")]
            if name in FOLDED and len(arguments) > 2 and not self.as_published:
                folded = arguments[0]
                for argument in arguments[1:]:
                    folded = Tree(kind, name, [folded, argument])
                return folded
            if len(arguments) > WIDEST:
                return self.halve(kind, name, arguments, node)
            return Tree(kind, name, arguments)
        if kind in "CT-":
            return Tree("F", name, arguments)
        if kind == "E":
            return Tree("+", "E!", [head, *arguments])
        if kind == "W":
            return Tree("W", "", arguments) if self.as_published else Tree("+", "", [head, *arguments])
        raise ContentError(f"a {kind} cannot be applied", node)

    def halve(self, kind: str, name: str, arguments: list[Tree], node: Node) -> Tree:
        """A sum or the like with more operands than a tree position can count, as a sum of two."""
        if len(arguments) <= WIDEST:
            return Tree(kind, name, arguments)
        if kind != "U":
            raise ContentError(f"{name} has {len(arguments)} operands, more than {WIDEST}", node)
        middle = (len(arguments) + 1) // 2
        halves = (self.halve(kind, name, part, node) for part in (arguments[:middle], arguments[middle:]))
        return Tree(kind, name, list(halves))

    def convert_qualified(self, node: Node, children: list[Node], level: int) -> Tree:
        """Bounds and bound variables of MathML proper, in the form of LaTeX's bounds."""
        if self.as_published:
            raise ContentError("qualifiers have no type", node)
        head = self.convert(children[0], level + 1)
        bounded = children[0].name in ("int", "sum", "product") and any(c.name == "bvar" for c in children)
        ends = next((c for c in children[1:] if bounded and c.name == "interval"), None)
        inner = [self.convert(c, level + 1) for c in children[1:] if c.name not in QUALIFIERS and c is not ends]
        parts: dict[str, list[Tree]] = {}
        for child in children[1:]:
            if child.name in QUALIFIERS:
                plain_children = [c for c in child.children if c.name != "degree"]
                parts.setdefault(child.name, []).extend(self.convert_all(plain_children, level))
                for degree in (c for c in child.children if c.name == "degree"):
                    parts.setdefault("order", []).extend(self.convert_all(degree.children, level))
        lower = parts.get("lowlimit") or parts.get("condition") or parts.get("domainofapplication")
        variables = parts.get("bvar", [])
        if head.symbol in ("sum", "product") and parts.get("lowlimit") and variables:
            lower = [Tree("U", "eq", [variables[0], parts["lowlimit"][0]])]
        if ends is not None:
            bounds = self.convert_all(ends.children, level)
            lower, parts["uplimit"] = bounds[:1], bounds[1:2]
        lower = lower or parts.get("logbase")
        if lower:
            head = Tree("O", "SUB", [head, lower[0]])
        if parts.get("uplimit"):
            head = Tree("O", "SUP", [head, parts["uplimit"][0]])
        if children[0].name == "int" and inner and variables:
            inner = [Tree("U", "times", [inner[0], *(Tree("O", "differential-d", [v]) for v in variables)])]
        elif children[0].name in ("diff", "partialdiff") and inner and variables:
            orders = parts.get("order", [])
            sign = children[0].name.removesuffix("diff") or "differential-d"
            return _make_derivative(
                "partialdiff" if sign == "partial" else "differential-d", variables, orders, inner
            )
        elif children[0].name in ("forall", "exists") and inner:
            inner = [*variables, *inner]
        return self.make_application(head, inner or [Tree("W", "")], node)


def _add_bounds(sign: Tree, bounds: list[Tree]) -> Tree:
    """A sum as LaTeX writes it, of DLMF's sum(i, from, to) or sum(condition)."""
    lower = Tree("U", "eq", bounds[:2]) if len(bounds) > 1 else bounds[0]
    subscripted = Tree("O", "SUB", [sign, lower])
    return Tree("O", "SUP", [subscripted, bounds[2]]) if len(bounds) > 2 else subscripted


def _make_derivative(sign: str, variables: list[Tree], orders: list[Tree], inner: list[Tree]) -> Tree:
    """d f / d x, with the orders above both signs."""
    order = orders[0] if orders else None
    top = Tree("O", sign)
    numerator = Tree("+", f"O!{sign}", [Tree("O", "SUP", [top, order]), *inner]) if order else Tree("O", sign, inner)
    denominators = [Tree("O", sign, [v]) for v in variables]
    if order and len(denominators) == 1:
        denominators = [Tree("O", sign, [Tree("O", "SUP", [variables[0], order])])]
    return Tree(
        "O", "divide", [numerator, denominators[0] if len(denominators) == 1 else Tree("U", "times", denominators)]
    )


def _to_decimal(number: str, node: Node) -> str:
    """A number with an ASCII sign, in base 10."""
    number = number.replace("−", "-")
    base = node.attributes.get("base", "10")
    if base == "10" or not number:
        return number
    try:
        return str(int(number, int(base)))
    except ValueError:
        raise ContentError(f"{number[:40]} is no whole number in base {base[:10]}", node) from None


def _split_parts(node: Node) -> list[str]:
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
