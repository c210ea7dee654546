"""Sentencepiece models of others, such as T5's, used so that what is written is what is encoded."""

from __future__ import annotations

from typing import Any


def plain(model: bytes) -> bytes:
    """A serialised model with identity normalisation and nothing put before a text; one that has them as it is."""
    from sentencepiece import sentencepiece_model_pb2 as formats

    try:
        found: Any = formats.ModelProto.FromString(model)  # type: ignore[attr-defined]
    except Exception:  # protobuf's own error type; sentencepiece will say what is wrong
        return model
    spec = found.normalizer_spec
    if not (spec.add_dummy_prefix or spec.remove_extra_whitespaces or spec.precompiled_charsmap):
        return model
    spec.name, spec.precompiled_charsmap = "identity", b""
    spec.add_dummy_prefix = spec.remove_extra_whitespaces = False
    return found.SerializeToString()


def encode(processor: Any, text: str, first_byte: int | None) -> list[int]:
    """Ids of a text; bytes that no piece covers become `first_byte` + byte, where the model has none of its own."""
    ids, unknown = processor.encode(text), processor.unk_id()
    if first_byte is None or unknown not in ids:
        return ids
    out: list[int] = []
    for piece in processor.encode(text, return_type="proto").pieces:
        spelled = piece.surface.encode() if piece.id == unknown else None
        out += [piece.id] if spelled is None else [first_byte + byte for byte in spelled]
    return out
