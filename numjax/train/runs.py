"""The modes of `numjax.main`, each for a config and a workdir."""

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
from flax.errors import ScopeParamNotFoundError, ScopeParamShapeError

from numjax.config import origin
from numjax.errors import DataError, Diverged, UsageError
from numjax.evals import inputs, report
from numjax.pipeline import features, source
from numjax.runtime import files, log, processes, shard, signals
from numjax.system import System, assemble, make_loader
from numjax.train.compile import count_parameters, make_compiled
from numjax.train.loop import Splits, claim, count_steps, has_checkpoint, train

# Seconds that a run waits for an earlier run in the same workdir, which may still be saving. The other processes wait
# too, and Gloo lets them wait at most 30.
LOCK_WAIT = 20


def set_up(config: Any, distributed: bool = False, planning: bool = False) -> None:
    """Sets up the compilation cache and logging. With `distributed` it joins the other processes; with `planning` it
    does not use this machine's own devices. Call it before any JAX work."""
    # Orbax and JAX log much; progress lines and warnings have what a user must know.
    logging.set_verbosity(logging.WARNING)
    log.quieten()
    if config.compile_cache:
        folder = pathlib.Path(config.compile_cache).expanduser()
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # the user's setting takes precedence
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
    """Runs one mode; returns its results (metrics by split, or predictions)."""
    folder = pathlib.Path(workdir).expanduser()
    with processes.coordinate_exit(), files.report_full_disk(folder), signals.stop_immediately():
        try:
            return _run(config, folder, mode, strict, input, prompts)
        except (ScopeParamShapeError, ScopeParamNotFoundError) as error:
            reason = str(error).partition(" (https")[0]
            raise UsageError(f"{folder}: its checkpoint is not of its config: {reason}: restore both") from None


def _run(config, folder: pathlib.Path, mode: str, strict: bool, input: str | None, prompts: Sequence[str]):
    home = origin.home(folder)
    if mode in ("eval", "predict", "generate"):
        if not (home / origin.CONFIG_FILE).exists() or not has_checkpoint(folder):
            raise origin.no_run_error(folder)
        if not config.init_from:
            # A trained run no longer needs its start, so the user need not give it again.
            config = config.copy_and_resolve_references()
            config.init_from = origin.load_config(home).get("init_from", "")
    if mode == "compile":
        from numjax.plan.plan import plan

        # Planning does not claim the workdir: the next plan there may be for another batch or mesh.
        return plan(config, folder)
    if mode in ("train", "check"):
        if home != folder:
            raise UsageError(f"{folder} is a seed of the run in {home}: give --workdir={home}")
        # Both write to the workdir: the config, the vocabulary, the list of skipped records.
        with lock_folder(folder):
            claim(folder, config, keep=mode == "train")
            return (train_seeds if mode == "train" else check)(config, folder, strict)
    claim(home, config, keep=False)
    if mode == "eval":
        return evaluate(config, folder, strict)
    from numjax import api

    model = api.load(folder, config=config)
    if mode == "predict" and input:
        return predict(
            model, *inputs.split_valid(inputs.load_records(model.system.task, input), strict), folder, strict
        )
    if mode == "generate" and (lines := list(prompts) + (inputs.read_lines(input) if input else [])):
        for result in model.generate(lines):
            log.print_result(result._asdict())
        return {}
    flags = "--input=FILE (or - for stdin)" + (" or --prompt=TEXT" if mode == "generate" else "")
    raise UsageError(f"--mode={mode} needs {flags}")


