"""Number encoders trained together with the probes of Table 2: keyed by all a result depends on, and resumable.

On disk, under the folder of the experiment: toys/ROW-KEY/seed_N.json once done, seed_N.npz after each epoch before.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import inspect
import json
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
from numjax.bundled.experiments.luna import numbers as tables_of
from numjax.bundled.experiments.runs import Result, machine, stored, write_json
from numjax.errors import DataError, UsageError
from numjax.inspect import vectors
from numjax.numeral.exact import to_numeral
from numjax.probes.joint import Rule, State, Strings, Trainer
from numjax.probes.numbers import Asked, Lines, parted, published, targets
from numjax.runtime import log

# Of the probes, as published and not: counted up where a result would change.
VERSIONS = {True: 1, False: 2}
TASK = "toys"
DIGITS = 20
GROUPS = (4, 6)  # characters up to which strings are read together: most have fewer
EVERY = 30.0  # seconds between lines of progress


class Sizes(NamedTuple):
    """How much there is to learn from, and of what size everything is.

    Attributes:
      items: single numbers, pairs and triples drawn, of each. held: of each at most in validation and test.
      dim: of a number's vector. hidden: H of the probes. epochs, batch_size, learning_rate: of the training.
      tables: generated tables of each source, where there are no real ones.
    """

    items: int
    held: int
    dim: int
    hidden: int
    epochs: int = 30
    batch_size: int = 256
    tables: int = 2000
    learning_rate: float = 1e-3


class Cell(NamedTuple):
    """A row, on disk and in results, and what `numjax.build` makes its encoder from: "name:key=value,…"."""

    row: str
    spec: str


class Data(NamedTuple):
    """Of one seed: training, validation and test (validation is test as published) with what is asked of them."""

    parts: tuple[Asked, ...]
    targets: tuple[Mapping[str, Any], ...]


@functools.lru_cache(1)
def sources(path: str, count: int) -> list[Lines]:
    """The numbers of the tables at `path`, or of so many generated ones."""
    began = time.monotonic()
    found = tables_of.read(path) if path else tables_of.stand_in(count)
    cells = ", ".join(f"{len(lines.cells):,}" for lines in found)
    log.say(f"{len(found[-1].literals):,} number strings in {cells} cells ({log.duration(time.monotonic() - began)})")
    return found


@functools.lru_cache(1)
def fingerprint(path: str, count: int) -> str:
    """Eight hexadecimal digits of the numbers and of the rows and columns that they stand in."""
    seen = 0
    for lines in sources(path, count):
        for part in (lines.items, lines.starts, lines.cells):
            seen = zlib.crc32(np.ascontiguousarray(part).tobytes(), seen)
    return f"{zlib.crc32(' '.join(sources(path, count)[-1].literals).encode(), seen):08x}"


def key(cell: Cell, sizes: Sizes, path: str, as_published: bool) -> str:
    """Twelve hexadecimal digits of what a result depends on."""
    parts = [VERSIONS[as_published], cell.spec, sizes, as_published, fingerprint(path, sizes.tables)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def data(path: str, sizes: Sizes, seed: int, as_published: bool) -> Data:
    """The examples of a seed.

    Raises:
      DataError: there are too few to hold some out.
    """
    found = sources(path, sizes.tables)
    rng = np.random.default_rng([seed, sizes.items])
    if as_published:
        train, test = published(found, sizes.items, rng)
        test = Asked(*(rng.permutation(items)[: sizes.held] for items in test))
        parts = (train, test, test)
    else:
        train, *held = parted(found, sizes.items, rng)
        parts = (train, *(Asked(*(items[: sizes.held] for items in part)) for part in held))
    if not all(len(items) for part in parts for items in part):
        raise DataError(f"{path or 'the stand-in'}: too few numbers to hold some of each kind out: give more tables")
    return Data(parts, tuple(targets(found[-1].values, part) for part in parts))


def strings(encoder: Any, lines: Lines) -> Strings:
    """All number strings as an encoder reads them."""
    numerals = to_numeral([Decimal(repr(value)) for value in lines.values.tolist()], DIGITS)
    lengths = np.asarray([len(literal) for literal in lines.literals])
    return Strings(numerals, encoder.host_features(numerals, lines.literals), lengths)


def constant(found: Data) -> dict[str, float]:
    """What an answer that never changes comes to on test: the training's mean, or its most frequent class."""
    train, test = found.targets[0], found.targets[2]
    out = {}
    for task in ("decode", "add", "subtract"):
        off = test[task].significand - train[task].significand.mean()
        out[f"{task}_significand"] = float(np.sqrt(np.mean(np.square(off))))
        most = np.bincount(train[task].exponent).argmax()
        out[f"{task}_exponent"] = float(np.mean(test[task].exponent == most))
    out["max"] = float(np.mean(test["max"] == np.bincount(train["max"]).argmax()))
    return out


def seen(found: Data) -> float:
    """The share of test numbers, standing alone, that training has as a number standing alone."""
    return float(np.isin(found.parts[2].single, found.parts[0].single).mean())


