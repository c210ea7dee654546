"""A run in a process of its own, whose moments can be seen from outside."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from numjax import bundled
from numjax.bundled.experiments.faults.witness import WITNESS_VARIABLE
from numjax.errors import UsageError
from numjax.tools import launch

EVAL_EVERY, SAVE_EVERY = 20, 10  # steps between evaluations and between checkpoints
STALL = 600.0  # seconds that a kill waits for its moment at most


class Ended(UsageError):
    """The run ended by itself."""


class Life:
    """A run and its current process.

    Attributes:
      workdir: of the run; by default `out`/`name`.
      witness_file: written by its witness.
      compile_cache: its folder of compiled programs.
      command: starts it.
      is_finished: whether the run reached its end.
    """

    def __init__(
        self, out: pathlib.Path, name: str, steps: int, processes: int = 1, workdir: pathlib.Path | None = None
    ):
        self.workdir, self.witness_file, self._log = workdir or out / name, out / f"{name}.seen", out / f"{name}.log"
        self.compile_cache = out / "jit"
        self._process: Any = None
        self._offset = self._log_start = 0
        words = make_flags(self.workdir, steps, self.compile_cache)
        module = ["experiments.faults.witness"]
        if processes > 1:
            module = ["numjax.tools.launch", f"--processes={processes}", f"--module={module[0]}"]
        self.command = [sys.executable, "-m", *module, *words]

    @property
    def is_finished(self) -> bool:
        return bool(self.read_metrics("validation_best"))

    def start(self, variables: Mapping[str, str] | None = None) -> None:
        """Starts the next life, with these environment variables beside the usual ones."""
        seen = self._find_witness_file()
        self._offset = seen.stat().st_size if seen.exists() else 0
        self._log.parent.mkdir(parents=True, exist_ok=True)
        environment = self.make_environment() | dict(variables or {})
        with self._log.open("a") as file:
            self._log_start = file.tell()
            die_with_parent = functools.partial(launch.die_with_parent, os.getpid())
            self._process = subprocess.Popen(
                self.command, env=environment, stdout=file, stderr=file, preexec_fn=die_with_parent
            )

    def run_undisturbed(self) -> None:
        """Runs it from the start to the end, unless it is finished; what a stopped one left is deleted.

        Raises:
          UsageError: the run ended with an error.
        """
        if not self.is_finished:
            shutil.rmtree(self.workdir, ignore_errors=True)
            self.witness_file.unlink(missing_ok=True)
            self.start()
            self.wait_for_end()

    def make_environment(self) -> dict[str, str]:
        """The environment variables of its process."""
        path = os.pathsep.join([str(bundled.HOME), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, WITNESS_VARIABLE: str(self.witness_file), "PYTHONPATH": path}

    def wait_for_end(self) -> None:
        """Waits until the run ends.

        Raises:
          UsageError: the run ended with an error.
        """
        try:
            code = self._process.wait()
        finally:
            self._process.kill()
        if code:
            raise UsageError(f"the run ended with exit code {code}: see {self._log}")

    def read_log(self) -> str:
        """What its processes printed in this life."""
        with self._log.open(errors="replace") as file:
            file.seek(self._log_start)
            return file.read()

    def kill(self) -> None:
        """Ends the life by SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def wait(self, is_reached: Any, seconds: float) -> None:
        """Waits until `is_reached()`, and then `seconds` more.

        Raises:
          Ended: the run ended by itself.
          UsageError: it stalls.
        """
        start = time.monotonic()
        while not is_reached():
            self._check_alive()
            if time.monotonic() - start > STALL:
                self.kill()
                raise UsageError(f"the run stalls: see {self._log}")
            time.sleep(0.003)
        time.sleep(seconds)
        self._check_alive()

    def _check_alive(self) -> None:
        if (code := self._process.poll()) is not None:
            raise Ended(f"the run ended by itself with exit code {code}: see {self._log}")

    def read_batches(self) -> list[dict[str, Any]]:
        """Reads the rows that the witness wrote in this life."""
        path = self._find_witness_file()
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            return [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]

    def _find_witness_file(self) -> pathlib.Path:
        """What process 0 writes."""
        if self.witness_file.exists():
            return self.witness_file
        return self.witness_file.with_name(self.witness_file.name + ".0")

    def read_metrics(self, split: str) -> list[dict[str, Any]]:
        """Reads the rows of a split in metrics.jsonl."""
        with contextlib.suppress(OSError):
            lines = (self.workdir / "metrics.jsonl").read_text().splitlines(keepends=True)
            rows = [json.loads(line) for line in lines if line.endswith("\n")]
            return [row for row in rows if row["split"] == split]
        return []

    def list_checkpoints(self) -> list[int]:
        """The steps of the finished checkpoints, sorted."""
        return sorted(int(path.name) for path in self.workdir.glob("checkpoints/*") if path.name.isdigit())

    def count_steps(self) -> int:
        """Number of batches that the loop took in this life."""
        return sum("step" in row for row in self.read_batches())

    def is_evaluating(self) -> bool:
        """Whether the last step is followed by an evaluation that is not written yet."""
        train_rows, validation_rows = self.read_metrics("train"), self.read_metrics("validation")
        last_step = train_rows[-1]["step"] if train_rows else 0
        steps_taken = [row["step"] for row in self.read_batches() if "step" in row]
        return bool(
            steps_taken and last_step and last_step % EVAL_EVERY == 0 and steps_taken[-1] < last_step
            and last_step > max((row["step"] for row in validation_rows), default=0)
        )  # fmt: skip

    def is_generating(self) -> bool:
        """Whether the evaluation generates texts."""
        rows = self.read_batches()
        return bool(rows) and rows[-1].get("generation") == "begins"

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return any(True for _ in self.workdir.glob("*/*.orbax-checkpoint-tmp"))


def make_flags(workdir: pathlib.Path, steps: int, compile_cache: pathlib.Path) -> list[str]:
    """The flags of a small run that trains, saves, evaluates and generates."""
    options = {
        "optim.steps": steps, "optim.batch_size": 8, "eval.every": EVAL_EVERY, "eval.examples": 16,
        "eval.test": False, "checkpoint.every": SAVE_EVERY, "log_every": 1, "compile_cache": compile_cache,
        "task.size": 400, "decode.max_tokens": 8,
    }  # fmt: skip
    flags = [f"--config.{name}={value}" for name, value in options.items()]
    return ["--config=numgpt:smoke,task=generation", f"--workdir={workdir}", *flags]
