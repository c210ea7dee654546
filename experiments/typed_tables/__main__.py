"""What runs answer about tables that someone typed, and that nobody trained on (data/tables/typed).

python -m experiments.typed_tables --questions=runs/tatqa --statements=runs/tabfact      # either may be left out

A line a question: right or wrong, table, kind, question, what was wanted, what was answered; then the totals by kind.
An answer is right where TAT-QA's metric says so, or where its number is the wanted one after it is rounded as that
is, and the scale is the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import pathlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from numjax.bundled.data import tables
from numjax.bundled.experiments import command
from numjax.errors import UsageError
from numjax.tasks import tatqa_metric as metric
from numjax.tools.command import Parser

TYPED = pathlib.Path(tables.__file__).parent / "typed"
ASKED = "asked.jsonl"


def main(words: Sequence[str] | None = None) -> None:
    """Prints what the runs say and their totals."""
    made = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--questions", default="", help="workdir of a run of task=tatqa")
    made.add_argument("--statements", default="", help="workdir of a run of task=tabfact")
    made.add_argument("--typed", default=str(TYPED), help=f"folder of tables with {ASKED}; by default {TYPED}")
    options = made.parse_args(words)
    if not options.questions and not options.statements:
        raise UsageError("give --questions=WORKDIR or --statements=WORKDIR, or both")
    from numjax import api

    asked = read(pathlib.Path(options.typed))
    if options.questions:
        lines = questions(asked)
        found = api.load(options.questions).predict([record for record, _ in lines])
        said = {row["id"]: row["prediction"] for row in found}
        report(
            [(gold, _shown(said.get(record["id"])), right(gold, said.get(record["id"]))) for record, gold in lines]
        )
    if options.statements:
        lines = statements(asked)
        found = api.load(options.statements).predict([record for record, _ in lines])
        labels = {row["id"]: row["prediction"] for row in found}
        report(
            [
                (gold, str(labels.get(record["id"])), labels.get(record["id"]) == gold["label"])
                for record, gold in lines
            ]
        )


def read(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The tables with what is asked of each: {"table", "rows", "text", "questions", "statements"}.

    Raises:
      UsageError: there are none.
    """
    try:
        lines = (folder / ASKED).read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        for one in found:
            with open(folder / one["table"], newline="", encoding="utf-8-sig") as file:
                one["rows"] = [row for row in csv.reader(file, skipinitialspace=True) if any(row)]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{folder}: no tables with {ASKED} there ({error})") from None
    return found


def questions(asked: Sequence[Mapping[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(record to predict, what is wanted of it)."""
    out = []
    for one in asked:
        paragraphs = [part.strip() for part in one["text"].split("\n\n") if part.strip()]
        for place, question in enumerate(one["questions"]):
            record = {"id": f"{one['table']}:{place}", "question": question["question"], "table": one["rows"]}
            out.append((record | {"paragraphs": paragraphs}, {"table": one["table"]} | question))
    return out


def statements(asked: Sequence[Mapping[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(record to predict, what is wanted of it)."""
    out = []
    for one in asked:
        width = max(map(len, one["rows"]))
        rows = [row + [""] * (width - len(row)) for row in one["rows"]]
        for place, said in enumerate(one["statements"]):
            record = {"id": f"{one['table']}:{place}", "statement": said["statement"], "table": rows}
            kind = said.get("kind") or ("true" if said["label"] else "false")
            wanted = {
                "table": one["table"],
                "kind": kind,
                "question": said["statement"],
                "answer": str(said["label"]),
            }
            out.append((record, wanted | {"label": said["label"]}))
    return out


def right(gold: Mapping[str, Any], said: Mapping[str, Any] | None) -> bool:
    """Whether an answer is the wanted one, with its scale."""
    if said is None or said["answer"] == "":
        return False
    wanted, scale = str(gold["answer"]), str(gold["scale"])
    if metric.question([wanted], "span", scale, said["answer"], said["scale"]).em:
        return True
    parts = said["answer"] if isinstance(said["answer"], list) else [said["answer"]]
    value, number = _number(str(parts[0])), _number(wanted)
    if len(parts) > 1 or said["scale"] != scale or value is None or number is None:
        return False
    return value.quantize(number, ROUND_HALF_UP) == number


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").rstrip("%"))
    except InvalidOperation:
        return None


def _shown(said: Mapping[str, Any] | None) -> str:
    if said is None:
        return "nothing"
    answer = said["answer"]
    text = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
    return f"{text} {said['scale']}".strip() + f" [{said['operator']}]"


def report(lines: Sequence[tuple[Mapping[str, Any], str, bool]]) -> None:
    """Prints a line a question, and the totals by kind."""
    totals: dict[str, list[bool]] = defaultdict(list)
    for gold, said, is_right in lines:
        wanted = f"{gold['answer']} {gold.get('scale', '')}".strip()
        mark = "right" if is_right else "WRONG"
        print(f"{mark} {gold['table']} {gold['kind']}: {gold['question']} · wanted {wanted} · got {said}")
        totals[gold["kind"]].append(is_right)
        totals["all"].append(is_right)
    for kind, found in sorted(totals.items(), key=lambda item: item[0] == "all"):
        print(f"{kind}: {sum(found)} of {len(found)}, {100 * sum(found) / len(found):.1f}%")


if __name__ == "__main__":
    command.entry(main)
