"""Brackets, bars and \\left … \\right, with the formulas in them."""

from __future__ import annotations

from numjax.expr.latex.commands import FENCES
from numjax.expr.latex.lexer import END
from numjax.expr.latex.reader import ExpressionReader
from numjax.expr.latex.state import BARS, MISSING, Parts, Stop, make_leaf
from numjax.expr.tree import Tree


def parse_fence(reader: ExpressionReader, token: str) -> Tree:
    start = reader.i
    reader.i += 1
    if token == r"\{":
        return _parse_set(reader, start, r"\}")
    if token == r"\langle":
        return _parse_angle(reader, start)
    saved = _enter_fence(reader)
    parts = reader.parse_formulas()
    _leave_fence(reader, saved)
    closer = reader.tokens[reader.i]
    if closer not in FENCES[token]:
        reader.raise_unclosed(token, start)
    reader.i += 1
    return make_fenced(reader, token, closer, parts)


def _enter_fence(reader: ExpressionReader, bar: str = "", in_set: bool = False) -> tuple:
    reader.enter()
    saved = reader.bar, reader.in_set, reader.environments, reader.font
    reader.bar, reader.in_set, reader.environments = bar, in_set, 0
    return saved


def _leave_fence(reader: ExpressionReader, saved: tuple) -> None:
    reader.bar, reader.in_set, reader.environments, reader.font = saved
    reader.level -= 1


def make_fenced(reader: ExpressionReader, opener: str, closer: str, parts: Parts) -> Tree:
    """The tree of a bracket with the formulas in it."""
    chains = parts.chains
    reader.is_comma_list = False
    if not chains:
        if opener == r"\{":
            return Tree("M", "S-0")
        inner = Tree("M", "L-0")
    elif (
        len(chains) == 1
        or any(len(chain) > 1 for chain in chains)
        or (True in parts.wides[:-1] and not reader.as_published)
    ):
        inner = reader.join(parts)
        assert inner is not None
    else:
        members = [chain[0] for chain in chains]
        count = len(members)
        if opener == r"\{":
            return Tree("M", f"S-{count}", members)
        ends = ("C" if opener == "[" else "O"), ("C" if closer == "]" else "O")
        if opener in ("(", "[") and closer in (")", "]"):
            if count == 2 and not parts.semicolon:
                reader.is_comma_list = ends == ("O", "O")
                return Tree("O", f"interval({ends[0]}-{ends[1]})", members)
            if ends == ("O", "O") and count > 2:
                reader.is_comma_list = not parts.semicolon
                return Tree("M", f"V-{count}", members)
        inner = reader.make_list(members)
        if opener in ("(", "[") or (opener == r"\langle" and reader.as_published):
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


def _parse_set(reader: ExpressionReader, start: int, closer: str) -> Tree:
    """\\{a, b\\} or \\{x | condition\\}."""
    tokens = reader.tokens
    saved = _enter_fence(reader, in_set=True)
    parts = reader.parse_formulas()
    token = tokens[reader.i]
    if token in BARS or token in (":", r"\colon") or (token == r"\middle" and closer == r"\right"):
        reader.i += 1
        if token == r"\middle":
            _take_delimiter(reader, start)
        reader.in_set = False
        condition = reader.parse_statement()
        _leave_fence(reader, saved)
        _close_set(reader, start, closer)
        first = reader.join(parts)
        return Tree("O", "conditional-set", [first or MISSING, condition or MISSING])
    _leave_fence(reader, saved)
    _close_set(reader, start, closer)
    return make_fenced(reader, r"\{", r"\}", parts)


def _close_set(reader: ExpressionReader, start: int, closer: str) -> None:
    if reader.tokens[reader.i] != closer:
        reader.raise_unclosed(r"\{", start)
    reader.i += 1


