"""Trains number encoders together with the probes of Table 2; runs are keyed by everything a result depends on.

On disk, under the folder of the experiment: toys/ROW-KEY/seed_N.npz after each epoch, from which a stopped run
resumes, and seed_N.json instead of it at the end.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import math
import pathlib
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import jax
import numpy as np

from numjax import build
from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.luna import numbers as tables_of
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import DataError, UsageError
from numjax.inspect import vectors
from numjax.numeral.exact import to_numeral
from numjax.probes.joint import AdamOptions, JointState, Strings, Trainer
from numjax.probes.numbers import ExamplesByKind, TableLines, make_targets, split_as_published, split_by_value
from numjax.runtime import log

# as_published → version of the probes: increased when results change.
VERSIONS = {True: 1, False: 2}
TASK = "toys"
MODULE = "numjax.bundled.experiments.luna.toys"
DIGITS = 20
GROUPS = (4, 6)  # strings up to so many characters are read together: most are shorter
REPORT_SECONDS = 30.0  # seconds between lines of progress


class ToySizes(NamedTuple):
    """Sizes of the data, the model and the training.

    Attributes:
      items: number of single numbers, of pairs and of triples that are drawn. held: at most so many of each in
        validation and in test.
      dim: of a number's vector. hidden: H of the probes. epochs, batch_size, learning_rate: of the training.
      tables: number of generated tables of each source, if there are no real ones.
    """

    items: int
    held: int
    dim: int
    hidden: int
    epochs: int = 30
    batch_size: int = 256
    tables: int = 2000
    learning_rate: float = 1e-3


class EncoderCell(NamedTuple):
    """A row's name, on disk and in results, and the specification of its encoder: "name:key=value,…"."""

    row: str
    spec: str


class ExampleSplits(NamedTuple):
    """The examples of one seed: training, validation and test, with targets; as published, validation is test."""

    parts: tuple[ExamplesByKind, ...]
    targets: tuple[Mapping[str, Any], ...]


@functools.lru_cache(1)
def load_sources(path: str, count: int) -> list[TableLines]:
    """The numbers of the tables at `path`, or, without a path, of `count` generated ones."""
    start = time.monotonic()
    sources = tables_of.load_lines(path) if path else tables_of.make_lines(count)
    cells = ", ".join(f"{len(lines.cells):,}" for lines in sources)
    log.say(
        f"{len(sources[-1].literals):,} number strings in {cells} cells "
        f"({log.format_duration(time.monotonic() - start)})"
    )
    return sources


@functools.lru_cache(1)
def fingerprint(path: str, count: int) -> str:
    """Eight hexadecimal digits that hash the numbers and their rows and columns."""
    checksum = 0
    for lines in load_sources(path, count):
        for part in (lines.items, lines.starts, lines.cells):
            checksum = zlib.crc32(np.ascontiguousarray(part).tobytes(), checksum)
    return f"{zlib.crc32(' '.join(load_sources(path, count)[-1].literals).encode(), checksum):08x}"


def list_settings(cell: EncoderCell, sizes: ToySizes, path: str, as_published: bool) -> dict[str, Any]:
    """What a result depends on."""
    named = {"version": VERSIONS[as_published], "spec": cell.spec, "as_published": as_published}
    return {**named, **sizes._asdict(), "numbers": fingerprint(path, sizes.tables)}


def draw_examples(path: str, sizes: ToySizes, seed: int, as_published: bool) -> ExampleSplits:
    """The examples of a seed.

    Raises:
      DataError: there are too few to hold some out.
    """
    sources = load_sources(path, sizes.tables)
    rng = np.random.default_rng([seed, sizes.items])
    if as_published:
        train, test = split_as_published(sources, sizes.items, rng)
        test = ExamplesByKind(*(rng.permutation(items)[: sizes.held] for items in test))
        parts = (train, test, test)
    else:
        train, *held_parts = split_by_value(sources, sizes.items, rng)
        parts = (train, *(ExamplesByKind(*(items[: sizes.held] for items in part)) for part in held_parts))
    if not all(len(items) for part in parts for items in part):
        raise DataError(f"{path or 'the stand-in'}: too few numbers to hold some of each kind out: give more tables")
    return ExampleSplits(parts, tuple(make_targets(sources[-1].values, part) for part in parts))


