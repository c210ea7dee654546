"""Feedback on wrong answers, MathGPT against a GPT on the same budget. The paper has no figures for it.

python -m experiments.mathgpt.feedback --path=FOLDER               # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.feedback                             # on simulated students
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.settings import FoldedTask
from numjax.bundled.experiments.tables import TableColumn

TASK = "feedback"
FOLDED_TASK = FoldedTask(
    TASK,
    "feedback",
    [
        TableColumn("BLEU-4", TASK, "BLEU-4"),
        TableColumn("ROUGE-L", TASK, "ROUGE-L"),
        TableColumn("METEOR, exact and stem", TASK, "METEOR_exact_stem"),
        TableColumn("exact", TASK, "exact"),
    ],
    "common wrong answers with feedback (ASSISTments)",
    "simulated wrong answers with feedback from templates",
    (
        "In percent; mean ± standard deviation over folds. Overlaps are over "
        "words, numbers and signs, formulas as the printer writes them.",
    ),
)
SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
LABELS = {"gpt": "GPT", "mathgpt": "MathGPT"}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes feedback.{md,json}."""
    title = "Feedback on wrong answers"
    options, text, _ = settings.write_table("feedback", title, __doc__, SYSTEMS, LABELS, {}, words, FOLDED_TASK)
    report.print_report(text, options, "feedback.md", "feedback.json")


if __name__ == "__main__":
    command.entry(main)
