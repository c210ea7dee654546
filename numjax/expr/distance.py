"""Tree edit distance (Zhang and Shasha, SIAM J. Comput. 1989) with unit costs, on flat lists.

Trees become lists in postorder, where a subtree is a slice. Three things save work: distances to a single node
depend only on whether its label occurs; of the two mirror images the one with less work is used; and rows of the
table that need no labels are filled without comparing any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from numjax.expr.tree import Tree

# Model types of the published metric, by node type. E depends on its children.
PUBLISHED_TYPES = {"V": "VAR", "C": "VAR", "-": "VAR", "N": "NUM"}
# Children that a number may have in the published trees: 64 less its END.
PUBLISHED_DIGITS = 63


def distance(a: Tree, b: Tree, *, as_published: bool = False) -> int:
    """The least number of nodes to insert, delete or rename to turn `a` into `b`.

    Args:
      a, b: trees; nodes are equal when type and symbol are.
      as_published: MathGPT's metric: nodes of the model's trees without their ENDs, see `to_published`.
    """
    if as_published:
        a, b = to_published(a), to_published(b)
    return 0 if a == b else _zhang_shasha(a, b)


def to_published(tree: Tree) -> Tree:
    """The tree whose nodes MathGPT's metric compares: model types, and numbers as trees of their digits.

    A number of more than one character has its digits and points as children, and other characters are lost; a
    compound operator's hint and the kind of an error are lost too; of a matrix's kind only the first letter stays.
    """

    def children(node: Tree) -> tuple[Tree, ...]:
        if node.type == "N" and len(node.symbol) > 1:
            characters = [c for c in node.symbol if c in "0123456789."]
            return tuple(Tree("NUM", c) for c in characters[:PUBLISHED_DIGITS])
        child_nodes = node.children or ()
        return child_nodes[1:] if node.type == "E" else child_nodes

    return _rebuild(tree, children, _published_label)


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


def _rebuild(
    tree: Tree, children: Callable[[Tree], tuple[Tree, ...]], label: Callable[[Tree], tuple[str, str]]
) -> Tree:
    """A tree with other labels and children, made from the leaves up without recursion."""
    rebuilt: list[Tree] = []
    stack: list[tuple[Tree, bool]] = [(tree, False)]
    while stack:
        node, entered = stack.pop()
        # Digits have their labels already.
        child_nodes = children(node) if node.type != "NUM" else ()
        if entered:
            count = len(child_nodes)
            subtrees = rebuilt[len(rebuilt) - count :]
            del rebuilt[len(rebuilt) - count :]
            rebuilt.append(Tree(*label(node), subtrees) if node.type != "NUM" else node)
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(child_nodes))
    return rebuilt[0]


class _Flat(NamedTuple):
    """A tree in postorder: labels, index of each node's first leaf, and the roots that a table is needed for."""

    labels: list[int]
    first: list[int]
    keyroots: list[int]
    work: int  # cells of tables, for one cell of the other tree


def _zhang_shasha(a: Tree, b: Tree) -> int:
    numbers: dict[Hashable, int] = {}
    left = _flatten(a, numbers, mirrored=False), _flatten(b, numbers, mirrored=False)
    right = _flatten(a, numbers, mirrored=True), _flatten(b, numbers, mirrored=True)
    flat_a, flat_b = left if left[0].work * left[1].work <= right[0].work * right[1].work else right
    table = _leaf_distances(flat_a, flat_b)
    for i in flat_a.keyroots:
        for j in flat_b.keyroots:
            _fill(flat_a, flat_b, table, i, j)
    return table[-1][-1]


def _flatten(tree: Tree, numbers: dict[Hashable, int], mirrored: bool) -> _Flat:
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


def _leaf_distances(flat_a: _Flat, flat_b: _Flat) -> list[list[int]]:
    """The table of distances between subtrees, filled only where one of the two is a leaf.

    All nodes but one are deleted, and that one is free if its label occurs.
    """
    table = [[0] * len(flat_b.labels) for _ in flat_a.labels]
    for i, row in enumerate(table):
        if flat_a.first[i] == i:
            label, last = flat_a.labels[i], -1
            for j, leaf in enumerate(flat_b.first):
                if flat_b.labels[j] == label:
                    last = j
                row[j] = j - leaf + (last < leaf)
    for j, leaf in enumerate(flat_b.first):
        if leaf == j:
            label, last = flat_b.labels[j], -1
            for i, start in enumerate(flat_a.first):
                if flat_a.labels[i] == label:
                    last = i
                table[i][j] = i - start + (last < start)
    return table


def _fill(flat_a: _Flat, flat_b: _Flat, table: list[list[int]], i: int, j: int) -> None:
    """Distances of all subtrees that begin where those of keyroots i and j begin.

    `rows[x][y]` is the distance between two forests: the first x nodes of a and the first y of b.
    """
    start, begin = flat_a.first[i], flat_b.first[j]
    jumps = [leaf - begin for leaf in flat_b.first[begin : j + 1]]
    names = flat_b.labels[begin : j + 1]
    previous = list(range(j - begin + 2))
    rows = [previous]
    for x, node in enumerate(range(start, i + 1), 1):
        distances = table[node]
        prefix = flat_a.first[node] - start
        cost = x
        row = [x]
        put = row.append
        if prefix:
            base = rows[prefix]
            joined = [base[jump] + d for jump, d in zip(jumps, distances[begin : j + 1], strict=True)]
            for best, upper in zip(joined, previous[1:], strict=True):
                # cost is the left neighbour's until it becomes this cell's; all steps but a match cost one.
                if upper < cost:
                    cost = upper
                cost += 1
                if best < cost:
                    cost = best
                put(cost)
        else:
            label = flat_a.labels[node]
            corner = x - 1
            y = begin
            for jump, upper, name in zip(jumps, previous[1:], names, strict=True):
                if upper < cost:
                    cost = upper
                cost += 1
                if jump:
                    # On one side the forest before a whole tree is empty.
                    best = jump + distances[y]
                    if best < cost:
                        cost = best
                else:
                    if label != name:
                        corner += 1
                    if corner < cost:
                        cost = corner
                    distances[y] = cost
                put(cost)
                corner = upper
                y += 1
        rows.append(row)
        previous = row
