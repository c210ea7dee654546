"""Generates problems by split and stream: with different wordings in each, and no problem twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

from . import compose
from .compose import ProblemForm

TEST, VALIDATION = 0.2, 0.1  # of all problems, and of the rest, if one size is given for all splits
INVENTED_SHARE = 0.3
_PATIENCE = 200  # draws for one problem before the plans count as exhausted


class Stream(NamedTuple):
    """A part of a split.

    Attributes:
      use: of its wordings, see `wording.make_pools`. steps: of every problem; None draws them as for training.
      held_nouns: use things that training does not have. factor: multiplies the bounds of its numbers.
    """

    split: str
    use: str
    steps: int | None = None
    held_nouns: bool = False
    factor: int = 1


STREAMS = {
    "train": Stream("train", "train"),
    "validation": Stream("validation", "validation"),
    "seen": Stream("test", "train"),
    "wordings": Stream("test", "wordings"),
    "sentences": Stream("test", "sentences"),
    "nouns": Stream("test", "train", held_nouns=True),
    "range": Stream("test", "train", factor=100),
    "steps": Stream("test", "train", steps=4),
}


def generate_records(
    size: int, test: int, seed: int, invented: float, wordings: int, validation: int = 600
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (split, record), training first.

    Args:
      size: training problems. test: problems of each stream of the test split. validation: problems of that split.
      seed: of everything random, except the choice of wordings for each use. invented: share of things that are
        invented words; the stream "nouns" has none.
      wordings: train on only so many forms; 0: on all.

    Raises:
      UsageError: the plans do not hold that many problems.
    """
    counts = {"train": size, "validation": validation} | dict.fromkeys(
        (name for name, stream in STREAMS.items() if stream.split == "test"), test
    )
    texts: set[str] = set()
    for (name, stream), key in zip(STREAMS.items(), np.random.SeedSequence(seed).spawn(len(STREAMS)), strict=True):
        rng = np.random.default_rng(key)
        forms = [_draw_form(rng, stream) for _ in range(wordings)] if wordings and name == "train" else None
        for index in range(counts[name]):
            yield stream.split, _make_record(rng, name, stream, index, forms, invented, texts)


def generate_total(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (split, record) of `size` problems in all: a fifth is test, divided equally between its streams."""
    streams = sum(stream.split == "test" for stream in STREAMS.values())
    test = max(1, round(size * TEST / streams))
    validation = max(1, round((size - test * streams) * VALIDATION))
    train = max(1, size - validation - test * streams)
    return generate_records(
        size=train, test=test, seed=seed, invented=INVENTED_SHARE, wordings=0, validation=validation
    )


def _draw_form(rng: np.random.Generator, stream: Stream) -> ProblemForm:
    return compose.draw_form(rng, stream.use, stream.steps)


def _make_record(
    rng, name: str, stream: Stream, index: int, forms: list[ProblemForm] | None, invented: float, texts: set[str]
):
    for _ in range(_PATIENCE):
        form = forms[int(rng.integers(len(forms)))] if forms else _draw_form(rng, stream)
        share = 0.0 if stream.held_nouns else invented
        problem = compose.fill(rng, form, held_nouns=stream.held_nouns, invented=share, factor=stream.factor)
        if problem is not None and problem.text not in texts:
            break
    else:
        raise UsageError(f"problems: the plans do not hold so many problems ({name}): choose a smaller size")
    texts.add(problem.text)
    return dict(
        id=f"problems-{name}-{index:06d}",
        text_en=problem.text,
        equation=problem.equation,
        ans=problem.answer,
        situation=form.situation,
        steps=form.steps,
        stream=name,
        form=form.key,
    )
