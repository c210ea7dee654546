"""Drives contenders that take turns: every comparison of speed and memory in this folder uses it.

A contender is a process that lives through the whole measurement, possibly of another Python. It prints a line of
JSON when it is ready, and answers each line "N" on its input with the time that N units of work took. All take turns
in each round (A B C A B C …) and ratios are taken within a round, so that other work on a shared machine affects both
sides. The result is the median over the rounds.

Standard library only, because peers with their own environment run `serve` too.
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
      words: its command line; see `make_command`.
      environment: variables that are added to the present ones.
    """

    name: str
    words: Sequence[str]
    environment: Mapping[str, str] = {}


class BenchmarkRow(NamedTuple):
    """A row of the table of all benchmarks.

    Attributes:
      what: name of the measure.
      measured: the median; least, most: of the rounds, None if there is one value.
      floor, goal: required and desired value, None if there is none; `lower`: whether less is better.
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
        """The best bound that is reached: "goal", "floor" or "below"; empty if there is no bound."""
        for name, bound in (("goal", self.goal), ("floor", self.floor)):
            if bound is not None and (self.measured <= bound if self.lower else self.measured >= bound):
                return name
        return "" if self.floor is None and self.goal is None else "below"


# ---------------------------------------------------------------------------------------------------
# The contender's side.


def serve(turn: Callable[[int], Mapping[str, Any] | None], **ready: Any) -> None:
    """Prints that it is ready, then answers each line "N" of the input with the time that turn(N) took.

    The answer includes what `turn` returns. Everything that libraries print goes to stderr.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any) -> None:
        print(json.dumps(fields | {"peak_mib": peak_mib()}), file=out, flush=True)

    answer(**ready)
    for line in sys.stdin:
        wall, busy = time.perf_counter(), time.process_time()
        fields = turn(int(line)) or {}
        answer(seconds=time.perf_counter() - wall, cpu=time.process_time() - busy, **fields)


def peak_mib() -> float:
    """Peak resident memory of this process, MiB."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        # Not on Linux, where ru_maxrss may count the parent's memory at the time of the fork.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


# ---------------------------------------------------------------------------------------------------
# The driver's side.


def make_command(module: str, *words: str, python: str | pathlib.Path = sys.executable) -> list[str]:
    """The command line that runs experiments/benchmarks/MODULE.py in a Python."""
    return [str(python), "-m", f"experiments.benchmarks.{module}", *words]


def explain_missing(python: str | pathlib.Path, packages: Iterable[str]) -> str:
    """The reason why a peer cannot run; empty if it can."""
    if not pathlib.Path(python).exists():
        return f"no Python at {python} (run: make compare)"
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    process = subprocess.run([str(python), "-c", code, *packages], capture_output=True, text=True, check=False)
    if process.returncode:
        return f"{python} does not start"
    names = process.stdout.split()
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
      rounds: number of counted turns of each; one more turn before them warms up.
      units: of work per turn.
      say: prints a line about each round.

    Returns:
      {"machine", "rounds", "units", "contenders": name → the fields of its first message, "seconds" and "cpu_seconds"
      per unit by round, the "median" of "seconds", "peak_mib", and the other fields of its last answer}.

    Raises:
      UsageError: a contender ended early.
    """
    if rounds < 1 or units < 1:
        raise UsageError("--rounds and the units of work a turn must be positive")
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        workers = {}
        for contender in contenders:  # one after the other: no contender compiles while another warms up
            workers[contender.name] = stack.enter_context(_Worker(contender))
        answers: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        for worker in workers.values():
            worker.take(units)
        for i in range(rounds):
            for name, worker in workers.items():
                answers[name].append(worker.take(units))
            progress = " · ".join(f"{name} {rows[-1]['seconds'] / units:.3f} s" for name, rows in answers.items())
            say(f"round {i + 1}/{rounds}: {progress}")
        ready_answers = {name: worker.ready for name, worker in workers.items()}
    entries = {}
    for name, rows in answers.items():
        seconds = [row["seconds"] / units for row in rows]
        entries[name] = (
            ready_answers[name]
            | rows[-1]
            | {"seconds": seconds, "cpu_seconds": [row["cpu"] / units for row in rows]}
            | {"median": statistics.median(seconds), "peak_mib": max(row["peak_mib"] for row in rows)}
        )
        entries[name].pop("cpu")
    machine = describe_machine() | {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
    return {"machine": machine, "rounds": rounds, "units": units, "contenders": entries}


def ratio(result: Mapping[str, Any], numerator: str, denominator: str, key: str = "seconds") -> dict[str, float]:
    """Median, least and most of numerator/denominator over rounds; of "seconds", `denominator`'s speed-up."""
    sides = [result["contenders"][name][key] for name in (numerator, denominator)]
    values = sorted(a / b for a, b in zip(*sides, strict=True))
    return {"median": statistics.median(values), "least": values[0], "most": values[-1]}


def memory_ratio(result: Mapping[str, Any], numerator: str, denominator: str) -> float:
    """Peak memory of `numerator` over that of `denominator`."""
    return result["contenders"][numerator]["peak_mib"] / result["contenders"][denominator]["peak_mib"]


def describe_machine() -> dict[str, Any]:
    """The present machine: processor, cores and memory."""
    name, family = platform.processor() or platform.machine(), ""
    vector_flags = []
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        cpu_info = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        name = cpu_info.get("model name", name)
        family = f"family {cpu_info.get('cpu family')}, model {cpu_info.get('model')}"
        vector_flags = [
            flag
            for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
            if flag in cpu_info.get("flags", "").split()
        ]
    except OSError:
        pass
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": name,
        "family": family,
        "vectors": vector_flags,
        "cores": cores,
        "memory_gib": round(gib, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def write_result(result: Mapping[str, Any], out: str | None) -> None:
    """Writes the result as JSON into the file `out`, if it is given, and prints it on the last line."""
    if out:
        write_file(result, out)
    print(json.dumps(result))


def write_file(result: Mapping[str, Any], out: str) -> None:
    """Writes the whole file or nothing: a kill leaves the old file."""
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.tmp")
    fresh.write_text(json.dumps(result, indent=1) + "\n")
    fresh.replace(path)


def read_file(path: pathlib.Path) -> dict[str, Any]:
    """The result that a file holds.

    Raises:
      UsageError: it holds none.
    """
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no result of a benchmark ({error}): remove it") from None
    if not isinstance(result, dict) or not {"machine", "rows"} <= result.keys():
        raise UsageError(f"{path}: no result of this benchmark: choose another file")
    return result


def format_table(rows: Iterable[BenchmarkRow]) -> str:
    """The rows as an aligned text table."""
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
            self.ready = self._read_answer()
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
        """Takes a turn of `units` of work; returns the answer."""
        assert self._process.stdin is not None
        try:
            print(units, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._make_error() from None
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._make_error()
        return json.loads(line)

    def _make_error(self) -> UsageError:
        return UsageError(f"contender {self._name} ended early: see its output above")
