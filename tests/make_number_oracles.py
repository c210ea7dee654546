"""Writes tests/fixtures/number_oracles.json: what packages of other authors compute for drawn numbers.

PYTHON tests/make_number_oracles.py [WORDS]

PYTHON has ntloss (MIT), rtdl_num_embeddings (Apache-2.0), chronos-forecasting (Apache-2.0) and x-transformers (MIT).
Words, such as xval, name parts that are made anew; the others stay.
"""

from __future__ import annotations

import json
import pathlib
import sys

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


def make_chronos(rng: np.random.Generator) -> list[dict]:
    """Returns the ids and restored values of drawn series, some of which leave the bins: given numbers, and those
    that follow, divided by the scale of the given ones."""
    import torch
    from chronos.chronos import ChronosConfig, MeanScaleUniformBins

    config = ChronosConfig(
        tokenizer_class="MeanScaleUniformBins", tokenizer_kwargs={"low_limit": -15.0, "high_limit": 15.0},
        context_length=512, prediction_length=4, n_tokens=4096, n_special_tokens=2, pad_token_id=0, eos_token_id=1,
        use_eos_token=False, model_type="seq2seq", num_samples=1, temperature=1.0, top_k=50, top_p=1.0,
    )  # fmt: skip
    tokenizer = MeanScaleUniformBins(-15.0, 15.0, config)
    cases = []
    for size in (0.01, 1.0, 300.0):
        given = rng.normal(size, size, 12).round(4)
        series = np.concatenate([given, rng.normal(size, 4 * size, 3).round(4), [40 * size]])
        ids, _, scale = tokenizer.context_input_transform(torch.tensor(given, dtype=torch.float32)[None])
        more, _ = tokenizer.label_input_transform(torch.tensor(series[12:], dtype=torch.float32)[None], scale)
        ids = torch.cat([ids, more], dim=1)
        values = tokenizer.output_transform(ids[None], scale)[0, 0]
        cases.append({"given": 12, "series": series.tolist(), "ids": ids[0].tolist(), "values": values.tolist()})
    return cases


def make_xval(rng: np.random.Generator) -> dict:
    """Returns what enters the stack of a transformer with xVal's numbers, without positions, and its losses of
    numbers at all positions but the first."""
    import torch
    from x_transformers import Decoder
    from x_transformers.xval import XValAutoregressiveWrapper, XValTransformerWrapper

    torch.manual_seed(0)
    stack = Decoder(dim=8, depth=1, heads=2, attn_dim_head=4)
    model = XValTransformerWrapper(
        num_tokens=6, max_seq_len=16, numerical_token_id=4, attn_layers=stack, use_abs_pos_emb=False
    )
    ids = rng.integers(0, 6, (2, 7))
    ids[:, [1, 4]] = 4
    numbers = np.where(ids == 4, rng.normal(0, 30, ids.shape).round(3), 0.0)
    numbers[0, 4] = 0.0
    seen = []
    stack.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    arguments = torch.tensor(ids), torch.tensor(numbers, dtype=torch.float32)
    with torch.no_grad():
        model(*arguments)
        loss = XValAutoregressiveWrapper(model)(*arguments, return_loss_breakdown=True)[1]
        _, predictions = model(arguments[0][:, :-1], arguments[1][:, :-1])
    arrays = {"table": model.token_emb.emb.weight, "vectors": seen[0], "predictions": predictions}
    arrays |= {"losses": loss.numerical_mse_loss, "ids": ids, "numbers": numbers}
    return {"num_id": 4} | {name: value.tolist() for name, value in arrays.items()}


MAKERS = {
    "ntloss": make_losses,
    "bins": make_bins,
    "periodic": make_periodic,
    "chronos": make_chronos,
    "xval": make_xval,
}


def main() -> None:
    """Writes the file."""
    parts = json.loads(OUT.read_text()) if len(sys.argv) > 1 else {}
    for index, (name, make) in enumerate(MAKERS.items()):
        if name in sys.argv[1:] or len(sys.argv) == 1:
            parts[name] = make(np.random.default_rng(index))
    OUT.write_text(json.dumps(parts) + "\n")


if __name__ == "__main__":
    main()
