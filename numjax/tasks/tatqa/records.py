"""TAT-QA's form, [{table, paragraphs, questions}], as flat records, one per question; also from a user's table as a
CSV file with a text file next to it."""

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
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.tasks.tatqa.answers import SCALES

DELIMITERS = ";\t,"  # the first wins if two fit a table equally well, for then its commas are decimal commas
QUESTION = re.compile(r"\s*q(?:uestion)?\s*:\s*", re.IGNORECASE)  # begins a question in the text file of a CSV file
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

Records = Iterator[tuple[str, dict[str, Any] | ValueError]]


def from_contexts(contexts: Any, name: str, answered: bool = True) -> Records:
    """(id, record or the error in it) of each question of TAT-QA's JSON.

    A context that cannot be used gives an error for each of its questions, or for its own id if it has none. Of
    questions with the same uid the first is kept.

    Args:
      name: of the file, for messages.
      answered: questions must have answers; else a question without an answer or its type is unanswered.

    Raises:
      DataError: `contexts` is no list.
    """
    if not isinstance(contexts, list):
        raise DataError(f"{name}: not TAT-QA's form: give a list of objects with table, paragraphs and questions")
    known_ids: set[str] = set()
    for index, entry in enumerate(contexts):
        if not isinstance(entry, Mapping):
            yield f"context-{index}", ValueError("it is no object with table, paragraphs and questions")
            continue
        table = entry.get("table")
        table_uid = table.get("uid") if isinstance(table, Mapping) else None
        context = table_uid if isinstance(table_uid, str) and table_uid else f"context-{index}"
        raw_questions: Any = entry.get("questions")
        raw_questions = raw_questions if isinstance(raw_questions, list) else []
        uids = [_question_id(raw, f"{context}-{q}") for q, raw in enumerate(raw_questions)]
        try:
            raw_table = table.get("table") if isinstance(table, Mapping) else table
            rows = fill_rows(raw_table)
            orders, texts = _parse_paragraphs(entry.get("paragraphs"))
            if not uids:
                raise ValueError("it has no questions")
        except ValueError as error:
            yield from ((uid, error) for uid in uids or [context])
            continue
        shared = {"context": context, "table": json.dumps(rows, ensure_ascii=False)}
        table_note = "" if answered else describe_ragged(raw_table)
        shared["paragraphs"] = json.dumps(texts, ensure_ascii=False)
        for uid, raw in zip(uids, raw_questions, strict=True):
            try:
                record = {"id": uid} | shared | _parse_question(raw, orders, answered)
                if uid in known_ids:
                    raise ValueError("a question before it has the same uid: give each its own")
            except ValueError as error:
                yield uid, error
                continue
            if note := "; ".join(filter(None, (table_note, record.pop("mended", "")))):
                record["mended"] = note
            known_ids.add(uid)
            yield uid, record


def from_csv(path: pathlib.Path) -> Records:
    """The questions about a user's table: PATH.csv holds the table, with commas, semicolons or tabs between the
    cells, and PATH.txt the paragraphs and questions.

    In PATH.txt each line that begins with "Q:" is a question; the others are paragraphs, with empty lines between.

    Raises:
      DataError: one of the files is missing or cannot be read.
    """
    text_file, table = path.with_suffix(".txt"), _load_table(path)
    if not text_file.exists():
        raise DataError(f"{text_file}: not there: put the paragraphs into it, and each question on a line behind Q:")
    paragraphs, questions, lines = [], [], []
    for line in [*_load_text(text_file).splitlines(), ""]:
        if match := QUESTION.match(line):
            questions.append(line[match.end() :].strip())
        elif line.strip():
            lines.append(line.strip())
            continue
        if lines:
            paragraphs.append(" ".join(lines))
            lines = []
    if not questions:
        raise DataError(f"{text_file}: no question there: begin a line with Q:")
    entry = {
        "table": {"uid": path.stem, "table": table},
        "paragraphs": [{"order": i, "text": text} for i, text in enumerate(paragraphs, 1)],
        "questions": [{"question": text} for text in questions],
    }
    return from_contexts([entry], str(path), answered=False)


def from_file(path: str) -> Records | None:
    """The questions of a .json or .json.gz file in TAT-QA's form, answered or not, or of a .csv file; None for any
    other file.

    Raises:
      DataError: the file cannot be read.
    """
    file = pathlib.Path(path)
    if file.suffix.lower() == ".csv":
        return from_csv(file)
    if not file.name.lower().endswith((".json", ".json.gz")):
        return None
    text = _load_text(file)
    try:
        contexts = json.loads(text)
    except RecursionError:
        raise DataError(f"{path}: the JSON nests too deeply; write it again") from None
    except json.JSONDecodeError as error:
        lines = error.msg == "Extra data" and error.lineno > 1
        remedy = "name it .jsonl if each line is a record" if lines else "write it again"
        raise DataError(f"{path}: the JSON breaks off or is wrong at line {error.lineno}: {remedy}") from None
    except ValueError:
        raise DataError(f"{path}: a number of the JSON is endless; write it again") from None
    return from_contexts(contexts if isinstance(contexts, list) else [contexts], path, answered=False)


