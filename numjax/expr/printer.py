"""Operator tree → LaTeX, with parentheses where precedence asks for them.

  latex(parse("(a + b) c"))  →  r"(a + b) \\times c"

For every canonical tree (`numjax.expr.canonical`), parse(latex(tree)) == tree under the default rules. What has no
ordinary notation, or whose ordinary notation would read back as something else, is written in a general one:

  \\tree[O]{symbol}{{child}{child}}

a node of type O with its symbol (characters other than letters, digits, hyphen and parentheses as *hex.) and its
children. To set it in TeX: \\newcommand{\\tree}[3][]{\\operatorname{#2}(#3)}.

Every part is printed once, with its power (`numjax.expr.operators`): how strongly it holds together. A power below
what the place asks for is what parentheses are for, so the printer takes linear time and needs no reparsing.
"""

from __future__ import annotations

import itertools

from numjax.expr.commands import ACCENT_OF, BIG, FUNCTIONS, INTEGRALS, QUANTIFIERS
from numjax.expr.forms import BASES, FORMS, script
from numjax.expr.operators import (
    AND,
    ARROWS,
    CONDITIONAL,
    CONNECTIVE,
    EQUALITIES,
    INFIX,
    LOGICAL,
    META,
    OR,
    PRODUCT,
    RELATION,
    SIGN,
    SUM,
)
from numjax.expr.printed import (
    ANNOTATED,
    APPLIED,
    ATOM,
    FACTOR,
    OPEN,
    RULES,
    Printed,
    at,
    cell,
    leaf,
    letter,
    printed,
    row,
)  # fmt: skip
from numjax.expr.rules import DEFAULT
from numjax.expr.state import PADDING, hint
from numjax.expr.tree import Tree

_PREFIX = {}
for _table in (BIG, INTEGRALS, QUANTIFIERS):
    for _sign, _made in _table.items():
        _PREFIX.setdefault(_made, _sign)
_FUNCTION = {leaf: sign for sign, leaf in FUNCTIONS.items() if sign.startswith("\\") and leaf.symbol != "∇"}
_GRADIENT = Tree("V", "∇")
_PARTIAL = Tree("O", "partialdiff")
# Of relations and connectives, the power that their sides must have.
_SIDES = {RELATION: ANNOTATED, CONNECTIVE: CONDITIONAL}
_SIGNED = frozenset("plus minus plus-or-minus minus-or-plus".split())


def latex(tree: Tree) -> str:
    """The formula of a tree; see the module."""
    return printed(tree)[0]


# -- groups and functions --------------------------------------------------------------------------------------------


