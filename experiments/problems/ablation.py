"""What it takes to read a problem that someone typed: wordings, invented words, pointers, readers.

python -m experiments.problems.ablation                        # laptop: 13 systems, a seed each, hours on 2 cores
python -m experiments.problems.ablation --only=minilm,pointed  # some of them
python -m experiments.problems.ablation --scale=smoke          # seconds: for form

Every system is the default `mathgpt` but for one thing, trained for as many steps; a pretrained reader for half of
them. Validation chooses the best step; the typed list is asked once, at the end. Runs go on where they were stopped.
Writes ablation.md, ablation.json, wordings.png and parts.png.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, plots, report, runs, stored, tables
from numjax.bundled.experiments.problems import score, sets
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.stored import RunResult

OUT = "runs/problems-{scale}"
SEEDS = {"smoke": 1, "laptop": 1, "paper": 3}
WORDINGS = {"20": 20, "100": 100, "500": 500, "all": 0}
TYPED = "typed.json"


class AblationSystem(NamedTuple):
    """What differs from the default: an argument of configs/mathgpt.py, and settings of the task."""

    label: str
    argument: str = ""
    task: Mapping[str, int] = {}
    scheme: Mapping[str, Any] = {}


def make_systems() -> dict[str, AblationSystem]:
    """Name → system; "pointed" is the default."""
    systems = {"pointed": AblationSystem("default: pointers with ranks, all wordings, 30% invented")}
    for invented in (30, 0):
        for name, count in WORDINGS.items():
            if count or not invented:
                task = {"wordings": count, "invented": invented}
                systems[f"{name}_{invented}"] = AblationSystem(f"{name} wordings, {invented}% invented", task=task)
    return systems | {
        "no_ranks": AblationSystem("pointers without ranks", scheme={"ranks": False}),
        "linked": AblationSystem("digits linked at the output", "numbers=linked"),
        "spelled": AblationSystem("digits spelled, as published", "numbers=spelled"),
        "decoder": AblationSystem("a decoder alone", "reader=none"),
        "minilm": AblationSystem("a pretrained reader", "reader=minilm"),
    }


COLUMNS = {
    "seen": "test/solve_rate/seen",
    "unseen wordings": "test/solve_rate/wordings",
    "unseen sentences": "test/solve_rate/sentences",
    "larger numbers": "test/solve_rate/range",
    "typed": "typed/solved",
    "typed, 1 step": "typed/solved/1 step",
    "typed, 2 steps": "typed/solved/2 step",
    "carried": "typed/carried",
}


# The systems and the sets of problems of parts.png.
PARTS = ("pointed", "no_ranks", "linked", "spelled", "decoder", "minilm")
PANELS = {
    "seen wordings": "test/solve_rate/seen",
    "unseen wordings": "test/solve_rate/wordings",
    "larger numbers": "test/solve_rate/range",
    "typed": "typed/solved",
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes the tables and pictures."""
    parser = command.make_parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    parser.add_argument("--steps", type=int, default=0, help="of every run; by default those of the config")
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, ["problems"], make_systems())
    systems = {name: system for name, system in make_systems().items() if is_wanted("problems", name)}
    figures: dict[str, dict[int, dict[str, float]]] = {}
    results: runs.Results = {}
    for name, system in systems.items():
        cell = RunCell("problems", name, make_config(options, system))
        by_seed = runs.run([cell], options.seeds, options.out)["problems", name]
        results["problems", name] = by_seed = {
            seed: add_typed(result, runs.workdir(cell, seed, options.out)) for seed, result in by_seed.items()
        }
        figures[name] = {seed: list_figures(result) for seed, result in by_seed.items() if result.diverged is None}
        write(options.out, systems, figures, results)
    text = format_table({name: system.label for name, system in systems.items()}, figures)
    report.print_report(text, options, "ablation.md", "ablation.json", "wordings.png", "parts.png")


def make_config(options: argparse.Namespace, system: AblationSystem) -> Any:
    """Of a system."""
    from numjax.bundled.configs import mathgpt

    config: Any = mathgpt.get_config(",".join(filter(None, [options.scale, system.argument])))
    with config.unlocked():
        config.task.update(system.task)
        config.scheme.update(system.scheme)
        if options.steps:
            config.optim.steps = options.steps
    return config


def add_typed(result: RunResult, workdir: pathlib.Path) -> RunResult:
    """The result with a split "typed": the typed list is asked once and kept beside the run."""
    if result.diverged is not None or "typed" in result.metrics:  # such as a result that --known brought
        return result
    import numjax

    path = workdir / TYPED
    if not path.exists():
        stored.write_json(path, score.summarise(score.answer_with_equations(numjax.load(workdir), sets.load_typed())))
    return result._replace(metrics=result.metrics | {"typed": json.loads(path.read_text(encoding="utf-8"))})


def list_figures(result: RunResult) -> dict[str, float]:
    """A run's figures as "split/name" → value."""
    out = {
        f"{split}/{name}": value
        for split, split_metrics in result.metrics.items()
        for name, value in split_metrics.items()
    }
    return out | {"seconds": result.seconds}


