"""Table 5: BERT with and without L_num on the numeric sub-splits of SQuAD 1.1, after 1, 2 and 3 epochs.

    python -m experiments.dice.table5 --path=FOLDER --bert=FOLDER     # SQuAD 1.1, and BERT-base-uncased's files
    python -m experiments.dice.table5 --scale=overnight --bert=minilm --path=FOLDER    # five folds, hours on 2 cores
    python -m experiments.dice.table5 --scale=overnight --bert=minilm --path=FOLDER --first=all  # any question first
    python -m experiments.dice.table5                                 # generated stand-in, from scratch

Sub-split 1 trains on answers of digits only, sub-split 2 on answers with a number among their words; both are tested
on answers of digits only. F1 and exact match are SQuAD's own. Each number of epochs is its own run, and its last
state is scored: nothing is chosen on the test split. Without --bert the encoder starts from random parameters and
has other text than the paper's: the results show whether L_num is learned and what it costs, not how large the
paper's gain is. At overnight each seed is one of five folds of the development file. With --first=all both systems
start from a run on all questions of the fold's training articles, whatever their answers.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.data.squad import read
from numjax.bundled.experiments import command, noise, overnight, plots, report, runs, tables
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import UsageError
from numjax.tasks.span_answer import answers_match

OUT = "runs/dice-squad-{scale}"
SYSTEMS = {"bert": "BERT", "bert_lnum": "BERT + L_num"}
SPLITS = (1, 2)
EPOCHS = (1, 2, 3)
FOLDS = 5  # at overnight
FIRST_EPOCHS = 2  # on all questions, with --first=all
# At laptop an encoder that starts from random parameters needs more epochs.
SCRATCH_EPOCHS = 10
SEEDS = {"smoke": 2, "laptop": 3, "overnight": 5, "paper": 5}
# (F1, exact match) in percent by sub-split and epoch.
PAPER = {
    "bert": {
        1: ((89.75, 89.40), (90.71, 90.66), (91.12, 91.04)),
        2: ((89.03, 86.50), (90.32, 88.09), (90.28, 88.02)),
    },
    "bert_lnum": {
        1: ((90.23, 90.16), (91.05, 90.92), (91.46, 91.29)),
        2: ((89.90, 87.26), (90.49, 88.52), (91.40, 89.15)),
    },
}


def name_task(split: int, epochs: int) -> str:
    """The name of a sub-split that is trained for `epochs` of the paper's epochs."""
    return f"split{split}-epoch{epochs}"


CELLS = {name_task(split, epochs): (split, epochs) for split in SPLITS for epochs in EPOCHS}


def make_config(options: argparse.Namespace, system: str, split: int, epochs: int, fold: int = 0) -> Any:
    """The config of a cell; at overnight, of one of its folds."""
    from numjax.bundled.configs import dice

    words = [options.scale, "task=squad", f"lnum={'on' if system == 'bert_lnum' else 'off'}", f"numbers={split}"]
    words += ["as_published"] * options.as_published + ["bert=minilm"] * (options.bert == overnight.MINILM)
    config: Any = dice.get_config(",".join(words))
    with config.unlocked():
        config.eval.best = False
        config.optim.epochs = epochs * count_epochs(options)
        config.log_every = 50
        if options.path:
            config.task.path = options.path
            config.task.size = config.data.train_size = 0
        if options.scale == overnight.NAME:
            config.task.update(fold=fold, folds=FOLDS)
        if options.bert not in ("", overnight.MINILM):
            config.init_from = options.bert
            config.scheme.vocab.path = options.bert
    return config


def count_epochs(options: argparse.Namespace) -> int:
    """How many epochs stand for one of the paper's."""
    return SCRATCH_EPOCHS if options.scale == "laptop" and not options.bert else 1


def check_overnight(options: argparse.Namespace) -> None:
    """Raises UsageError if the options do not make sense at overnight: weights, at most five folds, and one file."""
    overnight.check(options, FOLDS)
    files = read.find_files(options.path) if options.path else []
    if len({read.is_test(file) for file in files}) > 1:
        raise UsageError(f"--path={options.path}: at overnight one file is divided into folds: name dev-v1.1.json")