def fill_rows(table: Any) -> list[list[str]]:
    """The rows of a table, with short rows filled up with empty cells.

    Raises:
      ValueError: the table cannot be used.
    """
    if not isinstance(table, list) or not all(isinstance(row, list) for row in table):
        raise ValueError("its table is no list of rows")
    rows = [[fields.cell(cell, number) for cell in row] for number, row in enumerate(table, 1)]
    if not any(cell.strip() for row in rows for cell in row):
        raise ValueError("its table is empty")
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def describe_ragged(table: Any) -> str:
    """A note that rows of different lengths are filled up; "" if all have the same length."""
    lengths = [len(row) for row in table if isinstance(row, list)] if isinstance(table, list) else []
    other = next((index for index, length in enumerate(lengths) if length != lengths[0]), None)
    if other is None:
        return ""
    quotes = "; cells that hold what parts cells want quotation marks" if lengths[other] > lengths[0] else ""
    return (
        f"its rows differ in length (row {other + 1} has {lengths[other]} cells, the first {lengths[0]}): filled up "
        f"with empty cells{quotes}"
    )


def _load_table(path: pathlib.Path) -> list[list[str]]:
    """The rows of a CSV file, with the delimiter that makes most rows equally long."""
    csv.field_size_limit(1 << 24)
    text, begin = _load_text(path), 1

    def reader(delimiter: str, strict: bool) -> Any:
        # Behind a tab a blank may be a whole cell; behind the other delimiters it may precede a quotation mark.
        return csv.reader(
            io.StringIO(text, newline=""), delimiter=delimiter, strict=strict, skipinitialspace=delimiter != "\t"
        )

    rows = []
    try:
        # A wrong delimiter may misplace quotation marks, so only the chosen one is parsed strictly.
        delimiter_chosen = max(DELIMITERS, key=lambda delimiter: _count_alike(list(reader(delimiter, strict=False))))
        lines = reader(delimiter_chosen, strict=True)
        for row in lines:
            if len(row) > 1 or any(cell.strip() for cell in row):  # no empty line
                rows.append(row)
            begin = lines.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}: line {begin} begins no row of a table ({error}); see to its quotation marks"
        ) from None
    return rows


def _count_alike(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """(count of the most frequent length among rows with several cells, that length)."""
    lengths = Counter(len(row) for row in rows if len(row) > 1)
    return max(((count, length) for length, count in lengths.items()), default=(0, 0))


def _question_id(question: Any, name: str) -> str:
    """A question's id, or `name` if it has none."""
    uid = question.get("uid") if isinstance(question, Mapping) else None
    return uid if isinstance(uid, str) and uid else name


def _parse_paragraphs(raw_paragraphs: Any) -> tuple[list[str], list[str]]:
    """(the paragraphs' numbers, their texts); empty paragraphs are left out."""
    if raw_paragraphs is None:
        raw_paragraphs = []
    if not isinstance(raw_paragraphs, list):
        raise ValueError("its paragraphs are no list")
    orders, texts = [], []
    for number, paragraph in enumerate(raw_paragraphs, 1):
        text = paragraph.get("text") if isinstance(paragraph, Mapping) else paragraph
        if not isinstance(text, str):
            raise ValueError(f"paragraph {number} has no text")
        if text.strip():
            orders.append(str(paragraph.get("order", number)) if isinstance(paragraph, Mapping) else str(number))
            texts.append(text)
    return orders, texts


def _parse_question(raw: Any, orders: Sequence[str], answered: bool) -> dict[str, Any]:
    text = raw.get("question") if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it has no question")
    if answered:
        return {"question": text} | _parse_answer(raw, orders)
    if raw.get("answer") in (None, "", []) or raw.get("answer_type") in (None, ""):
        return {"question": text} | UNANSWERED
    try:
        return {"question": text} | _parse_answer(raw, orders)
    except ValueError as error:
        return {"question": text, "mended": f"taken to be without an answer: {error}"} | UNANSWERED


def _parse_answer(raw: Mapping[str, Any], orders: Sequence[str]) -> dict[str, Any]:
    """The fields of a question's answer.

    Raises:
      ValueError: a field has a value that TAT-QA does not have.
    """
    parsed = {}
    for name, allowed in (("answer_type", TYPES), ("answer_from", SOURCES), ("scale", SCALES)):
        value = raw.get(name)
        if value not in allowed:
            raise ValueError(f"its {name} {value!r} is none of {', '.join(map(repr, allowed))}")
        parsed[name] = value
    answer = parse_gold(raw.get("answer"), parsed["answer_type"])
    derivation = raw.get("derivation") or ""
    related = raw.get("rel_paragraphs") or []
    if not isinstance(derivation, str) or not isinstance(related, list):
        raise ValueError("its derivation is no text, or its rel_paragraphs no list")
    paragraph_indices = [orders.index(str(order)) for order in related if str(order) in orders]
    return parsed | {
        "answer": json.dumps(answer, ensure_ascii=False),
        "derivation": derivation,
        "rel_paragraphs": json.dumps(paragraph_indices),
        "mapping": json.dumps(parse_mapping(raw.get("mapping"))),
    }


def parse_mapping(mapping: Any) -> list[list[int]]:
    """[row, column] of each cell that an answer is based on, if the question says so; TAT-QA's raw form has them
    under "table"."""
    cells = mapping.get("table") if isinstance(mapping, Mapping) else mapping
    pairs = [pair for pair in cells if isinstance(pair, list)] if isinstance(cells, list) else []
    return [pair for pair in pairs if len(pair) == 2 and all(type(part) is int and part >= 0 for part in pair)]


def parse_gold(answer: Any, kind: str) -> Any:
    """An answer in the form of its type: a list of texts for spans, an integer for counts, else a number.

    Raises:
      ValueError: it does not have this form.
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


def _load_text(path: pathlib.Path) -> str:
    try:
        return files.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert it") from None
