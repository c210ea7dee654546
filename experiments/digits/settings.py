"""Shared by the tables of digit aggregation: systems, columns, the paper's figures, and tests against noise."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, noise, overnight, report, runs, tables, texts
from numjax.bundled.experiments.digits import unasked
from numjax.bundled.experiments.runs import Results, RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import UsageError
from numjax.tasks.word_problem import answers_agree, edit_distance

OUT = "runs/digits-{scale}"
SEEDS = command.SEEDS | {"overnight": 3}
PRETRAINING = "pretraining"  # the task of the run that all others start from at overnight
TASKS = ("mawps", "fermat")
BACKBONES = ("t5", "bart", "flan", "t5_1.0")
REFERENCE = "digits"
# name → argument of configs/digits.py.
SYSTEMS = {
    "digits": "",
    "agg": "layout=agg",
    "aux": "aux=soft",
    "agg_after": "layout=agg_after",
    "pause": "layout=pause",
}
LABELS = {
    "digits": "Digits",
    "agg_after": "Digits + [AGG]",
    "agg": "[AGG] + Digits",
    "pause": "[PAUSE] + Digits",
    "aux": "Digits + Aux Loss",
}
# Title → group in the task's metrics: views of FERMAT, and operations pooled over its ten views.
FERMAT = {
    "Original": "Original",
    "Commuted": "Commuted",
    "0 to 1000": "Integers_0_to_1000",
    "2 digits": "2_digit_integer",
    "3 digits": "3_digit_integer",
    "4 digits": "4_digit_integer",
    "1000+": "1000+",
    "1000+ same": "1000+_sam",
    "1dp": "1dp_random",
    "2dp": "2dp_random",
    **{operation: operation for operation in ("a+b", "a-b", "a*b", "a/b")},
}
# Settings that were tried by hand at laptop, task → label → number: the number of FERMAT's problems (README).
TRIALS = {"fermat": {"Digits": 1}}
TITLES = ("MAWPS", *FERMAT)
# At overnight MAWPS, SVAMP and ASDiv are one task: title → group in its metrics.
TOGETHER = {"MAWPS": "mawps", "SVAMP": "svamp", "ASDiv": "asdiv"}
SIZES = {"smoke": {"mawps": 120, "fermat": 120}}

# FLAN base in Tables 1, 2 and 5, MAWPS and then FERMAT's columns: the baseline, and the changes from it. FLAN is
# pretrained, so it does not compare with systems trained from scratch. The paper's BART base and FLAN large are left
# out.
ACCURACY = {
    "digits": "23.00 28.35 17.82 17.10 22.86 17.37 13.77 10.35 18.72 25.83 18.45 63.38 19.57 12.92 11.27",
    "agg_after": "1.80 -1.53 -2.07 0.99 -1.89 -0.36 0.63 1.35 -0.63 -1.98 -0.99 0.45 3.89 -2.39 -0.10",
    "agg": "0.80 2.79 0.27 2.52 0.81 1.80 2.79 1.80 0.90 0.45 -0.09 4.48 3.21 -0.27 1.08",
    "pause": "1.00 2.07 -0.54 1.98 1.44 1.80 2.61 2.52 2.16 2.61 1.71 3.18 5.99 1.95 3.43",
    "aux": "1.80 2.25 0.36 3.15 2.16 1.71 2.79 0.81 3.87 1.89 -0.18 3.90 5.80 0.27 1.57",
}
CER = {
    "digits": "67.71 75.32 169.52 67.37 67.68 67.94 67.86 68.86 50.95 43.77 47.80 39.84 87.81 60.96 91.52",
    "agg": "-0.98 -1.40 -0.29 -1.11 -1.41 -1.19 -1.67 -0.96 1.26 -1.33 -0.39 -1.64 -1.94 -0.17 -0.50",
    "aux": "-1.54 -0.83 -1.09 -1.09 -1.15 -0.80 -1.39 -1.23 -2.09 -1.82 -0.30 -1.25 -3.15 -0.72 -0.93",
}


def make_parser(description: str) -> Any:
    """The parser of all experiments, with --mawps, --fermat, --backbone, --init and --only."""
    parser = command.make_parser(description, OUT, SEEDS)
    parser.add_argument(
        "--mawps",
        default="",
        help="folder of MAWPS's files, at overnight a folder with the folders mawps, svamp and asdiv; without it, "
        "generated problems",
    )
    parser.add_argument("--fermat", default="", help="folder of FERMAT's repository; without it, generated problems")
    parser.add_argument("--backbone", choices=BACKBONES, default="t5", help="stacks; t5 by default")
    parser.add_argument("--init", default="", help="folder of weights and vocabulary; FLAN's want --backbone=flan")
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    texts.add_option(parser)
    return parser


def make_columns(metric: str, scale: str) -> list[TableColumn]:
    """Columns of a metric ("accuracy" or "cer"): MAWPS, at overnight SVAMP and ASDiv too, and each view and operation
    of FERMAT."""
    groups = TOGETHER if scale == overnight.NAME else {"MAWPS": ""}
    return [
        *(TableColumn(title, "mawps", f"{metric}/{group}" if group else metric) for title, group in groups.items()),
        *(TableColumn(t, "fermat", f"{metric}/{g}") for t, g in FERMAT.items()),
    ]


def make_published(figures: Mapping[str, str], system: str) -> dict[str, Published]:
    """The paper's figures of a system by column: its baseline, plus the change that the paper prints."""
    if system not in figures:
        return {}
    base, change = ([float(word) for word in figures[name].split()] for name in (REFERENCE, system))
    totals = base if system == REFERENCE else [round(b + c, 2) for b, c in zip(base, change, strict=True)]
    return {title: Published(value) for title, value in zip(TITLES, totals, strict=True)}


