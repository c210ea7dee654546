"""Fig. 3: accuracy of NumGPT on MME as σ, the width of a prototype, goes from 0.1 to 100.

    python -m experiments.numgpt.fig3

The paper prints a curve without numbers: flat, rising until about σ = 10 and falling after it, clearly worse at
0.1 and at 100. σ = 0.5 is Table 1's NumGPT and is taken from there where the folder holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, plots, report, runs, tables
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import TableColumn, TableRow
from numjax.errors import UsageError

SIGMAS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
CLOSE = 2  # points of accuracy: what the picture calls as good as the best
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
    extra: dict[str, Any] = {"sigmas": sigmas, "drawn_by": "numgpt.fig3"}
    if options.scale in settings.TUNED:
        counts = {row.label: settings.PILOT[settings.LABEL] * (row.system == settings.REFERENCE) for row in rows}
        extra["trials"] = counts
    parts = {"": (entries, [COLUMN])}
    title = "Fig. 3: the width of a prototype"
    text = report.publish("fig3", title, remarks, parts, results, options, settings.LABEL, extra)
    report.print_report(text, options, "fig3.md", "fig3.json", "fig3.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: accuracy over σ, with the widths shaded that are as good as the best."""
    entries = content["tables"][content["name"]]
    points = [
        (sigma, entry["here"]["mean"], entry["here"]["std"])
        for sigma, entry in sorted(zip(content["sigmas"], entries, strict=True), key=lambda pair: pair[0])
        if entry["here"]
    ]
    if not points:
        return {}
    low, high = find_best_range([(sigma, mean) for sigma, mean, _ in points])
    title = f"NumGPT is within {CLOSE} points of its best accuracy for σ from {low:g} to {high:g}"
    x = plots.Axis("σ, the width of a prototype (in units of the mantissa)", True, ticks=(0.1, 1, 10, 100))
    y = plots.Axis("Accuracy on MME, test (%)")
    shade = plots.Shade(low, high, f"within {CLOSE} points of the best")
    return {"fig3.png": plots.draw_lines(title, {"": [plots.Line("NumGPT", points)]}, x, y, shade)}


def find_best_range(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The least and the greatest σ around the best one without a worse one between, of sorted (σ, accuracy)."""
    best = max(range(len(points)), key=lambda i: points[i][1])
    is_close = [mean >= points[best][1] - CLOSE for _, mean in points]
    first = next((i + 1 for i in range(best, -1, -1) if not is_close[i]), 0)
    last = next((i - 1 for i in range(best, len(points)) if not is_close[i]), len(points) - 1)
    return points[first][0], points[last][0]


if __name__ == "__main__":
    command.entry(main)
