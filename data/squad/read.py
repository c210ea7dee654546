"""SQuAD 1.1's files: {"data": [{title, paragraphs: [{context, qas: [{id, question, answers}]}]}]}, and each of the
answers is {text, answer_start}."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from ..files import parsed

KINDS = (".json", ".json.gz")
LOW, HIGH = 1, 30_000  # of the numbers in DICE's sub-splits

_TEST = re.compile(r"(?:^|[/_.-])(?:test|dev)(?:[/_.-]|$)")
_DIGITS = re.compile(r"[0-9]+")


def find_files(path: str) -> list[pathlib.Path]:
    """The JSON files that `path` names, also packed by gzip: itself, or those under a folder.

    Raises:
      DataError: there are none.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if root.is_file():
        return [root]
    found = sorted(file for kind in KINDS for file in root.rglob(f"*{kind}") if file.is_file())
    if not found:
        raise DataError(f"{root}: no such file, and no {' or '.join(KINDS)} below; set path to SQuAD's files")
    return found


def is_test(path: pathlib.Path) -> bool:
    """Whether a file's name says that it is of the development or test set."""
    return _TEST.search(path.name.lower()) is not None


def questions(path: pathlib.Path) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """(id, record; or what is wrong with it) of each question of a file.

    Raises:
      DataError: it is not SQuAD's JSON.
    """
    return of_articles(parsed(path), str(path))


def of_articles(found: Any, name: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """As `questions`, of what the JSON holds; `name` is for messages."""
    articles = found.get("data") if isinstance(found, Mapping) else None
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
            asked = paragraph.get("qas") if isinstance(paragraph, Mapping) else None
            if not isinstance(asked, list):
                yield f"{title}-{p}", ValueError("it has no questions")
                continue
            for q, raw in enumerate(asked):
                known = raw.get("id") if isinstance(raw, Mapping) else None
                one = known if isinstance(known, str) and known else f"{title}-{p}-{q}"
                try:
                    yield one, {"id": one, "title": title} | question(raw, paragraph.get("context"))
                except ValueError as error:
                    yield one, error


def question(raw: Any, context: Any) -> dict[str, Any]:
    """A question with its context; the first answer is the one to learn, all count as right.

    Raises:
      ValueError: why it cannot be used.
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


def strictly_numeric(answer: str) -> bool:
    """Whether an answer is digits and nothing else, and its value in [1, 30000] (sub-split 1, and both tests)."""
    if _DIGITS.fullmatch(answer) is None:
        return False
    digits = answer.lstrip("0")
    # Python refuses to read thousands of digits.
    return len(digits) <= len(str(HIGH)) and LOW <= int(digits or "0") <= HIGH


def has_number(answer: str) -> bool:
    """Whether one of an answer's words is such a number, as in "10 apples" (the training set of sub-split 2)."""
    return any(strictly_numeric(word) for word in answer.split())
