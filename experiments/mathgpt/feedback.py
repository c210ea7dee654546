"""Feedback on wrong answers, MathGPT beside a GPT on the same budget. The paper has no figures for it.

python -m experiments.mathgpt.feedback --path=FOLDER               # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.feedback                             # on simulated students
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.settings import Study
from numjax.bundled.experiments.tables import Column

TASK = "feedback"
STUDY = Study(
    TASK,
    "feedback",
    [
        Column("BLEU-4", TASK, "BLEU-4"),
        Column("ROUGE-L", TASK, "ROUGE-L"),
        Column("METEOR, exact and stem", TASK, "METEOR_exact_stem"),
        Column("exact", TASK, "exact"),
    ],
    "common wrong answers with feedback (ASSISTments)",
    "simulated wrong answers with feedback from templates",
    (
        "In percent; mean ± standard deviation over folds; every system is trained from scratch. Overlaps are over "
        "words, numbers and signs, formulas as the printer writes them.",
    ),
)
SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
LABELS = {"gpt": "GPT", "mathgpt": "MathGPT"}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes feedback.{md,json}."""
    title = "Feedback on wrong answers"
    options, text, _ = settings.table("feedback", title, __doc__, SYSTEMS, LABELS, {}, words, STUDY)
    report.say_where(text, options, "feedback.md", "feedback.json")


if __name__ == "__main__":
    command.entry(main)
