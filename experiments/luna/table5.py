"""Table 5: exact match on TAT-QA by the type of the question, from predictions that are on disk.

python -m experiments.luna.table5 baseline=runs/tagop-none ours=runs/tagop            # workdirs of task=tatqa
python -m experiments.luna.table5 ours=runs/a,runs/b,runs/c                            # several seeds of one system
python -m experiments.luna.table5 sample=sample_prediction.json --gold=tatqa_dataset_dev.json    # official files
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.data import files
from numjax.bundled.experiments import command, runs, tables
from numjax.bundled.experiments.luna import settings
from numjax.errors import DataError, UsageError
from numjax.runtime import log
from numjax.tasks import tatqa_metric as metric
from numjax.tools.command import Parser

PREDICTIONS = "predictions/tatqa.jsonl"
SUBSETS = {"span": "Span", "multi-span": "Multi-span", "arithmetic": "Arithmetic", "count": "Count"}
# Questions, EM of the paper's baseline (row ⊗ of its Table 3) and of LUNA (row ①).
PAPER = {
    "span": (701, 62.62, 63.48),
    "multi-span": (217, 68.66, 71.43),
    "arithmetic": (654, 36.39, 69.57),
    "count": (32, 43.75, 43.75),
}


class Question(NamedTuple):
    """A question's gold answer, and what was said: None for nothing."""

    kind: str
    answer: Any
    scale: str
    said: Any = None
    said_scale: str = ""


def main(words: Sequence[str] | None = None) -> None:
    """Scores the predictions, then writes table5.{md,json}."""
    parser = Parser(description=__doc__ or "", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="+", metavar="NAME=PATH[,PATH…]", help="workdirs or files, one a seed")
    parser.add_argument("--gold", default="", help="TAT-QA's file with answers, for files of {uid: [answer, scale]}")
    parser.add_argument("--out", default=settings.OUT.format(scale="laptop"), help="folder of the table")
    parser.add_argument("--as_published", action="store_true", help="of each system the seed with the best EM alone")
    options = parser.parse_args(words)
    gold = read_gold(options.gold) if options.gold else None
    systems, counted = {}, {}
    for word in options.systems:
        name, equals, paths = word.partition("=")
        if not equals or not name or not paths or name in systems:
            raise UsageError(f"{word!r}: give NAME=PATH, each name once")
        systems[name] = [scored(read(path, gold)) for path in paths.split(",")]
        counted |= dict(zip(paths.split(","), systems[name], strict=True))
        if options.as_published:
            systems[name] = [max(systems[name], key=lambda found: found["em"])]
    check_same(counted)
    text = written(systems, options.as_published)
    out = pathlib.Path(options.out).expanduser()
    tables.write(out / "table5.md", text)
    runs.write_json(out / "table5.json", {"systems": systems, "paper": PAPER, "as_published": options.as_published})
    print(f"\n{text}\nIn {out}: table5.md, table5.json", flush=True)


def read(path: str, gold: Mapping[str, Question] | None) -> list[Question]:
    """All questions of a workdir's predictions (or of such a file), or those of `gold` with the answers of a file in
    the official form; a question without one was not answered.

    Raises:
      DataError: a file that is not there, empty or of another form. UsageError: the official form without gold.
    """
    found = pathlib.Path(path).expanduser()
    found = found / PREDICTIONS if found.is_dir() else found
    if not found.exists():
        raise DataError(f"{found}: no such file; give a workdir of task=tatqa, or a file of predictions")
    if found.name.endswith((".jsonl", ".jsonl.gz")):
        asked = [_of_line(line, f"{found}:{number}") for number, line in enumerate(files.lines(found), 1)]
        if not asked:
            raise DataError(f"{found}: the file is empty; run --mode=eval to write it again")
        return asked
    if gold is None:
        raise UsageError(f"{found}: set --gold to TAT-QA's file with the answers to these questions")
    said = files.parsed(found)
    if not isinstance(said, Mapping):
        raise DataError(f"{found}: not {{uid: [answer, scale]}}")
    if not said.keys() & gold.keys():
        raise DataError(f"{found}: holds no prediction for a question of --gold")
    out = []
    for uid, question in gold.items():
        answer, scale = _pair(said[uid], f"{found}: {uid}") if said.get(uid) else (None, "")
        out.append(question._replace(said=answer, said_scale=scale))
    lacking, unknown = sum(one.said in (None, "", []) for one in out), len(said.keys() - gold.keys())
    if lacking or unknown:
        log.say(f"{found}: {lacking:,} of {len(gold):,} questions have no answer, {unknown:,} uids unknown")
    return out


