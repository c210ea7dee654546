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
from numjax.bundled.experiments.problems.sets import Problem
from numjax.expr import printer
from numjax.expr.tree import Tree
from numjax.tasks import equation_extraction, formulas, generation
from numjax.text import document as documents
from numjax.types import Number


class Answer(NamedTuple):
    """What a model made of a problem: LaTeX, whether its value is the answer, whether it holds the problem's numbers
    alone. Of a number: itself, whether it is the answer, whether it is there, |log10 of it − log10 of the answer| and
    whether both have the same decade."""

    problem: Problem
    written: str
    solved: bool
    carried: bool
    error: float | None = None
    decade: bool | None = None


def answers(model: Any, problems: Sequence[Problem]) -> list[Answer]:
    """Each problem answered; those that the model cannot read count as unsolved."""
    records = [{"id": problem.id, "text_en": problem.text} for problem in problems]
    skipped: list[dict[str, str]] = []
    predicted = {row["id"]: row["prediction"] for row in model.predict(records, skipped=skipped)}
    return [_answer(model, problem, formulas.tree_of(predicted.get(problem.id))) for problem in problems]


def _answer(model: Any, problem: Problem, tree: Tree | None) -> Answer:
    if tree is None:
        return Answer(problem, "", False, False)
    wanted = equation_extraction.answer_of(problem.answer)
    solved = formulas.same(formulas.value(tree), wanted, formulas.TOLERANCE)
    parsed = model.system.scheme.parse(problem.text)
    numbers = [documents.in_formula(segment) for segment in parsed if isinstance(segment, Number)]
    return Answer(problem, printer.latex(tree), solved, equation_extraction.carries(tree, numbers))


def numbers(model: Any, problems: Sequence[Problem]) -> list[Answer]:
    """Each problem answered by a model that writes a number instead of an equation."""
    records = [{"id": problem.id, "question": problem.text, "answer": "1"} for problem in problems]
    predicted = {row["id"]: row["prediction"] for row in model.predict(records, skipped=[])}
    out = []
    for problem in problems:
        said = predicted.get(problem.id)
        number = None if said is None else Decimal(said)
        error = decade = None
        wanted = _decimal(problem.answer)
        if number is not None and number > 0:
            error = abs(float(number.log10() - wanted.log10()))
            decade = number.adjusted() == wanted.adjusted()
        solved = number is not None and generation.rounds_to(number, wanted)
        out.append(Answer(problem, said or "", solved, number is not None, error, bool(decade)))
    return out


def _decimal(answer: str) -> Decimal:
    above, _, below = answer.partition("/")
    return Decimal(above) / Decimal(below or 1)


def summary(found: Sequence[Answer]) -> dict[str, float]:
    """Shares: "solved" and "carried" of all, "solved/GROUP" of each group; of numbers also "LMAE", the mean error of
    their logarithms, and the share in the right "decade"."""
    out = {
        "n": len(found),
        "solved": _share([a.solved for a in found]),
        "carried": _share([a.carried for a in found]),
    }
    if errors := [a.error for a in found if a.error is not None]:
        out["LMAE"] = sum(errors) / len(errors)
        out["decade"] = _share([bool(a.decade) for a in found])
    for group in sets.groups([a.problem for a in found]):
        out[f"solved/{group}"] = _share([a.solved for a in found if a.problem.group == group])
    return out


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def main(words: Sequence[str] | None = None) -> None:
    """Prints a table a set, then all of it as JSON."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--workdir", required=True, help="of a run of configs/mathgpt.py, or numgpt.py")
    made.add_argument("--real", default="", help="folder of addsub, mawps and asdiv")
    made.add_argument("--show", choices=("none", "wrong", "all"), default="none", help="problems to print")
    options = made.parse_args(words)
    import numjax

    model = numjax.load(options.workdir)
    problems = {"typed": sets.typed()} | (sets.real(pathlib.Path(options.real).expanduser()) if options.real else {})
    out = {}
    for name, of in problems.items():
        found = (numbers if isinstance(model.system.task, generation.Task) else answers)(model, of)
        out[name] = summary(found)
        for answer in found:
            if options.show == "all" or (options.show == "wrong" and not answer.solved):
                told = "right" if answer.solved else "wrong"
                print(f"{told}  {answer.problem.text}  wanted {answer.problem.answer}, got {answer.written}")
        print(f"{name:8}" + "  ".join(f"{key} {value:.3f}" for key, value in out[name].items()), file=sys.stderr)
    print(json.dumps(out))


if __name__ == "__main__":
    command.entry(main)
