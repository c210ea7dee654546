"""Tree edit distance beside zss: pairs of random trees of 10, 30 and 100 nodes, on one core.

    python -m experiments.benchmarks.distance [--nodes=10,30,100] [--rounds=5] [--seconds=0.5] [--out=FILE]

Both compute the same pairs in turn in every round, and must agree. Ratios are taken within a round, of the processor
time; their median counts. zss is a library for tests (`pip install zss`); without it only our own time is given.
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
    made = command.Parser(
        prog="python -m experiments.benchmarks.distance", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--nodes", default="10,30,100", help="comma-separated sizes of trees")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seconds", type=float, default=0.5, help="of our own computing in a round, about")
    made.add_argument("--out", help="a JSON file to write")
    options = made.parse_args(words)
    sizes = options.nodes.split(",")
    if options.rounds < 1 or options.seconds <= 0 or not all(size.isdigit() and int(size) for size in sizes):
        raise UsageError("--rounds, --seconds and --nodes must be positive")
    found = {size: measure(int(size), options.rounds, options.seconds) for size in sizes}
    for size, one in found.items():
        beside = f", {one['ratio']:.1f} times as fast as zss" if "ratio" in one else ""
        print(f"{size} nodes: {one['microseconds']:.0f} µs a pair{beside}")
    result = {"machine": pairs.machine(), "nodes": found}
    pairs.write(result, options.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out)."""
    del peer  # zss lives in our own environment
    rows = []
    for size, floor in FLOORS.items():
        found = measure(size, rounds=3, seconds=0.1)
        rows.append(pairs.Row(f"distance {size} nodes", round(1e6 / found["microseconds"]), unit="pairs/s"))
        if "ratio" in found:
            least, most = found["range"]
            row = pairs.Row(f"distance {size} nodes over zss", found["ratio"], least, most, floor, GOALS[size])
            rows.append(row)
    return rows, [] if _zss() else ["zss"]


def measure(nodes: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Median time of a pair, and how many times as long zss takes."""
    rng = random.Random(nodes)
    once = tree(rng, nodes), tree(rng, nodes)
    took = max(_time(distance, [once] * 3) / 3, 1e-6)
    drawn = [(tree(rng, nodes), tree(rng, nodes)) for _ in range(max(1, round(seconds / took)))]
    peer = _zss()
    if peer and any(distance(*pair) != peer(*pair) for pair in drawn[:5]):
        raise RuntimeError("zss says something else")
    ours, ratios = [], []
    for _ in range(rounds):
        ours.append(_time(distance, drawn))
        if peer:
            ratios.append(_time(peer, drawn) / ours[-1])
    found: dict[str, Any] = {"microseconds": 1e6 * statistics.median(ours) / len(drawn), "pairs": len(drawn)}
    if ratios:
        found |= {"ratio": statistics.median(ratios), "range": (min(ratios), max(ratios))}
    return found


def tree(rng: random.Random, nodes: int) -> Tree:
    """A random tree of about the branching of formulas, with seven symbols."""
    below: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        below[rng.randrange(max(0, node - 6), node)].append(node)
    made = [Tree("V", "x")] * nodes
    for node in reversed(range(nodes)):
        made[node] = Tree("O" if below[node] else "V", rng.choice("abcdefg"), [made[child] for child in below[node]])
    return made[0]


def _zss() -> Callable[[Tree, Tree], int] | None:
    """zss's distance of our trees, or None where it is not installed."""
    if importlib.util.find_spec("zss") is None:
        return None
    peer: Any = importlib.import_module("zss").simple_distance
    return lambda a, b: peer(a, b, lambda t: t.children or (), lambda t: (t.type, t.symbol), lambda p, q: int(p != q))


def _time(run: Callable[[Tree, Tree], int], drawn: list[tuple[Tree, Tree]]) -> float:
    start = time.process_time()
    for a, b in drawn:
        run(a, b)
    return time.process_time() - start


if __name__ == "__main__":
    command.entry(main)
