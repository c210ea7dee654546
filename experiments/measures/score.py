"""A model of measures on questions that someone typed, each with a sweep of answers.

python -m experiments.measures.score --workdir=runs/measures              # data/mme/typed.jsonl, or --questions=FILE
python -m experiments.measures.score --workdir=runs/measures --show       # with a line a question

A candidate is right from count × least to count × most of the thing (data/mme/generate.py). A model is right about it
when its P(true) is above one half and the candidate is right, or neither. "accuracy" is over a question's sweep,
in which most candidates are wrong; "balanced" is the mean of the shares over right and over wrong ones.

The typed questions are never trained on, never chosen on. The last line is a JSON object.
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
BEYOND = 100  # the sweep goes that far below and above what is right
TYPED = "data/mme/typed.jsonl"


class Question(NamedTuple):
    """A question, and the least and the most that is a right answer."""

    id: str
    text: str
    low: int
    high: int


class Answers(NamedTuple):
    """What a model made of a question.

    Attributes:
      accuracy: share of the candidates that are judged right. right, wrong: of the right and of the wrong ones.
    """

    question: Question
    accuracy: float
    right: float
    wrong: float

    @property
    def balanced(self) -> float:
        """Right and wrong candidates with equal weight."""
        return (self.right + self.wrong) / 2


def read(path: pathlib.Path) -> list[Question]:
    """The questions of a file of JSON lines: `question`, `thing` ("egg" or "eggs") and `count`, perhaps `id`.

    Raises:
      DataError: a line cannot be used.
    """
    from numjax.bundled.data.mme.generate import THINGS
    from numjax.bundled.data.mme.wordings import WORDS

    known = {name: thing for thing in THINGS for name in WORDS.names[thing.name][0].split("/")}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    found = [_question(line, known, f"{path}, line {place}", str(place)) for place, line in enumerate(lines, 1)]
    if not found:
        raise DataError(f"{path}: no question in it")
    return found


def _question(line: str, known: Mapping[str, Any], where: str, name: str) -> Question:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: no JSON ({error})") from None
    fields = row if isinstance(row, dict) else {}
    if missing := {"question", "thing", "count"} - fields.keys():
        raise DataError(f"{where}: give {', '.join(sorted(missing))}; it has {', '.join(fields) or 'no fields'}")
    thing, count = known.get(str(row["thing"])), row["count"]
    if thing is None or not isinstance(count, int) or count < 1:
        raise DataError(
            f"{where}: {count!r} of {row['thing']!r}: give a whole count of a thing of data/mme/generate.py"
        )
    return Question(str(row.get("id", name)), str(row["question"]), count * thing.low, count * thing.high)


def sweep(low: int, high: int) -> list[Decimal]:
    """Candidates from low / 100 to 100 × high in equal steps of their logarithm, of three digits that count, and the
    geometric middle of the right ones, so that there is always one of those."""
    steps = np.exp(np.linspace(math.log(low / BEYOND), math.log(high * BEYOND), POINTS)).tolist()
    middle = round(math.sqrt(low * high))
    return sorted({*(_rounded(value) for value in steps), Decimal(min(max(middle, low), high))})


def _rounded(value: float) -> Decimal:
    return Decimal(f"{Decimal(f'{value:.2e}'):f}")


def answers(model: Any, questions: Sequence[Question]) -> list[Answers]:
    """Every question with its sweep, judged."""
    sweeps = [sweep(question.low, question.high) for question in questions]
    records = [
        {"question": question.text, "answer": f"{value:f}"}
        for question, values in zip(questions, sweeps, strict=True)
        for value in values
    ]
    said = model.score(records)[:, 1] > 0.5
    ends = np.cumsum([len(values) for values in sweeps])[:-1]
    return [
        _judged(question, values, yes)
        for question, values, yes in zip(questions, sweeps, np.split(said, ends), strict=True)
    ]


def _judged(question: Question, values: Sequence[Decimal], yes: np.ndarray) -> Answers:
    true = np.asarray([question.low <= value <= question.high for value in values])
    agrees = yes == true
    return Answers(question, float(agrees.mean()), float(agrees[true].mean()), float(agrees[~true].mean()))


def summary(found: Sequence[Answers]) -> dict[str, float]:
    """Means over the questions."""
    names = ("accuracy", "balanced", "right", "wrong")
    return {"n": len(found)} | {name: float(np.mean([getattr(a, name) for a in found])) for name in names}


def main(words: Sequence[str] | None = None) -> None:
    """Prints a line a question if asked, the means, then all of it as JSON."""
    made = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--workdir", required=True, help="of a run of configs/numgpt.py")
    made.add_argument("--questions", default="", help=f"JSON lines; by default {TYPED}")
    made.add_argument("--show", action="store_true", help="print a line a question")
    options = made.parse_args(words)
    import numjax

    questions = read(pathlib.Path(options.questions or bundled.HOME / TYPED).expanduser())
    found = answers(numjax.load(options.workdir), questions)
    out = summary(found)
    print(_line("balanced", "accuracy", "right", "wrong", "question"))
    for answer in found if options.show else ():
        shares = (f"{value:.3f}" for value in (answer.balanced, answer.accuracy, answer.right, answer.wrong))
        print(_line(*shares, answer.question.text))
    print(_line(*(f"{out[name]:.3f}" for name in ("balanced", "accuracy", "right", "wrong")), "in all"))
    each = {a.question.id: {"accuracy": a.accuracy, "balanced": a.balanced} for a in found}
    print(json.dumps(out | {"questions": each}))


def _line(*cells: str) -> str:
    return "".join(f"{cell:10}" for cell in cells[:-1]) + cells[-1]


if __name__ == "__main__":
    command.entry(main)
