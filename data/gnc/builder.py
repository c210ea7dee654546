"""GNC: general number comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..builder import ArrayRecordBuilder
from .generate import generate_records


class Gnc(ArrayRecordBuilder):
    """Options: `size` statements in all (a multiple of 40; the paper's 40,000), `seed`."""

    FIELDS = {"id": str, "question": str, "label": int, "template": int, "a": int, "b": int}
    OPTIONS = {"size": 40_000, "seed": 0}
    KEYS = {"(template, a, b)": ("template", "a", "b")}

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return generate_records(**self.options)


Builder = Gnc
