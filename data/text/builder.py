"""Running text of any origin, for pre-training."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import split_by_hash
from .read import SUFFIXES, list_files, name_below, read_file


class TextBuilder(ArrayRecordBuilder):
    """Options: `path` of a folder or file; `validation` and `test`, the shares of documents in these splits;
    `seed` of the split."""

    name = "text"  # of the dataset; by default it is that of the class
    FIELDS = {"id": str, "text": str}
    OPTIONS = {"path": "", "validation": 0.05, "test": 0.05, "seed": 0}
    KEYS = {"text": ("text",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if not options["path"]:
            raise UsageError(f"{cls.name}: no path; set path=FOLDER to a folder of text")
        validation, test = options["validation"], options["test"]
        if not (0 <= validation and 0 <= test and validation + test < 1):
            raise UsageError(
                f"{cls.name}: validation={validation} and test={test} must be shares whose sum is below 1"
            )

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        root = pathlib.Path(options["path"]).expanduser()
        if not root.exists():
            raise DataError(f"{root}: no such file or folder; set path to a folder of text")
        files = list_files(root)
        if not files:
            raise DataError(f"{root}: no {', '.join(SUFFIXES)} file there; set path to a folder of text")
        return files

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        root = pathlib.Path(self.options["path"]).expanduser()
        shares = self.options["seed"], self.options["validation"], self.options["test"]
        for path in self.files(self.options):
            name, empty = name_below(path, root), True
            for line, text, reason in read_file(path):
                empty = False
                record_id = f"{name}:{line}" if line else name
                if text is None:
                    self.skip(record_id, reason)
                else:
                    yield split_by_hash(text, *shares), {"id": record_id, "text": text}
            if empty:
                self.skip(name, "holds no document")


Builder = TextBuilder
