"""WordPiece, as in BERT: a text is split at blanks and punctuation first, then into the longest known pieces.

A word's first piece has its plain name, later ones are named "##…"; a word with an unknown character is [UNK]. Blanks
are lost, and case and accents if the vocabulary lower-cases. So decode(encode(text)) is not the text but one that is
encoded the same (except for [UNK], which becomes U+FFFD). If you need the original text, keep it and cut it by
`cover`.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers

from numjax.errors import UsageError
from numjax.runtime import files
from numjax.text.vocab.base import ALPHABET, MARKS, SPACE, BaseVocabulary, read_file, training_lines
from numjax.text.vocab.bytebpe import check_ids, read_first

UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# How many characters a trained vocabulary has, at least and at most. Above the least, at most a quarter of its pieces
# are single characters (most characters take two pieces): else texts of many scripts would leave no pieces for words.
_CHARACTERS = (128, 1000)
_SHARE = 1 / 4
_ALWAYS = 1 << 40  # more than any count
# The keys of a tokenizer.json that are kept; marks and templates are our own.
_USED_KEYS = ("version", "normalizer", "pre_tokenizer", "model")
_RESERVED = re.compile(r"\[unused\d+\]")


class WordPiece(BaseVocabulary):
    """A WordPiece vocabulary from a tokenizer.json."""

    kind = "wordpiece"
    exact = False

    def __init__(self, file: bytes, marks: Iterable[str] = ()):
        """
        Args:
          file: a tokenizer.json of Hugging Face; its special tokens and templates are ignored.
          marks: names of further marks.

        Raises:
          UsageError: the file does not have this form.
        """
        try:
            content = files.parse_json(file)
            model = content["model"]
            if model.get("type") != "WordPiece":
                raise ValueError(f"its model is {model.get('type')}")
            table, prefix, unknown = model["vocab"], model["continuing_subword_prefix"], model["unk_token"]
            check_ids(table)
            if unknown not in table:
                raise ValueError(f"it has no {unknown}")
            reduced = {name: content[name] for name in _USED_KEYS} | {"added_tokens": []}
            self.file = json.dumps(reduced, ensure_ascii=False).encode()
            self.tokenizer = tokenizers.Tokenizer.from_str(self.file.decode())
        except Exception as error:  # the library's own errors are bare Exceptions
            what = f"there is no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            raise UsageError(f"not a WordPiece vocabulary: {what}") from None
        pieces = [b""] * len(table)
        for piece, token in table.items():
            if piece == unknown:
                pieces[token] = " \ufffd".encode()
            elif piece not in SPECIAL and piece not in MARKS and not _RESERVED.fullmatch(piece):
                inner = piece.startswith(prefix) and len(piece) > len(prefix)
                pieces[token] = (piece.removeprefix(prefix) if inner else f" {piece}").encode()
        super().__init__(pieces, marks, {name: table[name] for name in MARKS if name in table})

    def decode(self, ids: Sequence[int]) -> str:
        """A text that is encoded to these ids: words with a blank between them."""
        return super().decode(ids).removeprefix(" ")

    def cover(self, text: str) -> tuple[list[int], np.ndarray]:
        """As for every vocabulary; no id covers a blank."""
        encoding = self.tokenizer.encode(files.replace_surrogates(text), add_special_tokens=False)
        return encoding.ids, np.asarray(encoding.offsets, np.int32).reshape(-1, 2)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _files(self) -> Mapping[str, bytes]:
        return {"tokenizer.json": self.file}


def make(
    texts: Iterable[str] | None,
    marks: tuple[str, ...],
    *,
    size: int = 8000,
    lower: bool | None = None,
    split_digits: bool = False,
    max_characters: int = 200_000_000,
    path: str = "",
) -> WordPiece:
    """A vocabulary from its config block, see `vocab.build`.

    Args:
      size: number of pieces to train. lower: lower-case and strip accents; by default as tokenizer_config.json beside
        vocab.txt says in do_lower_case, else True. A tokenizer.json has its own setting.
      split_digits: each digit is a word, so that a number has the same pieces everywhere.
      path: a vocab.txt, a tokenizer.json, or a folder with one of them.

    Raises:
      UsageError: the files are no vocabulary, or `lower` contradicts tokenizer_config.json.
    """
    if lower not in (None, True, False):
        raise UsageError(f"wordpiece lower={lower!r}: give True or False")
    if not path:
        return WordPiece(_train(texts, size, lower in (None, True), split_digits, max_characters), marks)
    root = pathlib.Path(path).expanduser()
    if root.is_dir():
        name = "tokenizer.json" if (root / "tokenizer.json").is_file() else "vocab.txt"
        content = read_first(root, "tokenizer.json", "vocab.txt")
    else:
        name, content = root.name, read_file(root, "BERT's vocab.txt or a tokenizer.json")
    if not name.endswith(".json"):
        content = _from_lines(content, _choose_lower(root if root.is_dir() else root.parent, lower))
    return WordPiece(_separate_digits(content) if split_digits else content, marks)


def _choose_lower(folder: pathlib.Path, lower: bool | None) -> bool:
    """Whether the text of a folder's vocab.txt is lower-cased, by the option and tokenizer_config.json.

    Raises:
      UsageError: they differ.
    """
    try:
        stored = files.parse_json((folder / "tokenizer_config.json").read_bytes())["do_lower_case"]
    except (OSError, ValueError, KeyError, TypeError):
        stored = None
    if not isinstance(stored, bool):
        return lower in (None, True)
    if lower is not None and bool(lower) != stored:
        raise UsageError(
            f"{folder}: its tokenizer_config.json says do_lower_case={stored} and this config lower={lower}: set "
            f"config.scheme.vocab.lower={stored}"
        )
    return stored


def _make_tokenizer(table: dict[str, int], lower: bool, split_digits: bool = False) -> Any:
    model = tokenizers.models.WordPiece(vocab=table, unk_token=UNKNOWN, max_input_chars_per_word=100)
    tokenizer: Any = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    if split_digits:
        _split_digits(tokenizer)
    return tokenizer


def _split_digits(tokenizer: Any) -> None:
    digit_splitter = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([tokenizer.pre_tokenizer, digit_splitter])


def _separate_digits(file: bytes) -> bytes:
    """A tokenizer.json whose digits are words."""
    try:
        tokenizer = tokenizers.Tokenizer.from_str(file.decode())
        _split_digits(tokenizer)
    except Exception as error:  # the library's own errors are bare Exceptions
        raise UsageError(f"not a WordPiece vocabulary: {str(error).splitlines()[0]}") from None
    return tokenizer.to_str().encode()


def _from_lines(content: bytes, lower: bool) -> bytes:
    try:
        lines = content.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"not a WordPiece vocabulary: not UTF-8 at byte {error.start}") from None
    table = {line.rstrip("\r"): i for i, line in enumerate(lines)}
    if len(table) != len(lines) or UNKNOWN not in table:
        raise UsageError(f"not a WordPiece vocabulary: a piece a line, each once, {UNKNOWN} among them")
    return _make_tokenizer(table, lower).to_str().encode()


def _train(texts: Iterable[str] | None, size: int, lower: bool, split_digits: bool, max_characters: int) -> bytes:
    if texts is None:
        raise UsageError("a wordpiece vocabulary needs texts to train on, or path=FILE")
    tokenizer = _make_tokenizer({UNKNOWN: 0}, lower, split_digits)
    lines = list(training_lines(texts, max_characters))
    first, inner = _count_characters(tokenizer, lines)
    for c in (ALPHABET.lower() if lower else ALPHABET).replace(SPACE, ""):
        # The characters of numbers must be in the vocabulary, also inside words.
        first[c] += _ALWAYS
        inner[c] += _ALWAYS * c.isalnum()
    ranked = sorted(first + inner, key=lambda c: (-(first[c] + inner[c]), c))
    sizes = itertools.accumulate(1 + (inner[c] > 0) for c in ranked)
    fewest, most = _CHARACTERS
    ranked = ranked[: max(fewest, min(most, sum(n <= _SHARE * size for n in sizes)))]
    # Sorted, because the trainer would otherwise take them in random hash order and break ties by it.
    special = [*SPECIAL, *(f"##{c}" for c in sorted(ranked) if inner[c])]
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=special,
        initial_alphabet=ranked,
        limit_alphabet=len(ranked),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    if tokenizer.get_vocab_size() > size:
        raise UsageError(
            f"vocabulary size {size} is too small for these texts: give at least {tokenizer.get_vocab_size()}"
        )
    return tokenizer.to_str().encode()


def _count_characters(tokenizer: Any, lines: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """(how often each character begins a word, how often it stands inside one)."""
    first, inner = Counter(), Counter()
    for line in lines:
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(line)):
            first[word[0]] += 1
            inner.update(word[1:])
    return first, inner
