"""Vocabularies by name: made from a config block, and read back from a folder."""

from __future__ import annotations

import difflib
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from numjax.errors import UsageError
from numjax.text import bytebpe, cells, sentencepieces, wordpiece
from numjax.text.base_vocabulary import FILE, BaseVocabulary, digest

TRAINED = ("sentencepiece", "wordpiece", "cells")  # on texts, unless they are given a path
_KEYS = {"kind", "marks", "files", "base"}


class _Kind(NamedTuple):
    """A class, made of the contents of so many files and of marks; and what makes one from a config block."""

    cls: Any
    files: int
    make: Any


# By the name that a config gives them. A new kind is a line here.
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
        max_characters=…)`, trained on `texts`, or with `path=` of a .model file, or of a folder with spiece.model,
        read from there;
        `dict(name="gpt2", path=FOLDER)` with encoder.json or vocab.json, and vocab.bpe or merges.txt;
        `dict(name="wordpiece", size=…, lower=True, split_digits=False)`, trained on `texts`, or with `path=` of
        BERT's vocab.txt, of a tokenizer.json, or of a folder with one; `dict(name="cells", columns=…)` of a table,
        see `text/cells.py`.
      texts: what to train on (the train split); read once, not kept.
      marks: marks beyond `MARKS` that the scheme needs.

    Raises:
      UsageError: unknown name or option, missing path or files, a size too small, or no texts.
    """
    options = dict(block)
    name = options.pop("name", None)
    if name not in KINDS:
        raise UsageError(f"no vocabulary is called {name!r}: choose one of {', '.join(KINDS)}")
    maker = KINDS[name].make
    known = maker.__kwdefaults__
    for key in options:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.4) or known
            raise UsageError(f"vocabulary {name!r} has no option {key!r}: did you mean {', '.join(near)}?")
    return maker(texts, tuple(marks), **options)


def load(folder: str) -> BaseVocabulary:
    """Reads what `save` wrote.

    Raises:
      UsageError: no vocabulary there, or a damaged one.
    """
    root = pathlib.Path(folder)
    try:
        about = json.loads((root / FILE).read_text())
        kind, marks = about["kind"], about["marks"]
        contents = [(root / name).read_bytes() for name in about["files"]]
    except FileNotFoundError as error:
        raise UsageError(f"no vocabulary in {folder}: {error.filename} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{root / FILE} cannot be read: {error}") from None
    saved = about.pop("digest", None)
    # One saved before there were digests has none, and nothing else either.
    if saved != digest(about, contents) and (saved is not None or about.keys() - _KEYS):
        raise UsageError(
            f"the vocabulary in {folder} is damaged: bring it back, or delete the folder, and the same config makes "
            "the same one again"
        )
    for known in KINDS.values():
        if (known.cls.kind, known.files) == (kind, len(contents)):
            return known.cls(*contents, marks)
    raise UsageError(f"{root / FILE} names the kind {kind!r} with {len(contents)} files: not one of numjax's")
