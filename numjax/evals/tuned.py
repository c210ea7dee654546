"""Saves the values that a task chose on validation, such as a threshold, with the run for its predictions."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError
from numjax.runtime import files, log, program

FILE = "tuned.json"


def save(folder: pathlib.Path, values: Mapping[str, float]) -> None:
    """Writes the file that `load` loads."""
    files.write(folder / FILE, json.dumps(dict(values)) + "\n")


def load(folder: pathlib.Path, task: Any) -> dict[str, float]:
    """The values of the task's `tuned`, by name. Before the run has ended, it reports that and returns none.

    Raises:
      UsageError: the file is damaged.
    """
    names, path = task.tuned, folder / FILE
    if not names:
        return {}
    if not path.exists():
        names = ", ".join(names)
        log.say(
            f"{folder}: no {names} was chosen on validation yet: run {program.mode_of('eval')}; until then it is the "
            "default"
        )
        return {}
    try:
        values = files.parse_json(path.read_bytes())
        return {name: float(values[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is damaged: delete it and run {program.mode_of('eval')}") from None
