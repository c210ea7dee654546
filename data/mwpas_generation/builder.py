"""MWPAS as a generation task: the right answers above 10,000."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..builder import ArrayRecordBuilder
from ..mwpas.generate import generate_records

LEAST = 10_000


class MwpasGeneration(ArrayRecordBuilder):
    """Options: `size` problems of MWPAS, whose large answers are taken (a multiple of 40; the paper's
    40,000), `seed`."""

    FIELDS = {
        "id": str,
        "prompt": str,
        "question": str,
        "answer": str,
        "operation": str,
        "template": int,
        "a": int,
        "b": int,
    }
    OPTIONS = {"size": 40_000, "seed": 0}
    KEYS = {"(template, a, b)": ("template", "a", "b")}

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for split, record in generate_records(**self.options, negatives="plain"):
            if record["kind"] == "positive" and int(record["answer"]) > LEAST:
                fields = {name: value for name, value in record.items() if name in self.FIELDS}
                yield split, {**fields, "prompt": f"Q: {record['question']} A:"}


Builder = MwpasGeneration
