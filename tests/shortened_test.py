"""Records that are not read whole: each is named with how much of it is not, whatever cuts it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from numjax import api, protocols
from numjax.evals import report
from numjax.pipeline import source
from numjax.system import System
from numjax.tasks import table_text
from numjax.train import runs
from numjax.types import Example, Mark
from tests import drawn, masking_test
from tests.encoded import Labelled, encode, make_config, make_scheme, make_text_task

LONG = {"id": "long", "text": "eggs " * 30, "label": 1}
SHORT = {"id": "short", "text": "eggs", "label": 0}
TABLE = {"id": "table", "text": "hello " * 100, "table": json.dumps([["12 cells", "4 5 6 7"]] * 40)}


class Answering(protocols.Task):
    """A text for an encoder, with one word to write."""

    kind = "language_model"

    def example(self, record, parse):
        document = (Mark("[CLS]"), *parse("eggs"), Mark("[EOS]"))
        return Example(record["id"], document, source=(*parse(record["text"]), Mark("[EOS]")), loss_from=1)


def system_of(config: Any, task: Any) -> System:
    return System(config, task, make_scheme("subword"), drawn.model(), {}, {}, None)


class Limited(Labelled):
    """Of whose texts two positions are read."""

    def example(self, record, parse):
        return super().example(record, parse)._replace(limits=((1, 2, 2),), slide=(1, 2))


def encoded(task, overflow: str, records=(LONG, SHORT)):
    config: Any = make_config(length=8, overflow=overflow)
    return encode(task, make_scheme("subword"), list(records), config)


@pytest.mark.parametrize(
    ("task", "of"),
    [(Labelled, ""), (make_text_task, ""), (Answering, " of the source")],
    ids=["label", "text", "source"],
)
def test_a_row_that_is_cut_is_named_with_what_it_lost(task, of):
    found = encoded(task(), "truncate")
    whole = make_scheme("subword").encode(
        (*((Mark("[CLS]"),) if not of else ()), *make_scheme("subword").parse(LONG["text"]), Mark("[EOS]"))
    )
    read = len((found.columns.source or found.columns).ids[: (found.source or found).columns.starts[1]])
    assert len(found) == 2 and 8 <= read <= 9
    assert found.shortened == {0: ("long", f"positions{of} not read: {len(whole.ids) - read} of {len(whole.ids)}")}
    assert found.subset([1, 0]).shortened == found.shortened
    # Readers of batches need no words.
    assert pickle.loads(pickle.dumps(copy.copy(found))).shortened == {}


def test_what_is_split_is_read_whole_but_for_its_limits():
    assert not encoded(make_text_task(), "split").shortened
    for overflow in ("windows", "truncate", "skip"):
        found = encoded(Limited(), overflow)
        (name, lost) = found.shortened[0]
        assert list(found.shortened) == [0] and name == "long" and found.lengths[0] == 4
        assert int(lost.split()[-1]) - int(lost.split()[-3]) == 4


def test_what_a_task_leaves_out_is_named_too():
    config = masking_test.config()
    config.data.overflow, config.data.length = "truncate", 64
    found = encode(table_text.Task(), masking_test.scheme(), [TABLE, SHORT | {"table": "[]"}], config)
    name, lost = found.shortened.pop(0)
    assert name == "table" and not found.shortened and found.lengths[0] == 64
    parts = dict(part.split(": ") for part in lost.split(", "))
    assert list(parts) == ["rows not read", "numbers read as text", "characters not read", "positions not read"]
    assert parts["rows not read"] == "20" and parts["numbers read as text"] == "20"
    assert parts["characters not read"] == str(599 - 251)
    missing, whole = map(int, parts["positions not read"].split(" of "))
    assert whole - missing == 64


def test_they_are_told_before_training_and_kept(tmp_path, monkeypatch, capsys):
    config: Any = make_config(length=8, overflow="truncate")
    with config.unlocked():
        config.data.update(dir="", train_size=0, balance="label")
        config.task = {}
    splits = {"train": [SHORT, LONG], "validation": [LONG | {"id": "held"}]}
    monkeypatch.setattr(source, "load", lambda dataset, split, *_, **__: splits.get(split))
    monkeypatch.setattr(source, "load_skipped", lambda *_: [])
    task: Any = Labelled()
    task.dataset = {}
    system = system_of(config, task)
    runs.load_data(system, tmp_path, False)
    rows = [json.loads(line) for line in (tmp_path / "shortened.jsonl").read_text().splitlines()]
    assert [(row["id"], row["split"]) for row in rows] == [("long", "train"), ("held", "validation")]
    assert not (tmp_path / "skipped.jsonl").exists()
    said = f"2 records not read whole, the first is long ({rows[0]['reason']}): see {tmp_path}/shortened.jsonl"
    assert capsys.readouterr().err.splitlines() == [said]


def test_a_prediction_says_what_was_not_read(monkeypatch, capsys):
    """Of a model that says the same of everything; its rows come with what they are made of."""
    model: Any = api.Loaded.__new__(api.Loaded)
    config: Any = make_config(length=8, overflow="truncate")
    model.system, model.tuned = system_of(config, Labelled()), {}
    monkeypatch.setattr(api.Loaded, "_evaluate", lambda *_: ({}, {}))
    monkeypatch.setattr(report, "make_predictions", lambda found, *_: (dict.fromkeys(range(len(found)), 1), {}))
    skipped: list = []
    rows = model.predict([SHORT, {"id": "bad"}, LONG], skipped=skipped)
    assert [row["id"] for row in rows] == ["short", "long"] and [row["id"] for row in skipped] == ["bad"]
    assert "shortened" not in rows[0] and rows[1]["shortened"].startswith("positions not read: ")
    assert not capsys.readouterr().err  # it is in the rows
    # Values alone cannot say it.
    model.encode([SHORT, LONG])
    lost = rows[1]["shortened"]
    assert capsys.readouterr().err == f"1 of 2 records not read whole, the first is long: {lost}\n"
