"""Measures the pre-training of TabBERT against the same model in PyTorch.

    python -m experiments.benchmarks.tabbert [--contenders=tabbert,torch] [--rounds=5] [--steps=1]
        [--layers=2 --width=16 --heads=4 --rows=32 --vocab=5000] [--peer=PYTHON] [--out=FILE]

Both sides (`torch_tabbert.py`) have the same windows, masks and shapes. Parameters have the same distribution, so
that the first losses, which are those of guessing, agree to a few per cent. No number plugin, no dropout, float32.
The measure is rows of the table a second.
"""

from __future__ import annotations

import functools
import json
import pathlib
import tempfile
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs

COLUMNS, WINDOW = 12, 10
# The config's laptop sizes, and the paper's.
SHAPE = dict(layers=2, width=16, heads=4, field_heads=2, rows=32, vocab=5000)
PAPER = dict(layers=12, width=64, heads=12, field_heads=8, rows=24, vocab=5000)
# Share of the vocabulary of each column, from user to errors; merchants are most.
SHARES = (0.02, 0.001, 0.002, 0.004, 0.001, 0.6, 0.15, 0.03, 0.17, 0.02, 0.002)
SPECIAL = 7
FLOOR = 2.0


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    parser = options.make_parser("tabbert", __doc__, SHAPE, rounds=5)
    options.add_contenders(parser, ("tabbert", "torch"), ("tabbert", "torch"), ("tabbert",))
    parser.add_argument("--steps", type=int, default=1, help="steps a turn")
    arguments = parser.parse_args(words)
    if arguments.worker:
        work(pathlib.Path(arguments.files))
        return {}
    names = options.parse_contenders(arguments, ("tabbert", "torch"), ("torch",), ["torch", "numpy"])
    result = measure(names, options.parse_shape(arguments, SHAPE), arguments.rounds, arguments.steps, arguments.peer)
    print(pairs.format_table(make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out and why)."""
    reason = pairs.explain_missing(peer, ["torch", "numpy"])
    table_rows = make_rows(
        measure(["tabbert"] if reason else ["tabbert", "torch"], SHAPE, rounds=5, steps=2, peer=peer)
    )
    return table_rows, [f"torch: {reason}"] if reason else []


def measure(names: list[str], shape: dict[str, int], rounds: int, steps: int, peer: str) -> dict[str, Any]:
    """The result of `pairs.drive`, with the shape and table rows a second."""
    with tempfile.TemporaryDirectory() as folder:
        save(pathlib.Path(folder), shape)
        lines = {
            "tabbert": pairs.make_command("tabbert", "--worker=tabbert", f"--files={folder}"),
            "torch": pairs.make_command("torch_tabbert", f"--files={folder}", python=peer),
        }
        contenders = [pairs.Contender(name, lines[name], {"JAX_PLATFORMS": "cpu"}) for name in names]
        result = {"benchmark": "tabbert", "shape": shape, **pairs.drive(contenders, rounds, steps)}
    for entry in result["contenders"].values():
        entry["rows_per_second"] = shape["rows"] * WINDOW / entry["median"]
    if "torch" in names and "tabbert" in names:
        result["speed"] = pairs.ratio(result, "torch", "tabbert")
        result["speed_by_processor_time"] = pairs.ratio(result, "torch", "tabbert", "cpu_seconds")
        result["memory"] = pairs.memory_ratio(result, "tabbert", "torch")
    return result


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table: table rows a second, and the ratios to torch."""
    title = "pretrain tabbert {layers}/{width}".format(**result["shape"])
    table_rows = [
        pairs.BenchmarkRow(f"{title} {n}", entry["rows_per_second"], unit="rows/s")
        for n, entry in result["contenders"].items()
    ]
    if "speed" in result:
        default_floor = FLOOR if result["shape"] == SHAPE else None
        for name, key in (("", "speed"), (" by processor time", "speed_by_processor_time")):
            spread = result[key]
            floor = default_floor if key == "speed" else None
            table_rows.append(
                pairs.BenchmarkRow(
                    f"{title} / torch{name}", spread["median"], spread["least"], spread["most"], floor=floor
                )
            )
        table_rows.append(pairs.BenchmarkRow(f"{title} / torch peak memory", result["memory"], lower=True))
    return table_rows


def save(folder: pathlib.Path, shape: dict[str, int]) -> None:
    """Saves masked windows of generated cells that both sides read."""
    rng = np.random.default_rng(0)
    sizes = [max(2, int(share * (shape["vocab"] - SPECIAL))) for share in SHARES]
    first_ids = np.cumsum([SPECIAL, *sizes])[:-1].tolist()
    spans = [*zip(first_ids, sizes, strict=True), (0, SPECIAL)]
    count = (shape["rows"], WINDOW)
    ids = np.stack(
        [first_id + rng.integers(0, size, count) for first_id, size in spans[:-1]] + [np.ones(count, int)], axis=-1
    )
    mask = rng.random(ids.shape) < 0.15
    mask[..., -1] = False
    ids, mask = (x.reshape(shape["rows"], -1) for x in (ids, mask))
    inputs = np.where(mask, 4, ids)
    np.savez(folder / "batch.npz", ids=ids.astype(np.int32), mask=mask, inputs=inputs.astype(np.int32))
    full_shape = {**shape, "vocab": sum(sizes) + SPECIAL, "columns": COLUMNS, "window": WINDOW}
    (folder / "shape.json").write_text(json.dumps({"shape": full_shape, "spans": spans}))


def work(folder: pathlib.Path) -> None:
    """Serves numjax's side: a turn takes N training steps."""
    import jax

    from numjax.build import build
    from numjax.model import Model
    from numjax.system import make_backbone
    from numjax.text import rows
    from numjax.text.vocab import cells
    from numjax.train import optim
    from numjax.train.step import compiler_options, init_state, train_step
    from numjax.types import Batch, Targets, Tokens

    layout = json.loads((folder / "shape.json").read_text())
    shape, arrays = layout["shape"], np.load(folder / "batch.npz")
    blocks = [
        {"name": str(i), "kind": "label", "values": [str(v) for v in range(size)], "edges": []}
        for i, (_, size) in enumerate(layout["spans"][:-1])
    ]
    scheme = rows.Scheme(cells.Cells(json.dumps(blocks).encode()))
    width = shape["width"]
    context = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=width, dim=width)
    stack = dict(name="tabular", width=width, columns=COLUMNS, layers=shape["layers"], heads=shape["heads"])
    stack |= dict(field_heads=shape["field_heads"], field_mlp_width=width)
    head = build("heads", dict(name="masked", inner=COLUMNS * width, tied=False), **context)
    model = Model(
        {"token": build("embed", {"name": "token"}, **context)},
        {},
        make_backbone(stack, {"sequence": {"name": "learned"}}),
        {"masked": head},
    )
    loss = dict(name="nll", head="masked", average="columns", columns=COLUMNS, constrain=True, given=False)
    objectives = {"cells": build("objectives", loss, grammar=scheme.grammar())}
    inputs = arrays["inputs"]
    positions = np.broadcast_to(np.arange(inputs.shape[1], dtype=np.int32), inputs.shape)
    tokens, targets = Tokens(inputs, positions, np.ones_like(inputs)), Targets(arrays["ids"], arrays["mask"])
    batch = Batch(tokens, targets, grammar_state=positions % COLUMNS, valid=np.ones(len(inputs), bool))
    rate = optim.schedule("constant", 1e-4, 1000)
    optimizer = optim.adamw(rate, weight_decay=0.0, betas=(0.9, 0.999))
    body = functools.partial(train_step, model, objectives, {"cells": 1.0}, optimizer, rate, 1)
    step = jax.jit(body, donate_argnums=(1,), compiler_options=compiler_options(jax.default_backend()))
    state = jax.jit(functools.partial(init_state, model, optimizer))(batch, 0)
    batch = jax.device_put(batch)

    def step_once() -> float:
        nonlocal state
        state, metrics = step(0, state, batch)
        total, count = metrics["loss"]
        return float(total) / float(count)

    def turn(steps: int) -> dict[str, float]:
        return {"loss": [step_once() for _ in range(steps)][-1]}

    first_loss = step_once()
    size = sum(x.size for x in jax.tree.leaves(state.params))
    pairs.serve(turn, version=f"jax {jax.__version__}", first_loss=first_loss, parameters=size)


if __name__ == "__main__":
    command.entry(main)
