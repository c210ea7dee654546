"""The file behind `--config` of a command line: one of configs/, one of your own, or what a workdir holds."""

from __future__ import annotations

import difflib
import pathlib
import re
from collections.abc import Mapping, Sequence

from numjax import bundled
from numjax.config import blocks, origin
from numjax.errors import UsageError

USAGE = "give --workdir, and --config where it holds no run: python -m numjax.main --config=numgpt --workdir=runs/mme"


def resolve_configs(words: Sequence[str]) -> list[str]:
    """A command line whose `--config` is a file; other words as they are.

    `--config=numgpt:laptop`, or `--config numgpt:laptop`, becomes `--config=ROOT/configs/numgpt.py:laptop`. Where it
    is not given, `--config=numjax/config/origin.py:WORKDIR` goes before all flags: the config that the workdir
    holds. Each `--set=…` (`blocks.apply`) goes into the config, before `--config.a.b=…`; so does each option of a
    part that a config says nothing of.

    Args:
      words: the program's name, then its flags.

    Raises:
      UsageError: neither a file nor the name of a config; or none is given, and the workdir holds none.
    """
    out: list[str] = []
    given: dict[str, str] = {}
    changes: list[str] = []
    values: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in ("--set", "-set"):
            changes.append(value if equals else next(rest, ""))
            continue
        if (name := flag.lstrip("-")) in ("config", "workdir") and flag in (f"--{name}", f"-{name}"):
            given[name] = value if equals else next(rest, "")
            if equals or given[name]:
                word = f"{flag}={_config_file(given[name]) if name == 'config' else given[name]}"
        if flag.startswith(("--config.", "-config.")):
            if not equals and (value := next(rest, "")):
                word = f"{flag}={value}"
            values[flag.lstrip("-").removeprefix("config.")] = value
        out.append(word)
    if "config" in given:
        return _changed(out, changes, values)
    if workdir := given.get("workdir"):
        if not (origin.home(pathlib.Path(workdir).expanduser()) / origin.CONFIG_FILE).exists():
            raise origin.no_run(workdir)
        return _changed([*out[:1], f"--config={origin.__file__}:{workdir}", *out[1:]], changes, values)
    if changes or any(word.startswith(("--config.", "-config.")) for word in out):
        raise UsageError(USAGE)
    return out


def complaint(error: Exception) -> str:
    """What an error of parsing flags says of the config, in one line."""
    # absl wraps a config file's own complaint in a traceback, whose last line it is; a KeyError quotes it.
    text = str(error).replace("\\n", "\n").replace("\\'", "")
    told = [line for line in text.strip().splitlines() if line.strip()]
    line = told[-1] if "parsing config file" in told[0] else " ".join(told[:2])
    line = line.strip()
    while line[:1] in ("'", '"') and line[-1:] == line[:1]:
        line = line[1:-1]
    line = re.sub(r"^[\w.]+Error: ", "", line)
    if re.fullmatch(r"\w+", line):  # all that ml_collections says where no key is near
        return f"the config has no key {line!r} there: --mode=show lists them all"
    return line


def _changed(words: list[str], changes: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command line whose config is the same with `--set`s applied, and with room for options of its blocks."""
    of_blocks = {path: value for path, value in values.items() if blocks.of_block(path)}
    out = []
    for word in words:
        flag, _, value = word.partition("=")
        if (changes or of_blocks) and flag in ("--config", "-config"):
            word = f"{flag}={blocks.__file__}:{blocks.argument(value, changes, of_blocks)}"
        out.append(word)
    return out


def _config_file(word: str) -> str:
    name, colon, argument = word.partition(":")
    for candidate in (pathlib.Path(name), bundled.HOME / name, bundled.HOME / "configs" / f"{name}.py"):
        if candidate.suffix == ".py" and candidate.is_file():
            return f"{candidate}{colon}{argument}"
    known = sorted(p.stem for p in (bundled.HOME / "configs").glob("*.py") if p.stem not in ("__init__", "presets"))
    near = difflib.get_close_matches(pathlib.Path(name).stem, known, n=3, cutoff=0.4) or known
    raise UsageError(f"no config {name!r}: give the path of a file, or a name such as {', '.join(near)}")
