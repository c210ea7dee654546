"""Results on disk: those that a folder's runs wrote, and those that `--known` took over from tables made elsewhere.

A table's JSON holds "runs", each with the names of its settings ("key") and of its code ("code"), and once for all
runs "settings" and "code", by these names; its "trial_runs" hold the same of its trials. On disk, under the folder of
an experiment:

    known/<key>/settings.json, seed_<N>.json
    trials/known/<key>/settings.json, seed_<N>.json
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from numjax import bundled
from numjax.bundled.experiments import identity, sources
from numjax.errors import UsageError
from numjax.runtime import files, log

SETTINGS = "settings.json"
CODE = "code.json"
TRIALS = "trials"  # the folder of trials in that of an experiment
DIRTY = "-dirty"


class RunResult(NamedTuple):
    """The result of one seed of a cell.

    Attributes:
      task, system, seed, key: identify the run.
      metrics: split → name → value, of the checkpoint that was best on validation; empty when the run diverged.
      diverged: the error message when the loss stopped being finite, else None.
      seconds: from the last (re)start to the end, compilation and evaluation included.
      machine: device, versions, commit.
      finished: time, UTC.
      settings, code: what the result depends on, see `identity`; empty where it was not recorded.
    """

    task: str
    system: str
    seed: int
    key: str
    metrics: dict[str, dict[str, float]]
    diverged: str | None
    seconds: float
    machine: dict[str, Any]
    finished: str
    settings: Mapping[str, Any] = {}
    code: Mapping[str, str] = {}


class Request(NamedTuple):
    """The result that is asked for: names for messages, a seed, settings, and the defaults of the cell's options."""

    task: str
    system: str
    seed: int
    settings: identity.Settings
    defaults: identity.Settings = {}


def load_result(path: pathlib.Path, out: pathlib.Path, request: Request) -> RunResult | None:
    """The result that a run wrote to `path`, or one of the same settings that `--known` took over, or None.

    Prints, once for each reason, what is taken from elsewhere or was made by other code, and what is not taken.
    """
    result, origin = _load(path), "in this folder"
    if result is None:
        result, origin = _find_known(out, request), "from --known"
    if result is None:
        _explain(out, request)
        return None
    change = sources.describe_changed(result.code)
    if change or origin != "in this folder":
        _say_once(f"{request.task}/{request.system}: taken, {origin}, {change or 'of the same code'}")
    return result._replace(task=request.task, system=request.system)


def has_settings(folder: pathlib.Path, settings: identity.Settings, defaults: identity.Settings) -> bool:
    """Whether a folder's settings are recorded and the same."""
    recorded = _load_settings(folder)
    return bool(recorded) and not identity.list_differences(recorded, settings, defaults)


def start_code(folder: pathlib.Path, code: Mapping[str, str]) -> dict[str, str]:
    """The code of a run that starts or resumes in a folder: of all its lives, if they differ."""
    if before := load_code(folder):
        code = merge_code(before, code)
    write_json(folder / CODE, code)
    return dict(code)


def load_code(folder: pathlib.Path) -> dict[str, str]:
    """The code of the runs in a folder; empty if it is not known."""
    with contextlib.suppress(OSError, json.JSONDecodeError):
        return json.loads((folder / CODE).read_text())
    return {}


