"""What is spared where a batch's number strings are encoded once each, instead of once an example.

    python -m experiments.benchmarks.distinct [--tatqa=FOLDER] [--tabfact=FOLDER] [--rows=32] [--length=512]
        [--parameters=1M] [--width=768] [--batches=50] [--rounds=5] [--out=FILE]

The batches are those of `configs/luna.py` on one device. Counted are the numbers that stand in a batch, the distinct
strings among them, and the places of the tables that are encoded, padding with them. Timed are a forward and backward
pass of the CharLSTM over one batch's table, with and without `data.shared`, in turns; processor time, which other
programs do not add to. Without folders the tables are generated.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import time
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs

SHAPE = {"rows": 32, "length": 512, "width": 768}


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints what is counted and timed, and as JSON on the last line."""
    made = options.parser("distinct", __doc__, SHAPE, rounds=5)
    made.add_argument("--tatqa", default="", help="folder of TAT-QA")
    made.add_argument("--tabfact", default="", help="folder of TabFact")
    made.add_argument("--parameters", default="1M", help="size of the encoder")
    made.add_argument("--batches", type=int, default=50, help="that are counted at most")
    given = made.parse_args(words)
    shape = options.shape_of(given, SHAPE)
    with tempfile.TemporaryDirectory() as folder:
        system, loaders = make(shape, given.tatqa, given.tabfact, given.parameters, pathlib.Path(folder))
        counted = count(loaders, given.batches)
        timed = seconds(system, loaders, given.rounds)
    data = " and ".join(name for name in ("tatqa", "tabfact") if getattr(given, name)) or "generated tables"
    result = {"benchmark": "distinct", "shape": shape, "data": data, "counted": counted, "seconds": timed}
    for name, value in (counted | {f"seconds, {name}": spent for name, spent in timed.items()}).items():
        print(f"{name}: {value:.4g}")
    pairs.write(result | {"machine": pairs.machine()}, given.out)
    return result


def make(shape: dict[str, int], tatqa: str, tabfact: str, parameters: str, folder: pathlib.Path):
    """(the system, its loaders: once an example, and once a batch)."""
    from numjax.bundled.configs import luna
    from numjax.pipeline.loader import Loader
    from numjax.system import assemble
    from numjax.train import runs

    config: Any = luna.get_config("laptop")
    with config.unlocked():
        config.task.update(tatqa=tatqa, tabfact=tabfact)
        config.data.length = config.backbone.max_length = shape["length"]
        config.data.buckets = 1
        config.backbone.width = shape["width"]
        config.embeds.numeral.parameters = parameters
        config.optim.batch_size = shape["rows"]
    system = assemble(config, folder)
    data = runs.load_data(system, folder, strict=False, splits=("train",))
    loaders = []
    for shared in (False, True):
        config.data.shared = shared
        loaders.append(Loader(data.train, config, seed=0, host_features=system.host_features, process=(0, 1)))
    return system, loaders


def count(loaders, most: int) -> dict[str, float]:
    """Means over batches."""
    found: dict[str, list[float]] = {}
    batches = min(most, loaders[0].batches_of_epoch())
    for index in range(batches):
        plain, shared = (loader.batch(index)[0].inputs for loader in loaders)
        one = {
            "numbers": plain.numerals.valid.sum(),
            "distinct": shared.distinct.valid.sum(),
            "encoded once an example": plain.numerals.valid.size,
            "encoded once a batch": shared.distinct.valid.size,
        }
        for name, value in one.items():
            found.setdefault(name, []).append(float(value))
    widths = {loaders[1].batch(index)[0].inputs.distinct.valid.shape for index in range(batches)}
    return {name: statistics.fmean(values) for name, values in found.items()} | {"programs": float(len(widths))}


def seconds(system, loaders, rounds: int) -> dict[str, float]:
    """The median processor time of a forward and backward pass over the first batch's table."""
    import jax

    encoder = system.model.embeds["numeral"]

    @jax.jit
    def step(params, numerals, features):
        return jax.value_and_grad(lambda p: encoder.apply({"params": p}, numerals, features).mean())(params)

    inputs = [loader.batch(0)[0].inputs for loader in loaders]
    read = []
    for tokens, table in zip(inputs, (inputs[0].numerals, inputs[1].distinct), strict=True):
        features = {name.split("/", 1)[1]: values for name, values in tokens.features.items()}
        read.append((table, features))
    params = encoder.init(jax.random.key(0), *read[0])["params"]
    spent: dict[str, list[float]] = {"once an example": [], "once a batch": []}
    for turn in range(rounds + 1):
        for name, one in zip(spent, read, strict=True):
            begun = time.process_time()
            jax.block_until_ready(step(params, *one))
            if turn:  # the first compiles
                spent[name].append(time.process_time() - begun)
    return {name: float(np.median(values)) for name, values in spent.items()}


if __name__ == "__main__":
    command.entry(main)
