"""The loop. Its order is a law:

    evaluate → save → fetch the next batch → step

The data position moves only after the save, so what a checkpoint names is exactly what has been learned.
Metrics of step n − 1 are read after step n is dispatched, so the device never waits for the host; on CPU with
several devices or processes one step is in flight at most, since collectives deadlock otherwise. Nothing else
moves between device and host inside the loop.

Restart order: the workdir's newest good checkpoint, else `init_from`, else fresh parameters.
"""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from numjax.config.origin import CONFIG_FILE, config_of, keep_config
from numjax.errors import Diverged, Preempted, UsageError
from numjax.evals import report
from numjax.pipeline.features import source_length
from numjax.pipeline.loader import Loader
from numjax.pretrained import installed
from numjax.runtime import log, profiling, shard
from numjax.runtime.signals import Signals
from numjax.system import VOCABULARY, System, reader
from numjax.train import optim, sums
from numjax.train.checkpoint import Checkpoints
from numjax.train.compile import Compiled, flops_per_token, make_compiled, parameter_count
from numjax.train.inherit import load_pretrained
from numjax.types import TrainState

# Blocks and settings that may differ between a workdir's run and its resumption: they change no parameter. That
# another `data.dir` holds the same data is seen by the fingerprint in the checkpoints.
FREE = {
    *("log_every", "profile_steps", "topology", "compile_cache", "checkpoint", "decode", "mesh", "num_seeds"),
    *("data.dir", "data.memory", "data.threads", "data.prefetch", "data.workers"),
    *("eval.batch_size", "eval.generate", "eval.test"),
    "task.answer",  # how answers are decoded
}

Sums = Mapping[str, tuple[Any, Any]]


class Position(NamedTuple):
    """Where a run stands: optimiser steps done, global examples read, the best validation so far."""

    step: int
    examples: int
    best: float | None
    best_step: int


class Data(NamedTuple):
    """The encoded splits of a task: train, validation, and test where there is one."""

    train: Any
    validation: Any
    test: Any


def steps_of(config: Any, loader: Loader) -> int:
    """Optimiser steps of a run: `optim.steps`, else `optim.epochs` of the training set."""
    if config.optim.steps > 0:
        return int(config.optim.steps)
    whole = int(config.optim.epochs)
    steps = sum(loader.batches_of_epoch(epoch) for epoch in range(whole))
    return max(1, steps + round((config.optim.epochs - whole) * loader.batches_of_epoch(whole)))


def train(
    system: System,
    data: Data,
    workdir: pathlib.Path,
    seed: int,
    compiled: Compiled | None = None,
    note: Callable[[float], str] | None = None,
):
    """Trains one seed to its end, resuming what the workdir holds; then scores the test split.

    Args:
      compiled: what an earlier seed of the same system has compiled.
      note: seconds left of this run → what to add to a progress line, where it is one of many.

    Returns:
      ({split: metrics}, the functions it compiled, for the next seed).

    Raises:
      Diverged: the loss is NaN or infinite; the last good checkpoint stays.
      Preempted: SIGTERM or SIGINT; the state is saved.
      UsageError: a batch does not divide over the mesh.
    """
    config = system.config
    workdir.mkdir(parents=True, exist_ok=True)
    mesh = shard.mesh_of(config) if compiled is None else compiled.mesh
    loader = reader(system, data.train, mesh, seed)
    loader.check_batch()
    steps = steps_of(config, loader)
    if compiled is None:
        compiled = make_compiled(system, mesh, loader.example_batch(), steps)
    with contextlib.ExitStack() as stack:
        asynchronous = config.checkpoint.asynchronous
        checkpoints = Checkpoints(workdir / "checkpoints", config.checkpoint.keep, asynchronous)
        stack.callback(checkpoints.close)
        # Two, since a run that is killed after a better one goes on from before it.
        best = Checkpoints(workdir / "best", 2, asynchronous)
        stack.callback(best.close)
        state, position, recent = _start(system, compiled, checkpoints, seed, data)
        best.drop_after(position.best_step)
        writer = log.Writer(workdir, position.step)
        stack.callback(writer.close)
        with Signals() as signals:
            run = _Run(system, data, compiled, checkpoints, best, writer, loader, steps, seed, signals, note)
            state, position = run.loop(state, position, recent)
        results = run.finish(state, position, workdir)
    return results, compiled


