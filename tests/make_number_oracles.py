"""Writes tests/fixtures/number_oracles.json: what packages of other authors compute for drawn numbers.

PYTHON tests/make_number_oracles.py     # a Python with ntloss (MIT) and rtdl_num_embeddings (Apache-2.0)
"""

from __future__ import annotations

import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).parent / "fixtures" / "number_oracles.json"
WORDS = ("[UNK]", "the", "of", "eggs", *"0123456789")
LOSSES = (
    ("was", {"reweigh": False}),
    ("was", {"reweigh": True}),
    ("was", {"reweigh": False, "squash_factor": 2.0}),
    ("mse", {"reweigh": False}),
    ("mse", {"reweigh": True}),
)


def make_losses(rng: np.random.Generator) -> list[dict]:
    """Returns the losses of drawn logits at one position and at six, with the labels of digits and words."""
    import ntloss
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    model = models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), unk_token="[UNK]")
    cases = []
    for form, options in LOSSES:
        cls = ntloss.NTLoss if form == "was" else ntloss.NTLossDotProduct
        for _ in range(3):
            logits = rng.normal(0, 2, (2, 3, len(WORDS))).round(4)
            labels = rng.integers(4, len(WORDS), (2, 3))
            labels[0, 1] = 2  # a word, which has no distance
            arguments = torch.tensor(logits, dtype=torch.float32), torch.tensor(labels)
            loss = float(cls(tokenizer, vocab_size=len(WORDS), **options)(*arguments))
            case = {"form": form, "options": options, "logits": logits.tolist(), "labels": labels.tolist()}
            cases.append(case | {"loss": loss})
    return cases


def make_bins(rng: np.random.Generator) -> dict:
    """Returns the piecewise linear encoding of drawn numbers, also of numbers outside the bins."""
    import rtdl_num_embeddings
    import torch

    edges = np.sort(rng.normal(0, 30, 7)).round(3)
    numbers = np.concatenate([edges, rng.normal(0, 50, 20).round(3)])
    encoding = rtdl_num_embeddings.PiecewiseLinearEncoding([torch.tensor(edges, dtype=torch.float32)])
    features = encoding(torch.tensor(numbers, dtype=torch.float32)[:, None])
    return {"edges": edges.tolist(), "numbers": numbers.tolist(), "features": features.tolist()}


def make_periodic(rng: np.random.Generator) -> dict:
    """Returns the periodic embedding of drawn numbers, with its parameters."""
    import rtdl_num_embeddings
    import torch

    torch.manual_seed(0)
    sizes = dict(d_embedding=6, n_frequencies=5, frequency_init_scale=0.3)
    module = rtdl_num_embeddings.PeriodicEmbeddings(1, lite=True, **sizes)
    numbers = rng.normal(0, 3, 20).round(3)
    vectors = module(torch.tensor(numbers, dtype=torch.float32)[:, None])[:, 0]
    weights = {name: value.tolist() for name, value in module.state_dict().items()}
    return {"weights": weights, "numbers": numbers.tolist(), "vectors": vectors.tolist()}


def main() -> None:
    """Writes the file."""
    rng = np.random.default_rng(0)
    parts = {"ntloss": make_losses(rng), "bins": make_bins(rng), "periodic": make_periodic(rng)}
    OUT.write_text(json.dumps(parts) + "\n")


if __name__ == "__main__":
    main()
