"""The file behind `--config` of a command line: one of configs/, one of your own, or what a workdir holds."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Sequence

from numjax import origin, roots
from numjax.errors import UsageError

USAGE = "give --workdir, and --config where it holds no run: python -m numjax.main --config=numgpt --workdir=runs/mme"


def resolve_configs(words: Sequence[str]) -> list[str]:
    """A command line whose `--config` is a file; other words as they are.

    `--config=numgpt:laptop`, or `--config numgpt:laptop`, becomes `--config=ROOT/configs/numgpt.py:laptop`. Where it
    is not given, `--config=numjax/origin.py:WORKDIR` goes before all flags: the config that the workdir holds.

    Args:
      words: the program's name, then its flags.

    Raises:
      UsageError: neither a file nor the name of a config; or none is given, and the workdir holds none.
    """
    out: list[str] = []
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if (name := flag.lstrip("-")) in ("config", "workdir") and flag in (f"--{name}", f"-{name}"):
            given[name] = value if equals else next(rest, "")
            if equals or given[name]:
                word = f"{flag}={_config_file(given[name]) if name == 'config' else given[name]}"
        out.append(word)
    if "config" in given:
        return out
    if workdir := given.get("workdir"):
        if not (origin.home(pathlib.Path(workdir).expanduser()) / origin.CONFIG_FILE).exists():
            raise origin.no_run(workdir)
        return [*out[:1], f"--config={origin.__file__}:{workdir}", *out[1:]]
    if any(word.startswith(("--config.", "-config.")) for word in out):
        raise UsageError(USAGE)
    return out


def _config_file(word: str) -> str:
    name, colon, argument = word.partition(":")
    for candidate in (pathlib.Path(name), roots.root() / name, roots.root() / "configs" / f"{name}.py"):
        if candidate.suffix == ".py" and candidate.is_file():
            return f"{candidate}{colon}{argument}"
    known = sorted(p.stem for p in (roots.root() / "configs").glob("*.py") if p.stem not in ("__init__", "common"))
    near = difflib.get_close_matches(pathlib.Path(name).stem, known, n=3, cutoff=0.4) or known
    raise UsageError(f"no config {name!r}: give the path of a file, or a name such as {', '.join(near)}")
