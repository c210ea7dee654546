"""What a workdir was made with, and whether that is a start for another config (`init_from`)."""

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

# Options that change no position of a text and no vector of a number; or the vocabulary alone, which is inherited.
NO_MATTER = tuple(
    "vocab symbols pad_multiple unfit init_std special_std dropout word_dropout short attention".split()
)
# With another of these an embedding has the same shapes and is no start; other options of it are told.
OF_EMBEDDINGS = ("name", "fusion", "length")
# What reads numbers and formulas as any text: what another scheme or embedding adds to it starts anew.
PLAIN = {"scheme.name": "subword", "scheme.layout": "plain", "embeds.token.name": "token"}


def home(workdir: pathlib.Path) -> pathlib.Path:
    """The folder with the config and vocabulary of a run: the workdir, or of a seed's folder the one around it."""
    is_seed = workdir.name.startswith("seed_") and not (workdir / CONFIG_FILE).exists()
    return workdir.parent if is_seed and (workdir.parent / CONFIG_FILE).exists() else workdir


def config_of(workdir: pathlib.Path) -> dict[str, Any]:
    """The config that made a workdir.

    Raises:
      UsageError: it has none, or a damaged one.
    """
    path = workdir / CONFIG_FILE
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "task" not in config:  # models of others come with a file of that name too
        raise UsageError(f"{workdir} holds no readable {CONFIG_FILE}: give the --workdir of a run")
    saved = config.pop(DIGEST, None)
    if saved not in (None, _digest(config)):
        raise UsageError(
            f'{path} is damaged or was edited: bring it back, or take its "{DIGEST}" out if it is what it should be'
        )
    return config


def get_config(workdir: str | pathlib.Path) -> ConfigDict:
    """The same as files of `configs/` give it, with tuples where JSON has lists: `--config` can be this file, with
    the workdir as its argument.

    Raises:
      UsageError: as `config_of`.
    """
    return ConfigDict(_with_tuples(config_of(home(pathlib.Path(workdir).expanduser()))))


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tuples(one) for key, one in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def no_run(workdir: str | pathlib.Path) -> UsageError:
    """What to say of a workdir where nothing is trained."""
    return UsageError(f"{workdir} holds no run: train one, with --config=NAME --workdir={workdir}")


def keep_config(workdir: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes what `config_of` reads."""
    text = json.dumps(config | {DIGEST: _digest(config)}, indent=1)
    files.write(workdir / CONFIG_FILE, text + "\n")


def _digest(config):
    return files.digest(json.dumps(config, sort_keys=True).encode())


def check_scheme(config: Any, source: pathlib.Path) -> list[str]:
    """What a run read otherwise than `config` does where its parameters are a start all the same.

    Raises:
      UsageError: it read its records in another way that no shape shows; or its config is damaged.
    """
    if not (source / CONFIG_FILE).exists():
        return []
    theirs, mine = config_of(source), json.loads(json.dumps(config.to_dict()))
    refused, told = [], []
    for key, was, now in _differences(theirs, mine):
        embedding = key.startswith("embeds.") and not key.endswith(OF_EMBEDDINGS)
        (told if embedding or PLAIN.get(key) == was else refused).append(
            f"{key} was {was!r} there and is {now!r} here"
        )
    if refused:
        raise UsageError(
            f"init_from {source}: {', '.join(refused)}: give the words or flags that it was trained with, or start "
            "from a run that has yours"
        )
    return told


def _differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(option, what it was, what it is) of what both have: how records become positions, and numbers vectors."""
    yield from _changed("text", "scheme", theirs.get("scheme", mine["scheme"]), mine["scheme"])
    for name in sorted(mine["embeds"].keys() & theirs.get("embeds", {}).keys()):
        yield from _changed("embed", f"embeds.{name}", theirs["embeds"][name], mine["embeds"][name])
    was, now = theirs.get("task", {}).get("time"), mine["task"].get("time")
    if None not in (was, now) and was != now:
        yield "task.time", was, now


def _changed(kind: str, prefix: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """The same of a block; of one of another name that alone, since its options are others."""
    if was["name"] != now["name"]:
        yield f"{prefix}.name", was["name"], now["name"]
        return
    from numjax.model import FUSION  # imports jax, which a config alone is read without

    known = {name: option.default for name, option in inspect.signature(find(kind, now["name"])).parameters.items()}
    # As JSON, since a default may be a tuple where a config has a list.
    known = json.loads(json.dumps(known | {"fusion": FUSION}, default=str))
    was, now = known | was, known | now
    for option in sorted(known.keys() - set(NO_MATTER)):
        if was[option] != now[option]:
            yield f"{prefix}.{option}", was[option], now[option]
