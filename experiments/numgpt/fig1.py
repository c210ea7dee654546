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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import numjax
from numjax.bundled.experiments import command, plots, report, runs, stored, tables
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import Results, RunCell

QUESTION = "How many grams are 2 eggs?"
# Two eggs of 35 to 70 g; wrong answers in training reach from a hundredth of the least to a hundred times the most.
RIGHT = (70, 140)
REACH = (1, 14_000)
POINTS = 240


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


def draw(path: pathlib.Path, numbers: Sequence[int], curves: Mapping[str, Mapping[int, Curve]]) -> None:
    """A line a system (its first seed; other seeds pale), the right range shaded."""
    with plots.figure(path) as axes:
        axes.axvspan(*RIGHT, color="#009E73", alpha=0.15, linewidth=0, label=f"right: {RIGHT[0]} to {RIGHT[1]}")
        for i, (system, by_seed) in enumerate(curves.items()):
            for j, curve in enumerate(by_seed.values()):
                axes.plot(
                    numbers, curve.confidence, color=plots.COLOURS[i], linestyle=plots.STYLES[i],
                    linewidth=1.6 if j == 0 else 0.8, alpha=1.0 if j == 0 else 0.3,
                    label=settings.SYSTEMS[system] if j == 0 else None,
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel(f"answer to “{QUESTION}”")
        axes.set_ylabel("confidence that it is right")
        axes.set_ylim(-0.02, 1.02)
        axes.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


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
    draw(options.out / "fig1.png", numbers, curves)
    content: dict[str, Any] = {"question": QUESTION, "right": RIGHT, "answers": list(numbers), "scale": options.scale}
    content["seeds"] = options.seeds
    content["curves"] = {s: {str(k): c._asdict() for k, c in by_seed.items()} for s, by_seed in curves.items()}
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    return report.write("fig1", options.out, "numgpt.fig1", content | stored.pack(run_results))


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    answers, (low, high) = content["answers"], content["right"]
    curves = {
        system: {int(seed): Curve(**curve) for seed, curve in by_seed.items()}
        for system, by_seed in content["curves"].items()
    }
    return (
        f"# Fig. 1: confidence in answers to “{content['question']}”\n\n"
        f"Scale `{content['scale']}`, seeds {', '.join(map(str, content['seeds']))}; "
        f"{tables.describe_machines(content['runs'])}. {len(answers)} answers "
        f"from {answers[0]:,} to {answers[-1]:,}; {low} to {high} is right. A curve that rises once "
        "and falls once has total variation 2.\n\n"
        f"{report.describe_commits(content['runs'])}\n\n![confidence against the answer](fig1.png)\n\n"
    ) + format_table(curves)


def _format_mean(values: Sequence[float], digits: int) -> str:
    mean_std = tables.mean_and_std(values)
    if mean_std is None:
        return "diverged"
    return f"{mean_std[0]:.{digits}f}" + ("" if mean_std[1] is None else f" ± {mean_std[1]:.{digits}f}")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes fig1.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, ["mme"], settings.SYSTEMS)
    cells = [settings.make_cell(options, "mme", system) for system in settings.SYSTEMS if is_wanted("mme", system)]
    results = runs.run(cells, options.seeds, options.out)
    numbers = list_answers()
    text = write(options, compute_curves(cells, results, options.out, numbers), numbers, results)
    report.print_report(text, options, "fig1.md", "fig1.json", "fig1.png")


if __name__ == "__main__":
    command.entry(main)
