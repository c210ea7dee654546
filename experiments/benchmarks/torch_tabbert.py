"""TabBERT's pre-training step in PyTorch, eager as TabFormer's code runs it: the peer of `tabbert.py`.

It imports only torch, NumPy and the harness. It does what that code does: an encoder layer over the cells of a row, a
BERT over the rows, logits of every cell over the whole vocabulary, the cross-entropy of each column over the column's
own ids; AdamW that is not fused, gradients clipped at norm 1.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from numjax.bundled.experiments.benchmarks import pairs


class TabBert(nn.Module):
    """Both encoders and the head; `spans`: the first id and the number of ids of each column."""

    def __init__(self, shape: dict[str, int], spans):
        super().__init__()
        width, columns, row_width = shape["width"], shape["columns"], shape["width"] * shape["columns"]
        self.columns, self.spans = columns, spans
        self.cells = nn.Embedding(shape["vocab"], width)

        def layer(size, heads, mlp_width, activation, epsilon):
            return nn.TransformerEncoderLayer(
                size, heads, mlp_width, dropout=0.0, activation=activation, layer_norm_eps=epsilon, batch_first=True
            )

        self.fields = nn.TransformerEncoder(layer(width, shape["field_heads"], width, "relu", 1e-5), 1)
        self.join = nn.Linear(row_width, row_width)
        self.positions, self.types = nn.Embedding(shape["window"], row_width), nn.Embedding(2, row_width)
        self.norm = nn.LayerNorm(row_width, eps=1e-12)
        self.rows = nn.TransformerEncoder(
            layer(row_width, shape["heads"], 4 * row_width, "gelu", 1e-12), shape["layers"]
        )
        self.transform, self.head_norm = nn.Linear(width, row_width), nn.LayerNorm(row_width, eps=1e-12)
        self.decoder = nn.Linear(row_width, shape["vocab"])
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids, labels):
        count, length = ids.shape
        x = self.fields(self.cells(ids).view(-1, self.columns, self.cells.embedding_dim))
        x = self.join(x.reshape(count, length // self.columns, -1))
        x = self.norm(x + self.positions.weight[: x.shape[1]] + self.types.weight[0])
        h = self.rows(x).reshape(count, length, -1)
        scores = self.decoder(self.head_norm(F.gelu(self.transform(h))))
        total = torch.zeros(())
        for column, (first_id, size) in enumerate(self.spans):
            column_labels = labels[:, column :: self.columns]
            if (column_labels >= 0).any():
                column_scores = scores[:, column :: self.columns, first_id : first_id + size].reshape(-1, size)
                targets = torch.where(column_labels >= 0, column_labels - first_id, -100).reshape(-1)
                total = total + F.cross_entropy(column_scores, targets, ignore_index=-100)
        return total


def main() -> None:
    """Serves a contender: a turn takes N training steps; see `pairs.serve`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", required=True, help="folder of shape.json and batch.npz")
    options = parser.parse_args()
    with open(f"{options.files}/shape.json") as file:
        layout = json.load(file)
    batch = np.load(f"{options.files}/batch.npz")
    ids = torch.from_numpy(batch["inputs"].astype(np.int64))
    labels = torch.from_numpy(np.where(batch["mask"], batch["ids"], -100).astype(np.int64))
    torch.manual_seed(0)
    model = TabBert(layout["shape"], layout["spans"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)

    def step() -> float:
        loss = model(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def turn(steps: int) -> dict[str, float]:
        return {"loss": [step() for _ in range(steps)][-1]}

    first_loss = step()
    size = sum(p.numel() for p in model.parameters())
    threads = torch.get_num_threads()
    pairs.serve(turn, version=f"torch {torch.__version__}", threads=threads, first_loss=first_loss, parameters=size)


if __name__ == "__main__":
    main()
