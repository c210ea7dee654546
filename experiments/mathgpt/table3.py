"""Table 3: the equation of a word problem (Math23K), MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table3 --path=math23k.jsonl          # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.table3                               # on generated problems
python -m experiments.mathgpt.table3 --scale=overnight --path=math23k.jsonl --texts=DATA    # pre-trained here

At overnight there are two more systems, which copy numbers by design: digits of formulas that are linked with digits
of text at the output too, and numbers of formulas that point to the problem's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, overnight, plots, report
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
    options, text, _ = settings.write_table("table3", title, __doc__, SYSTEMS, LABELS, PAPER, words)
    report.print_report(text, options, "table3.md", "table3.json", "table3.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: Tree Match and Solve Rate of the systems."""
    entries = content["tables"][content["name"]]
    solved = {e["row"]: e for e in entries if e["column"] == "Solve Rate" and e["here"]}
    ours = ", ".join(f"{row} {entry['here']['mean']:.0f}%" for row, entry in solved.items())
    paper = ", ".join(f"{row} {e['paper']['mean']:.0f}%" for row, e in solved.items() if e["paper"])
    start = "after a small pre-training" if content.get("scale") == overnight.NAME else "from scratch"
    title = f"Problems solved {start}: {ours}" + f" (in the paper, pre-trained: {paper})" * bool(paper)
    axes = {
        "Tree Match": plots.Axis("equations that match (%)", limits=(0, 100)),
        "Solve Rate": plots.Axis("problems solved (%)", limits=(0, 100)),
    }
    return {"table3.png": plots.draw_entries(title, entries, axes, True)}


if __name__ == "__main__":
    command.entry(main)