def make_config(options: argparse.Namespace, task: str, words: str) -> Any:
    """The config of a system on a task; the pre-training reads the texts that `prepare_texts` wrote."""
    from numjax.bundled.configs import digits

    form = "together" if task == "mawps" and options.scale == overnight.NAME else task
    argument = [options.scale, f"task={form}", f"backbone={options.backbone}", *filter(None, [words])]
    config: Any = digits.get_config(",".join([*argument, *["as_published"] * options.as_published]))
    with config.unlocked():
        config.log_every = 50 if options.scale == "smoke" else 250
        config.task.path = str(options.out / "texts") if task == PRETRAINING else getattr(options, task)
        if options.init:
            config.init_from = config.scheme.vocab.path = options.init
            if options.backbone == "bart":
                config.scheme.vocab = {"name": "gpt2", "path": options.init}
        if size := SIZES.get(options.scale, {}).get(task):
            config.task.size = size
    return config


def make_cells(options: argparse.Namespace, systems: Sequence[str]) -> list[RunCell]:
    """The cells of all systems and tasks that --only selects; at overnight all start from one pre-training."""
    is_wanted = command.parse_only(options.only, TASKS, systems)
    pairs = [(task, system) for task in TASKS for system in systems if is_wanted(task, system)]
    start = None
    if options.scale == overnight.NAME:
        start = RunCell(PRETRAINING, REFERENCE, make_config(options, PRETRAINING, ""))
    return [RunCell(task, system, make_config(options, task, SYSTEMS[system]), start) for task, system in pairs]


def prepare_texts(options: argparse.Namespace) -> texts.Counts:
    """Writes the texts of the pre-training; returns their counts, none at other scales than overnight.

    Raises:
      UsageError: the scale is overnight and a folder is missing, or another scale has texts.
    """
    if not texts.check_scale(options, ("mawps", "fermat", "texts")):
        return {}
    if options.init or options.backbone != "t5":
        raise UsageError(f"--scale={overnight.NAME} pre-trains its own t5: leave out --init and --backbone")
    return unasked.collect(options.texts, options.out / "texts", options.mawps, options.fermat)


def write_table(
    name: str,
    title: str,
    doc: str | None,
    systems: Sequence[str],
    metric: str,
    figures: Mapping[str, str],
    words: Sequence[str] | None,
) -> None:
    """Runs what is missing and writes NAME.{md,json}."""
    options = command.parse_options(make_parser(doc or ""), words)
    counts = prepare_texts(options)
    cells = make_cells(options, systems)
    results = runs.run(cells, options.seeds, options.out)
    paper_figures = {} if options.backbone == "bart" else figures
    rows = [TableRow(LABELS[system], system, make_published(paper_figures, system)) for system in systems]
    columns = make_columns(metric, options.scale)
    entries = tables.compare(results, rows, columns, REFERENCE)
    caps = [
        result.metrics.get("test", {}).get("cap/Commuted")
        for by_seed in results.values()
        for result in by_seed.values()
    ]
    cap = next((value for value in caps if value is not None), None) if metric == "accuracy" else None
    differences = bootstrap_problems(cells, results, options, metric)
    remarks = make_remarks(options, differences, {task for (task, _), by_seed in results.items() if by_seed})
    if cap is not None:
        remarks.append(describe_commuted(options.fermat, cap))
    extra: dict[str, Any] = {"noise": differences, "backbone": options.backbone}
    if counts:
        extra["texts"] = counts
        remarks.append(describe_pretraining(results, counts))
    if options.scale == "laptop":
        none = {LABELS[system]: 0 for system in systems}
        extra["trials"] = {task: none | counts for task, counts in TRIALS.items()}
    text = report.publish(name, title, remarks, {"": (entries, columns)}, results, options, LABELS[REFERENCE], extra)
    report.print_report(text, options, f"{name}.md", f"{name}.json")


