"""The records of a run: metrics.jsonl, TensorBoard events and progress lines."""

# pyright: reportAttributeAccessIssue=false
# Protocol buffers get their attributes at import.

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from logging import ERROR, getLogger
from types import TracebackType
from typing import Any

import jax
from absl import logging
from tensorboardX.proto import event_pb2
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from numjax.runtime import chips, files

# Written once, at the end of a run: a resumed run writes them again.
FINAL_SPLITS = ("test", "validation_best")
SILENCE = 8.0  # seconds of training without a line


def drop_later_lines(path: pathlib.Path, step: int) -> int:
    """Removes the lines of metrics.jsonl after `step`, those of the run's end and broken ones; returns how many."""
    if not path.exists():
        return 0
    kept_lines, n_dropped = [], 0
    text = path.read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        try:
            row = files.parse_json(line)
            keep = row.get("step", 0) <= step and row.get("split") not in FINAL_SPLITS
        except (ValueError, TypeError, AttributeError):
            keep = False
        if keep:
            kept_lines.append(line)
        else:
            n_dropped += 1
    # A full disk may have cut off no more than the last line's end.
    if n_dropped or (text and not text.endswith("\n")):
        files.write(path, (line + "\n" for line in kept_lines))
    return n_dropped


class MetricsWriter:
    """Writes the metrics of process 0 to metrics.jsonl (one object a line: step, split, names → numbers) and to
    TensorBoard events. On resume it removes the lines after the restored step.

    Raises:
      OSError: a line cannot be written; raised immediately.
    """

    def __init__(self, workdir: pathlib.Path, resume_step: int):
        self._active = jax.process_index() == 0
        if not self._active:
            return
        path = workdir / "metrics.jsonl"
        drop_later_lines(path, resume_step)
        self._file = files.AppendOnlyFile(path)
        self._events = _Events(workdir, resume_step)

    def write(self, step: int, split: str, metrics: Mapping[str, float]) -> None:
        """Appends one line, and one scalar event per number."""
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
    """A TensorBoard event file. The library's own writer has a thread and a queue: when the disk is full, the thread
    dies and the queue blocks forever."""

    def __init__(self, workdir: pathlib.Path, resume_step: int):
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self._file = files.AppendOnlyFile(workdir / name)
        self._add(event_pb2.Event(file_version="brain.Event:2"))
        if resume_step:
            # TensorBoard then drops later steps of older files in the folder.
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
    """Prints a line per interval: step, loss, examples/s, tokens/s, MFU where the peak is known, time left. Where an
    interval lasts longer than `SILENCE`, it prints short lines in between."""

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
        self._line_time, self._seconds_per_step = self._time, 0.0

    def count(self, examples: int, tokens: int) -> None:
        """Adds the examples and tokens of one step."""
        self._examples += examples
        self._tokens += tokens

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """A context whose time is none of the steps'."""
        begin = time.perf_counter()
        yield
        self._time += time.perf_counter() - begin

    def rates(self, step: int) -> dict[str, float]:
        """Rates since the last call, without pauses, as metrics."""
        seconds = max(time.perf_counter() - self._time, 1e-9)
        n_steps = max(step - self._step, 1)
        out = {
            "examples_per_second": self._examples / seconds,
            "tokens_per_second": self._tokens / seconds,
            "seconds_per_step": seconds / n_steps,
        }
        if self._peak:
            out["mfu"] = out["tokens_per_second"] * self._flops / (self._peak * jax.device_count())
        self._time, self._step = time.perf_counter(), step
        self._tokens = self._examples = 0
        self._seconds_per_step = out["seconds_per_step"]
        return out

    def print_line(self, step: int, metrics: Mapping[str, float]) -> None:
        """Prints the line (process 0)."""
        fields = [f"loss {metrics['loss']:.4f}"]
        accuracy_names = [name for name in metrics if name.endswith("/accuracy")]
        fields += [
            f"{name if len(accuracy_names) > 1 else 'accuracy'} {metrics[name]:.4f}" for name in accuracy_names
        ]
        fields += [f"{metrics['examples_per_second']:.0f} examples/s", f"{metrics['tokens_per_second']:.0f} tokens/s"]
        if "mfu" in metrics:
            fields.append(f"MFU {100 * metrics['mfu']:.1f}%")
        self._say(step, fields)

    def break_silence(self, step: int) -> None:
        """Prints a short line if none came for `SILENCE` seconds. It asks nothing of the device."""
        if time.perf_counter() - self._line_time > SILENCE:
            self._say(step, [])

    def _say(self, step: int, fields: list[str]) -> None:
        if self._seconds_per_step:  # before the first rates nothing is known of the time left
            seconds_left = (self._steps - step) * self._seconds_per_step
            fields = [*fields, f"left {format_duration(seconds_left)}"]
            fields += [self._note(seconds_left)] if self._note else []
        say(" · ".join([f"step {step}/{self._steps}", *fields]))
        self._line_time = time.perf_counter()


