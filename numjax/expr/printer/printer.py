"""Operator tree → LaTeX, with parentheses where precedence needs them.

  latex(parse("(a + b) c"))  →  r"(a + b) \\times c"

For every canonical tree (`numjax.expr.canonical`), parse(latex(tree)) == tree under the default rules. A node
without an ordinary notation, or whose ordinary notation would read back differently, has a general one:

  \\tree[O]{symbol}{{child}{child}}

a node of type O with its symbol (characters other than letters, digits, hyphen and parentheses as *hex.) and its
children. To set it in TeX: \\newcommand{\\tree}[3][]{\\operatorname{#2}(#3)}.

Every part is printed once, with its power (`numjax.expr.operators`): how strongly it holds together. A part of
too low a power gets parentheses, so nothing is parsed again.
"""

from __future__ import annotations

import itertools

from numjax.expr.latex.commands import ACCENT_COMMANDS, BIG, FUNCTIONS, INTEGRALS, QUANTIFIERS
from numjax.expr.latex.state import PADDING, hint, make_leaf
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
from numjax.expr.printer.notation import (
    ANNOTATED,
    APPLIED,
    ATOM,
    BASES,
    FACTOR,
    FORMS,
    OPEN,
    RULES,
    Printed,
    is_letter,
    print_at,
    print_cell,
    print_leaf,
    print_row,
    print_script,
    print_tree,
)
from numjax.expr.rules import DEFAULT
from numjax.expr.tree import Tree

_PREFIX = {}
for _table in (BIG, INTEGRALS, QUANTIFIERS):
    for _sign, _leaf in _table.items():
        _PREFIX.setdefault(_leaf, _sign)
_FUNCTION = {head: sign for sign, head in FUNCTIONS.items() if sign.startswith("\\") and head.symbol != "∇"}
_GRADIENT = Tree("V", "∇")
_PARTIAL = Tree("O", "partialdiff")
# Of relations and connectives, the power that their sides must have.
_SIDES = {RELATION: ANNOTATED, CONNECTIVE: CONDITIONAL}
_SIGNED = frozenset("plus minus plus-or-minus minus-or-plus".split())


def latex(tree: Tree) -> str:
    """The LaTeX of a tree; see the module."""
    return print_tree(tree)[0]


# -- groups and functions --------------------------------------------------------------------------------------------


