"""The training loop. Its order must not change:

    evaluate → save → fetch the next batch → step

The data position moves only after the save, so a checkpoint's position is exactly what the model has trained on.
The host fetches the metrics of step n − 1 after it has dispatched step n, so the device never waits for the host. On
CPU with several devices or processes at most one step is in flight, since collectives deadlock otherwise. Besides
these, the batch, the seed and the learning rate, nothing moves between device and host inside the loop.

A run starts from the workdir's newest good checkpoint, else from `init_from`, else from fresh parameters.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from numjax.errors import Diverged, Preempted, UsageError
from numjax.pipeline.features import source_length
from numjax.pipeline.loader import Loader
from numjax.pretrained import installed
from numjax.runtime import log, profiling, program, shard
from numjax.runtime.signals import Signals
from numjax.runtime.waiting import Wait
from numjax.system import System, make_loader
from numjax.train import optim, sums
from numjax.train.checkpoint import Checkpoints
from numjax.train.compile import Compiled, count_parameters, flops_per_token, make_compiled
from numjax.train.inherit import load_pretrained
from numjax.types import TrainState

Sums = Mapping[str, tuple[Any, Any]]


class Position(NamedTuple):
    """The progress of a run: optimiser steps, global examples used, the best validation so far and its step."""

    step: int
    examples: int
    best: float | None
    best_step: int


class Splits(NamedTuple):
    """The encoded splits of a task: train, validation and test; None for a missing one."""

    train: Any
    validation: Any
    test: Any


def count_steps(config: Any, loader: Loader) -> int:
    """Number of optimiser steps of a run: `optim.steps`, else `optim.epochs` of the training set."""
    if config.optim.steps > 0:
        return int(config.optim.steps)
    whole = int(config.optim.epochs)
    steps = sum(loader.batches_of_epoch(epoch) for epoch in range(whole))
    return max(1, steps + round((config.optim.epochs - whole) * loader.batches_of_epoch(whole)))


def train(
    system: System,
    splits: Splits,
    workdir: pathlib.Path,
    seed: int,
    score: Callable[..., dict[str, float]],
    compiled: Compiled | None = None,
    note: Callable[[float], str] | None = None,
):
    """Trains one seed to its end, resuming the workdir's run if there is one; then scores the splits.

    Args:
      score: scores a split, with the arguments of `evals.report.score_split`.
      compiled: the compiled functions of an earlier run of the same system, whatever its seed and learning rate.
      note: seconds left of this run → text to add to a progress line, where it is one of several runs.

    Returns:
      ({split: metrics}, the compiled functions, for the next run).

    Raises:
      Diverged: the loss is NaN or infinite; the last good checkpoint is kept.
      Preempted: SIGTERM or SIGINT; the state is saved.
      UsageError: a batch does not divide over the mesh.
    """
    config = system.config
    workdir.mkdir(parents=True, exist_ok=True)
    mesh = shard.mesh_from_config(config) if compiled is None else compiled.mesh
    loader = make_loader(system, splits.train, mesh, seed)
    loader.check_batch()
    steps = count_steps(config, loader)
    if compiled is None:
        compiled = make_compiled(system, mesh, loader.example_batch())
    with contextlib.ExitStack() as stack:
        asynchronous = config.checkpoint.asynchronous
        checkpoints = Checkpoints(workdir / "checkpoints", config.checkpoint.keep, asynchronous)
        stack.callback(checkpoints.close)
        # Keep two: a run that is killed after it has saved a better one may resume from before it.
        best = Checkpoints(workdir / "best", 2, asynchronous)
        stack.callback(best.close)
        state, position, recent = _start(system, compiled, checkpoints, seed, splits)
        best.drop_after(position.best_step)
        if position.best_step not in best.steps():
            # Several better ones came after the saved step, so that its own was no longer kept: they come again.
            position = position._replace(best=None)
        writer = log.MetricsWriter(workdir, position.step)
        stack.callback(writer.close)
        with Signals() as signals:
            run = _Run(system, splits, compiled, checkpoints, best, writer, loader, steps, seed, signals, score, note)
            state, position = run.loop(state, position, recent)
        results = run.finish(state, position, workdir)
    return results, compiled


class _Run:
    """The loop and the objects that it uses; read `loop` first."""

    def __init__(
        self, system, splits, compiled, checkpoints, best, writer, loader, steps, seed, signals, score, note
    ):
        self.system, self.splits, self.compiled = system, splits, compiled
        self.checkpoints, self.best, self.writer = checkpoints, best, writer
        self.loader, self.steps, self.seed, self.signals = loader, steps, seed, signals
        self.score, self.note = score, note
        self.compiled_shapes: set[tuple[tuple[int, ...], ...]] = set()
        config = self.config = system.config
        self.rates = optim.list_rates(config.optim, steps)
        self.eval_every = config.eval.every or min(steps, loader.batches_of_epoch(0))
        self.save_every = config.checkpoint.every or self.eval_every
        self.blocking = jax.default_backend() == "cpu" and (jax.device_count() > 1 or jax.process_count() > 1)

    def loop(self, state: TrainState, position: Position, recent: Sums) -> tuple[TrainState, Position]:
        """Trains until the last step; returns the final state, evaluated and saved, and its position.

        Args:
          recent: metric sums that were not yet written when the state was saved.
        """
        config, batch_size = self.config, self.config.optim.batch_size
        source = source_length(config.data) if self.splits.train.source is not None else 0
        flops = flops_per_token(self.system.model, self.compiled.abstract_state, config.data.length, source)
        progress = log.Progress(self.steps, position.step, flops, log.peak_flops(), self.note)
        profiler = profiling.Profiler(config.profile_steps, self.checkpoints.folder.parent / "profile")
        batches: Iterator = self.loader.iterate(position.examples)
        pending, first = None, position.step
        for step in range(position.step, self.steps + 1):
            last = step == self.steps
            if last and step > first:
                recent, pending = self._collect_metrics(recent, pending, step)
                recent = self._write_metrics(step, recent, progress)
            if step > first and (step % self.eval_every == 0 or last):
                recent, pending = self._collect_metrics(recent, pending, step)
                with progress.pause():
                    position = self._evaluate(state, position)
            if step > first and (step % self.save_every == 0 or last):
                recent, pending = self._collect_metrics(recent, pending, step)
                self._save(state, position, recent)
            if self.signals.stop_at(step):
                recent, pending = self._collect_metrics(recent, pending, step)
                self._save(state, position, recent)
                self.checkpoints.wait()
                raise Preempted(f"stopped at step {step}, which is saved: run the same command to go on")
            if last:
                break
            batch, examples, tokens = next(batches)
            profiler.start_or_stop(step, state)
            with self._wait_for_compilation(batch):
                inputs = state, shard.put(batch, self.compiled.mesh)
                state, metrics = self.compiled.step(self.seed, self.rates[step], *inputs)
            if self.blocking:
                jax.block_until_ready(metrics)
            recent, _ = self._collect_metrics(recent, pending, step)
            pending = metrics
            progress.count(examples, tokens)
            position = position._replace(step=step + 1, examples=position.examples + batch_size)
            if (step + 1) % config.log_every == 0 and recent and step + 1 < self.steps:
                recent = self._write_metrics(step + 1, recent, progress)
            else:
                progress.break_silence(step + 1)
        profiler.close(state)
        with Wait("saving the last checkpoint"):
            self.checkpoints.wait()
            self.best.wait()
        return state, position

    def finish(self, state: TrainState, position: Position, workdir: pathlib.Path) -> dict[str, dict[str, float]]:
        """Scores the best checkpoint (else the last state) on validation and test, and writes the predictions.

        Returns:
          Split → metrics.
        """
        params, step = state.params, position.step
        restored = None
        if self.config.eval.best:
            restored = self.best.restore(self._params_only(self.compiled.abstract_state), position.best_step)
        if restored is not None:
            step, best_state, _ = restored
            params = best_state.params
        results = {}
        for split in ("validation", "test"):
            encoded = getattr(self.splits, split)
            if encoded is None or (split == "test" and not self.config.eval.test):
                continue
            metrics = self.score(self.system, self.compiled, params, encoded, split, workdir, tuned=results)
            self.writer.write(position.step, f"{split}_best" if split == "validation" else split, metrics)
            results[split] = metrics
            log.say_metrics(f"{'best checkpoint, ' if restored else ''}step {step}: {split}", metrics)
        return results

    def _wait_for_compilation(self, batch: Any) -> contextlib.AbstractContextManager:
        """A wait where the batch has a shape for which the step is not compiled yet."""
        shapes = tuple(np.shape(x) for x in jax.tree.leaves(batch))
        if shapes in self.compiled_shapes:
            return contextlib.nullcontext()
        self.compiled_shapes.add(shapes)
        return Wait("compiling the training step, once for each shape of a batch")

    def _collect_metrics(self, recent, pending, step):
        """(the interval's metric sums with those of the pending step, None). A loss or gradient that is not finite
        ends the run."""
        if pending is None:
            return recent, None
        metrics = jax.device_get(pending)
        # A gradient may be NaN before the loss is, and the resulting parameters must not be saved.
        for name, what in (("loss", "the loss"), ("grad_norm", "the gradient's norm")):
            total, count = metrics[name]
            if math.isfinite(float(total)):
                continue
            good = self.checkpoints.steps()
            last_good = f"checkpoint {good[-1]} is good" if good else "no checkpoint was saved yet"
            raise Diverged(
                f"{what} is {float(total) / max(float(count), 1)} at step {step - 1}: {last_good}; "
                "lower config.optim.learning_rate in a new workdir, or look at the batch with "
                f"{program.mode_of('check')}"
            )
        return sums.add(recent, metrics), None

    def _write_metrics(self, step: int, recent: Sums, progress: log.Progress) -> Sums:
        """Writes the means of the steps since the last line, and returns the empty sums."""
        means = sums.divide(recent) | progress.rates(step)
        progress.print_line(step, means)
        self.writer.write(step, "train", means)
        return {}

    def _evaluate(self, state: TrainState, position: Position) -> Position:
        if self.splits.validation is None:
            return position
        metrics = self.score(
            self.system,
            self.compiled,
            state.params,
            self.splits.validation,
            "validation",
            None,
            limit=self.config.eval.examples,
            generate=self.config.eval.get("generate", True),
        )
        self.writer.write(position.step, "validation", metrics)
        log.say(f"validation at step {position.step}: " + log.format_metrics(metrics))
        name = self.system.task.metric
        if name.lstrip("-") not in metrics:
            raise UsageError(
                f"the best step is chosen by {name.lstrip('-')}, which is not among {', '.join(metrics)}: with "
                "config.eval.generate=False generated texts are not scored"
            )
        value = metrics[name.lstrip("-")] * (-1 if name.startswith("-") else 1)
        # NaN (nothing was counted) must not become the best, since no value compares as better than NaN. A NaN that
        # an older run has saved as the best is replaced.
        is_better = not math.isnan(value) and (position.best is None or not value <= position.best)
        if self.config.eval.best and is_better:
            position = position._replace(best=value, best_step=position.step)
            self.best.save(position.step, self._params_only(state), {"metrics": _finite(metrics)})
        return position

    def _params_only(self, state: TrainState) -> TrainState:
        return state._replace(opt_state=(), ema=None)

    def _save(self, state: TrainState, position: Position, recent: Sums) -> None:
        if position.step in self.checkpoints.steps():
            return
        # The position names the best step, so the best checkpoint must be complete before this one.
        self.best.wait()
        meta = {
            "position": position._asdict(),
            "seed": self.seed,
            "data": self.splits.train.fingerprint,
            "recent": {name: [float(x) for x in pair] for name, pair in recent.items()},
        }
        self.checkpoints.save(position.step, state, meta)


def _start(
    system: System, compiled: Compiled, checkpoints: Checkpoints, seed: int, splits: Splits
) -> tuple[TrainState, Position, Sums]:
    with Wait(f"looking for a checkpoint in {checkpoints.folder}"):
        restored = checkpoints.restore(compiled.abstract_state)
    if restored is not None:
        step, state, meta = restored
        if meta.get("data", splits.train.fingerprint) != splits.train.fingerprint:
            raise UsageError(
                f"the training data are not those of checkpoint {step} in {checkpoints.folder}: bring the dataset "
                "and the vocabulary back, or use another --workdir"
            )
        log.say(f"resumed {checkpoints.folder} at step {step}")
        try:
            recent = {name: (np.float32(t), np.float32(c)) for name, (t, c) in meta.get("recent", {}).items()}
            return state, Position(**meta["position"]), recent
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UsageError(f"checkpoint {step} in {checkpoints.folder} has no position: move it away") from None
    with Wait("compiling and running the initialisation"):
        state = compiled.init(seed)
    for name in ("rates", "weight_decays"):
        for pattern in optim.find_unmatched(state.params, system.config.optim.get(name, ())):
            log.say(f"config.optim.{name}: the path of no parameter has {pattern!r} in it")
    log.say(f"{count_parameters(compiled.abstract_state):,} parameters on {jax.device_count()} device(s)")
    if system.config.init_from:
        start = pathlib.Path(installed.resolve_path(system.config.init_from))
        with Wait(f"loading {start}"):
            state = load_pretrained(system, compiled, state, start)
    elif n_frozen := optim.count_frozen(state.params, system.config.optim.get("rates", ())):
        log.say(
            f"{n_frozen:,} of them never change (optim.rates) and are random: set --config.init_from to the workdir "
            "of a run that trained them, or --config.optim.rates='()' to train them here"
        )
    return state, Position(0, 0, None, 0), {}


def _finite(metrics):
    return {k: v for k, v in metrics.items() if math.isfinite(v)}
