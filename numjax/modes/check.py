"""`--mode=check`: everything before the first step."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import numpy as np

from numjax.modes.data import load_data
from numjax.pipeline import source
from numjax.runtime import log, shard
from numjax.runtime.waiting import Wait
from numjax.system import assemble, make_loader
from numjax.train.compile import count_parameters, make_compiled
from numjax.train.loop import count_steps


def check_run(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Does everything before the first step; prints and returns counts of the data, shapes and the step's memory.

    `train_examples` counts the examples of an epoch: those that `data.balance` repeats count each time.
    `train_records` counts the different records that they come from. `skipped` counts the lines of skipped.jsonl.
    """
    system = assemble(config, folder)
    splits = load_data(system, folder, strict)
    mesh = shard.mesh_from_config(config)
    loader = make_loader(system, splits.train, mesh, config.seed)
    loader.check_batch()
    batch = loader.example_batch()
    compiled = make_compiled(system, mesh, batch)
    rows = shard.batch_sharding(mesh)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows), batch)
    everywhere = shard.replicated(mesh)
    seed, rate = (jax.ShapeDtypeStruct((), kind, sharding=everywhere) for kind in (np.int32, np.float32))
    with Wait("compiling the training step"):
        memory = compiled.step.lower(seed, rate, compiled.abstract_state, shapes).compile().memory_analysis()
    at_source = source.load_skipped(system.task.dataset, config.data.dir or None)
    results = {
        "parameters": count_parameters(compiled.abstract_state),
        "train_examples": len(splits.train),
        "train_records": len(np.unique(splits.train.origin)),
        "validation_examples": len(splits.validation) if splits.validation is not None else 0,
        "test_examples": len(splits.test) if splits.test is not None else 0,
        "skipped": sum(len(d.skipped) for d in splits if d is not None) + len(at_source),
        "steps": count_steps(config, loader),
        "batch_shapes": [list(shape) for shape in loader.shapes()],
        "vocabulary": system.scheme.vocab.size,
        "state_mib": round(memory.argument_size_in_bytes / 2**20, 1) if memory else None,
        "temporary_mib": round(memory.temp_size_in_bytes / 2**20, 1) if memory else None,
    }
    log.print_result(results)
    return results
