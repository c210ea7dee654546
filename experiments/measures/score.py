"""Scores a model of measures on questions that a person typed, each with a sweep of answers.

python -m experiments.measures.score --workdir=runs/measures              # data/mme/typed.jsonl, or --questions=FILE
python -m experiments.measures.score --workdir=runs/measures --show       # prints a line per question

A candidate is right from count × least to count × most of the thing (data/mme/generate.py). A model judges it rightly
if its P(true) is above one half exactly when the candidate is right. "accuracy" is over a question's sweep, in which
most candidates are wrong; "balanced" is the mean of the shares over right and over wrong candidates.

The typed questions are never used for training or for choosing a checkpoint. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from numjax import bundled
from numjax.bundled.experiments import command
from numjax.errors import DataError
from numjax.tools.command import Parser

POINTS = 60
MARGIN = 100  # the sweep goes from 1/100 of the least to 100 times the most right answer
TYPED = "data/mme/typed.jsonl"


class MeasureQuestion(NamedTuple):
    """A question, and its least and greatest right answer."""

    id: str
    text: str
    low: int
    high: int


class Answers(NamedTuple):
    """A model's results on a question.

    Attributes:
      accuracy: share of the candidates that are judged rightly; right, wrong: of the right and of the wrong ones.
    """

    question: MeasureQuestion
    accuracy: float
    right: float
    wrong: float

    @property
    def balanced(self) -> float:
        """The mean of `right` and `wrong`."""
        return (self.right + self.wrong) / 2


def load_questions(path: pathlib.Path) -> list[MeasureQuestion]:
    """The questions of a file of JSON lines: `question`, `thing` ("egg" or "eggs") and `count`, perhaps `id`.

    Raises:
      DataError: a line cannot be used.
    """
    from numjax.bundled.data.mme.generate import THINGS
    from numjax.bundled.data.mme.wordings import WORDS

    things_by_name = {name: thing for thing in THINGS for name in WORDS.names[thing.name][0].split("/")}
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    questions = [
        _parse_question(line, things_by_name, f"{path}, line {number}", str(number))
        for number, line in enumerate(text.split("\n") if text else (), 1)
    ]
    if not questions:
        raise DataError(f"{path}: no question in it")
    return questions


def _parse_question(line: str, things_by_name: Mapping[str, Any], location: str, name: str) -> MeasureQuestion:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{location}: no JSON ({error})") from None
    fields = row if isinstance(row, dict) else {}
    if missing_fields := {"question", "thing", "count"} - fields.keys():
        raise DataError(
            f"{location}: give {', '.join(sorted(missing_fields))}; it has {', '.join(fields) or 'no fields'}"
        )
    thing, count = things_by_name.get(str(row["thing"])), row["count"]
    if thing is None or not isinstance(count, int) or count < 1:
        raise DataError(
            f"{location}: {count!r} of {row['thing']!r}: give a whole count of a thing of data/mme/generate.py"
        )
    return MeasureQuestion(str(row.get("id", name)), str(row["question"]), count * thing.low, count * thing.high)


def make_sweep(low: int, high: int) -> list[Decimal]:
    """Candidates from low / 100 to 100 × high in equal steps of their logarithm, with three significant digits.

    The geometric mean of low and high is added, so that there is always a right candidate.
    """
    steps = np.exp(np.linspace(math.log(low / MARGIN), math.log(high * MARGIN), POINTS)).tolist()
    middle = round(math.sqrt(low * high))
    return sorted({*(_round_value(value) for value in steps), Decimal(min(max(middle, low), high))})


def _round_value(value: float) -> Decimal:
    return Decimal(f"{Decimal(f'{value:.2e}'):f}")


def answer_questions(model: Any, questions: Sequence[MeasureQuestion]) -> list[Answers]:
    """Judges the sweep of every question with the model."""
    sweeps = [make_sweep(question.low, question.high) for question in questions]
    records = [
        {"question": question.text, "answer": f"{value:f}"}
        for question, values in zip(questions, sweeps, strict=True)
        for value in values
    ]
    verdicts = model.score(records)[:, 1] > 0.5
    ends = np.cumsum([len(values) for values in sweeps])[:-1]
    return [
        _judge(question, values, question_verdicts)
        for question, values, question_verdicts in zip(questions, sweeps, np.split(verdicts, ends), strict=True)
    ]


def _judge(question: MeasureQuestion, values: Sequence[Decimal], verdicts: np.ndarray) -> Answers:
    is_true = np.asarray([question.low <= value <= question.high for value in values])
    is_agreed = verdicts == is_true
    return Answers(
        question, float(is_agreed.mean()), float(is_agreed[is_true].mean()), float(is_agreed[~is_true].mean())
    )


def summarise(answers: Sequence[Answers]) -> dict[str, float]:
    """Means over the questions."""
    names = ("accuracy", "balanced", "right", "wrong")
    return {"n": len(answers)} | {name: float(np.mean([getattr(a, name) for a in answers])) for name in names}


def main(words: Sequence[str] | None = None) -> None:
    """Prints a line per question with --show, the means, then everything as JSON."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True, help="of a run of configs/numgpt.py")
    parser.add_argument("--questions", default="", help=f"JSON lines; by default {TYPED}")
    parser.add_argument("--show", action="store_true", help="print a line per question")
    parser.add_argument("--trust", action="store_true", help="run modules outside numjax that the run's config names")
    options = parser.parse_args(words)
    import numjax

    questions = load_questions(pathlib.Path(options.questions or bundled.HOME / TYPED).expanduser())
    answers = answer_questions(numjax.load(options.workdir, trust=options.trust), questions)
    means = summarise(answers)
    print(_format_line("balanced", "accuracy", "right", "wrong", "question"))
    for answer in answers if options.show else ():
        shares = (f"{value:.3f}" for value in (answer.balanced, answer.accuracy, answer.right, answer.wrong))
        print(_format_line(*shares, answer.question.text))
    print(_format_line(*(f"{means[name]:.3f}" for name in ("balanced", "accuracy", "right", "wrong")), "in all"))
    by_question = {a.question.id: {"accuracy": a.accuracy, "balanced": a.balanced} for a in answers}
    print(json.dumps(means | {"questions": by_question}))


def _format_line(*cells: str) -> str:
    return "".join(f"{cell:10}" for cell in cells[:-1]) + cells[-1]


if __name__ == "__main__":
    command.entry(main)
