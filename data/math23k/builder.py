"""Math23K in English: word problems with the equation that solves them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..folds import FoldedBuilder
from .generate import generate_records
from .read import check_record, find_file, read_problems


class Math23k(FoldedBuilder):
    """Options: `path` of the published file or its folder, or empty for the stand-in; `fold` from 0 to `folds` − 1,
    which is the test split; `size`, at most this many records (0: all of the file, 6,000 of the stand-in); `seed` of
    the folds and of the stand-in."""

    FIELDS = {"id": str, "text_en": str, "equation": str, "ans": str, "template": int}
    KEYS = {"text_en": ("text_en",), "(text_en, equation)": ("text_en", "equation")}
    STAND_IN_SIZE = 6000

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [find_file(options["path"])] if options["path"] else []

    def read_records(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return _check_records(read_problems(paths[0]))

    def make_records(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return _check_records(generate_records(size, seed))


def _check_records(source: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    for index, raw in enumerate(source):
        name = str(raw["id"]) if isinstance(raw, Mapping) and "id" in raw else str(index)
        try:
            yield name, {"template": -1} | check_record(raw) | {"id": f"math23k-{name}"}
        except ValueError as error:
            yield name, error


Builder = Math23k
