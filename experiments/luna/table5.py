"""Table 5: exact match on TAT-QA by the type of the question, from prediction files.

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
from numjax.bundled.experiments import command, report, tables
from numjax.bundled.experiments.luna import settings
from numjax.errors import DataError, UsageError
from numjax.runtime import log
from numjax.tasks.tatqa import metric
from numjax.tools.command import Parser

PREDICTIONS = "predictions/tatqa.jsonl"
SUBSETS = {"span": "Span", "multi-span": "Multi-span", "arithmetic": "Arithmetic", "count": "Count"}
# Number of questions, EM of the paper's baseline (row ⊗ of its Table 3) and of LUNA (row ①).
PAPER = {
    "span": (701, 62.62, 63.48),
    "multi-span": (217, 68.66, 71.43),
    "arithmetic": (654, 36.39, 69.57),
    "count": (32, 43.75, 43.75),
}


class AnsweredQuestion(NamedTuple):
    """A question's gold answer and its prediction, None if there is none."""

    kind: str
    answer: Any
    scale: str
    prediction: Any = None
    prediction_scale: str = ""


def main(words: Sequence[str] | None = None) -> None:
    """Scores the predictions, then writes table5.{md,json}."""
    parser = Parser(description=__doc__ or "", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="+", metavar="NAME=PATH[,PATH…]", help="workdirs or files, one a seed")
    parser.add_argument("--gold", default="", help="TAT-QA's file with answers, for files of {uid: [answer, scale]}")
    parser.add_argument("--out", default=settings.OUT.format(scale="laptop"), help="folder of the table")
    parser.add_argument("--as_published", action="store_true", help="of each system the seed with the best EM alone")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    command.check_code(options.dirty)
    gold = load_gold(options.gold) if options.gold else None
    systems, counts_by_path = {}, {}
    for word in options.systems:
        name, equals, paths = word.partition("=")
        if not equals or not name or not paths or name in systems:
            raise UsageError(f"{word!r}: give NAME=PATH, each name once")
        systems[name] = [score_questions(load_questions(path, gold)) for path in paths.split(",")]
        counts_by_path |= dict(zip(paths.split(","), systems[name], strict=True))
        if options.as_published:
            systems[name] = [max(systems[name], key=lambda scores: scores["em"])]
    check_same(counts_by_path)
    out = pathlib.Path(options.out).expanduser()
    content = {"systems": systems, "paper": PAPER, "as_published": options.as_published}
    text = report.write("table5", out, "luna.table5", content)
    print(f"\n{text}\nIn {out}: table5.md, table5.json", flush=True)


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    return format_table(content["systems"], content["as_published"])


def load_questions(path: str, gold: Mapping[str, AnsweredQuestion] | None) -> list[AnsweredQuestion]:
    """The questions with predictions, of a workdir, of its file of predictions, or of a file in the official form.

    The official form needs `gold`: the result has all its questions, and those without a prediction have None.

    Raises:
      DataError: a file is missing, empty or of another form. UsageError: the official form without `gold`.
    """
    source = pathlib.Path(path).expanduser()
    source = source / PREDICTIONS if source.is_dir() else source
    if not source.exists():
        raise DataError(f"{source}: no such file; give a workdir of task=tatqa, or a file of predictions")
    if source.name.endswith((".jsonl", ".jsonl.gz")):
        questions = [
            _parse_line(line, f"{source}:{number}") for number, line in enumerate(files.read_lines(source), 1)
        ]
        if not questions:
            raise DataError(f"{source}: the file is empty; run --mode=eval to write it again")
        return questions
    if gold is None:
        raise UsageError(f"{source}: set --gold to TAT-QA's file with the answers to these questions")
    predictions = files.read_json(source)
    if not isinstance(predictions, Mapping):
        raise DataError(f"{source}: not {{uid: [answer, scale]}}")
    if not predictions.keys() & gold.keys():
        raise DataError(f"{source}: holds no prediction for a question of --gold")
    answered = []
    for uid, question in gold.items():
        answer, scale = _parse_pair(predictions[uid], f"{source}: {uid}") if predictions.get(uid) else (None, "")
        answered.append(question._replace(prediction=answer, prediction_scale=scale))
    n_missing, n_unknown = (
        sum(entry.prediction in (None, "", []) for entry in answered),
        len(predictions.keys() - gold.keys()),
    )
    if n_missing or n_unknown:
        log.say(f"{source}: {n_missing:,} of {len(gold):,} questions have no answer, {n_unknown:,} uids unknown")
    return answered


