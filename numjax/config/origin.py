"""The config of a workdir, and whether a run with another config can start from it (`init_from`)."""

from __future__ import annotations

import inspect
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from numjax.build import find, is_own_module
from numjax.config.blocks import BLOCK_KINDS
from numjax.config.recipe import BASE, list_settings
from numjax.errors import UsageError
from numjax.runtime import files, program

CONFIG_FILE = "config.json"
DIGEST = "digest"

# Options that change neither the positions of a text nor the vectors of numbers, or only the vocabulary, which is
# inherited.
IGNORED_OPTIONS = tuple(
    "vocab symbols pad_multiple unfit init_std special_std dropout word_dropout short attention".split()
)
# If one of these options of an embedding differs, its parameters are no start though their shapes fit. A difference
# in another option is only reported.
EMBEDDING_OPTIONS = ("name", "fusion", "length")
# Values that treat numbers and formulas as plain text: another scheme or embedding can start from these, and what it
# adds is initialised anew.
PLAIN = {"scheme.name": "subword", "scheme.layout": "plain", "embeds.token.name": "token"}

# Settings that may be fractions though their defaults are not.
FRACTIONS = ("optim.epochs",)
_JSON_FORMS: dict[type, Any] = {bool: bool, int: int, str: str, tuple: list, dict: dict}


def home(workdir: pathlib.Path) -> pathlib.Path:
    """The folder with the config and vocabulary of a run: the workdir, or for a seed's folder its parent."""
    is_seed = workdir.name.startswith("seed_") and not (workdir / CONFIG_FILE).exists()
    return workdir.parent if is_seed and (workdir.parent / CONFIG_FILE).exists() else workdir


def load_config(workdir: pathlib.Path) -> dict[str, Any]:
    """The config of a workdir.

    Raises:
      UsageError: the workdir has no config, or a damaged one.
    """
    path = workdir / CONFIG_FILE
    if not path.exists():
        raise no_run_error(workdir)
    try:
        config = files.parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "task" not in config:  # other libraries' models have a file of this name too
        raise UsageError(f"{workdir} holds no readable {CONFIG_FILE}: give the --workdir of a run")
    saved = config.pop(DIGEST, None)
    if saved not in (None, _digest(config)):
        raise UsageError(
            f'{path} is damaged or was edited: restore it, or remove its "{DIGEST}" if the content is right'
        )
    for key, _, block in _blocks(config):
        if not (isinstance(block, dict) and isinstance(block.get("name"), str)):
            raise UsageError(f"{path}: {key} is no block with a name: restore the file")
    return config


def get_config(workdir: str | pathlib.Path, trust: bool = False) -> ConfigDict:
    """The config of a workdir as a ConfigDict, with tuples where JSON has lists. `--config` can name this file, with
    the workdir as its argument.

    Args:
      trust: whether the config may run code: that of modules outside numjax, and of a cache of compiled programs.
        Otherwise such modules are an error, and the cache is numjax's own.

    Raises:
      UsageError: as in `load_config`; the config names a module outside numjax, or it is no whole config.
    """
    folder = home(pathlib.Path(workdir).expanduser())
    config = load_config(folder)
    path = folder / CONFIG_FILE
    if fault := find_fault(config):
        raise UsageError(f"{path}: {fault}: restore the file, or train the run again with this version of numjax")
    if not trust:
        _refuse_code(config, path)
    return ConfigDict(_with_tuples(config))


