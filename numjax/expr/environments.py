"""Matrices, cases and aligned rows."""

from __future__ import annotations

from collections.abc import Sequence

from numjax.expr.applied import raw
from numjax.expr.commands import CASES, MATRICES, ROWS
from numjax.expr.fences import left
from numjax.expr.reader import Reader
from numjax.expr.state import LARGEST, MISSING, PADDING, Stop
from numjax.expr.tree import Tree


def begin(reader: Reader, token: str) -> Tree | None:
    at = reader.i
    reader.i += 1
    name = "".join(raw(reader)).rstrip("*")
    if name not in MATRICES and name not in CASES and name not in ROWS:
        raise Stop(f"unknown environment {name}", at)
    _columns(reader, name)
    reader.enter()
    saved = reader.font, reader.bar, reader.in_set, reader.environments
    reader.bar, reader.in_set, reader.environments = "", False, 1
    if name in ROWS:
        _blank(reader)
    start = reader.i
    rows = _rows(reader, at)
    if name in CASES and not reader.published and aligned(rows):
        reader.undo(start)
        _blank(reader)
        rows = _rows(reader, at)
    reader.font, reader.bar, reader.in_set, reader.environments = saved
    reader.level -= 1
    ended = "".join(raw(reader)).rstrip("*")
    if ended != name:
        raise Stop(f"{name} ends as {ended}", at)
    if name in ROWS:
        trees = [row[0] for row in rows if row[0] is not PADDING]
        if not trees:
            return None
        return trees[0] if len(trees) == 1 else Tree("O", "form-seq", trees)
    if name in CASES:
        return cases(rows, reader.published) if rows else None
    return _matrix(reader, rows, name)


def cases(rows: Sequence[Sequence[Tree]], published: bool = False) -> Tree:
    """Values and conditions in turn, with E for a condition that is not there; published, whatever the rows hold."""
    width = 1 if published else max(2, *map(len, rows))
    return Tree("O", "cases", [cell for row in rows for cell in (*row, *[PADDING] * (width - len(row)))])


def braced(reader: Reader, token: str) -> Tree:
    """\\left …; a brace on the left alone of an array is cases, whose columns may be there to align."""
    at, tokens = reader.i, reader.tokens
    made = left(reader, token)
    if reader.published or tokens[at + 1 : at + 3] != [r"\{", r"\begin"] or tokens[reader.i - 1] != ".":
        return made
    rows = _members(made) if r"\\" in tokens[at : reader.i] else []
    if aligned(rows):
        # x & = & 3: the cells of a row are one formula.
        reader.undo(at + 3)
        _columns(reader, "".join(raw(reader)))
        _blank(reader)
        reader.i = at
        rows = _members(left(reader, token))
    return cases(rows) if rows and len(rows[0]) < 3 else made


def aligned(rows: Sequence[Sequence[Tree]]) -> bool:
    """Whether columns are there to align: a cell behind the first goes on with a relation."""
    return any(_begins_with_sign(cell) for row in rows for cell in row[1:])


def _begins_with_sign(cell: Tree) -> bool:
    """Whether a cell is the rest of a formula, or a sign between two others."""
    if cell.children is None:
        return cell.type in "UO"
    return cell.children[0] == MISSING or (cell.symbol == "and" and _begins_with_sign(cell.children[0]))


def _members(braces: Tree) -> list[tuple[Tree, ...]]:
    """The rows of the matrix, or the formulas, that alone are in braces."""
    only = braces.children[0] if braces.symbol == "S-1" and braces.children else braces
    if only.symbol == "form-seq":
        return [(tree,) for tree in only.children or ()]
    if only.type == "M" and only.symbol.startswith("M-"):
        return [row.children or () for row in only.children or ()]
    return []


def _columns(reader: Reader, name: str) -> None:
    """What says how to set an environment: [t], and the columns of an array."""
    if reader.tokens[reader.i] == "[":
        reader.skip_bracket()
    if name in ("array", "subarray", "tabular", "alignat", "alignedat", "darray"):
        raw(reader)


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


def _matrix(reader: Reader, rows: list[list[Tree]], name: str) -> Tree | None:
    if not rows:
        return Tree("M", "L-0")
    width = max(len(row) for row in rows)
    if width * len(rows) > LARGEST:
        raise Stop(f"more than {LARGEST} nodes", reader.i)
    padded = [Tree("M", "R!", [*row, *[PADDING] * (width - len(row))]) for row in rows]
    made = Tree("M", f"M-{len(rows)}x{width}", padded)
    if name == "vmatrix":
        return Tree("F", "det", [made])
    if name == "Vmatrix":
        return Tree("O", "norm", [made])
    return made


def old_matrix(reader: Reader, token: str) -> Tree | None:
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
        return cases(rows, reader.published) if rows else None
    if token == r"\substack":
        trees = [row[0] for row in rows]
        return reader.listed(trees) if len(trees) > 1 else trees[0] if trees else None
    return _matrix(reader, rows, token[1:])
