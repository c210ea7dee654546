"""The parsers of single commands, and the table of all commands."""

from __future__ import annotations

import re
from collections.abc import Callable

from numjax.expr.latex.applied import (
    parse_big,
    parse_big_operand,
    parse_function,
    parse_integral,
    parse_integrand,
    parse_operatorname,
    parse_partial,
    parse_quantifier,
    take_raw_argument,
)
from numjax.expr.latex.commands import (
    ACCENTS,
    BIG,
    DROPPED,
    FENCES,
    FONTS,
    FUNCTIONS,
    INTEGRALS,
    PUBLISHED_ACCENTS,
    QUANTIFIERS,
    SWITCHES,
)
from numjax.expr.latex.environments import parse_environment, parse_left_brace, parse_plain_matrix
from numjax.expr.latex.fences import parse_bar, parse_fence
from numjax.expr.latex.lexer import END
from numjax.expr.latex.operands import ATOMS
from numjax.expr.latex.reader import ExpressionReader
from numjax.expr.latex.state import BARS, MISSING, STOPS, Action, Stop, hint, make_leaf
from numjax.expr.operators import CONNECTIVE, INFIX, PRODUCT, RELATION, SIGN, SUM, Infix
from numjax.expr.symbols import arity
from numjax.expr.tree import TYPES, Tree


class FormulaReader(ExpressionReader):
    """A reader that knows the commands."""

    __slots__ = ()

    def find_command(self, token: str) -> Action | None:
        if token.startswith(r"\tree["):
            return parse_node
        if token.endswith("}"):
            return _parse_text
        if token.startswith(r"\not"):
            return _parse_negated
        if token.startswith("\\verb"):
            return _parse_verbatim
        if token in DROPPED:
            return _skip_with_arguments
        return None


def parse_formula(reader: ExpressionReader) -> Tree:
    """The tree of the whole formula.

    Raises:
      Stop: it cannot be read.
    """
    tree = reader.parse_statement()
    token = reader.tokens[reader.i]
    if token != END:
        raise Stop(f"{token} is not opened" if token in STOPS else f"{token} is not expected here", reader.i)
    if tree is None:
        raise Stop("nothing to read", 0)
    return tree


def _make_pair_parser(symbol: str) -> Action:
    def parse_pair(reader: ExpressionReader, token: str) -> Tree:
        reader.i += 1
        if reader.tokens[reader.i] == "[" and token == r"\cfrac":
            reader.skip_bracket()
        reader.enter()
        saved = reader.in_integrand
        if reader.rules.differentials != "everywhere":
            reader.in_integrand = False
        first = reader.parse_argument()
        second = reader.parse_argument()
        reader.in_integrand = saved
        reader.level -= 1
        return Tree("O", symbol, [first or MISSING, second or MISSING])

    return parse_pair


