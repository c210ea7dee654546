"""Texts to pre-train on, without what the tables of digit aggregation ask."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

from numjax.bundled import data
from numjax.bundled.data.news.numbers import list_runs
from numjax.bundled.data.news.read import find_files, read_articles
from numjax.bundled.experiments import texts


def _read_news(folder: pathlib.Path) -> Iterator[str]:
    for file in find_files(str(folder)):
        for _, articles in read_articles(file):
            if not isinstance(articles, ValueError):
                yield from articles


def _read_dataset(field: str, name: str, **options: Any) -> Callable[[pathlib.Path], Iterator[str]]:
    """A reader of a dataset's field, of all splits."""

    def read(folder: pathlib.Path) -> Iterator[str]:
        for split in data.prepare(name, path=str(folder), **options).info.splits:
            for record in data.load(name, split, path=str(folder), **options):
                yield record[field]

    return read


SOURCES: dict[str, Callable[[pathlib.Path], Iterator[str]]] = {
    "ag_news": _read_news,
    "gsm8k": _read_dataset("problem", "solving", form="gsm8k"),
    "math23k_en": _read_dataset("text_en", "math23k"),
    "squad_v1.1_dev": _read_dataset("context", "squad"),
    "wikitext2": _read_dataset("text", "text"),
}


def list_held_out(mawps: str, fermat: str) -> set[tuple[str, ...]]:
    """The runs of eight words of all questions that a table asks, in training, validation and test."""
    questions: list[str] = []
    for split in ("train", "validation", "test"):
        questions += [row["question"] for row in data.load("mawps", split, path=mawps, form="mawps+svamp+asdiv")]
    questions += [row["question"] for row in data.load("fermat", "test", path=fermat, size=100)]
    return {run for question in questions for run in list_runs(question)}


def collect(folder: str, out: pathlib.Path, held_out: Callable[[], Collection[tuple[str, ...]]]) -> texts.Counts:
    """As `texts.collect`, without texts that have one of the runs of words that `held_out` gives."""
    runs: set[tuple[str, ...]] = set()

    def is_kept(text: str) -> bool:
        if not runs:
            runs.update(held_out())
        return runs.isdisjoint(list_runs(text))

    return texts.collect(folder, out, SOURCES, lambda text: {"text": text}, is_kept)
