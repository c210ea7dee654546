"""Records, schemes and loaders for the tests of the pipeline."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
from ml_collections import ConfigDict

from numjax import protocols
from numjax.build import build
from numjax.errors import DataError
from numjax.numeral.exact import to_decimals
from numjax.pipeline import features
from numjax.pipeline.loader import Loader
from numjax.tasks import language_model
from numjax.text import vocab
from numjax.types import Batch, Example, Mark, Numeral

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIGITS = 6
SCHEMES = ("subword", "digits", "replace")
WORDS = "the a sum of eggs weighs grams and costs in about years left more than under".split()
NUMBERS = ("7", "1,234.5", "-3.25", "50%", "0", "007", "1e-30", "98765", "12")


class LabelledTextTask(protocols.Task):
    """A task of texts with a label, a vector and a unique id."""

    kind = "classify"
    unanswered = {"label": 0}

    def example(self, record, parse):
        if "text" not in record:
            raise DataError("there is no field 'text'")
        document = (Mark("[CLS]"), *parse(record["text"]), Mark("[EOS]"))
        labels = {"label": record["label"], "vector": np.asarray([record["label"], 0.5])}
        return Example(str(record["id"]), document, labels=labels, reference=record["label"])


@functools.cache
def make_scheme(name: str):
    texts = [" ".join(WORDS), "  ".join(NUMBERS), "\n".join(WORDS)] * 3
    return build("text", {"name": name}, vocab=vocab.build({"name": "sentencepiece", "size": 320}, texts))


def make_config(**changes) -> ConfigDict:
    data = dict(length=48, digits=DIGITS, overflow="skip", pack=False, threads=0, prefetch=0, workers=0)
    data |= {key: value for key, value in changes.items() if key != "batch_size"}
    return ConfigDict(dict(data=data, optim=dict(batch_size=changes.get("batch_size", 4)), objectives={}))


def make_records(rng: np.random.Generator, count: int, longest: int = 9) -> list[dict]:
    records = []
    for i in range(count):
        words = rng.choice([*WORDS, *NUMBERS, *NUMBERS], int(rng.integers(0, longest)))
        records.append({"id": f"r{i}", "text": " ".join(words), "label": int(rng.integers(2))})
    return records


def encode(task, scheme, records, config, **more):
    return features.encode(task, scheme, records, config.data, more.pop("split", "train"), **more)


def make_text_task() -> language_model.Task:
    return language_model.Task(path="unused")


def make_loader(rng, *, kind="language_model", scheme="replace", count=23, **changes) -> Loader:
    config = make_config(**changes)
    task = make_text_task() if kind == "language_model" else LabelledTextTask()
    encoded = encode(task, make_scheme(scheme), make_records(rng, count), config)
    return Loader(encoded, config, seed=0, process=(0, 1))


def list_arrays(batch: Batch) -> list[np.ndarray]:
    """Returns the arrays of a batch in a fixed order."""

    def walk(part):
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, dict):
            for name in sorted(part):
                yield from walk(part[name])
        elif isinstance(part, tuple):
            for item in part:
                yield from walk(item)
        else:
            assert part is None

    return list(walk(batch))


def are_equal(a: Batch, b: Batch) -> bool:
    pairs = list(zip(list_arrays(a), list_arrays(b), strict=True))
    return all(x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y) for x, y in pairs)


def concatenate_batches(parts: list[Batch]) -> list[np.ndarray]:
    return [np.concatenate(arrays) for arrays in zip(*map(list_arrays, parts), strict=True)]


def list_segments(batch: Batch) -> list[tuple]:
    """Returns (ids and the last target, the number at each position or None) of every segment in a batch."""
    segments = []
    tokens, targets = batch.inputs, batch.targets
    for b in range(len(tokens.ids)):
        values = to_decimals(Numeral(*(x[b] for x in tokens.numerals)))
        for segment in range(1, int(tokens.segment_ids[b].max()) + 1):
            positions = np.flatnonzero(tokens.segment_ids[b] == segment)
            ids, index = tokens.ids[b, positions].tolist(), tokens.numeral_index[b, positions].tolist()
            if targets is not None:
                ids.append(int(targets.ids[b, positions[-1]]))
                index.append(int(targets.numeral_index[b, positions[-1]]))
            segments.append((tuple(ids), tuple(None if i < 0 else values[i] for i in index)))
    return segments


def list_expected_segments(encoded) -> list[tuple]:
    segments = []
    for row in encoded.rows:
        values = to_decimals(row.numerals)
        segments.append((tuple(row.ids.tolist()), tuple(None if i < 0 else values[i] for i in row.numeral_index)))
    return segments
