"""Problems that no model here is trained on or chosen by: typed ones, and one-step ones of public sets."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numjax import bundled

# Of one operation on the problem's two numbers.
OPERATIONS = ("a+b", "a-b", "b-a", "a*b", "a/b", "b/a")
GRADES = ("1", "2")


class WordProblem(NamedTuple):
    """A problem, its stated answer, and what it is counted by: its steps, or its operation."""

    id: str
    text: str
    answer: str
    group: str


def load_typed() -> list[WordProblem]:
    """data/problems/typed.jsonl: written by hand, from no plan of the generator; by steps."""
    rows = map(json.loads, (bundled.HOME / "data/problems/typed.jsonl").read_text(encoding="utf-8").splitlines())
    return [WordProblem(row["id"], row["problem"], row["answer"], f"{row['steps']} step") for row in rows]


def load_real(folder: pathlib.Path) -> dict[str, list[WordProblem]]:
    """AddSub, MAWPS and ASDiv (grades 1 and 2) below a folder, those of one operation; by it. Absent sets are left
    out."""
    from numjax.bundled.data.mawps import read

    problems: dict[str, list[WordProblem]] = {}
    for name in ("addsub", "mawps", "asdiv"):
        if (folder / name).is_dir():
            problems[name] = list(_load_one_step(read.read_problems(str(folder / name)), name, read.FORMS[name]))
    return problems


def _load_one_step(source: Any, name: str, form: Any) -> Iterator[WordProblem]:
    for index, (_, _, raw) in enumerate(source):
        if isinstance(raw, ValueError) or (name == "asdiv" and raw.get("Grade") not in GRADES):
            continue
        try:
            row = form(raw)
        except ValueError:
            continue
        if row["operation"] in OPERATIONS:
            sign = next(sign for sign in "+-*/" if sign in row["operation"])
            yield WordProblem(f"{name}-{index}", row["question"], row["answer"], sign)


def list_groups(problems: Sequence[WordProblem]) -> list[str]:
    """The groups that there are, sorted."""
    return sorted({problem.group for problem in problems})
