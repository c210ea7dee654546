"""Writes tests/fixtures/bert.* and roberta.*: small random encoders of Hugging Face and their outputs.

.venv-compare/bin/python tests/make_bert_fixture.py     # needs torch and transformers
"""

from __future__ import annotations

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "fixtures"
VOCABULARY, PADDING = 96, 1
RNG = np.random.default_rng(0)
IDS = RNG.integers(4, VOCABULARY, (3, 12))
LENGTHS = np.asarray([12, 9, 5])
IDS = np.where(np.arange(12) < LENGTHS[:, None], IDS, PADDING)
TYPES = (np.arange(12) >= 4).astype(np.int64) * (IDS != PADDING)


def main() -> None:
    """Writes the four files."""
    import torch
    from safetensors.torch import save_file
    from transformers import (
        BertConfig,
        BertForPreTraining,
        BertForQuestionAnswering,
        RobertaConfig,
        RobertaForMaskedLM,
        RobertaForQuestionAnswering,
    )  # fmt: skip

    torch.manual_seed(0)
    common = dict(vocab_size=VOCABULARY, pad_token_id=PADDING, initializer_range=0.2)
    bert = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=16,
        **common,
    )  # fmt: skip
    roberta = RobertaConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=18,
        type_vocab_size=1, bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5, **common,
    )  # fmt: skip
    families = {
        "bert": (BertForPreTraining(bert), BertForQuestionAnswering(bert), TYPES),
        "roberta": (RobertaForMaskedLM(roberta), RobertaForQuestionAnswering(roberta), np.zeros_like(TYPES)),
    }
    for name, (model, spans, types) in families.items():
        with torch.no_grad():
            for parameter, x in model.named_parameters():
                if "norm" in parameter.lower() or parameter.endswith("bias"):
                    x += 0.1 * torch.randn_like(x)
            spans.qa_outputs.bias += 0.1 * torch.randn(2)
        setattr(spans, name, getattr(model, name))
        inputs = dict(
            input_ids=torch.tensor(IDS),
            attention_mask=torch.tensor(IDS != PADDING).long(),
            token_type_ids=torch.tensor(types),
        )
        with torch.no_grad():
            out = model.eval()(**inputs, output_hidden_states=True)
            answers = spans.eval()(**inputs)
            stack = getattr(model, name)
            pooled = {} if stack.pooler is None else {"pooled": stack(**inputs).pooler_output.numpy()}
        arrays = {
            "ids": IDS,
            "types": types,
            "hidden": out.hidden_states[-1].numpy(),
            "logits": (out.prediction_logits if name == "bert" else out.logits).numpy(),
            "start": answers.start_logits.numpy(),
            "end": answers.end_logits.numpy(),
        }
        tied = ("decoder.weight", "decoder.bias", "position_ids", "token_type_ids")
        tensors = {k: v for k, v in model.state_dict().items() if not k.endswith(tied) and "seq_rel" not in k}
        tensors |= {k: v for k, v in spans.state_dict().items() if k.startswith("qa_outputs")}
        save_file(
            {k: v.contiguous().clone() for k, v in tensors.items()}, FOLDER / f"{name}.safetensors",
            metadata={"format": "pt"},
        )  # fmt: skip
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays, **pooled)


if __name__ == "__main__":
    main()
