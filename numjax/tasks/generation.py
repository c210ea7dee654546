"""Writing the answer of a word problem (NumGPT, Generation Evaluation): "Q: … A:" → a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.numeral import format as formats
from numjax.tasks import answered, records
from numjax.types import Document, Example, Mark, Number, Text

DATASETS = ("mwpas_generation", "problems")


class Task(protocols.Task):
    """Only the answer and [EOS] are scored; the prompt is read.

    A prediction is the first number that follows the prompt, as a `Decimal` (or a string of one), or None
    when none does.

    Attributes:
      answer: see `__init__`.
    """

    kind = "language_model"
    generates = True
    unanswered = {"answer": "1"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

    def __init__(
        self,
        *,
        dataset: str = "mwpas_generation",
        size: int | None = None,
        data_seed: int = 0,
        answer: str = "text",
        invented: int = 30,
        wordings: int = 0,
        test: int = 300,
    ):
        """
        Args:
          dataset: "mwpas_generation", the large answers of the paper's twenty templates; or "problems": composed from
            plans, test in other wordings than training. Problems of it whose answer is no decimal are left out.
          size: of the word-problem set that the positives are taken from; the paper's by default. Of "problems" so
            many to train on.
          data_seed: of the generator.
          invented, wordings, test: see the dataset "problems".
          answer: "number": exactly one number is written behind " A:", and every prompt is laid out to end there.
            "text": whatever the model writes, behind the prompt as it is: the paper's NGR is the share of prompts
            that a number follows.
        """
        self.answer = answer
        if dataset not in DATASETS:
            raise UsageError(f"task.dataset must be one of {', '.join(DATASETS)}, not {dataset!r}")
        self.dataset: dict[str, Any] = {"name": dataset, "seed": data_seed}
        if dataset == "problems":
            self.dataset |= {"invented": invented, "wordings": wordings, "test": test}
        if size is not None:
            self.dataset["size"] = size

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            yield f"{self._text(row)} {_answer(row)}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] prompt, then a blank, the answer and [EOS]."""
        prompt = self.prompt(record, parse)
        said = _answer(record)
        found = parse(said)
        if len(found) != 1 or not isinstance(answer := found[0], Number):
            raise DataError(f"the answer {said!r} is not one number")
        if answer.value <= 0:
            raise DataError(f"the answer {said!r} has no logarithm: it must be above 0")
        if self.answer == "number":
            # In the one spelling that the grammar of answers has: without groups, exponent, percent or currency.
            answer = answer._replace(surface=formats.format(answer.value))
            if "e" in answer.surface.lower():
                raise DataError(f"the answer {said!r} is too long to be written without an exponent")
        document = (*prompt, Text(" "), answer, Mark("[EOS]"))
        # The blank belongs to what is written: a subword model may spell " 42" as one token.
        reference = {"answer": str(answer.value)}
        if "stream" in record:
            reference |= {"stream": record["stream"], "steps": record["steps"]}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        return (Mark("[CLS]"), *parse(self._text(record)))

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """A problem that someone typed, as `prompt` lays it out; None to continue the text as it is.

        Raises:
          DataError: there is no problem.
        """
        return None if self.answer == "text" else (Mark("[CLS]"), *parse(_laid_out(text)))

    def score(
        self, predictions: Sequence[Decimal | str | None], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """NGR, and LMAE and E_Acc over valid predictions (eq. 13 and 14, logarithms to base 10).

        ŷ ≤ 0 has no logarithm: it counts as a number but is not valid. "LMAE_penalised" charges every
        prediction that is missing or not valid with the error of answering 1, "E_Acc_penalised" counts it as
        wrong. "exact" is equality once the prediction is rounded to the answer's decimals (a mixture head
        predicts a real number). Composed problems say what they are of: "exact/STREAM" and "E_Acc/STREAM" are of
        those alone.
        """
        found = [_decimal(p) for p in predictions]
        gold = [Decimal(r["answer"]) for r in references]
        pairs = [(p, y) for p, y in zip(found, gold, strict=True) if p is not None and p > 0]
        errors = [abs(_log10(y) - _log10(p)) for p, y in pairs]
        lost = [abs(_log10(y)) for p, y in zip(found, gold, strict=True) if p is None or p <= 0]
        # The exponent comes from the digits: a floating-point log10 is wrong at powers of ten.
        same = sum(p.adjusted() == y.adjusted() for p, y in pairs)
        count = len(gold)
        out = {
            "NGR": sum(p is not None for p in found) / count,
            "n_valid": float(len(pairs)),
            "LMAE_penalised": (sum(errors) + sum(lost)) / count,
            "E_Acc_penalised": same / count,
            "exact": sum(p is not None and rounds_to(p, y) for p, y in zip(found, gold, strict=True)) / count,
        }
        if pairs:
            out["LMAE"] = sum(errors) / len(pairs)
            out["E_Acc"] = same / len(pairs)
        return out | _by_stream(found, gold, references)

    def _text(self, record: Mapping[str, Any]) -> str:
        if "prompt" in record:
            prompt = records.text(record, "prompt")
            return prompt if self.answer == "text" else _laid_out(prompt)
        question = records.text(record, "text_en" if "text_en" in record else "question")
        return f"Q: {question} A:" if self.answer == "text" else _laid_out(question)


def _answer(record: Mapping[str, Any]) -> str:
    return records.text(record, "ans" if "ans" in record else "answer")


def _by_stream(found: Sequence[Decimal | None], gold: Sequence[Decimal], references: Sequence[Mapping[str, Any]]):
    parts: dict[str, list[float]] = {}
    for p, y, reference in zip(found, gold, references, strict=True):
        if stream := reference.get("stream"):
            parts.setdefault(f"exact/{stream}", []).append(p is not None and rounds_to(p, y))
            decade = p is not None and p > 0 and p.adjusted() == y.adjusted()
            parts.setdefault(f"E_Acc/{stream}", []).append(decade)
    return {name: sum(values) / len(values) for name, values in parts.items()}


def _laid_out(text: str) -> str:
    """A problem as "Q: … A:", whether it was typed with these or without."""
    problem = text.strip().removeprefix("Q:").removesuffix("A:").strip()
    if not problem:
        raise DataError("there is no problem in it: type a question such as 'How many are 3 and 4?'")
    return f"Q: {problem} A:"


def _decimal(prediction: Decimal | str | None) -> Decimal | None:
    try:
        value = None if prediction is None else Decimal(prediction)
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def rounds_to(prediction: Decimal, answer: Decimal) -> bool:
    """Whether it is the answer, rounded to its decimals."""
    with localcontext(prec=len(prediction.as_tuple().digits) + len(answer.as_tuple().digits) + 50):
        # Numbers of other sizes are different, and quantising them could need any number of digits.
        near = abs(prediction.adjusted() - answer.adjusted()) <= 1
        return prediction == answer or (near and prediction.quantize(answer) == answer)


def _log10(value: Decimal) -> float:
    return float(value.log10())
