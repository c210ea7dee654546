"""Table 3: number plugins and number pre-training on TAT-QA (TagOp) and TabFact (a classifier), row by row.

    python -m experiments.luna.table3 --tatqa=FOLDER --tabfact=FOLDER           # laptop: everything from scratch
    python -m experiments.luna.table3 --only=tatqa/luna,tatqa/baseline          # two rows on generated questions
    python -m experiments.luna.table3 --scale=paper --bert=FOLDER --roberta=FOLDER --tatqa=… --tabfact=…
                                                                                # from checkpoints, as the paper

Each row pre-trains an encoder on the tables and texts of both tasks, unless it has no pre-training, and is then
trained on each task: with --roberta two encoders, RoBERTa's for TAT-QA and BERT's for TabFact. Without a checkpoint
every row starts from random parameters.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.luna import settings
from numjax.bundled.experiments.runs import Cell
from numjax.bundled.experiments.tables import Column, Published, Row
from numjax.errors import UsageError

TASKS = ("tatqa", "tabfact")
REFERENCE = "luna"
SEEDS = {"smoke": 1, "laptop": 3, "paper": 3}
TABFACT_SEEDS = {"smoke": 1, "laptop": 1, "paper": 3}
COLUMNS = (
    Column("EM", "tatqa", "em"),
    Column("F1", "tatqa", "f1"),
    Column("EM num", "tatqa", "em_num"),
    Column("ACC", "tabfact", "accuracy"),
    Column("ACC cx", "tabfact", "accuracy_complex"),
)
# What TagOp's first two heads have learned where answers are not right yet, and of how many questions some unit of
# the answer is among what is read; not in the paper.
HEADS = (
    Column("operator", "tatqa", "operator"),
    Column("scale", "tatqa", "scale"),
    Column("answer read", "tatqa", "tags_loss/share", tested=False),
)
# What the paper's three sizes are at each scale. At laptop no named one is small enough for the last.
SIZES = {
    "paper": {"9M": "9M", "1M": "1M", "0.1M": "0.1M"},
    "laptop": {"9M": "base", "1M": "0.1M", "0.1M": ""},
    "smoke": {"9M": "0.1M", "1M": "0.1M", "0.1M": "0.1M"},
}
SMALLEST = {"hidden": 16, "layers": 1}


class Choice(NamedTuple):
    """A row: NumTok, NumBed, size, L_D, L_R, whether it pre-trains at all; and the paper's EM, F1, EM num, ACC and
    ACC cx with their standard errors."""

    label: str
    numtok: str
    numbed: str
    size: str
    distill: bool
    regress: bool
    pretrain: bool
    paper: str


CHOICES = {
    "luna": Choice("AddBack, CharLSTM 9M, L_D, L_R", "addback", "char_lstm", "9M", True, True, True,
                   "59.58 2.7 67.15 2.7 63.33 6.4 66.07 0.5 62.24 0.4"),
    "replace": Choice("Replace", "replace", "char_lstm", "9M", True, True, True,
                      "51.87 1.7 59.94 1.6 50.21 4.0 65.41 0.5 61.43 0.6"),
    "char_former": Choice("CharFormer 9M", "addback", "char_former", "9M", True, True, True,
                          "57.03 4.0 64.83 3.8 57.48 9.8 66.81 0.1 62.58 0.2"),
    "dice": Choice("DICE", "addback", "dice", "", True, True, True,
                   "47.15 1.2 54.93 1.0 35.39 3.1 62.61 1.2 59.51 0.6"),
    "1M": Choice("CharLSTM 1M", "addback", "char_lstm", "1M", True, True, True,
                 "57.86 2.7 65.56 2.6 58.41 6.4 65.73 0.1 61.79 0.3"),
    "0.1M": Choice("CharLSTM 0.1M", "addback", "char_lstm", "0.1M", True, True, True,
                   "56.99 2.0 64.96 1.7 57.81 4.5 65.40 0.7 61.67 0.6"),
    "no_regress": Choice("without L_R", "addback", "char_lstm", "9M", True, False, True,
                         "55.51 2.9 63.62 2.8 53.75 5.3 67.23 0.7 62.94 0.5"),
    "no_distill": Choice("without L_D", "addback", "char_lstm", "9M", False, True, True,
                         "54.33 2.3 62.13 2.0 51.73 5.5 65.40 0.3 62.19 0.1"),
    "no_pretraining": Choice("without pre-training", "addback", "char_lstm", "9M", False, False, False,
                             "52.05 2.8 59.92 2.8 44.75 6.7 62.41 1.8 59.87 1.1"),
    "baseline": Choice("without NumTok, NumBed and pre-training", "none", "", "", False, False, False,
                       "50.15 0.8 57.84 0.7 38.37 1.9 62.13 0.6 59.71 0.4"),
}  # fmt: skip


def published(choice: Choice) -> dict[str, Published]:
    """The paper's figures by column."""
    numbers = list(map(float, choice.paper.split()))
    return {c.title: Published(*numbers[2 * i : 2 * i + 2]) for i, c in enumerate(COLUMNS)}


