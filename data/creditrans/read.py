"""TabFormer's table of card transactions: one row a transaction, read as a stream, and cut into windows of a user."""

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
from numjax.tasks.transactions import code

from .. import files

COLUMNS = (
    "User", "Card", "Year", "Month", "Day", "Time", "Amount", "Use Chip", "Merchant Name", "Merchant City",
    "Merchant State", "Zip", "MCC", "Errors?", "Is Fraud?",
)  # fmt: skip
# What a window keeps of a row; the date and the time of day are one field.
FIELDS = (
    "User", "Card", "Timestamp", "Amount", "Use Chip", "Merchant Name", "Merchant City", "Merchant State", "Zip",
    "MCC", "Errors?",
)  # fmt: skip
WINDOW = 10
# Cells that say that nothing is known, as pandas has them.
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
        its dollar sign and with its minus ("-99.00"); "" where nothing is known.
      fraud: whether it is one.
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
    """Rows of a user that follow each other. `first`: the place of the first among the user's usable rows."""

    user: int
    first: int
    rows: tuple[Transaction, ...]

    @property
    def label(self) -> int:
        """1 where any row is a fraud."""
        return int(any(row.fraud for row in self.rows))

    @property
    def backwards(self) -> bool:
        """Whether a card's row stands behind a later one of its own."""
        last: dict[str, int] = {}
        for row in self.rows:
            card = row.cells[1]
            if row.seconds < last.get(card, row.seconds):
                return True
            last[card] = row.seconds
        return False

    def record(self, name: str) -> dict[str, Any]:
        """The dataset's fields; `name` begins the id."""
        return {
            "id": f"{name}-{self.user:04d}-{self.first:06d}",
            "user": self.user,
            "first": self.first,
            "rows": json.dumps([row.cells for row in self.rows], separators=(",", ":"), ensure_ascii=False),
            "frauds": "".join("01"[row.fraud] for row in self.rows),
            "label": self.label,
        }


def of_file(path: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """(id, record; or what is wrong) of the windows of a table to predict; whether they are frauds may be missing.

    Raises:
      DataError: the table cannot be read.
    """
    left: list[tuple[str, ValueError]] = []
    counts: collections.Counter[int] = collections.Counter()

    def rows() -> Iterator[tuple[int, Transaction]]:
        for line, cells in table(pathlib.Path(path), labelled=False):
            try:
                if isinstance(cells, ValueError):
                    raise cells
                row = transaction([*cells, "No"])
            except ValueError as error:
                left.append((f"line {line}", error))
                continue
            counts[row.user] += 1
            yield line, row

    for window in windows(together(rows(), path), WINDOW):
        record = window.record("input")
        found = {name: record[name] for name in ("id", "rows")}
        yield record["id"], found | ({"mended": BACKWARDS} if window.backwards else {})
    yield from left
    for user, count in counts.items():
        if rest := unused(count, WINDOW):
            yield f"user {user}", ValueError(f"the last {rest} of {count} rows are in no window: {WINDOW} make one")


def table(path: pathlib.Path, labelled: bool = True) -> Iterator[tuple[int, list[str] | ValueError]]:
    """(line number, cells of `COLUMNS`, or what is wrong with them) of each row of a .csv or .csv.gz, however long;
    unless `labelled` without the last column, which may be missing.

    A row of several lines is none: its quote is closed by that of another row, or never.

    Raises:
      DataError: a column is missing, or the file is empty, damaged or not UTF-8; or its first line is no header.
    """

    def text() -> Iterator[str]:
        for number, line in enumerate(files.lines(path), 1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{path}: line {number} is not UTF-8; convert or fetch it again") from None

    rows = csv.reader(text())
    try:
        header = [name.strip() for name in next(rows, [])]
    except csv.Error:
        header = None
    # A quote that is not closed makes the next lines part of it.
    if header is None or rows.line_num > 1:
        raise DataError(f"{path}: line 1 is no header: close its quotes, and end each line in \\n, not in \\r alone")
    if not any(header):
        raise DataError(f"{path}: the file is empty; fetch it again")
    wanted = COLUMNS if labelled else COLUMNS[:-1]
    missing = [name for name in wanted if name not in header]
    if missing:
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))}; the table has {', '.join(header)}")
    places = [header.index(name) for name in wanted]
    while True:
        first = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:  # the reader goes on behind it
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
            yield first, [cells[place] for place in places]


