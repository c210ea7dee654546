"""What commands and brackets do: fractions, roots, accents, functions, sums, fences, environments, text."""

from __future__ import annotations

import re
from collections.abc import Callable

from numjax.expr.commands import (
    ACCENTS,
    BIG,
    CASES,
    DROPPED,
    FENCES,
    FONTS,
    FUNCTIONS,
    INTEGRALS,
    MATRICES,
    QUANTIFIERS,
    ROWS,
    SWITCHES,
)
from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, PRODUCT, SUM, Infix
from numjax.expr.reader import (
    ANNOTATIONS,
    ATOMS,
    BARS,
    MISSING,
    PADDING,
    SCRIPTS,
    STOPS,
    Action,
    Reader,
    Stop,
    hint,
    leaf,
)
from numjax.expr.symbols import arity
from numjax.expr.tree import TYPES, Tree

# Where the argument of a function without parentheses ends, besides operators and closers.
_OPENERS = frozenset(["(", "[", r"\{", r"\left", r"\langle", r"\lfloor", r"\lceil", r"\lvert", r"\lVert"])
_PREFIXES = frozenset([*FUNCTIONS, *BIG, *INTEGRALS, *QUANTIFIERS, r"\partial", r"\operatorname", r"\operatorname*"])
_ENDS = STOPS | BARS | ANNOTATIONS | SCRIPTS


class Formula(Reader):
    """A reader that knows the commands."""

    __slots__ = ()

    def special(self, token: str) -> Action | None:
        if token.startswith(r"\tree["):
            return _node
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


# -- functions and big operators -------------------------------------------------------------------------------------


def _applied(reader: Reader, head: Tree) -> Tree:
    """A function with its argument: one in parentheses, or the factors up to the next bracket, function or operator."""
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
        if tokens[reader.i] in SCRIPTS and len(given) == 1:
            given = [reader.scripts(given[0])]
    elif (
        (token not in _ENDS and token not in INFIX) or (token in BARS and reader.bar != token and reader.opens(reader.i))
    ):
        reader.enter()
        factors = []
        while (token not in _ENDS and token not in INFIX) or not factors:
            if factors and (token in _OPENERS or token in _PREFIXES):
                break
            alone = token in _OPENERS or token in _PREFIXES
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
            if reader.integrand and token == "d":
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
    made = _fence(reader, token) if token == "(" else _left(reader, token)
    if made.children and (made.symbol == "interval(O-O)" or made.symbol.startswith("V-")) and reader.comma_list:
        return list(made.children)
    return [made]


def _function(reader: Reader, token: str) -> Tree:
    reader.i += 1
    head = FUNCTIONS[token]
    # A gradient is no function of its own for LaTeXML: it becomes one where it is applied.
    return _applied(reader, _NABLA if head.symbol == "∇" else head)


_NABLA = Tree("V", "∇")


def _operatorname(reader: Reader, token: str) -> Tree | None:
    at = reader.i
    reader.i += 1
    symbol = _raw(reader)
    name = "".join(part for part in symbol if part not in ("{", "}", "^", "_"))
    if not name:
        return None
    if name.startswith("\\") or not name.replace("-", "").isalnum():
        reader.i = at + 1
        made = reader.argument()
        return MISSING if made is None else made
    known = FUNCTIONS.get("\\" + name) or BIG.get("\\" + name)
    if known is not None and not reader.published:
        return _big_of(reader, known) if "\\" + name in BIG else _applied(reader, known)
    return _applied(reader, leaf("V", name))


def _raw(reader: Reader) -> list[str]:
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


def _big_of(reader: Reader, head: Tree) -> Tree:
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


def _big(reader: Reader, token: str) -> Tree:
    reader.i += 1
    return _big_of(reader, BIG[token])


def _integral(reader: Reader, token: str) -> Tree:
    reader.i += 1
    keep, reader.integrand = reader.integrand, True
    made = _big_of(reader, INTEGRALS[token])
    reader.integrand = keep
    if made.symbol == "int" and made.children and not reader.rules.bounds:
        return Tree("O", "int", [*made.children, MISSING, MISSING])
    return made


def _quantifier(reader: Reader, token: str) -> Tree:
    reader.i += 1
    return _big_of(reader, QUANTIFIERS[token])


_PARTIAL = Tree("O", "partialdiff")


