"""The numeration and magnitude tests of Naik et al. (ACL 2019), by chord distance, strict and with ties.

Let x⁺ be the number that is nearest to x on the number line. An embedding passes
  OVA (one against all)     if d(x, x⁺) < d(x, z) for every other z,
  SC (strict contrastive)   if d(x, x⁺) < d(x, x⁻), where x⁻ is the nearest number further away than x⁺,
  BC (broad contrastive)    if d(x, x⁺) < d(x, furthest).
In the numeration test, x⁺ is the word of x, and the others are words of other numbers.

d is the chord ‖û − v̂‖ of the unit vectors. It gives the same order as the cosine distance. But for neighbouring
numbers 1 − cos is smaller than float32 resolves, and it loses half of the digits of float64. Most integers have two
neighbours that are equally near, and the files name the smaller. So an embedding that orders numbers perfectly
(DICE-2) fails strict OVA there, or passes by the luck of rounding. The scores "with ties" allow d(x, x⁺) to be larger
by a relative tolerance.

Legend: N numbers, D width, T triples, M numbers that OVA compares with.
"""

from __future__ import annotations

import math
import pathlib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.geometry import neighbours

TOLERANCE = 3e-3
STRICT, BROAD, NUMBERS = "scmag.tsv", "bcmag.tsv", "orig_nums.txt"
_CANDIDATES = 8  # the nearest of these, and of those that tie with them, is decided by differences
_BLOCK = 512  # triples computed at once


class Triples(NamedTuple):
    """The triples of a test, as indices into `numbers`.

    Attributes:
      numbers: the numbers as written.
      strict: int[T, 3], indices of x, x⁺, x⁻. broad: int[T', 3], indices of x, x⁺, furthest.
      others: int[M], the numbers that OVA compares with (it skips x and x⁺).
      n_skipped: lines or numbers that are left out.
    """

    numbers: list[str]
    strict: np.ndarray
    broad: np.ndarray
    others: np.ndarray
    n_skipped: int = 0


class TripleDistances(NamedTuple):
    """Distances in the triples.

    Attributes:
      nearest, second: d(x, x⁺) and d(x, x⁻) of `strict`. smallest: the smallest d(x, z).
      broad_nearest, furthest: d(x, x⁺) and d(x, furthest) of `broad`.
      ova, sc, bc: the squared distance to the other number minus that to x⁺ (for OVA the smallest of these); above 0
        where the test is passed.
    """

    nearest: np.ndarray
    second: np.ndarray
    smallest: np.ndarray
    broad_nearest: np.ndarray
    furthest: np.ndarray
    ova: np.ndarray
    sc: np.ndarray
    bc: np.ndarray


# -- triples ---------------------------------------------------------------------------------------------------------


def read_triples(folder: str | pathlib.Path) -> Triples:
    """Reads the magnitude test from a folder.

    scmag.tsv and bcmag.tsv have x, x⁺ and the third number, separated by tabs. orig_nums.txt has the numbers that OVA
    compares with, one a line; without it, these are all numbers of the triples. Lines with an infinite number are
    skipped and counted.

    Raises:
      DataError: a file is missing or has no triples, or a line is not three numbers; the message names the line.
    """
    root = pathlib.Path(folder).expanduser()
    index: dict[Decimal, int] = {}  # by value: 1 and 1.0 are the same number
    texts: list[str] = []

    def index_number(text: str) -> int:
        value = Decimal(text)
        if value not in index:
            index[value] = len(texts)
            texts.append(text)
        return index[value]

    n_skipped = 0
    triples: dict[str, list[list[int]]] = {STRICT: [], BROAD: []}
    rows = {name: _read_lines(root / name) for name in triples}
    number_lines = _read_lines(root / NUMBERS) if (root / NUMBERS).exists() else []
    for line, text in enumerate(number_lines, 1):
        if _is_finite(text, root / NUMBERS, line):
            index_number(text)
    n_others = len(texts)
    for name, lines in rows.items():
        for line, text in enumerate(lines, 1):
            parts = text.split("\t")
            if len(parts) != 3:
                raise DataError(
                    f"{root / name}, line {line}: {len(parts)} column{'s' * (len(parts) != 1)}, not 3: a number, its "
                    "nearest and another one, separated by tabs"
                )
            finite = [_is_finite(part, root / name, line) for part in parts]
            if all(finite):
                triples[name].append([index_number(part) for part in parts])
            else:
                n_skipped += name == STRICT
        if not triples[name]:
            raise DataError(f"{root / name}: no triples")
    strict, broad = (np.asarray(triples[name]) for name in (STRICT, BROAD))
    return Triples(texts, strict, broad, np.arange(n_others or len(texts)), n_skipped)


