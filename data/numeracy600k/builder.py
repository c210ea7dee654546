"""Numeracy-600K: the magnitude of a masked number in a headline or a market comment."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import TEST_SHARE, VALIDATION_SHARE, split_by_hash
from .generate import generate_records
from .read import TEXT_KEY, check_record, find_file, read_array

STAND_IN_SIZE = 60_000


class Numeracy600k(ArrayRecordBuilder):
    """Options: `variant` "titles" or "comments"; `num_classes` 8, or 7 (magnitude 7 counts as 6); `path` of
    the published files' folder, or empty for the stand-in; `size`, at most this many records (0: all of the
    file, 60,000 of the stand-in); `seed` of the split and of the stand-in."""

    FIELDS = {
        "id": str,
        "text": str,
        "number": str,
        "offset": int,
        "length": int,
        "magnitude": int,
        "label": int,
        "source_id": str,
        "publish_date": str,
        "story": str,
    }
    OPTIONS = {"variant": "titles", "num_classes": 8, "path": "", "size": 0, "seed": 0}
    KEYS = {"(text, offset)": ("text", "offset"), "text": ("text",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["variant"] not in TEXT_KEY:
            raise UsageError(f"{cls.name}: variant={options['variant']!r} is none of {', '.join(TEXT_KEY)}")
        if options["num_classes"] not in (7, 8):
            raise UsageError(f"{cls.name}: num_classes={options['num_classes']} is neither 7 nor 8")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [find_file(options["path"], options["variant"])] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        variant, size, seed = (self.options[name] for name in ("variant", "size", "seed"))
        files = self.files(self.options)
        source = read_array(files[0]) if files else generate_records(variant, size or STAND_IN_SIZE, seed)
        n_kept = 0
        for index, raw in enumerate(source):
            if size and n_kept == size:
                break
            record_id = f"{variant}-{index:06d}"
            try:
                record = check_record(raw, variant)
            except ValueError as error:
                source_id = f" (id {raw['id']})" if isinstance(raw, dict) and "id" in raw else ""
                self.skip(record_id + source_id, str(error))
                continue
            n_kept += 1
            label = min(record["magnitude"], self.options["num_classes"] - 1)
            test = TEST_SHARE
            split = split_by_hash(record["text"], seed, VALIDATION_SHARE * (1 - test), test)
            yield split, {"id": record_id, "label": label, **record}


Builder = Numeracy600k
