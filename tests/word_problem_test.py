"""Word problems: FERMAT's and MAWPS's files, the formulas of their answers, and the task's metrics."""

from __future__ import annotations

import ast
import collections
import json
import random
import re
import shutil
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax.build import build
from numjax.bundled import data
from numjax.bundled.data.fermat import formula, generate, read
from numjax.bundled.data.fermat.read import NOT_COMMUTABLE, PAPER, VIEWS
from numjax.bundled.data.mawps.read import parse_number
from numjax.bundled.experiments import runs
from numjax.bundled.experiments.digits import settings
from numjax.errors import DataError, UsageError
from numjax.tasks.word_problem import edit_distance
from numjax.text import document as documents
from numjax.types import Mark, Number, Text

# ---------------------------------------------------------------------------------------------------
# Formulas.


def draw_formula(rng: random.Random, depth: int = 3) -> str:
    if not depth or rng.random() < 0.25:
        return rng.choice(["num1", "num2", "7", "0.25", f"{rng.randint(1, 999)}", f"{rng.randint(1, 99)}.5"])
    left, right = (draw_formula(rng, depth - 1) for _ in range(2))
    text = f"{left}{rng.choice([' + ', '-', '*', ' / '])}{right}"
    return rng.choice([text, f"( {text} )", f"-{left}"])


def test_formulas_have_the_values_that_python_computes():
    rng, n_evaluated = random.Random(3), 0
    for _ in range(400):
        text = draw_formula(rng)
        values = {name: Fraction(rng.randint(1, 400), rng.choice([1, 10, 100])) for name in ("num1", "num2")}
        # Python evaluates the same text over Fractions: every number is wrapped first.
        expression = ast.parse(text, mode="eval")
        for node in ast.walk(expression):
            for field, value in ast.iter_fields(node):
                if isinstance(value, ast.Constant):
                    call = ast.Call(ast.Name("Q", ast.Load()), [ast.Constant(str(value.value))], [])
                    setattr(node, field, call)
        try:
            expected = eval(compile(ast.fix_missing_locations(expression), "", "eval"), {"Q": Fraction, **values})
        except ZeroDivisionError:
            with pytest.raises(ValueError, match="divides by zero"):
                formula.evaluate(text, values)
            continue
        n_evaluated += 1
        assert formula.evaluate(text, values) == expected, text
        approximation = formula.approximate(text, {name: np.asarray([float(v)]) for name, v in values.items()})
        assert float(np.ravel(approximation)[0]) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    assert n_evaluated > 300


def test_numbers_of_a_formula_are_exact_as_written():
    rng = random.Random(4)
    for _ in range(50):
        left, right = (f"{rng.randint(10**16, 10**19)}.{rng.randint(0, 10**9)}" for _ in range(2))
        assert formula.evaluate(f" ({left} - {right})") == Fraction(left) - Fraction(right)


@pytest.mark.parametrize(
    "text",
    [
        *("2**9", "9**9**9**9**9", "abs(3)", "__import__('os')", "(lambda: 1)()", "num1.real", "num9+1", "[1]"),
        *("1 if 1 else 2", "(" * 150 + "1" + ")" * 150),
        *("1;2", "", "1+", "a=1", "1 2", "'a'*9", "1e999", "True", "1//2", "3%2", "~1", "num1 := 3"),
        *("1/0", "9" * 199, "*".join(["9999999999"] * 9), "٣+1", "1\n+2"),
    ],
)  # fmt: skip
def test_other_expressions_are_refused_in_one_line(text):
    with pytest.raises(ValueError) as error:
        formula.evaluate(text, {"num1": Fraction(3)})
    assert len(str(error.value).splitlines()) == 1 and len(str(error.value)) < 120