def _partial(reader: Reader, token: str) -> Tree:
    """A derivative takes one factor."""
    reader.i += 1
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


# -- commands with arguments -----------------------------------------------------------------------------------------


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
    """\\overset{a}{b} is b to the a, \\underset{a}{b} b with the index a; over an operator it is a compound operator."""
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
    opener, _, rule, _ = (_raw(reader) for _ in range(4))
    first = reader.argument()
    second = reader.argument()
    symbol = "binomial" if opener == ["("] and "".join(rule).startswith("0") else "divide"
    return Tree("O", symbol, [first or MISSING, second or MISSING])


def _bare_text(reader: Reader, token: str) -> Tree | None:
    """\\text a, or with braces that the lexer could not take as one token."""
    reader.i += 1
    content = " ".join(_raw(reader)).strip()
    if not content:
        return None
    return leaf("T", content) if reader.rules.text else MISSING


def _dropped(reader: Reader, token: str) -> None:
    reader.i += 1
    for _ in range(DROPPED[token]):
        if reader.tokens[reader.i] == "[":
            reader.skip_bracket()
        _raw(reader)


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
        return _big_of(reader, made)
    return made


def _primes(reader: Reader, token: str) -> Tree:
    count = 0
    while reader.tokens[reader.i] == token:
        reader.i += 1
        count += 1
    return leaf("V", "′" * count)


def _skip(reader: Reader, token: str) -> None:
    reader.i += 1


_NOT = {"in": "notin", "eq": "neq", "subset": "not-subset-of", "leq": "not-less-than-or-equals", "lt": "not-less-than",
        "geq": "not-greater-than-or-equals", "gt": "not-greater-than", "equivalent": "not-equivalent-to",
        "exists": "not-exists", "approx": "not-approximately-equals", "divides": "not-divides"}  # fmt: skip


def _negated(reader: Reader, token: str) -> Tree | None:
    """\\not in front of what is no relation: not of it."""
    reader.i += 1
    if token == r"\not":
        made = reader.argument()
        return Tree("O", "not", [made or MISSING])
    reader.tokens[reader.i - 1] = token[4:]
    reader.i -= 1
    made = reader.argument()
    return Tree("O", "not", [made or MISSING])


def _negations() -> None:
    for sign, op in list(INFIX.items()):
        if op.power == 20 and r"\not" + sign not in INFIX:
            if op.symbol in _NOT:
                kind, symbol = ("U" if op.symbol == "eq" else "O"), _NOT[op.symbol]
            elif op.type == "F":
                continue
            else:
                kind, symbol = "O", ("not-" + op.symbol).removeprefix("not-not-")
            INFIX[r"\not" + sign] = Infix(op.power, kind, symbol, False, (kind, symbol))
    for sign in ("|", r"\mid"):
        INFIX[r"\not" + sign] = INFIX[r"\nmid"]


_negations()


# -- the printer's general notation ----------------------------------------------------------------------------------

_ESCAPED = re.compile(r"\*([0-9a-f]{1,6})\.")


def _node(reader: Reader, token: str) -> Tree:
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


# -- fences ----------------------------------------------------------------------------------------------------------


def _fence(reader: Reader, token: str) -> Tree:
    at = reader.i
    reader.i += 1
    if token == r"\{":
        return _set(reader, at, r"\}")
    if token == r"\langle":
        return _angle(reader, at)
    saved = _inside(reader)
    parts = reader.formulas()
    _outside(reader, saved)
    closer = reader.tokens[reader.i]
    if closer not in FENCES[token]:
        reader.unclosed(token, at)
    reader.i += 1
    return _fenced(reader, token, closer, parts)


def _inside(reader: Reader, bar: str = "", in_set: bool = False) -> tuple:
    reader.enter()
    saved = reader.bar, reader.in_set, reader.environments, reader.font
    reader.bar, reader.in_set, reader.environments = bar, in_set, 0
    return saved


def _outside(reader: Reader, saved: tuple) -> None:
    reader.bar, reader.in_set, reader.environments, reader.font = saved
    reader.level -= 1


