"""Table 3: number plugins and number pre-training on TAT-QA (TagOp) and TabFact (a classifier), row by row.

    python -m experiments.luna.table3 --tatqa=FOLDER --tabfact=FOLDER           # laptop: everything from scratch
    python -m experiments.luna.table3 --only=tatqa/luna,tatqa/baseline          # two rows on generated questions
    python -m experiments.luna.table3 --scale=overnight --bert=minilm --tatqa=… --tabfact=…    # from MiniLM, in folds
    python -m experiments.luna.table3 --scale=paper --bert=FOLDER --roberta=FOLDER --tatqa=… --tabfact=…
                                                                                # from checkpoints, like the paper

Each row pre-trains an encoder on the tables and texts of both tasks, unless it has no pre-training, and then trains
it on each task. With --roberta there are two encoders, RoBERTa's for TAT-QA and BERT's for TabFact. Without a
checkpoint every row starts from random parameters. At overnight each seed of TAT-QA is one of five folds.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, noise, overnight, report, runs, tables, trials
from numjax.bundled.experiments.luna import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import UsageError
from numjax.tasks.tatqa import metric

TASKS = ("tatqa", "tabfact")
REFERENCE = "luna"
SEEDS = {"smoke": 1, "laptop": 3, "overnight": 5, "paper": 3}
TABFACT_SEEDS = {"smoke": 1, "laptop": 1, "overnight": 1, "paper": 3}
FOLDS = 5  # of TAT-QA, at overnight
# With --trials at overnight: TAT-QA's learning rates, each tried on fold 0 of the row. The encoder's is 0.15 of it.
RATES = {"optim.learning_rate": (1e-3, 5e-4, 2e-3)}
COLUMNS = (
    TableColumn("EM", "tatqa", "em"),
    TableColumn("F1", "tatqa", "f1"),
    TableColumn("EM num", "tatqa", "em_num"),
    TableColumn("ACC", "tabfact", "accuracy"),
    TableColumn("ACC cx", "tabfact", "accuracy_complex"),
)
# Not in the paper: accuracies of TagOp's first two heads, which show progress before answers are right, and the share
# of questions with some unit of the answer in the input.
HEADS = (
    TableColumn("operator", "tatqa", "operator"),
    TableColumn("scale", "tatqa", "scale"),
    TableColumn("answer read", "tatqa", "tags_loss/share", tested=False),
)
# The paper's three sizes at each scale. At laptop no named size is small enough for the last; it is SMALLEST.
SIZES = {
    "paper": {"9M": "9M", "1M": "1M", "0.1M": "0.1M"},
    "laptop": {"9M": "base", "1M": "0.1M", "0.1M": ""},
    "overnight": {"9M": "base", "1M": "0.1M", "0.1M": ""},
    "smoke": {"9M": "0.1M", "1M": "0.1M", "0.1M": "0.1M"},
}
SMALLEST = {"hidden": 16, "layers": 1}
# Settings that were tried by hand at laptop, system → number: how a token's vector starts, the rate and the
# vocabulary with `luna`, the weight of the tags with `no_pretraining` (README).
TRIALS = {"luna": 3, "no_pretraining": 1}


class Choice(NamedTuple):
    """A row: NumTok, NumBed, size, whether it has L_D, L_R and pre-training; and the paper's EM, F1, EM num, ACC and
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


def make_published(choice: Choice) -> dict[str, Published]:
    """The paper's figures by column."""
    numbers = list(map(float, choice.paper.split()))
    return {c.title: Published(*numbers[2 * i : 2 * i + 2]) for i, c in enumerate(COLUMNS)}


def make_config(options: argparse.Namespace, choice: Choice, task: str, shape: str, fold: int = 0) -> Any:
    """The config of a row's pre-training ("pretrain") or of a task, in the shape of "bert" or "roberta"; at overnight
    of a fold of TAT-QA."""
    from numjax.bundled.configs import luna

    words = [options.scale, f"task={task}", f"shape={shape}", f"numtok={choice.numtok}"]
    words += [f"numbed={choice.numbed}"] * bool(choice.numbed)
    size = SIZES[options.scale].get(choice.size, "")
    words += [f"size={size}"] * bool(size)
    if task == "pretrain":
        words += [f"distill={'on' if choice.distill else 'off'}", f"regress={'on' if choice.regress else 'off'}"]
    words += [f"bert={options.bert}"] * (options.bert in overnight.INSTALLED)
    config: Any = luna.get_config(",".join([*words, *["as_published"] * options.as_published]))
    with config.unlocked():
        config.log_every = 50 if options.scale == "smoke" else 250
        if choice.size and not size:
            config.embeds.numeral.update(parameters="", **SMALLEST)
        if options.scale == "laptop" and task == "tabfact":
            config.optim.epochs = 1  # of a single run's four: the table has thirty of them
        if task == "pretrain":
            config.task.update(tatqa=options.tatqa, tabfact=options.tabfact)
        else:
            config.task.path = options.tatqa if task == "tatqa" else options.tabfact
        if options.scale == overnight.NAME and task != "tabfact":
            config.task.update(fold=fold, folds=FOLDS)
        checkpoint = getattr(options, shape)
        if checkpoint not in ("", *overnight.INSTALLED) and (task == "pretrain" or not choice.pretrain):
            config.init_from = config.scheme.vocab.path = checkpoint
            if shape == "roberta":
                config.scheme.vocab = {"name": "gpt2", "path": checkpoint}
    return config


