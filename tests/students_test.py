"""Students: simulated ones, and the files of their logs, answers and feedback."""

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
from numjax.bundled.data.answer_feedback import generate as wrong_answers
from numjax.bundled.data.answer_feedback import read as feedback_files
from numjax.bundled.data.answer_scoring import generate as answered
from numjax.bundled.data.answer_scoring import read as scoring_files
from numjax.bundled.data.cognitive_tutor import algebra, generate, moves
from numjax.bundled.data.cognitive_tutor import read as logs
from numjax.bundled.data.cognitive_tutor.builder import predicted
from numjax.bundled.data.folds import folded
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.text import document as documents
from numjax.text import marked
from numjax.types import Formula

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")


def value(written: str, x: Fraction) -> Fraction:
    """A side of an equation as typed at a value of x: Python reads it, told where it is multiplied."""
    told = re.sub(r"(?<=[0-9x)])(?=[x(])", "*", re.sub(r"([0-9]+)", r"Fraction(\1)", written.replace(" ", "")))
    return Fraction(eval(told, {"Fraction": Fraction, "x": x}))


def solves(equation: str, x: Fraction) -> bool:
    left, right = equation.split("=")
    return value(left, x) == value(right, x)


def entries(seed: int, count: int) -> list[tuple[algebra.Equation, list[generate.Entry]]]:
    rng = np.random.default_rng(seed)
    out = []
    for place in range(count):
        problem = generate.new_problem(rng, set())
        out.append((problem, list(generate.solve(rng, generate.a_student(rng, place), problem))))
    return out


# ---------------------------------------------------------------------------------------------------
# Simulated students.


def test_the_simulation_is_seeded():
    one, again, other = (list(generate.rows(30, seed)) for seed in (4, 4, 5))
    assert one == again and one != other
    assert list(answered.rows(70, 4)) == list(answered.rows(70, 4)) != list(answered.rows(70, 5))
    assert list(wrong_answers.rows(70, 4)) == list(wrong_answers.rows(70, 4)) != list(wrong_answers.rows(70, 5))


def test_printed_equations_have_the_solution():
    rng = np.random.default_rng(0)
    for _ in range(300):
        equation = generate.new_problem(rng, set())
        x = algebra.solution(equation)
        assert x is not None and solves(algebra.written(equation), x)
        assert not solves(algebra.written(equation), x + 1)
        assert isinstance(latex.parse(algebra.written(equation)), Tree)


def test_right_entries_keep_the_solution_and_wrong_ones_do_not():
    seen = collections.Counter()
    for problem, log in entries(1, 250):
        x = algebra.solution(problem)
        assert x is not None
        for entry in log:
            assert solves(algebra.written(entry.equation), x), "whatever the tutor lets pass has the solution"
            seen[entry.outcome, entry.move.misconception] += 1
            if entry.outcome == generate.HINT:
                assert entry.feedback
                continue
            assert (entry.outcome == generate.OK) == solves(algebra.written(entry.move.claim), x)
            assert bool(entry.feedback) == (entry.outcome != generate.OK)
            assert (entry.outcome == generate.ERROR) == (entry.move.misconception == "slip")
        assert log[-1].move.action == moves.FINAL and value(log[-1].move.input[2:], x) == x
        for one, following in itertools.pairwise(log):
            stays = one.outcome != generate.OK
            assert following.equation == (one.equation if stays else one.move.claim)
    assert {name for _, name in seen} == {"", *moves.MISCONCEPTIONS}, "every misconception occurs"
    right = sum(n for (outcome, _), n in seen.items() if outcome == generate.OK)
    assert 0.5 < right / seen.total() < 0.85


def test_right_moves_are_what_they_say():
    """The input does to both sides what the action says, or is the new side itself."""
    rng = np.random.default_rng(2)
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
    seen = set()
    for _ in range(200):
        equation = generate.new_problem(rng, set())
        while not algebra.is_solved(equation):
            found = moves.right(equation)
            for move in found:
                seen.add(move.action)
                before, after = algebra.written(equation).split("="), algebra.written(move.claim).split("=")
                for x in (Fraction(3), Fraction(-7, 2)):
                    old, new = ([value(side, x) for side in sides] for sides in (before, after))
                    if move.action in signs:
                        amount = value(move.input, x)
                        did = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
                        apply = did.get(signs[move.action], lambda a, b: a / b)
                        assert new == [apply(side, amount) for side in old]
                    else:
                        assert new == old and move.input in after
            equation = found[int(rng.integers(len(found)))].claim
    assert seen == set(moves.ACTIONS) - {moves.FINAL}


