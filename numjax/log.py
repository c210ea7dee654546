"""What a run leaves to read: metrics.jsonl, TensorBoard events and a progress line."""

from __future__ import annotations

import json
import math
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
from tensorboardX import SummaryWriter

from numjax import chips

# Written once, when a run is over: a resumed run writes them again.
FINAL_SPLITS = ("test", "validation_best")


def cut_back(path: pathlib.Path, step: int) -> int:
    """Drops the lines of metrics.jsonl written after `step`, at the run's end, or cut short; returns how many."""
    if not path.exists():
        return 0
    kept, dropped = [], 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            keep = row.get("step", 0) <= step and row.get("split") not in FINAL_SPLITS
        except (json.JSONDecodeError, AttributeError):
            keep = False
        kept.append(line) if keep else None
        dropped += not keep
    if dropped:
        fresh = path.with_suffix(".tmp")
        fresh.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
        fresh.replace(path)
    return dropped


class Writer:
    """Writes metrics of process 0 to metrics.jsonl (one object a line: step, split, names → numbers) and to
    TensorBoard events. On resume, lines after the restored step are cut."""

    def __init__(self, workdir: pathlib.Path, resume_step: int):
        self._active = jax.process_index() == 0
        if not self._active:
            return
        path = workdir / "metrics.jsonl"
        cut_back(path, resume_step)
        self._file = path.open("a", encoding="utf-8")
        self._events = SummaryWriter(str(workdir), purge_step=resume_step or None)

    def write(self, step: int, split: str, metrics: Mapping[str, float]) -> None:
        """Appends one line, and one scalar event a number."""
        if not self._active:
            return
        numbers = {k: (v if math.isfinite(v) else None) for k, v in metrics.items()}
        self._file.write(json.dumps({"step": step, "split": split} | numbers) + "\n")
        self._file.flush()
        for name, value in metrics.items():
            self._events.add_scalar(f"{split}/{name}", value, step)

    def close(self) -> None:
        """Flushes and closes both files."""
        if self._active:
            self._file.close()
            self._events.close()


class Progress:
    """One line an interval: step, loss, examples/s, tokens/s, MFU where the peak is known, time left."""

    def __init__(
        self,
        steps: int,
        start: int,
        flops_per_token: float,
        peak_flops: float | None,
        note: Callable[[float], str] | None = None,
    ):
        self._note = note
        self._steps, self._flops, self._peak = steps, flops_per_token, peak_flops
        self._time, self._step = time.perf_counter(), start
        self._tokens = self._examples = 0

    def count(self, examples: int, tokens: int) -> None:
        """Counts what one step has read."""
        self._examples += examples
        self._tokens += tokens

    def rates(self, step: int) -> dict[str, float]:
        """Rates since the last call, as metrics."""
        seconds = max(time.perf_counter() - self._time, 1e-9)
        done = max(step - self._step, 1)
        out = {
            "examples_per_second": self._examples / seconds,
            "tokens_per_second": self._tokens / seconds,
            "seconds_per_step": seconds / done,
        }
        if self._peak:
            out["mfu"] = out["tokens_per_second"] * self._flops / (self._peak * jax.device_count())
        self._time, self._step = time.perf_counter(), step
        self._tokens = self._examples = 0
        return out

    def line(self, step: int, metrics: Mapping[str, float]) -> None:
        """Prints the line (process 0)."""
        if jax.process_index() != 0:
            return
        left = (self._steps - step) * metrics["seconds_per_step"]
        shown = [f"step {step}/{self._steps}", f"loss {metrics['loss']:.4f}"]
        shown += [f"{name.split('/')[-1]} {metrics[name]:.4f}" for name in metrics if name.endswith("/accuracy")]
        shown += [f"{metrics['examples_per_second']:.0f} examples/s", f"{metrics['tokens_per_second']:.0f} tokens/s"]
        if "mfu" in metrics:
            shown.append(f"MFU {100 * metrics['mfu']:.1f}%")
        shown.append(f"left {duration(left)}")
        say(" · ".join(shown + ([self._note(left)] if self._note else [])))


def duration(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def say(text: str) -> None:
    """One line to the person watching (process 0), at once."""
    if jax.process_index() == 0:
        print(text, file=sys.stderr, flush=True)


def out(found: Any) -> None:
    """One JSON line of results (process 0), at once."""
    if jax.process_index() == 0:
        print(json.dumps(found, ensure_ascii=False, default=str), flush=True)


def peak_flops() -> float | None:
    """Peak of one local device in bfloat16, None where it is not known."""
    chip = chips.find(jax.local_devices()[0].device_kind)
    return chip.flops if chip else None
