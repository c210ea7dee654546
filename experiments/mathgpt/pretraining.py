"""Pre-training of MathGPT's tables at overnight, on mathematical text: public datasets as articles with formulas."""

from __future__ import annotations

import argparse
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from numjax.build import build
from numjax.bundled import data
from numjax.bundled.data.files import read_lines
from numjax.bundled.data.mathsum.read import find_fault, restore_signs
from numjax.bundled.data.solving.read import parse_gsm8k, parse_math, read_problems
from numjax.bundled.experiments import overnight, texts
from numjax.bundled.experiments.runs import RunCell
from numjax.expr.prose import dollars, wrap
from numjax.text.document.marked import FORMULA, IDENTIFIER

LONGEST = 600  # characters of a piece of a text, which most rows of 224 positions hold whole
# Folder → files of headlines.
HEADLINES = {"EXEQ-300k": ("title.val", "title.train"), "OFEQ-10k": ("title.train",)}
_SENTENCE = re.compile(r"(?:<m>.*?</m>|[^<]|<)*?(?:[.!?](?=\s)|\n|\Z)", re.DOTALL)


def _read_solutions(
    parse: Callable[[Any], dict[str, str]], mark: Callable[[str], str]
) -> Callable[[pathlib.Path], Iterator[str]]:
    """A reader of problems with their solutions, formulas between <m> and </m>."""

    def read(folder: pathlib.Path) -> Iterator[str]:
        for _, is_test, raw in read_problems(str(folder)):
            if is_test or isinstance(raw, ValueError):
                continue
            try:
                record = parse(raw)
            except ValueError:
                continue
            yield from cut(mark(f"{record['problem']}\n{record['solution']}"))

    return read


def _read_headlines(folder: pathlib.Path) -> Iterator[str]:
    for name, titles in HEADLINES.items():
        for title in titles:
            for path in sorted((folder / name).glob(f"{title}*")):
                lines = (line.decode(errors="replace") for line in read_lines(path))
                yield from (restore_signs(line) for line in lines if not find_fault("headline", line))


# Folder → a reader of its texts.
SOURCES: dict[str, Callable[[pathlib.Path], Iterator[str]]] = {
    "gsm8k": _read_solutions(parse_gsm8k, wrap.wrap_formulas),
    "math_hendrycks": _read_solutions(parse_math, dollars.mark_formulas),
    "mathsum": _read_headlines,
}


def cut(text: str) -> Iterator[str]:
    """Yields pieces of at most `LONGEST` characters that end with a sentence or a line; a longer one stays whole."""
    piece = ""
    for match in _SENTENCE.finditer(text):
        if piece and len(piece) + len(match[0]) > LONGEST:
            yield piece.strip()
            piece = ""
        piece += match[0]
    if piece.strip():
        yield piece.strip()


def make_article(text: str) -> dict[str, Any]:
    """A text with formulas between <m> and </m> in the form of `data/articles`, which reads the formulas' LaTeX."""
    parts = FORMULA.split(text)
    formulas = {str(index): {"opt": None, "tex": tex.strip()} for index, tex in enumerate(parts[1::2])}
    return {"text": IDENTIFIER.join(parts[::2]), "formulas": formulas}


def prepare(options: argparse.Namespace, config: Any, field: str) -> texts.Counts:
    """Writes the texts of the pre-training; returns their counts, none at other scales than overnight.

    Args:
      config: of a run of the table, whose dataset is asked. field: of its records that is.

    Raises:
      UsageError: the scale is overnight and has no texts or no real data, or another scale has texts.
    """
    if not texts.check_scale(options, ("path", "texts")):
        return {}

    def list_asked() -> Iterator[str]:
        task: Any = build("tasks", config.task)
        dataset = {key: value for key, value in task.dataset.items() if key != "name"}
        for split in data.prepare(task.dataset["name"], **dataset).info.splits:
            yield from (row[field] for row in data.load(task.dataset["name"], split, **dataset))

    return texts.collect(options.texts, options.out / "texts", SOURCES, make_article, list_asked, [options.path])


def make_start(options: argparse.Namespace, system: str, words: str) -> RunCell | None:
    """The pre-training that a system starts from, on the texts that `prepare` wrote; None at other scales."""
    from numjax.bundled.configs import mathgpt

    if options.scale != overnight.NAME:
        return None
    argument = [options.scale, "task=articles", words, *["as_published"] * options.as_published]
    config: Any = mathgpt.get_config(",".join(filter(None, argument)))
    with config.unlocked():
        config.log_every = 100
        config.task.update(path=str(options.out / "texts"), test=0.0)
    return RunCell("pretraining", system, config)


def describe(counts: texts.Counts) -> str:
    """A remark on what the systems start from."""
    if not counts:
        return "Every system is trained from scratch."
    return (
        "Each system starts from its own pre-training (seed 0) on the same texts, in pieces of at most "
        f"{LONGEST} characters: {texts.describe(counts)}."
    )
