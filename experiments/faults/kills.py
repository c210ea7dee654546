"""Kills a run a hundred times at random moments, restarts it each time, and compares it with an undisturbed run.

    python -m experiments.faults.kills --kills=100 --processes=1 --out=runs/faults

A life is the time from a start of the run to its kill. Each life aims at a phase; --seed and the number of the kill
determine the phase and the moment in it. The files that a kill leaves show which phase it hit. With --clock, the time
of day jumps by up to a year, forward and back, during each life. If it is stopped, run the same command again: it
resumes. README.md says what is promised.
"""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import random
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.faults import verdict
from numjax.bundled.experiments.faults.clock import Clock
from numjax.bundled.experiments.faults.life import EVAL_EVERY, SAVE_EVERY, Ended, Life
from numjax.bundled.experiments.stored import write_json
from numjax.errors import UsageError
from numjax.tools.command import Parser

# The first compilation is the one without a cache of compiled programs.
PHASES = ("start", "first compile", "compile", "step", "save", "evaluation", "generation")
# A run may end by itself with this line while the clock jumps: Orbax measures by the time of day.
CLOCK_LINE = "or the clock was set: start again"
STEPS = 12  # of the run per kill: the run must not end before the last kill


class Kill(NamedTuple):
    """One life of the run, ended by SIGKILL.

    Attributes:
      number: from 0.
      aim: the phase that the kill waited for. phase: the phase that it hit, or "stopped by the clock".
      saving: whether a checkpoint was being written, in whatever phase.
      had: newest finished checkpoint at the start (0: none). began: step that the life resumed from, −1 if it was
        killed before. reached: the last step for which it took a batch, −1 for none.
      seconds: length of the life.
    """

    number: int
    aim: str
    phase: str
    saving: bool
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
    parser.add_argument("--clock", action="store_true", help="let the clock jump (needs Debian's libfaketime)")
    options = parser.parse_args(words)
    out = pathlib.Path(options.out).expanduser().absolute()
    plan = {"kills": options.kills, "processes": options.processes, "seed": options.seed, "clock": options.clock}
    if (out / "plan.json").exists() and json.loads((out / "plan.json").read_text()) != plan:
        raise UsageError(f"{out} holds another plan: use another --out, or delete it")
    write_json(out / "plan.json", plan)
    steps = max(40, STEPS * options.kills // EVAL_EVERY * EVAL_EVERY)
    reference_run, killed_run = (
        Life(out, "straight", steps, options.processes),
        Life(out, "run", steps, options.processes),
    )
    reference_run.run_undisturbed()
    clock = Clock(out / "clock") if options.clock else None
    log = out / "kills.jsonl"
    kills = [Kill(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    for number in range(len(kills), options.kills):
        kills.append(_kill(killed_run, number, random.Random(f"{options.seed}-{number}"), clock))
        with log.open("a") as file:
            file.write(json.dumps(kills[-1]._asdict()) + "\n")
        print(f"kill {number + 1}/{options.kills}: {kills[-1]}", file=sys.stderr, flush=True)
    if not killed_run.is_finished:
        killed_run.start()
        killed_run.wait_for_end()
    results = plan | {"steps": steps} | summarise(kills) | verdict.compare(killed_run, reference_run)
    title = f"{options.kills} kills of {options.processes} process{'es' * (options.processes > 1)}"
    print(report.write("kills", out, "faults.verdict", {"title": title, "results": results}), flush=True)
    return results


def _kill(run: Life, number: int, draw: random.Random, clock: Clock | None) -> Kill:
    aim = draw.choice(PHASES)
    last_checkpoint = max(run.list_checkpoints(), default=0)
    old_saves = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    if aim == "first compile":
        shutil.rmtree(run.compile_cache, ignore_errors=True)
    run.start(clock.variables if clock else None)
    start = time.monotonic()
    has_stopped = False
    with clock.jumping(draw.random()) if clock else contextlib.nullcontext():
        try:
            run.wait(*_choose_moment(run, aim, draw))
        except Ended:
            if not (has_stopped := bool(clock) and CLOCK_LINE in run.read_log()):
                raise
    run.kill()
    rows = run.read_batches()
    steps_taken = [row["step"] for row in rows if "step" in row]
    saves_left = {path.name for path in run.workdir.glob("*/*.orbax-checkpoint-tmp")}
    is_saving = bool(saves_left - (old_saves if not steps_taken else set()))
    if has_stopped:
        phase = "stopped by the clock"
    elif not rows:
        phase = "start"
    elif run.is_generating():
        phase = "generation"
    elif run.is_evaluating():
        phase = "evaluation"
    elif is_saving:
        phase = "save"
    elif len(steps_taken) <= 1:
        phase = "first compile" if aim == "first compile" else "compile"
    else:
        phase = "step"
    first_step = rows[0]["from"] if rows else -1
    reached, seconds = max(steps_taken, default=-1), round(time.monotonic() - start, 2)
    return Kill(number, aim, phase, is_saving, last_checkpoint, first_step, reached, seconds)


def _choose_moment(run: Life, aim: str, draw: random.Random) -> tuple[Callable[[], Any], float]:
    """(what to wait for, seconds after it)."""
    n_steps = draw.randint(1, 2 * SAVE_EVERY)
    moments: dict[str, tuple[Callable[[], Any], float]] = {
        "start": (lambda: True, 6),
        "first compile": (run.read_batches, 6),
        "compile": (run.read_batches, 1.5),
        "step": (lambda: run.count_steps() > n_steps and not run.is_saving(), 0.02),
        # The manager removes unfinished saves of an earlier life when it opens, before the loop.
        "save": (lambda: run.count_steps() > 1 and run.is_saving(), 0.1),
        "evaluation": (lambda: run.count_steps() > 1 and run.is_evaluating(), 0.2),
        "generation": (lambda: run.count_steps() > 1 and run.is_generating(), 0.3),
    }
    is_reached, longest = moments[aim]
    return is_reached, draw.uniform(0, longest)


def summarise(kills: list[Kill]) -> dict[str, Any]:
    """Counts over all kills."""
    resumed_kills = [kill for kill in kills if kill.began >= 0]
    return {
        "phases": dict(collections.Counter(kill.phase for kill in kills)),
        "aims": dict(collections.Counter(kill.aim for kill in kills)),
        "kills_during_a_save": sum(kill.saving for kill in kills),
        "lives_that_reached_the_loop": len(resumed_kills),
        "resumed_elsewhere_than_the_newest_checkpoint": sum(kill.began != kill.had for kill in resumed_kills),
        "steps_taken_by_killed_lives": sum(max(0, kill.reached + 1 - kill.began) for kill in resumed_kills),
        "seconds": round(sum(kill.seconds for kill in kills), 1),
    }


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
