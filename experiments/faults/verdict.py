"""Compares a run that was killed many times with an undisturbed one."""

from __future__ import annotations

import collections
import json
import pathlib
from typing import Any

import jax
import numpy as np

from numjax.bundled.experiments.stored import describe_machine
from numjax.runtime.shard import path_name
from numjax.train.checkpoint import Checkpoints

RATES = ("examples_per_second", "tokens_per_second", "seconds_per_step")


def compare(run: Any, reference_run: Any) -> dict[str, Any]:
    """Compares parameters bit by bit, metrics line by line, records one by one; both arguments are `life.Life`."""
    results: dict[str, Any] = {"machine": describe_machine()}
    for folder in ("checkpoints", "best"):
        killed, undisturbed = load_parameters(run.workdir / folder), load_parameters(reference_run.workdir / folder)
        different = [name for name in undisturbed if killed.get(name) != undisturbed[name]]
        results[f"{folder}_bit_equal"] = not different and killed.keys() == undisturbed.keys()
        results[f"{folder}_arrays"] = len(undisturbed)
    killed, undisturbed = (load_digests(life.workdir / "checkpoints") for life in (run, reference_run))
    results["optimiser_digests_equal"] = killed == undisturbed
    splits = ("train", "validation", "validation_best")
    killed, undisturbed = (
        [_drop_rates(row) for split in splits for row in life.read_metrics(split)] for life in (run, reference_run)
    )
    results["metric_lines"], results["metric_lines_equal"] = len(undisturbed), killed == undisturbed
    return results | compare_records(trace_lineage(run.witness_file), trace_lineage(reference_run.witness_file))


def load_parameters(folder: pathlib.Path) -> dict[str, bytes]:
    """Path → bytes of the parameters of a folder's newest checkpoint; "step" → its step."""
    checkpoints = Checkpoints(folder)
    restored = checkpoints.restore_params()
    checkpoints.close()
    assert restored is not None, folder
    params, step = restored
    flat = jax.tree_util.tree_leaves_with_path(params)
    return {"step": str(step).encode()} | {path_name(path): np.asarray(leaf).tobytes() for path, leaf in flat}


def load_digests(folder: pathlib.Path) -> dict[str, str]:
    """Path → digest of every array of the newest checkpoint, the optimiser's included."""
    newest = max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    return json.loads((newest / "meta" / "metadata").read_text())["digests"]


def trace_lineage(witness_file: pathlib.Path) -> dict[int, list[int]]:
    """Step → its records that the final parameters have learned from.

    A life that resumes from a step has the checkpoint's parameters, so the records that were taken at that step and
    later are dropped. Several processes (FILE.0, FILE.1, …) have parts of each step.
    """
    files = [witness_file] if witness_file.exists() else sorted(witness_file.parent.glob(f"{witness_file.name}.*"))
    records_by_step: dict[int, list[int]] = collections.defaultdict(list)
    for file in files:
        steps: dict[int, list[int]] = {}
        for line in file.read_bytes().splitlines(keepends=True):
            row = json.loads(line) if line.endswith(b"\n") else {}
            if "from" in row:
                steps = {step: ids for step, ids in steps.items() if step < row["from"]}
            elif "step" in row:
                steps[row["step"]] = row["ids"]
        for step, ids in steps.items():
            records_by_step[step] += ids
    return dict(records_by_step)


def compare_records(killed: dict[int, list[int]], undisturbed: dict[int, list[int]]) -> dict[str, Any]:
    """Counts the undisturbed run's records that are missing or repeated, and records that repeat within an epoch."""
    expected_counts, actual_counts = (
        collections.Counter((s, i) for s, ids in x.items() for i in ids) for x in (undisturbed, killed)
    )
    size = len({record for ids in undisturbed.values() for record in ids})
    records_in_order = [record for step in sorted(killed) for record in killed[step]]
    epochs = [records_in_order[start : start + size] for start in range(0, len(records_in_order), size)]
    return {
        "records": size,
        "epochs": round(len(records_in_order) / size, 2),
        "records_read": sum(expected_counts.values()),
        "records_lost": sum((expected_counts - actual_counts).values()),
        "records_read_twice": sum((actual_counts - expected_counts).values()),
        "records_twice_in_an_epoch": sum(len(epoch) - len(set(epoch)) for epoch in epochs),
    }


def render(content: dict[str, Any]) -> str:
    """The results of a fault run as Markdown."""
    rows = [f"| {name.replace('_', ' ')} | {_format_value(value)} |" for name, value in content["results"].items()]
    return "\n".join([f"# {content['title']}", "", "| | |", "|---|---|", *rows]) + "\n"


def _format_value(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def _drop_rates(row):
    return {name: value for name, value in row.items() if name not in RATES}
