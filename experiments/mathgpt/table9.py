"""Table 9: the grade of a student's answer from graded examples, MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table9 --path=FOLDER                 # laptop: from scratch, 2 cores, 5 folds
python -m experiments.mathgpt.table9                               # on simulated students
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.settings import FoldedTask
from numjax.bundled.experiments.tables import TableColumn

TASK = "answer_scoring"
FOLDED_TASK = FoldedTask(
    TASK,
    "answer_scoring",
    [
        TableColumn("Accuracy", TASK, "accuracy"),
        TableColumn("F1", TASK, "F1"),
        TableColumn("AUC", TASK, "AUC"),
        TableColumn("RMSE", TASK, "RMSE", scale=1.0, digits=3),
        TableColumn("Kappa", TASK, "kappa"),
    ],
    "graded answers to open questions (ASSISTments)",
    "simulated students, which are not comparable with the paper's",
    (
        "In percent, but for RMSE (of grades 0 to 4); mean ± standard deviation over folds. "
        "F1 and AUC are means over the classes, kappa is not weighted.",
    ),
)
SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
LABELS = {"bert": "BERT", "gpt": "GPT", "mathgpt": "MathGPT"}

# Five folds; BERT is from Zhang et al. 2022.
PAPER = {
    "bert": {"AUC": (73.3, 0.6), "RMSE": (1.077, 0.002), "Kappa": (58.9, 0.4)},
    "gpt": {
        "Accuracy": (82.4, 0.2), "F1": (61.8, 0.5), "AUC": (94.3, 0.2), "RMSE": (0.933, 0.007), "Kappa": (63.6, 0.4),
    },
    "mathgpt": {
        "Accuracy": (82.2, 0.3), "F1": (61.8, 0.7), "AUC": (94.2, 0.1), "RMSE": (0.935, 0.014), "Kappa": (63.7, 0.5),
    },
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table9.{md,json}."""
    title = "Table 9: student answer scoring"
    options, text, _ = settings.write_table("table9", title, __doc__, SYSTEMS, LABELS, PAPER, words, FOLDED_TASK)
    report.print_report(text, options, "table9.md", "table9.json")


if __name__ == "__main__":
    command.entry(main)
