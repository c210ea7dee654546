"""The shell commands that the README prints, by what they do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

PYTHON = ".venv/bin/python"
_BLOCK = re.compile(r"^```(?:bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HERE = re.compile(r"<<'?(\w+)'?")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command as it is printed, with what goes before it in its block: files that it reads.

    Attributes:
      workdir: of a run of `numjax.main`, else "". starts_from: the workdir whose parameters it starts from.
      mode: "train" where it says none.
    """

    text: str
    before: tuple[str, ...]

    @property
    def workdir(self) -> str:
        return self._flag("workdir") if "numjax.main" in self.text else ""

    @property
    def starts_from(self) -> str:
        return self._flag(r"config\.init_from")

    @property
    def mode(self) -> str:
        return self._flag("mode") or "train"

    def _flag(self, name: str) -> str:
        found = re.search(rf"--{name}=(\S+)", self.text)
        return found[1] if found else ""


def commands(readme: str) -> list[Command]:
    """All commands of its shell blocks, in order."""
    found = []
    for block in _BLOCK.findall(readme):
        before: list[str] = []
        for text in _split(block):
            found.append(Command(text, tuple(before)))
            if "-m numjax.main" not in text:
                before.append(text)
    return found


def training(found: list[Command], workdir: str) -> list[Command]:
    """The commands that train a workdir: the first of it, behind those of the workdir that it starts from.

    Raises:
      LookupError: there is none.
    """
    for command in found:
        if command.workdir == workdir and command.mode == "train":
            earlier = training(found, command.starts_from) if command.starts_from else []
            return [*earlier, command]
    raise LookupError(f"no command of the README trains {workdir}")


def _split(block: str) -> Iterator[str]:
    """One command each: lines that end in a backslash or a pipe go on, and so does what a here-document holds."""
    lines = iter(block.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        text = line
        while text.endswith(("\\", "|")):
            text += "\n" + next(lines)
        if end := _HERE.search(text):
            while (more := next(lines)) != end[1]:
                text += "\n" + more
            text += f"\n{end[1]}\n"
        yield text