def test_shapes_and_decimal_answers():
    shapes = {"(600.0-327.0)": "a-b", "((1+2)/3)": "(a+b)/c", " num1 *( num3-num2 )": "a*(b-c)", "10 / 5": "a/b"}
    for text, expected in shapes.items():
        assert formula.shape(text) == expected
    decimals = {
        "273": "273.0",
        "1/4": "0.25",
        "-7/2": "-3.5",
        "1/3": None,
        "0": "0.0",
        "123456789012345": "123456789012345.0",
    }
    for text, expected in decimals.items():
        assert formula.format_decimal(Fraction(text)) == expected
    assert (
        formula.format_decimal(Fraction("1234567890123456")) is None
        and formula.format_decimal(Fraction(1, 2**15)) is None
    )


# ---------------------------------------------------------------------------------------------------
# FERMAT.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the folder of a stand-in in the published files' form, with some bad lines, and its views."""
    root = tmp_path_factory.mktemp("fermat")
    rows, views = generate.generate_files(30, 5)
    lines = [
        "templates,answers,expressions",
        *(f'"{r["templates"]}",{r["answers"]},{r["expressions"]}' for r in rows),
    ]
    (root / "templates.csv").write_text("\n".join([*lines, "how many are num1 ?,( num1+num2 ),a+b", "none,1+1,a+b"]))
    for kind, index, suffix in (("questions", 0, "q"), ("answers", 1, "a")):
        (root / "test_sets" / kind).mkdir(parents=True)
        for view, files in views.items():
            text = "\n".join(json.dumps(row) for row in files[index])
            if view == "1dp_random":
                text += '\n{"index": 77}\nnot JSON\n[1]\n{"index": "3", "question": "x", "answer": "1"}'
            (root / "test_sets" / kind / f"{view}.{suffix}").write_text(text + "\n")
    return root, views


def load_all_splits(name, tmp_path, **options):
    return {split: list(data.load(name, split, tmp_path, **options)) for split in ("train", "validation", "test")}


def test_a_folder_of_many_options_has_a_name_that_file_systems_take(folder):
    from numjax.bundled.data.fermat.builder import Fermat

    root, views = folder
    names = [
        Fermat.config_name(
            Fermat.complete_options({"path": str(root), "views": ", ".join([*views] * 9), "size": size})
        )
        for size in (40, 41)
    ]
    assert len(set(names)) == 2 and max(map(len, names)) <= 200


def test_views_are_joined_by_index_and_bad_lines_named(folder, tmp_path):
    root, views = folder
    splits = load_all_splits("fermat", tmp_path, path=str(root), size=120)
    skipped = data.load_skipped("fermat", tmp_path, path=str(root), size=120)
    reasons = [row["reason"] for row in skipped]
    assert reasons.count(NOT_COMMUTABLE) == sum(a["answer"] == NOT_COMMUTABLE for a in views["Commuted"][1]) > 0
    assert (
        sum("needs num2" in reason for reason in reasons) == 1 and sum("no num1" in reason for reason in reasons) == 1
    )
    bad_lines = [row for row in skipped if row["reason"] != NOT_COMMUTABLE and "template" not in row["id"]]
    assert len(bad_lines) == 8 and all(row["id"].startswith("1dp_random") for row in bad_lines)
    questions = {(v, q["index"]): q["question"] for v, (rows, _) in views.items() for q in rows}
    answers = {(v, a["index"]): a for v, (_, rows) in views.items() for a in rows}
    assert len(splits["test"]) == 30 * 19 - reasons.count(NOT_COMMUTABLE)
    for record in splits["test"]:
        view, index = record["id"].rsplit("-", 1)
        assert record["view"] == view and record["question"] == questions[view, int(index)].strip()
        assert record["answer"] == answers[view, int(index)]["answer"]
        assert record["operation"] == formula.shape(answers["Original", int(index)]["equation"])
        assert formula.evaluate(record["equation"]) == Fraction(record["answer"]), record
    with_commuted = load_all_splits(
        "fermat", tmp_path, path=str(root), size=40, commuted=1, views="Original, Commuted"
    )["test"]
    assert len(with_commuted) == 60 and sum(r["answer"] == NOT_COMMUTABLE for r in with_commuted) == reasons.count(
        NOT_COMMUTABLE
    )