def transaction(cells: Sequence[str]) -> Transaction:
    """A row's cells of `COLUMNS`, checked.

    Raises:
      ValueError: no user, card, date, time, amount or label that can be read; or a code that is no whole number.
    """
    # Of what must be there, errors show what is written.
    written = [text.strip() for text in cells]
    user, card, year, month, day, clock, amount, *_, fraud = written
    chip, name, city, state, zip_code, mcc, errors = ("" if text.lower() in EMPTY else text for text in written[7:-1])
    return Transaction(
        (
            str(_whole("User", user)),
            str(_whole("Card", card)),
            str(_seconds(year, month, day, clock)),
            _dollars(amount),
            chip,
            name,
            city,
            state,
            _code("Zip", zip_code),
            _code("MCC", mcc),
            errors.strip(","),
        ),
        _yes(fraud),
    )


def windows(rows: Iterable[Transaction], stride: int, size: int = WINDOW) -> Iterator[Window]:
    """Windows of `size` rows of one user, from every `stride`-th row on; what is left at a user's end is in none.

    A user's rows must stand together (see `together`), as they do in the table: by card, and by time within it.
    """
    user, first, kept = None, 0, []
    for row in rows:
        if row.user != user:
            user, first, kept = row.user, 0, []
        kept.append(row)
        if len(kept) == size:
            yield Window(row.user, first, tuple(kept))
            kept = kept[stride:]
            first += stride


def together(rows: Iterable[tuple[int, Transaction]], name: str) -> Iterator[Transaction]:
    """The rows of (line number, row), each user's next to each other; `name` is for messages.

    Raises:
      DataError: a user appears again behind another's rows; windows of both places would have the same ids.
    """
    user, done = None, set()
    for line, row in rows:
        if row.user != user:
            if row.user in done:
                raise DataError(f"{name}: user {row.user} appears again at line {line}: sort by user, card and time")
            user = row.user
            done.add(user)
        yield row


def unused(count: int, stride: int, size: int = WINDOW) -> int:
    """How many of a user's `count` rows are in no window."""
    return count if count < size else (count - size) % stride


def _whole(name: str, text: str) -> int:
    # Records hold 63 bits.
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= 2**63:
        raise ValueError(f"{name} {text[:40]!r} is no whole number below 2^63")
    return int(text)


def _code(name: str, text: str) -> str:
    found = code(name, text) if text else ""
    if found is None:
        raise ValueError(f"{name} {text[:40]!r} is no whole number")
    return found


def _seconds(year: str, month: str, day: str, clock: str) -> int:
    try:
        date, time = (year, month, day), _CLOCK.fullmatch(clock)
        if time is None or not all(part.isascii() and part.isdigit() for part in date):
            raise ValueError
        days = datetime.date(*map(int, date)).toordinal() - _EPOCH
        hours, minutes, seconds = (int(part or 0) for part in time.groups())
        if not (int(year) in _YEARS and hours < 24 and minutes < 60 and seconds < 60):
            raise ValueError
    except (ValueError, OverflowError):
        shown = f"{year}-{month}-{day} {clock}"[:60]
        raise ValueError(
            f"Year-Month-Day Time {shown!r} is no date of {_YEARS[0]} to {_YEARS[-1]} with a time of day"
        ) from None
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds


def _dollars(text: str) -> str:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"Amount {text[:40]!r} is no number of dollars such as $37.50 or $-99.00")
    bare = found[2].replace(",", "")
    if not math.isfinite(float(bare)):
        raise ValueError(f"Amount {text[:40]!r} has more digits than a number can have here")
    return "-" * ("-" in found[1]) + bare


def _yes(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ValueError(f"Is Fraud? {text[:40]!r} is neither Yes nor No")
    return text.lower() == "yes"
