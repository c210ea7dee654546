"""Fig. 3: accuracy of NumGPT on MME as σ, the width of a prototype, goes from 0.1 to 100.

    python -m experiments.numgpt.fig3

The paper prints a curve without numbers: flat, rising until about σ = 10 and falling after it, clearly worse at
0.1 and at 100. σ = 0.5 is Table 1's NumGPT and is taken from there where the folder holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, plots, report, runs, tables
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import TableColumn, TableRow
from numjax.errors import UsageError

SIGMAS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
COLUMN = TableColumn("MME accuracy", "mme", "accuracy")


def make_cell(options, sigma: float) -> RunCell:
    """NumGPT with a σ; the default's is the cell of Table 1."""
    cell = settings.make_cell(options, "mme", "numgpt")
    if cell.config.embeds.numeral.sigma == sigma:
        return cell
    cell.config.embeds.numeral.sigma = sigma
    return cell._replace(system=f"numgpt-sigma{sigma:g}")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes fig3.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--sigmas", default=",".join(f"{sigma:g}" for sigma in SIGMAS), help="separated by commas")
    options = command.parse_options(parser, words)
    try:
        sigmas = [float(word) for word in options.sigmas.split(",")]
    except ValueError:
        raise UsageError(f"--sigmas={options.sigmas}: give numbers separated by commas") from None
    if min(sigmas) <= 0:
        raise UsageError(f"--sigmas={options.sigmas}: every σ must be above 0")
    cells = {sigma: make_cell(options, sigma) for sigma in sigmas}
    results = runs.run(cells.values(), options.seeds, options.out)

    rows = [TableRow(f"σ = {sigma:g}", cell.system) for sigma, cell in cells.items()]
    entries = tables.compare(results, rows, [COLUMN], settings.REFERENCE)
    remarks = [
        "Accuracy in percent of NumGPT on MME test; mean ± standard deviation; p against σ = 0.5, the default.",
        "The paper prints no numbers: flat, rising until about σ = 10, then falling; 0.1 and 100 clearly worse.",
    ]
    extra = {"sigmas": sigmas}
    parts = {"": (entries, [COLUMN])}
    title = "Fig. 3: the width of a prototype"
    text = report.publish("fig3", title, remarks, parts, results, options, settings.LABEL, extra)
    draw(options.out / "fig3.png", [(s, e["here"]) for s, e in zip(sigmas, entries, strict=True) if e["here"]])
    report.print_report(text, options, "fig3.md", "fig3.json", "fig3.png")


def draw(path, points: Sequence[tuple[float, dict]]) -> None:
    """Accuracy over σ, with error bars."""
    with plots.figure(path, width=6.5, height=3.8) as axes:
        axes.errorbar(
            [sigma for sigma, _ in points],
            [number["mean"] for _, number in points],
            yerr=[number["std"] or 0.0 for _, number in points],
            marker="o", color=plots.COLOURS[0], capsize=3,
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("σ (width of a prototype, in units of the mantissa)")
        axes.set_ylabel("MME test accuracy (%)")


if __name__ == "__main__":
    command.entry(main)
