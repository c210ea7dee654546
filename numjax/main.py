"""python -m numjax.main [--config=FILE|NAME[:ARG]] [--set=…] --workdir=DIR [--mode=MODE].

Modes: train eval predict generate compile check show.

Without --config, the workdir's config is used. This file has only flags, processes and exit codes, so that notebooks
can call everything else.
"""

from __future__ import annotations

import sys

from absl import app, flags
from ml_collections import config_flags

from numjax.config import blocks, command_line
from numjax.errors import DataError, Diverged, Lost, Preempted, UsageError

MODES = ("train", "eval", "predict", "generate", "compile", "check", "show")

_CONFIG = config_flags.DEFINE_config_file("config", None, "FILE or NAME[:ARGUMENT]; default: the workdir's.")
_SET = flags.DEFINE_multi_string(
    "set", [], "PATH=NAME:option=value replaces a block; +PATH=… adds one, ~PATH drops it."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_MODE = flags.DEFINE_enum("mode", "train", MODES, "What to do.")
_INPUT = flags.DEFINE_string("input", None, "predict, generate: a file of records or prompts a line, - for stdin.")
_PROMPT = flags.DEFINE_multi_string("prompt", [], "generate: a prompt; may be repeated.")
_STRICT = flags.DEFINE_bool("strict", False, "Stop at the first bad record instead of skipping it.")
_TRUST = flags.DEFINE_bool(
    "trust", False, "Run modules outside numjax that a workdir's config names. What --config names needs no --trust."
)
_DISTRIBUTED = flags.DEFINE_bool("distributed", False, "Join the cluster's jax.distributed service.")


def main(argv: list[str]) -> None:
    """Sets up processes and caches, then calls `modes.run`."""
    if len(argv) > 1:
        raise UsageError(f"unexpected argument {argv[1]!r}: flags look like --workdir=DIR")
    if _MODE.value == "show" and _CONFIG.value:
        print("\n".join(blocks.format_config(_CONFIG.value)))
        return
    if not _CONFIG.value or not _WORKDIR.value:
        raise UsageError(command_line.USAGE)
    from numjax import modes  # imports jax, so only after the flags are checked

    modes.set_up(_CONFIG.value, distributed=_DISTRIBUTED.value, planning=_MODE.value == "compile")
    arguments = {"strict": bool(_STRICT.value), "input": _INPUT.value, "prompts": _PROMPT.value or ()}
    modes.run(_CONFIG.value, _WORKDIR.value, str(_MODE.value), **arguments)


def _parse(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(command_line.resolve_configs(flags.FLAGS.read_flags_from_files(argv, force_gnu=False)))
    except (flags.Error, ValueError, KeyError, AttributeError, TypeError, OSError) as error:
        sys.exit(_report(UsageError(command_line.error_line(error))))


def _run(argv: list[str]) -> None:
    try:
        main(argv)
    except (UsageError, DataError, Diverged, Preempted, Lost) as error:
        code = _report(error)
        if _DISTRIBUTED.value:
            from numjax.runtime import processes

            processes.abandon(code)
        sys.exit(code)


def _report(error: UsageError | DataError | Diverged | Preempted | Lost) -> int:
    """Prints the error as one line; returns its exit code."""
    # A single write, since other threads may write too.
    print(f"numjax: {' '.join(str(error).split())}\n", end="", file=sys.stderr, flush=True)
    return error.exit_code


def entry() -> None:
    """Runs the console script."""
    app.run(_run, flags_parser=_parse)


if __name__ == "__main__":
    entry()
