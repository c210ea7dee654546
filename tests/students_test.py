"""Simulated students, and the files of their logs, answers and feedback."""

from __future__ import annotations

import collections
import csv
import functools
import io
import itertools
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data.answer_feedback import generate as feedback
from numjax.bundled.data.answer_feedback import read as feedback_files
from numjax.bundled.data.answer_scoring import generate as scoring
from numjax.bundled.data.answer_scoring import read as scoring_files
from numjax.bundled.data.cognitive_tutor import algebra, generate, moves
from numjax.bundled.data.cognitive_tutor import read as logs
from numjax.bundled.data.cognitive_tutor.builder import make_step_records
from numjax.bundled.data.folds import split_by_fold
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.text import document as documents
from numjax.text.document import marked
from numjax.types import Formula

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")


def evaluate_side(text: str, x: Fraction) -> Fraction:
    """Returns the value of a side of an equation at x: Python evaluates it with * inserted for every product."""
    expression = re.sub(r"(?<=[0-9x)])(?=[x(])", "*", re.sub(r"([0-9]+)", r"Fraction(\1)", text.replace(" ", "")))
    return Fraction(eval(expression, {"Fraction": Fraction, "x": x}))


def is_solution(equation: str, x: Fraction) -> bool:
    left, right = equation.split("=")
    return evaluate_side(left, x) == evaluate_side(right, x)


def simulate_entries(seed: int, count: int) -> list[tuple[algebra.Equation, list[generate.LogEntry]]]:
    rng = np.random.default_rng(seed)
    logs_by_problem = []
    for number in range(count):
        problem = generate.draw_new_problem(rng, set())
        logs_by_problem.append((problem, list(generate.solve(rng, generate.draw_student(rng, number), problem))))
    return logs_by_problem


# ---------------------------------------------------------------------------------------------------
# Simulated students.


def test_the_simulation_is_seeded():
    first, same, other = (list(generate.generate_rows(30, seed)) for seed in (4, 4, 5))
    assert first == same and first != other
    assert (
        list(scoring.generate_rows(70, 4)) == list(scoring.generate_rows(70, 4)) != list(scoring.generate_rows(70, 5))
    )
    assert (
        list(feedback.generate_rows(70, 4))
        == list(feedback.generate_rows(70, 4))
        != list(feedback.generate_rows(70, 5))
    )


def test_printed_equations_have_the_solution():
    rng = np.random.default_rng(0)
    for _ in range(300):
        equation = generate.draw_new_problem(rng, set())
        x = algebra.solution(equation)
        assert x is not None and is_solution(algebra.format_equation(equation), x)
        assert not is_solution(algebra.format_equation(equation), x + 1)
        assert isinstance(latex.parse(algebra.format_equation(equation)), Tree)


def test_right_entries_keep_the_solution_and_wrong_ones_do_not():
    counts = collections.Counter()
    for problem, log in simulate_entries(1, 250):
        x = algebra.solution(problem)
        assert x is not None
        for entry in log:
            assert is_solution(algebra.format_equation(entry.equation), x), (
                "every equation that the tutor accepts has the solution"
            )
            counts[entry.outcome, entry.move.misconception] += 1
            if entry.outcome == generate.HINT:
                assert entry.feedback
                continue
            assert (entry.outcome == generate.OK) == is_solution(algebra.format_equation(entry.move.claim), x)
            assert bool(entry.feedback) == (entry.outcome != generate.OK)
            assert (entry.outcome == generate.ERROR) == (entry.move.misconception == "slip")
        assert log[-1].move.action == moves.FINAL and evaluate_side(log[-1].move.input[2:], x) == x
        for entry, next_entry in itertools.pairwise(log):
            stays = entry.outcome != generate.OK
            assert next_entry.equation == (entry.equation if stays else entry.move.claim)
    assert {name for _, name in counts} == {"", *moves.MISCONCEPTIONS}, "every misconception occurs"
    n_right = sum(n for (outcome, _), n in counts.items() if outcome == generate.OK)
    assert 0.5 < n_right / counts.total() < 0.85


