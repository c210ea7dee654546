"""Blocks of a config as words: `fone:periods=6`, and what `--set` does with them.

A specification is `name` or `name:option=value,option=value`, the same everywhere. This file can be what `--config`
names: its argument holds another config and what to set in it (`command_line.resolve_configs`).
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
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
# What stays when a block is replaced, where the new part has such an option and its block says nothing of it: of a
# scheme what is read, however it is laid out; of a backbone its sizes.
KEPT = {
    "scheme": ("rules", "pad_multiple", "symbols", "unfit"),
    "backbone": ("width", "layers", "heads", "mlp_ratio", "max_length", "dropout", "remat", "attention", "dtype"),
}
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
        block = read(kind, spec)
        config[path[0]] = ConfigDict(_whole(kind, block) | kept(path[0], config[path[0]], block["name"]) | block)
        if path[0] == "task":
            bring(config)
        return
    blocks, name = config[path[0]], path[1]
    if (sign == "+") == (name in blocks):
        known = ", ".join(blocks) or "none"
        what = "is there already: leave the + out to replace it" if sign == "+" else f"is not there ({known})"
        raise UsageError(f"--set={word}: {'.'.join(path)} {what}{'' if sign else ': write + to add it'}")
    if sign == "~":
        del blocks[name]
    else:
        blocks[name] = ConfigDict(_whole(kind, read(kind, spec)))


def kept(place: str, old: Any, name: str) -> dict[str, Any]:
    """What another part in the place of a block goes on with, see `KEPT`."""
    old = old or {}
    wanted = [key for key in KEPT.get(place, ()) if key in old]
    known = declared(PLACES[place][0], name) if wanted else {}
    always = [key for key in ("vocab",) if place == "scheme" and key in old]
    return {key: old[key] for key in (*always, *(key for key in wanted if key in known))}


def bring(config: Any) -> None:
    """Puts the heads and losses that a task brings into a config in place, unless it has heads of their names."""
    brings = build.find("tasks", config.task.name).brings
    if not set(brings.get("heads", ())) <= set(config.heads):
        for place, values in brings.items():
            new = ConfigDict(dict(values))
            config[place] = new if place in PLACES else ConfigDict({**config[place], **new})


def _whole(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    """A block with every option that a config can hold, but for those that the core tells."""
    options = build.options(kind, block["name"])
    for key in build.leaves_to_context(kind, block["name"]):
        del options[key]
    plain = {key: p.default for key, p in options.items() if p.default is not p.empty and _is_plain(p.default)}
    return {"name": block["name"]} | plain | BESIDE.get(kind, {}) | block


def filled(config: Any) -> dict[str, Any]:
    """A config as a dict, each block with all options of its part, said or not."""
    found = config.to_dict()
    for place, (kind, several) in PLACES.items():
        for holder, key in [(found[place], key) for key in found[place]] if several else [(found, place)]:
            holder[key] = _whole(kind, {"name": holder[key]["name"]}) | holder[key]
    return found


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


def of_block(path: str) -> bool:
    """Whether a path such as "embeds.numeral.dim" is of an option of a part."""
    keys = path.split(".")
    return keys[0] in PLACES and len(keys) == 2 + PLACES[keys[0]][1]


def make_room(config: Any, path: str, text: str) -> None:
    """Puts an option of a part into its block in place, where the config says nothing of it or None: flags change
    only what is there, and keep its type.

    Raises:
      UsageError: the part has no such option, or the value is none of its type.
    """
    *above, key = path.split(".")
    kind, block = PLACES[above[0]][0], config
    for name in above:
        if name not in block:
            return
        block = block[name]
    known = declared(kind, block.name)
    if key not in block and key not in known:
        raise UsageError(f"{kind} {block.name!r} has no option {key!r}: did you mean {build.near(key, known)}?")
    if block.get(key) is None and key in known:
        with config.unlocked():
            block[key] = typed(block.name, key, text, known[key])


def get_config(argument: str) -> ConfigDict:
    """The config of `{"config": FILE[:ARG], "set": [word, …], "values": {path: text}}` in JSON, which `command_line`
    writes."""
    asked = json.loads(argument)
    values, line = flags.FlagValues(), ["config", f"--config={asked['config']}"]
    # The line is its own: the flags of the command line change what comes of this.
    holder = config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    values(line)
    config = apply(holder.value, asked["set"])
    for path, text in asked["values"].items():
        make_room(config, path, text)
    return config.lock()


def argument(config: str, words: Sequence[str], values: Mapping[str, str]) -> str:
    """What `get_config` reads."""
    return json.dumps({"config": config, "set": list(words), "values": dict(values)})


def _parted(text: str) -> list[str]:
    out, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            out.append(text[start:at])
            start = at + 1
    return [*out, text[start:]]
