"""The tables whose numbers are probed: TAT-QA's and TabFact's files, or a generated stand-in."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from numjax.bundled.data.files import parsed
from numjax.bundled.data.pieces import list_files, read_file
from numjax.bundled.data.tabfact.read import TRAIN_IDS, ids
from numjax.errors import DataError, UsageError
from numjax.numeral import numtok
from numjax.probes.numbers import Grid, Lines, lines_of
from numjax.runtime import log

LONGEST = 12  # characters of a number
SOURCES = ("tatqa", "tabfact")


def tables(path: str, source: str) -> Iterator[Grid]:
    """The tables of path/tatqa (`files_of`) or path/tabfact (its all_csv, packed or not): of the latter those that
    its train_id.json lists, where that is there (`listed`).

    What cannot be read is counted and named.

    Raises:
      DataError: there is no such file.
    """
    root = pathlib.Path(path).expanduser() / source
    lost: list[str] = []
    if source == "tatqa":
        for file in files_of(path):
            found = parsed(file)
            for place, context in enumerate(found if isinstance(found, list) else ()):
                table = context.get("table") if isinstance(context, dict) else None
                rows: Any = table.get("table") if isinstance(table, dict) else None
                if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
                    yield [[str(cell) for cell in row] for row in rows]
                elif table is not None:
                    lost.append(f"{file.name}, context {place}: its table is no list of rows")
        _tell(lost, "tables")
        return
    wanted, count = listed(path), 0
    for file in list_files(str(root), (".csv",), "the folder of tatqa and tabfact"):
        for piece in read_file(file, root, (".csv",)):
            if piece.data is None:
                lost.append(piece.id)
                continue
            # Those of other splits are for TabFact's own tests.
            if wanted is not None and _table_id(piece.id) not in wanted:
                continue
            count += 1
            text = piece.data.decode("utf-8-sig", "replace")
            yield [line.rstrip("\r").split("#") for line in text.split("\n") if line.strip()]
    if wanted is None:
        log.say(f"{root}: no {TRAIN_IDS} there, so that all {count:,} tables are read, those of the test split too")
    _tell(lost, "files")


def _tell(lost: list[str], what: str) -> None:
    if lost:
        log.say(f"{len(lost)} {what} left out, such as {lost[0]}")


def files_of(path: str) -> list[pathlib.Path]:
    """TAT-QA's files called after train or dev, or whatever there is without such.

    Raises:
      DataError: there is none.
    """
    found = list_files(str(pathlib.Path(path).expanduser() / "tatqa"), (".json",), "the folder of tatqa and tabfact")
    return [file for file in found if re.search("train|dev", file.name.lower())] or found


def listed(path: str) -> set[str] | None:
    """The ids of TabFact's training tables; None where there is no list of them.

    Raises:
      DataError: it is damaged. UsageError: there are two.
    """
    root = pathlib.Path(path).expanduser() / "tabfact"
    found = [file for name in (TRAIN_IDS, f"{TRAIN_IDS}.gz") for file in sorted(root.rglob(name))]
    if len(found) > 1:
        raise UsageError(f"{root}: {TRAIN_IDS} twice ({found[0]}, {found[1]}); leave one of them in the folder")
    return ids(found[0]) if found else None


def _table_id(name: str) -> str:
    """Of a file, or of a member of an archive, which may be packed."""
    name = pathlib.PurePosixPath(name).name
    return name[: name.index(".csv") + len(".csv")] if ".csv" in name else name


def read(path: str) -> list[Lines]:
    """The lines of each source; the last one's strings are those of all.

    Raises:
      DataError: files are missing, or hold no number.
    """
    found: list[Lines] = []
    for source in SOURCES:
        found.append(lines_of(tables(path, source), numtok.find, LONGEST, found[-1] if found else None))
        if not len(found[-1].cells):
            raise DataError(
                f"{path}: no table with numbers in {source}; set --path to the folder of tatqa and tabfact"
            )
    return found


def stand_in(count: int, seed: int = 0) -> list[Lines]:
    """As `read` of generated tables: amounts with commas, rates per cent, counts, years and measurements."""
    rng = np.random.default_rng(seed)
    financial, general = [_financial(rng) for _ in range(count)], [_general(rng) for _ in range(count)]
    first = lines_of(financial, numtok.find, LONGEST)
    return [first, lines_of(general, numtok.find, LONGEST, first)]


def _financial(rng: np.random.Generator) -> Grid:
    years = int(rng.integers(2, 5))
    start = int(rng.integers(1995, 2020))
    grid = [["", *(str(start - back) for back in range(years))]]
    places = int(rng.choice([0, 0, 1, 2]))
    for item in ("Revenue", "Cost of sales", "Research", "Tax", "Net income")[: int(rng.integers(3, 6))]:
        size = 10 ** rng.uniform(1, 6)
        grid.append([item, *(f"$ {size * rng.uniform(0.6, 1.6):,.{places}f}" for _ in range(years))])
    for item in ("Margin", "Growth")[: int(rng.integers(0, 3))]:
        grid.append([item, *(f"{rng.normal(12, 9):.{int(rng.integers(0, 3))}f}%" for _ in range(years))])
    return grid


def _general(rng: np.random.Generator) -> Grid:
    rows = int(rng.integers(4, 12))
    grid = [["rank", "name", "year", "attendance", "score", "time"]]
    attendance = 10 ** rng.uniform(3, 5)
    for rank in range(1, rows + 1):
        crowd = int(attendance * rng.uniform(0.5, 1.5))
        grid.append(
            [
                str(rank),
                "team",
                str(int(rng.integers(1900, 2022))),
                f"{crowd:,}",
                str(int(rng.integers(0, 120))),
                f"{rng.uniform(9, 75):.2f}",
            ]
        )
    return grid
