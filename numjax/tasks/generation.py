"""Writing the answer of a word problem (NumGPT, Generation Evaluation): "Q: … A:" → a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.numeral import format as formats
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.types import Document, Example, Mark, Number, Text

DATASETS = ("mwpas_generation", "problems")


class Task(protocols.Task):
    """Only the answer and [EOS] are scored, not the prompt.

    A prediction is the first number behind the prompt, as a `Decimal` (or its string), or None without a number.

    Attributes:
      answer: see `__init__`.
    """

    kind = "language_model"
    generates = True
    unanswered = {"answer": "1"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

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
            plans, with other wordings in test than in training. Problems whose answer is no decimal are left out.
          size: of the word-problem set that the positives are taken from; the paper's by default. Of "problems" the
            number of training problems.
          data_seed: of the generator.
          invented, wordings, test: see the dataset "problems".
          answer: "number": the model writes exactly one number behind " A:", and every prompt is formatted to end in
            " A:". "text": it writes anything behind the unchanged prompt; the paper's NGR is the share of prompts
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
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield f"{self._problem_text(row)} {_answer_text(row)}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] prompt, then a blank, the answer and [EOS]."""
        prompt = self.prompt(record, parse)
        text = _answer_text(record)
        segments = parse(text)
        if len(segments) != 1 or not isinstance(answer := segments[0], Number):
            raise DataError(f"the answer {text!r} is not one number")
        if answer.value <= 0:
            raise DataError(f"the answer {text!r} has no logarithm: it must be above 0")
        if self.answer == "number":
            # The grammar of answers has one spelling: without groups, exponent, percent or currency.
            answer = answer._replace(surface=formats.format(answer.value))
            if "e" in answer.surface.lower():
                raise DataError(f"the answer {text!r} is too long to be written without an exponent")
        document = (*prompt, Text(" "), answer, Mark("[EOS]"))
        # The blank belongs to the target: a subword model may spell " 42" as one token.
        reference = {"answer": str(answer.value)}
        if "stream" in record:
            reference |= {"stream": record["stream"], "steps": record["steps"]}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """[CLS] and the problem."""
        return (Mark("[CLS]"), *parse(self._problem_text(record)))

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """A problem that a user typed, in the form of `prompt`; None to continue the text as it is.

        Raises:
          DataError: the text has no problem.
        """
        return None if self.answer == "text" else (Mark("[CLS]"), *parse(_lay_out(text)))

    def score(
        self, predictions: Sequence[Decimal | str | None], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """NGR, and LMAE and E_Acc over valid predictions (eq. 13 and 14, logarithms to base 10).

        ŷ ≤ 0 has no logarithm: it counts as a number but is not valid. For a missing or invalid prediction,
        "LMAE_penalised" counts the error of the answer 1, and "E_Acc_penalised" counts it as wrong. "exact" is
        equality after the prediction is rounded to the answer's decimals (a mixture head predicts a real number).
        Composed problems name their stream: "exact/STREAM" and "E_Acc/STREAM" are the metrics of one stream.
        """
        predicted = [_parse_decimal(p) for p in predictions]
        gold = [Decimal(r["answer"]) for r in references]
        pairs = [(p, y) for p, y in zip(predicted, gold, strict=True) if p is not None and p > 0]
        errors = [abs(_log10(y) - _log10(p)) for p, y in pairs]
        missing_errors = [abs(_log10(y)) for p, y in zip(predicted, gold, strict=True) if p is None or p <= 0]
        # The exponent comes from the digits: a floating-point log10 is wrong at powers of ten.
        n_same_exponent = sum(p.adjusted() == y.adjusted() for p, y in pairs)
        count = len(gold)
        out = {
            "NGR": sum(p is not None for p in predicted) / count,
            "n_valid": float(len(pairs)),
            "LMAE_penalised": (sum(errors) + sum(missing_errors)) / count,
            "E_Acc_penalised": n_same_exponent / count,
            "exact": sum(p is not None and rounds_to(p, y) for p, y in zip(predicted, gold, strict=True)) / count,
        }
        if pairs:
            out["LMAE"] = sum(errors) / len(pairs)
            out["E_Acc"] = n_same_exponent / len(pairs)
        return out | _score_by_stream(predicted, gold, references)

    def _problem_text(self, record: Mapping[str, Any]) -> str:
        if "prompt" in record:
            prompt = fields.text(record, "prompt")
            return prompt if self.answer == "text" else _lay_out(prompt)
        question = fields.text(record, "text_en" if "text_en" in record else "question")
        return f"Q: {question} A:" if self.answer == "text" else _lay_out(question)


def _answer_text(record: Mapping[str, Any]) -> str:
    return fields.text(record, "ans" if "ans" in record else "answer")


def _score_by_stream(
    predicted: Sequence[Decimal | None], gold: Sequence[Decimal], references: Sequence[Mapping[str, Any]]
):
    parts: dict[str, list[float]] = {}
    for p, y, reference in zip(predicted, gold, references, strict=True):
        if stream := reference.get("stream"):
            parts.setdefault(f"exact/{stream}", []).append(p is not None and rounds_to(p, y))
            decade = p is not None and p > 0 and p.adjusted() == y.adjusted()
            parts.setdefault(f"E_Acc/{stream}", []).append(decade)
    return {name: sum(values) / len(values) for name, values in parts.items()}


def _lay_out(text: str) -> str:
    """A problem as "Q: … A:", whether it has "Q:" and "A:" already or not."""
    problem = text.strip().removeprefix("Q:").removesuffix("A:").strip()
    if not problem:
        raise DataError("there is no problem in it: type a question such as 'How many are 3 and 4?'")
    return f"Q: {problem} A:"


def _parse_decimal(prediction: Decimal | str | None) -> Decimal | None:
    try:
        value = None if prediction is None else Decimal(prediction)
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def rounds_to(prediction: Decimal, answer: Decimal) -> bool:
    """Whether the prediction, rounded to the answer's decimals, equals the answer."""
    with localcontext(prec=len(prediction.as_tuple().digits) + len(answer.as_tuple().digits) + 50):
        # Numbers of other magnitudes differ anyway, and quantising them could need any number of digits.
        is_near = abs(prediction.adjusted() - answer.adjusted()) <= 1
        place = Decimal(1).scaleb(min(0, int(answer.as_tuple().exponent)))  # 1E+3 has no decimals
        return prediction == answer or (is_near and prediction.quantize(place) == answer)


def _log10(value: Decimal) -> float:
    return float(value.log10())
