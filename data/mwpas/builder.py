"""MWPAS: math word problems of addition and subtraction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from .generate import KINDS, records


class Mwpas(ArrayRecordBuilder):
    """Options: `negatives` "plain" or "hard", `size` problems in all (a multiple of 40; the paper's
    40,000), `seed`."""

    FIELDS = {
        "id": str,
        "question": str,
        "answer": str,
        "label": int,
        "kind": str,
        "operation": str,
        "template": int,
        "a": int,
        "b": int,
    }
    OPTIONS = {"negatives": "plain", "size": 40_000, "seed": 0}
    KEYS = {"(template, a, b)": ("template", "a", "b")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["negatives"] not in KINDS:
            raise UsageError(f"{cls.name}: negatives={options['negatives']!r} is none of {', '.join(KINDS)}")

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return records(**self.options)


Builder = Mwpas
