"""Reports of a run on card transactions: the threshold of its scores, skipped records, and the rows it counts."""

from __future__ import annotations

import collections
import gzip
import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax import modes
from numjax.build import build
from numjax.bundled import data
from numjax.bundled.configs import tabbert
from numjax.bundled.data.creditrans import generate, read
from numjax.errors import DataError
from numjax.evals import report
from numjax.pipeline import source
from numjax.runtime import shard
from numjax.tasks import fraud, transactions
from numjax.types import Text


class EncodedRows(SimpleNamespace):
    """An encoded split that has only these attributes and a number of rows."""

    def __len__(self):
        return 3


def test_without_validation_the_test_split_uses_the_default_threshold(monkeypatch, capsys):
    """The threshold that is best on the test split is never used."""
    chances = np.asarray([0.1, 0.2, 0.3, 0.6])
    log_probs = dict(enumerate(np.log(np.stack([1 - chances, chances], axis=1))))
    monkeypatch.setattr(report, "make_loader", lambda *_, **__: SimpleNamespace(epoch=lambda *_: ()))
    monkeypatch.setattr(report, "evaluate", lambda *_: ({"loss": 0.5}, log_probs))
    config = SimpleNamespace(eval=SimpleNamespace(batch_size=4))
    encoded = EncodedRows(example=lambda i: SimpleNamespace(reference={"label": int(i > 1)}))

    def score_split(split, tuned, **options):
        system = SimpleNamespace(config=config, task=fraud.Task(**options), host_features=None)
        compiled: Any = SimpleNamespace(mesh=shard.make_mesh())
        metrics = report.score_split(system, compiled, None, encoded, split, None, tuned=tuned)
        return metrics["threshold"], metrics["F1"], capsys.readouterr().err

    message = "test: nothing was chosen on validation: scored with the default, threshold 0.5\n"
    for tuned in (None, {}, {"validation": {"loss": 0.1}}):
        assert score_split("test", tuned) == (0.5, pytest.approx(2 / 3), message)
    assert score_split("test", {"validation": {"threshold": 0.25}}) == (0.25, 1, "")
    assert score_split("test", None, threshold=0.15) == (0.15, pytest.approx(0.8), "")
    assert score_split("validation", {}) == (pytest.approx(0.25), 1, ""), "validation chooses"


def test_check_counts_skipped_and_repeated_records(monkeypatch, tmp_path):
    """Skips bad rows of the table and bad windows of the split; repeats the rarer windows."""
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
    bad_id = next(record["id"] for record in records if not record["label"])
    example = fraud.Task.example

    def refuse_one_record(task, record, parse):
        if record["id"] == bad_id:
            raise DataError("it is bad")
        return example(task, record, parse)

    monkeypatch.setattr(fraud.Task, "example", refuse_one_record)
    summary = modes.run(config, str(tmp_path / "run"), "check")
    skipped_rows = [json.loads(line) for line in (tmp_path / "run" / "skipped.jsonl").read_text().splitlines()]
    assert summary["skipped"] == len(skipped_rows) and [row["split"] for row in skipped_rows] == [
        "source",
        "source",
        "train",
    ]
    usable_labels = [record["label"] for record in records if record["id"] != bad_id]
    assert summary["train_records"] == len(usable_labels) < summary["train_examples"] == 2 * usable_labels.count(0)


def test_a_table_to_predict_is_cut_into_windows(tmp_path):
    """Windows are those of the published table, with or without labels; bad and left-over rows are reported."""
    rows = list(generate.generate_rows(2, 0, 30))
    table = [",".join(read.COLUMNS), *(",".join(row) for row in rows)]
    (tmp_path / "transactions.csv").write_text("\n".join(table) + "\n")
    published_windows = data.load("creditrans", "train", tmp_path, path=str(tmp_path / "transactions.csv"))
    expected = {(row["user"], row["first"]): row["rows"] for row in published_windows}
    task = fraud.Task()
    unlabelled = [",".join(line.split(",")[:-1]) for line in table]
    unlabelled[1] = unlabelled[1].replace("$", "about ")
    (tmp_path / "cards.csv.gz").write_bytes(gzip.compress("\n".join(unlabelled).encode()))
    for name in ("transactions.csv", "cards.csv.gz"):
        pairs = list(task.from_file(str(tmp_path / name)))
        records = {key: record for key, record in pairs if not isinstance(record, ValueError)}
        assert all(set(record) == {"id", "rows"} for record in records.values())
        if name == "transactions.csv":
            rows_by_window = {tuple(map(int, key.split("-")[1:])): record["rows"] for key, record in records.items()}
            assert all(rows_by_window[window] == cells for window, cells in expected.items()) and expected
        example = task.example(records[min(records)] | task.unanswered, None)
        assert len(example.document) == 10 * 12
    messages = {key: str(error) for key, error in pairs if isinstance(error, ValueError)}
    assert "is no number of dollars" in messages["line 2"]
    counts = collections.Counter(int(row[0]) for row in rows)
    counts[0] -= 1
    n_left_over = {f"user {user}": count % 10 for user, count in counts.items() if count % 10}
    assert {key: int(text.split()[2]) for key, text in messages.items() if key != "line 2"} == n_left_over
    assert task.from_file("cards.jsonl") is None


