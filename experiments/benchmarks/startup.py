"""How long it takes from a command line to the first training step.

    python -m experiments.benchmarks.startup [--rounds=5] [--layers=6 --width=384 --heads=6 --length=256 --rows=8]
        [--config=gpt|numgpt] [--out=FILE]

    cold              `numjax.main --mode=train`, nothing compiled before
    warm              the same again: the persistent compilation cache is filled
    imports to first step   of either: from when jax, flax, optax, orbax, grain and numjax are imported until the
                      first step computes, with parameters and a batch; also in processor time, which other work on
                      the machine touches less
    import numjax.train.runs   all that a run needs, beside `import jax, flax, optax`

Each is a process of its own, by turns. Data and vocabulary are there already, as they are whenever a run goes on; the
text is small, since reading more of it is no matter of starting.
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
    "import numjax.train.runs": "import numjax.train.runs",
}
MOST_AFTER_IMPORTS = 2.0  # seconds, warm


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    made = options.parser("startup", __doc__, SHAPE, rounds=5)
    made.add_argument("--config", choices=("gpt", "numgpt"), default="gpt")
    given = made.parse_args(words)
    if given.rounds < 1:
        raise UsageError("--rounds must be positive")
    result = measure(options.shape_of(given, SHAPE), given.rounds, given.config)
    print(pairs.table(rows(result)))
    pairs.write(result, given.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out)."""
    del peer  # none is needed: what numjax stands on is what it is compared with
    return rows(measure(SHAPE, rounds=2)), []


def measure(shape: dict[str, int], rounds: int, config: str = "gpt") -> dict[str, Any]:
    """Seconds of every kind of start by round, with the parts of the warm one."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        source = corpus.write(files / "text", 0.2)
        words = corpus.flags(files, shape, config)
        started(words, files / "first", files / "cache")  # builds data and vocabulary, fills the cache
        seconds: dict[str, list[dict[str, float]]] = {}
        for i in range(rounds):
            for kind, cache in {"cold": files / f"cold_{i}", "warm": files / "cache"}.items():
                workdir = files / f"{kind}_run_{i}"
                shutil.copytree(files / "first" / "vocabulary", workdir / "vocabulary")
                seconds.setdefault(kind, []).append(started(words, workdir, cache))
            for kind, code in IMPORTS.items():
                begun = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True, env=_environment())
                seconds.setdefault(kind, []).append({"total": time.perf_counter() - begun})
            shown = " · ".join(f"{kind} {times[-1]['total']:.2f} s" for kind, times in seconds.items())
            print(f"round {i + 1}/{rounds}: {shown}", flush=True)
    machine = pairs.machine() | {"load_after": round(os.getloadavg()[0], 2)}
    return {"benchmark": "startup", "machine": machine, "shape": shape, "text": source, "seconds": seconds}


def rows(found: dict[str, Any]) -> list[pairs.Row]:
    """The table."""
    seconds = found["seconds"]
    made = []
    for kind, times in seconds.items():
        name = kind if kind in IMPORTS else f"start {kind}, first step done"
        made.append(_row(name, [x["total"] for x in times], unit="s"))
    for kind in ("cold", "warm"):
        usual = kind == "warm" and found["shape"] == SHAPE
        bounds: dict[str, Any] = dict(floor=MOST_AFTER_IMPORTS, lower=True) if usual else {}
        for suffix, what in {"": "", "_cpu": ", processor"}.items():
            after = [x["dispatched" + suffix] - x["imported" + suffix] for x in seconds[kind]]
            made.append(_row(f"start {kind}, imports to first step{what}", after, unit="s", **bounds))
            bounds = {}
    mine, other = (
        [x["total"] for x in seconds[kind]] for kind in ("import numjax.train.runs", "import jax, flax, optax")
    )
    made.append(
        _row(
            "import numjax.train.runs over import jax, flax, optax", [a / b for a, b in zip(mine, other, strict=True)]
        )
    )
    warm, cold = ([x["total"] for x in seconds[kind]] for kind in ("warm", "cold"))
    made.append(_row("start warm / cold", [a / b for a, b in zip(warm, cold, strict=True)]))
    return made


def _row(what: str, values: list[float], **more: Any) -> pairs.Row:
    return pairs.Row(what, statistics.median(values), min(values), max(values), **more)


def started(words: list[str], workdir: pathlib.Path, cache: pathlib.Path) -> dict[str, float]:
    """Starts a run, waits for its first step and lets it end there: {mark: seconds since the start of the process},
    and under "MARK_cpu" its processor time until then."""
    line = [sys.executable, "-c", "from numjax.bundled.experiments.benchmarks import startup; startup.work()"]
    line += [*words, f"--workdir={workdir}", f"--config.compile_cache={cache}"]
    begun = time.time()
    done = subprocess.run(line, env=_environment(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise UsageError("the run ended before its first step: see what it said above")
    marks = json.loads(done.stdout.splitlines()[-1])
    found = {name: at - begun for name, (at, _) in marks.items()}
    return found | {f"{name}_cpu": busy for name, (_, busy) in marks.items()}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(pairs.ROOT), "JAX_PLATFORMS": "cpu"}


def work() -> None:
    """numjax.main as the console script runs it, up to the end of the first step; prints when it came where."""
    import flax  # noqa: F401
    import grain  # noqa: F401
    import jax
    import optax  # noqa: F401
    import orbax.checkpoint  # noqa: F401

    from numjax import main
    from numjax.train import loop, runs

    # Wall-clock time since the epoch, and processor time of this process.
    marks = {"imported": (time.time(), time.process_time())}

    def mark(name: str) -> None:
        marks[name] = (time.time(), time.process_time())

    def marked(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any, **options: Any) -> Any:
            found = function(*args, **options)
            mark(name.strip("_"))
            return found

        setattr(module, name, call)

    marked(runs, "assemble")
    marked(runs, "load_data")
    make = loop.make_compiled

    def make_compiled(*args: Any, **options: Any) -> Any:
        compiled = make(*args, **options)
        mark("make_compiled")

        def step(*inputs: Any) -> None:
            mark("first_batch")
            found = compiled.step(*inputs)
            mark("dispatched")
            jax.block_until_ready(found)
            mark("total")
            print(json.dumps(marks), flush=True)
            os._exit(0)

        return compiled._replace(step=step)

    loop.make_compiled = make_compiled
    marked(loop, "_start")
    main.entry()


if __name__ == "__main__":
    command.entry(main)
