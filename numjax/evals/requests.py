"""Batches of rows as requests to the decoder, and what it wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from numjax.decode import sample
from numjax.errors import UsageError
from numjax.evals.numbers import PredictedNumber, predicted_numbers
from numjax.pipeline import packing
from numjax.pipeline.batch import assemble
from numjax.pipeline.features import EncodedRow
from numjax.runtime import shard
from numjax.system import System
from numjax.types import Channel, Numeral, Tokens


class Written(NamedTuple):
    """What the model wrote behind a row.

    Attributes:
      ids: of its tokens. numbers: those that a head predicted, in order.
      log_prob: the sum of the tokens' log masses. ended: whether the text ended.
      numerals: Numeral[n] as predicted at each token; None for models that spell numbers.
    """

    ids: list[int]
    numbers: list[PredictedNumber]
    log_prob: float
    ended: bool
    numerals: Numeral | None = None


class Sampling(NamedTuple):
    """How to choose tokens, see `sample.Request`; a temperature of 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


def make_request(
    system: System,
    rows: Sequence[EncodedRow],
    max_tokens: int,
    keys: jax.Array,
    sampling: Sampling,
    forced: sample.Forced | None = None,
    quorum: int = 0,
    least: int = 16,
) -> sample.Request:
    """The request to continue rows by at most `max_tokens` tokens, with the key of each row; see `sample.Request`.
    `least`: see `_room_for_texts`."""
    context = system.model.backbone.max_length
    room = min(_room_for_texts(rows, least), context - max_tokens)
    return sample.Request(
        prompt=prompt_tokens(rows, room, **_batch_options(system)),
        budget=jnp.full(len(rows), max_tokens, jnp.int32),
        keys=keys,
        temperature=jnp.float32(sampling.temperature),
        top_k=jnp.int32(sampling.top_k),
        top_p=jnp.float32(sampling.top_p),
        source=_source_tokens(rows, context, system, least) if system.model.encodes else None,
        forced=forced,
        quorum=jnp.int32(quorum),
    )


def make_keys(key: jax.Array, numbers: Sequence[int]) -> jax.Array:
    """The key of each number, key[n]."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(numbers, jnp.uint32))


def list_batches(rows: Sequence[EncodedRow], batch_size: int) -> Iterator[tuple[list[int], list[EncodedRow]]]:
    """Yields (indices of rows of about the same length, these rows). All batches have one size: the last one is
    filled up with its last row."""
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), source_size(rows[i])))
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        yield indices, [rows[i] for i in fill(indices, batch_size)]


def fill(indices: Sequence[int], count: int) -> list[int]:
    """So many indices: the last one is repeated."""
    return [*indices, *[indices[-1]] * (count - len(indices))]


def extract_row(system: System, generated: sample.Generated, b: int) -> Written:
    """A row of a batch."""
    length = int(generated.length[b])
    log_prob = float(generated.log_prob[b, :length].sum())
    densities = system.model.heads[system.model.writer].densities
    ids, numbers = generated.ids[b, :length].tolist(), predicted_numbers(generated, b, densities)
    if system.scheme.provides("join_numbers"):
        joined = system.scheme.join_numbers(ids, [number.value for number in numbers])
        numbers = [PredictedNumber(number.surface, number.value, number.value) for number in joined]
    numerals = None
    if generated.numerals is not None:
        numerals = Numeral(*(np.asarray(x)[b, :length] for x in generated.numerals))
    return Written(ids, numbers, log_prob, bool(generated.ended[b]), numerals)


def decoding_model(system: System):
    """(the model with unscanned layers, the grammar on the device)."""
    model = system.model
    if model.backbone.scan:
        model = model.clone(backbone=model.backbone.clone(scan=False))
    return model, jax.tree.map(jnp.asarray, system.scheme.generation_grammar())


def mesh_context(params):
    """A context that traces functions for the mesh of the parameters."""
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(sharding.mesh.abstract_mesh)


def distribute(params, grammar, request: sample.Request):
    """(grammar on every device, request with its rows split over devices), if several devices hold the parameters."""
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh) or sharding.mesh.size == 1:
        return grammar, request
    everywhere, rows = shard.replicated(sharding.mesh), shard.batch_sharding(sharding.mesh)
    if len(request.budget) % (sharding.mesh.shape["data"] * sharding.mesh.shape["fsdp"]):
        rows = everywhere
    keys = shard.distribute(jax.random.key_data(request.keys), rows)
    return shard.distribute(grammar, everywhere), sample.Request(
        prompt=shard.distribute(request.prompt, rows),
        budget=shard.distribute(request.budget, rows),
        source=shard.distribute(request.source, rows),
        forced=shard.distribute(request.forced, rows),
        keys=jax.random.wrap_key_data(keys),
        **{
            name: shard.distribute(getattr(request, name), everywhere)
            for name in ("temperature", "top_k", "top_p", "quorum")
        },
    )


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


def _source_tokens(rows: Sequence[EncodedRow], context: int, system: System, least: int) -> Tokens:
    """The sources of rows as one batch of Tokens[B, S], padded on the right; S as `_room_for_texts` has it."""
    source_rows = [encoder_row(row) for row in rows]
    return assemble(
        [[row] for row in source_rows],
        [[i] for i in range(len(source_rows))],
        kind="source",
        length=min(_room_for_texts(source_rows, least), context),
        numerals=_room_for_numerals(source_rows),
        **_batch_options(system),
    ).inputs


def _batch_options(system: System) -> dict[str, Any]:
    return dict(digits=system.config.data.digits, host_features=system.host_features, declared=system.channels)


def encoder_row(row: EncodedRow) -> EncodedRow:
    """The encoder's row of a row."""
    if row.source is None:
        raise UsageError("an encoder–decoder needs a source: the task must fill Example.source")
    return row.source


def source_size(row: EncodedRow) -> int:
    return 0 if row.source is None else len(row.source.ids)


def _room_for_texts(rows: Sequence[EncodedRow], least: int) -> int:
    """Positions for the longest row: 8, or at least `least`. A program of another length takes seconds to compile,
    which is more than a large `least` costs. 8 are for texts such as those with which the decoder of an
    encoder–decoder begins, its mark alone."""
    longest = max(len(row.ids) for row in rows)
    return 8 if longest <= 8 else packing.round_up(longest, least)


def _room_for_numerals(rows: Sequence[EncodedRow]) -> int:
    most = max((len(row.surfaces) for row in rows), default=0)
    return 4 if most <= 4 else packing.round_up(most, 16)
