"""A student's next entry after the tutor's feedback (MathGPT, Cognitive Tutor): outcome, action and input.

Problem: F Solution:  Step: F OUTCOME: ACTION INPUT Feedback: T  →   OUTCOME: ACTION INPUT
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.text.document import marked
from numjax.types import Document, Example, Formula, Mark

RIGHT = "OK"  # the outcome after which there is a new equation
FINAL, FINAL_WORD = "FinalAnswer", "as"

_ENTERED = re.compile(r"\s*(?P<outcome>[^:]*?)\s*:\s*(?P<action>\S+)\s*(?P<input>.*)", re.DOTALL)
_PARTS = ("outcome", "action", "input")


class Task(protocols.Task):
    """Only the entry and [EOS] are scored; the prompt is the log before it.

    A prediction is {"outcome", "action", "input"}, where the input is a tree in the form of `Tree.to_json` or a text;
    or None if the written text is no entry. All three must equal the reference's.
    """

    kind = "language_model"
    generates = True
    unanswered = {"outcome": RIGHT, "action": "add", "input": ""}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

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
          path: the log or its folder; by default the stand-in.
          fold: which of the five folds is the test split. size: most students' problems to use. data_seed: of the
            folds.
          as_published: no [CLS], formulas of plain GPTs between `<m>` and `</m>`, the outcome is not compared, and a
            prompt that is too long loses its end, which is the feedback, instead of its oldest steps.
        """
        self.dataset: dict[str, Any] = {"name": "cognitive_tutor", "path": path, "fold": fold, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield documents.surface(s for s in self.example({"id": ""} | dict(row), documents.parse).document
                                    if not isinstance(s, Mark))  # fmt: skip

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] problem, steps, feedback, then the entry and [EOS]."""
        pieces = self._pieces(record, parse)
        entry = {
            "outcome": fields.text(record, "outcome"),
            "action": fields.text(record, "action"),
            "input": fields.text(record, "input", empty=True),
        }
        prompt = _join(pieces)
        target = self._parse(_format_entry(entry), parse)
        reference = {"outcome": entry["outcome"].strip(), "action": entry["action"].strip()}
        reference["input"] = _entry_value(marked.parse_document(entry["input"], parse))
        document = (*prompt, *target, Mark("[EOS]"))
        return Example(
            str(record["id"]), document, loss_from=len(prompt), reference=reference, spare=self._spare(pieces)
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The problem, the steps and the feedback."""
        return _join(self._pieces(record, parse))

    def predicted(self, document: Document) -> Any:
        """The part of a written document that is scored."""
        segments: list[Any] = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            segments.append(segment)
        # Outcome and action are the words before the first formula.
        n_words = 0
        while n_words < len(segments) and not isinstance(segments[n_words], Formula):
            n_words += 1
        match = _ENTERED.fullmatch(documents.surface(segments[:n_words]).replace("<m>", "").replace("</m>", ""))
        if match is None:
            return None
        entry: dict[str, Any] = {"outcome": match["outcome"], "action": _parse_action(match["action"])}
        if not match["input"].strip():
            entry["input"] = _entry_value(tuple(segments[n_words:]))
        else:
            entry["input"] = " ".join((match["input"] + documents.surface(segments[n_words:])).split())
        return entry

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Accuracy of the triple (only of action and input as published), and of its parts.

        "accuracy_correct" and "accuracy_incorrect" are over references whose outcome is OK and over the others;
        "written" is the share of predictions that are an entry.
        """
        compared = _PARTS[1:] if self.as_published else _PARTS
        is_same_part = {
            part: [p is not None and _is_same(p[part], r[part]) for p, r in zip(predictions, references, strict=True)]
            for part in _PARTS
        }
        right = [all(values) for values in zip(*(is_same_part[part] for part in compared), strict=True)]
        count = len(right)
        out = {"accuracy": sum(right) / count, "written": sum(p is not None for p in predictions) / count}
        out |= {part: sum(values) / count for part, values in is_same_part.items()}
        for name, is_correct in (("accuracy_correct", True), ("accuracy_incorrect", False)):
            group = [ok for ok, r in zip(right, references, strict=True) if (r["outcome"] == RIGHT) == is_correct]
            if group:
                out[name] = sum(group) / len(group)
        return out

    def _pieces(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> list[list[Document]]:
        """The pieces of the prompt: first the problem, then each equation with the entries that followed it."""
        problem = self._parse(f"Problem: {fields.text(record, 'problem')} Solution: ", parse)
        pieces: list[list[Document]] = [[problem if self.as_published else (Mark("[CLS]"), *problem)]]
        last = RIGHT
        for step in _parse_steps(record):
            # Only a right entry changes the equation.
            if last == RIGHT:
                pieces.append([self._parse(f" Step: {step['step']}", parse)])
            text = _format_entry(step) + (f" Feedback: {step['feedback']}" if step["feedback"] else "")
            pieces[-1].append(self._parse(text, parse))
            last = step["outcome"]
        return pieces

    def _spare(self, pieces: Sequence[Sequence[Document]]) -> tuple[tuple[int, int], ...]:
        """The segments to leave out, in order: earlier equations with their entries, the oldest first; then the
        entries for the current equation except the last, which the feedback is about."""
        if self.as_published:
            return tuple((i, i + 1) for i in reversed(range(sum(len(piece) for group in pieces for piece in group))))
        out, index = [], len(pieces[0][0])
        for group in pieces[1:]:
            sizes = [len(piece) for piece in group]
            if group is not pieces[-1]:
                out.append((index, index + sum(sizes)))
            else:
                starts = list(itertools.accumulate(sizes, initial=index))
                out += list(itertools.pairwise(starts))[1:-1]
            index += sum(sizes)
        return tuple(out)

    def _parse(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.parse_document(text, parse, self.as_published)


def _join(pieces: Sequence[Sequence[Document]]) -> Document:
    return tuple(segment for group in pieces for piece in group for segment in piece)


def _format_entry(entry: Mapping[str, str]) -> str:
    action = FINAL_WORD if entry["action"] == FINAL else entry["action"]
    return f" {entry['outcome']}: {action} {entry['input']}".rstrip()


def _parse_action(word: str) -> str:
    return FINAL if word == FINAL_WORD else word


def _is_same(prediction: Any, reference: Any) -> bool:
    """Whether two inputs are equal texts or equal trees; if the reference is a tree, a text is parsed as LaTeX."""
    if isinstance(reference, list) and isinstance(prediction, str):
        tree = latex.parse(prediction)
        return isinstance(tree, Tree) and tree.to_json() == reference
    return prediction == reference


def _entry_value(document: Document) -> Any:
    """An input in the form that is compared: a formula's tree, else its words."""
    formulas = [segment for segment in document if isinstance(segment, Formula)]
    rest = documents.surface(segment for segment in document if not isinstance(segment, Formula)).strip()
    if len(formulas) == 1 and not rest and formulas[0].tree is not None:
        return formulas[0].tree.to_json()
    return " ".join(documents.surface(document).split())


def _parse_steps(record: Mapping[str, Any]) -> list[dict[str, str]]:
    content = fields.text(record, "history")
    try:
        steps = files.parse_json(content)
    except ValueError:
        steps = None
    keys = ("step", "feedback", *_PARTS)
    if not isinstance(steps, list) or not all(
        isinstance(step, dict) and all(isinstance(step.get(key), str) for key in keys) for step in steps
    ):
        raise DataError(f"field 'history' must be a JSON list of steps, texts {', '.join(keys)} each")
    return steps
