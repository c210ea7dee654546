"""Greedy and sampled generation: one jitted program for prompt, cache, grammar and numerals.

Legend: B rows, P positions of the prompts (padded on the left), M tokens to write at most, V vocabulary,
K digits.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numjax.decode import channels
from numjax.decode import grammar as automaton
from numjax.model import Model
from numjax.nn import cross_entropy
from numjax.nn.cross_entropy import FORBIDDEN
from numjax.types import Estimate, Grammar, HeadOut, Numeral, Tokens


class Request(NamedTuple):
    """What to continue, and how.

    Attributes:
      prompt: Tokens[B, P], padded on the left (segment id 0), every row with at least one position.
      budget: int32[B], tokens that a row may write, at most M.
      key: for sampling.
      temperature: 0 and below is greedy. top_k: 0 keeps all; top_p: 1 keeps all.
      source: Tokens[B, S] that an encoder reads, padded on the right; None for models without one.
    """

    prompt: Tokens
    budget: jax.Array
    key: jax.Array
    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    source: Tokens | None = None


class Generated(NamedTuple):
    """What was written.

    Attributes:
      ids: int32[B, M], `end_id` included, 0 behind it.
      length: int32[B].
      log_prob: float32[B, M], the model's log mass of each token under the grammar (not tempered).
      numerals: Numeral[B, M] as predicted, valid at [NUM]; None for models that spell numbers out.
      estimates: Estimate[B, M] of these; None where numbers are exact.
      ended: bool[B], False when the budget ran out first.
    """

    ids: jax.Array
    length: jax.Array
    log_prob: jax.Array
    numerals: Numeral | None
    estimates: Estimate | None
    ended: jax.Array


class _Loop(NamedTuple):
    """The loop's state: `step` tokens are written; `last`, `fed` and `values` (of channels) is what the next step
    reads; `states` are those of what makes channels."""

    step: jax.Array
    written: Generated
    cache: Any
    place: automaton.GrammarState
    last: jax.Array
    fed: Numeral | None
    states: Any
    values: dict[str, jax.Array]


@functools.partial(jax.jit, static_argnames=("model", "head", "most", "num_id", "end_id", "greedy"))
def generate(
    model: Model,
    params: Any,
    tables: Grammar,
    request: Request,
    *,
    head: str,
    most: int,
    num_id: int,
    end_id: int,
    greedy: bool,
) -> Generated:
    """Continues every row of a batch; one compilation a (B, P, most) and a grammar's shape. A source is encoded once,
    before the loop.

    Args:
      model: with unscanned layers. params: its parameters.
      tables: the scheme's grammar: masks every token, and with the budget keeps every text closable.
      request: see there.
      head: name of the head to write with.
      most: M.
      num_id, end_id: ids of [NUM] and of the end.
      greedy: static, so that greedy programs hold no sorting.
    """
    prompt, rows = request.prompt, request.prompt.ids.shape[0]
    lengths = (prompt.segment_ids > 0).sum(axis=1)
    tables_of_params = model.apply({"params": params}, method="tables")
    cache = begin(model, params, request.source, rows, prompt.ids.shape[1] + most, tables_of_params)
    outs, cache = model.apply({"params": params}, prompt, cache, tables_of_params, method="step")
    place = read(tables, prompt, request.source)
    makers = channels.find(prompt, model.producers())
    states = channels.read(makers, beginning(tables, prompt, request.source), prompt.ids, prompt.segment_ids > 0)

    # They depend on parameters alone: made here, once, not in the loop.
    weights = dict(outs[head].weights)
    if (kernel := outs[head].weights.get("kernel")) is not None:
        weights["turned"] = cross_entropy.turned(kernel.astype(outs[head].hidden.dtype), rows, most)

    def choose(out: HeadOut, place: automaton.GrammarState, states: Any, step: jax.Array, written: Generated):
        """The next token of every row, from the last position's hidden state."""
        out = out._replace(hidden=out.hidden[:, -1], weights={**out.weights, **weights})
        may = automaton.token_mask(automaton.allowed(tables, place, request.budget - step))
        live = ~written.ended & (step < request.budget)
        stuck = live & ~may.any(axis=-1)  # the text has ended for good
        open_ = live & ~stuck
        # A finished row needs some legal token for a finite softmax; what it picks is not kept.
        may = may | ~open_[:, None]
        key = jax.random.fold_in(request.key, step)
        token_key, number_key = jax.random.split(key)
        mass, numeral, estimate = model.heads[head].step_scores(out, may, None if greedy else number_key)
        if greedy:
            token = likeliest(mass)
        else:
            warm = filtered(mass / jnp.maximum(request.temperature, 1e-6), request.top_k, request.top_p)
            token = jax.random.categorical(token_key, warm, axis=-1).astype(jnp.int32)
        token = jnp.where(open_, token, 0)
        log_prob = jnp.where(open_, jnp.take_along_axis(mass, token[:, None], axis=1)[:, 0], 0.0)
        if numeral is not None:
            numeral = numeral._replace(valid=open_ & (token == num_id))

        def put(whole: Any, new: Any) -> Any:
            return jax.tree.map(lambda x, y: _put(x, y, step), whole, new)

        written = Generated(
            ids=_put(written.ids, token, step),
            length=written.length + open_,
            log_prob=_put(written.log_prob, log_prob, step),
            numerals=put(written.numerals, numeral),
            estimates=put(written.estimates, estimate),
            ended=written.ended | stuck | (open_ & (token == end_id)),
        )
        following, values = channels.step(makers, states, token, channels.At(tables, place))
        after = automaton.step(tables, place, token), following
        place, states = channels.keep_where(open_, after, (place, states))
        return written, place, states, token, numeral, values

    def body(loop: _Loop) -> _Loop:
        tokens = feed(loop.last, loop.fed, loop.values, lengths + loop.step - 1, num_id)
        outs, cache = model.apply({"params": params}, tokens, loop.cache, tables_of_params, method="step")
        chosen = choose(outs[head], loop.place, loop.states, loop.step, loop.written)
        written, place, states, token, numeral, values = chosen
        return _Loop(loop.step + 1, written, cache, place, token, numeral, states, values)

    def going(loop: _Loop) -> jax.Array:
        return (loop.step < most) & (~loop.written.ended & (loop.step < request.budget)).any()

    unwritten = blank(model.heads[head], outs[head], rows, most)
    written, place, states, token, numeral, values = choose(outs[head], place, states, jnp.int32(0), unwritten)
    loop = _Loop(jnp.int32(1), written, cache, place, token, numeral, states, values)
    return jax.lax.while_loop(going, body, loop).written


