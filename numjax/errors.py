"""Errors that a user can act on. `main` turns each into one line and an exit code."""

from __future__ import annotations


class UsageError(ValueError):
    """Bad flags, config or request: exit 2. The message is one line that says what to do."""

    exit_code = 2


class DataError(ValueError):
    """A record or file that cannot be used: skipped and named, or under --strict exit 3."""

    exit_code = 3


class Diverged(RuntimeError):
    """The loss is NaN or infinite: exit 4; the last good checkpoint stays."""

    exit_code = 4


class Preempted(BaseException):
    """SIGTERM or SIGINT: the state is saved; exit 143, so that schedulers requeue.

    No Exception: a signal's handler may raise it anywhere, and code that deals with errors must not take it for one.
    """

    exit_code = 143


class Lost(RuntimeError):
    """Another process of the run is gone: exit 5; the last checkpoint stays."""

    exit_code = 5