def make_cell(options: argparse.Namespace, system: str, task: str, fold: int = 0) -> RunCell:
    """The cell of a row on a task, with the pre-training that it starts from; at overnight with a fold of TAT-QA,
    which neither has read. TabFact starts from the pre-training of fold 0."""
    choice = CHOICES[system]
    shape = "roberta" if task == "tatqa" and options.roberta else "bert"
    name = "pretrain" if shape == "bert" else f"pretrain_{shape}"
    name += f"_fold{fold}" * (options.scale == overnight.NAME)
    start = RunCell(name, system, make_config(options, choice, "pretrain", shape, fold)) if choice.pretrain else None
    return RunCell(task, system, make_config(options, choice, task, shape, fold), start)


def choose_rates(
    options: argparse.Namespace, systems: Sequence[str]
) -> tuple[Callable[[str, str, int], RunCell], dict[str, Any]]:
    """((task, system, fold) → its cell, with the learning rate that was best on validation of fold 0; the JSON's
    entries of the trials). Without --trials every cell has its config's rate."""
    tried = [make_cell(options, system, "tatqa") for system in systems] if options.trials else []
    chosen, entries = trials.choose_settings(tried, RATES, options.trials, options.out)
    rates = {cell.system: cell.config.optim.learning_rate for cell in chosen}

    def make_fold(task: str, system: str, fold: int) -> RunCell:
        cell = make_cell(options, system, task, fold)
        if task != "tatqa" or system not in rates:
            return cell
        return cell._replace(config=trials.change_config(cell.config, {"optim.learning_rate": rates[system]}))

    return make_fold, entries


def choose_tabfact_seeds(options: argparse.Namespace) -> list[int]:
    """The first of the seeds, with which TabFact runs; at laptop its runs take longer and differ less.

    Raises:
      UsageError: --tabfact_seeds is below 0.
    """
    if options.tabfact_seeds < 0:
        raise UsageError(
            f"--tabfact_seeds={options.tabfact_seeds}: give how many of the seeds TabFact has, 1 or more"
        )
    return options.seeds[: options.tabfact_seeds or TABFACT_SEEDS[options.scale]]


def make_remarks(options: argparse.Namespace) -> list[str]:
    """Remarks on the data, and on the parameters that runs start from."""
    paths_by_dataset = {"TAT-QA": options.tatqa, "TabFact": options.tabfact}
    stand_ins = [name for name, path in paths_by_dataset.items() if not path]
    data = "Data: " + ", ".join(
        f"{name}'s files in {_folder_name(path)}" for name, path in paths_by_dataset.items() if path
    )
    if stand_ins:
        data = f"{data}; " * (len(stand_ins) < len(paths_by_dataset)) + (
            f"{' and '.join(stand_ins)}: a generated **stand-in**, not the dataset. Its numbers show "
            "that the pipeline works; they do not compare with the paper's."
        )
    starts = {"TAT-QA": options.roberta or options.bert, "TabFact": options.bert}
    start_notes = [f"{name} from {_folder_name(path) or 'random parameters'}" for name, path in starts.items()]
    start_note = f"What the encoders start from: {', '.join(start_notes)}." if any(starts.values()) else (
        "No pre-trained weights: every row starts from random parameters, so that L_D's teacher knows no more than "
        "its student did. The paper's rows start from RoBERTa-large (TAT-QA) and BERT-base (TabFact)."
    )  # fmt: skip
    shape = "RoBERTa's shape for TAT-QA, BERT's for TabFact." if options.roberta else (
        "One encoder's shape, BERT's, for both tasks."
    )  # fmt: skip
    smallest = "one layer of {hidden}".format(**SMALLEST)
    sizes = ", ".join(f"{name} is {size or smallest}" for name, size in SIZES[options.scale].items())
    fewer_seeds = choose_tabfact_seeds(options)
    seeds_note = (
        f" TabFact: seed{'s' * (len(fewer_seeds) > 1)} {', '.join(map(str, fewer_seeds))} alone."
        if fewer_seeds != options.seeds
        else ""
    )
    per = "folds" if options.scale == overnight.NAME else "seeds"
    what_varies = (
        f"TAT-QA: {FOLDS} folds of whole contexts, of which {len(options.seeds)} were run, each with a pre-training "
        "that has not read its test questions. Folds share training data, so ± and p are too narrow: trust the "
        "paired bootstraps over questions. TabFact: the pre-training of fold 0."
        if options.scale == overnight.NAME
        else "The seeds of a row share one pre-training, of seed 0: how much that varies is in no ± and no p."
    )
    return [
        "In percent, on test, at the epoch that was best on validation; every question of TAT-QA is scored. What "
        f"stands behind ± is the standard deviation over {per} here and the standard error of the mean in the "
        f"paper's columns. {what_varies}{seeds_note}",
        data,
        start_note,
        f"{shape} Sizes of the number encoder here: {sizes}.",
    ]