def test_training_problems_are_the_templates_with_numbers_of_four_kinds(tmp_path):
    splits = load_all_splits("fermat", tmp_path, size=400, seed=9)
    assert splits == load_all_splits("fermat", tmp_path / "again", size=400, seed=9)
    records = splits["train"] + splits["validation"]
    assert len(splits["validation"]) == 40 and len({r["question"] for r in records}) == 440
    # A run may use only the first records.
    assert all(
        {r["view"] for r in group[:20]} == set(generate.KINDS) for group in (splits["train"], splits["validation"])
    )
    kinds = {kind: [r for r in records if r["view"] == kind] for kind in generate.KINDS}
    assert {len(group) for group in kinds.values()} == {110}
    forms = {"small": (0, 1, 999), "large": (0, 1000, 999_999), "tenths": (1, 0, 1000), "hundredths": (2, 0, 1000)}
    for kind, (n_decimals, low, high) in forms.items():
        for record in kinds[kind]:
            numbers = [word for word in record["question"].split() if word[0].isdigit()]
            assert numbers and all(
                len(n.partition(".")[2]) == n_decimals and low <= float(n) <= high for n in numbers
            )
            assert formula.evaluate(record["equation"]) == Fraction(record["answer"]) > 0
            assert len(record["answer"].removesuffix(".0")) <= 15
    assert len({r["operation"] for r in records}) > 8


def test_the_paper_s_views_are_ten_and_unknown_ones_named(tmp_path):
    assert len(VIEWS) == len(set(VIEWS)) == 19 and read.select_views("paper") == PAPER and len(PAPER) == 10
    for options, message in (
        (dict(views="Origin"), "views=Origin; choose all, paper, or of"),
        (dict(commuted=2), "neither 0 nor 1"),
    ):
        with pytest.raises(UsageError, match=message):
            load_all_splits("fermat", tmp_path, **options)
    with pytest.raises(DataError, match=r"no templates\.csv there"):
        data.load("fermat", "train", tmp_path, path=str(tmp_path))