def make_strings(encoder: Any, lines: TableLines) -> Strings:
    """All number strings as the input of an encoder."""
    numerals = to_numeral([Decimal(repr(value)) for value in lines.values.tolist()], DIGITS)
    lengths = np.asarray([len(literal) for literal in lines.literals])
    return Strings(numerals, encoder.host_features(numerals, lines.literals), lengths)


def score_constant(examples: ExampleSplits) -> dict[str, float]:
    """Test metrics of a constant answer: the mean of the training targets, or their most frequent class."""
    train, test = examples.targets[0], examples.targets[2]
    metrics = {}
    for task in ("decode", "add", "subtract"):
        errors = test[task].significand - train[task].significand.mean()
        metrics[f"{task}_significand"] = float(np.sqrt(np.mean(np.square(errors))))
        frequent = np.bincount(train[task].exponent).argmax()
        metrics[f"{task}_exponent"] = float(np.mean(test[task].exponent == frequent))
    metrics["max"] = float(np.mean(test["max"] == np.bincount(train["max"]).argmax()))
    return metrics


def measure_overlap(examples: ExampleSplits) -> float:
    """The share of single test numbers that are also single training numbers."""
    return float(np.isin(examples.parts[2].single, examples.parts[0].single).mean())


def run(
    cell: EncoderCell,
    seeds: Sequence[int],
    out: pathlib.Path,
    sizes: ToySizes,
    path: str,
    as_published: bool,
    test: bool = True,
) -> dict[int, RunResult]:
    """Trains the missing seeds of a cell, resuming stopped ones; returns its results by seed, which are scored on
    test if `test` is set.

    Raises:
      UsageError: the encoder cannot be built, or the folder cannot be written.
      DataError: there are no tables.
    """
    settings = list_settings(cell, sizes, path, as_published)
    key = identity.make_key(settings)
    folder = out / TASK / f"{cell.row}-{key}"
    results_by_seed: dict[int, RunResult] = {}
    for seed in seeds:
        file = folder / f"seed_{seed}.json"
        result = stored.load_result(file, out, stored.Request(TASK, cell.row, seed, settings))
        if result is None:
            roots = (MODULE, *identity.list_vector_roots(cell.spec))
            code = stored.start_code(folder / f"seed_{seed}", identity.list_code(roots))
            start = time.monotonic()
            metrics, diverged, earlier_seconds = _train(
                cell, seed, folder / f"seed_{seed}.npz", sizes, path, as_published, test
            )
            timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            seconds = round(time.monotonic() - start + earlier_seconds, 1)
            result = RunResult(
                *(TASK, cell.row, seed, key, metrics, diverged, seconds),
                *(stored.describe_machine(), timestamp, settings, code),
            )
            stored.write_json(file, result._asdict())
            (folder / f"seed_{seed}.npz").unlink(missing_ok=True)
        results_by_seed[seed] = result
    return results_by_seed