def _read_lines(path: pathlib.Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; fetch it again") from None
    except OSError as error:
        raise DataError(
            f"{path}: {error.strerror}; give a folder with {STRICT}, {BROAD} and, if there is one, {NUMBERS}"
        ) from None
    return [line.strip("\r") for line in text.split("\n") if line.strip()]


def _is_finite(text: str, path: pathlib.Path, line: int) -> bool:
    try:
        # Decimal accepts digits of every script, and underscores.
        if text.isascii() and "_" not in text:
            return Decimal(text).is_finite()
    except InvalidOperation:
        pass
    raise DataError(f"{path}, line {line}: {text[:40]!r} is not a number")


def make_magnitude_triples(numbers: Sequence[str]) -> Triples:
    """Makes the magnitude test for any list of numbers (decimal strings).

    If two numbers are equally near, the smaller one counts. Numbers without an x⁻ are skipped and counted.

    Raises:
      UsageError: fewer than three different numbers.
    """
    distinct = sorted({Decimal(text): text for text in reversed(list(numbers))}.items())
    values, texts = [value for value, _ in distinct], [text for _, text in distinct]
    if len(values) < 3:
        raise UsageError(f"{len(values)} different numbers have no nearest and second nearest: give three or more")
    strict, broad = [], []
    for i, value in enumerate(values):
        # Distances grow in both directions from x: the nearest two on each side are enough.
        neighbours = sorted(
            (abs(values[j] - value), values[j], j) for j in range(i - 2, i + 3) if 0 <= j < len(values)
        )
        nearest = neighbours[1]
        second = next((neighbour for neighbour in neighbours[2:] if neighbour[0] > nearest[0]), None)
        if second is not None:
            furthest = 0 if value - values[0] >= values[-1] - value else len(values) - 1
            strict.append([i, nearest[2], second[2]])
            broad.append([i, nearest[2], furthest])
    return Triples(
        texts, np.asarray(strict).reshape(-1, 3), np.asarray(broad).reshape(-1, 3), np.arange(len(values)),
        len(values) - len(strict),
    )  # fmt: skip


def make_numeration_triples(numerals: Sequence[str], words: Sequence[str]) -> Triples:
    """Makes the numeration test.

    x is a numeral and x⁺ its word. The third is the word of the nearest other number (strict), or of the furthest
    (broad).

    Args:
      numerals: decimal strings. words: the words of the same numbers.

    Raises:
      UsageError: fewer than two numerals, or another count of words.
    """
    count = len(numerals)
    if count != len(words) or count < 2:
        raise UsageError(f"{count} numerals and {len(words)} words: give a word for each of two numbers or more")
    values = [Decimal(text) for text in numerals]
    order = [sorted((abs(other - value), other, j) for j, other in enumerate(values)) for value in values]
    strict = [
        [i, count + i, count + next(j for _, _, j in neighbours if j != i)] for i, neighbours in enumerate(order)
    ]
    broad = [[i, count + i, count + neighbours[-1][2]] for i, neighbours in enumerate(order)]
    return Triples([*numerals, *words], np.asarray(strict), np.asarray(broad), np.arange(count, 2 * count))


def select_known(triples: Triples, has_vector: np.ndarray) -> tuple[Triples, list[str]]:
    """Keeps the triples whose numbers all have a vector.

    If the furthest number of a broad triple has no vector, the furthest number that has one replaces it.

    Args:
      has_vector: bool[N], for each of the numbers.

    Returns:
      (triples over the numbers that have a vector, the numbers that have none).

    Raises:
      DataError: no triple is left, or no number that OVA compares with.
    """
    if has_vector.all():
        return triples, []
    new_index = np.cumsum(has_vector) - 1
    broad = triples.broad[has_vector[triples.broad[:, :2]].all(axis=1)]
    if (is_missing := ~has_vector[broad[:, 2]]).any() and has_vector[triples.others].any():
        candidates = sorted(triples.others[has_vector[triples.others]], key=lambda i: Decimal(triples.numbers[i]))
        ends = [(Decimal(triples.numbers[i]), i) for i in (candidates[0], candidates[-1])]
        broad = broad.copy()
        for row in np.flatnonzero(is_missing):
            x = Decimal(triples.numbers[broad[row, 0]])
            broad[row, 2] = max(ends, key=lambda end, x=x: abs(end[0] - x))[1]
    selection = [new_index[rows[has_vector[rows].all(axis=1)]] for rows in (triples.strict, broad)]
    missing = [text for text, is_known in zip(triples.numbers, has_vector, strict=True) if not is_known]
    if not len(selection[0]) or not len(selection[1]):
        raise DataError(f"no triple has vectors for all of its numbers: {len(missing)} have none, {missing[0]} first")
    if not has_vector[triples.others].any():
        raise DataError(
            f"none of the numbers of {NUMBERS} has a vector ({triples.numbers[triples.others[0]]} first): "
            f"give another table or other numbers, or remove the file"
        )
    numbers = [text for text, is_known in zip(triples.numbers, has_vector, strict=True) if is_known]
    others = new_index[triples.others[has_vector[triples.others]]]
    return Triples(numbers, selection[0], selection[1], others, len(triples.strict) - len(selection[0])), missing


# -- distances -------------------------------------------------------------------------------------------------------


def normalize(x_ND: np.ndarray) -> np.ndarray:
    """Scales vectors to length 1, in float64. A zero vector stays zero."""
    x_ND = np.asarray(x_ND, np.float64)
    # Squares of extreme components are 0 or infinite. A power of two changes no digit.
    _, exponents = np.frexp(np.abs(x_ND).max(axis=-1, keepdims=True, initial=0))
    x_ND = np.ldexp(x_ND, -exponents)
    lengths = np.linalg.norm(x_ND, axis=-1, keepdims=True)
    return x_ND / np.where(lengths == 0, 1, lengths)


def split_float64(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits float64 into two float32 whose exact sum keeps 48 bits of the mantissa, for devices without float64."""
    high = x.astype(np.float32)
    return high, (x - high).astype(np.float32)


def chords(u_ND: np.ndarray, triples: Triples) -> TripleDistances:
    """Distances in the triples between unit vectors, in float64 (`nn.chord` computes them in float32)."""

    def distance(pairs: np.ndarray) -> np.ndarray:
        return np.linalg.norm(u_ND[pairs[:, 0]] - u_ND[pairs[:, 1]], axis=1)

    def margin(x_RD: np.ndarray, near_RD: np.ndarray, other_RD: np.ndarray) -> np.ndarray:
        return ((near_RD - other_RD) * ((x_RD - near_RD) + (x_RD - other_RD))).sum(axis=-1)

    strict, broad, others_M = triples.strict, triples.broad, _drop_copies(u_ND, triples.others)
    smallest, margins = [], []
    for begin in range(0, len(strict), _BLOCK):
        rows = strict[begin : begin + _BLOCK]
        # Products find the candidates, to half of the digits. Differences give exact distances.
        similarity = u_ND[rows[:, 0]] @ u_ND[others_M].T
        similarity[(others_M == rows[:, :1]) | (others_M == rows[:, 1:2])] = -np.inf
        for (x, plus, _), similarity_M in zip(rows, similarity, strict=True):
            others = u_ND[others_M[neighbours.find_candidates(similarity_M, _CANDIDATES)]]
            smallest.append(np.linalg.norm(u_ND[x] - others, axis=1).min(initial=np.inf))
            margins.append(margin(u_ND[x], u_ND[plus], others).min(initial=np.inf))
    return TripleDistances(
        distance(strict[:, :2]), distance(strict[:, ::2]), np.asarray(smallest),
        distance(broad[:, :2]), distance(broad[:, ::2]),
        np.asarray(margins), margin(*u_ND[strict.T]), margin(*u_ND[broad.T]),
    )  # fmt: skip


def _drop_copies(u_ND: np.ndarray, others_M: np.ndarray) -> np.ndarray:
    """Drops the fourth and later copies of a vector: all would be candidates. x and x⁺ may be two of the others."""
    copies: Counter[bytes] = Counter()
    first_copies = []
    for index in others_M:
        vector = u_ND[index].tobytes()
        copies[vector] += 1
        if copies[vector] <= 3:
            first_copies.append(index)
    return np.asarray(first_copies)


def scores(distances: TripleDistances, tolerance: float = TOLERANCE) -> dict[str, float]:
    """Percentage of the triples that pass: ova, sc, bc, and with ties ova_ties, sc_ties, bc_ties."""
    percentages = {}
    for name, margin, nearest, third in (
        ("ova", distances.ova, distances.nearest, distances.smallest),
        ("sc", distances.sc, distances.nearest, distances.second),
        ("bc", distances.bc, distances.broad_nearest, distances.furthest),
    ):
        nearest, third = np.asarray(nearest, np.float64), np.asarray(third, np.float64)
        percentages[name] = 100 * float((margin > 0).mean())
        percentages[f"{name}_ties"] = 100 * float((nearest <= third * (1 + tolerance)).mean())
    return percentages


def find_limits(numbers: Sequence[str], share: float = 98.0) -> tuple[float, float]:
    """(smallest, `share`th percentile) of the numbers, by linear interpolation. DICE's range leaves about 2% outside.

    Raises:
      UsageError: there are no numbers, or they are all the same.
    """
    values = [float(text) for text in numbers]
    if not values:
        raise UsageError("no numbers: give a list of them")
    low, high = min(values), float(np.percentile(values, share))
    if not low < high or not math.isfinite(high):
        raise UsageError(f"the numbers span no range: least {low:g}, {share:g}th percentile {high:g}")
    return low, high
