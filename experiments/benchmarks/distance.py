"""Measures tree edit distance against zss: pairs of random trees of 10, 30 and 100 nodes, on one core.

    python -m experiments.benchmarks.distance [--nodes=10,30,100] [--rounds=5] [--seconds=0.5] [--out=FILE]

Both compute the same pairs in turn in every round, and must agree. Ratios are of processor time within a round; the
result is their median. zss is a library for tests (`pip install zss`); without it only our own time is measured.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError
from numjax.expr.distance import distance
from numjax.expr.tree import Tree

FLOORS = {10: 8.0, 30: 12.0, 100: 12.0}
GOALS = {10: 11.0, 30: 15.0, 100: 20.0}


def main(words: list[str] | None = None) -> dict:
    """Prints a table and the results as JSON on the last line."""
    parser = command.Parser(
        prog="python -m experiments.benchmarks.distance", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", default="10,30,100", help="comma-separated sizes of trees")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of our own computing in a round, about")
    parser.add_argument("--out", help="a JSON file to write")
    options = parser.parse_args(words)
    sizes = options.nodes.split(",")
    if options.rounds < 1 or options.seconds <= 0 or not all(size.isdigit() and int(size) for size in sizes):
        raise UsageError("--rounds, --seconds and --nodes must be positive")
    results = {size: measure(int(size), options.rounds, options.seconds) for size in sizes}
    for size, timing in results.items():
        comparison = f", {timing['ratio']:.1f} times as fast as zss" if "ratio" in timing else ""
        print(f"{size} nodes: {timing['microseconds']:.0f} µs a pair{comparison}")
    result = {"machine": pairs.describe_machine(), "nodes": results}
    pairs.write_result(result, options.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out)."""
    del peer  # zss lives in our own environment
    rows = []
    for size, floor in FLOORS.items():
        timing = measure(size, rounds=3, seconds=0.1)
        rows.append(pairs.BenchmarkRow(f"distance {size} nodes", round(1e6 / timing["microseconds"]), unit="pairs/s"))
        if "ratio" in timing:
            least, most = timing["range"]
            row = pairs.BenchmarkRow(
                f"distance {size} nodes over zss", timing["ratio"], least, most, floor, GOALS[size]
            )
            rows.append(row)
    return rows, [] if _load_zss() else ["zss"]


def measure(nodes: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Median time of a pair, and the ratio of zss's time to ours."""
    rng = random.Random(nodes)
    first_pair = make_tree(rng, nodes), make_tree(rng, nodes)
    seconds_per_pair = max(_time(distance, [first_pair] * 3) / 3, 1e-6)
    tree_pairs = [
        (make_tree(rng, nodes), make_tree(rng, nodes)) for _ in range(max(1, round(seconds / seconds_per_pair)))
    ]
    peer = _load_zss()
    if peer and any(distance(*pair) != peer(*pair) for pair in tree_pairs[:5]):
        raise RuntimeError("zss computes another distance")
    our_times, ratios = [], []
    for _ in range(rounds):
        our_times.append(_time(distance, tree_pairs))
        if peer:
            ratios.append(_time(peer, tree_pairs) / our_times[-1])
    result: dict[str, Any] = {
        "microseconds": 1e6 * statistics.median(our_times) / len(tree_pairs),
        "pairs": len(tree_pairs),
    }
    if ratios:
        result |= {"ratio": statistics.median(ratios), "range": (min(ratios), max(ratios))}
    return result


def make_tree(rng: random.Random, nodes: int) -> Tree:
    """A random tree of seven symbols that branches about as much as formulas do."""
    children: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        children[rng.randrange(max(0, node - 6), node)].append(node)
    trees = [Tree("V", "x")] * nodes
    for node in reversed(range(nodes)):
        trees[node] = Tree(
            "O" if children[node] else "V", rng.choice("abcdefg"), [trees[child] for child in children[node]]
        )
    return trees[0]


def _load_zss() -> Callable[[Tree, Tree], int] | None:
    """zss's distance between our trees, or None if zss is not installed."""
    if importlib.util.find_spec("zss") is None:
        return None
    peer: Any = importlib.import_module("zss").simple_distance
    return lambda a, b: peer(a, b, lambda t: t.children or (), lambda t: (t.type, t.symbol), lambda p, q: int(p != q))


def _time(run: Callable[[Tree, Tree], int], tree_pairs: list[tuple[Tree, Tree]]) -> float:
    start = time.process_time()
    for a, b in tree_pairs:
        run(a, b)
    return time.process_time() - start


if __name__ == "__main__":
    command.entry(main)
