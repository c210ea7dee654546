"""Shared by the command lines: a parser of flags, errors in one line, and streamed output."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from numjax.errors import UsageError
from numjax.runtime import program


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` for bad flags: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help names the options")


def make_parser(tool: str, docstring: str | None, **options: Any) -> Parser:
    """The parser of a tool of this folder, which says what the tool's docstring says after its usage.

    Args:
      tool: its name. options: more arguments of the parser.
    """
    description = re.sub(r"^.*?:\s", "", docstring or "", count=1, flags=re.DOTALL)
    return Parser(prog=program.name_of(f"numjax.tools.{tool}"), description=description, **options)


def report(tool: str, error: Exception) -> int:
    """Prints a tool's error as one line to standard error; returns the exit code of bad usage."""
    print(f"{program.prefix(tool)}: {' '.join(str(error).split())}", file=sys.stderr)
    return UsageError.exit_code


def stream(tool: str, parts: Iterable[bytes]) -> int:
    """Writes each part to standard output as soon as it is ready.

    Returns:
      The exit code: 0; 2 after a `UsageError`, 130 after an interrupt, 1 if reading or writing fails (a full disk).
    """
    out = sys.stdout.buffer
    try:
        for part in parts:
            out.write(part)
            out.flush()
    except UsageError as error:
        return report(tool, error)
    except BrokenPipeError:
        # The reader closed the pipe. Redirect, so that Python does not complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"{program.prefix(tool)}: stopped, the output is incomplete: {error.strerror}", file=sys.stderr)
        # Redirect: the rest of the buffer would fail again when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