def _fenced(reader: Reader, opener: str, closer: str, parts: tuple) -> Tree:
    """What a bracket makes of the formulas in it."""
    chains, relations, strong, semicolon = parts
    reader.comma_list = False
    if not chains:
        if opener == r"\{":
            return Tree("M", "S-0")
        inner = Tree("M", "L-0")
    elif len(chains) == 1 or True in relations or (True in strong[:-1] and not reader.published):
        inner = reader.joined(chains, relations, strong)
        assert inner is not None
    else:
        members = [chain[0] for chain in chains]
        count = len(members)
        if opener == r"\{":
            return Tree("M", f"S-{count}", members)
        ends = ("C" if opener == "[" else "O"), ("C" if closer == "]" else "O")
        if opener in ("(", "[") and closer in (")", "]"):
            if count == 2 and not semicolon:
                reader.comma_list = ends == ("O", "O")
                return Tree("O", f"interval({ends[0]}-{ends[1]})", members)
            if ends == ("O", "O") and count > 2:
                reader.comma_list = not semicolon
                return Tree("M", f"V-{count}", members)
        inner = reader.listed(members)
        if opener in ("(", "[", r"\langle"):
            return inner
    if opener == r"\{":
        return Tree("M", "S-1", [inner])
    if opener == "[" and closer == "]":
        return inner if inner.symbol == "L-0" else Tree("M", "D-lsqb;&rsqb;", [inner])
    if opener == r"\lfloor":
        return Tree("F", "floor", [inner])
    if opener == r"\lceil":
        return Tree("F", "ceiling", [inner])
    if opener in ("|", r"\lvert"):
        return Tree("F", "abs", [inner])
    if opener in (r"\|", r"\lVert"):
        return Tree("O", "norm", [inner])
    if opener == r"\langle":
        return Tree("M", "D-⟩", [inner])
    return inner


def _set(reader: Reader, at: int, closer: str) -> Tree:
    """\\{a, b\\} or \\{x | condition\\}."""
    tokens = reader.tokens
    saved = _inside(reader, in_set=True)
    parts = reader.formulas()
    token = tokens[reader.i]
    if token in BARS or token in (":", r"\colon") or (token == r"\middle" and closer == r"\right"):
        reader.i += 2 if token == r"\middle" else 1
        reader.in_set = False
        condition = reader.statement()
        _outside(reader, saved)
        _close_set(reader, at, closer)
        first = reader.joined(*parts[:3])
        return Tree("O", "conditional-set", [first or MISSING, condition or MISSING])
    _outside(reader, saved)
    _close_set(reader, at, closer)
    return _fenced(reader, r"\{", r"\}", parts)


def _close_set(reader: Reader, at: int, closer: str) -> None:
    if reader.tokens[reader.i] != closer:
        reader.unclosed(r"\{", at)
    reader.i += 1


def _angle(reader: Reader, at: int, closer: str = r"\rangle") -> Tree:
    """<x>, <x, y>, <x|y>, <x|A|y>, <x|."""
    tokens = reader.tokens
    segments = []
    saved = _inside(reader, bar="any")
    while True:
        segments.append(reader.formulas())
        token = tokens[reader.i]
        if token in BARS and token != r"\|" and len(segments) < 3:
            reader.i += 1
        elif token == r"\middle":
            reader.i += 2
        else:
            break
        if len(segments) == 1 and closer == r"\rangle" and not _angle_closes(tokens, reader.i):
            _outside(reader, saved)
            return Tree("O", "bra", [reader.joined(*segments[0][:3]) or MISSING])
    _outside(reader, saved)
    if tokens[reader.i] != closer:
        reader.unclosed(r"\langle", at)
    reader.i += 1
    if len(segments) == 1:
        return _fenced(reader, r"\langle", r"\rangle", segments[0])
    trees = [reader.joined(*segment[:3]) or MISSING for segment in segments]
    return Tree("O", "inner-product" if len(trees) == 2 else "quantum-operator-product", trees)


def _angle_closes(tokens: list[str], i: int) -> bool:
    """Whether \\rangle comes before the next \\langle or the end: within the next 200 tokens, to stay linear."""
    depth = 0
    for token in tokens[i : i + 200]:
        if token == r"\rangle":
            return True
        if token in (r"\langle", END, r"\\", "&"):
            return False
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return False


