"""Runs the same training on meshes of 8 forced CPU devices and on one of them; `step_test.py` compares.

A process of its own, since the number of devices is fixed when jax starts: python -m tests.sharded FILE.npz
"""

from __future__ import annotations

import sys

import jax
import numpy as np
import optax
from flax.core import FrozenDict
from ml_collections import ConfigDict

from numjax.build import build
from numjax.model import Model
from numjax.nn import cross_entropy
from numjax.plan.hlo import COLLECTIVES, Program
from numjax.runtime import shard
from numjax.system import System
from numjax.train import compile as compiling
from numjax.train import optim
from tests import drawn

DEVICES = 8
MESHES = {
    "alone": (1, 1, 1),
    "data": (8, 1, 1),
    "fsdp": (1, 8, 1),
    "all": (2, 2, 2),
}
STEPS, ROWS = 2, 16


def gradient_descent(*args, **options):
    """With momentum, so that there is a state to shard. Adam would turn the rounding of a gradient that ought to
    be zero, such as that of a key's bias, into a whole step."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.5, momentum=0.9)), lambda step: 0.5


def system(tensor: int) -> System:
    base = drawn.model({"name": "prototype", "exponent_dim": 4}, {"name": "mixture"}, dropout=0.1, layers=1)
    heads = dict(base.heads) | {"label": build("heads", {"name": "classify", "num_classes": 3}, **drawn.KNOWN)}
    model = Model(FrozenDict(base.embeds), FrozenDict(base.fusions), base.backbone, FrozenDict(heads))
    objectives = {
        "next": build("objectives", {"name": "nll", "head": "next"}),
        "label": build("objectives", {"name": "nll", "head": "label", "label": "label"}),
    }
    options = dict(learning_rate=0.5, schedule="constant", warmup=0, floor=0.0, weight_decay=0.1, betas=(0.9, 0.95))
    config = ConfigDict({"optim": options | {"clip": 1.0, "accumulate": 2}, "mesh": {"rules": (), "tensor": tensor}})
    parts = {"task": None, "scheme": None, "host_features": None}
    return System(config=config, model=model, objectives=objectives, weights={"next": 0.7, "label": 2.0}, **parts)


def batches():
    """Rows of unlike counts, so that devices hold unlike shares of the loss; two rows are padding."""
    rng = np.random.default_rng(3)
    for _ in range(STEPS):
        lengths = [[1 + b % 9, 1 + b % 4] for b in range(ROWS)]
        found = drawn.batch(rng, lengths=lengths, length=drawn.DECODER["max_length"])
        valid = np.arange(ROWS) < ROWS - 2
        mask = found.targets.mask & valid[:, None]
        yield found._replace(valid=valid, targets=found.targets._replace(mask=mask))


def loops(program: Program) -> int:
    """Loops that devices meet in. Nothing orders one of these and a collective beside it, or another such loop,
    unless the data do: XLA's CPU devices then meet at different ones and wait for ever, once in a few runs."""
    inner = [ops for name, ops in program.computations.items() if program.times.get(name, 0) > 1]
    return sum(any(op.opcode.removesuffix("-start") in COLLECTIVES for op in ops) for ops in inner)


def soft(mesh) -> tuple:
    """A soft cross-entropy with its gradients, rows and vocabulary spread over the mesh."""
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, ROWS, 5, 8)).astype(np.float32)
    (w, v), (b, c) = (rng.standard_normal((2, drawn.VOCAB, *n)).astype(np.float32) for n in ((8,), ()))
    weights = (rng.random((ROWS, 5)) < 0.5).astype(np.float32)

    def total(x, w, b, y, v, c, weights):
        aim = cross_entropy.Teacher(y, v, c)
        return cross_entropy.total_soft_log_prob(x, w, aim, weights, size=drawn.SIZE, bias=b, chunk_rows=16)

    rows = shard.batch_sharding(mesh)
    part = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("tensor", "fsdp")))
    layout = (rows, part, part, rows, part, part, rows)
    both = jax.jit(compiling.with_mesh(mesh, jax.value_and_grad(total, (0, 1, 2))), in_shardings=layout)
    return jax.block_until_ready(both(*map(jax.device_put, (x, w, b, y, v, c, weights), layout)))


def run(sizes) -> dict[str, np.ndarray]:
    """Everything that a run leaves, by name; "share/…" is how much of an array its first device holds, "share/loops"
    how many loops of the step have collectives."""
    devices = jax.devices()[: int(np.prod(sizes))]
    mesh = shard.make_mesh(*sizes, devices=devices)
    data = list(batches())
    compiled = compiling.make_compiled(system(sizes[2]), mesh, jax.tree.map(np.asarray, data[0]), STEPS)
    state = jax.block_until_ready(compiled.init(0))
    out: dict[str, np.ndarray] = {}

    def keep(prefix, tree):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            out[f"{prefix}/{shard.path_name(path)}"] = np.asarray(leaf)

    keep("soft", soft(mesh))
    keep("init", state.params)
    for step, batch in enumerate(data):
        placed = shard.put(batch, mesh)
        # One step in flight: collectives of several CPU devices in one process can wait for each other.
        state, metrics = jax.block_until_ready(compiled.step(0, state, placed))
        keep(f"metrics/{step}", metrics)
    keep("params", state.params)
    keep("momentum", state.opt_state)
    metrics, said, *_ = jax.block_until_ready(compiled.evaluate(state.params, placed))
    keep("evaluated", (metrics, said))
    for name, tree in {"params": state.params, "momentum": state.opt_state, "batch": placed}.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            share = leaf.addressable_shards[0].data.size / leaf.size
            out[f"share/{name}/{shard.path_name(path)}"] = np.asarray(share)
    text = compiled.step.lower(0, state, placed).compile().as_text()
    out["share/loops"] = np.asarray(loops(Program(text)))
    return out


def main(path: str) -> None:
    jax.config.update("jax_num_cpu_devices", DEVICES)
    assert len(jax.devices()) == DEVICES
    optim.adamw = gradient_descent
    found = {name: run(sizes) for name, sizes in MESHES.items()}
    np.savez(path, **{f"{name}:{key}": value for name, parts in found.items() for key, value in parts.items()})


if __name__ == "__main__":
    main(sys.argv[1])
