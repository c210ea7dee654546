"""Measures what a number plugin adds to a step of masked pre-training: the same step with and without NumBed.

    python -m experiments.benchmarks.number_plugin [--numbed=char_lstm] [--size=1M] [--numbers=104] [--rounds=0]
        [--layers=12 --width=768 --heads=12 --length=512 --rows=32 --vocab=30522] [--remat=none] [--out=FILE]

It counts the multiplications and additions of all matrix products of the whole step, loops unrolled. `--rounds` also
runs the two steps in turns that many times and takes the ratio of their times within each round. Rows are full and
have as many numbers as 512 positions of the tables and texts of TAT-QA and TabFact: about every fifth position is a
number's mark. Each number string is encoded once per batch, as with `data.shared` (`distinct.py` measures how many
there are).
"""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax.build import build
from numjax.bundled.configs import luna
from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs
from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from numjax.numeral.surface import value_of
from numjax.pipeline import distinct
from numjax.plan import flops, stand_in
from numjax.system import make_model, make_objectives, make_scheme
from numjax.train import optim
from numjax.train.step import init_state, train_step
from numjax.types import Batch, Numeral, Targets, Tokens

SHAPE = dict(layers=12, width=768, heads=12, length=512, rows=32, vocab=30_522)
NUMBERS = 104  # per row; measured over 600 records of the training split, 0.20 per position
DISTINCT = 526 / 816  # distinct strings over numbers of a batch, measured on TAT-QA's development tables
RATIO_LIMIT = 1.1  # times the step without


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a table, and the results as JSON on the last line."""
    parser = options.make_parser("number_plugin", __doc__, SHAPE, rounds=0)
    parser.add_argument("--numbed", default="char_lstm", help=f"one of {', '.join(luna.PARTS['numbed'])}")
    parser.add_argument("--size", default="1M", help="of a character encoder")
    parser.add_argument("--numbers", type=int, default=NUMBERS, help="in each row")
    parser.add_argument("--remat", default="none", help="of the encoder, in both; its layers are scanned then")
    arguments = parser.parse_args(words)
    shape = options.parse_shape(arguments, SHAPE)
    if not 0 < arguments.numbers < shape["length"]:
        raise UsageError("--numbers must be positive, and less than --length")
    plugin = f"numbed={arguments.numbed}" + (f",size={arguments.size}" if arguments.numbed.startswith("char") else "")
    result = measure(shape, plugin, arguments.numbers, arguments.rounds, arguments.remat)
    print(pairs.format_table(make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: only products, of the two larger sizes."""
    del peer
    return [row for size in ("1M", "9M") for row in make_rows(measure(SHAPE, f"size={size}", NUMBERS, 0))], []


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table."""
    limit = RATIO_LIMIT if result["shape"] == SHAPE else None
    title = f"{result['plugin']}, masked step / without"
    table_rows = [pairs.BenchmarkRow(f"{title}, products", result["products"], floor=limit, lower=True)]
    if "time" in result:
        table_rows.append(pairs.BenchmarkRow(f"{title}, time", *result["time"], floor=limit, lower=True))
    return table_rows


def measure(shape: dict[str, int], plugin: str, numbers: int, rounds: int, remat: str = "none") -> dict[str, Any]:
    """The ratio of the step with the plugin to the step without: of products, and with `rounds` of time."""
    steps = {name: make_step(shape, plugin, numbers, name == "with", remat) for name in ("with", "without")}
    flop_counts = {}
    for name, (run, state, batch) in steps.items():
        traced = jax.make_jaxpr(run)(0, jax.eval_shape(state), batch)
        # The batch's numbers are short, like most in tables, and the head reads a quarter of the positions.
        flop_counts[name] = flops.count(flops.drop_dead_code(traced), min)
    result: dict[str, Any] = {"benchmark": "number_plugin", "shape": shape, "plugin": plugin, "numbers": numbers}
    result["remat"] = remat
    result |= {"flops": flop_counts, "products": flop_counts["with"] / flop_counts["without"]}
    if rounds:
        compiled = {name: (jax.jit(run), jax.jit(state)(), batch) for name, (run, state, batch) in steps.items()}
        for run, state, batch in compiled.values():
            jax.block_until_ready(run(0, state, batch))
        ratios = []
        for _ in range(rounds):
            seconds = {}
            for name, (run, state, batch) in compiled.items():
                start = time.perf_counter()
                jax.block_until_ready(run(0, state, batch))
                seconds[name] = time.perf_counter() - start
            ratios.append(seconds["with"] / seconds["without"])
        result["time"] = statistics.median(ratios), min(ratios), max(ratios)
    return result


def make_step(
    shape: dict[str, int], plugin: str, numbers: int, has_plugin: bool, remat: str = "none"
) -> tuple[Any, Any, Batch]:
    """(the step, a function that makes its state, a batch)."""
    config: Any = luna.get_config(f"paper,{plugin}")
    with config.unlocked():
        config.backbone.update(
            width=shape["width"], layers=shape["layers"], heads=shape["heads"], max_length=shape["length"]
        )
        # On a CPU the compiler removes recomputation, except in a scan.
        config.backbone.update(remat=remat, scan=remat != "none")
        if not has_plugin:
            del config.embeds["numeral"]
    scheme = make_scheme(config, None, None, None, stand_in.Vocabulary(shape["vocab"]))  # type: ignore[arg-type]
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, weights = make_objectives(config, model, scheme)
    rate = optim.schedule("constant", 1e-4, 100)
    optimizer = optim.adamw(rate)
    batch = draw_batch(shape, numbers, scheme, model if has_plugin else None)
    body = functools.partial(train_step, model, objectives, weights, optimizer, rate, 1)
    return body, lambda: init_state(model, optimizer, batch, 0), batch


def draw_batch(shape: dict[str, int], numbers: int, scheme: Any, model: Any) -> Batch:
    """A batch of full rows with evenly spread numbers of three to eight characters; 15% are masked."""
    rng = np.random.default_rng(0)
    size = (shape["rows"], shape["length"])
    ids = rng.integers(0, shape["vocab"], size).astype(np.int32)
    index = np.full(size, -1, np.int32)
    index[:, np.linspace(1, shape["length"] - 1, numbers).astype(int)] = np.arange(numbers)
    mask = rng.random(size) < 0.15
    n_numbers = shape["rows"] * numbers
    n_strings = round(DISTINCT * n_numbers)
    surfaces = [f"{n:,}" for n in rng.choice(np.arange(100, 999_999), n_strings, replace=False)]
    numerals = to_numeral([value_of(text) for text in surfaces], 20)
    string_index = rng.permutation(np.append(np.arange(n_strings), rng.integers(0, n_strings, n_numbers - n_strings)))
    # The shared table's width is a step of the ladder; its padding is encoded too.
    padded_pool = np.resize(np.arange(n_strings), distinct.choose_width(n_strings, n_numbers))
    features = {}
    if model is not None and model.embeds["numeral"].provides("host_features"):
        encoder_features = model.embeds["numeral"].host_features(numerals, surfaces)
        features = {f"numeral/{name}": values[padded_pool][None] for name, values in encoder_features.items()}
    shared_table = Numeral(*(x[padded_pool][None] for x in numerals))
    shared_index = np.where(index >= 0, string_index.reshape(shape["rows"], numbers)[:, index[0]], -1).astype(
        np.int32
    )
    table = Numeral(*(x[string_index].reshape(shape["rows"], numbers, *x.shape[1:]) for x in numerals))
    positions = np.broadcast_to(np.arange(shape["length"], dtype=np.int32), size)
    ids = np.where(index >= 0, scheme.vocab.mark("[NUM]"), ids).astype(np.int32)
    masked_ids = np.where(mask, scheme.vocab.mark("[MASK]"), ids).astype(np.int32)
    visible_index = np.where(mask, -1, index).astype(np.int32)
    ones = np.ones(size, np.int32)
    inputs = Tokens(
        masked_ids, positions, ones, {"types": ones}, numeral_index=visible_index, numerals=table, features=features
    )
    inputs = inputs._replace(distinct=shared_table, distinct_index=np.where(mask, -1, shared_index).astype(np.int32))
    return jax.tree.map(jnp.asarray, Batch(inputs, Targets(ids, mask, index), valid=np.ones(shape["rows"], bool)))


if __name__ == "__main__":
    command.entry(main)