def describe_pretraining(results: Results, counts: texts.Counts) -> str:
    """A remark on the pre-training: its texts, and what it can compute at its end."""
    remark = (
        f"All rows start from one pre-training (seed 0): gaps in texts ({texts.describe(counts)}), sums, and "
        "composed word problems."
    )
    for result in results.get((PRETRAINING, REFERENCE), {}).values():
        scores = result.metrics["validation"]
        shares = ", ".join(f"{100 * scores[f'accuracy/{kind}']:.1f}% of {kind}s" for kind in ("sum", "problem"))
        remark += f" At its end it answers, of validation, {shares}."
    return remark


def describe_commuted(path: str, cap: float) -> str:
    """A remark on FERMAT's problems that are "Not commutable", which the paper counts as wrong."""
    from numjax.bundled import data

    answers_by_group: dict[str, list[bool]] = {}
    # No training problems are needed; as few as possible are generated.
    for row in data.load("fermat", "test", path=path, views="paper", commuted=1, size=100):
        is_numeric = row["answer"][:1] in "-.0123456789"
        for group in (row["view"], row["operation"]):
            answers_by_group.setdefault(group, []).append(is_numeric)
    shares = {
        name: sum(answers_by_group[name]) / len(answers_by_group[name])
        for name in ("Commuted", "a-b", "a/b")
        if name in answers_by_group
    }
    share_text = ", ".join(f"{100 * share:.1f}% of {name}" for name, share in shares.items())
    treatment = (
        "left out here: times these shares our accuracies compare with the paper's" if cap == 1 else "asked here too"
    )
    return (
        f"Answers that are numbers, the most that can be right: {share_text}. "
        f'The others, "Not commutable", are {treatment}.'
    )


def make_remarks(
    options: argparse.Namespace, differences: Sequence[Mapping[str, Any]], tasks_run: Collection[str]
) -> list[str]:
    """Remarks on a table's data, on the tasks that were run, and on its noise."""
    origins = {True: "from its files", False: "as generated problems of the same form"}
    names = {
        "mawps": "MAWPS, SVAMP and ASDiv together" if options.scale == overnight.NAME else "MAWPS",
        "fermat": "FERMAT",
    }
    data_note = ", ".join(
        f"{names[task]} {origins[bool(getattr(options, task))]}" for task in TASKS if task in tasks_run
    )
    start_note = f"that start from {options.init}" if options.init else "trained from scratch"
    start_note = "pre-trained here" if options.scale == overnight.NAME else start_note
    line = f"In percent; mean ± standard deviation over seeds; {data_note}; {options.backbone} stacks {start_note}."
    if options.backbone != "bart":
        line += " The paper's column is FLAN base, pretrained, with one seed."
    named = [{**entry, "task": names[entry["task"]]} for entry in differences]
    return [line, *noise.describe_differences(named, LABELS, LABELS[REFERENCE])]


def bootstrap_problems(
    cells: Sequence[RunCell], results: Results, options: argparse.Namespace, metric: str
) -> list[dict[str, Any]]:
    """Calls `noise.bootstrap_differences`: FERMAT asks each problem in ten ways, right or wrong together."""

    def score(row: Mapping[str, Any]) -> float:
        output, answer = row["prediction"] or "", row["reference"]["answer"]
        return float(
            answers_agree(output, answer) if metric == "accuracy" else edit_distance(output, answer) / len(answer)
        )

    def find_problem(name: str) -> str:
        return name.rpartition("-")[2]

    return noise.bootstrap_differences(
        cells, results, options.out, REFERENCE, "word_problem.jsonl", score, find_problem
    )
