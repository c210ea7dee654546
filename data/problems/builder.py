"""Builder of word problems that are composed from plans, with their equations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from .generate import generate_records


class Problems(ArrayRecordBuilder):
    """Options: `size` training problems, `test` problems in each stream of the test split, `seed`, `invented`
    (percent of the things that are invented words), `wordings` (number of training forms; 0: all)."""

    VERSION = tfds.core.Version("1.1.0")  # with stories around the facts
    FIELDS = {
        "id": str,
        "text_en": str,
        "equation": str,
        "ans": str,
        "situation": str,
        "steps": int,
        "stream": str,
        "form": str,
    }
    OPTIONS = {"size": 20_000, "test": 300, "seed": 0, "invented": 30, "wordings": 0}
    KEYS = {"text_en": ("text_en",), "form": ("form",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["size"] < 1 or options["test"] < 1 or options["wordings"] < 0:
            raise UsageError(f"{cls.name}: size and test are at least 1, wordings at least 0")
        if not 0 <= options["invented"] <= 100:
            raise UsageError(f"{cls.name}: invented={options['invented']} is a percentage, from 0 to 100")

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = dict(self.options)
        return generate_records(**(options | {"invented": options["invented"] / 100}))


Builder = Problems
