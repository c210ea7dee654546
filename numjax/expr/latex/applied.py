"""Functions, sums, integrals and quantifiers with their arguments."""

from __future__ import annotations

from numjax.expr.latex.commands import BIG, FUNCTIONS, INTEGRALS, QUANTIFIERS
from numjax.expr.latex.fences import parse_fence, parse_left
from numjax.expr.latex.lexer import END
from numjax.expr.latex.operands import FRACTION_COMMANDS
from numjax.expr.latex.reader import ExpressionReader
from numjax.expr.latex.state import ANNOTATIONS, BARS, MISSING, SCRIPTS, STOPS, Stop, hint, make_leaf
from numjax.expr.operators import INFIX, PRODUCT
from numjax.expr.tree import Tree

# Where the argument of a function without parentheses ends, besides operators and closers.
_OPENERS = frozenset(["(", "[", r"\{", r"\left", r"\langle", r"\lfloor", r"\lceil", r"\lvert", r"\lVert"])
PREFIXES = frozenset([*FUNCTIONS, *BIG, *INTEGRALS, *QUANTIFIERS, r"\partial", r"\operatorname", r"\operatorname*"])
_ENDS = STOPS | BARS | ANNOTATIONS | SCRIPTS
_PARTNERS = {"[": "]", r"\{": r"\}"}
_BRACKETED = ("D-lsqb", "interval(C-C)", "L-", "S-")  # beginnings of their symbols
_LIMITS = frozenset(["det", "dimension"])  # to LaTeXML these are like limits, with all factors that follow


def parse_application(reader: ExpressionReader, head: Tree) -> Tree:
    """A function with its argument: one in parentheses, or the factors up to the next bracket, function or sign."""
    tokens = reader.tokens
    op = head
    if tokens[reader.i] in ("^", "_", "'"):
        op = reader.parse_scripts(head)
        if op.symbol in ("factorial", "percent", "double-factorial"):
            return op
    token = tokens[reader.i]
    arguments: list[Tree] = []
    opener = tokens[reader.i + 1] if token == r"\left" else token
    if opener == "(" or (reader.as_published and opener in _PARTNERS and head.symbol not in _LIMITS):
        arguments = _parse_arguments(reader, token)
        if reader.as_published and tokens[reader.i] in SCRIPTS and len(arguments) == 1:
            # By default sin(x)^2 is the square of sin(x).
            arguments = [reader.parse_scripts(arguments[0])]
    elif (token not in _ENDS and token not in INFIX) or (
        token in BARS and reader.bar != token and reader.opens_group(reader.i)
    ):
        reader.enter()
        factors = []
        while (token not in _ENDS and token not in INFIX) or not factors:
            if factors and (token in _OPENERS or token in PREFIXES):
                break
            is_last = token in _OPENERS or token in PREFIXES
            saved, reader.in_integrand = (
                reader.in_integrand,
                reader.in_integrand and reader.rules.differentials == "everywhere",
            )
            start = reader.i
            factor = reader.parse_operand()
            reader.in_integrand = saved
            if factor is not None:
                number = None
                if factors and token in FRACTION_COMMANDS:
                    number = reader.join_mixed_number(start, factors[-1], factor)
                if number is not None:
                    factors.pop()
                factors.append(number or factor)
            elif reader.i == start:
                break
            if is_last:
                break
            token = tokens[reader.i]
            if token == "d" and reader.in_integrand and reader.rules.differentials == "everywhere":
                break
        reader.level -= 1
        if factors:
            arguments = [factors[0] if len(factors) == 1 else Tree("U", "times", factors)]
    if not arguments:
        return op
    if op is not head:
        return Tree("+", hint(op), [op, *arguments])
    return Tree("F" if head.type == "V" else head.type, head.symbol, arguments)


