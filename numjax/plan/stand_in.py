"""Stand-ins for data that a plan does not need: a vocabulary of the right size, and text."""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Iterable, Mapping

from numjax.text.vocab.base import BaseVocabulary

CHARACTERS = 4  # English characters per token of a large vocabulary, roughly
NUMBERS = 0.03  # share of numbers among the words of the text below


class Vocabulary(BaseVocabulary):
    """Gives ids for any text, one token every few characters. It cannot decode, and is never saved."""

    kind = "stand-in"

    def __init__(self, size: int, marks: Iterable[str] = ()):
        super().__init__([f"<{i}>".encode() for i in range(size)], marks)

    def _ids(self, text: str) -> list[int]:
        pieces = (text[i : i + CHARACTERS] for i in range(0, len(text), CHARACTERS))
        return [zlib.crc32(piece.encode("utf-8", "replace")) % self.base for piece in pieces]

    def _files(self) -> Mapping[str, bytes]:
        return {}


def write_text(folder: pathlib.Path, texts: int = 400) -> None:
    """Writes a small corpus. About every thirtieth word is a number."""
    sentence = "In {} the town, whose walls had stood since long before anybody there kept books, sold {} more loads "
    rest = (
        "of grain than its neighbours did, and nobody who had seen the river that spring was much surprised at it. "
    )
    lines = [(sentence + rest).format(1600 + i, 12.5 * i) * (2 + i % 7) for i in range(texts)]
    (folder / "stand_in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
