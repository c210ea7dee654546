"""Tables 2, 7 and 8: the next formula and the next text of a headline, MathGPT against a GPT on the same budget.

python -m experiments.mathgpt.table2 --path=EXEQ-300k                           # Table 2; 2 cores, 3 seeds
python -m experiments.mathgpt.table2 --dataset=ofeq --path=OFEQ-10k             # Tables 7 and 8
python -m experiments.mathgpt.table2 --dataset=ofeq --path=… --splits=divided   # new splits of a part
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.mathgpt import headlines

# Name of a table → task → heading of its part.
TABLES = {
    "exeq": {"table2": {"next_formula": "Next formula", "next_text": "Next text"}},
    "ofeq": {"table7": {"next_formula": ""}, "table8": {"next_text": ""}},
}
TITLES = {"table2": "next formula and next text", "table7": "next formula", "table8": "next text"}


def _make_numbers(bleu: tuple, rouge: tuple, meteor: tuple, ted: tuple | None = None) -> headlines.Numbers:
    numbers = {"BLEU-4": bleu, "ROUGE-L": rouge, "METEOR": meteor}
    return numbers if ted is None else numbers | {"TED, read": ted}


# Five seeds; all start from GPT-2's weights, and MathGPT is then pre-trained on Wikipedia's mathematics.
PAPER: dict[str, dict[str, dict[str, headlines.Numbers]]] = {
    "exeq": {
        "next_formula": {
            "gpt": _make_numbers((77.4, 0.2), (83.1, 0.0), (56.1, 0.1), (4.125, 0.035)),
            "gpt-wiki": _make_numbers((77.4, 0.2), (83.5, 0.1), (56.2, 0.0), (4.079, 0.045)),
            "mathgpt": _make_numbers((77.6, 0.2), (83.7, 0.1), (56.4, 0.1), (2.656, 0.023)),
        },
        "next_text": {
            "gpt": _make_numbers((42.5, 0.2), (58.1, 0.3), (38.3, 0.2)),
            "gpt-wiki": _make_numbers((43.8, 0.5), (54.5, 0.2), (40.6, 0.0)),
            "mathgpt": _make_numbers((46.2, 0.1), (63.3, 0.1), (42.2, 0.1)),
        },
    },
    "ofeq": {
        "next_formula": {
            "gpt": _make_numbers((58.1, 1.4), (74.0, 0.3), (47.0, 0.6), (3.806, 0.066)),
            "gpt-wiki": _make_numbers((60.0, 1.4), (76.2, 0.3), (48.1, 0.6), (3.444, 0.092)),
            "mathgpt": _make_numbers((62.2, 0.8), (76.8, 0.1), (49.1, 0.3), (2.862, 0.031)),
        },
        "next_text": {
            "gpt": _make_numbers((15.1, 0.5), (40.4, 0.5), (20.2, 0.5)),
            "gpt-wiki": _make_numbers((20.5, 0.2), (38.3, 0.4), (25.0, 0.3)),
            "mathgpt": _make_numbers((20.6, 0.5), (43.7, 0.2), (26.6, 0.3)),
        },
    },
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json}, or table7.{md,json} and table8.{md,json}."""
    options = command.parse_options(headlines.make_parser(__doc__ or ""), words)
    for name, tasks in TABLES[options.dataset].items():
        title = f"Table {name[5:]}: {TITLES[name]} of headlines, {headlines.DATASETS[options.dataset]}"
        text = headlines.write_table(options, name, title, tasks, PAPER[options.dataset])
        report.print_report(text, options, f"{name}.md", f"{name}.json")


if __name__ == "__main__":
    command.entry(main)