def test_right_moves_do_what_their_action_says():
    """The input changes both sides as the action says, or is the new side itself."""
    rng = np.random.default_rng(2)
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
    actions = set()
    for _ in range(200):
        equation = generate.draw_new_problem(rng, set())
        while not algebra.is_solved(equation):
            right_moves = moves.find_right_moves(equation)
            for move in right_moves:
                actions.add(move.action)
                sides_before, sides_after = (
                    algebra.format_equation(equation).split("="),
                    algebra.format_equation(move.claim).split("="),
                )
                for x in (Fraction(3), Fraction(-7, 2)):
                    old, new = ([evaluate_side(side, x) for side in sides] for sides in (sides_before, sides_after))
                    if move.action in signs:
                        amount = evaluate_side(move.input, x)
                        operations = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
                        operate = operations.get(signs[move.action], lambda a, b: a / b)
                        assert new == [operate(side, amount) for side in old]
                    else:
                        assert new == old and move.input in sides_after
            equation = right_moves[int(rng.integers(len(right_moves)))].claim
    assert actions == set(moves.ACTIONS) - {moves.FINAL}


def test_grades_follow_from_the_written_answer():
    """Grades are checked against the text alone: every line is solved again."""
    rows = list(scoring.generate_rows(400, 3))
    assert {row["grade"] for row in rows} == set("12345")
    for (_, record), row in zip(scoring_files.parse_rows(("", row) for row in rows), rows, strict=True):
        lines = [f for f in re.findall("<m> (.*?) </m>", record["answer"]) if "=" in f]
        (problem,) = re.findall("<m> ([^<]*=[^<]*) </m>", record["problem"])
        solutions = [_solve(line) for line in lines]
        x = _solve(problem)
        # The answer is the last line; a student may repeat a step as the answer.
        has_answer = bool(lines) and re.fullmatch(r"x = -? ?[0-9]+( / [0-9]+)?", lines[-1])
        is_right_answer = has_answer and solutions[-1] == x
        grade = int(row["grade"]) - 1
        if not lines:
            assert grade == 0
        if grade >= 2 and is_right_answer:
            assert solutions[-1] == x
        if grade in (3, 4):
            assert is_right_answer and x in solutions[:-1]
        if grade == 4:
            assert set(solutions) == {x}
        if is_right_answer:
            assert grade >= 2
        elif not any(a == b for a, b in itertools.pairwise([x, *solutions])):
            assert grade == 0


def _solve(equation: str) -> Fraction | None:
    """Solves an equation from two values of left − right, which is linear in x."""
    left, right = equation.split("=")
    at0, at1 = (evaluate_side(left, Fraction(x)) - evaluate_side(right, Fraction(x)) for x in (0, 1))
    return None if at0 == at1 else at0 / (at0 - at1)


def test_grade_by_hand():
    problem = algebra.Equation(
        (algebra.Term(Fraction(2), 1), algebra.Term(Fraction(3))), (algebra.Term(Fraction(7)),)
    )
    assert algebra.format_equation(problem) == "2x+3=7" and scoring.count_steps(problem) == 2
    steps = [moves.find_right_moves(problem)[0]]
    steps.append(moves.find_right_moves(steps[0].claim)[0])
    equations = tuple(move.claim for move in steps)
    assert [algebra.format_equation(line) for line in equations] == ["2x=4", "x=2"]
    wrong_equation = next(move.claim for move in moves.find_wrong_moves(problem) if move.misconception == "sign")
    assert algebra.format_equation(wrong_equation) == "2x=10"

    def grade(equations, answer):
        return scoring.grade(problem, scoring.Work(tuple(steps), equations, answer))

    two = Fraction(2)
    assert [grade(equations, two), grade(equations[:1], two), grade((), two)] == [4, 3, 2]
    assert [grade(equations, None), grade((wrong_equation,), Fraction(5)), grade((), None)] == [2, 0, 0]
    assert grade((equations[0], wrong_equation), Fraction(5)) == 1


def test_wrong_answers_are_wrong_and_named():
    rows = list(feedback.generate_rows(300, 6))
    for row in rows:
        (problem,) = re.findall("<p>([^<]*=[^<]*)</p>", row["body"])
        x = _solve(problem)
        answers = [row[name] for name in feedback.ANSWERS if row[name]]
        assert len(set(answers)) == len(answers)
        for name in feedback.ANSWERS:
            assert bool(row[name]) == bool(row[f"{name}_feedback"])
            if row[name]:
                assert Fraction(re.sub(r"<.?p>|x =|\s", "", row[name])) != x
    assert len({row["problem_code"] for row in rows}) < len(rows)