def _blocks(config: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yields (path, kind, block) for each block of a config; what should be blocks and is none is yielded too."""
    for key in BLOCK_KINDS.keys() & config.keys():
        kind, several = BLOCK_KINDS[key]
        if several and isinstance(config[key], dict):
            yield from ((f"{key}.{name}", kind, block) for name, block in config[key].items())
        else:
            yield key, kind, config[key]


def find_fault(config: Mapping[str, Any]) -> str:
    """The first setting that is missing or has another type than its default, in words; "" if there is none."""
    for path, default in list_settings():
        value: Any = config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        forms = (int, float) if path in FRACTIONS or isinstance(default, float) else _JSON_FORMS[type(default)]
        if not isinstance(value, forms) or isinstance(value, bool) > isinstance(default, bool):
            return f"{path} is {'missing' if value is None else f'{value!r:.40}'}"
    return ""


def _refuse_code(config: dict[str, Any], path: pathlib.Path) -> None:
    """Checks that a config from others runs no code but numjax's.

    Raises:
      UsageError: a part is a module outside numjax.
    """
    for key, kind, block in sorted(_blocks(config)):
        if not is_own_module(kind, block["name"]):
            raise UsageError(
                f"{path}: {key} is the module {block['name']!r}, which is not numjax's and would run on your "
                "machine: if you trust it, give --trust (in Python: numjax.load(…, trust=True))"
            )
    if config["compile_cache"] not in ("", BASE["compile_cache"]):
        print(f"{path}: its compile_cache is used only with --trust: it holds programs that run", file=sys.stderr)
        config["compile_cache"] = BASE["compile_cache"]


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def no_run_error(workdir: str | pathlib.Path) -> UsageError:
    """The error for a workdir in which nothing is trained: what it is, and what to give."""
    path = pathlib.Path(workdir).expanduser()
    train = f"{program.mode_of('train')} --config=NAME --workdir={workdir}"
    run = next((folder for folder in path.parents[:3] if (folder / CONFIG_FILE).is_file()), None)
    if path.is_file():
        return UsageError(f"{workdir} is a file: give the folder of a run")
    if not path.exists():
        return UsageError(f"{workdir} does not exist: train a run there, with {train}")
    if run is not None:
        return UsageError(f"{workdir} lies in the run {run}: give --workdir={run}")
    if (path / CONFIG_FILE).is_file():
        return UsageError(
            f"{workdir} has no checkpoint yet: train it, with {program.mode_of('train')} --workdir={workdir}"
        )
    runs = sorted(
        {file.parent.relative_to(path) for depth in ("*", "*/*") for file in path.glob(f"{depth}/{CONFIG_FILE}")}
    )
    if runs:
        more = ", …" if len(runs) > 3 else ""
        return UsageError(f"{workdir} holds no run itself, but in it are runs: {', '.join(map(str, runs[:3]))}{more}")
    return UsageError(f"{workdir} holds no run: train one, with {train}")


def save_config(workdir: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the config file that `load_config` loads."""
    text = json.dumps(config | {DIGEST: _digest(config)}, indent=1)
    files.write(workdir / CONFIG_FILE, text + "\n")


def _digest(config):
    return files.digest(json.dumps(config, sort_keys=True).encode())


def check_scheme(config: Any, source: pathlib.Path) -> list[str]:
    """Lines for the differences between `config` and the config of the run `source` that allow to start from it.

    Raises:
      UsageError: the run encoded its records in another way, which parameter shapes do not show; or its config is
        damaged.
    """
    if not (source / CONFIG_FILE).exists():
        return []
    source_config, own_config = load_config(source), json.loads(json.dumps(config.to_dict()))
    refused, accepted = [], []
    for key, was, now in _differences(source_config, own_config):
        is_embedding = key.startswith("embeds.") and not key.endswith(EMBEDDING_OPTIONS)
        (accepted if is_embedding or PLAIN.get(key) == was else refused).append(
            f"{key} was {was!r} there and is {now!r} here"
        )
    if refused:
        raise UsageError(
            f"init_from {source}: {', '.join(refused)}: give the words or flags that it was trained with, or start "
            "from a run that has yours"
        )
    return accepted


def _differences(source_config: Mapping[str, Any], own_config: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields (option, value there, value here) for the options of both configs that determine how records become
    positions and numbers become vectors."""
    yield from _block_differences(
        "text", "scheme", source_config.get("scheme", own_config["scheme"]), own_config["scheme"]
    )
    for name in sorted(own_config["embeds"].keys() & source_config.get("embeds", {}).keys()):
        yield from _block_differences(
            "embed", f"embeds.{name}", source_config["embeds"][name], own_config["embeds"][name]
        )
    was, now = source_config.get("task", {}).get("time"), own_config["task"].get("time")
    if None not in (was, now) and was != now:
        yield "task.time", was, now


def _block_differences(kind: str, prefix: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """The same for a block. If the names of the parts differ, only the name: their options do not compare."""
    if was["name"] != now["name"]:
        yield f"{prefix}.name", was["name"], now["name"]
        return
    from numjax.model import FUSION  # imports jax, which loading a config does not need

    defaults = {
        name: option.default for name, option in inspect.signature(find(kind, now["name"])).parameters.items()
    }
    # As JSON, since a default may be a tuple where a config has a list.
    defaults = json.loads(json.dumps(defaults | {"fusion": FUSION}, default=str))
    was, now = defaults | was, defaults | now
    for option in sorted(defaults.keys() - set(IGNORED_OPTIONS)):
        if was[option] != now[option]:
            yield f"{prefix}.{option}", was[option], now[option]