def _print_group(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol, count = tree.symbol, len(children)
    if symbol == f"L-{count}" and count > 1:
        return f"{{{print_row(children)}}}", ATOM
    if symbol == f"V-{count}" and count > 2:
        return f"({print_row(children)})", ATOM
    if symbol == f"S-{count}":
        inner = print_row(children) if count > 1 else print_at(children[0], OR)
        return rf"\{{{inner}\}}", ATOM
    if count == 1 and symbol == "D-lsqb;&rsqb;" and children[0].symbol != "L-0":
        return f"[{print_at(children[0], CONNECTIVE)}]", ATOM
    if count == 1 and symbol == "D-⟩":
        member = children[0]
        is_list = member.type == "M" and member.symbol.startswith("L-") and len(member.children or ()) > 1
        return rf"\langle {print_row(member.children or ()) if is_list else print_at(member, OR)} \rangle", ATOM
    if symbol.startswith("M-"):
        return _print_matrix(tree, children)
    return None


def _print_matrix(tree: Tree, rows: tuple[Tree, ...]) -> Printed | None:
    width = len(rows[0].children or ())
    if not width or tree.symbol != f"M-{len(rows)}x{width}":
        return None
    for line in rows:
        if line.type != "M" or line.symbol != "R!" or len(line.children or ()) != width:
            return None
    if width == 1 and any(line.children == (PADDING,) for line in rows):
        return None  # a row with nothing in it would be none
    body = r" \\ ".join(" & ".join(map(print_cell, line.children or ())) for line in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}", ATOM


def _print_application(sign: str, arguments: tuple[Tree, ...]) -> Printed:
    """A function's sign with its arguments."""
    if len(arguments) == 1:
        text, power = print_tree(arguments[0])
        is_bare = power == ATOM and arguments[0].children is None and arguments[0].type in "VN"
        return (f"{sign} {text}" if is_bare else f"{sign}({text})"), APPLIED
    return f"{sign}({print_row(arguments)})", APPLIED


def _print_enclosed(symbol: str, argument: Tree) -> Printed | None:
    """Functions of one argument that are written around it."""
    if symbol == "abs":
        return rf"\left| {print_at(argument, OR)} \right|", ATOM
    if symbol == "floor":
        return rf"\lfloor {print_at(argument, CONNECTIVE)} \rfloor", ATOM
    if symbol == "ceiling":
        return rf"\lceil {print_at(argument, CONNECTIVE)} \rceil", ATOM
    if symbol == "∇":
        return rf"\nabla {_print_bracketed(argument)}", APPLIED
    if symbol in ACCENT_COMMANDS:
        return f"{ACCENT_COMMANDS[symbol]}{{{print_tree(argument)[0]}}}", ATOM
    return None


def _print_function(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol = tree.symbol
    if len(children) == 1:
        enclosed = _print_enclosed(symbol, children[0])
        if enclosed is not None:
            return enclosed
    if len(symbol) == 1 and symbol in DEFAULT.calls:
        inner = print_tree(children[0])[0] if len(children) == 1 else print_row(children)
        return f"{symbol}({inner})", ATOM
    if tree.type == "F":
        head = make_leaf("F", symbol)
        if head in _FUNCTION:
            return _print_application(_FUNCTION[head], children)
        if head in _PREFIX and len(children) == 1:
            return f"{_PREFIX[head]} {print_at(children[0], OPEN)}", OPEN
        if ("F", symbol) in SIGN:
            return _print_infix(tree, children)
        if _is_operator_name(symbol):
            return _print_application(f"\\operatorname{{{symbol}}}", children)
    return None


def _is_operator_name(symbol: str) -> bool:
    """Whether \\operatorname writes a function of that name."""
    return symbol.isascii() and symbol.isalpha() and "\\" + symbol not in FUNCTIONS and "\\" + symbol not in BIG


def _print_bracketed(tree: Tree) -> str:
    text, power = print_tree(tree)
    return text if power == ATOM and tree.children is None else f"({text})"


# -- operators -------------------------------------------------------------------------------------------------------


def _print_operator(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    special = FORMS.get(tree.symbol)
    if special is not None and tree.type == "O":
        return special(tree, children)
    if len(children) == 1:
        head = make_leaf(tree.type, tree.symbol)
        if tree.symbol in _SIGNED:
            # An unordered minus has no sign of its own.
            sign = SIGN.get((tree.type, tree.symbol))
            return None if sign is None else (f"{sign} {print_at(children[0], OPEN)}", SUM)
        if head in _PREFIX:
            return f"{_PREFIX[head]} {print_at(children[0], OPEN)}", OPEN
        if head in _FUNCTION:
            return _print_application(_FUNCTION[head], children)
        return None
    sign = _FUNCTION.get(make_leaf(tree.type, tree.symbol))
    if sign is not None:
        return _print_application(sign, children)
    if tree.type == "U" and tree.symbol == "times":
        return _print_product(children), PRODUCT
    if tree.type == "U" and tree.symbol == "and":
        chain = _print_chain(children)
        if chain is not None:
            return chain
    if (tree.type, tree.symbol) in LOGICAL and any(print_tree(child)[1] <= RELATION for child in children):
        return _print_statement(tree, children)
    return _print_infix(tree, children)


def _print_statement(tree: Tree, children: tuple[Tree, ...]) -> Printed:
    """Statements with a sign of logic between them; without parentheses if all are relations."""
    sign = LOGICAL[tree.type, tree.symbol]
    power = INFIX[sign].power
    are_relations = all(print_tree(child)[1] == RELATION and not _has_arrow(child) for child in children)
    parts = [print_at(child, RELATION if are_relations else RELATION + 1) for child in children]
    if power == OR:
        # p ∧ q ∨ r: tighter rows of statements need no parentheses.
        parts = [
            print_tree(c)[0] if print_tree(c)[1] == AND else part for c, part in zip(children, parts, strict=True)
        ]
    return f" {sign} ".join(parts), power


def _has_arrow(tree: Tree) -> bool:
    """Whether a statement has an arrow at its top, which would split the statement around it."""
    if tree.type == "+":
        return tree.symbol[2:] in ARROWS
    if tree.symbol in ARROWS:
        return len(tree.children or ()) == 2
    return tree.symbol == "and" and any(map(_has_arrow, tree.children or ()))


def _print_infix(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
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
        last = print_tree(rest[0])[0] if not _has_equality(rest[0]) else f"({print_tree(rest[0])[0]})"
        return f"{print_at(first, CONNECTIVE)} {sign} {last}", META
    if power in _SIDES:
        return f"{print_at(first, _SIDES[power])} {sign} {print_at(rest[0], _SIDES[power])}", power
    return _print_in_row(tree, children, sign, power), power


def _has_equality(tree: Tree) -> bool:
    """Whether an equality stands between colons: a : (b = c : d), where without parentheses ratios are equal."""
    while (tree.type, tree.symbol) == ("F", ":") and tree.children is not None and len(tree.children) == 2:
        left, tree = tree.children
        if left.symbol in EQUALITIES:
            return True
    return False


def _print_in_row(tree: Tree, children: tuple[Tree, ...], sign: str, power: int) -> str:
    """Operands from left to right. The first may have the same power, unless it would merge with this node."""
    first = children[0]
    is_same = INFIX[sign].flat and first.type == tree.type and first.symbol == tree.symbol
    return f" {sign} ".join(
        [print_at(first, power + 1 if is_same else power), *(print_at(child, power + 1) for child in children[1:])]
    )


def _print_chain(relations: tuple[Tree, ...]) -> Printed | None:
    """a = b < c, where each relation begins with what the one before it ends with; so do connectives."""
    out: list[str] = []
    last_side: Tree | None = None
    power = 0
    if len(relations) < 2:
        return None
    for relation in relations:
        sides = _split_relation(relation)
        if sides is None or (last_side is not None and (sides[1] != last_side or sides[3] != power)):
            return None
        sign, left, right, power = sides
        if last_side is None:
            out.append(print_at(left, _SIDES[power]))
        out += [sign, print_at(right, _SIDES[power])]
        last_side = right
    return " ".join(out), power


def _split_relation(relation: Tree) -> tuple[str, Tree, Tree, int] | None:
    """Sign and sides of a relation or a connective, and its power."""
    children = relation.children or ()
    if relation.type == "+" and len(children) == 3:
        sign = _print_scripted_sign(relation.symbol, children[0])
        if sign is None or sign[1] not in _SIDES:
            return None
        return sign[0], children[1], children[2], sign[1]
    sign = SIGN.get((relation.type, relation.symbol))
    if sign is None or len(children) != 2 or INFIX[sign].power not in _SIDES:
        return None
    return sign, children[0], children[1], INFIX[sign].power


def _print_product(children: tuple[Tree, ...]) -> str:
    first = children[0]
    is_product = first.type == "U" and first.symbol == "times"
    out = [print_at(first, PRODUCT + 1 if is_product else PRODUCT)]
    for left, right in itertools.pairwise(children):
        out.append(" " if _ends_plain(left) and _begins_plain(right) else r" \times ")
        out.append(print_at(right, PRODUCT + 1))
    return "".join(out)


def _ends_plain(tree: Tree) -> bool:
    """Whether a factor may stand next to another without a sign between them."""
    if tree.children is None:
        return (tree.type == "N" and print_leaf(tree)[0][0] != "\\") or is_letter(tree)
    if tree.type != "O":
        return False
    if tree.symbol in BASES and len(tree.children) == 2:
        return _ends_plain(tree.children[0]) and tree.children[0].children is None
    return tree.symbol in ("divide", "root") and len(tree.children) == 2


def _begins_plain(tree: Tree) -> bool:
    if tree.children is None:
        return is_letter(tree)
    if tree.type != "O" or len(tree.children) != 2:
        return False
    if tree.symbol in BASES:
        return tree.children[0].children is None and is_letter(tree.children[0])
    return tree.symbol == "root"


# -- compound operators ----------------------------------------------------------------------------------------------


def _split_scripts(head: Tree) -> tuple[Tree, str] | None:
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
        out.append(f"{mark}{{{print_script(head.children[1])}}}")
        head = head.children[0]
    return (head, "".join(reversed(out))) if out else None


def _print_scripted_sign(symbol: str, head: Tree) -> tuple[str, int] | None:
    """\\otimes_{R} with the power of \\otimes, for the head of a compound operator with that symbol."""
    head_and_scripts = _split_scripts(head)
    if head_and_scripts is None or symbol != hint(head):
        return None
    base, scripts = head_and_scripts
    sign = SIGN.get((base.type, base.symbol)) if base.type in "UO" else SIGN.get(("F", base.symbol))
    if sign is None or base.type not in "UOV" or (base.type == "V" and base.symbol == ":"):
        return None
    return sign + scripts, INFIX[sign].power


def _print_compound(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    head, *operands = children
    head_and_scripts = _split_scripts(head)
    if head_and_scripts is None or tree.symbol != hint(head) or not operands:
        return None
    base, scripts = head_and_scripts
    if len(operands) == 1 and base in _PREFIX:
        return f"{_PREFIX[base]}{scripts} {print_at(operands[0], OPEN)}", OPEN
    if base == _PARTIAL and len(operands) == 1:
        return rf"\partial{scripts} {print_at(operands[0], FACTOR)}", APPLIED
    if base in _FUNCTION:
        return _print_application(_FUNCTION[base] + scripts, tuple(operands))
    if base == _GRADIENT:
        return _print_application(r"\nabla" + scripts, tuple(operands))
    if base.type == "V" and len(base.symbol) > 1 and _is_operator_name(base.symbol):
        return _print_application(f"\\operatorname{{{base.symbol}}}{scripts}", tuple(operands))
    if len(operands) != 2:
        return None
    sign = _print_scripted_sign(tree.symbol, head)
    if sign is None:
        return None
    text, power = sign
    if power in _SIDES:
        return f"{print_at(operands[0], _SIDES[power])} {text} {print_at(operands[1], _SIDES[power])}", power
    return f"{print_at(operands[0], power)} {text} {print_at(operands[1], power + 1)}", power


RULES.update(
    {"U": _print_operator, "O": _print_operator, "F": _print_function, "M": _print_group, "+": _print_compound}
)
