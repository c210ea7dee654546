"""A test that could reject a scheme of our own: systems on operations of `data/arithmetic`, seed by seed."""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.configs import schemes
from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.runs import Results, RunCell
from numjax.bundled.experiments.tables import TableColumn, TableRow
from numjax.config import blocks

OUT = "runs/candidates-{scale}"
# The positions of systems that spell numbers; they were chosen for `carry`, see the README.
POSITIONS = "positions.sequence=coupled_bias:ahead=True,numbers=8"
LAPTOP = {"optim.steps": 2000, "optim.learning_rate": 2e-3, "eval.every": 125, "eval.examples": 200}
SMOKE = {
    "optim.steps": 4,
    "optim.batch_size": 8,
    "eval.every": 2,
    "eval.examples": 8,
    "task.size": 64,
    "task.test": 4,
}
DATA_SEED = 1  # parts were chosen on problems of seed 0
ROOM = {"max": (192, 256)}  # positions of a text, of which test streams have the longest; and with its answer
LEARNED = 0.99  # exact share of validation's answers


class System(NamedTuple):
    """A row of configs/schemes.py with changes, as `--set` takes them, and how a table names it."""

    row: str
    label: str
    changes: tuple[str, ...] = ()


class Contest(NamedTuple):
    """What is compared.

    Attributes:
      name: of its files. title: of its table.
      operations: names. systems: by name. reference: the system that others are compared with.
      streams: of the test problems, one column each.
      options: config path → value, besides `LAPTOP`.
      list_options: (operation, system) → further options. `SMOKE` goes before all of these at that scale.
      remarks: below the title.
    """

    name: str
    title: str
    operations: Sequence[str]
    systems: Mapping[str, System]
    reference: str
    streams: Sequence[str]
    options: Mapping[str, Any] = {}
    list_options: Callable[[str, str], Mapping[str, Any]] = lambda operation, system: {}
    remarks: Sequence[str] = ()


def make_config(contest: Contest, scale: str, operation: str, system: str) -> Any:
    """The config of a system on an operation."""
    row, _, words = contest.systems[system]
    config = schemes.get_config(f"{row},{'smoke' if scale == 'smoke' else 'cpu'},task={operation}")
    blocks.apply_changes(config, words)
    options: dict[str, Any] = {"task.data_seed": DATA_SEED}
    options |= dict(zip(("data.length", "backbone.max_length"), ROOM.get(operation, (96, 128)), strict=True))
    # Edges have answers of 31 digits; places have marks and a place to spare.
    options |= {"decode.max_tokens": 48, "decode.batch_size": 128, "log_every": 125}
    options |= {**LAPTOP, **contest.options, **contest.list_options(operation, system)}
    options |= SMOKE if scale == "smoke" else {}
    with config.unlocked():
        config.update_from_flattened_dict(options)
    return config


def run(contest: Contest, description: str, words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes NAME.{md,json} and its pictures."""
    parser = command.make_parser(description, OUT)
    parser.add_argument("--only", default="", help="operations, systems or operation/system, separated by commas")
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, contest.operations, contest.systems)
    cells = [
        RunCell(operation, system, make_config(contest, options.scale, operation, system))
        for operation in contest.operations
        for system in contest.systems
        if is_wanted(operation, system)
    ]
    results: Results = runs.run(cells, options.seeds, options.out)
    write_tables(contest, results, list_learned_steps(contest.name, cells, results, options), options)


def write_tables(
    contest: Contest, results: Results, learned: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    """Writes one table for each operation."""
    rows = [TableRow(system.label, name) for name, system in contest.systems.items()]
    parts = {}
    for operation in dict.fromkeys(operation for operation, _ in results):
        own = [by_seed for (name, _), by_seed in results.items() if name == operation]
        columns = [TableColumn(stream, operation, f"exact/{operation}/{stream}") for stream in contest.streams]
        # Products of six digits have no longer streams.
        columns = [c for c in columns if any(tables.collect_values(by_seed, c) for by_seed in own)]
        parts[operation] = (tables.compare(results, rows, columns, contest.reference), columns)
    remarks = ["Exact answers in percent; mean ± standard deviation over seeds.", *contest.remarks]
    remarks += describe_learned_steps(contest, learned)
    label = contest.systems[contest.reference].label
    text = report.publish(contest.name, contest.title, remarks, parts, results, options, label, {"learned": learned})
    report.print_report(text, options, f"{contest.name}.md", f"{contest.name}.json")


def find_learned_step(lines: Sequence[Mapping[str, Any]]) -> tuple[int, float] | None:
    """(the first step whose validation has `LEARNED` of the answers right, the seconds of training up to it), from a
    run's metrics.jsonl; None if there is none. Seconds leave out evals: steps times the median of a step."""
    seconds = sorted(line["seconds_per_step"] for line in lines if line.get("seconds_per_step"))
    for line in lines:
        if line.get("split") == "validation" and line.get("exact", 0) >= LEARNED:
            return line["step"], line["step"] * seconds[len(seconds) // 2] if seconds else float("nan")
    return None


def list_learned_steps(
    name: str, cells: Sequence[RunCell], results: Results, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The steps and seconds to `LEARNED` of each finished run whose log is here, or in a table of --known, or in the
    one that an earlier call wrote here: its copies of results from elsewhere have no log."""
    paths = [pathlib.Path(known).expanduser() for known in options.known.split(",") if known]
    paths += [path for path in (options.out / f"{name}.json",) if path.exists()]
    tables_known = [json.loads(path.read_text()) for path in paths]
    known: dict[tuple[str, str, int, str], Any] = {}  # the settings of an entry are those of its table's run
    for own in tables_known:
        keys = {(run["task"], run["system"], run["seed"]): run["key"] for run in own.get("runs", ())}
        for entry in own.get("learned", []) if own["scale"] == options.scale else ():
            run = entry["task"], entry["system"], entry["seed"]
            known.setdefault((*run, keys.get(run, "")), entry)
    entries = []
    for cell in cells:
        for seed, result in results.get((cell.task, cell.system), {}).items():
            path = runs.workdir(cell, seed, options.out) / "metrics.jsonl"
            if not path.exists():
                entry = known.get((cell.task, cell.system, seed, result.key))
                entries += [] if entry is None else [entry]
                continue
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            step, seconds = find_learned_step(lines) or (None, None)
            entries.append({"task": cell.task, "system": cell.system, "seed": seed, "step": step, "seconds": seconds})
    return entries


def describe_learned_steps(contest: Contest, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each operation: after how many steps and seconds each system has `LEARNED` of the answers right."""
    lines = []
    for operation in dict.fromkeys(entry["task"] for entry in entries):
        parts = []
        for name, system in contest.systems.items():
            own = [entry for entry in entries if entry["task"] == operation and entry["system"] == name]
            steps = ", ".join(
                "never" if entry["step"] is None else f"{entry['step']} ({entry['seconds']:.0f} s)" for entry in own
            )
            parts += [f"{system.label}: {steps}"] if own else []
        lines.append(f"Steps to {LEARNED:.0%} on {operation}, seed by seed: {'; '.join(parts)}.")
    return lines
