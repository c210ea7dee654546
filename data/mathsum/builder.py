"""OFEQ-10k and EXEQ-300k: questions on mathematics and their headlines."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..builder import ArrayRecordBuilder
from ..sampling import TEST_SHARE, VALIDATION_SHARE, split_by_hash
from .generate import generate_pairs as generate_stand_in
from .read import Pair, find_fault, find_files, find_regions, read_pairs, restore_signs

STAND_IN_SIZE = 6000
CHOICES = {"region": ("all", "formula", "text"), "splits": ("files", "divided"), "marks": ("signs", "names")}


class Mathsum(ArrayRecordBuilder):
    """Options: `path` of the published files' folder, or empty for the stand-in; `region` "all" of a headline, or
    each "formula" or "text" of it; `splits` as in the "files", or "divided" anew; `marks` of brackets and quotes
    as "signs" or by their "names"; `size`, at most this many questions of a file (0: all; 6,000 of the stand-in);
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

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [path for paths in find_files(options["path"]).values() for path in paths] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        options = self.options
        size = options["size"]
        if not options["path"]:
            stand_in = generate_stand_in(size or STAND_IN_SIZE, options["seed"])
            yield from self._make_records("", (Pair(line, *pair) for line, pair in enumerate(stand_in, 1)), 0)
            return
        files = find_files(options["path"])
        is_divided = options["splits"] == "divided"
        if "train" not in files and not is_divided:
            raise DataError(
                f"{self.name}: {options['path']} has no post.train with its title.train, only {', '.join(files)}: "
                "set splits=divided to divide what there is"
            )
        for split, paths in files.items():
            is_whole = split != "train" or "validation" in files
            yield from self._make_records(
                "" if is_divided else split, read_pairs(*paths), size, paths[0].name, is_whole
            )

    def _make_records(
        self, split: str, source: Iterator[Pair], size: int, name: str = "made", is_whole: bool = True
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields (split, record) of lines of a split, or of lines to divide (split "").

        Args:
          size: at most this many usable lines; 0 is all. is_whole: no validation split is taken from the split.
        """
        seed, n_kept = self.options["seed"], 0
        for pair in source:
            if size and n_kept == size:
                break
            line_id = f"mathsum-{name.removeprefix('post.').removesuffix('.gz')}-{pair.line:06d}"
            post, title = pair.post, pair.title
            fault = find_fault("question", post) or find_fault("headline", title)
            if post is None or title is None or fault:
                self.skip(line_id, fault)
                continue
            n_kept += 1
            target_split = split
            if not split:
                target_split = split_by_hash(post, seed, VALIDATION_SHARE * (1 - TEST_SHARE), TEST_SHARE)
            elif not is_whole:
                target_split = split_by_hash(post, seed, VALIDATION_SHARE, 0.0)
            if self.options["marks"] == "signs":
                post, title = restore_signs(post), restore_signs(title)
            for number, region in enumerate(find_regions(title, self.options["region"])):
                record_id = line_id if self.options["region"] == "all" else f"{line_id}.{number}"
                yield target_split, {"id": record_id, "post": post, **region._asdict()}


Builder = Mathsum