def test_grades_follow_from_what_is_written():
    """Read back from the text alone: every line is solved again."""
    rows = list(answered.rows(400, 3))
    assert {row["grade"] for row in rows} == set("12345")
    for (_, found), row in zip(scoring_files.of_rows(("", row) for row in rows), rows, strict=True):
        lines = [f for f in re.findall("<m> (.*?) </m>", found["answer"]) if "=" in f]
        (problem,) = re.findall("<m> ([^<]*=[^<]*) </m>", found["problem"])
        told = [_solution(line) for line in lines]
        x = _solution(problem)
        # The answer is the last line, and repeats a step where the student says it again.
        ended = bool(lines) and re.fullmatch(r"x = -? ?[0-9]+( / [0-9]+)?", lines[-1])
        right_end = ended and told[-1] == x
        grade = int(row["grade"]) - 1
        if not lines:
            assert grade == 0
        if grade >= 2 and right_end:
            assert told[-1] == x
        if grade in (3, 4):
            assert right_end and x in told[:-1]
        if grade == 4:
            assert set(told) == {x}
        if right_end:
            assert grade >= 2
        elif not any(a == b for a, b in itertools.pairwise([x, *told])):
            assert grade == 0


def _solution(equation: str) -> Fraction | None:
    """By two values of left − right, which is linear in x."""
    left, right = equation.split("=")
    at0, at1 = (value(left, Fraction(x)) - value(right, Fraction(x)) for x in (0, 1))
    return None if at0 == at1 else at0 / (at0 - at1)


def test_grade_by_hand():
    problem = algebra.Equation(
        (algebra.Term(Fraction(2), 1), algebra.Term(Fraction(3))), (algebra.Term(Fraction(7)),)
    )
    assert algebra.written(problem) == "2x+3=7" and answered.needed(problem) == 2
    steps = [moves.right(problem)[0]]
    steps.append(moves.right(steps[0].claim)[0])
    shown = tuple(move.claim for move in steps)
    assert [algebra.written(line) for line in shown] == ["2x=4", "x=2"]
    wrong = next(move.claim for move in moves.wrong(problem) if move.misconception == "sign")
    assert algebra.written(wrong) == "2x=10"

    def grade(shown, answer):
        return answered.grade(problem, answered.Work(tuple(steps), shown, answer))

    two = Fraction(2)
    assert [grade(shown, two), grade(shown[:1], two), grade((), two)] == [4, 3, 2]
    assert [grade(shown, None), grade((wrong,), Fraction(5)), grade((), None)] == [2, 0, 0]
    assert grade((shown[0], wrong), Fraction(5)) == 1


def test_wrong_answers_are_wrong_and_named():
    rows = list(wrong_answers.rows(300, 6))
    for row in rows:
        (problem,) = re.findall("<p>([^<]*=[^<]*)</p>", row["body"])
        x = _solution(problem)
        given = [row[name] for name in wrong_answers.ANSWERS if row[name]]
        assert len(set(given)) == len(given)
        for name in wrong_answers.ANSWERS:
            assert bool(row[name]) == bool(row[f"{name}_feedback"])
            if row[name]:
                assert Fraction(re.sub(r"<.?p>|x =|\s", "", row[name])) != x
    assert len({row["problem_code"] for row in rows}) < len(rows)


# ---------------------------------------------------------------------------------------------------
# Files.