# ---------------------------------------------------------------------------------------------------
# Files.


def test_a_log_file_gives_the_simulated_sessions(tmp_path):
    rows = list(generate.generate_rows(40, 7))
    sessions = [session for _, session in logs.parse_rows((str(i), row) for i, row in enumerate(rows))]
    assert [(s["student_id"], s["problem_id"]) for s in sessions] == list(
        dict.fromkeys((r["Anon Student Id"], r["Problem Name"]) for r in rows)
    )
    for name, delimiter in (("log.csv", ","), ("log.tsv", "\t")):
        text = io.StringIO()
        writer = csv.DictWriter(text, ["Row", *generate.COLUMNS, "KC"], delimiter=delimiter, restval="1")
        writer.writeheader()
        writer.writerows(rows)
        (tmp_path / name).write_text(text.getvalue())
        assert [session for _, session in logs.read_sessions(tmp_path / name)] == sessions
    as_json = [
        {key: session[key] for key in ("student_id", "problem_id")}
        | {"problem": marked.to_article(session["problem"])}
        | {
            "steps": [
                {key: step[key] for key in ("action", "outcome")}
                | {key: marked.to_article(step[key]) for key in ("step", "input", "feedback")}
                for step in session["steps"]
            ]
        }
        for session in sessions
    ]
    (tmp_path / "log.json").write_text(json.dumps(as_json))
    assert [session for _, session in logs.read_sessions(tmp_path / "log.json")] == sessions


