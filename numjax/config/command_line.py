"""Resolves `--config` of a command line to a file: one of configs/, one of your own, or the config of a workdir."""

from __future__ import annotations

import difflib
import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import flags

from numjax import bundled
from numjax.config import blocks, origin, recipe, trusted
from numjax.errors import UsageError
from numjax.runtime import program

# Flags of `numjax.main`; absl and other libraries add many.
_OWN_FLAGS = ("config", "set", "workdir", "input", "prompt", "intervals", "strict", "trust", "distributed")


def usage(mode: str = "train", has_config: bool = False, has_workdir: bool = False) -> str:
    """Which flags a command line lacks, with an example."""
    name, example = program.name_of("numjax.main"), program.MODES[mode].example
    if mode == "show":
        return f"--config is missing, or the --workdir of a run: {name} {example}"
    needed = ("--config",) * ("--config=" in example and not has_config) + ("--workdir",) * (not has_workdir)
    verb = "is" if len(needed) == 1 else "are"
    note = " (only a workdir that holds a run needs no --config)" if "--config" in needed else ""
    return f"{' and '.join(needed)} {verb} missing{note}: {name} {example}"


def resolve_configs(words: Sequence[str]) -> list[str]:
    """The command line with a file in `--config`; other words stay.

    `--config=numgpt:laptop`, or `--config numgpt:laptop`, becomes `--config=ROOT/configs/numgpt.py:laptop`. Without
    it, `--config=numjax/config/origin.py:WORKDIR` is put before all flags: the config of the workdir; with `--trust`
    it is `numjax/config/trusted.py`. Each `--set=…`
    (`blocks.apply_changes`) becomes part of `--config` and is applied before `--config.a.b=…`; so is each option of
    a part that the config does not set.

    Args:
      words: the program's name, then its flags.

    Raises:
      UsageError: `--config` is neither a file nor the name of a config; or it is missing and the workdir has none.
    """
    out: list[str] = []
    flag_values: dict[str, str] = {}
    changes: list[str] = []
    values: dict[str, str] = {}
    is_trusted = False
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in ("--set", "-set"):
            changes.append(value if equals else next(rest, ""))
            continue
        if (name := flag.lstrip("-")) in ("config", "workdir") and flag in (f"--{name}", f"-{name}"):
            flag_values[name] = value if equals else next(rest, "")
            if equals or flag_values[name]:
                word = f"{flag}={_config_file(flag_values[name]) if name == 'config' else flag_values[name]}"
        if flag.startswith(("--config.", "-config.")):
            if not equals and (value := next(rest, "")):
                word = f"{flag}={value}"
            values[flag.lstrip("-").removeprefix("config.")] = value
        if flag in ("--trust", "-trust", "--notrust", "-notrust"):
            is_trusted = not flag.endswith("notrust") and flags.BooleanParser().parse(value or "true")
        out.append(word)
    if "config" in flag_values:
        return _with_changes(out, changes, values)
    if workdir := flag_values.get("workdir"):
        if not (origin.home(pathlib.Path(workdir).expanduser()) / origin.CONFIG_FILE).exists():
            raise origin.no_run_error(workdir)
        file = (trusted if is_trusted else origin).__file__
        return _with_changes([*out[:1], f"--config={file}:{workdir}", *out[1:]], changes, values)
    if changes or any(word.startswith(("--config.", "-config.")) for word in out):
        raise UsageError(usage())
    return out


def _describe_unknown_flag(name: str) -> str:
    """The message for a flag that there is not: the key of the config or the flag that was meant."""
    keys = _find_keys(name)
    near = difflib.get_close_matches(name, [flag for flag in flags.FLAGS if flag in _OWN_FLAGS], n=2, cutoff=0.6)
    meant = [f"--{flag}" for flag in near] or [f"--config.{key}" for key in keys]
    advice = f"did you mean {' or '.join(meant)}? " if meant else ""
    return (
        f"there is no flag --{name}: {advice}"
        "Settings are --config.KEY=VALUE, such as --config.optim.learning_rate=0.1"
    )