def test_a_log_as_table_gives_what_was_simulated(tmp_path):
    rows = list(generate.rows(40, 7))
    made = [session for _, session in logs.of_rows((str(i), row) for i, row in enumerate(rows))]
    assert [(s["student_id"], s["problem_id"]) for s in made] == list(
        dict.fromkeys((r["Anon Student Id"], r["Problem Name"]) for r in rows)
    )
    for name, delimiter in (("log.csv", ","), ("log.tsv", "\t")):
        text = io.StringIO()
        writer = csv.DictWriter(text, ["Row", *generate.COLUMNS, "KC"], delimiter=delimiter, restval="1")
        writer.writeheader()
        writer.writerows(rows)
        (tmp_path / name).write_text(text.getvalue())
        assert [session for _, session in logs.read(tmp_path / name)] == made
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
        for session in made
    ]
    (tmp_path / "log.json").write_text(json.dumps(as_json))
    assert [session for _, session in logs.read(tmp_path / "log.json")] == made


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
    found = dict(logs.read(tmp_path / "ds660.csv"))
    assert [str(found[name]) for name in ("line-5", "line-6")] == ["has no 'Anon Student Id'", "has no 'Outcome'"]
    step = {"step": "<m> 3x+2=8 </m>", "action": "add", "input": "<m> 2 </m>", "outcome": "BUG"}
    step["feedback"] = "To undo <m> + 2 </m>, subtract <m> 2 </m>."
    session = found["s1/EQ-17"]
    assert session["problem"] == "<m> 3x+2=8 </m>" and session["steps"][0] == step
    assert found["s2/x-1=4"]["problem"] == "<m> x-1=4 </m>"
    (record,) = predicted(session, "ct")
    assert json.loads(record["history"]) == [step]
    assert (record["outcome"], record["action"], record["input"]) == ("OK", "subtract", "<m> 2 </m>")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "Anon Student Id,Action\n1,2\n", "no column 'Problem Name', 'Step Name'"),
        ("a.csv", " ", "empty"),
        ("a.json", "{}", "no list"),
        ("a.json", "[{", "breaks off"),
        ("a.json", '[{"steps": []}, 3]', "too few for 5 folds: 2 left out"),
    ],
)
def test_bad_logs_are_one_line(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says) as caught:
        data.load("cognitive_tutor", data_dir=tmp_path / "built", path=str(tmp_path))
    assert "\n" not in str(caught.value)


def test_articles_and_marked_text():
    text = "The sum <m> x ^ { 2 } + 1 </m> is <m> 5 </m>."
    article = marked.to_article(text)
    assert article["text"] == "The sum [_mathGPT_formula_] is [_mathGPT_formula_]."
    assert article["formulas"]["1"] == {"opt": ["N", "5", None], "tex": "5"}
    assert marked.of_article(article) == text
    del article["formulas"]["0"]  # formulas may be missing
    assert marked.of_article(article) == "The sum  is <m> 5 </m>."
    article["formulas"]["1"] = {"opt": ["U", "eq", [["V", "x", None], ["N", "12", None]]], "tex": "\\nothing{"}
    assert marked.of_article(article) == "The sum  is <m> x = 12 </m>."
    for bad in (3, {"formulas": {}}, {"text": "[_mathGPT_formula_]", "formulas": {"0": {"opt": 1}}}):
        with pytest.raises(ValueError):
            marked.of_article(bad)
    document = marked.document("So <m> x = 1/2 </m> or <m> \\frac{ </m> in 3", parse)
    assert (
        document[1] == Formula("", latex.parse("x = 1/2"))
        and documents.surface(document[:2]) == r"So x = \frac{1}{2}"
    )
    assert documents.surface(document[2:]) == r" or \frac{ in 3"
    assert documents.surface(marked.document("So <m> 1/2 </m>.", parse, as_published=True)) == "So  <m> 1/2 </m> ."


