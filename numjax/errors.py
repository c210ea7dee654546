"""Errors that a user can act on. `main` turns each into one line and an exit code."""

from __future__ import annotations

from collections.abc import Sequence


class UsageError(ValueError):
    """Bad flags, config or request: exit 2. The message is one line that says what to do."""

    exit_code = 2


def check_least(part: str, least: float, /, **options: float) -> None:
    """Raises UsageError for an option of a part, by name, that is below the least or no number."""
    for name, value in options.items():
        if not value >= least:
            raise UsageError(f"{part}: {name} must be at least {least:g}, not {value:g}")


def check_choice(part: str, choices: Sequence[str], /, **options: str) -> None:
    """Raises UsageError for an option of a part, by name, that is none of the choices."""
    for name, value in options.items():
        if value not in choices:
            raise UsageError(f"{part}: {name} must be one of {', '.join(choices)}, not {value!r}")


class DataError(ValueError):
    """A record or file that cannot be used: it is skipped and listed; with --strict exit 3."""

    exit_code = 3


class Diverged(RuntimeError):
    """The loss is NaN or infinite: exit 4. The last good checkpoint is kept."""

    exit_code = 4


class Preempted(BaseException):
    """SIGTERM or SIGINT: the state is saved; exit 143, so that schedulers requeue.

    It is no Exception: code that catches the error of one run, and goes on with the next, must not catch it.
    """

    exit_code = 143


class Lost(RuntimeError):
    """Another process of the run is gone: exit 5. The last checkpoint is kept."""

    exit_code = 5
