"""Cells on disk: the result of one row on one column at one scale with one seed, a JSON file each in OUT/cells.

A file is written whole or not at all. What stands where a cell belongs and is not the cell that is asked for (other
settings, other problems, an older form, half a file) is moved to OUT/replaced and never deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.build import build
from numjax.bundled.experiments import identity, sources, stored
from numjax.bundled.experiments.grid import problems
from numjax.bundled.experiments.grid.rows import Row, make_config
from numjax.bundled.experiments.grid.scales import TRIAL_SHARE, Scale
from numjax.errors import UsageError

FORM = 1
FIELDS = (
    *("form", "row", "column", "scale", "seed", "key", "commit", "dirty", "hardware", "settings", "steps", "seconds"),
    *("overhead_seconds", "ms_per_step", "parameters", "slots_per_number", "metrics", "streams", "ceiling", "curve"),
    *("examples", "not_applicable"),
)
# Settings that follow from the scheme and the problems.
FOLLOWING = {"data.length", "backbone.max_length"}


class Job(NamedTuple):
    """The cells of one run: a row on columns with a seed.

    Attributes:
      row, scale: what is trained. columns: names; a joint run has all columns of its scale.
      seed: of initialisation and data order. out: folder of the grid.
      same_code: cells of other code than the present one do not count.
      needed: the columns whose cells are asked for, by default all; a joint run writes the others too.
    """

    row: Row
    scale: Scale
    columns: tuple[str, ...]
    seed: int
    out: str
    same_code: bool = False
    needed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its run, on disk and in messages."""
        return f"{self.scale.name}.{self.row.name}.{_name_columns(self.columns)}.seed{self.seed}"

    @property
    def folder(self) -> pathlib.Path:
        """The folder of the grid."""
        return pathlib.Path(self.out)

    def path(self, column: str) -> pathlib.Path:
        """The file of one of its cells."""
        return self.folder / "cells" / f"{self.scale.name}.{self.row.name}.{column}.seed{self.seed}.json"

    def list_seeds(self, column: str) -> list[pathlib.Path]:
        """The files of the cells of a column of all seeds that are there."""
        return list((self.folder / "cells").glob(f"{self.scale.name}.{self.row.name}.{column}.seed*.json"))


