"""Greedy and sampled generation: one jitted program for prompt, cache, grammar and numerals.

Legend: B rows, P positions of the prompts (padded on the left), M max_tokens tokens to generate, V vocabulary,
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
from numjax.types import Estimate, Grammar, HeadOut, Numeral, Scores, Tokens


class Forced(NamedTuple):
    """Tokens that are written already: the decoder takes them instead of its own choice. They follow the grammar,
    since where it leaves no choice the decoder takes the only token.

    Attributes:
      ids: int32[B, M]. count: int32[B], how many of a row's first tokens are forced.
      numerals: Numeral[B, M] of the [NUM]s among them; None for models that spell numbers.
    """

    ids: jax.Array
    count: jax.Array
    numerals: Numeral | None


class Request(NamedTuple):
    """The prompts to continue, and how to sample.

    Attributes:
      prompt: Tokens[B, P], padded on the left (segment id 0), every row with at least one position.
      budget: int32[B], the most tokens to generate for a row, `first` included; beyond M it is M.
      keys: key[B], for sampling. What is drawn for a row depends on its own key alone, not on the other rows.
      temperature: 0 and below is greedy. top_k: 0 keeps all; top_p: 1 keeps all.
      source: Tokens[B, S], the encoder's input, padded on the right; None for models without an encoder.
      forced: how the continuations begin; None: as the model chooses.
      quorum: int32[]: the loop stops when no more than so many rows have tokens left to generate; these have fewer
        tokens than their budget and have not ended. None: it stops when no row has.
    """

    prompt: Tokens
    budget: jax.Array
    keys: jax.Array
    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    source: Tokens | None = None
    forced: Forced | None = None
    quorum: jax.Array | None = None


class Generated(NamedTuple):
    """The generated texts.

    Attributes:
      ids: int32[B, M], `end_id` included, 0 behind it.
      length: int32[B].
      log_prob: float32[B, M], the model's log mass of each token under the grammar, at temperature 1.
      numerals: Numeral[B, M] as predicted, valid at [NUM]; None for models that spell numbers.
      estimates: Estimate[B, M] of the numerals; None if numbers are exact.
      ended: bool[B], False if the budget ran out first, or the loop stopped, see `Request.quorum`.
      hidden: [B, M, D], the head's hidden states from which each token was chosen; None unless asked for.
    """

    ids: jax.Array
    length: jax.Array
    log_prob: jax.Array
    numerals: Numeral | None
    estimates: Estimate | None
    ended: jax.Array
    hidden: jax.Array | None = None


class _SampleState(NamedTuple):
    """The loop's state after `step` generated tokens; `token`, `numeral`, `vector` and `values` (of channels) are the
    input of the next step; `states` are those of the channels' producers."""

    step: jax.Array
    output: Generated
    cache: Any
    grammar_state: automaton.GrammarState
    token: jax.Array
    numeral: Numeral | None
    vector: jax.Array | None
    states: Any
    values: dict[str, jax.Array]


