"""The figures that READMEs quote from committed results, and their sources.

A README names the sources in comments, whose content is TOML:

    <!-- figures
    file = "results/laptop/table1.md"
    columns = {"exact" = {column = "exact here"}}
    rows = {"p" = {row = "GPT", value = "p"}, "another run" = {skip = "its runs are not committed"}}
    -->

An address is `file`, `row` and `column` of a table of a results file. Before a table, the comment gives the address
of each cell: that of the comment, then of its column, then of its row. A row or column that gives no `row` or
`column` itself stands for the one of its own name. "MME" stands for "MME here", and a figure in brackets for "MME
paper". `value` "p" stands for "MME p"; `parts` is a list of columns, and the cell has the mean of each. Instead of a
row and column, `metric`, `system`, `split` and `scale` give the mean over the seeds of the JSON's runs, `noise` a
system whose bootstrapped difference it is, on `task`, and `path` a list of paths in a JSON file. `skip` gives the
reason why a figure has no committed source.

`quotes` are figures of the text of the same section, each with its address. Every figure with ± must have an address.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from numjax.bundled.experiments import tables

_COMMENT = re.compile(r"<!-- figures\n(.*?)-->", re.DOTALL)
_ANY_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?")
_SPREAD = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?\s±\s\d[\d,]*(?:\.\d+)?")
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


class Problem(NamedTuple):
    """A disagreement: where it is and what is wrong."""

    path: pathlib.Path
    line: int
    message: str


class Cell(NamedTuple):
    """A cell of a Markdown table: its line, the names of its row and column, its text."""

    line: int
    row: str
    column: str
    text: str


def check_readme(path: pathlib.Path) -> tuple[list[Problem], int]:
    """(disagreements of the figures of a README with their sources, the number of figures compared)."""
    text = path.read_text(encoding="utf-8")
    starts = [match.start() for match in _HEADING.finditer(_blank(text))] or [0]
    problems: list[Problem] = []
    n_figures = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        section_problems, n_compared = _check_section(path, text, start, end)
        problems += section_problems
        n_figures += n_compared
    return problems, n_figures


def _check_section(path: pathlib.Path, text: str, start: int, end: int) -> tuple[list[Problem], int]:
    problems: list[Problem] = []
    figures_with_source: set[str] = set()
    n_figures = 0

    def locate(position: int) -> int:
        return text.count("\n", 0, position) + 1

    for match in _COMMENT.finditer(text, start, end):
        line = locate(match.start())
        try:
            block = tomllib.loads(match[1])
        except tomllib.TOMLDecodeError as error:
            problems.append(Problem(path, line, f"the comment is not TOML: {error}"))
            continue
        table = re.compile(r"\s*((?:^\|.*\n)+)", re.MULTILINE).match(text, match.end())
        cells = parse_table(table[1], locate(table.start(1))) if table and "quotes" not in block else []
        pairs = [(cell.line, cell.text, _find_address(block, cell)) for cell in cells if _NUMBER.search(cell.text)]
        joined = " ".join(_blank(text[start:end]).split())
        for quote, address in block.get("quotes", {}).items():
            if not re.search(rf"(?<![\d.,]){re.escape(quote)}(?!\d|[.,]\d)", joined):
                problems.append(Problem(path, line, f"{quote!r} is not in the text of this section"))
            pairs.append((line, quote, {key: block[key] for key in block if key != "quotes"} | address))
        for pair_line, figure, address in pairs:
            figures_with_source |= {" ".join(spread.split()) for spread in _SPREAD.findall(figure)}
            if "skip" not in address:
                n_figures += 1
                if message := compare(figure, address, path.parent):
                    problems.append(Problem(path, pair_line, message))
    for match in _SPREAD.finditer(_blank(text), start, end):
        if " ".join(match[0].split()) not in figures_with_source:
            problems.append(Problem(path, locate(match.start()), f"{match[0]!r} names no source"))
    return problems, n_figures


def _find_address(block: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    base = {key: value for key, value in block.items() if key not in ("rows", "columns")}
    column_address, row_address = (
        block.get("columns", {}).get(cell.column, {}),
        block.get("rows", {}).get(cell.row, {}),
    )
    address = base | column_address | row_address
    names = {"row": cell.row, "column": cell.column}
    if block.get("transposed"):
        names = {"row": cell.column, "column": cell.row}
    return names | address


def compare(figure: str, address: Mapping[str, Any], folder: pathlib.Path) -> str:
    """What is wrong with a figure, "" if it agrees with its source to the digits that it has.

    Args:
      figure: such as "97.6 ± 0.4 (97.2)": ours, and in brackets the paper's.
      folder: of the README, which files are relative to.
    """
    try:
        expected = list_expected(address, folder)
    except (KeyError, OSError, IndexError) as error:
        return f"{figure!r}: no such source: {error}"
    own, _, rest = figure.partition("(")
    ours, paper = _NUMBER.findall(own), _NUMBER.findall(rest)
    if expected["paper"]:
        numbers = [*expected["here"][: len(ours)], *expected["paper"][: len(paper)]]
    else:
        numbers = expected["here"][: len(ours) + len(paper)]
    quoted = [*ours, *paper]
    if len(quoted) != len(numbers) or not all(map(_agree, quoted, numbers)):
        return f"{figure!r} is {' '.join(numbers) or 'not there'} in its source"
    return ""


def list_expected(address: Mapping[str, Any], folder: pathlib.Path) -> dict[str, list[str]]:
    """{"here": numbers of a source as text, "paper": those of the paper beside it}.

    Raises:
      KeyError, OSError, IndexError: there is no such source.
    """
    path = folder / address["file"]
    if "noise" in address and "metric" not in address and "task" in address:
        entries = _load_json(path.with_suffix(".json"))["noise"]
        (entry,) = [e for e in entries if (e["task"], e["system"]) == (address["task"], address["noise"])]
        return {"here": [repr(entry[name]) for name in ("mean", "low", "high")], "paper": []}
    if "metric" in address and "system" in address:
        return {"here": _list_metric(_load_json(path.with_suffix(".json")), address), "paper": []}
    if "path" in address:
        content = _load_json(path)
        values = [
            functools.reduce(lambda value, key: value[key], keys.split("/"), content) for keys in address["path"]
        ]
        return {"here": [repr(value) for value in values], "paper": []}
    cells = _load_cells(path)
    row, column = str(address["row"]), str(address["column"])
    if address.get("parts"):
        parts = [list_expected({**address, "parts": None, "column": part}, folder) for part in address["parts"]]
        return {"here": [part["here"][0] for part in parts], "paper": []}
    names = {column: column, f"{column} here": f"{column} paper", f"{column} p": ""}
    if address.get("value") in ("p", "paper"):
        names = {f"{column} {address['value']}": ""}
    name = next((name for name in names if (row, name) in cells), None)
    if name is None:
        raise KeyError(f"row {row!r}, column {column!r} of {address['file']}")
    return {
        "here": _NUMBER.findall(cells[row, name]),
        "paper": _NUMBER.findall(cells.get((row, names[name]), "")),
    }


def _list_metric(content: Mapping[str, Any], address: Mapping[str, Any]) -> list[str]:
    """Mean and deviation of a metric, "split/name" or, with `split`, "name", over the runs of a system."""
    split, _, name = f"{address.get('split', '')}/{address['metric']}".lstrip("/").partition("/")
    values = [
        address.get("scale", 1.0) * run["metrics"][split][name]
        for run in content["runs"]
        if run["system"] == address["system"] and run["task"] == address.get("task", run["task"])
    ]
    spread = tables.mean_and_std(values)
    if spread is None:
        raise KeyError(f"runs of {address['system']}")
    return [repr(value) for value in spread if value is not None]


def parse_table(text: str, line: int) -> Iterator[Cell]:
    """Yields the cells of a Markdown table but its first column; `line` is that of its header."""
    rows = [[cell.replace("**", "").strip() for cell in row.strip()[1:-1].split("|")] for row in text.splitlines()]
    header = rows[0]
    for number, row in enumerate(rows[2:], line + 2):
        for column, cell in zip(header[1:], row[1:], strict=False):
            yield Cell(number, row[0], column, cell)


@functools.cache
def _load_cells(path: pathlib.Path) -> dict[tuple[str, str], str]:
    """(row, column) → text, of all tables of a results file; the first of equal names."""
    text = path.read_text(encoding="utf-8")
    cells: dict[tuple[str, str], str] = {}
    for match in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
        for cell in parse_table(match[0], 1):
            cells.setdefault((cell.row, cell.column), cell.text)
    return cells


@functools.cache
def _load_json(path: pathlib.Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _blank(text: str) -> str:
    """The text with comments and code blocks blanked out, as long as before."""

    def erase(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(r"^(```.*?^```|    .*?$)", erase, _ANY_COMMENT.sub(erase, text), flags=re.DOTALL | re.MULTILINE)


def _agree(quoted: str, expected: str) -> bool:
    """Whether a quoted number is the expected one, rounded to the digits that it has. If it has more digits than the
    expected one, it must round to that."""
    first, second = (Decimal(number.replace(",", "").replace("−", "-")) for number in (quoted, expected))
    n_first, n_second = (max(0, -int(number.as_tuple().exponent)) for number in (first, second))
    if n_first == n_second:
        return first == second
    # A rounded number that is rounded again may be off by half a unit of both.
    return abs(first - second) <= sum(Decimal(f"0.5e-{n}") for n in (n_first, n_second))


def list_readmes(root: pathlib.Path) -> Sequence[pathlib.Path]:
    """The READMEs of a checkout."""
    folders = ("configs", "data", "docs", "experiments")
    return [root / "README.md", *sorted(p for name in folders for p in (root / name).rglob("*.md") if _is_own(p))]


def _is_own(path: pathlib.Path) -> bool:
    return "results" not in path.parts
