"""Table 3: writing the large answers of word problems: share of numbers, error of the logarithm, exponent.

    python -m experiments.numgpt.table3

NGR: share of outputs that are a number. LMAE: mean |log10 y − log10 ŷ| (eq. 13), E_Acc: share of right
exponents (eq. 14), both over positive numbers; "LMAE, all" charges every other output with the error of
answering 1, and "exact" is the share of answers that are equal, which the paper does not state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, plots, report, runs, tables, trials
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow

TASK = "generation"
PAPER_COLUMNS = (
    TableColumn("NGR", TASK, "NGR", 1.0, 3),
    TableColumn("LMAE", TASK, "LMAE", 1.0, 4),
    TableColumn("E_Acc", TASK, "E_Acc", 1.0, 4),
)
COLUMNS = (
    *PAPER_COLUMNS,
    TableColumn("LMAE, all", TASK, "LMAE_penalised", 1.0, 4),
    TableColumn("exact", TASK, "exact", 1.0, 3),
)
SYSTEMS = ("gpt", "digits", "numgpt")
PRETRAINED = ("gpt", "numgpt")
PAPER = {
    "gpt": ((1.0, 0.0), (0.0957, 0.0045), (0.9221, 0.0030)),
    "numgpt": ((1.0, 0.0), (0.0312, 0.0044), (0.9749, 0.0188)),
    "gpt-pretrained": ((1.0, 0.0), (0.0923, 0.0084), (0.9202, 0.0117)),
    "numgpt-pretrained": ((1.0, 0.0), (0.0371, 0.0099), (0.9430, 0.0728)),
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table3.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    parser.add_argument("--text", default="", help="folder of text: pre-train on it, then fine-tune, too")
    trials.add_option(parser, settings.GRID)
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, [TASK], SYSTEMS)

    systems = [system for system in SYSTEMS if is_wanted(TASK, system)]
    cells = [settings.make_cell(options, TASK, system) for system in systems]
    if options.text:
        for system in (s for s in PRETRAINED if s in systems):
            cells.append(
                settings.make_cell(options, TASK, system, settings.make_pretraining(options, system, options.text))
            )
    cells, trial_entries = settings.prepare(cells, options)
    results = runs.run(cells, options.seeds, options.out)

    rows = [TableRow(settings.SYSTEMS[s], s, make_published(s)) for s in SYSTEMS]
    rows += [
        TableRow(f"{settings.SYSTEMS[s]}, pre-trained", f"{s}-pretrained", make_published(f"{s}-pretrained"))
        for s in PRETRAINED
    ]
    columns = list(COLUMNS)
    entries = tables.compare(results, rows, columns, settings.REFERENCE)
    remarks = ["Greedy decoding on test, at the epoch with the least validation loss; mean ± standard deviation."]
    if not options.text:
        remarks.append(
            "Pre-trained then fine-tuned: not run (it needs --text=FOLDER); the paper's numbers stand alone."
        )
    extra = trial_entries | {"drawn_by": "numgpt.table3"}
    title = "Table 3: writing the answers of word problems"
    text = report.publish("table3", title, remarks, {"": (entries, columns)}, results, options, settings.LABEL, extra)
    report.print_report(text, options, "table3.md", "table3.json", "table3.png")


def make_published(system: str) -> dict[str, Published]:
    """The paper's numbers of a system by column."""
    return {c.title: Published(*pair) for c, pair in zip(PAPER_COLUMNS, PAPER.get(system, ()), strict=False)}


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: LMAE by system on a logarithmic axis."""
    entries = content["tables"][content["name"]]
    means = {entry["row"]: entry["here"]["mean"] for entry in entries if entry["column"] == "LMAE" and entry["here"]}
    parts = [f"{row} {mean:.2g}" for row, mean in sorted(means.items(), key=lambda pair: pair[1])]
    title = f"Mean error of an answer, in powers of ten: {'; '.join(parts)}"
    axis = plots.Axis("Mean error of log10 of the answer (LMAE, test)", True, ticks=(0.01, 0.03, 0.1, 0.3, 1))
    return {"table3.png": plots.draw_entries(title, entries, {"LMAE": axis}, True)}


if __name__ == "__main__":
    command.entry(main)
