"""What a result depends on, and which results are the same.

The rule, in full:

- **Settings** decide. They are all options of the config and of its parts, set or default, and those of the cell that
  a run starts from; without the options that change no result (`FREE`).
- **Data count by content.** A setting that names files counts by the contents and names of the files, wherever they
  lie. Generated data follow from settings, from the version of their builder and from code.
- **A newer option does not orphan a result.** An option that a result does not record agrees if it has its default
  now; so the default of a new option must do what was done before it existed. A default that changes afterwards does
  not agree, since results record all values.
- **Code is recorded, and does not decide.** Each result has the digests of the modules that its run could import
  (`sources.py`), so that new docstrings, names or refactorings do not orphan it either. When a result of other code
  is taken, the modules that differ are printed, and the table says so. `--same_code` leaves such results out.
- The versions of Python and JAX and the commit are recorded alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numjax.build import build, locate_module
from numjax.bundled import data
from numjax.bundled.experiments import sources
from numjax.config import blocks, recipe
from numjax.errors import UsageError
from numjax.inspect import vectors
from numjax.pretrained import installed
from numjax.train.workdir import FREE as RESUMABLE

Settings = Mapping[str, Any]

# Settings that a run may be resumed with, but that change its results.
COUNTED = {"decode", "eval.test", "task.answer"}
# Settings that change no result. For tasks that only classify, "decode" is another.
FREE = (RESUMABLE - COUNTED) | {"seed", "scheme.pad_multiple"}
# What trains and scores every run. The parts and the dataset that a config names come to it.
ROOTS = ("numjax.train.loop", "numjax.evals.report", "numjax.modes.data", "numjax.system")
START = "start."
FILES = "files"


def list_settings(config: Any, start: Settings | None = None) -> dict[str, Any]:
    """The settings that a run's result depends on, path → value.

    Args:
      config: of the run.
      start: the settings of the run that it starts from; then `init_from` is the folder of that run.
    """
    task: Any = build("tasks", config.task)
    free = FREE if task.generates else FREE | {"decode"}
    settings = {
        path: value
        for path, value in flatten(blocks.with_all_options(config)).items()
        if free.isdisjoint((path, path.partition(".")[0], path.rpartition(".")[0]))
    }
    builder = data.find_builder(task.dataset["name"])
    dataset_options = {name: value for name, value in task.dataset.items() if name != "name"}
    all_options = builder.complete_options(dataset_options)
    source_files = builder.files(all_options)
    folders = {name: str(dataset_options[name]) for name in builder.PATHS if dataset_options.get(name)}
    settings["data.version"] = str(builder.version_of(all_options))
    settings["data.files"] = digest_sources(source_files, folders) if source_files else ""
    for path, value in settings.items():
        if path.removeprefix("task.") in folders:
            settings[path] = FILES  # `data.files` has the content
        elif path == "init_from" and start:
            settings[path] = FILES
        elif path in ("init_from", "scheme.vocab.path", "scheme.symbols.path") and value:
            settings[path] = _digest_weights(value)
    return settings | {f"{START}{path}": value for path, value in (start or {}).items()}


def _digest_weights(path: str) -> str:
    """The digest of a folder. That of weights that numjax installs is the name itself: only the known ones have it.

    Raises:
      UsageError: other weights stand under this name.
    """
    name = path.removeprefix(installed.PREFIX)
    if path.startswith(installed.PREFIX) and installed.is_installed(name):
        installed.check_model(name)
    return digest_folder(path)


def list_defaults(config: Any) -> dict[str, Any]:
    """The defaults of a config's options: of each part, and of all other settings."""
    return flatten(recipe.BASE) | flatten(blocks.list_defaults(config))


def list_recorded_defaults(settings: Settings) -> dict[str, Any]:
    """The present defaults of the options of recorded settings, path → value; none of a part that is gone."""
    defaults = flatten(recipe.BASE)
    for path, name in settings.items():
        block, _, last = path.rpartition(".")
        kind, several = blocks.BLOCK_KINDS.get(block.partition(".")[0], ("", False))
        if kind and last == "name" and block.count(".") == several:
            with contextlib.suppress(UsageError):
                defaults |= flatten(blocks.make_default_block(kind, name), f"{block}.")
    return defaults