def _find_keys(path: str) -> list[str]:
    """The keys of a config that a wrong path or name may mean, the likeliest first: at most three."""
    keys = [key for key, _ in recipe.list_settings()]
    *_, name = path.split(".")
    last = {key: key.rpartition(".")[2] for key in keys}
    same = [key for key in keys if last[key] == name]
    initials = [key for key in keys if "".join(word[0] for word in last[key].split("_")) == name]
    near = difflib.get_close_matches(path, keys, n=3, cutoff=0.75)
    near += [
        key for word in difflib.get_close_matches(name, {*last.values()}, n=3, cutoff=0.7) for key in keys
        if last[key] == word
    ]  # fmt: skip
    return list(dict.fromkeys(same or initials or near))[:3]


def error_line(error: Exception, words: Sequence[str] = ()) -> str:
    """The message of a flag-parsing error about the config, in one line.

    Args:
      words: the command line.
    """
    if isinstance(error, flags.UnrecognizedFlagError):
        return _describe_unknown_flag(error.flagname)
    # absl wraps the error of a config file in a traceback: the message is its last line. A KeyError quotes it.
    text = str(error).replace("\\n", "\n").replace("\\'", "")
    lines = [line for line in text.strip().splitlines() if line.strip()]
    line = lines[-1] if "parsing config file" in lines[0] else " ".join(lines[:2])
    line = line.strip()
    while line[:1] in ("'", '"') and line[-1:] == line[:1]:
        line = line[1:-1]
    if re.fullmatch(r"[\w.]+Error", line):
        return f"the file of --config raises {line}"
    line = re.sub(r"^[\w.]+Error: ", "", line)
    # ml_collections says only the last word of a path, and near ones of the same block if there are some.
    if match := re.fullmatch(r'(\w+)(?: Did you mean "(\w+)" instead of "\w+"\?)?', line):
        return _describe_unknown_key(match[1], match[2], words)
    return line


def _describe_unknown_key(name: str, near: str | None, words: Sequence[str]) -> str:
    paths = [word.lstrip("-").partition("=")[0].removeprefix("config.") for word in words if "-config." in word[:9]]
    path = next((path for path in paths if name in path.split(".")), name)
    before, _, after = f".{path}.".rpartition(f".{name}.")  # whole words: "tas" is also in "task"
    meant = [f"{before}.{near}.{after}".strip(".")] if near else _find_keys(path)
    advice = f"did you mean {', '.join(f'--config.{key}' for key in meant)}? " if meant else ""
    return f"the config has no key {path!r}: {advice}{program.mode_of('show')} lists them all"


def _with_changes(words: list[str], changes: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command line whose config has the `--set` changes applied and has all options that flags set."""
    option_values = {path: value for path, value in values.items() if blocks.is_block_option(path)}
    out = []
    for word in words:
        flag, _, value = word.partition("=")
        if (changes or option_values) and flag in ("--config", "-config"):
            word = f"{flag}={blocks.__file__}:{blocks.make_argument(value, changes, option_values)}"
        out.append(word)
    return out


def _config_file(word: str) -> str:
    name, colon, argument = word.partition(":")
    for candidate in (pathlib.Path(name), bundled.HOME / name, bundled.HOME / "configs" / f"{name}.py"):
        if candidate.suffix == ".py" and candidate.is_file():
            return f"{candidate}{colon}{argument}"
    known = sorted(p.stem for p in (bundled.HOME / "configs").glob("*.py") if p.stem not in ("__init__", "presets"))
    first, comma, rest = name.partition(",")
    if comma and first in known:
        raise UsageError(
            f"no config {name!r}: write a colon behind the name, {first}:{','.join((rest, argument)).strip(',')}"
        )
    if name.endswith(".py"):
        raise UsageError(f"there is no file {name!r}: give one, or one of numjax's configs: {', '.join(known)}")
    near = difflib.get_close_matches(pathlib.Path(name).stem, known, n=3, cutoff=0.6)
    advice = f"did you mean {' or '.join(near)}" if near else f"choose {', '.join(known)}"
    raise UsageError(f"no config {name!r}: {advice}, or give the path of a file")
