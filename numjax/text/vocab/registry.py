"""Vocabularies by name: built from a config block, or loaded from a folder."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from numjax.errors import UsageError
from numjax.runtime import files
from numjax.text.vocab import bytebpe, cells, sentencepieces, wordpiece
from numjax.text.vocab.base import FILE, BaseVocabulary, digest

TRAINED = ("sentencepiece", "wordpiece", "cells")  # trained on texts, unless the config gives a path
_KEYS = {"kind", "marks", "files", "base"}


class _Kind(NamedTuple):
    """A class, how many files it is built from, and the function that makes one from a config block."""

    cls: Any
    files: int
    make: Any


# By name in configs. A new kind needs one line here.
KINDS = {
    "sentencepiece": _Kind(sentencepieces.SentencePiece, 1, sentencepieces.make),
    "gpt2": _Kind(bytebpe.ByteBPE, 2, bytebpe.make),
    "wordpiece": _Kind(wordpiece.WordPiece, 1, wordpiece.make),
    "cells": _Kind(cells.Cells, 1, cells.make),
}


def build(block: Mapping[str, Any], texts: Iterable[str] | None = None, marks: Iterable[str] = ()) -> BaseVocabulary:
    """A vocabulary from its config block.

    Args:
      block: `dict(name="sentencepiece", size=…, model="unigram" | "bpe", split_digits=False, coverage=1.0,
        max_characters=…)`, trained on `texts`, or with `path=` loaded from a .model file or a folder with
        spiece.model;
        `dict(name="gpt2", path=FOLDER)` with encoder.json or vocab.json, and vocab.bpe or merges.txt;
        `dict(name="wordpiece", size=…, lower=None, split_digits=False)`, trained on `texts`, or with `path=` loaded
        from BERT's vocab.txt, a tokenizer.json, or a folder with one; `dict(name="cells", columns=…)` for a table,
        see `text/vocab/cells.py`.
      texts: the texts to train on (the train split); they are read once, not kept.
      marks: marks beyond `MARKS` that the scheme needs.

    Raises:
      UsageError: unknown name or option, missing path or files, a size too small, or no texts.
    """
    options = dict(block)
    name = options.pop("name", None)
    if name not in KINDS:
        raise UsageError(f"no vocabulary is called {name!r}: choose one of {', '.join(KINDS)}")
    maker = KINDS[name].make
    defaults = maker.__kwdefaults__
    for key in options:
        if key not in defaults:
            suggestions = difflib.get_close_matches(key, defaults, n=3, cutoff=0.4) or defaults
            raise UsageError(f"vocabulary {name!r} has no option {key!r}: did you mean {', '.join(suggestions)}?")
    return maker(texts, tuple(marks), **options)


def load(folder: str) -> BaseVocabulary:
    """The vocabulary that `save` wrote to a folder.

    Raises:
      UsageError: the folder has no vocabulary, or a damaged one.
    """
    root = pathlib.Path(folder)
    try:
        metadata = files.parse_json((root / FILE).read_bytes())
        kind, marks, names = (metadata[key] for key in ("kind", "marks", "files"))
        if not all(isinstance(names, list) and isinstance(name, str) for names in (marks, names) for name in names):
            raise ValueError("its marks and files are no lists of names")
        contents = [_read_regular_file(root / files.check_name(name)) for name in names]
    except FileNotFoundError as error:
        raise UsageError(f"no vocabulary in {folder}: {error.filename} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{root / FILE} cannot be read: {error}") from None
    saved = metadata.pop("digest", None)
    # A vocabulary that was saved before digests existed has only the keys of _KEYS.
    if saved != digest(metadata, contents) and (saved is not None or metadata.keys() - _KEYS):
        raise UsageError(
            f"the vocabulary in {folder} is damaged: bring it back, or delete the folder, and the same config builds "
            "the same vocabulary again"
        )
    for entry in KINDS.values():
        if (entry.cls.kind, entry.files) == (kind, len(contents)):
            try:
                return entry.cls(*contents, marks)
            except UsageError as error:
                raise UsageError(f"the vocabulary in {folder}: {error}") from None
    raise UsageError(f"{root / FILE} names the kind {kind!r} with {len(contents)} files: not one of numjax's")


def _read_regular_file(path: pathlib.Path) -> bytes:
    if path.exists() and not path.is_file():  # a device or a pipe may be endless
        raise ValueError(f"{path.name} is no file")
    return path.read_bytes()
