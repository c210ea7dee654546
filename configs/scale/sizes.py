"""Shared by the decoders of this folder: GPT-2's shape and vocabulary, trained on a folder of text."""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import numgpt

# Numbers as text, or as numbers: one position each, with prototype embeddings and a mixture head.
SYSTEMS = {
    "gpt": {},
    "numgpt": {
        "scheme": dict(name="replace"),
        "scheme.vocab": dict(split_digits=True),
        "embeds": numgpt.NUMGPT["embeds"],
        "heads.next": numgpt.NUMGPT["heads"]["next"] | {"tied": True},
    },
}


def make_decoder(
    *, width: int, layers: int, heads: int, length: int, rows: int, fsdp: int, remat: str
) -> dict[str, dict[str, Any]]:
    """Makes a recipe with `rows` sequences of `length` positions a step, for at least `fsdp` devices."""
    return {
        "task": dict(name="language_model", path=""),
        "scheme": dict(
            name="subword",
            rules="default",
            vocab=dict(name="sentencepiece", model="bpe", size=50_257, split_digits=False),
        ),
        "embeds": dict(token=dict(name="token")),
        "backbone": dict(
            width=width,
            layers=layers,
            heads=heads,
            max_length=length,
            dropout=0.0,
            dtype="bfloat16",
            scan=True,
            remat=remat,
            packed=True,
        ),
        "heads": dict(next=dict(name="token", tied=True)),
        "data": dict(length=length, pack=True, overflow="split"),
        "optim": dict(
            batch_size=rows, learning_rate=6e-4, schedule="cosine", warmup=2000, floor=0.1, epochs=0, steps=100_000
        ),
        "mesh": dict(fsdp=fsdp),
        "eval": dict(every=1000, examples=2048, batch_size=rows),
        "checkpoint": dict(every=1000),
    }
