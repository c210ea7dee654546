"""What commands do, and the table of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from numjax.expr.applied import (
    big,
    big_of,
    function,
    integral,
    integrated,
    operatorname,
    partial,
    quantifier,
    raw,
)
from numjax.expr.commands import ACCENTS, BIG, DROPPED, FENCES, FONTS, FUNCTIONS, INTEGRALS, QUANTIFIERS, SWITCHES
from numjax.expr.environments import begin, braced, old_matrix
from numjax.expr.fences import bar, fence
from numjax.expr.lexer import END
from numjax.expr.operands import ATOMS
from numjax.expr.operators import CONNECTIVE, INFIX, PRODUCT, RELATION, SIGN, SUM, Infix
from numjax.expr.reader import Reader
from numjax.expr.state import BARS, MISSING, STOPS, Action, Stop, hint, leaf
from numjax.expr.symbols import arity
from numjax.expr.tree import TYPES, Tree


class Formula(Reader):
    """A reader that knows the commands."""

    __slots__ = ()

    def special(self, token: str) -> Action | None:
        if token.startswith(r"\tree["):
            return node
        if token.endswith("}"):
            return _text
        if token.startswith(r"\not"):
            return _negated
        if token.startswith("\\verb"):
            return _verbatim
        if token in DROPPED:
            return _dropped
        return None


def read(reader: Reader) -> Tree:
    """The whole formula.

    Raises:
      Stop: it cannot be read.
    """
    tree = reader.statement()
    token = reader.tokens[reader.i]
    if token != END:
        raise Stop(f"{token} is not opened" if token in STOPS else f"{token} is not expected here", reader.i)
    if tree is None:
        raise Stop("nothing to read", 0)
    return tree


def _pair(symbol: str) -> Action:
    def made(reader: Reader, token: str) -> Tree:
        reader.i += 1
        if reader.tokens[reader.i] == "[" and token == r"\cfrac":
            reader.skip_bracket()
        reader.enter()
        keep = reader.integrand
        if reader.rules.differentials != "everywhere":
            reader.integrand = False
        first = reader.argument()
        second = reader.argument()
        reader.integrand = keep
        reader.level -= 1
        return Tree("O", symbol, [first or MISSING, second or MISSING])

    return made


def _root(reader: Reader, token: str) -> Tree:
    reader.i += 1
    tokens = reader.tokens
    degree: Tree | None = leaf("N", "2")
    if tokens[reader.i] == "[":
        at = reader.i
        reader.i += 1
        reader.enter()
        saved = reader.bar, reader.in_set, reader.environments
        reader.bar, reader.in_set, reader.environments = "", False, 0
        degree = reader.statement()
        reader.bar, reader.in_set, reader.environments = saved
        reader.level -= 1
        if tokens[reader.i] != "]":
            raise Stop("[ is not closed", at)
        reader.i += 1
    of = reader.argument()
    return Tree("O", "root", [of or MISSING, degree or MISSING])


def _surd(reader: Reader, token: str) -> Tree:
    """\\surd x: the root of the next factor."""
    reader.i += 1
    reader.enter()
    of = None if reader.tokens[reader.i] in STOPS else reader.operand()
    reader.level -= 1
    return leaf("V", "√") if of is None else Tree("O", "root", [of, leaf("N", "2")])


def _plain_root(reader: Reader, token: str) -> Tree:
    """\\root n \\of x."""
    reader.i += 1
    degree = reader.argument()
    if reader.tokens[reader.i] == r"\of":
        reader.i += 1
    of = reader.argument()
    return Tree("O", "root", [of or MISSING, degree or MISSING])


def _accent(reader: Reader, token: str) -> Tree:
    reader.i += 1
    reader.enter()
    of = reader.argument()
    reader.level -= 1
    symbol = ACCENTS[token]
    return Tree("F", symbol[:1] if reader.published else symbol, [of or MISSING])


def _stacked(reader: Reader, token: str) -> Tree | None:
    """\\overset{a}{b} is b to the a, \\underset{a}{b} b with the index a; over a sign it is a compound operator."""
    reader.i += 1
    over = reader.argument()
    if reader.tokens[reader.i] == "{" and reader.tokens[reader.i + 2] == "}":
        op = INFIX.get(reader.tokens[reader.i + 1])
    else:
        op = INFIX.get(reader.tokens[reader.i])
    of = reader.argument()
    if of is None or over is None:
        return of or over
    head = Tree("O", "SUB" if token == r"\underset" else "SUP", [of, over])
    if op is None or op.power > SUM:
        return head
    right = reader.expression(SUM)
    return Tree("+", hint(head), [head, right]) if right is not None else head


def _arrow(sign: str) -> Action:
    """\\xrightarrow[under]{over}: the label stands as its power and index."""

    def made(reader: Reader, token: str) -> Tree:
        reader.i += 1
        head = leaf("V", sign)
        if reader.tokens[reader.i] == "[":
            reader.i += 1
            reader.enter()
            under = reader.statement()
            reader.level -= 1
            if reader.tokens[reader.i] != "]":
                raise Stop("[ is not closed", reader.i)
            reader.i += 1
            if under is not None:
                head = Tree("O", "SUB", [head, under])
        over = reader.argument()
        return head if over is None else Tree("O", "SUP", [head, over])

    return made


def _font(reader: Reader, token: str) -> Tree | None:
    reader.i += 1
    if token in SWITCHES:
        reader.font = FONTS[token]
        return None
    keep, reader.font = reader.font, FONTS[token]
    try:
        made = reader.argument()
    finally:
        reader.font = keep
    if made is not None and made.symbol == "d" and FONTS[token] == "" and made.type == "V":
        if reader.rules.differentials == "everywhere" or reader.integrand:
            return reader.differential() or made
    return made


def _text(reader: Reader, token: str) -> Tree | None:
    reader.i += 1
    content = " ".join(token[token.index("{") + 1 : -1].split())
    if not content:
        return None
    return leaf("T", content) if reader.rules.text else MISSING


def _verbatim(reader: Reader, token: str) -> Tree:
    reader.i += 1
    content = token.removeprefix("\\verb").lstrip("*").strip()[1:-1].strip()
    return leaf("T", content) if reader.rules.text and content else MISSING


def _general_fraction(reader: Reader, token: str) -> Tree:
    """\\genfrac{(}{)}{0pt}{style}{a}{b}."""
    reader.i += 1
    opener, _, rule, _ = (raw(reader) for _ in range(4))
    first = reader.argument()
    second = reader.argument()
    symbol = "binomial" if opener == ["("] and "".join(rule).startswith("0") else "divide"
    return Tree("O", symbol, [first or MISSING, second or MISSING])


def _bare_text(reader: Reader, token: str) -> Tree | None:
    """\\text a, or with braces that the lexer could not take as one token."""
    reader.i += 1
    content = " ".join(raw(reader)).strip()
    if not content:
        return None
    return leaf("T", content) if reader.rules.text else MISSING


def _dropped(reader: Reader, token: str) -> None:
    reader.i += 1
    for _ in range(DROPPED[token]):
        if reader.tokens[reader.i] == "[":
            reader.skip_bracket()
        raw(reader)


_BIG_SIGNS = frozenset([*BIG.values(), *INTEGRALS.values()])


def _modulus(reader: Reader, token: str) -> Tree:
    """\\pmod n with nothing before it."""
    reader.i += 1
    reader.enter()
    made = reader.expression(PRODUCT) if token == r"\mod" else reader.argument()
    reader.level -= 1
    return Tree("F", token[1:], [made or MISSING])


def _group(reader: Reader, token: str) -> Tree | None:
    made = reader.group()
    if made is not None and made.children is None and made in _BIG_SIGNS:
        # {\displaystyle\int} x: braces do not keep an operator from what comes after it.
        return integrated(reader, made) if made in INTEGRALS.values() else big_of(reader, made)
    return made


def _primes(reader: Reader, token: str) -> Tree:
    count = 0
    while reader.tokens[reader.i] == token:
        reader.i += 1
        count += 1
    return leaf("V", "′" * count)


def _skip(reader: Reader, token: str) -> None:
    reader.i += 1


_NOT = {"in": "notin", "eq": "neq", "subset": "not-subset-of", "leq": "not-less-than-or-equals",
        "lt": "not-less-than",
        "geq": "not-greater-than-or-equals", "gt": "not-greater-than", "equivalent": "not-equivalent-to",
        "exists": "not-exists", "approx": "not-approximately-equals", "divides": "not-divides"}  # fmt: skip


def _negated(reader: Reader, token: str) -> Tree | None:
    """\\not in front of what is no relation: not of it."""
    reader.i += 1
    if token == r"\not":
        made = reader.argument()
        return Tree("O", "not", [made or MISSING])
    reader.i -= 1
    reader.change(reader.i, token[4:])
    made = reader.argument()
    return Tree("O", "not", [made or MISSING])


def _negations() -> None:
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


_negations()


# -- the printer's general notation ----------------------------------------------------------------------------------

_ESCAPED = re.compile(r"\*([0-9a-f]{1,6})\.")


def node(reader: Reader, token: str) -> Tree:
    """\\tree[type]{symbol}{{child}{child}…}: see `numjax.expr.printer`."""
    at = reader.i
    kind = token[token.index("[") + 1 : token.index("]")].strip()
    symbol = token[token.index("{") + 1 : -1].strip()
    try:
        symbol = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), symbol)
    except (ValueError, OverflowError):
        raise Stop("a symbol that is no text", at) from None
    if kind not in TYPES:
        raise Stop(f"{kind} is no type of a node", at)
    reader.i += 1
    tokens = reader.tokens
    if tokens[reader.i] != "{":
        raise Stop("a node without its children's braces", at)
    reader.i += 1
    reader.enter()
    children = []
    while tokens[reader.i] == "{":
        child = reader.group()
        children.append(MISSING if child is None else child)
    reader.level -= 1
    if tokens[reader.i] != "}":
        reader.unclosed("{", at)
    reader.i += 1
    if children and arity(kind, symbol, True)[1] == 0:
        raise Stop(f"{kind} has no children", at)
    return Tree(kind, symbol, children)


# -- the table -------------------------------------------------------------------------------------------------------


def _table() -> dict[str, Action]:
    table: dict[str, Action] = {"{": _group, r"\left": braced, r"\begin": begin, r"\partial": partial}

    def put(names, action: Callable) -> None:
        table.update(dict.fromkeys(names, action))

    put(FUNCTIONS, function)
    put(BIG, big)
    put(INTEGRALS, integral)
    put(QUANTIFIERS, quantifier)
    put(ACCENTS, _accent)
    put(FONTS, _font)
    put(FENCES, fence)
    put(BARS, bar)
    put(DROPPED, _dropped)
    put((r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\sfrac", r"\nicefrac"), _pair("divide"))
    put((r"\binom", r"\dbinom", r"\tbinom"), _pair("binomial"))
    put((r"\sqrt",), _root)
    put((r"\root",), _plain_root)
    put((r"\surd",), _surd)
    put((r"\genfrac",), _general_fraction)
    put((r"\stackrel", r"\overset", r"\underset", r"\buildrel"), _stacked)
    put((r"\operatorname", r"\operatorname*"), operatorname)
    put((r"\text", r"\mbox", r"\textrm", r"\textbf", r"\textit", r"\hbox", r"\textsf", r"\textnormal"), _bare_text)
    put((r"\pmatrix", r"\matrix", r"\bmatrix", r"\cases", r"\substack", r"\smallmatrix"), old_matrix)
    put((r"\null", r"\hfill", "\\"), _skip)
    put((r"\pmod", r"\pod", r"\mod"), _modulus)
    table[r"\prime"] = _primes
    for name, sign in (("rightarrow", "→"), ("leftarrow", "←"), ("Rightarrow", "⇒"), ("Leftarrow", "⇐"),
                       ("leftrightarrow", "↔"), ("longequal", "="), ("mapsto", "↦"), ("hookrightarrow", "↪"),
                       ("rightleftharpoons", "⇌"), ("twoheadrightarrow", "↠"), ("rightleftarrows", "⇄"),
                       ("rightequilibrium", "⇌"), ("leftequilibrium", "⇋")):  # fmt: skip
        table["\\x" + name] = _arrow(sign)
    return table


ALL: dict[str, Tree | Action] = {**ATOMS, **_table()}