def are_same(first: Settings, second: Settings) -> bool:
    """Whether two recorded settings name one result: they are equal, or one lacks options that were added later and
    have their defaults in the other. Settings that were not recorded (empty) are the same as no others."""
    pairs = ((first, second), (second, first)) if first and second else ()
    return any(not list_differences(older, newer, list_recorded_defaults(newer)) for older, newer in pairs)


def list_roots(config: Any) -> tuple[str, ...]:
    """The modules that a run of the config imports by name."""
    task: Any = build("tasks", config.task)
    names = {locate_module(kind, block["name"]) for kind, block in blocks.list_blocks(config.to_dict())}
    if "rules" in config.scheme:
        names.add(f"numjax.numeral.{config.scheme.rules}")
    builder = data.find_builder(task.dataset["name"])
    datasets = {task.dataset["name"], *(set(builder.OPTIONS) & set(data.list_names()))}
    return *ROOTS, *sorted(names), *(f"numjax.bundled.data.{name}.builder" for name in sorted(datasets))


def list_vector_roots(spec: str) -> tuple[str, ...]:
    """The modules that make the vectors of a specification of `numjax.inspect.vectors`."""
    name, _ = vectors.parse_spec(spec)
    return ("numjax.inspect.vectors", *(() if name == vectors.TABLE else (locate_module("embed", name),)))


@functools.cache
def list_code(roots: tuple[str, ...]) -> dict[str, str]:
    """Module → digest of all code that a run can import."""
    return sources.list_digests(roots)


def make_key(settings: Settings) -> str:
    """Twelve hexadecimal digits that name settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:12]


def list_differences(recorded: Settings, current: Settings, defaults: Settings) -> list[str]:
    """Where the settings of a result differ from those of a cell, in words; empty if they are the same.

    Args:
      recorded: of the result. current: of the cell. defaults: of the cell's options.
    """
    recorded, current, defaults = (json.loads(json.dumps(s, default=str)) for s in (recorded, current, defaults))
    differences = []
    for path in sorted(recorded.keys() | current.keys()):
        if path in recorded and path in current:
            if recorded[path] != current[path]:
                differences.append(f"{path} is {recorded[path]!r}, not {current[path]!r}")
        elif path in recorded:
            differences.append(f"{path} is {recorded[path]!r}, and there is no such setting now")
        elif path.endswith(".name") or path not in defaults or defaults[path] != current[path]:
            differences.append(f"{path}, now {current[path]!r}, was not there")
    return differences


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping as path → value; an empty mapping stays a value."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            out |= flatten(value, f"{prefix}{name}.")
        else:
            out[prefix + name] = value
    return out


def digest_folder(path: str) -> str:
    """The digest of a file, or of all files under a folder but hidden ones and texts about them; "" for no path."""
    root = pathlib.Path(path).expanduser()
    if root.is_dir():
        return digest_files(p for p in root.rglob("*") if p.is_file() and p.name[0] != "." and p.suffix != ".md")
    return digest_files([root]) if root.is_file() else f"missing:{path}"


def digest_sources(files: Sequence[pathlib.Path], folders: Mapping[str, str]) -> str:
    """The digest of a dataset's files. If several options name folders, wherever these lie, a file is named by its
    option and its place in that folder.

    Args:
      folders: option → the folder or file that it names.
    """
    if len(folders) < 2:
        return digest_files(files)
    roots = {name: pathlib.Path(folder).expanduser().resolve() for name, folder in folders.items()}
    names = {}
    for file in (file.resolve() for file in files):
        holders = ((name, root) for name, root in roots.items() if root in (file, *file.parents))
        option, root = next(holders, ("", file))  # a link leads out of its folder
        names[f"{option}/{file.relative_to(root) if root != file else file.name}"] = file
    return _digest_named(names)


def digest_files(paths: Iterable[pathlib.Path]) -> str:
    """Sixteen hexadecimal digits of the contents of files and of their names below the folder that holds them all."""
    files = {path.resolve() for path in paths}
    base = pathlib.Path(os.path.commonpath([file.parent for file in files])) if files else pathlib.Path()
    return _digest_named({str(file.relative_to(base)): file for file in files})


def _digest_named(files: Mapping[str, pathlib.Path]) -> str:
    items = sorted(files.items(), key=lambda item: pathlib.PurePath(item[0]))
    parts = [(name, _digest_file(file, file.stat().st_mtime_ns)) for name, file in items]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@functools.cache
def _digest_file(path: pathlib.Path, modified: int) -> str:
    del modified  # a file that was changed is hashed again
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
