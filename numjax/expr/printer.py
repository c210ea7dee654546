"""Operator tree → LaTeX, with parentheses where precedence asks for them.

  latex(parse("(a + b) c"))  →  r"(a + b) \\times c"

For every canonical tree (`numjax.expr.canonical`), parse(latex(tree)) == tree under the default rules. What has no
ordinary notation, or whose ordinary notation would read back as something else, is written in a general one:

  \\tree[O]{symbol}{{child}{child}}

a node of type O with its symbol (characters other than letters, digits, hyphen and parentheses as *hex.) and its
children. To set it in TeX: \\newcommand{\\tree}[3][]{\\operatorname{#2}(#3)}.

Every part is printed once, with its power (`numjax.expr.operators`): how strongly it holds together. A power below what
the place asks for is what parentheses are for, so the printer takes linear time and needs no reparsing.
"""

from __future__ import annotations

import functools
import re

from numjax.expr.commands import ACCENT_OF, BIG, FUNCTIONS, INTEGRALS, LEAVES, QUANTIFIERS
from numjax.expr.constructs import ALL
from numjax.expr.lexer import END, tokens_of
from numjax.expr.operators import INFIX, META, PRODUCT, RELATION, SIGN, SUM
from numjax.expr.reader import BARS, SCRIPTS, STOPS, hint
from numjax.expr.rules import DEFAULT
from numjax.expr.tree import Tree

ANNOTATED = 30  # x \\pmod n: an operand of relations
OPEN = 45  # sums, integrals, quantifiers: they take all factors that follow
APPLIED = 55  # functions: they take a factor
FACTOR = 60  # what stands in products but wants parentheses below scripts
ATOM = 70

Printed = tuple[str, int]

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_NAME = re.compile(r"[A-Za-z]{2,}")
_TEXT = re.compile(r"[^\\{}\s]+(?: [^\\{}\s]+)*")
_PRIMES = re.compile("′+")
_KEPT = re.compile(r"[^A-Za-z0-9()-]")

_COMMAND = {}
for _sign, _leaf in LEAVES.items():
    if _sign.startswith("\\") and _sign != r"\O/":
        _COMMAND.setdefault(_leaf, _sign)
_COMMAND[Tree("V", "…")] = r"\ldots"
_COMMAND[Tree("V", "⋯")] = r"\cdots"
_PREFIX = {}
for _table in (BIG, INTEGRALS, QUANTIFIERS):
    for _sign, _leaf in _table.items():
        _PREFIX.setdefault(_leaf, _sign)
_FUNCTION = {leaf: sign for sign, leaf in FUNCTIONS.items() if sign.startswith("\\") and leaf.symbol != "∇"}
_GRADIENT = Tree("V", "∇")
_PARTIAL = Tree("O", "partialdiff")
_TWO = Tree("N", "2")
_SIGNED = frozenset("plus minus plus-or-minus minus-or-plus".split())
_INTERVALS = {
    "interval(O-O)": ("(", ")"),
    "interval(C-C)": ("[", "]"),
    "interval(O-C)": ("(", "]"),
    "interval(C-O)": ("[", ")"),
}
_BASES = frozenset(["SUP", "SUB"])


def latex(tree: Tree) -> str:
    """The formula of a tree; see the module."""
    return _printed(tree)[0]


def _at(tree: Tree, power: int) -> str:
    """A part where at least that power is asked for."""
    text, own = _printed(tree)
    return text if own >= power else f"({text})"


def _printed(tree: Tree) -> Printed:
    children = tree.children
    if children is None:
        return _leaf(tree)
    rule = _RULES.get(tree.type)
    made = rule(tree, children) if rule is not None else None
    return _general(tree) if made is None else made


def _general(tree: Tree) -> Printed:
    symbol = _KEPT.sub(lambda match: f"*{ord(match[0]):x}.", tree.symbol)
    below = "".join(f"{{{_printed(child)[0]}}}" for child in tree.children or ())
    return f"\\tree[{tree.type}]{{{symbol}}}{{{below}}}", ATOM


# -- leaves ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1 << 12)
def _leaf(tree: Tree) -> Printed:
    kind, symbol = tree.type, tree.symbol
    if tree in _COMMAND:
        return _COMMAND[tree], ATOM
    if kind == "N" and _NUMBER.fullmatch(symbol):
        return symbol, ATOM
    if kind == "V":
        if _single(symbol):
            return symbol, ATOM
        if _PRIMES.fullmatch(symbol):
            return r"\prime " * (len(symbol) - 1) + r"\prime", ATOM
        if _NAME.fullmatch(symbol):
            return f"\\mathrm{{{symbol}}}", ATOM
    if kind == "T" and _TEXT.fullmatch(symbol) and symbol.isprintable():
        return f"\\text{{{symbol}}}", ATOM
    if kind == "M" and symbol == "S-0":
        return r"\{\}", ATOM
    if kind == "M" and symbol == "L-0":
        return "()", ATOM
    return _general(tree)


