"""Sentencepiece models, trained here or elsewhere, used without normalisation."""

from __future__ import annotations

import io
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import sentencepiece
from absl import logging

from numjax.errors import UsageError
from numjax.text.vocab.base import ALPHABET, SPACE, BaseVocabulary, read_file, training_lines


class SentencePiece(BaseVocabulary):
    """A sentencepiece model, used without normalisation and dummy prefix: it encodes exactly the given text.

    A model without byte fallback, such as T5's, gets 256 further base ids, for the bytes of unknown characters. T5
    was trained on texts that begin with a blank: begin yours with one.
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
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=_strip_normalisation(model))
            pieces = [_bytes_of(self.processor, i) for i in range(self.processor.vocab_size())]
        except (RuntimeError, OSError, ValueError) as error:  # ValueError: a piece is not UTF-8, or no byte
            raise UsageError("not a sentencepiece model: give a .model file made by sentencepiece") from error
        self.model = model
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
        ids = _encode(self.processor, first, self._first_byte)
        for part in rest:
            ids += self._space_ids
            ids += _encode(self.processor, part, self._first_byte)
        return ids

    def _is_unknown(self, character: str) -> bool:
        """Whether the character is spelled in bytes, which no text of training had."""
        return any(i >= self.known or self.processor.is_byte(i) for i in self._ids(character))

    def _files(self) -> Mapping[str, bytes]:
        return {"sentencepiece.model": self.model}


def make(
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
    """A vocabulary from its config block: loaded from `path`, or trained on `texts`."""
    if path:
        file = pathlib.Path(path).expanduser()
        file = file / "spiece.model" if file.is_dir() else file  # its name in T5's folders
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
            # Sums of floats depend on the number of threads: it is fixed, so that all machines agree.
            num_threads=2,
            minloglevel=2,
        )
    except RuntimeError as error:
        if match := re.search(r"smaller than required_chars\. (\d+) vs (\d+)", str(error)):
            raise UsageError(
                f"vocabulary size {size} is too small for these texts: give at least {match[2]}, or a lower coverage"
            ) from None
        raise UsageError(f"sentencepiece could not be trained: {str(error).splitlines()[0]}") from error
    vocabulary = SentencePiece(out.getvalue(), marks)
    if vocabulary.base < size:
        logging.info("the texts support %d pieces: vocabulary lowered from %d", vocabulary.base, size)
    return vocabulary


def _strip_normalisation(model: bytes) -> bytes:
    """A serialised model with identity normalisation and no prefix; unchanged if it is so already."""
    from sentencepiece import sentencepiece_model_pb2 as formats

    try:
        proto: Any = formats.ModelProto.FromString(model)  # type: ignore[attr-defined]
    except Exception:  # protobuf's own error type; sentencepiece reports what is wrong
        return model
    spec = proto.normalizer_spec
    if not (spec.add_dummy_prefix or spec.remove_extra_whitespaces or spec.precompiled_charsmap):
        return model
    spec.name, spec.precompiled_charsmap = "identity", b""
    spec.add_dummy_prefix = spec.remove_extra_whitespaces = False
    return proto.SerializeToString()


def _encode(processor: Any, text: str, first_byte: int | None) -> list[int]:
    """Ids of a text; if the model has no byte pieces, a byte that no piece covers becomes `first_byte` + byte."""
    ids, unknown = processor.encode(text), processor.unk_id()
    if first_byte is None or unknown not in ids:
        return ids
    out: list[int] = []
    for piece in processor.encode(text, return_type="proto").pieces:
        spelled = piece.surface.encode() if piece.id == unknown else None
        out += [piece.id] if spelled is None else [first_byte + byte for byte in spelled]
    return out


def _bytes_of(processor: sentencepiece.SentencePieceProcessor, token: int) -> bytes:
    if processor.is_control(token) or processor.is_unknown(token) or processor.is_unused(token):
        return b""
    piece = processor.id_to_piece(token)
    if processor.is_byte(token):
        return bytes([int(piece[1:-1], 16)])
    return piece.replace(SPACE, " ").encode()
