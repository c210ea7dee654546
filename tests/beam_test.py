"""Beam search against searches that are slow and sure."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.decode import beam, sample
from numjax.evals import generate as evals
from numjax.model import Model
from numjax.text.grammar import automaton as grammars
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.types import NEXT, POP, PUSH, Batch, Tokens
from tests import drawn
from tests.decode_test import parts, row

A, B, OPEN, SHUT, EOS = range(5)
V, ROOM, MOST = 8, 6, 5


def grammar():
    """Letters and brackets that hold at most two of either, three deep."""
    edges = [
        Edge("out", [A, B], "out"),
        Edge("out", [OPEN], "in", PUSH, "out", token_type=1),
        Edge("in", [A, B], "in", NEXT, token_type=2),
        Edge("in", [OPEN], "in", PUSH, "in", token_type=1),
        Edge("in", [SHUT], op=POP, token_type=1),
        Edge("out", [EOS], "end"),
    ]
    return tables.build(V, edges, "out", ("out", "end"), placed=("in",), max_depth=3, max_width=2)


@pytest.fixture(scope="module")
def model():
    """A random model that reads types and tree positions."""
    known = dict(vocab_size=V, size=5, width=16, dim=16, num_id=-1)
    embeds = {
        "token": build("embed", {"name": "token", "init_std": 1.0}, **known),
        "type": build("embed", {"name": "token_type", "init_std": 1.0, "types": 3}, **known),
    }
    backbone = drawn.stack(
        dict(name="decoder", width=16, layers=2, heads=2, max_length=32, init_std=0.4),
        drawn.LEARNED | {"tree": {"name": "tree", "levels": 4, "bits": 2, "init_std": 1.0}},
    )
    head = build("heads", {"name": "token", "tied": False, "init_std": 1.0}, **known)
    made = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    return made, jax.tree.map(jnp.asarray, grammar())


def prompts(lists, room=ROOM):
    """Rows padded on the left, with types and positions as the host's automaton has them."""
    shape = (len(lists), room)
    ids, positions, segments, types = (np.zeros(shape, np.int32) for _ in range(4))
    places = np.full((*shape, 4), -1, np.int32)
    for b, row_ in enumerate(lists):
        at = slice(room - len(row_), room)
        trace = grammars.run(grammar(), row_)
        assert trace.types is not None and trace.tree_positions is not None
        ids[b, at], positions[b, at], segments[b, at] = row_, np.arange(len(row_)), 1
        types[b, at], places[b, at] = trace.types, trace.tree_positions
    return Tokens(ids, positions, segments, channels={"types": types, "tree_positions": places})


# One program each for all tests: what they cost is compilation.
@functools.partial(jax.jit, static_argnums=0)
def logits_of(made, params, tokens):
    # A row's padding is a segment of its own, which the texts behind it do not see.
    outs, _ = made.apply({"params": params}, Batch(tokens))
    return outs["next"].hidden[0, -1] @ outs["next"].weights["kernel"].T


@functools.partial(jax.jit, static_argnums=0)
def random_params(made, key):
    return made.init(key, Batch(prompts([[A]])))["params"]


def everything(made, params, prompt, budget):
    """log p of every whole continuation of a prompt, one pass a text, masked as the budget masks it."""
    host, found = grammars.Automaton(grammar()), {}

    def go(ids, place, score, written):
        if written == budget or ids[-1] == EOS:
            found[tuple(ids[len(prompt) :])] = score
            return
        logits = np.asarray(logits_of(made, params, prompts([ids], ROOM + MOST)), np.float64)
        logits = np.where(host.allowed(place, budget - written), logits, -np.inf)
        log_p = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        for token in np.flatnonzero(np.isfinite(log_p)):
            go([*ids, int(token)], host.step(place, int(token)), score + log_p[token], written + 1)

    place = host.start()
    for token in prompt:
        place = host.step(place, token)
    go(list(prompt), place, 0.0, 0)
    return found


def search(made, params, tables_, tokens, budget, width, **options):
    rows = len(budget)
    ends = jnp.full((rows, 1), EOS, jnp.int32)
    budget = jnp.asarray(budget, jnp.int32)
    found = beam.search(
        made, params, tables_, tokens, budget, ends, head="next", max_tokens=MOST, width=width, num_id=-1, **options
    )
    return jax.device_get(found)


def test_a_beam_as_wide_as_all_texts_is_exhaustive(model, rng):
    """Ragged prompts, some inside a node, each with its own budget: every text, its score, in order."""
    made, tables_ = model
    lists = [[A], [B, OPEN, A], [OPEN, OPEN, B, SHUT], [A, B, A, A]]
    budget = [2, 3, 4, 1]
    tokens = prompts(lists)
    params = random_params(made, jax.random.key(int(rng.integers(1 << 30))))
    found = search(made, params, tables_, tokens, budget, 64)
    for b, row_ in enumerate(lists):
        wanted = everything(made, params, row_, budget[b])
        assert 1 < len(wanted) < 64
        ranked = sorted(wanted.items(), key=lambda item: -item[1])
        np.testing.assert_allclose(sum(np.exp(list(wanted.values()))), 1, rtol=1e-6)
        got = {
            tuple(found.ids[b, w, : found.length[b, w]].tolist()): found.score[b, w]
            for w in range(64) if np.isfinite(found.score[b, w])
        }  # fmt: skip
        assert got.keys() == wanted.keys()
        for text, score in wanted.items():
            assert got[text] == pytest.approx(score, abs=1e-4)
        best = [found.score[b, w] for w in range(len(ranked))]
        np.testing.assert_allclose(best, [score for _, score in ranked], atol=1e-4)
        np.testing.assert_allclose(found.log_prob[b, : len(ranked)].sum(-1), best, atol=1e-5)


