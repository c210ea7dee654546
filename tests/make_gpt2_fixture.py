"""Writes tests/fixtures/gpt2.*: a small random GPT-2 of Hugging Face and its logits.

.venv-compare/bin/python tests/make_gpt2_fixture.py     # needs torch and transformers
"""

from __future__ import annotations

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "fixtures"
IDS = np.random.default_rng(0).integers(0, 96, (2, 12))


def main() -> None:
    """Writes both files."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=96, n_positions=16, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
        initializer_range=0.2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "ln_" in name or name.endswith("bias"):
                x += 0.1 * torch.randn_like(x)
        logits = model(torch.tensor(IDS)).logits.numpy()
    from safetensors.torch import save_file

    tensors = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(tensors, FOLDER / "gpt2.safetensors", metadata={"format": "pt"})
    np.savez_compressed(FOLDER / "gpt2.npz", ids=IDS, logits=logits)


if __name__ == "__main__":
    main()
