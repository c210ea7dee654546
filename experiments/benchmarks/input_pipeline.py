"""Measures how fast training batches are loaded, and how long a training step waits for them.

    python -m experiments.benchmarks.input_pipeline [--peer=PYTHON] [--rounds=7] [--batches=200] [--steps=20]
        [--contenders=gpt,numgpt,torch] [--layers=6 --width=384 --heads=6 --length=256 --rows=8]
        [--megabytes=4] [--out=FILE]

    gpt, numgpt  numjax's Loader over packed rows of running text, as `numjax.main --config=gpt:task=text` reads them;
                 numgpt's batches also hold every number's digits, exponents and features
    torch        a DataLoader over the same rows, tokenised and packed into one file before (`torch_loader.py`):
                 it only copies
    wait         share of the time of --steps training steps that numjax's loop spends fetching batches

The text is WikiText-2 if NUMJAX_DATA (by default ../shared/data) has it, else it is generated; the vocabulary is
GPT-2's if it is there. Contenders take turns (see `pairs.py`).
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import corpus, options, pairs
from numjax.errors import UsageError

SHAPE = corpus.SHAPE
NUMJAX_CONTENDERS = ("gpt", "numgpt")
PEER = "torch"
WAIT_LIMIT = 1.0  # percent of a step


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    parser = options.make_parser("input_pipeline", __doc__, SHAPE, rounds=7)
    options.add_contenders(parser, (*NUMJAX_CONTENDERS, PEER), (*NUMJAX_CONTENDERS, PEER), NUMJAX_CONTENDERS)
    parser.add_argument("--batches", type=int, default=200, help="a turn")
    parser.add_argument("--steps", type=int, default=20, help="training steps that wait; 0 for none")
    parser.add_argument("--megabytes", type=float, default=4, help="of text")
    arguments = parser.parse_args(words)
    shape = options.parse_shape(arguments, SHAPE)
    if arguments.worker:
        work(arguments.worker, shape, pathlib.Path(arguments.files))
        return {}
    names = options.parse_contenders(arguments, (*NUMJAX_CONTENDERS, PEER), (PEER,), ["torch", "numpy"])
    if arguments.steps < 0 or arguments.megabytes <= 0:
        raise UsageError("--steps must not be negative, and --megabytes must be positive")
    sizes = dict(
        rounds=arguments.rounds, batches=arguments.batches, steps=arguments.steps, megabytes=arguments.megabytes
    )
    result = measure(names, shape, peer=arguments.peer, **sizes)
    print(pairs.format_table(make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out and why)."""
    reason = pairs.explain_missing(peer, ["torch", "numpy"])
    names = [*NUMJAX_CONTENDERS] if reason else [*NUMJAX_CONTENDERS, PEER]
    result = measure(names, SHAPE, rounds=3, batches=100, steps=5, megabytes=1, peer=peer)
    return make_rows(result), [f"{PEER}: {reason}"] if reason else []


def measure(
    names: list[str], shape: dict[str, int], *, rounds: int, batches: int, steps: int, megabytes: float, peer: str
) -> dict[str, Any]:
    """Rates of every contender, and how long `steps` training steps wait for gpt's batches."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        source = corpus.write_text(files / "text", megabytes)
        wait = work_with_steps(shape, files, steps)
        shape_flags = [f"--{name}={value}" for name, value in shape.items()]
        contenders = []
        for name in names:
            if name == PEER:
                words = ["--packed=" + str(files / "packed.npy"), f"--rows={shape['rows']}"]
                contenders.append(pairs.Contender(name, pairs.make_command("torch_loader", *words, python=peer)))
            else:
                words = [f"--worker={name}", f"--files={folder}", *shape_flags]
                line = pairs.make_command("input_pipeline", *words)
                contenders.append(pairs.Contender(name, line, {"JAX_PLATFORMS": "cpu"}))
        result = pairs.drive(contenders, rounds, batches)
    for entry in result["contenders"].values():
        entry["rows_per_second"] = shape["rows"] / entry["median"]
        entry["tokens_per_second"] = entry["positions"] / entry["median"]
    result = {"benchmark": "input_pipeline", "shape": shape, "text": source, **result, **wait}
    result["pairs"] = {
        f"{contender} / {PEER}": pairs.ratio(result, PEER, contender)
        for contender in NUMJAX_CONTENDERS
        if {contender, PEER} <= set(names)
    }
    return result


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table."""
    table_rows = []
    for name, entry in result["contenders"].items():
        table_rows.append(pairs.BenchmarkRow(f"batches {name}", entry["rows_per_second"], unit="rows/s"))
        table_rows.append(pairs.BenchmarkRow(f"batches {name}", entry["tokens_per_second"], unit="tokens/s"))
    for name, spread in result["pairs"].items():
        table_rows.append(pairs.BenchmarkRow(f"batches {name}", *spread.values()))
    if "waited_percent" in result:
        floor = WAIT_LIMIT if result["shape"] == SHAPE else None
        table_rows.append(
            pairs.BenchmarkRow("step's wait for data", result["waited_percent"], floor=floor, lower=True, unit="%")
        )
    return table_rows


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def make_loader(name: str, shape: dict[str, int], files: pathlib.Path):
    """(the system, its loader), as numjax.main makes them."""
    from numjax.modes.data import load_data
    from numjax.pipeline.loader import Loader
    from numjax.system import assemble

    config = corpus.make_config(files, shape, name)
    workdir = files / name
    workdir.mkdir(exist_ok=True)
    system = assemble(config, workdir)
    data = load_data(system, workdir, strict=False, splits=("train",))
    return system, Loader(data.train, config, seed=0, host_features=system.host_features)


def work(name: str, shape: dict[str, int], files: pathlib.Path) -> None:
    """Serves a contender of numjax: a turn loads N batches."""
    _, loader = make_loader(name, shape, files)
    batches = loader.iterate()

    def turn(times: int) -> dict[str, int]:
        return {"positions": sum(next(batches)[2] for _ in range(times)) // times}

    turn(1)
    pairs.serve(turn)


def work_with_steps(shape: dict[str, int], files: pathlib.Path, steps: int) -> dict[str, float]:
    """Packs gpt's rows for the peer and takes training steps; returns {"waited_percent", "step_seconds"}."""
    import jax

    from numjax.runtime import shard
    from numjax.train import optim
    from numjax.train.compile import make_compiled

    system, loader = make_loader("gpt", shape, files)
    rows = []
    for i in range(loader.batches_of_epoch()):
        batch, *_ = loader.batch(i)
        assert batch.targets is not None
        rows.append(np.concatenate([batch.inputs.ids, batch.targets.ids[:, -1:]], axis=1))
    np.save(files / "packed.npy", np.concatenate(rows).astype(np.int32))
    if not steps:
        return {}
    compiled = make_compiled(system, shard.mesh_from_config(system.config), loader.example_batch())
    state, batches = compiled.init(0), loader.iterate()
    rates = optim.list_rates(system.config.optim, steps + 1)
    seconds_waited = 0.0
    for step in range(steps + 1):
        if step == 1:  # the first compiles
            start, seconds_waited = time.perf_counter(), 0.0
        fetch_start = time.perf_counter()
        batch, *_ = next(batches)
        seconds_waited += time.perf_counter() - fetch_start
        state, metrics = compiled.step(0, rates[step], state, shard.put(batch, compiled.mesh))
        jax.block_until_ready(metrics)
    total = time.perf_counter() - start
    return {"waited_percent": 100 * seconds_waited / total, "step_seconds": total / steps}


if __name__ == "__main__":
    command.entry(main)
