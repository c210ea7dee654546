"""Articles with formulas, for pre-training: pages with MathML, or the original's own form."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import UsageError

from ..pieces import Piece, is_archive, list_files, read_file
from ..sampling import split_by_hash
from ..shards import ShardedBuilder, ShardEntry, group_files
from .generate import generate_page
from .read import KINDS, parse_piece

STAND_IN_SIZE = 1000
SHARD_BYTES = 64 << 20  # of files that hold one article each
_STAND_IN_SHARD = 250


class Articles(ShardedBuilder):
    """Options: `path` of a folder, a file or an archive, or empty for the stand-in; `size` of the stand-in;
    `validation` and `test`, the shares of articles held out; `as_published`, 1 for the original's trees; `seed` of
    the split and of the stand-in."""

    FIELDS = {
        "id": str,
        "text": str,
        "formulas": str,
        "n_formulas": int,
        "from_tex": int,
        "as_text": int,
        "lost": int,
    }
    OPTIONS = {"path": "", "size": STAND_IN_SIZE, "validation": 0.05, "test": 0.05, "as_published": 0, "seed": 0}
    KEYS = {"(text, formulas)": ("text", "formulas")}
    TOTALS = ("n_formulas", "from_tex", "as_text", "lost")

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        validation, test = options["validation"], options["test"]
        if not (0 <= validation and 0 <= test and validation + test < 1):
            raise UsageError(
                f"{cls.name}: validation={validation} and test={test} must be shares whose sum is below 1"
            )
        if options["size"] < 1:
            raise UsageError(f"{cls.name}: size={options['size']} must be at least 1")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        if not options["path"]:
            return []
        return list_files(options["path"], KINDS, "articles")

    @classmethod
    def shards(cls, options: Mapping[str, Any]) -> list[Any]:
        """(the corpus, names of its files), or the range of the stand-in's articles."""
        if options["path"]:
            root = os.path.abspath(os.path.expanduser(options["path"]))
            return [(root, names) for names in group_files(cls.files(options), is_archive, SHARD_BYTES)]
        size = options["size"]
        return [range(start, min(start + _STAND_IN_SHARD, size)) for start in range(0, size, _STAND_IN_SHARD)]

    @classmethod
    def read_shard(cls, shard: Any, options: Mapping[str, Any]) -> Iterator[ShardEntry]:
        for piece in _load_pieces(shard, options["seed"]):
            for kind, record in parse_piece(piece, bool(options["as_published"])):
                if not kind:
                    text = record["text"] + record["formulas"]
                    kind = split_by_hash(text, options["seed"], options["validation"], options["test"])
                yield ShardEntry(kind, record)


def _load_pieces(shard: Any, seed: int) -> Iterator[Piece]:
    if isinstance(shard, range):
        yield from (generate_page(number, seed) for number in shard)
        return
    root, names = shard
    for name in names:
        yield from read_file(pathlib.Path(name), pathlib.Path(root), KINDS)


Builder = Articles
