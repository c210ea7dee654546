"""Fig. 1: confidence in an answer to "How many grams are 2 eggs?", over answers from 1 to 14,000.

    python -m experiments.numgpt.fig1

A model that knows what numbers are is confident inside the right range, not outside, and smooth between. Takes
the MME runs of Table 1 from the same folder, and trains them where they are missing. Beside the picture: the
share of answers that each system judges rightly, and the total variation of its curve (2 for a curve that rises
once from 0 to 1 and falls once; more is oscillation).
"""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import numjax
from numjax.bundled.experiments import command, plots, report, runs, stored, tables, trials
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import Results, RunCell

QUESTION = "How many grams are 2 eggs?"
# Two eggs of 35 to 70 g; wrong answers in training reach from a hundredth of the least to a hundred times the most.
RIGHT = (70, 140)
REACH = (1, 14_000)
POINTS = 240
MAIN, BASELINE = "numgpt", "gpt"  # the two systems of fig1.png


class Curve(NamedTuple):
    """A model's P(right) over the answers, its share of answers judged rightly, and its total variation."""

    confidence: list[float]
    accuracy: float
    variation: float


def list_answers(points: int = POINTS) -> list[int]:
    """Different whole numbers, evenly spaced in their logarithm as far as whole numbers can be."""
    low, high = map(math.log, REACH)
    return sorted({round(math.exp(low + (high - low) * i / (points - 1))) for i in range(points)})


def compute_curve(folder: pathlib.Path, numbers: Sequence[int]) -> Curve:
    """What the model of a workdir says of each answer."""
    model = numjax.load(folder)
    scores = model.score([{"question": QUESTION, "answer": str(number)} for number in numbers])
    confidence = np.asarray(scores, np.float64)[:, 1]
    truth = np.asarray([RIGHT[0] <= number <= RIGHT[1] for number in numbers])
    variation = float(np.abs(np.diff(confidence)).sum())
    return Curve(confidence.tolist(), float(np.mean((confidence > 0.5) == truth)), variation)


def compute_curves(
    cells: Sequence[RunCell], results: Results, out: pathlib.Path, numbers: Sequence[int]
) -> dict[str, dict[int, Curve]]:
    """System → seed → its curve, of the seeds that did not diverge."""
    curves: dict[str, dict[int, Curve]] = {}
    for cell in cells:
        results_by_seed = results[cell.task, cell.system]
        curves[cell.system] = {
            seed: compute_curve(runs.workdir(cell, seed, out), numbers)
            for seed, result in results_by_seed.items()
            if not result.diverged
        }
    return curves


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figures: NumGPT's curve over GPT's; with more systems also over that of each, a panel each."""
    curves = _read_curves(content)
    others = [system for system in curves if system != MAIN and curves[system].keys() & curves.get(MAIN, {}).keys()]
    pair = [system for system in others if system == BASELINE] or others[:1]
    if not pair:
        return {}
    figures = {"fig1.png": draw_curves(content, curves, pair)}
    return figures | ({"fig1_all.png": draw_curves(content, curves, others)} if len(others) > 1 else {})


def draw_curves(
    content: Mapping[str, Any], curves: Mapping[str, Mapping[int, Curve]], others: Sequence[str]
) -> plots.Figure:
    """Draws NumGPT's curve over that of each other system, a panel each, of the first seed that both have."""
    panels = {}
    for system in others:
        seed = min(curves[MAIN].keys() & curves[system].keys())
        heading = f"NumGPT and {settings.SYSTEMS[system]}" if len(others) > 1 else ""
        if (n_seeds := max(len(curves[MAIN]), len(curves[system]))) > 1:
            heading += f"{': ' * bool(heading)}curves of seed {seed} (title: means of {n_seeds} seeds)"
        panels[heading] = [
            plots.Line(
                settings.SYSTEMS[name],
                [(x, 100 * y, None) for x, y in zip(content["answers"], curves[name][seed].confidence, strict=True)],
                has_marks=False,
            )
            for name in (MAIN, system)
        ]
    low, high = content["right"]
    answers = content["answers"]
    x = plots.Axis(
        f"Answer to “{content['question']}” (grams)", True, (answers[0], answers[-1]), (1, 10, 100, 1000, 10_000)
    )
    y = plots.Axis("Confidence that it is right (%)", limits=(-2, 102), ticks=(0, 50, 100))
    shade = plots.Shade(low, high, f"right: {low} to {high} grams")
    height = 3.6 if len(panels) == 1 else 1.2 + 1.6 * len(panels)
    title = make_title({name: curves[name] for name in (MAIN, *others)})
    return plots.draw_lines(title, panels, x, y, shade, height)