@functools.lru_cache(maxsize=1 << 12)
def _single(symbol: str) -> bool:
    """Whether a character stands for the variable of that name."""
    if len(symbol) != 1 or not symbol.isprintable() or symbol.isspace() or symbol in "&#$\\~":
        return False
    if symbol in INFIX or symbol in STOPS or symbol in SCRIPTS or symbol in BARS or "0" <= symbol <= "9":
        return False
    made = ALL.get(symbol)
    if made is not None and made != Tree("V", symbol):
        return False
    return tokens_of(symbol, DEFAULT.thousands) == [symbol, END]


# -- groups and functions --------------------------------------------------------------------------------------------


def _row(trees: tuple[Tree, ...]) -> str:
    return ", ".join(_at(tree, ANNOTATED) for tree in trees)


def _group(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol, count = tree.symbol, len(children)
    if symbol == f"L-{count}" and count > 1:
        return f"{{{_row(children)}}}", ATOM
    if symbol == f"V-{count}" and count > 2:
        return f"({_row(children)})", ATOM
    if symbol == f"S-{count}":
        inner = _row(children) if count > 1 else _at(children[0], RELATION)
        return rf"\{{{inner}\}}", ATOM
    if count == 1 and symbol == "D-lsqb;&rsqb;" and children[0].symbol != "L-0":
        return f"[{_at(children[0], RELATION)}]", ATOM
    if count == 1 and symbol == "D-⟩":
        return rf"\langle {_at(children[0], RELATION)} \rangle", ATOM
    if symbol.startswith("M-"):
        return _matrix(tree, children)
    return None


def _cell(tree: Tree) -> str:
    text = _at(tree, META)
    return f"{{{text}}}" if text.startswith("[") else text


def _matrix(tree: Tree, rows: tuple[Tree, ...]) -> Printed | None:
    width = len(rows[0].children or ())
    if not width or tree.symbol != f"M-{len(rows)}x{width}":
        return None
    for row in rows:
        if row.type != "M" or row.symbol != "R!" or len(row.children or ()) != width:
            return None
    body = r" \\ ".join(" & ".join(map(_cell, row.children or ())) for row in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}", ATOM


def _applied(sign: str, given: tuple[Tree, ...]) -> Printed:
    """A function's sign with its arguments."""
    if len(given) == 1:
        text, power = _printed(given[0])
        bare = power == ATOM and given[0].children is None and given[0].type in "VN"
        return (f"{sign} {text}" if bare else f"{sign}({text})"), APPLIED
    return f"{sign}({_row(given)})", APPLIED


def _function(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    symbol = tree.symbol
    if len(children) == 1:
        only = children[0]
        if symbol == "abs":
            return rf"\left| {_at(only, RELATION)} \right|", ATOM
        if symbol == "floor":
            return rf"\lfloor {_at(only, RELATION)} \rfloor", ATOM
        if symbol == "ceiling":
            return rf"\lceil {_at(only, RELATION)} \rceil", ATOM
        if symbol == "∇":
            return rf"\nabla {_bracketed(only)}", APPLIED
        if symbol in ACCENT_OF:
            return f"{ACCENT_OF[symbol]}{{{_printed(only)[0]}}}", ATOM
    if len(symbol) == 1 and symbol in DEFAULT.calls:
        inner = _row(children) if len(children) > 1 else _printed(children[0])[0]
        return f"{symbol}({inner})", ATOM
    if tree.type == "F":
        head = Tree("F", symbol)
        if head in _FUNCTION:
            return _applied(_FUNCTION[head], children)
        if head in _PREFIX and len(children) == 1:
            return f"{_PREFIX[head]} {_at(children[0], OPEN)}", OPEN
        if ("F", symbol) in SIGN:
            return _infix(tree, children)
        if symbol.isascii() and symbol.isalpha() and "\\" + symbol not in FUNCTIONS and "\\" + symbol not in BIG:
            return _applied(f"\\operatorname{{{symbol}}}", children)
    return None


def _bracketed(tree: Tree) -> str:
    text, power = _printed(tree)
    return text if power == ATOM and tree.children is None else f"({text})"


# -- operators -------------------------------------------------------------------------------------------------------


def _operator(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    special = _OPERATORS.get(tree.symbol)
    if special is not None and tree.type == "O":
        return special(tree, children)
    if len(children) == 1:
        head = Tree(tree.type, tree.symbol)
        if tree.symbol in _SIGNED:
            return f"{SIGN[tree.type, tree.symbol]} {_at(children[0], OPEN)}" if (
                tree.type,
                tree.symbol,
            ) in SIGN else None, SUM  # type: ignore[return-value]
        if head in _PREFIX:
            return f"{_PREFIX[head]} {_at(children[0], OPEN)}", OPEN
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
            return chain, RELATION
    return _infix(tree, children)


def _infix(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    """Operands with the sign between them."""
    sign = SIGN.get((tree.type, tree.symbol))
    if sign is None:
        return None
    op = INFIX[sign]
    power = op.power
    if len(children) != 2 and not (op.flat and len(children) > 2):
        return None
    first, rest = children[0], children[1:]
    if power == META:
        return f"{_at(first, RELATION)} {sign} {_at(rest[0], META)}", META
    if power == RELATION:
        return f"{_at(first, ANNOTATED)} {sign} {_at(rest[0], ANNOTATED)}", RELATION
    # From left to right: the first operand may be of the same power, unless it would run together with this node.
    same = op.flat and first.type == tree.type and first.symbol == tree.symbol
    out = [_at(first, power + 1 if same else power)]
    out.extend(_at(child, power + 1) for child in rest)
    return f" {sign} ".join(out), power


def _chain(relations: tuple[Tree, ...]) -> str | None:
    """a = b < c, where each relation begins with what the one before it ends with."""
    out: list[str] = []
    before: Tree | None = None
    if len(relations) < 2:
        return None
    for relation in relations:
        between = _between(relation)
        if between is None or (before is not None and between[1] != before):
            return None
        sign, left, right = between
        if before is None:
            out.append(_at(left, ANNOTATED))
        out += [sign, _at(right, ANNOTATED)]
        before = right
    return " ".join(out)


def _between(relation: Tree) -> tuple[str, Tree, Tree] | None:
    """Sign and sides of a relation."""
    children = relation.children or ()
    if relation.type == "+" and len(children) == 3:
        sign = _scripted_sign(relation.symbol, children[0])
        if sign is None or sign[1] != RELATION:
            return None
        return sign[0], children[1], children[2]
    sign = SIGN.get((relation.type, relation.symbol))
    if sign is None or len(children) != 2 or INFIX[sign].power != RELATION:
        return None
    return sign, children[0], children[1]


def _product(children: tuple[Tree, ...]) -> str:
    first = children[0]
    same = first.type == "U" and first.symbol == "times"
    out = [_at(first, PRODUCT + 1 if same else PRODUCT)]
    for left, right in zip(children, children[1:], strict=False):
        out.append(" " if _ends_plain(left) and _begins_plain(right) else r" \times ")
        out.append(_at(right, PRODUCT + 1))
    return "".join(out)


def _ends_plain(tree: Tree) -> bool:
    """Whether a factor may stand next to another without a sign between them."""
    if tree.children is None:
        return (tree.type == "N" and _leaf(tree)[0][0] != "\\") or _letter(tree)
    if tree.type != "O":
        return False
    if tree.symbol in _BASES and len(tree.children) == 2:
        return _ends_plain(tree.children[0]) and tree.children[0].children is None
    return tree.symbol in ("divide", "root") and len(tree.children) == 2


def _begins_plain(tree: Tree) -> bool:
    if tree.children is None:
        return _letter(tree)
    if tree.type != "O" or len(tree.children) != 2:
        return False
    if tree.symbol in _BASES:
        return tree.children[0].children is None and _letter(tree.children[0])
    return tree.symbol == "root"


def _letter(tree: Tree) -> bool:
    """A variable of one letter that is no d, which an integral would take for a differential."""
    return tree.type == "V" and len(tree.symbol) == 1 and tree.symbol != "d" and tree.symbol.isalpha()


def _script(tree: Tree) -> str:
    """In the braces of a power or index, where a sign may stand alone."""
    if tree.children is None and tree.type in "UO" and (tree.type, tree.symbol) in SIGN and tree.symbol != "compose":
        return SIGN[tree.type, tree.symbol]
    return _printed(tree)[0]


def _power(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    base, script = children
    mark = "^" if tree.symbol == "SUP" else "_"
    below = base.children
    if (
        below and base.type == "O" and base.symbol in _BASES and base.symbol != tree.symbol and len(below) == 2
        and not (below[0].type == "O" and below[0].symbol in _BASES)
    ):  # fmt: skip
        # x_i^2: one index and one power share their base.
        text = _printed(base)[0]
    else:
        text = _at(base, ATOM)
    return f"{text}{mark}{{{_script(script)}}}", FACTOR


def _braced(command: str, count: int):
    def made(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        if len(children) != count:
            return None
        return command + "".join(f"{{{_printed(child)[0]}}}" for child in children), FACTOR

    return made


def _root(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    of, degree = children
    index = "" if degree == _TWO else f"[{{{_printed(degree)[0]}}}]"
    return rf"\sqrt{index}{{{_printed(of)[0]}}}", FACTOR


def _postfix(mark: str):
    def made(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        return (_at(children[0], ATOM) + mark, FACTOR) if len(children) == 1 else None

    return made


def _interval(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    opener, closer = _INTERVALS[tree.symbol]
    return f"{opener}{_row(children)}{closer}", ATOM


def _norm(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left\| {_at(children[0], RELATION)} \right\|", ATOM) if len(children) == 1 else None


def _ket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left| {_at(children[0], RELATION)} \right\rangle", ATOM) if len(children) == 1 else None


def _bracket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != (2 if tree.symbol == "inner-product" else 3):
        return None
    inner = r" \middle| ".join(_at(child, RELATION) for child in children)
    return rf"\left\langle {inner} \right\rangle", ATOM


def _conditional_set(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"\{{{_at(children[0], RELATION)} \mid {_at(children[1], RELATION)}\}}", ATOM


def _conditional(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"{_at(children[0], RELATION)} \mid {_at(children[1], META)}", META


def _annotated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    of, note = children
    if note.type != "F" or note.symbol not in ("pmod", "pod") or len(note.children or ()) != 1:
        return None
    return f"{_at(of, ANNOTATED)} \\{note.symbol}{{{_printed(note.children[0])[0]}}}", ANNOTATED  # type: ignore[index]


def _evaluated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) not in (2, 3):
        return None
    bounds = "".join(f"{mark}{{{_script(child)}}}" for mark, child in zip("_^", children[1:], strict=False))
    return rf"\left. {_at(children[0], RELATION)} \right|{bounds}", FACTOR


def _cases(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) % 2:
        return None
    rows = (f"{_cell(left)} & {_cell(right)}" for left, right in zip(children[::2], children[1::2], strict=True))
    return rf"\begin{{cases}} {chr(92) * 2} \end{{cases}}".replace("\\\\", r" \\ ".join(rows)), ATOM


def _sequence(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) < 2:
        return None
    return "{" + r" \quad ".join(_at(child, META) for child in children) + "}", ATOM


def _differential(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 1:
        return None
    of = children[0]
    if of.children is None and _letter(of) and of.symbol.isascii():
        return rf"\mathrm{{d}} {of.symbol}", APPLIED
    return rf"\mathrm{{d}}{{{_printed(of)[0]}}}", APPLIED


def _partial(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\partial {_at(children[0], FACTOR)}", APPLIED) if len(children) == 1 else None


_OPERATORS = {
    "SUP": _power,
    "SUB": _power,
    "divide": _braced(r"\frac", 2),
    "binomial": _braced(r"\binom", 2),
    "root": _root,
    "factorial": _postfix("!"),
    "double-factorial": _postfix("!!"),
    "percent": _postfix(r"\%"),
    "degree": _postfix(r"^{\circ}"),
    **dict.fromkeys(_INTERVALS, _interval),
    "norm": _norm,
    "ket": _ket,
    "inner-product": _bracket,
    "quantum-operator-product": _bracket,
    "conditional-set": _conditional_set,
    "conditional": _conditional,
    "annotated": _annotated,
    "evaluated-at": _evaluated,
    "cases": _cases,
    "form-seq": _sequence,
    "differential-d": _differential,
    "partialdiff": _partial,
}


# -- compound operators ----------------------------------------------------------------------------------------------


def _scripts(head: Tree) -> tuple[Tree, str] | None:
    """The sign below its scripts, and the scripts; None if a script comes twice."""
    marks: list[str] = []
    out: list[str] = []
    while head.children is not None:
        if head.type != "O" or head.symbol not in _BASES or len(head.children) != 2:
            return None
        mark = "^" if head.symbol == "SUP" else "_"
        if mark in marks:
            return None
        marks.append(mark)
        out.append(f"{mark}{{{_script(head.children[1])}}}")
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
        return f"{_PREFIX[base]}{scripts} {_at(given[0], OPEN)}", OPEN
    if base == _PARTIAL and len(given) == 1:
        return rf"\partial{scripts} {_at(given[0], FACTOR)}", APPLIED
    if base in _FUNCTION:
        return _applied(_FUNCTION[base] + scripts, tuple(given))
    if base == _GRADIENT:
        return _applied(r"\nabla" + scripts, tuple(given))
    if len(given) != 2:
        return None
    sign = _scripted_sign(tree.symbol, head)
    if sign is None:
        return None
    text, power = sign
    if power == RELATION:
        return f"{_at(given[0], ANNOTATED)} {text} {_at(given[1], ANNOTATED)}", RELATION
    return f"{_at(given[0], power)} {text} {_at(given[1], power + 1)}", power


_RULES = {
    "U": _operator,
    "O": _operator,
    "F": _function,
    "M": _group,
    "+": _compound,
}
