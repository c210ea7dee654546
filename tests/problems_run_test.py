"""MathGPT on composed problems, from training to answers: every question is answered or refused in one line."""

from __future__ import annotations

import json

import pytest

import numjax
from numjax import modes
from numjax.bundled.experiments.problems import ablation, score, sets
from numjax.errors import UsageError
from numjax.evals.numbers import value_of
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.tasks.equation_extraction import to_latex

QUESTIONS = {
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


@pytest.fixture(scope="module", params=["scratch", pytest.param("none", marks=pytest.mark.whole)])
def model(request, tmp_path_factory):
    """A model after seconds of training: its answers are wrong and have the right form."""
    from numjax.bundled.configs import mathgpt

    config = mathgpt.get_config(f"smoke,reader={request.param}")
    with config.unlocked():
        config.optim.steps = 3
        config.eval.update(test=False, examples=8)
    folder = tmp_path_factory.mktemp(request.param)
    modes.run(config, str(folder), "train")
    return numjax.load(folder)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_question_is_answered_by_one_equation_of_its_own_numbers(model, kind):
    result = model.generate(QUESTIONS[kind])
    assert result.text and "\n" not in result.text and result.ended
    problem = sets.WordProblem("typed", QUESTIONS[kind], "84", "1 step")
    (answer,) = score.answer_with_equations(model, [problem])
    assert answer.carried and answer.output


def test_a_problem_of_ten_thousand_words_is_refused_in_one_line(model):
    with pytest.raises(UsageError, match=r"positions .* shorten it") as error:
        model.generate("pens " * 10_000)
    assert "\n" not in str(error.value)


def test_a_list_of_problems_is_scored_by_its_groups(model):
    problems = sets.load_typed()[:6]
    summary = score.summarise(score.answer_with_equations(model, problems))
    assert summary["n"] == 6 and {name.split("/")[0] for name in summary} == {"n", "solved", "carried"}
    assert summary["carried"] == 1


@pytest.mark.whole
@pytest.mark.parametrize("system", ["numgpt", "digits"])
def test_a_model_of_numbers_answers_composed_and_typed_problems_with_one_number(system, tmp_path):
    from numjax.bundled.configs import numgpt

    config = numgpt.get_config(f"smoke,task=problems,system={system}")
    with config.unlocked():
        config.optim.steps = 3
        config.eval.examples = 8
    results = modes.run(config, str(tmp_path), "train")
    streams = {"seen", "wordings", "sentences", "nouns", "range", "steps"}
    assert {name.partition("/")[2] for name in results["test"] if name.startswith("exact/")} == streams
    answers = score.answer_with_numbers(numjax.load(tmp_path), sets.load_typed()[:20])
    assert all(answer.carried and answer.error is not None for answer in answers)
    summary = score.summarise(answers)
    assert summary["LMAE"] > 0 and 0 <= summary["decade"] <= 1


def test_numbers_are_scored_by_value_error_and_decade():
    class FakeModel:
        def predict(self, records, skipped):
            del skipped
            predictions = {"a": "84.2", "b": "8", "c": None, "d": "0.33"}
            return [{"id": record["id"], "prediction": predictions[record["id"]]} for record in records]

    problems = [
        sets.WordProblem(i, "?", answer, "1 step") for i, answer in zip("abcd", ("84", "80", "5", "1/3"), strict=True)
    ]
    answers = score.answer_with_numbers(FakeModel(), problems)
    assert [(a.solved, a.carried, a.decade) for a in answers] == [
        (True, True, True),
        (False, True, False),
        (False, False, False),
        (False, True, True),
    ]
    assert answers[1].error == pytest.approx(1.0) and answers[2].error is None


@pytest.mark.whole
def test_the_ablation_at_smoke_scale_reuses_finished_runs(tmp_path):
    words = ["--scale=smoke", "--steps=2", f"--out={tmp_path}", "--only=pointed,20_0"]
    ablation.main(words)
    first = (tmp_path / "ablation.md").read_text()
    assert first.count("\n") == 6 and "20 wordings, 0% invented" in first
    assert (tmp_path / "parts.png").stat().st_size > 5_000
    assert not (tmp_path / "wordings.png").exists(), "each line would have one point"
    paths = list(tmp_path.rglob("typed.json"))
    assert len(paths) == 2
    # Finished runs are neither trained nor evaluated again.
    for path in paths:
        path.write_text(path.read_text().replace('"n": 208', '"n": 209'))
    ablation.main(words)
    figures = json.loads((tmp_path / "ablation.json").read_text())["figures"]
    assert {seed["typed/n"] for seeds in figures.values() for seed in seeds.values()} == {209}
    # Elsewhere the table alone is enough: no run is trained, and no model is there to be asked.
    ablation.main([*words[:2], f"--out={tmp_path / 'elsewhere'}", words[3], f"--known={tmp_path / 'ablation.json'}"])
    assert json.loads((tmp_path / "elsewhere" / "ablation.json").read_text())["figures"] == figures
    assert not list((tmp_path / "elsewhere").rglob("checkpoints"))


def test_real_problems_of_one_step_are_grouped_by_their_operation(real_data):
    problem_sets = sets.load_real(real_data("addsub").parent)
    assert {"addsub", "mawps", "asdiv"} <= problem_sets.keys()
    for name, least in (("addsub", 200), ("mawps", 800), ("asdiv", 200)):
        assert len(problem_sets[name]) >= least and set(sets.list_groups(problem_sets[name])) <= set("+-*/")


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
def test_an_equation_has_its_value(equation, value):
    tree = latex.parse(to_latex(equation))
    assert isinstance(tree, Tree) and value_of(tree) == value
