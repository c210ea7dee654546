"""The cells of the tutorials that begin with %%bash: `%load_ext shell_cells` in a hidden first cell.

IPython's own %%bash gives its output in pieces of 100 bytes, which would be on a line each on the page, and goes on
after a command that fails unless it is the last one.
"""

from __future__ import annotations

import subprocess
from typing import Any


def run_cell(line: str, cell: str) -> None:
    """Runs a cell's commands and prints their output in one piece.

    Raises:
      RuntimeError: a command fails; the build then stops.
    """
    del line
    command = ["bash", "-euo", "pipefail", "-c", cell]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}:\n{process.stdout}")
    print(process.stdout, end="")


def load_ipython_extension(shell: Any) -> None:
    """Called by %load_ext."""
    shell.register_magic_function(run_cell, "cell", "bash")
