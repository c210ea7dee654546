"""Users' own files in TAT-QA's form: odd input is parsed rightly, damaged input is named, and long tables take
linear time."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from numjax.errors import DataError
from numjax.modes.predict import predict_records
from numjax.runtime import log
from numjax.tasks import tatqa
from numjax.tasks.tatqa import labels, units
from numjax.tasks.tatqa import records as tatqa_records
from numjax.tasks.tatqa.answers import OPERATORS, SCALES, SHARES
from numjax.text import document as documents
from tests.runs_test import make_model

LABELLED: dict[str, Any] = {"derivation": "", "answer_type": "span", "answer_from": "table", "scale": ""}


class CountedEntries(tuple):
    """Entries that count the accesses to them."""

    n_accesses = 0

    def __iter__(self):
        for entry in super().__iter__():
            CountedEntries.n_accesses += 1
            yield entry

    def __getitem__(self, index):
        CountedEntries.n_accesses += 1
        return super().__getitem__(index)


def test_the_time_to_find_labels_is_linear_in_the_cells():
    def count_accesses(n_rows: int) -> int:
        table = [[f"Item {i}", *(str(10 * i + j) for j in range(4))] for i in range(n_rows)]
        context = units.make_context("What is named?", table, ["Some words here."])
        context = context._replace(units=CountedEntries(context.units), pieces=CountedEntries(context.pieces))
        n_before = CountedEntries.n_accesses
        question = LABELLED | {"question": "What is named?", "answer": ["Item 3"], "rel_paragraphs": []}
        assert labels.find_labels(context, question) == labels.Labels("SPAN-TABLE", (15,))
        return CountedEntries.n_accesses - n_before

    assert count_accesses(80) < 2.2 * count_accesses(40)


def parse_csv(folder, table: str) -> list[tuple[str, Any]]:
    """Returns the records of a CSV file with one question beside it."""
    (folder / "report.csv").write_text(table)
    (folder / "report.txt").write_text("Q: What were sales?\n")
    return list(tatqa_records.from_file(str(folder / "report.csv")) or ())


def parse_json(folder, contexts: list) -> list[tuple[str, Any]]:
    """Returns the records of a JSON file."""
    (folder / "asked.json").write_text(json.dumps(contexts))
    return list(tatqa_records.from_file(str(folder / "asked.json")) or ())


def test_a_packed_file_gives_the_records_of_the_plain_one(tmp_path):
    table = {"uid": "t", "table": [["", "2019"], ["Sales", "5"]]}
    context = {"table": table, "paragraphs": [], "questions": [{"uid": "q", "question": "What were sales?"}]}
    records = parse_json(tmp_path, [context])
    packed = tmp_path / "asked.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "asked.json").read_bytes()))
    assert len(records) == 1 and list(tatqa_records.from_file(str(packed)) or ()) == records


def test_the_first_question_of_a_uid_is_answered_and_the_others_are_named(tmp_path):
    def make_context(uid: str, *questions: tuple[str, str]) -> dict:
        entries = [{"uid": name, "question": text} for name, text in questions]
        return {"table": {"uid": uid, "table": [["", "2019"], ["Sales", "5"]]}, "questions": entries}

    contexts = [
        make_context("a", ("p", " "), ("p", "One?"), ("q", "Two?"), ("p", "Three?")),
        make_context("b", ("q", "Four?")),
    ]
    records = parse_json(tmp_path, contexts)
    assert [one["question"] for _, one in records if not isinstance(one, ValueError)] == ["One?", "Two?"]
    assert [(uid, str(one)) for uid, one in records if isinstance(one, ValueError)] == [
        ("p", "it has no question"),
        *((uid, "a question before it has the same uid: give each its own") for uid in "pq"),
    ]


@pytest.mark.parametrize("text", ["1½", "1 ½", "$12¾ million", "½ 5", "(3⅓)", "⅟2"])
def test_a_number_beside_a_fraction_is_not_parsed(text):
    assert units.parse_value(text) is None
    value = units.parse_value("1,200²")
    assert value is not None and value.number == 1200, "a footnote is no fraction"


def parse_rows(folder, table: str) -> list[list[str]]:
    ((_, record),) = parse_csv(folder, table)
    return json.loads(record["table"])


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_the_delimiter_is_the_one_that_makes_rows_equally_long(delimiter, tmp_path):
    lines = ['in EUR|2019|"2018; old"', '"Sales, net"|"1,5"|2', "Costs|0|1", "Short"]
    rows = parse_rows(tmp_path, "\n".join(lines).replace("|", delimiter))
    assert rows[:2] == [["in EUR", "2019", "2018; old"], ["Sales, net", "1,5", "2"]]
    assert rows[2:] == [["Costs", "0", "1"], ["Short", "", ""]]


def test_decimal_commas_separate_no_cells(tmp_path):
    assert parse_rows(tmp_path, "in EUR;2019;2018\nSales;1,5;2,25\nCosts;0,5;1\n")[1] == ["Sales", "1,5", "2,25"]
    assert parse_rows(tmp_path, "Sales\n300\n") == [["Sales"], ["300"]], "one column"
    assert parse_rows(tmp_path, "Sales;1,5;2,25\nCosts;0,5;1,75\n")[0] == ["Sales", "1,5", "2,25"], "all rows"
    assert parse_rows(tmp_path, "in EUR;net,2019,2018\nCosts;all,5,7\n")[1] == ["Costs;all", "5", "7"], (
        "the wider table"
    )


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
    value = units.parse_value(text)
    assert (value and value.number) == (None if number is None else Decimal(number))


def test_units_without_a_position_are_no_answer(tmp_path):
    """Units that were cut off are neither selected nor operands of a difference."""
    ((_, record),) = parse_csv(tmp_path, "h,2019\nSales,50\nCosts,100\n")
    task = tatqa.Task()
    example = task.example(record, documents.parse)
    scores = np.full(len(example.units), 0.01, np.float32)
    scores[[index for index, unit in enumerate(example.units) if unit[3]][1:]] = -1  # all numbers but the first
    for operator, answer in (("SUM", 2019), ("DIFF", "")):
        output = np.r_[OPERATORS.index(operator), 0, 0, 0, scores]
        assert task.make_prediction(example, output)[0]["answer"] == answer
    scores[:] = -1
    assert task.make_prediction(example, np.r_[OPERATORS.index("SPAN-TEXT"), 0, 0, 0, scores])[0]["answer"] == ""


@pytest.mark.parametrize("n_rows", [30, 31, 60])
def test_a_share_is_of_its_whole_column_however_long(n_rows, tmp_path):
    """Traits have the row of a cell up to 31; the cells that are summed have their own."""
    text = "region,2019\n" + "".join(f"r{i},{i}\n" for i in range(1, n_rows + 1))
    ((_, record),) = parse_csv(tmp_path, text)
    task = tatqa.Task(traits=True)
    example = task.example(record, documents.parse)
    surface = documents.surface(example.document)
    scores = np.full(len(example.units), 0.01, np.float32)
    (at,) = (i for i, (start, end, *_) in enumerate(example.units) if surface[start:end] == "5")
    scores[at] = 0.9
    output = np.r_[len(OPERATORS) + SHARES.index("SHARE-COLUMN"), SCALES.index("percent"), 0, 0, scores]
    answer = task.make_prediction(example, output)[0]["answer"]
    assert float(answer) == pytest.approx(100 * 5 / sum(range(1, n_rows + 1)), abs=0.006)


@pytest.mark.parametrize("mapping", ["[[[1],1]]", "[[1]]", "5", '["a"]', "[[-1, 0]]"])
def test_evidence_that_names_no_cells_is_left_out(mapping, tmp_path):
    ((_, record),) = parse_csv(tmp_path, "h,2019\nSales,50\nCosts,100\n")
    answered = {"answer": '["Sales"]', "answer_type": "span", "answer_from": "table", "scale": "", "derivation": ""}
    wanted = tatqa.Task().example(record | answered | {"mapping": "[]"}, documents.parse)
    assert repr(tatqa.Task().example(record | answered | {"mapping": mapping}, documents.parse)) == repr(wanted)


def test_an_answer_is_always_json(tmp_path):
    large = "9" * 100
    ((_, record),) = parse_csv(tmp_path, f"h,{large},{large},{large},{large}\nSales,1,2,3,4\n")
    task = tatqa.Task()
    example = task.example(record, documents.parse)
    output = np.r_[OPERATORS.index("TIMES"), 0, 0, 0, np.ones(len(example.units))]
    assert task.make_prediction(example, output)[0]["answer"] == "", "10^400 is no double"
    assert log.to_json({"a": [float("inf"), -float("inf"), float("nan"), 1.5], "b": "NaN"}) == (
        '{"a": [null, null, null, 1.5], "b": "NaN"}'
    )


def test_rows_that_were_filled_up_are_reported(tmp_path, capsys):
    ((_, record),) = parse_csv(tmp_path, "year,revenue,cost\n2019,1,200,900\n")
    prediction = {"id": "report-0", "prediction": {"answer": 1.0}}
    predict_records(make_model([prediction]), [record], [], tmp_path, strict=False)
    message = (
        "mended report-0: its rows differ in length (row 2 has 4 cells, the first 3): filled up with empty cells"
    )
    assert message in capsys.readouterr().err
    ((_, record),) = parse_csv(tmp_path, "year,revenue,cost\n\n2019,1,200\n\n")
    assert "mended" not in record, "empty lines are no rows"


def test_a_ragged_table_of_a_record_is_reported():
    table = json.dumps([["year", "revenue", "cost"], [2019, 200]])
    record = {"id": "own", "table": table, "paragraphs": "[]", "question": "What was revenue?"}
    example = tatqa.Task().example(tatqa_records.UNANSWERED | record, documents.parse)
    assert example.unread.startswith("its rows differ in length (row 2 has 2 cells, the first 3): filled up")
    even = record | {"table": json.dumps([["year", "revenue"], [2019, 200]])}
    assert not tatqa.Task().example(tatqa_records.UNANSWERED | even, documents.parse).unread


def test_a_blank_before_a_quotation_mark_separates_no_cell(tmp_path):
    assert parse_rows(tmp_path, 'year, revenue\n2019, "1,200"\n2018, "1,100"\n')[1] == ["2019", "1,200"]
    assert parse_rows(tmp_path, "year\t revenue\n2019\t \n")[1] == ["2019", " "]


@pytest.mark.parametrize("begin", ["Q:", "q: ", "Question: ", "  QUESTION :"])
def test_questions_begin_with_q_or_question(begin, tmp_path):
    (tmp_path / "report.csv").write_text("h,2019\nSales,3\n")
    (tmp_path / "report.txt").write_text(f"Sales rose.\n{begin}What were sales?\nQuality: it was fine.\n")
    ((_, record),) = list(tatqa_records.from_csv(tmp_path / "report.csv"))
    assert record["question"] == "What were sales?"
    assert json.loads(record["paragraphs"]) == ["Sales rose.", "Quality: it was fine."]


def test_a_missing_text_beside_a_table_is_named(tmp_path):
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
def test_malformed_json_is_refused_in_one_line(content, message, tmp_path):
    (tmp_path / "asked.json").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(tatqa_records.from_file(str(tmp_path / "asked.json")) or ())


def test_an_unusable_answer_is_left_out(tmp_path):
    """The question is answered all the same, and the change is reported."""
    table = {"uid": "t", "table": [["", "2019"], ["Sales", float("nan")]]}
    gold = {"answer": "abc", "answer_type": "arithmetic", "answer_from": "table", "scale": "", "derivation": ""}
    context = {"table": table, "questions": [{"uid": "q", "question": "What were sales?"} | gold]}
    ((_, record),) = parse_json(tmp_path, [context])
    assert record["mended"] == "taken to be without an answer: its answer 'abc' is no number"
    assert json.loads(record["table"])[1] == ["Sales", ""]
    for cell in ({"x": 1}, True):
        context["table"] = {"uid": "t", "table": [["", "2019"], ["Sales", cell]]}
        ((_, error),) = parse_json(tmp_path, [context])
        assert "a cell must be a text or a number" in str(error)
    question_record = {"id": "1", "question": "What were sales?", "table": [["", "2019"], ["Sales", 3]]}
    example = tatqa.Task().example(tatqa_records.UNANSWERED | question_record, documents.parse)
    assert example.units and example.labels["operator"] == -1


@pytest.mark.parametrize("table", ["[" * 100_000, '{"a": 1}'])
def test_records_of_a_user_hold_lists_or_their_json(table):
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
def test_a_truncated_table_is_refused_in_one_line(table, line, tmp_path):
    with pytest.raises(DataError, match=rf"report\.csv: line {line} begins no row of a table .*quotation marks"):
        parse_csv(tmp_path, table)


def test_long_cells_are_accepted_and_endless_ones_are_named(tmp_path):
    for cell in ("9" * 10_000, "word " * 2_000):
        ((_, record),) = parse_csv(tmp_path, f"h,2019\nSales,{cell}\n")
        example = tatqa.Task().example(record, documents.parse)
        assert cell.strip() in documents.surface(example.document)
    ((name, error),) = parse_csv(tmp_path, f"h,2019\nSales,{'9' * 140_000}\n")
    assert name == "report-0" and "140,000 characters" in str(error)


def test_questions_of_a_context_that_cannot_be_used_are_named(tmp_path):
    contexts = [
        {"table": {"uid": "t", "table": []}, "questions": [{"uid": "q1", "question": "a"}, {"question": "b"}]},
        {"table": {"uid": "u", "table": [["1"]]}, "paragraphs": 3, "questions": [{"uid": "q3"}]},
        {"table": {"uid": "v", "table": [["1"]]}, "questions": []},
    ]
    errors = dict(parse_json(tmp_path, contexts))
    assert {name: str(error) for name, error in errors.items()} == {
        "q1": "its table is empty",
        "t-1": "its table is empty",
        "q3": "its paragraphs are no list",
        "v": "it has no questions",
    }


@pytest.mark.parametrize(
    "fields",
    [{"answer": None}, {"answer": ""}, {"answer": [], "answer_type": "span"}, {"answer": "5", "answer_type": None}],
)
def test_questions_without_an_answer_or_a_type_are_unanswered(fields, tmp_path):
    context: dict[str, Any] = {"table": {"uid": "t", "table": [["", "2019"], ["Sales", "3"]]}}
    context["questions"] = [{"uid": "q", "question": "What were sales?"} | fields]
    ((_, record),) = parse_json(tmp_path, [context])
    example = tatqa.Task().example(record, documents.parse)
    assert example.labels["operator"] == example.labels["scale"] == -1
    # A question for training must have both.
    ((_, error),) = tatqa_records.from_contexts([context], "train")
    assert isinstance(error, ValueError)


def test_zero_is_an_answer(tmp_path):
    context: dict[str, Any] = {"table": {"uid": "t", "table": [["", "2019"], ["Sales", "3"]]}}
    gold = {"answer": 0, "answer_type": "arithmetic", "answer_from": "table", "scale": "", "derivation": "3-3"}
    context["questions"] = [{"uid": "q", "question": "What was the change?"} | gold]
    ((_, record),) = parse_json(tmp_path, [context])
    assert record["answer"] == "0" and record["answer_type"] == "arithmetic"
