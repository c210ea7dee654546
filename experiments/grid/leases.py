"""Leases: files by which runners on any machines of a shared folder agree who trains what.

A lease is a file OUT/leases/NAME.json with host, process and start. Its holder touches it while it works. A lease is
stale, and is taken over, if its process is gone from this host, or if it was not touched for `PATIENCE` seconds by
the clock of the file system, which all machines share. A holder that slept for so long finds out when it asks its
lease before it writes, and stops.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from numjax.errors import UsageError
from numjax.runtime import files, log

BEAT = 20.0  # seconds between two touches
PATIENCE = 120.0


class Held(UsageError):
    """Another runner that is alive holds the lease; the message says which."""


class TakenOver(Held):
    """The lease was held by this process, and is not any more: another runner took it over."""


class Lease:
    """A lease that this process holds, as long as nobody takes it over."""

    def __init__(self, path: pathlib.Path, own: dict[str, Any]):
        self.path, self.own = path, own
        self._is_announced = False

    def check(self) -> None:
        """Does nothing while the lease is held. Call it before each write that the next holder would not expect.

        Raises:
          TakenOver: another runner has the lease, or had it and is done.
        """
        try:
            holder = json.loads(self.path.read_text())
        except FileNotFoundError:
            holder = {}
        except (OSError, ValueError):
            return  # a disturbance of the file system says nothing about the holder
        if holder == self.own:
            return
        other = _describe(self.path) if holder else f"{self.path.stem} is with nobody any more"
        error = TakenOver(f"{other}: this process was silent for too long, lost it, and writes no more")
        if not self._is_announced:
            self._is_announced = True
            log.say(str(error))
        raise error

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that checks the lease before it does the same."""

        def checked(*args: Any, **kwargs: Any) -> Any:
            self.check()
            return function(*args, **kwargs)

        return checked


@contextlib.contextmanager
def hold(out: pathlib.Path, name: str, wait: float = 0.0) -> Iterator[Lease]:
    """Holds the lease of a name while the block runs; yields it, to be asked whether it is still held.

    Args:
      wait: seconds to wait for another runner to end.

    Raises:
      Held: another runner still holds it.
      UsageError: the folder cannot be written.
    """
    path, end = out / "leases" / f"{name}.json", time.monotonic() + wait
    while True:
        try:
            own = _acquire(path)
            break
        except Held:
            if time.monotonic() >= end:
                raise
            time.sleep(min(BEAT, 1.0))
        except OSError as error:
            raise UsageError(f"cannot write {path} ({error.strerror}): choose another --out") from error
    lease, stop = Lease(path, own), threading.Event()
    beating = threading.Thread(target=_beat, args=(lease, stop), daemon=True)
    beating.start()
    try:
        yield lease
    finally:
        stop.set()
        beating.join()
        if _load(path) == own:
            path.unlink(missing_ok=True)


def _acquire(path: pathlib.Path) -> dict[str, Any]:
    # Without the lock, two runners that both saw a stale lease could each remove the other's new one.
    with files.hold_lock(path.parent / ".lock", "another runner chooses its next cell"):
        if not _is_stale(path):
            raise Held(_describe(path))
        own = {"host": socket.gethostname(), "pid": os.getpid(), "thread": threading.get_ident()}
        own["since"] = datetime.datetime.now(datetime.UTC).isoformat()
        files.write(path, json.dumps(own) + "\n")
        return own


def _is_stale(path: pathlib.Path) -> bool:
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return True
    holder = _load(path)
    if holder.get("host") == socket.gethostname() and not _is_alive(holder.get("pid")):
        return True
    return _file_system_time(path.parent) - touched > PATIENCE


def _is_alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, TypeError, ValueError):
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):  # a killed process that nobody has waited for is still listed
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X")
    return True


def _file_system_time(folder: pathlib.Path) -> float:
    """The time by the clock that stamps files, which may be a server's."""
    probe = folder / f".clock-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _beat(lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        try:
            lease.check()
            os.utime(lease.path)
        except TakenOver:
            return  # the block itself is told when it checks
        except OSError:
            continue


def _load(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _describe(path: pathlib.Path) -> str:
    holder = _load(path)
    start = str(holder.get("since", "an unknown time"))[:19]
    return f"{path.stem} is with process {holder.get('pid')} on {holder.get('host')} since {start}"
