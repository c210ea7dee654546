"""How positions start: the same trial of MathGPT and of GPT, on validation. What it chooses holds for all tables.

    python -m experiments.mathgpt.starts --path=math23k.jsonl      # four runs on fold 0, an hour on 2 cores

Beside each system's own start there is one other: for MathGPT's tree positions PyTorch's, as in the paper,
and for GPT's positions that of GPT-2's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, stored, tables, trials
from numjax.bundled.experiments.mathgpt import settings
from numjax.bundled.experiments.mathgpt.table3 import LABELS, SYSTEMS

# System → path of the initial standard deviation → values to try, the config's first.
GRIDS = {"gpt": {"positions.sequence.init_std": (0.02, 0.01)}, "mathgpt": {"positions.tree.init_std": (0.005, 0.03)}}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes starts.{md,json}."""
    options = command.parse_options(settings.make_parser(__doc__ or ""), words)
    is_wanted = command.parse_only(options.only, [settings.EQUATION.task], SYSTEMS)
    records: dict[str, list[dict[str, Any]]] = {}
    results = []
    for system, grid in GRIDS.items():
        if is_wanted(settings.EQUATION.task, system):
            cell = settings.make_cell(options, system, SYSTEMS[system], 0)
            _, entries = trials.choose_settings([cell], grid, len(*grid.values()), options.out)
            (records[system],) = entries["trial_records"].values()
            results += stored.unpack(entries["trial_runs"])
    content = {"scale": options.scale, "data": settings.EQUATION.real if options.path else settings.EQUATION.stand_in}
    content |= stored.pack([]) | trials.pack_trials(records, results)
    text = report.write("starts", options.out, "mathgpt.starts", content)
    report.print_report(text, options, "starts.md", "starts.json")


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    entries = content["trial_runs"]["runs"]
    facts = f"Scale `{content['scale']}`, on fold 0 of {content['data']}; {tables.describe_machines(entries)}."
    lines = [
        "# How positions start: the same trial of both systems\n",
        f"{facts}\n\n{report.describe_commits(entries)} Each is one run, with a seed that no table has.\n",
        "| system | setting | loss on validation | chosen |",
        "| --- | --- | ---: | --- |",
    ]
    for system, own in content["trial_records"].items():
        for record in own:
            ((path, value),) = record["settings"].items()
            chosen = "yes" if record["chosen"] else ""
            lines.append(f"| {LABELS[system]} | `{path}={value}` | {record['loss']:.4f} | {chosen} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command.entry(main)
