"""MWPAS: math word problems of addition and subtraction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from . import composed, generate
from .generate import KINDS

WORDINGS = {"paper": generate.generate_records, "many": composed.generate_records}


class Mwpas(ArrayRecordBuilder):
    """Options: `negatives` "plain" or "hard", `size` problems in all (a multiple of 40; the paper's
    40,000), `seed`, `wordings` ("paper": twenty templates; "many": composed from plans, with the fields `stream` and
    `steps` in place of `template`, `a` and `b`)."""

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
    OPTIONS = {"negatives": "plain", "size": 40_000, "seed": 0, "wordings": "paper"}
    UNNAMED = {"wordings": "paper"}
    KEYS = {"(template, a, b)": ("template", "a", "b")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["negatives"] not in KINDS:
            raise UsageError(f"{cls.name}: negatives={options['negatives']!r} is none of {', '.join(KINDS)}")
        if options["wordings"] not in WORDINGS:
            raise UsageError(f"{cls.name}: wordings={options['wordings']!r}: choose one of {', '.join(WORDINGS)}")

    @property
    def fields(self) -> Mapping[str, type]:
        if self.options["wordings"] == "paper":
            return self.FIELDS
        fields = {name: kind for name, kind in self.FIELDS.items() if name not in ("template", "a", "b")}
        return fields | {"stream": str, "steps": int}

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = dict(self.options)
        return WORDINGS[options.pop("wordings")](**options)


Builder = Mwpas