def test_the_length_penalty_ranks_all_texts_as_its_formula_does(model):
    """score / length^α over every text, from one token on; at several seeds another α has another winner."""
    made, tables_ = model
    prompt, budget = [A], 4
    winners: dict[int, set] = {}
    for seed in range(6):
        params = random_params(made, jax.random.key(seed))
        texts = everything(made, params, prompt, budget)
        assert {len(text) for text in texts} == {1, 2, 3, 4} and len(texts) <= 128
        for alpha in (-1.0, 0.0, 0.6, 1.0, 3.0):
            found = search(made, params, tables_, prompts([prompt]), [budget], 128, length_penalty=jnp.float32(alpha))
            ranked = sorted(texts, key=lambda text: -texts[text] / len(text) ** alpha)
            ranks = [texts[text] / len(text) ** alpha for text in ranked]
            got = [tuple(found.ids[0, w, : found.length[0, w]].tolist()) for w in range(len(ranked))]
            assert sorted(got) == sorted(ranked)
            np.testing.assert_allclose([texts[text] / len(text) ** alpha for text in got], ranks, atol=1e-4)
            assert got[0] == ranked[0] or ranks[0] - ranks[1] < 1e-4
            winners.setdefault(seed, set()).add(got[0])
    assert sum(len(texts) > 1 for texts in winners.values()) >= 2, "a penalty chooses other texts"


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_narrow_beam_keeps_the_best_of_each_step(model, rng, penalty):
    """As a loop over lists keeps them, every prefix scored by the exhaustive search's own passes."""
    made, tables_ = model
    row_, budget, width = [B, OPEN], 4, 3
    tokens = prompts([row_])
    params = random_params(made, jax.random.key(int(rng.integers(1 << 30))))
    wanted = everything(made, params, row_, budget)
    # The mass of a prefix is that of all its texts.
    prefix = {}
    for text, score in wanted.items():
        for n in range(len(text) + 1):
            prefix[text[:n]] = np.logaddexp(prefix.get(text[:n], -np.inf), score)
    beams = [()]
    for _ in range(budget):
        more = [b for b in beams if b in wanted]
        more += [p for p in prefix if p and p[:-1] in beams and p[:-1] not in wanted]
        beams = sorted(more, key=lambda p: -prefix[p] / max(len(p), 1) ** penalty)[:width]
    found = search(made, params, tables_, tokens, [budget], width, length_penalty=jnp.float32(penalty))
    got = [tuple(found.ids[0, w, : found.length[0, w]].tolist()) for w in range(len(beams))]
    assert got == beams
    np.testing.assert_allclose(found.score[0, : len(beams)], [prefix[p] for p in beams], atol=1e-4)


def test_one_beam_is_greedy_and_numbers_are_fed_back(rng):
    """On a model with a mixture head, whose numbers travel with their beams; alone, and in a ragged batch."""
    scheme, model, params, tables_ = parts("replace")
    tokens = evals.prompt_tokens([row(scheme, p) for p in ("3 cats and 40 birds", "no")], 32, 20)
    alone = jax.tree.map(lambda x: x[:1], tokens)
    known = dict(head="next", max_tokens=8, num_id=scheme.vocab.mark("[NUM]"))
    end, budget = scheme.vocab.mark("[EOS]"), jnp.asarray([8, 5], jnp.int32)
    request = sample.Request(alone, budget[:1], jax.random.key(0), jnp.float32(0), jnp.int32(0), jnp.float32(1))
    greedy = jax.device_get(sample.generate(model, params, tables_, request, end_id=end, greedy=True, **known))
    ends = jnp.full((2, 1), end, jnp.int32)
    one = beam.search(model, params, tables_, alone, budget[:1], ends[:1], width=1, **known)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), jax.device_get(beam.take_rank(one, 0)), greedy
    )
    three = jax.device_get(beam.search(model, params, tables_, tokens, budget, ends, width=3, **known))
    assert (three.score[:, :1] >= three.score).all() and three.score[0, 0] >= greedy.log_prob.sum() - 1e-4
    written = np.arange(8) < three.length[..., None]
    assert (three.length[1] <= 5).all() and three.numerals.valid.any()
    np.testing.assert_array_equal(three.numerals.valid, (three.ids == known["num_id"]) & written)


@pytest.mark.parametrize("size", [50, 1024, 5 * beam.BLOCK + 7], ids=["narrow", "blocks", "not in blocks"])
def test_the_likeliest_are_a_stable_sort_of_all(rng, size):
    """In blocks or not, with many equals and with whole rows forbidden but for one."""
    for count in (1, 3, 8, 9):
        mass = rng.integers(0, 6, (16, size)).astype(np.float32)
        mass[0], mass[1] = -np.inf, 1.0
        mass[0, size - 1] = 0.0
        mass[2, : size // 2] = -np.inf
        ids, found = jax.jit(beam.find_best, static_argnums=1)(mass, count)
        order = np.argsort(-mass, axis=1, kind="stable")[:, :count]
        masses = np.take_along_axis(mass, order, 1)
        np.testing.assert_array_equal(found, masses)
        real = masses > -np.inf  # which of the forbidden are named does not matter
        np.testing.assert_array_equal(np.where(real, ids, 0), np.where(real, order, 0))
