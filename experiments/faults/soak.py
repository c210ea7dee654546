"""Trains, evaluates and generates in turns for hours in one process, and records what it holds.

    python -m experiments.faults.soak --hours=6 --out=runs/faults/soak

Each turn trains a small run in a new workdir (with evaluations, generated answers and checkpoints), evaluates it,
loads it and generates texts, and deletes the workdir. After each turn a line of soak.jsonl has the memory, threads
and open files of the process. Whatever a turn does not give back shows as growth.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pathlib
import shutil
import statistics
import threading
import time
from typing import Any

import numjax
from numjax import modes
from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.stored import describe_machine
from numjax.errors import UsageError
from numjax.tools.command import Parser

WARM_UP = 600.0  # seconds that do not count: caches fill
TURNS = ("train", "eval", "generate")
PROMPTS = ["Q: Ann has 12 apples and buys 30 more. A:", "Q: Tom had 9 pens and lost 4. A:"] * 4


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Soaks, and prints the table; writes soak.json and soak.md in --out.

    Raises:
      UsageError: --hours is not positive.
    """
    parser = Parser(prog="python -m experiments.faults.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--out", default="runs/faults/soak", help="folder of the runs and results")
    options = parser.parse_args(words)
    if options.hours <= 0:
        raise UsageError(f"--hours={options.hours:g}: give a positive number")
    out = pathlib.Path(options.out).expanduser().absolute()
    out.mkdir(parents=True, exist_ok=True)
    config = make_config(out / "jit")
    modes.set_up(config)
    start, rows = time.monotonic(), []
    with (out / "soak.jsonl").open("w") as file:
        while time.monotonic() - start < 3600 * options.hours:
            for turn in TURNS:
                take_turn(turn, config, out / "run")
                rows.append({"seconds": round(time.monotonic() - start, 1), "turn": turn} | measure(out))
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    results = {"hours": options.hours, "machine": describe_machine()} | summarise(rows)
    content = {"title": "Training, evaluation and generation in turns", "results": results}
    print(report.write("soak", out, "faults.verdict", content), flush=True)
    return results


def make_config(compile_cache: pathlib.Path) -> Any:
    """A small run that trains, saves, evaluates and generates."""
    config = importlib.import_module("numjax.bundled.configs.numgpt").get_config("smoke,task=generation")
    options = {
        "task": {"size": 400}, "optim": {"steps": 60, "batch_size": 8}, "eval": {"every": 20, "examples": 16},
        "checkpoint": {"every": 20}, "decode": {"max_tokens": 8}, "compile_cache": str(compile_cache),
    }  # fmt: skip
    with config.unlocked():
        config.update(options)
    return config


def take_turn(turn: str, config: Any, workdir: pathlib.Path) -> None:
    """Trains in a new workdir, evaluates the run in it, or loads it and generates texts."""
    if turn == "train":
        shutil.rmtree(workdir, ignore_errors=True)
    if turn == "generate":
        numjax.load(workdir).generate(PROMPTS, max_tokens=8)
    else:
        modes.run(config, str(workdir), turn)


def measure(out: pathlib.Path) -> dict[str, int]:
    """What the process holds now: resident memory in KiB, threads, open files, and files on disk under `out`."""
    gc.collect()
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    memory = next(line.split()[1] for line in status if line.startswith("VmRSS"))
    threads = next(line.split()[1] for line in status if line.startswith("Threads"))
    return {
        "memory": int(memory), "threads": int(threads), "python_threads": threading.active_count(),
        "open_files": len(os.listdir("/proc/self/fd")), "files": sum(path.is_file() for path in out.rglob("*")),
    }  # fmt: skip


def summarise(rows: list[dict[str, Any]], warm_up: float = WARM_UP) -> dict[str, Any]:
    """For each kind of turn: growth of what the process holds, from the first tenth after the warm-up to the last.

    A tenth has the median of its turns. Memory is relative, in percent; the rest are counts.
    """
    counted = [row for row in rows if row["seconds"] >= warm_up]
    results: dict[str, Any] = {"turns": len(rows), "turns_after_the_warm_up": len(counted)}
    for turn in TURNS:
        same = [row for row in counted if row["turn"] == turn]
        size = max(1, len(same) // 10)
        if not same:
            continue
        for name in ("memory", "threads", "open_files", "files"):
            first, last = (statistics.median(row[name] for row in part) for part in (same[:size], same[-size:]))
            growth = round(100 * (last / first - 1), 2) if name == "memory" else last - first
            results[f"growth_of_{name}_after_{turn}"] = growth
    return results


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
