"""The folder of a run: whose it is, which config made it, whether it is trained."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import jax

from numjax.config import blocks
from numjax.config.origin import CONFIG_FILE, load_config, save_config
from numjax.errors import UsageError
from numjax.runtime import files, processes
from numjax.system import VOCABULARY

# Seconds that a run waits for an earlier run in the same workdir, which may still be saving. The other processes wait
# too, and Gloo lets them wait at most 30.
LOCK_WAIT = 20

# Blocks and settings that may differ when a workdir's run is resumed: they change no parameter. The fingerprint in
# the checkpoints shows whether another `data.dir` holds the same data.
FREE = {
    *("log_every", "profile_steps", "topology", "compile_cache", "checkpoint", "decode", "mesh", "num_seeds"),
    *("data.dir", "data.memory", "data.threads", "data.prefetch", "data.workers"),
    *("eval.batch_size", "eval.generate", "eval.test"),
    "task.answer",  # how answers are decoded
}


@contextlib.contextmanager
def lock_folder(folder: pathlib.Path, flag: str = "--workdir") -> Iterator[None]:
    """Locks a folder so that two runs do not write to it: process 0 holds the lock; if it cannot, all processes fail.

    Args:
      flag: the flag that names the folder, for the message.

    Raises:
      UsageError: another run still holds the lock after `LOCK_WAIT` seconds, or the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        problem = ""
        if jax.process_index() == 0:
            try:
                stack.enter_context(
                    files.hold_lock(folder / ".lock", f"another process is at work in {folder}", LOCK_WAIT)
                )
            except UsageError as error:
                problem = f"{error}: wait for it to end, or use another {flag}"
            except OSError as error:
                problem = f"cannot write to {folder} ({error.strerror}): choose another {flag}"
        if problem := processes.broadcast_bytes(problem.encode()).decode():
            processes.leave()
            raise UsageError(problem)
        yield


def has_checkpoint(workdir: pathlib.Path) -> bool:
    """Whether the workdir, or the folder of a seed in it, holds a complete checkpoint."""
    patterns = (f"{parent}{name}/*" for parent in ("", "seed_*/") for name in ("checkpoints", "best"))
    return any(path.name.isdigit() for pattern in patterns for path in workdir.glob(pattern))


def claim(workdir: pathlib.Path, config: Any, keep: bool = True) -> None:
    """Checks that the workdir was trained with this config, and writes the config there.

    If nothing is trained yet, another config there is replaced, and the files that were made with it are removed.

    Args:
      keep: False leaves the config file of a trained workdir as it is: settings that may differ then hold only for
        this use of the run.

    Raises:
      UsageError: the workdir was trained with another config (the message names the first difference), or the config
        cannot be written.
    """
    own_config = _as_json(config.to_dict())
    difference = _difference(workdir, config)
    if difference is not None and has_checkpoint(workdir):
        raise UsageError(
            f"{workdir} was made by another config ({difference}): leave out the flags that change it (without "
            "--config it is read from the workdir), or use another --workdir"
        )
    if jax.process_index() == 0 and (keep or not has_checkpoint(workdir)):
        try:
            if difference is not None:
                shutil.rmtree(workdir / VOCABULARY, ignore_errors=True)
                for name in ("skipped.jsonl", "shortened.jsonl"):
                    (workdir / name).unlink(missing_ok=True)
            save_config(workdir, own_config)
        except OSError as error:
            raise UsageError(f"cannot write to {workdir} ({error.strerror}): choose another --workdir") from error


def _difference(workdir: pathlib.Path, config: Any) -> str | None:
    """The first setting that differs from the workdir's config and is not in `FREE`, in words; None if all agree.

    An option that its config lacks, since the part got it later, has its default there.

    Raises:
      UsageError: the workdir is trained, and its config is damaged; or the config is none of a run.
    """
    if not (workdir / CONFIG_FILE).exists():
        return None
    try:
        saved_values = _flat(load_config(workdir))
    except UsageError as error:
        if has_checkpoint(workdir):
            raise
        if _is_foreign(workdir / CONFIG_FILE):
            raise UsageError(
                f"{workdir} has a {CONFIG_FILE} that is not of a run: choose another --workdir"
            ) from None
        return str(error)
    own_values = _flat(_as_json(config.to_dict()))
    # Only options of a block that is there: a whole block that it lacks is another model or loss.
    later_keys = {
        k for k in own_values.keys() - saved_values.keys() if f"{k.rpartition('.')[0]}.name" in saved_values
    }
    if later_keys:
        defaults = _flat(_as_json(blocks.list_defaults(config)))
        saved_values |= {key: defaults[key] for key in later_keys & defaults.keys()}
    for key in sorted(own_values.keys() | saved_values.keys()):
        if own_values.get(key) != saved_values.get(key) and FREE.isdisjoint((key, key.split(".")[0])):
            return f"{key} was {saved_values.get(key)!r}, now {own_values.get(key)!r}"
    return None


def _is_foreign(path: pathlib.Path) -> bool:
    """Whether a whole JSON file is no config of a run; other libraries' models have a file of this name too."""
    try:
        content = files.parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return not isinstance(content, dict) or "task" not in content


def _as_json(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    out: dict[str, Any] = {}
    for key, value in tree.items():
        out |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return out
