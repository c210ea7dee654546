"""Table 5: MathGPT without tree positions, token types, linked symbols or numeric sub-trees.

python -m experiments.mathgpt.table5 --path=math23k.jsonl          # laptop: from scratch, 2 cores, 5 folds
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments import command, report, tables
from experiments.mathgpt import settings
from experiments.tables import Published, Row

SYSTEMS = {"mathgpt": "", **{f"no_{name}": f"without={name}" for name in ("tpe", "te", "se", "nt")}}
LABELS = {
    "mathgpt": "MathGPT",
    "no_tpe": "without tree positions (TPE)",
    "no_te": "without token types (TE)",
    "no_se": "without linked symbols (SE)",
    "no_nt": "without numeric sub-trees (NT)",
}
TITLES = ("Tree Match", "TED, read", "Solve Rate")
# Five folds, pre-trained for 25 epochs.
PAPER = {
    "mathgpt": ((53.1, 0.9), (2.367, 0.060), (61.2, 1.0)),
    "no_tpe": ((52.6, 0.5), (2.371, 0.038), (60.3, 0.8)),
    "no_te": ((53.0, 0.4), (2.362, 0.021), (61.0, 0.7)),
    "no_se": ((51.0, 0.4), (2.464, 0.037), (58.6, 0.6)),
    "no_nt": ((49.4, 0.8), (1.734, 0.026), (57.1, 1.0)),
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table5.{md,json}."""
    options = command.parse(settings.parser(__doc__ or ""), words)
    results = settings.run(options, SYSTEMS)
    rows = [
        Row(LABELS[name], name, {t: Published(*pair) for t, pair in zip(TITLES, PAPER[name], strict=True)})
        for name in SYSTEMS
    ]
    entries = tables.compare(results, rows, settings.COLUMNS, settings.REFERENCE)
    text = report.publish(
        "table5",
        "Table 5: ablation on equation extraction",
        settings.remarks(options),
        {"": (entries, settings.COLUMNS)},
        results,
        options,
        LABELS[settings.REFERENCE],
        per="fold",
    )
    report.say_where(text, options, "table5.md", "table5.json")


if __name__ == "__main__":
    command.entry(main)
