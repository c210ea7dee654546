"""What a task chose on validation, such as a threshold, kept with the run for its predictions."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError
from numjax.runtime import files, log

FILE = "tuned.json"


def keep(folder: pathlib.Path, chosen: Mapping[str, float]) -> None:
    """Writes what `recall` reads."""
    files.write(folder / FILE, json.dumps(dict(chosen)) + "\n")


def recall(folder: pathlib.Path, task: Any) -> dict[str, float]:
    """What the task's `tuned` names, by name; nothing where the run has not ended, which is said.

    Raises:
      UsageError: the file is damaged.
    """
    names, path = task.tuned, folder / FILE
    if not names:
        return {}
    if not path.exists():
        names = ", ".join(names)
        log.say(f"{folder}: no {names} was chosen on validation yet: run --mode=eval; until then it is the default")
        return {}
    try:
        found = json.loads(path.read_text())
        return {name: float(found[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is damaged: delete it and run --mode=eval") from None
