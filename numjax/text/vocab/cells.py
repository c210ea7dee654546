"""A vocabulary of table cells: each column has tokens of its own, besides seven that all columns share (TabFormer).

Ids 0 … 6 are [UNK] [SEP] [PAD] [CLS] [MASK] [BOS] [EOS]; then each column has a block, its most frequent value first.
The tokens of a label are its values that occur at least `least` times; other values are [UNK], so that training sees
[UNK] too. The tokens of a quantity are bins with equally many rows each:

- "time": min–max scaled, then binned;
- "amount": ln(max(1, |a|)), then binned; a negative amount has the bin of its size with a minus ("-3"). TabFormer
  takes ln(max(1, a)), which puts every negative amount with those below 1.
"""

from __future__ import annotations

import array
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.runtime import files
from numjax.text.vocab.base import BaseVocabulary

UNKNOWN, BOS = "[UNK]", "[BOS]"
SPECIAL = (UNKNOWN, "[SEP]", "[PAD]", "[CLS]", "[MASK]", BOS, "[EOS]")
KINDS = ("label", "time", "amount")
MISSING = "None"  # the text of a cell whose value is unknown


class ColumnTokens(NamedTuple):
    """A column's tokens.

    Attributes:
      name, kind: of the column, see `KINDS`. values: its tokens, the most frequent first.
      edges: the bins' edges, ascending, one more than there are bins. low, high: the range of a time.
      signed: whether negative amounts have tokens of their own.
    """

    name: str
    kind: str
    values: tuple[str, ...]
    edges: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 1.0
    signed: bool = True

    def bin_numbers(self, numbers: Any) -> tuple[Any, Any]:
        """(bins of float64 numbers of a quantity, whether each has a minus)."""
        x = np.asarray(numbers, np.float64)
        minus = (x < 0) & self.signed if self.kind == "amount" else np.zeros(x.shape, bool)
        scaled = logarithm(x, self.signed) if self.kind == "amount" else scale(x, self.low, self.high)
        return find_bins(scaled, self.edges), minus


def scale(x: Any, low: float, high: float) -> Any:
    """(x − low) / (high − low), rounded as scikit-learn's MinMaxScaler does."""
    factor = 1.0 / ((high - low) or 1.0)
    return x * factor + (0.0 - low * factor)


def logarithm(x: Any, signed: bool) -> Any:
    """ln(max(1, |x|)) if `signed`, else ln(max(1, x))."""
    return np.log(np.maximum(1.0, np.abs(x) if signed else x))


def quantiles(x: Any, bins: int) -> np.ndarray:
    """float64[bins + 1]: edges that divide x into bins of equal counts."""
    return np.quantile(np.asarray(x, np.float64), np.linspace(0.0, 1.0, bins + 1))


def find_bins(x: Any, edges: Sequence[float]) -> Any:
    """The bin of each x, 0 … bins − 1; values beyond the edges are in the first or the last bin."""
    return np.clip(np.digitize(x, np.asarray(edges)), 1, len(edges) - 1) - 1


class Cells(BaseVocabulary):
    """Columns' tokens. `spans`: the first id and the number of ids of each column."""

    kind = "cells"
    exact = False

    def __init__(self, file: bytes, marks: Iterable[str] = ()):
        """
        Args:
          file: JSON as `fit` writes it. marks: names of further marks.

        Raises:
          UsageError: the file does not have this form.
        """
        try:
            lists = ("values", "edges")
            columns = [
                ColumnTokens(**fields | {name: tuple(fields[name]) for name in lists})
                for fields in files.parse_json(file)
            ]
            for column in columns:
                _check_column(column)
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"not a vocabulary of cells: {error}") from None
        self.file, self.columns = file, tuple(columns)
        sizes = [len(column.values) for column in columns]
        firsts = np.cumsum([len(SPECIAL), *sizes])[:-1].tolist()
        self.spans = tuple(zip(firsts, sizes, strict=True))
        self._ids_of = [
            {v: first + i for i, v in enumerate(c.values)} for first, c in zip(firsts, columns, strict=True)
        ]
        pieces = [b""] * len(SPECIAL) + [value.encode() for column in columns for value in column.values]
        super().__init__(pieces, (UNKNOWN, BOS, *marks), {name: i for i, name in enumerate(SPECIAL)})

    def token(self, column: int, cell: str) -> int:
        """Id of a cell of a column; that of [UNK] for an unknown value.

        Raises:
          DataError: a quantity that is no number.
        """
        column_tokens, ids = self.columns[column], self._ids_of[column]
        if column_tokens.kind != "label":
            number, minus = column_tokens.bin_numbers(_parse_number(column_tokens.name, cell))
            cell = "-" * bool(minus) + str(int(number))
        return ids.get(cell, self.mark(UNKNOWN))

    def locate(self, token: int) -> tuple[int, int]:
        """(column, index within it) of an id; (−1, id) for the shared tokens and marks."""
        for column, (first, size) in enumerate(self.spans):
            if first <= token < first + size:
                return column, token - first
        return -1, token

    def _ids(self, text: str) -> list[int]:
        raise UsageError("a vocabulary of cells has no text: use scheme rows")

    def _files(self) -> Mapping[str, bytes]:
        return {"cells.json": self.file}


