"""Contenders that take turns: what every comparison of speed and memory here is driven by.

A contender is a process that lives through the whole measurement, possibly of another Python. It says in a line of
JSON when it is ready, and answers each line "N" on its input with how long N units of work took. All take their
turns in each round (A B C A B C …) and ratios are taken within a round: other work on a shared machine then hits
both sides, and the median over the rounds is what counts.

Standard library only: peers with an environment of their own run `serve` too.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from numjax.errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / ".venv-compare/bin/python"


class Contender(NamedTuple):
    """A process to measure.

    Attributes:
      name: in tables.
      words: its command line; see `command`.
      environment: variables beside the present ones.
    """

    name: str
    words: Sequence[str]
    environment: Mapping[str, str] = {}


class Row(NamedTuple):
    """A line of the table of all benchmarks.

    Attributes:
      what: what is measured.
      measured: the median; least, most: of the rounds, None where there is one value.
      floor, goal: what is asked for, None where nothing is; `lower` says that less is better.
      unit: "x" for ratios.
    """

    what: str
    measured: float
    least: float | None = None
    most: float | None = None
    floor: float | None = None
    goal: float | None = None
    lower: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """ "goal", "floor" or "below" of what is asked for; empty where nothing is."""
        for name, bound in (("goal", self.goal), ("floor", self.floor)):
            if bound is not None and (self.measured <= bound if self.lower else self.measured >= bound):
                return name
        return "" if self.floor is None and self.goal is None else "below"


# ---------------------------------------------------------------------------------------------------
# The contender's side.


def serve(turn: Callable[[int], Mapping[str, Any] | None], **ready: Any) -> None:
    """Says that it is ready, then answers each line "N" of the input with the time that turn(N) took.

    What `turn` returns goes into the answer. Whatever libraries print goes to the error stream.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**found: Any) -> None:
        print(json.dumps(found | {"peak_mib": peak_mib()}), file=out, flush=True)

    answer(**ready)
    for line in sys.stdin:
        wall, busy = time.perf_counter(), time.process_time()
        found = turn(int(line)) or {}
        answer(seconds=time.perf_counter() - wall, cpu=time.process_time() - busy, **found)


def peak_mib() -> float:
    """Peak resident memory of this process, MiB."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        # Elsewhere than on Linux; ru_maxrss there may count what the parent held when it started us.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


# ---------------------------------------------------------------------------------------------------
# The driver's side.


def command(module: str, *words: str, python: str | pathlib.Path = sys.executable) -> list[str]:
    """The command line of experiments/benchmarks/MODULE.py in a Python."""
    return [str(python), "-m", f"experiments.benchmarks.{module}", *words]


def lacking(python: str | pathlib.Path, packages: Iterable[str]) -> str:
    """What keeps a peer from running, in words; empty if nothing."""
    if not pathlib.Path(python).exists():
        return f"no Python at {python} (run: make compare)"
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    found = subprocess.run([str(python), "-c", code, *packages], capture_output=True, text=True, check=False)
    if found.returncode:
        return f"{python} does not start"
    names = found.stdout.split()
    return f"{python} has no {', '.join(names)} (run: make compare)" if names else ""


def drive(
    contenders: Sequence[Contender],
    rounds: int,
    units: int = 1,
    say: Callable[[str], Any] = functools.partial(print, flush=True),
) -> dict:
    """Starts all contenders, one after the other, and lets them take turns.

    Args:
      contenders: at least one.
      rounds: turns of each that count; one more before them warms up.
      units: of work a turn.
      say: is told how each round went.

    Returns:
      {"machine", "rounds", "units", "contenders": name → what it said when ready, "seconds" and "cpu_seconds" a
      unit by round, their "median", and "peak_mib", and whatever else its last turn answered}.

    Raises:
      UsageError: a contender ended early.
    """
    if rounds < 1 or units < 1:
        raise UsageError("--rounds and the units of work a turn must be positive")
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        workers = {}
        for contender in contenders:  # one after the other: nobody compiles while another warms up
            workers[contender.name] = stack.enter_context(_Worker(contender))
        answers: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        for worker in workers.values():
            worker.take(units)
        for i in range(rounds):
            for name, worker in workers.items():
                answers[name].append(worker.take(units))
            shown = " · ".join(f"{name} {rows[-1]['seconds'] / units:.3f} s" for name, rows in answers.items())
            say(f"round {i + 1}/{rounds}: {shown}")
        ready = {name: worker.ready for name, worker in workers.items()}
    found = {}
    for name, rows in answers.items():
        seconds = [row["seconds"] / units for row in rows]
        found[name] = (
            ready[name]
            | rows[-1]
            | {"seconds": seconds, "cpu_seconds": [row["cpu"] / units for row in rows]}
            | {"median": statistics.median(seconds), "peak_mib": max(row["peak_mib"] for row in rows)}
        )
        found[name].pop("cpu")
    machine_now = machine() | {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
    return {"machine": machine_now, "rounds": rounds, "units": units, "contenders": found}


def ratio(found: Mapping[str, Any], over: str, under: str, key: str = "seconds") -> dict[str, float]:
    """Median, least and most of over/under round by round: with "seconds", how much faster `under` is."""
    sides = [found["contenders"][name][key] for name in (over, under)]
    values = sorted(a / b for a, b in zip(*sides, strict=True))
    return {"median": statistics.median(values), "least": values[0], "most": values[-1]}


def memory(found: Mapping[str, Any], mine: str, other: str) -> float:
    """Peak memory of `mine` over that of `other`."""
    return found["contenders"][mine]["peak_mib"] / found["contenders"][other]["peak_mib"]


def machine() -> dict[str, Any]:
    """Where this runs: processor, cores and memory."""
    name, family = platform.processor() or platform.machine(), ""
    wide = []
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        about = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        name = about.get("model name", name)
        family = f"family {about.get('cpu family')}, model {about.get('model')}"
        wide = [
            flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in about.get("flags", "").split()
        ]
    except OSError:
        pass
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": name,
        "family": family,
        "vectors": wide,
        "cores": cores,
        "memory_gib": round(gib, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def write(result: Mapping[str, Any], out: str | None) -> None:
    """The result as JSON into a file, if one is named, and on the last line of the output."""
    if out:
        path = pathlib.Path(out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def table(rows: Iterable[Row]) -> str:
    """Rows for people."""
    lines: list[tuple[str, ...]] = [("measured", "median", "rounds", "floor", "goal", "reached")]
    for row in rows:
        spread = "" if row.least is None else f"{row.least:.2f}-{row.most:.2f}"
        bounds = [
            "" if bound is None else f"{'≤' if row.lower else '≥'} {bound:.2f}" for bound in (row.floor, row.goal)
        ]
        lines.append((row.what, f"{row.measured:.2f} {row.unit}", spread, *bounds, row.verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


class _Worker:
    """A contender's process."""

    def __init__(self, contender: Contender):
        self._name = contender.name
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **contender.environment}
        self._process = subprocess.Popen(
            contender.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        try:
            self.ready = self._answer()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()  # the end of its input ends it
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def take(self, units: int) -> dict[str, Any]:
        """Takes a turn."""
        assert self._process.stdin is not None
        try:
            print(units, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._ended() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> UsageError:
        return UsageError(f"contender {self._name} ended early: see what it said above")
