"""Vocabularies: text ↔ ids, exactly, for any Unicode text.

Ids come in three blocks. *Base* ids 0 … base − 1 are the pieces of the text and keep the numbers of the
files they come from (GPT-2's 0 … 50256). *Marks* ([PAD], [CLS], … and what a scheme adds) follow; no text
spells them, so a literal "[CLS]" in a text is ordinary pieces. A scheme pads what lies behind.

Decoding does not go through the libraries: each base id stands for a fixed byte string, a text is the
concatenation, and bytes that are not UTF-8 become U+FFFD. So the characters that a position covers are known
too, which the `subword` scheme uses to find the positions of a number. Only WordPiece (`text/wordpiece.py`)
loses blanks, and case where it is asked to: it says so (`exact`), and covers characters of the text as it was.

Marks that the files have themselves, such as BERT's [CLS], keep their base ids.
"""

from __future__ import annotations

import copy
import difflib
import io
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import sentencepiece
from absl import logging

from numjax import files
from numjax.errors import UsageError
from numjax.text import pieces as pieces_of

MARKS = ("[PAD]", "[CLS]", "[SEP]", "[EOS]", "[MASK]", "[NUM]")
FILE = "vocabulary.json"
_KEYS = {"kind", "marks", "files", "base"}
TRAINED = ("sentencepiece", "wordpiece", "cells")  # on texts, unless they are given a path

# Characters that numbers are written with: each is a piece of its own in every trained vocabulary, in the
# corpus or not. sentencepiece writes a space as U+2581.
SPACE = "\u2581"
ALPHABET = SPACE + "0123456789+-\u2212.,%eE$()"


class BaseVocabulary:
    """What the kinds share: marks, decoding by bytes, saving.

    Attributes:
      pieces: the bytes of each base id; empty for an id that no text uses.
      base: number of base ids. size: with marks behind them. marks: the names of all, in the order of their ids.
      exact: whether decode(encode(text)) is the text; else it is one that is encoded the same.
      known: how many base ids come from the files, the first ones; all but for a sentencepiece model without bytes.
    """

    kind: ClassVar[str]
    exact: ClassVar[bool] = True

    def __init__(self, pieces: Sequence[bytes], marks: Iterable[str], own: Mapping[str, int] | None = None):
        """
        Args:
          own: ids of marks that are among the base ids.
        """
        self.pieces = tuple(pieces)
        self.base = self.known = len(self.pieces)
        self._own = dict(own or {})
        self._set_marks(marks)

    def _set_marks(self, marks: Iterable[str]) -> None:
        self.marks = tuple(dict.fromkeys((*MARKS, *marks)))
        behind = [name for name in self.marks if name not in self._own]
        self.size = self.base + len(behind)
        self._mark_id = self._own | {name: self.base + i for i, name in enumerate(behind)}
        self._name_of = {token: name for name, token in self._mark_id.items()}

    def _ids(self, text: str) -> list[int]:
        raise NotImplementedError

    def _files(self) -> Mapping[str, bytes]:
        raise NotImplementedError

    def with_marks(self, names: Iterable[str]) -> BaseVocabulary:
        """The same vocabulary with further marks behind its own."""
        other = copy.copy(self)
        other._set_marks((*self.marks, *names))
        return other

    def encode(self, text: str) -> list[int]:
        """Base ids whose bytes are the text's UTF-8. A lone surrogate, which has none, becomes U+FFFD."""
        return self._ids(scalar(text)) if text else []

    def decode(self, ids: Sequence[int]) -> str:
        """The text of base ids. Invalid UTF-8, marks and ids of no text become U+FFFD."""
        return b"".join(self.bytes_of(i) or b"\xef\xbf\xbd" for i in ids).decode("utf-8", errors="replace")

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token stands for; none for marks and reserved ids."""
        return self.pieces[token] if 0 <= token < self.base else b""

    def mark(self, name: str) -> int:
        """Id of a mark.

        Raises:
          UsageError: there is no such mark.
        """
        try:
            return self._mark_id[name]
        except KeyError:
            raise UsageError(f"no mark {name!r} in the vocabulary: it has {' '.join(self.marks)}") from None

    def mark_name(self, token: int) -> str | None:
        """Name of the mark with this id, None for other ids."""
        return self._name_of.get(token)

    def cover(self, text: str) -> tuple[list[int], np.ndarray]:
        """(`encode`, the characters [start, end) that each id covers, int32[T, 2]).

        A character of several ids is covered by each of them.
        """
        text = scalar(text)
        ids = self.encode(text)
        bounds = np.cumsum([0, *(len(self.bytes_of(i)) for i in ids)])
        if not text.isascii():
            # Which character a byte belongs to; a character ends with its last byte.
            owner = np.repeat(np.arange(len(text)), [len(c.encode()) for c in text])
            starts, ends = owner[bounds[:-1]], owner[bounds[1:] - 1] + 1
        else:
            starts, ends = bounds[:-1], bounds[1:]
        return ids, np.stack([starts, ends], axis=1).astype(np.int32)

    def save(self, folder: str) -> None:
        """Writes the vocabulary's files and, last, the json that names its kind; `load` reads them."""
        root = pathlib.Path(folder)
        contents = self._files()
        for name, content in contents.items():
            files.write(root / name, content)
        about = {"kind": self.kind, "marks": list(self.marks), "files": list(contents), "base": self.base}
        about["digest"] = _digest(about, list(contents.values()))
        files.write(root / FILE, json.dumps(about, indent=1) + "\n")