@functools.partial(
    jax.jit, static_argnames=("model", "head", "max_tokens", "num_id", "end_id", "greedy", "keep_hidden", "first")
)
def generate(
    model: Model,
    params: Any,
    tables: Grammar,
    request: Request,
    *,
    head: str,
    max_tokens: int,
    num_id: int,
    end_id: int,
    greedy: bool,
    keep_hidden: bool = False,
    first: tuple[int, ...] = (),
) -> Generated:
    """Continues every row of a batch. It compiles once per (B, P, max_tokens), `first` and shape of the grammar. A
    source is encoded once, before the loop.

    Args:
      model: with unscanned layers. params: its parameters.
      tables: the scheme's grammar; it masks every token, and with the budget ensures that every text can end.
      request: see `Request`.
      head: name of the head that predicts tokens.
      max_tokens: M.
      num_id, end_id: ids of [NUM] and of the end.
      greedy: static, so that greedy programs contain no sorting.
      keep_hidden: also return the hidden states.
      first: tokens with which every text begins, fewer than M and than any budget, as `grammar.list_first_tokens` has
        them; they are read with the prompt, which takes no step of their own. Forced texts begin with them too.
    """
    request = request._replace(budget=jnp.minimum(request.budget, max_tokens))
    prompt, rows = request.prompt, request.prompt.ids.shape[0]
    lengths = (prompt.segment_ids > 0).sum(axis=1)
    param_tables = model.apply({"params": params}, method="tables")
    cache = make_cache(model, params, request.source, rows, prompt.ids.shape[1] + max_tokens, param_tables)
    grammar_state = read_prompt(tables, prompt, request.source)
    producers = channels.find_producers(prompt, model.producers())
    states = channels.read_prompt(
        producers, start_automaton(tables, prompt, request.source), prompt.ids, prompt.segment_ids > 0
    )
    no_numeral = make_no_numeral(model, prompt)
    for i, token in enumerate(first):
        ids, before = jnp.full(rows, token, jnp.int32), channels.AutomatonState(tables, grammar_state)
        states, values = channels.step(producers, states, ids, before)
        grammar_state = automaton.step(tables, grammar_state, ids)
        prompt = _append(prompt, make_step_tokens(ids, no_numeral, values, lengths + i, num_id))
    outs, cache = model.apply({"params": params}, prompt, cache, param_tables, method="step")

    # The weights depend only on parameters: computed once here, not in the loop.
    weights = dict(outs[head].weights)
    if (kernel := outs[head].weights.get("kernel")) is not None:
        weights["turned"] = cross_entropy.transpose_kernel(kernel.astype(outs[head].hidden.dtype), rows, max_tokens)

    def choose(
        out: HeadOut, grammar_state: automaton.GrammarState, states: Any, step: jax.Array, output: Generated
    ) -> Any:
        """Chooses the next token of every row from the last position's hidden state: (output, and the fields of
        `_SampleState` behind its cache)."""
        out = out._replace(hidden=out.hidden[:, -1], weights={**out.weights, **weights})
        is_legal = automaton.token_mask(automaton.allowed_tokens(tables, grammar_state, request.budget - step))
        is_live = ~output.ended & (step < request.budget)
        is_stuck = is_live & ~is_legal.any(axis=-1)  # the text has ended and cannot continue
        continues = is_live & ~is_stuck
        # A finished row needs some legal token for a finite softmax; its choice is dropped.
        is_legal = is_legal | ~continues[:, None]
        scores = model.heads[head].step_scores(out, is_legal)
        if greedy:
            token = find_likeliest(scores.mass)
        else:
            keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, step)))(request.keys)
            tempered = scores.mass / jnp.maximum(request.temperature, 1e-6)
            tempered = filter_logits(tempered, request.top_k, request.top_p)
            token = jax.vmap(jax.random.categorical)(keys[:, 0], tempered).astype(jnp.int32)
            scores = _draw_numbers(model.heads[head], out, keys[:, 1])._replace(mass=scores.mass)
        mass, numeral, estimate, vector = scores
        if request.forced is not None:
            token, numeral = _force(request.forced, step, token, numeral)
        token = jnp.where(continues, token, 0)
        log_prob = jnp.where(continues, jnp.take_along_axis(mass, token[:, None], axis=1)[:, 0], 0.0)
        if numeral is not None:
            numeral = numeral._replace(valid=continues & (token == num_id))

        def put(old: Any, new: Any) -> Any:
            return jax.tree.map(lambda x, y: _put(x, y, step), old, new)

        output = Generated(
            ids=_put(output.ids, token, step),
            length=output.length + continues,
            log_prob=_put(output.log_prob, log_prob, step),
            numerals=put(output.numerals, numeral),
            estimates=put(output.estimates, estimate),
            ended=output.ended | is_stuck | (continues & (token == end_id)),
            hidden=None if output.hidden is None else _put(output.hidden, out.hidden, step),
        )
        next_states, values = channels.step(producers, states, token, channels.AutomatonState(tables, grammar_state))
        new = automaton.step(tables, grammar_state, token), next_states
        grammar_state, states = channels.keep_where(continues, new, (grammar_state, states))
        return output, grammar_state, token, numeral, vector, states, values

    def body(loop: _SampleState) -> _SampleState:
        last_numeral = no_numeral if loop.numeral is None else loop.numeral
        tokens = make_step_tokens(loop.token, last_numeral, loop.values, lengths + loop.step - 1, num_id, loop.vector)
        outs, cache = model.apply({"params": params}, tokens, loop.cache, param_tables, method="step")
        output, *inputs = choose(outs[head], loop.grammar_state, loop.states, loop.step, loop.output)
        return _SampleState(loop.step + 1, output, cache, *inputs)

    endings = None if keep_hidden else automaton.find_endings(tables, end_id, num_id)

    def is_running(loop: _SampleState) -> jax.Array:
        runs = ~loop.output.ended & (loop.step < request.budget)
        if endings is not None:
            runs &= ~_is_ending(endings, loop, request.budget)
        return runs.sum() > (0 if request.quorum is None else request.quorum)

    empty_output = make_empty_output(model.heads[head], outs[head], rows, max_tokens)
    if keep_hidden:
        hidden = outs[head].hidden
        empty_output = empty_output._replace(hidden=jnp.zeros((rows, max_tokens, hidden.shape[-1]), hidden.dtype))
    if first:
        ids = empty_output.ids.at[:, : len(first)].set(jnp.asarray(first))
        empty_output = empty_output._replace(ids=ids, length=empty_output.length + len(first))
    output, *inputs = choose(outs[head], grammar_state, states, jnp.int32(len(first)), empty_output)
    loop = _SampleState(jnp.int32(len(first) + 1), output, cache, *inputs)
    loop = jax.lax.while_loop(is_running, body, loop)
    return loop.output if endings is None else _end_texts(endings, tables, loop, request.budget, end_id)


