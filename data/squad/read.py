"""Reads SQuAD 1.1's files: {"data": [{title, paragraphs: [{context, qas: [{id, question, answers}]}]}]}, with answers
{text, answer_start}."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from ..files import read_json

KINDS = (".json", ".json.gz")
LOW, HIGH = 1, 30_000  # of the numbers in DICE's sub-splits

_TEST = re.compile(r"(?:^|[/_.-])(?:test|dev)(?:[/_.-]|$)")
_DIGITS = re.compile(r"[0-9]+")


def find_files(path: str) -> list[pathlib.Path]:
    """Returns `path` itself if it is a file, else the JSON files under it, also packed by gzip.

    Raises:
      DataError: there are no such files.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if root.is_file():
        return [root]
    files = sorted(file for kind in KINDS for file in root.rglob(f"*{kind}") if file.is_file())
    if not files:
        raise DataError(f"{root}: no such file, and no {' or '.join(KINDS)} below; set path to SQuAD's files")
    return files


def is_test(path: pathlib.Path) -> bool:
    """Whether a file's name is that of a development or test set."""
    return _TEST.search(path.name.lower()) is not None


def read_questions(path: pathlib.Path) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """Yields (id, record or the error why it cannot be used) for each question of a file.

    Raises:
      DataError: the file is not SQuAD's JSON.
    """
    return parse_articles(read_json(path), str(path))


def parse_articles(content: Any, name: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """Yields the same as `read_questions` for the JSON's content; messages give its `name`."""
    articles = content.get("data") if isinstance(content, Mapping) else None
    if not isinstance(articles, list):
        raise DataError(f'{name}: not SQuAD\'s form: no list under "data"; give a file such as train-v1.1.json')
    for a, article in enumerate(articles):
        paragraphs = article.get("paragraphs") if isinstance(article, Mapping) else None
        if not isinstance(paragraphs, list):
            yield f"article-{a}", ValueError("it has no paragraphs")
            continue
        title = article.get("title")
        title = title if isinstance(title, str) else f"article-{a}"
        for p, paragraph in enumerate(paragraphs):
            questions = paragraph.get("qas") if isinstance(paragraph, Mapping) else None
            if not isinstance(questions, list):
                yield f"{title}-{p}", ValueError("it has no questions")
                continue
            for q, raw in enumerate(questions):
                given_id = raw.get("id") if isinstance(raw, Mapping) else None
                question_id = given_id if isinstance(given_id, str) and given_id else f"{title}-{p}-{q}"
                try:
                    yield (
                        question_id,
                        {"id": question_id, "title": title} | parse_question(raw, paragraph.get("context")),
                    )
                except ValueError as error:
                    yield question_id, error


def parse_question(raw: Any, context: Any) -> dict[str, Any]:
    """Returns a question with its context. The first answer is the target; all answers count as right.

    Raises:
      ValueError: the question cannot be used.
    """
    text = raw.get("question") if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it has no question")
    if not isinstance(context, str) or not context.strip():
        raise ValueError("it has no context")
    answers = raw.get("answers")
    if not isinstance(answers, list) or not answers:
        raise ValueError("it has no answer")
    for answer in answers:
        if not isinstance(answer, Mapping) or not isinstance(answer.get("text"), str) or not answer["text"].strip():
            raise ValueError("an answer has no text")
    first, start = answers[0]["text"], answers[0].get("answer_start")
    if not isinstance(start, int) or start < 0 or context[start : start + len(first)] != first:
        raise ValueError(f"its answer {first[:40]!r} does not stand at answer_start={start!r}")
    golds = json.dumps([answer["text"] for answer in answers], ensure_ascii=False)
    return {"question": text, "context": context, "answer": first, "answer_start": start, "answers": golds}


def is_strictly_numeric(answer: str) -> bool:
    """Whether an answer is only digits with a value in [1, 30000] (sub-split 1, and the tests of both)."""
    if _DIGITS.fullmatch(answer) is None:
        return False
    digits = answer.lstrip("0")
    # Python refuses to convert thousands of digits.
    return len(digits) <= len(str(HIGH)) and LOW <= int(digits or "0") <= HIGH


def has_number(answer: str) -> bool:
    """Whether a word of an answer is strictly numeric, as in "10 apples" (the training set of sub-split 2)."""
    return any(is_strictly_numeric(word) for word in answer.split())
