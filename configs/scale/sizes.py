"""What the decoders of this folder share: GPT-2's shape and vocabulary, trained on a folder of text."""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common, numgpt

WORDS = {"numerals": "numbers as numbers: one position each, prototype embeddings and a mixture head"}


def decoder(
    argument: str | None, *, width: int, layers: int, heads: int, length: int, rows: int, fsdp: int, remat: str
) -> ConfigDict:
    """A config of `rows` sequences a step of `length` positions; the argument "numerals" turns numeral parts on."""
    words = [word for word in (argument or "").split(",") if word]
    for word in words:
        common.known(word, WORDS, "config argument")
    config: Any = numgpt.get_config(f"paper,task=text,system={'numgpt' if words else 'gpt'}")
    with config.unlocked():
        config.scheme.vocab.size = 50_257
        config.heads.next.tied = True
        config.backbone.update(
            width=width,
            layers=layers,
            heads=heads,
            max_length=length,
            dropout=0.0,
            dtype="bfloat16",
            scan=True,
            remat=remat,
        )
        config.data.length = length
        config.optim.update(
            batch_size=rows, learning_rate=6e-4, schedule="cosine", warmup=2000, floor=0.1, epochs=0, steps=100_000
        )
        config.mesh.fsdp = fsdp
        config.eval.update(every=1000, examples=2048, batch_size=rows)
        config.checkpoint.every = 1000
    return config
