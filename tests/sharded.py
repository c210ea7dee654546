"""Runs the same training on one CPU device and on meshes of 8 forced ones. `step_test.py` compares the results.

It runs in its own process, because JAX fixes the number of devices when it starts: python -m tests.sharded FILE.npz
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
STEPS, ROWS, RATE = 2, 16, np.float32(0.5)


def make_optimizer(rate, **options):
    """Returns gradient descent with momentum, so that there is a state to shard.

    Some gradients should be zero, such as that of a key's bias. Adam turns their rounding errors into whole steps.
    """
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate, momentum=0.9))


def make_system(tensor: int) -> System:
    base = drawn.build_model({"name": "prototype", "exponent_dim": 4}, {"name": "mixture"}, dropout=0.1, layers=1)
    heads = dict(base.heads) | {"label": build("heads", {"name": "classify", "num_classes": 3}, **drawn.CONTEXT)}
    model = Model(FrozenDict(base.embeds), FrozenDict(base.fusions), base.backbone, FrozenDict(heads))
    objectives = {
        "next": build("objectives", {"name": "nll", "head": "next"}),
        "label": build("objectives", {"name": "nll", "head": "label", "label": "label"}),
    }
    options = dict(learning_rate=0.5, schedule="constant", warmup=0, floor=0.0, weight_decay=0.1, betas=(0.9, 0.95))
    config = ConfigDict({"optim": options | {"clip": 1.0, "accumulate": 2}, "mesh": {"rules": (), "tensor": tensor}})
    parts = {"task": None, "scheme": None, "host_features": None}
    return System(config=config, model=model, objectives=objectives, weights={"next": 0.7, "label": 2.0}, **parts)


def make_batches():
    """Yields batches. Row lengths differ, so that devices have different shares of the loss. Two rows are padding."""
    rng = np.random.default_rng(3)
    for _ in range(STEPS):
        lengths = [[1 + b % 9, 1 + b % 4] for b in range(ROWS)]
        batch = drawn.draw_batch(rng, lengths=lengths, length=drawn.DECODER["max_length"])
        valid = np.arange(ROWS) < ROWS - 2
        mask = batch.targets.mask & valid[:, None]
        yield batch._replace(valid=valid, targets=batch.targets._replace(mask=mask))


def count_loops(program: Program) -> int:
    """Counts the loops with collectives. Only data dependencies order such a loop and another collective or loop.

    Without such a dependency, XLA's CPU devices may wait at different ones for ever. It happens once in a few runs.
    """
    operations_of_loops = [
        operations for name, operations in program.computations.items() if program.times.get(name, 0) > 1
    ]
    return sum(
        any(operation.opcode.removesuffix("-start") in COLLECTIVES for operation in operations)
        for operations in operations_of_loops
    )


def compute_soft_loss(mesh) -> tuple:
    """Computes a soft cross-entropy and its gradients, with rows and vocabulary sharded over the mesh."""
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, ROWS, 5, 8)).astype(np.float32)
    (w, v), (b, c) = (rng.standard_normal((2, drawn.VOCAB, *n)).astype(np.float32) for n in ((8,), ()))
    weights = (rng.random((ROWS, 5)) < 0.5).astype(np.float32)

    def compute_total(x, w, b, y, v, c, weights):
        teacher = cross_entropy.Teacher(y, v, c)
        return cross_entropy.total_soft_log_prob(x, w, teacher, weights, size=drawn.SIZE, bias=b, chunk_rows=16)

    rows = shard.batch_sharding(mesh)
    vocab = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("tensor", "fsdp")))
    layout = (rows, vocab, vocab, rows, vocab, vocab, rows)
    compute = jax.jit(compiling.with_mesh(mesh, jax.value_and_grad(compute_total, (0, 1, 2))), in_shardings=layout)
    return jax.block_until_ready(compute(*map(jax.device_put, (x, w, b, y, v, c, weights), layout)))


def run_on_mesh(sizes) -> dict[str, np.ndarray]:
    """Runs the training on a mesh. Returns the arrays of its results by name.

    "share/…" is the share of an array on its first device. "share/loops" is the number of loops with collectives.
    """
    devices = jax.devices()[: int(np.prod(sizes))]
    mesh = shard.make_mesh(*sizes, devices=devices)
    data = list(make_batches())
    compiled = compiling.make_compiled(make_system(sizes[2]), mesh, jax.tree.map(np.asarray, data[0]))
    state = jax.block_until_ready(compiled.init(0))
    arrays: dict[str, np.ndarray] = {}

    def keep(prefix, tree):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            arrays[f"{prefix}/{shard.path_name(path)}"] = np.asarray(leaf)

    keep("soft", compute_soft_loss(mesh))
    keep("init", state.params)
    for step, batch in enumerate(data):
        device_batch = shard.put(batch, mesh)
        # One step in flight: collectives of several CPU devices in one process can wait for each other.
        state, metrics = jax.block_until_ready(compiled.step(0, RATE, state, device_batch))
        keep(f"metrics/{step}", metrics)
    keep("params", state.params)
    keep("momentum", state.opt_state)
    metrics, predictions, *_ = jax.block_until_ready(compiled.evaluate(state.params, device_batch))
    keep("evaluated", (metrics, predictions))
    for name, tree in {"params": state.params, "momentum": state.opt_state, "batch": device_batch}.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            share = leaf.addressable_shards[0].data.size / leaf.size
            arrays[f"share/{name}/{shard.path_name(path)}"] = np.asarray(share)
    text = compiled.step.lower(0, RATE, state, device_batch).compile().as_text()
    arrays["share/loops"] = np.asarray(count_loops(Program(text)))
    return arrays


def main(path: str) -> None:
    jax.config.update("jax_num_cpu_devices", DEVICES)
    assert len(jax.devices()) == DEVICES
    optim.adamw = make_optimizer
    arrays_by_mesh = {name: run_on_mesh(sizes) for name, sizes in MESHES.items()}
    np.savez(
        path, **{f"{name}:{key}": value for name, arrays in arrays_by_mesh.items() for key, value in arrays.items()}
    )


if __name__ == "__main__":
    main(sys.argv[1])
