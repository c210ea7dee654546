"""Functions, sums, integrals and quantifiers with what they are applied to."""

from __future__ import annotations

from numjax.expr.commands import BIG, FUNCTIONS, INTEGRALS, QUANTIFIERS
from numjax.expr.fences import fence, left
from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, PRODUCT
from numjax.expr.reader import Reader
from numjax.expr.state import ANNOTATIONS, BARS, MISSING, SCRIPTS, STOPS, Stop, hint, leaf
from numjax.expr.tree import Tree

# Where the argument of a function without parentheses ends, besides operators and closers.
_OPENERS = frozenset(["(", "[", r"\{", r"\left", r"\langle", r"\lfloor", r"\lceil", r"\lvert", r"\lVert"])
PREFIXES = frozenset([*FUNCTIONS, *BIG, *INTEGRALS, *QUANTIFIERS, r"\partial", r"\operatorname", r"\operatorname*"])
_ENDS = STOPS | BARS | ANNOTATIONS | SCRIPTS


def applied(reader: Reader, head: Tree) -> Tree:
    """A function with its argument: one in parentheses, or the factors up to the next bracket, function or sign."""
    tokens = reader.tokens
    op = head
    if tokens[reader.i] in ("^", "_", "'"):
        op = reader.scripts(head)
        if op.symbol in ("factorial", "percent", "double-factorial"):
            return op
    token = tokens[reader.i]
    given: list[Tree] = []
    if token == "(" or (token == r"\left" and tokens[reader.i + 1] == "("):
        given = _arguments(reader, token)
        if reader.published and tokens[reader.i] in SCRIPTS and len(given) == 1:
            # By default sin(x)^2 is the square of sin(x).
            given = [reader.scripts(given[0])]
    elif (token not in _ENDS and token not in INFIX) or (
        token in BARS and reader.bar != token and reader.opens(reader.i)
    ):
        reader.enter()
        factors = []
        while (token not in _ENDS and token not in INFIX) or not factors:
            if factors and (token in _OPENERS or token in PREFIXES):
                break
            alone = token in _OPENERS or token in PREFIXES
            integrand, reader.integrand = (
                reader.integrand,
                reader.integrand and reader.rules.differentials == "everywhere",
            )
            at = reader.i
            factor = reader.operand()
            reader.integrand = integrand
            if factor is not None:
                factors.append(factor)
            elif reader.i == at:
                break
            if alone:
                break
            token = tokens[reader.i]
            if token == "d" and reader.integrand and reader.rules.differentials == "everywhere":
                break
        reader.level -= 1
        if factors:
            given = [factors[0] if len(factors) == 1 else Tree("U", "times", factors)]
    if not given:
        return op
    if op is not head:
        return Tree("+", hint(op), [op, *given])
    return Tree("F" if head.type == "V" else head.type, head.symbol, given)


def _arguments(reader: Reader, token: str) -> list[Tree]:
    """The members of the parenthesis that follows a function."""
    made = fence(reader, token) if token == "(" else left(reader, token)
    if made.children and (made.symbol == "interval(O-O)" or made.symbol.startswith("V-")) and reader.comma_list:
        return list(made.children)
    return [made]


def function(reader: Reader, token: str) -> Tree:
    reader.i += 1
    head = FUNCTIONS[token]
    # A gradient is no function of its own for LaTeXML: it becomes one where it is applied.
    return applied(reader, _NABLA if head.symbol == "∇" else head)


_NABLA = Tree("V", "∇")


def operatorname(reader: Reader, token: str) -> Tree | None:
    at = reader.i
    reader.i += 1
    symbol = raw(reader)
    name = "".join(part for part in symbol if part not in ("{", "}", "^", "_"))
    if not name:
        return None
    if name.startswith("\\") or not name.replace("-", "").isalnum():
        reader.i = at + 1
        made = reader.argument()
        return MISSING if made is None else made
    known = FUNCTIONS.get("\\" + name) or BIG.get("\\" + name)
    if known is not None and not reader.published:
        return big_of(reader, known) if "\\" + name in BIG else applied(reader, known)
    return applied(reader, leaf("V", name))


def raw(reader: Reader) -> list[str]:
    """The tokens of a braced argument, unread, or the one token that stands for it."""
    tokens = reader.tokens
    at = reader.i
    if tokens[at] != "{":
        if tokens[at] in STOPS:
            return []
        reader.i += 1
        return [tokens[at]]
    depth = 0
    i = at
    while tokens[i] != END:
        if tokens[i] == "{":
            depth += 1
        elif tokens[i] == "}":
            depth -= 1
            if not depth:
                reader.i = i + 1
                return tokens[at + 1 : i]
        i += 1
    raise Stop("{ is not closed", at)


def big_of(reader: Reader, head: Tree) -> Tree:
    tokens = reader.tokens
    op = reader.scripts(head) if tokens[reader.i] in ("^", "_", "'") else head
    reader.enter()
    body = reader.expression(PRODUCT)
    reader.level -= 1
    if body is None:
        return op
    if op is not head:
        return Tree("+", hint(op), [op, body])
    return Tree(head.type, head.symbol, [body])


def big(reader: Reader, token: str) -> Tree:
    reader.i += 1
    return big_of(reader, BIG[token])


def integral(reader: Reader, token: str) -> Tree:
    reader.i += 1
    return integrated(reader, INTEGRALS[token])


def integrated(reader: Reader, head: Tree) -> Tree:
    """An integral sign with its integrand, where d x is a differential."""
    keep, reader.integrand = reader.integrand, True
    made = big_of(reader, head)
    reader.integrand = keep
    if made.symbol == "int" and made.children and not reader.rules.bounds:
        return Tree("O", "int", [*made.children, MISSING, MISSING])
    return made


def quantifier(reader: Reader, token: str) -> Tree:
    reader.i += 1
    return big_of(reader, QUANTIFIERS[token])


_PARTIAL = Tree("O", "partialdiff")


def partial(reader: Reader, token: str) -> Tree:
    """A derivative takes one factor; for LaTeXML all that follow, as a sum does."""
    reader.i += 1
    if reader.published:
        return big_of(reader, _PARTIAL)
    tokens = reader.tokens
    op = reader.scripts(_PARTIAL) if tokens[reader.i] in ("^", "_", "'") else _PARTIAL
    token = tokens[reader.i]
    if token in _ENDS or token in INFIX:
        return op
    reader.enter()
    of = reader.operand()
    reader.level -= 1
    if of is None:
        return op
    if op is not _PARTIAL:
        return Tree("+", hint(op), [op, of])
    return Tree("O", "partialdiff", [of])