def run(
    cell: Cell, seeds: Sequence[int], out: pathlib.Path, sizes: Sizes, path: str, as_published: bool
) -> dict[int, Result]:
    """A cell's results by seed, training those that are not done from where they were left.

    Raises:
      UsageError: an encoder that cannot be made, or a folder that cannot be written.
      DataError: no tables.
    """
    name = key(cell, sizes, path, as_published)
    folder = out / TASK / f"{cell.row}-{name}"
    done: dict[int, Result] = {}
    for seed in seeds:
        file = folder / f"seed_{seed}.json"
        if (result := stored(file, out, name, seed)) is None:
            began = time.monotonic()
            metrics, diverged, spent = _train(cell, seed, folder / f"seed_{seed}.npz", sizes, path, as_published)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            seconds = round(time.monotonic() - began + spent, 1)
            result = Result(TASK, cell.row, seed, name, metrics, diverged, seconds, machine(), now)
            write_json(file, result._asdict())
            (folder / f"seed_{seed}.npz").unlink(missing_ok=True)
        done[seed] = result
    return done


def _train(cell: Cell, seed: int, kept: pathlib.Path, sizes: Sizes, path: str, as_published: bool):
    """(metrics by split, what was said if the loss stopped being finite, seconds that earlier calls took)."""
    lines, found = sources(path, sizes.tables)[-1], data(path, sizes, seed, as_published)
    name, options = vectors.read_spec(cell.spec)
    block = {"name": name, "dim": sizes.dim, **options}
    if "length" in inspect.signature(build.find("embed", name)).parameters:
        block["length"] = max(map(len, lines.literals))
    encoder: Any = build.build("embed", block)
    rule = Rule(sizes.learning_rate, sizes.batch_size, sizes.epochs, sizes.hidden)
    # Where padding counts, all strings are padded alike.
    bounds = () if getattr(encoder, "padded", False) else GROUPS
    read = strings(encoder, lines)
    trainer = Trainer(encoder, sizes.dim, read, found.parts[0], found.targets[0], rule, seed, bounds)
    state = trainer.start()
    progress = _Progress(state, kept)
    state = progress.state
    log.say(f"{cell.row} seed {seed}: {sizes.epochs} epochs of {trainer.steps} steps, {progress.epoch} of them done")
    began = last = time.monotonic()
    first, spent = progress.epoch, progress.seconds
    for number in range(first, sizes.epochs):
        state, loss = trainer.epoch(state, number)
        held = trainer.evaluate(state.params, found.parts[1], found.targets[1])
        if not (math.isfinite(loss) and math.isfinite(held["loss"])):
            return {}, f"the loss of epoch {number + 1} is {loss}, held out {held['loss']}", spent
        progress.add(state, held, spent + time.monotonic() - began)
        if time.monotonic() - last > EVERY or number + 1 == sizes.epochs:
            last = time.monotonic()
            left = (last - began) / (number + 1 - first) * (sizes.epochs - number - 1)
            log.say(
                f"{cell.row} seed {seed}: epoch {number + 1}, training loss {loss:.3f}, held out {held['loss']:.3f}, "
                f"exponent {held['decode_exponent']:.4f}, {log.duration(left)} left"
            )
    metrics = {
        "test": trainer.evaluate(progress.best.params, found.parts[2], found.targets[2]),
        "validation": trainer.evaluate(progress.best.params, found.parts[1], found.targets[1]),
        "training": trainer.evaluate(
            progress.best.params,
            Asked(*(items[: sizes.held] for items in found.parts[0])),
            {task: jax.tree.map(lambda y: y[: sizes.held], of) for task, of in found.targets[0].items()},
        )
        | {"best_epoch": float(progress.best_epoch), "epochs": float(sizes.epochs), "steps": float(trainer.steps)},
    }
    return metrics, None, spent


class _Progress:
    """The state after the last epoch and that of the best, on disk after every epoch."""

    def __init__(self, start: State, kept: pathlib.Path) -> None:
        # The first step gives the state's memory away.
        self.state, self.best = start, jax.tree.map(np.asarray, start)
        self.epoch, self.best_epoch, self.best_loss, self.seconds = 0, 0, float("inf"), 0.0
        self._kept = kept
        if not kept.is_file():
            return
        leaves, tree = jax.tree.flatten(start)
        try:
            with np.load(kept) as found:
                now = [found[f"now_{at}"] for at in range(len(leaves))]
                best = [found[f"best_{at}"] for at in range(len(leaves))]
                self.epoch, self.best_epoch = int(found["epoch"]), int(found["best_epoch"])
                self.best_loss, self.seconds = float(found["best_loss"]), float(found["seconds"])
        except (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile) as error:
            raise UsageError(f"{kept} is damaged: delete it to begin this seed anew") from error
        self.state, self.best = jax.tree.unflatten(tree, now), jax.tree.unflatten(tree, best)

    def add(self, state: State, held: Mapping[str, float], seconds: float) -> None:
        """Another epoch is done, with these scores held out."""
        # The next step gives the state's memory away.
        state = jax.tree.map(np.asarray, state)
        self.epoch += 1
        if held["loss"] < self.best_loss:
            self.best, self.best_epoch, self.best_loss = state, self.epoch, held["loss"]
        arrays: dict[str, Any] = {"epoch": self.epoch, "best_epoch": self.best_epoch, "best_loss": self.best_loss}
        for name, of in (("now", state), ("best", self.best)):
            arrays |= {f"{name}_{at}": leaf for at, leaf in enumerate(jax.tree.leaves(of))}
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._kept.with_suffix(".tmp.npz")
        np.savez(fresh, **arrays, seconds=seconds)
        fresh.replace(self._kept)
