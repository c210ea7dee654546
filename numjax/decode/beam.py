"""Beam search: one jitted program for prompt, cache, grammar and beams.

Legend: B rows, W beams of a row, P positions of the prompts (padded on the left), M most tokens to generate,
V vocabulary, S slots of the cache.

The beams of a row are processed side by side, as W positions of it: they share the prompt's keys and values, and each
beam sees only its own past besides. When a beam changes its parent, only its mask changes; the cache is never moved.
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

BLOCK = 128  # ids of a block whose maximum is computed first; schemes pad vocabularies to a multiple of it


class Beams(NamedTuple):
    """The generated texts, the best beam of each row first.

    Attributes:
      ids: int32[B, W, M], the ending id included, 0 behind it. length: int32[B, W].
      log_prob: float32[B, W, M], the model's log mass of each token under the grammar.
      score: float32[B, W], their sum; −∞ for beams without a text, if there are fewer texts than beams.
      numerals: Numeral[B, W, M], estimates: Estimate[B, W, M], as in `sample.Generated`, or None.
      ended: bool[B, W], False if the budget ran out first.
    """

    ids: jax.Array
    length: jax.Array
    log_prob: jax.Array
    score: jax.Array
    numerals: Numeral | None
    estimates: Estimate | None
    ended: jax.Array


class _BeamState(NamedTuple):
    """The loop's state after `step` generated tokens; `token`, `numeral`, `vector` and `values` (of channels), each
    [B · W, …], are the input of the next step; `states` are those of the channels' producers; `past`, bool[B · W, S],
    are the slots that each beam sees."""

    step: jax.Array
    beams: Beams
    cache: Cache
    past: jax.Array
    grammar_state: automaton.GrammarState
    token: jax.Array
    numeral: Numeral | None
    vector: jax.Array | None
    states: Any
    values: dict[str, jax.Array]


@functools.partial(jax.jit, static_argnames=("model", "head", "max_tokens", "width", "num_id"))
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
    max_tokens: int,
    width: int = 3,
    num_id: int,
) -> Beams:
    """The likeliest continuations found by a beam search of `width`; it compiles once per (B, P, max_tokens, width).

    At each step the W best of all continuations of a row's beams are kept. An ended text keeps competing with its
    final score. Numbers that a head predicts are the likeliest of each beam; only masses are compared.

    Args:
      model: with unscanned layers. params: its parameters.
      tables: the scheme's grammar.
      prompt: Tokens[B, P], padded on the left. budget: int32[B], tokens within which a row's text
        must end; with a budget above M, a text may be cut off before its end.
      end_ids: int32[B, E], ids that end a text, padded with −1.
      length_penalty: beams are ranked by score / length^α; 0 ranks by the sum of log masses.
      source: Tokens[B, S], the encoder's input, one for all beams of a row; None for models without an encoder.
      head: name of the head that predicts tokens. max_tokens: M. width: W. num_id: id of [NUM].
    """
    rows = prompt.ids.shape[0]
    lengths = jnp.repeat((prompt.segment_ids > 0).sum(axis=1), width)
    param_tables = model.apply({"params": params}, method="tables")
    cache = sample.make_cache(model, params, source, rows, prompt.ids.shape[1] + max_tokens * width, param_tables)
    outs, cache = _step(model, params, prompt, cache, param_tables)
    row_of_beam = jnp.repeat(jnp.arange(rows), width)  # every beam starts as its row
    weights = dict(outs[head].weights)
    ends = jnp.asarray(end_ids)[row_of_beam]  # [B · W, E]

    producers = channels.find_producers(prompt, model.producers())
    no_numeral = sample.make_no_numeral(model, prompt, width)

    def choose(
        hidden: jax.Array, grammar_state: automaton.GrammarState, states: Any, step: jax.Array, beams: Beams
    ) -> Any:
        """Chooses the best W of each row's candidates: (beams, their parents among the B · W, grammar state, token,
        numeral, vector, the states of the channels' producers, the channels' values)."""
        remaining = jnp.repeat(budget, width) - step
        is_legal = automaton.token_mask(automaton.allowed_tokens(tables, grammar_state, remaining))
        is_ended, score = beams.ended.reshape(-1), beams.score.reshape(-1)
        is_live = ~is_ended & (remaining > 0) & (score > -jnp.inf)
        is_stuck = is_live & ~is_legal.any(-1)  # the text has ended and cannot continue
        continues = is_live & ~is_stuck
        out = outs[head]._replace(hidden=hidden, weights=weights)
        scores = model.heads[head].step_scores(out, is_legal | ~continues[:, None])
        mass = jnp.where(is_legal, scores.mass, -jnp.inf)
        n_candidates = min(width, mass.shape[-1])
        tokens, gains = find_best(mass, n_candidates)
        # A finished beam has one candidate: itself, unchanged.
        own_gains = jnp.where(jnp.arange(n_candidates) == 0, 0.0, -jnp.inf)
        gains = jnp.where(continues[:, None], gains, own_gains)
        tokens = jnp.where(continues[:, None], tokens, 0)
        length = (beams.length.reshape(-1) + continues)[:, None]
        totals = score[:, None] + gains
        ranks = totals / jnp.maximum(length, 1).astype(jnp.float32) ** length_penalty
        ranks = jnp.where(totals > -jnp.inf, ranks, -jnp.inf)
        _, picked = jax.lax.top_k(ranks.reshape(rows, width * n_candidates), width)
        parents = (picked // n_candidates + width * jnp.arange(rows)[:, None]).reshape(-1)

        def pick(x):  # picks from candidates; each row of x holds those of a beam
            return jnp.take_along_axis(x.reshape(rows, -1), picked, axis=1).reshape(-1)

        token, gain, writes = pick(tokens), pick(gains), continues[parents]
        numeral, estimate, vector = jax.tree.map(lambda x: x[parents], scores[1:])
        if numeral is not None:
            numeral = numeral._replace(valid=writes & (token == num_id))

        def put(old: Any, new: Any) -> Any:
            return jax.tree.map(lambda x, y: _put(_take_parents(x, parents), y, step), old, new)

        at_end = writes & (token[:, None] == ends).any(-1)
        beams = Beams(
            ids=_put(_take_parents(beams.ids, parents), token, step),
            length=_reshape_like(beams.length, beams.length.reshape(-1)[parents] + writes),
            log_prob=_put(_take_parents(beams.log_prob, parents), jnp.where(writes, gain, 0.0), step),
            score=_reshape_like(beams.score, pick(totals)),
            numerals=put(beams.numerals, numeral),
            estimates=put(beams.estimates, estimate),
            ended=_reshape_like(beams.ended, (is_ended | is_stuck)[parents] | at_end),
        )
        parent_grammar_state, parent_states = jax.tree.map(lambda x: x[parents], (grammar_state, states))
        next_states, values = channels.step(
            producers, parent_states, token, channels.AutomatonState(tables, parent_grammar_state)
        )
        new = automaton.step(tables, parent_grammar_state, token), next_states
        grammar_state, states = channels.keep_where(writes, new, (parent_grammar_state, parent_states))
        return beams, parents, grammar_state, token, numeral, vector, states, values

    def body(loop: _BeamState) -> _BeamState:
        positions = lengths + loop.step - 1
        last_numeral = no_numeral if loop.numeral is None else loop.numeral
        tokens = sample.make_step_tokens(loop.token, last_numeral, loop.values, positions, num_id, loop.vector)
        # Beam w of every row writes to the same slot.
        slot = loop.cache.length + jnp.tile(jnp.arange(width), rows)
        past = loop.past | (jnp.arange(loop.past.shape[1]) == slot[:, None])
        cache = loop.cache._replace(visible=past.reshape(rows, width, -1))
        step_outs, cache = _step(model, params, put_side_by_side(tokens, rows), cache, param_tables)
        hidden = step_outs[head].hidden.reshape(rows * width, -1)
        beams, parents, grammar_state, *inputs = choose(
            hidden, loop.grammar_state, loop.states, loop.step, loop.beams
        )
        return _BeamState(loop.step + 1, beams, cache, past[parents], grammar_state, *inputs)

    def is_running(loop: _BeamState) -> jax.Array:
        beams = loop.beams
        return (loop.step < max_tokens) & (
            ~beams.ended & (beams.score > -jnp.inf) & (loop.step < budget[:, None])
        ).any()

    states = channels.read_prompt(
        producers, sample.start_automaton(tables, prompt, source), prompt.ids, prompt.segment_ids > 0
    )
    grammar_state, states = jax.tree.map(
        lambda x: x[row_of_beam], (sample.read_prompt(tables, prompt, source), states)
    )
    hidden = outs[head].hidden[:, -1][row_of_beam]
    beams, _, grammar_state, *inputs = choose(
        hidden,
        grammar_state,
        states,
        jnp.int32(0),
        _make_empty_beams(model.heads[head], outs[head], rows, width, max_tokens),
    )
    loop = _BeamState(jnp.int32(1), beams, cache, cache.valid[row_of_beam], grammar_state, *inputs)
    return jax.lax.while_loop(is_running, body, loop).beams


def take_rank(beams: Beams, rank: int) -> sample.Generated:
    """The beam at `rank` of each row, 0 for the best."""
    ranked = jax.tree.map(lambda x: x[:, rank], beams)
    return sample.Generated(
        ranked.ids, ranked.length, ranked.log_prob, ranked.numerals, ranked.estimates, ranked.ended
    )


def _step(model: Model, params: Any, tokens: Tokens, cache: Cache, param_tables: Any) -> tuple[Any, Cache]:
    return model.apply({"params": params}, tokens, cache, param_tables, method="step")  # type: ignore[return-value]


def find_best(mass_BV: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """(ids, masses) of the `count` likeliest tokens of each row, [B, count]; of equals the first comes first."""
    blocks = mass_BV.shape[-1] // BLOCK
    if count > 8 or blocks <= count or mass_BV.shape[-1] % BLOCK:
        return _find_top(mass_BV, count)
    # They are in the `count` blocks with the largest maxima, so the vocabulary is read once. The blocks keep their
    # order, so that of equals the first comes first.
    mass_BNK = mass_BV.reshape(-1, blocks, BLOCK)
    # A block without a legal token stays above one that is taken, so that none is taken twice.
    maxima_BN = jnp.maximum(mass_BNK.max(-1), jnp.finfo(mass_BV.dtype).min)
    best_blocks = jnp.sort(_find_top(maxima_BN, count)[0], axis=-1)
    candidates = jnp.take_along_axis(mass_BNK, best_blocks[..., None], axis=1).reshape(len(best_blocks), -1)
    indices, masses = _find_top(candidates, count)
    return jnp.take_along_axis(best_blocks, indices // BLOCK, axis=1) * BLOCK + indices % BLOCK, masses


def _find_top(mass_BV, count):
    if count > 8:
        masses, ids = jax.lax.top_k(mass_BV, count)
        return ids.astype(jnp.int32), masses
    # On CPU a few vectorized reductions are many times faster than a sort.
    ids, masses, all_ids = [], [], jnp.arange(mass_BV.shape[-1])
    for _ in range(count):
        masses.append(mass_BV.max(axis=-1))
        ids.append(sample.find_likeliest(mass_BV))
        mass_BV = jnp.where(all_ids == ids[-1][:, None], -jnp.inf, mass_BV)
    return jnp.stack(ids, axis=1), jnp.stack(masses, axis=1)


def put_side_by_side(tokens: Tokens, rows: int) -> Tokens:
    """Reshapes Tokens[B · W, 1] to Tokens[B, W]."""
    tokens = jax.tree.map(lambda x: x.reshape(rows, -1, *x.shape[2:]), tokens)
    if tokens.numeral_index is None:
        return tokens
    # A row's numerals now include those of all its beams.
    index = jnp.where(tokens.numeral_index >= 0, jnp.arange(tokens.numeral_index.shape[1]), -1)
    return tokens._replace(numeral_index=index)


def _make_empty_beams(head: Any, out: HeadOut, rows: int, width: int, max_tokens: int) -> Beams:
    output = sample.make_empty_output(head, out, rows * width, max_tokens)

    def split(x):
        return x.reshape(rows, width, *x.shape[1:])

    # All beams of a row are the same at first: only one of them may continue.
    score = jnp.where(jnp.arange(width) == 0, 0.0, -jnp.inf)
    return Beams(
        ids=split(output.ids),
        length=split(output.length),
        log_prob=split(output.log_prob),
        score=jnp.broadcast_to(score, (rows, width)),
        numerals=jax.tree.map(split, output.numerals),
        estimates=jax.tree.map(split, output.estimates),
        ended=split(output.ended),
    )


def _take_parents(x: jax.Array, parents: jax.Array) -> jax.Array:
    return x.reshape(-1, *x.shape[2:])[parents].reshape(x.shape)


def _put(x: jax.Array, new: jax.Array, step: jax.Array) -> jax.Array:
    """Writes new[B · W, …] into x[B, W, M, …] at position `step`."""
    return jax.lax.dynamic_update_index_in_dim(x, new.astype(x.dtype).reshape(*x.shape[:2], *x.shape[3:]), step, 2)


def _reshape_like(x: jax.Array, flat: jax.Array) -> jax.Array:
    return flat.astype(x.dtype).reshape(x.shape)
