"""List maximum, decoding and addition on any vectors of numbers (Wallace et al. 2019, section 3).

numbers = np.arange(1000)
run("decode", vectors.make("dice:form=d,dim=300,low=0,high=999")(numbers), numbers, seeds=range(5))
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.probes import networks
from numjax.probes.examples import (
    Examples,
    Split,
    make_list_examples,
    make_number_examples,
    make_pair_examples,
    split_numbers,
)
from numjax.probes.train import Network, SGDOptions, Training, fit, scores
from numjax.runtime import log

HIDDEN = 100
EVERY = 30.0  # seconds between lines of progress


class ProbeSizes(NamedTuple):
    """Sizes of a probe and its data. The defaults are the paper's.

    Attributes:
      train: how many lists or pairs to train on. held: how many for validation, and how many for test.
      hidden: H. epochs: the most epochs.
    """

    train: int = 100_000
    held: int = 1_000
    hidden: int = HIDDEN
    epochs: int = 1000


class ProbeResult(NamedTuple):
    """The result of one seed, at the epoch with the best validation score.

    Attributes:
      seed: of the initial parameters, the split and the order.
      test, validation: accuracy for list maximum, else root mean squared error.
      best_epoch: the best epoch, 0 if no epoch had a finite score. epochs: how many were trained.
    """

    seed: int
    test: float
    validation: float
    best_epoch: int
    epochs: int


PROBES = {"max": "list maximum", "decode": "decoding", "decode_linear": "decoding, linear", "add": "addition"}
# A seed stops after so many epochs without a better score. `PATIENCE` is from the authors' code (`as_published`).
# Decoding waits longer here: its error still falls, but by less an epoch than it fluctuates.
PATIENCE = {"max": 10, "decode": 20, "decode_linear": 20, "add": 20}
LONG_PATIENCE = {"decode": 200, "decode_linear": 200}


@functools.lru_cache
def make_network(name: str, hidden: int = HIDDEN) -> Network:
    """Makes the network of a probe, with its loss and score."""
    if name == "max":
        init = functools.partial(networks.init_chooser, hidden=hidden)
        return Network(init, networks.chooser, networks.cross_entropy, networks.is_correct, 1)
    options = {"numbers": 2 if name == "add" else 1, "hidden": hidden, "layers": 0 if name == "decode_linear" else 2}
    init = functools.partial(networks.init_mlp, **options)
    return Network(init, networks.mlp, networks.squared_error, networks.squared_error, -1)


def make_sgd_options(name: str, sizes: ProbeSizes, as_published: bool = False) -> SGDOptions:
    """Makes the options of the training. Gradients of regressions are clipped at norm 5."""
    patience = PATIENCE[name] if as_published else LONG_PATIENCE.get(name, PATIENCE[name])
    return SGDOptions(clip=0.0 if name == "max" else 5.0, epochs=sizes.epochs, patience=patience)


def make_examples(name: str, values: np.ndarray, seed: int, sizes: ProbeSizes, as_published: bool) -> Split:
    """Makes the training, validation and test examples of a seed, as a Split of `Examples`.

    Validation has as many lists or pairs as test. With `as_published`, validation is the same as test.
    """
    rng = np.random.default_rng([seed, len(values)])
    parts = split_numbers(len(values), rng, as_published)

    def draw(pool: np.ndarray, count: int) -> Examples:
        if name == "max":
            return make_list_examples(values, pool, count, rng)
        if name == "add":
            return make_pair_examples(values, pool, count, rng, as_published)
        return make_number_examples(values, pool, as_published)

    train, test = draw(parts.train, sizes.train), draw(parts.test, sizes.held)
    return Split(train, test if as_published else draw(parts.validation, sizes.held), test)  # type: ignore[arg-type]


def run(
    name: str,
    vectors_VD: np.ndarray,
    numbers: Sequence[int] | np.ndarray,
    seeds: Sequence[int],
    sizes: ProbeSizes | None = None,
    as_published: bool = False,
) -> list[ProbeResult]:
    """Trains a probe on frozen vectors, all seeds at once, and returns the result of each seed.

    Args:
      name: one of `PROBES`.
      vectors_VD: one vector a number, any float type. numbers: the numbers.
      as_published: early stopping uses the test split, targets are truncated to integers, and decoding has the
        patience of the authors' code.

    Raises:
      UsageError: an unknown probe, or no seeds.
      DataError: vectors that are not finite or do not match the numbers, a number twice, or too few numbers.
    """
    if name not in PROBES:
        raise UsageError(f"no probe is called {name!r}: choose {', '.join(PROBES)}")
    if not len(seeds):
        raise UsageError("give one seed or more")
    vectors_VD = np.asarray(vectors_VD, np.float64)
    values = np.asarray(numbers, np.float64)
    if vectors_VD.ndim != 2 or values.shape != (len(vectors_VD),):
        raise DataError(f"vectors {vectors_VD.shape} and numbers {values.shape} do not match: one vector a number")
    if not np.isfinite(vectors_VD).all():
        raise DataError(f"the vector of {values[~np.isfinite(vectors_VD).all(axis=1)][0]:g} is not finite")
    order = np.argsort(values, kind="stable")
    values, vectors_VD = values[order], vectors_VD[order]
    if (np.diff(values) == 0).any():
        raise DataError(f"{values[1:][np.diff(values) == 0][0]:g} is given twice: each number once")
    sizes = sizes or ProbeSizes()
    splits = [make_examples(name, values, seed, sizes, as_published) for seed in seeds]
    train, validation, test = (
        Examples(*(np.stack(parts) for parts in zip(*split, strict=True))) for split in zip(*splits, strict=True)
    )
    table, basis = networks.find_coordinates(vectors_VD)
    network = make_network(name, sizes.hidden)
    sgd_options = make_sgd_options(name, sizes, as_published)
    training = fit(
        network, sgd_options, table, basis, train, validation, np.asarray(seeds), _ProgressLog(name, sizes.epochs)
    )
    metrics = np.asarray(scores(network, training.best, table, test)), network.sign * np.asarray(training.best_score)
    if network.sign < 0:
        metrics = tuple(np.sqrt(m) for m in metrics)
    epochs = np.asarray(training.best_epoch), np.asarray(training.epoch)
    columns = (list(seeds), *(m.tolist() for m in metrics), *(e.tolist() for e in epochs))
    return [ProbeResult(*row) for row in zip(*columns, strict=True)]


class _ProgressLog:
    """Prints a line of progress every `EVERY` seconds."""

    def __init__(self, name: str, epochs: int) -> None:
        self._name, self._epochs = name, epochs
        self._began = self._last = time.monotonic()

    def __call__(self, training: Training) -> None:
        if time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        running, epoch = np.asarray(training.running), int(np.asarray(training.epoch).max())
        best = np.abs(np.asarray(training.best_score, np.float64))
        validation = best if self._name == "max" else np.sqrt(best)
        pace = (self._last - self._began) / max(epoch, 1)
        log.say(
            f"{PROBES[self._name]}: epoch {epoch} of at most {self._epochs}, {running.sum()} of {len(running)} seeds "
            f"go on, validation {validation.mean():.4g} ({pace:.2g} s an epoch)"
        )
