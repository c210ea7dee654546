"""Texts to pre-train on, without what the tables of digit aggregation ask."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax.bundled import data
from numjax.bundled.configs import digits
from numjax.bundled.data.news.read import find_files, read_articles
from numjax.bundled.experiments import texts
from numjax.errors import DataError

FORMS = digits.FORMS["together"]  # whose problems the tables ask as one task


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


def _load_views(fermat: str) -> Sequence[Mapping[str, Any]]:
    """FERMAT's test problems in all views, or in those of the paper if the folder has no others."""
    options: dict[str, Any] = dict(path=fermat, commuted=1, size=100)  # as few training problems as possible are made
    try:
        return data.load("fermat", "test", views="all", **options)
    except DataError:
        return data.load("fermat", "test", views="paper", **options)


def collect(folder: str, out: pathlib.Path, mawps: str, fermat: str) -> texts.Counts:
    """As `texts.collect`, without what the problems of two folders ask in any split."""

    def list_asked() -> Iterator[str]:
        options: dict[str, Any] = {"path": mawps, "form": FORMS}
        for split in data.prepare("mawps", **options).info.splits:
            yield from (row["question"] for row in data.load("mawps", split, **options))
        yield from (row["question"] for row in _load_views(fermat))

    asked_in = [*(str(pathlib.Path(mawps) / form) for form in FORMS.split("+")), fermat]
    return texts.collect(folder, out, SOURCES, lambda text: {"text": text}, list_asked, asked_in)