def _train(
    cell: EncoderCell,
    seed: int,
    state_file: pathlib.Path,
    sizes: ToySizes,
    path: str,
    as_published: bool,
    test: bool,
):
    """(metrics by split, an error message if the loss stopped being finite, seconds that earlier calls took)."""
    lines, examples = load_sources(path, sizes.tables)[-1], draw_examples(path, sizes, seed, as_published)
    name, options = vectors.parse_spec(cell.spec)
    block = {"name": name, "dim": sizes.dim, **options}
    if "length" in inspect.signature(build.find("embed", name)).parameters:
        block["length"] = max(map(len, lines.literals))
    encoder: Any = build.build("embed", block)
    rule = AdamOptions(sizes.learning_rate, sizes.batch_size, sizes.epochs, sizes.hidden)
    # If padding changes an encoder's result, all strings get the same padding.
    bounds = () if getattr(encoder, "padded", False) else GROUPS
    strings = make_strings(encoder, lines)
    trainer = Trainer(encoder, sizes.dim, strings, examples.parts[0], examples.targets[0], rule, seed, bounds)
    state = trainer.start()
    progress = _Progress(state, state_file)
    state = progress.state
    log.say(f"{cell.row} seed {seed}: {sizes.epochs} epochs of {trainer.steps} steps, {progress.epoch} of them done")
    start = last_report = time.monotonic()
    first_epoch, earlier_seconds = progress.epoch, progress.seconds
    for epoch in range(first_epoch, sizes.epochs):
        state, loss = trainer.run_epoch(state, epoch)
        held_out_metrics = trainer.evaluate(state.params, examples.parts[1], examples.targets[1])
        if not (math.isfinite(loss) and math.isfinite(held_out_metrics["loss"])):
            return (
                {},
                f"the loss of epoch {epoch + 1} is {loss}, held out {held_out_metrics['loss']}",
                earlier_seconds,
            )
        progress.add(state, held_out_metrics, earlier_seconds + time.monotonic() - start)
        if time.monotonic() - last_report > REPORT_SECONDS or epoch + 1 == sizes.epochs:
            last_report = time.monotonic()
            seconds_left = (last_report - start) / (epoch + 1 - first_epoch) * (sizes.epochs - epoch - 1)
            log.say(
                f"{cell.row} seed {seed}: epoch {epoch + 1}, training loss {loss:.3f}, held out "
                f"{held_out_metrics['loss']:.3f}, "
                f"exponent {held_out_metrics['decode_exponent']:.4f}, {log.format_duration(seconds_left)} left"
            )
    metrics = {
        "validation": trainer.evaluate(progress.best.params, examples.parts[1], examples.targets[1]),
        "training": trainer.evaluate(
            progress.best.params,
            ExamplesByKind(*(items[: sizes.held] for items in examples.parts[0])),
            {
                task: jax.tree.map(lambda y: y[: sizes.held], task_targets)
                for task, task_targets in examples.targets[0].items()
            },
        )
        | {"best_epoch": float(progress.best_epoch), "epochs": float(sizes.epochs), "steps": float(trainer.steps)},
    }
    if test:
        metrics["test"] = trainer.evaluate(progress.best.params, examples.parts[2], examples.targets[2])
    return metrics, None, earlier_seconds


class _Progress:
    """The state after the last epoch and the best state, saved after every epoch."""

    def __init__(self, start: JointState, state_file: pathlib.Path) -> None:
        # The first step donates the state's memory.
        self.state, self.best = start, jax.tree.map(np.asarray, start)
        self.epoch, self.best_epoch, self.best_loss, self.seconds = 0, 0, float("inf"), 0.0
        self._state_file = state_file
        if not state_file.is_file():
            return
        leaves, tree = jax.tree.flatten(start)
        try:
            with np.load(state_file) as arrays:
                last_leaves = [arrays[f"now_{index}"] for index in range(len(leaves))]
                best_leaves = [arrays[f"best_{index}"] for index in range(len(leaves))]
                self.epoch, self.best_epoch = int(arrays["epoch"]), int(arrays["best_epoch"])
                self.best_loss, self.seconds = float(arrays["best_loss"]), float(arrays["seconds"])
        except (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile) as error:
            raise UsageError(f"{state_file} is damaged: delete it to begin this seed anew") from error
        self.state, self.best = jax.tree.unflatten(tree, last_leaves), jax.tree.unflatten(tree, best_leaves)

    def add(self, state: JointState, held_out_metrics: Mapping[str, float], seconds: float) -> None:
        """Adds an epoch's state and its held-out metrics, and saves."""
        # The next step donates the state's memory.
        state = jax.tree.map(np.asarray, state)
        self.epoch += 1
        if held_out_metrics["loss"] < self.best_loss:
            self.best, self.best_epoch, self.best_loss = state, self.epoch, held_out_metrics["loss"]
        arrays: dict[str, Any] = {"epoch": self.epoch, "best_epoch": self.best_epoch, "best_loss": self.best_loss}
        for name, part_state in (("now", state), ("best", self.best)):
            arrays |= {f"{name}_{index}": leaf for index, leaf in enumerate(jax.tree.leaves(part_state))}
        self._state_file.parent.mkdir(parents=True, exist_ok=True)
        new_file = self._state_file.with_suffix(".tmp.npz")
        np.savez(new_file, **arrays, seconds=seconds)
        new_file.replace(self._state_file)
