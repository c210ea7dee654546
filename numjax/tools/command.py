"""What the command lines share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from numjax.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Bad flags are a `UsageError`: one line, exit 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help names the options")


def stream(tool: str, parts: Iterable[bytes]) -> int:
    """Writes each part to standard output as soon as it is made.

    Returns:
      0; 2 for a `UsageError` on the way, 130 when interrupted, 1 when reading or writing fails (a full disk).
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
        # The reader has what it wanted; keep Python from complaining when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"{tool}: stopped, the output is incomplete: {error.strerror}", file=sys.stderr)
        # What is left in the buffer would fail again when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
