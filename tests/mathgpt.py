"""The numbers that MathGPT's released code gives on tiny random weights (see SOURCE.md beside them)."""

from __future__ import annotations

import functools
import gzip
import json
import pathlib
from typing import Any

import numpy as np

from numjax.expr.tree import from_json
from numjax.text import trees_published, vocab
from numjax.types import Formula, Text

END_OF_TEXT = 50256
# Sizes of START, END_FORMULA, VAR, NUM, OP and END in the output layer, by token type.
SIZES = {1: 1, 2: 1, 3: 1182, 4: 12, 5: 1805, 6: 1}


@functools.cache
def scheme(data: pathlib.Path) -> trees_published.Scheme:
    """The scheme around the original's vocabularies."""
    marks = trees_published.Scheme.marks_of({"path": str(data / "mathgpt_vocab/vocab.json")})
    return trees_published.Scheme(vocab.build({"name": "gpt2", "path": str(data / "tokenizers/gpt2")}, marks=marks))


@functools.cache
def cases(data: pathlib.Path) -> dict[str, Any]:
    return json.loads(gzip.decompress((data / "mathgpt_reference/cases.json.gz").read_bytes()))


def offsets(first: int) -> np.ndarray:
    """The first id of each token type."""
    starts = np.cumsum([first, *SIZES.values()])
    return np.asarray([0, *starts[:-1], 0])


def flat(data: pathlib.Path, ids, types) -> np.ndarray:
    """Ids of the one vocabulary from ids within their types."""
    return np.asarray(ids) + offsets(scheme(data).symbols.first)[np.asarray(types)]


def to_layout(data: pathlib.Path, x: np.ndarray) -> np.ndarray:
    """The last axis from our vocabulary to the original's: text, then mathematics."""
    first = scheme(data).symbols.first
    return np.concatenate([x[..., : END_OF_TEXT + 1], x[..., first : first + sum(SIZES.values())]], axis=-1)


def document(article: dict[str, Any]) -> tuple:
    """An article as the original cuts it: each stretch of text by itself, an empty one from the third on a blank."""
    chunks = article["text"].split("[_mathGPT_formula_]")
    out: list[Any] = []
    for i, chunk in enumerate(chunks):
        last = i == len(chunks) - 1
        out.append(Text(" " if not chunk and i > 1 and not last else chunk))
        if not last and str(i) in article["formulas"]:
            out.append(Formula("", from_json(article["formulas"][str(i)]["opt"])))
    return tuple(segment for segment in out if segment != Text(""))


def documents(case: dict[str, Any]) -> list[tuple]:
    """The segments of a case, tokenised apart."""
    article = case["article"]
    if "text" in article:
        return [document(article)]
    prompt = article["prompt"] | {"text": "Question: " + article["prompt"]["text"]}
    return [document(prompt), (Text("[SEP] Equation: "),), document(article["label"])]


def levels_of(positions: np.ndarray) -> list[list[int]]:
    """Rows of −1-padded indices as lists."""
    return [[int(i) for i in row if i >= 0] for row in positions]
