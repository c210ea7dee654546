"""Geometry tests and measures of an embedding, given by a specification.

A specification is `name:key=value,…` of any numeral embedding, or a GloVe or word2vec text file; see
`numjax.inspect.vectors`.
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
from numjax.numeral.words import spell
from numjax.runtime import files

SEEDS = 10
WORDS = 130  # as in DICE's NUM test: zero to one hundred and twenty-nine
Measures = dict[str, float]

_chord = jax.jit(chord.chord)
_margin = jax.jit(chord.margin)
_nearest = jax.jit(chord.find_nearest)


def measure_on_device(u_ND: np.ndarray, triples: naik.Triples) -> naik.TripleDistances:
    """Computes `naik.chords` in float32 on the default backend, from vectors split into two float32 arrays."""
    halves = jax.device_put(naik.split_float64(u_ND))
    strict, broad = triples.strict, triples.broad
    nearest, margins = _nearest(*halves, strict[:, :2], triples.others)
    distances = (
        _chord(*halves, strict[:, 0], strict[:, 1]), _chord(*halves, strict[:, 0], strict[:, 2]), nearest,
        _chord(*halves, broad[:, 0], broad[:, 1]), _chord(*halves, broad[:, 0], broad[:, 2]),
        margins, _margin(*halves, *strict.T), _margin(*halves, *broad.T),
    )  # fmt: skip
    return naik.TripleDistances(*(np.asarray(array) for array in distances))


def score_magnitude(
    embed: str, triples: naik.Triples, seeds: int = SEEDS, float32: bool = True, tolerance: float = naik.TOLERANCE,
    **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Runs the magnitude test for each seed. Errors as `vectors.make` and `naik.select_known`.

    Args:
      options: of the embedding, if the specification does not give them.

    Returns:
      {"float64": [scores …], "float32": [scores …], "missing": numbers without a vector, "triples": how many count}.
    """
    results: dict[str, Any] = {"float64": [], "float32": []}
    for seed in range(seeds):
        embedding = vectors.make(embed, seed, **options)
        known_triples, results["missing"] = naik.select_known(triples, embedding.has_vector(triples.numbers))
        results["triples"] = len(known_triples.strict)
        u_ND = naik.normalize(embedding(known_triples.numbers))
        results["float64"].append(naik.scores(naik.chords(u_ND, known_triples), tolerance))
        if float32:
            results["float32"].append(naik.scores(measure_on_device(u_ND, known_triples), tolerance))
    return results


def score_numeration(embed: str, seeds: int = 1, **options: Any) -> dict[str, Any]:
    """Runs the numeration test in float64, on the numbers of 0 … 129 whose numeral and word have vectors.

    Returns the same as `score_magnitude`; "missing" are words.

    Raises:
      DataError: fewer than two numbers have both.
    """
    pairs = [(str(value), spell(value)) for value in range(WORDS)]
    embedding = vectors.make(embed, **options)
    has_both = [bool(embedding.has_vector(pair).all()) for pair in pairs]
    known_pairs = [pair for pair, is_known in zip(pairs, has_both, strict=True) if is_known]
    if len(known_pairs) < 2:
        raise DataError(f"{embed} has fewer than two numbers with a numeral and a word")
    numerals, words = zip(*known_pairs, strict=True)
    results = score_magnitude(embed, naik.make_numeration_triples(numerals, words), seeds, False, **options)
    return results | {"missing": [pair[1] for pair, is_known in zip(pairs, has_both, strict=True) if not is_known]}


def score_neighbours(
    embed: str,
    lengths: Sequence[int],
    pool: Sequence[str],
    k: int = number_line.K,
    queries: int = 200,
    seed: int = 0,
    **options: Any,
) -> Measures:
    """Computes F1 of nkNN and ekNN by number of digits, over the numbers of the pool that have a vector. Errors as
    `number_line.f1_by_length`."""
    _, values, x_ND = embed_numbers(embed, pool, seed, **options)
    scores = number_line.f1_by_length(values, x_ND, lengths, k, queries, seed)
    return {str(length): share for length, share in scores.items()}


