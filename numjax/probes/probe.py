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
from numjax.probes.examples import Examples, Split, of_lists, of_numbers, of_pairs, split
from numjax.probes.train import Network, Rule, Training, fit, scores
from numjax.runtime import log

HIDDEN = 100
EVERY = 30.0  # seconds between lines of progress


class Sizes(NamedTuple):
    """How much a probe is given; the defaults are the paper's.

    Attributes:
      train, held: lists or pairs to train on, and to choose and to test with. hidden: H. epochs: at most.
    """

    train: int = 100_000
    held: int = 1_000
    hidden: int = HIDDEN
    epochs: int = 1000


class Result(NamedTuple):
    """Of one seed, at the epoch that validation chose.

    Attributes:
      seed: of the initial parameters, the split and the order.
      test, validation: accuracy of list maximum, else root mean squared error.
      best_epoch: chosen, 0 if no epoch had a finite score; epochs: done.
    """

    seed: int
    test: float
    validation: float
    best_epoch: int
    epochs: int


PROBES = {"max": "list maximum", "decode": "decoding", "decode_linear": "decoding, linear", "add": "addition"}
# Epochs without a better score after which a seed stops; those of the code under `as_published`. Decoding goes on for
# longer here: its error still falls, from epoch to epoch by less than it goes up and down.
PATIENCE = {"max": 10, "decode": 20, "decode_linear": 20, "add": 20}
LONGER = {"decode": 200, "decode_linear": 200}


@functools.lru_cache
def network(name: str, hidden: int = HIDDEN) -> Network:
    """The network of a probe and what is asked of it."""
    if name == "max":
        init = functools.partial(networks.init_chooser, hidden=hidden)
        return Network(init, networks.chooser, networks.cross_entropy, networks.right, 1)
    options = {"numbers": 2 if name == "add" else 1, "hidden": hidden, "layers": 0 if name == "decode_linear" else 2}
    init = functools.partial(networks.init_mlp, **options)
    return Network(init, networks.mlp, networks.squared_error, networks.squared_error, -1)


def rule(name: str, sizes: Sizes, as_published: bool = False) -> Rule:
    """How it is trained: gradients of regressions are clipped at norm 5."""
    patience = PATIENCE[name] if as_published else LONGER.get(name, PATIENCE[name])
    return Rule(clip=0.0 if name == "max" else 5.0, epochs=sizes.epochs, patience=patience)


def examples(name: str, values: np.ndarray, seed: int, sizes: Sizes, as_published: bool) -> Split:
    """The training, validation and test examples of a seed, as a Split of `Examples`.

    Validation has as many lists or pairs as test. As published it is test, and of each there is one draw.
    """
    rng = np.random.default_rng([seed, len(values)])
    parts = split(len(values), rng, as_published)

    def draw(pool: np.ndarray, count: int) -> Examples:
        if name == "max":
            return of_lists(values, pool, count, rng)
        if name == "add":
            return of_pairs(values, pool, count, rng, as_published)
        return of_numbers(values, pool, as_published)

    train, test = draw(parts.train, sizes.train), draw(parts.test, sizes.held)
    return Split(train, test if as_published else draw(parts.validation, sizes.held), test)  # type: ignore[arg-type]


def run(
    name: str,
    vectors_VD: np.ndarray,
    numbers: Sequence[int] | np.ndarray,
    seeds: Sequence[int],
    sizes: Sizes | None = None,
    as_published: bool = False,
) -> list[Result]:
    """Trains a probe on frozen vectors, all seeds at once.

    Args:
      name: one of `PROBES`.
      vectors_VD: a vector a number, any float. numbers: what they stand for.
      as_published: the split that stops the training and chooses the epoch is the one that is reported, targets are
        cut to integers, and decoding has the code's patience.

    Raises:
      UsageError: an unknown probe, or no seeds. DataError: vectors that are not finite, do not match the numbers, or
        too few of them.
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
    sizes = sizes or Sizes()
    found = [examples(name, values, seed, sizes, as_published) for seed in seeds]
    train, held, test = (
        Examples(*(np.stack(parts) for parts in zip(*split, strict=True))) for split in zip(*found, strict=True)
    )
    table, basis = networks.coordinates(vectors_VD)
    wanted = network(name, sizes.hidden)
    how = rule(name, sizes, as_published)
    done = fit(wanted, how, table, basis, train, held, np.asarray(seeds), _Note(name, sizes.epochs))
    measured = np.asarray(scores(wanted, done.best, table, test)), wanted.sign * np.asarray(done.best_score)
    if wanted.sign < 0:
        measured = tuple(np.sqrt(m) for m in measured)
    epochs = np.asarray(done.best_epoch), np.asarray(done.epoch)
    columns = (list(seeds), *(m.tolist() for m in measured), *(e.tolist() for e in epochs))
    return [Result(*row) for row in zip(*columns, strict=True)]


class _Note:
    """A line of progress now and then."""

    def __init__(self, name: str, epochs: int) -> None:
        self._name, self._epochs = name, epochs
        self._began = self._last = time.monotonic()

    def __call__(self, now: Training) -> None:
        if time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        running, epoch = np.asarray(now.running), int(np.asarray(now.epoch).max())
        best = np.abs(np.asarray(now.best_score, np.float64))
        shown = best if self._name == "max" else np.sqrt(best)
        pace = (self._last - self._began) / max(epoch, 1)
        log.say(
            f"{PROBES[self._name]}: epoch {epoch} of at most {self._epochs}, {running.sum()} of {len(running)} seeds "
            f"go on, validation {shown.mean():.4g} ({pace:.2g} s an epoch)"
        )
