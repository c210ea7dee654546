"""What a run says of numbers: the texts that a model writes behind a prompt with each number, or its judgement of
each number as the answer to a question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.evals import generate
from numjax.evals.score import log_likelihoods
from numjax.pipeline import features
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Number

if TYPE_CHECKING:
    from numjax.api import Loaded

SLOT = "{}"  # in a prompt: where the number goes
BEAMS = 5
MAX_TOKENS = 24
# Operations that the search for all numbers may take: about half a minute on two cores. A larger model gets fewer
# numbers of the range.
OPERATIONS = 1e12
SWEEP = 120  # candidates beside the numbers themselves, evenly spaced in their logarithm
SWEEP_HIGH = 100_000
_SHOWN = 42  # the number in the example of a whole prompt

# Task → a prompt that asks for the number itself, in the task's own form.
_PROMPTS = {
    "arithmetic": "{} + 0 =",
    "generation": "What is {} + 0?",
    "word_problem": "What is {} + 0?",
    "equation_extraction": "What is {} + 0?",
    "solving": "What is {} + 0?",
}
# Dataset of the task `statement` → a question that a number answers, or a sentence with a number in it.
_QUESTIONS = {
    "mme": "How many grams are 2 eggs?",
    "mwpas": "A depot holds 50 crates. A lorry brings 150 more. How many crates does the depot hold now?",
    "gnc": "A rope of 100 centimetres is shorter than a rope of {} centimetres.",
}


class Candidate(NamedTuple):
    """A text that a model may write.

    Attributes:
      text: without the blanks around it; "…" at its end if it had not ended. log_prob: its log mass.
      value: the first number in it, as written; "" for none. interval: {"share", "low", "high"} if the head
        approximates that number.
    """

    text: str
    log_prob: float
    value: str = ""
    interval: Mapping[str, Any] | None = None


class Written(NamedTuple):
    """The texts that a model writes behind a prompt.

    Attributes:
      prompt: the text around the number, with `SLOT`. example: a whole prompt as the task lays it out.
      meaning: what the probabilities are of, in words.
      candidates: for each number its likeliest texts, the likeliest first; None where they were not computed.
    """

    prompt: str
    example: str
    meaning: str
    candidates: tuple[tuple[Candidate, ...] | None, ...]


class Judged(NamedTuple):
    """A classifier's probability that a number is right.

    Attributes:
      question: the question, or the sentence with `SLOT`. probabilities: float64[N], NaN where the number cannot be
        read. sweep, sweep_probabilities: further candidates in ascending order, and their probabilities.
    """

    question: str
    probabilities: np.ndarray
    sweep: tuple[int, ...]
    sweep_probabilities: np.ndarray


def write_answers(model: Loaded, texts: Sequence[str], n_chosen: int, prompt: str = "") -> Written:
    """The texts that the model writes behind a prompt with each number, by a beam search.

    Args:
      texts: numbers. n_chosen: how many at the end are always used; of the others a large model gets only some,
        evenly spaced.
      prompt: a text with `SLOT`; by default one of the task's form.

    Raises:
      UsageError: the model writes nothing, or no number fits the prompt.
    """
    system = model.system
    head = system.model.heads[system.model.writer]
    template = _check_prompt(prompt) if prompt else _PROMPTS.get(system.task.part_name(), SLOT)
    max_tokens = min(system.config.decode.max_tokens, MAX_TOKENS)
    limit = _count_affordable(model, max_tokens)
    step = max(1, math.ceil((len(texts) - n_chosen) / max(limit - n_chosen, 1)))
    indices = [*range(0, len(texts) - n_chosen, step), *range(len(texts) - n_chosen, len(texts))]
    prompts = {i: template.replace(SLOT, texts[i]) for i in indices}
    room = system.model.backbone.max_length - (0 if system.model.encodes else max_tokens)
    prompts = {i: text for i, text in prompts.items() if _fits(model, text, room)}
    if not prompts:
        raise UsageError(f"the prompt {template!r} does not fit the model with any number: give another --prompt")
    settings = dict(width=BEAMS, max_tokens=max_tokens, batch_size=system.config.decode.batch_size)
    ranked = generate.search(system, model.params, list(prompts.values()), **settings)
    candidates = {i: tuple(map(_make_candidate, texts_of_i)) for i, texts_of_i in zip(prompts, ranked, strict=True)}
    meaning = "the whole text"
    if head.numbers and head.densities:
        meaning = "the text with any number in it, since the number itself has a density"
    elif head.numbers and head.written_as != "prefix":  # a given prefix would tell the digits
        candidates |= _score_neighbours(model, texts, prompts, dict(zip(prompts, ranked, strict=True)))
    shown_index = min(prompts, key=lambda i: abs(i - _SHOWN))
    example = documents.surface(generate.make_prompt(system, prompts[shown_index]))
    return Written(template, example, meaning, tuple(candidates.get(i) for i in range(len(texts))))


def _check_prompt(prompt: str) -> str:
    if SLOT not in prompt:
        raise UsageError(f"--prompt={prompt[:60]!r}: write {SLOT} where the number goes, such as '{SLOT} + 0 ='")
    return prompt


def _count_affordable(model: Loaded, max_tokens: int) -> int:
    """How many numbers the search can be run for, by a count of operations: the same on every machine."""
    n_parameters = sum(leaf.size for leaf in jax.tree.leaves(model.params))
    return int(OPERATIONS / (2 * n_parameters * (16 + BEAMS * max_tokens)))


def _fits(model: Loaded, prompt: str, room: int) -> bool:
    try:
        return len(model.system.encode(generate.make_prompt(model.system, prompt)).ids) <= room
    except (DataError, UsageError):
        return False


def _make_candidate(generation: generate.Generation) -> Candidate:
    number = next(iter(generation.numbers), {})
    text = generation.text.strip() + ("" if generation.ended else "…")
    interval = next(iter(number.get("intervals", ())), None)
    return Candidate(text, generation.log_prob, str(number.get("value", "")), interval)


# -- heads that predict a number at one position: the masses of the search are those of tokens alone -----------------


class _PromptedText(protocols.Task):
    """A prompt and the text behind it, of which only the text is scored."""

    kind = "language_model"

    def __init__(self, encodes: bool):
        self.encodes = encodes

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        prompt, text = record["prompt"], (*parse(record["text"]), Mark("[EOS]"))
        if self.encodes:
            return Example(str(record["id"]), (*generate.START, *text), source=prompt, loss_from=1)
        return Example(str(record["id"]), (*prompt, *text), loss_from=len(prompt))


def score_texts(model: Loaded, prompts: Sequence[str], texts: Sequence[str]) -> np.ndarray:
    """The log-likelihood of each text and its end behind its prompt, with the numbers in it, float32[n]."""
    system = model.system
    task = _PromptedText(system.model.encodes)
    records = [
        {"id": str(i), "prompt": generate.make_prompt(system, prompt), "text": text}
        for i, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]
    arguments: Any = task, system.scheme, records, system.config.data, "prompts", True
    encoded = features.encode(*arguments, producers=system.model.producers())
    return log_likelihoods(system, model.params, model.mesh, model.batches(encoded), len(encoded))


def _score_neighbours(
    model: Loaded,
    texts: Sequence[str],
    prompts: Mapping[int, str],
    ranked: Mapping[int, Sequence[generate.Generation]],
) -> dict[int, tuple[Candidate, ...]]:
    """The likeliest text of each number with its whole probability, and that of the texts with other numbers: the one
    in the prompt, and one more and one less than the written one. Left out are texts that had not ended, and those
    without their number, which then is the value of a formula."""
    jobs: list[tuple[int, str, str]] = []  # index, text to score with the blanks around it, number in it
    for i, (best, *_) in ranked.items():
        value = _make_candidate(best).value
        if best.ended and value and value in best.text:
            numbers = dict.fromkeys((value, *_list_rivals(value, texts[i])))
            jobs += [(i, best.text.replace(value, number, 1), number) for number in numbers]
    if not jobs:
        return {}
    log_probs = score_texts(model, [prompts[i] for i, _, _ in jobs], [text for _, text, _ in jobs])
    scored: dict[int, list[Candidate]] = {}
    for (i, text, number), log_prob in zip(jobs, log_probs.tolist(), strict=True):
        scored.setdefault(i, []).append(Candidate(text.strip(), log_prob, number))
    return {i: tuple(sorted(found, key=lambda candidate: -candidate.log_prob)) for i, found in scored.items()}


def _list_rivals(written: str, asked: str) -> Iterable[str]:
    rivals = [asked]
    if written.isascii() and written.removeprefix("-").isdigit():
        rivals += [str(int(written) - 1), str(int(written) + 1)]
    return rivals


# -- classifiers -----------------------------------------------------------------------------------------------------


def judge_numbers(model: Loaded, texts: Sequence[str], question: str = "") -> Judged:
    """The probability of the label 1 ("right") for each number as the answer to a question.

    Args:
      question: by default one of the task's dataset. With `SLOT` it is a sentence that holds the number instead.

    Raises:
      UsageError: the task does not judge answers, or its dataset has no default question.
    """
    task = model.system.task
    if task.kind != "classify" or task.num_classes != 2:
        raise UsageError(f"task {task.part_name()} does not judge whether an answer is right")
    question = question or _QUESTIONS.get(str(task.dataset["name"]), "")
    if not question:
        raise UsageError(
            f"no question is known for the dataset {task.dataset['name']}; if its records are a question and an "
            "answer, --prompt gives one"
        )
    sweep = list_sweep()
    candidates = [*texts, *map(str, sweep)]
    is_readable = [_is_number(model, text) for text in candidates]
    records = [_make_record(question, text) for text, ok in zip(candidates, is_readable, strict=True) if ok]
    try:
        scores = np.asarray(model.score(records), np.float64)[:, 1]
    except (DataError, KeyError) as error:
        raise UsageError(f"task {task.part_name()} takes no question with an answer: {error}") from None
    probabilities = np.full(len(candidates), np.nan)
    probabilities[is_readable] = scores
    return Judged(question, probabilities[: len(texts)], sweep, probabilities[len(texts) :])


def list_sweep() -> tuple[int, ...]:
    """Different whole numbers from 1 to `SWEEP_HIGH`, evenly spaced in their logarithm as far as they can be."""
    return tuple(sorted({round(SWEEP_HIGH ** (i / (SWEEP - 1))) for i in range(SWEEP)}))


def _is_number(model: Loaded, text: str) -> bool:
    document = model.system.scheme.parse(text)
    return len(document) == 1 and isinstance(document[0], Number)


def _make_record(question: str, number: str) -> dict[str, str]:
    if SLOT in question:
        return {"question": question.replace(SLOT, number)}
    return {"question": question, "answer": number}