def _is_ending(endings: automaton.Endings, loop: _SampleState, budget: jax.Array) -> jax.Array:
    """Whether the text of a row has not ended, and ends within its budget without a choice, bool[B]."""
    length = endings.length[loop.grammar_state.state]
    return ~loop.output.ended & (length > 0) & (length <= budget - loop.step)


def _end_texts(
    endings: automaton.Endings, tables: Grammar, loop: _SampleState, budget: jax.Array, end_id: int
) -> Generated:
    """The output with the endings of all texts that have no choice left: their mass is 1, so no model is needed."""

    def body(loop: _SampleState) -> _SampleState:
        output, ends = loop.output, _is_ending(endings, loop, budget)
        token = jnp.where(ends, endings.token[loop.grammar_state.state], 0)
        stepped = automaton.step(tables, loop.grammar_state, token)
        output = output._replace(
            ids=_put(output.ids, token, loop.step),
            length=output.length + ends,
            ended=output.ended | (ends & (token == end_id)),
        )
        grammar_state = channels.keep_where(ends, stepped, loop.grammar_state)
        return loop._replace(step=loop.step + 1, output=output, grammar_state=grammar_state)

    return jax.lax.while_loop(lambda loop: _is_ending(endings, loop, budget).any(), body, loop).output


def _draw_numbers(head: Any, out: HeadOut, keys: jax.Array) -> Scores:
    """The scores of each row with a number that is drawn with its key."""

    def draw(hidden: jax.Array, key: jax.Array) -> Scores:
        return jax.tree.map(lambda x: x[0], head.step_scores(out._replace(hidden=hidden[None]), None, key))

    return jax.vmap(draw)(out.hidden, keys)


def _force(
    forced: Forced, step: jax.Array, token: jax.Array, numeral: Numeral | None
) -> tuple[jax.Array, Numeral | None]:
    """(token, numeral) of a step, those of `forced` where a row has one."""
    is_forced = step < forced.count

    def pick(table: jax.Array, own: jax.Array) -> jax.Array:
        here = jax.lax.dynamic_index_in_dim(table, step, 1, keepdims=False).astype(own.dtype)
        return jnp.where(is_forced.reshape((-1,) + (1,) * (own.ndim - 1)), here, own)

    if numeral is not None and forced.numerals is not None:
        numeral = jax.tree.map(pick, forced.numerals, numeral)
    return pick(forced.ids, token), numeral


def make_cache(model: Model, params: Any, source: Tokens | None, rows: int, slots: int, param_tables: Any) -> Any:
    """An empty cache of so many slots, with the keys and values of the source if there is one."""
    cache = model.backbone.init_cache(rows, slots)
    return (
        cache if source is None else model.apply({"params": params}, source, cache, param_tables, method="remember")
    )


def read_prompt(tables: Grammar, prompt: Tokens, source: Tokens | None = None) -> automaton.GrammarState:
    """The automaton's state after a prompt; the state in which an answer begins, if the grammar has one
    (`Grammar.answer`).

    As in training, all nodes of the prompt are counted (see `Grammar.counted`) except the node that its last token
    closes: from there on the generator's rule applies.
    """
    ids, valid = prompt.ids, prompt.segment_ids > 0

    def read() -> automaton.GrammarState:
        counting_tables, grammar_state = start_automaton(tables, prompt, source)
        grammar_state = automaton.read_prompt(counting_tables, grammar_state, ids[:, :-1], valid[:, :-1])
        return automaton.step(tables, grammar_state, ids[:, -1])

    def skip() -> automaton.GrammarState:
        grammar_state = automaton.recall(tables, automaton.init(tables, len(ids), source), ids, valid)
        return automaton.begin_answer(tables, grammar_state)

    # An answer begins in the same state whatever the prompt, which then need not be read token by token.
    return jax.lax.cond(jnp.asarray(tables.answer) >= 0, skip, read)


def start_automaton(tables: Grammar, prompt: Tokens, source: Tokens | None) -> channels.AutomatonState:
    """The automaton before a prompt, with tables that count all nodes."""
    counting_tables = tables._replace(counted=jnp.ones_like(tables.counted))
    return channels.AutomatonState(counting_tables, automaton.init(tables, len(prompt.ids), source))


