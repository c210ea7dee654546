"""The value-aware prefix: the value of a number before its digits, and the projection that stands in while it is
written."""

from __future__ import annotations

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.decode import beam, sample
from numjax.decode import grammar as automaton
from numjax.evals.requests import prompt_tokens
from numjax.model import Model
from numjax.pipeline.features import from_features
from numjax.text import vocab as vocabularies
from numjax.text.value_prefix import Scheme
from numjax.types import Batch, Mark, Number, Targets, Tokens
from tests import drawn

WIDTH, MOST, ROOM = 32, 14, 24
PROMPTS = ["12 + 7", "5", "is 3 or -4.5"]


@functools.cache
def build_parts():
    """Builds (scheme, model, random parameters, tables)."""
    scheme = Scheme(vocabularies.build({"name": "sentencepiece", "size": 300}, ["12 + 30 = 42", "is 3 or 4.5"]))
    context = {
        "vocab_size": scheme.vocab_size, "size": scheme.vocab.size, "num_id": scheme.vocab.mark("[NUM]"),
        "width": WIDTH, "dim": WIDTH, "digits": 20,
    }  # fmt: skip
    embeds = {"token": build("embed", {"name": "token", "init_std": 0.3}, **context)}
    embeds["numeral"] = build("embed", {"name": "value_mlp"}, **context)
    backbone = drawn.build_backbone(dict(name="decoder", width=WIDTH, layers=2, heads=2, max_length=64, init_std=0.2))
    head = build("heads", {"name": "prefix", "tied": False, "init_std": 0.5}, **context)
    model = Model(FrozenDict(embeds), FrozenDict(numeral="add"), backbone, FrozenDict(next=head))
    params = jax.jit(lambda: model.init(jax.random.key(2), Batch(read_prompts(scheme, PROMPTS)))["params"])()
    return scheme, model, params, jax.tree.map(jnp.asarray, scheme.grammar())


def read_prompts(scheme, prompts) -> Tokens:
    rows = [from_features(scheme.encode((Mark("[CLS]"), *scheme.parse(p), Mark("[SEP]"))), 20) for p in prompts]
    return prompt_tokens(rows, ROOM, 20)


def run_search(params, prompts, width: int = 0, grammar=None):
    scheme, model, _, tables = build_parts()
    tables = tables if grammar is None else jax.tree.map(jnp.asarray, grammar)
    tokens, budget = read_prompts(scheme, prompts), jnp.full(len(prompts), MOST, jnp.int32)
    num_id, end_id = scheme.vocab.mark("[NUM]"), scheme.vocab.mark("[EOS]")
    if width:
        ends = jnp.full((len(prompts), 1), end_id)
        options = dict(head="next", max_tokens=MOST, width=width, num_id=num_id)
        return beam.take_rank(beam.search(model, params, tables, tokens, budget, ends, **options), 0)
    request = sample.Request(
        tokens,
        budget,
        jax.random.split(jax.random.key(0), len(prompts)),
        jnp.float32(0),
        jnp.int32(0),
        jnp.float32(1),
        source=None,
    )
    options = dict(head="next", max_tokens=MOST, num_id=num_id, end_id=end_id, greedy=True)
    return sample.generate(model, params, tables, request, **options)


def prefer_numbers(params):
    """The parameters with a head that begins with a number behind the prompts, and so behind much else."""
    scheme, model, *_ = build_parts()
    hidden = model.apply({"params": params}, Batch(read_prompts(scheme, PROMPTS)))[0]["next"].hidden[:, -1]
    kernel = np.array(params["heads_next"]["kernel"])
    kernel[scheme.vocab.mark("[F]")] = 2 * np.asarray(hidden).mean(0)
    return params | {"heads_next": params["heads_next"] | {"kernel": jnp.asarray(kernel)}}


@functools.cache
def make_functions():
    """Makes jitted (input vectors, hidden states and all of the head) of whole rows."""
    model = build_parts()[1]
    return (
        jax.jit(lambda params, tokens: model.apply({"params": params}, tokens, method="embed")),
        jax.jit(lambda params, tokens: model.apply({"params": params}, Batch(tokens))[0]["next"]),
    )


def write_slowly(params, prompt: str):
    """Returns (ids, log masses) of a greedy continuation, without a cache: all input vectors are made again for each
    token, with the projection of the hidden state before it at each [NUM] that was written."""
    scheme, model, _, tables = build_parts()
    embed, run = make_functions()
    read, room = read_prompts(scheme, [prompt]), 64
    num_id, end_id = scheme.vocab.mark("[NUM]"), scheme.vocab.mark("[EOS]")
    is_given = read.segment_ids[0] > 0
    state = automaton.read_prompt(tables, automaton.init(tables, 1), read.ids, is_given[None])
    inputs = np.asarray(embed(params, read))[0, is_given].tolist()
    ids, masses, weights = [], [], params["heads_next"]
    for step in range(MOST):
        count = len(inputs)
        whole = Tokens(
            np.zeros((1, room), np.int32), np.arange(room)[None], (np.arange(room) < count)[None].astype(np.int32),
            numeral_index=np.zeros((1, room), np.int32),  # so that every position has the vector that is given
            numerals=read.numerals, vectors=np.float32([inputs + [[0.0] * WIDTH] * (room - count)]),
        )  # fmt: skip
        out = run(params, whole)
        out = out._replace(hidden=out.hidden[:, count - 1])
        allowed = automaton.token_mask(automaton.allowed_tokens(tables, state, jnp.asarray([MOST - step])))
        mass = model.heads["next"].step_scores(out, allowed).mass
        token = int(mass.argmax())
        ids.append(token)
        masses.append(float(mass[0, token]))
        if token == end_id:
            break
        state = automaton.step(tables, state, jnp.asarray([token]))
        if token == num_id:
            vector = np.asarray(out.hidden[0], np.float64) @ weights["projection"] + weights["projection_bias"]
        else:
            vector = params["embeds_token"]["table"][token]
        inputs.append(np.asarray(vector, np.float64).tolist())
    return ids, masses