def compare_answers(
    cells: Sequence[RunCell],
    results: runs.Results,
    out: pathlib.Path,
    make_fold: Callable[[str, str, int], RunCell],
) -> list[dict[str, Any]]:
    """Each row's difference from the reference, over the questions of all folds and over TabFact's statements."""
    entries = []
    for task, score in (("tatqa", score_question), ("tabfact", score_statement)):
        entries += noise.bootstrap_differences(
            [cell for cell in cells if cell.task == task],
            results,
            out,
            REFERENCE,
            f"{task}.jsonl",
            score,
            find_cell=(lambda cell, seed: make_fold(cell.task, cell.system, seed)) if task == "tatqa" else None,
        )
    return entries


def score_question(row: Mapping[str, Any]) -> float:
    """The exact match of TAT-QA's metric for a line of predictions."""
    gold, answer = row["reference"], row["prediction"]
    names = (gold["answer"], gold["answer_type"], gold["scale"], answer["answer"], answer["scale"])
    return float(metric.score_question(*names).em)


def score_statement(row: Mapping[str, Any]) -> float:
    """1 if the label in a line of predictions is right, else 0."""
    return float(row["prediction"] == row["reference"]["label"])


def _folder_name(path: str) -> str:
    """The name of a folder; its full path is private."""
    return pathlib.Path(path).name if path else ""


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table3.{md,json}."""
    parser = command.make_parser(__doc__ or "", settings.OUT, SEEDS)
    parser.add_argument("--tatqa", default="", help="folder of TAT-QA's files; without it, generated questions")
    parser.add_argument("--tabfact", default="", help="folder of TabFact's release; without it, generated statements")
    parser.add_argument(
        "--tabfact_seeds",
        type=int,
        default=0,
        help="how many of the seeds TabFact has; by default {laptop}, at paper {paper}".format(**TABFACT_SEEDS),
    )
    parser.add_argument(
        "--bert", default="", help="folder of BERT-base-uncased to start from, or minilm of make pretrained"
    )
    parser.add_argument("--roberta", default="", help="folder of RoBERTa-large for TAT-QA; without it, BERT's shape")
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    trials.add_option(parser, RATES)
    options = command.parse_options(parser, words)
    overnight.check(options, FOLDS)
    if options.trials and options.scale != overnight.NAME:
        raise UsageError(f"--trials={options.trials} are for --scale={overnight.NAME}")
    is_wanted = command.parse_only(options.only, TASKS, CHOICES)
    pairs = [(system, task) for system in CHOICES for task in TASKS if is_wanted(task, system)]
    missing_tasks = {task for task in TASKS if not getattr(options, task)}
    if len(missing_tasks) == 1 and any(task in missing_tasks or CHOICES[system].pretrain for system, task in pairs):
        raise UsageError(f"pre-training reads both tasks: give --{missing_tasks.pop()}=FOLDER too, or neither")
    seeds = {"tatqa": options.seeds, "tabfact": choose_tabfact_seeds(options)}
    make_fold, trial_entries = choose_rates(options, [system for system, task in pairs if task == "tatqa"])
    results: runs.Results = {}
    for current_task in TASKS:
        cells = [make_cell(options, system, task) for system, task in pairs if task == current_task]
        if options.scale == overnight.NAME and current_task == "tatqa":
            names = [(cell.task, cell.system) for cell in cells]
            results |= runs.run_folds(make_fold, names, seeds[current_task], options.out)
        else:
            results |= runs.run(cells, seeds[current_task], options.out) if cells else {}
    rows = [TableRow(choice.label, system, make_published(choice)) for system, choice in CHOICES.items()]
    columns = [*COLUMNS, *HEADS]
    entries = tables.compare(results, rows, columns, REFERENCE)
    title = "Table 3: number plugins and number pre-training"
    extra: dict[str, Any] = {task: _folder_name(getattr(options, task)) or "stand-in" for task in TASKS}
    if options.scale == "laptop":
        extra["trials"] = {choice.label: TRIALS.get(system, 0) for system, choice in CHOICES.items()}
    elif options.trials:
        counts = {CHOICES[system].label: options.trials for system, task in pairs if task == "tatqa"}
        extra |= {"trials": {"tatqa": counts}, **trial_entries}
    parts = {"": (entries, columns)}
    remarks, label, per = make_remarks(options), CHOICES[REFERENCE].label, "seed"
    if options.scale == overnight.NAME:
        cells = [make_cell(options, system, task) for system, task in pairs]
        extra["noise"] = compare_answers(cells, results, options.out, make_fold)
        labels = {system: choice.label for system, choice in CHOICES.items()}
        remarks += noise.describe_differences(extra["noise"], labels, label)
        per = "fold"
    text = report.publish("table3", title, remarks, parts, results, options, label, extra, per=per)
    report.print_report(text, options, "table3.md", "table3.json")


if __name__ == "__main__":
    command.entry(main)
