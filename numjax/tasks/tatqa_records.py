"""TAT-QA's form, [{table, paragraphs, questions}], as flat records, one a question; and one's own table as a CSV file
with a text file beside it."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError
from numjax.runtime import files
from numjax.tasks import records
from numjax.tasks.tatqa_answers import SCALES

DELIMITERS = ";\t,"  # a table that two of them part alike has decimal commas
ASKED = re.compile(r"\s*q(?:uestion)?\s*:\s*", re.IGNORECASE)  # begins a question in a text beside a CSV file
TYPES = ("span", "multi-span", "arithmetic", "count")
SOURCES = ("table", "text", "table-text")
UNANSWERED = {
    "answer": "[]",
    "derivation": "",
    "answer_type": "",
    "answer_from": "",
    "scale": "",
    "rel_paragraphs": "[]",
    "mapping": "[]",
}

Found = Iterator[tuple[str, dict[str, Any] | ValueError]]


def of_contexts(found: Any, name: str, answered: bool = True) -> Found:
    """(id, record; or what is wrong with it) of each question of TAT-QA's JSON.

    A context that cannot be used is named by its questions, or by its own id where it has none. Of questions with one
    uid the first is kept.

    Args:
      name: of the file, for messages.
      answered: questions must have answers, else those without one or its type are unanswered.

    Raises:
      DataError: it is no list of contexts.
    """
    if not isinstance(found, list):
        raise DataError(f"{name}: not TAT-QA's form: give a list of objects with table, paragraphs and questions")
    known_ids: set[str] = set()
    for place, one in enumerate(found):
        if not isinstance(one, Mapping):
            yield f"context-{place}", ValueError("it is no object with table, paragraphs and questions")
            continue
        table = one.get("table")
        known = table.get("uid") if isinstance(table, Mapping) else None
        context = known if isinstance(known, str) and known else f"context-{place}"
        asked: Any = one.get("questions")
        asked = asked if isinstance(asked, list) else []
        uids = [_uid(raw, f"{context}-{q}") for q, raw in enumerate(asked)]
        try:
            given = table.get("table") if isinstance(table, Mapping) else table
            rows = cells(given)
            orders, texts = _paragraphs(one.get("paragraphs"))
            if not uids:
                raise ValueError("it has no questions")
        except ValueError as error:
            yield from ((uid, error) for uid in uids or [context])
            continue
        shared = {"context": context, "table": json.dumps(rows, ensure_ascii=False)}
        what = "" if answered else ragged(given)
        shared["paragraphs"] = json.dumps(texts, ensure_ascii=False)
        for uid, raw in zip(uids, asked, strict=True):
            try:
                record = {"id": uid} | shared | _question(raw, orders, answered)
                if uid in known_ids:
                    raise ValueError("a question before it has the same uid: give each its own")
            except ValueError as error:
                yield uid, error
                continue
            if done := "; ".join(filter(None, (what, record.pop("mended", "")))):
                record["mended"] = done
            known_ids.add(uid)
            yield uid, record


def of_csv(path: pathlib.Path) -> Found:
    """The questions about a table of one's own: PATH.csv holds the table, with commas, semicolons or tabs between the
    cells, and PATH.txt beside it the rest.

    Of the text each line that begins with "Q:" is a question; the others are paragraphs, with empty lines between.

    Raises:
      DataError: one of the files is missing or cannot be read.
    """
    beside, table = path.with_suffix(".txt"), _table(path)
    if not beside.exists():
        raise DataError(f"{beside}: not there: put the paragraphs into it, and each question on a line behind Q:")
    paragraphs, questions, lines = [], [], []
    for line in [*_text(beside).splitlines(), ""]:
        if begin := ASKED.match(line):
            questions.append(line[begin.end() :].strip())
        elif line.strip():
            lines.append(line.strip())
            continue
        if lines:
            paragraphs.append(" ".join(lines))
            lines = []
    if not questions:
        raise DataError(f"{beside}: no question there: begin a line with Q:")
    one = {
        "table": {"uid": path.stem, "table": table},
        "paragraphs": [{"order": i, "text": text} for i, text in enumerate(paragraphs, 1)],
        "questions": [{"question": text} for text in questions],
    }
    return of_contexts([one], str(path), answered=False)


def of_file(path: str) -> Found | None:
    """The questions of a .json file of TAT-QA's form, answered or not, or of a .csv file; None for any other. The
    .json may be packed: .json.gz.

    Raises:
      DataError: it cannot be read.
    """
    file = pathlib.Path(path)
    if file.suffix.lower() == ".csv":
        return of_csv(file)
    if not file.name.lower().endswith((".json", ".json.gz")):
        return None
    text = _text(file)
    try:
        found = json.loads(text)
    except RecursionError:
        raise DataError(f"{path}: the JSON nests too deeply; write it again") from None
    except json.JSONDecodeError as error:
        lines = error.msg == "Extra data" and error.lineno > 1
        remedy = "name it .jsonl if each line is a record" if lines else "write it again"
        raise DataError(f"{path}: the JSON breaks off or is wrong at line {error.lineno}: {remedy}") from None
    except ValueError:
        raise DataError(f"{path}: a number of the JSON is endless; write it again") from None
    return of_contexts(found if isinstance(found, list) else [found], path, answered=False)


def cells(table: Any) -> list[list[str]]:
    """The rows of a table, short ones filled up with empty cells.

    Raises:
      ValueError: why it cannot be used.
    """
    if not isinstance(table, list) or not all(isinstance(row, list) for row in table):
        raise ValueError("its table is no list of rows")
    rows = [[records.cell(cell, number) for cell in row] for number, row in enumerate(table, 1)]
    if not any(cell.strip() for row in rows for cell in row):
        raise ValueError("its table is empty")
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def ragged(table: Any) -> str:
    """What is done where the rows of a table differ in length; "" where they do not."""
    lengths = [len(row) for row in table if isinstance(row, list)] if isinstance(table, list) else []
    other = next((place for place, length in enumerate(lengths) if length != lengths[0]), None)
    if other is None:
        return ""
    quotes = "; cells that hold what parts cells want quotation marks" if lengths[other] > lengths[0] else ""
    return (
        f"its rows differ in length (row {other + 1} has {lengths[other]} cells, the first {lengths[0]}): filled up "
        f"with empty cells{quotes}"
    )


def _table(path: pathlib.Path) -> list[list[str]]:
    """The rows of a CSV file, its cells parted by what makes most rows equally long."""
    csv.field_size_limit(1 << 24)
    text, begin = _text(path), 1

    def reader(delimiter: str, strict: bool) -> Any:
        # Behind a tab a blank may be all that a cell holds; behind the others it stands before a quotation mark.
        return csv.reader(
            io.StringIO(text, newline=""), delimiter=delimiter, strict=strict, skipinitialspace=delimiter != "\t"
        )

    rows = []
    try:
        # Quotation marks stand elsewhere with another delimiter, so only the one that is chosen is taken strictly.
        best = max(DELIMITERS, key=lambda delimiter: _alike(list(reader(delimiter, strict=False))))
        found = reader(best, strict=True)
        for row in found:
            if len(row) > 1 or any(cell.strip() for cell in row):  # no empty line
                rows.append(row)
            begin = found.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}: line {begin} begins no row of a table ({error}); see to its quotation marks"
        ) from None
    return rows


def _alike(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """(how many of the rows with several cells have the most frequent length, that length)."""
    lengths = Counter(len(row) for row in rows if len(row) > 1)
    return max(((count, length) for length, count in lengths.items()), default=(0, 0))


def _uid(question: Any, name: str) -> str:
    """A question's id, `name` where it has none."""
    known = question.get("uid") if isinstance(question, Mapping) else None
    return known if isinstance(known, str) and known else name