def _name_columns(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{len(columns)}columns"


def list_settings(job: Job) -> dict[str, Any]:
    """What the cells of a job depend on, path → value: all options of the config, how the learning rate is chosen,
    and the problems by content."""
    config, answer = _make_config_for_all_answers(job)
    task: Any = build("tasks", config.task)
    listed = identity.list_settings(config) | {"task.answer": answer}
    settings = {path: value for path, value in listed.items() if path not in FOLLOWING}
    settings |= {
        "optim.learning_rate": list(job.scale.rates),
        "grid.trial_share": TRIAL_SHARE,
        "grid.validation": job.scale.validation,
        "grid.problems": digest_problems(task.dataset),
        # The room of an answer follows from the problems too. The first cells were keyed with this value.
        "decode.max_tokens": 32,
    }
    if job.row.kind == "baseline":
        settings = {path: value for path, value in settings.items() if path.startswith(("task.", "grid.problems"))}
        settings["grid.baseline"] = job.row.name
    return settings


def choose_key(job: Job) -> tuple[dict[str, Any], str]:
    """(settings of a job, the key of its cells): those of its folder that say the same, else new ones.

    Settings say the same if they differ only in options that were added later and have their default now.
    """
    settings, own = list_settings(job), []
    key, defaults = identity.make_key(settings), _list_defaults(job)
    for column in job.columns:
        with contextlib.suppress(UsageError):
            own.append(str(load_cell(job.path(column))["key"]))
    names = [path.stem for path in sorted((job.folder / "settings").glob("*.json"))]
    # Those of cells that are there come first.
    for name in dict.fromkeys([*own, *[key] * (key in names), *names]):
        recorded = load_settings(job.folder, name)
        if recorded and not identity.list_differences(recorded, settings, defaults):
            return recorded, name
    return settings, key


def _list_defaults(job: Job) -> dict[str, Any]:
    return identity.list_defaults(_make_config_for_all_answers(job)[0])


def _make_config_for_all_answers(job: Job) -> tuple[Any, str]:
    """(the config of a job with answers that go with all columns, the form of answers that it has)."""
    config = make_config(job.row, job.scale, job.columns)
    answer = config.task.get("answer", "text")
    with config.unlocked():
        config.task.answer = "text"
    return config, answer


def digest_problems(dataset: Mapping[str, Any]) -> str:
    """A digest of the test and validation problems; those of training come from the same generator and options."""
    name = json.dumps(dict(dataset), sort_keys=True)
    if name not in _DIGESTS:
        records = [record for split in ("test", "validation") for record in problems.load_records(dataset, split)]
        _DIGESTS[name] = problems.digest(records)
    return _DIGESTS[name]


_DIGESTS: dict[str, str] = {}


def load_cell(path: pathlib.Path) -> dict[str, Any]:
    """A cell.

    Raises:
      UsageError: the file is no whole cell of this form; the message is one line.
    """
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise UsageError(f"{path}: half a file or no JSON") from None
    if fault := describe_fault(cell):
        raise UsageError(f"{path}: {fault}")
    return cell


def describe_fault(cell: Any) -> str:
    """Why some JSON is no whole cell of this form; "" if it is one."""
    form = cell.get("form") if isinstance(cell, dict) else None
    if form != FORM:
        age = "a newer" if isinstance(form, int) and form > FORM else "an older"
        return f"{age} form of cells ({form}), and this is form {FORM}"
    missing = [name for name in FIELDS if name not in cell]
    return f"no whole cell, without {', '.join(missing[:3])}" if missing else ""


def describe_change(
    recorded: Mapping[str, Any], current: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> str:
    """That a cell is another result than the one that is asked for, with two of their settings that differ."""
    differences = identity.list_differences(recorded, current, defaults or {})
    more = f" and {len(differences) - 2} more" if len(differences) > 2 else ""
    return "another result" + f" ({'; '.join(differences[:2])}{more})" * bool(differences)


def load_cells(out: pathlib.Path) -> Iterator[dict[str, Any] | UsageError]:
    """Yields each cell of a folder, or what is wrong with its file."""
    for path in sorted((out / "cells").glob("*.json")):
        try:
            yield load_cell(path)
        except UsageError as error:
            yield error


def explain_unusable(job: Job, column: str, key: str) -> str:
    """Why the cell of a column must be run although its file exists, in one line; "" if it need not, or is not there.

    Raises:
      UsageError: the cell is of a newer form, which this code must not replace.
    """
    path = job.path(column)
    if not path.exists():
        return ""
    try:
        cell = load_cell(path)
    except UsageError as error:
        if "a newer form" in str(error):
            raise UsageError(f"{error}: use the code that wrote it, or another --out") from None
        return str(error)
    if cell["key"] != key:
        recorded = load_settings(job.folder, cell["key"])
        return f"{path}: {describe_change(recorded, list_settings(job), _list_defaults(job))}"
    if job.same_code and (change := sources.describe_changed(load_code(job.folder, cell))):
        return f"{path}: {change}"
    return ""


def list_missing(job: Job, key: str) -> list[str]:
    """The columns of a job whose cells must be run: none if the needed ones are there."""

    def is_missing(column: str) -> bool:
        return not job.path(column).exists() or bool(explain_unusable(job, column, key))

    if not any(map(is_missing, job.needed or job.columns)):
        return []
    return list(filter(is_missing, job.columns))


def write_cell(job: Job, cell: Mapping[str, Any]) -> None:
    """Writes a cell; another file that stands in its way is kept in OUT/replaced.

    Raises:
      UsageError: the disk is full, or the folder cannot be written.
    """
    path = job.path(cell["column"])
    if path.exists():
        with contextlib.suppress(UsageError):
            if load_cell(path)["key"] == cell["key"] and not job.same_code:
                return  # another machine has written the same cell since this run began
        stamp = path.stat().st_mtime_ns
        (job.folder / "replaced").mkdir(parents=True, exist_ok=True)
        os.replace(path, job.folder / "replaced" / f"{path.stem}.{stamp}.json")
    stored.write_json(path, cell)


def write_once(out: pathlib.Path, kind: str, content: Mapping[str, Any]) -> str:
    """Writes what many cells share, "settings" or "code", as OUT/KIND/NAME.json; returns its name."""
    name = identity.make_key(content)
    path = out / kind / f"{name}.json"
    if not path.exists():
        stored.write_json(path, content)
    return name


def load_settings(out: pathlib.Path, key: str) -> dict[str, Any]:
    """The settings that a key names; empty if they are not there."""
    return _load(out, "settings", key)


def load_code(out: pathlib.Path, cell: Mapping[str, Any]) -> dict[str, str]:
    """Module → digest of the code of a cell; empty if it is not known."""
    return _load(out, "code", cell.get("code"))


def _load(out: pathlib.Path, kind: str, name: Any) -> dict[str, Any]:
    try:
        content = json.loads((out / kind / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
