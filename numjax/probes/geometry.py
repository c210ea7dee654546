"""What the figures of geometry are made of: the tests and measures of an embedding that is named by a specification.

`name:key=value,…` of any numeral embedding, or a GloVe or word2vec text file; see `numjax.inspect.vectors`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from numjax.errors import DataError
from numjax.geometry import naik, number_line
from numjax.inspect import vectors
from numjax.nn import chord
from numjax.numeral.words import spelled
from numjax.runtime import files

SEEDS = 10
WORDS = 130  # as many as DICE's NUM test: zero to one hundred and twenty-nine
Measures = dict[str, float]

_chord = jax.jit(chord.chord)
_margin = jax.jit(chord.margin)
_least = jax.jit(chord.least)


def on_device(u_ND: np.ndarray, triples: naik.Triples) -> naik.Apart:
    """As `naik.chords`, in float32 on the default backend, from vectors of two float32 words each."""
    two = jax.device_put(naik.two_floats(u_ND))
    strict, broad = triples.strict, triples.broad
    least, margins = _least(*two, strict[:, :2], triples.others)
    found = (
        _chord(*two, strict[:, 0], strict[:, 1]), _chord(*two, strict[:, 0], strict[:, 2]), least,
        _chord(*two, broad[:, 0], broad[:, 1]), _chord(*two, broad[:, 0], broad[:, 2]),
        margins, _margin(*two, *strict.T), _margin(*two, *broad.T),
    )  # fmt: skip
    return naik.Apart(*(np.asarray(one) for one in found))


def magnitude(
    embed: str, triples: naik.Triples, seeds: int = SEEDS, float32: bool = True, tolerance: float = naik.TOLERANCE,
    **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """The magnitude test by seed: {"float64": [scores …], "float32": [scores …], "missing": numbers without a vector,
    "triples": how many were asked}.

    Args:
      options: of the embedding, where the specification does not say. Errors as `vectors.make` and `naik.of_known`.
    """
    found: dict[str, Any] = {"float64": [], "float32": []}
    for seed in range(seeds):
        made = vectors.make(embed, seed, **options)
        asked, found["missing"] = naik.of_known(triples, made.known(triples.numbers))
        found["triples"] = len(asked.strict)
        unit = naik.unit(made(asked.numbers))
        found["float64"].append(naik.scores(naik.chords(unit, asked), tolerance))
        if float32:
            found["float32"].append(naik.scores(on_device(unit, asked), tolerance))
    return found


def numeration(embed: str, seeds: int = 1, **options: Any) -> dict[str, Any]:
    """The numeration test on those of 0 … 129 whose numeral and word have vectors, in float64; as `magnitude`.

    Raises:
      DataError: there are none.
    """
    pairs = [(str(value), spelled(value)) for value in range(WORDS)]
    made = vectors.make(embed, **options)
    known = [bool(made.known(pair).all()) for pair in pairs]
    there = [pair for pair, both in zip(pairs, known, strict=True) if both]
    if len(there) < 2:
        raise DataError(f"{embed} has fewer than two numbers with a numeral and a word")
    numerals, words = zip(*there, strict=True)
    found = magnitude(embed, naik.numeration(numerals, words), seeds, False, **options)
    return found | {"missing": [pair[1] for pair, both in zip(pairs, known, strict=True) if not both]}


def neighbours(
    embed: str,
    lengths: Sequence[int],
    pool: Sequence[str],
    k: int = number_line.K,
    queries: int = 200,
    seed: int = 0,
    **options: Any,
) -> Measures:
    """Digits → F1 of nkNN and ekNN over the numbers of the pool that have a vector. Errors as
    `number_line.f1_by_length`."""
    _, values, x_ND = embedded(embed, pool, seed, **options)
    found = number_line.f1_by_length(values, x_ND, lengths, k, queries, seed)
    return {str(length): share for length, share in found.items()}


def monotone(
    embed: str, numbers: Sequence[str], anchors: int = 200, seed: int = 0, chords: bool = True, **options: Any
) -> Measures:
    """`number_line.monotone` from evenly spaced anchors. Errors as there.

    Args:
      chords: between unit vectors, else Euclidean.
    """
    _, values, x_ND = embedded(embed, numbers, seed, **options)
    at = np.unique(np.linspace(0, len(values) - 1, min(anchors, len(values))).astype(int))
    found = number_line.monotone(values, naik.unit(x_ND) if chords else x_ND, at)
    return {"falling": found.falling, "spearman": found.spearman, "furthest": found.furthest}


def carries(embed: str, last: int, seed: int = 0, chords: bool = True, **options: Any) -> Measures:
    """`number_line.carries` of 0 … last.

    Args:
      chords: between unit vectors, else Euclidean.

    Raises:
      DataError: one of them has no vector. Else as `vectors.make`.
    """
    asked = [str(value) for value in range(last + 1)]
    numbers, values, x_ND = embedded(embed, asked, seed, **options)
    if len(numbers) < len(asked):
        raise DataError(f"{embed} has no vector of {len(asked) - len(numbers)} of 0 … {last}: give fewer")
    return number_line.carries(values, naik.unit(x_ND) if chords else x_ND)


def sweep(embed: str, numbers: Sequence[str], seed: int = 0, chords: bool = True, **options: Any) -> Measures:
    """Number → distance from the least of them, ascending; numbers without a vector are left out.

    Raises:
      DataError: fewer than two have one. Else as `vectors.make`.
    """
    kept, _, x_ND = embedded(embed, numbers, seed, **options)
    if len(kept) < 2:
        raise DataError(f"{embed} has vectors of {len(kept)} of the numbers: give others")
    x_ND = naik.unit(x_ND) if chords else x_ND
    return dict(zip(kept, np.linalg.norm(x_ND - x_ND[0], axis=1).tolist(), strict=True))


def ascending(numbers: Sequence[str]) -> list[str]:
    """By value, each once."""
    return [text for _, text in sorted({float(text): text for text in numbers}.items())]


def embedded(
    embed: str, numbers: Sequence[str], seed: int = 0, **options: Any
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """(the numbers that have a vector, ascending; their values [N]; the vectors [N, D]). Errors as `vectors.make`."""
    made, numbers = vectors.make(embed, seed, **options), ascending(numbers)
    numbers = [text for text, there in zip(numbers, made.known(numbers), strict=True) if there]
    return numbers, np.asarray([float(text) for text in numbers]), made(numbers)


def export(out: pathlib.Path, numbers: Sequence[str], x_ND: np.ndarray) -> list[str]:
    """Writes vectors.tsv, metadata.tsv and the configuration with which `tensorboard --logdir` shows them; or load
    the first two at projector.tensorflow.org.

    Raises:
      OSError: they cannot be written.
    """
    columns = "number\tdigits\tlast digit\n"
    rows = []
    for text in numbers:
        value = abs(vectors.values([text])[0])
        whole = f"{int(value)}"
        rows.append(f"{text}\t{len(whole)}\t{whole[-1]}\n")
    written = {
        "vectors.tsv": ["\t".join(f"{value:.9g}" for value in row) + "\n" for row in x_ND],
        "metadata.tsv": [columns, *rows],
        "projector_config.pbtxt": [
            'embeddings {\n  tensor_name: "numbers"\n  tensor_path: "vectors.tsv"\n'
            '  metadata_path: "metadata.tsv"\n}\n'
        ],
    }
    for name, content in written.items():
        files.write(out / name, content)
    return list(written)
