"""What a run that was killed again and again has in common with an undisturbed one."""

from __future__ import annotations

import collections
import json
import pathlib
from typing import Any

import jax
import numpy as np

from numjax.bundled.experiments.runs import machine
from numjax.runtime.shard import path_name
from numjax.train.checkpoint import Checkpoints

RATES = ("examples_per_second", "tokens_per_second", "seconds_per_step")


def compare(run: Any, straight: Any) -> dict[str, Any]:
    """Parameters bit by bit, metrics line by line, records one by one; both are `kills.Life`."""
    found: dict[str, Any] = {"machine": machine()}
    for folder in ("checkpoints", "best"):
        mine, theirs = parameters(run.workdir / folder), parameters(straight.workdir / folder)
        different = [name for name in theirs if mine.get(name) != theirs[name]]
        found[f"{folder}_bit_equal"] = not different and mine.keys() == theirs.keys()
        found[f"{folder}_arrays"] = len(theirs)
    mine, theirs = (digests(life.workdir / "checkpoints") for life in (run, straight))
    found["optimiser_digests_equal"] = mine == theirs
    splits = ("train", "validation", "validation_best")
    mine, theirs = ([_plain(row) for split in splits for row in life.metrics(split)] for life in (run, straight))
    found["metric_lines"], found["metric_lines_equal"] = len(theirs), mine == theirs
    return found | records(lineage(run.seen), lineage(straight.seen))


def parameters(folder: pathlib.Path) -> dict[str, bytes]:
    """Path → bytes of the parameters of a folder's newest checkpoint, and its step."""
    checkpoints = Checkpoints(folder)
    read = checkpoints.restore_params()
    checkpoints.close()
    assert read is not None, folder
    params, step = read
    flat = jax.tree_util.tree_leaves_with_path(params)
    return {"step": str(step).encode()} | {path_name(path): np.asarray(leaf).tobytes() for path, leaf in flat}


def digests(folder: pathlib.Path) -> dict[str, str]:
    """Path → digest of every array of the newest checkpoint, those of the optimiser among them."""
    newest = max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    return json.loads((newest / "meta" / "metadata").read_text())["digests"]


def lineage(seen: pathlib.Path) -> dict[int, list[int]]:
    """Step → records of it that the final parameters have learned from.

    A life that goes on from a step has forgotten what was taken at that step and later: its parameters are those of
    the checkpoint. Several processes (FILE.0, FILE.1, …) have parts of each step.
    """
    files = [seen] if seen.exists() else sorted(seen.parent.glob(f"{seen.name}.*"))
    out: dict[int, list[int]] = collections.defaultdict(list)
    for file in files:
        steps: dict[int, list[int]] = {}
        for line in file.read_bytes().splitlines(keepends=True):
            row = json.loads(line) if line.endswith(b"\n") else {}
            if "from" in row:
                steps = {step: ids for step, ids in steps.items() if step < row["from"]}
            elif row:
                steps[row["step"]] = row["ids"]
        for step, ids in steps.items():
            out[step] += ids
    return dict(out)


def records(mine: dict[int, list[int]], theirs: dict[int, list[int]]) -> dict[str, Any]:
    """How many of the undisturbed run's records are missing or in excess, and whether each comes once an epoch."""
    want, have = (collections.Counter((s, i) for s, ids in x.items() for i in ids) for x in (theirs, mine))
    size = len({record for ids in theirs.values() for record in ids})
    read = [record for step in sorted(mine) for record in mine[step]]
    epochs = [read[start : start + size] for start in range(0, len(read), size)]
    return {
        "records": size,
        "epochs": round(len(read) / size, 2),
        "records_read": sum(want.values()),
        "records_lost": sum((want - have).values()),
        "records_read_twice": sum((have - want).values()),
        "records_twice_in_an_epoch": sum(len(epoch) - len(set(epoch)) for epoch in epochs),
    }


def table(found: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    rows = [f"| {name.replace('_', ' ')} | {_shown(value)} |" for name, value in found.items()]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def _plain(row):
    return {name: value for name, value in row.items() if name not in RATES}