def test_the_fields_of_a_log(tmp_path):
    lines = [
        "Anon Student Id,Problem Name,Step Name,Action,Input,Outcome,Feedback Text",
        's1,EQ-17,3x+2=8,add,2,BUG,"To undo +2, <b>subtract</b> 2."',
        "s2,x-1=4,x-1=4,add,1,OK,",
        "s1,EQ-17,3x+2=8,subtract,2,OK,",
        ",EQ-17,3x+2=8,subtract,2,OK,",
        "s1,EQ-17,3x=6,divide,3,,",
    ]
    (tmp_path / "ds660.csv").write_text("\n".join(lines))
    sessions = dict(logs.read_sessions(tmp_path / "ds660.csv"))
    assert [str(sessions[name]) for name in ("line-5", "line-6")] == ["has no 'Anon Student Id'", "has no 'Outcome'"]
    step = {"step": "<m> 3x+2=8 </m>", "action": "add", "input": "<m> 2 </m>", "outcome": "BUG"}
    step["feedback"] = "To undo <m> + 2 </m>, subtract <m> 2 </m>."
    session = sessions["s1/EQ-17"]
    assert session["problem"] == "<m> 3x+2=8 </m>" and session["steps"][0] == step
    assert sessions["s2/x-1=4"]["problem"] == "<m> x-1=4 </m>"
    (record,) = make_step_records(session, "ct")
    assert json.loads(record["history"]) == [step]
    assert (record["outcome"], record["action"], record["input"]) == ("OK", "subtract", "<m> 2 </m>")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "Anon Student Id,Action\n1,2\n", "no column 'Problem Name', 'Step Name'"),
        ("a.csv", " ", "empty"),
        ("a.json", "{}", "no list"),
        ("a.json", "[{", "breaks off"),
        ("a.json", '[{"steps": []}, 3]', "too few for 5 folds: 2 left out"),
    ],
)
def test_bad_logs_give_one_line_errors(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        data.load("cognitive_tutor", data_dir=tmp_path / "built", path=str(tmp_path))
    assert "\n" not in str(caught.value)


def test_articles_and_marked_text():
    text = "The sum <m> x ^ { 2 } + 1 </m> is <m> 5 </m>."
    article = marked.to_article(text)
    assert article["text"] == "The sum [_mathGPT_formula_] is [_mathGPT_formula_]."
    assert article["formulas"]["1"] == {"opt": ["N", "5", None], "tex": "5"}
    assert marked.from_article(article) == text
    del article["formulas"]["0"]  # formulas may be missing
    assert marked.from_article(article) == "The sum  is <m> 5 </m>."
    article["formulas"]["1"] = {"opt": ["U", "eq", [["V", "x", None], ["N", "12", None]]], "tex": "\\nothing{"}
    assert marked.from_article(article) == "The sum  is <m> x = 12 </m>."
    deep = ["V", "x", None]
    for _ in range(400):
        deep = ["O", "minus", [deep]]
    with pytest.raises(ValueError, match="nested too deep"):
        marked.from_article(article | {"formulas": {"0": {"opt": deep, "tex": ""}}})
    for bad in (3, {"formulas": {}}, {"text": "[_mathGPT_formula_]", "formulas": {"0": {"opt": 1}}}):
        with pytest.raises(ValueError):
            marked.from_article(bad)
    document = marked.parse_document("So <m> x = 1/2 </m> or <m> \\frac{ </m> in 3", parse)
    assert (
        document[1] == Formula("", latex.parse("x = 1/2"))
        and documents.surface(document[:2]) == r"So x = \frac{1}{2}"
    )
    assert documents.surface(document[2:]) == r" or \frac{ in 3"
    assert (
        documents.surface(marked.parse_document("So <m> 1/2 </m>.", parse, as_published=True)) == "So  <m> 1/2 </m> ."
    )


def write_table(rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_articles(records, text_fields) -> tuple[dict, list]:
    """Returns the JSON form of records: problems by id, and samples."""
    problems = {row["problem_id"]: marked.to_article(row["problem"]) for row in records}
    samples = [
        {
            key: marked.to_article(value) if key in text_fields else value
            for key, value in row.items()
            if key != "problem"
        }
        for row in records
    ]
    return problems, samples


@pytest.mark.parametrize(
    ("name", "module", "generate_rows", "text_fields", "file"),
    [
        ("answer_scoring", scoring_files, scoring.generate_rows, ("answer",), "answers.json"),
        ("answer_feedback", feedback_files, feedback.generate_rows, ("answer", "feedback"), "samples.json"),
    ],
)
def test_tables_and_articles_give_the_same_answers(tmp_path, name, module, generate_rows, text_fields, file):
    raw = list(generate_rows(200, 5))
    records = [record for _, record in module.parse_rows((str(i), row) for i, row in enumerate(raw))]
    assert not any(isinstance(record, ValueError) for record in records) and len(records) >= 200
    for folder in ("table", "json"):
        (tmp_path / folder).mkdir()
    (tmp_path / "table" / "raw.csv").write_text(write_table(raw))
    problems, samples = to_articles(records, text_fields)
    (tmp_path / "json" / "problems.json").write_text(json.dumps(problems))
    (tmp_path / "json" / file).write_text(json.dumps([*samples, {"problem_id": "gone"}, 3]))
    cache = tmp_path / "built"
    built_records = {
        folder: [list(data.load(name, split, cache, path=str(tmp_path / folder), seed=5)) for split in SPLITS]
        for folder in ("table", "json")
    }
    assert built_records["table"] == built_records["json"]
    keys = set(records[0])
    flat = sorted((row for split in built_records["json"] for row in split), key=lambda row: row["id"])
    assert [{key: row[key] for key in keys} for row in flat] == records
    skipped = data.load_skipped(name, cache, path=str(tmp_path / "json"), seed=5)
    assert len(skipped) == 2 and "'gone', which is missing" in skipped[0]["reason"]


def test_raw_grades_and_parts(tmp_path):
    row = {"problem_id": "1", "raw_full_problem": "<p>2 + 2 = __</p>", "problem_log_id": "9", "raw_answer_text": "4"}
    records = dict(scoring_files.parse_rows([("a", row | {"grade": "5.0"}), ("b", row | {"grade": "6"})]))
    assert records["a"]["grade"] == 4 and records["a"]["problem"] == r"<m> 2 + 2 = \_ </m>"
    assert "none of 1 to 5" in str(records["b"])
    blank = dict.fromkeys(feedback.COLUMNS, "")
    first = blank | {"problem_id": "7", "problem_code": "P", "problem_part": "1", "body": "<p>Look:</p>\\n2 apples"}
    second = blank | {"problem_id": "8", "problem_code": "P", "problem_part": "2", "body": "and 3?"}
    second |= {"cwa_1": "4", "cwa_1_feedback": "No.", "cwa_2": "null", "cwa_2_feedback": "x", "cwa_3_feedback": "y"}
    rows = [("second", second), ("first", first), ("again", second)]
    ((_, sample),) = feedback_files.parse_rows(rows)
    assert sample["problem"] == "Look: <m> 2 </m> apples and <m> 3 </m>?" and sample["problem_code"] == "P"
    # Blanks around a code do not part a problem from its head, and each row without an id is named.
    rows = [("second", second), ("first", first | {"problem_code": "P "}), ("again", second)]
    rows += [(name, second | {"problem_id": " "}) for name in ("x", "y", "z")]
    samples = dict(feedback_files.parse_rows(rows))
    assert samples.pop("second-cwa_1") == sample
    assert samples.keys() == {"x", "y", "z"} and all("no problem_id" in str(error) for error in samples.values())


# ---------------------------------------------------------------------------------------------------
# Folds.


def test_folds_are_disjoint_by_group_and_cover_everything():
    rng = np.random.default_rng(0)
    groups = [f"P{i}" for i in rng.integers(0, 60, 400)]
    test_rows = []
    for fold in range(5):
        splits = split_by_fold(400, fold, 5, 221, groups=groups)
        assert sorted(itertools.chain(*splits.values())) == list(range(400))
        owners = [{groups[i] for i in splits[split]} for split in SPLITS]
        assert not (owners[0] & owners[1] or owners[0] & owners[2] or owners[1] & owners[2])
        assert 0.09 < len(splits["validation"]) / (400 - len(splits["test"])) < 0.2
        test_rows += splits["test"]
    assert sorted(test_rows) == list(range(400))


def test_stratified_folds_spread_labels():
    labels = [i % 20 for i in range(400)]
    splits = split_by_fold(400, 2, 5, 221, labels=labels)
    assert set(collections.Counter(labels[i] for i in splits["test"]).values()) == {4}
    assert split_by_fold(400, 2, 5, 221, labels=labels) == splits != split_by_fold(400, 2, 5, 222, labels=labels)
    assert len(splits["validation"]) == 32


def test_labels_that_are_all_rarer_than_folds_are_not_spread():
    labels = [i // 2 for i in range(20)]
    rows = [i for fold in range(5) for i in split_by_fold(20, fold, 5, 221, labels=labels)["test"]]
    assert sorted(rows) == list(range(20))


def test_examples_are_graded_answers_of_train_to_the_same_problem(tmp_path):
    splits = {s: list(data.load("answer_scoring", s, tmp_path, size=300, examples=2)) for s in SPLITS}
    train = collections.Counter((r["problem_id"], r["answer"], r["grade"]) for r in splits["train"])
    for split, rows in splits.items():
        for row in rows:
            examples = json.loads(row["examples"])
            grades = [example["grade"] for example in examples]
            assert max(collections.Counter(grades).values()) <= 2
            assert len(set(grades[: len(set(grades))])) == len(set(grades)), "one of each grade comes first"
            counts = collections.Counter((row["problem_id"], e["answer"], e["grade"]) for e in examples)
            if split == "train":
                counts[row["problem_id"], row["answer"], row["grade"]] += 1  # never itself
            assert not counts - train
    without_examples = list(data.load("answer_scoring", "test", tmp_path, size=300, examples=0))
    assert {row["examples"] for row in without_examples} == {"[]"}


def test_students_overlap_folds_and_their_problems_do_not(tmp_path):
    splits = {s: list(data.load("cognitive_tutor", s, tmp_path, size=150)) for s in SPLITS}
    pairs = [{(r["student_id"], r["problem_id"]) for r in splits[s]} for s in SPLITS]
    assert not (pairs[0] & pairs[1] or pairs[0] & pairs[2] or pairs[1] & pairs[2])
    assert {student for student, _ in pairs[0]} & {student for student, _ in pairs[2]}


@pytest.mark.parametrize("name", ["cognitive_tutor", "answer_scoring", "answer_feedback"])
@pytest.mark.parametrize("options", [{"fold": 5}, {"folds": 1}, {"size": -1}, {"seed": 2**32}])
def test_bad_options_are_usage_errors(name, options, tmp_path):
    with pytest.raises(UsageError, match=next(iter(options))):
        data.load(name, data_dir=tmp_path, **options)
