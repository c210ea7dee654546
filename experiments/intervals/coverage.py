"""How often the intervals of written numbers hold the right answer, against the share that they state.

    python -m experiments.intervals.coverage                   # laptop: 24 runs, an afternoon on 2 cores
    python -m experiments.intervals.coverage --only=digits     # one system
    python -m experiments.intervals.coverage --scale=smoke     # for form alone, minutes

Each system learns additions. Then it answers test problems with intervals of several shares: problems of the lengths
of training, and longer ones.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numjax
from numjax.build import build
from numjax.bundled.configs import schemes
from numjax.bundled.experiments import command, plots, report, runs, stored, tables
from numjax.bundled.experiments.runs import RunCell
from numjax.evals.generate import Generation
from numjax.pipeline import source

OUT = "runs/intervals-{scale}"
TASK = "add"
# System (a row of configs/schemes.py) → its label.
SYSTEMS: Mapping[str, str] = {
    "digits": "Digit by digit",
    "fone": "FoNE",
    "carry": "Carries at one position",
    "carry_save": "Carries over positions",
    "bittokens": "BitTokens",
    "numgpt": "NumGPT, learned variance",
    "xval_log1p": "xVal, fixed variance",
    "residues": "Residues",
}
STREAMS: Mapping[str, str] = {"inside": "lengths of training", "length 8": "8 digits, longer than in training"}
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
TABLE_SHARES = (0.5, 0.9)
SAMPLES = 100  # of a number whose head states no distribution
MOST_PROBLEMS = 100  # in a stream
# The panels of the picture, at most five lines each: the stated share is one of them.
PANELS: Mapping[str, tuple[str, ...]] = {
    "Distributions over all numbers": ("digits", "fone", "carry", "carry_save"),
    "Bits, densities and samples": ("bittokens", "numgpt", "xval_log1p", "residues"),
}


def make_config(scale: str, system: str) -> Any:
    """The config of a system: the quick sizes of `configs/schemes.py`, since a model that is always right has nothing
    to be unsure of."""
    config = schemes.get_config(f"{system},smoke,task={TASK}")
    options: dict[str, Any] = {"task.answer": "number", "task.data_seed": 1, "task.longer": "8"}
    options |= {"task.test": MOST_PROBLEMS, "eval.every": 600, "decode.batch_size": 128}
    if scale == "smoke":
        options |= {"optim.steps": 4, "eval.every": 2, "eval.examples": 8, "task.size": 64, "task.test": 4}
        options |= {"optim.batch_size": 8}
    with config.unlocked():
        config.update_from_flattened_dict(options)
    return config


def measure(model: Any, problems: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How the answers of a model to problems, and their intervals, compare with the right answers.

    Returns:
      count; exact: the share of right answers; covered: the share of right answers inside the interval, for each of
      `SHARES`; probability: the mean that the model gives its answers, None if it gives none; method.
    """
    generations = model.generate([p["question"] for p in problems], intervals=SHARES, samples=SAMPLES)
    answers = [Decimal(p["answer"]) for p in problems]
    numbers = [_take_number(generation) for generation in generations]
    pairs = list(zip(numbers, answers, strict=True))
    covered = [[_holds(number["intervals"][i], answer) for number, answer in pairs] for i in range(len(SHARES))]
    probabilities = [n["probability"] for n in numbers if n["probability"] is not None]
    return {
        "count": len(problems),
        "exact": statistics.fmean(Decimal(number["value"]) == answer for number, answer in pairs),
        "covered": [statistics.fmean(row) for row in covered],
        "probability": statistics.fmean(probabilities) if probabilities else None,
        "method": numbers[0]["method"],
    }


def _take_number(generation: Generation) -> Mapping[str, Any]:
    (number,) = generation.numbers
    return number


def _holds(interval: Mapping[str, Any], answer: Decimal) -> bool:
    return Decimal(interval["low"]) <= answer <= Decimal(interval["high"])


def load_problems(config: Any) -> dict[str, list[dict[str, Any]]]:
    """Stream → its test problems."""
    records = source.load(build("tasks", config.task).dataset, "test", config.data.dir) or []
    return {stream: [r for r in records if r["stream"] == stream][:MOST_PROBLEMS] for stream in STREAMS}


