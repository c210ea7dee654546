"""Resolves `--config` of a command line to a file: one of configs/, one of your own, or the config of a workdir."""

from __future__ import annotations

import difflib
import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import flags

from numjax import bundled
from numjax.config import blocks, origin, trusted
from numjax.errors import UsageError
from numjax.runtime import program


def usage() -> str:
    """What to give, for a command line that lacks it."""
    name = program.name_of("numjax.main")
    return f"give --workdir, and --config where it holds no run: {name} --config=numgpt --workdir=runs/mme"


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


def error_line(error: Exception) -> str:
    """The message of a flag-parsing error about the config, in one line."""
    # absl wraps the error of a config file in a traceback: the message is its last line. A KeyError quotes it.
    text = str(error).replace("\\n", "\n").replace("\\'", "")
    lines = [line for line in text.strip().splitlines() if line.strip()]
    line = lines[-1] if "parsing config file" in lines[0] else " ".join(lines[:2])
    line = line.strip()
    while line[:1] in ("'", '"') and line[-1:] == line[:1]:
        line = line[1:-1]
    line = re.sub(r"^[\w.]+Error: ", "", line)
    if re.fullmatch(r"\w+", line):  # ml_collections says no more if no key is similar
        return f"the config has no key {line!r} there: {program.mode_of('show')} lists them all"
    return line


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
    suggestions = difflib.get_close_matches(pathlib.Path(name).stem, known, n=3, cutoff=0.4) or known
    raise UsageError(f"no config {name!r}: give the path of a file, or a name such as {', '.join(suggestions)}")
