"""The magnitude of a masked number in real news: AG News and Financial PhraseBank."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import TEST_SHARE, VALIDATION_SHARE, split_by_hash
from .numbers import find_numbers, group_articles
from .read import find_files, read_articles


class News(ArrayRecordBuilder):
    """Options: `path` of the files' folder; `num_classes` 8, or 7 (magnitude 7 counts as 6); `size`, at most so many
    records (0: all); `seed` of the split."""

    FIELDS = {"id": str, "text": str, "number": str, "offset": int, "length": int, "magnitude": int, "label": int}
    FIELDS |= {"article": str}
    OPTIONS = {"path": "", "num_classes": 8, "size": 0, "seed": 0}
    KEYS = {"text": ("text",), "article": ("article",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["num_classes"] not in (7, 8):
            raise UsageError(f"{cls.name}: num_classes={options['num_classes']} is neither 7 nor 8")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        if not options["path"]:
            raise UsageError(
                f"{cls.name}: set path to the folder of AG News or Financial PhraseBank; none is included"
            )
        return find_files(options["path"])

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        articles = dict(self._read_articles())
        if not articles:
            raise DataError(f"{self.name}: no article is left{self._first_skip()}")
        groups = group_articles(list(articles.values()))
        names, n_kept = list(articles), 0
        for name, group in zip(names, groups, strict=True):
            split = split_by_hash(names[group], seed, VALIDATION_SHARE * (1 - TEST_SHARE), TEST_SHARE)
            for part, text in enumerate(articles[name]):
                for offset, number, magnitude in find_numbers(text):
                    if size and n_kept == size:
                        return
                    n_kept += 1
                    label = min(magnitude, self.options["num_classes"] - 1)
                    place = {"id": f"{name}-{part}-{offset}", "text": text, "number": number, "offset": offset}
                    place |= {"length": len(number), "magnitude": magnitude, "label": label, "article": name}
                    yield split, place

    def _read_articles(self) -> Iterator[tuple[str, list[str]]]:
        """Yields (name, texts) of the articles of all files; two files of one name are told apart by a number."""
        counts: Counter[str] = Counter()
        for path in self.files(self.options):
            stem = path.name.partition(".")[0]
            counts[stem] += 1
            suffix = f".{counts[stem]}" if counts[stem] > 1 else ""
            for name, texts in read_articles(path):
                if isinstance(texts, ValueError):
                    self.skip(name + suffix, str(texts))
                else:
                    yield name + suffix, texts


Builder = News
