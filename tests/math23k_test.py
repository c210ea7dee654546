"""Math23K: good and bad files, folds, the stand-in, and the task of generating its equations."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

from numjax import build
from numjax.bundled import data
from numjax.bundled.configs import mathgpt as configs
from numjax.bundled.data.folds import split_by_fold
from numjax.bundled.data.math23k import generate, read
from numjax.bundled.data.math23k.read import find_fault
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree, from_json
from numjax.tasks.equation_extraction import Task, parse_answer, to_latex
from numjax.text import document as documents
from numjax.text import trees_published, vocab
from numjax.types import Formula, Mark, Text
from tests import mathgpt

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")


def make_problem(i: int, **changes) -> dict:
    return {"text_en": f"What is {i} and 1 ?", "equation": f"x = {i} + 1", "ans": i + 1} | changes


def load(path, tmp_path, **options) -> dict[str, list[dict]]:
    return {s: list(data.load("math23k", s, tmp_path / "built", path=str(path), **options)) for s in SPLITS}


# ---------------------------------------------------------------------------------------------------
# Files.


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz", "a.jsonl.gz"])
def test_every_file_format_gives_the_same_records(tmp_path, name):
    problems = [make_problem(i) for i in range(50)]
    for i, character in enumerate("\u2028\u2029\x85\x0b"):
        problems[i]["text_en"] += f"{character}And so on."
    if ".jsonl" in name:
        raw = "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in problems).encode()
    else:
        raw = json.dumps(problems).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    splits = load(tmp_path / name, tmp_path)
    assert {s: len(rows) for s, rows in splits.items()} == {"train": 36, "validation": 4, "test": 10}
    rows = sorted(itertools.chain(*splits.values()), key=lambda row: int(row["ans"]))
    assert [(r["text_en"], r["equation"], r["ans"]) for r in rows] == [
        (p["text_en"], p["equation"], str(p["ans"])) for p in problems
    ]


BAD = {
    "no text": make_problem(0, text_en=" "),
    "no equation": {"text_en": "a", "ans": 1},
    "not an object": [1],
    "no x": make_problem(0, equation="3 + 4"),
    "empty side": make_problem(0, equation="x = "),
    "odd sign": make_problem(0, equation="x = 3 + apples"),
    "open": make_problem(0, equation="x = ( 3 + 4"),
    "crossed": make_problem(0, equation="x = ( 3 + [ 4 ) ]"),
    "closed": make_problem(0, equation="x = 3 + 4 )"),
    "answer": make_problem(0, ans={"a": 1}),
}


def test_bad_records_are_skipped_and_named(tmp_path):
    path = tmp_path / "math23k.json"
    path.write_text(json.dumps([*(make_problem(i) for i in range(20)), *BAD.values()]))
    splits = load(path, tmp_path)
    assert sum(map(len, splits.values())) == 20
    skipped = data.load_skipped("math23k", tmp_path / "built", path=str(path))
    assert [row["id"] for row in skipped] == [f"math23k-{20 + i}" for i in range(len(BAD))]
    assert all(row["reason"] for row in skipped)
    with pytest.raises(DataError, match="math23k-20"):
        data.load("math23k", "train", tmp_path / "strict", path=str(path), strict=True)


def test_a_line_that_is_no_json_is_skipped(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join([*(json.dumps(make_problem(i)) for i in range(20)), "{broken", ""]))
    assert sum(map(len, load(path, tmp_path).values())) == 20


class PrintOnLoad:
    def __reduce__(self):
        return (print, ("it was run",))


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("m.json", b"", "empty"),
        ("m.json", b"[1, 2", "breaks off"),
        ("m.json", b"{}", "no list"),
        ("m.json", b"\xff\xfe\xff", "UTF-8"),
        ("m.json.gz", b"nothing", "gzip"),
        ("m.pkl", pickle.dumps([PrintOnLoad()]), "save its list as JSON"),
        ("m.pickle.gz", gzip.compress(pickle.dumps([PrintOnLoad()]), mtime=0), "save its list as JSON"),
        ("m.json", json.dumps([make_problem(1)]).encode(), "too few"),
        ("m.json", json.dumps([{"zh": 1}] * 9).encode(), "text_en"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, capsys, name, raw, message):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / name, tmp_path)
    assert "\n" not in str(caught.value) and "it was run" not in capsys.readouterr().out


def test_a_folder_must_hold_one_file(tmp_path):
    with pytest.raises(DataError, match="set path"):
        load(tmp_path, tmp_path)
    for name in ("math23k.json", "math23k_old.jsonl"):
        (tmp_path / name).write_text(json.dumps([make_problem(i) for i in range(20)]))
        if name == "math23k.json":
            assert sum(map(len, load(tmp_path, tmp_path).values())) == 20
    with pytest.raises(UsageError, match="several"):
        load(tmp_path, tmp_path)


@pytest.mark.parametrize("options", [{"fold": 5}, {"fold": -1}, {"folds": 1}, {"size": -1}, {"seed": 2**32}])
def test_options_are_checked(tmp_path, options):
    with pytest.raises(UsageError):
        load("", tmp_path, **options)


def test_folds_are_disjoint_and_cover_everything():
    tests = []
    for fold in range(5):
        parts = split_by_fold(103, fold, 5, 221)
        assert sorted(itertools.chain(*parts.values())) == list(range(103))
        assert len(parts["validation"]) == round(0.1 * (103 - len(parts["test"])))
        assert parts == split_by_fold(103, fold, 5, 221)
        tests += parts["test"]
    assert sorted(tests) == list(range(103))
    assert split_by_fold(103, 0, 5, 221) != split_by_fold(103, 0, 5, 222)


@pytest.mark.parametrize(
    "equation", ["x=1", "x = .5 + 2.", "y = [ ( 1 + 2 ) * 3 ] / 4", "x = 50 % ^ 2", "x=480/(1-20%)*20%"]
)
def test_good_equations_have_no_fault(equation):
    assert find_fault(equation) == ""


# ---------------------------------------------------------------------------------------------------
# The stand-in.


def test_the_equations_of_the_stand_in_give_its_answers():
    records = list(generate.generate_records(1500, 3))
    assert (
        {row["template"] for row in records}
        == set(range(len(generate.TEMPLATES)))
        == set(range(len(generate.ANSWERS)))
    )
    assert len({row["text_en"] for row in records}) == 1500
    for row in records:
        tree = latex.parse(to_latex(row["equation"]))
        assert isinstance(tree, Tree)
        assert float(solve(tree)) == pytest.approx(float(row["ans"])), row
        assert find_fault(row["equation"]) == ""
        constants = {"1", "2", "3.14"}
        assert set(re.findall(r"[0-9.]+", row["equation"])) - constants <= set(re.findall(r"[0-9.]+", row["text_en"]))
    assert records == list(generate.generate_records(1500, 3)) != list(generate.generate_records(1500, 4))


def test_the_stand_in_refuses_more_problems_than_it_has(monkeypatch):
    monkeypatch.setattr(generate, "TEMPLATES", generate.TEMPLATES[13:14])
    monkeypatch.setattr(generate, "ANSWERS", generate.ANSWERS[13:14])
    assert len(list(generate.generate_records(80, 0))) == 80
    with pytest.raises(UsageError, match="smaller"):
        list(generate.generate_records(99, 0))


# ---------------------------------------------------------------------------------------------------
# The task.

RECORD = {"id": "e", "text_en": "How far ?", "equation": "x = 3.14 * [ ( 3 + 2 ) ^ 2 - 20 % ]", "ans": "78.4"}


def test_a_document_has_its_layout():
    task = build.build("tasks", {"name": "equation_extraction"})
    example = task.example(RECORD, parse)
    assert [getattr(s, "text", getattr(s, "name", None)) for s in example.document] == [
        "[CLS]",
        "Question: How far ?",
        "[SEP]",
        " Equation: ",
        None,
        "[EOS]",
    ]
    formula = example.document[example.loss_from]
    assert isinstance(formula, Formula) and from_json(example.reference["tree"]) == formula.tree == latex.parse(
        formula.surface
    )
    assert example.document[: example.loss_from] == task.prompt(RECORD, parse)


def test_a_document_as_published_has_its_layout():
    task = build.build("tasks", {"name": "equation_extraction", "as_published": True})
    document = task.example(RECORD, parse).document
    assert documents.surface(document[:-2]) == "Question: How far ?[SEP] Equation: "
    assert Mark("[SEP]") not in document and Mark("[CLS]") not in document
    assert "[" in document[-2].surface and document[-2].tree != latex.parse(to_latex(RECORD["equation"]))


def test_the_right_formula_scores_as_published_through_its_tokens():
    """Published tokens lose the kind of a bracket, so scores compare what is left of both trees."""
    task = build.build("tasks", {"name": "equation_extraction", "as_published": True})
    example = task.example(RECORD, parse)
    vocabulary = {"name": "sentencepiece", "size": 320}
    marks = trees_published.Scheme.marks_of({}, [example.document[-2].tree])
    scheme = trees_published.Scheme(vocab.build(vocabulary, ["Question: How far ?[SEP] Equation: 12"] * 20, marks))
    written = scheme.decode(scheme.encode((example.document[-2],)).ids.tolist())
    assert written[0].tree != example.document[-2].tree
    scores = task.score([task.predicted(written)], [example.reference])
    assert (scores["tree_match"], scores["TED"], scores["solve_rate"]) == (1, 0, 1)


def test_published_trees_and_tokens_are_the_originals(real_data):
    """Compares trees and tokens of the reference's equations, which come from the dataset's file."""
    folder = real_data("mathgpt_reference").parent
    rows = {str(row["id"]): row for row in read.read_problems(folder / "math23k_en/math23k_en.jsonl.gz")}
    cases = [case for case in mathgpt.load_cases(folder)["cases"] if case["kind"] == "mwp"]
    assert len(cases) > 40
    task = build.build("tasks", {"name": "equation_extraction", "as_published": True})
    scheme = mathgpt.load_scheme(folder)
    for case in cases:
        row = rows[case["source_id"]] | {"text_en": case["article"]["prompt"]["text"]}
        example = task.example(row | {"id": "1", "ans": ""}, scheme.parse)
        assert example.reference["tree"] == case["article"]["label"]["formulas"]["0"]["opt"]
        theirs = mathgpt.flatten_ids(folder, case["token_ids"], case["token_types"])
        # The original ends a text with GPT-2's end token.
        np.testing.assert_array_equal(scheme.encode(example.document).ids[:-1], theirs[:-1])


def test_a_config_as_published():
    plain, published = (
        configs.get_config("smoke,task=equation"),
        configs.get_config("smoke,task=equation,as_published"),
    )
    expected = {
        "task.as_published": (False, True), "scheme.name": ("trees", "trees_published"), "decode.beams": (0, 3),
        "objectives.next.given": (True, False), "embeds.token.special_std": (0.02, 1.0),
        "positions.tree.init_std": (0.005, None),
        "optim.betas": ((0.9, 0.95), (0.9, 0.999)),
    }  # fmt: skip
    options = [dict(_flatten(config.to_dict())) for config in (plain, published)]
    assert {name: (old, options[1][name]) for name, old in options[0].items() if options[1][name] != old} == expected


def _flatten(block, above=""):
    for name, value in block.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def test_equations_are_converted_to_latex():
    assert to_latex("x = 2 * 3 %") == r"x = 2 \times 3 \%"
    assert to_latex("x = 2 ^ ( 1 + ( 2 ) ) * [ 4 ] ^ .5") == r"x = 2 ^ { ( 1 + ( 2 ) ) } \times ( 4 ) ^ { .5 }"
    assert to_latex("x=[1]", brackets=True) == "x = [ 1 ]"
    assert to_latex("x=3(1/2)*4") == r"x = 3 \frac { 1 } { 2 } \times 4"
    assert to_latex("x=3(5/2)+2.3(1/2)") == "x = 3 ( 5 / 2 ) + 2.3 ( 1 / 2 )"


@pytest.mark.parametrize(
    ("equation", "value"),
    [
        ("x=3(1/2)*4", 14), ("x=12(3/4)", Fraction(51, 4)), ("x=2*(1/2)", 1), ("x=2^-1", Fraction(1, 2)),
        ("x=2^3^2", 512), ("x=2^(3^(1+1)-8)*5", 10), ("x=(2^3)^2", 64), ("x=[2^-(1)]*4", 2),
        ("x=2^(1+1)^2*3", 48), ("x=2^-(1+1)", Fraction(1, 4)), ("x=4^.5", 2),
    ],
)  # fmt: skip
def test_equations_have_their_values_in_latex(equation, value):
    tree = latex.parse(to_latex(equation))
    assert isinstance(tree, Tree) and solve(tree) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20", Fraction(20)),
        ("-2.50", Fraction(-5, 2)),
        ("1e-05", Fraction(1, 100000)),
        ("20%", Fraction(1, 5)),
        ("(7/12)", Fraction(7, 12)),
        ("3(1/2)", Fraction(7, 2)),
        ("", None),
        ("many", None),
        ("1/0", None),
        ("__import__('os')", None),
    ],
)
def test_answers_are_parsed_as_fractions(text, value):
    assert parse_answer(text) == value


def test_written_equations_are_parsed():
    task = build.build("tasks", {"name": "equation_extraction"})
    tree = latex.parse("x = 2 + 3")
    assert isinstance(tree, Tree)
    expected = tree.to_json()
    assert task.predicted((Formula("", tree), Mark("[EOS]"), Text("x = 9"))) == expected
    assert task.predicted((*parse(" <m> x = 2 + 3 </m> "), Mark("[EOS]"), Text("x"))) == expected
    assert task.predicted((Formula("", None),)) is None
    assert task.predicted((Text(r"x = \frac{"),)) is None
    assert task.predicted((Mark("[EOS]"), Formula("", tree))) is None


def test_scores_charge_wrong_and_missing_equations():
    task = build.build("tasks", {"name": "equation_extraction"})
    records = [{"id": str(i), "text_en": "?", "equation": f"x = {i} + 2", "ans": str(i + 2)} for i in range(4)]
    references = [json.loads(json.dumps(task.example(r, parse).reference)) for r in records]
    correct_trees = [r["tree"] for r in references]
    best = task.score(correct_trees, references)
    assert best == {
        "tree_match": 1,
        "TED": 0,
        "TED_read": 0,
        "read": 1,
        "solve_rate": 1,
        "unevaluable": 0,
        "carried": 0.75,
    }  # 0 is no number of the problem, nor a constant
    swapped = latex.parse("x = 2 + 1")
    assert isinstance(swapped, Tree)
    scores = task.score([correct_trees[0], swapped.to_json(), None, ["?", 1]], references)
    assert scores["tree_match"] == 0.25 and scores["solve_rate"] == 0.5 and scores["read"] == 0.5
    assert scores["TED_read"] == 1.0 and scores["TED"] == (0 + 2 + 5 + 5) / 4
    published_task = build.build("tasks", {"name": "equation_extraction", "as_published": True})
    with_answers = [r | {"answer": "99"} for r in references]
    assert task.score(correct_trees, with_answers)["solve_rate"] == 0
    assert published_task.score(correct_trees, with_answers)["solve_rate"] == 1, "the stated answer is ignored"


def test_equations_of_the_real_problems_give_their_answers(real_data, tmp_path):
    """Every equation parses, and its value is the answer."""
    task = build.build("tasks", {"name": "equation_extraction", "path": str(real_data("math23k_en"))})
    rows = list(data.load("math23k", "validation", tmp_path, path=task.dataset["path"]))[:400]
    references = [task.example(row, parse).reference for row in rows]
    scores = task.score([r["tree"] for r in references], references)
    assert scores["solve_rate"] == scores["tree_match"] == 1


def test_a_typed_problem_gets_the_layout_of_the_task():
    task = Task()
    record = {"id": "1", "text_en": "A pen costs 3. And 4 pens?", "equation": "x = 3 * 4", "ans": "12"}
    example = task.example(record, documents.parse)
    assert task.prompt_from_text(record["text_en"], documents.parse) == example.document[: example.loss_from]
    for text in (f"Question: {record['text_en']}[SEP] Equation: ", f"Question: {record['text_en']} Equation:"):
        assert task.prompt_from_text(text, documents.parse) == example.document[: example.loss_from]
    assert task.prompt_from_text("Question: 2 pens? [SEP] Equation: x =", documents.parse) is None
