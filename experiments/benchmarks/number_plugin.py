"""What a number plugin adds to a step of masked pre-training: the same step with and without NumBed.

    python -m experiments.benchmarks.number_plugin [--numbed=char_lstm] [--size=1M] [--numbers=104] [--rounds=0]
        [--layers=12 --width=768 --heads=12 --length=512 --rows=32 --vocab=30522] [--remat=none] [--out=FILE]

Counted are the multiplications and additions of all matrix products of the whole step, loops unrolled; `--rounds`
also runs the two in turns that many times and takes the ratio of the times within each. Rows are full, and hold as
many numbers as 512 positions of the tables and texts of TAT-QA and TabFact do: about every fifth position is a
number's mark. Each number string is encoded once a batch, as `data.shared` has it (`distinct.py` measures how many
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
NUMBERS = 104  # a row; measured over 600 records of the training split, 0.20 a position
DISTINCT = 526 / 816  # strings of a batch over its numbers, over TAT-QA's development tables
MOST = 1.1  # times the step without


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a table, and the results as JSON on the last line."""
    made = options.parser("number_plugin", __doc__, SHAPE, rounds=0)
    made.add_argument("--numbed", default="char_lstm", help=f"one of {', '.join(luna.PARTS['numbed'])}")
    made.add_argument("--size", default="1M", help="of a character encoder")
    made.add_argument("--numbers", type=int, default=NUMBERS, help="in each row")
    made.add_argument("--remat", default="none", help="of the encoder, in both; its layers are scanned then")
    given = made.parse_args(words)
    shape = options.shape_of(given, SHAPE)
    if not 0 < given.numbers < shape["length"]:
        raise UsageError("--numbers must be positive, and less than --length")
    plugin = f"numbed={given.numbed}" + (f",size={given.size}" if given.numbed.startswith("char") else "")
    found = measure(shape, plugin, given.numbers, given.rounds, given.remat)
    print(pairs.table(rows(found)))
    pairs.write(found, given.out)
    return found


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: products alone, of the two larger sizes."""
    del peer
    return [row for size in ("1M", "9M") for row in rows(measure(SHAPE, f"size={size}", NUMBERS, 0))], []


def rows(found: dict[str, Any]) -> list[pairs.Row]:
    """The table's lines of what was measured."""
    usual = MOST if found["shape"] == SHAPE else None
    what = f"{found['plugin']}, masked step / without"
    out = [pairs.Row(f"{what}, products", found["products"], floor=usual, lower=True)]
    if "time" in found:
        out.append(pairs.Row(f"{what}, time", *found["time"], floor=usual, lower=True))
    return out


def measure(shape: dict[str, int], plugin: str, numbers: int, rounds: int, remat: str = "none") -> dict[str, Any]:
    """The step with the plugin over the step without: its products, and with `rounds` its time."""
    steps = {name: step(shape, plugin, numbers, name == "with", remat) for name in ("with", "without")}
    counted = {}
    for name, (run, state, batch) in steps.items():
        traced = jax.make_jaxpr(run)(0, jax.eval_shape(state), batch)
        # Its numbers are short, as most of tables are, and the head reads a quarter of the positions.
        counted[name] = flops.count(flops.live(traced), min)
    found: dict[str, Any] = {"benchmark": "number_plugin", "shape": shape, "plugin": plugin, "numbers": numbers}
    found["remat"] = remat
    found |= {"flops": counted, "products": counted["with"] / counted["without"]}
    if rounds:
        ready = {name: (jax.jit(run), jax.jit(state)(), batch) for name, (run, state, batch) in steps.items()}
        for run, state, batch in ready.values():
            jax.block_until_ready(run(0, state, batch))
        ratios = []
        for _ in range(rounds):
            took = {}
            for name, (run, state, batch) in ready.items():
                start = time.perf_counter()
                jax.block_until_ready(run(0, state, batch))
                took[name] = time.perf_counter() - start
            ratios.append(took["with"] / took["without"])
        found["time"] = statistics.median(ratios), min(ratios), max(ratios)
    return found


def step(
    shape: dict[str, int], plugin: str, numbers: int, plugged: bool, remat: str = "none"
) -> tuple[Any, Any, Batch]:
    """(the step, what makes its state, a batch)."""
    config: Any = luna.get_config(f"paper,{plugin}")
    with config.unlocked():
        config.backbone.update(
            width=shape["width"], layers=shape["layers"], heads=shape["heads"], max_length=shape["length"]
        )
        # On a CPU the compiler merges what is recomputed with what was computed, except in a scan.
        config.backbone.update(remat=remat, scan=remat != "none")
        if not plugged:
            del config.embeds["numeral"]
    scheme = make_scheme(config, None, None, None, stand_in.Vocabulary(shape["vocab"]))  # type: ignore[arg-type]
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, weights = make_objectives(config, model, scheme)
    optimizer, rate = optim.adamw(1e-4, 100)
    batch = drawn(shape, numbers, scheme, model if plugged else None)
    body = functools.partial(train_step, model, objectives, weights, optimizer, rate, 1)
    return body, lambda: init_state(model, optimizer, batch, 0), batch


def drawn(shape: dict[str, int], numbers: int, scheme: Any, model: Any) -> Batch:
    """Full rows with evenly spread numbers of three to eight characters, 15% of the positions masked."""
    rng = np.random.default_rng(0)
    size = (shape["rows"], shape["length"])
    ids = rng.integers(0, shape["vocab"], size).astype(np.int32)
    index = np.full(size, -1, np.int32)
    index[:, np.linspace(1, shape["length"] - 1, numbers).astype(int)] = np.arange(numbers)
    mask = rng.random(size) < 0.15
    many = shape["rows"] * numbers
    pool = round(DISTINCT * many)
    surfaces = [f"{n:,}" for n in rng.choice(np.arange(100, 999_999), pool, replace=False)]
    flat = to_numeral([value_of(text) for text in surfaces], 20)
    which = rng.permutation(np.append(np.arange(pool), rng.integers(0, pool, many - pool)))
    # The shared table has a width of the ladder; what fills it up is encoded too.
    filled = np.resize(np.arange(pool), distinct.width(pool, many))
    features = {}
    if model is not None and model.embeds["numeral"].provides("host_features"):
        made = model.embeds["numeral"].host_features(flat, surfaces)
        features = {f"numeral/{name}": values[filled][None] for name, values in made.items()}
    shared = Numeral(*(x[filled][None] for x in flat))
    place = np.where(index >= 0, which.reshape(shape["rows"], numbers)[:, index[0]], -1).astype(np.int32)
    table = Numeral(*(x[which].reshape(shape["rows"], numbers, *x.shape[1:]) for x in flat))
    positions = np.broadcast_to(np.arange(shape["length"], dtype=np.int32), size)
    ids = np.where(index >= 0, scheme.vocab.mark("[NUM]"), ids).astype(np.int32)
    read = np.where(mask, scheme.vocab.mark("[MASK]"), ids).astype(np.int32)
    seen = np.where(mask, -1, index).astype(np.int32)
    ones = np.ones(size, np.int32)
    inputs = Tokens(read, positions, ones, {"types": ones}, numeral_index=seen, numerals=table, features=features)
    inputs = inputs._replace(distinct=shared, distinct_index=np.where(mask, -1, place).astype(np.int32))
    return jax.tree.map(jnp.asarray, Batch(inputs, Targets(ids, mask, index), valid=np.ones(shape["rows"], bool)))


if __name__ == "__main__":
    command.entry(main)
