"""Runs a job: trains its model if cells are missing, and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numjax.build import build
from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.grid import abilities, baselines, cells, leases, scoring, training
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.rows import make_config
from numjax.config import fit
from numjax.errors import UsageError
from numjax.runtime import log

BASELINE_CODE = ("numjax.bundled.experiments.grid.baselines", "numjax.bundled.experiments.grid.scoring")
DONE, KEPT, HELD, STOPPED, FAILED = "done", "kept", "held", "stopped", "failed"


class Outcome(NamedTuple):
    """What became of a job.

    Attributes:
      job: its name. state: "done", "kept" (all cells were there), "held" (another runner has it), "stopped" (by a
        signal; its training is saved) or "failed".
      message: one line. cells: how many were written.
    """

    job: str
    state: str
    message: str
    cells: int = 0


def run_job(job: Job, wait: float = 0.0) -> Outcome:
    """Runs a job to its end. Cells that exist with the same key are not run again.

    Errors become the outcome, so that the other jobs go on.

    Args:
      wait: seconds to wait for another runner that has the job.

    Raises:
      Preempted: SIGTERM or SIGINT; the training is saved, and the same job resumes it.
    """
    try:
        settings, key = cells.choose_key(job)
        if not cells.list_missing(job, key):
            return Outcome(job.name, KEPT, f"{job.name}: all {len(job.columns)} cells are there")
        with leases.hold(job.folder, job.name, wait) as lease:
            # Another runner may have written them since.
            missing = cells.list_missing(job, key)
            if missing:
                _say_unusable(job, key)
                _write(job, key, settings, lease)
        return Outcome(job.name, DONE, f"{job.name}: {len(missing)} cells written", len(missing))
    except leases.Held as error:
        return Outcome(job.name, HELD, str(error))
    except Exception as error:  # a part of a stranger may raise anything, and the other rows go on
        kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        return Outcome(job.name, FAILED, f"{job.name}: {kind}{' '.join(str(error).split())[:600]}")


def _say_unusable(job: Job, key: str) -> None:
    for column in job.columns:
        if reason := cells.explain_unusable(job, column, key):
            log.say(f"{reason}: it goes to {job.folder / 'replaced'}, and the cell is run")


def _write(job: Job, key: str, settings: Mapping[str, Any], lease: leases.Lease) -> None:
    write_cell = lease.guard(cells.write_cell)
    cells.write_once(job.folder, "settings", settings)
    shared = _describe(job, key)
    if job.row.kind == "baseline":
        records, answers = baselines.answer_job(job)
        extra = _describe_baseline() | {
            "code": cells.write_once(job.folder, "code", identity.list_code(BASELINE_CODE))
        }
        for column in job.columns:
            own = [record for record in records if record["operation"] == column]
            ceiling = dict.fromkeys(("all", *scoring.list_streams(own)), 1.0)
            entry = {"column": column, "ceiling": ceiling, "curve": []} | scoring.score_cell(own, answers)
            write_cell(job, _order(shared | extra | entry))
        return
    config = make_config(job.row, job.scale, job.columns)
    try:
        fit.check(config, build("tasks", config.task))
    except UsageError as error:
        for column in job.columns:
            write_cell(job, _order(shared | _describe_nothing(str(error)) | {"column": column}))
        return
    trained = training.train_job(job, key, lease)
    extra = _describe_run(job, trained)
    for column in job.columns:
        write_cell(job, _order(shared | extra | _score_column(column, trained)))
    lease.check()
    training.drop_training_state(job, key)


def _describe(job: Job, key: str) -> dict[str, Any]:
    """What all cells of a job share, whatever its row."""
    machine = stored.describe_machine()
    commit = machine.pop("commit")
    many = f" × {machine['devices']}" * (machine["devices"] > 1)
    return {
        "form": cells.FORM,
        "row": job.row.name,
        "kind": job.row.kind,
        "changes": list(job.row.changes),
        "scale": job.scale.name,
        "seed": job.seed,
        "key": key,
        "commit": commit.removesuffix(stored.DIRTY),
        "dirty": commit.endswith(stored.DIRTY),
        "hardware": f"{machine['device']}{many}, {machine['cores']} cores, jax {machine['jax']}",
        "machine": machine,
        "not_applicable": None,
        "diverged": None,
        "code": "",
    }


def _describe_run(job: Job, trained: training.Trained) -> dict[str, Any]:
    """What the cells of a run share: settings, time, size."""
    config = trained.config
    settings = {
        "steps": config.optim.steps,
        "batch": config.optim.batch_size,
        "width": config.backbone.width,
        "layers": config.backbone.layers,
        "heads": config.backbone.heads,
        "learning_rate": trained.rate,
        "tried": trained.tried,
        "tried_metric": "validation loss",
        "parts": describe_parts(config),
        "columns": list(job.columns),
        "length": config.data.length,
        "max_tokens": config.decode.max_tokens,
    }
    return {
        "settings": settings,
        "steps": config.optim.steps,
        "seconds": round(trained.seconds, 3),
        "overhead_seconds": round(trained.overhead_seconds, 3),
        "score_seconds": round(trained.score_seconds, 3),
        "trial_seconds": round(trained.trial_seconds, 3),
        "ms_per_step": round(1000 * trained.seconds_per_step, 3),
        "parameters": trained.parameters or None,
        "diverged": trained.diverged,
        "code": cells.write_once(job.folder, "code", trained.code),
    }


def _score_column(column: str, trained: training.Trained) -> dict[str, Any]:
    pairs = [
        (record, ability)
        for record, ability in zip(trained.records, trained.abilities, strict=True)
        if record["operation"] == column
    ]
    records, own = [record for record, _ in pairs], [ability for _, ability in pairs]
    name = f"exact/{column}"
    curve = [
        {
            "step": row["step"],
            "seconds": round(row["step"] * trained.seconds_per_step, 3),
            "exact": row[name],
        }
        for row in trained.validations
        if name in row
    ]
    entry = {"column": column, "slots_per_number": abilities.slots_per_number(own), "curve": curve}
    entry |= {"ceiling": abilities.list_ceilings(records, own)}
    return entry | scoring.score_cell(records, trained.answers)


def describe_parts(config: Any) -> dict[str, str]:
    """Kind of part → names, for people: {"scheme": "replace", "embeds": "fone, token", …}."""
    parts = {"scheme": config.scheme.name, "backbone": config.backbone.name}
    for kind in ("embeds", "positions", "heads", "objectives"):
        parts[kind] = ", ".join(sorted(str(block.name) for block in config[kind].values()))
    return parts


def _describe_baseline() -> dict[str, Any]:
    return dict.fromkeys(("parameters", "slots_per_number")) | {
        "settings": {},
        "steps": 0,
        "seconds": 0.0,
        "overhead_seconds": 0.0,
        "score_seconds": 0.0,
        "trial_seconds": 0.0,
        "ms_per_step": 0.0,
    }


def _describe_nothing(reason: str) -> dict[str, Any]:
    """The fields of a cell whose row has no meaning on its column."""
    empty = {"metrics": dict.fromkeys(scoring.METRICS), "streams": {}, "ceiling": {}, "curve": [], "examples": []}
    return _describe_baseline() | empty | {"not_applicable": reason}


def _order(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with the fields of its form first."""
    return {name: cell[name] for name in cells.FIELDS} | dict(cell)
