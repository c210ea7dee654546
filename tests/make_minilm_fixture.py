"""Writes tests/fixtures/minilm.npz: hidden states of `transformers` for a few texts with the weights of
`make pretrained`.

.venv-compare/bin/python tests/make_minilm_fixture.py FOLDER     # FOLDER is printed by make pretrained
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

OUT = pathlib.Path(__file__).parent / "fixtures" / "minilm.npz"
TEXTS = (
    ("What was the change in revenue from 2018 to 2019?", "year revenue cost 2019 1,200 900"),
    ("Barton scored the most points.", "club points barton 45"),
    ("Überraschung: ½ of it — 3.5%", ""),
)
N_FEATURES = 24  # of 384 at each position: enough to compare, in a few kilobytes


def main() -> None:
    """Writes the ids and types of each text, and the hidden states after two layers."""
    import torch
    from transformers import AutoTokenizer, BertModel

    folder = sys.argv[1]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder).eval()
    first, second = [text for text, _ in TEXTS], [text for _, text in TEXTS]
    inputs = tokenizer(first, second, padding=True, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    hidden = torch.stack(outputs.hidden_states[1:]).numpy()[..., :N_FEATURES].astype(np.float32)
    mask = inputs["attention_mask"].numpy().astype(bool)
    np.savez_compressed(
        OUT,
        ids=inputs["input_ids"].numpy().astype(np.int32),
        types=inputs["token_type_ids"].numpy().astype(np.int32),
        seen=mask,
        middle=hidden[2][mask],
        hidden=hidden[-1][mask],
    )


if __name__ == "__main__":
    main()
