"""Texts of public datasets in one folder, collected once for a pre-training."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numjax.errors import UsageError
from numjax.runtime import files, log

OVERNIGHT = "overnight"  # the scale whose runs start from a pre-training
Counts = Mapping[str, Mapping[str, int]]  # source → "kept" and "left out"


def collect(
    folder: str,
    out: pathlib.Path,
    sources: Mapping[str, Callable[[pathlib.Path], Iterable[str]]],
    make_record: Callable[[str], Mapping[str, Any]],
    is_kept: Callable[[str], bool] = lambda text: True,
) -> Counts:
    """Writes the different texts of each source to OUT/SOURCE.jsonl, once, and their counts to OUT.json.

    Returns these counts.

    Args:
      folder: with any of the folders of `sources`, folder → a reader of its texts.
      make_record: a text → the object that is written. is_kept: whether a text is.

    Raises:
      UsageError: the folder has none of them.
    """
    counts_path = out.with_suffix(".json")  # beside the texts, whose folder is read whole
    if counts_path.exists():
        return json.loads(counts_path.read_text())
    root = pathlib.Path(folder).expanduser()
    names = [name for name in sources if (root / name).is_dir()]
    if not names:
        raise UsageError(f"--texts={folder}: it has none of the folders {', '.join(sources)}")
    shutil.rmtree(out, ignore_errors=True)
    counts = {}
    for name in names:
        texts = [text for text in dict.fromkeys(sources[name](root / name)) if text.strip()]
        kept = [text for text in texts if is_kept(text)]
        files.write(out / f"{name}.jsonl", (json.dumps(make_record(text)) + "\n" for text in kept))
        counts[name] = {"kept": len(kept), "left out": len(texts) - len(kept)}
        log.say(f"{name}: {len(kept):,} texts, {len(texts) - len(kept):,} left out")
    files.write(counts_path, json.dumps(counts, indent=1) + "\n")
    return counts


def describe(counts: Counts) -> str:
    """The sources and their numbers of texts, in words."""
    return ", ".join(f"{name} {count['kept']:,}" for name, count in counts.items())


def check_scale(options: Any, needed: Iterable[str]) -> bool:
    """Whether the scale is overnight, and so starts from texts.

    Args:
      options: with `scale` and `texts`. needed: options with folders that it needs, "texts" among them.

    Raises:
      UsageError: one of these is missing, or another scale has texts.
    """
    if options.scale != OVERNIGHT:
        if options.texts:
            raise UsageError(f"--texts={options.texts} is for --scale={OVERNIGHT}")
        return False
    for name in needed:
        if not getattr(options, name):
            raise UsageError(f"--scale={OVERNIGHT} reads real files: give --{name}=FOLDER")
    return True


def add_option(parser: Any) -> None:
    """Adds --texts to a parser."""
    parser.add_argument("--texts", default="", help="at overnight: a folder with folders of texts to pre-train on")
