"""PyTorch's DataLoader over tokenised and packed rows: the peer of `input_pipeline.py`."""

from __future__ import annotations

import argparse

import numpy as np
import torch

from numjax.bundled.experiments.benchmarks import pairs


class PackedRows(torch.utils.data.Dataset):
    """Rows of a memory-mapped int32[rows, length + 1]: (ids, targets)."""

    def __init__(self, path: str):
        self._rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int):
        row = torch.from_numpy(self._rows[i].astype(np.int64))
        return row[:-1], row[1:]


def main() -> None:
    """Serves a contender: a turn loads N shuffled batches, epoch after epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--packed", required=True, help="an .npy of rows")
    parser.add_argument("--rows", type=int, required=True, help="of a batch")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(
        PackedRows(options.packed), options.rows, shuffle=True, drop_last=True, num_workers=options.workers
    )

    def cycle_batches():
        while True:
            yield from loader

    batches = cycle_batches()

    def turn(times: int) -> dict[str, int]:
        return {"positions": sum(next(batches)[0].numel() for _ in range(times)) // times}

    turn(1)
    pairs.serve(turn, version=f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
