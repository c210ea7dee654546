"""TabFormer's table of card transactions: one row per transaction, read as a stream and cut into users' windows."""

from __future__ import annotations

import collections
import csv
import datetime
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from numjax.errors import DataError
from numjax.tasks.transactions import normalise_code

from .. import files

COLUMNS = (
    "User", "Card", "Year", "Month", "Day", "Time", "Amount", "Use Chip", "Merchant Name", "Merchant City",
    "Merchant State", "Zip", "MCC", "Errors?", "Is Fraud?",
)  # fmt: skip
# The fields of a row in a window; the date and the time of day are one field.
FIELDS = (
    "User", "Card", "Timestamp", "Amount", "Use Chip", "Merchant Name", "Merchant City", "Merchant State", "Zip",
    "MCC", "Errors?",
)  # fmt: skip
WINDOW = 10
# Cells that mean a missing value, as in pandas.
EMPTY = {"", "nan", "na", "n/a", "#n/a", "null", "none", "<na>"}
_AMOUNT = re.compile(r"(-\$?|\$-|\$?)((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?", re.ASCII)
_YEARS = range(1970, 2101)
BACKWARDS = "rows of a card go back in time and are taken as they stand: sort by user, card and time"
_EPOCH = datetime.date(1970, 1, 1).toordinal()


class Transaction(NamedTuple):
    """One row.

    Attributes:
      cells: of `FIELDS`, as text: the time in seconds since 1970 (the table's times have no zone), the amount without
        its dollar sign and with its minus ("-99.00"); "" for a missing value.
      fraud: whether the transaction is a fraud.
    """

    cells: tuple[str, ...]
    fraud: bool

    @property
    def user(self) -> int:
        return int(self.cells[0])

    @property
    def seconds(self) -> int:
        return int(self.cells[2])


class Window(NamedTuple):
    """Consecutive rows of a user. `first`: the index of the first row among the user's usable rows."""

    user: int
    first: int
    rows: tuple[Transaction, ...]

    @property
    def label(self) -> int:
        """1 if any row is a fraud, else 0."""
        return int(any(row.fraud for row in self.rows))

    @property
    def is_backwards(self) -> bool:
        """Whether a card's row follows a later row of the same card."""
        last: dict[str, int] = {}
        for row in self.rows:
            card = row.cells[1]
            if row.seconds < last.get(card, row.seconds):
                return True
            last[card] = row.seconds
        return False

    def record(self, name: str) -> dict[str, Any]:
        """The window as a record of the dataset; its id begins with `name`."""
        return {
            "id": f"{name}-{self.user:04d}-{self.first:06d}",
            "user": self.user,
            "first": self.first,
            "rows": json.dumps([row.cells for row in self.rows], separators=(",", ":"), ensure_ascii=False),
            "frauds": "".join("01"[row.fraud] for row in self.rows),
            "label": self.label,
        }


def read_windows(path: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """Yields (id, record, or what is wrong) of the windows of a table to predict; its fraud column may be missing.

    Raises:
      DataError: the table cannot be read.
    """
    errors: list[tuple[str, ValueError]] = []
    counts: collections.Counter[int] = collections.Counter()

    def rows() -> Iterator[tuple[int, Transaction]]:
        for line, cells in read_table(pathlib.Path(path), labelled=False):
            try:
                if isinstance(cells, ValueError):
                    raise cells
                row = parse_transaction([*cells, "No"])
            except ValueError as error:
                errors.append((f"line {line}", error))
                continue
            counts[row.user] += 1
            yield line, row

    for window in make_windows(check_user_order(rows(), path), WINDOW):
        record = window.record("input")
        fields = {name: record[name] for name in ("id", "rows")}
        yield record["id"], fields | ({"mended": BACKWARDS} if window.is_backwards else {})
    yield from errors
    for user, count in counts.items():
        if n_unused := count_unused(count, WINDOW):
            yield (
                f"user {user}",
                ValueError(f"the last {n_unused} of {count} rows are in no window: {WINDOW} make one"),
            )


def read_table(path: pathlib.Path, labelled: bool = True) -> Iterator[tuple[int, list[str] | ValueError]]:
    """Yields (line number, cells of `COLUMNS`, or what is wrong with them) of each row of a .csv or .csv.gz of any
    size. Unless `labelled`, the cells are without the last column, which may be missing.

    Several lines that form one row are refused: a quote of one line is closed by a quote of another line, or never.

    Raises:
      DataError: a column is missing, or the file is empty, damaged or not UTF-8; or its first line is no header.
    """

    def decode_lines() -> Iterator[str]:
        for number, line in enumerate(files.read_lines(path), 1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{path}: line {number} is not UTF-8; convert or fetch it again") from None

    rows = csv.reader(decode_lines())
    try:
        header = [name.strip() for name in next(rows, [])]
    except csv.Error:
        header = None
    # A quote that is not closed joins the next lines to the header.
    if header is None or rows.line_num > 1:
        raise DataError(f"{path}: line 1 is no header: close its quotes, and end each line in \\n, not in \\r alone")
    if not any(header):
        raise DataError(f"{path}: the file is empty; fetch it again")
    columns = COLUMNS if labelled else COLUMNS[:-1]
    missing = [name for name in columns if name not in header]
    if missing:
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))}; the table has {', '.join(header)}")
    indices = [header.index(name) for name in columns]
    while True:
        first = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:  # the reader continues after this row
            lines = f"line {first}" if rows.line_num <= first else f"lines {first} to {rows.line_num}"
            yield first, ValueError(f"{lines}: no row of a table ({error})")
            continue
        if cells is None:
            return
        if rows.line_num > first:
            yield first, ValueError(f"lines {first} to {rows.line_num} are one row: line {first} opens a quote")
        elif len(cells) > len(header):
            yield first, ValueError(f"has {len(cells)} cells, the header {len(header)}")
        elif cells:
            cells += [""] * (len(header) - len(cells))
            yield first, [cells[index] for index in indices]


