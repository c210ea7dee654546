"""What a run leaves to read: metrics.jsonl, TensorBoard events and a progress line."""

# pyright: reportAttributeAccessIssue=false
# The attributes of protocol buffers are made when they are imported.

from __future__ import annotations

import json
import math
import pathlib
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from logging import ERROR
from typing import Any

import jax
from absl import logging
from tensorboardX.proto import event_pb2
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from numjax.runtime import chips, files

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
        files.write(path, (line + "\n" for line in kept))
    return dropped


class Writer:
    """Writes metrics of process 0 to metrics.jsonl (one object a line: step, split, names → numbers) and to
    TensorBoard events. On resume, lines after the restored step are cut.

    Raises:
      OSError: at once when a line cannot be written.
    """

    def __init__(self, workdir: pathlib.Path, resume_step: int):
        self._active = jax.process_index() == 0
        if not self._active:
            return
        path = workdir / "metrics.jsonl"
        cut_back(path, resume_step)
        self._file = files.Appended(path)
        self._events = _Events(workdir, resume_step)

    def write(self, step: int, split: str, metrics: Mapping[str, float]) -> None:
        """Appends one line, and one scalar event a number."""
        if not self._active:
            return
        numbers = {k: (v if math.isfinite(v) else None) for k, v in metrics.items()}
        self._file.add((json.dumps({"step": step, "split": split} | numbers) + "\n").encode())
        self._events.write(step, {f"{split}/{name}": value for name, value in metrics.items()})

    def close(self) -> None:
        """Closes both files."""
        if self._active:
            self._file.close()
            self._events.close()


class _Events:
    """A TensorBoard event file. The library's own writer has a thread and a queue, and when the disk is full the
    thread dies and the queue blocks for ever."""

    def __init__(self, workdir: pathlib.Path, resume_step: int):
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self._file = files.Appended(workdir / name)
        self._add(event_pb2.Event(file_version="brain.Event:2"))
        if resume_step:
            # TensorBoard drops what older files of the folder say of later steps.
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(event_pb2.Event(step=resume_step, session_log=start))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._add(event_pb2.Event(step=step, summary=Summary(value=values)))

    def close(self) -> None:
        self._file.close()

    def _add(self, event) -> None:
        event.wall_time = time.time()
        data = event.SerializeToString()
        size = struct.pack("<Q", len(data))
        parts = (size, struct.pack("<I", masked_crc32c(size)), data, struct.pack("<I", masked_crc32c(data)))
        self._file.add(b"".join(parts))


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
        scored = [name for name in metrics if name.endswith("/accuracy")]
        shown += [f"{name if len(scored) > 1 else 'accuracy'} {metrics[name]:.4f}" for name in scored]
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


def shown(metrics: Mapping[str, float]) -> str:
    """Scores on a line, without the parts of which a split has none ("masked/number" where no number is masked)."""
    return " · ".join(f"{k} {v:.4f}" for k, v in metrics.items() if not ("/" in k and math.isnan(v)))


def say(text: str) -> None:
    """One line to the person watching (process 0), at once."""
    if jax.process_index() == 0:
        print(text, file=sys.stderr, flush=True)


def quieten() -> None:
    """Leaves a save that fails to the one line that the run ends with.

    Each of Orbax's threads logs and prints the whole chain of its calls, and after the first failure TensorStore
    calls back into loops that are closed.
    """
    logging.get_absl_logger().addFilter(lambda record: "orbax" not in record.pathname or record.levelno < ERROR)
    of_thread, of_main, of_none = threading.excepthook, sys.excepthook, sys.unraisablehook

    def in_thread(found: Any) -> None:
        frames = traceback.extract_tb(found.exc_traceback)
        if not any("orbax" in frame.filename for frame in frames):
            of_thread(found)

    def closed(error: BaseException | None) -> bool:
        return isinstance(error, RuntimeError) and str(error) == "Event loop is closed"

    def elsewhere(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if not closed(error):
            of_main(kind, error, trace)

    def unraisable(found: Any) -> None:
        if not closed(found.exc_value):
            of_none(found)

    threading.excepthook, sys.excepthook, sys.unraisablehook = in_thread, elsewhere, unraisable


def line(found: Any) -> str:
    """JSON without a line's end. Lone surrogates, which have no UTF-8, become U+FFFD; numbers that are none, or are
    infinite, which have no JSON, null."""
    return files.without_surrogates(json.dumps(_written(found), ensure_ascii=False, default=str, allow_nan=False))


def _written(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _written(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [_written(one) for one in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def out(found: Any) -> None:
    """One JSON line of results (process 0), at once."""
    if jax.process_index() == 0:
        print(line(found), flush=True)


def peak_flops() -> float | None:
    """Peak of one local device in bfloat16, None where it is not known."""
    chip = chips.find(jax.local_devices()[0].device_kind)
    return chip.flops if chip else None
