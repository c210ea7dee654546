"""OFEQ-10k and EXEQ-300k: questions on mathematics and their headlines."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import TEST_SHARE, VALIDATION_SHARE, hashed_split
from .generate import pairs as generated
from .read import Pair, fault_of, find_files, pairs, regions, with_signs

STAND_IN_SIZE = 6000
CHOICES = {"region": ("all", "formula", "text"), "splits": ("files", "divided"), "marks": ("signs", "names")}


class Mathsum(ArrayRecordBuilder):
    """Options: `path` of the published files' folder, or empty for the stand-in; `region` "all" of a headline, or
    each "formula" or "text" of it; `splits` as the "files" give it, or "divided" anew; `marks` of brackets and quotes
    as "signs" or by their "names"; `size`, at most so many questions of a file (0: all; 6,000 of the stand-in);
    `seed` of the division and of the stand-in."""

    FIELDS = {"id": str, "post": str, "prefix": str, "headline": str}
    OPTIONS = {"path": "", "region": "all", "splits": "files", "marks": "signs", "size": 0, "seed": 221}
    KEYS = {"post": ("post",), "(post, prefix, headline)": ("post", "prefix", "headline")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        for name, choices in CHOICES.items():
            if options[name] not in choices:
                raise UsageError(f"{cls.name}: {name}={options[name]!r} is none of {', '.join(choices)}")
        if options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative; 0 takes all")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [path for both in find_files(options["path"]).values() for path in both] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = self.options
        size = options["size"]
        if not options["path"]:
            made = generated(size or STAND_IN_SIZE, options["seed"])
            yield from self._records("", (Pair(line, *pair) for line, pair in enumerate(made, 1)), 0)
            return
        found = find_files(options["path"])
        divided = options["splits"] == "divided"
        if "train" not in found and not divided:
            raise DataError(
                f"{self.name}: {options['path']} has no post.train with its title.train, only {', '.join(found)}: "
                "set splits=divided to divide what there is"
            )
        for split, both in found.items():
            whole = split != "train" or "validation" in found
            yield from self._records("" if divided else split, pairs(*both), size, both[0].name, whole)

    def _records(
        self, split: str, source: Iterator[Pair], size: int, name: str = "made", whole: bool = True
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(split, record) of lines of a split, or of lines that are to be divided (split "").

        Args:
          size: at most so many lines that can be used; 0 is all. whole: no validation is taken from the split.
        """
        seed, kept = self.options["seed"], 0
        for pair in source:
            if size and kept == size:
                break
            place = f"mathsum-{name.removeprefix('post.').removesuffix('.gz')}-{pair.line:06d}"
            post, title = pair.post, pair.title
            fault = fault_of("question", post) or fault_of("headline", title)
            if post is None or title is None or fault:
                self.skip(place, fault)
                continue
            kept += 1
            chosen = split
            if not split:
                chosen = hashed_split(post, seed, VALIDATION_SHARE * (1 - TEST_SHARE), TEST_SHARE)
            elif not whole:
                chosen = hashed_split(post, seed, VALIDATION_SHARE, 0.0)
            if self.options["marks"] == "signs":
                post, title = with_signs(post), with_signs(title)
            for number, region in enumerate(regions(title, self.options["region"])):
                record_id = place if self.options["region"] == "all" else f"{place}.{number}"
                yield chosen, {"id": record_id, "post": post, **region._asdict()}


Builder = Mathsum