def parse_transaction(cells: Sequence[str]) -> Transaction:
    """Checks a row's cells of `COLUMNS` and turns them into a transaction.

    Raises:
      ValueError: a user, card, date, time, amount or label cannot be read, or a code is no whole number.
    """
    # Error messages quote required cells as written.
    texts = [text.strip() for text in cells]
    user, card, year, month, day, clock, amount, *_, fraud = texts
    chip, name, city, state, zip_code, mcc, errors = ("" if text.lower() in EMPTY else text for text in texts[7:-1])
    return Transaction(
        (
            str(_parse_whole("User", user)),
            str(_parse_whole("Card", card)),
            str(_parse_time(year, month, day, clock)),
            _parse_dollars(amount),
            chip,
            name,
            city,
            state,
            _parse_code("Zip", zip_code),
            _parse_code("MCC", mcc),
            errors.strip(","),
        ),
        _parse_yes_no(fraud),
    )


def make_windows(rows: Iterable[Transaction], stride: int, size: int = WINDOW) -> Iterator[Window]:
    """Yields windows of `size` rows of one user, one from every `stride`-th row; a user's last rows may be in none.

    A user's rows must be consecutive (see `check_user_order`), as they are in the table: by card, then by time.
    """
    user, first, pending = None, 0, []
    for row in rows:
        if row.user != user:
            user, first, pending = row.user, 0, []
        pending.append(row)
        if len(pending) == size:
            yield Window(row.user, first, tuple(pending))
            pending = pending[stride:]
            first += stride


def check_user_order(rows: Iterable[tuple[int, Transaction]], name: str) -> Iterator[Transaction]:
    """Yields the rows of (line number, row) pairs and checks that each user's rows are consecutive.

    Args:
      name: of the table, for messages.

    Raises:
      DataError: a user appears again after another user's rows; windows of both runs would have the same ids.
    """
    user, finished_users = None, set()
    for line, row in rows:
        if row.user != user:
            if row.user in finished_users:
                raise DataError(f"{name}: user {row.user} appears again at line {line}: sort by user, card and time")
            user = row.user
            finished_users.add(user)
        yield row


def count_unused(count: int, stride: int, size: int = WINDOW) -> int:
    """How many of a user's `count` rows are in no window."""
    return count if count < size else (count - size) % stride


def _parse_whole(name: str, text: str) -> int:
    # Records hold 63 bits.
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= 2**63:
        raise ValueError(f"{name} {text[:40]!r} is no whole number below 2^63")
    return int(text)


def _parse_code(name: str, text: str) -> str:
    code = normalise_code(name, text) if text else ""
    if code is None:
        raise ValueError(f"{name} {text[:40]!r} is no whole number")
    return code


def _parse_time(year: str, month: str, day: str, clock: str) -> int:
    try:
        date, time = (year, month, day), _CLOCK.fullmatch(clock)
        if time is None or not all(part.isascii() and part.isdigit() for part in date):
            raise ValueError
        days = datetime.date(*map(int, date)).toordinal() - _EPOCH
        hours, minutes, seconds = (int(part or 0) for part in time.groups())
        if not (int(year) in _YEARS and hours < 24 and minutes < 60 and seconds < 60):
            raise ValueError
    except (ValueError, OverflowError):
        text = f"{year}-{month}-{day} {clock}"[:60]
        raise ValueError(
            f"Year-Month-Day Time {text!r} is no date of {_YEARS[0]} to {_YEARS[-1]} with a time of day"
        ) from None
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds


def _parse_dollars(text: str) -> str:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"Amount {text[:40]!r} is no number of dollars such as $37.50 or $-99.00")
    number = match[2].replace(",", "")
    if not math.isfinite(float(number)):
        raise ValueError(f"Amount {text[:40]!r} has more digits than a number can have here")
    return "-" * ("-" in match[1]) + number


def _parse_yes_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ValueError(f"Is Fraud? {text[:40]!r} is neither Yes nor No")
    return text.lower() == "yes"
