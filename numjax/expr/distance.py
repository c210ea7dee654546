"""Tree edit distance (Zhang and Shasha, SIAM J. Comput. 1989) with unit costs, on flat lists.

Trees become lists in postorder, where a subtree is a slice. Three things save work: distances to a single node are
read off (they depend on whether its label occurs), of the two mirror images the one with less to do is taken, and
rows of the table that need no labels are filled without looking at any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from numjax.expr.tree import Tree

# Model types of the published metric, by node type. E is told apart by its children.
PUBLISHED_TYPES = {"V": "VAR", "C": "VAR", "-": "VAR", "N": "NUM"}
# Children that a number may have in the published trees: 64 less its END.
PUBLISHED_DIGITS = 63


def distance(a: Tree, b: Tree, *, as_published: bool = False) -> int:
    """Least number of nodes to insert, delete or rename that makes `b` of `a`.

    Args:
      a, b: trees; nodes are equal when type and symbol are.
      as_published: MathGPT's metric: nodes of the model's trees without their ENDs, see `published`.
    """
    if as_published:
        a, b = published(a), published(b)
    return 0 if a == b else _zhang_shasha(a, b)


def published(tree: Tree) -> Tree:
    """The tree whose nodes MathGPT's metric compares: model types, and numbers as trees of their digits.

    A number of more than one character has its digits and points as children, and other characters are lost; a
    compound operator's hint and the kind of an error are lost too; a matrix is known by the first letter of its kind.
    """

    def children(node: Tree) -> tuple[Tree, ...]:
        if node.type == "N" and len(node.symbol) > 1:
            written = [c for c in node.symbol if c in "0123456789."]
            return tuple(Tree("NUM", c) for c in written[:PUBLISHED_DIGITS])
        below = node.children or ()
        return below[1:] if node.type == "E" else below

    return _rebuilt(tree, children, _published_label)


def _published_label(node: Tree) -> tuple[str, str]:
    kind = PUBLISHED_TYPES.get(node.type, "OP")
    if node.type == "N":
        return (kind, node.symbol) if len(node.symbol) == 1 else ("OP", "number")
    if node.type == "E":
        return ("OP", "error") if node.children else ("VAR", "padding")
    if node.type == "+":
        return kind, "compound"
    if node.type == "M":
        return kind, "matrix-" + node.symbol.removeprefix("matrix-")[:1]
    return kind, node.symbol


def _rebuilt(
    tree: Tree, children: Callable[[Tree], tuple[Tree, ...]], label: Callable[[Tree], tuple[str, str]]
) -> Tree:
    """A tree with other labels and children, made from the leaves up without recursion."""
    made: list[Tree] = []
    todo: list[tuple[Tree, bool]] = [(tree, False)]
    while todo:
        node, entered = todo.pop()
        # Digits come labelled.
        below = children(node) if node.type != "NUM" else ()
        if entered:
            count = len(below)
            own = made[len(made) - count :]
            del made[len(made) - count :]
            made.append(Tree(*label(node), own) if node.type != "NUM" else node)
        else:
            todo.append((node, True))
            todo.extend((child, False) for child in reversed(below))
    return made[0]


class _Flat(NamedTuple):
    """A tree in postorder: labels, index of each node's first leaf, and the roots that a table is needed for."""

    labels: list[int]
    first: list[int]
    keyroots: list[int]
    work: int  # cells of tables, for one cell of the other tree


def _zhang_shasha(a: Tree, b: Tree) -> int:
    numbers: dict[Hashable, int] = {}
    left = _flat(a, numbers, mirrored=False), _flat(b, numbers, mirrored=False)
    right = _flat(a, numbers, mirrored=True), _flat(b, numbers, mirrored=True)
    one, other = left if left[0].work * left[1].work <= right[0].work * right[1].work else right
    table = _single_nodes(one, other)
    for i in one.keyroots:
        for j in other.keyroots:
            _fill(one, other, table, i, j)
    return table[-1][-1]


def _flat(tree: Tree, numbers: dict[Hashable, int], mirrored: bool) -> _Flat:
    """The lists of a tree, or of its mirror image; equal labels get equal numbers."""
    labels: list[int] = []
    sizes: list[int] = []
    stack = [tree]
    # Parents before children, last child first: postorder from its end.
    while stack:
        node = stack.pop()
        labels.append(numbers.setdefault((node.type, node.symbol), len(numbers)))
        sizes.append(node.size)
        if node.children:
            stack.extend(reversed(node.children) if mirrored else node.children)
    labels.reverse()
    sizes.reverse()
    first = [i - size + 1 for i, size in enumerate(sizes)]
    # The highest node above each first leaf; leaves need no table.
    highest = {leaf: i for i, leaf in enumerate(first)}
    keyroots = sorted(i for leaf, i in highest.items() if i != leaf)
    return _Flat(labels, first, keyroots, sum(sizes[i] for i in keyroots))


def _single_nodes(one: _Flat, other: _Flat) -> list[list[int]]:
    """The table of distances between subtrees, so far only where one of both is a leaf.

    All nodes but one are deleted, and that one is free if its label occurs.
    """
    table = [[0] * len(other.labels) for _ in one.labels]
    for i, row in enumerate(table):
        if one.first[i] == i:
            label, last = one.labels[i], -1
            for j, leaf in enumerate(other.first):
                if other.labels[j] == label:
                    last = j
                row[j] = j - leaf + (last < leaf)
    for j, leaf in enumerate(other.first):
        if leaf == j:
            label, last = other.labels[j], -1
            for i, start in enumerate(one.first):
                if one.labels[i] == label:
                    last = i
                table[i][j] = i - start + (last < start)
    return table


def _fill(one: _Flat, other: _Flat, table: list[list[int]], i: int, j: int) -> None:
    """Distances of all subtrees that begin where those of keyroots i and j begin.

    `rows[x][y]` is the distance between the first x nodes of the one and the first y of the other: forests.
    """
    start, begin = one.first[i], other.first[j]
    jumps = [leaf - begin for leaf in other.first[begin : j + 1]]
    names = other.labels[begin : j + 1]
    previous = list(range(j - begin + 2))
    rows = [previous]
    for x, node in enumerate(range(start, i + 1), 1):
        distances = table[node]
        before = one.first[node] - start
        now = x
        row = [x]
        put = row.append
        if before:
            base = rows[before]
            joined = [base[jump] + d for jump, d in zip(jumps, distances[begin : j + 1], strict=True)]
            for best, up in zip(joined, previous[1:], strict=True):
                # now is the left neighbour until it becomes this cell; all steps but a match cost one.
                if up < now:
                    now = up
                now += 1
                if best < now:
                    now = best
                put(now)
        else:
            label = one.labels[node]
            corner = x - 1
            y = begin
            for jump, up, name in zip(jumps, previous[1:], names, strict=True):
                if up < now:
                    now = up
                now += 1
                if jump:
                    # The forest before a whole tree is empty on the one side.
                    best = jump + distances[y]
                    if best < now:
                        now = best
                else:
                    if label != name:
                        corner += 1
                    if corner < now:
                        now = corner
                    distances[y] = now
                put(now)
                corner = up
                y += 1
        rows.append(row)
        previous = row
