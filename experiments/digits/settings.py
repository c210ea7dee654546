"""What the tables of digit aggregation share: systems, columns, the paper's figures, and what is inside the noise."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, noise, report, runs, tables
from numjax.bundled.experiments.runs import Cell, Results
from numjax.bundled.experiments.tables import Column, Published, Row
from numjax.tasks.word_problem import edits, same

OUT = "runs/digits-{scale}"
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
# Title → group of the task's figures: views of FERMAT, and operations pooled over its ten views.
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
TITLES = ("MAWPS", *FERMAT)
SIZES = {"smoke": {"mawps": 120, "fermat": 120}, "laptop": {}, "paper": {}}

# FLAN base in Tables 1, 2 and 5, MAWPS and then FERMAT's columns: the baseline, and the changes from it. It is
# pretrained: not comparable with what is trained from scratch. The paper's BART base and FLAN large are left out.
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


def parser(description: str) -> Any:
    """The options of all experiments, with --mawps, --fermat, --backbone and --only."""
    made = command.parser(description, OUT)
    made.add_argument("--mawps", default="", help="folder of MAWPS's files; without it, generated problems")
    made.add_argument("--fermat", default="", help="folder of FERMAT's repository; without it, generated problems")
    made.add_argument("--backbone", choices=BACKBONES, default="t5", help="stacks; t5 by default")
    made.add_argument("--init", default="", help="folder of weights and vocabulary; FLAN's want --backbone=flan")
    made.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    return made


def columns(metric: str) -> list[Column]:
    """ "accuracy" or "cer" on MAWPS and in each view and operation of FERMAT."""
    return [Column("MAWPS", "mawps", metric), *(Column(t, "fermat", f"{metric}/{g}") for t, g in FERMAT.items())]


def published(figures: Mapping[str, str], system: str) -> dict[str, Published]:
    """The paper's figures of a system by column: its baseline, plus the change that the paper prints."""
    if system not in figures:
        return {}
    base, change = ([float(word) for word in figures[name].split()] for name in (REFERENCE, system))
    whole = base if system == REFERENCE else [round(b + c, 2) for b, c in zip(base, change, strict=True)]
    return {title: Published(value) for title, value in zip(TITLES, whole, strict=True)}


def config(options: argparse.Namespace, task: str, words: str) -> Any:
    """The config of a system on a task."""
    from numjax.bundled.configs import digits

    argument = [options.scale, f"task={task}", f"backbone={options.backbone}", *filter(None, [words])]
    made: Any = digits.get_config(",".join([*argument, *["as_published"] * options.as_published]))
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 250
        made.task.path = getattr(options, task)
        if options.init:
            made.init_from = made.scheme.vocab.path = options.init
            if options.backbone == "bart":
                made.scheme.vocab = {"name": "gpt2", "path": options.init}
        if size := SIZES[options.scale].get(task):
            made.task.size = size
    return made


def cells(options: argparse.Namespace, systems: Sequence[str]) -> list[Cell]:
    """Every system on every task that --only leaves."""
    wanted = command.only(options.only, TASKS, systems)
    pairs = [(task, system) for task in TASKS for system in systems if wanted(task, system)]
    return [Cell(task, system, config(options, task, SYSTEMS[system])) for task, system in pairs]


def table(
    name: str,
    title: str,
    doc: str | None,
    systems: Sequence[str],
    metric: str,
    figures: Mapping[str, str],
    words: Sequence[str] | None,
) -> None:
    """Runs what is missing and writes NAME.{md,json}."""
    options = command.parse(parser(doc or ""), words)
    asked = cells(options, systems)
    results = runs.run(asked, options.seeds, options.out)
    quoted = {} if options.backbone == "bart" else figures
    rows = [Row(LABELS[system], system, published(quoted, system)) for system in systems]
    shown = columns(metric)
    entries = tables.compare(results, rows, shown, REFERENCE)
    caps = [result.metrics.get("test", {}).get("cap/Commuted") for of in results.values() for result in of.values()]
    cap = next((found for found in caps if found is not None), None) if metric == "accuracy" else None
    found = bootstrap(asked, results, options, metric)
    told = remarks(options, found, {task for (task, _), of in results.items() if of})
    if cap is not None:
        told.append(commuted(options.fermat, cap))
    extra = {"noise": found, "backbone": options.backbone}
    text = report.publish(name, title, told, {"": (entries, shown)}, results, options, LABELS[REFERENCE], extra)
    report.say_where(text, options, f"{name}.md", f"{name}.json")


def commuted(path: str, cap: float) -> str:
    """What must be known of FERMAT's problems that are "Not commutable", which the paper counts as wrong."""
    from numjax.bundled import data

    of: dict[str, list[bool]] = {}
    # Of the training problems, which are made, none is needed.
    for row in data.load("fermat", "test", path=path, views="paper", commuted=1, size=100):
        numeric = row["answer"][:1] in "-.0123456789"
        for group in (row["view"], row["operation"]):
            of.setdefault(group, []).append(numeric)
    shares = {name: sum(of[name]) / len(of[name]) for name in ("Commuted", "a-b", "a/b") if name in of}
    shown = ", ".join(f"{100 * share:.1f}% of {name}" for name, share in shares.items())
    how = (
        "left out here: times these shares our accuracies compare with the paper's" if cap == 1 else "asked here too"
    )
    return f'Answers that are numbers, the most that can be right: {shown}. The others, "Not commutable", are {how}.'


def remarks(options: argparse.Namespace, found: Sequence[Mapping[str, Any]], run: Collection[str]) -> list[str]:
    """What a table says of its data, of the tasks that were run, and of its noise."""
    kind = {True: "from its files", False: "as generated problems of the same form"}
    on = ", ".join(f"{task.upper()} {kind[bool(getattr(options, task))]}" for task in TASKS if task in run)
    begin = f"that start from {options.init}" if options.init else "trained from scratch"
    line = f"In percent; mean ± standard deviation over seeds; {on}; {options.backbone} stacks {begin}."
    if options.backbone != "bart":
        line += " The paper's column is FLAN base, pretrained, with one seed."
    return [line, *noise.lines(found, LABELS, LABELS[REFERENCE])]


def bootstrap(
    asked: Sequence[Cell], results: Results, options: argparse.Namespace, metric: str
) -> list[dict[str, Any]]:
    """See `noise.differences`: FERMAT asks each problem in ten ways, which are right or wrong together."""

    def score(row: Mapping[str, Any]) -> float:
        said, wanted = row["prediction"] or "", row["reference"]["answer"]
        return float(same(said, wanted) if metric == "accuracy" else edits(said, wanted) / len(wanted))

    def problem(name: str) -> str:
        return name.rpartition("-")[2]

    return noise.differences(asked, results, options.out, REFERENCE, "word_problem.jsonl", score, problem)