def _parse_arguments(reader: ExpressionReader, token: str) -> list[Tree]:
    """The members of the brackets that follow a function."""
    opener = reader.tokens[reader.i + (token == r"\left")]
    tree = parse_left(reader, token) if token == r"\left" else parse_fence(reader, token)
    if opener == "(":
        is_list = reader.is_comma_list and tree.symbol.startswith(("interval(O-O)", "V-"))
    else:
        # LaTeXML drops the brackets of a function, whatever they are.
        is_list = reader.tokens[reader.i - 1] == _PARTNERS[opener] and tree.symbol.startswith(_BRACKETED)
    return list(tree.children) if tree.children and is_list else [tree]


def parse_function(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    head = FUNCTIONS[token]
    # LaTeXML's gradient is a variable that becomes a function where it has an argument.
    return parse_application(reader, _NABLA if head.symbol == "∇" else head)


_NABLA = Tree("V", "∇")


def parse_operatorname(reader: ExpressionReader, token: str) -> Tree | None:
    start = reader.i
    reader.i += 1
    symbol = take_raw_argument(reader)
    name = "".join(part for part in symbol if part not in ("{", "}", "^", "_"))
    if not name:
        return None
    if name.startswith("\\") or not name.replace("-", "").isalnum():
        reader.i = start + 1
        tree = reader.parse_argument()
        return MISSING if tree is None else tree
    function = FUNCTIONS.get("\\" + name) or BIG.get("\\" + name)
    if function is not None and not reader.as_published:
        return parse_big_operand(reader, function) if "\\" + name in BIG else parse_application(reader, function)
    return parse_application(reader, make_leaf("V", name))


def take_raw_argument(reader: ExpressionReader) -> list[str]:
    """The raw tokens of a braced argument, or the single token of one without braces."""
    tokens = reader.tokens
    start = reader.i
    if tokens[start] != "{":
        if tokens[start] in STOPS:
            return []
        reader.i += 1
        return [tokens[start]]
    depth = 0
    i = start
    while tokens[i] != END:
        if tokens[i] == "{":
            depth += 1
        elif tokens[i] == "}":
            depth -= 1
            if not depth:
                reader.i = i + 1
                return tokens[start + 1 : i]
        i += 1
    raise Stop("{ is not closed", start)


def parse_big_operand(reader: ExpressionReader, head: Tree) -> Tree:
    tokens = reader.tokens
    op = reader.parse_scripts(head) if tokens[reader.i] in ("^", "_", "'") else head
    reader.enter()
    body = reader.parse_expression(PRODUCT)
    reader.level -= 1
    if body is None:
        return op
    if op is not head:
        return Tree("+", hint(op), [op, body])
    return Tree(head.type, head.symbol, [body])


def parse_big(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    return parse_big_operand(reader, BIG[token])


def parse_integral(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    return parse_integrand(reader, INTEGRALS[token])


def parse_integrand(reader: ExpressionReader, head: Tree) -> Tree:
    """An integral sign with its integrand, where d x is a differential."""
    saved, reader.in_integrand = reader.in_integrand, True
    tree = parse_big_operand(reader, head)
    reader.in_integrand = saved
    if tree.symbol == "int" and tree.children and not reader.rules.bounds:
        return Tree("O", "int", [*tree.children, MISSING, MISSING])
    return tree


def parse_quantifier(reader: ExpressionReader, token: str) -> Tree:
    reader.i += 1
    return parse_big_operand(reader, QUANTIFIERS[token])


_PARTIAL = Tree("O", "partialdiff")


def parse_partial(reader: ExpressionReader, token: str) -> Tree:
    """∂ with one factor; published, with all factors that follow, as a sum has. Before a sign it stands alone."""
    reader.i += 1
    tokens = reader.tokens
    op = reader.parse_scripts(_PARTIAL) if tokens[reader.i] in ("^", "_", "'") else _PARTIAL
    token = tokens[reader.i]
    if token in INFIX or (token in _ENDS and not reader.as_published):
        return op
    reader.enter()
    operand = reader.parse_expression(PRODUCT) if reader.as_published else reader.parse_operand()
    reader.level -= 1
    if operand is None:
        return op
    if op is not _PARTIAL:
        return Tree("+", hint(op), [op, operand])
    return Tree("O", "partialdiff", [operand])
