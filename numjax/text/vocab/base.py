"""Vocabularies: text ↔ ids, exactly, for any Unicode text.

Ids come in three blocks. *Base* ids 0 … base − 1 are the pieces of the text and keep the ids of the files they come
from (GPT-2's 0 … 50256). *Marks* ([PAD], [CLS], … and those that a scheme adds) follow; no text spells them, so a
literal "[CLS]" in a text is ordinary pieces. Behind them a scheme adds padding.

Decoding does not use the libraries: each base id stands for a fixed byte string, a text is the concatenation, and
bytes that are not UTF-8 become U+FFFD. So it is known which characters a position covers, which the `subword` scheme
uses to find the positions of a number. Only WordPiece (`text/vocab/wordpiece.py`) loses blanks, and case if it
lower-cases: then `exact` is False, and `cover` refers to the characters of the original text.

Marks that are in the files, such as BERT's [CLS], keep their base ids.
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

# The characters of numbers: each is a piece in every trained vocabulary, even if the corpus lacks it. sentencepiece
# writes a space as U+2581.
SPACE = "\u2581"
ALPHABET = SPACE + "0123456789+-\u2212.,%eE$()"


# The text of a token that is a number: " 42", "3.5"; for a mathematical symbol its mark, "NUM N 42"; for a symbol of
# a layout that writes numbers in symbols of its own its mark, "[-314]", "[3e-1]".
_NUMBER = re.compile(r"(?: |NUM N )?([0-9]+(?:\.[0-9]+)?)|\[([+-][0-9]+(?:e-?[0-9]+)?|[0-9]e-?[0-9]+)\]")


class BaseVocabulary:
    """The base of all kinds: marks, decoding by bytes, saving.

    Attributes:
      pieces: the bytes of each base id; empty for an id that no text uses.
      base: number of base ids. size: number of ids, marks included. marks: names of all marks, in the order of their
        ids.
      exact: whether decode(encode(text)) is the text; else it is a text that is encoded the same.
      known: how many base ids, the first ones, come from the files: all, except for a sentencepiece model without
        bytes.
    """

    kind: ClassVar[str]
    exact: ClassVar[bool] = True

    def __init__(self, pieces: Sequence[bytes], marks: Iterable[str], base_mark_ids: Mapping[str, int] | None = None):
        """
        Args:
          base_mark_ids: ids of marks that are among the base ids.
        """
        self.pieces = tuple(pieces)
        self.base = self.known = len(self.pieces)
        self._base_mark_ids = dict(base_mark_ids or {})
        self._set_marks(marks)

    def _set_marks(self, marks: Iterable[str]) -> None:
        self.marks = tuple(dict.fromkeys((*MARKS, *marks)))
        added = [name for name in self.marks if name not in self._base_mark_ids]
        self.size = self.base + len(added)
        self._mark_id = self._base_mark_ids | {name: self.base + i for i, name in enumerate(added)}
        self._name_of = {token: name for name, token in self._mark_id.items()}
        for name in ("_numbers", "digit_values", "number_values", "number_digits"):  # cached for other marks
            self.__dict__.pop(name, None)

    @functools.cached_property
    def _numbers(self) -> dict[int, str]:
        """Id → the decimal that the token spells."""
        texts = {i: piece.decode("utf-8", errors="replace") for i, piece in enumerate(self.pieces)} | self._name_of
        matches = ((i, _NUMBER.fullmatch(text)) for i, text in sorted(texts.items()))
        return {i: match[1] or match[2] for i, match in matches if match}

    @property
    def number_ids(self) -> tuple[int, ...]:
        """The tokens that are numbers by themselves, with or without a blank before them, in order."""
        return tuple(self._numbers)

    @property
    def point_ids(self) -> tuple[int, ...]:
        """The tokens that are a decimal point and nothing else, in order."""
        return tuple(i for i, piece in enumerate(self.pieces) if piece == b".")

    @functools.cached_property
    def number_values(self) -> np.ndarray:
        """float64[size], the value of each token that is a number, NaN for others."""
        values = np.full(self.size, np.nan)
        for token, numeral in self._numbers.items():
            values[token] = float(numeral)
        return values

    @functools.cached_property
    def digit_values(self) -> np.ndarray:
        """int32[size], the digit of each token that is one digit (of whatever place), −1 for others; for "12" see
        `number_digits`."""
        values = np.full(self.size, -1, np.int32)
        for token, numeral in self._numbers.items():
            digit = numeral.partition("e")[0]
            if len(digit) == 1:
                values[token] = int(digit)
        return values

    @functools.cached_property
    def number_digits(self) -> np.ndarray:
        """int8[size, L], the digits of tokens that are integers, as written, −1 behind them and for others; L is at
        least 1."""
        whole_numbers = {token: numeral for token, numeral in self._numbers.items() if numeral.isdigit()}
        digits = np.full((self.size, max(map(len, whole_numbers.values()), default=1)), -1, np.int8)
        for token, numeral in whole_numbers.items():
            digits[token, : len(numeral)] = [int(digit) for digit in numeral]
        return digits

    def _ids(self, text: str) -> list[int]:
        raise NotImplementedError

    def _files(self) -> Mapping[str, bytes]:
        raise NotImplementedError

    def with_marks(self, names: Iterable[str]) -> BaseVocabulary:
        """The same vocabulary with further marks added at the end."""
        other = copy.copy(self)
        other._set_marks((*self.marks, *names))
        return other

    def list_unknown(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary lacks, each once, without blanks."""
        characters = dict.fromkeys("".join(files.replace_surrogates(text).split()))
        return [c for c in characters if self._is_unknown(c)]

    def _is_unknown(self, character: str) -> bool:
        return not self.exact and "\ufffd" in self.decode(self.encode(character))

    def encode(self, text: str) -> list[int]:
        """Base ids whose bytes are the text in UTF-8. A lone surrogate, which has no bytes, becomes U+FFFD."""
        return self._ids(files.replace_surrogates(text)) if text else []

    def decode(self, ids: Sequence[int]) -> str:
        """The text of base ids. Invalid UTF-8, marks and ids without text become U+FFFD."""
        return b"".join(self.bytes_of(i) or b"\xef\xbf\xbd" for i in ids).decode("utf-8", errors="replace")

    def bytes_of(self, token: int) -> bytes:
        """The bytes of a token; empty for marks and reserved ids."""
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
        """(the ids of `encode`, the characters [start, end) that each id covers, int32[T, 2]).

        If several ids spell one character, each of them covers it.
        """
        text = files.replace_surrogates(text)
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
        metadata = {"kind": self.kind, "marks": list(self.marks), "files": list(contents), "base": self.base}
        metadata["digest"] = digest(metadata, list(contents.values()))
        files.write(root / FILE, json.dumps(metadata, indent=1) + "\n")


def digest(metadata: Mapping[str, object], contents: Sequence[bytes]) -> str:
    """The digest of the files that `BaseVocabulary.save` writes."""
    return files.digest(b"".join([json.dumps(metadata, sort_keys=True).encode(), *contents]))


def read_file(path: pathlib.Path, what: str) -> bytes:
    """A file's content.

    Raises:
      UsageError: it cannot be read; the message says `what` to give.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give {what}") from None


def training_lines(texts: Iterable[str], max_characters: int) -> Iterator[str]:
    """Lines to train on, without sentencepiece's reserved characters (U+2581, U+2585, NUL), cut to 8192 characters.

    Each character of the alphabet is also a line: otherwise a model of an empty corpus, or of one with only required
    characters, would lack them.
    """
    yield from ALPHABET
    n_characters = 0
    for text in texts:
        for line in files.replace_surrogates(text).translate({0x2581: " ", 0x2585: " ", 0: " "}).splitlines():
            for start in range(0, len(line), 8192):
                piece = line[start : start + 8192]
                n_characters += len(piece)
                if n_characters > max_characters:
                    logging.info("vocabulary trained on the first %d characters", max_characters)
                    return
                yield piece
