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
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from absl import logging

from numjax.errors import UsageError
from numjax.runtime import files

MARKS = ("[PAD]", "[CLS]", "[SEP]", "[EOS]", "[MASK]", "[NUM]")
FILE = "vocabulary.json"

# Characters that numbers are written with: each is a piece of its own in every trained vocabulary, in the
# corpus or not. sentencepiece writes a space as U+2581.
SPACE = "\u2581"
ALPHABET = SPACE + "0123456789+-\u2212.,%eE$()"


# A token that is a number, by its text: " 42", "3.5"; or, among mathematical symbols, by its mark: "NUM N 42".
_NUMBER = re.compile(r"(?: |NUM N )?([0-9]+(?:\.[0-9]+)?)")


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
        for name in ("_numbers", "digit_values", "number_values", "number_digits"):  # of other marks
            self.__dict__.pop(name, None)

    @functools.cached_property
    def _numbers(self) -> dict[int, str]:
        """id → the decimal that the token is."""
        texts = {i: piece.decode("utf-8", errors="replace") for i, piece in enumerate(self.pieces)} | self._name_of
        found = ((i, _NUMBER.fullmatch(text)) for i, text in sorted(texts.items()))
        return {i: match[1] for i, match in found if match}

    @property
    def number_ids(self) -> tuple[int, ...]:
        """The tokens that are numbers by themselves, alone or behind a blank, in order."""
        return tuple(self._numbers)

    @functools.cached_property
    def number_values(self) -> np.ndarray:
        """float64[size], what such a token is worth, NaN for others."""
        values = np.full(self.size, np.nan)
        for token, written in self._numbers.items():
            values[token] = float(written)
        return values

    @functools.cached_property
    def digit_values(self) -> np.ndarray:
        """int32[size], the digit that a token is, −1 for others; "12" is none, see `number_digits`."""
        values = np.full(self.size, -1, np.int32)
        for token, written in self._numbers.items():
            if len(written) == 1:
                values[token] = int(written)
        return values

    @functools.cached_property
    def number_digits(self) -> np.ndarray:
        """int8[size, L], the digits of tokens that are whole numbers, as written, −1 behind them and for others; L is
        at least 1."""
        whole = {token: written for token, written in self._numbers.items() if "." not in written}
        found = np.full((self.size, max(map(len, whole.values()), default=1)), -1, np.int8)
        for token, written in whole.items():
            found[token, : len(written)] = [int(digit) for digit in written]
        return found

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
        return self._ids(files.without_surrogates(text)) if text else []

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
        text = files.without_surrogates(text)
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
        about["digest"] = digest(about, list(contents.values()))
        files.write(root / FILE, json.dumps(about, indent=1) + "\n")


def digest(about: Mapping[str, object], contents: Sequence[bytes]) -> str:
    """Of what `BaseVocabulary.save` writes."""
    return files.digest(b"".join([json.dumps(about, sort_keys=True).encode(), *contents]))


def read_file(path: pathlib.Path, what: str) -> bytes:
    """A file's content.

    Raises:
      UsageError: it cannot be read; `what` to give instead is said.
    """
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
        for line in files.without_surrogates(text).translate({0x2581: " ", 0x2585: " ", 0: " "}).splitlines():
            for start in range(0, len(line), 8192):
                piece = line[start : start + 8192]
                taken += len(piece)
                if taken > max_characters:
                    logging.info("vocabulary trained on the first %d characters", max_characters)
                    return
                yield piece
