"""MathGPT on composed problems, from training to answers: whatever is typed is answered, or refused in one line."""

from __future__ import annotations

import pytest

import numjax
from experiments.problems import score, sets
from numjax import roots, runs
from numjax.errors import UsageError
from numjax.evals.numbers import value_of
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.tasks.equation_extraction import latex_of

TYPED = {
    "as in the README": "A box holds 12 pens. How many pens do 7 boxes hold?",
    "no number": "How many pens do the boxes hold?",
    "more numbers than pointers": "I count "
    + ", ".join(str(n) for n in range(10, 26))
    + ". How many are there in all?",
    "a number in words alone": "Twelve pens are in a box. How many pens are in seven boxes?",
    "in capitals": "A BOX HOLDS 12 PENS. HOW MANY PENS DO 7 BOXES HOLD?",
    "no question mark": "12 pens a box, 7 boxes, how many pens",
    "another language": "Eine Kiste enthält 12 Stifte. Wie viele Stifte enthalten 7 Kisten?",
    "another script": "一个盒子有12支笔。7个盒子有多少支笔？",
    "numbers alone": "12 7",
}


@pytest.fixture(scope="module", params=["scratch", "none"])
def model(request, tmp_path_factory):
    """Seconds of training: what it answers is nonsense, of the right form."""
    roots.put_on_path()
    from configs import mathgpt

    config = mathgpt.get_config(f"smoke,reader={request.param}")
    with config.unlocked():
        config.optim.steps = 3
        config.eval.update(test=False, examples=8)
    folder = tmp_path_factory.mktemp(request.param)
    runs.run(config, str(folder), "train")
    return numjax.load(folder)


@pytest.mark.parametrize("kind", TYPED)
def test_what_is_typed_is_answered_by_one_equation_of_its_own_numbers(model, kind):
    result = model.generate(TYPED[kind])
    assert result.text and "\n" not in result.text and result.ended
    problem = sets.Problem("typed", TYPED[kind], "84", "1 step")
    (answer,) = score.answers(model, [problem])
    assert answer.carried and answer.written


def test_a_problem_of_ten_thousand_words_is_refused_in_one_line(model):
    with pytest.raises(UsageError, match=r"positions .* shorten it") as error:
        model.generate("pens " * 10_000)
    assert "\n" not in str(error.value)


def test_a_list_of_problems_is_scored_by_its_groups(model):
    problems = sets.typed()[:6]
    found = score.summary(score.answers(model, problems))
    assert found["n"] == 6 and {name.split("/")[0] for name in found} == {"n", "solved", "carried"}
    assert found["carried"] == 1


def test_real_problems_of_one_step_are_read_with_their_operation(real_data):
    found = sets.real(real_data("addsub").parent)
    assert {"addsub", "mawps", "asdiv"} <= found.keys()
    for name, least in (("addsub", 200), ("mawps", 800), ("asdiv", 200)):
        assert len(found[name]) >= least and set(sets.groups(found[name])) <= set("+-*/")


@pytest.mark.parametrize(
    ("equation", "value"),
    [
        ("x = 12 * 7", "84"),
        ("x = 1 / 8", "0.125"),
        ("x = 7 / 3", "7/3"),
        ("x = 5 / 0", None),
        ("x = 80 * 15 %", "12"),
    ],
)
def test_an_equation_is_told_with_its_value(equation, value):
    tree = latex.parse(latex_of(equation))
    assert isinstance(tree, Tree) and value_of(tree) == value