def make_cell(options: argparse.Namespace, task: str, system: str, seed: int = 0) -> RunCell:
    """A system on a task; at overnight on the fold of this seed."""
    split, epochs = CELLS[task]
    config, start = make_config(options, system, split, epochs, seed), None
    if options.first:
        first_config = make_config(options, "bert", 0, FIRST_EPOCHS, seed)
        start = RunCell(f"all_fold{seed}", "bert", first_config)
    return RunCell(task, system, config, start)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table5.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--path", default="", help="SQuAD 1.1: a folder with train and dev, or one of the two")
    parser.add_argument(
        "--bert",
        default="",
        help="folder with model.safetensors and vocab.txt of BERT-base-uncased, or minilm of make pretrained",
    )
    parser.add_argument(
        "--first", choices=("", "all"), default="", help="at overnight: what both systems learn before, all questions"
    )
    parser.add_argument("--only", default="", help=f"systems, tasks ({name_task(1, 1)}, …) or task/system")
    options = command.parse_options(parser, words)
    if options.scale == overnight.NAME:
        check_overnight(options)
    elif options.first:
        raise UsageError(f"--first={options.first} is for --scale={overnight.NAME}")
    is_wanted = command.parse_only(options.only, [*CELLS], SYSTEMS)

    names = [(task, system) for task in CELLS for system in SYSTEMS if is_wanted(task, system)]

    def make_fold(task: str, system: str, fold: int) -> RunCell:
        return make_cell(options, task, system, fold)

    def find_fold(cell: RunCell, seed: int) -> RunCell:
        return make_fold(cell.task, cell.system, seed)

    if options.scale == overnight.NAME:
        results = runs.run_folds(make_fold, names, options.seeds, options.out)
    else:
        results = runs.run([make_cell(options, *name) for name in names], options.seeds, options.out)

    parts = {}
    for split in SPLITS:
        columns = [
            TableColumn(f"{name}, {epochs}", name_task(split, epochs), metric)
            for epochs in EPOCHS
            for name, metric in (("F1", "f1"), ("EM", "exact"))
        ]
        rows = [TableRow(label, system, make_published(system, split)) for system, label in SYSTEMS.items()]
        parts[f"Sub-split {split}"] = (tables.compare(results, rows, columns, "bert"), columns)
    title = "Table 5: answers with numbers" + ("" if options.path else " (stand-in data)")
    differences = noise.bootstrap_differences(
        [make_cell(options, *name) for name in names],
        results,
        options.out,
        "bert",
        "span_answer.jsonl",
        score_exact,
        find_cell=find_fold if options.scale == overnight.NAME else None,
    )
    extra: dict[str, Any] = {"data": pathlib.Path(options.path).name or "stand-in", "noise": differences}
    extra["bert"] = pathlib.Path(options.bert).name or "from scratch"
    extra["drawn_by"] = "dice.table5"
    remarks = make_remarks(options) + noise.describe_differences(differences, SYSTEMS, SYSTEMS["bert"])
    per = "fold" if options.scale == overnight.NAME else "seed"
    name = "table5" + "_first" * bool(options.first)
    text = report.publish(name, title, remarks, parts, results, options, SYSTEMS["bert"], extra, per=per)
    report.print_report(text, options, f"{name}.md", f"{name}.json", f"{name}.png")


def score_exact(row: Mapping[str, Any]) -> float:
    """1 if the answer in a line of predictions is one of the right ones by SQuAD's rules, else 0."""
    return float(any(answers_match(row["prediction"] or "", gold) for gold in row["reference"]["answers"] or [""]))


def make_published(system: str, split: int) -> dict[str, Published]:
    """The paper's numbers of a system by column."""
    by_column = {}
    for epochs, (f1, exact) in zip(EPOCHS, PAPER[system][split], strict=True):
        by_column |= {f"F1, {epochs}": Published(f1), f"EM, {epochs}": Published(exact)}
    return by_column


def make_remarks(options: argparse.Namespace) -> list[str]:
    """Remarks on data and weights, with the names of folders; their full paths are private."""
    name, weights_name = pathlib.Path(options.path).name, pathlib.Path(options.bert).name
    if options.scale == overnight.NAME:
        data = (
            f"Data: {name or 'the stand-in'} in {FOLDS} folds of whole articles, of which "
            f"{len(options.seeds)} were run; the numbers do not compare with the paper's. Folds share training data, "
            "so p and the interval of a mean are too narrow: trust the paired bootstraps over questions."
        )
    elif options.path:
        data = (
            f"Data: SQuAD 1.1 in {name}. Where only one of its two files is there, whole articles of it "
            "stand in for the other split, and the numbers do not compare with the paper's."
        )
    else:
        data = (
            "Data: a generated **stand-in** of SQuAD's form, not SQuAD: the numbers do not compare with the paper's."
        )
    factor = count_epochs(options)
    epochs = f"Columns: after 1, 2 and 3 epochs, here {', '.join(str(e * factor) for e in EPOCHS)}, each a run."
    weights = f"Weights: {weights_name}." if options.bert else "Weights: random; the vocabulary is the train split's."
    if options.first:
        weights += (
            f" Both systems then learn from all questions of the fold's training articles, {FIRST_EPOCHS} epochs, "
            "without L_num, and start from there."
        )
    return [
        *noise.describe_interval(len(options.seeds), "fold" if options.scale == overnight.NAME else "seed"),
        data,
        weights,
        f"{epochs} F1 and exact match in percent, of the last state on the test split.",
    ]


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: F1 over epochs, a panel for each sub-split; the paper's lines only on its data."""
    is_real = content["data"] != "stand-in" and content.get("per") != "fold"
    panels, changes = {}, []
    for heading, entries in content["tables"].items():
        means = {(e["row"], e["column"]): e for e in entries}
        lines = []
        for source, suffix in (("here", ""), ("paper", ", the paper"))[: 1 + is_real]:
            for label in SYSTEMS.values():
                numbers = [(epochs, (means.get((label, f"F1, {epochs}")) or {}).get(source)) for epochs in EPOCHS]
                points = [(epochs, number["mean"], number["std"]) for epochs, number in numbers if number]
                if points:
                    lines.append(plots.Line(label + suffix, points))
        if lines:
            panels[heading] = lines
        if len(lines) >= len(SYSTEMS) and lines[0].points[-1][0] == lines[1].points[-1][0]:
            changes.append(f"{lines[1].points[-1][1] - lines[0].points[-1][1]:+.1f} points on {heading.lower()}")
    if not panels:
        return {}
    title = f"L_num changes F1 by {' and '.join(changes)}" if changes else "F1 on answers with numbers"
    x = plots.Axis("Epochs of training (as counted by the paper)", ticks=EPOCHS)
    y = plots.Axis("F1, test (%)")
    return {
        f"{content['name']}.png": plots.draw_lines(
            title + " (stand-in data)" * (content["data"] == "stand-in"), panels, x, y, height=4.6
        )
    }


if __name__ == "__main__":
    command.entry(main)