def _paragraphs(found: Any) -> tuple[list[str], list[str]]:
    """(their numbers, their texts); those without text are left out."""
    if found is None:
        found = []
    if not isinstance(found, list):
        raise ValueError("its paragraphs are no list")
    orders, texts = [], []
    for place, one in enumerate(found, 1):
        text = one.get("text") if isinstance(one, Mapping) else one
        if not isinstance(text, str):
            raise ValueError(f"paragraph {place} has no text")
        if text.strip():
            orders.append(str(one.get("order", place)) if isinstance(one, Mapping) else str(place))
            texts.append(text)
    return orders, texts


def _question(raw: Any, orders: Sequence[str], answered: bool) -> dict[str, Any]:
    text = raw.get("question") if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it has no question")
    if answered:
        return {"question": text} | _answer(raw, orders)
    if raw.get("answer") in (None, "", []) or raw.get("answer_type") in (None, ""):
        return {"question": text} | UNANSWERED
    try:
        return {"question": text} | _answer(raw, orders)
    except ValueError as error:
        return {"question": text, "mended": f"taken to be without an answer: {error}"} | UNANSWERED


def _answer(raw: Mapping[str, Any], orders: Sequence[str]) -> dict[str, Any]:
    """The fields of a question's answer.

    Raises:
      ValueError: one is none of TAT-QA's.
    """
    found = {}
    for name, allowed in (("answer_type", TYPES), ("answer_from", SOURCES), ("scale", SCALES)):
        value = raw.get(name)
        if value not in allowed:
            raise ValueError(f"its {name} {value!r} is none of {', '.join(map(repr, allowed))}")
        found[name] = value
    answer = gold(raw.get("answer"), found["answer_type"])
    derivation = raw.get("derivation") or ""
    related = raw.get("rel_paragraphs") or []
    if not isinstance(derivation, str) or not isinstance(related, list):
        raise ValueError("its derivation is no text, or its rel_paragraphs no list")
    places = [orders.index(str(order)) for order in related if str(order) in orders]
    return found | {
        "answer": json.dumps(answer, ensure_ascii=False),
        "derivation": derivation,
        "rel_paragraphs": json.dumps(places),
        "mapping": json.dumps(_mapping(raw.get("mapping"))),
    }


def _mapping(found: Any) -> list[list[int]]:
    """[row, column] of the cells that an answer rests on, where a question says so, else none; TAT-QA's raw form has
    them under "table"."""
    cells = found.get("table") if isinstance(found, Mapping) else found
    places = [one for one in cells if isinstance(one, list)] if isinstance(cells, list) else []
    return [one for one in places if len(one) == 2 and all(type(part) is int and part >= 0 for part in one)]


def gold(answer: Any, kind: str) -> Any:
    """An answer of a type: a list of texts for spans, a whole number for counts, else a number.

    Raises:
      ValueError: it is none.
    """
    if kind in ("span", "multi-span"):
        if not isinstance(answer, list) or not answer or not all(isinstance(part, str) for part in answer):
            raise ValueError(f"its answer {str(answer)[:40]!r} is no list of texts")
        return answer
    try:
        number = float(answer)
        if number - number:  # infinite, or no number
            raise ValueError
        return int(number) if kind == "count" or number.is_integer() else number
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"its answer {str(answer)[:40]!r} is no number") from None


def _text(path: pathlib.Path) -> str:
    try:
        return files.contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert it") from None
