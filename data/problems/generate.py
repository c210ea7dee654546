"""Problems by split and stream: different wordings in each, and no problem twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

from . import compose
from .compose import Form

TEST, VALIDATION = 0.2, 0.1  # of all, and of what is left, where one size is given for all splits
INVENTED = 0.3
_PATIENCE = 200  # draws for one problem before the plans are taken to be used up


class Stream(NamedTuple):
    """What a part of a split is of.

    Attributes:
      use: of its wordings, see `wording.pools`. steps: of every problem, None for as many as in training.
      held_nouns: its things are not those of training. factor: by which its numbers are larger.
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


def records(
    size: int, test: int, seed: int, invented: float, wordings: int, validation: int = 600
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, record), training first.

    Args:
      size: problems to train on. test: of each stream of the test split. validation: of that split.
      seed: of everything random but which wordings are held out. invented: share of things that are invented words,
        outside the stream "nouns", which has none.
      wordings: train on so many forms alone; 0: on all.

    Raises:
      UsageError: the plans do not hold that many problems.
    """
    counts = {"train": size, "validation": validation} | dict.fromkeys(
        (name for name, stream in STREAMS.items() if stream.split == "test"), test
    )
    seen: set[str] = set()
    for (name, stream), key in zip(STREAMS.items(), np.random.SeedSequence(seed).spawn(len(STREAMS)), strict=True):
        rng = np.random.default_rng(key)
        forms = [_form(rng, stream) for _ in range(wordings)] if wordings and name == "train" else None
        for place in range(counts[name]):
            yield stream.split, _record(rng, name, stream, place, forms, invented, seen)


def of_size(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, record) of so many problems in all: a fifth, in equal parts of its streams, for test."""
    streams = sum(stream.split == "test" for stream in STREAMS.values())
    test = max(1, round(size * TEST / streams))
    validation = max(1, round((size - test * streams) * VALIDATION))
    train = max(1, size - validation - test * streams)
    return records(size=train, test=test, seed=seed, invented=INVENTED, wordings=0, validation=validation)


def _form(rng: np.random.Generator, stream: Stream) -> Form:
    return compose.draw_form(rng, stream.use, stream.steps)


def _record(rng, name: str, stream: Stream, place: int, forms: list[Form] | None, invented: float, seen: set[str]):
    for _ in range(_PATIENCE):
        form = forms[int(rng.integers(len(forms)))] if forms else _form(rng, stream)
        of = 0.0 if stream.held_nouns else invented
        problem = compose.fill(rng, form, held_nouns=stream.held_nouns, invented=of, factor=stream.factor)
        if problem is not None and problem.text not in seen:
            break
    else:
        raise UsageError(f"problems: the plans do not hold so many problems ({name}): choose a smaller size")
    seen.add(problem.text)
    return dict(
        id=f"problems-{name}-{place:06d}",
        text_en=problem.text,
        equation=problem.equation,
        ans=problem.answer,
        situation=form.situation,
        steps=form.steps,
        stream=name,
        form=form.key,
    )
