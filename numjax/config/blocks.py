"""Blocks of a config as text, such as `fone:periods=6`, and the changes of `--set`.

A specification is `name` or `name:option=value,option=value`, everywhere. `--config` can name this file: its argument
then holds another config and the changes to it (`command_line.resolve_configs`).
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

# Key of a config → (kind of its blocks, whether it holds several blocks by name).
BLOCK_KINDS = {
    "task": ("tasks", False),
    "scheme": ("text", False),
    "positions": ("positions", True),
    "backbone": ("backbone", False),
    "embeds": ("embed", True),
    "heads": ("heads", True),
    "objectives": ("objectives", True),
}
# Kind → options of a block that are no options of its part, with their defaults.
# The fusion is `model.FUSION`, which cannot be imported here without JAX.
EXTRA_OPTIONS: dict[str, dict[str, Any]] = {"embed": {"fusion": "concat+linear"}, "objectives": {"weight": 1.0}}
# Options that a new block takes from the block that it replaces, if its part has them and the new block does not set
# them: what a scheme reads, however it lays it out, and the sizes of a backbone.
INHERITED_OPTIONS = {
    "scheme": ("rules", "pad_multiple", "symbols", "unfit"),
    "backbone": ("width", "layers", "heads", "mlp_ratio", "max_length", "dropout", "remat", "attention", "dtype"),
}
_FORM = "write PATH=NAME:option=value,… to replace a block, +PATH=NAME to add one, ~PATH to take one out"


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """(name, option → value as text) of a specification. Commas inside brackets do not separate options.

    Raises:
      UsageError: it is no specification, or it has an option twice.
    """
    name, colon, rest = spec.partition(":")
    pairs = [word.partition("=") for word in _split_at_commas(rest)] if colon else []
    if not name or any(not key or not equals for key, equals, _ in pairs):
        raise UsageError(f"{spec!r}: write name or name:option=value,option=value, such as dice:form=d,dim=300")
    options = {key: text for key, _, text in pairs}
    if len(options) < len(pairs):
        raise UsageError(f"{spec!r}: an option is given twice")
    return name, options


def parse_block(kind: str, spec: str) -> dict[str, Any]:
    """A specification as a block: {"name": …} and its options, with the types that the part declares.

    Raises:
      UsageError: an unknown name, option or value; the message suggests names.
    """
    name, option_texts = split_spec(spec)
    types = option_types(kind, name)
    block: dict[str, Any] = {"name": name}
    for key, text in option_texts.items():
        if key not in types:
            word = build.WORD_OF_KIND[kind]
            raise UsageError(f"{word} {name!r} has no option {key!r}: did you mean {build.suggest(key, types)}?")
        block[key] = parse_value(name, key, text, types[key])
    return block


def option_types(kind: str, name: str) -> dict[str, str]:
    """Option → its type as text, for the options of a part and the extra options of its block."""
    types = {key: str(p.annotation) for key, p in build.options(kind, name).items()}
    return types | {key: type(value).__name__ for key, value in EXTRA_OPTIONS.get(kind, {}).items()}


def parse_value(name: str, key: str, text: str, annotation: str) -> Any:
    """The value of a text, of the declared type.

    Raises:
      UsageError: the text is no value of this type.
    """
    type_names = [type_name.strip() for type_name in annotation.split("|")]

    def fail() -> NoReturn:
        raise UsageError(f"{name}: {key} must be {' or '.join(type_names)}, not {text!r}")

    if "None" in type_names and text in ("None", "none"):
        return None
    if "str" in type_names:
        return text
    if "bool" in type_names:
        if text.lower() not in ("true", "false"):
            fail()
        return text.lower() == "true"
    try:
        if "int" in type_names:
            return int(text)
        return float(text) if "float" in type_names else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        fail()


def apply_changes(config: Any, words: Iterable[str]) -> Any:
    """Applies each word to the config in place, in order: "PATH=SPEC", "+PATH=SPEC" or "~PATH".

    A replaced block loses its old options. Options that a block does not set get the part's defaults and are written
    to the config, so that `--config.PATH.option=…` can change them.

    Raises:
      UsageError: there is no such path, a block to add exists already, a block to replace or remove does not exist,
        or a name, option or value is unknown.
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
    if path[0] not in BLOCK_KINDS:
        suggestions = ", ".join(difflib.get_close_matches(path[0], BLOCK_KINDS, n=2, cutoff=0.5) or BLOCK_KINDS)
        value = f"; for one value give --config.{'.'.join(path)}=…" if path[0] in config else ""
        raise UsageError(f"--set={word}: {path[0]!r} is no block: did you mean {suggestions}?{value}")
    kind, several = BLOCK_KINDS[path[0]]
    if len(path) != 1 + several:
        path_form = f"{path[0]}.NAME, such as {path[0]}.{next(iter(config[path[0]]), 'mine')}" if several else path[0]
        raise UsageError(
            f"--set={word}: the path of this block is {path_form}; for one option of it give --config.…=…"
        )
    if not several:
        if sign:
            raise UsageError(f"--set={word}: a config has exactly one {path[0]}: replace it with {path[0]}=NAME")
        block = parse_block(kind, spec)
        config[path[0]] = ConfigDict(
            _with_defaults(kind, block) | inherited_options(path[0], config[path[0]], block["name"]) | block
        )
        if path[0] == "task":
            add_task_blocks(config)
        return
    blocks, name = config[path[0]], path[1]
    if (sign == "+") == (name in blocks):
        if sign == "+":
            raise UsageError(f"--set={word}: {'.'.join(path)} is there already: leave the + out to replace it")
        raise UsageError(f"--set={word}: {_describe_missing(path, blocks, '' if sign else word)}")
    if sign == "~":
        del blocks[name]
    else:
        blocks[name] = ConfigDict(_with_defaults(kind, parse_block(kind, spec)))


