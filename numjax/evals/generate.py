"""What a model writes: prompts in, text and numbers out."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from numjax.decode import beam, sample
from numjax.errors import DataError, UsageError
from numjax.evals.numbers import Predicted, predicted, value_of
from numjax.numeral import format as formats
from numjax.pipeline import features
from numjax.pipeline.batch import assemble
from numjax.pipeline.features import Encoded, Row
from numjax.runtime import processes, shard
from numjax.system import System
from numjax.text import document as documents
from numjax.types import Channel, Document, Formula, Mark, Number, Tokens

START: Document = (Mark("[CLS]"),)  # what every text begins with


class Result(NamedTuple):
    """One continuation.

    Attributes:
      prompt, text: as read and as written.
      numbers: each number written: {"value": as in the text, "raw": as a head that approximates gave it}; with
        "approximate" and "interval" where the head is approximate, see `numbers.Predicted`; and the same of each
        formula that has one, such as the 84 of x = 12 · 7.
      log_prob: sum of the tokens' log masses. ended: whether [EOS] was written within the budget.
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
) -> list[Result]:
    """Continues prompts, in order.

    Args:
      prompts: texts to continue, or for an encoder–decoder the sources that it answers.
      params: an entry a layer.
      max_tokens: budget of each. temperature, top_k, top_p: see `decode.sample.Request`.
      batch_size: rows at a time; the last batch is filled up, so that it compiles once.
      seed: of the sampling.
      beams: width of a beam search instead of sampling; 0 for none. length_penalty: see `decode.beam.search`.

    Raises:
      UsageError: the model only classifies, an option is out of range, or a prompt is longer than the
        context leaves room for.
    """
    _check(max_tokens, temperature, top_k, top_p, beams)
    digits, rows = system.config.data.digits, []
    for prompt in prompts:
        try:
            found = system.encode(_asked(system, prompt))
        except DataError as error:
            raise UsageError(f"the prompt {prompt[:40]!r} cannot be read: {error}") from error
        row = features.from_features(found, digits)
        if system.model.encodes:
            # What is typed is the source; the decoder begins with nothing but its mark.
            row = features.from_features(system.encode(START, source=found), digits)._replace(source=row)
        rows.append(row)
    settings: dict[str, Any] = dict(
        max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    settings |= dict(beams=beams, length_penalty=length_penalty)
    out = []
    names = [f"the prompt {prompt[:40]!r}" for prompt in prompts]
    continued = _continue(system, params, rows, names, batch_size, **settings)
    for prompt, row, (ids, numbers, log_prob, ended) in zip(prompts, rows, continued, strict=True):
        document = _document(system, row, ids, numbers)
        out.append(Result(prompt, text_of(document), _told(document, numbers), log_prob, ended))
    return out


def _asked(system: System, text: str) -> Document:
    """A prompt, or the source of an encoder, as the task lays out what is typed, or as it is."""
    task, parse = system.task, system.scheme.parse
    document = task.asked(text, parse)
    if document is None:
        document = (*parse(text), Mark("[EOS]")) if system.model.encodes else (*START, *parse(text))
    return document


def predict(system: System, params: Any, encoded: Encoded, limit: int = 0) -> tuple[dict[int, Any], dict[int, Any]]:
    """(first number written for each example; what was written) by row: what generation tasks score.

    Beside what was written stand "approximate" and "interval" of a number that is so, see `numbers.Predicted`.
    """
    settings = system.config.decode
    count = min(limit or len(encoded), len(encoded))
    rows = [_prompt_of(encoded.rows[i]) for i in range(count)]
    from numjax.train import checkpoint

    params = checkpoint.split_layers(params)
    found = _continue(
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
    for i, (ids, numbers, log_prob, _) in enumerate(found):
        document = _document(system, rows[i], ids, numbers)
        extra[i] = {"text": text_of(document), "log_prob": log_prob}
        predictions[i] = system.task.predicted(document)
        if numbers and not system.task.provides("predicted"):
            extra[i] |= numbers[0].trust()
    return predictions, extra


def _document(system: System, row: Row, ids: Sequence[int], numbers: Sequence[Predicted]) -> Document:
    """What ids say that were written behind a row, with the numbers that a head predicted."""
    known = [Number(number.surface, number.value) for number in numbers]
    if system.scheme.points:
        read = row if row.source is None else row.source
        found = (segment for surface in read.surfaces for segment in system.scheme.parse(surface))
        known = [segment for segment in found if isinstance(segment, Number)]
    return system.scheme.decode(ids, known)


def text_of(document: Document) -> str:
    """A document as text, up to its first mark."""
    out = []
    for segment in document:
        if isinstance(segment, Mark):
            break
        out.append(documents.surface_of(segment))
    return "".join(out)


def _continue(system: System, params, rows: Sequence[Row], names: Sequence[str], batch_size: int, **settings):
    """(ids, the numbers that the head predicted, log mass, ended) of each row, in order; `names` are told of one that
    is too long."""
    model, grammar = _writer(system)
    head = model.writer
    context, most = model.backbone.max_length, settings["max_tokens"]
    if grammar.answer >= 0 and most < (least := int(grammar.end_cost[grammar.answer])):
        raise UsageError(f"max_tokens={most} has no room for an answer, which takes {least} tokens or more")
    for name, row in zip(names, rows, strict=True):
        if (count := len(row.ids)) + most > context:
            raise UsageError(
                f"{name}: its {count} positions and max_tokens={most} do not fit the context of {context}: "
                "shorten it or set --config.decode.max_tokens"
            )
        if model.encodes and (count := len(_read_first(row).ids)) > context:
            raise UsageError(
                f"{name}: its {count} positions are more than config.backbone.max_length={context}: shorten it"
            )
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), _source_size(rows[i])))
    found: dict[int, Any] = {}
    batch_size = min(batch_size, max(1, len(rows)))
    for start in range(0, len(order), batch_size):
        at = order[start : start + batch_size]
        # Lengths go up in steps of 16 and the last batch is filled up: few shapes, few compilations.
        room = min(-(-len(rows[at[-1]].ids) // 16) * 16, context - most)
        padded = [rows[i] for i in at] + [rows[at[-1]]] * (batch_size - len(at))
        request = sample.Request(
            prompt=prompt_tokens(padded, room, **_known(system)),
            budget=jnp.full(batch_size, most, jnp.int32),
            key=jax.random.fold_in(jax.random.key(settings["seed"]), start),
            temperature=jnp.float32(settings["temperature"]),
            top_k=jnp.int32(settings["top_k"]),
            top_p=jnp.float32(settings["top_p"]),
            source=_source_tokens(padded, context, system) if model.encodes else None,
        )
        num_id, end_id = (system.scheme.vocab.mark(name) for name in ("[NUM]", "[EOS]"))
        known: dict[str, Any] = dict(head=head, most=most, num_id=num_id)
        with _under(params):
            placed, request = _placed(params, grammar, request)
            if settings["beams"]:
                ends = jnp.full((batch_size, 1), end_id, jnp.int32)
                penalty = jnp.float32(settings["length_penalty"])
                written = beam.search(
                    model,
                    params,
                    placed,
                    request.prompt,
                    request.budget,
                    ends,
                    penalty,
                    source=request.source,
                    width=settings["beams"],
                    **known,
                )
            else:
                greedy = settings["temperature"] <= 0
                written = sample.generate(model, params, placed, request, end_id=end_id, greedy=greedy, **known)
        written = processes.fetch(written)
        for b, i in enumerate(at):
            if settings["beams"]:
                found[i] = _chosen(system, rows[i], written, b)
            else:
                found[i] = _read(written, b)
    return [found[i] for i in range(len(rows))]


def _chosen(system: System, row: Row, beams: beam.Beams, b: int):
    """The best beam of a row; where the task has a prior of what is written, by its mass times that."""
    if not system.task.provides("log_prior"):
        return _read(beam.ranked(beams, 0), b)
    written = [_read(beam.ranked(beams, rank), b) for rank in range(beams.ids.shape[1])]
    scores = [
        float(beams.score[b, rank]) + system.task.log_prior(_document(system, row, *found[:2]))
        if found[3] and np.isfinite(beams.score[b, rank])
        else -np.inf
        for rank, found in enumerate(written)
    ]
    return written[int(np.argmax(scores))]


def _under(params):
    """Traces what follows for the devices that the parameters lie on."""
    at = jax.tree.leaves(params)[0].sharding
    if not isinstance(at, NamedSharding) or not isinstance(at.mesh, Mesh):
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(at.mesh.abstract_mesh)


def _placed(params, grammar, request: sample.Request):
    """The grammar everywhere and the request's rows spread, where the parameters lie on several devices."""
    at = jax.tree.leaves(params)[0].sharding
    if not isinstance(at, NamedSharding) or not isinstance(at.mesh, Mesh) or at.mesh.size == 1:
        return grammar, request
    everywhere, rows = shard.replicated(at.mesh), shard.batch_sharding(at.mesh)
    if len(request.budget) % (at.mesh.shape["data"] * at.mesh.shape["fsdp"]):
        rows = everywhere
    key = shard.place(jax.random.key_data(request.key), everywhere)
    return shard.place(grammar, everywhere), sample.Request(
        prompt=shard.place(request.prompt, rows),
        budget=shard.place(request.budget, rows),
        source=shard.place(request.source, rows),
        key=jax.random.wrap_key_data(key),
        **{name: shard.place(getattr(request, name), everywhere) for name in ("temperature", "top_k", "top_p")},
    )


def _read(done: sample.Generated, b: int):
    length = int(done.length[b])
    log_prob = float(done.log_prob[b, :length].sum())
    return done.ids[b, :length].tolist(), predicted(done, b), log_prob, bool(done.ended[b])


def prompt_tokens(
    rows: Sequence[Row],
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
        return np.stack([np.roll(row, by, axis=0) for row, by in zip(x, shifts, strict=True)])

    flat = ("ids", "positions", "segment_ids", "numeral_index")
    moved = {name: roll(getattr(batch.inputs, name)) for name in flat}
    channels = {name: roll(values) for name, values in batch.inputs.channels.items()}
    return batch.inputs._replace(**moved, channels=channels)


def _source_tokens(rows: Sequence[Row], context: int, system: System) -> Tokens:
    """What an encoder reads as one batch of Tokens[B, S], padded on the right; S goes up in steps of 16."""
    read = [_read_first(row) for row in rows]
    return assemble(
        [[row] for row in read],
        [[i] for i in range(len(read))],
        kind="source",
        length=min(-(-max(len(row.ids) for row in read) // 16) * 16, context),
        numerals=_room_for_numerals(read),
        **_known(system),
    ).inputs


def _known(system: System) -> dict[str, Any]:
    return dict(digits=system.config.data.digits, host_features=system.host_features, declared=system.channels)


def _read_first(row: Row) -> Row:
    """What an encoder reads of a row."""
    if row.source is None:
        raise UsageError("an encoder–decoder needs a source: the task must fill Example.source")
    return row.source


def _source_size(row: Row) -> int:
    return 0 if row.source is None else len(row.source.ids)


def _room_for_numerals(rows: Sequence[Row]) -> int:
    return max(4, -(-max((len(row.surfaces) for row in rows), default=0) // 4) * 4)


def _prompt_of(row: Row) -> Row:
    cut = row.loss_from
    if cut < 1:
        raise UsageError("a task that generates must leave a prompt unscored (Example.loss_from)")
    used = int(row.numeral_index[:cut].max(initial=-1)) + 1
    return row._replace(
        ids=row.ids[:cut],
        numeral_index=row.numeral_index[:cut],
        grammar_state=row.grammar_state[:cut],
        channels={name: values[:cut] for name, values in row.channels.items()},
        numerals=type(row.numerals)(*(x[:used] for x in row.numerals)),
        surfaces=row.surfaces[:used],
    )


def _writer(system: System):
    """(the model with unscanned layers, the grammar on the device)."""
    model = system.model
    if model.backbone.scan:
        model = model.clone(backbone=model.backbone.clone(scan=False))
    return model, jax.tree.map(jnp.asarray, system.scheme.generation_grammar())


def _told(document: Document, numbers: Sequence[Predicted]) -> list[dict[str, Any]]:
    if numbers:
        return [{"value": n.surface, "raw": str(n.raw)} | n.trust() for n in numbers]
    found = [segment for segment in document if isinstance(segment, Number)]
    told: list[dict[str, Any]] = [{"value": formats.format(n.value), "raw": str(n.value)} for n in found]
    trees = [segment.tree for segment in document if isinstance(segment, Formula) and segment.tree is not None]
    return told + [{"value": value, "raw": value} for tree in trees if (value := value_of(tree)) is not None]


def _check(max_tokens: int, temperature: float, top_k: int, top_p: float, beams: int = 0) -> None:
    if max_tokens < 1:
        raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
    if beams < 0 or (beams and temperature > 0):
        raise UsageError("beams must not be negative, and a beam search samples nothing: leave temperature at 0")
    if temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
        raise UsageError("temperature and top_k must not be negative, and top_p lies in (0, 1]")
