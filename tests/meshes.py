"""Trains a config of configs/ on meshes of 8 forced CPU devices. `meshes_test.py` compares the results.

It runs in its own process, because JAX fixes the number of devices when it starts.
python -m tests.meshes NAME:ARGUMENT FOLDER prints one JSON object a line: the mesh, its losses, its generated texts.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import sys

import jax
import numpy as np

from numjax import api, modes
from numjax.modes.data import load_data
from numjax.nn.attention import attend
from numjax.pipeline import source
from numjax.plan.hlo import Program
from numjax.runtime import shard
from numjax.system import assemble, make_loader
from numjax.train import compile as compiling
from numjax.train.compile import make_compiled

DEVICES, STEPS = 8, 10
MESHES = {"1×1×1": (1, 1, 1), "8×1×1": (8, 1, 1), "1×8×1": (1, 8, 1), "2×2×2": (2, 2, 2), "1×2×4": (1, 2, 4)}
PROMPTS = ["Q: Ann has 12 apples and buys 30 more. A:", "Q: 5 and 7 are how many? A:", "Seven", "In 1999"] * 2


def make_small_config(name: str, argument: str):
    """Makes the config at smoke size, with axes that eight devices divide."""
    config = importlib.import_module(f"numjax.bundled.configs.{name}").get_config(argument)
    with config.unlocked():
        if config.task.name != "language_model":
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


def main(config_word: str, folder: str) -> None:
    """Trains on each mesh in turn, on the same data."""
    jax.config.update("jax_num_cpu_devices", DEVICES)
    config = make_small_config(*config_word.split(":"))
    modes.set_up(config)
    assert len(jax.devices()) == DEVICES
    for mesh_name, sizes in MESHES.items():
        config.mesh.update(dict(zip(shard.AXES, sizes, strict=True)))
        system = assemble(config, pathlib.Path(folder) / f"tensor_{sizes[2]}")
        data = load_data(system, pathlib.Path(folder), strict=True, splits=("train",))
        mesh = shard.make_mesh(*sizes, devices=jax.devices()[: sizes[0] * sizes[1] * sizes[2]])
        loader = make_loader(system, data.train, mesh)
        compiled = make_compiled(system, mesh, loader.example_batch(), STEPS)
        state, losses, compiled_steps, compiled_step = compiled.init(0), [], {}, None
        for index in range(STEPS):
            batch = shard.put(loader.batch(index)[0], mesh)
            shapes = str(jax.tree.map(np.shape, batch))  # shared tables of numerals have several widths
            compiled_step = compiled_steps[shapes] = (
                compiled_steps.get(shapes) or compiled.step.lower(np.int32(0), state, batch).compile()
            )
            # One step in flight: collectives of several CPU devices in one process can wait for each other.
            state, metrics = jax.block_until_ready(compiled_step(np.int32(0), state, batch))
            total, count = metrics["loss"]
            losses.append(float(total) / float(count))
        result = {"mesh": mesh_name, "losses": losses, "written": []}
        leaves = jax.tree_util.tree_leaves_with_path(state.params)
        split_names = [shard.path_name(path) for path, x in leaves if x.addressable_shards[0].data.size < x.size]
        result["split"] = split_names
        result["moved"] = list_collectives(compiled_step) if mesh.shape["tensor"] > 1 else []
        result["vocabulary"] = system.scheme.vocab_size
        result["splash"] = measure_splash_difference() if mesh_name == "2×2×2" and config_word == "gpt:smoke" else 0.0
        model = api.Loaded(system, state.params, STEPS, mesh)
        # Three rows: only the first mesh splits them evenly.
        records = source.load(system.task.dataset, "test") or source.load(system.task.dataset, "validation")
        records = [record | {"id": f"r{i}"} for i, record in enumerate(records[:3])]
        # A masked language model has only a loss.
        is_masked = system.task.kind == "masked"
        result["scores"] = (
            [model._evaluate(model.encode(records))[0]["loss"]]
            if is_masked
            else np.asarray(model.score(records)).tolist()
        )
        if any(head.provides("step_scores") for head in system.model.heads.values()):
            result["written"] = [generation._asdict() for generation in model.generate(PROMPTS, max_tokens=6)]
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