@pytest.mark.parametrize("width", [0, 1])
def test_the_projection_stands_in_for_the_value_of_a_number_that_is_written(width):
    scheme, _, params, _ = build_parts()
    params = prefer_numbers(params)
    result = jax.device_get(run_search(params, PROMPTS, width))
    n_numbers = 0
    for b, prompt in enumerate(PROMPTS):
        ids, masses = write_slowly(params, prompt)
        assert result.ids[b, : result.length[b]].tolist() == ids
        np.testing.assert_allclose(result.log_prob[b, : result.length[b]], masses, rtol=1e-3, atol=1e-4)
        n_numbers += ids.count(scheme.vocab.mark("[NUM]"))
    assert n_numbers > 1, "the test needs numbers that are written"


def test_each_beam_has_a_vector_of_its_own():
    """A search of some width finds a text at least as likely as the greedy one, with the masses of a slow loop."""
    _, _, params, _ = build_parts()
    params = prefer_numbers(params)
    greedy, best = (jax.device_get(run_search(params, PROMPTS, width)) for width in (0, 3))
    assert (best.log_prob.sum(1) >= greedy.log_prob.sum(1) - 1e-4).all()
    other = params | {"heads_next": params["heads_next"] | {"projection": -3 * params["heads_next"]["projection"]}}
    assert not np.allclose(jax.device_get(run_search(other, PROMPTS, 3)).log_prob, best.log_prob)


def test_an_answer_of_one_number_has_its_mark():
    scheme, _, params, _ = build_parts()
    result = jax.device_get(run_search(params, PROMPTS, grammar=scheme.answering("number").grammar()))
    for ids, length in zip(result.ids, result.length, strict=True):
        document = scheme.decode(ids[:length])
        assert [scheme.vocab.mark_name(i) for i in ids[1:3].tolist()] == ["[F]", "[NUM]"]
        assert len(document) == 3 and isinstance(document[1], Number) and document[2] == Mark("[EOS]")


def make_batch(rng):
    batch = drawn.draw_batch(rng, lengths=[[5, 3], [9], [4, 4]])
    model = drawn.build_model({"name": "value_mlp"}, {"name": "prefix"}, "add", layers=1)
    objective = build("objectives", {"name": "projection", "head": "next"}, **drawn.CONTEXT)
    return batch, model, drawn.draw_params(model, rng, batch), objective


def test_the_loss_is_the_squared_distance_of_the_next_input_vector(rng):
    batch, model, params, objective = make_batch(rng)
    outs, acts = model.apply({"params": params}, batch)
    loss = objective(model.heads, outs, acts, batch)
    hidden, x = (np.asarray(a, np.float64) for a in (outs["next"].hidden, acts["tokens"]))
    weights, total, count = params["heads_next"], 0.0, 0
    targets: Targets = batch.targets
    for b, t in np.argwhere(targets.mask & (targets.numeral_index >= 0)):
        projected = hidden[b, t] @ weights["projection"] + weights["projection_bias"]
        total, count = total + np.square(projected - x[b, t + 1]).mean(), count + 1
    assert count > 3 and loss.count == count
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)


def test_the_vectors_to_foresee_get_no_gradient(rng):
    """Of a model whose hidden states do not depend on its embeddings, only the projection learns."""
    batch, model, params, objective = make_batch(rng)
    outs, _ = model.apply({"params": params}, batch)

    def compute_loss(params):
        _, acts = model.apply({"params": params}, batch)
        fixed = jax.lax.stop_gradient(outs["next"].hidden)
        out = outs["next"]._replace(hidden=fixed, weights={**outs["next"].weights, **params["heads_next"]})
        return objective(model.heads, {"next": out}, acts, batch).total

    grads = jax.grad(compute_loss)(params)
    assert not any(np.any(g) for name, tree in grads.items() if name != "heads_next" for g in jax.tree.leaves(tree))
    assert all(np.any(grads["heads_next"][name]) for name in ("projection", "projection_bias"))


def test_a_text_that_is_cut_before_its_number_is_not_drawn_to_the_next_texts_vector(rng):
    """In a packed row, at the end of a row, and before padding."""
    num_id = 7
    targets = np.int32([[5, num_id, 6, num_id, num_id, 6], [num_id, 4, num_id, 0, 0, 0]])
    segments = np.int32([[1, 1, 1, 2, 2, 2], [1, 1, 1, 0, 0, 0]])
    targets[0, 2] = num_id  # the last target of the first text
    index = np.where(targets == num_id, 0, -1)
    vectors, projected = rng.standard_normal((2, 2, 6, 3)).astype(np.float32)
    tokens = Tokens(np.ones_like(targets), np.ones_like(targets), segments)
    batch = Batch(tokens, Targets(targets, segments > 0, index))
    head = types.SimpleNamespace(project=lambda out: projected)
    objective = build("objectives", {"name": "projection", "head": "next"}, num_id=num_id)
    loss = objective({"next": head}, {"next": None}, {"tokens": vectors}, batch)
    where = [(0, 1), (0, 3), (0, 4), (1, 0)]
    wanted = sum(np.square(projected[b, t] - vectors[b, t + 1]).mean() for b, t in where)
    assert loss.count == 4
    np.testing.assert_allclose(loss.total, wanted, rtol=1e-5)
