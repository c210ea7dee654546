"""Runs numjax.main and records every batch in a file before the loop gets it.

    NUMJAX_SEEN=FILE python -m experiments.faults.witness <flags of numjax.main>

Writes a line {"from": STEP} when the loop begins, then {"step": STEP, "ids": […]} for each batch: the indices of its
records in the training split; and {"generation": "begins"} and {"generation": "ends"} around generated texts. With
several processes each writes FILE.<index>, with its own rows.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from numjax import main
from numjax.evals import generate
from numjax.pipeline.loader import Loader
from numjax.runtime.files import AppendOnlyFile

WITNESS_VARIABLE = "NUMJAX_SEEN"


def watch(path: pathlib.Path) -> None:
    """Patches `Loader.iterate` and the generation so that they also write to `path`."""
    original_iterate, original_predict = Loader.iterate, generate.predict

    def open_file() -> AppendOnlyFile:
        import jax

        name = path.name if jax.process_count() == 1 else f"{path.name}.{jax.process_index()}"
        return AppendOnlyFile(path.with_name(name))

    def predict(*arguments: Any) -> Any:
        file = open_file()
        file.add(_format_line({"generation": "begins"}))
        result = original_predict(*arguments)
        file.add(_format_line({"generation": "ends"}))
        file.close()
        return result

    def iterate(self: Loader, examples: int = 0) -> Iterator[Any]:
        first_step, file = examples // self.batch_size, open_file()
        file.add(_format_line({"from": first_step}))
        for step, entry in enumerate(original_iterate(self, examples), first_step):
            batch: Any = entry[0]
            file.add(_format_line({"step": step, "ids": batch.example_id[batch.valid].tolist()}))
            yield entry

    Loader.iterate = iterate  # type: ignore[method-assign]
    generate.predict = predict


def _format_line(row: dict[str, Any]) -> bytes:
    return (json.dumps(row) + "\n").encode()


if __name__ == "__main__":
    watch(pathlib.Path(os.environ[WITNESS_VARIABLE]))
    main.entry()
