"""Word problems composed from plans: exact answers, wordings that training does not have, and the task over them."""

from __future__ import annotations

import functools
import json
import math
import re
import types
from fractions import Fraction

import numpy as np
import pytest

from numjax.bundled import HOME, data
from numjax.bundled.data.problems import compose, expression, numbers, plans, wording, words
from numjax.bundled.data.problems.generate import records
from numjax.decode import beam
from numjax.errors import UsageError
from numjax.evals import generate
from numjax.expr import latex
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree
from numjax.numeral.words import find
from numjax.tasks.equation_extraction import CONSTANTS, Task, answer_of, carries, latex_of
from numjax.text import document as documents
from numjax.types import Formula, Number

parse = functools.partial(documents.parse, rules="words")
SURROUNDINGS = ("stories", "leads", "asides")
SMALL = dict(size=400, test=60, validation=60, invented=0.3, wordings=0)


@functools.cache
def drawn(seed: int = 0) -> list[tuple[str, dict]]:
    return list(records(seed=seed, **SMALL))


def tree_of(equation: str) -> Tree:
    tree = latex.parse(latex_of(equation))
    assert isinstance(tree, Tree), equation
    return tree


def numbers_of(text: str) -> list[str]:
    return [documents.in_formula(segment) for segment in parse(text) if isinstance(segment, Number)]


# ---------------------------------------------------------------------------------------------------
# What is composed.


def test_the_equation_gives_the_stated_answer():
    """By the library's own reader and exact evaluation of trees, which the generator does not use."""
    for _, row in drawn():
        assert solve(tree_of(row["equation"])) == answer_of(row["ans"]), row


def test_every_number_of_an_equation_is_the_problems_or_a_constant():
    for _, row in drawn():
        assert carries(tree_of(row["equation"]), numbers_of(row["text_en"])), row


def test_no_slot_stays_open_and_every_text_is_its_own():
    texts = [row["text_en"] for _, row in drawn()]
    assert not [text for text in texts if re.search(r"[{}\[\]|]|  ", text)]
    assert len(set(texts)) == len(texts)


def test_steps_are_the_operations_of_the_equation():
    for _, row in drawn():
        fractions = len(re.findall(r"\( \d+ / \d+ \)", row["equation"]))
        operations = len(re.findall(r" [-+*/] ", row["equation"]))
        # A fraction that is one number is no step; one of two numbers is, and looks the same.
        assert operations - fractions <= row["steps"] <= operations, row


def test_a_seed_gives_the_same_problems_and_another_seed_others():
    again = list(records(seed=0, **SMALL))
    assert again == drawn() and {row["text_en"] for _, row in again}.isdisjoint(row["text_en"] for _, row in drawn(1))


def test_larger_numbers_and_more_steps_where_a_stream_asks_for_them():
    of = {name: [row for _, row in drawn() if row["stream"] == name] for name in ("seen", "range", "steps")}
    largest = {name: np.median([max(map(_value, numbers_of(row["text_en"]))) for row in of[name]]) for name in of}
    assert largest["range"] > 10 * largest["seen"]
    assert {row["steps"] for row in of["steps"]} == {4} and max(row["steps"] for row in of["seen"]) == 3


def _value(number: str) -> float:
    return float(number)


def test_so_many_forms_where_training_is_limited_to_them():
    rows = [row for split, row in records(seed=3, **(SMALL | {"wordings": 20})) if split == "train"]
    assert 10 <= len({row["form"] for row in rows}) <= 20 and len(rows) == SMALL["size"]


# ---------------------------------------------------------------------------------------------------
# Splits.


def test_what_is_held_out_is_in_no_form_of_training():
    """Drawn forms, not the lists that they are drawn from: a wording may stand in several lists."""
    rng = np.random.default_rng(7)
    trained = {s for _ in range(3000) for s in compose.draw_form(rng, "train").sentences}
    for use in ("validation", "wordings", "sentences"):
        for _ in range(300):
            form = compose.draw_form(rng, use)
            assert not set(form.sentences) <= trained and form.new


