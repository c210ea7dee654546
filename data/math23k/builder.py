"""Math23K in English: word problems with the equation that solves them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from .. import folds
from ..builder import ArrayRecordBuilder
from .generate import records
from .read import check_record, find_file, read

STAND_IN_SIZE = 6000


class Math23k(ArrayRecordBuilder):
    """Options: `path` of the published file or its folder, or empty for the stand-in; `fold` from 0 to `folds` − 1,
    which is the test split; `size`, at most so many records (0: all of the file, 6,000 of the stand-in); `seed` of
    the folds and of the stand-in."""

    FIELDS = {"id": str, "text_en": str, "equation": str, "ans": str, "template": int}
    OPTIONS = {"path": "", **folds.OPTIONS}
    KEYS = {"text_en": ("text_en",), "(text_en, equation)": ("text_en", "equation")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        folds.check(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [find_file(options["path"])] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        files = self.files(self.options)
        source = read(files[0]) if files else records(size or STAND_IN_SIZE, seed)
        kept: list[dict[str, Any]] = []
        for place, raw in enumerate(source):
            if size and len(kept) == size:
                break
            record_id = str(raw["id"]) if isinstance(raw, Mapping) and "id" in raw else str(place)
            try:
                kept.append({"id": f"math23k-{record_id}", "template": -1} | check_record(raw))
            except ValueError as error:
                self.skip(f"math23k-{record_id}", str(error))
        if len(kept) < self.options["folds"]:
            counted = f"{len(kept)} usable records are too few for {self.options['folds']} folds"
            raise DataError(f"{self.name}: {counted}{self._first_skip()}")
        for split, places in folds.folded(len(kept), self.options["fold"], self.options["folds"], seed).items():
            for i in places:
                yield split, kept[i]


Builder = Math23k