def _check_column(column: ColumnTokens) -> None:
    """Checks the values of a stored column.

    Raises:
      ValueError: one is not of its type.
    """
    if column.kind not in KINDS:
        raise ValueError("a column is of no known kind")
    if not isinstance(column.signed, bool) or not all(
        isinstance(text, str) for text in (column.name, *column.values)
    ):
        raise ValueError("a column's name or values are no texts")
    "".join(column.values).encode()  # half of a surrogate pair has no bytes
    numbers = (*column.edges, column.low, column.high)
    if not all(type(x) in (int, float) and abs(x) < math.inf for x in numbers):
        raise ValueError(f"the edges or the range of {column.name} are no numbers")
    if column.kind != "label" and (len(column.edges) < 2 or list(column.edges) != sorted(column.edges)):
        raise ValueError(f"the edges of {column.name} do not ascend")


def make(
    texts: Iterable[str] | None,
    marks: tuple[str, ...],
    *,
    columns: Sequence[str] = (),
    times: Sequence[str] = (),
    amounts: Sequence[str] = (),
    bins: int = 10,
    signed: bool = True,
    least: int = 1,
) -> Cells:
    """A vocabulary from its config block, see `vocab.build`.

    Args:
      texts: rows, each the JSON of a list with one cell per column.
      columns: names of the columns; `times` and `amounts` are binned. bins: number of bins of each.
      signed: give negative amounts tokens of their own. least: how often a label's value must occur to have a token.
    """
    kinds = {**dict.fromkeys(columns, "label"), **dict.fromkeys(times, "time"), **dict.fromkeys(amounts, "amount")}
    if list(kinds) != list(columns):
        raise UsageError(f"vocabulary cells: times and amounts must be among columns={tuple(columns)}")
    if texts is None or bins < 1 or least < 1 or not columns:
        raise UsageError("vocabulary cells wants rows to count, columns, and bins and least of at least 1")
    return Cells(fit((json.loads(row) for row in texts), kinds, bins, signed, least), marks)


def fit(
    rows: Iterable[Sequence[str]], kinds: Mapping[str, str], bins: int = 10, signed: bool = True, least: int = 1
) -> bytes:
    """The file of a vocabulary: edges and tokens of these rows, which are read once.

    Args:
      kinds: column → kind, in the order of the cells. bins, signed, least: see `make`.

    Raises:
      DataError: there is no row, or a quantity that is no number.
    """
    labels = {i: Counter() for i, kind in enumerate(kinds.values()) if kind == "label"}
    numbers = {i: array.array("d") for i in range(len(kinds)) if i not in labels}
    names = list(kinds)
    for row in rows:
        for i, counts in labels.items():
            counts[row[i]] += 1
        for i, column in numbers.items():
            column.append(_parse_number(names[i], row[i]))
    columns = []
    for i, (name, kind) in enumerate(kinds.items()):
        column_tokens = ColumnTokens(name, kind, (), signed=signed)
        if kind == "label":
            counts = {value: n for value, n in labels[i].items() if n >= least}
        else:
            x = np.frombuffer(numbers[i], np.float64)
            if not len(x):
                raise DataError("a vocabulary of cells needs at least one row")
            if kind == "time":
                column_tokens = column_tokens._replace(low=float(x.min()), high=float(x.max()))
            scaled = logarithm(x, signed) if kind == "amount" else scale(x, column_tokens.low, column_tokens.high)
            column_tokens = column_tokens._replace(edges=tuple(quantiles(scaled, bins).tolist()))
            bin_index, minus = column_tokens.bin_numbers(x)
            bin_counts = Counter(dict(enumerate(np.bincount(bin_index + bins * minus, minlength=2 * bins).tolist())))
            counts = {"-" * (t >= bins) + str(t % bins): n for t, n in bin_counts.items() if n}
        ranked = sorted(counts, key=lambda value, counts=counts: (-counts[value], value))
        columns.append(column_tokens._replace(values=tuple(ranked))._asdict())
    return json.dumps(columns, ensure_ascii=False, indent=0).encode()


def _parse_number(column: str, cell: str) -> float:
    """The number in a cell.

    Raises:
      DataError: it is no number, or one that has no bin ("nan", "inf").
    """
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{column} is missing" if cell == MISSING else f"{column} {cell[:40]!r} is no number")
    return number
