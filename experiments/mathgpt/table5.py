"""Table 5: MathGPT without tree positions, token types, linked symbols or numeric sub-trees.

python -m experiments.mathgpt.table5 --path=math23k.jsonl          # laptop: from scratch, 2 cores, 5 folds
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import settings

SYSTEMS = {"mathgpt": "", **{f"no_{name}": f"without={name}" for name in ("tpe", "te", "se", "nt")}}
LABELS = {
    "mathgpt": "MathGPT",
    "no_tpe": "without tree positions (TPE)",
    "no_te": "without token types (TE)",
    "no_se": "without linked symbols (SE)",
    "no_nt": "without numeric sub-trees (NT)",
}
# Five folds, pre-trained for 25 epochs.
PAPER = {
    "mathgpt": {"Tree Match": (53.1, 0.9), "TED, read": (2.367, 0.060), "Solve Rate": (61.2, 1.0)},
    "no_tpe": {"Tree Match": (52.6, 0.5), "TED, read": (2.371, 0.038), "Solve Rate": (60.3, 0.8)},
    "no_te": {"Tree Match": (53.0, 0.4), "TED, read": (2.362, 0.021), "Solve Rate": (61.0, 0.7)},
    "no_se": {"Tree Match": (51.0, 0.4), "TED, read": (2.464, 0.037), "Solve Rate": (58.6, 0.6)},
    "no_nt": {"Tree Match": (49.4, 0.8), "TED, read": (1.734, 0.026), "Solve Rate": (57.1, 1.0)},
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table5.{md,json}."""
    title = "Table 5: ablation on equation extraction"
    options, text, _ = settings.write_table("table5", title, __doc__, SYSTEMS, LABELS, PAPER, words)
    report.print_report(text, options, "table5.md", "table5.json")


if __name__ == "__main__":
    command.entry(main)
