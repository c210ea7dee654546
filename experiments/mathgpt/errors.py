"""Where the equations of Table 3 go wrong: their form, their operators or their numbers.

python -m experiments.mathgpt.errors --path=math23k.jsonl --out=…   # reads the predictions of table3's runs there
"""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.table3 import LABELS, SYSTEMS
from numjax.bundled.experiments.tables import Column, Row
from numjax.expr.tree import Tree, from_json

TASK = settings.EQUATION.task
COLUMNS = [
    Column("form", TASK, "form"),
    Column("operators", TASK, "operators"),
    Column("numbers", TASK, "numbers"),
    Column("numbers known", TASK, "known"),
    Column("all, ≤ 2 numbers", TASK, "short"),
    Column("all, more numbers", TASK, "long"),
]
REMARKS = (
    "In percent of the test problems, mean ± standard deviation over folds. form: the tree is right when all numbers "
    "count as one; operators, numbers: they are right as a bag, whatever their places; numbers known: of the numbers "
    "that are written, those that stand in the right equation; all: the whole tree, by how many numbers it has.",
)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing of Table 3, then writes errors.{md,json}."""
    options = command.parse(settings.parser(__doc__ or ""), words)
    results = settings.run(options, SYSTEMS)
    for (_, name), of in results.items():
        for fold, result in of.items():
            cell = settings.cell(options, name, SYSTEMS[name], fold)
            file = runs.workdir(cell, fold, options.out) / "predictions" / "equation_extraction.jsonl"
            of[fold] = result._replace(metrics={"test": measured(rows(file))} if file.is_file() else {})
    entries = tables.compare(results, [Row(LABELS[name], name) for name in SYSTEMS], COLUMNS, settings.REFERENCE)
    text = report.publish(
        "errors",
        "Where the equations of Table 3 go wrong",
        REMARKS,
        {"": (entries, COLUMNS)},
        results,
        options,
        LABELS[settings.REFERENCE],
        per="fold",
    )
    report.say_where(text, options, "errors.md", "errors.json")


def rows(file: pathlib.Path) -> Iterator[tuple[Tree | None, Tree]]:
    """What was written for each problem, None for no formula, and what is right."""
    with open(file, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            said = row["prediction"]
            yield None if said is None else from_json(said), from_json(row["reference"]["tree"])


def measured(pairs: Iterator[tuple[Tree | None, Tree]]) -> Mapping[str, float]:
    """The metrics of `COLUMNS`, as shares; without those that nothing was counted for."""
    right: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for said, wanted in pairs:
        numbers, wanted_numbers = (bag(tree, number=True) for tree in (said, wanted))
        size = "long" if wanted_numbers.total() > 2 else "short"
        same = {
            "form": said is not None and form(said) == form(wanted),
            "operators": said is not None and bag(said, number=False) == bag(wanted, number=False),
            "numbers": numbers == wanted_numbers,
            size: said == wanted,
        }
        count.update(same.keys())
        right.update(name for name, is_right in same.items() if is_right)
        count["known"] += numbers.total()
        right["known"] += (numbers & wanted_numbers).total()
    return {name: right[name] / total for name, total in count.items() if total}


def bag(tree: Tree | None, number: bool) -> Counter[str]:
    """The numbers of a tree, or its inner nodes."""
    if tree is None:
        return Counter()
    found = Counter({tree.symbol: 1} if (tree.type == "N") == number and (number or tree.children) else {})
    for child in tree.children or ():
        found += bag(child, number)
    return found


def form(tree: Tree) -> Any:
    """The tree with all numbers alike."""
    if tree.type == "N":
        return "N"
    return tree.type, tree.symbol, tuple(map(form, tree.children or ()))


if __name__ == "__main__":
    command.entry(main)
