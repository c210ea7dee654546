"""TAT-QA's JSON: tables with paragraphs and questions, as files and as records of a user."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile

from numjax.errors import DataError
from numjax.tasks.tatqa import records, task
from numjax.text import document

SEEDS = (
    b'[{"table": {"uid": "t", "table": [["", "2019"], ["revenue", "1,200"]]}, "paragraphs": [{"order": 1, "text": '
    b'"In thousands."}], "questions": [{"uid": "q", "question": "What was it?", "answer": ["1,200"], "scale": '
    b'"thousand", "answer_type": "span", "answer_from": "table", "derivation": "", "rel_paragraphs": []}]}]',
    b'{"table": [["a", 1], ["b", null]], "paragraphs": ["x"], "questions": [{"question": "how many?"}]}',
)

FOLDER = tempfile.TemporaryDirectory()


def check(data: bytes) -> None:
    """A file gives records or reasons; a record is an example or has a reason."""
    path = pathlib.Path(FOLDER.name, "questions.json")
    path.write_bytes(data)
    with contextlib.suppress(DataError):
        for name, record in records.from_file(str(path)) or ():
            assert name and (isinstance(record, ValueError) or record["question"])
            if not isinstance(record, ValueError):
                with contextlib.suppress(DataError):
                    task.Task().example(record, document.parse)
