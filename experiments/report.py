"""Writes the results of an experiment: NAME.md and NAME.json in its folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import runs, tables
from numjax.bundled.experiments.runs import Results


def publish(
    name: str,
    title: str,
    remarks: Sequence[str],
    parts: Mapping[str, tuple[list[dict[str, Any]], Sequence[tables.TableColumn]]],
    results: Results,
    options: argparse.Namespace,
    reference: str,
    extra: Mapping[str, Any] | None = None,
    per: str = "seed",
) -> str:
    """Writes NAME.json and NAME.md into the options' folder; returns the Markdown.

    Args:
      remarks: lines below the title.
      parts: heading → (entries of `tables.compare`, columns).
      reference: label of the system that t-tests compare with.
      extra: more keys of the JSON. per: what is repeated, such as "seed".
    """
    hardware = tables.describe_machines(results)
    seconds = sum(result.seconds for by_seed in results.values() for result in by_seed.values())
    facts = (
        f"Scale `{options.scale}`, {per}s {', '.join(map(str, options.seeds))}"
        f"{', as published' * options.as_published}; {hardware}; {seconds / 60:.1f} minutes of training "
        f"in all{_describe_missing(results)}."
    )
    text = f"# {title}\n\n{facts}\n"
    text += "".join(f"\n{remark}\n" for remark in remarks)
    for heading, (entries, columns) in parts.items():
        text += (f"\n## {heading}\n" if heading else "") + "\n" + tables.format_markdown(entries, columns, reference)
    tables.write_text(options.out / f"{name}.md", text)
    content = {
        "title": title,
        "scale": options.scale,
        "seeds": options.seeds,
        "as_published": options.as_published,
        "remarks": list(remarks),
        "tables": {heading or name: entries for heading, (entries, _) in parts.items()},
        "runs": [result._asdict() for by_seed in results.values() for result in by_seed.values()],
    }
    runs.write_json(options.out / f"{name}.json", content | dict(extra or {}))
    return text


def _describe_missing(results: Results) -> str:
    """Names the pre-trainings whose minutes are not counted: they ran elsewhere, and their results are not here."""
    names = sorted(f"{task}/{system}" for (task, system), by_seed in results.items() if not by_seed)
    return f", without {', '.join(names)}, whose results are not here" if names else ""


def print_report(text: str, options: argparse.Namespace, *files: str) -> None:
    """Prints the table, and the folder and names of its files."""
    print(f"\n{text}\nIn {options.out}: {', '.join(files)}", flush=True)
