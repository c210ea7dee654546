"""Writes the results of an experiment: NAME.json, and NAME.md and pictures, which are made from the JSON alone.

A JSON names the module that renders it ("written_by"), the one that draws its pictures ("drawn_by", see `pictures`),
and the commit of the code that wrote it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import pictures, stored, tables, trials
from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.stored import DIRTY

MODULES = "numjax.bundled.experiments."


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
    """Writes NAME.json, NAME.md and pictures into the options' folder; returns the Markdown.

    Args:
      remarks: lines below the title.
      parts: heading → (entries of `tables.compare`, columns).
      reference: label of the system that t-tests compare with.
      extra: more keys of the JSON, such as "drawn_by". per: what is repeated, such as "seed".
    """
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    content = {
        "title": title,
        "scale": options.scale,
        "per": per,
        "seeds": options.seeds,
        "as_published": options.as_published,
        "remarks": list(remarks),
        "reference": reference,
        "columns": {heading or name: [c._asdict() for c in columns] for heading, (_, columns) in parts.items()},
        "tables": {heading or name: entries for heading, (entries, _) in parts.items()},
        "missing": sorted(f"{task}/{system}" for (task, system), by_seed in results.items() if not by_seed),
        "other_code": stored.describe_code(run_results),
    }
    return write(name, options.out, "report", content | stored.pack(run_results) | dict(extra or {}))


def write(name: str, out: pathlib.Path, module: str, content: Mapping[str, Any]) -> str:
    """Writes NAME.json, what `module` renders from it, NAME.md, and its pictures; returns the Markdown.

    Args:
      module: of experiments/, such as "numgpt.fig1"; its `render` makes the Markdown from the JSON.
      content: what the JSON holds. Its "drawn_by" names the module whose `draw` makes the pictures, if there are any.
    """
    header = {"name": name, "written_by": module, "commit": stored.find_commit()}
    stored.write_json(out / f"{name}.json", header | dict(content))
    text = render_file(out / f"{name}.json")
    tables.write_text(out / f"{name}.md", text)
    pictures.write(out / f"{name}.json")
    return text


def render_file(path: pathlib.Path) -> str:
    """The Markdown of a JSON file that `write` wrote.

    Raises:
      KeyError: it does not name its module, or lacks something.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    text = importlib.import_module(MODULES + content["written_by"]).render(content)
    if content["commit"].endswith(DIRTY):
        text += "\n**Written by code with changes that were not committed (`--dirty`).**\n"
    return text


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of what `publish` wrote."""
    entries = content["runs"]
    seconds = sum(entry["seconds"] for entry in entries)
    missing = f", without {', '.join(content['missing'])}, whose results are not here" * bool(content["missing"])
    facts = (
        f"Scale `{content['scale']}`, {content['per']}s {', '.join(map(str, content['seeds']))}"
        f"{', as published' * content['as_published']}; {tables.describe_machines(entries)}; "
        f"{seconds / 60:.1f} minutes of training in all{missing}."
    )
    text = f"# {content['title']}\n\n{facts}\n"
    remarks = [describe_commits(entries), content["other_code"], describe_trials(content), *content["remarks"]]
    text += "".join(f"\n{remark}\n" for remark in remarks if remark)
    for heading, table_entries in content["tables"].items():
        columns = [tables.TableColumn(**column) for column in content["columns"][heading]]
        text += f"\n## {heading}\n" * (heading != content["name"]) + "\n"
        text += tables.format_markdown(table_entries, columns, content["reference"])
    return text


def describe_trials(content: Mapping[str, Any]) -> str:
    """What settings were tried on which rows of a table, and whether it ranks them; empty without trials."""
    tasks = dict.fromkeys(entry["task"] for entries in content["tables"].values() for entry in entries)
    counts_by_task = {task: trials.select(content.get("trials", {}), task) for task in tasks}
    parts = []
    for counts in {json.dumps(counts): counts for counts in counts_by_task.values()}.values():
        names = [task for task, task_counts in counts_by_task.items() if task_counts == counts]
        where = f" on {', '.join(names)}" * (len(names) < len(tasks))
        parts.append(trials.describe_ranking(counts, where))
    return " ".join(filter(None, parts))


def describe_commits(entries: Sequence[Mapping[str, Any]]) -> str:
    """The commits of a table's runs, in one sentence; empty without runs."""
    counts = Counter(entry["machine"].get("commit", "") for entry in entries)
    parts = [
        f"{commit.removesuffix(DIRTY) or 'code outside of a checkout'}"
        f"{' with changes that were not committed' * commit.endswith(DIRTY)}"
        + f" ({count} run{'s' * (count > 1)})"
        * (len(counts) > 1)
        for commit, count in counts.most_common()
    ]
    return f"Code of the runs: {', '.join(parts)}." * bool(parts)


def print_report(text: str, options: argparse.Namespace, *files: str) -> None:
    """Prints the table, and the folder and names of those of its files that there are."""
    names = [name for name in files if (options.out / name).exists()]
    print(f"\n{text}\nIn {options.out}: {', '.join(names)}", flush=True)
