"""A GPT-2 in PyTorch, eager as its users run it: the peer of `train_step.py`, run by its own Python.

It imports only torch, NumPy and the harness. It does what widely used trainers do on CPU:
F.scaled_dot_product_attention, float32, logits kept through the backward pass, gradients clipped at norm 1, AdamW
that is not fused, weight decay on matrices only. `--lean`, `--fused`, `--compile` and `--bfloat16` are better tuned.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from numjax.bundled.experiments.benchmarks import pairs


class GPTBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            y.view(rows, length, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(width, dim=2)
        )
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The stack with learned positions and a tied output."""

    def __init__(self, vocab: int, width: int, layers: int, heads: int, length: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.apply(self._initialise)

    def _initialise(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.tokens.weight)
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def load(self, path: str) -> None:
        """Loads the parameters that numjax saved, so that both train the same function."""
        arrays = np.load(path)
        weights = {
            "tokens.weight": arrays["embeds_token/table"][: self.tokens.num_embeddings],
            "positions.weight": arrays["backbone/order_sequence/places"][: self.positions.num_embeddings],
            "ln_f.weight": arrays["backbone/ln_f_scale"],
            "ln_f.bias": arrays["backbone/ln_f_bias"],
        }
        width = self.tokens.embedding_dim
        for i in range(len(self.blocks)):
            layer, prefix = f"backbone/layer_{i}/", f"blocks.{i}."
            for name in ("ln_1", "ln_2"):
                weights[f"{prefix}{name}.weight"] = arrays[f"{layer}{name}_scale"]
                weights[f"{prefix}{name}.bias"] = arrays[f"{layer}{name}_bias"]
            shapes = {"qkv": (width, -1), "out": (-1, width), "up": (width, -1), "down": (-1, width)}
            for name, shape in shapes.items():
                weights[f"{prefix}{name}.weight"] = arrays[f"{layer}{name}_kernel"].reshape(shape).T
                weights[f"{prefix}{name}.bias"] = arrays[f"{layer}{name}_bias"].reshape(-1)
        self.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in weights.items()})


def main() -> None:
    """Serves a contender: a turn takes N training steps; see `pairs.serve`."""
    parser = argparse.ArgumentParser()
    for name in ("vocab", "width", "layers", "heads", "length"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--files", required=True, help="folder of parameters.npz and batch.npz")
    parser.add_argument("--lean", action="store_true", help="drop the logits before the backward pass")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    model = GPT(options.vocab, options.width, options.layers, options.heads, options.length)
    model.load(f"{options.files}/parameters.npz")
    batch = np.load(f"{options.files}/batch.npz")
    ids, targets = (torch.from_numpy(batch[k].astype(np.int64)) for k in ("ids", "targets"))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=options.fused or None)

    run = torch.compile(model) if options.compile else model

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            logits, loss = run(ids, targets)
        if options.lean:
            del logits
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def turn(steps: int) -> dict[str, float]:
        return {"loss": [step() for _ in range(steps)][-1]}

    first_loss = step()
    pairs.serve(turn, version=f"torch {torch.__version__}", threads=torch.get_num_threads(), first_loss=first_loss)


if __name__ == "__main__":
    main()