def config(options: argparse.Namespace, choice: Choice, task: str, shape: str) -> Any:
    """The config of a row's pre-training ("pretrain") or of a task, in the shape of "bert" or "roberta"."""
    from numjax.bundled.configs import luna

    words = [options.scale, f"task={task}", f"shape={shape}", f"numtok={choice.numtok}"]
    words += [f"numbed={choice.numbed}"] * bool(choice.numbed)
    size = SIZES[options.scale].get(choice.size, "")
    words += [f"size={size}"] * bool(size)
    if task == "pretrain":
        words += [f"distill={'on' if choice.distill else 'off'}", f"regress={'on' if choice.regress else 'off'}"]
    made: Any = luna.get_config(",".join([*words, *["as_published"] * options.as_published]))
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 250
        if choice.size and not size:
            made.embeds.numeral.update(parameters="", **SMALLEST)
        if options.scale == "laptop" and task == "tabfact":
            made.optim.epochs = 1  # of a single run's four: the table has thirty of them
        if task == "pretrain":
            made.task.update(tatqa=options.tatqa, tabfact=options.tabfact)
        else:
            made.task.path = options.tatqa if task == "tatqa" else options.tabfact
        checkpoint = getattr(options, shape)
        if checkpoint and (task == "pretrain" or not choice.pretrain):
            made.init_from = made.scheme.vocab.path = checkpoint
            if shape == "roberta":
                made.scheme.vocab = {"name": "gpt2", "path": checkpoint}
    return made


def cell(options: argparse.Namespace, system: str, task: str) -> Cell:
    """A row on a task, with the pre-training that it starts from."""
    choice = CHOICES[system]
    shape = "roberta" if task == "tatqa" and options.roberta else "bert"
    name = "pretrain" if shape == "bert" else f"pretrain_{shape}"
    start = Cell(name, system, config(options, choice, "pretrain", shape)) if choice.pretrain else None
    return Cell(task, system, config(options, choice, task, shape), start)


def tabfact_seeds(options: argparse.Namespace) -> list[int]:
    """The first of the seeds, which TabFact has; its runs read more and tell less at laptop.

    Raises:
      UsageError: a number of seeds below 0.
    """
    if options.tabfact_seeds < 0:
        raise UsageError(
            f"--tabfact_seeds={options.tabfact_seeds}: give how many of the seeds TabFact has, 1 or more"
        )
    return options.seeds[: options.tabfact_seeds or TABFACT_SEEDS[options.scale]]


