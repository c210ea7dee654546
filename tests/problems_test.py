"""Word problems composed from plans: exact answers, wordings outside training, and the task on them."""

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
from numjax.bundled.data.problems.generate import generate_records
from numjax.decode import beam
from numjax.errors import UsageError
from numjax.evals import generate, requests
from numjax.expr import latex
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree
from numjax.numeral.words import find
from numjax.tasks.equation_extraction import CONSTANTS, Task, carries, parse_answer, to_latex
from numjax.text import document as documents
from numjax.types import Formula, Number

parse = functools.partial(documents.parse, rules="words")
SURROUNDINGS = ("stories", "leads", "asides")
SMALL = dict(size=400, test=60, validation=60, invented=0.3, wordings=0)


@functools.cache
def draw_records(seed: int = 0) -> list[tuple[str, dict]]:
    return list(generate_records(seed=seed, **SMALL))


def parse_equation(equation: str) -> Tree:
    tree = latex.parse(to_latex(equation))
    assert isinstance(tree, Tree), equation
    return tree


def list_numbers(text: str) -> list[str]:
    return [documents.spell_in_formula(segment) for segment in parse(text) if isinstance(segment, Number)]


def test_a_percentage_in_a_formula_keeps_all_its_digits():
    """Decimal's own products would round to 28 digits."""
    long = "12345678901234567890123456789.12345"
    assert list_numbers(f"Of {long}% and 0.5% and 2,340 and 7%") == [long, "0.5", "2340", "7"]


# ---------------------------------------------------------------------------------------------------
# Composed problems.


def test_the_equation_gives_the_stated_answer():
    """Checks with the library's parser and exact evaluation of trees, which the generator does not use."""
    for _, row in draw_records():
        assert solve(parse_equation(row["equation"])) == parse_answer(row["ans"]), row


def test_every_number_of_an_equation_is_the_problems_or_a_constant():
    for _, row in draw_records():
        assert carries(parse_equation(row["equation"]), list_numbers(row["text_en"])), row


def test_no_slot_stays_open_and_every_text_is_its_own():
    texts = [row["text_en"] for _, row in draw_records()]
    assert not [text for text in texts if re.search(r"[{}\[\]|]|  ", text)]
    assert len(set(texts)) == len(texts)


def test_steps_are_the_operations_of_the_equation():
    for _, row in draw_records():
        fractions = len(re.findall(r"\( \d+ / \d+ \)", row["equation"]))
        operations = len(re.findall(r" [-+*/] ", row["equation"]))
        # A fraction that is one number is no step. A fraction of two numbers is a step and looks the same.
        assert operations - fractions <= row["steps"] <= operations, row


def test_a_seed_gives_the_same_problems_and_another_seed_others():
    records = list(generate_records(seed=0, **SMALL))
    assert records == draw_records() and {row["text_en"] for _, row in records}.isdisjoint(
        row["text_en"] for _, row in draw_records(1)
    )


def test_larger_numbers_and_more_steps_where_a_stream_asks_for_them():
    streams = {
        name: [row for _, row in draw_records() if row["stream"] == name] for name in ("seen", "range", "steps")
    }
    largest = {
        name: np.median([max(map(_to_float, list_numbers(row["text_en"]))) for row in streams[name]])
        for name in streams
    }
    assert largest["range"] > 10 * largest["seen"]
    assert {row["steps"] for row in streams["steps"]} == {4} and max(row["steps"] for row in streams["seen"]) == 3


def _to_float(number: str) -> float:
    return float(number)


def test_training_has_no_more_forms_than_requested():
    rows = [row for split, row in generate_records(seed=3, **(SMALL | {"wordings": 20})) if split == "train"]
    assert 10 <= len({row["form"] for row in rows}) <= 20 and len(rows) == SMALL["size"]


# ---------------------------------------------------------------------------------------------------
# Splits.


