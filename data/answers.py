"""Reads the files of the two datasets of students' answers: raw tables of HTML, or MathGPT's articles."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError
from numjax.expr.prose.wrap import from_html, wrap_formulas
from numjax.text.document import marked

from . import files

PROBLEMS = ("problems*.json", "problems*.json.gz")
TABLES = ("*.csv", "*.csv.gz", "*.tsv", "*.tsv.gz")


def find_sources(path: str, samples: Sequence[str]) -> list[pathlib.Path]:
    """Returns the paths [problems, samples] if there is a problems*.json, else [table].

    Args:
      path: a folder, a table, or the file of samples with the problems beside it.
      samples: patterns of the samples' file.
    """
    root = pathlib.Path(path).expanduser()
    folder = root.parent if root.is_file() else root
    is_table = root.is_file() and root.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    if not is_table and any(file for pattern in PROBLEMS for file in folder.glob(pattern)):
        return [files.find_one(str(folder), PROBLEMS), files.find_one(str(folder), samples)]
    return [files.find_one(path, TABLES, f"set path to the table, or to a folder of {PROBLEMS[0]} and {samples[0]}")]


def read_records(
    paths: Sequence[pathlib.Path],
    columns: Sequence[str],
    parse_rows: Callable[[Iterable[tuple[str, Mapping[str, str]]]], Iterator[tuple[str, Any]]],
    parse_sample: Callable[[Any, Mapping[str, str]], dict[str, Any]],
) -> Iterator[tuple[str, Any]]:
    """Yields (name, record or a ValueError) for each record of the files of `find_sources`.

    Args:
      columns: that a table must have. parse_rows: (name, line of the table) pairs → (name, record or error) pairs.
      parse_sample: (sample, problems by id) → record.

    Raises:
      DataError: a file is damaged or of another form.
    """
    if len(paths) == 1:
        yield from files.parse_table(paths[0], columns, parse_rows)
        return
    problem_texts = read_problems(paths[0])
    for index, raw in enumerate(read_samples(paths[1])):
        try:
            yield str(index), parse_sample(raw, problem_texts)
        except ValueError as error:
            yield str(index), error


def read_problems(path: pathlib.Path) -> dict[str, str]:
    """Returns id → marked text of a file {id: article}; problems that cannot be read are missing.

    Raises:
      DataError: the file is damaged or not an object.
    """
    value = files.read_json(path)
    if not isinstance(value, Mapping):
        raise DataError(f"{path}: is not an object {{id: problem}}")
    texts = {}
    for name, article in value.items():
        try:
            texts[str(name)] = mark_formulas(article)
        except ValueError:
            continue
    return texts


def read_samples(path: pathlib.Path) -> list[Any]:
    """Returns the list in a JSON file.

    Raises:
      DataError: the file is damaged or holds no list.
    """
    value = files.read_json(path)
    if not isinstance(value, list):
        raise DataError(f"{path}: holds no list")
    return value


def mark_formulas(value: Any) -> str:
    """Returns an article, or a text of HTML, as text with its formulas marked.

    Raises:
      ValueError: the value is neither.
    """
    return convert_html(value) if isinstance(value, str) else marked.from_article(value)


def convert_html(text: str) -> str:
    """Returns HTML as one line of text with marked formulas. The tables' literal "\\n" and "\\r" become blanks."""
    return wrap_formulas(from_html(text.replace("\\n", " ").replace("\\r", " "))).replace("\n", " ")
