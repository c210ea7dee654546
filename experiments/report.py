"""How the results of an experiment are written down: NAME.md and NAME.json in its folder."""

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
    parts: Mapping[str, tuple[list[dict[str, Any]], Sequence[tables.Column]]],
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
      extra: more of the JSON. per: what is repeated.
    """
    hardware = tables.machines(results)
    seconds = sum(result.seconds for of in results.values() for result in of.values())
    facts = (
        f"Scale `{options.scale}`, {per}s {', '.join(map(str, options.seeds))}"
        f"{', as published' * options.as_published}; {hardware}; {seconds / 60:.1f} minutes of training "
        f"in all{_without(results)}."
    )
    text = f"# {title}\n\n{facts}\n"
    text += "".join(f"\n{remark}\n" for remark in remarks)
    for heading, (entries, columns) in parts.items():
        text += (f"\n## {heading}\n" if heading else "") + "\n" + tables.markdown(entries, columns, reference)
    tables.write(options.out / f"{name}.md", text)
    written = {
        "title": title,
        "scale": options.scale,
        "seeds": options.seeds,
        "as_published": options.as_published,
        "remarks": list(remarks),
        "tables": {heading or name: entries for heading, (entries, _) in parts.items()},
        "runs": [result._asdict() for of in results.values() for result in of.values()],
    }
    runs.write_json(options.out / f"{name}.json", written | dict(extra or {}))
    return text


def _without(results: Results) -> str:
    """What the minutes leave out: pre-trainings that were done elsewhere, and what they took is not known here."""
    unknown = sorted(f"{task}/{system}" for (task, system), of in results.items() if not of)
    return f", without {', '.join(unknown)}, whose results are not here" if unknown else ""


def say_where(text: str, options: argparse.Namespace, *files: str) -> None:
    """Prints the table, and where its files are."""
    print(f"\n{text}\nIn {options.out}: {', '.join(files)}", flush=True)
