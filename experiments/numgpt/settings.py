"""What the tables and figures of NumGPT share: the systems, their configs, and how results are written down."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments import runs, tables
from experiments.runs import Cell, Results
from numjax import roots

SYSTEMS = {
    "gpt": "GPT, subwords",
    "digits": "GPT, digits",
    "dice": "GPT + DICE",
    "numgpt": "NumGPT",
}
REFERENCE = "numgpt"
OUT = "runs/numgpt-{scale}"
# A pilot read the test split that data seed 0 makes; the tables have one that nobody has looked at.
DATA_SEED = 1
# Enough for statistics, few enough for seconds; a multiple of 40.
SMOKE_SIZE = 400


def config(
    scale: str, task: str, system: str, as_published: bool = False, changes: Mapping[str, Any] | None = None
) -> Any:
    """The config of a system on a task.

    Args:
      task, system: as in configs/numgpt.py.
      changes: block → its changed keys, such as {"embeds": {"numeral": {"sigma": 5.0}}}.
    """
    roots.put_on_path()
    from configs import numgpt

    words = [scale, f"task={task}", f"system={system}"] + ["as_published"] * as_published
    made: Any = numgpt.get_config(",".join(words))
    with made.unlocked():
        made.log_every = 50 if scale == "smoke" else 250
        if task != "text":
            made.task.data_seed = DATA_SEED
        if scale == "smoke" and task != "text":
            made.task.size = SMOKE_SIZE
        made.update(changes or {})
    return made


def cell(
    options: argparse.Namespace,
    task: str,
    system: str,
    start: Cell | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Cell:
    """A system on a task at the scale of the options; `start` makes it a fine-tuning."""
    name = system if start is None else f"{system}-pretrained"
    return Cell(task, name, config(options.scale, task, system, options.as_published, changes), start)


def pretraining(options: argparse.Namespace, system: str, text: str) -> Cell:
    """The pre-training of a system on a folder of text."""
    folder = str(pathlib.Path(text).expanduser().resolve())
    made = config(options.scale, "text", system, options.as_published, {"task": {"path": folder}})
    return Cell("text", system, made)


def publish(
    name: str,
    title: str,
    remarks: Sequence[str],
    parts: Mapping[str, tuple[list[dict[str, Any]], Sequence[tables.Column]]],
    results: Results,
    options: argparse.Namespace,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """Writes NAME.json and NAME.md into the options' folder; returns the Markdown.

    Args:
      remarks: lines below the title.
      parts: heading → (entries of `tables.compare`, columns).
      extra: more of the JSON.
    """
    hardware = tables.machines(results)
    seconds = sum(result.seconds for of in results.values() for result in of.values())
    facts = (
        f"Scale `{options.scale}`, seeds {', '.join(map(str, options.seeds))}"
        f"{', as published' * options.as_published}; {hardware}; {seconds / 60:.1f} minutes of training in all."
    )
    text = f"# {title}\n\n{facts}\n"
    text += "".join(f"\n{remark}\n" for remark in remarks)
    for heading, (entries, columns) in parts.items():
        text += (f"\n## {heading}\n" if heading else "") + "\n" + tables.markdown(entries, columns, REFERENCE_LABEL)
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


REFERENCE_LABEL = SYSTEMS[REFERENCE]


def say_where(text: str, options: argparse.Namespace, *files: str) -> None:
    """Prints the table, and where its files are."""
    print(f"\n{text}\nIn {options.out}: {', '.join(files)}", flush=True)