def _bar(reader: Reader, token: str) -> Tree:
    """|x|, or |x> of physics."""
    at = reader.i
    if token == r"\mid" and at not in reader.kets:
        reader.i += 1
        return leaf("V", "∣")
    if token == "|" and at not in reader.kets and reader.bars.get(at, 0) == 0:
        # Nothing closes it: a sign.
        reader.i += 1
        return leaf("V", "|")
    reader.i += 1
    saved = _inside(reader, bar=token)
    parts = reader.formulas()
    _outside(reader, saved)
    found = reader.tokens[reader.i]
    if found == r"\rangle" and token != r"\|":
        reader.i += 1
        return Tree("O", "ket", [reader.joined(*parts[:3]) or MISSING])
    if found != token:
        reader.unclosed(token, at)
    reader.i += 1
    return _fenced(reader, token, token, parts)


_PLAIN = {"<": r"\langle", ">": r"\rangle", r"\lvert": "|", r"\rvert": "|", r"\lVert": r"\|", r"\rVert": r"\|"}


def _left(reader: Reader, token: str) -> Tree:
    """\\left( … \\right): any two delimiters."""
    at = reader.i
    tokens = reader.tokens
    opener = _PLAIN.get(tokens[at + 1], tokens[at + 1])
    if opener == END:
        raise Stop(r"\left without a delimiter", at)
    reader.i += 2
    if opener == r"\{":
        made = _set(reader, at, r"\right")
        _delimiter(reader, at)
        return made
    if opener == r"\langle":
        made = _angle(reader, at, r"\right")
        _delimiter(reader, at)
        return made
    saved = _inside(reader)
    segments = [reader.formulas()]
    while tokens[reader.i] == r"\middle":
        reader.i += 2
        segments.append(reader.formulas())
    _outside(reader, saved)
    if tokens[reader.i] != r"\right":
        reader.unclosed(r"\left", at)
    reader.i += 1
    closer = _delimiter(reader, at)
    parts = segments[0]
    if len(segments) > 1:
        trees = [reader.joined(*segment[:3]) or MISSING for segment in segments]
        tree = trees[0]
        for right in trees[1:]:
            tree = Tree("O", "conditional", [tree, right])
        parts = ([[tree]], [False], [False], False)
    if closer == r"\rangle" and opener == "|":
        return Tree("O", "ket", [reader.joined(*parts[:3]) or MISSING])
    if opener == "." and closer in ("|", "]", ")"):
        inner = reader.joined(*parts[:3]) or MISSING
        bounds = []
        for script in ("_", "^"):
            if tokens[reader.i] == script:
                reader.i += 1
                bounds.append(reader.argument() or MISSING)
        return Tree("O", "evaluated-at", [inner, *bounds]) if bounds else inner
    return _fenced(reader, opener, closer, parts)


def _delimiter(reader: Reader, at: int) -> str:
    found = reader.tokens[reader.i]
    if found == END or found == "}":
        raise Stop(r"\right without a delimiter", reader.i)
    reader.i += 1
    return _PLAIN.get(found, found)


def _reversed_bracket(reader: Reader, token: str) -> Tree:
    """]a, b[: French open intervals."""
    raise Stop(f"{token} is not opened", reader.i)


# -- environments ----------------------------------------------------------------------------------------------------


def _begin(reader: Reader, token: str) -> Tree | None:
    at = reader.i
    reader.i += 1
    name = "".join(_raw(reader)).rstrip("*")
    if name not in MATRICES and name not in CASES and name not in ROWS:
        raise Stop(f"unknown environment {name}", at)
    if reader.tokens[reader.i] == "[":
        reader.skip_bracket()
    if name in ("array", "subarray", "tabular", "alignat", "alignedat", "darray"):
        _raw(reader)
    reader.enter()
    saved = reader.font, reader.bar, reader.in_set, reader.environments
    reader.bar, reader.in_set, reader.environments = "", False, 1
    if name in ROWS:
        _blank(reader)
    rows = _rows(reader, at)
    reader.font, reader.bar, reader.in_set, reader.environments = saved
    reader.level -= 1
    ended = "".join(_raw(reader)).rstrip("*")
    if ended != name:
        raise Stop(f"{name} ends as {ended}", at)
    if name in ROWS:
        trees = [row[0] for row in rows if row[0] is not PADDING]
        if not trees:
            return None
        return trees[0] if len(trees) == 1 else Tree("O", "form-seq", trees)
    if name in CASES:
        return Tree("O", "cases", [cell for row in rows for cell in row]) if rows else None
    return _matrix(rows, name)


