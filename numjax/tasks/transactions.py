"""Recovers masked cells of ten consecutive card transactions (TabFormer; LUNA's pre-training of TabBERT)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.text.vocab.cells import MISSING
from numjax.types import Document, Example, Mark, Number, Text

COLUMNS = (
    "User", "Card", "Timestamp", "Amount", "Use Chip", "Merchant Name", "Merchant City", "Merchant State", "Zip",
    "MCC", "Errors?",
)  # fmt: skip
NUMBERS = ("Timestamp", "Amount", "Zip", "MCC")
# The end of codes in the published table.
CODES = {"Zip": ".0", "MCC": ""}
EXAMPLES = {"Zip": "97201.0", "MCC": "5411"}
ZEROS = {"s": "", "us": "000000", "ns": "000000000"}
_SECONDS = re.compile(r"([+-]?[0-9]+)(?:\.([0-9]*))?")


class Task(protocols.Task):
    """The cells of a window, row by row, with [SEP] behind each row; in scheme `rows` each cell is one position.

    Time, amount, zip and MCC are numbers; an unknown zip or MCC and all other cells are text.
    """

    kind = "masked"
    reads = "rows"
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = {
        "heads": {"masked": dict(name="masked", inner=0, tied=False, epsilon=1e-12)},
        "objectives": {
            "cells": dict(
                name="nll",
                head="masked",
                label=None,
                average="columns",
                columns=len(COLUMNS) + 1,  # and [SEP]
                constrain=True,
                given=False,
                room=0.25,
                weight=1.0,
            )
        },
        "data": {
            "masking": dict(rate=0.15, keep=0.1, random=0.1, literals=False, separators=False, everywhere=False)
        },
    }

    def __init__(
        self,
        *,
        path: str = "",
        by: str = "random",
        stride: int = 10,
        users: int = 50,
        size: int = 0,
        data_seed: int = 0,
        time: str = "s",
        fitted_on: str = "train",
    ):
        """
        Args:
          path: TabFormer's table; empty for the generated stand-in.
          by, stride, users, size: see data/creditrans/README.md. data_seed: of the split and of the stand-in.
          time: the unit of times since 1970: "s", "us", or "ns" as in LUNA's code.
          fitted_on: the rows that bins and tokens are fitted on, and that the model is pre-trained on: those of the
            "train" split; or "all" rows, including validation and test, as in TabFormer's code.
        """
        if time not in ZEROS or fitted_on not in ("train", "all"):
            raise UsageError(f"time={time!r} must be one of {', '.join(ZEROS)}, fitted_on={fitted_on!r} train or all")
        self.dataset: dict[str, Any] = {"name": "creditrans", "by": by, "stride": stride, "seed": data_seed}
        self.dataset |= {"size": size} if path else {"users": users, "size": size}
        self.dataset |= {"path": path} if path else {}
        self.fitted_on = "train+validation+test" if fitted_on == "all" else "train"
        self.splits = {"train": self.fitted_on}
        self._zeros, self._overlap = ZEROS[time], stride < 10

    def texts(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """The table rows that a vocabulary is fitted on, as JSON; each once, even if windows overlap."""
        seen: dict[Any, bytearray] = defaultdict(bytearray)  # a byte a row: there are tens of millions
        for record in rows:
            user, first = record.get("user"), record.get("first", 0)
            rows_of_record = self._parse_rows(record)
            if self._overlap:
                seen_rows, end = seen[user], first + len(rows_of_record)
                seen_rows.extend(bytes(max(0, end - len(seen_rows))))
                rows_of_record = [
                    cells for cells, is_seen in zip(rows_of_record, seen_rows[first:end], strict=True) if not is_seen
                ]
                seen_rows[first:end] = b"\1" * (end - first)
            for cells in rows_of_record:
                yield json.dumps(cells, ensure_ascii=False)

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The window.

        Raises:
          DataError: the record's rows are not rows of eleven cells.
        """
        del parse
        segments: list[Any] = []
        for cells in self._parse_rows(record):
            segments += [_make_segment(name, cell) for name, cell in zip(COLUMNS, cells, strict=True)]
            segments.append(Mark("[SEP]"))
        return Example(str(record["id"]), tuple(segments))

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}

    def _parse_rows(self, record: Mapping[str, Any]) -> list[list[str]]:
        """The rows of cells in the form of the scheme."""
        if "rows" not in record:
            fields.text(record, "rows")
        rows = record["rows"]
        try:
            rows = files.parse_json(rows) if isinstance(rows, str) else list(rows)
            is_valid = bool(rows) and all(
                len(row) == len(COLUMNS) and all(isinstance(c, str) for c in row) for row in rows
            )
        except (ValueError, TypeError):
            is_valid = False
        if not is_valid:
            raise DataError(f"field 'rows' must be a list of rows of {len(COLUMNS)} texts each, or its JSON")
        named_rows = [zip(COLUMNS, row, strict=True) for row in rows]
        return [[self._format_cell(name, cell) or MISSING for name, cell in row] for row in named_rows]

    def _format_cell(self, name: str, cell: str) -> str:
        if name in CODES:
            return normalise_code(name, cell) or cell
        # Seconds in a smaller unit: the point moves.
        if name == "Timestamp" and self._zeros and (match := _SECONDS.fullmatch(cell)):
            digits = (match[2] or "").ljust(len(self._zeros), "0")
            rest = digits[len(self._zeros) :].rstrip("0")
            return match[1] + digits[: len(self._zeros)] + f".{rest}" * bool(rest)
        return cell


def normalise_code(name: str, cell: str) -> str | None:
    """A zip or MCC in its standard form ("97201.0", "5411"), None if it is no integer.

    Rewritten tables have other forms (pandas adds ".0" in a column with empty cells), which would be separate tokens.
    """
    match = re.fullmatch(r"([0-9]{1,18})(?:\.0*)?", cell)
    return f"{int(match[1])}{CODES[name]}" if match else None


def _make_segment(name: str, cell: str) -> Text | Number:
    if name not in NUMBERS or cell == MISSING:
        return Text(cell)
    try:
        value = Decimal(cell)
        # Python also accepts "2_019" and full-width digits.
        if not (
            value.is_finite()
            and cell.isascii()
            and "_" not in cell
            and (name not in CODES or normalise_code(name, cell))
        ):
            raise InvalidOperation
    except InvalidOperation:
        raise DataError(f"{name} {cell[:40]!r} is no number such as {EXAMPLES.get(name, '-99.00')}") from None
    return Number(cell, value)
