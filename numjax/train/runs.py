"""The modes of `numjax.main`: from a config and a workdir to a finished run."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from numjax.config import origin
from numjax.errors import DataError, Diverged, UsageError
from numjax.evals import inputs, report
from numjax.pipeline import features, source
from numjax.runtime import files, log, processes, shard, signals
from numjax.system import System, assemble, reader
from numjax.train.compile import make_compiled, parameter_count
from numjax.train.loop import Data, claim, steps_of, train, trained

# Seconds that a run waits for one before it in the same workdir, which may still be saving. Other processes wait
# meanwhile, and those of Gloo for 30 at most.
WAIT = 20


def set_up(config: Any, distributed: bool = False, planning: bool = False) -> None:
    """Compilation cache, logging, with `distributed` the other processes; for `planning` this machine's own devices
    are left alone. Call before any JAX work."""
    # Orbax and JAX tell much; what a user must know is said on progress lines and as warnings.
    logging.set_verbosity(logging.WARNING)
    log.quieten()
    if config.compile_cache:
        folder = pathlib.Path(config.compile_cache).expanduser()
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # the user's own wish goes first
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_threefry_partitionable", True)
    if planning:
        from numjax.plan import topology

        topology.set_up()
    if distributed:
        processes.join()


def run(
    config: Any,
    workdir: str,
    mode: str,
    *,
    strict: bool = False,
    input: str | None = None,
    prompts: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs one mode; returns what it found (metrics by split, or predictions)."""
    folder = pathlib.Path(workdir).expanduser()
    with processes.together(), files.room(folder), signals.at_once():
        return _run(config, folder, mode, strict, input, prompts)


def _run(config, folder: pathlib.Path, mode: str, strict: bool, input: str | None, prompts: Sequence[str]):
    home = origin.home(folder)
    if mode in ("eval", "predict", "generate"):
        if not (home / origin.CONFIG_FILE).exists() or not trained(folder):
            raise origin.no_run(folder)
        if not config.init_from:
            # Where it started matters no more, and need not be said again.
            config = config.copy_and_resolve_references()
            config.init_from = origin.config_of(home).get("init_from", "")
    if mode == "compile":
        from numjax.plan.plan import plan

        # Planning claims no workdir: the next plan there may be of another batch or mesh.
        return plan(config, folder)
    if mode in ("train", "check"):
        if home != folder:
            raise UsageError(f"{folder} is a seed of the run in {home}: give --workdir={home}")
        # Both make what a workdir holds before its checkpoints: config, vocabulary, the list of what is left out.
        with alone(folder):
            claim(folder, config, keep=mode == "train")
            return (train_seeds if mode == "train" else check)(config, folder, strict)
    claim(home, config, keep=False)
    if mode == "eval":
        return evaluate(config, folder, strict)
    from numjax import api

    model = api.load(folder, config=config)
    if mode == "predict" and input:
        return predict(model, *inputs.sorted_out(inputs.records(model.system.task, input), strict), folder, strict)
    if mode == "generate" and (lines := list(prompts) + (inputs.lines(input) if input else [])):
        for result in model.generate(lines):
            log.out(result._asdict())
        return {}
    wanted = "--input=FILE (or - for stdin)" + (" or --prompt=TEXT" if mode == "generate" else "")
    raise UsageError(f"--mode={mode} needs {wanted}")


@contextlib.contextmanager
def alone(folder: pathlib.Path, flag: str = "--workdir") -> Iterator[None]:
    """Two runs must not write the same folder: process 0 holds its lock, and all processes fail where it cannot.

    Args:
      flag: that names another folder.

    Raises:
      UsageError: another run is at work there for longer than `WAIT`, or the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        problem = ""
        if jax.process_index() == 0:
            try:
                stack.enter_context(files.locked(folder / ".lock", f"another process is at work in {folder}", WAIT))
            except UsageError as error:
                problem = f"{error}: wait for it to end, or use another {flag}"
            except OSError as error:
                problem = f"cannot write to {folder} ({error.strerror}): choose another {flag}"
        if problem := processes.from_first(problem.encode()).decode():
            processes.part()
            raise UsageError(problem)
        yield


def load_data(system: System, folder: pathlib.Path, strict: bool, splits=("train", "validation", "test")) -> Data:
    """The task's splits, encoded; records left out go to skipped.jsonl, those not read whole to shortened.jsonl.

    Raises:
      DataError: nothing is left of the training split, or under `strict` the first bad record.
    """
    config = system.config
    found: dict[str, Any] = dict.fromkeys(("train", "validation", "test"))
    skipped: list[dict[str, str]] = []
    shortened: list[dict[str, str]] = []
    for split in splits:
        stored = system.task.splits.get(split, split)
        records = source.load(system.task.dataset, stored, config.data.dir or None, strict=strict)
        if records is None:
            continue
        size = config.data.train_size if split == "train" else 0
        found[split] = system.encode_split(records, split, strict, limit=size)
        skipped += found[split].skipped
        shortened += [{"id": id, "split": split, "reason": why} for id, why in found[split].shortened.values()]
        if split == "train" and (label := config.data.get("balance")):
            left_out = found[split].skipped
            found[split] = features.balanced(found[split], label, config.task.get("data_seed", 0))
            found[split].skipped = left_out
    skipped = source.skipped(system.task.dataset, config.data.dir or None) + skipped
    for rows, name, what in (
        (skipped, "skipped.jsonl", "left out"),
        (shortened, "shortened.jsonl", "not read whole"),
    ):
        if rows and jax.process_index() == 0:
            path, first = folder / name, rows[0]
            files.write(path, (log.line(row) + "\n" for row in rows))
            log.say(f"{len(rows)} records {what}, the first is {first['id']} ({first['reason']}): see {path}")
    if "train" in splits and (found["train"] is None or len(found["train"]) == 0):
        raise DataError(f"no usable record in the training split of {dict(system.task.dataset)}")
    return Data(**found)


def train_seeds(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Trains config.num_seeds seeds one after the other with the same compiled step; a diverged seed is
    reported and the others go on. With one seed the run lies in `folder`, else in folder/seed_0, …."""
    system = assemble(config, folder)
    data = load_data(system, folder, strict)
    if config.num_seeds == 1:
        results, _ = train(system, data, folder, config.seed, None)
        return results
    compiled, outcomes, diverged = None, {}, {}
    for i in range(config.num_seeds):
        seed = config.seed + i
        log.say(f"seed {seed} ({i + 1} of {config.num_seeds})")
        try:
            outcomes[seed], compiled = train(system, data, folder / f"seed_{seed}", seed, compiled)
        except Diverged as error:
            diverged[seed] = str(error)
            log.say(f"seed {seed} diverged: {error}")
    summary = summarise(outcomes)
    written = {"seeds": outcomes, "diverged": diverged, "summary": summary}
    if jax.process_index() == 0:
        files.write(folder / "seeds.json", json.dumps(written, indent=1) + "\n")
    for split, metrics in summary.items():
        shown = " · ".join(f"{k} {v['mean']:.4f} ± {v['std']:.4f}" for k, v in metrics.items())
        log.say(f"{split} over {len(outcomes)} seeds: {shown}")
    if diverged and not outcomes:
        raise Diverged(f"all {config.num_seeds} seeds diverged: lower config.optim.learning_rate")
    return written


