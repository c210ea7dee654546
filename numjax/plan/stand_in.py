"""What a plan uses in the place of data that need not be there: a vocabulary of the right size, and text."""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Iterable, Mapping

from numjax.text.base_vocabulary import BaseVocabulary

CHARACTERS = 4  # of English a token of a large vocabulary, about
NUMBERS = 0.03  # of the words of the text below


class Vocabulary(BaseVocabulary):
    """Ids for any text, a token every few characters; they cannot be read back and are never saved."""

    kind = "stand-in"

    def __init__(self, size: int, marks: Iterable[str] = ()):
        super().__init__([f"<{i}>".encode() for i in range(size)], marks)

    def _ids(self, text: str) -> list[int]:
        pieces = (text[i : i + CHARACTERS] for i in range(0, len(text), CHARACTERS))
        return [zlib.crc32(piece.encode("utf-8", "replace")) % self.base for piece in pieces]

    def _files(self) -> Mapping[str, bytes]:
        return {}


def write_text(folder: pathlib.Path, texts: int = 400) -> None:
    """A small corpus, with a number in about every thirtieth word."""
    sentence = "In {} the town, whose walls had stood since long before anybody there kept books, sold {} more loads "
    rest = (
        "of grain than its neighbours did, and nobody who had seen the river that spring was much surprised at it. "
    )
    lines = [(sentence + rest).format(1600 + i, 12.5 * i) * (2 + i % 7) for i in range(texts)]
    (folder / "stand_in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
