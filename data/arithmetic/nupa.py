"""Problems in the form of NUPA, from a folder that a user brings.

NUPA's generator writes train.json, valid.json and test.json: {"max_Float_Float_Float": {"3": ["… Get the maximal
number: 9.11 and 9.9 = 9.9", …]}}, that is task and representations of its numbers, then digits, then problems whose
answer stands behind the last sign "=". Nothing of it is part of this project.

Source: Yang et al. 2025, Number Cookbook, arXiv 2411.03766.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from numjax.errors import DataError, UsageError

from ..files import read_json

FILES = {"train": "train.json", "validation": "valid.json", "test": "test.json"}
REPRESENTATIONS = ("integer", "float", "fraction", "scientific")
# A capital letter begins the representations: to_float_Scientific_Float is a task to_float.
_NAME = re.compile(r"(\w+?)_(Int|Float|Frac|Sci)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?")
# Names of tasks in files → our names of them.
_SPELLINGS = {"mul": "multiply", "multiplication": "multiply", "to_scientific": "to_scient", "significant": "sig"}


class Match(NamedTuple):
    """The operation of ours that is nearest to one of NUPA's, "" for none.

    Attributes:
      is_same: a right answer here is a right answer there, up to how the question is put.
    """

    operation: str
    is_same: bool = False


def _match_all() -> dict[tuple[str, str], Match]:
    """(task, representation) → match, for the 41 combinations."""
    arithmetic = {
        ("add", "integer"): Match("add", True),
        ("sub", "integer"): Match("sub", True),
        ("multiply", "integer"): Match("mul", True),
        ("truediv", "integer"): Match("frac", True),
        ("floordiv", "integer"): Match(""),
        ("mod", "integer"): Match("mod"),
        ("add", "float"): Match("decadd", True),
        ("sub", "float"): Match("decadd"),
        ("multiply", "float"): Match("fmul"),
        ("add", "fraction"): Match("frac", True),
        **{(task, "fraction"): Match("frac") for task in ("sub", "multiply", "truediv")},
        **{(task, "scientific"): Match("") for task in ("add", "sub")},
        ("multiply", "scientific"): Match("fmul"),
    }
    comparisons = {(task, kind): Match("max") for task in ("max", "min") for kind in REPRESENTATIONS}
    comparisons |= {("max", kind): Match("max", True) for kind in ("integer", "float")}
    comparisons |= {(task, "fraction"): Match("") for task in ("max", "min")}
    digits = {(f"digit_{task}", kind): Match("") for task in ("max", "min", "add") for kind in ("integer", "float")}
    for kind in ("integer", "float"):
        digits |= {("get_digit", kind): Match("digit_at"), ("length", kind): Match("count", kind == "integer")}
        digits |= {("to_scient", kind): Match("convert", True), ("sig", kind): Match("round")}
    digits[("count", "integer")] = Match("count", True)
    conversions = {("to_float", "fraction"): Match("fdiv"), ("to_float", "scientific"): Match("convert", True)}
    return arithmetic | comparisons | digits | conversions


MATCHES = _match_all()


class NupaProblem(NamedTuple):
    """A problem of a file, or the reason why its text is none.

    Attributes:
      operation: task and representation, such as max_float. digits: of its numbers, as the file says.
    """

    id: str
    operation: str
    digits: int
    question: str = ""
    answer: str = ""
    reason: str = ""


def find_files(path: str) -> list[pathlib.Path]:
    """Finds the files that a folder has of `FILES`.

    Raises:
      DataError: it has none.
    """
    root = pathlib.Path(path).expanduser()
    files = [root / name for name in FILES.values() if (root / name).is_file()]
    if not files:
        raise DataError(
            f"{root}: no {', '.join(FILES.values())} there; set path to the folder of NUPA's text dataset"
        )
    return files


def name_operation(name: str) -> str:
    """The task and the first representation of a name: max_Float_Float_Float → max_float.

    Raises:
      DataError: it names no representation.
    """
    match = _NAME.match(name)
    if match is None:
        raise DataError(f"{name!r} is no name of a task: it wants a form such as max_Float_Float_Float")
    task, start = match[1], match[2].lower()
    (kind,) = [kind for kind in REPRESENTATIONS if kind.startswith(start)]
    return f"{_SPELLINGS.get(task, task)}_{kind}"


def read_problems(file: pathlib.Path) -> Iterator[NupaProblem]:
    """Yields the problems of a file, by task and digits.

    Raises:
      DataError: the file has another form.
    """
    content = read_json(file)
    if not isinstance(content, dict):
        raise DataError(f"{file}: it is no object of tasks, such as {{'max_Float_Float_Float': …}}")
    for name, groups in content.items():
        operation = name_operation(name)
        if not isinstance(groups, dict) or not all(digits.isdecimal() for digits in groups):
            raise DataError(f"{file}: {name} is no object of numbers of digits, such as {{'3': […]}}")
        for digits, texts in groups.items():
            if not isinstance(texts, list):
                raise DataError(f"{file}: {name} with {digits} digits is no list of problems")
            for number, text in enumerate(texts):
                yield _parse(f"{file.name}:{name}:{digits}:{number}", operation, int(digits), text)


def _parse(problem_id: str, operation: str, digits: int, text: Any) -> NupaProblem:
    problem = NupaProblem(problem_id, operation, digits)
    if not isinstance(text, str):
        return problem._replace(reason="it is no text")
    question, sign, answer = text.rpartition("=")
    if not sign or not question.strip() or not answer.strip():
        return problem._replace(reason='it has no "=" between a question and an answer')
    return problem._replace(question=f"{' '.join(question.split())} =", answer=answer.strip())


def read_records(path: str, operations: str, size: int, test: int) -> Iterator[tuple[str, NupaProblem]]:
    """Yields (split, problem).

    Args:
      path: the folder. operations: tasks ("add") or tasks of one representation ("add_float"), joined by "+", or
        "all".
      size: at most this many training problems, with the same number for each task and number of digits. test: at
        most this many problems of each of them in the other splits.

    Raises:
      UsageError: the folder does not have one of the operations.
    """
    wanted = set(operations.split("+"))
    files = {split: pathlib.Path(path).expanduser() / name for split, name in FILES.items()}
    names: set[str] = set()
    for split, file in files.items():
        if not file.is_file():
            continue
        problems = list(read_problems(file))
        names |= {problem.operation for problem in problems}
        chosen = [p for p in problems if {"all", p.operation, p.operation.rpartition("_")[0]} & wanted]
        counts: dict[tuple[str, int], int] = dict.fromkeys(((p.operation, p.digits) for p in chosen), 0)
        most = max(size // max(len(counts), 1), 1) if split == "train" else test
        for problem in chosen:
            group = problem.operation, problem.digits
            if counts[group] < most:
                counts[group] += not problem.reason
                yield split, problem
    known = names | {name.rpartition("_")[0] for name in names} | {"all"}
    if missing := sorted(wanted - known):
        raise UsageError(f"arithmetic: {path} has no {missing[0]!r}; it has {', '.join(sorted(names))}")


def make_record(problem: NupaProblem) -> dict[str, Any]:
    """The record of a problem, in the form of those of our own. Its operands are all numbers behind a colon."""
    task, _, kind = problem.operation.rpartition("_")
    asked = problem.question.rpartition(":")[2]
    return {
        "id": problem.id,
        "question": problem.question,
        "answer": problem.answer,
        "accepted": problem.answer,
        "operands": " | ".join(_NUMBER.findall(asked)),
        "operator": f"{task} {kind}",
        "operation": problem.operation,
        "stream": f"length {problem.digits}",
    }
