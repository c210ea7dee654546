"""Tables with a header line: every row is read as it is written, or named."""

from __future__ import annotations

import csv
import io

import pytest

from numjax.bundled import data
from numjax.bundled.data import files
from numjax.errors import DataError

NAMES = ["student", "step", "feedback"]
CELLS = ["", "x", "two words", 'say "no"', "1,234", "a\tb", "two\nlines", "open (", "ünï\u2028code", '"']


def read(tmp_path, text, columns=NAMES):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    return list(files.read_table(path, columns))


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("index", [False, True])
def test_what_a_writer_of_tables_writes_is_read(delimiter, end, index, tmp_path, rng):
    rows = [[f"s{i}", *(CELLS[j] for j in rng.integers(0, len(CELLS), 2))] for i in range(50)]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    # The index of a data frame is a column without a name.
    writer.writerows([[""] * index + NAMES, *([str(i)] * index + row for i, row in enumerate(rows))])
    got = [row for _, row in read(tmp_path, "\n \n" + text.getvalue() if not index else text.getvalue())]
    assert [[row[name] for name in NAMES] for row in got] == rows


def test_a_quote_that_is_not_closed_loses_only_the_lines_that_it_joins(tmp_path):
    lines = [
        "student,step,feedback",
        'A,1,"fine, so far"',
        'A,2,"not closed',
        "B,1,lost",
        'B,2,"lost too"',
        "C,1,good",
    ]
    rows = read(tmp_path, "\n".join(lines))
    assert [(line, row["student"]) for line, row in rows if isinstance(row, dict)] == [(2, "A"), (6, "C")]
    assert [(line, str(row)[:37]) for line, row in rows if isinstance(row, ValueError)] == [
        (3, "lines 3 to 5 are one row, and no row ")
    ]
    rows = read(tmp_path, "\n".join([*lines[:3], "B,1,lost"]))
    assert [line for line, row in rows if isinstance(row, ValueError)] == [3]


def test_a_quote_inside_one_line_is_read_as_before(tmp_path):
    (_, row), (_, other) = read(tmp_path, 'student\tstep\tfeedback\n1\t"Yes" he said\t5" wide\n2\tb\tc\n')
    assert row == {"student": "1", "step": "Yes he said", "feedback": '5" wide'} and other["student"] == "2"


def test_rows_with_more_cells_than_the_header_are_named(tmp_path):
    rows = read(tmp_path, "student,step,feedback\nA,1,What is 2, or 3?\nB,2,no\nC,3,no,, \nD\n")
    assert str(rows[0][1]) == "has 4 cells, the header 3"
    assert [row["student"] for _, row in rows[1:]] == ["B", "C", "D"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column 'student', 'step', 'feedback'; the table has a, b"),
        (" \n\n", "the file is empty"),
        ('"student,step,feedback\n1,2,3\n', "no column"),
    ],
)
def test_a_table_without_its_columns_is_refused(text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


def test_rows_that_cannot_be_read_are_listed_as_skipped(tmp_path):
    header = "problem_id,raw_full_problem,problem_log_id,raw_answer_text,grade"
    good = [f"{i % 3},What is {i}?,{i},{i},5" for i in range(30)]
    (tmp_path / "table.csv").write_text("\n".join([header, *good[:7], "1,What is 2, or 3?,900,4,5", *good[7:]]))
    splits = {
        split: data.load("answer_scoring", split, tmp_path / "out", path=str(tmp_path / "table.csv"))
        for split in ("train", "validation", "test")
    }
    assert sum(map(len, splits.values())) == len(good)
    skipped = splits["train"].skipped
    assert [(row["id"], row["reason"]) for row in skipped] == [("answer_scoring-line-9", "has 6 cells, the header 5")]
