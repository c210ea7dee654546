"""Word problems whose answer is one number (MAWPS, SVAMP, ASDiv, AddSub, FERMAT): question → numeral."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.numeral.surface import trimmed
from numjax.tasks import answered, records
from numjax.types import Document, Example, Mark, Text

FORMS = ("mawps", "svamp", "asdiv", "addsub", "fermat")
OPERATIONS = ("a+b", "a-b", "a*b", "a/b")  # of two numbers: the columns of the paper's tables


class Task(protocols.Task):
    """An encoder reads the question and a decoder writes the answer; or a decoder reads one and writes the other.

    A prediction is what was written, without marks, or None where there is nothing. Only the answer and [EOS] are
    scored.
    """

    kind = "language_model"
    generates = True
    unanswered = {"answer": "0"}
    metric = "-perplexity"  # which an auxiliary loss is not part of
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

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
          form: mawps, svamp, asdiv, addsub or fermat. path: of its files; without one, the stand-in.
          size: at most so many problems; of FERMAT, so many to train on. data_seed: of splits and of what is made.
          encoder: the question is the source of an encoder; else the prompt of a decoder.
          views: of FERMAT, see its dataset.
          as_published: answers are written as the files have them (FERMAT's "273.0", else "273"), and FERMAT's 45% of
            the view Commuted whose answer is "Not commutable" are asked too, so that no number is right there.
        """
        if form not in FORMS:
            raise UsageError(f"form={form!r}: choose one of {', '.join(FORMS)}")
        self.dataset: dict[str, Any] = {"name": "mawps", "form": form, "path": path, "seed": data_seed}
        if form == "fermat":
            self.dataset = {"name": "fermat", "path": path, "seed": data_seed, "views": views}
            self.dataset["commuted"] = int(as_published)
        if size is not None:
            self.dataset["size"] = size
        self.encoder, self.sources, self.as_published = encoder, encoder, as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            yield f"{records.text(row, 'question')} {self._answer(row)}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The source, and [CLS], the answer and [EOS]; or the prompt, a blank, the answer and [EOS]."""
        said = self._answer(record)
        if not self.as_published and _decimal(said) is None:
            raise DataError(f"the answer {said[:40]!r} is not one number")
        reference = {"answer": said, "view": record.get("view", ""), "operation": record.get("operation", "")}
        answer = (*parse(said), Mark("[EOS]"))
        asked = self.prompt(record, parse)
        known: dict[str, Any] = dict(id=str(record["id"]), reference=reference)
        if self.encoder:
            return Example(document=(Mark("[CLS]"), *answer), source=asked, loss_from=1, **known)
        # The blank belongs to what is read: an answer is its number alone.
        return Example(document=(*asked, *answer), loss_from=len(asked), **known)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What is read: a source that ends in [EOS], or a prompt that ends in [SEP]."""
        question = parse(" ".join(records.text(record, "question").split()))
        return (*question, Mark("[EOS]")) if self.encoder else (Mark("[CLS]"), *question, Mark("[SEP]"))

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document:
        """What is read of a problem that someone typed."""
        return self.prompt({"question": text}, parse)

    def predicted(self, document: Document) -> str | None:
        """The answer of a written document."""
        written = ""
        for segment in document:
            if isinstance(segment, Mark):
                break
            written += segment.text if isinstance(segment, Text) else segment.surface
        return written.strip() or None

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Shares of all references, also by view and by OPERATIONS ("accuracy/Original", "cer/a+b").

        "accuracy": the same decimal number, exactly (or the same text, where the answer is none). "accuracy_float":
        the same float, blanks removed, as FERMAT's code compares. "cer": edits of characters over the answer's length
        (100 times that is the paper's percentage; a missing answer costs 1). "numeric": what was written is a number.
        "cap": the answer is one, which is the most that numbers can reach.
        """
        if len(predictions) != len(references) or not references:
            raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
        rows: dict[str, list[float]] = {}
        for prediction, reference in zip(predictions, references, strict=True):
            said, wanted = prediction or "", str(reference["answer"])
            found = {
                "accuracy": float(same(said, wanted)),
                "cer": edits(said, wanted) / len(wanted),
                "cap": float(_decimal(wanted) is not None),
            }
            view, operation = reference.get("view"), reference.get("operation")
            groups = ["", *([f"/{view}"] if view else []), *([f"/{operation}"] if operation in OPERATIONS else [])]
            for group in groups:
                for name, value in found.items():
                    rows.setdefault(name + group, []).append(value)
            rows.setdefault("accuracy_float", []).append(float(_same_float(said, wanted)))
            rows.setdefault("numeric", []).append(float(_decimal(said) is not None))
        return {name: sum(values) / len(values) for name, values in rows.items()}

    def _answer(self, record: Mapping[str, Any]) -> str:
        said = records.text(record, "answer").strip()
        value = None if self.as_published else _decimal(said)
        return said if value is None else trimmed(value)


def edits(found: str, wanted: str) -> int:
    """Least number of characters to insert, delete or replace that makes one of the other (Levenshtein)."""
    row = list(range(len(wanted) + 1))
    for i, one in enumerate(found, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(wanted, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (one != other))
    return row[-1]


def _decimal(text: str) -> Decimal | None:
    """The number that a text is, in the digits 0 to 9: other scripts, NaN and infinities are none."""
    try:
        value = Decimal(text) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def same(said: str, wanted: str) -> bool:
    """Whether two answers are the same decimal number, or the same text where one is none."""
    left, right = _decimal(said), _decimal(wanted)
    return left == right if left is not None and right is not None else said == wanted


def _same_float(said: str, wanted: str) -> bool:
    said, wanted = ("".join(text.split()) for text in (said, wanted))
    try:
        # Digits of other scripts are no digits, as in `same`.
        return said.isascii() and float(said) == float(wanted)
    except ValueError:
        return False
