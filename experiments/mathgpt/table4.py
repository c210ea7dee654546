"""Table 4: a student's next entry in an algebra tutor after feedback, MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table4 --path=ds660.csv              # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.table4                               # on simulated students
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.settings import FoldedTask
from numjax.bundled.experiments.tables import TableColumn

TASK = "student_action"
FOLDED_TASK = FoldedTask(
    TASK,
    "student_action",
    [
        TableColumn("Accuracy", TASK, "accuracy"),
        TableColumn("when right", TASK, "accuracy_correct"),
        TableColumn("when wrong", TASK, "accuracy_incorrect"),
        TableColumn("outcome", TASK, "outcome"),
        TableColumn("action", TASK, "action"),
        TableColumn("input", TASK, "input"),
    ],
    "the Cognitive Tutor's log (DataShop 660)",
    "simulated students of linear equations, which are not comparable with the paper's",
    (
        "In percent; mean ± standard deviation over folds.",
        "Accuracy is of outcome, action and input together; “when right” and “when wrong” are over entries that are "
        "OK and over all others.",
    ),
)
SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
LABELS = {"gpt": "GPT", "gpt_wiki": "GPT-2 Wiki", "mathgpt": "MathGPT"}

# Table 4 and section 4.3: five folds; systems are pre-trained on text, MathGPT also on Wikipedia's mathematics.
PAPER = {
    "gpt": {"Accuracy": (40.0, 0.8), "when right": (61.2,), "when wrong": (6.4,)},
    "gpt_wiki": {"Accuracy": (40.3, 1.2), "when right": (61.5,), "when wrong": (6.8,)},
    "mathgpt": {"Accuracy": (41.8, 1.0), "when right": (63.5,), "when wrong": (6.6,)},
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table4.{md,json}."""
    title = "Table 4: student action prediction"
    options, text, _ = settings.write_table("table4", title, __doc__, SYSTEMS, LABELS, PAPER, words, FOLDED_TASK)
    report.print_report(text, options, "table4.md", "table4.json")


if __name__ == "__main__":
    command.entry(main)
