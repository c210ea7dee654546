"""Runs `pip install` and prints a line every few seconds, where pip prints hundreds or none.

    python constraints/install.py [arguments of pip install]

Warnings and errors of pip are printed as they come; the exit code is pip's. It needs nothing but Python and pip.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable

INTERVAL = 8.0  # seconds between lines


class Stage:
    """What pip is doing, from the lines that it has printed."""

    def __init__(self) -> None:
        self.n_chosen, self.now = 0, "choosing packages"

    def follow(self, lines: Iterable[str]) -> None:
        """Keeps `now` up to date until pip prints no more lines."""
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word in ("Collecting", "Requirement"):
                self.n_chosen += 1
                self.now = f"{self.n_chosen} packages chosen"
            elif word == "Downloading":
                name, _, size = rest.partition(" (")
                self.now = (
                    f"{self.n_chosen} packages chosen, downloading {name.split('-')[0]} ({size or 'size unknown)'}"
                )
            elif word == "Installing" and rest.startswith("collected"):
                self.now = f"unpacking {rest.count(',') + 1} packages"


def main() -> int:
    """Installs; returns pip's exit code."""
    options = ("--progress-bar=off", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, *sys.argv[1:]]
    stage, start, is_over = Stage(), time.monotonic(), threading.Event()

    def print_lines() -> None:
        is_at_end = False
        while not is_at_end:
            minutes, seconds = divmod(int(time.monotonic() - start), 60)
            print(f"  {minutes}:{seconds:02d}  {stage.now}", flush=True)
            is_at_end = is_over.wait(INTERVAL)

    threading.Thread(target=print_lines, daemon=True).start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        stage.follow(process.stdout)
    is_over.set()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