class _Run:
    """The loop's fixed surroundings; `loop` is the page to read."""

    def __init__(self, system, data, compiled, checkpoints, best, writer, loader, steps, seed, signals, note):
        self.system, self.data, self.compiled = system, data, compiled
        self.checkpoints, self.best, self.writer = checkpoints, best, writer
        self.loader, self.steps, self.seed, self.signals, self.note = loader, steps, seed, signals, note
        config = self.config = system.config
        self.eval_every = config.eval.every or min(steps, loader.batches_of_epoch(0))
        self.save_every = config.checkpoint.every or self.eval_every
        self.blocking = jax.default_backend() == "cpu" and (jax.device_count() > 1 or jax.process_count() > 1)

    def loop(self, state: TrainState, position: Position, recent: Sums) -> tuple[TrainState, Position]:
        """Steps until the end; returns the final state, evaluated and saved.

        Args:
          recent: metrics that were read and not yet written when the state was saved.
        """
        config, batch_size = self.config, self.config.optim.batch_size
        source = source_length(config.data) if self.data.train.source is not None else 0
        flops = flops_per_token(self.system.model, self.compiled.abstract_state, config.data.length, source)
        progress = log.Progress(self.steps, position.step, flops, log.peak_flops(), self.note)
        profiler = profiling.Profiler(config.profile_steps, self.checkpoints.folder.parent / "profile")
        batches: Iterator = self.loader.iterate(position.examples)
        pending, first = None, position.step
        for step in range(position.step, self.steps + 1):
            last = step == self.steps
            if step > first and (step % self.eval_every == 0 or last):
                recent, pending = self._read(recent, pending, step)
                position = self._evaluate(state, position)
            if step > first and (step % self.save_every == 0 or last):
                recent, pending = self._read(recent, pending, step)
                self._save(state, position, recent)
            if self.signals.stop_at(step):
                recent, pending = self._read(recent, pending, step)
                self._save(state, position, recent)
                self.checkpoints.wait()
                raise Preempted(f"stopped at step {step}, which is saved: run the same command to go on")
            if last:
                break
            batch, examples, tokens = next(batches)
            profiler.before(step, state)
            state, metrics = self.compiled.step(self.seed, state, shard.put(batch, self.compiled.mesh))
            if self.blocking:
                jax.block_until_ready(metrics)
            recent, _ = self._read(recent, pending, step)
            pending = metrics
            progress.count(examples, tokens)
            position = position._replace(step=step + 1, examples=position.examples + batch_size)
            if (step + 1) % config.log_every == 0 and recent:
                means = sums.divide(recent) | progress.rates(step + 1)
                progress.line(step + 1, means)
                self.writer.write(step + 1, "train", means)
                recent = {}
        profiler.close(state)
        self.checkpoints.wait()
        self.best.wait()
        return state, position

    def finish(self, state: TrainState, position: Position, workdir: pathlib.Path) -> dict[str, dict[str, float]]:
        """Scores the best checkpoint (else the last state) on validation and test, and writes predictions."""
        params, step = state.params, position.step
        found = None
        if self.config.eval.best:
            found = self.best.restore(self._params_only(self.compiled.abstract_state), position.best_step)
        if found is not None:
            step, kept, _ = found
            params = kept.params
        results = {}
        for split in ("validation", "test"):
            encoded = getattr(self.data, split)
            if encoded is None or (split == "test" and not self.config.eval.test):
                continue
            metrics = report.score_split(self.system, self.compiled, params, encoded, split, workdir, tuned=results)
            self.writer.write(position.step, f"{split}_best" if split == "validation" else split, metrics)
            results[split] = metrics
            log.say(f"{split} (step {step}): " + log.shown(metrics))
        return results

    def _read(self, recent, pending, step):
        """Adds a finished step's metrics to the interval's; a loss or gradient that is not finite ends the run."""
        if pending is None:
            return recent, None
        metrics = jax.device_get(pending)
        # A gradient may be NaN where the loss is not yet, and the parameters that it makes must not be saved.
        for name, what in (("loss", "the loss"), ("grad_norm", "the gradient's norm")):
            total, count = metrics[name]
            if math.isfinite(float(total)):
                continue
            good = self.checkpoints.steps()
            kept = f"checkpoint {good[-1]} is good" if good else "no checkpoint was saved yet"
            raise Diverged(
                f"{what} is {float(total) / max(float(count), 1)} at step {step - 1}: {kept}; "
                "lower config.optim.learning_rate, or look at the batch with --mode=check"
            )
        return sums.add(recent, metrics), None

    def _evaluate(self, state: TrainState, position: Position) -> Position:
        if self.data.validation is None:
            return position
        metrics = report.score_split(
            self.system,
            self.compiled,
            state.params,
            self.data.validation,
            "validation",
            None,
            limit=self.config.eval.examples,
            generate=self.config.eval.get("generate", True),
        )
        self.writer.write(position.step, "validation", metrics)
        log.say(f"validation at step {position.step}: " + log.shown(metrics))
        name = self.system.task.metric
        if name.lstrip("-") not in metrics:
            raise UsageError(
                f"the best step is chosen by {name.lstrip('-')}, which is not among {', '.join(metrics)}: with "
                "config.eval.generate=False nothing that is written is scored"
            )
        value = metrics[name.lstrip("-")] * (-1 if name.startswith("-") else 1)
        # NaN, where nothing was counted, is no best: nothing compares as better. One of before gives way.
        better = not math.isnan(value) and (position.best is None or not value <= position.best)
        if self.config.eval.best and better:
            position = position._replace(best=value, best_step=position.step)
            self.best.save(position.step, self._params_only(state), {"metrics": _finite(metrics)})
        return position

    def _params_only(self, state: TrainState) -> TrainState:
        return state._replace(opt_state=(), ema=None)

    def _save(self, state: TrainState, position: Position, recent: Sums) -> None:
        if position.step in self.checkpoints.steps():
            return
        # The position names the best step: it must be there before what says so.
        self.best.wait()
        meta = {
            "position": position._asdict(),
            "seed": self.seed,
            "data": self.data.train.fingerprint,
            "recent": {name: [float(x) for x in pair] for name, pair in recent.items()},
        }
        self.checkpoints.save(position.step, state, meta)


