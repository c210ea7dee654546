"""Tree edit distance: against zss on random trees, the laws of a distance, and the published metric's nodes."""

from __future__ import annotations

import random

import pytest
import zss

from numjax.expr.distance import distance, to_published
from numjax.expr.tree import Tree


def draw_tree(rng: random.Random, nodes: int, reach: int, symbols: int) -> Tree:
    """A random tree; parents are at most `reach` nodes back, so that 1 gives chains and `nodes` bushes."""
    child_lists: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        child_lists[rng.randrange(max(0, node - reach), node)].append(node)
    trees: list[Tree] = [Tree("V", "")] * nodes
    for node in reversed(range(nodes)):
        children = [trees[child] for child in child_lists[node]]
        trees[node] = Tree(rng.choice("UO") if children else "V", str(rng.randrange(symbols)), children)
    return trees[0]


def oracle(a: Tree, b: Tree) -> int:
    return zss.simple_distance(
        a, b, lambda t: t.children or (), lambda t: (t.type, t.symbol), lambda p, q: int(p != q)
    )


@pytest.mark.parametrize("reach", [1, 2, 4, 20])
@pytest.mark.parametrize("symbols", [1, 3, 20])
def test_the_distance_is_that_of_zss(reach, symbols):
    rng = random.Random(100 * reach + symbols)
    for _ in range(60):
        a, b = (draw_tree(rng, rng.randint(1, 16), reach, symbols) for _ in range(2))
        assert distance(a, b) == oracle(a, b), (a, b)


def test_the_distance_of_larger_trees_is_that_of_zss():
    rng = random.Random(0)
    for _ in range(3):
        a, b = draw_tree(rng, 60, 6, 5), draw_tree(rng, 45, 20, 5)
        assert distance(a, b) == oracle(a, b)


def test_the_distance_is_a_metric():
    rng = random.Random(1)
    trees = [draw_tree(rng, rng.randint(1, 12), 5, 3) for _ in range(12)]
    for a in trees:
        assert distance(a, a) == 0
        for b in trees:
            length = distance(a, b)
            assert length == distance(b, a) and (length == 0) == (a == b)
            assert abs(a.size - b.size) <= length <= a.size + b.size
            for c in trees:
                assert distance(a, c) <= length + distance(b, c)


def test_single_edits_cost_one():
    a, b, c = (Tree("V", name) for name in "abc")
    total = Tree("U", "plus", [a, b])
    assert distance(total, Tree("U", "plus", [a, c])) == 1
    assert distance(total, Tree("U", "plus", [a, b, c])) == 1
    assert distance(total, Tree("O", "plus", [a, b])) == 1, "the type is part of the label"
    assert distance(total, Tree("F", "sin", [total])) == 1
    assert distance(a, total) == 2


def test_deep_trees_need_no_recursion():
    deep = Tree("V", "x")
    for _ in range(3000):
        deep = Tree("F", "f", [deep])
    assert distance(deep, Tree("V", "x")) == 3000
    assert to_published(deep).size == 3001


def test_published_nodes():
    number, other_number = Tree("N", "12.5"), Tree("N", "13.75")
    assert distance(number, other_number) == 1
    assert distance(number, other_number, as_published=True) == 2, "digits are nodes"
    assert distance(Tree("N", "7"), Tree("N", "8"), as_published=True) == 1
    assert to_published(Tree("N", "-1,250e3")).children == tuple(Tree("NUM", c) for c in "12503")
    assert to_published(Tree("N", "9" * 100)).size == 64
    x = Tree("V", "x")
    for left, right in [
        (Tree("U", "plus", [x, x]), Tree("O", "plus", [x, x])),
        (Tree("+", "SUB", [x, x]), Tree("+", "SUP", [x, x])),
        (Tree("E", "cerror", [Tree("-", "ambiguous"), x]), Tree("E", "cerror", [Tree("-", "other"), x])),
        (Tree("V", "e"), Tree("C", "e")),
    ]:
        assert distance(left, right, as_published=True) == 0 < distance(left, right)
    for tree in (x, Tree("U", "times", [x, number]), Tree("M", "matrix-M", [Tree("M", "matrix-R", [x])])):
        assert distance(tree, tree, as_published=True) == 0