def write(
    out: pathlib.Path, systems: Mapping[str, AblationSystem], figures: Mapping[str, Any], results: runs.Results
) -> None:
    """What is known so far."""
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    labels = {name: system.label for name, system in systems.items()}
    content = {"figures": figures, "labels": labels, "other_code": stored.describe_code(run_results)}
    content["drawn_by"] = "problems.ablation"
    report.write("ablation", out, "problems.ablation", content | stored.pack(run_results))


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    notes = [
        "Percent; mean ± standard deviation over seeds where there are several. "
        f"{tables.describe_machines(content['runs'])}.",
        report.describe_commits(content["runs"]),
        content["other_code"],
    ]
    return format_table(content["labels"], content["figures"]) + "".join(f"\n{note}\n" for note in notes if note)


def format_table(labels: Mapping[str, str], figures: Mapping[str, Mapping[Any, Mapping[str, float]]]) -> str:
    """In Markdown, a line a system."""
    lines = [["", *COLUMNS, "minutes"], ["---", *["---:"] * (len(COLUMNS) + 1)]]
    for name, by_seed in figures.items():
        numbers = [
            _format_mean([run_figures[metric] for run_figures in by_seed.values() if metric in run_figures])
            for metric in COLUMNS.values()
        ]
        minutes = [run_figures["seconds"] / 60 for run_figures in by_seed.values()]
        lines.append([labels[name], *numbers, f"{sum(minutes) / len(minutes):.0f}" if minutes else "–"])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figures: solve rates by part and, once there are runs of two numbers of wordings, by wordings."""
    figures = {}
    if any(content["figures"].get(name) for name in PARTS):
        figures["parts.png"] = draw_parts(content["labels"], content["figures"])
    lines = list_wordings(content["figures"])
    if any(len(line.points) > 1 for line in lines):
        figures["wordings.png"] = draw_wordings([line for line in lines if line.points])
    return figures


def list_wordings(figures: Mapping[str, Mapping[Any, Mapping[str, float]]]) -> list[plots.Line]:
    """Solve rate by the number of wordings in training, with and without invented words."""
    lines = []
    for key, title in (("typed/solved", "typed"), ("test/solve_rate/wordings", "unseen")):
        for invented in (30, 0):
            names = ["pointed" if (name, invented) == ("all", 30) else f"{name}_{invented}" for name in WORDINGS]
            rates = [(x, _average(figures.get(name, {}), key)) for x, name in enumerate(names)]
            points = [(x, *rate) for x, rate in rates if rate is not None]
            lines.append(plots.Line(f"{title}, {invented}% invented", points))
    return lines


def draw_wordings(lines: Sequence[plots.Line]) -> plots.Figure:
    """Draws the solve rate over the number of wordings in training."""
    longest = max(lines, key=lambda line: len(line.points))
    (first, low, _), (last, high, _) = longest.points[0], longest.points[-1]
    names = list(WORDINGS)
    ends = f"with {names[int(first)]} wordings {low:.0f}%, with {names[int(last)]} {high:.0f}%"
    title = f"Problems solved ({longest.name.partition(',')[0]}): {ends}"
    x = plots.Axis("Wordings in training", ticks=range(len(WORDINGS)), labels=names)
    return plots.draw_lines(title, {"": lines}, x, plots.Axis("Problems solved (%)", limits=(0, 100)))


def draw_parts(labels: Mapping[str, str], figures: Mapping[str, Mapping[Any, Mapping[str, float]]]) -> plots.Figure:
    """Draws solve rates by how numbers are carried over, and by the reader."""
    names = [name for name in PARTS if figures.get(name)]
    rows = [labels[name].partition(",")[0] for name in names]
    axis = plots.Axis("solved (%)", limits=(-4, 104), ticks=(0, 50, 100))
    panels = {
        heading: (axis, [plots.Dots("here", [_average(figures[name], key) for name in names])])
        for heading, key in PANELS.items()
    }
    rates = zip(rows, panels["larger numbers"][1][0].numbers, strict=True)
    ends = sorted(((rate[0], row) for row, rate in rates if rate is not None), reverse=True)
    title = "Solved by part"
    if len(ends) > 1:
        (most, best), (least, worst) = (
            (f"{rate:.0f}%", row.removeprefix("default: ")) for rate, row in (ends[0], ends[-1])
        )
        title = f"Of the problems with larger numbers, {most} are solved with {best}, {least} with {worst}"
    return plots.draw_dots(title, rows, panels)


def _average(by_seed: Mapping[Any, Mapping[str, float]], key: str) -> tuple[float, float | None] | None:
    return tables.mean_and_std([100 * run_figures[key] for run_figures in by_seed.values() if key in run_figures])


def _format_mean(values: Sequence[float]) -> str:
    spread = tables.mean_and_std([100 * value for value in values])
    if spread is None:
        return "–"
    mean, std = spread
    return f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")


if __name__ == "__main__":
    command.entry(main)
