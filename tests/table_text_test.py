"""Tables with texts: their documents, where these are cut, and that no record comes from a test split."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from numjax.bundled import data
from numjax.bundled.data.table_text.builder import _list_sources as list_sources
from numjax.bundled.data.table_text.builder import split_passages
from numjax.errors import DataError, UsageError
from numjax.tasks.table_text import Task
from numjax.text import document as documents
from numjax.types import Mark, Number

parse = functools.partial(documents.parse, rules="default")


def split_document(text: str, rows) -> list[str]:
    """Returns the parts between the marks of a record's document."""
    example = Task().example({"id": "x", "text": text, "table": json.dumps(rows)}, parse)
    surface = documents.surface(example.document)
    assert surface.startswith("[CLS]") and surface.endswith("[SEP]")
    return surface.removeprefix("[CLS]").removesuffix("[SEP]").split("[SEP]")


def test_columns_come_one_after_the_other_without_empty_cells():
    assert split_document(" Eggs. ", [["year", "eggs", ""], ["2019", " 1,200 "], ["", "-5", "x"]]) == [
        "Eggs.",
        "year 2019 eggs 1,200 -5 x",
    ]
    assert split_document("Eggs.", []) == ["Eggs."] and split_document("", [["a"]]) == ["", "a"]


def test_long_texts_and_tables_are_cut():
    table = [[f"r{i}", "9" * 100 + " " + "8" * 100] for i in range(30)]
    text, cells = split_document("word " * 60 + "end", table)
    assert text == " ".join(["word"] * 51) and cells.split() == [*(f"r{i}" for i in range(20)), *["9" * 100] * 20]
    assert split_document("x" * 300, [["y" * 300]]) == ["x" * 256, "y" * 128]
    # No number is cut in two, whatever blank precedes it; without a blank, the cut is at the limit.
    for blank in " \n\t":
        assert split_document(blank.join(["123,456"] * 60), [["x"]])[0] == blank.join(["123,456"] * 32)
    numbers = " ".join(map(str, range(10, 20)))
    record = {"id": "x", "text": numbers, "table": json.dumps([["1 2 3 4 5", "6"]])}
    document = Task().example(record, parse).document
    separator = document.index(Mark("[SEP]"))
    assert [s.surface for s in document[:separator] if isinstance(s, Number)] == [str(n) for n in range(10, 17)]
    assert [s.surface for s in document[separator:] if isinstance(s, Number)] == ["1", "2", "3", "6"]
    assert documents.surface(document) == f"[CLS]{numbers}[SEP]1 2 3 4 5 6[SEP]"


@pytest.mark.parametrize("table", ["{", "{}", "[1]", '[["a", 1]]', '["ab"]'])
def test_malformed_tables_are_refused_in_one_line(table):
    with pytest.raises(DataError, match="field 'table' must be the JSON of a list of rows"):
        Task().example({"id": "x", "text": "a", "table": table}, parse)


def test_a_text_may_have_no_table_and_a_table_no_text():
    text, table = (
        Task().example({"id": "x"} | parts, parse)
        for parts in ({"text": "It was 5.", "table": ""}, {"text": "", "table": '[["a", "7"]]'})
    )
    assert [sum(isinstance(s, Number) for s in example.document) for example in (text, table)] == [1, 1]
    assert text.document[-1] == table.document[-1] == Mark("[SEP]")
    assert text.document.count(Mark("[SEP]")) == 1 and table.document.count(Mark("[SEP]")) == 2


def test_empty_input_is_refused_in_one_line():
    with pytest.raises(DataError, match="neither a text nor a table"):
        Task().example({"id": "x", "text": " ", "table": "[]"}, parse)


def test_passages_keep_every_word():
    text = "one two  three\n" * 40 + "x" * 700
    passages = list(split_passages(text, 64))
    assert max(map(len, passages)) <= 64 and all(passage == passage.strip() and passage for passage in passages)
    assert "".join(passages).replace(" ", "").replace("\n", "") == "".join(text.split())


def test_no_table_of_a_test_split_is_used(data_dir):
    sizes = {"tatqa": 60, "tabfact": 300}
    options: dict[str, Any] = {"contexts": 60, "statements": 300, "seed": 3}
    splits = {split: list(data.load("table_text", split, data_dir, **options)) for split in ("train", "validation")}
    tables = {split: {record["table"] for record in records} for split, records in splits.items()}
    assert {record["source"] for record in splits["train"]} == {"tatqa", "tabfact"}
    assert len({r["id"] for records in splits.values() for r in records}) == sum(map(len, splits.values()))
    assert not tables["train"] & tables["validation"]
    for name in ("tatqa", "tabfact"):
        own_options = {"size": sizes[name], "seed": 3}
        own_splits = {s: {r["table"] for r in data.load(name, s, data_dir, **own_options)} for s in ("train", "test")}
        source_tables = {record["table"] for record in splits["train"] if record["source"] == name}
        assert source_tables and source_tables <= own_splits["train"] and not source_tables & own_splits["test"]
    # As in LUNA: questions are texts too, and refuted statements are left out.
    contexts = {row["question"]: row["context"] for row in data.load("tatqa", "train", data_dir, size=60, seed=3)}
    true_statements = [
        row["statement"] for row in data.load("tabfact", "train", data_dir, size=300, seed=3) if row["label"]
    ]
    texts = {name: [r["text"] for r in splits["train"] if r["source"] == name] for name in ("tatqa", "tabfact")}
    assert contexts.keys() <= set(texts["tatqa"]) and len(texts["tatqa"]) > len(contexts)
    assert texts["tabfact"] == true_statements and 0 < len(true_statements) < 300
    small = list(data.load("table_text", "train", data_dir, **options, size=7))
    assert [r["source"] for r in small] == ["tatqa"] * 7 + ["tabfact"] * 7 and all(
        r in splits["train"] for r in small
    )
    # Without options, a stand-in is that of its task without options.
    defaults = data.find_builder("table_text").complete_options({})
    for name, own_options in list_sources(defaults):
        assert own_options == data.find_builder(name).complete_options({})
    with pytest.raises(DataError, match="test split is empty"):
        data.load("table_text", "test", data_dir, **options)


def test_a_folder_of_text_has_passages_without_a_table(tmp_path, data_dir):
    (tmp_path / "a.txt").write_text("\n\n".join(f"In 20{i} it was {i}.5% " + "so " * 100 for i in range(10, 40)))
    records = list(data.load("table_text", "train", data_dir, text=str(tmp_path)))
    assert {record["table"] for record in records} == {"[]"} and max(len(r["text"]) for r in records) <= 256
    assert len(records) > 30 and all(record["id"].startswith("text/a.txt:") for record in records)
    with pytest.raises(UsageError, match="negative"):
        data.load("table_text", "train", data_dir, size=-1)
