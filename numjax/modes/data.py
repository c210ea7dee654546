"""The splits of a task, encoded, with a list of the records that are left out."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Sequence
from typing import Any

import jax

from numjax.errors import DataError
from numjax.modes import unread
from numjax.pipeline import features, source
from numjax.runtime import files, log
from numjax.runtime.waiting import Wait
from numjax.system import System
from numjax.train.loop import Splits


def load_data(system: System, folder: pathlib.Path, strict: bool, splits=("train", "validation", "test")) -> Splits:
    """The task's splits, encoded. Skipped records are listed in skipped.jsonl, shortened ones in shortened.jsonl.

    Raises:
      DataError: the training split has no usable record, or with `strict` any record is bad.
    """
    config = system.config
    encoded: dict[str, Any] = dict.fromkeys(("train", "validation", "test"))
    skipped: list[dict[str, str]] = []
    shortened: list[dict[str, str]] = []
    for split in splits:
        source_split = system.task.splits.get(split, split)
        records = source.load(system.task.dataset, source_split, config.data.dir or None, strict=strict)
        if records is None:
            continue
        size = config.data.train_size if split == "train" else 0
        with Wait(f"encoding {len(records):,} records of {split}"):
            encoded[split] = system.encode_split(records, split, strict, limit=size)
            if split != "train":
                encoded[split] = system.leave_room(encoded[split], split, strict)
        unread.say_rows(system, encoded[split], f"{split}: ")
        skipped += encoded[split].skipped
        shortened += [
            {"id": id, "split": split, "reason": reason} for id, reason in encoded[split].shortened.values()
        ]
        if split == "train" and (label := config.data.get("balance")):
            left_out = encoded[split].skipped
            encoded[split] = features.balance_classes(encoded[split], label, config.task.get("data_seed", 0))
            encoded[split].skipped = left_out
    skipped = source.load_skipped(system.task.dataset, config.data.dir or None) + skipped
    for rows, name, problem in (
        (skipped, "skipped.jsonl", "left out"),
        (shortened, "shortened.jsonl", "not read whole"),
    ):
        path = folder / name
        if jax.process_index() == 0 and (listed := [*rows, *_load_others(path, splits)]):
            files.write(path, (log.to_json(row) + "\n" for row in listed))
        elif jax.process_index() == 0:
            path.unlink(missing_ok=True)  # of an earlier use, whose records are read now
        if rows and jax.process_index() == 0:
            first = rows[0]
            log.say(f"{len(rows)} records {problem}, the first is {first['id']} ({first['reason']}): see {path}")
    if "train" in splits and (encoded["train"] is None or len(encoded["train"]) == 0):
        raise DataError(f"no usable record in the training split of {dict(system.task.dataset)}")
    return Splits(**encoded)


def _load_others(path: pathlib.Path, splits: Sequence[str]) -> list[dict[str, Any]]:
    """The records in a list of an earlier use of the run that are of splits which are not read now."""
    rows: list[dict[str, Any]] = []
    # Do not use splitlines: the reasons quote texts, which may contain other line ends of Unicode.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged line
            row = files.parse_json(line)
            rows += [row] if row["split"] not in (*splits, "source") else []
    return rows