def test_held_out_wordings_are_in_no_training_form():
    """Checks drawn forms, not the lists that they are drawn from: a wording may be in several lists."""
    rng = np.random.default_rng(7)
    training_sentences = {s for _ in range(3000) for s in compose.draw_form(rng, "train").sentences}
    for use in ("validation", "wordings", "sentences"):
        for _ in range(300):
            form = compose.draw_form(rng, use)
            assert not set(form.sentences) <= training_sentences and form.is_new


def test_a_held_out_sentence_gives_training_no_wording():
    lists = [sentences for plan in plans.load() for sentences in (*plan.facts, plan.ask) if len(sentences) > 1]
    n_held_out = 0
    for sentences in lists:
        pools = wording.make_pools(sentences)
        training_texts = {text for group in pools["train"] for text in group}
        for group in (*pools["sentences"], *pools["validation"], *pools["wordings"]):
            assert training_texts.isdisjoint(group)
        n_held_out += len(pools["sentences"])
    n_sentences = sum(map(len, lists))
    assert 0.04 < n_held_out / n_sentences < 0.12


def test_unseen_nouns_are_not_those_of_training():
    training_nouns, held_out_nouns = (set(words.select_nouns("things", is_held_out)) for is_held_out in (False, True))
    assert (
        held_out_nouns and training_nouns.isdisjoint(held_out_nouns) and len(held_out_nouns) < len(training_nouns) / 4
    )
    training_forms = [noun.plural for noun in training_nouns] + [noun.singular for noun in training_nouns]
    for _, row in draw_records():
        if row["stream"] == "nouns":
            text = row["text_en"].lower()
            clash = [noun for noun in training_forms if f" {noun.lower()} " in text]
            # Some plans name things themselves.
            assert not clash or row["situation"], row


def test_adding_sentences_moves_none():
    sentences = ("{A} has {a} {things}.", "{A} owns {a} {things}.", "In {A}'s bag are {a} {things}.")
    for use, groups in wording.make_pools(sentences).items():
        more_groups = wording.make_pools((*sentences, "{a} {things} are {A}'s."))[use]
        assert set(groups) <= set(more_groups)


# ---------------------------------------------------------------------------------------------------
# Parts.


def test_expressions_are_parsed_written_and_evaluated_alike(rng):
    """Compares with Python's arithmetic on fractions."""
    for _ in range(200):
        names = {name: Fraction(int(rng.integers(1, 50))) for name in "abcd"}
        text = "a"
        for name in "bcd":
            text = (
                f"({text} {rng.choice(list('+-*/'))} {name})"
                if rng.random() < 0.5
                else f"{name} {rng.choice(list('+-*/'))} ({text})"
            )
        node = expression.parse(text)
        try:
            value = eval(text, {}, dict(names))
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                expression.evaluate(node, names)
            continue
        output = expression.write(node, {})
        assert expression.evaluate(node, names) == value == eval(output, {}, dict(names)), (text, output)
        order = {name: int(position) for name, position in zip("abcd", rng.permutation(4), strict=True)}
        ordered_node = expression.order_operands(node, order)
        assert expression.evaluate(ordered_node, names) == value
        assert expression.count_steps(node) == 3 == expression.count_steps(ordered_node)


def test_operands_of_sums_and_products_come_in_the_order_of_the_text():
    node = expression.order_operands(expression.parse("b + a * 60"), {"a": 0, "b": 1})
    assert expression.write(node, {}) == "a * 60 + b"
    assert expression.write(expression.order_operands(expression.parse("a - b"), {"b": 0, "a": 1}), {}) == "a - b"


@pytest.mark.parametrize("kind", [k for k in numbers.BOUNDS if k not in ("times", "fraction", "multiple")])
def test_a_written_number_parses_to_its_value(kind, rng):
    for _ in range(200):
        number_kind = numbers.parse_kind(kind)
        value, style = numbers.draw(rng, number_kind, {}), numbers.draw_style(rng)
        output = numbers.write(value, number_kind, style)
        (span,) = find(f"so {output.text} it is")
        result = Fraction(span.value)
        assert result == value or (kind == "percent" and result == value * 100), output
        assert Fraction(output.equation.removesuffix(" %")) == value * (100 if kind == "percent" else 1)