def test_a_sentence_that_is_held_out_gives_training_no_wording():
    lists = [each for plan in plans.load() for each in (*plan.facts, plan.ask) if len(each) > 1]
    held = 0
    for each in lists:
        pools = wording.pools(each)
        trained = {text for group in pools["train"] for text in group}
        for group in (*pools["sentences"], *pools["validation"], *pools["wordings"]):
            assert trained.isdisjoint(group)
        held += len(pools["sentences"])
    sentences = sum(map(len, lists))
    assert 0.04 < held / sentences < 0.12


def test_unseen_nouns_are_not_those_of_training():
    trained, held = (set(words.parted("things", of)) for of in (False, True))
    assert held and trained.isdisjoint(held) and len(held) < len(trained) / 4
    known = [noun.many for noun in trained] + [noun.one for noun in trained]
    for _, row in drawn():
        if row["stream"] == "nouns":
            text = row["text_en"].lower()
            clash = [noun for noun in known if f" {noun.lower()} " in text]
            # Plans name some things themselves.
            assert not clash or row["situation"], row


def test_adding_sentences_moves_none():
    some = ("{A} has {a} {things}.", "{A} owns {a} {things}.", "In {A}'s bag are {a} {things}.")
    for use, groups in wording.pools(some).items():
        more = wording.pools((*some, "{a} {things} are {A}'s."))[use]
        assert set(groups) <= set(more)


# ---------------------------------------------------------------------------------------------------
# Parts.


def test_expressions_are_read_written_and_evaluated_alike(rng):
    """Against Python's own arithmetic on fractions."""
    for _ in range(200):
        names = {name: Fraction(int(rng.integers(1, 50))) for name in "abcd"}
        text = "a"
        for name in "bcd":
            text = (
                f"({text} {rng.choice(list('+-*/'))} {name})"
                if rng.random() < 0.5
                else f"{name} {rng.choice(list('+-*/'))} ({text})"
            )
        node = expression.read(text)
        try:
            value = eval(text, {}, dict(names))
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                expression.evaluate(node, names)
            continue
        written = expression.write(node, {})
        assert expression.evaluate(node, names) == value == eval(written, {}, dict(names)), (text, written)
        order = {name: int(place) for name, place in zip("abcd", rng.permutation(4), strict=True)}
        moved = expression.ordered(node, order)
        assert expression.evaluate(moved, names) == value
        assert expression.steps(node) == 3 == expression.steps(moved)


def test_operands_of_sums_and_products_come_in_the_order_of_the_text():
    node = expression.ordered(expression.read("b + a * 60"), {"a": 0, "b": 1})
    assert expression.write(node, {}) == "a * 60 + b"
    assert expression.write(expression.ordered(expression.read("a - b"), {"b": 0, "a": 1}), {}) == "a - b"


@pytest.mark.parametrize("kind", [k for k in numbers.BOUNDS if k not in ("times", "fraction", "multiple")])
def test_a_number_is_found_again_as_it_was_written(kind, rng):
    for _ in range(200):
        of = numbers.read_kind(kind)
        value, style = numbers.draw(rng, of, {}), numbers.draw_style(rng)
        written = numbers.write(value, of, style)
        (span,) = find(f"so {written.text} it is")
        read = Fraction(span.value)
        assert read == value or (kind == "percent" and read == value * 100), written
        assert Fraction(written.equation.removesuffix(" %")) == value * (100 if kind == "percent" else 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(equation="a +"), "cannot be read"),
        (dict(equation="a + z"), "z, which"),
        (dict(equation="a ** b"), "more than names"),
        (dict(facts=[["{A} has {a} {thinks} and {b}."]]), "no slot is called 'thinks'"),
        (dict(facts=[["{A} has {a}."]]), "the number b is not given"),
        (dict(facts=[["{A} [has {a} and {b}."]]), "not closed"),
        (dict(numbers={"a": "countt", "b": "count"}), "no kind of number"),
        (dict(ask=[]), "plans and ends ask"),
        (dict(where=["a"]), "compares nothing"),
        (dict(answer="round"), "answer='round'"),
        (dict(sentence="x"), "unknown sentence"),
        (dict(world="w"), "parts have a world"),
    ],
)
def test_a_plan_that_makes_no_problem_is_refused_with_its_name(monkeypatch, tmp_path, change, says):
    good = {
        "name": "two",
        "equation": "a + b",
        "numbers": {"a": "count", "b": "count"},
        "facts": [["{A} has {a} and {b} {things}."]],
        "ask": ["How many?"],
    }
    lines = ["[[plan]]", *(f"{key} = {_toml(value)}" for key, value in (good | change).items())]
    (tmp_path / "made.toml").write_text("\n".join(lines))
    monkeypatch.setattr(plans, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match=re.escape(says)) as error:
        plans.load.__wrapped__()
    assert "made.toml, plan 'two'" in str(error.value) and "\n" not in str(error.value)


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def test_invented_words_have_plurals_and_are_no_rude_ones(rng):
    made = [words.invented(rng) for _ in range(2000)]
    assert all(noun.many.startswith(noun.one) and noun.many.endswith("s") for noun in made)
    assert not [noun.one for noun in made if noun.one.startswith(("crap", "fuk", "tit"))]
    assert len({noun.one for noun in made}) > 1500


