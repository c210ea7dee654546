"""Word problems whose answer is one number (MAWPS, SVAMP, ASDiv, AddSub, FERMAT): question → numeral."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.numeral.surface import format_trimmed
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.types import Document, Example, Mark

FORMS = ("mawps", "svamp", "asdiv", "addsub", "fermat")
OPERATIONS = ("a+b", "a-b", "a*b", "a/b")  # of two numbers: the columns of the paper's tables


class Task(protocols.Task):
    """An encoder reads the question and a decoder writes the answer; or a decoder reads the question and writes it.

    A prediction is the written text without marks, or None if it is empty. Only the answer and [EOS] are scored.
    """

    kind = "language_model"
    generates = True
    unanswered = {"answer": "0"}
    metric = "-perplexity"  # auxiliary losses are not part of it
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        form: str = "mawps",
        path: str = "",
        size: int | None = None,
        data_seed: int = 42,
        encoder: bool = True,
        views: str = "all",
        as_published: bool = False,
    ):
        """
        Args:
          form: mawps, svamp, asdiv, addsub or fermat, or several of the first four as a+b. path: its files, see the
            dataset; by default the stand-in.
          size: most problems to use; of FERMAT, the number of training problems. data_seed: of the splits and of
            generated problems.
          encoder: the question is the source of an encoder; else the prompt of a decoder.
          views: of FERMAT, see its dataset.
          as_published: answers are as in the files (FERMAT's "273.0", else "273"), and the 45% of FERMAT's view
            Commuted whose answer is "Not commutable" are included, for which no number is right.
        """
        if form != "fermat" and not set(form.split("+")) <= set(FORMS[:-1]):
            raise UsageError(f"form={form!r}: choose one of {', '.join(FORMS)}, or several of the others as a+b")
        self.dataset: dict[str, Any] = {"name": "mawps", "form": form, "path": path, "seed": data_seed}
        if form == "fermat":
            self.dataset = {"name": "fermat", "path": path, "seed": data_seed, "views": views}
            self.dataset["commuted"] = int(as_published)
        if size is not None:
            self.dataset["size"] = size
        self.encoder, self.sources, self.as_published = encoder, encoder, as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield f"{fields.text(row, 'question')} {self._answer_text(row)}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The source, and [CLS], the answer and [EOS]; or the prompt, a blank, the answer and [EOS]."""
        answer_text = self._answer_text(record)
        if not self.as_published and _parse_decimal(answer_text) is None:
            raise DataError(f"the answer {answer_text[:40]!r} is not one number")
        reference = {"answer": answer_text, "view": record.get("view", ""), "operation": record.get("operation", "")}
        answer = (*parse(answer_text), Mark("[EOS]"))
        question = self.prompt(record, parse)
        common: dict[str, Any] = dict(id=str(record["id"]), reference=reference)
        if self.encoder:
            return Example(document=(Mark("[CLS]"), *answer), source=question, loss_from=1, **common)
        # The blank belongs to the prompt: an answer is only its number.
        return Example(document=(*question, *answer), loss_from=len(question), **common)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The question: as a source that ends in [EOS], or as a prompt that ends in [SEP]."""
        question = parse(" ".join(fields.text(record, "question").split()))
        return (*question, Mark("[EOS]")) if self.encoder else (Mark("[CLS]"), *question, Mark("[SEP]"))

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document:
        """The source or prompt of a problem that a user typed."""
        return self.prompt({"question": text}, parse)

    def predicted(self, document: Document) -> str | None:
        """The answer of a written document."""
        return documents.written_text(document).strip() or None

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Shares of all references, also by view, of several forms by form, and by OPERATIONS ("accuracy/Original",
        "cer/a+b").

        "accuracy": exactly the same decimal number (or the same text, if the answer is no number). "accuracy_float":
        the same float, blanks removed, as in FERMAT's code. "cer": edits of characters over the answer's length (100
        times that is the paper's percentage; a missing answer costs 1). "numeric": the prediction is a number. "cap":
        the answer is a number, the upper limit of accuracy for numeric predictions.
        """
        if len(predictions) != len(references) or not references:
            raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
        rows: dict[str, list[float]] = {}
        for prediction, reference in zip(predictions, references, strict=True):
            answer, gold = prediction or "", str(reference["answer"])
            metrics = {
                "accuracy": float(answers_agree(answer, gold)),
                "cer": edit_distance(answer, gold) / len(gold),
                "cap": float(_parse_decimal(gold) is not None),
            }
            view, operation = reference.get("view"), reference.get("operation")
            groups = ["", *([f"/{view}"] if view else []), *([f"/{operation}"] if operation in OPERATIONS else [])]
            for group in groups:
                for name, value in metrics.items():
                    rows.setdefault(name + group, []).append(value)
            rows.setdefault("accuracy_float", []).append(float(_floats_agree(answer, gold)))
            rows.setdefault("numeric", []).append(float(_parse_decimal(answer) is not None))
        return {name: sum(values) / len(values) for name, values in rows.items()}

    def _answer_text(self, record: Mapping[str, Any]) -> str:
        answer = fields.text(record, "answer").strip()
        value = None if self.as_published else _parse_decimal(answer)
        return answer if value is None else format_trimmed(value)


def edit_distance(prediction: str, reference: str) -> int:
    """Least number of characters to insert, delete or replace to turn one text into the other (Levenshtein)."""
    row = list(range(len(reference) + 1))
    for i, left_character in enumerate(prediction, 1):
        diagonal, row[0] = row[0], i
        for j, right_character in enumerate(reference, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left_character != right_character))
    return row[-1]


def _parse_decimal(text: str) -> Decimal | None:
    """The number that a text spells with the digits 0 to 9; None for other scripts, NaN and infinities."""
    try:
        value = Decimal(text) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def answers_agree(prediction: str, reference: str) -> bool:
    """Whether two answers are the same decimal number, or the same text if one is no number."""
    left, right = _parse_decimal(prediction), _parse_decimal(reference)
    return left == right if left is not None and right is not None else prediction == reference


def _floats_agree(prediction: str, reference: str) -> bool:
    prediction, reference = ("".join(text.split()) for text in (prediction, reference))
    try:
        # Digits of other scripts do not count, as in `answers_agree`.
        return prediction.isascii() and float(prediction) == float(reference)
    except ValueError:
        return False
