"""Ten card transactions in a row: masked cells are to be recovered (TabFormer; LUNA's pre-training of TabBERT)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.tasks import records
from numjax.text.cells import MISSING
from numjax.types import Document, Example, Mark, Number, Text

COLUMNS = (
    "User", "Card", "Timestamp", "Amount", "Use Chip", "Merchant Name", "Merchant City", "Merchant State", "Zip",
    "MCC", "Errors?",
)  # fmt: skip
NUMBERS = ("Timestamp", "Amount", "Zip", "MCC")
# How the published table writes those that are codes.
CODES = {"Zip": ".0", "MCC": ""}
SUCH_AS = {"Zip": "97201.0", "MCC": "5411"}
ZEROS = {"s": "", "us": "000000", "ns": "000000000"}


class Task(protocols.Task):
    """The cells of a window, row by row, [SEP] behind each; scheme `rows` makes a position of each.

    Time, amount, zip and MCC are numbers; of a zip or MCC that is not known, and of any other cell, there is a text.
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
          path: of TabFormer's table; empty for the generated stand-in.
          by, stride, users, size: see data/creditrans/README.md. data_seed: of the split and of the stand-in.
          time: what the times count since 1970: "s", "us", or "ns" as LUNA's code reads them.
          fitted_on: bins and tokens are those of the "train" split, and it is pre-trained on; or, as in TabFormer's
            code, "all" rows, those of validation and test too.
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
        """What a vocabulary is made of: each table row once, also where windows overlap, as JSON."""
        seen: dict[Any, bytearray] = defaultdict(bytearray)  # a byte a row: there are tens of millions
        for record in rows:
            user, first = record.get("user"), record.get("first", 0)
            found = self._rows(record)
            if self._overlap:
                told, end = seen[user], first + len(found)
                told.extend(bytes(max(0, end - len(told))))
                found = [cells for cells, was in zip(found, told[first:end], strict=True) if not was]
                told[first:end] = b"\1" * (end - first)
            for cells in found:
                yield json.dumps(cells, ensure_ascii=False)

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The window.

        Raises:
          DataError: the record's rows are not rows of eleven cells.
        """
        del parse
        segments: list[Any] = []
        for cells in self._rows(record):
            segments += [_segment(name, cell) for name, cell in zip(COLUMNS, cells, strict=True)]
            segments.append(Mark("[SEP]"))
        return Example(str(record["id"]), tuple(segments))

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}

    def _rows(self, record: Mapping[str, Any]) -> list[list[str]]:
        """The cells as the scheme has them."""
        if "rows" not in record:
            records.text(record, "rows")
        found = record["rows"]
        try:
            found = json.loads(found) if isinstance(found, str) else list(found)
            fine = bool(found) and all(
                len(row) == len(COLUMNS) and all(isinstance(c, str) for c in row) for row in found
            )
        except (ValueError, TypeError):
            fine = False
        if not fine:
            raise DataError(f"field 'rows' must be a list of rows of {len(COLUMNS)} texts each, or its JSON")
        ends = {"Timestamp": self._zeros}
        return [
            [_formed(name, cell) + ends.get(name, "") or MISSING for name, cell in zip(COLUMNS, row, strict=True)]
            for row in found
        ]


def code(name: str, cell: str) -> str | None:
    """A zip or MCC in its one form ("97201.0", "5411"), None where it is no whole number. Tables that were written
    again have others, as pandas adds ".0" to a column with empty cells: a token of its own each would be."""
    found = re.fullmatch(r"([0-9]{1,18})(?:\.0*)?", cell)
    return f"{int(found[1])}{CODES[name]}" if found else None


def _formed(name: str, cell: str) -> str:
    return (code(name, cell) or cell) if name in CODES else cell


def _segment(name: str, cell: str) -> Text | Number:
    if name not in NUMBERS or cell == MISSING:
        return Text(cell)
    try:
        value = Decimal(cell)
        # Python reads "2_019" and full-width digits too.
        if not (value.is_finite() and cell.isascii() and "_" not in cell and (name not in CODES or code(name, cell))):
            raise InvalidOperation
    except InvalidOperation:
        raise DataError(f"{name} {cell[:40]!r} is no number such as {SUCH_AS.get(name, '-99.00')}") from None
    return Number(cell, value)
