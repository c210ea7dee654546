"""Shared by the command lines: a parser of flags, and streamed output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from numjax.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` for bad flags: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help names the options")


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
        print(f"{tool}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader closed the pipe. Redirect, so that Python does not complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"{tool}: stopped, the output is incomplete: {error.strerror}", file=sys.stderr)
        # Redirect: the rest of the buffer would fail again when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
