"""Measures the time from a command line to the first training step.

    python -m experiments.benchmarks.startup [--rounds=5] [--layers=6 --width=384 --heads=6 --length=256 --rows=8]
        [--config=gpt|numgpt] [--out=FILE]

    cold              `numjax.main --mode=train`, nothing compiled before
    warm              the same again: the persistent compilation cache is filled
    imports to first step   of either: from when jax, flax, optax, orbax, grain and numjax are imported until the
                      first step computes, with parameters and a batch; also in processor time, which other work on
                      the machine affects less
    import numjax.modes   all that a run needs, against `import jax, flax, optax`

Each is its own process; they take turns. Data and vocabulary exist already, as when a run resumes. The text is small,
since the time to read it is not part of the start.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import corpus, options, pairs
from numjax.errors import UsageError

SHAPE = corpus.SHAPE
IMPORTS = {
    "import jax, flax, optax": "import jax, flax, optax",
    "import numjax.modes": "import numjax.modes",
}
MOST_AFTER_IMPORTS = 2.0  # seconds, warm


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    parser = options.make_parser("startup", __doc__, SHAPE, rounds=5)
    parser.add_argument("--config", choices=("gpt", "numgpt"), default="gpt")
    arguments = parser.parse_args(words)
    if arguments.rounds < 1:
        raise UsageError("--rounds must be positive")
    result = measure(options.parse_shape(arguments, SHAPE), arguments.rounds, arguments.config)
    print(pairs.format_table(make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out)."""
    del peer  # no peer is needed: numjax is compared with its own dependencies
    return make_rows(measure(SHAPE, rounds=2)), []


def measure(shape: dict[str, int], rounds: int, config: str = "gpt") -> dict[str, Any]:
    """Seconds of every kind of start by round; cold and warm starts also by mark."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        source = corpus.write_text(files / "text", 0.2)
        words = corpus.make_flags(files, shape, config)
        start_run(words, files / "first", files / "cache")  # builds data and vocabulary, fills the cache
        seconds: dict[str, list[dict[str, float]]] = {}
        for i in range(rounds):
            for kind, cache in {"cold": files / f"cold_{i}", "warm": files / "cache"}.items():
                workdir = files / f"{kind}_run_{i}"
                shutil.copytree(files / "first" / "vocabulary", workdir / "vocabulary")
                seconds.setdefault(kind, []).append(start_run(words, workdir, cache))
            for kind, code in IMPORTS.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True, env=_make_environment())
                seconds.setdefault(kind, []).append({"total": time.perf_counter() - start})
            progress = " · ".join(f"{kind} {times[-1]['total']:.2f} s" for kind, times in seconds.items())
            print(f"round {i + 1}/{rounds}: {progress}", flush=True)
    machine = pairs.describe_machine() | {"load_after": round(os.getloadavg()[0], 2)}
    return {"benchmark": "startup", "machine": machine, "shape": shape, "text": source, "seconds": seconds}


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table."""
    seconds = result["seconds"]
    table_rows = []
    for kind, times in seconds.items():
        name = kind if kind in IMPORTS else f"start {kind}, first step done"
        table_rows.append(_make_row(name, [x["total"] for x in times], unit="s"))
    for kind in ("cold", "warm"):
        is_default = kind == "warm" and result["shape"] == SHAPE
        bounds: dict[str, Any] = dict(floor=MOST_AFTER_IMPORTS, lower=True) if is_default else {}
        for suffix, note in {"": "", "_cpu": ", processor"}.items():
            delays = [x["dispatched" + suffix] - x["imported" + suffix] for x in seconds[kind]]
            table_rows.append(_make_row(f"start {kind}, imports to first step{note}", delays, unit="s", **bounds))
            bounds = {}
    numjax_times, library_times = (
        [x["total"] for x in seconds[kind]] for kind in ("import numjax.modes", "import jax, flax, optax")
    )
    table_rows.append(
        _make_row(
            "import numjax.modes over import jax, flax, optax",
            [a / b for a, b in zip(numjax_times, library_times, strict=True)],
        )
    )
    warm_times, cold_times = ([x["total"] for x in seconds[kind]] for kind in ("warm", "cold"))
    table_rows.append(_make_row("start warm / cold", [a / b for a, b in zip(warm_times, cold_times, strict=True)]))
    return table_rows


def _make_row(title: str, values: list[float], **bounds: Any) -> pairs.BenchmarkRow:
    return pairs.BenchmarkRow(title, statistics.median(values), min(values), max(values), **bounds)


def start_run(words: list[str], workdir: pathlib.Path, cache: pathlib.Path) -> dict[str, float]:
    """Starts a run that ends after its first step: {mark: seconds since the start of the process}, and under
    "MARK_cpu" the processor time until the mark."""
    line = [sys.executable, "-c", "from numjax.bundled.experiments.benchmarks import startup; startup.work()"]
    line += [*words, f"--workdir={workdir}", f"--config.compile_cache={cache}"]
    start = time.time()
    process = subprocess.run(line, env=_make_environment(), stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise UsageError("the run ended before its first step: see its output above")
    marks = json.loads(process.stdout.splitlines()[-1])
    seconds = {name: moment - start for name, (moment, _) in marks.items()}
    return seconds | {f"{name}_cpu": busy for name, (_, busy) in marks.items()}


def _make_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(pairs.ROOT), "JAX_PLATFORMS": "cpu"}


def work() -> None:
    """Runs numjax.main like the console script, up to the end of the first step; prints the times of its marks."""
    import flax  # noqa: F401
    import grain  # noqa: F401
    import jax
    import optax  # noqa: F401
    import orbax.checkpoint  # noqa: F401

    from numjax import main
    from numjax.modes import train as training
    from numjax.train import loop

    # Wall-clock time since the epoch, and processor time of this process.
    marks = {"imported": (time.time(), time.process_time())}

    def mark(name: str) -> None:
        marks[name] = (time.time(), time.process_time())

    def add_mark(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any, **options: Any) -> Any:
            result = function(*args, **options)
            mark(name.strip("_"))
            return result

        setattr(module, name, call)

    add_mark(training, "assemble")
    add_mark(training, "load_data")
    original_make_compiled = loop.make_compiled

    def make_compiled(*args: Any, **options: Any) -> Any:
        compiled = original_make_compiled(*args, **options)
        mark("make_compiled")

        def step(*inputs: Any) -> None:
            mark("first_batch")
            result = compiled.step(*inputs)
            mark("dispatched")
            jax.block_until_ready(result)
            mark("total")
            print(json.dumps(marks), flush=True)
            sys.exit(0)

        return compiled._replace(step=step)

    loop.make_compiled = make_compiled
    add_mark(loop, "_start")
    main.entry()


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