def _parse_angle(reader: ExpressionReader, start: int, closer: str = r"\rangle") -> Tree:
    """<x>, <x, y>, <x|y>, <x|A|y>, <x|."""
    tokens = reader.tokens
    segments = []
    saved = _enter_fence(reader, bar="any")
    while True:
        segments.append(reader.parse_formulas())
        token = tokens[reader.i]
        if token in BARS and token != r"\|" and len(segments) < 3:
            reader.i += 1
        elif token == r"\middle":
            reader.i += 1
            _take_delimiter(reader, start)
        else:
            break
        if len(segments) == 1 and closer == r"\rangle" and not _has_closing_angle(tokens, reader.i):
            _leave_fence(reader, saved)
            return Tree("O", "bra", [reader.join(segments[0]) or MISSING])
    _leave_fence(reader, saved)
    if tokens[reader.i] != closer:
        reader.raise_unclosed(r"\langle", start)
    reader.i += 1
    if len(segments) == 1:
        return make_fenced(reader, r"\langle", r"\rangle", segments[0])
    trees = [reader.join(segment) or MISSING for segment in segments]
    return Tree("O", "inner-product" if len(trees) == 2 else "quantum-operator-product", trees)


def _has_closing_angle(tokens: list[str], i: int) -> bool:
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


def parse_bar(reader: ExpressionReader, token: str) -> Tree:
    """|x|, or |x> of physics."""
    start = reader.i
    if token == r"\mid" and start not in reader.kets:
        reader.i += 1
        return make_leaf("V", "∣")
    if token == "|" and start not in reader.kets and reader.bars.get(start, 0) == 0:
        # Nothing closes it: a sign.
        reader.i += 1
        return make_leaf("V", "|")
    reader.i += 1
    saved = _enter_fence(reader, bar=token)
    parts = reader.parse_formulas()
    _leave_fence(reader, saved)
    closer = reader.tokens[reader.i]
    if closer == r"\rangle" and token != r"\|":
        reader.i += 1
        return Tree("O", "ket", [reader.join(parts) or MISSING])
    if closer != token:
        reader.raise_unclosed(token, start)
    reader.i += 1
    tree = make_fenced(reader, token, token, parts)
    is_double = token == "|" and reader.tokens[start + 1] == "|"
    if is_double and tree.children and len(parts.chains) == 1 and tree.children[0].symbol == "abs":
        # | |x| |, where nothing else is between the bars.
        return Tree("O", "norm", tree.children[0].children)
    return tree


_PLAIN = {"<": r"\langle", ">": r"\rangle", r"\lvert": "|", r"\rvert": "|", r"\lVert": r"\|", r"\rVert": r"\|"}


def parse_left(reader: ExpressionReader, token: str) -> Tree:
    """\\left( … \\right): any two delimiters."""
    start = reader.i
    tokens = reader.tokens
    opener = _PLAIN.get(tokens[start + 1]) or tokens[start + 1]
    if opener == END:
        raise Stop(r"\left without a delimiter", start)
    reader.i += 2
    if opener == r"\{":
        tree = _parse_set(reader, start, r"\right")
        _take_delimiter(reader, start)
        return tree
    if opener == r"\langle":
        tree = _parse_angle(reader, start, r"\right")
        _take_delimiter(reader, start)
        return tree
    saved = _enter_fence(reader)
    segments = [reader.parse_formulas()]
    while tokens[reader.i] == r"\middle":
        reader.i += 1
        _take_delimiter(reader, start)
        segments.append(reader.parse_formulas())
    _leave_fence(reader, saved)
    if tokens[reader.i] != r"\right":
        reader.raise_unclosed(r"\left", start)
    reader.i += 1
    closer = _take_delimiter(reader, start)
    parts = segments[0]
    if len(segments) > 1:
        trees = [reader.join(segment) or MISSING for segment in segments]
        tree = trees[0]
        for right in trees[1:]:
            tree = Tree("O", "conditional", [tree, right])
        parts = Parts([[tree]], [False], False)
    if closer == r"\rangle" and opener == "|":
        return Tree("O", "ket", [reader.join(parts) or MISSING])
    if opener == "." and closer in ("|", "]", ")"):
        inner = reader.join(parts) or MISSING
        bounds = []
        for script in ("_", "^"):
            if tokens[reader.i] == script:
                reader.i += 1
                bounds.append(reader.parse_argument() or MISSING)
        return Tree("O", "evaluated-at", [inner, *bounds]) if bounds else inner
    return make_fenced(reader, opener, closer, parts)


def _take_delimiter(reader: ExpressionReader, start: int) -> str:
    delimiter = reader.tokens[reader.i]
    if delimiter == END or delimiter == "}":
        raise Stop("a delimiter is missing", reader.i)
    reader.i += 1
    return _PLAIN.get(delimiter) or delimiter
