"""How fast TabBERT is pre-trained, beside the same model in PyTorch.

    python -m experiments.benchmarks.tabbert [--contenders=tabbert,torch] [--rounds=5] [--steps=1]
        [--layers=2 --width=16 --heads=4 --rows=32 --vocab=5000] [--peer=PYTHON] [--out=FILE]

The same windows, masks and shapes on both sides (`torch_tabbert.py`); parameters are drawn alike, so that the first
losses agree to a few per cent: they are those of guessing. No number plugin, no dropout, float32. What counts are
rows of the table a second.
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
# Shares of the columns' tokens, user to errors; merchants are most.
SHARES = (0.02, 0.001, 0.002, 0.004, 0.001, 0.6, 0.15, 0.03, 0.17, 0.02, 0.002)
SPECIAL = 7
FLOOR = 2.0


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    made = options.parser("tabbert", __doc__, SHAPE, rounds=5)
    options.add_contenders(made, ("tabbert", "torch"), ("tabbert", "torch"), ("tabbert",))
    made.add_argument("--steps", type=int, default=1, help="steps a turn")
    given = made.parse_args(words)
    if given.worker:
        work(pathlib.Path(given.files))
        return {}
    names = options.contenders(given, ("tabbert", "torch"), ("torch",), ["torch", "numpy"])
    result = measure(names, options.shape_of(given, SHAPE), given.rounds, given.steps, given.peer)
    print(pairs.table(rows(result)))
    pairs.write(result, given.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out and why)."""
    why = pairs.lacking(peer, ["torch", "numpy"])
    made = rows(measure(["tabbert"] if why else ["tabbert", "torch"], SHAPE, rounds=5, steps=2, peer=peer))
    return made, [f"torch: {why}"] if why else []


def measure(names: list[str], shape: dict[str, int], rounds: int, steps: int, peer: str) -> dict[str, Any]:
    """What `pairs.drive` finds, with the shape and table rows a second."""
    with tempfile.TemporaryDirectory() as folder:
        save(pathlib.Path(folder), shape)
        lines = {
            "tabbert": pairs.command("tabbert", "--worker=tabbert", f"--files={folder}"),
            "torch": pairs.command("torch_tabbert", f"--files={folder}", python=peer),
        }
        contenders = [pairs.Contender(name, lines[name], {"JAX_PLATFORMS": "cpu"}) for name in names]
        found = {"benchmark": "tabbert", "shape": shape, **pairs.drive(contenders, rounds, steps)}
    for one in found["contenders"].values():
        one["rows_per_second"] = shape["rows"] * WINDOW / one["median"]
    if "torch" in names and "tabbert" in names:
        found["speed"] = pairs.ratio(found, "torch", "tabbert")
        found["speed_by_processor_time"] = pairs.ratio(found, "torch", "tabbert", "cpu_seconds")
        found["memory"] = pairs.memory(found, "tabbert", "torch")
    return found


def rows(found: dict[str, Any]) -> list[pairs.Row]:
    """Rows of the table a second, and beside torch."""
    of = "pretrain tabbert {layers}/{width}".format(**found["shape"])
    made = [pairs.Row(f"{of} {n}", one["rows_per_second"], unit="rows/s") for n, one in found["contenders"].items()]
    if "speed" in found:
        asked = FLOOR if found["shape"] == SHAPE else None
        for name, key in (("", "speed"), (" by processor time", "speed_by_processor_time")):
            spread = found[key]
            floor = asked if key == "speed" else None
            made.append(
                pairs.Row(f"{of} / torch{name}", spread["median"], spread["least"], spread["most"], floor=floor)
            )
        made.append(pairs.Row(f"{of} / torch peak memory", found["memory"], lower=True))
    return made


def save(folder: pathlib.Path, shape: dict[str, int]) -> None:
    """Masked windows of made-up cells that both read."""
    rng = np.random.default_rng(0)
    sizes = [max(2, int(share * (shape["vocab"] - SPECIAL))) for share in SHARES]
    firsts = np.cumsum([SPECIAL, *sizes])[:-1].tolist()
    spans = [*zip(firsts, sizes, strict=True), (0, SPECIAL)]
    count = (shape["rows"], WINDOW)
    ids = np.stack(
        [first + rng.integers(0, size, count) for first, size in spans[:-1]] + [np.ones(count, int)], axis=-1
    )
    mask = rng.random(ids.shape) < 0.15
    mask[..., -1] = False
    ids, mask = (x.reshape(shape["rows"], -1) for x in (ids, mask))
    inputs = np.where(mask, 4, ids)
    np.savez(folder / "batch.npz", ids=ids.astype(np.int32), mask=mask, inputs=inputs.astype(np.int32))
    known = {**shape, "vocab": sum(sizes) + SPECIAL, "columns": COLUMNS, "window": WINDOW}
    (folder / "shape.json").write_text(json.dumps({"shape": known, "spans": spans}))


def work(folder: pathlib.Path) -> None:
    """numjax's side: answers how long N training steps took."""
    import jax

    from numjax.build import build
    from numjax.model import Model
    from numjax.system import make_backbone
    from numjax.text import cells, rows
    from numjax.train import optim
    from numjax.train.step import compiler_options, init_state, train_step
    from numjax.types import Batch, Targets, Tokens

    told = json.loads((folder / "shape.json").read_text())
    shape, saved = told["shape"], np.load(folder / "batch.npz")
    blocks = [
        {"name": str(i), "kind": "label", "values": [str(v) for v in range(size)], "edges": []}
        for i, (_, size) in enumerate(told["spans"][:-1])
    ]
    scheme = rows.Scheme(cells.Cells(json.dumps(blocks).encode()))
    width = shape["width"]
    known = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=width, dim=width)
    stack = dict(name="tabular", width=width, columns=COLUMNS, layers=shape["layers"], heads=shape["heads"])
    stack |= dict(field_heads=shape["field_heads"], field_mlp_width=width)
    head = build("heads", dict(name="masked", inner=COLUMNS * width, tied=False), **known)
    model = Model(
        {"token": build("embed", {"name": "token"}, **known)},
        {},
        make_backbone(stack, {"sequence": {"name": "learned"}}),
        {"masked": head},
    )
    loss = dict(name="nll", head="masked", average="columns", columns=COLUMNS, constrain=True, given=False)
    objectives = {"cells": build("objectives", loss, grammar=scheme.grammar())}
    inputs = saved["inputs"]
    place = np.broadcast_to(np.arange(inputs.shape[1], dtype=np.int32), inputs.shape)
    tokens, targets = Tokens(inputs, place, np.ones_like(inputs)), Targets(saved["ids"], saved["mask"])
    batch = Batch(tokens, targets, grammar_state=place % COLUMNS, valid=np.ones(len(inputs), bool))
    optimizer, rate = optim.adamw(1e-4, 1000, weight_decay=0.0, betas=(0.9, 0.999))
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

    first = step_once()
    size = sum(x.size for x in jax.tree.leaves(state.params))
    pairs.serve(turn, version=f"jax {jax.__version__}", first_loss=first, parameters=size)


if __name__ == "__main__":
    command.entry(main)
