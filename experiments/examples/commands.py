"""Finds the shell commands of the documentation, and which of them train a workdir."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from numjax.runtime import program

_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?")
_RUN = re.compile(rf"\bnumjax ({'|'.join(program.MODES)})\b")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command as a page prints it.

    Attributes:
      text: the command. setup: commands before it in its block, which write files that it reads.
      mode: of a run, such as "train", else "". workdir: of the run, else "".
      starts_from: the workdir whose parameters it starts from.
    """

    text: str
    setup: tuple[str, ...]

    @property
    def workdir(self) -> str:
        return self._find_flag("workdir") if self.mode else ""

    @property
    def starts_from(self) -> str:
        return self._find_flag(r"config\.init_from")

    @property
    def mode(self) -> str:
        match = _RUN.search(self.text)
        return match[1] if match else ""

    def _find_flag(self, name: str) -> str:
        match = re.search(rf"--{name}=(\S+)", self.text)
        return match[1] if match else ""


def find_commands(page: str) -> list[Command]:
    """All commands of a page's shell blocks, in order."""
    commands = []
    for block in (code for language, code in _BLOCK.findall(page) if language == "bash"):
        setup_lines: list[str] = []
        for text in _split_commands(block):
            commands.append(Command(text, tuple(setup_lines)))
            if not commands[-1].mode:
                setup_lines.append(text)
    return commands


def find_training_commands(commands: list[Command], workdir: str) -> list[Command]:
    """The commands that train a workdir: those of the workdir that it starts from, then its own first one.

    Raises:
      LookupError: no command trains it.
    """
    for command in commands:
        if command.workdir == workdir and command.mode == "train":
            earlier_commands = find_training_commands(commands, command.starts_from) if command.starts_from else []
            return [*earlier_commands, command]
    raise LookupError(f"no command trains {workdir}")


def _split_commands(block: str) -> Iterator[str]:
    """Yields the commands of a block; a backslash or a pipe continues a line, and here-documents are included."""
    lines = iter(block.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        text = line
        while text.endswith(("\\", "|")):
            text += "\n" + next(lines)
        if opening := _HERE_DOCUMENT.search(text):
            while (next_line := next(lines)) != opening[1]:
                text += "\n" + next_line
            text += f"\n{opening[1]}\n"
        yield text
