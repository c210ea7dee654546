"""`--mode=predict`: predictions for records of the user."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from numjax.modes import unread
from numjax.runtime import files, log


def predict_records(
    model: Any,
    records: Sequence[Mapping[str, Any]],
    skipped: list[dict[str, str]],
    folder: pathlib.Path,
    strict: bool,
) -> dict[str, Any]:
    """Predicts the user's records; prints the predictions and writes them to predictions/input.jsonl.

    Args:
      records: records of the task; the field "mended" says how a record was repaired. skipped: records that are left
        out already. Both are reported.
    """
    encoded = model.encode(records, strict, skipped)
    unread.say_rows(model.system, encoded)
    rows = model.predict_encoded(encoded)
    for row in rows:
        log.print_result(row)
    if jax.process_index() == 0:
        files.write(folder / "predictions" / "input.jsonl", (log.to_json(row) + "\n" for row in rows))
    for record in records:
        if "mended" in record:
            log.say(f"mended {record['id']}: {record['mended']}")
    for row in rows:
        if "shortened" in row:
            log.say(f"not read whole {row['id']}: {row['shortened']}")
    for row in skipped:
        log.say(f"left out {row['id']}: {row['reason']}")
    return {"predictions": rows, "skipped": copy.copy(skipped)}
