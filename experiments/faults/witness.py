"""numjax.main with every batch that the loop takes written down, before the loop has it.

    NUMJAX_SEEN=FILE python -m experiments.faults.witness <flags of numjax.main>

A line {"from": STEP} when the loop begins, then {"step": STEP, "ids": […]} a batch: the places of its records in the
training split. With several processes each writes FILE.<index>, with its own rows.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from numjax import main
from numjax.pipeline.loader import Loader
from numjax.runtime.files import Appended

SEEN = "NUMJAX_SEEN"


def watch(path: pathlib.Path) -> None:
    """From now on, what `Loader.iterate` gives is written to `path`."""
    real = Loader.iterate

    def iterate(self: Loader, examples: int = 0) -> Iterator[Any]:
        import jax

        first = examples // self.batch_size
        name = path.name if jax.process_count() == 1 else f"{path.name}.{jax.process_index()}"
        file = Appended(path.with_name(name))
        file.add(_line({"from": first}))
        for step, found in enumerate(real(self, examples), first):
            batch: Any = found[0]
            file.add(_line({"step": step, "ids": batch.example_id[batch.valid].tolist()}))
            yield found

    Loader.iterate = iterate  # type: ignore[method-assign]


def _line(row: dict[str, Any]) -> bytes:
    return (json.dumps(row) + "\n").encode()


if __name__ == "__main__":
    watch(pathlib.Path(os.environ[SEEN]))
    main.entry()