def begin(model: Model, params: Any, source: Tokens | None, rows: int, slots: int, made: Any) -> Any:
    """An empty cache of so many slots, which remembers the source where there is one."""
    cache = model.backbone.init_cache(rows, slots)
    return cache if source is None else model.apply({"params": params}, source, cache, made, method="remember")


def read(tables: Grammar, prompt: Tokens, source: Tokens | None = None) -> automaton.GrammarState:
    """Where the automaton stands after a prompt: where an answer begins, if the grammar says (`Grammar.answer`).

    The prompt's nodes are all counted (see `Grammar.counted`), as in training, but for what its last token closes:
    from there on the generator counts.
    """
    ids, valid = prompt.ids, prompt.segment_ids > 0
    true, place = beginning(tables, prompt, source)
    place = automaton.read(true, place, ids[:, :-1], valid[:, :-1])
    return automaton.begin_answer(tables, automaton.step(tables, place, ids[:, -1]))


def beginning(tables: Grammar, prompt: Tokens, source: Tokens | None) -> channels.At:
    """The automaton before a prompt, whose nodes are all counted."""
    true = tables._replace(counted=jnp.ones_like(tables.counted))
    return channels.At(true, automaton.init(tables, len(prompt.ids), source))


def feed(
    token: jax.Array, numeral: Numeral | None, values: Mapping[str, jax.Array], at: jax.Array, num_id: int
) -> Tokens:
    """A token just written, int32[B], with its channels' values as one more position `at` int32[B]."""
    index = None
    if numeral is not None:
        index = jnp.where(token == num_id, 0, -1)[:, None]
        numeral = jax.tree.map(lambda x: x[:, None], numeral)
    return Tokens(
        ids=token[:, None],
        positions=at[:, None],
        segment_ids=jnp.ones((len(token), 1), jnp.int32),
        channels={name: value[:, None] for name, value in values.items()},
        numeral_index=index,
        numerals=numeral,
    )


def likeliest(mass_BV: jax.Array) -> jax.Array:
    """`argmax` over the vocabulary as two reductions that run in vectors, as one of pairs does not."""
    ids = jnp.arange(mass_BV.shape[-1], dtype=jnp.int32)
    first = jnp.where(mass_BV == mass_BV.max(axis=-1, keepdims=True), ids, ids[-1])
    return first.min(axis=-1)


def filtered(logits_BV: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Logits with all but the `top_k` likeliest (0: all), and of those all but the smallest set that holds
    `top_p` of the mass, forbidden. The likeliest always stays; ties at the border stay together."""
    descending = jnp.sort(logits_BV, axis=-1)[:, ::-1]
    ranks = jnp.arange(logits_BV.shape[-1])
    kept = jnp.where(top_k > 0, ranks < top_k, True)[None]
    mass = jax.nn.softmax(jnp.where(kept, descending, FORBIDDEN), axis=-1)
    before = jnp.cumsum(mass, axis=-1) - mass
    # Rounding may bring the mass before the tail to 1: top_p = 1 still keeps all.
    kept = kept & ((before < top_p) | (ranks == 0) | (top_p >= 1))
    least = jnp.min(jnp.where(kept, descending, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(logits_BV >= least, logits_BV, FORBIDDEN)


def blank(head: Any, out: HeadOut, rows: int, most: int) -> Generated:
    """Nothing written yet.

    Args:
      out: the head's, of any positions: its numbers have the form that `step_scores` makes of them.
    """
    form = jax.eval_shape(lambda out: head.step_scores(out._replace(hidden=out.hidden[:, -1])), out)
    numerals, estimates = jax.tree.map(
        lambda x: jnp.zeros((rows, most, *x.shape[1:]), x.dtype), (form.numeral, form.estimate)
    )
    return Generated(
        ids=jnp.zeros((rows, most), jnp.int32),
        length=jnp.zeros(rows, jnp.int32),
        log_prob=jnp.zeros((rows, most), jnp.float32),
        numerals=numerals,
        estimates=estimates,
        ended=jnp.zeros(rows, bool),
    )


def _put(whole: jax.Array, new: jax.Array, step: jax.Array) -> jax.Array:
    """whole[B, M, …] with new[B, …] at position `step`."""
    return jax.lax.dynamic_update_index_in_dim(whole, new.astype(whole.dtype), step, 1)
