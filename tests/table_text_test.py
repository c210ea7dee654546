"""Tables with texts: what is read of them, where it is cut, and that nothing of a test split is among them."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from numjax.bundled import data
from numjax.bundled.data.table_text.builder import _list_sources as sources_of
from numjax.bundled.data.table_text.builder import split_passages
from numjax.errors import DataError, UsageError
from numjax.tasks.table_text import Task
from numjax.text import document as documents
from numjax.types import Mark, Number

parse = functools.partial(documents.parse, rules="default")


def read(text: str, rows) -> list[str]:
    """The parts between marks of the document of a record."""
    example = Task().example({"id": "x", "text": text, "table": json.dumps(rows)}, parse)
    surface = documents.surface(example.document)
    assert surface.startswith("[CLS]") and surface.endswith("[SEP]")
    return surface.removeprefix("[CLS]").removesuffix("[SEP]").split("[SEP]")


def test_columns_come_one_after_the_other_without_empty_cells():
    assert read(" Eggs. ", [["year", "eggs", ""], ["2019", " 1,200 "], ["", "-5", "x"]]) == [
        "Eggs.",
        "year 2019 eggs 1,200 -5 x",
    ]
    assert read("Eggs.", []) == ["Eggs."] and read("", [["a"]]) == ["", "a"]


def test_what_is_too_much_is_cut():
    table = [[f"r{i}", "9" * 100 + " " + "8" * 100] for i in range(30)]
    text, cells = read("word " * 60 + "end", table)
    assert text == " ".join(["word"] * 51) and cells.split() == [*(f"r{i}" for i in range(20)), *["9" * 100] * 20]
    assert read("x" * 300, [["y" * 300]]) == ["x" * 256, "y" * 128]
    # No number is cut in two, whatever blank is before it; where there is none, there is no better place.
    for blank in " \n\t":
        assert read(blank.join(["123,456"] * 60), [["x"]])[0] == blank.join(["123,456"] * 32)
    numbers = " ".join(map(str, range(10, 20)))
    record = {"id": "x", "text": numbers, "table": json.dumps([["1 2 3 4 5", "6"]])}
    document = Task().example(record, parse).document
    at = document.index(Mark("[SEP]"))
    assert [s.surface for s in document[:at] if isinstance(s, Number)] == [str(n) for n in range(10, 17)]
    assert [s.surface for s in document[at:] if isinstance(s, Number)] == ["1", "2", "3", "6"]
    assert documents.surface(document) == f"[CLS]{numbers}[SEP]1 2 3 4 5 6[SEP]"


@pytest.mark.parametrize("table", ["{", "{}", "[1]", '[["a", 1]]', '["ab"]'])
def test_tables_of_another_form_are_one_line(table):
    with pytest.raises(DataError, match="field 'table' must be the JSON of a list of rows"):
        Task().example({"id": "x", "text": "a", "table": table}, parse)


def test_nothing_to_read_is_one_line():
    with pytest.raises(DataError, match="neither a text nor a table"):
        Task().example({"id": "x", "text": " ", "table": "[]"}, parse)


def test_passages_keep_every_word():
    text = "one two  three\n" * 40 + "x" * 700
    found = list(split_passages(text, 64))
    assert max(map(len, found)) <= 64 and all(part == part.strip() and part for part in found)
    assert "".join(found).replace(" ", "").replace("\n", "") == "".join(text.split())


def test_no_table_of_a_test_split_is_read(data_dir):
    sizes = {"tatqa": 60, "tabfact": 300}
    options: dict[str, Any] = {"contexts": 60, "statements": 300, "seed": 3}
    found = {split: list(data.load("table_text", split, data_dir, **options)) for split in ("train", "validation")}
    tables = {split: {record["table"] for record in records} for split, records in found.items()}
    assert {record["source"] for record in found["train"]} == {"tatqa", "tabfact"}
    assert len({r["id"] for records in found.values() for r in records}) == sum(map(len, found.values()))
    assert not tables["train"] & tables["validation"]
    for name in ("tatqa", "tabfact"):
        own = {"size": sizes[name], "seed": 3}
        known = {s: {r["table"] for r in data.load(name, s, data_dir, **own)} for s in ("train", "test")}
        mine = {record["table"] for record in found["train"] if record["source"] == name}
        assert mine and mine <= known["train"] and not mine & known["test"]
    # As in LUNA: questions are texts too, and no table is said to hold what it refutes.
    asked = {row["question"]: row["context"] for row in data.load("tatqa", "train", data_dir, size=60, seed=3)}
    true = [row["statement"] for row in data.load("tabfact", "train", data_dir, size=300, seed=3) if row["label"]]
    texts = {name: [r["text"] for r in found["train"] if r["source"] == name] for name in ("tatqa", "tabfact")}
    assert asked.keys() <= set(texts["tatqa"]) and len(texts["tatqa"]) > len(asked)
    assert texts["tabfact"] == true and 0 < len(true) < 300
    cut = list(data.load("table_text", "train", data_dir, **options, size=7))
    assert [r["source"] for r in cut] == ["tatqa"] * 7 + ["tabfact"] * 7 and all(r in found["train"] for r in cut)
    # Untold, a stand-in is the very one that a task without options divides.
    defaults = data.find_builder("table_text").complete_options({})
    for name, own in sources_of(defaults):
        assert own == data.find_builder(name).complete_options({})
    with pytest.raises(DataError, match="test split is empty"):
        data.load("table_text", "test", data_dir, **options)


def test_a_folder_of_text_has_passages_without_a_table(tmp_path, data_dir):
    (tmp_path / "a.txt").write_text("\n\n".join(f"In 20{i} it was {i}.5% " + "so " * 100 for i in range(10, 40)))
    found = list(data.load("table_text", "train", data_dir, text=str(tmp_path)))
    assert {record["table"] for record in found} == {"[]"} and max(len(r["text"]) for r in found) <= 256
    assert len(found) > 30 and all(record["id"].startswith("text/a.txt:") for record in found)
    with pytest.raises(UsageError, match="negative"):
        data.load("table_text", "train", data_dir, size=-1)
