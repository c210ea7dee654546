"""python -m numjax.main [--config=FILE|NAME[:ARG]] [--set=…] --workdir=DIR [--mode=MODE].

Modes: train eval predict generate compile check show.

Without --config, the workdir's config is used. This file has only flags, processes and exit codes, so that notebooks
can call everything else.
"""

from __future__ import annotations

import functools
import json
import sys

from absl import app, flags
from ml_collections import config_flags

from numjax.config import blocks, command_line, fit, origin
from numjax.errors import DataError, Diverged, Lost, Preempted, UsageError
from numjax.runtime import program, stop

MODES = tuple(program.MODES)
# Flag → the modes that use it, where not all do; a command of one mode does not show --mode.
MODES_OF_FLAG = {"mode": (), "input": ("predict", "generate"), "prompt": ("generate",), "intervals": ("generate",)}
REPEATS = ";\n"  # what absl puts before its remark on flags that may be repeated

_CONFIG = config_flags.DEFINE_config_file("config", None, "FILE or NAME[:WORD,WORD]; default: the workdir's.")
_SET = flags.DEFINE_multi_string(
    "set", [], "PATH=NAME:option=value replaces a block; +PATH=… adds one, ~PATH drops it; may be repeated."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_MODE = flags.DEFINE_enum("mode", "train", MODES, "What to do.")
_INPUT = flags.DEFINE_string("input", None, "predict, generate: a file of records or prompts a line, - for stdin.")
_PROMPT = flags.DEFINE_multi_string("prompt", [], "generate: a prompt; may be repeated.")
_INTERVALS = flags.DEFINE_string(
    "intervals", None, "generate: shares of central intervals to print with each number, such as 0.5,0.9."
)
_STRICT = flags.DEFINE_bool("strict", False, "Stop at the first bad record instead of skipping it.")
_TRUST = flags.DEFINE_bool(
    "trust", False, "Run modules outside numjax that a workdir's config names. What --config names needs no --trust."
)
_DISTRIBUTED = flags.DEFINE_bool("distributed", False, "Join the cluster's jax.distributed service.")


def main(argv: list[str]) -> None:
    """Sets up processes and caches, then calls `modes.run`."""
    if len(argv) > 1:
        form = f'--prompt="{argv[1]}"' if _MODE.value == "generate" else "--workdir=DIR"
        raise UsageError(f"unexpected argument {argv[1]!r}: flags have a name, so write {form}")
    if _MODE.value == "show" and _CONFIG.value:
        print("\n".join(blocks.format_config(_CONFIG.value)))
        return
    if not _CONFIG.value or not _WORKDIR.value:
        raise UsageError(command_line.usage(str(_MODE.value), bool(_CONFIG.value), bool(_WORKDIR.value)))
    for name, modes_of_flag in MODES_OF_FLAG.items():
        if modes_of_flag and flags.FLAGS[name].present and _MODE.value not in modes_of_flag:
            raise UsageError(f"--{name} is for {' and '.join(modes_of_flag)}: leave it out of {_MODE.value}")
    intervals = () if _INTERVALS.value is None else fit.parse_intervals(_INTERVALS.value)
    if fault := origin.find_fault(json.loads(_CONFIG.value.to_json_best_effort())):
        raise UsageError(
            f"--config is no whole config of numjax, {fault}: make it with a recipe or from another config"
        )
    from numjax import modes  # imports jax, so only after the flags are checked

    modes.set_up(_CONFIG.value, distributed=_DISTRIBUTED.value, planning=_MODE.value == "compile")
    arguments = {"strict": bool(_STRICT.value), "input": _INPUT.value, "prompts": _PROMPT.value or ()}
    arguments["intervals"] = intervals
    modes.run(_CONFIG.value, _WORKDIR.value, str(_MODE.value), **arguments)


def _parse(argv: list[str], mode: str = "") -> list[str]:
    try:
        words = flags.FLAGS(command_line.resolve_configs(flags.FLAGS.read_flags_from_files(argv, force_gnu=False)))
        if mode and flags.FLAGS["mode"].present:
            raise UsageError(f"--mode={_MODE.value}: the command names the mode, so type numjax {_MODE.value}")
        return words
    except (flags.Error, ValueError, KeyError, AttributeError, TypeError, OSError) as error:
        sys.exit(_report(UsageError(command_line.error_line(error, argv))))


def _run(argv: list[str]) -> None:
    if _DISTRIBUTED.value:
        stop.use_default_handlers()
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
    print(f"{program.prefix(program.COMMAND)}: {' '.join(str(error).split())}\n", end="", file=sys.stderr, flush=True)
    return error.exit_code


def format_help(mode: str = "") -> str:
    """What `--help` prints: what the mode, or every mode, does, and the flags."""
    name = program.name_of("numjax.main")
    purposes = [f"  {word:10}{about.purpose}" for word, about in program.MODES.items()]
    workdir = "[--workdir=DIR]" if mode == "show" else "--workdir=DIR"
    lines = [f"usage: {name} [--config=FILE|NAME[:WORD,WORD]] {workdir} [flags]", ""]
    lines += [f"{name}: {program.MODES[mode].purpose}"] if mode else purposes
    lines.append("")
    for holder in (_CONFIG, _SET, _WORKDIR, _MODE, _INPUT, _PROMPT, _INTERVALS, _STRICT, _TRUST, _DISTRIBUTED):
        flag = flags.FLAGS[holder.name]
        if not mode or mode in MODES_OF_FLAG.get(flag.name, MODES):
            shown = f"[no]{flag.name}" if flag.boolean else flag.name
            lines.append(f"  --{shown:16} {flag.help.partition(REPEATS)[0]}")
    lines.append("  --config.a.b       Sets one value of the config; --helpfull lists them with all other flags.")
    return "\n".join([*lines, "", f"Example: {name} {program.MODES[mode or 'train'].example}"])


def entry(mode: str = "") -> None:
    """Runs the command line and exits.

    Args:
      mode: what to do, where the command names it instead of --mode.
    """
    if {"--help", "-help", "-h"} & {*sys.argv[1:]}:
        print(format_help(mode))
        return
    if mode:
        flags.FLAGS.set_default("mode", mode)
    with stop.exit_when_stopped():
        app.run(_run, flags_parser=functools.partial(_parse, mode=mode))


if __name__ == "__main__":
    entry()
