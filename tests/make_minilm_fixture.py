"""Makes tests/fixtures/minilm.npz: what `transformers` gives for a few texts with the weights of `make pretrained`.

.venv-compare/bin/python tests/make_minilm_fixture.py FOLDER     # the folder that make pretrained prints
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
KEPT = 24  # of 384 numbers a position: enough to tell, and a few kilobytes


def main() -> None:
    """Writes ids and types of each text, and hidden states after each layer."""
    import torch
    from transformers import AutoTokenizer, BertModel

    folder = sys.argv[1]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder).eval()
    first, second = [one for one, _ in TEXTS], [other for _, other in TEXTS]
    read = tokenizer(first, second, padding=True, return_tensors="pt")
    with torch.no_grad():
        found = model(**read, output_hidden_states=True)
    hidden = torch.stack(found.hidden_states[1:]).numpy()[..., :KEPT].astype(np.float32)
    seen = read["attention_mask"].numpy().astype(bool)
    np.savez_compressed(
        OUT,
        ids=read["input_ids"].numpy().astype(np.int32),
        types=read["token_type_ids"].numpy().astype(np.int32),
        seen=seen,
        middle=hidden[2][seen],
        hidden=hidden[-1][seen],
    )


if __name__ == "__main__":
    main()