@contextlib.contextmanager
def lock_folder(folder: pathlib.Path, flag: str = "--workdir") -> Iterator[None]:
    """Locks a folder so that two runs do not write to it: process 0 holds the lock; if it cannot, all processes fail.

    Args:
      flag: the flag that names the folder, for the message.

    Raises:
      UsageError: another run still holds the lock after `LOCK_WAIT` seconds, or the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        problem = ""
        if jax.process_index() == 0:
            try:
                stack.enter_context(
                    files.hold_lock(folder / ".lock", f"another process is at work in {folder}", LOCK_WAIT)
                )
            except UsageError as error:
                problem = f"{error}: wait for it to end, or use another {flag}"
            except OSError as error:
                problem = f"cannot write to {folder} ({error.strerror}): choose another {flag}"
        if problem := processes.broadcast_bytes(problem.encode()).decode():
            processes.leave()
            raise UsageError(problem)
        yield


def load_data(system: System, folder: pathlib.Path, strict: bool, splits=("train", "validation", "test")) -> Splits:
    """The task's splits, encoded. Skipped records are listed in skipped.jsonl, shortened ones in shortened.jsonl.

    Raises:
      DataError: the training split has no usable record, or with `strict` any record is bad.
    """
    config = system.config
    encoded: dict[str, Any] = dict.fromkeys(("train", "validation", "test"))
    skipped: list[dict[str, str]] = []
    shortened: list[dict[str, str]] = []
    for split in splits:
        source_split = system.task.splits.get(split, split)
        records = source.load(system.task.dataset, source_split, config.data.dir or None, strict=strict)
        if records is None:
            continue
        size = config.data.train_size if split == "train" else 0
        encoded[split] = system.encode_split(records, split, strict, limit=size)
        skipped += encoded[split].skipped
        shortened += [
            {"id": id, "split": split, "reason": reason} for id, reason in encoded[split].shortened.values()
        ]
        if split == "train" and (label := config.data.get("balance")):
            left_out = encoded[split].skipped
            encoded[split] = features.balance_classes(encoded[split], label, config.task.get("data_seed", 0))
            encoded[split].skipped = left_out
    skipped = source.load_skipped(system.task.dataset, config.data.dir or None) + skipped
    for rows, name, problem in (
        (skipped, "skipped.jsonl", "left out"),
        (shortened, "shortened.jsonl", "not read whole"),
    ):
        if rows and jax.process_index() == 0:
            path, first = folder / name, rows[0]
            files.write(path, (log.to_json_line(row) + "\n" for row in rows))
            log.say(f"{len(rows)} records {problem}, the first is {first['id']} ({first['reason']}): see {path}")
    if "train" in splits and (encoded["train"] is None or len(encoded["train"]) == 0):
        raise DataError(f"no usable record in the training split of {dict(system.task.dataset)}")
    return Splits(**encoded)


def train_seeds(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Trains config.num_seeds seeds one after the other with the same compiled step. If a seed diverges, it is
    reported and the others go on. With one seed the run is in `folder`, else in folder/seed_0, …."""
    system = assemble(config, folder)
    splits = load_data(system, folder, strict)
    if config.num_seeds == 1:
        results, _ = train(system, splits, folder, config.seed, None)
        return results
    compiled, outcomes, diverged = None, {}, {}
    for i in range(config.num_seeds):
        seed = config.seed + i
        log.say(f"seed {seed} ({i + 1} of {config.num_seeds})")
        try:
            outcomes[seed], compiled = train(system, splits, folder / f"seed_{seed}", seed, compiled)
        except Diverged as error:
            diverged[seed] = str(error)
            log.say(f"seed {seed} diverged: {error}")
    summary = summarise(outcomes)
    results_by_seed = {"seeds": outcomes, "diverged": diverged, "summary": summary}
    if jax.process_index() == 0:
        files.write(folder / "seeds.json", json.dumps(results_by_seed, indent=1) + "\n")
    for split, metrics in summary.items():
        metrics_text = " · ".join(f"{k} {v['mean']:.4f} ± {v['std']:.4f}" for k, v in metrics.items())
        log.say(f"{split} over {len(outcomes)} seeds: {metrics_text}")
    if diverged and not outcomes:
        raise Diverged(f"all {config.num_seeds} seeds diverged: lower config.optim.learning_rate")
    return results_by_seed


def summarise(outcomes: dict[int, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and sample standard deviation over seeds of every metric, by split."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for split in {split for results in outcomes.values() for split in results}:
        names = {name for results in outcomes.values() for name in results.get(split, {})}
        for name in sorted(names):
            values = [results[split][name] for results in outcomes.values() if name in results.get(split, {})]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            out.setdefault(split, {})[name] = {"mean": statistics.fmean(values), "std": spread, "n": len(values)}
    return out


def evaluate(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Scores the workdir's best checkpoint on validation and test."""
    from numjax import api

    model = api.load(folder, config=config)
    splits = load_data(model.system, folder, strict, splits=("validation", "test"))
    compiled = model.compiled(next(d for d in (splits.validation, splits.test) if d is not None))
    results = {}
    for split in ("validation", "test"):
        if (encoded := getattr(splits, split)) is not None:
            results[split] = report.score_split(
                model.system, compiled, model.params, encoded, split, folder, tuned=results
            )
            log.say(f"{split}: " + log.format_metrics(results[split]))
    log.print_result(results)
    return results


def check(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
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
    compiled = make_compiled(system, mesh, batch, count_steps(config, loader))
    rows = shard.batch_sharding(mesh)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows), batch)
    seed = jax.ShapeDtypeStruct((), np.int32, sharding=shard.replicated(mesh))
    memory = compiled.step.lower(seed, compiled.abstract_state, shapes).compile().memory_analysis()
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


def predict(
    model: Any,
    records: Sequence[Mapping[str, Any]],
    skipped: list[dict[str, str]],
    folder: pathlib.Path,
    strict: bool,
) -> dict[str, Any]:
    """Predicts the user's records; prints the predictions and writes them to predictions/input.jsonl.

    Args:
      records: records of the task; the field "mended" says how a record was repaired. skipped: records that are left
        out already. Both are reported.
    """
    rows = model.predict(records, strict=strict, skipped=skipped)
    for row in rows:
        log.print_result(row)
    if jax.process_index() == 0:
        files.write(folder / "predictions" / "input.jsonl", (log.to_json_line(row) + "\n" for row in rows))
    for record in records:
        if "mended" in record:
            log.say(f"mended {record['id']}: {record['mended']}")
    for row in rows:
        if "shortened" in row:
            log.say(f"not read whole {row['id']}: {row['shortened']}")
    for row in skipped:
        log.say(f"left out {row['id']}: {row['reason']}")
    return {"predictions": rows, "skipped": copy.copy(skipped)}