def test_rows_that_form_no_window_are_refused():
    row = ["0", "0", "100", "-5.00", "", "", "", "", "", "", ""]
    for rows, message in (
        ([row] * 9, "has 9 rows; a window has 10"),
        ([[*row[:3], "$-5.00", *row[4:]]] * 10, "Amount '\\$-5.00' is no number such as -99.00"),
    ):
        with pytest.raises(DataError, match=message):
            fraud.Task().example({"id": "x", "label": 0, "rows": rows}, None)


def test_each_spelling_of_a_code_gives_the_same_tokens():
    """In training and in prediction, for a table that pandas wrote and for single rows."""
    row = ["0", "0", "100", "-5.00", "", "", "", "", "97201.0", "5411", ""]
    task = fraud.Task()

    def encode_codes(zip_code, mcc):
        record = {"id": "x", "label": 0, "rows": [[*row[:8], zip_code, mcc, ""]] * 10}
        return task.example(record, None).document, [*task.texts([record])]

    for codes in (("97201", "5411.0"), ("97201.00", "05411"), ("097201.", "5411")):
        assert encode_codes(*codes) == encode_codes("97201.0", "5411")
    assert encode_codes("", "")[0][8:10] == (Text("None"), Text("None"))
    for column, name, bad_cell in (
        (8, "Zip", "97201.5"),
        (9, "MCC", "5_411"),
        (3, "Amount", "2_019"),
        (2, "Timestamp", "１２"),
    ):
        rows = [[*row[:column], bad_cell, *row[column + 1 :]]] * 10
        with pytest.raises(DataError, match=f"{name} '{bad_cell}' is no number such as"):
            task.example({"id": "x", "label": 0, "rows": rows}, None)


def test_missing_splits_are_left_out_of_several(tmp_path):
    """Fits a vocabulary on all rows of so few windows that there is no test split."""
    task = transactions.Task(users=1, size=1, fitted_on="all")
    options = dict(task.dataset)
    built_splits = data.prepare(options.pop("name"), tmp_path, **options).info.splits
    present = [split for split in ("train", "validation", "test") if split in built_splits]
    records = source.load(task.dataset, task.fitted_on, tmp_path)
    assert len(present) == 1 and len(records) == 1 and len([*task.texts(records)]) == 10
    missing = "+".join({"train", "validation", "test"} - {*present})
    assert source.load(task.dataset, missing, tmp_path) is None


def test_memory_of_the_counted_rows_is_small():
    """About a byte a row; a set of row numbers would take sixty."""
    cells = ["x"] * len(transactions.COLUMNS)
    windows = ({"user": 0, "first": 5 * i, "rows": [cells] * 10} for i in range(8000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in transactions.Task(stride=5).texts(windows)) == 40_005
        assert tracemalloc.get_traced_memory()[1] < 5 * 40_005
    finally:
        tracemalloc.stop()


def test_each_row_is_counted_once_in_any_order():
    """Windows come from several splits and users, with gaps."""
    starts = [(user, first) for user in (2, 0) for first in (15, 0, 40, 5, 0, 35)]
    windows = [{"user": u, "first": s, "rows": [[f"{u}-{s + i}"] * 11 for i in range(10)]} for u, s in starts]
    row_ids = [json.loads(text)[0] for text in transactions.Task(stride=5).texts(windows)]
    assert row_ids == list(dict.fromkeys(f"{u}-{s + i}" for u, s in starts for i in range(10)))
    assert len([*transactions.Task(stride=10).texts(windows)]) == 120
