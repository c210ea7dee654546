"""Problems in NUPA's form from a folder, and the table that compares its tasks with ours."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from numjax.build import build
from numjax.bundled import data as datasets
from numjax.bundled.data.arithmetic import nupa
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.errors import DataError, UsageError
from numjax.text import document as documents

ROOT = pathlib.Path(__file__).resolve().parents[1]
HINT = "Directly return the answer as a float without any comma separator, like 10.4 ."


def make_groups(digits: int, count: int) -> dict[str, dict[str, list]]:
    numbers = range(10**digits, 10**digits + count)
    return {
        "add_Integer_Integer_Integer": {str(digits): [f"Add two numbers: {n} + {n} = {2 * n}" for n in numbers]},
        "max_Float_Float_Float": {
            str(digits): [f"{HINT} Get the maximal number: {n}.5 and {n}.25 = {n}.5" for n in numbers]
        },
        "to_float_Fraction_Float": {str(digits): [f"Convert the number to float: {n}/2 = {n / 2}" for n in numbers]},
        "to_scient_Integer_Scientific": {
            str(digits): [f"Convert the number to scientific notation: 50400 = 5.04e{n}" for n in numbers]
        },
    }


@pytest.fixture
def folder(tmp_path):
    groups = {"train": make_groups(1, 20), "valid": make_groups(2, 5), "test": make_groups(3, 6)}
    groups["test"]["add_Integer_Integer_Integer"]["3"] += [17, "no answer", "= 5"]
    for split, content in groups.items():
        (tmp_path / f"{split}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_folder_becomes_records(folder, tmp_path):
    options: Any = {"path": str(folder), "operations": "all", "data_dir": str(tmp_path / "built")}
    options |= {"test": 4, "size": 40}
    records = {
        split: list(datasets.load("arithmetic", split, **options)) for split in ("train", "validation", "test")
    }
    assert {split: len(rows) for split, rows in records.items()} == {"train": 40, "validation": 16, "test": 16}
    first = records["test"][4]
    assert first["question"] == f"{HINT} Get the maximal number: 1000.5 and 1000.25 =" and first["answer"] == "1000.5"
    assert (first["operation"], first["operator"], first["stream"]) == ("max_float", "max float", "length 3")
    assert first["operands"] == "1000.5 | 1000.25"
    assert {r["operation"] for r in records["train"]} == {
        *("add_integer", "max_float", "to_float_fraction", "to_scient_integer"),
    }
    everything = datasets.load("arithmetic", "test", **options | {"test": 50})
    reasons = {note["id"]: note["reason"] for note in everything.skipped}
    assert reasons == {
        "test.json:add_Integer_Integer_Integer:3:6": "it is no text",
        "test.json:add_Integer_Integer_Integer:3:7": 'it has no "=" between a question and an answer',
        "test.json:add_Integer_Integer_Integer:3:8": 'it has no "=" between a question and an answer',
    }


def test_the_true_answers_are_right_and_spellings_count(folder, tmp_path):
    task = build("tasks", {"name": "arithmetic", "operations": "all", "path": str(folder)})
    records = datasets.load(**task.dataset, split="test", data_dir=str(tmp_path / "built"))
    examples = [task.example(record, documents.parse) for record in records]
    golds = [example.reference["answer"] for example in examples]
    assert set(task.score(golds, [example.reference for example in examples]).values()) == {1.0}
    spelled = [re.sub(r"5\.04e(.*)", lambda m: f"50.4e{int(m[1]) - 1}", gold) for gold in golds]  # of the same value
    assert spelled != golds
    metrics = task.score(spelled, [example.reference for example in examples])
    assert metrics["exact/to_scient_integer"] == 0 and metrics["exact/max_float"] == 1


def test_tasks_can_be_chosen(folder):
    def choose(operations: str) -> set[str]:
        return {problem.operation for _, problem in nupa.read_records(str(folder), operations, 100, 100)}

    assert choose("add+max_float") == {"add_integer", "max_float"} and choose("to_float") == {"to_float_fraction"}
    with pytest.raises(UsageError, match=r"has no 'sqrt'; it has add_integer, max_float"):
        choose("sqrt+add")


def test_other_files_are_one_line(tmp_path):
    with pytest.raises(DataError, match=r"no train\.json, valid\.json, test\.json there"):
        nupa.find_files(str(tmp_path))
    for content, says in [
        ([], "it is no object of tasks"),
        ({"max": {}}, "'max' is no name of a task"),
        ({"max_Float_Float_Float": ["1 = 1"]}, "is no object of numbers of digits"),
        ({"max_Float_Float_Float": {"3": "1 = 1"}}, "with 3 digits is no list"),
    ]:
        (tmp_path / "test.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=says):
            list(nupa.read_records(str(tmp_path), "all", 10, 10))
    (tmp_path / "test.json").write_text('{"max_Float')
    with pytest.raises(DataError, match="the JSON breaks off"):
        list(nupa.read_records(str(tmp_path), "all", 10, 10))
    with pytest.raises(UsageError, match="may be fractions"):
        build("tasks", {"name": "arithmetic", "path": str(tmp_path), "answer": "number"})


def test_all_combinations_have_a_match_in_the_readme():
    counts = {kind: sum(k == kind for _, k in nupa.MATCHES) for kind in nupa.REPRESENTATIONS}
    assert counts == {"integer": 16, "float": 12, "fraction": 7, "scientific": 6}
    assert {match.operation for match in nupa.MATCHES.values()} <= {*OPERATIONS, ""}
    readme = (ROOT / "data" / "arithmetic" / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## NUPA")[2]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|(.*)\|(.*)\|$", table, re.MULTILINE)
    cells = {
        (task, kind): cell.strip()
        for task, *row in rows
        for kind, cell in zip(nupa.REPRESENTATIONS, row, strict=True)
        if cell.strip() != "–"
    }
    shown = {
        key: "none" if not match.operation else f"{'' if match.is_same else '≈ '}`{match.operation}`"
        for key, match in nupa.MATCHES.items()
    }
    assert cells == shown
