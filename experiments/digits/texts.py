"""Texts to pre-train on: those of public datasets in one folder, without what the tests of this folder ask."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from numjax.bundled import data
from numjax.bundled.data.news.numbers import list_runs
from numjax.bundled.data.news.read import find_files, read_articles
from numjax.errors import UsageError
from numjax.runtime import files, log

COUNTS = "counts.json"


def _read_news(path: str) -> Iterator[str]:
    for file in find_files(path):
        for _, texts in read_articles(file):
            if not isinstance(texts, ValueError):
                yield from texts


def _read_dataset(field: str, name: str, **options: Any) -> Callable[[str], Iterator[str]]:
    """A reader of a dataset's field, of all splits."""

    def read(path: str) -> Iterator[str]:
        splits = data.prepare(name, path=path, **options).info.splits
        for split in splits:
            for record in data.load(name, split, path=path, **options):
                yield record[field]

    return read


# Folder → a reader of its texts.
SOURCES: dict[str, Callable[[str], Iterator[str]]] = {
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


def collect(folder: str, out: pathlib.Path, held_out: Callable[[], Iterable[tuple[str, ...]]]) -> dict[str, Any]:
    """Writes each source's texts to OUT/SOURCE.jsonl, once, and returns how many were kept and left out.

    Args:
      folder: with any of the folders of `SOURCES`.
      held_out: gives runs of words; a text that has one is left out.

    Raises:
      UsageError: the folder has none of them.
    """
    if (out / COUNTS).exists():
        return json.loads((out / COUNTS).read_text())
    names = [name for name in SOURCES if (pathlib.Path(folder).expanduser() / name).is_dir()]
    if not names:
        raise UsageError(f"--texts={folder}: it has none of the folders {', '.join(SOURCES)}")
    shutil.rmtree(out, ignore_errors=True)
    runs, counts = set(held_out()), {}
    for name in names:
        texts = list(dict.fromkeys(SOURCES[name](str(pathlib.Path(folder).expanduser() / name))))
        kept = [text for text in texts if text.strip() and runs.isdisjoint(list_runs(text))]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in kept)
        files.write(out / f"{name}.jsonl", lines)
        counts[name] = {"kept": len(kept), "left out": len(texts) - len(kept)}
        log.say(f"{name}: {len(kept):,} texts, {len(texts) - len(kept):,} left out")
    files.write(out / COUNTS, json.dumps(counts, indent=1) + "\n")
    return counts