def _group(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol, count = tree.symbol, len(children)
    if symbol == f"L-{count}" and count > 1:
        return f"{{{row(children)}}}", ATOM
    if symbol == f"V-{count}" and count > 2:
        return f"({row(children)})", ATOM
    if symbol == f"S-{count}":
        inner = row(children) if count > 1 else at(children[0], OR)
        return rf"\{{{inner}\}}", ATOM
    if count == 1 and symbol == "D-lsqb;&rsqb;" and children[0].symbol != "L-0":
        return f"[{at(children[0], CONNECTIVE)}]", ATOM
    if count == 1 and symbol == "D-⟩":
        only = children[0]
        many = only.type == "M" and only.symbol.startswith("L-") and len(only.children or ()) > 1
        return rf"\langle {row(only.children or ()) if many else at(only, OR)} \rangle", ATOM
    if symbol.startswith("M-"):
        return _matrix(tree, children)
    return None


def _matrix(tree: Tree, rows: tuple[Tree, ...]) -> Printed | None:
    width = len(rows[0].children or ())
    if not width or tree.symbol != f"M-{len(rows)}x{width}":
        return None
    for line in rows:
        if line.type != "M" or line.symbol != "R!" or len(line.children or ()) != width:
            return None
    if width == 1 and any(line.children == (PADDING,) for line in rows):
        return None  # a row with nothing in it would be none
    body = r" \\ ".join(" & ".join(map(cell, line.children or ())) for line in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}", ATOM


def _applied(sign: str, given: tuple[Tree, ...]) -> Printed:
    """A function's sign with its arguments."""
    if len(given) == 1:
        text, power = printed(given[0])
        bare = power == ATOM and given[0].children is None and given[0].type in "VN"
        return (f"{sign} {text}" if bare else f"{sign}({text})"), APPLIED
    return f"{sign}({row(given)})", APPLIED


def _enclosed(symbol: str, only: Tree) -> Printed | None:
    """Functions of one argument that are written around it."""
    if symbol == "abs":
        return rf"\left| {at(only, OR)} \right|", ATOM
    if symbol == "floor":
        return rf"\lfloor {at(only, CONNECTIVE)} \rfloor", ATOM
    if symbol == "ceiling":
        return rf"\lceil {at(only, CONNECTIVE)} \rceil", ATOM
    if symbol == "∇":
        return rf"\nabla {_bracketed(only)}", APPLIED
    if symbol in ACCENT_OF:
        return f"{ACCENT_OF[symbol]}{{{printed(only)[0]}}}", ATOM
    return None


def _function(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol = tree.symbol
    if len(children) == 1:
        made = _enclosed(symbol, children[0])
        if made is not None:
            return made
    if len(symbol) == 1 and symbol in DEFAULT.calls:
        inner = printed(children[0])[0] if len(children) == 1 else row(children)
        return f"{symbol}({inner})", ATOM
    if tree.type == "F":
        head = Tree("F", symbol)
        if head in _FUNCTION:
            return _applied(_FUNCTION[head], children)
        if head in _PREFIX and len(children) == 1:
            return f"{_PREFIX[head]} {at(children[0], OPEN)}", OPEN
        if ("F", symbol) in SIGN:
            return _infix(tree, children)
        if _named(symbol):
            return _applied(f"\\operatorname{{{symbol}}}", children)
    return None


def _named(symbol: str) -> bool:
    """Whether \\operatorname writes a function of that name."""
    return symbol.isascii() and symbol.isalpha() and "\\" + symbol not in FUNCTIONS and "\\" + symbol not in BIG


def _bracketed(tree: Tree) -> str:
    text, power = printed(tree)
    return text if power == ATOM and tree.children is None else f"({text})"


# -- operators -------------------------------------------------------------------------------------------------------


def _operator(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    special = FORMS.get(tree.symbol)
    if special is not None and tree.type == "O":
        return special(tree, children)
    if len(children) == 1:
        head = Tree(tree.type, tree.symbol)
        if tree.symbol in _SIGNED:
            # An unordered minus has no sign of its own.
            sign = SIGN.get((tree.type, tree.symbol))
            return None if sign is None else (f"{sign} {at(children[0], OPEN)}", SUM)
        if head in _PREFIX:
            return f"{_PREFIX[head]} {at(children[0], OPEN)}", OPEN
        if head in _FUNCTION:
            return _applied(_FUNCTION[head], children)
        return None
    if Tree(tree.type, tree.symbol) in _FUNCTION:
        return _applied(_FUNCTION[Tree(tree.type, tree.symbol)], children)
    if tree.type == "U" and tree.symbol == "times":
        return _product(children), PRODUCT
    if tree.type == "U" and tree.symbol == "and":
        chain = _chain(children)
        if chain is not None:
            return chain
    if (tree.type, tree.symbol) in LOGICAL and any(printed(child)[1] <= RELATION for child in children):
        return _statement(tree, children)
    return _infix(tree, children)


def _statement(tree: Tree, children: tuple[Tree, ...]) -> Printed:
    """Statements with a sign of logic between them; relations stand bare where all of them are."""
    sign = LOGICAL[tree.type, tree.symbol]
    power = INFIX[sign].power
    bare = all(printed(child)[1] == RELATION and not _has_arrow(child) for child in children)
    parts = [at(child, RELATION if bare else RELATION + 1) for child in children]
    if power == OR:
        # p ∧ q ∨ r: tighter rows of statements need no parentheses.
        parts = [printed(c)[0] if printed(c)[1] == AND else part for c, part in zip(children, parts, strict=True)]
    return f" {sign} ".join(parts), power


def _has_arrow(tree: Tree) -> bool:
    """Whether an arrow is looser than what is in this statement: it would part what it stands in."""
    if tree.type == "+":
        return tree.symbol[2:] in ARROWS
    if tree.symbol in ARROWS:
        return len(tree.children or ()) == 2
    return tree.symbol == "and" and any(map(_has_arrow, tree.children or ()))


def _infix(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    """Operands with the sign between them."""
    sign = SIGN.get((tree.type, tree.symbol))
    if sign is None:
        return None
    op = INFIX[sign]
    power = op.power
    if len(children) != 2 and not (op.flat and len(children) > 2):
        return None
    first, *rest = children
    if power == META:
        last = printed(rest[0])[0] if not _equates(rest[0]) else f"({printed(rest[0])[0]})"
        return f"{at(first, CONNECTIVE)} {sign} {last}", META
    if power in _SIDES:
        return f"{at(first, _SIDES[power])} {sign} {at(rest[0], _SIDES[power])}", power
    return _in_row(tree, children, sign, power), power


def _equates(tree: Tree) -> bool:
    """Whether an equality stands between colons: a : (b = c : d), where without parentheses ratios are equal."""
    while (tree.type, tree.symbol) == ("F", ":") and tree.children is not None and len(tree.children) == 2:
        left, tree = tree.children
        if left.symbol in EQUALITIES:
            return True
    return False


def _in_row(tree: Tree, children: tuple[Tree, ...], sign: str, power: int) -> str:
    """From left to right: the first operand may be of the same power, unless it would run together with this node."""
    first = children[0]
    same = INFIX[sign].flat and first.type == tree.type and first.symbol == tree.symbol
    return f" {sign} ".join(
        [at(first, power + 1 if same else power), *(at(child, power + 1) for child in children[1:])]
    )


def _chain(relations: tuple[Tree, ...]) -> Printed | None:
    """a = b < c, where each relation begins with what the one before it ends with; so do connectives."""
    out: list[str] = []
    before: Tree | None = None
    power = 0
    if len(relations) < 2:
        return None
    for relation in relations:
        between = _between(relation)
        if between is None or (before is not None and (between[1] != before or between[3] != power)):
            return None
        sign, left, right, power = between
        if before is None:
            out.append(at(left, _SIDES[power]))
        out += [sign, at(right, _SIDES[power])]
        before = right
    return " ".join(out), power


def _between(relation: Tree) -> tuple[str, Tree, Tree, int] | None:
    """Sign and sides of a relation or a connective, and its power."""
    children = relation.children or ()
    if relation.type == "+" and len(children) == 3:
        sign = _scripted_sign(relation.symbol, children[0])
        if sign is None or sign[1] not in _SIDES:
            return None
        return sign[0], children[1], children[2], sign[1]
    sign = SIGN.get((relation.type, relation.symbol))
    if sign is None or len(children) != 2 or INFIX[sign].power not in _SIDES:
        return None
    return sign, children[0], children[1], INFIX[sign].power


def _product(children: tuple[Tree, ...]) -> str:
    first = children[0]
    same = first.type == "U" and first.symbol == "times"
    out = [at(first, PRODUCT + 1 if same else PRODUCT)]
    for left, right in itertools.pairwise(children):
        out.append(" " if _ends_plain(left) and _begins_plain(right) else r" \times ")
        out.append(at(right, PRODUCT + 1))
    return "".join(out)


def _ends_plain(tree: Tree) -> bool:
    """Whether a factor may stand next to another without a sign between them."""
    if tree.children is None:
        return (tree.type == "N" and leaf(tree)[0][0] != "\\") or letter(tree)
    if tree.type != "O":
        return False
    if tree.symbol in BASES and len(tree.children) == 2:
        return _ends_plain(tree.children[0]) and tree.children[0].children is None
    return tree.symbol in ("divide", "root") and len(tree.children) == 2


def _begins_plain(tree: Tree) -> bool:
    if tree.children is None:
        return letter(tree)
    if tree.type != "O" or len(tree.children) != 2:
        return False
    if tree.symbol in BASES:
        return tree.children[0].children is None and letter(tree.children[0])
    return tree.symbol == "root"


# -- compound operators ----------------------------------------------------------------------------------------------


def _scripts(head: Tree) -> tuple[Tree, str] | None:
    """The sign below its scripts, and the scripts; None if a script comes twice."""
    marks: list[str] = []
    out: list[str] = []
    while head.children is not None:
        if head.type != "O" or head.symbol not in BASES or len(head.children) != 2:
            return None
        mark = "^" if head.symbol == "SUP" else "_"
        if mark in marks:
            return None
        marks.append(mark)
        out.append(f"{mark}{{{script(head.children[1])}}}")
        head = head.children[0]
    return (head, "".join(reversed(out))) if out else None


def _scripted_sign(symbol: str, head: Tree) -> tuple[str, int] | None:
    """\\otimes_{R} with the power of \\otimes, for the head of a compound operator with that symbol."""
    found = _scripts(head)
    if found is None or symbol != hint(head):
        return None
    base, scripts = found
    sign = SIGN.get((base.type, base.symbol)) if base.type in "UO" else SIGN.get(("F", base.symbol))
    if sign is None or base.type not in "UOV" or (base.type == "V" and base.symbol == ":"):
        return None
    return sign + scripts, INFIX[sign].power


def _compound(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    head, *given = children
    found = _scripts(head)
    if found is None or tree.symbol != hint(head) or not given:
        return None
    base, scripts = found
    if len(given) == 1 and base in _PREFIX:
        return f"{_PREFIX[base]}{scripts} {at(given[0], OPEN)}", OPEN
    if base == _PARTIAL and len(given) == 1:
        return rf"\partial{scripts} {at(given[0], FACTOR)}", APPLIED
    if base in _FUNCTION:
        return _applied(_FUNCTION[base] + scripts, tuple(given))
    if base == _GRADIENT:
        return _applied(r"\nabla" + scripts, tuple(given))
    if base.type == "V" and len(base.symbol) > 1 and _named(base.symbol):
        return _applied(f"\\operatorname{{{base.symbol}}}{scripts}", tuple(given))
    if len(given) != 2:
        return None
    sign = _scripted_sign(tree.symbol, head)
    if sign is None:
        return None
    text, power = sign
    if power in _SIDES:
        return f"{at(given[0], _SIDES[power])} {text} {at(given[1], _SIDES[power])}", power
    return f"{at(given[0], power)} {text} {at(given[1], power + 1)}", power


RULES.update({"U": _operator, "O": _operator, "F": _function, "M": _group, "+": _compound})
