"""What the two datasets of students' answers share: their files, raw tables of HTML or MathGPT's articles."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError
from numjax.expr.wrap import from_html, wrapped
from numjax.text import marked

from . import files

PROBLEMS = ("problems*.json", "problems*.json.gz")
TABLES = ("*.csv", "*.csv.gz", "*.tsv", "*.tsv.gz")


def sources(path: str, samples: Sequence[str]) -> list[pathlib.Path]:
    """[problems, samples] where there are problems*.json, else [table].

    Args:
      path: a folder, a table, or the file of samples with the problems beside it.
      samples: patterns of the file that goes with the problems.
    """
    root = pathlib.Path(path).expanduser()
    folder = root.parent if root.is_file() else root
    is_table = root.is_file() and root.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    if not is_table and any(file for pattern in PROBLEMS for file in folder.glob(pattern)):
        return [files.one_of(str(folder), PROBLEMS), files.one_of(str(folder), samples)]
    return [files.one_of(path, TABLES, f"set path to the table, or to a folder of {PROBLEMS[0]} and {samples[0]}")]


def read(
    paths: Sequence[pathlib.Path],
    columns: Sequence[str],
    of_rows: Callable[[Iterable[tuple[str, Mapping[str, str]]]], Iterator[tuple[str, Any]]],
    of_sample: Callable[[Any, Mapping[str, str]], dict[str, Any]],
) -> Iterator[tuple[str, Any]]:
    """(name, record, or a ValueError) of all that the files of `sources` hold.

    Args:
      columns: that a table must have. of_rows: records of (name, line of the table) pairs.
      of_sample: (sample, problems by id) → record.

    Raises:
      DataError: a file is damaged or of another form.
    """
    if len(paths) == 1:
        yield from of_rows((f"line-{number}", row) for number, row in files.table(paths[0], columns))
        return
    known = problems(paths[0])
    for place, raw in enumerate(samples(paths[1])):
        try:
            yield str(place), of_sample(raw, known)
        except ValueError as error:
            yield str(place), error


def problems(path: pathlib.Path) -> dict[str, str]:
    """id → marked text of {id: article}; problems that cannot be read are missing.

    Raises:
      DataError: the file is damaged or no object.
    """
    value = files.parsed(path)
    if not isinstance(value, Mapping):
        raise DataError(f"{path}: is no object of problems by their id")
    out = {}
    for name, article in value.items():
        try:
            out[str(name)] = article_or_text(article)
        except ValueError:
            continue
    return out


def samples(path: pathlib.Path) -> list[Any]:
    """The list in a JSON file.

    Raises:
      DataError: the file is damaged or holds no list.
    """
    value = files.parsed(path)
    if not isinstance(value, list):
        raise DataError(f"{path}: holds no list")
    return value


def article_or_text(value: Any) -> str:
    """An article, or text in which formulas are looked for, as marked text.

    Raises:
      ValueError: it is neither.
    """
    return html(value) if isinstance(value, str) else marked.of_article(value)


def html(text: str) -> str:
    """HTML as one line of text with its formulas marked. "\\n" and "\\r", spelled out in the tables, are blanks."""
    return wrapped(from_html(text.replace("\\n", " ").replace("\\r", " "))).replace("\n", " ")
