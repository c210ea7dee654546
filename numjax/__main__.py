"""numjax COMMAND [options]: trains and uses language models that treat numbers as numbers and formulas as trees.

A command is a mode of a run (`numjax.main`) or a file of `numjax/tools`. This file only maps the word to its module,
so that `numjax --help` and the tools for text start at once. Nothing but the chosen module is imported.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import pathlib
import sys
from collections.abc import Sequence

from numjax.errors import DataError, UsageError
from numjax.runtime import program
from numjax.tools.command import stream

TOOLS = pathlib.Path(__file__).parent / "tools"
EXAMPLE = f"{program.COMMAND} train {program.MODES['train'].example}"


def describe_tool(path: pathlib.Path) -> str:
    """What a tool does, from the first sentence of its docstring after the usage; "" if the file is no tool.

    A tool is a module with a function `main`. Its docstring starts with "usage: what it does." It is not imported.
    """
    tree = ast.parse(path.read_bytes())
    if not any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
        return ""
    paragraph = " ".join((ast.get_docstring(tree) or path.stem).partition("\n\n")[0].split())
    return (paragraph.partition(": ")[2] or paragraph).partition(". ")[0].removesuffix(".")


def list_tools() -> dict[str, str]:
    """The commands that are files of `numjax/tools`, with what they do."""
    descriptions = {path.stem: describe_tool(path) for path in sorted(TOOLS.glob("*.py"))}
    return {name: description for name, description in descriptions.items() if description}


def format_help() -> str:
    """What `numjax --help` prints: a line for each command."""
    names = [*program.MODES, *list_tools()]
    width = max(map(len, names)) + 2
    modes = {name: mode.purpose for name, mode in program.MODES.items()}
    lines = [f"usage: {program.COMMAND} COMMAND [options]"]
    for title, commands in {"runs": modes, "tools": list_tools()}.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}{text}" for name, text in commands.items())]
    lines += ["", "numjax COMMAND --help names the options of a command; numjax --version prints the version."]
    return "\n".join([*lines, f"Example: {EXAMPLE}"])


def main() -> int:
    """Runs the command line; returns the exit code, or exits with it."""
    # As `python -m` does: a part of one's own is found in the folder in which one works.
    if not sys.flags.safe_path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    word, *rest = sys.argv[1:] or [""]
    try:
        if word in ("--help", "-h", "help"):
            return stream(program.COMMAND, [f"{format_help()}\n".encode()])
        if word == "--version":
            import numjax

            print(f"{program.COMMAND} {numjax.__version__}")
            return 0
        return _run(word, rest)
    except (UsageError, DataError) as error:
        print(f"{program.prefix(program.COMMAND)}: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code


def _run(word: str, rest: Sequence[str]) -> int:
    if word in program.MODES:
        program.set_typed(word, rest)
        importlib.import_module("numjax.main").entry(word)
        return 0
    path = TOOLS / f"{word}.py"
    if not word.isidentifier() or not path.exists() or not describe_tool(path):
        raise UsageError(_describe_unknown(word))
    program.set_typed(word, rest)
    return importlib.import_module(f"numjax.tools.{word}").main(rest) or 0


def _describe_unknown(word: str) -> str:
    if not word or word.startswith("-"):
        return f"give a command first, such as {EXAMPLE}; numjax --help lists the commands"
    matches = difflib.get_close_matches(word, [*program.MODES, *list_tools()], 3, 0.6)
    nearest = f"did you mean {' or '.join(matches)}? " if matches else ""
    return f"{word!r} is no command: {nearest}numjax --help lists the commands"


if __name__ == "__main__":
    sys.exit(main())
