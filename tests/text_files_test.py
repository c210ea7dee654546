"""Folders of text for pre-training: their records, and the files and lines that are left out and named."""

from __future__ import annotations

import gzip
import json
import pathlib

import pytest

from numjax.bundled import data
from numjax.errors import DataError

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPLITS = ("train", "validation", "test")


def join_splits(splits: dict[str, list[dict]]) -> list[dict]:
    return [record for records in splits.values() for record in records]


@pytest.fixture
def corpus(tmp_path) -> pathlib.Path:
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbffirst line\nsecond line\r\n\n  \nnext 1,234\n")
    (folder / "deep" / "b.txt.gz").write_bytes(gzip.compress(b"zipped\n\nagain\n"))
    (folder / "c.jsonl").write_text('{"text": "from json\\n\\nwith a gap"}\n\n{"text": "x", "more": 1}\n')
    (folder / "d.jsonl.gz").write_bytes(gzip.compress('{"text": "ŷ"}'.encode()))
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "notes.md").write_text("not read")
    return folder


WHOLE = {"validation": 0, "test": 0}
GOOD = {
    "a.txt:1": "first line\nsecond line",
    "a.txt:5": "next 1,234",
    "c.jsonl:1": "from json\n\nwith a gap",
    "c.jsonl:3": "x",
    "d.jsonl.gz:1": "ŷ",
    "deep/b.txt.gz:1": "zipped",
    "deep/b.txt.gz:3": "again",
}


def test_text_documents(corpus, tmp_path):
    records = data.load("text", "train", tmp_path, path=str(corpus), **WHOLE)
    assert {record["id"]: record["text"] for record in records} == GOOD
    assert records.skipped == []


def test_text_sample_gives_the_records_of_its_readme(tmp_path):
    lines = (ROOT / "data" / "text" / "sample.jsonl").read_text().splitlines()
    first, second, third = (json.loads(line) for line in lines)
    (tmp_path / "bridge.txt").write_text(f"{first['text']}\n\n{second['text']}\n")
    (tmp_path / "prices.jsonl").write_text(json.dumps({"text": third["text"]}))
    assert list(data.load("text", "train", tmp_path, path=str(tmp_path), **WHOLE)) == [first, second, third]


def test_text_bad_files_and_lines_are_named_and_nothing_else_is_lost(corpus, tmp_path):
    (corpus / "bad.txt").write_bytes(b"fine\n\nline\nnot \xff utf\n\nfine too\n")
    (corpus / "bad.jsonl").write_bytes(b'{"text": 3}\nno json\n"\xff"\n{"text": "kept"}\n' + b"[" * 100_000)
    (corpus / "empty.txt").write_bytes(b"")
    whole = gzip.compress(b"".join(b"document %d\n\n" % i for i in range(50_000)))
    (corpus / "cut.txt.gz").write_bytes(whole[: len(whole) // 2])
    (corpus / "not_gzip.txt.gz").write_bytes(b"plain")
    records = data.load("text", "train", tmp_path, path=str(corpus), **WHOLE)
    texts = {record["id"]: record["text"] for record in records}
    whole_texts = {name: text for name, text in texts.items() if not name.startswith("cut")}
    assert whole_texts == {**GOOD, "bad.txt:1": "fine", "bad.txt:6": "fine too", "bad.jsonl:4": "kept"}
    texts_before_cut = [text for name, text in texts.items() if name.startswith("cut")]
    assert (
        texts_before_cut == [f"document {i}" for i in range(len(texts_before_cut))] and len(texts_before_cut) > 1000
    )
    reasons = {line["id"]: line["reason"] for line in records.skipped}
    assert set(reasons) == {
        *(f"bad.jsonl:{n}" for n in (1, 2, 3, 5)),
        "bad.txt:3",
        "empty.txt",
        "cut.txt.gz",
        "not_gzip.txt.gz",
    }
    assert reasons["bad.txt:3"] == "not UTF-8 on line 4" and "cut short" in reasons["cut.txt.gz"]
    with pytest.raises(DataError, match=r"^bad.jsonl:1: "):
        data.load("text", "train", tmp_path / "strict", path=str(corpus), strict=True, **WHOLE)


def test_text_without_documents(tmp_path):
    (tmp_path / "empty").mkdir()
    for path, message in (("nowhere", "no such file"), ("empty", r"no \.txt, .* file there")):
        with pytest.raises(DataError, match=message):
            data.load("text", "train", tmp_path, path=str(tmp_path / path))
    (tmp_path / "empty" / "blank.txt").write_text("\n\n")
    with pytest.raises(DataError, match=r"no usable record: 1 left out, the first is blank\.txt: holds no document"):
        data.load("text", "train", tmp_path, path=str(tmp_path / "empty"))
    (tmp_path / "empty" / "one.txt").write_text("only one")
    with pytest.raises(DataError, match="the test split is empty"):
        data.load("text", "test", tmp_path, path=str(tmp_path / "empty"))


def test_text_overlong_lines_and_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("numjax.bundled.data.text.read.MAX_LINE", 100)
    monkeypatch.setattr("numjax.bundled.data.text.read.LONG_DOCUMENT", 50)
    (tmp_path / "long.txt").write_text("x" * 1000 + "\nrest\n\n" + "line of twenty chars\n" * 5)
    records = data.load("text", "train", tmp_path, path=str(tmp_path / "long.txt"), **WHOLE)
    assert [r["text"].count("line") for r in records] == [3, 2]
    assert [line["id"] for line in records.skipped] == ["long.txt:1"]


def test_text_splits_keep_equal_documents_together(tmp_path):
    (tmp_path / "many.txt").write_text("\n\n".join(f"document {i % 500}" for i in range(1000)))
    options = dict(path=str(tmp_path / "many.txt"), validation=0.2, test=0.2)
    texts = [{r["text"] for r in data.load("text", split, tmp_path, **options)} for split in SPLITS]
    assert sum(map(len, texts)) == 500 and all(len(part) > 50 for part in texts)
    other = {r["text"] for r in data.load("text", "test", tmp_path, **options, seed=1)}
    assert other != texts[2]