class SentencePiece(BaseVocabulary):
    """A sentencepiece model, used without normalisation and dummy prefix: exactly what is written is encoded.

    One without byte fallback, such as T5's, gets 256 base ids more behind its own, for the bytes of what it does not
    know. T5 has seen texts that begin with a blank: give it one.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, marks: Iterable[str] = ()):
        """
        Args:
          model: the serialised model.
          marks: names of further marks.

        Raises:
          UsageError: not a sentencepiece model.
        """
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=pieces_of.plain(model))
        except (RuntimeError, OSError) as error:
            raise UsageError("not a sentencepiece model: give a .model file made by sentencepiece") from error
        self.model = model
        pieces = [_sentencepiece_bytes(self.processor, i) for i in range(self.processor.vocab_size())]
        byte_id = {pieces[i]: i for i in range(len(pieces)) if self.processor.is_byte(i)}
        self._first_byte = None if len(byte_id) == 256 else len(pieces)
        if self._first_byte is not None:
            byte_id = {bytes([b]): len(pieces) + b for b in range(256)}
            pieces += [bytes([b]) for b in range(256)]
        super().__init__(pieces, marks)
        self.known = self._first_byte or self.base
        self._space_ids = [byte_id[bytes([b])] for b in SPACE.encode()]

    def _ids(self, text: str) -> list[int]:
        # sentencepiece cannot tell a written U+2581 from a space: ours goes in as bytes.
        first, *rest = text.split(SPACE)
        ids = pieces_of.encode(self.processor, first, self._first_byte)
        for part in rest:
            ids += self._space_ids
            ids += pieces_of.encode(self.processor, part, self._first_byte)
        return ids

    def _files(self) -> Mapping[str, bytes]:
        return {"sentencepiece.model": self.model}


def build(block: Mapping[str, Any], texts: Iterable[str] | None = None, marks: Iterable[str] = ()) -> BaseVocabulary:
    """A vocabulary from its config block.

    Args:
      block: `dict(name="sentencepiece", size=…, model="unigram" | "bpe", split_digits=False, coverage=1.0,
        max_characters=…)`, trained on `texts`, or with `path=` of a .model file, or of a folder with spiece.model,
        read from there;
        `dict(name="gpt2", path=FOLDER)` with encoder.json or vocab.json, and vocab.bpe or merges.txt;
        `dict(name="wordpiece", size=…, lower=True)`, trained on `texts`, or with `path=` of BERT's vocab.txt, of a
        tokenizer.json, or of a folder with one; `dict(name="cells", columns=…)` of a table, see `text/cells.py`.
      texts: what to train on (the train split); read once, not kept.
      marks: marks beyond `MARKS` that the scheme needs.

    Raises:
      UsageError: unknown name or option, missing path or files, a size too small, or no texts.
    """
    options = dict(block)
    name, kinds = options.pop("name", None), _kinds()
    if name not in kinds:
        raise UsageError(f"no vocabulary is called {name!r}: choose one of {', '.join(kinds)}")
    maker = kinds[name].make
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
    if saved != _digest(about, contents) and (saved is not None or about.keys() - _KEYS):
        raise UsageError(
            f"the vocabulary in {folder} is damaged: bring it back, or delete the folder, and the same config makes "
            "the same one again"
        )
    for known in _kinds().values():
        if (known.cls.kind, known.files) == (kind, len(contents)):
            return known.cls(*contents, marks)
    raise UsageError(f"{root / FILE} names the kind {kind!r} with {len(contents)} files: not one of numjax's")


class _Kind(NamedTuple):
    """A class, made of the contents of so many files and of marks; and what makes one from a config block."""

    cls: Any
    files: int
    make: Any


def _kinds() -> dict[str, _Kind]:
    """By the name that a config gives them. A new kind is a line here."""
    from numjax.text import bytebpe, cells, wordpiece  # which import this module

    return {
        "sentencepiece": _Kind(SentencePiece, 1, _build_sentencepiece),
        "gpt2": _Kind(bytebpe.ByteBPE, 2, bytebpe.make),
        "wordpiece": _Kind(wordpiece.WordPiece, 1, wordpiece.make),
        "cells": _Kind(cells.Cells, 1, cells.make),
    }


def _digest(about: Mapping[str, Any], contents: Sequence[bytes]) -> str:
    return files.digest(b"".join([json.dumps(about, sort_keys=True).encode(), *contents]))


def scalar(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _build_sentencepiece(
    texts: Iterable[str] | None,
    marks: tuple[str, ...],
    *,
    size: int = 8000,
    model: str = "unigram",
    split_digits: bool = False,
    coverage: float = 1.0,
    max_characters: int = 200_000_000,
    path: str | None = None,
) -> SentencePiece:
    if path:
        file = pathlib.Path(path).expanduser()
        file = file / "spiece.model" if file.is_dir() else file  # as T5's folders call it
        return SentencePiece(read_file(file, "a sentencepiece .model file"), marks)
    if texts is None:
        raise UsageError("a sentencepiece vocabulary needs texts to train on, or path=FILE.model")
    if model not in ("unigram", "bpe"):
        raise UsageError(f"sentencepiece model {model!r}: choose unigram or bpe")
    if not 0.98 <= coverage <= 1.0:
        raise UsageError(f"sentencepiece coverage {coverage} is outside 0.98 … 1.0")
    out = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=training_lines(texts, max_characters),
            model_writer=out,
            model_type=model,
            vocab_size=size,
            hard_vocab_limit=False,
            split_digits=split_digits,
            character_coverage=coverage,
            required_chars=ALPHABET,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            max_sentence_length=1 << 20,
            # Sums of floats follow the number of threads: fixed, or two machines would not agree.
            num_threads=2,
            minloglevel=2,
        )
    except RuntimeError as error:
        if found := re.search(r"smaller than required_chars\. (\d+) vs (\d+)", str(error)):
            raise UsageError(
                f"vocabulary size {size} is too small for these texts: give at least {found[2]}, or a lower coverage"
            ) from None
        raise UsageError(f"sentencepiece could not be trained: {str(error).splitlines()[0]}") from error
    vocabulary = SentencePiece(out.getvalue(), marks)
    if vocabulary.base < size:
        logging.info("the texts support %d pieces: vocabulary lowered from %d", vocabulary.base, size)
    return vocabulary


def read_file(path: pathlib.Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give {what}") from None


def training_lines(texts: Iterable[str], max_characters: int) -> Iterator[str]:
    """Lines without what sentencepiece keeps for itself (U+2581, U+2585, NUL), cut to a bearable length.

    The alphabet comes as lines of its own: without any, an empty corpus or one of only required characters
    makes a model that lacks them.
    """
    yield from ALPHABET
    taken = 0
    for text in texts:
        for line in scalar(text).translate({0x2581: " ", 0x2585: " ", 0: " "}).splitlines():
            for start in range(0, len(line), 8192):
                piece = line[start : start + 8192]
                taken += len(piece)
                if taken > max_characters:
                    logging.info("vocabulary trained on the first %d characters", max_characters)
                    return
                yield piece


def _sentencepiece_bytes(processor: sentencepiece.SentencePieceProcessor, token: int) -> bytes:
    if processor.is_control(token) or processor.is_unknown(token) or processor.is_unused(token):
        return b""
    piece = processor.id_to_piece(token)
    if processor.is_byte(token):
        return bytes([int(piece[1:-1], 16)])
    return piece.replace(SPACE, " ").encode()
