"""How fast training batches come, and what a training step waits for them.

    python -m experiments.benchmarks.input_pipeline [--peer=PYTHON] [--rounds=7] [--batches=200] [--steps=20]
        [--contenders=gpt,numgpt,torch] [--layers=6 --width=384 --heads=6 --length=256 --rows=8]
        [--megabytes=4] [--out=FILE]

    gpt, numgpt  numjax's Loader over packed rows of running text, as `numjax.main --config=gpt:task=text` reads them;
                 numgpt's batches also hold every number's digits, exponents and features
    torch        a DataLoader over the same rows, tokenised and packed ahead into one file (`torch_loader.py`):
                 it only copies
    wait         what the loop of numjax spends in fetching a batch, of the time of --steps training steps

The text is WikiText-2's where NUMJAX_DATA (by default ../shared/data) has it, else made up; the vocabulary is GPT-2's
where it is there. Contenders take turns (see `pairs.py`).
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
OURS = ("gpt", "numgpt")
PEER = "torch"
MOST_WAITED = 1.0  # percent of a step


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    made = options.parser("input_pipeline", __doc__, SHAPE, rounds=7)
    options.add_contenders(made, (*OURS, PEER), (*OURS, PEER), OURS)
    made.add_argument("--batches", type=int, default=200, help="a turn")
    made.add_argument("--steps", type=int, default=20, help="training steps that wait; 0 for none")
    made.add_argument("--megabytes", type=float, default=4, help="of text")
    given = made.parse_args(words)
    shape = options.shape_of(given, SHAPE)
    if given.worker:
        work(given.worker, shape, pathlib.Path(given.files))
        return {}
    names = options.contenders(given, (*OURS, PEER), (PEER,), ["torch", "numpy"])
    if given.steps < 0 or given.megabytes <= 0:
        raise UsageError("--steps must not be negative, and --megabytes must be positive")
    sizes = dict(rounds=given.rounds, batches=given.batches, steps=given.steps, megabytes=given.megabytes)
    result = measure(names, shape, peer=given.peer, **sizes)
    print(pairs.table(rows(result)))
    pairs.write(result, given.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out and why)."""
    why = pairs.lacking(peer, ["torch", "numpy"])
    names = [*OURS] if why else [*OURS, PEER]
    found = measure(names, SHAPE, rounds=3, batches=100, steps=5, megabytes=1, peer=peer)
    return rows(found), [f"{PEER}: {why}"] if why else []


def measure(
    names: list[str], shape: dict[str, int], *, rounds: int, batches: int, steps: int, megabytes: float, peer: str
) -> dict[str, Any]:
    """Rates of every contender, and what `steps` training steps wait for gpt's batches."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        source = corpus.write(files / "text", megabytes)
        waited = work_with_steps(shape, files, steps)
        own = [f"--{name}={value}" for name, value in shape.items()]
        contenders = []
        for name in names:
            if name == PEER:
                words = ["--packed=" + str(files / "packed.npy"), f"--rows={shape['rows']}"]
                contenders.append(pairs.Contender(name, pairs.command("torch_loader", *words, python=peer)))
            else:
                words = [f"--worker={name}", f"--files={folder}", *own]
                line = pairs.command("input_pipeline", *words)
                contenders.append(pairs.Contender(name, line, {"JAX_PLATFORMS": "cpu"}))
        found = pairs.drive(contenders, rounds, batches)
    for one in found["contenders"].values():
        one["rows_per_second"] = shape["rows"] / one["median"]
        one["tokens_per_second"] = one["positions"] / one["median"]
    found = {"benchmark": "input_pipeline", "shape": shape, "text": source, **found, **waited}
    found["pairs"] = {
        f"{mine} / {PEER}": pairs.ratio(found, PEER, mine) for mine in OURS if {mine, PEER} <= set(names)
    }
    return found


def rows(found: dict[str, Any]) -> list[pairs.Row]:
    """The table."""
    made = []
    for name, one in found["contenders"].items():
        made.append(pairs.Row(f"batches {name}", one["rows_per_second"], unit="rows/s"))
        made.append(pairs.Row(f"batches {name}", one["tokens_per_second"], unit="tokens/s"))
    for name, spread in found["pairs"].items():
        made.append(pairs.Row(f"batches {name}", *spread.values()))
    if "waited_percent" in found:
        floor = MOST_WAITED if found["shape"] == SHAPE else None
        made.append(pairs.Row("step's wait for data", found["waited_percent"], floor=floor, lower=True, unit="%"))
    return made


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def make(name: str, shape: dict[str, int], files: pathlib.Path):
    """(the system, its encoded splits, its loader), as numjax.main makes them."""
    from numjax.pipeline.loader import Loader
    from numjax.system import assemble
    from numjax.train import runs

    config = corpus.config(files, shape, name)
    workdir = files / name
    workdir.mkdir(exist_ok=True)
    system = assemble(config, workdir)
    data = runs.load_data(system, workdir, strict=False, splits=("train",))
    return system, Loader(data.train, config, seed=0, host_features=system.host_features)


def work(name: str, shape: dict[str, int], files: pathlib.Path) -> None:
    """A contender of numjax: a turn reads N batches."""
    _, loader = make(name, shape, files)
    batches = loader.iterate()

    def turn(times: int) -> dict[str, int]:
        return {"positions": sum(next(batches)[2] for _ in range(times)) // times}

    turn(1)
    pairs.serve(turn)


def work_with_steps(shape: dict[str, int], files: pathlib.Path, steps: int) -> dict[str, float]:
    """Packs gpt's rows into a file for the peer, and takes training steps: {"waited_percent", "step_seconds"}."""
    import jax

    from numjax.runtime import shard
    from numjax.train.compile import make_compiled

    system, loader = make("gpt", shape, files)
    rows = []
    for i in range(loader.batches_of_epoch()):
        batch, *_ = loader.batch(i)
        assert batch.targets is not None
        rows.append(np.concatenate([batch.inputs.ids, batch.targets.ids[:, -1:]], axis=1))
    np.save(files / "packed.npy", np.concatenate(rows).astype(np.int32))
    if not steps:
        return {}
    compiled = make_compiled(system, shard.mesh_of(system.config), loader.example_batch(), steps)
    state, batches = compiled.init(0), loader.iterate()
    waited = 0.0
    for step in range(steps + 1):
        if step == 1:  # the first compiles
            begun, waited = time.perf_counter(), 0.0
        before = time.perf_counter()
        batch, *_ = next(batches)
        waited += time.perf_counter() - before
        state, metrics = compiled.step(0, state, shard.put(batch, compiled.mesh))
        jax.block_until_ready(metrics)
    total = time.perf_counter() - begun
    return {"waited_percent": 100 * waited / total, "step_seconds": total / steps}


if __name__ == "__main__":
    command.entry(main)