def merge_code(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Module → digest; "a+b" for a module that was another in the second part of a run."""
    merged = {**first, **second}
    for name in first.keys() & second.keys():
        if second[name] not in first[name].split("+"):
            merged[name] = f"{first[name]}+{second[name]}"
        else:
            merged[name] = first[name]
    return merged


def adopt(tables: Iterable[str], out: pathlib.Path, same_code: bool = False) -> None:
    """Copies the results of earlier tables, or of tables from other machines, and of their trials into `out`.

    Args:
      tables: paths of NAME.json files.
      same_code: leave out results of other code than the present one, also those that an earlier call copied.

    Raises:
      UsageError: a file is missing or is not a table's.
    """
    for path in tables:
        try:
            content = json.loads(pathlib.Path(path).expanduser().read_text())
            copies = [(out, result) for result in unpack(content)]
            if "trial_runs" in content:
                copies += [(out / TRIALS, result) for result in unpack(content["trial_runs"])]
        except (OSError, json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"--known={path}: give NAME.json as tables write it ({error!r:.100})") from None
        for home, result in copies:
            name = f"--known={path}: {result.task}/{result.system}"
            if not result.settings:
                _say_once(f"{name} is not taken: it does not record its settings")
            elif same_code and (change := sources.describe_changed(result.code)):
                _say_once(f"{name} is not taken: {change}")
            else:
                folder = home / "known" / result.key
                write_json(folder / SETTINGS, result.settings)
                write_json(folder / f"seed_{result.seed}.json", result._asdict())
    if same_code:
        for path in [*out.glob("known/*/seed_*.json"), *(out / TRIALS).glob("known/*/seed_*.json")]:
            if (copy := _load(path)) is not None and sources.describe_changed(copy.code):
                path.unlink()


def pack(results: Iterable[RunResult]) -> dict[str, Any]:
    """ "runs", "settings" and "code" of a table's JSON."""
    entries, settings, code = [], {}, {}
    for result in results:
        entry = result._asdict()
        del entry["settings"]
        entry["code"] = identity.make_key(result.code)[:8] if result.code else ""
        entries.append(entry)
        if result.settings:
            settings[result.key] = result.settings
        if result.code:
            code[entry["code"]] = result.code
    return {"runs": entries, "settings": settings, "code": code}


def list_entries(results: Mapping[Any, Mapping[int, RunResult]]) -> list[dict[str, Any]]:
    """The results of all cells and seeds, as a table's JSON has them."""
    return pack(result for by_seed in results.values() for result in by_seed.values())["runs"]


def unpack(content: Mapping[str, Any]) -> list[RunResult]:
    """The results of a table's JSON.

    Raises:
      TypeError, KeyError: it is none.
    """
    settings, code = content.get("settings", {}), content.get("code", {})
    return [
        RunResult(**entry)._replace(settings=settings.get(entry["key"], {}), code=code.get(entry.get("code", ""), {}))
        for entry in content["runs"]
    ]


def describe_code(results: Sequence[RunResult]) -> str:
    """Which results were made by other code than the present one, in one sentence; empty if none was."""
    changes: dict[str, int] = {}
    for result in results:
        if change := sources.describe_changed(result.code):
            changes[change] = changes.get(change, 0) + 1
    parts = [f"{count} of {change}" for change, count in sorted(changes.items())]
    intro = f"Runs by other code than wrote this table, of {len(results)}"
    return f"{intro}: {'; '.join(parts)}." if parts else ""


def describe_machine() -> dict[str, Any]:
    """The machine of a result: devices, cores, versions, and the commit of a checkout."""
    device = jax.local_devices()[0]
    kind = device.device_kind
    if device.platform == "cpu":
        with contextlib.suppress(OSError):
            lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            kind = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), kind)
    return {
        "device": kind,
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "commit": find_commit(),
    }


def find_commit() -> str:
    """The commit of a checkout, with "-dirty" if code differs from it; "" outside of one."""
    command = ["git", "-C", str(bundled.HOME), "rev-parse", "--short=12", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit + DIRTY * bool(sources.list_changes())


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a JSON file, whole or not at all.

    Raises:
      UsageError: the file cannot be written.
    """
    try:
        files.write(path, json.dumps(value, indent=1, ensure_ascii=False, default=list) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): make room or choose another --out") from error


def _load(path: pathlib.Path) -> RunResult | None:
    with contextlib.suppress(OSError, json.JSONDecodeError, TypeError):
        return RunResult(**json.loads(path.read_text()))
    return None


def _load_settings(folder: pathlib.Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, json.JSONDecodeError):
        return json.loads((folder / SETTINGS).read_text())
    return {}


def _find_known(out: pathlib.Path, request: Request) -> RunResult | None:
    for folder in sorted((out / "known").glob("*")):
        if has_settings(folder, request.settings, request.defaults):
            if (result := _load(folder / f"seed_{request.seed}.json")) is not None:
                return result
    return None


def _explain(out: pathlib.Path, request: Request) -> None:
    """Prints why known results of these names are not taken."""
    for folder in sorted((out / "known").glob("*")):
        for result in map(_load, folder.glob("seed_*.json")):
            if result is None or (result.task, result.system) != (request.task, request.system):
                continue
            if differences := identity.list_differences(result.settings, request.settings, request.defaults):
                more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
                _say_once(
                    f"{request.task}/{request.system} is not taken from --known: {'; '.join(differences[:3])}{more}"
                )


@functools.cache
def _say_once(text: str) -> None:
    log.say(text)
