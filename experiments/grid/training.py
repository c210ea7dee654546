"""Trains the model of a job: chooses its learning rate on validation, trains it, and lets it answer the test."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from numjax.bundled.experiments import identity, runs, sources, stored, trials
from numjax.bundled.experiments.grid import abilities, cells, leases, problems
from numjax.bundled.experiments.grid.abilities import Ability
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.problems import Record
from numjax.bundled.experiments.grid.rows import make_config
from numjax.bundled.experiments.grid.scales import TRIAL_SHARE
from numjax.bundled.experiments.grid.scoring import Answer
from numjax.errors import Diverged, UsageError
from numjax.evals import report
from numjax.modes import set_up
from numjax.runtime import log
from numjax.system import System, assemble
from numjax.train.compile import Compiled, count_parameters
from numjax.train.loop import Splits, train
from numjax.train.workdir import claim, lock_folder

ROOTS = ("numjax.bundled.experiments.grid.runner",)  # the grid's own code, which scores
SPARE_TOKENS = 4  # beyond the longest right answer, so that a wrong one may be longer


class Trained(NamedTuple):
    """What a job's run gives.

    Attributes:
      records: the test problems. abilities: of the row with each. answers: id → what the model wrote.
      config: of the run. rate, tried: the learning rate, None if each diverged, and the validation loss of each that
        was tried, which took trial_seconds.
      seconds: of all training steps, at the median time. overhead_seconds: of everything in this process but steps
        and trials. score_seconds: of those, what answers and validation losses took.
      seconds_per_step, parameters, validations (rows of metrics.jsonl), code: of the run.
      diverged: the message if the loss stopped being finite, in the run or in all trials.
    """

    records: list[Record]
    abilities: list[Ability]
    answers: dict[str, Answer]
    config: Any
    rate: float | None
    tried: dict[str, float | None]
    trial_seconds: float
    seconds: float
    overhead_seconds: float
    score_seconds: float
    seconds_per_step: float
    parameters: int
    validations: list[dict[str, Any]]
    code: dict[str, str]
    diverged: str | None


class Prepared(NamedTuple):
    """The system of a job and its encoded data."""

    system: System
    splits: Splits
    records: list[Record]
    abilities: list[Ability]


class _Row:
    """What the seeds of a row share in one process: `Prepared`, and the functions that the first one compiles."""

    def __init__(self, prepared: Prepared):
        self.prepared = prepared
        self.compiled: Compiled | None = None


def train_job(job: Job, key: str, lease: leases.Lease) -> Trained:
    """Trains a job's model, or goes on where an earlier process stopped, and returns its answers.

    Raises:
      Preempted: SIGTERM or SIGINT; the next call resumes.
      TakenOver: another runner has taken over the lease of the job.
      UsageError: parts do not go together.
    """
    begin = time.monotonic()
    base = make_config(job.row, job.scale, job.columns)
    _set_up(base)
    shared = job.folder / "runs" / f"{job.name.rpartition('.')[0]}-{key}"
    # The seeds of a row share its vocabulary and its learning rate: one runner makes them, the others wait.
    own_code = identity.list_code((*identity.list_roots(base), *ROOTS))
    wait_begin = time.monotonic()
    with leases.hold(job.folder, f"{shared.name}.setup", wait=math.inf) as setup:
        waiting = time.monotonic() - wait_begin
        if job.same_code:
            _drop_other_code(shared, job.seed)
        _take_trials(job, key, shared)
        row = _open_row(job._replace(seed=0), shared)
        prepared = row.prepared
        trial_begin = time.monotonic()
        rate, tried, compiled = choose_learning_rate(prepared, shared, job.scale.rates, setup, own_code)
        trial_code = stored.load_code(shared / "trials")
        trial_seconds = time.monotonic() - trial_begin
        config = trials.change_config(prepared.system.config, {"optim.learning_rate": rate or job.scale.rates[0]})
        with lock_folder(shared, "--out"):
            claim(shared, config)
    prepared = prepared._replace(system=prepared.system._replace(config=config))
    folder = shared / f"seed_{job.seed}"
    code = stored.merge_code(trial_code, stored.start_code(folder, own_code))
    n_before = _count_saved_steps(folder)
    diverged, parameters, answers, score_times = None, 0, {}, []
    try:
        if rate is None:
            raise Diverged(f"every learning rate diverged in its trial: {', '.join(tried)}")
        scored = _time(score_run, score_times)
        _, compiled = _train(prepared, folder, job.seed, scored, lease, row.compiled or compiled)
        row.compiled = compiled
        parameters = count_parameters(compiled.abstract_state)
        answers = load_answers(folder, prepared.system)
    except Diverged as error:
        diverged = str(error)
    seconds_per_step = load_seconds_per_step(folder)
    # Of the steps of this process: an earlier one may have run on another machine, or beside other programs.
    trained_now = sum_step_seconds(folder, n_before)
    overhead = time.monotonic() - begin - waiting - trial_seconds - trained_now
    return Trained(
        *(prepared.records, prepared.abilities, answers, config, rate, tried),
        *(trial_seconds, job.scale.steps * seconds_per_step, max(0.0, overhead)),
        *(sum(score_times), seconds_per_step, parameters, _load_rows(folder, "validation"), code, diverged),
    )


def _drop_other_code(shared: pathlib.Path, seed: int) -> None:
    """Removes the trials of a row and the run of a seed, if they are of other code than the present one."""
    for folder in (shared / "trials", shared / f"seed_{seed}"):
        if folder.exists() and sources.describe_changed(stored.load_code(folder)):
            shutil.rmtree(folder)
            if folder.name == "trials":
                (shared / "trials.json").unlink(missing_ok=True)


def _take_trials(job: Job, key: str, shared: pathlib.Path) -> None:
    """Writes trials.json, if it is not whole, from a cell of another seed: of an earlier grid, or of another machine,
    whose trials are not in this folder. Trials that are run again may choose another learning rate."""
    path = shared / "trials.json"
    if path.exists() and len(json.loads(path.read_text())) == len(job.scale.rates):
        return
    for other in sorted(path for column in job.columns for path in job.list_seeds(column)):
        with contextlib.suppress(UsageError):
            cell = cells.load_cell(other)
            tried, code = cell["settings"].get("tried"), cells.load_code(job.folder, cell)
            if not tried or not code or not _is_of_row(cell, job, key):
                continue
            if job.same_code and sources.describe_changed(code):
                continue
            log.say(f"{job.name}: the learning rate is that of {other}")
            stored.start_code(shared / "trials", code)
            stored.write_json(path, tried)
            return


def _is_of_row(cell: Mapping[str, Any], job: Job, key: str) -> bool:
    """Whether a cell has the settings of a key, whatever its seed."""
    recorded = cells.load_settings(job.folder, cell["key"])
    return cell["key"] == key or identity.are_same(recorded, cells.load_settings(job.folder, key))


def _train(
    prepared: Prepared,
    folder: pathlib.Path,
    seed: int,
    score: Callable[..., dict[str, float]],
    lease: leases.Lease,
    compiled: Compiled | None,
) -> Any:
    """`train`, which stops when the lease is lost: the lease is asked before each line of metrics, and before each
    score, which a checkpoint follows."""
    note = lease.guard(lambda seconds: lease.path.stem)
    return train(prepared.system, prepared.splits, folder, seed, lease.guard(score), compiled, note=note)


def _time(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The function, which adds to `seconds` what each call takes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic()
        result = function(*args, **kwargs)
        seconds.append(time.monotonic() - begin)
        return result

    return call


def score_run(
    system: System, compiled: Any, params: Any, encoded: Any, split: str, workdir: pathlib.Path | None, **options: Any
) -> dict[str, float]:
    """`report.score_split` without what no cell has: the loss on the test, and the answers of the best checkpoint on
    validation, which are a point of the curve already."""
    if split == "test":
        options["losses"] = False
    elif workdir is not None:
        options["generate"] = False
    return report.score_split(system, compiled, params, encoded, split, workdir, **options)


def drop_training_state(job: Job, key: str) -> None:
    """Removes the checkpoints of a finished run, which hold optimiser states; the best parameters stay."""
    folder = job.folder / "runs" / f"{job.name.rpartition('.')[0]}-{key}" / f"seed_{job.seed}"
    if _count_saved_steps(folder, "best"):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def build_system(config: Any, folder: pathlib.Path) -> tuple[System, list[Record], list[Ability]]:
    """(the system of a config with room for all of its problems, the test problems, what the row can do with them).

    The room changes no result: the lengths of a row's texts follow from its scheme. `folder` holds the vocabulary.
    """
    system = assemble(config, folder)
    records, validation = (problems.load_records(system.task.dataset, split) for split in ("test", "validation"))
    own = [abilities.measure(system, record) for record in records]
    lengths = [(ability.prompt, ability.answer) for ability in own]
    lengths += [abilities.measure_lengths(system, record) for record in validation]
    longest_answer = max(answer for _, answer in lengths) + SPARE_TOKENS
    longest_prompt = max(prompt for prompt, _ in lengths)
    length = _round_up(max(map(sum, lengths)))
    room = max(length, _round_up(longest_prompt) + _round_up(longest_answer))
    sized = {"data.length": length, "backbone.max_length": room, "decode.max_tokens": _round_up(longest_answer)}
    config = trials.change_config(config, sized | {"decode.batch_size": config.eval.batch_size})
    runs.fix_precision(config)
    return assemble(config, folder), records, own


def _round_up(count: int) -> int:
    return -(-count // 16) * 16


@functools.lru_cache(maxsize=1)
def _open_row(job: Job, shared: pathlib.Path) -> _Row:
    """The row of a job, whatever its seed."""
    # Otherwise one process keeps the programs of dozens of rows.
    jax.clear_caches()
    return _Row(_prepare(make_config(job.row, job.scale, job.columns), shared, job))


def _prepare(config: Any, shared: pathlib.Path, job: Job) -> Prepared:
    log.say(f"{job.name}: preparing the data and the model")
    with lock_folder(shared, "--out"):
        system, records, own = build_system(config, shared)
    dataset = system.task.dataset
    problems.check_columns(records, job.columns)
    validation = problems.select(problems.load_records(dataset, "validation"), job.scale.validation)
    train_records = problems.load_records(dataset, "train")
    encoded = {
        split: system.encode_split(own_records, split)
        for split, own_records in (("train", train_records), ("validation", validation), ("test", records))
    }
    for split, rows in encoded.items():
        if rows.skipped:
            first = rows.skipped[0]
            log.say(f"{job.name}: {len(rows.skipped)} problems of {split} left out, such as {first['reason']}")
    return Prepared(system, Splits(**encoded), records, own)


def choose_learning_rate(
    prepared: Prepared,
    shared: pathlib.Path,
    rates: Sequence[float],
    lease: leases.Lease,
    code: Mapping[str, str],
) -> tuple[float | None, dict[str, float | None], Compiled | None]:
    """(the learning rate with the least validation loss after a short run, None if each diverged; rate → its loss,
    None if it diverged; the compiled functions of these runs, None if there was none).

    A trial is a whole run of `TRIAL_SHARE` of the steps, with its own warm-up and decay, and with a seed that no cell
    has. Its test problems are never scored. Finished trials are kept in trials.json. One rate needs no trial.

    Raises:
      TakenOver: another runner has taken over the lease of the trials.
    """
    if len(rates) == 1:
        return rates[0], {}, None
    path, compiled = shared / "trials.json", None
    tried: dict[str, float | None] = json.loads(path.read_text()) if path.exists() else {}
    optim = prepared.system.config.optim
    steps = max(2, round(TRIAL_SHARE * optim.steps))
    changes = {"optim.steps": steps, "optim.warmup": round(TRIAL_SHARE * optim.warmup), "eval.every": steps}
    changes |= {"eval.test": False, "eval.generate": False, "log_every": steps}
    for rate in rates:
        if f"{rate:g}" in tried:
            continue
        log.say(f"{shared.name}: learning rate {rate:g} for {steps} steps")
        stored.start_code(shared / "trials", code)
        config: Any = trials.change_config(prepared.system.config, changes | {"optim.learning_rate": rate})
        folder = shared / "trials" / f"{rate:g}"
        try:
            short = prepared._replace(
                system=prepared.system._replace(config=config), splits=prepared.splits._replace(test=None)
            )
            score = functools.partial(report.score_split, generate=False)
            results, compiled = _train(short, folder, trials.SEED, score, lease, compiled)
            tried[f"{rate:g}"] = float(results["validation"]["loss"])
        except Diverged:
            tried[f"{rate:g}"] = None
        lease.check()
        stored.write_json(path, tried)
        for name in ("checkpoints", "best"):
            shutil.rmtree(folder / name, ignore_errors=True)
    finite = {rate: loss for rate, loss in tried.items() if loss is not None and math.isfinite(loss)}
    return (float(min(finite, key=finite.__getitem__)) if finite else None), tried, compiled


def load_answers(folder: pathlib.Path, system: System) -> dict[str, Answer]:
    """Id → what the model wrote to the test problems.

    A model states a probability of its answer where every symbol of it is drawn from one softmax; the masses of heads
    that write numbers, or their places, leave out the number.
    """
    writer = abilities.writer_of(system)
    states_probability = not writer.numbers or writer.written_as == "prefix"
    answers = {}
    for row in _read_lines(folder / "predictions" / f"{system.config.task.name}.jsonl"):
        probability = min(1.0, math.exp(row["log_prob"])) if states_probability else None
        answers[row["id"]] = Answer(row["prediction"], probability)
    return answers


def load_seconds_per_step(folder: pathlib.Path, after: int = 0) -> float:
    """The median over the intervals of a run that end after a step, so that those with a compilation or an evaluation
    do not count; 0 without any."""
    rates = [row["seconds_per_step"] for row in _load_rows(folder, "train") if row["step"] > after]
    return statistics.median(rates) if rates else 0.0


def sum_step_seconds(folder: pathlib.Path, after: int = 0) -> float:
    """Seconds of all steps of a run after one of them, without evaluations.

    The first interval of a process, which holds a compilation, counts as a median one.
    """
    total, typical = 0.0, load_seconds_per_step(folder, after)
    for row in _load_rows(folder, "train"):
        if row["step"] > after:
            total += (row["step"] - after) * (row["seconds_per_step"] if total else typical)
            after = row["step"]
    return total


def _load_rows(folder: pathlib.Path, split: str) -> list[dict[str, Any]]:
    return [row for row in _read_lines(folder / "metrics.jsonl") if row["split"] == split]


def _read_lines(path: pathlib.Path) -> Sequence[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _count_saved_steps(folder: pathlib.Path, kind: str = "checkpoints") -> int:
    """The step of the newest whole checkpoint, 0 without any."""
    return max((int(path.name) for path in (folder / kind).glob("*") if path.name.isdigit()), default=0)


@functools.cache
def _set_up_once(compile_cache: str) -> None:
    set_up(ConfigDict({"compile_cache": compile_cache}))


def _set_up(config: Any) -> None:
    _set_up_once(config["compile_cache"])
