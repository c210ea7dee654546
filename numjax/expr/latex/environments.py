"""Matrices, cases and aligned rows."""

from __future__ import annotations

from collections.abc import Sequence

from numjax.expr.latex.applied import take_raw_argument
from numjax.expr.latex.commands import CASES, MATRICES, ROWS
from numjax.expr.latex.fences import parse_left
from numjax.expr.latex.reader import ExpressionReader
from numjax.expr.latex.state import LARGEST, MISSING, PADDING, Stop
from numjax.expr.tree import Tree


def parse_environment(reader: ExpressionReader, token: str) -> Tree | None:
    start = reader.i
    reader.i += 1
    name = "".join(take_raw_argument(reader)).rstrip("*")
    if name not in MATRICES and name not in CASES and name not in ROWS:
        raise Stop(f"unknown environment {name}", start)
    _skip_columns(reader, name)
    reader.enter()
    saved = reader.font, reader.bar, reader.in_set, reader.environments
    reader.bar, reader.in_set, reader.environments = "", False, 1
    if name in ROWS:
        _blank_alignment(reader)
    rows_start = reader.i
    rows = _parse_rows(reader, start)
    if name in CASES and not reader.as_published and is_aligned(rows):
        reader.undo(rows_start)
        _blank_alignment(reader)
        rows = _parse_rows(reader, start)
    reader.font, reader.bar, reader.in_set, reader.environments = saved
    reader.level -= 1
    end_name = "".join(take_raw_argument(reader)).rstrip("*")
    if end_name != name:
        raise Stop(f"{name} ends as {end_name}", start)
    if name in ROWS:
        trees = [row[0] for row in rows if row[0] is not PADDING]
        if not trees:
            return None
        return trees[0] if len(trees) == 1 else Tree("O", "form-seq", trees)
    if name in CASES:
        return make_cases(rows, reader.as_published) if rows else None
    return _make_matrix(reader, rows, name)


def make_cases(rows: Sequence[Sequence[Tree]], published: bool = False) -> Tree:
    """Values and conditions in turn, with E for a missing condition; published, the cells as they are."""
    width = 1 if published else max(2, *map(len, rows))
    return Tree("O", "cases", [cell for row in rows for cell in (*row, *[PADDING] * (width - len(row)))])


def parse_left_brace(reader: ExpressionReader, token: str) -> Tree:
    """\\left …. An array with a brace on its left only is cases; its columns may only align formulas."""
    start, tokens = reader.i, reader.tokens
    tree = parse_left(reader, token)
    if reader.as_published or tokens[start + 1 : start + 3] != [r"\{", r"\begin"] or tokens[reader.i - 1] != ".":
        return tree
    rows = _find_rows(tree) if r"\\" in tokens[start : reader.i] else []
    if is_aligned(rows):
        # x & = & 3: the cells of a row are one formula.
        reader.undo(start + 3)
        _skip_columns(reader, "".join(take_raw_argument(reader)))
        _blank_alignment(reader)
        reader.i = start
        rows = _find_rows(parse_left(reader, token))
    return make_cases(rows) if rows and len(rows[0]) < 3 else tree


def is_aligned(rows: Sequence[Sequence[Tree]]) -> bool:
    """Whether columns only align formulas: a cell after the first begins with a relation."""
    return any(_begins_with_sign(cell) for row in rows for cell in row[1:])


def _begins_with_sign(cell: Tree) -> bool:
    """Whether a cell is the rest of a formula, or a sign between two others."""
    if cell.children is None:
        return cell.type in "UO"
    return cell.children[0] == MISSING or (cell.symbol == "and" and _begins_with_sign(cell.children[0]))


def _find_rows(braces: Tree) -> list[tuple[Tree, ...]]:
    """The rows of the matrix, or the formulas, if nothing else is in the braces."""
    content = braces.children[0] if braces.symbol == "S-1" and braces.children else braces
    if content.symbol == "form-seq":
        return [(tree,) for tree in content.children or ()]
    if content.type == "M" and content.symbol.startswith("M-"):
        return [row.children or () for row in content.children or ()]
    return []


def _skip_columns(reader: ExpressionReader, name: str) -> None:
    """Skips the layout of an environment: [t], and the columns of an array."""
    if reader.tokens[reader.i] == "[":
        reader.skip_bracket()
    if name in ("array", "subarray", "tabular", "alignat", "alignedat", "darray"):
        take_raw_argument(reader)


def _blank_alignment(reader: ExpressionReader) -> None:
    """Removes the alignment marks of this environment's own rows."""
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


def _parse_rows(reader: ExpressionReader, start: int) -> list[list[Tree]]:
    tokens = reader.tokens
    rows: list[list[Tree]] = []
    row: list[Tree] = []
    while True:
        cell = reader.parse_statement()
        token = tokens[reader.i]
        row.append(PADDING if cell is None else cell)
        if token == "&":
            reader.i += 1
            continue
        if token not in (r"\\", r"\end"):
            reader.raise_unclosed(r"\begin", start)
        reader.i += 1
        if len(row) > 1 or row[0] is not PADDING:
            rows.append(row)
        row = []
        if token == r"\end":
            return rows
        if tokens[reader.i] == "[":
            reader.skip_bracket()


def _make_matrix(reader: ExpressionReader, rows: list[list[Tree]], name: str) -> Tree | None:
    if not rows:
        return Tree("M", "L-0")
    width = max(len(row) for row in rows)
    if width * len(rows) > LARGEST:
        raise Stop(f"more than {LARGEST} nodes", reader.i)
    padded = [Tree("M", "R!", [*row, *[PADDING] * (width - len(row))]) for row in rows]
    matrix = Tree("M", f"M-{len(rows)}x{width}", padded)
    if name == "vmatrix":
        return Tree("F", "det", [matrix])
    if name == "Vmatrix":
        return Tree("O", "norm", [matrix])
    return matrix


def parse_plain_matrix(reader: ExpressionReader, token: str) -> Tree | None:
    """Plain TeX's \\pmatrix{a & b \\cr c & d}."""
    start = reader.i
    reader.i += 1
    if reader.tokens[reader.i] != "{":
        raise Stop(f"{token} without its braces", start)
    reader.i += 1
    reader.enter()
    saved = reader.font, reader.bar, reader.in_set, reader.environments
    reader.bar, reader.in_set, reader.environments = "", False, 1
    rows: list[list[Tree]] = []
    row: list[Tree] = []
    while True:
        cell = reader.parse_statement()
        row.append(PADDING if cell is None else cell)
        separator = reader.tokens[reader.i]
        if separator == "&":
            reader.i += 1
            continue
        if separator not in (r"\\", "}"):
            reader.raise_unclosed(token, start)
        reader.i += 1
        if len(row) > 1 or row[0] is not PADDING:
            rows.append(row)
        row = []
        if separator == "}":
            break
    reader.font, reader.bar, reader.in_set, reader.environments = saved
    reader.level -= 1
    if token == r"\cases":
        return make_cases(rows, reader.as_published) if rows else None
    if token == r"\substack":
        trees = [row[0] for row in rows]
        return reader.make_list(trees) if len(trees) > 1 else trees[0] if trees else None
    return _make_matrix(reader, rows, token[1:])
