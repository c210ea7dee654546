"""What a student enters after the tutor's feedback (MathGPT, Cognitive Tutor): outcome, action and input.

Problem: F Solution:  Step: F OUTCOME: ACTION INPUT Feedback: T  →   OUTCOME: ACTION INPUT
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.tasks import answered, records
from numjax.text import document as documents
from numjax.text import marked
from numjax.types import Document, Example, Formula, Mark

RIGHT = "OK"  # the outcome after which there is a new equation
FINAL, FINAL_WRITTEN = "FinalAnswer", "as"

_ENTERED = re.compile(r"\s*(?P<outcome>[^:]*?)\s*:\s*(?P<action>\S+)\s*(?P<input>.*)", re.DOTALL)
_PARTS = ("outcome", "action", "input")


class Task(protocols.Task):
    """Only the entry and [EOS] are scored; what came before it is read, as the log has it.

    A prediction is {"outcome", "action", "input"}, the input a tree in the form of `Tree.to_json` or a text; or None
    where no entry was written. All three must be the reference's.
    """

    kind = "language_model"
    generates = True
    unanswered = {"outcome": RIGHT, "action": "add", "input": ""}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

    def __init__(
        self,
        *,
        path: str = "",
        fold: int = 0,
        size: int | None = None,
        data_seed: int = 221,
        as_published: bool = False,
    ):
        """
        Args:
          path: of the log or its folder; without one, the stand-in.
          fold: which of the five is the test split. size: at most so many problems of students. data_seed: of the
            folds.
          as_published: no [CLS], formulas of plain GPTs between `<m>` and `</m>`, the outcome not compared, and what
            is too long loses its end, which is the feedback, instead of its oldest steps.
        """
        self.dataset: dict[str, Any] = {"name": "cognitive_tutor", "path": path, "fold": fold, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            yield documents.surface(s for s in self.example({"id": ""} | dict(row), documents.parse).document
                                    if not isinstance(s, Mark))  # fmt: skip

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] problem, steps, feedback, then the entry and [EOS]."""
        pieces = self._pieces(record, parse)
        entry = {
            "outcome": records.text(record, "outcome"),
            "action": records.text(record, "action"),
            "input": records.text(record, "input", empty=True),
        }
        prompt = _joined(pieces)
        target = self._read(_entered(entry), parse)
        reference = {"outcome": entry["outcome"].strip(), "action": entry["action"].strip()}
        reference["input"] = _value(marked.document(entry["input"], parse))
        document = (*prompt, *target, Mark("[EOS]"))
        return Example(
            str(record["id"]), document, loss_from=len(prompt), reference=reference, spare=self._spare(pieces)
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        return _joined(self._pieces(record, parse))

    def predicted(self, document: Document) -> Any:
        """What of a written document is scored."""
        written: list[Any] = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            written.append(segment)
        # The words before the input stand in front of the first formula.
        before = 0
        while before < len(written) and not isinstance(written[before], Formula):
            before += 1
        found = _ENTERED.fullmatch(documents.surface(written[:before]).replace("<m>", "").replace("</m>", ""))
        if found is None:
            return None
        entry: dict[str, Any] = {"outcome": found["outcome"], "action": _action(found["action"])}
        if not found["input"].strip():
            entry["input"] = _value(tuple(written[before:]))
        else:
            entry["input"] = " ".join((found["input"] + documents.surface(written[before:])).split())
        return entry

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Accuracy of the triple (of action and input alone as published), and of its parts.

        "accuracy_correct" and "accuracy_incorrect" are over references whose outcome is OK and over the others;
        "written" is the share of predictions that are an entry.
        """
        compared = _PARTS[1:] if self.as_published else _PARTS
        same = {
            part: [p is not None and _same(p[part], r[part]) for p, r in zip(predictions, references, strict=True)]
            for part in _PARTS
        }
        right = [all(values) for values in zip(*(same[part] for part in compared), strict=True)]
        count = len(right)
        out = {"accuracy": sum(right) / count, "written": sum(p is not None for p in predictions) / count}
        out |= {part: sum(values) / count for part, values in same.items()}
        for name, wanted in (("accuracy_correct", True), ("accuracy_incorrect", False)):
            mine = [ok for ok, r in zip(right, references, strict=True) if (r["outcome"] == RIGHT) == wanted]
            if mine:
                out[name] = sum(mine) / len(mine)
        return out

    def _pieces(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> list[list[Document]]:
        """The prompt: the problem, and for each equation that the student had before them it and what was entered."""
        problem = self._read(f"Problem: {records.text(record, 'problem')} Solution: ", parse)
        pieces: list[list[Document]] = [[problem if self.as_published else (Mark("[CLS]"), *problem)]]
        last = RIGHT
        for step in _steps(record):
            # After anything but a right entry the equation is as it was.
            if last == RIGHT:
                pieces.append([self._read(f" Step: {step['step']}", parse)])
            text = _entered(step) + (f" Feedback: {step['feedback']}" if step["feedback"] else "")
            pieces[-1].append(self._read(text, parse))
            last = step["outcome"]
        return pieces

    def _spare(self, pieces: Sequence[Sequence[Document]]) -> tuple[tuple[int, int], ...]:
        """Earlier equations with what was entered, the oldest first; then what was entered for this one but for the
        last entry, which the feedback is about."""
        if self.as_published:
            return tuple((i, i + 1) for i in reversed(range(sum(len(piece) for of in pieces for piece in of))))
        out, place = [], len(pieces[0][0])
        for of in pieces[1:]:
            sizes = [len(piece) for piece in of]
            if of is not pieces[-1]:
                out.append((place, place + sum(sizes)))
            else:
                starts = list(itertools.accumulate(sizes, initial=place))
                out += list(itertools.pairwise(starts))[1:-1]
            place += sum(sizes)
        return tuple(out)

    def _read(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.document(text, parse, self.as_published)


def _joined(pieces: Sequence[Sequence[Document]]) -> Document:
    return tuple(segment for of in pieces for piece in of for segment in piece)


def _entered(entry: Mapping[str, str]) -> str:
    action = FINAL_WRITTEN if entry["action"] == FINAL else entry["action"]
    return f" {entry['outcome']}: {action} {entry['input']}".rstrip()


def _action(written: str) -> str:
    return FINAL if written == FINAL_WRITTEN else written


def _same(found: Any, wanted: Any) -> bool:
    """Equal texts, or equal trees; LaTeX that a plain language model wrote is read where a tree is wanted."""
    if isinstance(wanted, list) and isinstance(found, str):
        tree = latex.parse(found)
        return isinstance(tree, Tree) and tree.to_json() == wanted
    return found == wanted


def _value(document: Document) -> Any:
    """An input as it is compared: a formula's tree, else its words."""
    formulas = [segment for segment in document if isinstance(segment, Formula)]
    rest = documents.surface(segment for segment in document if not isinstance(segment, Formula)).strip()
    if len(formulas) == 1 and not rest and formulas[0].tree is not None:
        return formulas[0].tree.to_json()
    return " ".join(documents.surface(document).split())


def _steps(record: Mapping[str, Any]) -> list[dict[str, str]]:
    written = records.text(record, "history")
    try:
        steps = json.loads(written)
    except ValueError:
        steps = None
    keys = ("step", "feedback", *_PARTS)
    if not isinstance(steps, list) or not all(
        isinstance(step, dict) and all(isinstance(step.get(key), str) for key in keys) for step in steps
    ):
        raise DataError(f"field 'history' must be a JSON list of steps, texts {', '.join(keys)} each")
    return steps