def measure_monotonicity(
    embed: str, numbers: Sequence[str], anchors: int = 200, seed: int = 0, chords: bool = True, **options: Any
) -> Measures:
    """Runs `number_line.measure_monotonicity` from evenly spaced anchors; same errors.

    Args:
      chords: distances between unit vectors, else Euclidean distances.
    """
    _, values, x_ND = embed_numbers(embed, numbers, seed, **options)
    anchor_indices = np.unique(np.linspace(0, len(values) - 1, min(anchors, len(values))).astype(int))
    result = number_line.measure_monotonicity(values, naik.normalize(x_ND) if chords else x_ND, anchor_indices)
    return {"falling": result.falling, "spearman": result.spearman, "furthest": result.furthest}


def measure_carries(embed: str, last: int, seed: int = 0, chords: bool = True, **options: Any) -> Measures:
    """Runs `number_line.measure_carries` on 0 … last.

    Args:
      chords: distances between unit vectors, else Euclidean distances.

    Raises:
      DataError: one of the numbers has no vector. Other errors as `vectors.make`.
    """
    texts = [str(value) for value in range(last + 1)]
    numbers, values, x_ND = embed_numbers(embed, texts, seed, **options)
    if len(numbers) < len(texts):
        raise DataError(f"{embed} has no vector of {len(texts) - len(numbers)} of 0 … {last}: give fewer")
    return number_line.measure_carries(values, naik.normalize(x_ND) if chords else x_ND)


def measure_sweep(embed: str, numbers: Sequence[str], seed: int = 0, chords: bool = True, **options: Any) -> Measures:
    """Measures the distance of each number from the smallest, in ascending order. Skips numbers without a vector.

    Raises:
      DataError: fewer than two numbers have a vector. Other errors as `vectors.make`.
    """
    texts, _, x_ND = embed_numbers(embed, numbers, seed, **options)
    if len(texts) < 2:
        raise DataError(f"{embed} has vectors of {len(texts)} of the numbers: give others")
    x_ND = naik.normalize(x_ND) if chords else x_ND
    return dict(zip(texts, np.linalg.norm(x_ND - x_ND[0], axis=1).tolist(), strict=True))


def sort_numbers(numbers: Sequence[str]) -> list[str]:
    """Sorts numbers by value, each value once."""
    return [text for _, text in sorted({float(text): text for text in numbers}.items())]


def list_known(embed: str, numbers: Sequence[str], **options: Any) -> list[str]:
    """The numbers that have a vector, ascending, each value once. Errors as `vectors.make`."""
    numbers = sort_numbers(numbers)
    has_vector = vectors.make(embed, **options).has_vector(numbers)
    return [text for text, is_known in zip(numbers, has_vector, strict=True) if is_known]


def embed_numbers(
    embed: str, numbers: Sequence[str], seed: int = 0, **options: Any
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """(the numbers that have a vector, ascending; their values [N]; the vectors [N, D]). Errors as `vectors.make`."""
    numbers = list_known(embed, numbers, **options)
    return numbers, np.asarray([float(text) for text in numbers]), vectors.make(embed, seed, **options)(numbers)


def export_vectors(out: pathlib.Path, numbers: Sequence[str], x_ND: np.ndarray) -> list[str]:
    """Writes vectors.tsv, metadata.tsv and projector_config.pbtxt; returns their names.

    `tensorboard --logdir` shows them. Or load the first two at projector.tensorflow.org.

    Raises:
      OSError: a file cannot be written.
    """
    columns = "number\tdigits\tlast digit\n"
    rows = []
    for text in numbers:
        value = abs(vectors.values([text])[0])
        integer = f"{int(value)}"
        rows.append(f"{text}\t{len(integer)}\t{integer[-1]}\n")
    contents = {
        "vectors.tsv": ["\t".join(f"{value:.9g}" for value in row) + "\n" for row in x_ND],
        "metadata.tsv": [columns, *rows],
        "projector_config.pbtxt": [
            'embeddings {\n  tensor_name: "numbers"\n  tensor_path: "vectors.tsv"\n'
            '  metadata_path: "metadata.tsv"\n}\n'
        ],
    }
    for name, content in contents.items():
        files.write(out / name, content)
    return list(contents)
