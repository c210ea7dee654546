"""How many gold answers of TAT-QA TagOp's labels reproduce, with and without the search for labels.

    python -m experiments.luna.gold --path=FOLDER      # of TAT-QA's development file

Labels are proposed from the answer and the derivation, the likeliest first, and the search keeps the first whose
assembled answer is right. So "with search" says which answers some labels reproduce, and "first proposal" how often
the likeliest labels are right without a look at the answer that they give. Writes gold.{md,json}.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, stored
from numjax.errors import DataError
from numjax.tasks.tatqa import labels, units
from numjax.tools.command import Parser

OUT = "runs/luna-gold"
FILE = "tatqa_dataset_dev.json"
KINDS = ("span", "multi-span", "count", "arithmetic")


def main(words: Sequence[str] | None = None) -> None:
    """Measures, then writes gold.{md,json}."""
    parser = Parser(prog="python -m experiments.luna.gold", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--path", required=True, help=f"folder of {FILE} or {FILE}.gz")
    parser.add_argument("--out", default=OUT, help=f"folder of the table; by default {OUT}")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    command.check_code(options.dirty)
    counts = count_right(read_questions(pathlib.Path(options.path).expanduser()))
    content = {"counts": {name: dict(by_kind) for name, by_kind in counts.items()}}
    out = pathlib.Path(options.out).expanduser()
    text = report.write("gold", out, "luna.gold", content | {"machine": stored.describe_machine()})
    print(f"\n{text}\nIn {out}: gold.md, gold.json", flush=True)


def read_questions(folder: pathlib.Path) -> Iterator[tuple[units.TableContext, dict[str, Any]]]:
    """Yields (context, question) of the development file.

    Raises:
      DataError: it is not there.
    """
    path = next((p for p in (folder / FILE, folder / f"{FILE}.gz") if p.is_file()), None)
    if path is None:
        raise DataError(f"{folder}: no {FILE} there; give --path=FOLDER of TAT-QA's files")
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as file:
        contexts = json.load(file)
    for raw in contexts:
        texts = [paragraph["text"] for paragraph in raw["paragraphs"]]
        for question in raw["questions"]:
            related = [
                2 + i for i, p in enumerate(raw["paragraphs"]) if str(p["order"]) in question["rel_paragraphs"]
            ]
            context = units.make_context(question["question"], raw["table"]["table"], texts)
            yield context, question | {"rel_paragraphs": related}


def count_right(questions: Iterator[tuple[units.TableContext, dict[str, Any]]]) -> dict[str, Counter[str]]:
    """ "questions", "search" and "first" → kind of question → number."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("questions", "search", "first")}
    for context, question in questions:
        kind = question["answer_type"]
        counts["questions"][kind] += 1
        counts["search"][kind] += labels.find_labels(context, question) is not None
        first = next(labels.propose_labels(context, question), None)
        counts["first"][kind] += first is not None and labels.give_answer(context, question, first)
    return counts


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    counts = content["counts"]
    lines = [
        "# TAT-QA: gold answers that TagOp's labels reproduce\n",
        f"Development file; by the official metric. {report.describe_commits([content])}\n",
        "| | questions | with search | % with search | first proposal | % first proposal |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind in KINDS:
        total, search, first = (counts[name].get(kind, 0) for name in ("questions", "search", "first"))
        lines.append(
            f"| {kind} | {total} | {search} | {100 * search / total:.1f} | {first} | {100 * first / total:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command.entry(main)