def make_title(curves: Mapping[str, Mapping[int, Curve]]) -> str:
    """The message: the share of answers that each system judges rightly, the mean over seeds."""
    shares = {
        name: 100 * statistics.fmean(curve.accuracy for curve in by_seed.values())
        for name, by_seed in curves.items()
        if by_seed
    }
    others = sorted(share for name, share in shares.items() if name != MAIN)
    text = f"NumGPT judges {shares[MAIN]:.0f}% of the answers rightly, "
    if len(others) == 1:
        name = next(settings.SYSTEMS[name] for name in shares if name != MAIN).replace(", ", " with ")
        return text + f"{name} {others[0]:.0f}%"
    return text + f"the other systems {others[0]:.0f} to {others[-1]:.0f}%"


def format_table(curves: Mapping[str, Mapping[int, Curve]]) -> str:
    """Markdown: how rightly and how smoothly each system judges."""
    lines = ["| system | answers judged rightly (%) | total variation |", "| --- | ---: | ---: |"]
    for system, by_seed in curves.items():
        numbers = [
            _format_mean([100 * c.accuracy for c in by_seed.values()], 1),
            _format_mean([c.variation for c in by_seed.values()], 2),
        ]
        lines.append(f"| {settings.SYSTEMS[system]} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def write(options, curves: Mapping[str, Mapping[int, Curve]], numbers: Sequence[int], results: Results) -> str:
    """Writes fig1.{md,json,png}; returns the Markdown."""
    content: dict[str, Any] = {"question": QUESTION, "right": RIGHT, "answers": list(numbers), "scale": options.scale}
    content |= {"seeds": options.seeds, "drawn_by": "numgpt.fig1"}
    content["curves"] = {s: {str(k): c._asdict() for k, c in by_seed.items()} for s, by_seed in curves.items()}
    if options.scale in settings.TUNED:
        content["trials"] = {settings.SYSTEMS[s]: settings.PILOT.get(settings.SYSTEMS[s], 0) for s in curves}
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    return report.write("fig1", options.out, "numgpt.fig1", content | stored.pack(run_results))


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    answers, (low, high) = content["answers"], content["right"]
    return (
        (
            f"# Fig. 1: confidence in answers to “{content['question']}”\n\n"
            f"Scale `{content['scale']}`, seeds {', '.join(map(str, content['seeds']))}; "
            f"{tables.describe_machines(content['runs'])}. {len(answers)} answers "
            f"from {answers[0]:,} to {answers[-1]:,}; {low} to {high} is right. A curve that rises once "
            "and falls once has total variation 2.\n\n"
            f"{report.describe_commits(content['runs'])}\n\n"
            "![confidence against the answer, NumGPT and GPT](fig1.png)\n\n"
        )
        + f"{trials.describe_ranking(content.get('trials', {}))}\n\n" * ("trials" in content)
        + format_table(_read_curves(content))
        + "\n![all systems](fig1_all.png)\n" * (len(content["curves"]) > 2)
    )


def _read_curves(content: Mapping[str, Any]) -> dict[str, dict[int, Curve]]:
    return {
        system: {int(seed): Curve(**curve) for seed, curve in by_seed.items()}
        for system, by_seed in content["curves"].items()
    }


def _format_mean(values: Sequence[float], digits: int) -> str:
    mean_std = tables.mean_and_std(values)
    if mean_std is None:
        return "diverged"
    return f"{mean_std[0]:.{digits}f}" + ("" if mean_std[1] is None else f" ± {mean_std[1]:.{digits}f}")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes fig1.{md,json,png} and fig1_all.png."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, ["mme"], settings.SYSTEMS)
    cells = [settings.make_cell(options, "mme", system) for system in settings.SYSTEMS if is_wanted("mme", system)]
    results = runs.run(cells, options.seeds, options.out)
    numbers = list_answers()
    text = write(options, compute_curves(cells, results, options.out, numbers), numbers, results)
    report.print_report(text, options, "fig1.md", "fig1.json", "fig1.png", "fig1_all.png")


if __name__ == "__main__":
    command.entry(main)
