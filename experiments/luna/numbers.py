"""Loads the tables whose numbers are probed: TAT-QA's and TabFact's files, or a generated stand-in."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from numjax.bundled.data.files import read_json
from numjax.bundled.data.pieces import list_files, read_file
from numjax.bundled.data.tabfact.read import TRAIN_IDS, read_ids
from numjax.errors import DataError, UsageError
from numjax.numeral import numtok
from numjax.probes.numbers import Grid, TableLines, collect_lines
from numjax.runtime import log

LONGEST = 12  # characters of a number
SOURCES = ("tatqa", "tabfact")


def load_tables(path: str, source: str) -> Iterator[Grid]:
    """Yields the tables of path/tatqa (`list_tatqa_files`) or path/tabfact (its all_csv, packed or not).

    Of TabFact's tables it takes those that train_id.json lists, if that file is there (`load_train_ids`). Prints the
    number of tables that cannot be read, and the first.

    Raises:
      DataError: there is no such file.
    """
    root = pathlib.Path(path).expanduser() / source
    skipped: list[str] = []
    if source == "tatqa":
        for file in list_tatqa_files(path):
            contexts = read_json(file)
            for index, context in enumerate(contexts if isinstance(contexts, list) else ()):
                table = context.get("table") if isinstance(context, dict) else None
                rows: Any = table.get("table") if isinstance(table, dict) else None
                if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
                    yield [[str(cell) for cell in row] for row in rows]
                elif table is not None:
                    skipped.append(f"{file.name}, context {index}: its table is no list of rows")
        _report_lost(skipped, "tables")
        return
    train_ids, count = load_train_ids(path), 0
    for file in list_files(str(root), (".csv",), "the folder of tatqa and tabfact"):
        for piece in read_file(file, root, (".csv",)):
            if piece.data is None:
                skipped.append(piece.id)
                continue
            # Tables of other splits are for TabFact's own tests.
            if train_ids is not None and _table_id(piece.id) not in train_ids:
                continue
            count += 1
            text = piece.data.decode("utf-8-sig", "replace")
            yield [line.rstrip("\r").split("#") for line in text.split("\n") if line.strip()]
    if train_ids is None:
        log.say(f"{root}: no {TRAIN_IDS} there, so that all {count:,} tables are read, those of the test split too")
    _report_lost(skipped, "files")


def _report_lost(skipped: list[str], kind: str) -> None:
    if skipped:
        log.say(f"{len(skipped)} {kind} left out, such as {skipped[0]}")


def list_tatqa_files(path: str) -> list[pathlib.Path]:
    """TAT-QA's files with "train" or "dev" in their names; if there are none, all its files.

    Raises:
      DataError: there is no file.
    """
    paths = list_files(str(pathlib.Path(path).expanduser() / "tatqa"), (".json",), "the folder of tatqa and tabfact")
    return [file for file in paths if re.search("train|dev", file.name.lower())] or paths


def load_train_ids(path: str) -> set[str] | None:
    """The ids of TabFact's training tables; None if there is no list of them.

    Raises:
      DataError: the list is damaged. UsageError: there are two lists.
    """
    root = pathlib.Path(path).expanduser() / "tabfact"
    paths = [file for name in (TRAIN_IDS, f"{TRAIN_IDS}.gz") for file in sorted(root.rglob(name))]
    if len(paths) > 1:
        raise UsageError(f"{root}: {TRAIN_IDS} twice ({paths[0]}, {paths[1]}); leave one of them in the folder")
    return read_ids(paths[0]) if paths else None


def _table_id(name: str) -> str:
    """The id of the table in a file or in a member of an archive, either of which may be packed."""
    name = pathlib.PurePosixPath(name).name
    return name[: name.index(".csv") + len(".csv")] if ".csv" in name else name


def load_lines(path: str) -> list[TableLines]:
    """The lines of each source; the last one has the number strings of all sources.

    Raises:
      DataError: files are missing, or hold no number.
    """
    lines: list[TableLines] = []
    for source in SOURCES:
        lines.append(collect_lines(load_tables(path, source), numtok.find, LONGEST, lines[-1] if lines else None))
        if not len(lines[-1].cells):
            raise DataError(
                f"{path}: no table with numbers in {source}; set --path to the folder of tatqa and tabfact"
            )
    return lines


def make_lines(count: int, seed: int = 0) -> list[TableLines]:
    """Like `load_lines`, of generated tables: amounts with commas, percentages, counts, years and measurements."""
    rng = np.random.default_rng(seed)
    financial_tables, general_tables = (
        [_make_financial(rng) for _ in range(count)],
        [_make_general(rng) for _ in range(count)],
    )
    first_lines = collect_lines(financial_tables, numtok.find, LONGEST)
    return [first_lines, collect_lines(general_tables, numtok.find, LONGEST, first_lines)]


def _make_financial(rng: np.random.Generator) -> Grid:
    years = int(rng.integers(2, 5))
    start = int(rng.integers(1995, 2020))
    grid = [["", *(str(start - offset) for offset in range(years))]]
    places = int(rng.choice([0, 0, 1, 2]))
    for item in ("Revenue", "Cost of sales", "Research", "Tax", "Net income")[: int(rng.integers(3, 6))]:
        size = 10 ** rng.uniform(1, 6)
        grid.append([item, *(f"$ {size * rng.uniform(0.6, 1.6):,.{places}f}" for _ in range(years))])
    for item in ("Margin", "Growth")[: int(rng.integers(0, 3))]:
        grid.append([item, *(f"{rng.normal(12, 9):.{int(rng.integers(0, 3))}f}%" for _ in range(years))])
    return grid


def _make_general(rng: np.random.Generator) -> Grid:
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