@pytest.mark.parametrize(
    ("change", "message"),
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
def test_a_plan_that_makes_no_problem_is_refused_with_its_name(monkeypatch, tmp_path, change, message):
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
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        plans.load.__wrapped__()
    assert "made.toml, plan 'two'" in str(error.value) and "\n" not in str(error.value)


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def test_invented_words_have_plurals_and_are_no_rude_ones(rng):
    nouns = [words.invent_noun(rng) for _ in range(2000)]
    assert all(noun.plural.startswith(noun.singular) and noun.plural.endswith("s") for noun in nouns)
    assert not [noun.singular for noun in nouns if noun.singular.startswith(("crap", "fuk", "tit"))]
    assert len({noun.singular for noun in nouns}) > 1500


# ---------------------------------------------------------------------------------------------------
# The dataset and the task.


def test_the_dataset_is_built_and_loaded(tmp_path):
    options = dict(size=50, test=5, seed=4)
    rows = {s: list(data.load("problems", s, tmp_path, **options)) for s in ("train", "validation", "test")}
    assert {s: len(records) for s, records in rows.items()} == {"train": 50, "validation": 600, "test": 30}
    assert {row["stream"] for row in rows["test"]} == {"seen", "wordings", "sentences", "nouns", "range", "steps"}
    with pytest.raises(UsageError, match="from 0 to 100"):
        data.load("problems", "train", tmp_path, invented=130)


@pytest.mark.parametrize("encoder", [False, True])
def test_the_task_scores_by_stream_and_by_steps(encoder):
    task = Task(dataset="problems", encoder=encoder)
    rows = [row for split, row in draw_records() if split == "test"]
    examples = [task.example(row, parse) for row in rows]
    assert all((example.source is not None) == encoder for example in examples)
    references = [example.reference for example in examples]
    right_trees = [reference["tree"] for reference in references]
    wrong_trees = [tree if row["stream"] != "range" else None for tree, row in zip(right_trees, rows, strict=True)]
    scores, worse_scores = task.score(right_trees, references), task.score(wrong_trees, references)
    assert scores["solve_rate"] == scores["carried"] == scores["solve_rate/range"] == 1
    assert (
        worse_scores["solve_rate/range"] == worse_scores["solve_rate/range/1"] == 0
        and worse_scores["solve_rate/seen"] == 1
    )
    range_share = sum(row["stream"] == "range" for row in rows) / len(rows)
    assert worse_scores["carried"] == pytest.approx(1 - range_share)


def test_a_number_outside_the_problem_is_not_carried():
    assert carries(parse_equation("x = 12 * 7"), ["12", "7"]) and carries(parse_equation("x = 12 * 60"), ["12"])
    assert carries(parse_equation("x = 0.50 * .7"), ["0.5", "0.7"])
    assert not carries(parse_equation("x = 500 + 0.05"), ["5", "0.5"])
    assert not carries(parse_equation("x = 38 + 234"), ["2340", "86"]) and "38" not in CONSTANTS


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
        tree = parse_equation(row["equation"])
        assert solve(tree) == parse_answer(row["answer"]), row
    steps = [row["steps"] for row in rows]
    assert min(steps.count(n) for n in (1, 2)) >= 50 and len({row["situation"] for row in rows}) >= 12


def test_no_typed_problem_can_be_composed():
    """Not even with other numbers: no typed sentence is a plan's wording with its slots filled."""
    rows = [json.loads(line) for line in (HOME / "data/problems/typed.jsonl").read_text().splitlines()]
    sentences = {s.strip() for row in rows for s in re.split(r"(?<=[.?!]) ", row["problem"]) if len(s.split()) > 6}
    patterns: dict[str, list[re.Pattern]] = {}
    for text in plans.list_training_wordings():
        pattern = re.sub(r"\\\{\w+\\\}", r"[\\w$£€%.,/ '-]+?", re.escape(text))
        if len(re.findall(r"[a-z]{2,}", re.sub(r"\{\w+\}", "", text))) > 3:
            patterns.setdefault(re.escape(text)[-6:], []).append(re.compile(pattern, re.IGNORECASE))
    matches = {s for s in sentences for p in patterns.get(re.escape(s)[-6:], ()) if p.fullmatch(s)}
    assert len(matches) <= len(sentences) // 50, matches


def make_document(equation: str) -> tuple:
    return (Formula(equation, parse_equation(equation)),)


def test_among_beams_a_value_that_no_answer_has_is_left_out_and_a_broken_one_is_rare():
    prior = Task(dataset="problems").log_prior
    assert (
        prior(make_document("x = 12 - 7"))
        == prior(make_document("x = 7 / 2.5"))
        == prior(make_document("x = 7 * 45 %"))
        == 0
    )
    assert prior(make_document("x = 7 - 12")) == prior(make_document("x = 7 - 7")) == -math.inf
    assert prior(make_document("x = 7 / 0")) == prior(()) == -math.inf
    assert -math.inf < prior(make_document("x = 7 / 12")) < 0
    assert Task(dataset="math23k").log_prior(make_document("x = 7 - 12")) == 0


def test_the_best_beam_is_the_likeliest_whose_value_an_answer_may_have(monkeypatch):
    """The prior puts a negative value last, and a fraction behind a whole number unless it leads by a lot."""
    texts = ["x = 7 - 12", "x = 7 / 2", "x = 12 - 7"]
    monkeypatch.setattr(
        requests, "extract_row", lambda system, state, b: ([int(state.ids[b, 0])], [], 0.0, bool(state.ended[b]))
    )
    monkeypatch.setattr(generate, "_decode_document", lambda system, row, ids, numbers: make_document(texts[ids[0]]))

    def choose_best(scores, task, ended=(True, True, True)) -> str:
        beams = beam.Beams(np.arange(3).reshape(1, 3, 1), *[None] * 2, np.asarray([scores]), *[None] * 3)
        beams = beams._replace(**{f: np.zeros((1, 3)) for f in ("length", "log_prob")})
        beams = beams._replace(ended=np.asarray([ended]))
        choice = generate._choose_beam(types.SimpleNamespace(task=task), None, beams, 0)
        return texts[choice[0][0]]

    problems = Task(dataset="problems")
    assert choose_best([-1.0, -2.0, -3.0], Task(dataset="math23k")) == texts[0]
    assert choose_best([-1.0, -2.0, -3.0], problems) == texts[2]
    assert choose_best([-1.0, -2.0, -9.0], problems) == texts[1]
    assert choose_best([-1.0, -np.inf, -np.inf], problems) == texts[0]
    assert choose_best([-1.0, -9.0, -3.0], problems, ended=(True, True, False)) == texts[1], (
        "cut off, it is no equation"
    )


def test_sentences_that_no_question_needs_leave_the_equation_as_it_is():
    """Training forms have stories, leads and other numbers; no equation uses them."""
    rng = np.random.default_rng(3)
    texts = {
        name: {text for line in words.load_words(name) for text in wording.expand(line)} for name in SURROUNDINGS
    }
    counts = dict.fromkeys(texts, 0)
    for _ in range(400):
        form = compose.draw_form(rng, "train")
        counts["stories"] += any(text in texts["stories"] for text in form.sentences)
        counts["asides"] += any(text in texts["asides"] for text in form.sentences)
        counts["leads"] += any(text.startswith(f"{lead} ") for lead in texts["leads"] for text in form.sentences)
        assert ("n" in dict(form.kinds)) == any("{n}" in text for text in form.sentences)
        assert "n" not in expression.leaves(form.equation)
        for aside in (text for text in form.sentences if text in texts["asides"] and "{things2}" in text):
            other_slots = wording.find_slots(" ".join(text for text in form.sentences if text != aside))
            assert "things" in other_slots and "things2" not in other_slots, "nothing else may be counted with them"
            counts["others"] = counts.get("others", 0) + 1
    assert counts["stories"] > 60 and counts["asides"] > 30 and counts["leads"] > 10 and counts["others"] > 0, counts
