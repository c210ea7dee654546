"""Trains a config of configs/ on meshes of 8 forced CPU devices. `meshes_test.py` compares the results.

It runs in its own process, because JAX fixes the number of devices when it starts.
python -m tests.meshes NAME:ARGUMENT FOLDER prints one JSON object a line: the mesh, its losses, its generated texts.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import pathlib
import sys
from typing import Any

import jax
import numpy as np
import optax

from numjax import api, modes
from numjax.errors import DataError
from numjax.modes.data import load_data
from numjax.nn.attention import attend
from numjax.pipeline import source
from numjax.plan.hlo import Program
from numjax.runtime import shard
from numjax.system import assemble, make_loader
from numjax.train import compile as compiling
from numjax.train import optim
from numjax.train.compile import make_compiled

DEVICES, STEPS = 8, 20
MESHES = {"1×1×1": (1, 1, 1), "8×1×1": (8, 1, 1), "1×8×1": (1, 8, 1), "2×2×2": (2, 2, 2), "1×2×4": (1, 2, 4)}
TEXTS = pathlib.Path(__file__).parent / "fixtures" / "text"
PROMPTS = ["Q: Ann has 12 apples and buys 30 more. A:", "Q: 5 and 7 are how many? A:", "Seven", "In 1999"] * 2


def make_small_config(name: str, argument: str):
    """Makes the config at smoke size, with axes that eight devices divide."""
    config = importlib.import_module(f"numjax.bundled.configs.{name}").get_config(argument)
    with config.unlocked():
        if config.task.name == "language_model":
            config.task.path = str(TEXTS)
        else:
            config.task.size = 400
        config.optim.update(batch_size=16, steps=STEPS)
        if "heads" in config.backbone:
            config.backbone.heads = 4
        config.data.buckets = 1  # one shape and one compilation for each mesh
    return config


def list_collectives(program: jax.stages.Compiled) -> list[list]:
    """Returns [kind, sizes of its arrays] of every collective in the compiled step."""
    collectives = Program(program.as_text()).collectives()
    return [[collective.kind, [list(shape.dims) for shape in collective.results]] for collective in collectives]


def measure_splash_difference() -> float:
    """Returns the largest change in the gradients of the splash kernel when rows and heads are split."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 8, 128, 4, 8)).astype(np.float32)
    segments = np.sort(np.random.default_rng(1).integers(1, 4, (8, 128)), axis=1)

    def compute_total(q, k, v, segments):
        return jax.numpy.sin(attend(q, k, v, segments, causal=True, implementation="splash")).sum()

    mesh = shard.make_mesh(2, 2, 2)
    gradients = jax.grad(compute_total, (0, 1, 2))
    sharded_gradients = jax.jit(
        lambda *args: compiling.with_mesh(mesh, gradients)(*args), in_shardings=shard.batch_sharding(mesh)
    )
    pairs = zip(sharded_gradients(q, k, v, segments), jax.jit(gradients)(q, k, v, segments), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)


def keep_gradients(make_optimizer):
    """Returns `make_optimizer` whose optimizers keep the last gradients in their state, first."""

    def init(params):
        return jax.tree.map(jax.numpy.zeros_like, params)

    def update(updates, state, params=None):
        del state, params
        return updates, updates

    def make(*arguments, **options):
        optimizer = make_optimizer(*arguments, **options)
        return optax.chain(optax.GradientTransformation(init, update), optimizer)

    return make


def fits(model: api.Loaded, record: dict[str, Any]) -> bool:
    """Whether the record has room in a row."""
    try:
        model.encode([record])
    except DataError:
        return False
    return True


