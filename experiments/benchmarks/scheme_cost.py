"""Measures what each row of configs/schemes.py costs beside `digits`: positions, parameters, the time of a step.

    python -m experiments.benchmarks.scheme_cost [--rows=digits,fone,…] [--scale=smoke] [--rounds=7] [--steps=10]
        [--out=FILE]

Both train on the same additions. The batches of a row are as long as its longest example, so that short encodings
are faster. In each round `digits` and the row take turns, and the ratio of their times is taken within the round.
"""

from __future__ import annotations

import functools
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax

from numjax.bundled import data as datasets
from numjax.bundled.configs import schemes
from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs
from numjax.errors import UsageError
from numjax.runtime import shard
from numjax.system import System, assemble, make_loader
from numjax.text import vocab as vocabularies
from numjax.train import optim
from numjax.train.step import init_state, train_step

BASE = "digits"
DIGITS = 6  # of the number whose positions are counted
EXAMPLES = 256
SHORT = ("chunk3", "fone")


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a table, and the results as JSON on the last line."""
    parser = options.make_parser("scheme_cost", __doc__, {}, rounds=7)
    parser.add_argument("--rows", default=",".join(schemes.ROWS), help="comma-separated")
    parser.add_argument("--scale", default="smoke", choices=["smoke", "cpu"])
    parser.add_argument("--steps", type=int, default=10, help="in a turn")
    arguments = parser.parse_args(words)
    rows = arguments.rows.split(",")
    if unknown_rows := [row for row in rows if row not in schemes.ROWS]:
        raise UsageError(f"--rows: {unknown_rows[0]!r} is no row of configs/schemes.py")
    if arguments.rounds < 1 or arguments.steps < 1:
        raise UsageError("--rounds and --steps must be positive")
    result = measure(rows, arguments.scale, arguments.rounds, arguments.steps)
    print(format_costs(result))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: a few rows and rounds."""
    del peer
    result = measure(list(SHORT), "smoke", rounds=3, steps=3)
    costs = {row: cost for row, cost in result["rows"].items() if row != BASE}
    return [pairs.BenchmarkRow(f"step of {row} / {BASE}", *cost["ratio"].values()) for row, cost in costs.items()], []


def measure(rows: list[str], scale: str, rounds: int, steps: int) -> dict[str, Any]:
    """{"machine", "rows": row → its cost}, with `digits` first."""
    records = [dict(record) for record in datasets.load("arithmetic", "train", operations="add", size=EXAMPLES)]
    base = Contender(BASE, scale, records)
    costs = {BASE: base.cost | {"ratio": {"median": 1.0, "least": 1.0, "most": 1.0}}}
    base_seconds: list[float] = []
    for row in (row for row in rows if row != BASE):
        contender = Contender(row, scale, records)
        seconds = [(base.take_turn(steps), contender.take_turn(steps)) for _ in range(rounds)]
        base_seconds += [other for other, _ in seconds]
        ratios = sorted(own / other for other, own in seconds)
        costs[row] = contender.cost | {
            "ratio": {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]},
            "step_ms": 1000 * statistics.median(own for _, own in seconds),
        }
        costs[BASE]["step_ms"] = 1000 * statistics.median(base_seconds)
        print(f"{row}: {costs[row]['ratio']['median']:.2f} times a step of {BASE}", flush=True)
    machine = pairs.describe_machine() | {"load_after": round(os.getloadavg()[0], 2)}
    return {"benchmark": "scheme_cost", "machine": machine, "scale": scale, "rows": costs}


class Contender:
    """A row that trains.

    Attributes:
      cost: {"positions" of a whole number of six digits, "length" of its rows, "parameters"}.
    """

    def __init__(self, row: str, scale: str, records: list[dict[str, Any]]):
        system = make_system(row, scale, records)
        encoded = system.encode_split(records, "train")
        config: Any = system.config
        with config.unlocked():
            config.data.length = -(-int(encoded.lengths.max()) // 8) * 8
        encoded = system.encode_split(records, "train")
        batch, _, _ = make_loader(system, encoded, shard.make_mesh()).batch(0)
        rate = optim.schedule("constant", 1e-3, 100)
        optimizer = optim.adamw(rate)
        arguments = system.model, system.objectives, system.weights, optimizer, rate, 1
        self._run: Callable[..., Any] = jax.jit(functools.partial(train_step, *arguments))
        self._batch = jax.tree.map(jax.numpy.asarray, batch)
        self._state = jax.jit(lambda: init_state(system.model, optimizer, self._batch, 0))()
        self.cost: dict[str, Any] = {
            "positions": system.scheme.positions_per_number(DIGITS),
            "length": int(batch.inputs.ids.shape[1]),
            "parameters": sum(x.size for x in jax.tree.leaves(self._state.params)),
        }
        self.take_turn(2)  # compiles

    def take_turn(self, steps: int) -> float:
        """Seconds of a step."""
        start = time.perf_counter()
        for _ in range(steps):
            self._state, _ = self._run(0, self._state, self._batch)
        jax.block_until_ready(self._state)
        return (time.perf_counter() - start) / steps


def make_system(row: str, scale: str, records: list[dict[str, Any]], answer: str = "text") -> System:
    """The system of a row, with one length of batches and a vocabulary of the records, which are additions."""
    config: Any = schemes.get_config(f"{row},{scale}")
    with config.unlocked():
        config.data.buckets = 1
        config.task.update(operations="add", answer=answer)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = make_vocabulary(config, records)
        return assemble(config, pathlib.Path(folder), vocabulary=vocabulary, platform="cpu")


def make_vocabulary(config: Any, records: list[dict[str, Any]]) -> Any:
    """The vocabulary of the records' texts."""
    texts = [f"{record['question']} {record['answer']}" for record in records]
    block = config.scheme.vocab.to_dict()
    return vocabularies.build(block | {"size": min(block["size"], 400)}, texts)


def format_costs(result: dict[str, Any]) -> str:
    """The costs as a table in Markdown."""
    costs = result["rows"]
    lines = [
        f"| row | positions of a number of {DIGITS} digits | longest example | parameters beside `{BASE}` | "
        "ms a step | times the step |",
        "|---|---|---|---|---|---|",
    ]
    for row, cost in costs.items():
        more, ratio = cost["parameters"] - costs[BASE]["parameters"], cost["ratio"]
        spread = f" ({ratio['least']:.2f} to {ratio['most']:.2f})" if row != BASE else ""
        time_ms = f"{cost['step_ms']:.0f}" if "step_ms" in cost else ""
        lines.append(
            f"| `{row}` | {cost['positions']} | {cost['length']} | {more:+,} | {time_ms} | "
            f"{ratio['median']:.2f}{spread} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    command.entry(main)
