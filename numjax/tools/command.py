"""What the command lines share."""

from __future__ import annotations

import argparse
from typing import NoReturn

from numjax.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Bad flags are a `UsageError`: one line, exit 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help names the options")
