"""The index of sharded safetensors."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile

from numjax.errors import UsageError
from numjax.pretrained import weights

SEEDS = (
    b'{"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "c.safetensors"}}',
    b'{"weight_map": {"a": "../../x.safetensors"}}',
)

FOLDER = tempfile.TemporaryDirectory()


def check(data: bytes) -> None:
    """An index gives the tensors of files in its folder, or one line that says what is wrong."""
    root = pathlib.Path(FOLDER.name)
    (root / weights.INDEX).write_bytes(data)
    with contextlib.suppress(UsageError):
        for name, tensors in weights.read_index(root).items():
            assert (root / name).resolve().parent == root.resolve() and tensors
    with contextlib.suppress(UsageError):
        weights.load_tensors(root)
