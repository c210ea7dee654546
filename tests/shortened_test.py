"""Shortened records: each is named with how much of it is cut, whatever cuts it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from numjax import api, protocols
from numjax.evals import report
from numjax.modes.data import load_data
from numjax.pipeline import source
from numjax.system import System
from numjax.tasks import table_text
from numjax.types import Example, Mark
from tests import drawn, masking_test
from tests.encoded import LabelledTextTask, encode, make_config, make_scheme, make_text_task

LONG = {"id": "long", "text": "eggs " * 30, "label": 1}
SHORT = {"id": "short", "text": "eggs", "label": 0}
TABLE = {"id": "table", "text": "hello " * 100, "table": json.dumps([["12 cells", "4 5 6 7"]] * 40)}


class AnswerTask(protocols.Task):
    """A task with a text for the encoder and one word to write."""

    kind = "language_model"

    def example(self, record, parse):
        document = (Mark("[CLS]"), *parse("eggs"), Mark("[EOS]"))
        return Example(record["id"], document, source=(*parse(record["text"]), Mark("[EOS]")), loss_from=1)


def make_system(config: Any, task: Any) -> System:
    return System(config, task, make_scheme("subword"), drawn.build_model(), {}, {}, None)


class LimitedTask(LabelledTextTask):
    """A task that keeps two positions of each text."""

    def example(self, record, parse):
        return super().example(record, parse)._replace(limits=((1, 2, 2),), slide=(1, 2))


def encode_records(task, overflow: str, records=(LONG, SHORT)):
    config: Any = make_config(length=8, overflow=overflow)
    return encode(task, make_scheme("subword"), list(records), config)


@pytest.mark.parametrize(
    ("task", "suffix"),
    [(LabelledTextTask, ""), (make_text_task, ""), (AnswerTask, " of the source")],
    ids=["label", "text", "source"],
)
def test_a_cut_row_is_named_with_its_lost_positions(task, suffix):
    rows = encode_records(task(), "truncate")
    whole = make_scheme("subword").encode(
        (*((Mark("[CLS]"),) if not suffix else ()), *make_scheme("subword").parse(LONG["text"]), Mark("[EOS]"))
    )
    n_positions = len((rows.columns.source or rows.columns).ids[: (rows.source or rows).columns.starts[1]])
    assert len(rows) == 2 and 8 <= n_positions <= 9
    assert rows.shortened == {
        0: ("long", f"positions{suffix} not read: {len(whole.ids) - n_positions} of {len(whole.ids)}")
    }
    assert rows.subset([1, 0]).shortened == rows.shortened
    # Processes that load batches need no reasons.
    assert pickle.loads(pickle.dumps(copy.copy(rows))).shortened == {}


def test_split_texts_lose_nothing_but_by_their_limits():
    assert not encode_records(make_text_task(), "split").shortened
    for overflow in ("windows", "truncate", "skip"):
        rows = encode_records(LimitedTask(), overflow)
        (name, reason) = rows.shortened[0]
        assert list(rows.shortened) == [0] and name == "long" and rows.lengths[0] == 4
        assert int(reason.split()[-1]) - int(reason.split()[-3]) == 4


def test_omissions_of_a_task_are_named_too():
    config = masking_test.config()
    config.data.overflow, config.data.length = "truncate", 64
    rows = encode(table_text.Task(), masking_test.scheme(), [TABLE, SHORT | {"table": "[]"}], config)
    name, reason = rows.shortened.pop(0)
    assert name == "table" and not rows.shortened and rows.lengths[0] == 64
    parts = dict(part.split(": ") for part in reason.split(", "))
    assert list(parts) == ["rows not read", "numbers read as text", "characters not read", "positions not read"]
    assert parts["rows not read"] == "20" and parts["numbers read as text"] == "20"
    assert parts["characters not read"] == str(599 - 251)
    missing, whole = map(int, parts["positions not read"].split(" of "))
    assert whole - missing == 64


def test_shortened_records_are_reported_before_training_and_saved(tmp_path, monkeypatch, capsys):
    config: Any = make_config(length=8, overflow="truncate")
    with config.unlocked():
        config.data.update(dir="", train_size=0, balance="label")
        config.task = {}
    splits = {"train": [SHORT, LONG], "validation": [LONG | {"id": "held"}]}
    monkeypatch.setattr(source, "load", lambda dataset, split, *_, **__: splits.get(split))
    monkeypatch.setattr(source, "load_skipped", lambda *_: [])
    task: Any = LabelledTextTask()
    task.dataset = {}
    system = make_system(config, task)
    load_data(system, tmp_path, False)
    rows = [json.loads(line) for line in (tmp_path / "shortened.jsonl").read_text().splitlines()]
    assert [(row["id"], row["split"]) for row in rows] == [("long", "train"), ("held", "validation")]
    assert not (tmp_path / "skipped.jsonl").exists()
    message = f"2 records not read whole, the first is long ({rows[0]['reason']}): see {tmp_path}/shortened.jsonl"
    assert capsys.readouterr().err.splitlines() == [message]
    # A later evaluation reads other splits: what was said of the training records stays.
    splits["validation"] = [LONG | {"id": "other"}]
    with (tmp_path / "shortened.jsonl").open("a") as out:
        out.write("{}\n[]\ncut sh")
    load_data(system, tmp_path, False, splits=("validation",))
    rows = [json.loads(line) for line in (tmp_path / "shortened.jsonl").read_text().splitlines()]
    assert sorted((row["id"], row["split"]) for row in rows) == [("long", "train"), ("other", "validation")]


def test_a_prediction_names_what_was_cut(monkeypatch, capsys):
    """The model predicts the same for every record; each of its rows says what was cut."""
    config: Any = make_config(length=8, overflow="truncate")
    mesh: Any = None
    model = api.Loaded(make_system(config, LabelledTextTask()), {}, 0, mesh)
    monkeypatch.setattr(api.Loaded, "_evaluate", lambda *_: ({}, {}))
    monkeypatch.setattr(report, "make_predictions", lambda encoded, *_: (dict.fromkeys(range(len(encoded)), 1), {}))
    skipped: list = []
    rows = model.predict([SHORT, {"id": "bad"}, LONG], skipped=skipped)
    assert [row["id"] for row in rows] == ["short", "long"] and [row["id"] for row in skipped] == ["bad"]
    assert "shortened" not in rows[0] and rows[1]["shortened"].startswith("positions not read: ")
    assert not capsys.readouterr().err  # the rows hold it
    # Values cannot hold the reason, so it is printed.
    model.encode([SHORT, LONG])
    reason = rows[1]["shortened"]
    assert capsys.readouterr().err == f"1 of 2 records not read whole, the first is long: {reason}\n"
