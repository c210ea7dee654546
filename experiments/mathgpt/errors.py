"""Where the equations of Table 3 go wrong: their form, their operators or their numbers.

python -m experiments.mathgpt.errors --path=math23k.jsonl --out=…   # reads the predictions of table3's runs in --out
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
from numjax.bundled.experiments.tables import TableColumn, TableRow
from numjax.expr.tree import Tree, from_json

TASK = settings.EQUATION.task
COLUMNS = [
    TableColumn("form", TASK, "form"),
    TableColumn("operators", TASK, "operators"),
    TableColumn("numbers", TASK, "numbers"),
    TableColumn("numbers known", TASK, "known"),
    TableColumn("all, ≤ 2 numbers", TASK, "short"),
    TableColumn("all, more numbers", TASK, "long"),
]
REMARKS = (
    "In percent of the test problems, mean ± standard deviation over folds. form: the tree is right when all numbers "
    "count as one; operators, numbers: they are right as a bag, whatever their places; numbers known: of the numbers "
    "that are written, those that stand in the right equation; all: the whole tree, by how many numbers it has.",
)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing of Table 3, then writes errors.{md,json}."""
    options = command.parse_options(settings.make_parser(__doc__ or ""), words)
    task = settings.EQUATION.task
    systems, labels = settings.add_copying(options, SYSTEMS, LABELS)
    results = {name: by_fold for name, by_fold in settings.run(options, systems).items() if name[0] == task}
    for (_, name), by_fold in results.items():
        for fold, result in by_fold.items():
            cell = settings.make_cell(options, name, systems[name], fold)
            file = runs.workdir(cell, fold, options.out) / "predictions" / "equation_extraction.jsonl"
            by_fold[fold] = result._replace(
                metrics={"test": measure_pairs(load_pairs(file))} if file.is_file() else {},
                settings={},  # `--known` must not take these metrics for Table 3's
            )
    entries = tables.compare(results, [TableRow(labels[name], name) for name in systems], COLUMNS, settings.REFERENCE)
    text = report.publish(
        "errors",
        "Where the equations of Table 3 go wrong",
        REMARKS,
        {"": (entries, COLUMNS)},
        results,
        options,
        labels[settings.REFERENCE],
        settings.make_trials([labels[name] for name in systems], options),
        per="fold",
    )
    report.print_report(text, options, "errors.md", "errors.json")


def load_pairs(file: pathlib.Path) -> Iterator[tuple[Tree | None, Tree]]:
    """Yields (predicted tree, right tree) for each problem; the prediction is None if it is no formula."""
    with open(file, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            prediction = row["prediction"]
            yield None if prediction is None else from_json(prediction), from_json(row["reference"]["tree"])


def measure_pairs(pairs: Iterator[tuple[Tree | None, Tree]]) -> Mapping[str, float]:
    """The metrics of `COLUMNS`, as shares; a metric without any counted tree is left out."""
    n_right: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for prediction, target in pairs:
        numbers, target_numbers = (bag(tree, number=True) for tree in (prediction, target))
        size = "long" if target_numbers.total() > 2 else "short"
        is_same = {
            "form": prediction is not None and form(prediction) == form(target),
            "operators": prediction is not None and bag(prediction, number=False) == bag(target, number=False),
            "numbers": numbers == target_numbers,
            size: prediction == target,
        }
        counts.update(is_same.keys())
        n_right.update(name for name, is_right in is_same.items() if is_right)
        counts["known"] += numbers.total()
        n_right["known"] += (numbers & target_numbers).total()
    return {name: n_right[name] / total for name, total in counts.items() if total}


def bag(tree: Tree | None, number: bool) -> Counter[str]:
    """The bag of a tree's numbers, or of its inner nodes."""
    if tree is None:
        return Counter()
    nodes = Counter({tree.symbol: 1} if (tree.type == "N") == number and (number or tree.children) else {})
    for child in tree.children or ():
        nodes += bag(child, number)
    return nodes


def form(tree: Tree) -> Any:
    """The tree with all numbers replaced by "N"."""
    if tree.type == "N":
        return "N"
    return tree.type, tree.symbol, tuple(map(form, tree.children or ()))


if __name__ == "__main__":
    command.entry(main)