def summarise(outcomes: dict[int, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and sample standard deviation over seeds of every metric, by split."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for split in {split for found in outcomes.values() for split in found}:
        names = {name for found in outcomes.values() for name in found.get(split, {})}
        for name in sorted(names):
            values = [found[split][name] for found in outcomes.values() if name in found.get(split, {})]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            out.setdefault(split, {})[name] = {"mean": statistics.fmean(values), "std": spread, "n": len(values)}
    return out


def evaluate(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Scores the workdir's best checkpoint on validation and test."""
    from numjax import api

    model = api.load(folder, config=config)
    data = load_data(model.system, folder, strict, splits=("validation", "test"))
    compiled = model.compiled(next(d for d in (data.validation, data.test) if d is not None))
    results = {}
    for split in ("validation", "test"):
        if (encoded := getattr(data, split)) is not None:
            results[split] = report.score_split(
                model.system, compiled, model.params, encoded, split, folder, tuned=results
            )
            log.say(f"{split}: " + log.shown(results[split]))
    log.out(results)
    return results


def check(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Everything before the first step: config, data, shapes, and the memory that the step will take.

    `train_examples` are those that an epoch goes through: what `data.balance` repeats counts each time, and
    `train_records` are the different records they come from. `skipped` are the lines of skipped.jsonl.
    """
    system = assemble(config, folder)
    data = load_data(system, folder, strict)
    mesh = shard.mesh_of(config)
    loader = reader(system, data.train, mesh, config.seed)
    loader.check_batch()
    batch = loader.example_batch()
    compiled = make_compiled(system, mesh, batch, steps_of(config, loader))
    rows = shard.batch_sharding(mesh)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows), batch)
    seed = jax.ShapeDtypeStruct((), np.int32, sharding=shard.replicated(mesh))
    memory = compiled.step.lower(seed, compiled.abstract_state, shapes).compile().memory_analysis()
    at_source = source.skipped(system.task.dataset, config.data.dir or None)
    found = {
        "parameters": parameter_count(compiled.abstract_state),
        "train_examples": len(data.train),
        "train_records": len(np.unique(data.train.origin)),
        "validation_examples": len(data.validation) if data.validation is not None else 0,
        "test_examples": len(data.test) if data.test is not None else 0,
        "skipped": sum(len(d.skipped) for d in data if d is not None) + len(at_source),
        "steps": steps_of(config, loader),
        "batch_shapes": [list(shape) for shape in loader.shapes()],
        "vocabulary": system.scheme.vocab.size,
        "state_mib": round(memory.argument_size_in_bytes / 2**20, 1) if memory else None,
        "temporary_mib": round(memory.temp_size_in_bytes / 2**20, 1) if memory else None,
    }
    log.out(found)
    return found


def predict(
    model: Any,
    records: Sequence[Mapping[str, Any]],
    skipped: list[dict[str, str]],
    folder: pathlib.Path,
    strict: bool,
) -> dict[str, Any]:
    """Predictions for records of one's own; printed and kept in predictions/input.jsonl.

    Args:
      records: what the task reads; with "mended", what was done to one. skipped: those that are left out already.
        Both are told.
    """
    rows = model.predict(records, strict=strict, skipped=skipped)
    for row in rows:
        log.out(row)
    if jax.process_index() == 0:
        files.write(folder / "predictions" / "input.jsonl", (log.line(row) + "\n" for row in rows))
    for record in records:
        if "mended" in record:
            log.say(f"mended {record['id']}: {record['mended']}")
    for row in rows:
        if "shortened" in row:
            log.say(f"not read whole {row['id']}: {row['shortened']}")
    for row in skipped:
        log.say(f"left out {row['id']}: {row['reason']}")
    return {"predictions": rows, "skipped": copy.copy(skipped)}
