"""A clock that jumps while a run goes on, by the library libfaketime."""

from __future__ import annotations

import contextlib
import pathlib
import random
import threading
from collections.abc import Iterator

from numjax.errors import UsageError

YEAR = 365 * 86_400
PAUSE = 0.2  # seconds between jumps


class Clock:
    """The time of day of the processes that get its `variables`.

    Durations (CLOCK_MONOTONIC) stay right, as on a machine whose clock is set.

    Attributes:
      variables: environment variables of the processes.

    Raises:
      UsageError: libfaketime is not installed.
    """

    def __init__(self, file: pathlib.Path):
        library = next((path for path in _list_libraries() if path.exists()), None)
        if library is None:
            raise UsageError(
                "--clock needs the library libfaketime: install it (Debian: apt-get install libfaketime)"
            )
        self._file = file
        self._write(0)
        self.variables = {
            "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
        }  # fmt: skip

    def _write(self, seconds: float) -> None:
        fresh = self._file.with_suffix(".tmp")
        fresh.write_text(f"{seconds:+.0f}\n")
        fresh.replace(self._file)

    @contextlib.contextmanager
    def jumping(self, seed: float) -> Iterator[None]:
        """Sets the clock forward or back by up to a year, again and again."""
        draw, end = random.Random(seed), threading.Event()

        def jump() -> None:
            while not end.wait(PAUSE):
                self._write(draw.uniform(-YEAR, YEAR))

        thread = threading.Thread(target=jump)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


def _list_libraries() -> list[pathlib.Path]:
    folders = [pathlib.Path("/usr/lib"), *pathlib.Path("/usr/lib").glob("*-linux-gnu")]
    return [folder / "faketime" / "libfaketimeMT.so.1" for folder in folders]
