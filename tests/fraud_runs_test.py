"""What a run on card transactions tells: at which threshold it is scored, what is left out, which rows it read."""

from __future__ import annotations

import collections
import gzip
import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax.build import build
from numjax.bundled import data
from numjax.bundled.configs import tabbert
from numjax.bundled.data.creditrans import generate, read
from numjax.errors import DataError
from numjax.evals import report
from numjax.pipeline import source
from numjax.runtime import shard
from numjax.tasks import fraud, transactions
from numjax.train import runs as run_modes
from numjax.types import Text


def test_without_validation_test_is_scored_at_the_default(monkeypatch, capsys):
    """Not at what is best on test."""
    chances = np.asarray([0.1, 0.2, 0.3, 0.6])
    log_probs = dict(enumerate(np.log(np.stack([1 - chances, chances], axis=1))))
    monkeypatch.setattr(report, "make_loader", lambda *_, **__: SimpleNamespace(epoch=lambda *_: ()))
    monkeypatch.setattr(report, "evaluate", lambda *_: ({"loss": 0.5}, log_probs))
    config = SimpleNamespace(eval=SimpleNamespace(batch_size=4))
    encoded = SimpleNamespace(example=lambda i: SimpleNamespace(reference={"label": int(i > 1)}))

    def scored(split, tuned, **options):
        system = SimpleNamespace(config=config, task=fraud.Task(**options), host_features=None)
        compiled: Any = SimpleNamespace(mesh=shard.make_mesh())
        found = report.score_split(system, compiled, None, encoded, split, None, tuned=tuned)
        return found["threshold"], found["F1"], capsys.readouterr().err

    said = "test: nothing was chosen on validation: scored with the default, threshold 0.5\n"
    for tuned in (None, {}, {"validation": {"loss": 0.1}}):
        assert scored("test", tuned) == (0.5, pytest.approx(2 / 3), said)
    assert scored("test", {"validation": {"threshold": 0.25}}) == (0.25, 1, "")
    assert scored("test", None, threshold=0.15) == (0.15, pytest.approx(0.8), "")
    assert scored("validation", {}) == (pytest.approx(0.25), 1, ""), "validation chooses"


def test_check_counts_what_is_left_out_and_what_is_repeated(monkeypatch, tmp_path):
    """Rows of the table, and windows of the split whose rarer ones are repeated."""
    table = [",".join(read.COLUMNS)]
    table += [",".join(row).replace("$", "") for row in generate.generate_rows(3, 0, 300)]
    table[5], table[8] = (table[i].replace(",No", ",?") for i in (5, 8))
    (tmp_path / "transactions.csv").write_text("\n".join(table) + "\n")
    config = tabbert.get_config("smoke,task=fraud,numtok=none")
    with config.unlocked():
        config.compile_cache = ""
        config.data.dir = str(tmp_path / "data")
        config.task.path = str(tmp_path / "transactions.csv")
        config.backbone.layers = 1
    records = source.load(build("tasks", config.task).dataset, "train", config.data.dir)
    bad = next(record["id"] for record in records if not record["label"])
    example = fraud.Task.example

    def refusing(task, record, parse):
        if record["id"] == bad:
            raise DataError("it is bad")
        return example(task, record, parse)

    monkeypatch.setattr(fraud.Task, "example", refusing)
    found = run_modes.run(config, str(tmp_path / "run"), "check")
    told = [json.loads(line) for line in (tmp_path / "run" / "skipped.jsonl").read_text().splitlines()]
    assert found["skipped"] == len(told) and [row["split"] for row in told] == ["source", "source", "train"]
    usable = [record["label"] for record in records if record["id"] != bad]
    assert found["train_records"] == len(usable) < found["train_examples"] == 2 * usable.count(0)


