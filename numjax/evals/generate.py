"""Generates text and numbers from prompts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from numjax.config import fit
from numjax.decode import beam, sample
from numjax.errors import DataError, UsageError
from numjax.evals.numbers import PredictedNumber, predicted_numbers, value_of
from numjax.numeral import format as formats
from numjax.pipeline import features
from numjax.pipeline.batch import assemble
from numjax.pipeline.features import Encoded, EncodedRow
from numjax.runtime import processes, shard
from numjax.runtime.waiting import Wait
from numjax.system import System
from numjax.text import document as documents
from numjax.types import Channel, Document, Formula, Mark, Number, Tokens

START: Document = (Mark("[CLS]"),)  # the beginning of every text


class Generation(NamedTuple):
    """One continuation of a prompt.

    Attributes:
      prompt, text: the prompt and the generated text.
      numbers: {"value": as in the text, "raw": the head's unrounded value} of each generated number, with
        "approximate" and "interval" if the head approximates, see `numbers.PredictedNumber`; and {"value", "raw"} of
        each formula that has a value, such as the 84 of x = 12 · 7.
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
) -> list[Generation]:
    """A continuation for each prompt, in order.

    Args:
      prompts: texts to continue, or for an encoder–decoder the sources that it answers.
      params: parameters with one entry per layer.
      max_tokens: most tokens for each prompt. temperature, top_k, top_p: see `decode.sample.Request`.
      batch_size: rows at a time; the last batch is filled up, so that the functions compile only once.
      seed: of the sampling.
      beams: width of a beam search instead of sampling; 0 for none. length_penalty: see `decode.beam.search`.

    Raises:
      UsageError: the model only classifies, an option is out of range, or a prompt is too long for the context.
    """
    fit.check_decoding(max_tokens, temperature, top_k, top_p, beams)
    rows, names = _encode_prompts(system, prompts)
    settings: dict[str, Any] = dict(
        max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    settings |= dict(beams=beams, length_penalty=length_penalty)
    results = _continue(system, params, rows, names, batch_size, **settings)
    return [_make_generation(system, *item) for item in zip(prompts, rows, results, strict=True)]


def search(
    system: System, params: Any, prompts: Sequence[str], *, width: int, max_tokens: int = 32, batch_size: int = 32
) -> list[list[Generation]]:
    """The continuations that a beam search of `width` keeps for each prompt, the largest log mass first; fewer than
    `width` where the grammar has fewer.

    Raises:
      UsageError: as `generate`.
    """
    fit.check_decoding(max_tokens, 0.0, 0, 1.0, width)
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
            encoded = system.encode(make_prompt(system, prompt))
        except DataError as error:
            raise UsageError(f"the prompt {prompt[:40]!r} cannot be read: {error}") from error
        row = features.from_features(encoded, digits)
        if system.model.encodes:
            # The prompt is the source; the decoder starts with only its mark.
            row = features.from_features(system.encode(START, source=encoded), digits)._replace(source=row)
        rows.append(row)
    return rows, [f"the prompt {prompt[:40]!r}" for prompt in prompts]


def _make_generation(system: System, prompt: str, row: EncodedRow, result: Any) -> Generation:
    ids, numbers, log_prob, ended = result
    document = _decode_document(system, row, ids, numbers)
    return Generation(prompt, text_of(document), _number_fields(document, numbers), log_prob, ended)


def make_prompt(system: System, text: str) -> Document:
    """The prompt for a typed text, or the source of an encoder: as the task lays it out, else the plain text."""
    task, parse = system.task, system.scheme.parse
    document = task.prompt_from_text(text, parse)
    if document is None:
        document = (*parse(text), Mark("[EOS]")) if system.model.encodes else (*START, *parse(text))
    return document


def predict(system: System, params: Any, encoded: Encoded, limit: int = 0) -> tuple[dict[int, Any], dict[int, Any]]:
    """(row → prediction, row → {"text", "log_prob"} of the generated text), for tasks that generate.

    The fields also have "approximate" and "interval" if the prediction is an approximate number, see
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
    for i, (ids, numbers, log_prob, _) in enumerate(results):
        document = _decode_document(system, rows[i], ids, numbers)
        extra[i] = {"text": text_of(document), "log_prob": log_prob}
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
    return system.scheme.after(given_numbers).decode(ids, known_numbers)


def text_of(document: Document) -> str:
    """A document as text, up to its first mark."""
    out = []
    for segment in document:
        if isinstance(segment, Mark):
            break
        out.append(documents.surface_of(segment))
    return "".join(out)


def _continue(system: System, params, rows: Sequence[EncodedRow], names: Sequence[str], batch_size: int, **settings):
    """(ids, the numbers that the head predicted, log mass, ended) of each row, in order; `names` name the rows in
    error messages. `choose` takes a row's result from its beams, by default the best beam."""
    model, grammar = _decoding_model(system)
    choose = settings.get("choose", _choose_beam)
    head = model.writer
    context, max_tokens = model.backbone.max_length, settings["max_tokens"]
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
        if model.encodes and (count := len(_encoder_row(row).ids)) > context:
            raise UsageError(
                f"{name}: its {count} positions are more than config.backbone.max_length={context}: shorten it"
            )
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), _source_size(rows[i])))
    results: dict[int, Any] = {}
    batch_size = min(batch_size, max(1, len(rows)))
    with Wait("compiling and generating", len(rows), "rows") as wait:
        for start in wait.count(range(0, len(order), batch_size), batch_size):
            indices = order[start : start + batch_size]
            # Lengths are multiples of 16 and the last batch is filled up: few shapes, few compilations.
            room = min(-(-len(rows[indices[-1]].ids) // 16) * 16, context - max_tokens)
            padded = [rows[i] for i in indices] + [rows[indices[-1]]] * (batch_size - len(indices))
            request = sample.Request(
                prompt=prompt_tokens(padded, room, **_batch_options(system)),
                budget=jnp.full(batch_size, max_tokens, jnp.int32),
                key=jax.random.fold_in(jax.random.key(settings["seed"]), start),
                temperature=jnp.float32(settings["temperature"]),
                top_k=jnp.int32(settings["top_k"]),
                top_p=jnp.float32(settings["top_p"]),
                source=_source_tokens(padded, context, system) if model.encodes else None,
            )
            num_id, end_id = (system.scheme.vocab.mark(name) for name in ("[NUM]", "[EOS]"))
            options: dict[str, Any] = dict(head=head, max_tokens=max_tokens, num_id=num_id)
            with _mesh_context(params):
                device_grammar, request = _distribute(params, grammar, request)
                if settings["beams"]:
                    ends = jnp.full((batch_size, 1), end_id, jnp.int32)
                    penalty = jnp.float32(settings["length_penalty"])
                    output = beam.search(
                        model,
                        params,
                        device_grammar,
                        request.prompt,
                        request.budget,
                        ends,
                        penalty,
                        source=request.source,
                        width=settings["beams"],
                        **options,
                    )
                else:
                    greedy = settings["temperature"] <= 0
                    output = sample.generate(
                        model, params, device_grammar, request, end_id=end_id, greedy=greedy, **options
                    )
            output = processes.fetch(output)
            for b, i in enumerate(indices):
                if settings["beams"]:
                    results[i] = choose(system, rows[i], output, b)
                else:
                    results[i] = _extract_row(system, output, b)
    return [results[i] for i in range(len(rows))]


def _take_beams(system: System, row: EncodedRow, beams: beam.Beams, b: int):
    """All beams of a row that hold a text."""
    del row
    ranks = np.flatnonzero(np.isfinite(beams.score[b])).tolist()
    return [_extract_row(system, beam.take_rank(beams, rank), b) for rank in ranks]


def _choose_beam(system: System, row: EncodedRow, beams: beam.Beams, b: int):
    """The best beam of a row by its score, plus the task's log prior of its document if the task has one."""
    if not system.task.provides("log_prior"):
        return _extract_row(system, beam.take_rank(beams, 0), b)
    candidates = [_extract_row(system, beam.take_rank(beams, rank), b) for rank in range(beams.ids.shape[1])]
    scores = [
        float(beams.score[b, rank]) + system.task.log_prior(_decode_document(system, row, *candidate[:2]))
        if candidate[3] and np.isfinite(beams.score[b, rank])
        else -np.inf
        for rank, candidate in enumerate(candidates)
    ]
    return candidates[int(np.argmax(scores))]


def _mesh_context(params):
    """A context that traces functions for the mesh of the parameters."""
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(sharding.mesh.abstract_mesh)


def _distribute(params, grammar, request: sample.Request):
    """(grammar on every device, request with its rows split over devices), if several devices hold the parameters."""
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh) or sharding.mesh.size == 1:
        return grammar, request
    everywhere, rows = shard.replicated(sharding.mesh), shard.batch_sharding(sharding.mesh)
    if len(request.budget) % (sharding.mesh.shape["data"] * sharding.mesh.shape["fsdp"]):
        rows = everywhere
    key = shard.distribute(jax.random.key_data(request.key), everywhere)
    return shard.distribute(grammar, everywhere), sample.Request(
        prompt=shard.distribute(request.prompt, rows),
        budget=shard.distribute(request.budget, rows),
        source=shard.distribute(request.source, rows),
        key=jax.random.wrap_key_data(key),
        **{name: shard.distribute(getattr(request, name), everywhere) for name in ("temperature", "top_k", "top_p")},
    )


def _extract_row(system: System, generated: sample.Generated, b: int):
    length = int(generated.length[b])
    log_prob = float(generated.log_prob[b, :length].sum())
    ids, numbers = generated.ids[b, :length].tolist(), predicted_numbers(generated, b)
    if system.scheme.provides("join_numbers"):
        joined = system.scheme.join_numbers(ids, [number.value for number in numbers])
        numbers = [PredictedNumber(number.surface, number.value, number.value) for number in joined]
    return ids, numbers, log_prob, bool(generated.ended[b])


def prompt_tokens(
    rows: Sequence[EncodedRow],
    room: int,
    digits: int,
    host_features: Any = None,
    declared: Mapping[str, Channel] | None = None,
) -> Tokens:
    """Rows as one batch of Tokens[B, room], padded on the left."""
    batch = assemble(
        [[row] for row in rows],
        [[i] for i in range(len(rows))],
        kind="classify",
        length=room,
        numerals=_room_for_numerals(rows),
        digits=digits,
        host_features=host_features,
        declared=declared,
    )
    shifts = [room - len(row.ids) for row in rows]

    def roll(x):
        return np.stack([np.roll(row, shift, axis=0) for row, shift in zip(x, shifts, strict=True)])

    names = ("ids", "positions", "segment_ids", "numeral_index")
    shifted = {name: roll(getattr(batch.inputs, name)) for name in names}
    channels = {name: roll(values) for name, values in batch.inputs.channels.items()}
    return batch.inputs._replace(**shifted, channels=channels)


def _source_tokens(rows: Sequence[EncodedRow], context: int, system: System) -> Tokens:
    """The sources of rows as one batch of Tokens[B, S], padded on the right; S is a multiple of 16."""
    source_rows = [_encoder_row(row) for row in rows]
    return assemble(
        [[row] for row in source_rows],
        [[i] for i in range(len(source_rows))],
        kind="source",
        length=min(-(-max(len(row.ids) for row in source_rows) // 16) * 16, context),
        numerals=_room_for_numerals(source_rows),
        **_batch_options(system),
    ).inputs


def _batch_options(system: System) -> dict[str, Any]:
    return dict(digits=system.config.data.digits, host_features=system.host_features, declared=system.channels)


def _encoder_row(row: EncodedRow) -> EncodedRow:
    """The encoder's row of a row."""
    if row.source is None:
        raise UsageError("an encoder–decoder needs a source: the task must fill Example.source")
    return row.source


def _source_size(row: EncodedRow) -> int:
    return 0 if row.source is None else len(row.source.ids)


def _room_for_numerals(rows: Sequence[EncodedRow]) -> int:
    return max(4, -(-max((len(row.surfaces) for row in rows), default=0) // 4) * 4)


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


def _decoding_model(system: System):
    """(the model with unscanned layers, the grammar on the device)."""
    model = system.model
    if model.backbone.scan:
        model = model.clone(backbone=model.backbone.clone(scan=False))
    return model, jax.tree.map(jnp.asarray, system.scheme.generation_grammar())


def _number_fields(document: Document, numbers: Sequence[PredictedNumber]) -> list[dict[str, Any]]:
    if numbers:
        return [{"value": n.surface, "raw": str(n.raw)} | n.uncertainty() for n in numbers]
    segments = [segment for segment in document if isinstance(segment, Number)]
    fields: list[dict[str, Any]] = [{"value": formats.format(n.value), "raw": str(n.value)} for n in segments]
    trees = [segment.tree for segment in document if isinstance(segment, Formula) and segment.tree is not None]
    return fields + [{"value": value, "raw": value} for tree in trees if (value := value_of(tree)) is not None]
