"""Byte-level byte-pair encoding from files of GPT-2, RoBERTa or BART."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import tokenizers

from numjax.errors import UsageError
from numjax.runtime import files
from numjax.text.vocab.base import BaseVocabulary, read_file

# Control symbols of RoBERTa's and BART's files, which no merge makes: they become our marks.
MARKS_OF_ROBERTA = {"[PAD]": "<pad>", "[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>"}


class ByteBPE(BaseVocabulary):
    """Byte-level byte-pair encoding from GPT-2's files (also RoBERTa's and BART's)."""

    kind = "bytebpe"

    def __init__(self, vocab: bytes, merges: bytes, marks: Iterable[str] = ()):
        """
        Args:
          vocab: JSON object piece → id. merges: one merge per line, after an optional `#version` line.
          marks: names of further marks.

        Raises:
          UsageError: the files do not have this form.
        """
        self.vocab_file, self.merges_file = vocab, merges
        table, pairs = _parse_bpe(vocab, merges)
        try:
            self.tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=table, merges=pairs))
        except Exception as error:  # the library's own errors are bare Exceptions
            raise UsageError(f"not GPT-2 vocabulary files: {error}") from None
        self.tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        to_byte = _byte_of_character()
        pieces = [b""] * len(table)
        # A piece that no merge makes is not text but a control symbol such as <|endoftext|>.
        for piece in (*to_byte, *(left + right for left, right in pairs)):
            pieces[table[piece]] = bytes(to_byte[c] for c in piece)
        control_ids = {mark: table[piece] for mark, piece in MARKS_OF_ROBERTA.items() if piece in table}
        super().__init__(pieces, marks, {mark: token for mark, token in control_ids.items() if not pieces[token]})

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _files(self) -> Mapping[str, bytes]:
        return {"vocab.json": self.vocab_file, "merges.txt": self.merges_file}


def make(texts: Iterable[str] | None, marks: tuple[str, ...], *, path: str | None = None) -> ByteBPE:
    """A vocabulary from its config block, see `vocab.build`."""
    del texts  # the files hold everything
    if path is None:
        raise UsageError("vocabulary 'gpt2' needs path=FOLDER with vocab.json and merges.txt")
    root = pathlib.Path(path).expanduser()
    if not root.is_dir():
        raise UsageError(f"vocabulary folder {path} does not exist: give the folder of GPT-2's files")
    return ByteBPE(read_first(root, "encoder.json", "vocab.json"), read_first(root, "vocab.bpe", "merges.txt"), marks)


def read_first(root: pathlib.Path, *names: str) -> bytes:
    """The content of the first of these files that a folder has.

    Raises:
      UsageError: it has none of them.
    """
    for name in names:
        if (root / name).is_file():
            return read_file(root / name, name)
    raise UsageError(f"vocabulary folder {root} has neither {' nor '.join(names)}")


def check_ids(table: Any) -> None:
    """Checks that a vocabulary is an object {piece: id} with the ids 0, 1, 2, ….

    Raises:
      ValueError: it is not.
    """
    if not isinstance(table, dict) or not all(type(token) is int for token in table.values()):
        raise ValueError("it is no object of pieces and their ids")
    if sorted(table.values()) != list(range(len(table))):
        raise ValueError("ids are not 0, 1, 2, …")


def _parse_bpe(vocab: bytes, merges: bytes) -> tuple[dict[str, int], list[tuple[str, str]]]:
    try:
        table = files.parse_json(vocab)
        check_ids(table)
        lines = merges.decode("utf-8").split("\n")
        pairs = []
        for line in lines:
            if line and not line.startswith("#version"):
                left, right = line.rstrip("\r").split(" ")
                pairs.append((left, right))
        missing = next((a + b for a, b in pairs if a not in table or b not in table or a + b not in table), None)
        if missing is not None:
            raise ValueError(f"the merge to {missing!r} is not in the vocabulary")
        if missing := [c for c in _byte_of_character() if c not in table]:
            raise ValueError(f"{len(missing)} of the 256 bytes are missing")
        if strange := [a + b for a, b in pairs if not _byte_of_character().keys() >= {*a, *b}]:
            raise ValueError(f"the merge to {strange[0]!r} is none of bytes")
    except (ValueError, TypeError) as error:
        raise UsageError(f"not GPT-2 vocabulary files: {error}") from None
    return table, pairs


@functools.cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else U+0100 onwards in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    remaining = [b for b in range(256) if b not in set(printable)]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(remaining)}
