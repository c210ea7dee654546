"""TAT-QA's form in files of one's own: what is odd or damaged is read rightly or named, and long tables take no
longer than they must."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax.errors import DataError
from numjax.runtime import log
from numjax.tasks import tatqa
from numjax.tasks.tatqa import labels, units
from numjax.tasks.tatqa import records as tatqa_records
from numjax.tasks.tatqa.answers import OPERATORS
from numjax.text import document as documents
from numjax.train import runs

LABELLED: dict[str, Any] = {"derivation": "", "answer_type": "span", "answer_from": "table", "scale": ""}


class Counted(tuple):
    """Entries, and how often one of them is read."""

    read = 0

    def __iter__(self):
        for one in super().__iter__():
            Counted.read += 1
            yield one

    def __getitem__(self, at):
        Counted.read += 1
        return super().__getitem__(at)


def test_labels_take_as_many_looks_as_there_are_cells():
    def looks(rows: int) -> int:
        table = [[f"Item {i}", *(str(10 * i + j) for j in range(4))] for i in range(rows)]
        found = units.make_context("What is named?", table, ["Some words here."])
        found = found._replace(units=Counted(found.units), pieces=Counted(found.pieces))
        before = Counted.read
        question = LABELLED | {"question": "What is named?", "answer": ["Item 3"], "rel_paragraphs": []}
        assert labels.find_labels(found, question) == labels.Labels("SPAN-TABLE", (15,))
        return Counted.read - before

    assert looks(80) < 2.2 * looks(40)


def asked_of(folder, table: str) -> list[tuple[str, Any]]:
    """What is made of a CSV file and one question beside it."""
    (folder / "report.csv").write_text(table)
    (folder / "report.txt").write_text("Q: What were sales?\n")
    return list(tatqa_records.from_file(str(folder / "report.csv")) or ())


def asked_in(folder, contexts: list) -> list[tuple[str, Any]]:
    """What is made of a JSON file."""
    (folder / "asked.json").write_text(json.dumps(contexts))
    return list(tatqa_records.from_file(str(folder / "asked.json")) or ())


def test_a_packed_file_is_read_as_the_plain_one(tmp_path):
    table = {"uid": "t", "table": [["", "2019"], ["Sales", "5"]]}
    one = {"table": table, "paragraphs": [], "questions": [{"uid": "q", "question": "What were sales?"}]}
    plain = asked_in(tmp_path, [one])
    packed = tmp_path / "asked.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "asked.json").read_bytes()))
    assert len(plain) == 1 and list(tatqa_records.from_file(str(packed)) or ()) == plain


def test_of_questions_with_one_uid_the_first_is_answered_and_the_others_are_named(tmp_path):
    def context(uid: str, *questions: tuple[str, str]) -> dict:
        asked = [{"uid": name, "question": text} for name, text in questions]
        return {"table": {"uid": uid, "table": [["", "2019"], ["Sales", "5"]]}, "questions": asked}

    given = [context("a", ("p", " "), ("p", "One?"), ("q", "Two?"), ("p", "Three?")), context("b", ("q", "Four?"))]
    found = asked_in(tmp_path, given)
    assert [one["question"] for _, one in found if not isinstance(one, ValueError)] == ["One?", "Two?"]
    assert [(uid, str(one)) for uid, one in found if isinstance(one, ValueError)] == [
        ("p", "it has no question"),
        *((uid, "a question before it has the same uid: give each its own") for uid in "pq"),
    ]


@pytest.mark.parametrize("text", ["1½", "1 ½", "$12¾ million", "½ 5", "(3⅓)", "⅟2"])
def test_a_number_with_a_fraction_beside_it_is_not_read_without_it(text):
    assert units.parse_value(text) is None
    found = units.parse_value("1,200²")
    assert found is not None and found.number == 1200, "a footnote is none"


def rows_of(folder, table: str) -> list[list[str]]:
    ((_, record),) = asked_of(folder, table)
    return json.loads(record["table"])


@pytest.mark.parametrize("blank", [";", "\t", ","])
def test_cells_are_parted_by_what_makes_rows_alike(blank, tmp_path):
    lines = ['in EUR|2019|"2018; old"', '"Sales, net"|"1,5"|2', "Costs|0|1", "Short"]
    rows = rows_of(tmp_path, "\n".join(lines).replace("|", blank))
    assert rows[:2] == [["in EUR", "2019", "2018; old"], ["Sales, net", "1,5", "2"]]
    assert rows[2:] == [["Costs", "0", "1"], ["Short", "", ""]]


def test_decimal_commas_part_no_cells(tmp_path):
    assert rows_of(tmp_path, "in EUR;2019;2018\nSales;1,5;2,25\nCosts;0,5;1\n")[1] == ["Sales", "1,5", "2,25"]
    assert rows_of(tmp_path, "Sales\n300\n") == [["Sales"], ["300"]], "one column"
    assert rows_of(tmp_path, "Sales;1,5;2,25\nCosts;0,5;1,75\n")[0] == ["Sales", "1,5", "2,25"], "all rows"
    assert rows_of(tmp_path, "in EUR;net,2019,2018\nCosts;all,5,7\n")[1] == ["Costs;all", "5", "7"], "the wider table"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("1,5", "1.5"),
            ("0,25", "0.25"),
            ("1,746", "1746"),
            ("12,345,678.9", "12345678.9"),
            ("1,00,000", "100000"),
        ),
        *(("2019,", "2019"), ("1,2,3", None), ("1,5.2", None), ("$—", "0"), ("$ —", "0"), ("—%", "0"), ("$(—)", "0")),
        *(("9" * 100, "9" * 100), ("9" * 101, None), ("a-", None)),
        *(("1 200", "1200"), ("1\u00a0200,5", "1200.5"), ("-1'200.50", "-1200.5"), ("12 345 678 EUR", "12345678")),
        *(("1.200,50", "1200.5"), ("1.234.567", "1234567"), ("(1.234.567,8)", "-1234567.8"), ("1.200", "1.2")),
        *(("1e5", "100000"), ("1.5e-9", "1.5e-9"), ("2e", "2"), ("2019 (1)", "2019"), ("5 (1)[2]", "5")),
        *((text, None) for text in ("12/31/2019", "10:30", "(1) 200", "5 to 7", "2019 2018", "1.2.3", "0.500,5")),
        *(
            (text, None)
            for text in ("12345 678", "1 200'300", "1 2000", "1.200.50", "1,200 (12.5%)", "1e5000", "1e5e")
        ),
    ],
)
def test_numbers_of_units(text, number):
    found = units.parse_value(text)
    assert (found and found.number) == (None if number is None else Decimal(number))


def test_what_was_cut_off_is_no_answer(tmp_path):
    """Units without a position are neither chosen nor the operands of a difference."""
    ((_, record),) = asked_of(tmp_path, "h,2019\nSales,50\nCosts,100\n")
    task = tatqa.Task()
    example = task.example(record, documents.parse)
    known = np.full(len(example.units), 0.01, np.float32)
    known[[place for place, unit in enumerate(example.units) if unit[3]][1:]] = -1  # all numbers but the first
    for operator, answer in (("SUM", 2019), ("DIFF", "")):
        said = np.r_[OPERATORS.index(operator), 0, 0, 0, known]
        assert task.make_prediction(example, said)[0]["answer"] == answer
    known[:] = -1
    assert task.make_prediction(example, np.r_[OPERATORS.index("SPAN-TEXT"), 0, 0, 0, known])[0]["answer"] == ""


def test_an_answer_is_always_json(tmp_path):
    large = "9" * 100
    ((_, record),) = asked_of(tmp_path, f"h,{large},{large},{large},{large}\nSales,1,2,3,4\n")
    task = tatqa.Task()
    example = task.example(record, documents.parse)
    said = np.r_[OPERATORS.index("TIMES"), 0, 0, 0, np.ones(len(example.units))]
    assert task.make_prediction(example, said)[0]["answer"] == "", "10^400 is no double"
    assert log.to_json_line({"a": [float("inf"), -float("inf"), float("nan"), 1.5], "b": "NaN"}) == (
        '{"a": [null, null, null, 1.5], "b": "NaN"}'
    )


def test_rows_that_were_filled_up_are_told(tmp_path, capsys):
    ((_, record),) = asked_of(tmp_path, "year,revenue,cost\n2019,1,200,900\n")
    said = {"id": "report-0", "prediction": {"answer": 1.0}}
    model = SimpleNamespace(predict=lambda records, strict, skipped: [said])
    runs.predict(model, [record], [], tmp_path, strict=False)
    told = "mended report-0: its rows differ in length (row 2 has 4 cells, the first 3): filled up with empty cells"
    assert told in capsys.readouterr().err
    ((_, record),) = asked_of(tmp_path, "year,revenue,cost\n\n2019,1,200\n\n")
    assert "mended" not in record, "empty lines are no rows"


def test_a_ragged_table_of_a_record_is_told():
    table = json.dumps([["year", "revenue", "cost"], [2019, 200]])
    record = {"id": "own", "table": table, "paragraphs": "[]", "question": "What was revenue?"}
    example = tatqa.Task().example(tatqa_records.UNANSWERED | record, documents.parse)
    assert example.unread.startswith("its rows differ in length (row 2 has 2 cells, the first 3): filled up")
    even = record | {"table": json.dumps([["year", "revenue"], [2019, 200]])}
    assert not tatqa.Task().example(tatqa_records.UNANSWERED | even, documents.parse).unread


def test_a_blank_before_a_quotation_mark_parts_no_cell(tmp_path):
    assert rows_of(tmp_path, 'year, revenue\n2019, "1,200"\n2018, "1,100"\n')[1] == ["2019", "1,200"]
    assert rows_of(tmp_path, "year\t revenue\n2019\t \n")[1] == ["2019", " "]


@pytest.mark.parametrize("begin", ["Q:", "q: ", "Question: ", "  QUESTION :"])
def test_questions_begin_with_a_word_for_it(begin, tmp_path):
    (tmp_path / "report.csv").write_text("h,2019\nSales,3\n")
    (tmp_path / "report.txt").write_text(f"Sales rose.\n{begin}What were sales?\nQuality: it was fine.\n")
    ((_, record),) = list(tatqa_records.from_csv(tmp_path / "report.csv"))
    assert record["question"] == "What were sales?"
    assert json.loads(record["paragraphs"]) == ["Sales rose.", "Quality: it was fine."]


def test_what_is_lacking_beside_a_table_is_said(tmp_path):
    (tmp_path / "report.csv").write_text("h,2019\nSales,3\n")
    with pytest.raises(DataError, match=r"report\.txt: not there: put the paragraphs into it, and each question"):
        list(tatqa_records.from_csv(tmp_path / "report.csv"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": 2}\n', r"line 2: name it \.jsonl"),
        (b'[{"table":', "breaks off or is wrong at line 1: write it again"),
        (b"", "breaks off or is wrong at line 1: write it again"),
        ('[{"table": "é"}]'.encode("latin-1"), "not UTF-8 at byte 12; convert it"),
        (b"[" * 100_000, "nests too deeply"),
        (b"[" + b"1" * 5000 + b"]", "is endless"),
    ],
)
def test_json_that_cannot_be_read_is_one_line(content, message, tmp_path):
    (tmp_path / "asked.json").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(tatqa_records.from_file(str(tmp_path / "asked.json")) or ())


def test_an_answer_that_cannot_be_used_is_none(tmp_path):
    """What is asked is answered all the same, and told."""
    table = {"uid": "t", "table": [["", "2019"], ["Sales", float("nan")]]}
    own = {"answer": "abc", "answer_type": "arithmetic", "answer_from": "table", "scale": "", "derivation": ""}
    one = {"table": table, "questions": [{"uid": "q", "question": "What were sales?"} | own]}
    ((_, record),) = asked_in(tmp_path, [one])
    assert record["mended"] == "taken to be without an answer: its answer 'abc' is no number"
    assert json.loads(record["table"])[1] == ["Sales", ""]
    for cell in ({"x": 1}, True):
        one["table"] = {"uid": "t", "table": [["", "2019"], ["Sales", cell]]}
        ((_, error),) = asked_in(tmp_path, [one])
        assert "a cell must be a text or a number" in str(error)
    flat = {"id": "1", "question": "What were sales?", "table": [["", "2019"], ["Sales", 3]]}
    example = tatqa.Task().example(tatqa_records.UNANSWERED | flat, documents.parse)
    assert example.units and example.labels["operator"] == -1


@pytest.mark.parametrize("table", ["[" * 100_000, '{"a": 1}'])
def test_records_of_ones_own_hold_lists_or_their_json(table):
    record = {"id": "1", "question": "What were sales?", "paragraphs": ["Sales rose."], **tatqa_records.UNANSWERED}
    assert tatqa.Task().example(record | {"table": [["", "2019"], ["Sales", 3]]}, documents.parse).units
    with pytest.raises(DataError, match="'table'"):
        tatqa.Task().example(record | {"table": table}, documents.parse)


def test_absurd_answers_and_derivations_are_named():
    with pytest.raises(ValueError, match="is no number"):
        tatqa_records.parse_gold(10**400, "arithmetic")
    assert list(labels.parse_derivation("-" * 100_000 + "1", "")) == []


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ('h,2019\n"Sales,3\nx,5\n', 2),
        ('h,2019\nSales,3\n"Costs; other,2\nx; y,5\n', 3),
        ('h;2019\nSales;3,5\nx;"5,1\n', 3),
        ('"h",2019\n"a\nb",3\n"Sales" net,3\n', 4),
    ],
)
def test_a_table_that_breaks_off_is_one_line(table, line, tmp_path):
    with pytest.raises(DataError, match=rf"report\.csv: line {line} begins no row of a table .*quotation marks"):
        asked_of(tmp_path, table)


def test_long_cells_are_read_and_endless_ones_named(tmp_path):
    for cell in ("9" * 10_000, "word " * 2_000):
        ((_, record),) = asked_of(tmp_path, f"h,2019\nSales,{cell}\n")
        example = tatqa.Task().example(record, documents.parse)
        assert cell.strip() in documents.surface(example.document)
    ((name, error),) = asked_of(tmp_path, f"h,2019\nSales,{'9' * 140_000}\n")
    assert name == "report-0" and "140,000 characters" in str(error)


def test_questions_of_a_context_that_cannot_be_used_are_named(tmp_path):
    bad = [
        {"table": {"uid": "t", "table": []}, "questions": [{"uid": "q1", "question": "a"}, {"question": "b"}]},
        {"table": {"uid": "u", "table": [["1"]]}, "paragraphs": 3, "questions": [{"uid": "q3"}]},
        {"table": {"uid": "v", "table": [["1"]]}, "questions": []},
    ]
    found = dict(asked_in(tmp_path, bad))
    assert {name: str(error) for name, error in found.items()} == {
        "q1": "its table is empty",
        "t-1": "its table is empty",
        "q3": "its paragraphs are no list",
        "v": "it has no questions",
    }


@pytest.mark.parametrize(
    "given",
    [{"answer": None}, {"answer": ""}, {"answer": [], "answer_type": "span"}, {"answer": "5", "answer_type": None}],
)
def test_what_has_no_answer_or_no_type_is_unanswered(given, tmp_path):
    one: dict[str, Any] = {"table": {"uid": "t", "table": [["", "2019"], ["Sales", "3"]]}}
    one["questions"] = [{"uid": "q", "question": "What were sales?"} | given]
    ((_, record),) = asked_in(tmp_path, [one])
    example = tatqa.Task().example(record, documents.parse)
    assert example.labels["operator"] == example.labels["scale"] == -1
    # What is to be trained on must have both.
    ((_, error),) = tatqa_records.from_contexts([one], "train")
    assert isinstance(error, ValueError)


def test_nought_is_an_answer(tmp_path):
    one: dict[str, Any] = {"table": {"uid": "t", "table": [["", "2019"], ["Sales", "3"]]}}
    own = {"answer": 0, "answer_type": "arithmetic", "answer_from": "table", "scale": "", "derivation": "3-3"}
    one["questions"] = [{"uid": "q", "question": "What was the change?"} | own]
    ((_, record),) = asked_in(tmp_path, [one])
    assert record["answer"] == "0" and record["answer_type"] == "arithmetic"