# ---------------------------------------------------------------------------------------------------
# The dataset and the task.


def test_the_dataset_is_built_and_read(tmp_path):
    options = dict(size=50, test=5, seed=4)
    rows = {s: list(data.load("problems", s, tmp_path, **options)) for s in ("train", "validation", "test")}
    assert {s: len(of) for s, of in rows.items()} == {"train": 50, "validation": 600, "test": 30}
    assert {row["stream"] for row in rows["test"]} == {"seen", "wordings", "sentences", "nouns", "range", "steps"}
    with pytest.raises(UsageError, match="from 0 to 100"):
        data.load("problems", "train", tmp_path, invented=130)


@pytest.mark.parametrize("encoder", [False, True])
def test_the_task_scores_by_stream_and_by_steps(encoder):
    task = Task(dataset="problems", encoder=encoder)
    rows = [row for split, row in drawn() if split == "test"]
    examples = [task.example(row, parse) for row in rows]
    assert all((example.source is not None) == encoder for example in examples)
    references = [example.reference for example in examples]
    right = [reference["tree"] for reference in references]
    wrong = [tree if row["stream"] != "range" else None for tree, row in zip(right, rows, strict=True)]
    scores, worse = task.score(right, references), task.score(wrong, references)
    assert scores["solve_rate"] == scores["carried"] == scores["solve_rate/range"] == 1
    assert worse["solve_rate/range"] == worse["solve_rate/range/1"] == 0 and worse["solve_rate/seen"] == 1
    of_range = sum(row["stream"] == "range" for row in rows) / len(rows)
    assert worse["carried"] == pytest.approx(1 - of_range)


def test_a_number_from_nowhere_is_not_carried():
    assert carries(tree_of("x = 12 * 7"), ["12", "7"]) and carries(tree_of("x = 12 * 60"), ["12"])
    assert not carries(tree_of("x = 38 + 234"), ["2340", "86"]) and "38" not in CONSTANTS


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(UsageError, match="reads no path"):
        Task(dataset="problems", path="somewhere")
    with pytest.raises(UsageError, match="choose one of math23k, problems"):
        Task(dataset="problem")
    with pytest.raises(UsageError, match="encoder=False"):
        Task(encoder=True, as_published=True)


