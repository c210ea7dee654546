"""MME: measurement estimation with a multiplier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..builder import ArrayRecordBuilder
from .generate import records


class Mme(ArrayRecordBuilder):
    """Options: `size` samples in all (a multiple of 40; the paper's 20,000), `seed`."""

    FIELDS = {
        "id": str,
        "question": str,
        "answer": str,
        "label": int,
        "template": int,
        "object": str,
        "unit": str,
        "multiplier": int,
        "answer_min": int,
        "answer_max": int,
    }
    OPTIONS = {"size": 20_000, "seed": 0}
    KEYS = {
        "(multiplier, object, answer)": ("multiplier", "object", "answer"),
        "(template, object, multiplier)": ("template", "object", "multiplier"),
    }

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return records(**self.options)


Builder = Mme
