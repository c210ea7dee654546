"""Kills a run a hundred times at random moments, restarts it each time, and compares it with an undisturbed run.

    python -m experiments.faults.kills --kills=100 --processes=1 --out=runs/faults

A life is the time from a start of the run to its kill. Each life aims at a phase (start, compile, step, save,
evaluation); --seed and the number of the kill determine the phase and the moment in it. The files that a kill leaves
show which phase it hit. If it is stopped, run the same command again: it resumes. README.md says what is promised.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

from numjax import bundled
from numjax.bundled.experiments import command
from numjax.bundled.experiments.faults import verdict
from numjax.bundled.experiments.faults.witness import WITNESS_VARIABLE
from numjax.bundled.experiments.stored import write_json
from numjax.errors import UsageError
from numjax.tools import launch
from numjax.tools.command import Parser

PHASES = ("start", "compile", "step", "save", "evaluation")
EVAL_EVERY, SAVE_EVERY = 20, 10  # steps between evaluations and between checkpoints
STEPS = 12  # of the run per kill: the run must not end before the last kill
STALL = 600.0  # seconds that a kill waits for its moment at most


class Kill(NamedTuple):
    """One life of the run, ended by SIGKILL.

    Attributes:
      number: from 0.
      aim: the phase that the kill waited for. phase: the phase that it hit.
      had: newest finished checkpoint at the start (0: none). began: step that the life resumed from, −1 if it was
        killed before. reached: the last step for which it took a batch, −1 for none.
      seconds: length of the life.
    """

    number: int
    aim: str
    phase: str
    had: int
    began: int
    reached: int
    seconds: float


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Kills, compares and prints the table; writes kills.json and kills.md in --out.

    Raises:
      UsageError: the run ended by itself, or --out holds another plan.
    """
    parser = Parser(prog="python -m experiments.faults.kills", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", default="runs/faults", help="folder of the runs and results")
    options = parser.parse_args(words)
    out = pathlib.Path(options.out).expanduser().absolute()
    plan = {"kills": options.kills, "processes": options.processes, "seed": options.seed}
    if (out / "plan.json").exists() and json.loads((out / "plan.json").read_text()) != plan:
        raise UsageError(f"{out} holds another plan: use another --out, or delete it")
    write_json(out / "plan.json", plan)
    steps = max(40, STEPS * options.kills // EVAL_EVERY * EVAL_EVERY)
    reference_run, killed_run = (
        Life(out, "straight", steps, options.processes),
        Life(out, "run", steps, options.processes),
    )
    if not reference_run.is_finished:
        # The reference run must not be interrupted: delete a stopped one and start again.
        shutil.rmtree(reference_run.workdir, ignore_errors=True)
        reference_run.witness_file.unlink(missing_ok=True)
        reference_run.start()
        reference_run.wait_for_end()
    log = out / "kills.jsonl"
    kills = [Kill(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    for number in range(len(kills), options.kills):
        kills.append(_kill(killed_run, number, random.Random(f"{options.seed}-{number}")))
        with log.open("a") as file:
            file.write(json.dumps(kills[-1]._asdict()) + "\n")
        print(f"kill {number + 1}/{options.kills}: {kills[-1]}", file=sys.stderr, flush=True)
    if not killed_run.is_finished:
        killed_run.start()
        killed_run.wait_for_end()
    results = plan | {"steps": steps} | summarise(kills) | verdict.compare(killed_run, reference_run)
    write_json(out / "kills.json", results)
    table = verdict.format_table(results)
    (out / "kills.md").write_text(table)
    print(table, flush=True)
    return results


class Life:
    """A run and its current process.

    Attributes:
      workdir: of the run. witness_file: written by its witness. is_finished: whether the run reached its end.
    """

    def __init__(self, out: pathlib.Path, name: str, steps: int, processes: int):
        self.workdir, self.witness_file, self._log = out / name, out / f"{name}.seen", out / f"{name}.log"
        self._process: Any = None
        self._offset = 0
        flags = {
            "optim.steps": steps, "optim.batch_size": 8, "eval.every": EVAL_EVERY, "eval.examples": 32,
            "eval.test": False, "checkpoint.every": SAVE_EVERY, "log_every": 1, "compile_cache": out / "jit",
        }  # fmt: skip
        words = [
            "--config=numgpt:smoke,task=mme",
            f"--workdir={self.workdir}",
            *(f"--config.{k}={v}" for k, v in flags.items()),
        ]
        module = ["experiments.faults.witness"]
        if processes > 1:
            module = ["numjax.tools.launch", f"--processes={processes}", f"--module={module[0]}"]
        self._command = [sys.executable, "-m", *module, *words]

    @property
    def is_finished(self) -> bool:
        return bool(self.read_metrics("validation_best"))

    def start(self) -> None:
        """Starts the next life."""
        self._offset = self.witness_file.stat().st_size if self.witness_file.exists() else 0
        self._log.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(bundled.HOME), os.environ.get("PYTHONPATH", "")])
        variables = os.environ | {WITNESS_VARIABLE: str(self.witness_file), "PYTHONPATH": path}
        with self._log.open("a") as file:
            die_with_parent = functools.partial(launch.die_with_parent, os.getpid())
            self._process = subprocess.Popen(
                self._command, env=variables, stdout=file, stderr=file, preexec_fn=die_with_parent
            )

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

    def kill(self) -> None:
        """Ends the life by SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def wait(self, is_reached: Any, seconds: float) -> None:
        """Waits until `is_reached()`, and then `seconds` more.

        Raises:
          UsageError: the run ended by itself, or stalls.
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
            raise UsageError(f"the run ended by itself with exit code {code}: see {self._log}")

    def read_batches(self) -> list[dict[str, Any]]:
        """Reads the rows that the witness wrote in this life."""
        path = (
            self.witness_file
            if self.witness_file.exists()
            else self.witness_file.with_name(self.witness_file.name + ".0")
        )
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            return [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]

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

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return any(True for _ in self.workdir.glob("*/*.orbax-checkpoint-tmp"))


def _kill(run: Life, number: int, draw: random.Random) -> Kill:
    aim = draw.choice(PHASES)
    last_checkpoint = max(run.list_checkpoints(), default=0)
    old_saves = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    run.start()
    start = time.monotonic()
    n_steps = draw.randint(1, 2 * SAVE_EVERY)

    def count_steps() -> int:
        return sum("step" in row for row in run.read_batches())

    if aim == "start":
        run.wait(lambda: True, draw.uniform(0, 6))
    elif aim == "compile":
        run.wait(run.read_batches, draw.uniform(0, 1.5))
    elif aim == "step":
        run.wait(lambda: count_steps() > n_steps and not run.is_saving(), draw.uniform(0, 0.02))
    elif aim == "save":
        # The manager removes unfinished saves of an earlier life when it opens, before the loop.
        run.wait(lambda: count_steps() > 1 and run.is_saving(), draw.uniform(0, 0.1))
    else:
        run.wait(lambda: count_steps() > 1 and _is_evaluating(run), draw.uniform(0, 0.2))
    run.kill()
    rows = run.read_batches()
    steps_taken = [row["step"] for row in rows if "step" in row]
    saves_left = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    if not rows:
        phase = "start"
    elif saves_left - (old_saves if not steps_taken else set()):
        phase = "save"
    elif _is_evaluating(run):
        phase = "evaluation"
    else:
        phase = "compile" if len(steps_taken) <= 1 else "step"
    first_step = rows[0]["from"] if rows else -1
    return Kill(
        number,
        aim,
        phase,
        last_checkpoint,
        first_step,
        max(steps_taken, default=-1),
        round(time.monotonic() - start, 2),
    )


def _is_evaluating(run: Life) -> bool:
    """Whether the last step is followed by an evaluation that is not written yet."""
    train_rows, validation_rows = run.read_metrics("train"), run.read_metrics("validation")
    last_step = train_rows[-1]["step"] if train_rows else 0
    steps_taken = [row["step"] for row in run.read_batches() if "step" in row]
    return bool(
        steps_taken and last_step and last_step % EVAL_EVERY == 0 and steps_taken[-1] < last_step
        and last_step > max((row["step"] for row in validation_rows), default=0)
    )  # fmt: skip


def summarise(kills: list[Kill]) -> dict[str, Any]:
    """Counts over all kills."""
    resumed_kills = [kill for kill in kills if kill.began >= 0]
    return {
        "phases": dict(collections.Counter(kill.phase for kill in kills)),
        "aims": dict(collections.Counter(kill.aim for kill in kills)),
        "lives_that_reached_the_loop": len(resumed_kills),
        "resumed_elsewhere_than_the_newest_checkpoint": sum(kill.began != kill.had for kill in resumed_kills),
        "steps_taken_by_killed_lives": sum(max(0, kill.reached + 1 - kill.began) for kill in resumed_kills),
        "seconds": round(sum(kill.seconds for kill in kills), 1),
    }


if __name__ == "__main__":
    command.entry(main)
