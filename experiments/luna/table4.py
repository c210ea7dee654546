"""Table 4: fraud among card transactions, by TabBERT with and without LUNA's number plugin, pre-trained from scratch.

    python -m experiments.luna.table4 --path=FOLDER            # your copy of TabFormer's table
    python -m experiments.luna.table4 [--users=200]            # generated users, not comparable with the paper
    python -m experiments.luna.table4 --by=time                # windows divided by time, or by user

Each row pre-trains TabBERT once (seed 0) and trains the fraud head on its frozen rows with every seed. The published
table has 24 million rows of 2,000 users; without --path a stand-in of the same form is generated.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, plots, report, runs, tables
from numjax.bundled.experiments.luna import settings
from numjax.bundled.experiments.runs import Cell
from numjax.bundled.experiments.tables import Column, Published, Row


class System(NamedTuple):
    """A row: its label, the plugin's fusion ("" for none), the CharLSTM's size, whether numbers are regressed."""

    label: str
    numtok: str
    size: str
    regress: bool


# The paper's rows in its order, on disk and in results.
SYSTEMS = {
    "addback": System("A  AddBack, CharLSTM 9M, L_R", "addback", "9M", True),
    "replace": System("B  Replace, CharLSTM 9M, L_R", "replace", "9M", True),
    "regress": System("C  no plugin, L_R", "", "", True),
    "addback_1M": System("D  AddBack, CharLSTM 1M, L_R", "addback", "1M", True),
    "addback_0.1M": System("E  AddBack, CharLSTM 0.1M, L_R", "addback", "0.1M", True),
    "tabbert": System("0  TabBERT", "", "", False),
}
REFERENCE = "tabbert"
PAPER = {
    "addback": (86.17, 0.1),
    "replace": (83.04, 0.0),
    "regress": (85.65, 1.6),
    "addback_1M": (84.89, 0.6),
    "addback_0.1M": (84.01, 0.8),
    "tabbert": (84.79, 0.3),
}
# (hidden, layers) that stand in for the paper's sizes: cells have 16 dimensions at laptop, 4 at smoke.
SIZES = {
    "laptop": {"0.1M": (8, 1), "1M": (16, 2), "9M": (32, 3)},
    "smoke": {"0.1M": (2, 1), "1M": (4, 1), "9M": (4, 2)},
}
BY = ("random", "time", "user")
# Another stand-in and split than those that the code was tried on.
DATA_SEED = 1
USERS = {"smoke": 5, "laptop": 100, "paper": 2000}


def config(options: argparse.Namespace, system: str, task: str) -> Any:
    """The config of a system: task "pretrain" or "fraud"."""
    from numjax.bundled.configs import tabbert

    row = SYSTEMS[system]
    words = [options.scale, f"task={task}", f"by={options.by}", f"numtok={row.numtok or 'none'}"]
    if task == "pretrain":
        words.append(f"regress={'on' if row.regress else 'off'}")
    made: Any = tabbert.get_config(",".join(words + ["as_published"] * options.as_published))
    with made.unlocked():
        made.log_every = 50
        made.task.update(path=options.path, users=options.users or USERS[options.scale], data_seed=DATA_SEED)
        if row.numtok:
            known = SIZES.get(options.scale, {}).get(row.size)
            made.embeds.numeral.parameters = "" if known else row.size
            if known:
                made.embeds.numeral.update(dict(zip(("hidden", "layers"), known, strict=True)))
    return made


def task_of(options: argparse.Namespace) -> str:
    """The name of the fraud task under a way to divide the windows."""
    return "fraud" if options.by == "random" else f"fraud-{options.by}"


def cells(options: argparse.Namespace, wanted: Any = lambda task, system: True) -> list[Cell]:
    """What is to be run: of each system the fraud head, which starts from its pre-training."""
    found = []
    for system in SYSTEMS:
        if wanted(task_of(options), system):
            start = Cell(f"pretrain-{options.by}", system, config(options, system, "pretrain"))
            found.append(Cell(task_of(options), system, config(options, system, "fraud"), start))
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table4.{md,json,png}; divided otherwise, table4_time or table4_user."""
    parser = command.parser(__doc__ or "", settings.OUT)
    parser.add_argument("--path", default="", help="TabFormer's table, or its folder")
    parser.add_argument("--by", choices=BY, default="random", help="how windows are divided; random, as in the paper")
    parser.add_argument("--users", type=int, default=0, help="of the stand-in")
    parser.add_argument("--only", default="", help=f"systems, of {', '.join(SYSTEMS)}")
    options = command.parse(parser, words)
    wanted = command.only(options.only, [task_of(options)], SYSTEMS)
    results = runs.run(cells(options, wanted), options.seeds, options.out)

    task = task_of(options)
    columns = [Column("F1", task, "F1"), Column("AUC", task, "AUC"), Column("precision", task, "precision")]
    columns.append(Column("recall", task, "recall"))
    entries = tables.compare(results, rows(options), columns, REFERENCE)
    name = "table4" if options.by == "random" else f"table4_{options.by}"
    title = "Table 4: fraud among card transactions" + ("" if options.path else " (stand-in data)")
    extra = {"data": pathlib.Path(options.path).name or "stand-in", "by": options.by}
    parts = {"": (entries, columns)}
    text = report.publish(
        name, title, remarks(options), parts, results, options, SYSTEMS[REFERENCE].label, extra, per="head's seed"
    )
    shown = [entry for entry in entries if entry["column"] == "F1"]
    plots.bars_of(options.out / f"{name}.png", shown, "test F1 (%)", bool(options.path), width=6.5)
    report.say_where(text, options, f"{name}.md", f"{name}.json", f"{name}.png")


def rows(options: argparse.Namespace) -> list[Row]:
    """The paper's rows; its numbers are those of windows divided at random."""

    def published(system: str) -> Mapping[str, Published]:
        return {"F1": Published(*PAPER[system])} if options.by == "random" else {}

    return [Row(row.label, system, published(system)) for system, row in SYSTEMS.items()]


def remarks(options: argparse.Namespace) -> list[str]:
    """What a reader must know of data, weights and sizes."""
    if options.path:
        data = f"Data: {pathlib.Path(options.path).name}."
    else:
        users = options.users or USERS[options.scale]
        data = (
            f"Data: {users} **generated** users in the form of TabFormer's table, about fifteen times its share "
            "frauds; the numbers do not compare with the paper's."
        )
    weights = "Weights: pre-trained from scratch, one pre-training a row (seed 0); seeds are those of the fraud head."
    chosen = "0.5" if options.as_published else "chosen on validation"
    found = [data, weights, f"In percent on test, windows divided by {options.by}; threshold {chosen}."]
    found[-1] += " ±: the standard deviation over seeds here, the standard error of the mean in the paper's column."
    if known := SIZES.get(options.scale):
        shown = ", ".join(f"{name}: {layers} × {hidden}" for name, (hidden, layers) in known.items())
        found.append(f"Sizes of the CharLSTM stand for the paper's, layers × hidden: {shown}.")
    return found


if __name__ == "__main__":
    command.entry(main)
