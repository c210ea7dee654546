"""Table 3: the equation of a word problem (Math23K), MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table3 --path=math23k.jsonl          # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.table3                               # on generated problems
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, plots, report
from numjax.bundled.experiments.mathgpt import settings

SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
LABELS = {"gpt": "GPT", "mathgpt": "MathGPT"}

# Five folds; both systems are pre-trained on text (GPT-2) and on Wikipedia's mathematics.
PAPER = {
    "gpt": {"Tree Match": (47.8, 1.0), "Solve Rate": (54.6, 1.1), "TED, read": (2.669, 0.099)},
    "mathgpt": {"Tree Match": (52.4, 1.1), "Solve Rate": (60.3, 1.3), "TED, read": (2.449, 0.098)},
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table3.{md,json,png}."""
    title = "Table 3: equation extraction"
    options, text, entries = settings.write_table("table3", title, __doc__, SYSTEMS, LABELS, PAPER, words)
    titles = ["Tree Match", "Solve Rate"]
    by_cell = {(entry["row"], entry["column"]): entry for entry in entries}

    def find_means(label: str, source: str) -> list:
        return [(by_cell.get((label, title)) or {}).get(source) for title in titles]

    labels = list(LABELS.values())
    series = {label: [(e["mean"], e["std"]) if e else None for e in find_means(label, "here")] for label in labels}
    paper = {label: [e["mean"] if e else None for e in find_means(label, "paper")] for label in labels}
    with plots.figure(options.out / "table3.png") as axes:
        plots.draw_bars(axes, titles, series, paper, "%")
    report.print_report(text, options, "table3.md", "table3.json", "table3.png")


if __name__ == "__main__":
    command.entry(main)
