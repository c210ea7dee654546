"""Folds: what is said of labels that some folds lack, and that other warnings are shown."""

from __future__ import annotations

import json
import pathlib
import warnings

import pytest

from numjax.bundled import data
from numjax.bundled.data import folds


@pytest.mark.parametrize("counts", [(20, 3), (20, 20)])
def test_labels_that_some_folds_lack_are_remarked(tmp_path, monkeypatch, counts):
    builder = data.find_builder("answer_scoring")
    labels = [f"p{i}" for i, count in enumerate(counts) for _ in range(count)]
    monkeypatch.setattr(builder, "fold_criteria", lambda self, records: {"labels": labels[: len(records)]})
    built = data.prepare("answer_scoring", tmp_path, size=len(labels))
    remarks = pathlib.Path(built.data_dir) / "remarks.jsonl"
    texts = [json.loads(line)["reason"] for line in remarks.read_text().splitlines()] if remarks.exists() else []
    rare = [text for text in texts if "some of 5 folds lack it in test" in text]
    assert rare == [f"has {count} records: some of 5 folds lack it in test" for count in counts if count < 5]


def test_only_the_warning_on_rare_labels_is_left_out(monkeypatch):
    labels = ["a"] * 20 + ["b"] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folds.split_by_fold(22, 0, 5, 0, labels=labels)
    from sklearn.model_selection import KFold

    split = KFold.split

    def warn(self, *arguments):
        warnings.warn("the splits overlap", UserWarning, stacklevel=2)
        yield from split(self, *arguments)

    monkeypatch.setattr(KFold, "split", warn)
    with pytest.warns(UserWarning, match="overlap"):
        folds.split_by_fold(22, 0, 5, 0)
