"""Writes tests/fixtures/{t5,flan,bart}.*: small random models of Hugging Face, their logits and generated ids.

.venv-compare/bin/python tests/make_seq2seq_fixtures.py     # needs torch and transformers
"""

from __future__ import annotations

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "fixtures"
VOCABULARY, MAX_TOKENS = 40, 8


def make_inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (source ids, mask of no padding, decoder ids); sources are longer than T5's buckets of one distance."""
    rng = np.random.default_rng(0)
    source, ids = rng.integers(4, VOCABULARY, (3, 24)), rng.integers(4, VOCABULARY, (3, 11))
    valid = np.arange(24) < np.asarray([24, 17, 5])[:, None]
    return np.where(valid, source, 0), valid, ids


def make_models():
    """Yields (name, model) for each kind."""
    from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

    t5 = dict(
        vocab_size=VOCABULARY, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=3, num_heads=2,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, decoder_start_token_id=0,
        eos_token_id=1, pad_token_id=0, initializer_factor=1.5,
    )  # fmt: skip
    yield "t5", T5ForConditionalGeneration(T5Config(feed_forward_proj="relu", tie_word_embeddings=True, **t5))
    gated = t5 | dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    yield "flan", T5ForConditionalGeneration(T5Config(**gated))
    yield "bart", BartForConditionalGeneration(BartConfig(
        vocab_size=VOCABULARY, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32,
        decoder_start_token_id=2, eos_token_id=2, bos_token_id=0, pad_token_id=1, forced_eos_token_id=None,
        init_std=0.3,
    ))  # fmt: skip


def main() -> None:
    """Writes a .safetensors and a .npz for each."""
    import torch
    from safetensors.torch import save_file

    source, valid, ids = make_inputs()
    torch.manual_seed(0)
    for name, model in make_models():
        model = model.eval()
        with torch.no_grad():
            if name == "flan":
                # Later versions tie all T5s unless the file has a head.
                model.lm_head.weight = torch.nn.Parameter(0.5 * torch.randn_like(model.shared.weight))
            for key, x in model.named_parameters():
                if "norm" in key or key.endswith("bias"):
                    x += 0.1 * torch.randn_like(x)
            if name == "bart":
                model.final_logits_bias += torch.randn_like(model.final_logits_bias)
            inputs = dict(input_ids=torch.tensor(source), attention_mask=torch.tensor(valid).long())
            logits = model(**inputs, decoder_input_ids=torch.tensor(ids), use_cache=False).logits.numpy()
            greedy = model.generate(
                **inputs, max_new_tokens=MAX_TOKENS, do_sample=False, num_beams=1, use_cache=False
            )
        tied = ("embed_tokens.weight",) + (() if name == "flan" else ("lm_head.weight",))
        tensors = {k: v.contiguous() for k, v in model.state_dict().items() if not k.endswith(tied)}
        save_file(tensors, FOLDER / f"{name}.safetensors", metadata={"format": "pt"})
        arrays = dict(source=source, valid=valid, ids=ids, logits=logits, greedy=greedy.numpy())
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
        print(name, greedy)


if __name__ == "__main__":
    main()
