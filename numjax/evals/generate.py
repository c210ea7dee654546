"""Generates text and numbers from prompts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.config import fit
from numjax.decode import beam, sample
from numjax.decode.grammar import list_first_tokens
from numjax.errors import DataError, UsageError
from numjax.evals import requests, uncertainty
from numjax.evals.numbers import PredictedNumber, value_of
from numjax.evals.requests import Sampling
from numjax.numeral import format as formats
from numjax.pipeline import features
from numjax.pipeline.features import Encoded, EncodedRow
from numjax.runtime import processes
from numjax.runtime.waiting import Wait
from numjax.system import System
from numjax.text import document as documents
from numjax.types import Document, Formula, Mark, Number

START: Document = (Mark("[CLS]"),)  # the beginning of every text
LEFT = 1 / 8  # of a batch: so few rows do not keep it going


class Generation(NamedTuple):
    """One continuation of a prompt.

    Attributes:
      prompt, text: the prompt and the generated text.
      numbers: {"value": as in the text, "raw": the head's unrounded value} of each generated number, with
        "approximate", "intervals" and "method" if the head approximates, see `numbers.PredictedNumber`; and {"value",
        "raw"} of each formula that has a value, such as the 84 of x = 12 · 7. If intervals were asked for, all have
        the fields of `uncertainty.Uncertainty.list_fields`.
      log_prob: sum of the tokens' log masses. ended: whether [EOS] was generated within the budget.
    """

    prompt: str
    text: str
    numbers: list[dict[str, Any]]
    log_prob: float
    ended: bool


def generate(
    system: System,
    params: Any,
    prompts: Sequence[str],
    *,
    max_tokens: int = 32,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    batch_size: int = 32,
    seed: int = 0,
    beams: int = 0,
    length_penalty: float = 0.0,
    intervals: Sequence[float] = (),
    samples: int = uncertainty.SAMPLES,
) -> list[Generation]:
    """A continuation for each prompt, in order.

    Args:
      prompts: texts to continue, or for an encoder–decoder the sources that it answers.
      params: parameters with one entry per layer.
      max_tokens: most tokens for each prompt. temperature, top_k, top_p: see `decode.sample.Request`.
      batch_size: rows at a time; the last batch is filled up, so that the functions compile only once.
      seed: of the sampling.
      beams: width of a beam search instead of sampling; 0 for none. length_penalty: see `decode.beam.search`.
      intervals: shares of central intervals, such as (0.5, 0.9), to give with each number and its probability, see
        `evals/uncertainty.py`. They are those of the model itself, at temperature 1.
      samples: how many, for numbers whose head states no distribution.

    Raises:
      UsageError: the model only classifies, an option is out of range, or a prompt is too long for the context.
    """
    fit.check_decoding(max_tokens, temperature, top_k, top_p, beams)
    fit.check_counts(batch_size=batch_size)
    fit.check_counts(seed=seed, least=0)
    if not math.isfinite(length_penalty):
        raise UsageError(f"length_penalty must be a number, not {length_penalty}")
    fit.check_intervals(intervals, samples)
    rows, names = _encode_prompts(system, prompts)
    settings: dict[str, Any] = dict(
        max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    settings |= dict(beams=beams, length_penalty=length_penalty)
    results = _continue(system, params, rows, names, batch_size, **settings)
    generations = [_make_generation(system, *item) for item in zip(prompts, rows, results, strict=True)]
    if not intervals:
        return generations
    texts = [
        uncertainty.WrittenText(row, result, functools.partial(_decode_document, system, row))
        for row, result in zip(rows, results, strict=True)
    ]
    options = uncertainty.Settings(intervals, max_tokens, batch_size, samples, seed)
    described = uncertainty.describe_numbers(system, params, texts, options)
    return [_add_uncertainty(*item) for item in zip(generations, described, strict=True)]


def search(
    system: System, params: Any, prompts: Sequence[str], *, width: int, max_tokens: int = 32, batch_size: int = 32
) -> list[list[Generation]]:
    """The continuations that a beam search of `width` keeps for each prompt, the largest log mass first; fewer than
    `width` where the grammar has fewer.

    Raises:
      UsageError: as `generate`.
    """
    fit.check_decoding(max_tokens, 0.0, 0, 1.0, width)
    fit.check_counts(batch_size=batch_size)
    rows, names = _encode_prompts(system, prompts)
    settings: dict[str, Any] = dict(max_tokens=max_tokens, temperature=0.0, top_k=0, top_p=1.0, seed=0)
    settings |= dict(beams=width, length_penalty=0.0, choose=_take_beams)
    results = _continue(system, params, rows, names, batch_size, **settings)
    return [
        [_make_generation(system, prompt, row, result) for result in ranked]
        for prompt, row, ranked in zip(prompts, rows, results, strict=True)
    ]


def _encode_prompts(system: System, prompts: Sequence[str]) -> tuple[list[EncodedRow], list[str]]:
    """(the rows of the prompts, their names in error messages)."""
    digits, rows = system.config.data.digits, []
    for prompt in prompts:
        try:
            document = make_prompt(system, prompt)
            encoded = system.encode_source(document) if system.model.encodes else system.encode(document)
        except DataError as error:
            raise UsageError(f"the prompt {prompt[:40]!r} cannot be read: {error}") from error
        row = features.from_features(encoded, digits)
        if system.model.encodes:
            # The prompt is the source; the decoder starts with only its mark.
            row = features.from_features(system.encode(START, source=encoded), digits)._replace(source=row)
        rows.append(row)
    return rows, [f"the prompt {prompt[:40]!r}" for prompt in prompts]


def _make_generation(system: System, prompt: str, row: EncodedRow, result: Any) -> Generation:
    ids, numbers, log_prob, ended, _ = result
    document = _decode_document(system, row, ids, numbers)
    return Generation(prompt, documents.written_text(document), _number_fields(document, numbers), log_prob, ended)


def _add_uncertainty(generation: Generation, described: Sequence[uncertainty.Uncertainty]) -> Generation:
    """The generation whose numbers have the fields of their uncertainty. Values of formulas follow the numbers of the
    text, and have none."""
    rest = len(generation.numbers) - len(described)
    described = [*described, *[uncertainty.Uncertainty(note=uncertainty.NO_NUMBER)] * rest]
    numbers = [
        {name: value for name, value in number.items() if name != "method"} | one.list_fields()
        for number, one in zip(generation.numbers, described, strict=True)
    ]
    return generation._replace(numbers=numbers)


def make_prompt(system: System, text: str) -> Document:
    """The prompt for a typed text, or the source of an encoder: as the task lays it out, else the plain text."""
    task, parse = system.task, system.scheme.parse
    document = task.prompt_from_text(text, parse)
    if document is None:
        document = (*parse(text), Mark("[EOS]")) if system.model.encodes else (*START, *parse(text))
    return document


def predict(system: System, params: Any, encoded: Encoded, limit: int = 0) -> tuple[dict[int, Any], dict[int, Any]]:
    """(row → prediction, row → {"text", "log_prob"} of the generated text), for tasks that generate.

    The fields also have "approximate", "intervals" and "method" if the prediction is an approximate number, see
    `numbers.PredictedNumber`.
    """
    settings = system.config.decode
    count = min(limit or len(encoded), len(encoded))
    rows = [_cut_to_prompt(encoded.rows[i]) for i in range(count)]
    from numjax.train import checkpoint

    params = checkpoint.split_layers(params)
    results = _continue(
        system,
        params,
        rows,
        [f"row {i + 1}" for i in range(count)],
        settings.batch_size,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=0,
        beams=settings.get("beams", 0),
        length_penalty=settings.get("length_penalty", 0.0),
    )
    predictions, extra = {}, {}
    for i, (ids, numbers, log_prob, *_) in enumerate(results):
        document = _decode_document(system, rows[i], ids, numbers)
        extra[i] = {"text": documents.written_text(document), "log_prob": log_prob}
        predictions[i] = system.task.predicted(document)
        if numbers and not system.task.provides("predicted"):
            extra[i] |= numbers[0].uncertainty()
    return predictions, extra


def _decode_document(
    system: System, row: EncodedRow, ids: Sequence[int], numbers: Sequence[PredictedNumber]
) -> Document:
    """The document of the ids that were generated after a row, with the numbers that a head predicted."""
    known_numbers = [Number(number.surface, number.value) for number in numbers]
    source_row = row if row.source is None else row.source
    segments = (segment for surface in source_row.surfaces for segment in system.scheme.parse(surface))
    given_numbers = [segment for segment in segments if isinstance(segment, Number)]
    if system.scheme.points:
        known_numbers = given_numbers
    prompt_ids = row.ids.tolist() if row.source is None else None
    return system.scheme.after(given_numbers, prompt_ids).decode(ids, known_numbers)


def _continue(system: System, params, rows: Sequence[EncodedRow], names: Sequence[str], batch_size: int, **settings):
    """(ids, the numbers that the head predicted, log mass, ended) of each row, in order; `names` name the rows in
    error messages. `choose` takes a row's result from its beams, by default the best beam.

    A batch lasts as long as its longest text, and few texts are long. So it stops when `LEFT` of its rows are left;
    those of all batches begin again, in batches of their own, until one batch is left, which goes to its end. But
    where prompts are long and texts short, reading prompts again takes longer than waiting. What is written for a row
    does not depend on its batch, but for rounding.
    """
    has_beams, max_tokens = bool(settings["beams"]), settings["max_tokens"]
    choose = settings.get("choose", _choose_beam) if has_beams else _take_row
    _check_room(system, rows, names, max_tokens)
    decode = _make_decoder(system, params, settings)
    results: dict[int, Any] = {}
    waiting, batch_size = list(range(len(rows))), min(batch_size, len(rows))
    least = 64 if len(rows) > batch_size else 16  # prompts of many batches have fewer shapes, which fit less tightly
    longest = max((len(row.ids) + requests.source_size(row) for row in rows), default=0)
    can_stop = not has_beams and LEFT * longest < max_tokens
    with Wait("compiling and generating", len(rows), "rows") as wait:
        while waiting:
            batches = list(requests.list_batches([rows[i] for i in waiting], batch_size))
            quorum = int(LEFT * batch_size) if len(batches) > 1 and can_stop else 0
            left = []
            for places, padded in batches:
                indices, n_before = [waiting[place] for place in places], len(results)
                output = decode(padded, requests.fill(indices, len(padded)), quorum, least)
                for b, i in enumerate(indices):
                    if quorum and not output.ended[b] and output.length[b] < max_tokens:
                        left.append(i)
                    else:
                        results[i] = choose(system, rows[i], output, b)
                wait.add(len(results) - n_before)
            waiting = left
    return [results[i] for i in range(len(rows))]


def _check_room(system: System, rows: Sequence[EncodedRow], names: Sequence[str], max_tokens: int) -> None:
    """Checks that an answer fits in the tokens, and every row with its answer in the context."""
    model, grammar = system.model, system.scheme.generation_grammar()
    context = model.backbone.max_length
    if grammar.answer >= 0 and max_tokens < (min_tokens := int(grammar.end_cost[grammar.answer])):
        raise UsageError(
            f"max_tokens={max_tokens} has no room for an answer, which takes {min_tokens} tokens or more"
        )
    for name, row in zip(names, rows, strict=True):
        if (count := len(row.ids)) + max_tokens > context:
            raise UsageError(
                f"{name}: its {count} positions and max_tokens={max_tokens} do not fit the context of {context}: "
                "shorten it or set --config.decode.max_tokens"
            )
        if model.encodes and (count := len(requests.encoder_row(row).ids)) > context:
            raise UsageError(
                f"{name}: its {count} positions are more than config.backbone.max_length={context}: shorten it"
            )


def _make_decoder(system: System, params: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of (rows, their numbers, which choose their keys, `quorum` and `least` of `requests.make_request`)
    that gives what the model writes, as `sample.Generated` or `beam.Beams` of NumPy arrays."""
    model, grammar = requests.decoding_model(system)
    sampling = Sampling(*(settings[name] for name in Sampling._fields))
    key, max_tokens = jax.random.key(settings["seed"]), settings["max_tokens"]
    num_id, end_id = (system.scheme.vocab.mark(name) for name in ("[NUM]", "[EOS]"))
    options: dict[str, Any] = dict(head=model.writer, max_tokens=max_tokens, num_id=num_id)
    penalty = jnp.float32(settings["length_penalty"])
    first = list_first_tokens(grammar, end_id, num_id)[: max_tokens - 1]

    def decode(rows: Sequence[EncodedRow], numbers: Sequence[int], quorum: int, least: int) -> Any:
        keys = requests.make_keys(key, numbers)
        request = requests.make_request(system, rows, max_tokens, keys, sampling, quorum=quorum, least=least)
        with requests.mesh_context(params):
            device_grammar, request = requests.distribute(params, grammar, request)
            if settings["beams"]:
                ends = jnp.full((len(rows), 1), end_id, jnp.int32)
                prompt, budget, source = request.prompt, request.budget, request.source
                of_beams = options | dict(source=source, width=settings["beams"])
                output = beam.search(model, params, device_grammar, prompt, budget, ends, penalty, **of_beams)
            else:
                of_sampling = options | dict(end_id=end_id, greedy=settings["temperature"] <= 0, first=first)
                output = sample.generate(model, params, device_grammar, request, **of_sampling)
        return processes.fetch(output)

    return decode


def _take_row(system: System, row: EncodedRow, generated: sample.Generated, b: int) -> requests.Written:
    """The text of a row that was generated without beams."""
    del row
    return requests.extract_row(system, generated, b)


def _take_beams(system: System, row: EncodedRow, beams: beam.Beams, b: int):
    """All beams of a row that hold a text."""
    del row
    ranks = np.flatnonzero(np.isfinite(beams.score[b])).tolist()
    return [requests.extract_row(system, beam.take_rank(beams, rank), b) for rank in ranks]


def _choose_beam(system: System, row: EncodedRow, beams: beam.Beams, b: int):
    """The best beam of a row by its score, plus the task's log prior of its document if the task has one."""
    if not system.task.provides("log_prior"):
        return requests.extract_row(system, beam.take_rank(beams, 0), b)
    candidates = [requests.extract_row(system, beam.take_rank(beams, rank), b) for rank in range(beams.ids.shape[1])]
    scores = [
        float(beams.score[b, rank]) + system.task.log_prior(_decode_document(system, row, *candidate[:2]))
        if candidate[3] and np.isfinite(beams.score[b, rank])
        else -np.inf
        for rank, candidate in enumerate(candidates)
    ]
    return candidates[int(np.argmax(scores))]


def _cut_to_prompt(row: EncodedRow) -> EncodedRow:
    end = row.loss_from
    if end < 1:
        raise UsageError("a task that generates must leave a prompt unscored (Example.loss_from)")
    n_numerals = int(row.numeral_index[:end].max(initial=-1)) + 1
    return row._replace(
        ids=row.ids[:end],
        numeral_index=row.numeral_index[:end],
        grammar_state=row.grammar_state[:end],
        channels={name: values[:end] for name, values in row.channels.items()},
        numerals=type(row.numerals)(*(x[:n_numerals] for x in row.numerals)),
        surfaces=row.surfaces[:n_numerals],
    )


def _number_fields(document: Document, numbers: Sequence[PredictedNumber]) -> list[dict[str, Any]]:
    if numbers:
        return [{"value": n.surface, "raw": str(n.raw)} | n.uncertainty() for n in numbers]
    segments = [segment for segment in document if isinstance(segment, Number)]
    fields: list[dict[str, Any]] = [{"value": formats.format(n.value), "raw": str(n.value)} for n in segments]
    trees = [segment.tree for segment in document if isinstance(segment, Formula) and segment.tree is not None]
    return fields + [{"value": value, "raw": value} for tree in trees if (value := value_of(tree)) is not None]