class MeshRun:
    """A config on one mesh: the steps of training, and what its parameters predict."""

    def __init__(self, config, sizes: tuple[int, int, int], folder: pathlib.Path):
        config.mesh.update(dict(zip(shard.AXES, sizes, strict=True)))
        self.system = assemble(config, folder)
        self.mesh = shard.make_mesh(*sizes, devices=jax.devices()[: math.prod(sizes)])
        data = load_data(self.system, folder, strict=False, splits=("train",))
        self.loader = make_loader(self.system, data.train, self.mesh)
        self.compiled = make_compiled(self.system, self.mesh, self.loader.example_batch())
        self.state = self.compiled.init(0)
        self.steps: dict[str, jax.stages.Compiled] = {}  # shared tables of numerals have several widths

    def step(self, index: int) -> float:
        """Takes a step on a batch; returns the loss before it."""
        batch = shard.put(self.loader.batch(index)[0], self.mesh)
        shapes = str(jax.tree.map(np.shape, batch))
        rate = optim.list_rates(self.system.config.optim, STEPS)[index]
        if shapes not in self.steps:
            self.steps[shapes] = self.compiled.step.lower(np.int32(0), rate, self.state, batch).compile()
        # One step in flight: collectives of several CPU devices in one process can wait for each other.
        self.state, metrics = jax.block_until_ready(self.steps[shapes](np.int32(0), rate, self.state, batch))
        total, count = metrics["loss"]
        return float(total) / float(count)

    def put_params(self, params: Any) -> None:
        """Replaces the parameters."""
        layout = jax.tree.map(lambda x: x.sharding, self.state.params)
        self.state = self.state._replace(params=jax.device_put(params, layout))

    def gradients(self) -> dict[str, np.ndarray]:
        """Gradients of the last step by the names of their parameters."""
        leaves = jax.tree_util.tree_leaves_with_path(self.state.opt_state[0])
        return {shard.path_name(path): np.asarray(x) for path, x in leaves}

    def split_names(self) -> list[str]:
        """The names of the parameters that no device holds whole."""
        leaves = jax.tree_util.tree_leaves_with_path(self.state.params)
        return [shard.path_name(path) for path, x in leaves if x.addressable_shards[0].data.size < x.size]

    def predict(self) -> dict[str, Any]:
        """Scores of three records, which only one device splits evenly, and texts where the model generates them."""
        model = api.Loaded(self.system, self.state.params, STEPS, self.mesh)
        task = self.system.task
        records = source.load(task.dataset, "test") or source.load(task.dataset, "validation")
        records = itertools.islice((record for record in records or () if fits(model, record)), 3)
        records = [record | {"id": f"r{i}"} for i, record in enumerate(records)]
        if task.kind == "masked":  # a masked language model has only a loss
            scores = [model._evaluate(model.encode(records))[0]["loss"]]
        else:
            scores = np.asarray(model.score(records)).tolist()
        generates = any(head.provides("step_scores") for head in self.system.model.heads.values())
        texts = [generation._asdict() for generation in model.generate(PROMPTS, max_tokens=6)] if generates else []
        return {"scores": scores, "written": texts}


def compare_gradients(gradients: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Returns the largest relative difference of two gradients.

    It is relative to the largest value of the same parameter's gradient, or to a tenth of the largest of all: some
    gradients are zero up to rounding, such as that of a bias of all scores of a softmax.
    """
    assert gradients.keys() == expected.keys()
    sizes = {name: float(np.abs(x).max()) for name, x in expected.items()}
    floor = max(sizes.values()) / 10
    assert floor > 0
    return max(float(np.abs(gradients[name] - x).max()) / max(sizes[name], floor) for name, x in expected.items())


def main(config_word: str, folder: str) -> None:
    """Trains on each mesh in turn, on the same data."""
    jax.config.update("jax_num_cpu_devices", DEVICES)
    optim.adamw = keep_gradients(optim.adamw)
    config = make_small_config(*config_word.split(":"))
    modes.set_up(config)
    assert len(jax.devices()) == DEVICES
    trained, first_gradients, last_gradients = None, {}, {}
    for mesh_name, sizes in MESHES.items():
        run = MeshRun(config, sizes, pathlib.Path(folder))
        losses = [run.step(0)]
        gradients = run.gradients()
        losses += [run.step(index) for index in range(1, STEPS)]
        result = {"mesh": mesh_name, "losses": losses, "split": run.split_names()}
        if trained is None:
            trained, first_gradients = jax.device_get(run.state.params), gradients
        # Rounding errors grow from step to step; at equal parameters, gradients and predictions are equal again.
        run.put_params(trained)
        result |= run.predict()
        run.step(0)
        if not last_gradients:
            last_gradients = run.gradients()
        result["gradients"] = [
            compare_gradients(gradients, first_gradients), compare_gradients(run.gradients(), last_gradients)
        ]  # fmt: skip
        steps = [collective for step in run.steps.values() for collective in list_collectives(step)]
        result["moved"] = steps if sizes[2] > 1 else []
        result["vocabulary"] = run.system.scheme.vocab_size
        result["splash"] = (
            measure_splash_difference() if mesh_name == "2×2×2" and config_word == "gpt:smoke,task=mme" else 0.0
        )
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
