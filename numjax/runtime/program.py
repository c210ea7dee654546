"""The command that the user typed, as usage lines, hints and error messages show it, and the modes of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

COMMAND = "numjax"


class Mode(NamedTuple):
    """A mode of a run: what it does, and flags that make an example."""

    purpose: str
    example: str


MODES = {
    "train": Mode("trains a run, or resumes it", "--config=numgpt:task=measures --workdir=runs/measures"),
    "eval": Mode("scores a run's best checkpoint on validation and test", "--workdir=runs/measures"),
    "predict": Mode(
        "predicts records of your own, from a file or standard input", "--workdir=runs/measures --input=FILE"
    ),
    "generate": Mode("continues prompts", "--workdir=runs/generation --prompt=TEXT"),
    "check": Mode("checks config, data, shapes and memory, without training", "--config=numgpt --workdir=runs/check"),
    "compile": Mode(
        "plans memory and time of a step on chips that you do not have",
        "--config=scale/decoder_7b --config.topology=v5e:4x4 --workdir=runs/plan",
    ),
    "show": Mode("prints the config that --config and --set come to", "--config=numgpt:paper"),
}


def set_typed(word: str, rest: Sequence[str]) -> None:
    """Makes `numjax WORD` the program's name, and `rest` its arguments, as if it were a program of its own."""
    sys.argv = [f"{COMMAND} {word}", *rest]


def name_of(module: str) -> str:
    """How the user calls a module that is a program: `numjax train`, or `python -m numjax.main`."""
    return sys.argv[0] if is_command() else f"python -m {module}"


def prefix(otherwise: str) -> str:
    """What error messages start with: `numjax train`, or `otherwise` where a module was run."""
    return sys.argv[0] if is_command() else otherwise


def mode_of(mode: str) -> str:
    """How the user asks for a mode of a run: `numjax show`, or `--mode=show`."""
    return f"{COMMAND} {mode}" if is_command() else f"--mode={mode}"


def is_command() -> bool:
    """Whether the user typed `numjax WORD`, not `python -m MODULE`."""
    return sys.argv[0].startswith(f"{COMMAND} ")