def test_the_typed_problems_are_whole():
    """Written by hand: every equation gives its answer, with the problem's numbers."""
    rows = [json.loads(line) for line in (HOME / "data/problems/typed.jsonl").read_text().splitlines()]
    assert len(rows) >= 150 and len({row["problem"] for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        tree = tree_of(row["equation"])
        assert solve(tree) == answer_of(row["answer"]), row
    steps = [row["steps"] for row in rows]
    assert min(steps.count(n) for n in (1, 2)) >= 50 and len({row["situation"] for row in rows}) >= 12


def test_no_typed_problem_can_be_composed():
    """Not even up to its numbers: no sentence of theirs is a wording of a plan with its slots filled."""
    rows = [json.loads(line) for line in (HOME / "data/problems/typed.jsonl").read_text().splitlines()]
    sentences = {s.strip() for row in rows for s in re.split(r"(?<=[.?!]) ", row["problem"]) if len(s.split()) > 6}
    known: dict[str, list[re.Pattern]] = {}
    for text in plans.trained():
        pattern = re.sub(r"\\\{\w+\\\}", r"[\\w$£€%.,/ '-]+?", re.escape(text))
        if len(re.findall(r"[a-z]{2,}", re.sub(r"\{\w+\}", "", text))) > 3:
            known.setdefault(re.escape(text)[-6:], []).append(re.compile(pattern, re.IGNORECASE))
    found = {s for s in sentences for p in known.get(re.escape(s)[-6:], ()) if p.fullmatch(s)}
    assert len(found) <= len(sentences) // 50, found


def written(equation: str) -> tuple:
    return (Formula(equation, tree_of(equation)),)


def test_among_beams_a_value_that_no_answer_has_is_left_out_and_a_broken_one_is_rare():
    prior = Task(dataset="problems").log_prior
    assert prior(written("x = 12 - 7")) == prior(written("x = 7 / 2.5")) == prior(written("x = 7 * 45 %")) == 0
    assert prior(written("x = 7 - 12")) == prior(written("x = 7 - 7")) == -math.inf
    assert prior(written("x = 7 / 0")) == prior(()) == -math.inf
    assert -math.inf < prior(written("x = 7 / 12")) < 0
    assert Task(dataset="math23k").log_prior(written("x = 7 - 12")) == 0


def test_the_best_beam_is_the_likeliest_whose_value_an_answer_may_have(monkeypatch):
    """The prior moves a negative one back, and a broken one only where it leads by little."""
    texts = ["x = 7 - 12", "x = 7 / 2", "x = 12 - 7"]
    monkeypatch.setattr(generate, "_read", lambda done, b: ([int(done.ids[b, 0])], [], 0.0, bool(done.ended[b])))
    monkeypatch.setattr(generate, "_document", lambda system, row, ids, numbers: written(texts[ids[0]]))

    def best(scores, task, ended=(True, True, True)) -> str:
        beams = beam.Beams(np.arange(3).reshape(1, 3, 1), *[None] * 2, np.asarray([scores]), *[None] * 3)
        beams = beams._replace(**{f: np.zeros((1, 3)) for f in ("length", "log_prob")})
        beams = beams._replace(ended=np.asarray([ended]))
        found = generate._chosen(types.SimpleNamespace(task=task), None, beams, 0)
        return texts[found[0][0]]

    problems = Task(dataset="problems")
    assert best([-1.0, -2.0, -3.0], Task(dataset="math23k")) == texts[0]
    assert best([-1.0, -2.0, -3.0], problems) == texts[2]
    assert best([-1.0, -2.0, -9.0], problems) == texts[1]
    assert best([-1.0, -np.inf, -np.inf], problems) == texts[0]
    assert best([-1.0, -9.0, -3.0], problems, ended=(True, True, False)) == texts[1], "cut off, it is no equation"


def test_sentences_that_no_question_needs_leave_the_equation_as_it_is():
    """Stories, leads and other numbers stand in forms for training; no equation uses what they say."""
    rng = np.random.default_rng(3)
    kept = {name: {text for line in words.words(name) for text in wording.expand(line)} for name in SURROUNDINGS}
    counts = dict.fromkeys(kept, 0)
    for _ in range(400):
        form = compose.draw_form(rng, "train")
        counts["stories"] += any(text in kept["stories"] for text in form.sentences)
        counts["asides"] += any(text in kept["asides"] for text in form.sentences)
        counts["leads"] += any(text.startswith(f"{lead} ") for lead in kept["leads"] for text in form.sentences)
        assert ("n" in dict(form.kinds)) == any("{n}" in text for text in form.sentences)
        assert "n" not in expression.leaves(form.equation)
        for aside in (text for text in form.sentences if text in kept["asides"] and "{things2}" in text):
            others = wording.slots(" ".join(text for text in form.sentences if text != aside))
            assert "things" in others and "things2" not in others, "nothing else may be counted with them"
            counts["others"] = counts.get("others", 0) + 1
    assert counts["stories"] > 60 and counts["asides"] > 30 and counts["leads"] > 10 and counts["others"] > 0, counts
