"""The numeration and magnitude tests of Naik et al. (ACL 2019), by chord, strictly and with ties.

Of a number x with nearest other number x⁺ on the number line, an embedding passes
  OVA (one against all)     when d(x, x⁺) < d(x, z) for every other z,
  SC (strict contrastive)   when d(x, x⁺) < d(x, x⁻), x⁻ the nearest that is further away than x⁺,
  BC (broad contrastive)    when d(x, x⁺) < d(x, furthest).
In the numeration test x⁺ is the word of x, and the others are words of other numbers.

d is the chord ‖û − v̂‖ of the unit vectors: in the order of the cosine distance, but 1 − cos of neighbouring numbers
is less than float32 resolves, and loses half of the digits of float64. Most integers have two neighbours that are
equally near, of which the files name the smaller: one that orders numbers perfectly (DICE-2) fails strict OVA
there, or passes it by the luck of rounding. The figures "with ties" let d(x, x⁺) be larger by a relative tolerance.

Legend: N numbers, D width, T triples, M numbers that OVA compares with.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError

TOLERANCE = 3e-3
STRICT, BROAD, NUMBERS = "scmag.tsv", "bcmag.tsv", "orig_nums.txt"
_CANDIDATES = 8  # of which the nearest is found by differences
_ROWS = 512


class Triples(NamedTuple):
    """What is asked.

    Attributes:
      numbers: as written. strict: int[T, 3] of indices x, x⁺, x⁻. broad: int[T', 3], x, x⁺, furthest.
      others: int[M], the numbers that OVA compares with (x and x⁺ left out). skipped: lines or numbers left out.
    """

    numbers: list[str]
    strict: np.ndarray
    broad: np.ndarray
    others: np.ndarray
    skipped: int = 0


class Apart(NamedTuple):
    """Distances of the triples.

    Attributes:
      near, second: d(x, x⁺) and d(x, x⁻) of `strict`. least: the least d(x, z). broad_near, furthest: of `broad`.
      ova, sc, bc: the other's squared distance less that of x⁺, and the least such: above 0 where the test is passed.
    """

    near: np.ndarray
    second: np.ndarray
    least: np.ndarray
    broad_near: np.ndarray
    furthest: np.ndarray
    ova: np.ndarray
    sc: np.ndarray
    bc: np.ndarray


# -- what is asked ---------------------------------------------------------------------------------------------------


def read(folder: str | pathlib.Path) -> Triples:
    """The magnitude test from a folder with scmag.tsv and bcmag.tsv (x, x⁺ and the third, separated by tabs) and, for
    the numbers that OVA compares with, orig_nums.txt (one a line; without it, all of the triples). Lines with an
    infinite number are left out and counted.

    Raises:
      DataError: a file is missing, has no triples, or a line that is not three numbers, which is named.
    """
    root = pathlib.Path(folder).expanduser()
    number: dict[Decimal, int] = {}  # however it is spelled: 1 and 1.0 are one
    written: list[str] = []

    def place(text: str) -> int:
        value = Decimal(text)
        if value not in number:
            number[value] = len(written)
            written.append(text)
        return number[value]

    skipped = 0
    found: dict[str, list[list[int]]] = {STRICT: [], BROAD: []}
    rows = {name: _lines(root / name) for name in found}
    listed = _lines(root / NUMBERS) if (root / NUMBERS).exists() else []
    for line, text in enumerate(listed, 1):
        if _finite(text, root / NUMBERS, line):
            place(text)
    others = len(written)
    for name, lines in rows.items():
        for line, text in enumerate(lines, 1):
            parts = text.split("\t")
            if len(parts) != 3:
                raise DataError(
                    f"{root / name}, line {line}: {len(parts)} column{'s' * (len(parts) != 1)}, not 3: a number, its "
                    "nearest and another one, separated by tabs"
                )
            finite = [_finite(part, root / name, line) for part in parts]
            if all(finite):
                found[name].append([place(part) for part in parts])
            else:
                skipped += name == STRICT
        if not found[name]:
            raise DataError(f"{root / name}: no triples")
    strict, broad = (np.asarray(found[name]) for name in (STRICT, BROAD))
    return Triples(written, strict, broad, np.arange(others or len(written)), skipped)


def _lines(path: pathlib.Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; fetch it again") from None
    except OSError as error:
        raise DataError(
            f"{path}: {error.strerror}; give a folder with {STRICT}, {BROAD} and, if there is one, {NUMBERS}"
        ) from None
    return [line.strip("\r") for line in text.split("\n") if line.strip()]


def _finite(text: str, path: pathlib.Path, line: int) -> bool:
    try:
        # Decimal reads digits of every script, and underscores.
        if text.isascii() and "_" not in text:
            return Decimal(text).is_finite()
    except InvalidOperation:
        pass
    raise DataError(f"{path}, line {line}: {text[:40]!r} is not a number")


def magnitude(numbers: Sequence[str]) -> Triples:
    """The magnitude test on any list of numbers (decimal strings): of equally near ones the smaller. Numbers without
    an x⁻ are left out and counted.

    Raises:
      UsageError: fewer than three different numbers.
    """
    distinct = sorted({Decimal(text): text for text in reversed(list(numbers))}.items())
    values, written = [value for value, _ in distinct], [text for _, text in distinct]
    if len(values) < 3:
        raise UsageError(f"{len(values)} different numbers have no nearest and second nearest: give three or more")
    strict, broad = [], []
    for i, value in enumerate(values):
        # Both ways from x the distances grow: the nearest two each way are enough.
        around = sorted((abs(values[j] - value), values[j], j) for j in range(i - 2, i + 3) if 0 <= j < len(values))
        near = around[1]
        second = next((one for one in around[2:] if one[0] > near[0]), None)
        if second is not None:
            furthest = 0 if value - values[0] >= values[-1] - value else len(values) - 1
            strict.append([i, near[2], second[2]])
            broad.append([i, near[2], furthest])
    return Triples(
        written, np.asarray(strict).reshape(-1, 3), np.asarray(broad).reshape(-1, 3), np.arange(len(values)),
        len(values) - len(strict),
    )  # fmt: skip


def numeration(numerals: Sequence[str], words: Sequence[str]) -> Triples:
    """The numeration test: x a numeral, x⁺ its word, x⁻ the word of the nearest other number, then of the furthest.

    Args:
      numerals: decimal strings. words: of the same numbers.

    Raises:
      UsageError: fewer than two, or not as many words.
    """
    count = len(numerals)
    if count != len(words) or count < 2:
        raise UsageError(f"{count} numerals and {len(words)} words: give a word for each of two numbers or more")
    values = [Decimal(text) for text in numerals]
    order = [sorted((abs(other - value), other, j) for j, other in enumerate(values)) for value in values]
    strict = [[i, count + i, count + next(j for _, _, j in near if j != i)] for i, near in enumerate(order)]
    broad = [[i, count + i, count + near[-1][2]] for i, near in enumerate(order)]
    return Triples([*numerals, *words], np.asarray(strict), np.asarray(broad), np.arange(count, 2 * count))


def of_known(triples: Triples, known: np.ndarray) -> tuple[Triples, list[str]]:
    """The triples whose numbers all have a vector (bool[N]), over those numbers; and which have none.

    The third of a broad triple is the number that is furthest: where that has no vector, the furthest that has one.

    Raises:
      DataError: no triple is left.
    """
    if known.all():
        return triples, []
    place = np.cumsum(known) - 1
    broad = triples.broad[known[triples.broad[:, :2]].all(axis=1)]
    if (lost := ~known[broad[:, 2]]).any() and known[triples.others].any():
        there = sorted(triples.others[known[triples.others]], key=lambda i: Decimal(triples.numbers[i]))
        ends = [(Decimal(triples.numbers[i]), i) for i in (there[0], there[-1])]
        broad = broad.copy()
        for row in np.flatnonzero(lost):
            x = Decimal(triples.numbers[broad[row, 0]])
            broad[row, 2] = max(ends, key=lambda end, x=x: abs(end[0] - x))[1]
    kept = [place[rows[known[rows].all(axis=1)]] for rows in (triples.strict, broad)]
    missing = [text for text, there in zip(triples.numbers, known, strict=True) if not there]
    if not len(kept[0]) or not len(kept[1]):
        raise DataError(f"no triple has vectors for all of its numbers: {len(missing)} have none, {missing[0]} first")
    numbers = [text for text, there in zip(triples.numbers, known, strict=True) if there]
    others = place[triples.others[known[triples.others]]]
    return Triples(numbers, kept[0], kept[1], others, len(triples.strict) - len(kept[0])), missing


# -- distances -------------------------------------------------------------------------------------------------------


def unit(x_ND: np.ndarray) -> np.ndarray:
    """Vectors of length 1 in float64; a zero vector stays."""
    x_ND = np.asarray(x_ND, np.float64)
    lengths = np.linalg.norm(x_ND, axis=-1, keepdims=True)
    return x_ND / np.where(lengths == 0, 1, lengths)


def two_floats(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 as the unevaluated sum of two float32: 48 bits of the mantissa for devices that have no float64."""
    high = x.astype(np.float32)
    return high, (x - high).astype(np.float32)


def chords(u_ND: np.ndarray, triples: Triples) -> Apart:
    """The distances of the triples between unit vectors, in float64 (`nn.chord` has them in float32)."""

    def apart(pairs: np.ndarray) -> np.ndarray:
        return np.linalg.norm(u_ND[pairs[:, 0]] - u_ND[pairs[:, 1]], axis=1)

    def margin(x_RD: np.ndarray, near_RD: np.ndarray, other_RD: np.ndarray) -> np.ndarray:
        return ((near_RD - other_RD) * ((x_RD - near_RD) + (x_RD - other_RD))).sum(axis=-1)

    strict, broad = triples.strict, triples.broad
    least, margins = [], []
    for begin in range(0, len(strict), _ROWS):
        rows = strict[begin : begin + _ROWS]
        # The product finds who is near, to half of the digits; differences say how near.
        near = u_ND[rows[:, 0]] @ u_ND[triples.others].T
        near[(triples.others == rows[:, :1]) | (triples.others == rows[:, 1:2])] = -np.inf
        most = min(_CANDIDATES, near.shape[1])
        found = np.argpartition(-near, most - 1, axis=1)[:, :most]
        there = np.isfinite(np.take_along_axis(near, found, axis=1))
        x, plus, others = u_ND[rows[:, :1]], u_ND[rows[:, 1:2]], u_ND[triples.others[found]]
        least.append(np.where(there, np.linalg.norm(x - others, axis=2), np.inf).min(axis=1))
        margins.append(np.where(there, margin(x, plus, others), np.inf).min(axis=1))
    return Apart(
        apart(strict[:, :2]), apart(strict[:, ::2]), np.concatenate(least),
        apart(broad[:, :2]), apart(broad[:, ::2]),
        np.concatenate(margins), margin(*u_ND[strict.T]), margin(*u_ND[broad.T]),
    )  # fmt: skip


def scores(apart: Apart, tolerance: float = TOLERANCE) -> dict[str, float]:
    """Per cent of the triples that pass: ova, sc, bc, and with ties ova_ties, sc_ties, bc_ties."""
    found = {}
    for name, margin, near, other in (
        ("ova", apart.ova, apart.near, apart.least),
        ("sc", apart.sc, apart.near, apart.second),
        ("bc", apart.bc, apart.broad_near, apart.furthest),
    ):
        near, other = np.asarray(near, np.float64), np.asarray(other, np.float64)
        found[name] = 100 * float((margin > 0).mean())
        found[f"{name}_ties"] = 100 * float((near <= other * (1 + tolerance)).mean())
    return found


def limits(numbers: Sequence[str], share: float = 98.0) -> tuple[float, float]:
    """(least, `share`th percentile) of the numbers, by linear interpolation: DICE's range leaves about 2% outside.

    Raises:
      UsageError: they are the same, or there are none.
    """
    values = [float(text) for text in numbers]
    if not values:
        raise UsageError("no numbers: give a list of them")
    low, high = min(values), float(np.percentile(values, share))
    if not low < high or not math.isfinite(high):
        raise UsageError(f"the numbers span no range: least {low:g}, {share:g}th percentile {high:g}")
    return low, high
