"""Tables 1 and 6: the headline of a question (EXEQ-300k, OFEQ-10k), MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table1 --path=EXEQ-300k                           # Table 1; 2 cores, 3 seeds
python -m experiments.mathgpt.table1 --dataset=ofeq --path=OFEQ-10k             # Table 6
python -m experiments.mathgpt.table1 --dataset=ofeq --path=… --splits=divided   # new splits of a part
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import headlines

NAMES = {"exeq": "table1", "ofeq": "table6"}
# Five seeds; all start from GPT-2's weights, and MathGPT is then pre-trained on Wikipedia's mathematics.
PAPER: dict[str, dict[str, headlines.Numbers]] = {
    "exeq": {
        "mathbert": {"BLEU-4": (49.4,), "ROUGE-L": (57.7,), "METEOR": (34.7,)},
        "mathsum": {"BLEU-4": (52.0,), "ROUGE-L": (54.8,), "METEOR": (37.5,)},
        "gpt": {"BLEU-4": (55.3, 1.1), "ROUGE-L": (62.1, 0.0), "METEOR": (43.7, 0.3)},
        "gpt-wiki": {"BLEU-4": (56.1, 0.6), "ROUGE-L": (62.2, 0.1), "METEOR": (43.7, 0.3)},
        "mathgpt": {"BLEU-4": (56.5, 0.5), "ROUGE-L": (62.2, 0.1), "METEOR": (43.8, 0.3)},
    },
    "ofeq": {
        "mathsum": {"BLEU-4": (29.4,), "ROUGE-L": (39.0,), "METEOR": (26.8,)},
        "gpt": {"BLEU-4": (34.8, 0.6), "ROUGE-L": (46.9, 0.5), "METEOR": (33.2, 0.3)},
        "gpt-wiki": {"BLEU-4": (34.5, 0.6), "ROUGE-L": (46.4, 0.2), "METEOR": (32.8, 0.3)},
        "mathgpt": {"BLEU-4": (34.2, 0.9), "ROUGE-L": (47.2, 0.4), "METEOR": (32.6, 0.5)},
    },
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table1.{md,json} or table6.{md,json}."""
    options = command.parse_options(headlines.make_parser(__doc__ or ""), words)
    name = NAMES[options.dataset]
    title = f"Table {name[5:]}: headline generation, {headlines.DATASETS[options.dataset]}"
    text = headlines.write_table(options, name, title, {"headline": ""}, {"headline": PAPER[options.dataset]})
    report.print_report(text, options, f"{name}.md", f"{name}.json")


if __name__ == "__main__":
    command.entry(main)
