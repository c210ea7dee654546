"""Vocabularies: text ↔ ids, exactly, for any Unicode text.

Ids come in three blocks. *Base* ids 0 … base − 1 are the pieces of the text and keep the numbers of the
files they come from (GPT-2's 0 … 50256). *Marks* ([PAD], [CLS], … and what a scheme adds) follow; no text
spells them, so a literal "[CLS]" in a text is ordinary pieces. A scheme pads what lies behind.

Decoding does not go through the libraries: each base id stands for a fixed byte string, a text is the
concatenation, and bytes that are not UTF-8 become U+FFFD. So the bytes that a position covers are known
too, which the `subword` scheme uses to find the positions of a number.
"""

from __future__ import annotations

import copy
import difflib
import io
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import sentencepiece
import tokenizers
from absl import logging

from numjax import files
from numjax.errors import UsageError
from numjax.text import pieces as pieces_of

MARKS = ("[PAD]", "[CLS]", "[SEP]", "[EOS]", "[MASK]", "[NUM]")
FILE = "vocabulary.json"
_KEYS = {"kind", "marks", "files", "base"}

# Characters that numbers are written with: each is a piece of its own in every trained vocabulary, in the
# corpus or not. sentencepiece writes a space as U+2581.
SPACE = "\u2581"
ALPHABET = SPACE + "0123456789+-\u2212.,%eE$()"


class BaseVocabulary:
    """What the kinds share: marks, decoding by bytes, saving.

    Attributes:
      pieces: the bytes of each base id; empty for an id that no text uses.
      base: number of base ids. size: with marks. marks: their names in the order of their ids.
      known: how many base ids come from the files, the first ones; all but for a sentencepiece model without bytes.
    """

    kind: ClassVar[str]

    def __init__(self, pieces: Sequence[bytes], marks: Iterable[str]):
        self.pieces = tuple(pieces)
        self.base = self.known = len(self.pieces)
        self._set_marks(marks)

    def _set_marks(self, marks: Iterable[str]) -> None:
        self.marks = tuple(dict.fromkeys((*MARKS, *marks)))
        self.size = self.base + len(self.marks)
        self._mark_id = {name: self.base + i for i, name in enumerate(self.marks)}

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
        return self.marks[token - self.base] if self.base <= token < self.size else None

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


class ByteBPE(BaseVocabulary):
    """Byte-level byte-pair encoding from GPT-2's files (also RoBERTa's and BART's)."""

    kind = "bytebpe"

    def __init__(self, vocab: bytes, merges: bytes, marks: Iterable[str] = ()):
        """
        Args:
          vocab: JSON object piece → id. merges: a merge a line, after an optional `#version` line.
          marks: names of further marks.

        Raises:
          UsageError: the files are not of this form.
        """
        self.vocab_file, self.merges_file = vocab, merges
        table, pairs = _read_bpe(vocab, merges)
        self.tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=table, merges=pairs))
        self.tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        to_byte = _byte_of_character()
        pieces = [b""] * len(table)
        # What no merge makes is no text but a control symbol such as <|endoftext|>.
        for piece in (*to_byte, *(left + right for left, right in pairs)):
            pieces[table[piece]] = bytes(to_byte[c] for c in piece)
        super().__init__(pieces, marks)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _files(self) -> Mapping[str, bytes]:
        return {"vocab.json": self.vocab_file, "merges.txt": self.merges_file}


def build(block: Mapping[str, Any], texts: Iterable[str] | None = None, marks: Iterable[str] = ()) -> BaseVocabulary:
    """A vocabulary from its config block.

    Args:
      block: `dict(name="sentencepiece", size=…, model="unigram" | "bpe", split_digits=False, coverage=1.0,
        max_characters=…)`, trained on `texts`, or with `path=` of a .model file read from there;
        `dict(name="gpt2", path=FOLDER)` with encoder.json or vocab.json, and vocab.bpe or merges.txt.
      texts: what to train on (the train split); read once, not kept.
      marks: marks beyond `MARKS` that the scheme needs.

    Raises:
      UsageError: unknown name or option, missing path or files, a size too small, or no texts.
    """
    options = dict(block)
    name = options.pop("name", None)
    makers = {"sentencepiece": _build_sentencepiece, "gpt2": _build_gpt2}
    if name not in makers:
        raise UsageError(f"no vocabulary is called {name!r}: choose one of {', '.join(makers)}")
    maker = makers[name]
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
    if kind == SentencePiece.kind and len(contents) == 1:
        return SentencePiece(contents[0], marks)
    if kind == ByteBPE.kind and len(contents) == 2:
        return ByteBPE(contents[0], contents[1], marks)
    raise UsageError(f"{root / FILE} names the kind {kind!r} with {len(contents)} files: not one of numjax's")


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
    if path is not None:
        return SentencePiece(_read(pathlib.Path(path).expanduser(), "a sentencepiece .model file"), marks)
    if texts is None:
        raise UsageError("a sentencepiece vocabulary needs texts to train on, or path=FILE.model")
    if model not in ("unigram", "bpe"):
        raise UsageError(f"sentencepiece model {model!r}: choose unigram or bpe")
    if not 0.98 <= coverage <= 1.0:
        raise UsageError(f"sentencepiece coverage {coverage} is outside 0.98 … 1.0")
    out = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_training_lines(texts, max_characters),
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


def _build_gpt2(texts: Iterable[str] | None, marks: tuple[str, ...], *, path: str | None = None) -> ByteBPE:
    del texts  # the files are all there is to it
    if path is None:
        raise UsageError("vocabulary 'gpt2' needs path=FOLDER with vocab.json and merges.txt")
    root = pathlib.Path(path).expanduser()
    if not root.is_dir():
        raise UsageError(f"vocabulary folder {path} does not exist: give the folder of GPT-2's files")
    return ByteBPE(_first_of(root, "encoder.json", "vocab.json"), _first_of(root, "vocab.bpe", "merges.txt"), marks)


def _first_of(root: pathlib.Path, *names: str) -> bytes:
    for name in names:
        if (root / name).is_file():
            return _read(root / name, name)
    raise UsageError(f"vocabulary folder {root} has neither {' nor '.join(names)}")


def _read(path: pathlib.Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give {what}") from None


def _training_lines(texts: Iterable[str], max_characters: int) -> Iterator[str]:
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


def _read_bpe(vocab: bytes, merges: bytes) -> tuple[dict[str, int], list[tuple[str, str]]]:
    try:
        table = json.loads(vocab)
        if not isinstance(table, dict) or sorted(table.values()) != list(range(len(table))):
            raise ValueError("ids are not 0, 1, 2, …")
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
    except (ValueError, TypeError) as error:
        raise UsageError(f"not GPT-2 vocabulary files: {error}") from None
    return table, pairs


def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else U+0100 onwards in order."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in set(prints)]
    return {chr(b): b for b in prints} | {chr(0x100 + i): b for i, b in enumerate(others)}