def remarks(options: argparse.Namespace) -> list[str]:
    """What the data are, and what everything starts from."""
    given = {"TAT-QA": options.tatqa, "TabFact": options.tabfact}
    made_up = [name for name, path in given.items() if not path]
    data = "Data: " + ", ".join(f"{name}'s files in {_name(path)}" for name, path in given.items() if path)
    if made_up:
        data = f"{data}; " * (len(made_up) < len(given)) + (
            f"{' and '.join(made_up)}: a generated **stand-in**, not the dataset. Its numbers show that the pipeline "
            "works; they do not compare with the paper's."
        )
    starts = {"TAT-QA": options.roberta or options.bert, "TabFact": options.bert}
    told = [f"{name} from {_name(path) or 'random parameters'}" for name, path in starts.items()]
    begin = f"What the encoders start from: {', '.join(told)}." if any(starts.values()) else (
        "No pre-trained weights: every row starts from random parameters, so that L_D's teacher knows no more than "
        "its student did. The paper's rows start from RoBERTa-large (TAT-QA) and BERT-base (TabFact)."
    )  # fmt: skip
    shape = "RoBERTa's shape for TAT-QA, BERT's for TabFact." if options.roberta else (
        "One encoder's shape, BERT's, for both tasks."
    )  # fmt: skip
    smallest = "one layer of {hidden}".format(**SMALLEST)
    sizes = ", ".join(f"{name} is {here or smallest}" for name, here in SIZES[options.scale].items())
    few = tabfact_seeds(options)
    fewer = f" TabFact: seed{'s' * (len(few) > 1)} {', '.join(map(str, few))} alone." if few != options.seeds else ""
    return [
        "In percent, on test, at the epoch that was best on validation; every question of TAT-QA is scored. What "
        "stands behind ± is the standard deviation over seeds here and the standard error of the mean in the paper's "
        "columns. The seeds of a row share one pre-training, of seed 0: how much that varies is in no ± and no p."
        + fewer,
        data,
        begin,
        f"{shape} Sizes of the number encoder here: {sizes}.",
    ]


def _name(path: str) -> str:
    """Of a folder; where it lies is the reader's own affair."""
    return pathlib.Path(path).name if path else ""


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table3.{md,json}."""
    parser = command.parser(__doc__ or "", settings.OUT, SEEDS)
    parser.add_argument("--tatqa", default="", help="folder of TAT-QA's files; without it, generated questions")
    parser.add_argument("--tabfact", default="", help="folder of TabFact's release; without it, generated statements")
    parser.add_argument(
        "--tabfact_seeds",
        type=int,
        default=0,
        help="how many of the seeds TabFact has; by default {laptop}, at paper {paper}".format(**TABFACT_SEEDS),
    )
    parser.add_argument("--bert", default="", help="folder of BERT-base-uncased to start from")
    parser.add_argument("--roberta", default="", help="folder of RoBERTa-large for TAT-QA; without it, BERT's shape")
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    options = command.parse(parser, words)
    wanted = command.only(options.only, TASKS, CHOICES)
    pairs = [(system, task) for system in CHOICES for task in TASKS if wanted(task, system)]
    lacking = {task for task in TASKS if not getattr(options, task)}
    if len(lacking) == 1 and any(task in lacking or CHOICES[system].pretrain for system, task in pairs):
        raise UsageError(f"pre-training reads both tasks: give --{lacking.pop()}=FOLDER too, or neither")
    seeds = {"tatqa": options.seeds, "tabfact": tabfact_seeds(options)}
    results: runs.Results = {}
    for which in TASKS:
        cells = [cell(options, system, task) for system, task in pairs if task == which]
        results |= runs.run(cells, seeds[which], options.out) if cells else {}
    rows = [Row(choice.label, system, published(choice)) for system, choice in CHOICES.items()]
    columns = [*COLUMNS, *HEADS]
    entries = tables.compare(results, rows, columns, REFERENCE)
    title = "Table 3: number plugins and number pre-training"
    extra = {task: _name(getattr(options, task)) or "stand-in" for task in TASKS}
    parts = {"": (entries, columns)}
    told, label = remarks(options), CHOICES[REFERENCE].label
    text = report.publish("table3", title, told, parts, results, options, label, extra)
    report.say_where(text, options, "table3.md", "table3.json")


if __name__ == "__main__":
    command.entry(main)
