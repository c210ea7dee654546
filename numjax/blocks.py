"""Blocks of a config as words: `fone:periods=6`, and what `--set` does with them.

A specification is `name` or `name:option=value,option=value`, the same everywhere. This file can be what `--config`
names: its argument holds another config and what to set in it (`config_file.resolve_configs`).
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from absl import flags
from ml_collections import ConfigDict, config_flags

from numjax import build
from numjax.errors import UsageError

# Where a config has blocks, and of which kind; those with True hold several, by names of their own.
PLACES = {
    "task": ("tasks", False),
    "scheme": ("text", False),
    "positions": ("positions", True),
    "backbone": ("backbone", False),
    "embeds": ("embed", True),
    "heads": ("heads", True),
    "objectives": ("objectives", True),
}
# What a block says beside the options of its part, and what it is where nothing is said.
# The fusion is `model.FUSION`, which would bring in JAX.
BESIDE: dict[str, dict[str, Any]] = {"embed": {"fusion": "concat+linear"}, "objectives": {"weight": 1.0}}
KEPT = {"scheme": ("vocab",)}  # blocks inside a block, which stay when it is replaced
_FORM = "write PATH=NAME:option=value,… to replace a block, +PATH=NAME to add one, ~PATH to take one out"


def split(spec: str) -> tuple[str, dict[str, str]]:
    """(name, what is written of each option). Commas inside brackets or quotes part nothing.

    Raises:
      UsageError: it is no specification, or says an option twice.
    """
    name, colon, rest = spec.partition(":")
    pairs = [word.partition("=") for word in _parted(rest)] if colon else []
    if not name or any(not key or not equals for key, equals, _ in pairs):
        raise UsageError(f"{spec!r}: write name or name:option=value,option=value, such as dice:form=d,dim=300")
    options = {key: text for key, _, text in pairs}
    if len(options) < len(pairs):
        raise UsageError(f"{spec!r}: an option is given twice")
    return name, options


def read(kind: str, spec: str) -> dict[str, Any]:
    """A specification as a block: {"name": …} and its options, typed as the part declares them.

    Raises:
      UsageError: an unknown name, option or value; near ones are named.
    """
    name, written = split(spec)
    known = declared(kind, name)
    out: dict[str, Any] = {"name": name}
    for key, text in written.items():
        if key not in known:
            raise UsageError(f"{kind} {name!r} has no option {key!r}: did you mean {build.near(key, known)}?")
        out[key] = typed(name, key, text, known[key])
    return out


def declared(kind: str, name: str) -> dict[str, str]:
    """option → how its type is written, of a part and of what a block says beside."""
    found = {key: str(p.annotation) for key, p in build.options(kind, name).items()}
    return found | {key: type(value).__name__ for key, value in BESIDE.get(kind, {}).items()}


def typed(name: str, key: str, text: str, annotation: str) -> Any:
    """The value that is written, of the declared type.

    Raises:
      UsageError: it is none of this type.
    """
    kinds = [kind.strip() for kind in annotation.split("|")]

    def fail() -> NoReturn:
        raise UsageError(f"{name}: {key} must be {' or '.join(kinds)}, not {text!r}")

    if "None" in kinds and text in ("None", "none"):
        return None
    if "str" in kinds:
        return text
    if "bool" in kinds:
        if text.lower() not in ("true", "false"):
            fail()
        return text.lower() == "true"
    try:
        if "int" in kinds:
            return int(text)
        return float(text) if "float" in kinds else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        fail()


def apply(config: Any, words: Iterable[str]) -> Any:
    """Does in place what each word says, in order: "PATH=SPEC", "+PATH=SPEC" or "~PATH".

    A block that is replaced loses its old options. What a block does not say has the part's own defaults, which stand
    in the config then, so that `--config.PATH.option=…` can change them.

    Raises:
      UsageError: no such path, or a block that is there already, or is not; an unknown name, option or value.
    """
    with config.unlocked():
        for word in words:
            sign = word[0] if word[:1] in ("+", "~") else ""
            path, equals, spec = word.removeprefix(sign).partition("=")
            if not path or bool(equals) == (sign == "~") or (equals and not spec):
                raise UsageError(f"--set={word}: {_FORM}")
            _set(config, word, sign, path.split("."), spec)
    return config


def _set(config: Any, word: str, sign: str, path: Sequence[str], spec: str) -> None:
    if path[0] not in PLACES:
        near = ", ".join(difflib.get_close_matches(path[0], PLACES, n=2, cutoff=0.5) or PLACES)
        value = f"; for one value give --config.{'.'.join(path)}=…" if path[0] in config else ""
        raise UsageError(f"--set={word}: {path[0]!r} is no block: did you mean {near}?{value}")
    kind, several = PLACES[path[0]]
    if len(path) != 1 + several:
        more = f"{path[0]}.NAME, such as {path[0]}.{next(iter(config[path[0]]), 'mine')}" if several else path[0]
        raise UsageError(f"--set={word}: the path of this block is {more}; for one option of it give --config.…=…")
    if not several:
        if sign:
            raise UsageError(f"--set={word}: a config has exactly one {path[0]}: replace it with {path[0]}=NAME")
        old = config[path[0]]
        block = _whole(kind, spec)
        config[path[0]] = ConfigDict(block | {key: old[key] for key in KEPT.get(path[0], ()) if key in old})
        return
    blocks, name = config[path[0]], path[1]
    if (sign == "+") == (name in blocks):
        known = ", ".join(blocks) or "none"
        what = "is there already: leave the + out to replace it" if sign == "+" else f"is not there ({known})"
        raise UsageError(f"--set={word}: {'.'.join(path)} {what}{'' if sign else ': write + to add it'}")
    if sign == "~":
        del blocks[name]
    else:
        blocks[name] = ConfigDict(_whole(kind, spec))


def _whole(kind: str, spec: str) -> dict[str, Any]:
    """A block with every option that a config can hold."""
    block = read(kind, spec)
    options = build.options(kind, block["name"])
    plain = {key: p.default for key, p in options.items() if p.default is not p.empty and _is_plain(p.default)}
    return {"name": block["name"]} | plain | BESIDE.get(kind, {}) | block


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def shown(config: Any) -> list[str]:
    """A config as lines of "path = value"; a block's line names the file of its part."""
    lines: list[str] = []

    def walk(path: str, value: Any, kind: str = "") -> None:
        if isinstance(value, ConfigDict):
            if kind and "name" in value:
                part = build.find(kind, str(value["name"]))
                lines.append(f"{path} = {value['name']}  # {inspect.getfile(part)}")
            for key, one in value.items():
                if not (kind and key == "name"):
                    walk(f"{path}.{key}", one)
        else:
            lines.append(f"{path} = {value!r}")

    for key, value in config.items():
        kind, several = PLACES.get(key, ("", False))
        if several:
            for name, block in value.items():
                walk(f"{key}.{name}", block, kind)
        else:
            walk(key, value, kind)
    return lines


def get_config(argument: str) -> ConfigDict:
    """The config of `{"config": FILE[:ARG], "set": [word, …]}` in JSON, which `config_file` writes."""
    asked = json.loads(argument)
    values = flags.FlagValues()
    holder = config_flags.DEFINE_config_file("config", flag_values=values)
    values(["config", f"--config={asked['config']}"])
    return apply(holder.value, asked["set"]).lock()


def argument(config: str, words: Sequence[str]) -> str:
    """What `get_config` reads."""
    return json.dumps({"config": config, "set": list(words)})


def _parted(text: str) -> list[str]:
    out, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            out.append(text[start:at])
            start = at + 1
    return [*out, text[start:]]
