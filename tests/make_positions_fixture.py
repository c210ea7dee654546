"""Writes tests/fixtures/positions.npz: queries and keys rotated by transformers' Llama, and Bloom's ALiBi biases.

.venv-compare/bin/python tests/make_positions_fixture.py     # needs torch and transformers
"""

from __future__ import annotations

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "fixtures"
SIZE, LENGTH = 16, 40
SCALINGS = {
    "none": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}  # fmt: skip


def main() -> None:
    """Writes the file."""
    import torch
    from transformers import LlamaConfig
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, 3, LENGTH, SIZE)).astype(np.float32) for _ in range(2))
    positions = np.stack([np.arange(LENGTH), 100 + np.arange(LENGTH)])
    arrays: dict[str, np.ndarray] = {"q": q, "k": k, "positions": positions.astype(np.int32)}
    for name, scaling in SCALINGS.items():
        config = LlamaConfig(
            hidden_size=4 * SIZE,
            num_attention_heads=4,
            max_position_embeddings=128,
            rope_parameters={"rope_theta": 5000.0, **scaling},
        )
        rotary = LlamaRotaryEmbedding(config)
        cos, sin = rotary(torch.tensor(q), torch.tensor(positions))
        rotated = apply_rotary_pos_emb(torch.tensor(q), torch.tensor(k), cos, sin)
        arrays[f"{name}/q"], arrays[f"{name}/k"] = (x.numpy() for x in rotated)
    for heads in (4, 6, 12):
        mask = torch.ones(1, LENGTH)
        # They depend only on the position of the key: a softmax ignores a constant in all scores of a query.
        arrays[f"alibi/{heads}"] = build_alibi_tensor(mask, heads, torch.float32).numpy()
    np.savez_compressed(FOLDER / "positions.npz", **arrays)


if __name__ == "__main__":
    main()
