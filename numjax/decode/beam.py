"""Beam search: one jitted program for prompt, cache, grammar and beams.

Legend: B rows, W beams of a row, P positions of the prompts (padded on the left), M tokens to write at most,
V vocabulary, S slots of the cache.

The beams of a row are read side by side, as W positions of it: they share the prompt's keys and values, and each sees
only its own past among the others. A beam that changes its parent changes what it sees; the cache stays where it is.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numjax.decode import channels, sample
from numjax.decode import grammar as automaton
from numjax.model import Model
from numjax.nn.attention import Cache
from numjax.types import Estimate, Grammar, HeadOut, Numeral, Tokens

BLOCK = 128  # ids whose maximum is looked for together; what schemes pad their vocabularies to


class Beams(NamedTuple):
    """What was written, the best beam of each row first.

    Attributes:
      ids: int32[B, W, M], the ending id included, 0 behind it. length: int32[B, W].
      log_prob: float32[B, W, M], the model's log mass of each token under the grammar.
      score: float32[B, W], their sum; −∞ where there are fewer texts than beams.
      numerals: Numeral[B, W, M], estimates: Estimate[B, W, M], as in `sample.Generated`, or None.
      ended: bool[B, W], False when the budget ran out first.
    """

    ids: jax.Array
    length: jax.Array
    log_prob: jax.Array
    score: jax.Array
    numerals: Numeral | None
    estimates: Estimate | None
    ended: jax.Array


class _Loop(NamedTuple):
    """`step` tokens are written; `last`, `fed` and `values` (of channels), each [B · W, …], is what the next step
    reads; `states` are those of what makes channels; `past`, bool[B · W, S], are the slots of what each beam has
    read."""

    step: jax.Array
    beams: Beams
    cache: Cache
    past: jax.Array
    place: automaton.GrammarState
    last: jax.Array
    fed: Numeral | None
    states: Any
    values: dict[str, jax.Array]


@functools.partial(jax.jit, static_argnames=("model", "head", "most", "width", "num_id"))
def search(
    model: Model,
    params: Any,
    tables: Grammar,
    prompt: Tokens,
    budget: jax.Array,
    end_ids: jax.Array,
    length_penalty: jax.Array | float = 0.0,
    source: Tokens | None = None,
    *,
    head: str,
    most: int,
    width: int = 3,
    num_id: int,
) -> Beams:
    """The likeliest continuations that a beam of `width` finds; one compilation a (B, P, most, width).

    At each step the W best of all continuations of a row's beams are kept. A text that has ended competes on with the
    score that it ended with. Numbers that a head predicts are the likeliest of each beam; only masses are compared.

    Args:
      model: with unscanned layers. params: its parameters.
      tables: the scheme's grammar.
      prompt: Tokens[B, P], padded on the left. budget: int32[B], tokens within which a row's text
        must end; of one above M there may be no end.
      end_ids: int32[B, E], what ends a text, filled up with −1.
      length_penalty: beams are ranked by score / length^α; 0 ranks by the sum of log masses.
      source: Tokens[B, S] that an encoder reads, once for all beams of a row; None for models without one.
      head: name of the head to write with. most: M. width: W. num_id: id of [NUM].
    """
    rows = prompt.ids.shape[0]
    lengths = jnp.repeat((prompt.segment_ids > 0).sum(axis=1), width)
    made = model.apply({"params": params}, method="tables")
    cache = sample.begin(model, params, source, rows, prompt.ids.shape[1] + most * width, made)
    outs, cache = _step(model, params, prompt, cache, made)
    first = jnp.repeat(jnp.arange(rows), width)  # every beam starts as its row
    weights = dict(outs[head].weights)
    ends = jnp.asarray(end_ids)[first]  # [B · W, E]

    makers = channels.find(prompt, model.producers())

    def choose(hidden: jax.Array, place: automaton.GrammarState, states: Any, step: jax.Array, beams: Beams) -> Any:
        """The best W of each row's candidates: (beams, their parents among the B · W, place, token, numeral, the
        states of what makes channels, their values)."""
        left = jnp.repeat(budget, width) - step
        may = automaton.token_mask(automaton.allowed(tables, place, left))
        ended, score = beams.ended.reshape(-1), beams.score.reshape(-1)
        live = ~ended & (left > 0) & (score > -jnp.inf)
        stuck = live & ~may.any(-1)  # the text has ended for good
        open_ = live & ~stuck
        out = outs[head]._replace(hidden=hidden, weights=weights)
        mass, numeral, estimate = model.heads[head].step_scores(out, may | ~open_[:, None])
        mass = jnp.where(may, mass, -jnp.inf)
        few = min(width, mass.shape[-1])
        tokens, gains = best(mass, few)
        # A finished beam has one candidate: itself.
        stays = jnp.where(jnp.arange(few) == 0, 0.0, -jnp.inf)
        gains = jnp.where(open_[:, None], gains, stays)
        tokens = jnp.where(open_[:, None], tokens, 0)
        length = (beams.length.reshape(-1) + open_)[:, None]
        total = score[:, None] + gains
        rank = total / jnp.maximum(length, 1).astype(jnp.float32) ** length_penalty
        rank = jnp.where(total > -jnp.inf, rank, -jnp.inf)
        _, picked = jax.lax.top_k(rank.reshape(rows, width * few), width)
        parents = (picked // few + width * jnp.arange(rows)[:, None]).reshape(-1)

        def pick(x):  # of candidates, a row of them a beam
            return jnp.take_along_axis(x.reshape(rows, -1), picked, axis=1).reshape(-1)

        token, gain, writes = pick(tokens), pick(gains), open_[parents]
        numeral, estimate = jax.tree.map(lambda x: x[parents], (numeral, estimate))
        if numeral is not None:
            numeral = numeral._replace(valid=writes & (token == num_id))

        def put(whole: Any, new: Any) -> Any:
            return jax.tree.map(lambda x, y: _put(_take(x, parents), y, step), whole, new)

        at_end = writes & (token[:, None] == ends).any(-1)
        beams = Beams(
            ids=_put(_take(beams.ids, parents), token, step),
            length=_like(beams.length, beams.length.reshape(-1)[parents] + writes),
            log_prob=_put(_take(beams.log_prob, parents), jnp.where(writes, gain, 0.0), step),
            score=_like(beams.score, pick(total)),
            numerals=put(beams.numerals, numeral),
            estimates=put(beams.estimates, estimate),
            ended=_like(beams.ended, (ended | stuck)[parents] | at_end),
        )
        before, earlier = jax.tree.map(lambda x: x[parents], (place, states))
        following, values = channels.step(makers, earlier, token, channels.At(tables, before))
        after = automaton.step(tables, before, token), following
        place, states = channels.keep_where(writes, after, (before, earlier))
        return beams, parents, place, token, numeral, states, values

    def body(loop: _Loop) -> _Loop:
        at = lengths + loop.step - 1
        tokens = sample.feed(loop.last, loop.fed, loop.values, at, num_id)
        # Beam w of every row writes the same slot.
        own = loop.cache.length + jnp.tile(jnp.arange(width), rows)
        past = loop.past | (jnp.arange(loop.past.shape[1]) == own[:, None])
        cache = loop.cache._replace(seen=past.reshape(rows, width, -1))
        found, cache = _step(model, params, beside(tokens, rows), cache, made)
        hidden = found[head].hidden.reshape(rows * width, -1)
        beams, parents, place, *read = choose(hidden, loop.place, loop.states, loop.step, loop.beams)
        return _Loop(loop.step + 1, beams, cache, past[parents], place, *read)

    def going(loop: _Loop) -> jax.Array:
        beams = loop.beams
        return (loop.step < most) & (~beams.ended & (beams.score > -jnp.inf) & (loop.step < budget[:, None])).any()

    states = channels.read(makers, sample.beginning(tables, prompt, source), prompt.ids, prompt.segment_ids > 0)
    place, states = jax.tree.map(lambda x: x[first], (sample.read(tables, prompt, source), states))
    hidden = outs[head].hidden[:, -1][first]
    beams, _, place, *read = choose(
        hidden, place, states, jnp.int32(0), _blank(model.heads[head], outs[head], rows, width, most)
    )
    loop = _Loop(jnp.int32(1), beams, cache, cache.valid[first], place, *read)
    return jax.lax.while_loop(going, body, loop).beams


def ranked(beams: Beams, rank: int) -> sample.Generated:
    """The beam of each row that comes at `rank`, the best at 0."""
    found = jax.tree.map(lambda x: x[:, rank], beams)
    return sample.Generated(found.ids, found.length, found.log_prob, found.numerals, found.estimates, found.ended)


def _step(model: Model, params: Any, tokens: Tokens, cache: Cache, made: Any) -> tuple[Any, Cache]:
    return model.apply({"params": params}, tokens, cache, made, method="step")  # type: ignore[return-value]


def best(mass_BV: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """(ids, masses) of the `count` likeliest of each row, [B, count], the first of equals first."""
    blocks = mass_BV.shape[-1] // BLOCK
    if count > 8 or blocks <= count or mass_BV.shape[-1] % BLOCK:
        return _sorted(mass_BV, count)
    # They are in the `count` blocks with the largest maxima, so that the vocabulary is read once. Blocks are kept in
    # their order, for the sake of equals.
    mass_BNK = mass_BV.reshape(-1, blocks, BLOCK)
    kept = jnp.sort(_sorted(mass_BNK.max(-1), count)[0], axis=-1)
    near = jnp.take_along_axis(mass_BNK, kept[..., None], axis=1).reshape(len(kept), -1)
    places, masses = _sorted(near, count)
    return jnp.take_along_axis(kept, places // BLOCK, axis=1) * BLOCK + places % BLOCK, masses


def _sorted(mass_BV, count):
    if count > 8:
        masses, ids = jax.lax.top_k(mass_BV, count)
        return ids.astype(jnp.int32), masses
    # A few reductions that run in vectors are many times faster than a sort on CPU.
    ids, masses, all_ids = [], [], jnp.arange(mass_BV.shape[-1])
    for _ in range(count):
        masses.append(mass_BV.max(axis=-1))
        ids.append(sample.likeliest(mass_BV))
        mass_BV = jnp.where(all_ids == ids[-1][:, None], -jnp.inf, mass_BV)
    return jnp.stack(ids, axis=1), jnp.stack(masses, axis=1)


def beside(tokens: Tokens, rows: int) -> Tokens:
    """Tokens[B · W, 1] as Tokens[B, W]."""
    tokens = jax.tree.map(lambda x: x.reshape(rows, -1, *x.shape[2:]), tokens)
    if tokens.numeral_index is None:
        return tokens
    # A row's numerals are now those of all its beams.
    index = jnp.where(tokens.numeral_index >= 0, jnp.arange(tokens.numeral_index.shape[1]), -1)
    return tokens._replace(numeral_index=index)


def _blank(head: Any, out: HeadOut, rows: int, width: int, most: int) -> Beams:
    blank = sample.blank(head, out, rows * width, most)

    def split(x):
        return x.reshape(rows, width, *x.shape[1:])

    # All beams are the same at first: only one of a row may go on.
    score = jnp.where(jnp.arange(width) == 0, 0.0, -jnp.inf)
    return Beams(
        ids=split(blank.ids),
        length=split(blank.length),
        log_prob=split(blank.log_prob),
        score=jnp.broadcast_to(score, (rows, width)),
        numerals=jax.tree.map(split, blank.numerals),
        estimates=jax.tree.map(split, blank.estimates),
        ended=split(blank.ended),
    )


def _take(x: jax.Array, parents: jax.Array) -> jax.Array:
    return x.reshape(-1, *x.shape[2:])[parents].reshape(x.shape)


def _put(x: jax.Array, new: jax.Array, step: jax.Array) -> jax.Array:
    """x[B, W, M, …] with new[B · W, …] at position `step`."""
    return jax.lax.dynamic_update_index_in_dim(x, new.astype(x.dtype).reshape(*x.shape[:2], *x.shape[3:]), step, 2)


def _like(x: jax.Array, flat: jax.Array) -> jax.Array:
    return flat.astype(x.dtype).reshape(x.shape)
