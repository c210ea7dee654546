"""A model of word problems, of equations or of numbers, on problems that someone typed and on those of public sets.

python -m experiments.problems.score --workdir=runs/equations                 # data/problems/typed.jsonl
python -m experiments.problems.score --workdir=runs/equations --real=FOLDER   # and addsub, mawps, asdiv there
python -m experiments.problems.score --workdir=runs/equations --show=wrong    # a line a problem: wanted, got

Never trained on, never chosen on. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from numjax.bundled.experiments import command
from numjax.bundled.experiments.problems import sets
from numjax.bundled.experiments.problems.sets import WordProblem
from numjax.expr import printer
from numjax.expr.tree import Tree
from numjax.metrics import formulas
from numjax.tasks import equation_extraction, generation
from numjax.text import document as documents
from numjax.types import Number


class Answer(NamedTuple):
    """What a model made of a problem: LaTeX, whether its value is the answer, whether it holds the problem's numbers
    alone. Of a number: itself, whether it is the answer, whether it is there, |log10 of it − log10 of the answer| and
    whether both have the same decade."""

    problem: WordProblem
    output: str
    solved: bool
    carried: bool
    error: float | None = None
    decade: bool | None = None


def answer_with_equations(model: Any, problems: Sequence[WordProblem]) -> list[Answer]:
    """Each problem answered; those that the model cannot read count as unsolved."""
    records = [{"id": problem.id, "text_en": problem.text} for problem in problems]
    skipped: list[dict[str, str]] = []
    predicted = {row["id"]: row["prediction"] for row in model.predict(records, skipped=skipped)}
    return [_judge_equation(model, problem, formulas.parse_tree(predicted.get(problem.id))) for problem in problems]


def _judge_equation(model: Any, problem: WordProblem, tree: Tree | None) -> Answer:
    if tree is None:
        return Answer(problem, "", False, False)
    expected = equation_extraction.parse_answer(problem.answer)
    solved = formulas.values_agree(formulas.value_of(tree), expected, formulas.TOLERANCE)
    parsed = model.system.scheme.parse(problem.text)
    numbers = [documents.spell_in_formula(segment) for segment in parsed if isinstance(segment, Number)]
    return Answer(problem, printer.latex(tree), solved, equation_extraction.carries(tree, numbers))


def answer_with_numbers(model: Any, problems: Sequence[WordProblem]) -> list[Answer]:
    """Each problem answered by a model that writes a number instead of an equation."""
    records = [{"id": problem.id, "question": problem.text, "answer": "1"} for problem in problems]
    predicted = {row["id"]: row["prediction"] for row in model.predict(records, skipped=[])}
    answers = []
    for problem in problems:
        output = predicted.get(problem.id)
        number = None if output is None else Decimal(output)
        error = decade = None
        expected = _parse_fraction(problem.answer)
        if number is not None and number > 0:
            error = abs(float(number.log10() - expected.log10()))
            decade = number.adjusted() == expected.adjusted()
        solved = number is not None and generation.rounds_to(number, expected)
        answers.append(Answer(problem, output or "", solved, number is not None, error, bool(decade)))
    return answers


def _parse_fraction(answer: str) -> Decimal:
    numerator, _, denominator = answer.partition("/")
    return Decimal(numerator) / Decimal(denominator or 1)


def summarise(answers: Sequence[Answer]) -> dict[str, float]:
    """Shares: "solved" and "carried" of all, "solved/GROUP" of each group; of numbers also "LMAE", the mean error of
    their logarithms, and the share in the right "decade"."""
    out = {
        "n": len(answers),
        "solved": _share([a.solved for a in answers]),
        "carried": _share([a.carried for a in answers]),
    }
    if errors := [a.error for a in answers if a.error is not None]:
        out["LMAE"] = sum(errors) / len(errors)
        out["decade"] = _share([bool(a.decade) for a in answers])
    for group in sets.list_groups([a.problem for a in answers]):
        out[f"solved/{group}"] = _share([a.solved for a in answers if a.problem.group == group])
    return out


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def main(words: Sequence[str] | None = None) -> None:
    """Prints a table a set, then all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True, help="of a run of configs/mathgpt.py, or numgpt.py")
    parser.add_argument("--real", default="", help="folder of addsub, mawps and asdiv")
    parser.add_argument("--show", choices=("none", "wrong", "all"), default="none", help="problems to print")
    parser.add_argument("--trust", action="store_true", help="run modules outside numjax that the run's config names")
    options = parser.parse_args(words)
    import numjax

    model = numjax.load(options.workdir, trust=options.trust)
    problems = {"typed": sets.load_typed()} | (
        sets.load_real(pathlib.Path(options.real).expanduser()) if options.real else {}
    )
    summaries = {}
    for name, problem_set in problems.items():
        answers = (answer_with_numbers if isinstance(model.system.task, generation.Task) else answer_with_equations)(
            model, problem_set
        )
        summaries[name] = summarise(answers)
        for answer in answers:
            if options.show == "all" or (options.show == "wrong" and not answer.solved):
                verdict = "right" if answer.solved else "wrong"
                print(f"{verdict}  {answer.problem.text}  wanted {answer.problem.answer}, got {answer.output}")
        print(
            f"{name:8}" + "  ".join(f"{key} {value:.3f}" for key, value in summaries[name].items()), file=sys.stderr
        )
    print(json.dumps(summaries))


if __name__ == "__main__":
    command.entry(main)