def test_windows_of_a_table_to_predict(tmp_path):
    """As the published table has them, with or without a label; what is in no window, or cannot be read, is told."""
    rows = list(generate.generate_rows(2, 0, 30))
    table = [",".join(read.COLUMNS), *(",".join(row) for row in rows)]
    (tmp_path / "transactions.csv").write_text("\n".join(table) + "\n")
    known = data.load("creditrans", "train", tmp_path, path=str(tmp_path / "transactions.csv"))
    wanted = {(row["user"], row["first"]): row["rows"] for row in known}
    task = fraud.Task()
    bare = [",".join(line.split(",")[:-1]) for line in table]
    bare[1] = bare[1].replace("$", "about ")
    (tmp_path / "cards.csv.gz").write_bytes(gzip.compress("\n".join(bare).encode()))
    for name in ("transactions.csv", "cards.csv.gz"):
        found = list(task.from_file(str(tmp_path / name)))
        records = {key: record for key, record in found if not isinstance(record, ValueError)}
        assert all(set(record) == {"id", "rows"} for record in records.values())
        if name == "transactions.csv":
            of = {tuple(map(int, key.split("-")[1:])): record["rows"] for key, record in records.items()}
            assert all(of[place] == cells for place, cells in wanted.items()) and wanted
        example = task.example(records[min(records)] | task.unanswered, None)
        assert len(example.document) == 10 * 12
    told = {key: str(error) for key, error in found if isinstance(error, ValueError)}
    assert "is no number of dollars" in told["line 2"]
    counts = collections.Counter(int(row[0]) for row in rows)
    counts[0] -= 1
    lost = {f"user {user}": count % 10 for user, count in counts.items() if count % 10}
    assert {key: int(text.split()[2]) for key, text in told.items() if key != "line 2"} == lost
    assert task.from_file("cards.jsonl") is None


def test_rows_that_are_no_window_are_told():
    row = ["0", "0", "100", "-5.00", "", "", "", "", "", "", ""]
    for rows, message in (
        ([row] * 9, "has 9 rows; a window has 10"),
        ([[*row[:3], "$-5.00", *row[4:]]] * 10, "Amount '\\$-5.00' is no number such as -99.00"),
    ):
        with pytest.raises(DataError, match=message):
            fraud.Task().example({"id": "x", "label": 0, "rows": rows}, None)


def test_codes_are_the_same_tokens_however_they_are_written():
    """In training and in prediction; of a table that pandas wrote again, or of one's own rows."""
    row = ["0", "0", "100", "-5.00", "", "", "", "", "97201.0", "5411", ""]
    task = fraud.Task()

    def of(zip_code, mcc):
        record = {"id": "x", "label": 0, "rows": [[*row[:8], zip_code, mcc, ""]] * 10}
        return task.example(record, None).document, [*task.texts([record])]

    for written in (("97201", "5411.0"), ("97201.00", "05411"), ("097201.", "5411")):
        assert of(*written) == of("97201.0", "5411")
    assert of("", "")[0][8:10] == (Text("None"), Text("None"))
    for place, name, bad in (
        (8, "Zip", "97201.5"),
        (9, "MCC", "5_411"),
        (3, "Amount", "2_019"),
        (2, "Timestamp", "１２"),
    ):
        rows = [[*row[:place], bad, *row[place + 1 :]]] * 10
        with pytest.raises(DataError, match=f"{name} '{bad}' is no number such as"):
            task.example({"id": "x", "label": 0, "rows": rows}, None)


def test_splits_that_are_not_there_are_left_out_of_several(tmp_path):
    """A vocabulary of all rows, of so few windows that there is no test split."""
    task = transactions.Task(users=1, size=1, fitted_on="all")
    options = dict(task.dataset)
    built = data.prepare(options.pop("name"), tmp_path, **options).info.splits
    there = [split for split in ("train", "validation", "test") if split in built]
    found = source.load(task.dataset, task.fitted_on, tmp_path)
    assert len(there) == 1 and len(found) == 1 and len([*task.texts(found)]) == 10
    lacking = "+".join({"train", "validation", "test"} - {*there})
    assert source.load(task.dataset, lacking, tmp_path) is None


def test_the_rows_told_take_little_memory():
    """A byte or so each, where a set of their places takes sixty."""
    cells_ = ["x"] * len(transactions.COLUMNS)
    windows_ = ({"user": 0, "first": 5 * i, "rows": [cells_] * 10} for i in range(8000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in transactions.Task(stride=5).texts(windows_)) == 40_005
        assert tracemalloc.get_traced_memory()[1] < 5 * 40_005
    finally:
        tracemalloc.stop()


def test_rows_are_told_once_whatever_the_order():
    """Of several splits and users, with gaps."""
    places = [(user, first) for user in (2, 0) for first in (15, 0, 40, 5, 0, 35)]
    mixed = [{"user": u, "first": s, "rows": [[f"{u}-{s + i}"] * 11 for i in range(10)]} for u, s in places]
    told = [json.loads(text)[0] for text in transactions.Task(stride=5).texts(mixed)]
    assert told == list(dict.fromkeys(f"{u}-{s + i}" for u, s in places for i in range(10)))
    assert len([*transactions.Task(stride=10).texts(mixed)]) == 120