def measure_runs(
    cells: Sequence[RunCell], results: runs.Results, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """An entry for each system, seed and stream; those of a run that is not here come from a table of --known."""
    tables_known = [json.loads(pathlib.Path(name).read_text()) for name in options.known.split(",") if name]
    known = [entry for own in tables_known if own["scale"] == options.scale for entry in own["coverage"]]
    entries = []
    for cell in cells:
        problems = load_problems(cell.config)
        for seed, result in results[cell.task, cell.system].items():
            if result.diverged:
                continue
            if not runs.workdir(cell, seed, options.out).exists():
                entries += [entry for entry in known if (entry["system"], entry["seed"]) == (cell.system, seed)]
                continue
            model = numjax.load(runs.workdir(cell, seed, options.out))
            for stream, records in problems.items():
                entry = {"system": cell.system, "seed": seed, "stream": stream}
                entries.append(entry | measure(model, records))
    return entries


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    problems = max((entry["count"] for entry in content["coverage"]), default=0)
    text = (
        "# Do the intervals of written numbers hold what they say?\n\n"
        f"Scale `{content['scale']}`, seeds {', '.join(map(str, content['seeds']))}; "
        f"{tables.describe_machines(content['runs'])}. Additions; at most {problems} problems of a stream and "
        "seed.\n\n"
        f"{report.describe_commits(content['runs'])}\n\n"
        "In percent, means over seeds. “In 50%” is the share of right answers inside the intervals that state 50%: "
        "above 50 they are too wide, or hold a number that is certain; below 50 the model is too sure. “Stated” is "
        "the mean probability that the model gives its own answers; it should be the share of right answers.\n\n"
        "![share of right answers inside the intervals, against the share that they state](coverage.png)\n"
    )
    for stream, name in STREAMS.items():
        rows = {s: [e for e in content["coverage"] if (e["system"], e["stream"]) == (s, stream)] for s in SYSTEMS}
        text += f"\n## {name[:1].upper()}{name[1:]}\n\n{_format_rows(rows)}"
    return text


def _format_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    heads = ["system", "method", *(f"in {share:.0%}" for share in TABLE_SHARES), "right", "stated"]
    lines = [f"| {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * (len(heads) - 2)]
    for system, entries in rows.items():
        if not entries:
            continue
        covered = [[e["covered"][SHARES.index(share)] for e in entries] for share in TABLE_SHARES]
        stated = [e["probability"] for e in entries if e["probability"] is not None]
        cells = [*map(_format_mean, (*covered, [e["exact"] for e in entries])), _format_mean(stated)]
        lines.append(f"| {SYSTEMS[system]} | {entries[0]['method']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _format_mean(values: Sequence[float]) -> str:
    mean_std = tables.mean_and_std([100 * value for value in values])
    if mean_std is None:
        return "–"
    return f"{mean_std[0]:.1f}" + ("" if mean_std[1] is None else f" ± {mean_std[1]:.1f}")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The share of right answers inside the intervals against the share that they state, at the lengths of
    training."""
    stream = next(iter(STREAMS))
    stated = plots.Line("as stated", [(100 * share, 100 * share, None) for share in SHARES], has_marks=False)
    panels: dict[str, list[plots.Line]] = {}
    short: dict[str, float] = {}
    for heading, systems in PANELS.items():
        lines = []
        for system in systems:
            own = [e for e in content["coverage"] if (e["system"], e["stream"]) == (system, stream)]
            if own:
                means = [statistics.fmean(e["covered"][i] for e in own) for i in range(len(SHARES))]
                points = [(100 * s, 100 * m, None) for s, m in zip(SHARES, means, strict=True)]
                lines.append(plots.Line(SYSTEMS[system], points))
                short[system] = means[SHARES.index(0.9)]
        if lines:
            panels[heading] = [stated, *lines]
    if not panels:
        return {}
    x = plots.Axis("Share that the interval states (%)", limits=(0, 100), ticks=(10, 25, 50, 75, 90))
    y = plots.Axis("Right answers inside (%)", limits=(-2, 102), ticks=(0, 25, 50, 75, 100))
    return {"coverage.png": plots.draw_lines(make_title(short), panels, x, y, height=1.4 + 2.6 * len(panels))}


def make_title(covered: Mapping[str, float]) -> str:
    """The message: how many systems' intervals of 90% hold at least 85% of the right answers, and the least."""
    good = sum(value >= 0.85 for value in covered.values())
    worst = min(covered, key=lambda system: covered[system])
    return (
        f"The 90% intervals of {good} of {len(covered)} systems hold at least 85% of the right answers; "
        f"the least: {SYSTEMS[worst]}, {covered[worst]:.0%}"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes coverage.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", OUT)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, [TASK], SYSTEMS)
    cells = [RunCell(TASK, s, make_config(options.scale, s)) for s in SYSTEMS if is_wanted(TASK, s)]
    results = runs.run(cells, options.seeds, options.out)
    content: dict[str, Any] = {"scale": options.scale, "seeds": options.seeds, "shares": SHARES}
    content |= {"coverage": measure_runs(cells, results, options), "drawn_by": "intervals.coverage"}
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    text = report.write("coverage", options.out, "intervals.coverage", content | stored.pack(run_results))
    report.print_report(text, options, "coverage.md", "coverage.json", "coverage.png")


if __name__ == "__main__":
    command.entry(main)