def _describe_missing(path: Sequence[str], blocks: Any, word: str) -> str:
    """Says that a config has no such block, which it has, and what `word` with a + would do."""
    known = f"its {path[0]} are: {', '.join(blocks)}" if blocks else f"it has no {path[0]}"
    objective = ", which also needs an objective" if path[0] == "heads" else ""
    advice = f". To add one{objective}, write --set=+{word}" if word else ""
    return f"this config has no {'.'.join(path)}; {known}{advice}"


def inherited_options(path: str, old_block: Any, name: str) -> dict[str, Any]:
    """Options of a block that another part keeps when it replaces the block, see `INHERITED_OPTIONS`."""
    old_block = old_block or {}
    candidates = [key for key in INHERITED_OPTIONS.get(path, ()) if key in old_block]
    types = option_types(BLOCK_KINDS[path][0], name) if candidates else {}
    always = [key for key in ("vocab",) if path == "scheme" and key in old_block]
    return {key: old_block[key] for key in (*always, *(key for key in candidates if key in types))}


def add_task_blocks(config: Any) -> None:
    """Adds the heads and losses that a task brings to a config in place, unless it has heads of these names."""
    brings = build.find("tasks", config.task.name).brings
    if not set(brings.get("heads", ())) <= set(config.heads):
        for path, values in brings.items():
            new = ConfigDict(dict(values))
            config[path] = new if path in BLOCK_KINDS else ConfigDict({**config[path], **new})


def _with_defaults(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    """A block with the defaults of all options that a config can hold, except those that come from the context."""
    options = build.options(kind, block["name"])
    for key in build.context_options(kind, block["name"]):
        del options[key]
    plain = {key: p.default for key, p in options.items() if p.default is not p.empty and _is_plain(p.default)}
    return {"name": block["name"]} | plain | EXTRA_OPTIONS.get(kind, {}) | block


def with_all_options(config: Any) -> dict[str, Any]:
    """A config as a dict, each block with all options of its part, set or default."""
    filled = config.to_dict()
    for kind, block in list_blocks(filled):
        block.update(_with_defaults(kind, {"name": block["name"]}) | block)
    return filled


def list_defaults(config: Any) -> dict[str, Any]:
    """The blocks of a config, each with the defaults of its part's options alone."""
    blank = {path: config[path].to_dict() for path in BLOCK_KINDS}
    for kind, block in list_blocks(blank):
        name = block["name"]
        block.clear()
        block.update(make_default_block(kind, name))
    return blank


def make_default_block(kind: str, name: str) -> dict[str, Any]:
    """The block of a part with its default options.

    Raises:
      UsageError: there is no such part.
    """
    return _with_defaults(kind, {"name": name})


def list_blocks(config: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(kind, block) of all blocks of a config that is a dict."""
    return [
        (kind, block)
        for path, (kind, several) in BLOCK_KINDS.items()
        for block in (config[path].values() if several else [config[path]])
    ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def format_config(config: Any) -> list[str]:
    """Lines "path = value" of a config; the line of a block names the file of its part."""
    lines: list[str] = []

    def walk(path: str, value: Any, kind: str = "") -> None:
        if isinstance(value, ConfigDict):
            if kind and "name" in value:
                part = build.find(kind, str(value["name"]))
                lines.append(f"{path} = {value['name']}  # {inspect.getfile(part)}")
            for key, child in value.items():
                if not (kind and key == "name"):
                    walk(f"{path}.{key}", child)
        else:
            lines.append(f"{path} = {value!r}")

    for key, value in config.items():
        kind, several = BLOCK_KINDS.get(key, ("", False))
        if several:
            for name, block in value.items():
                walk(f"{key}.{name}", block, kind)
        else:
            walk(key, value, kind)
    return lines


def is_block_option(path: str) -> bool:
    """Whether a path such as "embeds.numeral.dim" leads to an option of a part."""
    keys = path.split(".")
    return keys[0] in BLOCK_KINDS and len(keys) == 2 + BLOCK_KINDS[keys[0]][1]


def add_missing_option(config: Any, path: str, text: str) -> None:
    """Adds an option of a part to its block in place, if the block lacks it or has None: flags can change only values
    that exist, and keep their types.

    Raises:
      UsageError: the part has no such option, or the text is no value of its type.
    """
    *parents, key = path.split(".")
    kind, block = BLOCK_KINDS[parents[0]][0], config
    for name in parents:
        if name not in block:
            return
        block = block[name]
    types = option_types(kind, block.name)
    if key not in block and key not in types:
        word = build.WORD_OF_KIND[kind]
        raise UsageError(f"{word} {block.name!r} has no option {key!r}: did you mean {build.suggest(key, types)}?")
    if block.get(key) is None and key in types:
        with config.unlocked():
            block[key] = parse_value(block.name, key, text, types[key])


def get_config(argument: str) -> ConfigDict:
    """The config for the JSON `{"config": FILE[:ARG], "set": [word, …], "values": {path: text}}` that `make_argument`
    returns."""
    request = json.loads(argument)
    values, line = flags.FlagValues(), ["config", f"--config={request['config']}"]
    # A command line of its own: the flags of the real command line are applied to the result.
    holder = config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    values(line)
    config = apply_changes(holder.value, request["set"])
    for path, text in request["values"].items():
        add_missing_option(config, path, text)
    return config.lock()


def make_argument(config: str, words: Sequence[str], values: Mapping[str, str]) -> str:
    """The argument of `get_config` as JSON."""
    return json.dumps({"config": config, "set": list(words), "values": dict(values)})


def _split_at_commas(text: str) -> list[str]:
    out, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            out.append(text[start:index])
            start = index + 1
    return [*out, text[start:]]