def _parse_pair(prediction: Any, name: str) -> tuple[Any, str]:
    """(answer, scale) as the official metric takes them.

    Raises:
      DataError: the prediction is of another form.
    """
    if not isinstance(prediction, list) or len(prediction) != 2:
        raise DataError(f"{name}: must be [answer, scale], not {json.dumps(prediction)[:60]}")
    answer, scale = prediction
    parts = answer if isinstance(answer, list) else [answer]
    if not all(part is None or isinstance(part, str | int | float) for part in parts):
        raise DataError(f"{name}: the answer must be texts or a number, not {json.dumps(answer)[:60]}")
    if scale is not None and not isinstance(scale, str):
        raise DataError(f"{name}: the scale must be a text, not {json.dumps(scale)[:60]}")
    return answer, scale or ""


def _parse_line(line: bytes, name: str) -> AnsweredQuestion:
    try:
        row = json.loads(line)
        prediction, gold = row["prediction"], row["reference"]
        question = AnsweredQuestion(
            gold["answer_type"], gold["answer"], gold["scale"], prediction["answer"], prediction["scale"]
        )
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{name}: not a prediction of task=tatqa") from None
    return _check_type(question, name)


def _check_type(question: AnsweredQuestion, name: str) -> AnsweredQuestion:
    if question.kind not in tuple(SUBSETS):  # a tuple, since the kind may be an unhashable JSON value
        raise DataError(
            f"{name}: answer_type must be one of {', '.join(SUBSETS)}, not {json.dumps(question.kind)[:60]}"
        )
    return question


def load_gold(path: str) -> dict[str, AnsweredQuestion]:
    """uid → question, from TAT-QA's file with answers.

    Raises:
      DataError: the file is of another form.
    """
    contexts = files.read_json(pathlib.Path(path).expanduser())
    try:
        entries = [entry for context in contexts for entry in context["questions"]]
        gold = {
            entry["uid"]: AnsweredQuestion(entry["answer_type"], entry["answer"], entry["scale"]) for entry in entries
        }
    except (KeyError, TypeError):
        raise DataError(f"{path}: not TAT-QA's file with answers") from None
    return {uid: _check_type(question, f"{path}: {uid}") for uid, question in gold.items()}


def score_questions(questions: Iterable[AnsweredQuestion]) -> dict[str, Any]:
    """The official metric over all questions and by type, and the number of questions of each type."""
    all_questions = list(questions)
    scores = [
        metric.score_question(q.answer, q.kind, q.scale, q.prediction, q.prediction_scale) for q in all_questions
    ]
    kinds = [q.kind for q in all_questions]
    counts = {f"count/{kind}": kinds.count(kind) for kind in SUBSETS} | {"count": len(kinds)}
    return metric.average_scores(scores, kinds) | counts


def check_same(counts_by_path: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises DataError unless all files, by name, have the same number of questions of each type."""
    questions = {path: {kind: scores[f"count/{kind}"] for kind in SUBSETS} for path, scores in counts_by_path.items()}
    (first_path, first_counts), *other_files = questions.items()
    for path, counts in other_files:
        if counts != first_counts:
            descriptions = [
                ", ".join(f"{count} {kind}" for kind, count in by_kind.items()) for by_kind in (first_counts, counts)
            ]
            raise DataError(
                f"{first_path} has other questions ({descriptions[0]}) than {path} ({descriptions[1]}): "
                "give those of the same split"
            )


def format_table(systems: Mapping[str, Sequence[Mapping[str, Any]]], as_published: bool = False) -> str:
    """The table as Markdown."""
    first_scores = next(iter(systems.values()))[0]
    runs_note = "the best of its runs" if as_published else "mean ± standard deviation over its runs"
    lines = [
        "# Table 5: exact match on TAT-QA by the type of the question",
        "",
        f"Of each system {runs_note}. The paper's are of the best of three seeds; its arithmetic questions are those",
        "for which its labels know an operator, 64 fewer than the development split has.",
        "",
        "| Subset | questions | " + " | ".join(systems) + " | of the paper | baseline (paper) | LUNA (paper) |",
        "|---" + "|---:" * (4 + len(systems)) + "|",
    ]
    for kind, title in [*SUBSETS.items(), ("", "All")]:
        metric_name, count_name = (f"em/{kind}", f"count/{kind}") if kind else ("em", "count")
        cells = [title, str(first_scores[count_name])]
        for scores in systems.values():
            spread = tables.mean_and_std(
                [100 * seed_scores[metric_name] for seed_scores in scores if metric_name in seed_scores]
            )
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
