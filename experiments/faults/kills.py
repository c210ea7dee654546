"""Kills a run a hundred times at random moments, starts it again each time, and compares it with an undisturbed one.

    python -m experiments.faults.kills --kills=100 --processes=1 --out=runs/faults

Each life of the run aims at a phase (start, compile, step, save, evaluation), drawn with the moment within it from
--seed and the number of the kill; which phase a kill hit is read off what it left. Stop it and run the same command:
it goes on. README.md says what is promised.
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
from numjax.bundled.experiments.faults.witness import SEEN
from numjax.bundled.experiments.runs import write_json
from numjax.errors import UsageError
from numjax.tools import launch
from numjax.tools.command import Parser

PHASES = ("start", "compile", "step", "save", "evaluation")
EVERY, SAVE = 20, 10  # steps between evaluations and between checkpoints
STEPS = 12  # of the whole run, a kill: it must not end before the last one
STALL = 600.0  # seconds without the moment that a kill waits for


class Kill(NamedTuple):
    """One life of the run, ended by SIGKILL.

    Attributes:
      number: from 0.
      aim: the phase that was waited for. phase: the one that was hit.
      had: newest finished checkpoint when the life began (0: none). began: step that it went on from, −1 when it
        was killed before. reached: the last step that it took a batch for, −1 for none.
      seconds: that it lived.
    """

    number: int
    aim: str
    phase: str
    had: int
    began: int
    reached: int
    seconds: float


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Kills, compares, prints the table; results go to kills.json and kills.md in --out.

    Raises:
      UsageError: a life ended by itself with an error, or another number of kills was begun in --out.
    """
    made = Parser(prog="python -m experiments.faults.kills", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--kills", type=int, default=100)
    made.add_argument("--processes", type=int, default=1)
    made.add_argument("--seed", type=int, default=0, help="of the moments")
    made.add_argument("--out", default="runs/faults", help="folder of the runs and results")
    options = made.parse_args(words)
    out = pathlib.Path(options.out).expanduser().absolute()
    plan = {"kills": options.kills, "processes": options.processes, "seed": options.seed}
    if (out / "plan.json").exists() and json.loads((out / "plan.json").read_text()) != plan:
        raise UsageError(f"{out} holds another plan: use another --out, or delete it")
    write_json(out / "plan.json", plan)
    steps = max(40, STEPS * options.kills // EVERY * EVERY)
    straight, run = Life(out, "straight", steps, options.processes), Life(out, "run", steps, options.processes)
    if not straight.finished:
        # From nothing, and in one go: what was begun and stopped is not undisturbed.
        shutil.rmtree(straight.workdir, ignore_errors=True)
        straight.seen.unlink(missing_ok=True)
        straight.start()
        straight.to_the_end()
    log = out / "kills.jsonl"
    kills = [Kill(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    for number in range(len(kills), options.kills):
        kills.append(_kill(run, number, random.Random(f"{options.seed}-{number}")))
        with log.open("a") as file:
            file.write(json.dumps(kills[-1]._asdict()) + "\n")
        print(f"kill {number + 1}/{options.kills}: {kills[-1]}", file=sys.stderr, flush=True)
    if not run.finished:
        run.start()
        run.to_the_end()
    found = plan | {"steps": steps} | summary(kills) | verdict.compare(run, straight)
    write_json(out / "kills.json", found)
    table = verdict.table(found)
    (out / "kills.md").write_text(table)
    print(table, flush=True)
    return found


class Life:
    """A run and the process that is at it now.

    Attributes:
      workdir: of the run. seen: what its witness writes. finished: whether it came to its end.
    """

    def __init__(self, out: pathlib.Path, name: str, steps: int, processes: int):
        self.workdir, self.seen, self._log = out / name, out / f"{name}.seen", out / f"{name}.log"
        self._process: Any = None
        self._offset = 0
        flags = {
            "optim.steps": steps, "optim.batch_size": 8, "eval.every": EVERY, "eval.examples": 32, "eval.test": False,
            "checkpoint.every": SAVE, "log_every": 1, "compile_cache": out / "jit",
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
    def finished(self) -> bool:
        return bool(self.metrics("validation_best"))

    def start(self) -> None:
        """Begins the next life."""
        self._offset = self.seen.stat().st_size if self.seen.exists() else 0
        self._log.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(bundled.HOME), os.environ.get("PYTHONPATH", "")])
        variables = os.environ | {SEEN: str(self.seen), "PYTHONPATH": path}
        with self._log.open("a") as file:
            begin = functools.partial(launch.die_with_parent, os.getpid())
            self._process = subprocess.Popen(self._command, env=variables, stdout=file, stderr=file, preexec_fn=begin)

    def to_the_end(self) -> None:
        """Waits for the end.

        Raises:
          UsageError: it ended with an error.
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

    def wait(self, reached: Any, seconds: float) -> None:
        """Waits until `reached()`, and then so long.

        Raises:
          UsageError: the run ended by itself, or stalls.
        """
        began = time.monotonic()
        while not reached():
            self._alive()
            if time.monotonic() - began > STALL:
                self.kill()
                raise UsageError(f"the run stalls: see {self._log}")
            time.sleep(0.003)
        time.sleep(seconds)
        self._alive()

    def _alive(self) -> None:
        if (code := self._process.poll()) is not None:
            raise UsageError(f"the run ended by itself with exit code {code}: see {self._log}")

    def batches(self) -> list[dict[str, Any]]:
        """What the witness has written in this life."""
        seen = self.seen if self.seen.exists() else self.seen.with_name(self.seen.name + ".0")
        if not seen.exists():
            return []
        with seen.open("rb") as file:
            file.seek(self._offset)
            return [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]

    def metrics(self, split: str) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        with contextlib.suppress(OSError):
            lines = (self.workdir / "metrics.jsonl").read_text().splitlines(keepends=True)
            rows = [json.loads(line) for line in lines if line.endswith("\n")]
            return [row for row in rows if row["split"] == split]
        return []

    def checkpoints(self) -> list[int]:
        """Finished ones."""
        return sorted(int(path.name) for path in self.workdir.glob("checkpoints/*") if path.name.isdigit())

    def saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return any(True for _ in self.workdir.glob("*/*.orbax-checkpoint-tmp"))


def _kill(run: Life, number: int, draw: random.Random) -> Kill:
    aim = draw.choice(PHASES)
    had = max(run.checkpoints(), default=0)
    stale = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    run.start()
    began = time.monotonic()
    more = draw.randint(1, 2 * SAVE)

    def steps() -> int:
        return sum("step" in row for row in run.batches())

    if aim == "start":
        run.wait(lambda: True, draw.uniform(0, 6))
    elif aim == "compile":
        run.wait(run.batches, draw.uniform(0, 1.5))
    elif aim == "step":
        run.wait(lambda: steps() > more and not run.saving(), draw.uniform(0, 0.02))
    elif aim == "save":
        # What an earlier life left is removed when the manager opens, before the loop.
        run.wait(lambda: steps() > 1 and run.saving(), draw.uniform(0, 0.1))
    else:
        run.wait(lambda: steps() > 1 and _evaluates(run), draw.uniform(0, 0.2))
    run.kill()
    rows = run.batches()
    taken = [row["step"] for row in rows if "step" in row]
    left = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    if not rows:
        phase = "start"
    elif left - (stale if not taken else set()):
        phase = "save"
    elif _evaluates(run):
        phase = "evaluation"
    else:
        phase = "compile" if len(taken) <= 1 else "step"
    first = rows[0]["from"] if rows else -1
    return Kill(number, aim, phase, had, first, max(taken, default=-1), round(time.monotonic() - began, 2))


def _evaluates(run: Life) -> bool:
    """Whether the last step asks for an evaluation that is not written yet."""
    trained, validated = run.metrics("train"), run.metrics("validation")
    last = trained[-1]["step"] if trained else 0
    taken = [row["step"] for row in run.batches() if "step" in row]
    return bool(
        taken and last and last % EVERY == 0 and taken[-1] < last
        and last > max((row["step"] for row in validated), default=0)
    )  # fmt: skip


def summary(kills: list[Kill]) -> dict[str, Any]:
    """Counts over all kills."""
    going = [kill for kill in kills if kill.began >= 0]
    return {
        "phases": dict(collections.Counter(kill.phase for kill in kills)),
        "aims": dict(collections.Counter(kill.aim for kill in kills)),
        "lives_that_reached_the_loop": len(going),
        "resumed_elsewhere_than_the_newest_checkpoint": sum(kill.began != kill.had for kill in going),
        "steps_taken_by_killed_lives": sum(max(0, kill.reached + 1 - kill.began) for kill in going),
        "seconds": round(sum(kill.seconds for kill in kills), 1),
    }


if __name__ == "__main__":
    command.entry(main)