def _parse_root(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    tokens = reader.tokens
    degree: Tree | None = make_leaf("N", "2")
    if tokens[reader.i] == "[":
        start = reader.i
        reader.i += 1
        reader.enter()
        saved = reader.bar, reader.in_set, reader.environments
        reader.bar, reader.in_set, reader.environments = "", False, 0
        degree = reader.parse_statement()
        reader.bar, reader.in_set, reader.environments = saved
        reader.level -= 1
        if tokens[reader.i] != "]":
            raise Stop("[ is not closed", start)
        reader.i += 1
    radicand = reader.parse_argument()
    return Tree("O", "root", [radicand or MISSING, degree or MISSING])


def _parse_surd(reader: ExpressionReader, token: str) -> Tree:
    """\\surd x: the root of the next factor."""
    reader.i += 1
    reader.enter()
    radicand = None if reader.tokens[reader.i] in STOPS else reader.parse_operand()
    reader.level -= 1
    return make_leaf("V", "√") if radicand is None else Tree("O", "root", [radicand, make_leaf("N", "2")])


def _parse_plain_root(reader: ExpressionReader, token: str) -> Tree:
    """\\root n \\of x."""
    reader.i += 1
    degree = reader.parse_argument()
    if reader.tokens[reader.i] == r"\of":
        reader.i += 1
    radicand = reader.parse_argument()
    return Tree("O", "root", [radicand or MISSING, degree or MISSING])


def _parse_accent(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    reader.enter()
    base = reader.parse_argument()
    reader.level -= 1
    symbol = (PUBLISHED_ACCENTS if reader.as_published else ACCENTS)[token]
    return Tree("F", symbol, [base or MISSING])


def _parse_stacked(reader: ExpressionReader, token: str) -> Tree | None:
    """\\overset{a}{b} is b to the a, \\underset{a}{b} b with the index a; over a sign it is a compound operator."""
    reader.i += 1
    label = reader.parse_argument()
    if reader.tokens[reader.i] == "{" and reader.tokens[reader.i + 2] == "}":
        op = INFIX.get(reader.tokens[reader.i + 1])
    else:
        op = INFIX.get(reader.tokens[reader.i])
    base = reader.parse_argument()
    if base is None or label is None:
        return base or label
    head = Tree("O", "SUB" if token == r"\underset" else "SUP", [base, label])
    if op is None or op.power > SUM:
        return head
    right = reader.parse_expression(SUM)
    return Tree("+", hint(head), [head, right]) if right is not None else head


def _make_arrow_parser(sign: str) -> Action:
    """\\xrightarrow[under]{over}: the labels become its power and index."""

    def parse_arrow(reader: ExpressionReader, token: str) -> Tree:
        reader.i += 1
        head = make_leaf("V", sign)
        if reader.tokens[reader.i] == "[":
            reader.i += 1
            reader.enter()
            lower = reader.parse_statement()
            reader.level -= 1
            if reader.tokens[reader.i] != "]":
                raise Stop("[ is not closed", reader.i)
            reader.i += 1
            if lower is not None:
                head = Tree("O", "SUB", [head, lower])
        upper = reader.parse_argument()
        return head if upper is None else Tree("O", "SUP", [head, upper])

    return parse_arrow


def _parse_font(reader: ExpressionReader, token: str) -> Tree | None:
    reader.i += 1
    if token in SWITCHES:
        reader.font = FONTS[token]
        return None
    saved, reader.font = reader.font, FONTS[token]
    try:
        tree = reader.parse_argument()
    finally:
        reader.font = saved
    if tree is not None and tree.symbol == "d" and FONTS[token] == "" and tree.type == "V":
        if reader.rules.differentials == "everywhere" or reader.in_integrand:
            return reader.parse_differential() or tree
    return tree


def _parse_text(reader: ExpressionReader, token: str) -> Tree | None:
    reader.i += 1
    content = " ".join(token[token.index("{") + 1 : -1].split())
    if not content:
        return None
    return make_leaf("T", content) if reader.rules.text else MISSING


def _parse_verbatim(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    content = token.removeprefix("\\verb").lstrip("*").strip()[1:-1].strip()
    return make_leaf("T", content) if reader.rules.text and content else MISSING


def _parse_general_fraction(reader: ExpressionReader, token: str) -> Tree:
    """\\genfrac{(}{)}{0pt}{style}{a}{b}."""
    reader.i += 1
    opener, _, rule, _ = (take_raw_argument(reader) for _ in range(4))
    first = reader.parse_argument()
    second = reader.parse_argument()
    symbol = "binomial" if opener == ["("] and _is_zero("".join(rule)) else "divide"
    return Tree("O", symbol, [first or MISSING, second or MISSING])


def _is_zero(length: str) -> bool:
    return re.fullmatch(r"\.?0[0.]*+\D*+", length) is not None


def _parse_bare_text(reader: ExpressionReader, token: str) -> Tree | None:
    """\\text a, or with braces that the lexer could not take as one token."""
    reader.i += 1
    content = " ".join(take_raw_argument(reader)).strip()
    if not content:
        return None
    return make_leaf("T", content) if reader.rules.text else MISSING


def _skip_with_arguments(reader: ExpressionReader, token: str) -> None:
    reader.i += 1
    for _ in range(DROPPED[token]):
        if reader.tokens[reader.i] == "[":
            reader.skip_bracket()
        take_raw_argument(reader)


_BIG_SIGNS = frozenset([*BIG.values(), *INTEGRALS.values()])


def _parse_modulus(reader: ExpressionReader, token: str) -> Tree:
    """\\pmod n with nothing before it."""
    reader.i += 1
    reader.enter()
    modulus = reader.parse_expression(PRODUCT) if token == r"\mod" else reader.parse_argument()
    reader.level -= 1
    return Tree("F", token[1:], [modulus or MISSING])


def _parse_group(reader: ExpressionReader, token: str) -> Tree | None:
    tree = reader.parse_group()
    if tree is not None and tree.children is None and tree in _BIG_SIGNS:
        # {\displaystyle\int} x: an operator in braces still takes what follows.
        return parse_integrand(reader, tree) if tree in INTEGRALS.values() else parse_big_operand(reader, tree)
    return tree


def _parse_primes(reader: ExpressionReader, token: str) -> Tree:
    count = 0
    while reader.tokens[reader.i] == token:
        reader.i += 1
        count += 1
    return make_leaf("V", "′" * count)


def _skip(reader: ExpressionReader, token: str) -> None:
    reader.i += 1


_NOT = {"in": "notin", "eq": "neq", "subset": "not-subset-of", "leq": "not-less-than-or-equals",
        "lt": "not-less-than",
        "geq": "not-greater-than-or-equals", "gt": "not-greater-than", "equivalent": "not-equivalent-to",
        "exists": "not-exists", "approx": "not-approximately-equals", "divides": "not-divides"}  # fmt: skip


def _parse_negated(reader: ExpressionReader, token: str) -> Tree | None:
    """\\not before anything but a relation: the node `not` of it."""
    reader.i += 1
    if token == r"\not":
        operand = reader.parse_argument()
        return Tree("O", "not", [operand or MISSING])
    reader.i -= 1
    reader.change(reader.i, token[4:])
    operand = reader.parse_argument()
    return Tree("O", "not", [operand or MISSING])


def _add_negations() -> None:
    for sign, op in list(INFIX.items()):
        if op.power in (CONNECTIVE, RELATION) and r"\not" + sign not in INFIX:
            if op.symbol in _NOT:
                kind, symbol = ("U" if op.symbol == "eq" else "O"), _NOT[op.symbol]
            elif op.type == "F":
                continue
            else:
                kind, symbol = "O", ("not-" + op.symbol).removeprefix("not-not-")
            INFIX[r"\not" + sign] = Infix(op.power, kind, symbol, False, (kind, symbol))
            if sign.startswith("\\"):
                SIGN.setdefault((kind, symbol), r"\not" + sign)
    for sign in ("|", r"\mid"):
        INFIX[r"\not" + sign] = INFIX[r"\nmid"]


_add_negations()


# -- the printer's general notation ----------------------------------------------------------------------------------

_ESCAPED = re.compile(r"\*([0-9a-f]{1,6})\.")


def parse_node(reader: ExpressionReader, token: str) -> Tree:
    """\\tree[type]{symbol}{{child}{child}…}: see `numjax.expr.printer`."""
    start = reader.i
    kind = token[token.index("[") + 1 : token.index("]")].strip()
    symbol = token[token.index("{") + 1 : -1].strip()
    try:
        symbol = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), symbol)
    except (ValueError, OverflowError):
        raise Stop("a symbol with an invalid character code", start) from None
    if kind not in TYPES:
        raise Stop(f"{kind} is not a node type", start)
    reader.i += 1
    tokens = reader.tokens
    if tokens[reader.i] != "{":
        raise Stop("a node without its children's braces", start)
    reader.i += 1
    reader.enter()
    children = []
    while tokens[reader.i] == "{":
        child = reader.parse_group()
        children.append(MISSING if child is None else child)
    reader.level -= 1
    if tokens[reader.i] != "}":
        reader.raise_unclosed("{", start)
    reader.i += 1
    if children and arity(kind, symbol, True)[1] == 0:
        raise Stop(f"{kind} has no children", start)
    return Tree(kind, symbol, children)


# -- the table -------------------------------------------------------------------------------------------------------


def _make_table() -> dict[str, Action]:
    table: dict[str, Action] = {
        "{": _parse_group,
        r"\left": parse_left_brace,
        r"\begin": parse_environment,
        r"\partial": parse_partial,
    }

    def put(names, action: Callable) -> None:
        table.update(dict.fromkeys(names, action))

    put(FUNCTIONS, parse_function)
    put(BIG, parse_big)
    put(INTEGRALS, parse_integral)
    put(QUANTIFIERS, parse_quantifier)
    put(ACCENTS, _parse_accent)
    put(FONTS, _parse_font)
    put(FENCES, parse_fence)
    put(BARS, parse_bar)
    put(DROPPED, _skip_with_arguments)
    put((r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\sfrac", r"\nicefrac"), _make_pair_parser("divide"))
    put((r"\binom", r"\dbinom", r"\tbinom"), _make_pair_parser("binomial"))
    put((r"\sqrt",), _parse_root)
    put((r"\root",), _parse_plain_root)
    put((r"\surd",), _parse_surd)
    put((r"\genfrac",), _parse_general_fraction)
    put((r"\stackrel", r"\overset", r"\underset", r"\buildrel"), _parse_stacked)
    put((r"\operatorname", r"\operatorname*"), parse_operatorname)
    put(
        (r"\text", r"\mbox", r"\textrm", r"\textbf", r"\textit", r"\hbox", r"\textsf", r"\textnormal"),
        _parse_bare_text,
    )
    put((r"\pmatrix", r"\matrix", r"\bmatrix", r"\cases", r"\substack", r"\smallmatrix"), parse_plain_matrix)
    put((r"\null", r"\hfill", "\\"), _skip)
    put((r"\pmod", r"\pod", r"\mod"), _parse_modulus)
    table[r"\prime"] = _parse_primes
    for name, sign in (("rightarrow", "→"), ("leftarrow", "←"), ("Rightarrow", "⇒"), ("Leftarrow", "⇐"),
                       ("leftrightarrow", "↔"), ("longequal", "="), ("mapsto", "↦"), ("hookrightarrow", "↪"),
                       ("rightleftharpoons", "⇌"), ("twoheadrightarrow", "↠"), ("rightleftarrows", "⇄"),
                       ("rightequilibrium", "⇌"), ("leftequilibrium", "⇋")):  # fmt: skip
        table["\\x" + name] = _make_arrow_parser(sign)
    return table


ALL: dict[str, Tree | Action] = {**ATOMS, **_make_table()}
PUBLISHED = ALL | {"?": Tree("V", "&quest;")}  # as Tangent-CFT writes it, whose queries have question marks
