"""Brackets, bars and \\left … \\right: what they make of the formulas in them."""

from __future__ import annotations

from numjax.expr.commands import FENCES
from numjax.expr.lexer import END
from numjax.expr.reader import Reader
from numjax.expr.state import BARS, MISSING, Parts, Stop, leaf
from numjax.expr.tree import Tree


def fence(reader: Reader, token: str) -> Tree:
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
    return fenced(reader, token, closer, parts)


def _inside(reader: Reader, bar: str = "", in_set: bool = False) -> tuple:
    reader.enter()
    saved = reader.bar, reader.in_set, reader.environments, reader.font
    reader.bar, reader.in_set, reader.environments = bar, in_set, 0
    return saved


def _outside(reader: Reader, saved: tuple) -> None:
    reader.bar, reader.in_set, reader.environments, reader.font = saved
    reader.level -= 1


def fenced(reader: Reader, opener: str, closer: str, parts: Parts) -> Tree:
    """What a bracket makes of the formulas in it."""
    chains = parts.chains
    reader.comma_list = False
    if not chains:
        if opener == r"\{":
            return Tree("M", "S-0")
        inner = Tree("M", "L-0")
    elif (
        len(chains) == 1
        or any(len(chain) > 1 for chain in chains)
        or (True in parts.wides[:-1] and not reader.published)
    ):
        inner = reader.joined(parts)
        assert inner is not None
    else:
        members = [chain[0] for chain in chains]
        count = len(members)
        if opener == r"\{":
            return Tree("M", f"S-{count}", members)
        ends = ("C" if opener == "[" else "O"), ("C" if closer == "]" else "O")
        if opener in ("(", "[") and closer in (")", "]"):
            if count == 2 and not parts.semicolon:
                reader.comma_list = ends == ("O", "O")
                return Tree("O", f"interval({ends[0]}-{ends[1]})", members)
            if ends == ("O", "O") and count > 2:
                reader.comma_list = not parts.semicolon
                return Tree("M", f"V-{count}", members)
        inner = reader.listed(members)
        if opener in ("(", "[") or (opener == r"\langle" and reader.published):
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
        reader.i += 1
        if token == r"\middle":
            _delimiter(reader, at)
        reader.in_set = False
        condition = reader.statement()
        _outside(reader, saved)
        _close_set(reader, at, closer)
        first = reader.joined(parts)
        return Tree("O", "conditional-set", [first or MISSING, condition or MISSING])
    _outside(reader, saved)
    _close_set(reader, at, closer)
    return fenced(reader, r"\{", r"\}", parts)


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
            reader.i += 1
            _delimiter(reader, at)
        else:
            break
        if len(segments) == 1 and closer == r"\rangle" and not _angle_closes(tokens, reader.i):
            _outside(reader, saved)
            return Tree("O", "bra", [reader.joined(segments[0]) or MISSING])
    _outside(reader, saved)
    if tokens[reader.i] != closer:
        reader.unclosed(r"\langle", at)
    reader.i += 1
    if len(segments) == 1:
        return fenced(reader, r"\langle", r"\rangle", segments[0])
    trees = [reader.joined(segment) or MISSING for segment in segments]
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


def bar(reader: Reader, token: str) -> Tree:
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
        return Tree("O", "ket", [reader.joined(parts) or MISSING])
    if found != token:
        reader.unclosed(token, at)
    reader.i += 1
    return fenced(reader, token, token, parts)


_PLAIN = {"<": r"\langle", ">": r"\rangle", r"\lvert": "|", r"\rvert": "|", r"\lVert": r"\|", r"\rVert": r"\|"}


def left(reader: Reader, token: str) -> Tree:
    """\\left( … \\right): any two delimiters."""
    at = reader.i
    tokens = reader.tokens
    opener = _PLAIN.get(tokens[at + 1]) or tokens[at + 1]
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
        reader.i += 1
        _delimiter(reader, at)
        segments.append(reader.formulas())
    _outside(reader, saved)
    if tokens[reader.i] != r"\right":
        reader.unclosed(r"\left", at)
    reader.i += 1
    closer = _delimiter(reader, at)
    parts = segments[0]
    if len(segments) > 1:
        trees = [reader.joined(segment) or MISSING for segment in segments]
        tree = trees[0]
        for right in trees[1:]:
            tree = Tree("O", "conditional", [tree, right])
        parts = Parts([[tree]], [False], False)
    if closer == r"\rangle" and opener == "|":
        return Tree("O", "ket", [reader.joined(parts) or MISSING])
    if opener == "." and closer in ("|", "]", ")"):
        inner = reader.joined(parts) or MISSING
        bounds = []
        for script in ("_", "^"):
            if tokens[reader.i] == script:
                reader.i += 1
                bounds.append(reader.argument() or MISSING)
        return Tree("O", "evaluated-at", [inner, *bounds]) if bounds else inner
    return fenced(reader, opener, closer, parts)


def _delimiter(reader: Reader, at: int) -> str:
    found = reader.tokens[reader.i]
    if found == END or found == "}":
        raise Stop("a delimiter is missing", reader.i)
    reader.i += 1
    return _PLAIN.get(found) or found
