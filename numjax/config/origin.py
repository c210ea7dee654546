"""The config of a workdir, and whether a run with another config can start from it (`init_from`)."""

from __future__ import annotations

import inspect
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from numjax.build import find
from numjax.errors import UsageError
from numjax.runtime import files

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
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "task" not in config:  # other libraries' models have a file of this name too
        raise UsageError(f"{workdir} holds no readable {CONFIG_FILE}: give the --workdir of a run")
    saved = config.pop(DIGEST, None)
    if saved not in (None, _digest(config)):
        raise UsageError(
            f'{path} is damaged or was edited: restore it, or remove its "{DIGEST}" if the content is right'
        )
    return config


def get_config(workdir: str | pathlib.Path) -> ConfigDict:
    """The config of a workdir as a ConfigDict, with tuples where JSON has lists. `--config` can name this file, with
    the workdir as its argument.

    Raises:
      UsageError: as in `load_config`.
    """
    return ConfigDict(_with_tuples(load_config(home(pathlib.Path(workdir).expanduser()))))


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def no_run_error(workdir: str | pathlib.Path) -> UsageError:
    """The error for a workdir in which nothing is trained."""
    return UsageError(f"{workdir} holds no run: train one, with --config=NAME --workdir={workdir}")


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