def _pair(said: Any, name: str) -> tuple[Any, str]:
    """(answer, scale) as the official metric takes them.

    Raises:
      DataError: it is of another form.
    """
    if not isinstance(said, list) or len(said) != 2:
        raise DataError(f"{name}: must be [answer, scale], not {json.dumps(said)[:60]}")
    answer, scale = said
    parts = answer if isinstance(answer, list) else [answer]
    if not all(part is None or isinstance(part, str | int | float) for part in parts):
        raise DataError(f"{name}: the answer must be texts or a number, not {json.dumps(answer)[:60]}")
    if scale is not None and not isinstance(scale, str):
        raise DataError(f"{name}: the scale must be a text, not {json.dumps(scale)[:60]}")
    return answer, scale or ""


def _of_line(line: bytes, name: str) -> Question:
    try:
        row = json.loads(line)
        said, gold = row["prediction"], row["reference"]
        found = Question(gold["answer_type"], gold["answer"], gold["scale"], said["answer"], said["scale"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{name}: not a prediction of task=tatqa") from None
    return _of_a_type(found, name)


def _of_a_type(question: Question, name: str) -> Question:
    if question.kind not in tuple(SUBSETS):  # also where it is no text
        raise DataError(
            f"{name}: answer_type must be one of {', '.join(SUBSETS)}, not {json.dumps(question.kind)[:60]}"
        )
    return question


def read_gold(path: str) -> dict[str, Question]:
    """uid → question of TAT-QA's file with answers.

    Raises:
      DataError: it is of another form.
    """
    found = files.parsed(pathlib.Path(path).expanduser())
    try:
        asked = [one for context in found for one in context["questions"]]
        gold = {one["uid"]: Question(one["answer_type"], one["answer"], one["scale"]) for one in asked}
    except (KeyError, TypeError):
        raise DataError(f"{path}: not TAT-QA's file with answers") from None
    return {uid: _of_a_type(question, f"{path}: {uid}") for uid, question in gold.items()}


def scored(questions: Iterable[Question]) -> dict[str, Any]:
    """The official metric over questions and by their types, and how many there are of each."""
    asked = list(questions)
    scores = [metric.question(q.answer, q.kind, q.scale, q.said, q.said_scale) for q in asked]
    kinds = [q.kind for q in asked]
    counts = {f"count/{kind}": kinds.count(kind) for kind in SUBSETS} | {"count": len(kinds)}
    return metric.overall(scores, kinds) | counts


def check_same(counted: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises DataError unless all files, by name, have as many questions of each type."""
    questions = {path: {kind: found[f"count/{kind}"] for kind in SUBSETS} for path, found in counted.items()}
    (first, wanted), *others = questions.items()
    for path, counts in others:
        if counts != wanted:
            shown = [", ".join(f"{count} {kind}" for kind, count in of.items()) for of in (wanted, counts)]
            raise DataError(
                f"{first} has other questions ({shown[0]}) than {path} ({shown[1]}): give those of the same split"
            )


def written(systems: Mapping[str, Sequence[Mapping[str, Any]]], as_published: bool = False) -> str:
    """The table in Markdown."""
    first = next(iter(systems.values()))[0]
    of = "the best of its runs" if as_published else "mean ± standard deviation over its runs"
    lines = [
        "# Table 5: exact match on TAT-QA by the type of the question",
        "",
        f"Of each system {of}. The paper's are of the best of three seeds; its arithmetic questions are those",
        "for which its labels know an operator, 64 fewer than the development split has.",
        "",
        "| Subset | questions | " + " | ".join(systems) + " | of the paper | baseline (paper) | LUNA (paper) |",
        "|---" + "|---:" * (4 + len(systems)) + "|",
    ]
    for kind, title in [*SUBSETS.items(), ("", "All")]:
        metric_of, count_of = (f"em/{kind}", f"count/{kind}") if kind else ("em", "count")
        cells = [title, str(first[count_of])]
        for found in systems.values():
            spread = tables.spread([100 * one[metric_of] for one in found if metric_of in one])
            cells.append("–" if spread is None else f"{spread[0]:.2f}")
            if spread is not None and spread[1] is not None:
                cells[-1] += f" ± {spread[1]:.2f}"
        if kind:
            count, baseline, luna = PAPER[kind]
            cells += [str(count), f"{baseline:.2f}", f"{luna:.2f}"]
        else:
            cells += [str(sum(count for count, _, _ in PAPER.values())), "–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command.entry(main)