def _start(
    system: System, compiled: Compiled, checkpoints: Checkpoints, seed: int, data: Data
) -> tuple[TrainState, Position, Sums]:
    found = checkpoints.restore(compiled.abstract_state)
    if found is not None:
        step, state, meta = found
        if meta.get("data", data.train.fingerprint) != data.train.fingerprint:
            raise UsageError(
                f"the training data are not those of checkpoint {step} in {checkpoints.folder}: bring the dataset "
                "and the vocabulary back, or use another --workdir"
            )
        log.say(f"resumed {checkpoints.folder} at step {step}")
        recent = {name: (np.float32(t), np.float32(c)) for name, (t, c) in meta.get("recent", {}).items()}
        return state, Position(**meta["position"]), recent
    state = compiled.init(seed)
    log.say(f"{parameter_count(compiled.abstract_state):,} parameters on {jax.device_count()} device(s)")
    if system.config.init_from:
        state = load_pretrained(system, compiled, state, pathlib.Path(installed.located(system.config.init_from)))
    elif stay := optim.frozen(state.params, system.config.optim.get("rates", ())):
        log.say(
            f"{stay:,} of them never change (optim.rates) and are random: set --config.init_from to the workdir of a "
            "run that trained them, or --config.optim.rates='()' to train them here"
        )
    return state, Position(0, 0, None, 0), {}


def trained(workdir: pathlib.Path) -> bool:
    """Whether the workdir, or the folder of a seed in it, holds a checkpoint; what is half written is none."""
    folders = (f"{of}{name}/*" for of in ("", "seed_*/") for name in ("checkpoints", "best"))
    return any(path.name.isdigit() for pattern in folders for path in workdir.glob(pattern))


def claim(workdir: pathlib.Path, config: Any, keep: bool = True) -> None:
    """Checks that the config is the one that has trained in the workdir, and writes it there.

    Where nothing is trained yet, another config gives way, and with it what it alone has made.

    Args:
      keep: False where something is trained leaves what was written: settings that may differ hold for one look at
        the run, not for those after it.

    Raises:
      UsageError: another config trained there, naming the first difference; or it cannot be written.
    """
    mine = json.loads(json.dumps(config.to_dict()))
    different = _difference(workdir, mine)
    if different is not None and trained(workdir):
        raise UsageError(
            f"{workdir} was made by another config ({different}): leave out the flags that change it (without "
            "--config it is read from the workdir), or use another --workdir"
        )
    if jax.process_index() == 0 and (keep or not trained(workdir)):
        try:
            if different is not None:
                shutil.rmtree(workdir / VOCABULARY, ignore_errors=True)
                for name in ("skipped.jsonl", "shortened.jsonl"):
                    (workdir / name).unlink(missing_ok=True)
            keep_config(workdir, mine)
        except OSError as error:
            raise UsageError(f"cannot write to {workdir} ({error.strerror}): choose another --workdir") from error


def _difference(workdir: pathlib.Path, mine: dict[str, Any]) -> str | None:
    """In words, the first setting that is not free and is other than in the workdir; None where none is.

    Raises:
      UsageError: something is trained there, and its config is damaged.
    """
    if not (workdir / CONFIG_FILE).exists():
        return None
    try:
        theirs = _flat(config_of(workdir))
    except UsageError as error:
        if trained(workdir):
            raise
        return str(error)
    ours = _flat(mine)
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key) and FREE.isdisjoint((key, key.split(".")[0])):
            return f"{key} was {theirs.get(key)!r}, now {ours.get(key)!r}"
    return None


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    out: dict[str, Any] = {}
    for key, value in tree.items():
        out |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return out


def _finite(metrics):
    return {k: v for k, v in metrics.items() if math.isfinite(v)}