def table(rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def articles(found, texts) -> tuple[dict, list]:
    """The JSON form of what was read: problems by id, and samples."""
    problems = {row["problem_id"]: marked.to_article(row["problem"]) for row in found}
    samples = [
        {key: marked.to_article(value) if key in texts else value for key, value in row.items() if key != "problem"}
        for row in found
    ]
    return problems, samples


@pytest.mark.parametrize(
    ("name", "module", "rows", "texts", "file"),
    [
        ("answer_scoring", scoring_files, answered.rows, ("answer",), "answers.json"),
        ("answer_feedback", feedback_files, wrong_answers.rows, ("answer", "feedback"), "samples.json"),
    ],
)
def test_tables_and_articles_give_the_same_answers(tmp_path, name, module, rows, texts, file):
    raw = list(rows(200, 5))
    made = [found for _, found in module.of_rows((str(i), row) for i, row in enumerate(raw))]
    assert not any(isinstance(found, ValueError) for found in made) and len(made) >= 200
    for folder in ("table", "json"):
        (tmp_path / folder).mkdir()
    (tmp_path / "table" / "raw.csv").write_text(table(raw))
    problems, samples = articles(made, texts)
    (tmp_path / "json" / "problems.json").write_text(json.dumps(problems))
    (tmp_path / "json" / file).write_text(json.dumps([*samples, {"problem_id": "gone"}, 3]))
    built = tmp_path / "built"
    found = {
        folder: [list(data.load(name, split, built, path=str(tmp_path / folder), seed=5)) for split in SPLITS]
        for folder in ("table", "json")
    }
    assert found["table"] == found["json"]
    keys = set(made[0])
    flat = sorted((row for split in found["json"] for row in split), key=lambda row: row["id"])
    assert [{key: row[key] for key in keys} for row in flat] == made
    left_out = data.skipped(name, built, path=str(tmp_path / "json"), seed=5)
    assert len(left_out) == 2 and "'gone', which is missing" in left_out[0]["reason"]


def test_raw_grades_and_parts(tmp_path):
    row = {"problem_id": "1", "raw_full_problem": "<p>2 + 2 = __</p>", "problem_log_id": "9", "raw_answer_text": "4"}
    found = dict(scoring_files.of_rows([("a", row | {"grade": "5.0"}), ("b", row | {"grade": "6"})]))
    assert found["a"]["grade"] == 4 and found["a"]["problem"] == r"<m> 2 + 2 = \_ </m>"
    assert "none of 1 to 5" in str(found["b"])
    blank = dict.fromkeys(wrong_answers.COLUMNS, "")
    first = blank | {"problem_id": "7", "problem_code": "P", "problem_part": "1", "body": "<p>Look:</p>\\n2 apples"}
    second = blank | {"problem_id": "8", "problem_code": "P", "problem_part": "2", "body": "and 3?"}
    second |= {"cwa_1": "4", "cwa_1_feedback": "No.", "cwa_2": "null", "cwa_2_feedback": "x", "cwa_3_feedback": "y"}
    rows = [("second", second), ("first", first), ("again", second)]
    ((_, sample),) = feedback_files.of_rows(rows)
    assert sample["problem"] == "Look: <m> 2 </m> apples and <m> 3 </m>?" and sample["problem_code"] == "P"


# ---------------------------------------------------------------------------------------------------
# Folds.


def test_folds_are_disjoint_by_group_and_cover_everything():
    rng = np.random.default_rng(0)
    groups = [f"P{i}" for i in rng.integers(0, 60, 400)]
    tested = []
    for fold in range(5):
        splits = folded(400, fold, 5, 221, groups=groups)
        assert sorted(itertools.chain(*splits.values())) == list(range(400))
        owners = [{groups[i] for i in splits[split]} for split in SPLITS]
        assert not (owners[0] & owners[1] or owners[0] & owners[2] or owners[1] & owners[2])
        assert 0.09 < len(splits["validation"]) / (400 - len(splits["test"])) < 0.2
        tested += splits["test"]
    assert sorted(tested) == list(range(400))


def test_stratified_folds_spread_labels():
    labels = [i % 20 for i in range(400)]
    splits = folded(400, 2, 5, 221, labels=labels)
    assert set(collections.Counter(labels[i] for i in splits["test"]).values()) == {4}
    assert folded(400, 2, 5, 221, labels=labels) == splits != folded(400, 2, 5, 222, labels=labels)
    assert len(splits["validation"]) == 32


def test_examples_are_graded_answers_of_train_to_the_same_problem(tmp_path):
    splits = {s: list(data.load("answer_scoring", s, tmp_path, size=300, examples=2)) for s in SPLITS}
    train = collections.Counter((r["problem_id"], r["answer"], r["grade"]) for r in splits["train"])
    for split, rows in splits.items():
        for row in rows:
            shown = json.loads(row["examples"])
            grades = [example["grade"] for example in shown]
            assert max(collections.Counter(grades).values()) <= 2
            assert len(set(grades[: len(set(grades))])) == len(set(grades)), "one of each grade comes first"
            mine = collections.Counter((row["problem_id"], e["answer"], e["grade"]) for e in shown)
            if split == "train":
                mine[row["problem_id"], row["answer"], row["grade"]] += 1  # never itself
            assert not mine - train
    none = list(data.load("answer_scoring", "test", tmp_path, size=300, examples=0))
    assert {row["examples"] for row in none} == {"[]"}


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