def format_duration(seconds: float) -> str:
    """The duration as 1:02:03 or 2:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def format_metrics(metrics: Mapping[str, float]) -> str:
    """The metrics on a line, without empty parts."""
    return " · ".join(f"{k} {v:.4f}" for k, v in _drop_empty_parts(metrics).items())


def _drop_empty_parts(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics without parts that are NaN because the split has none of their kind ("masked/number" where no number is
    masked)."""
    return {name: value for name, value in metrics.items() if not ("/" in name and math.isnan(value))}


def say_metrics(title: str, metrics: Mapping[str, float]) -> None:
    """Prints metrics: those of all examples on a line, then, indented, a line for each operation and stream.

    "exact/add/edges" and "digits/add/edges" form the line "add/edges". What would be alone stays on the first line.
    """
    metrics, groups = _drop_empty_parts(metrics), {}
    for name in metrics:
        metric, _, group = name.partition("/")
        if group and metric in metrics:
            groups.setdefault(group, []).append(name)
    groups = {group: names for group, names in groups.items() if len(names) > 1}
    grouped = {name for names in groups.values() for name in names}
    say(f"{title}: " + format_metrics({name: value for name, value in metrics.items() if name not in grouped}))
    for group, names in groups.items():
        say(f"  {group}: " + format_metrics({name.partition("/")[0]: metrics[name] for name in names}))


def say(text: str) -> None:
    """Prints a line to stderr (process 0), flushed."""
    if jax.process_index() == 0:
        print(text, file=sys.stderr, flush=True)


def quieten() -> None:
    """Hides what Orbax and TensorStore print when a save fails: the run ends with one line that says it.

    Each of Orbax's threads logs and prints its traceback, asyncio logs those of its tasks that nobody waits for any
    more, and after the first failure TensorStore calls back into closed event loops.
    """

    def is_of_orbax(trace: TracebackType | None) -> bool:
        return any("orbax" in frame.filename for frame in traceback.extract_tb(trace))

    logging.get_absl_logger().addFilter(lambda record: "orbax" not in record.pathname or record.levelno < ERROR)
    getLogger("asyncio").addFilter(lambda record: not (record.exc_info and is_of_orbax(record.exc_info[2])))
    thread_hook, main_hook, unraisable_hook = threading.excepthook, sys.excepthook, sys.unraisablehook

    def handle_thread_error(hook_args: Any) -> None:
        if not is_of_orbax(hook_args.exc_traceback):
            thread_hook(hook_args)

    def is_closed_loop(error: BaseException | None) -> bool:
        return isinstance(error, RuntimeError) and str(error) == "Event loop is closed"

    def handle_error(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if not is_closed_loop(error):
            main_hook(kind, error, trace)

    def handle_unraisable(hook_args: Any) -> None:
        if not is_closed_loop(hook_args.exc_value):
            unraisable_hook(hook_args)

    threading.excepthook, sys.excepthook, sys.unraisablehook = handle_thread_error, handle_error, handle_unraisable


def to_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON, in one line without an indent. Lone surrogates, which have no UTF-8 form, become U+FFFD; NaN
    and infinity, which have no JSON form, become null."""
    text = json.dumps(_to_finite(value), ensure_ascii=False, default=str, allow_nan=False, indent=indent)
    return files.replace_surrogates(text)


def _to_finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _to_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_result(result: Any) -> None:
    """Prints a result as a JSON line to stdout (process 0), flushed."""
    if jax.process_index() == 0:
        print(to_json(result), flush=True)


def peak_flops() -> float | None:
    """Peak FLOP/s of one local device in bfloat16, None if unknown."""
    chip = chips.find(jax.local_devices()[0].device_kind)
    return chip.flops if chip else None
