"""Measures what is saved when each number string of a batch is encoded once, instead of once per example.

    python -m experiments.benchmarks.distinct [--tatqa=FOLDER] [--tabfact=FOLDER] [--rows=32] [--length=512]
        [--parameters=1M] [--width=768] [--batches=50] [--rounds=5] [--out=FILE]

The batches are those of `configs/luna.py` on one device. It counts the numbers of a batch, the distinct strings among
them, and the entries of the encoded tables, padding included. It times a forward and backward pass of the CharLSTM
over one batch's table, with and without `data.shared`, in turns, in processor time, so that other programs do not
count. Without folders the tables are generated.
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
    """Prints the counts and times, and all results as JSON on the last line."""
    parser = options.make_parser("distinct", __doc__, SHAPE, rounds=5)
    parser.add_argument("--tatqa", default="", help="folder of TAT-QA")
    parser.add_argument("--tabfact", default="", help="folder of TabFact")
    parser.add_argument("--parameters", default="1M", help="size of the encoder")
    parser.add_argument("--batches", type=int, default=50, help="at most so many are counted")
    arguments = parser.parse_args(words)
    shape = options.parse_shape(arguments, SHAPE)
    with tempfile.TemporaryDirectory() as folder:
        system, loaders = make_loaders(
            shape, arguments.tatqa, arguments.tabfact, arguments.parameters, pathlib.Path(folder)
        )
        counts = count_numbers(loaders, arguments.batches)
        times = time_steps(system, loaders, arguments.rounds)
    data = " and ".join(name for name in ("tatqa", "tabfact") if getattr(arguments, name)) or "generated tables"
    result = {"benchmark": "distinct", "shape": shape, "data": data, "counted": counts, "seconds": times}
    for name, value in (counts | {f"seconds, {name}": seconds for name, seconds in times.items()}).items():
        print(f"{name}: {value:.4g}")
    pairs.write_result(result | {"machine": pairs.describe_machine()}, arguments.out)
    return result


def make_loaders(shape: dict[str, int], tatqa: str, tabfact: str, parameters: str, folder: pathlib.Path):
    """(the system, two loaders: one that encodes numbers once per example, one that encodes them once per batch)."""
    from numjax.bundled.configs import luna
    from numjax.modes.data import load_data
    from numjax.pipeline.loader import Loader
    from numjax.system import assemble

    config: Any = luna.get_config("laptop")
    with config.unlocked():
        config.task.update(tatqa=tatqa, tabfact=tabfact)
        config.data.length = config.backbone.max_length = shape["length"]
        config.data.buckets = 1
        config.backbone.width = shape["width"]
        config.embeds.numeral.parameters = parameters
        config.optim.batch_size = shape["rows"]
    system = assemble(config, folder)
    data = load_data(system, folder, strict=False, splits=("train",))
    loaders = []
    for shared in (False, True):
        config.data.shared = shared
        loaders.append(Loader(data.train, config, seed=0, host_features=system.host_features, process=(0, 1)))
    return system, loaders


def count_numbers(loaders, limit: int) -> dict[str, float]:
    """Name → mean count over at most `limit` batches; "programs" is the number of different table shapes."""
    values_by_name: dict[str, list[float]] = {}
    n_batches = min(limit, loaders[0].batches_of_epoch())
    for index in range(n_batches):
        inputs_by_example, inputs_by_batch = (loader.batch(index)[0].inputs for loader in loaders)
        counts = {
            "numbers": inputs_by_example.numerals.valid.sum(),
            "distinct": inputs_by_batch.distinct.valid.sum(),
            "encoded once an example": inputs_by_example.numerals.valid.size,
            "encoded once a batch": inputs_by_batch.distinct.valid.size,
        }
        for name, value in counts.items():
            values_by_name.setdefault(name, []).append(float(value))
    widths = {loaders[1].batch(index)[0].inputs.distinct.valid.shape for index in range(n_batches)}
    return {name: statistics.fmean(values) for name, values in values_by_name.items()} | {
        "programs": float(len(widths))
    }


def time_steps(system, loaders, rounds: int) -> dict[str, float]:
    """The median processor time of a forward and backward pass over the first batch's table."""
    import jax

    encoder = system.model.embeds["numeral"]

    @jax.jit
    def step(params, numerals, features):
        return jax.value_and_grad(lambda p: encoder.apply({"params": p}, numerals, features).mean())(params)

    inputs = [loader.batch(0)[0].inputs for loader in loaders]
    encoder_inputs = []
    for tokens, table in zip(inputs, (inputs[0].numerals, inputs[1].distinct), strict=True):
        features = {name.split("/", 1)[1]: values for name, values in tokens.features.items()}
        encoder_inputs.append((table, features))
    params = encoder.init(jax.random.key(0), *encoder_inputs[0])["params"]
    seconds: dict[str, list[float]] = {"once an example": [], "once a batch": []}
    for turn in range(rounds + 1):
        for name, encoder_input in zip(seconds, encoder_inputs, strict=True):
            start = time.process_time()
            jax.block_until_ready(step(params, *encoder_input))
            if turn:  # the first compiles
                seconds[name].append(time.process_time() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


if __name__ == "__main__":
    command.entry(main)
