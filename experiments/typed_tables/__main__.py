"""What runs answer about tables that someone typed, and that nobody trained on (data/tables/typed).

python -m experiments.typed_tables --questions=runs/tatqa --statements=runs/claims       # either may be left out

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
from numjax.tasks.tatqa import metric
from numjax.tools.command import Parser

TYPED = pathlib.Path(tables.__file__).parent / "typed"
QUESTIONS_FILE = "asked.jsonl"


def main(words: Sequence[str] | None = None) -> None:
    """Prints what the runs say and their totals."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", default="", help="workdir of a run of task=tatqa")
    parser.add_argument("--statements", default="", help="workdir of a run of task=claims or tabfact")
    parser.add_argument(
        "--typed", default=str(TYPED), help=f"folder of tables with {QUESTIONS_FILE}; by default {TYPED}"
    )
    parser.add_argument("--trust", action="store_true", help="run modules outside numjax that the runs' configs name")
    options = parser.parse_args(words)
    if not options.questions and not options.statements:
        raise UsageError("give --questions=WORKDIR or --statements=WORKDIR, or both")
    from numjax import api

    typed_tables = load_tables(pathlib.Path(options.typed))
    if options.questions:
        lines = make_question_records(typed_tables)
        rows = api.load(options.questions, trust=options.trust).predict([record for record, _ in lines])
        answers = {row["id"]: row["prediction"] for row in rows}
        print_report(
            [
                (gold, _format_answer(answers.get(record["id"])), is_right(gold, answers.get(record["id"])))
                for record, gold in lines
            ]
        )
    if options.statements:
        lines = make_statement_records(typed_tables)
        rows = api.load(options.statements, trust=options.trust).predict([record for record, _ in lines])
        predictions = {row["id"]: row for row in rows}
        print_report(
            [
                (
                    gold,
                    _format_verdict(row := predictions.get(record["id"], {})),
                    row.get("prediction") == gold["label"],
                )
                for record, gold in lines
            ]
        )


def load_tables(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The tables with what is asked of each: {"table", "rows", "text", "questions", "statements"}.

    Raises:
      UsageError: there are none.
    """
    try:
        lines = (folder / QUESTIONS_FILE).read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
        for entry in entries:
            with open(folder / entry["table"], newline="", encoding="utf-8-sig") as file:
                entry["rows"] = [row for row in csv.reader(file, skipinitialspace=True) if any(row)]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{folder}: no tables with {QUESTIONS_FILE} there ({error})") from None
    return entries


def make_question_records(typed_tables: Sequence[Mapping[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(record to predict, what is wanted of it)."""
    pairs = []
    for entry in typed_tables:
        paragraphs = [part.strip() for part in entry["text"].split("\n\n") if part.strip()]
        for index, question in enumerate(entry["questions"]):
            record = {"id": f"{entry['table']}:{index}", "question": question["question"], "table": entry["rows"]}
            pairs.append((record | {"paragraphs": paragraphs}, {"table": entry["table"]} | question))
    return pairs


def make_statement_records(typed_tables: Sequence[Mapping[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(record to predict, what is wanted of it)."""
    pairs = []
    for entry in typed_tables:
        width = max(map(len, entry["rows"]))
        rows = [row + [""] * (width - len(row)) for row in entry["rows"]]
        for index, statement in enumerate(entry["statements"]):
            record = {"id": f"{entry['table']}:{index}", "statement": statement["statement"], "table": rows}
            kind = statement.get("kind") or ("true" if statement["label"] else "false")
            expected = {
                "table": entry["table"],
                "kind": kind,
                "question": statement["statement"],
                "answer": str(statement["label"]),
            }
            pairs.append((record, expected | {"label": statement["label"]}))
    return pairs


def is_right(gold: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> bool:
    """Whether an answer is the wanted one, with its scale."""
    if prediction is None or prediction["answer"] == "":
        return False
    expected, scale = str(gold["answer"]), str(gold["scale"])
    if metric.score_question([expected], "span", scale, prediction["answer"], prediction["scale"]).em:
        return True
    parts = prediction["answer"] if isinstance(prediction["answer"], list) else [prediction["answer"]]
    value, number = _parse_number(str(parts[0])), _parse_number(expected)
    if len(parts) > 1 or prediction["scale"] != scale or value is None or number is None:
        return False
    return value.quantize(number, ROUND_HALF_UP) == number


def _parse_number(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").rstrip("%"))
    except InvalidOperation:
        return None


def _format_answer(prediction: Mapping[str, Any] | None) -> str:
    if prediction is None:
        return "nothing"
    answer = prediction["answer"]
    text = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
    return f"{text} {prediction['scale']}".strip() + f" [{prediction['operator']}]"


def _format_verdict(row: Mapping[str, Any]) -> str:
    """A label, and of task=claims how it was computed."""
    if not row.get("operation"):
        return str(row.get("prediction", "nothing"))
    parts = [
        "not" if row["denied"] else "",
        row["operation"],
        *(str(row[name] or "") for name in ("first", "second")),
    ]
    parts += [f"{name} {row[name]}" for name in ("claimed", "limit") if row[name]]
    return f"{row['prediction']} [{' '.join(filter(None, parts))}]"


def print_report(lines: Sequence[tuple[Mapping[str, Any], str, bool]]) -> None:
    """Prints a line a question, and the totals by kind."""
    totals: dict[str, list[bool]] = defaultdict(list)
    for gold, answer, is_right in lines:
        expected = f"{gold['answer']} {gold.get('scale', '')}".strip()
        mark = "right" if is_right else "WRONG"
        print(f"{mark} {gold['table']} {gold['kind']}: {gold['question']} · wanted {expected} · got {answer}")
        totals[gold["kind"]].append(is_right)
        totals["all"].append(is_right)
    for kind, verdicts in sorted(totals.items(), key=lambda item: item[0] == "all"):
        print(f"{kind}: {sum(verdicts)} of {len(verdicts)}, {100 * sum(verdicts) / len(verdicts):.1f}%")


if __name__ == "__main__":
    command.entry(main)
