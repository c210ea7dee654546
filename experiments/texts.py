"""Texts of public datasets in one folder, collected once for a pre-training, without what is asked later."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numjax.bundled.data.news.numbers import list_runs
from numjax.bundled.experiments import identity, overnight
from numjax.errors import UsageError
from numjax.runtime import files, log

_MARK = re.compile(r"</?m>")
Counts = Mapping[str, Mapping[str, int]]  # source → "kept" and "left out"


def collect(
    folder: str,
    out: pathlib.Path,
    sources: Mapping[str, Callable[[pathlib.Path], Iterable[str]]],
    make_record: Callable[[str], Mapping[str, Any]],
    list_asked: Callable[[], Iterable[str]],
    asked_in: Sequence[str] = (),
) -> Counts:
    """Writes the different texts of each source to OUT/SOURCE.jsonl, and their counts to OUT.json.

    Texts of the same files are not collected again. A text that shares eight words in a row, numbers aside, with a
    text that is asked later is left out.

    Args:
      folder: with any of the folders of `sources`, folder → a reader of its texts.
      make_record: a text → the object that is written.
      list_asked: gives the texts that are asked. asked_in: the files and folders that they come from.

    Returns:
      How many texts of each source were kept and left out.

    Raises:
      UsageError: the folder has none of the folders.
    """
    root = pathlib.Path(folder).expanduser()
    names = [name for name in sources if (root / name).is_dir()]
    if not names:
        raise UsageError(f"--texts={folder}: it has none of the folders {', '.join(sources)}")
    read_paths = [*(str(root / name) for name in names), *asked_in]
    digest = [identity.digest_folder(path) for path in read_paths]
    counts_path = out.with_suffix(".json")  # beside the texts, whose folder is read whole
    with files.hold_lock(out.with_suffix(".lock"), f"another process collects texts in {out}"):
        earlier = json.loads(counts_path.read_text()) if counts_path.exists() else {}
        if earlier.get("digest") == digest and all((out / f"{name}.jsonl").is_file() for name in names):
            return earlier["counts"]
        counts_path.unlink(missing_ok=True)  # the counts come last: without them the texts are not whole
        shutil.rmtree(out, ignore_errors=True)
        asked_runs = {run for text in list_asked() for run in _list_runs(text)}
        counts = {}
        for name in names:
            texts = [text for text in dict.fromkeys(sources[name](root / name)) if text.strip()]
            kept = [text for text in texts if asked_runs.isdisjoint(_list_runs(text))]
            files.write(out / f"{name}.jsonl", (json.dumps(make_record(text)) + "\n" for text in kept))
            counts[name] = {"kept": len(kept), "left out": len(texts) - len(kept)}
            log.say(f"{name}: {len(kept):,} texts, {len(texts) - len(kept):,} left out")
        files.write(counts_path, json.dumps({"digest": digest, "counts": counts}, indent=1) + "\n")
    return counts


def _list_runs(text: str) -> set[tuple[str, ...]]:
    """The runs of eight words of a text, without the marks of its formulas."""
    return list_runs(_MARK.sub(" ", text))


def describe(counts: Counts) -> str:
    """The sources with their numbers of texts, and how many were left out, in words."""
    kept = ", ".join(f"{name} {count['kept']:,}" for name, count in counts.items())
    left_out = sum(count["left out"] for count in counts.values())
    return f"{kept}; {left_out:,} that share eight words in a row with a question of the table's data were left out"


def check_scale(options: Any, needed: Iterable[str]) -> bool:
    """Whether the scale is overnight, and so starts from texts.

    Args:
      options: with `scale` and `texts`. needed: options with folders that it needs, "texts" among them.

    Raises:
      UsageError: one of these is missing, or another scale has texts.
    """
    if options.scale != overnight.NAME:
        if options.texts:
            raise UsageError(f"--texts={options.texts} is for --scale={overnight.NAME}")
        return False
    for name in needed:
        if not getattr(options, name):
            raise UsageError(f"--scale={overnight.NAME} reads real files: give --{name}=FOLDER")
    return True


def add_option(parser: Any) -> None:
    """Adds --texts to a parser."""
    parser.add_argument("--texts", default="", help="at overnight: a folder with folders of texts to pre-train on")