def _blank(reader: Reader) -> None:
    """The alignment marks of this environment's own rows taken out."""
    tokens = reader.tokens
    depth = 0
    for i in range(reader.i, len(tokens)):
        token = tokens[i]
        if token == r"\begin":
            depth += 1
        elif token == r"\end":
            depth -= 1
            if depth < 0:
                return
        elif token == "&" and not depth:
            tokens[i] = r"\null"


def _rows(reader: Reader, at: int) -> list[list[Tree]]:
    tokens = reader.tokens
    rows: list[list[Tree]] = []
    row: list[Tree] = []
    while True:
        cell = reader.statement()
        token = tokens[reader.i]
        row.append(PADDING if cell is None else cell)
        if token == "&":
            reader.i += 1
            continue
        if token not in (r"\\", r"\end"):
            reader.unclosed(r"\begin", at)
        reader.i += 1
        if len(row) > 1 or row[0] is not PADDING:
            rows.append(row)
        row = []
        if token == r"\end":
            return rows
        if tokens[reader.i] == "[":
            reader.skip_bracket()


def _matrix(rows: list[list[Tree]], name: str) -> Tree | None:
    if not rows:
        return Tree("M", "L-0")
    width = max(len(row) for row in rows)
    padded = [Tree("M", "R!", [*row, *[PADDING] * (width - len(row))]) for row in rows]
    made = Tree("M", f"M-{len(rows)}x{width}", padded)
    if name == "vmatrix":
        return Tree("F", "det", [made])
    if name == "Vmatrix":
        return Tree("O", "norm", [made])
    return made


def _old_matrix(reader: Reader, token: str) -> Tree | None:
    """Plain TeX's \\pmatrix{a & b \\cr c & d}."""
    at = reader.i
    reader.i += 1
    if reader.tokens[reader.i] != "{":
        raise Stop(f"{token} without its braces", at)
    reader.i += 1
    reader.enter()
    saved = reader.font, reader.bar, reader.in_set, reader.environments
    reader.bar, reader.in_set, reader.environments = "", False, 1
    rows: list[list[Tree]] = []
    row: list[Tree] = []
    while True:
        cell = reader.statement()
        row.append(PADDING if cell is None else cell)
        found = reader.tokens[reader.i]
        if found == "&":
            reader.i += 1
            continue
        if found not in (r"\\", "}"):
            reader.unclosed(token, at)
        reader.i += 1
        if len(row) > 1 or row[0] is not PADDING:
            rows.append(row)
        row = []
        if found == "}":
            break
    reader.font, reader.bar, reader.in_set, reader.environments = saved
    reader.level -= 1
    if token == r"\cases":
        return Tree("O", "cases", [cell for row in rows for cell in row]) if rows else None
    if token == r"\substack":
        trees = [row[0] for row in rows]
        return reader.listed(trees) if len(trees) > 1 else trees[0] if trees else None
    return _matrix(rows, token[1:])


# -- the table -------------------------------------------------------------------------------------------------------


def _table() -> dict[str, Action]:
    table: dict[str, Action] = {"{": _group, r"\left": _left, r"\begin": _begin, r"\partial": _partial}

    def put(names, action: Callable) -> None:
        table.update(dict.fromkeys(names, action))

    put(FUNCTIONS, _function)
    put(BIG, _big)
    put(INTEGRALS, _integral)
    put(QUANTIFIERS, _quantifier)
    put(ACCENTS, _accent)
    put(FONTS, _font)
    put(FENCES, _fence)
    put(BARS, _bar)
    put(DROPPED, _dropped)
    put((r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\sfrac", r"\nicefrac"), _pair("divide"))
    put((r"\binom", r"\dbinom", r"\tbinom"), _pair("binomial"))
    put((r"\sqrt",), _root)
    put((r"\root",), _plain_root)
    put((r"\genfrac",), _general_fraction)
    put((r"\stackrel", r"\overset", r"\underset", r"\buildrel"), _stacked)
    put((r"\operatorname", r"\operatorname*"), _operatorname)
    put((r"\text", r"\mbox", r"\textrm", r"\textbf", r"\textit", r"\hbox", r"\textsf", r"\textnormal"), _bare_text)
    put((r"\pmatrix", r"\matrix", r"\bmatrix", r"\cases", r"\substack", r"\smallmatrix"), _old_matrix)
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
PREFIXES = _PREFIXES