def test_missing_columns_and_views_are_named(folder, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(folder[0], root)
    (root / "test_sets/answers/Worded.a").unlink()
    with pytest.raises(DataError, match="no files of the views Worded"):
        data.load("fermat", "train", tmp_path, path=str(root), size=20)
    (root / "templates.csv").write_text("templates,formulas\na,b\n")
    with pytest.raises(DataError, match="no column 'answers'"):
        data.load("fermat", "train", tmp_path, path=str(root), size=20, views="Original")


def test_the_published_views_are_loaded(real_data):
    """Each view has the 889 indices at hand, 400 cannot be commuted, and operations are pooled as in the tables."""
    templates, pairs = read.find_files(str(real_data("fermat")))
    assert set(pairs) == set(VIEWS) and sum(1 for _ in read.read_templates(templates)) == 226
    indices, operations = {}, {}
    for view, paths in pairs.items():
        records: dict[str, Any] = dict(read.join_objects(*(list(read.read_objects(path)) for path in paths)))
        assert not any(isinstance(record, ValueError) for record in records.values())
        indices[view] = {record["index"] for record in records.values()}
        if view == "Original":
            operations = {record["index"]: read.operation(record["equation"]) for record in records.values()}
        if view == "Commuted":
            assert sum(record["answer"] == NOT_COMMUTABLE for record in records.values()) == 400
    assert (
        all(view_indices == indices["Original"] for view_indices in indices.values())
        and len(indices["Original"]) == 889
    )
    counts = {op: sum(operation == op for operation in operations.values()) for op in ("a+b", "a-b", "a*b", "a/b")}
    # Of all 1,111 problems the tables pool 154, 162, 113 and 102 in each of ten views.
    for op, total in zip(counts, (154, 162, 113, 102), strict=True):
        assert 0.7 * total < counts[op] <= total


# ---------------------------------------------------------------------------------------------------
# MAWPS and its kin.


def test_answers_are_one_plain_number():
    expected_of = {
        2.0: "2",
        "9 (apples)": "9",
        "1,200": "1200",
        0.5: "0.5",
        "10.333333333333334": "10.333333333333334",
        -3: "-3",
    }
    expected_of |= {"0": "0", "100": "100", "26.0": "26", ".5": "0.5", 1e21: "1000000000000000000000", "-0.0": "0"}
    for answer, expected in expected_of.items():
        assert parse_number(answer) == expected
    for answer in (
        "Mrs. Hilt",
        "3:30 p.m.",
        "",
        None,
        True,
        float("nan"),
        float("inf"),
        [1],
        "1 2",
        "٣",
        "15 r8",
        "6th",
    ):
        with pytest.raises(ValueError, match="is not one number"):
            parse_number(answer)


@pytest.mark.parametrize("form", ["mawps", "svamp", "asdiv", "addsub"])
def test_every_form_is_loaded(form, tmp_path):
    splits = load_all_splits("mawps", tmp_path, form=form, size=150)
    assert [len(splits[split]) for split in splits] == [108, 12, 30]
    for record in splits["train"]:
        equation = record["equation"].lower().removeprefix("x").lstrip(" =").split("=")[0]
        assert formula.evaluate(equation) == Fraction(record["answer"])
        assert record["operation"] == formula.shape(equation) and record["question"].endswith("?")


def test_files_name_their_splits_and_bad_problems_are_left_out(tmp_path):
    good = [{"original_text": f"{i} and 1 ?", "equation": f"x={i}+1", "ans": i + 1.0} for i in range(12)]
    bad = [{"original_text": " ", "ans": 1}, {"original_text": "two ?", "ans": "two"}, 3]
    root = tmp_path / "files"
    root.mkdir()
    (root / "trainset.json").write_text(json.dumps(good + bad))
    (root / "validset.json").write_text(json.dumps(good[:2]))
    (root / "testset.json").write_text(json.dumps(good[:3]))
    splits = load_all_splits("mawps", tmp_path, path=str(root))
    assert [len(splits[split]) for split in splits] == [12, 2, 3]
    reasons = [row["reason"] for row in data.load_skipped("mawps", tmp_path, path=str(root))]
    assert reasons == ["there is no text 'original_text'", "its answer 'two' is not one number", "it is no object"]
    (root / "bomb.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><Problem>&b;</Problem>')
    skipped = (
        data.load_skipped("mawps", tmp_path, path=str(root))
        if data.load("mawps", "train", tmp_path, path=str(root))
        else []
    )
    assert "entities" in skipped[0]["reason"]


def test_an_answer_is_one_number():
    assert parse_number("9 (apples)") == "9" and parse_number("1,200.50 (dollars)") == "1200.5"
    for answer in ("5 (red); 15 (blue)", "6 (inches), 12 (inches)", "5 (red) and 15 (blue)", "5; 15"):
        with pytest.raises(ValueError, match="is not one number"):
            parse_number(answer)


def test_a_repeated_question_is_in_one_split(tmp_path):
    problems = [
        {"original_text": f"{i % 40} and 1 ?", "equation": "x=1+1", "ans": i % 40 + i // 40} for i in range(100)
    ]
    (tmp_path / "train.json").write_text(json.dumps(problems))
    splits = load_all_splits("mawps", tmp_path, path=str(tmp_path / "train.json"))
    questions = [{record["question"] for record in splits[split]} for split in splits]
    assert sum(map(len, splits.values())) == 100 and sum(map(len, questions)) == len(set.union(*questions)) == 40
    (tmp_path / "train.json").write_text(json.dumps(problems[:1] * 20))
    with pytest.raises(DataError, match="1 usable records for training are too few"):
        load_all_splits("mawps", tmp_path, path=str(tmp_path / "train.json"))


@pytest.mark.parametrize(
    ("form", "files", "count"), [("mawps", 2, 1700), ("svamp", 2, 900), ("asdiv", 1, 1500), ("addsub", 1, 330)]
)
def test_the_published_problems_are_loaded(real_data, form, files, count, tmp_path):
    path = str(real_data(form))
    splits = load_all_splits("mawps", tmp_path, form=form, path=path)
    assert sum(map(len, splits.values())) >= count
    assert all(Decimal(record["answer"]).is_finite() for records in splits.values() for record in records)


# ---------------------------------------------------------------------------------------------------
# The task.


def test_an_answer_ends_at_its_first_mark_and_its_numbers_stay_apart():
    task, one, two = build("tasks", {"name": "word_problem"}), Number("1", Decimal(1)), Number("2", Decimal(2))
    assert task.predicted((one, two, Mark("[EOS]"), two)) == "1 2"
    assert task.predicted((Text(" "), Number("-1.5", Decimal("-1.5")), Mark("[EOS]"))) == "-1.5"
    assert task.predicted((Mark("[EOS]"), one)) is None


def test_source_and_prompt_hold_the_question_and_the_answer_is_canonical():
    record = {"id": "a", "question": "Is 2 and 3 ?", "answer": "5.0", "view": "Original", "operation": "a+b"}
    task = build("tasks", {"name": "word_problem", "form": "fermat"})
    example = task.example(record, documents.parse)
    assert example.document == (Mark("[CLS]"), Number("5", Decimal(5)), Mark("[EOS]")) and example.loss_from == 1
    assert example.source is not None and documents.surface(example.source) == "Is 2 and 3 ?[EOS]"
    decoder_example = build("tasks", {"name": "word_problem", "encoder": False}).example(record, documents.parse)
    assert (
        decoder_example.source is None
        and documents.surface(decoder_example.document) == "[CLS]Is 2 and 3 ?[SEP]5[EOS]"
    )
    assert documents.surface(decoder_example.document[: decoder_example.loss_from]) == "[CLS]Is 2 and 3 ?[SEP]"
    published = build("tasks", {"name": "word_problem", "form": "fermat", "as_published": True})
    assert (
        published.dataset["commuted"] == 1 and published.example(record, documents.parse).reference["answer"] == "5.0"
    )
    record["answer"] = NOT_COMMUTABLE
    assert Text(NOT_COMMUTABLE) in published.example(record, documents.parse).document
    for answer, expected in {
        "1.5e+20": "150000000000000000000",
        "1.0e10": "10000000000",
        ".50": "0.5",
        "-0.0": "0",
    }.items():
        assert task.example(record | {"answer": answer}, documents.parse).reference["answer"] == expected
    for answer in (NOT_COMMUTABLE, "٣", "nan", "1_0"):
        with pytest.raises(DataError, match="is not one number"):
            task.example(record | {"answer": answer}, documents.parse)
    with pytest.raises(UsageError, match="choose one of mawps"):
        build("tasks", {"name": "word_problem", "form": "gsm8k"})


def test_metrics_are_by_view_and_operation():
    task = build("tasks", {"name": "word_problem", "form": "fermat", "as_published": True})
    rows = [
        ("27.30", "27.3", "Original", "a+b"),
        ("273", "27.3", "Original", "a-b"),
        (None, "5", "Commuted", "a+b"),
        ("no", NOT_COMMUTABLE, "Commuted", "a-b"),
        ("0.1000000000000000000001", "0.1", "Original", "a+b"),
    ]
    references = [dict(answer=a, view=v, operation=o) for _, a, v, o in rows]
    scores = task.score([prediction for prediction, *_ in rows], references)
    assert scores["accuracy"] == 1 / 5 and scores["accuracy_float"] == 2 / 5, "a float cannot tell the last two apart"
    assert (
        scores["accuracy/Original"] == 1 / 3 and scores["accuracy/Commuted"] == 0 and scores["accuracy/a+b"] == 1 / 3
    )
    assert scores["cap"] == 4 / 5 and scores["cap/Commuted"] == 1 / 2 and scores["numeric"] == 3 / 5
    assert scores["cer/a-b"] == pytest.approx((1 / 4 + 13 / 14) / 2)
    with pytest.raises(UsageError, match="1 predictions for 0 references"):
        task.score(["1"], [])


def test_edit_distances_are_those_of_levenshtein():
    rng = random.Random(1)

    def compute_slowly(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(
            compute_slowly(a[1:], b) + 1, compute_slowly(a, b[1:]) + 1, compute_slowly(a[1:], b[1:]) + (a[0] != b[0])
        )

    for _ in range(60):
        a, b = ("".join(rng.choices("12.", k=rng.randint(0, 5))) for _ in range(2))
        assert edit_distance(a, b) == edit_distance(b, a) == compute_slowly(a, b)


# ---------------------------------------------------------------------------------------------------
# The tables.


def test_the_paper_s_changes_are_added_to_its_baseline():
    published = settings.make_published(settings.ACCURACY, "aux")
    assert len(published) == len(settings.TITLES) == 15 and set(published) == {
        c.title for c in settings.make_columns("accuracy", "laptop")
    }
    assert published["MAWPS"].mean == 24.8 and published["Original"].mean == 30.6 and published["a/b"].mean == 12.84
    assert settings.make_published(settings.CER, "digits")["Commuted"].mean == 169.52
    assert settings.make_published(settings.CER, "pause") == {}


def test_problems_that_cannot_be_commuted_are_reported(real_data):
    path = str(real_data("fermat"))
    text = settings.describe_commuted(path, 1)
    assert "55.0% of Commuted, 90.0% of a-b, 90.0% of a/b" in text and "left out here" in text
    assert "asked here too" in settings.describe_commuted(path, 0.55)


def test_differences_come_with_their_noise(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    correct = {"digits": rng.random(400) < 0.2}
    correct |= {"agg": correct["digits"] | (rng.random(400) < 0.3), "aux": rng.random(400) < 0.2}
    monkeypatch.setattr(runs, "workdir", lambda cell, seed, out: out / f"{cell.system}-{seed}")
    for system, is_correct in correct.items():
        for seed in (0, 1):
            file = tmp_path / f"{system}-{seed}" / "predictions" / "word_problem.jsonl"
            file.parent.mkdir(parents=True)
            predictions = ["7" if is_right else None for is_right in is_correct.tolist()]
            rows = [
                {"id": str(i), "prediction": prediction, "reference": {"answer": "7"}}
                for i, prediction in enumerate(predictions)
            ]
            file.write_text("".join(json.dumps(row) + "\n" for row in rows[seed:]))
    cells = [runs.RunCell("mawps", system, None) for system in correct]
    results: Any = {("mawps", system): {0: None, 1: None} for system in correct}
    options: Any = SimpleNamespace(out=tmp_path)
    agg, aux = settings.bootstrap_problems(cells, results, options, "accuracy")
    del agg["answers"]
    assert agg["items"] == 399 and agg["seeds"] == [0, 1], "problems that all seeds answered"
    assert agg["mean"] == pytest.approx(100 * (correct["agg"].mean() - correct["digits"].mean()), abs=0.2)
    assert 0 < agg["low"] < agg["mean"] < agg["high"] and aux["low"] <= 0 <= aux["high"]
    share = correct["digits"][1:].mean()
    assert agg["error"] == pytest.approx(100 * (share * (1 - share) / 399) ** 0.5)
    # Ten views of a problem, all right or all wrong, add no information to one.
    for system in correct:
        for seed in (0, 1):
            file = tmp_path / f"{system}-{seed}" / "predictions" / "word_problem.jsonl"
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            views = [row | {"id": f"view{v}-{row['id']}"} for row in rows for v in range(10)]
            file.write_text("".join(json.dumps(row) + "\n" for row in views))
    with_views, _ = settings.bootstrap_problems(cells, results, options, "accuracy")
    assert with_views["answers"] == 3990 and all(with_views[k] == pytest.approx(agg[k]) for k in agg)
    cer = settings.bootstrap_problems(cells, results, options, "cer")
    assert cer[0]["mean"] == pytest.approx(-agg["mean"])


@pytest.fixture
def several_forms(tmp_path):
    """Returns a folder of two forms, 20 problems each, of which five are in both with other blanks."""
    shared = [f"Ben saw {i}.5 owls. How many?" for i in range(5)]
    mawps = [f"Ann has {i} eggs ." for i in range(15)] + [question.replace(".", " .", 2) for question in shared]
    mawps = [question.replace(" .5", ".5") for question in mawps]
    raw = {
        "mawps": [{"original_text": text, "equation": f"X={i}", "ans": i} for i, text in enumerate(mawps)],
        "svamp": [
            {"ID": i, "Body": f"Ben saw {i}.5 owls", "Question": "How many?", "Equation": f"{i}", "Answer": i}
            for i in range(20)
        ],
    }
    for form, records in raw.items():
        (tmp_path / "raw" / form).mkdir(parents=True)
        (tmp_path / "raw" / form / "trainset.json").write_text(json.dumps(records))
    (tmp_path / "raw" / "svamp" / "validset.json").write_text(json.dumps(raw["svamp"][:3]))
    (tmp_path / "raw" / "other.json").write_text("[]")
    return tmp_path / "raw"


def load_forms(folder, **options):
    options = {"path": str(folder), "form": "mawps+svamp"} | options
    return {s: data.load("mawps", s, folder.parent / "built", **options) for s in ("train", "validation", "test")}


def test_several_forms_are_one_set_with_a_view_each(several_forms):
    splits = load_forms(several_forms)
    # 35 different questions, three of which are in a second file; a fifth is test, a tenth of the rest validation.
    words = {s: {re.sub(r"[ .?]+", " ", row["question"]) for row in rows} for s, rows in splits.items()}
    assert {s: len(questions) for s, questions in words.items()} == {"train": 25, "validation": 3, "test": 7}
    assert not words["train"] & words["test"] and not words["validation"] & (words["train"] | words["test"])
    assert sum(map(len, splits.values())) == 43
    assert all(row["view"] == row["id"].partition("/")[0] for rows in splits.values() for row in rows)
    assert {row["view"] for row in splits["test"]} == {"mawps", "svamp"}
    alone = data.load(
        "mawps", "validation", several_forms.parent / "built", path=str(several_forms / "svamp"), form="svamp"
    )
    assert len(alone) == 3 and "view" not in alone[0] and alone[0]["id"].startswith("validset.json")
    sized = load_forms(several_forms, size=12)
    assert collections.Counter(row["view"] for rows in sized.values() for row in rows) == {"mawps": 12, "svamp": 12}
    task: Any = build("tasks", {"name": "word_problem", "form": "mawps+svamp", "path": str(several_forms)})
    references = [{"answer": "4", "view": "mawps"}, {"answer": "5", "view": "svamp"}]
    scores = task.score(["4", "4"], references)
    assert (scores["accuracy"], scores["accuracy/mawps"], scores["accuracy/svamp"]) == (0.5, 1, 0)


def test_a_form_with_test_files_takes_nothing_from_another(several_forms):
    shutil.copy(several_forms / "svamp" / "validset.json", several_forms / "svamp" / "testset.json")
    splits = load_forms(several_forms)
    views = {s: collections.Counter(row["view"] for row in rows) for s, rows in splits.items()}
    assert views["test"]["svamp"] == 3 and views["test"]["mawps"] >= 2
    asked = {row["question"] for row in splits["test"] if row["view"] == "svamp"}
    assert asked == {f"Ben saw {i}.5 owls. How many?" for i in range(3)}
    assert not any(f"saw {i}.5" in row["question"] for i in range(3) for row in splits["train"])


def test_a_stand_in_of_several_forms_has_both(tmp_path):
    rows = data.load("mawps", "train+validation+test", tmp_path, form="svamp+asdiv", size=60)
    assert collections.Counter(row["view"] for row in rows) == {"svamp": 60, "asdiv": 60}
    assert len({row["id"] for row in rows}) == 120


@pytest.mark.parametrize("form", ["mawps+fermat", "mawps+mawps", "svamp+", "gsm8k"])
def test_forms_that_cannot_be_joined_are_refused(form, tmp_path):
    with pytest.raises(UsageError, match="choose mawps, svamp, asdiv, addsub, or several as"):
        data.load("mawps", "train", tmp_path, form=form)
    if form != "mawps+mawps":
        with pytest.raises(UsageError, match="or several of the others as a\\+b"):
            build("tasks", {"name": "word_problem", "form": form})