def make_no_numeral(model: Model, prompt: Tokens, width: int = 1) -> Numeral | None:
    """Numeral[B · W] without a number, for a model that reads numbers of the prompt and spells those that it writes;
    None for others."""
    if prompt.numerals is None or not model.reads_numerals:
        return None
    return jax.tree.map(lambda x: jnp.zeros((len(x) * width, *x.shape[2:]), x.dtype), prompt.numerals)


def make_step_tokens(
    token: jax.Array,
    numeral: Numeral | None,
    values: Mapping[str, jax.Array],
    positions: jax.Array,
    num_id: int,
    vector: jax.Array | None = None,
) -> Tokens:
    """The input of the next step: tokens int32[B] with their channels' values at positions int32[B]; `vector`
    [B, D]: as in `Scores`."""
    index = None
    if numeral is not None:
        index = jnp.where(token == num_id, 0, -1)[:, None]
        numeral = jax.tree.map(lambda x: x[:, None], numeral)
    return Tokens(
        ids=token[:, None],
        positions=positions[:, None],
        segment_ids=jnp.ones((len(token), 1), jnp.int32),
        channels={name: value[:, None] for name, value in values.items()},
        numeral_index=index,
        numerals=numeral,
        vectors=None if vector is None else vector[:, None],
    )


def _append(prompt: Tokens, step: Tokens) -> Tokens:
    """A prompt with one more position in every row, that of `make_step_tokens`, which holds no number."""
    names = ("ids", "positions", "segment_ids")
    joined = {name: jnp.concatenate([getattr(prompt, name), getattr(step, name)], axis=1) for name in names}
    for name in ("numeral_index", "distinct_index"):
        if (index := getattr(prompt, name)) is not None:
            joined[name] = jnp.pad(index, [(0, 0), (0, 1)], constant_values=-1)
    values = {
        name: jnp.concatenate([column, step.channels[name]], axis=1) for name, column in prompt.channels.items()
    }
    return prompt._replace(**joined, channels=values)


def find_likeliest(mass_BV: jax.Array) -> jax.Array:
    """`argmax` over the vocabulary by two reductions, which are vectorized; one reduction of pairs is not."""
    ids = jnp.arange(mass_BV.shape[-1], dtype=jnp.int32)
    first = jnp.where(mass_BV == mass_BV.max(axis=-1, keepdims=True), ids, ids[-1])
    return first.min(axis=-1)


def filter_logits(logits_BV: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Keeps the `top_k` largest logits (0: all), and of those the smallest set that holds `top_p` of the mass; the
    rest are forbidden. The likeliest token is always kept; ties at the border are kept together."""
    descending = jnp.sort(logits_BV, axis=-1)[:, ::-1]
    ranks = jnp.arange(logits_BV.shape[-1])
    is_kept = jnp.where(top_k > 0, ranks < top_k, True)[None]
    mass = jax.nn.softmax(jnp.where(is_kept, descending, FORBIDDEN), axis=-1)
    mass_before = jnp.cumsum(mass, axis=-1) - mass
    # Rounding may make the mass before the tail 1; top_p = 1 still keeps all.
    is_kept = is_kept & ((mass_before < top_p) | (ranks == 0) | (top_p >= 1))
    least = jnp.min(jnp.where(is_kept, descending, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(logits_BV >= least, logits_BV, FORBIDDEN)


def make_empty_output(head: Any, out: HeadOut, rows: int, max_tokens: int) -> Generated:
    """The output before the first token.

    Args:
      out: the head's output at any positions; it determines the shapes of the numbers in `step_scores`.
    """
    scores = jax.eval_shape(lambda out: head.step_scores(out._replace(hidden=out.hidden[:, -1])), out)
    numerals, estimates = jax.tree.map(
        lambda x: jnp.zeros((rows, max_tokens, *x.shape[1:]), x.dtype), (scores.numeral, scores.estimate)
    )
    return Generated(
        ids=jnp.zeros((rows, max_tokens), jnp.int32),
        length=jnp.zeros(rows, jnp.int32),
        log_prob=jnp.zeros((rows, max_tokens), jnp.float32),
        numerals=numerals,
        estimates=estimates,
        ended=jnp.zeros(rows, bool),
    )


def _put(old: jax.Array, new: jax.Array, step: jax.Array) -> jax.Array:
    """Writes new[B, …] into old[B, M, …] at position `step`."""
    return jax.lax.dynamic_update_index_in_dim(old, new.astype(old.dtype), step, 1)
