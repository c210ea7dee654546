"""Measures what each row of configs/schemes.py costs beside `digits`: positions, parameters, the time of a step.

    python -m experiments.benchmarks.scheme_cost [--rows=digits,fone,…] [--scale=smoke] [--rounds=7] [--steps=10]
        [--problems=additions|grid] [--add="mine=xval …"] [--out=FILE]

Both train on the same problems: additions, in batches as long as the row's longest example, or those of all columns
of the grid, in the batches that the grid makes of them. So short encodings are faster. In each round `digits` and the
row take turns, and the ratio of their times is taken within the round. FILE is written after each row; rows that it
holds are kept, and not measured again.
"""

from __future__ import annotations

import collections
import functools
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from numjax.bundled import data as datasets
from numjax.bundled.configs import schemes
from numjax.bundled.experiments import command, stored
from numjax.bundled.experiments.benchmarks import options, pairs
from numjax.bundled.experiments.grid import problems, scales
from numjax.bundled.experiments.grid import rows as grid_rows
from numjax.errors import UsageError
from numjax.pipeline.features import Encoded
from numjax.runtime import shard
from numjax.system import System, assemble, make_loader
from numjax.text import vocab as vocabularies
from numjax.train import optim
from numjax.train.step import init_state, train_step

BASE = "digits"
DIGITS = 6  # of the number whose positions are counted
EXAMPLES = 256
GRID_EXAMPLES = 200  # of each column
MOST_POSITIONS = 1024
SHORT = ("chunk3", "fone")


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a table, and the results as JSON on the last line."""
    parser = options.make_parser("scheme_cost", __doc__, {}, rounds=7)
    parser.add_argument("--rows", default=",".join(schemes.ROWS), help="comma-separated")
    parser.add_argument("--scale", default="smoke", choices=["smoke", "cpu"])
    parser.add_argument("--problems", default="additions", choices=["additions", "grid"])
    parser.add_argument("--add", action="append", default=[], help="a row of your own, as experiments.grid takes it")
    parser.add_argument("--steps", type=int, default=10, help="of each length of a batch, in a turn")
    arguments = parser.parse_args(words)
    added = [grid_rows.parse_addition(word) for word in arguments.add]
    rows = [*arguments.rows.split(","), *(row.name for row in added)]
    if unknown_rows := [row for row in rows if row not in schemes.ROWS and row not in [own.name for own in added]]:
        raise UsageError(f"--rows: {unknown_rows[0]!r} is no row of configs/schemes.py")
    if arguments.rounds < 1 or arguments.steps < 1:
        raise UsageError("--rounds and --steps must be positive")
    if added and arguments.problems != "grid":
        raise UsageError("--add: a row of your own is timed on the grid's problems: add --problems=grid")
    settings = Settings(
        arguments.scale, arguments.problems, arguments.rounds, arguments.steps, {row.name: row for row in added}
    )
    result = measure(rows, settings, arguments.out)
    print(format_costs(result))
    pairs.write_result(result, arguments.out)
    return result


class Settings(NamedTuple):
    """How rows are measured: --scale, --problems, --rounds and --steps; rows of the user's own by name."""

    scale: str
    problems: str
    rounds: int
    steps: int
    added: Mapping[str, grid_rows.Row] = {}


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: a few rows and rounds."""
    del peer
    result = measure(list(SHORT), Settings("smoke", "additions", rounds=3, steps=3))
    costs = {row: cost for row, cost in result["rows"].items() if row != BASE}
    return [pairs.BenchmarkRow(f"step of {row} / {BASE}", *cost["ratio"].values()) for row, cost in costs.items()], []


def measure(rows: list[str], settings: Settings, out: str | None = None) -> dict[str, Any]:
    """{"machine", …, "rows": row → its cost}, with `digits` first; `out` is written after each row.

    Raises:
      UsageError: `out` holds something else than rows that were measured like this, here.
    """
    result = start_result(settings, out)
    missing = [row for row in rows if row not in result["rows"] and row != BASE]
    base = Contender(BASE, settings) if missing or not result["rows"] else None
    if base is not None and not result["rows"]:
        seconds = [base.take_turn(settings.steps) for _ in range(settings.rounds)]
        result["rows"][BASE] = base.cost | {"ratio": dict.fromkeys(("median", "least", "most"), 1.0)}
        result["rows"][BASE]["step_ms"] = 1000 * statistics.median(seconds)
    for row in missing:
        assert base is not None
        contender = Contender(row, settings)
        pairs_of_turns = [
            (base.take_turn(settings.steps), contender.take_turn(settings.steps)) for _ in range(settings.rounds)
        ]
        ratios = sorted(own / other for other, own in pairs_of_turns)
        result["rows"][row] = contender.cost | {
            "ratio": {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]},
            "step_ms": 1000 * statistics.median(own for _, own in pairs_of_turns),
        }
        result["machine"]["load_after"] = round(os.getloadavg()[0], 2)
        print(f"{row}: {result['rows'][row]['ratio']['median']:.2f} times a step of {BASE}", flush=True)
        if out:
            pairs.write_file(result, out)
    return result


def start_result(settings: Settings, out: str | None) -> dict[str, Any]:
    """What the file `out` holds, or a result without rows.

    Raises:
      UsageError: it holds something else than rows that were measured like this, here.
    """
    result = {"benchmark": "scheme_cost", "commit": stored.find_commit(), "machine": pairs.describe_machine()}
    result |= {"scale": settings.scale, "problems": settings.problems}
    result |= {"rounds": settings.rounds, "steps": settings.steps, "rows": {}}
    path = pathlib.Path(out or "")
    if not out or not path.exists():
        return result
    known = pairs.read_file(path)
    for name in ("benchmark", "scale", "problems", "rounds", "steps"):
        if known.get(name) != result[name]:
            raise UsageError(
                f"--out={out}: has {name} {known.get(name)!r}, not {result[name]!r}: choose another file"
            )
    for name in ("processor", "family", "cores"):
        there, here = known["machine"].get(name), result["machine"][name]
        if there != here:
            raise UsageError(
                f"--out={out}: was measured with {name} {there!r}, and here it is {here!r}: choose another file"
            )
    return known


class Contender:
    """A row that trains.

    Attributes:
      cost: {"positions" of a whole number of six digits, "length" of its longest batch, "parameters"}.
    """

    def __init__(self, row: str, settings: Settings):
        make = make_grid_system if settings.problems == "grid" else make_addition_system
        system, encoded = make(row, settings)
        loader = make_loader(system, encoded, shard.make_mesh())
        rate = optim.schedule("constant", 1e-3, 100)
        optimizer = optim.adamw(rate)
        arguments = system.model, system.objectives, system.weights, optimizer, rate, 1
        self._run: Callable[..., Any] = jax.jit(functools.partial(train_step, *arguments))
        epoch = [loader.batch(i)[0] for i in range(loader.batches_of_epoch())]
        self._lengths = collections.Counter(batch.inputs.ids.shape[1] for batch in epoch)
        # One batch of each length.
        self._batches = {batch.inputs.ids.shape[1]: jax.tree.map(jax.numpy.asarray, batch) for batch in epoch}
        self._state = jax.jit(lambda: init_state(system.model, optimizer, next(iter(self._batches.values())), 0))()
        self.cost: dict[str, Any] = {
            "positions": system.scheme.positions_per_number(DIGITS),
            "length": max(self._lengths),
            "parameters": sum(x.size for x in jax.tree.leaves(self._state.params)),
        }
        self.take_turn(1)  # compiles

    def take_turn(self, steps: int) -> float:
        """Seconds of a step: the mean over an epoch, of which each length of a batch is timed for so many steps."""
        total = 0.0
        for length, batch in self._batches.items():
            start = time.perf_counter()
            for _ in range(steps):
                self._state, _ = self._run(0, self._state, batch)
            jax.block_until_ready(self._state)
            total += self._lengths[length] * (time.perf_counter() - start) / steps
        return total / self._lengths.total()


def make_addition_system(row: str, settings: Settings) -> tuple[System, Encoded]:
    """The system of a row with additions, all in batches of one length, and these, encoded."""
    records = [dict(record) for record in datasets.load("arithmetic", "train", operations="add", size=EXAMPLES)]
    return fit_length(make_system(row, settings.scale, records), records)


def make_grid_system(row: str, settings: Settings) -> tuple[System, Encoded]:
    """The system of a row of the grid with fewer problems of all columns of a scale, and these, encoded."""
    few = scales.SCALES[settings.scale]._replace(problems=GRID_EXAMPLES)
    config = grid_rows.make_config(settings.added.get(row) or grid_rows.list_rows()[row], few, few.columns)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        system = assemble(config, folder, platform="cpu")
        system, encoded = fit_length(system, problems.load_records(system.task.dataset, "train"))
        with system.config.unlocked():
            system.config.backbone.max_length = system.config.data.length
        return assemble(system.config, folder, platform="cpu"), encoded


def fit_length(system: System, records: list[dict[str, Any]]) -> tuple[System, Encoded]:
    """The system with room for its longest record, and the records, encoded."""
    config: Any = system.config
    with config.unlocked():
        config.data.length = MOST_POSITIONS
        config.data.length = -(-int(system.encode_split(records, "train").lengths.max()) // 8) * 8
    return system, system.encode_split(records, "train")


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
