"""MME: measurement estimation with a multiplier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from . import generate

WORDINGS = {"paper": generate.generate_records, "many": generate.generate_many_records}


class Mme(ArrayRecordBuilder):
    """Options: `size` samples in all (a multiple of 40; the paper's 20,000), `seed`, `wordings` ("paper": four
    templates; "many": see wordings.py, with the fields `wording` and `stream`)."""

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
    OPTIONS = {"size": 20_000, "seed": 0, "wordings": "paper"}
    UNNAMED = {"wordings": "paper"}
    KEYS = {
        "(multiplier, object, answer)": ("multiplier", "object", "answer"),
        "(template, object, multiplier)": ("template", "object", "multiplier"),
    }

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["wordings"] not in WORDINGS:
            raise UsageError(f"{cls.name}: wordings={options['wordings']!r}: choose one of {', '.join(WORDINGS)}")

    @property
    def fields(self) -> Mapping[str, type]:
        extra_fields = {"wording": str, "stream": str} if self.options["wordings"] == "many" else {}
        return self.FIELDS | extra_fields

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = dict(self.options)
        return WORDINGS[options.pop("wordings")](**options)


Builder = Mme
