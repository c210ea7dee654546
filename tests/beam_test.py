"""Beam search against exhaustive search and slow loops."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.decode import beam, sample
from numjax.evals import requests
from numjax.model import Model
from numjax.text.grammar import automaton as grammars
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.types import NEXT, POP, PUSH, Batch, Tokens
from tests import drawn
from tests.decode_test import build_parts, make_row

A, B, OPEN, SHUT, EOS = range(5)
V, ROOM, MOST = 8, 6, 5


def make_grammar():
    """Builds a grammar of letters and of brackets, which hold at most two of either, three deep."""
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
    """A random model with types and tree positions, and its grammar's tables."""
    context = dict(vocab_size=V, size=5, width=16, dim=16, num_id=-1)
    embeds = {
        "token": build("embed", {"name": "token", "init_std": 1.0}, **context),
        "type": build("embed", {"name": "token_type", "init_std": 1.0, "types": 3}, **context),
    }
    backbone = drawn.build_backbone(
        dict(name="decoder", width=16, layers=2, heads=2, max_length=32, init_std=0.4),
        drawn.LEARNED_POSITIONS | {"tree": {"name": "tree", "levels": 4, "bits": 2, "init_std": 1.0}},
    )
    head = build("heads", {"name": "token", "tied": False, "init_std": 1.0}, **context)
    net = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    return net, jax.tree.map(jnp.asarray, make_grammar())


def make_prompts(lists, room=ROOM):
    """Makes rows padded on the left, with types and positions from the host's automaton."""
    shape = (len(lists), room)
    ids, positions, segments, types = (np.zeros(shape, np.int32) for _ in range(4))
    tree_positions = np.full((*shape, 4), -1, np.int32)
    for b, row in enumerate(lists):
        columns = slice(room - len(row), room)
        trace = grammars.run(make_grammar(), row)
        assert trace.types is not None and trace.tree_positions is not None
        ids[b, columns], positions[b, columns], segments[b, columns] = row, np.arange(len(row)), 1
        types[b, columns], tree_positions[b, columns] = trace.types, trace.tree_positions
    return Tokens(ids, positions, segments, channels={"types": types, "tree_positions": tree_positions})


# All tests share one program each, since compilation costs most of their time.
@functools.partial(jax.jit, static_argnums=0)
def compute_logits(net, params, tokens):
    # A row's padding is a segment of its own, which the text after it does not see.
    outs, _ = net.apply({"params": params}, Batch(tokens))
    return outs["next"].hidden[0, -1] @ outs["next"].weights["kernel"].T


@functools.partial(jax.jit, static_argnums=0)
def draw_params(net, key):
    return net.init(key, Batch(make_prompts([[A]])))["params"]


def score_all_texts(net, params, prompt, budget):
    """Returns {text: log p} for every whole continuation of a prompt: one pass a text, with the budget's masks."""
    automaton, scores = grammars.Automaton(make_grammar()), {}

    def visit(ids, state, score, n_written):
        if n_written == budget or ids[-1] == EOS:
            scores[tuple(ids[len(prompt) :])] = score
            return
        logits = np.asarray(compute_logits(net, params, make_prompts([ids], ROOM + MOST)), np.float64)
        logits = np.where(automaton.allowed(state, budget - n_written), logits, -np.inf)
        log_p = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        for token in np.flatnonzero(np.isfinite(log_p)):
            visit([*ids, int(token)], automaton.step(state, int(token)), score + log_p[token], n_written + 1)

    state = automaton.start()
    for token in prompt:
        state = automaton.step(state, token)
    visit(list(prompt), state, 0.0, 0)
    return scores


def search(net, params, tables_, tokens, budget, width, **options):
    rows = len(budget)
    ends = jnp.full((rows, 1), EOS, jnp.int32)
    budget = jnp.asarray(budget, jnp.int32)
    beams = beam.search(
        net, params, tables_, tokens, budget, ends, head="next", max_tokens=MOST, width=width, num_id=-1, **options
    )
    return jax.device_get(beams)


def test_a_beam_as_wide_as_all_texts_is_exhaustive(model, rng):
    """Ragged prompts, some inside a node, each with its own budget: every text, its score, in order."""
    net, tables_ = model
    lists = [[A], [B, OPEN, A], [OPEN, OPEN, B, SHUT], [A, B, A, A]]
    budget = [2, 3, 4, 1]
    tokens = make_prompts(lists)
    params = draw_params(net, jax.random.key(int(rng.integers(1 << 30))))
    beams = search(net, params, tables_, tokens, budget, 64)
    for b, row in enumerate(lists):
        wanted = score_all_texts(net, params, row, budget[b])
        assert 1 < len(wanted) < 64
        ranked = sorted(wanted.items(), key=lambda item: -item[1])
        np.testing.assert_allclose(sum(np.exp(list(wanted.values()))), 1, rtol=1e-6)
        scores = {
            tuple(beams.ids[b, w, : beams.length[b, w]].tolist()): beams.score[b, w]
            for w in range(64) if np.isfinite(beams.score[b, w])
        }  # fmt: skip
        assert scores.keys() == wanted.keys()
        for text, score in wanted.items():
            assert scores[text] == pytest.approx(score, abs=1e-4)
        best = [beams.score[b, w] for w in range(len(ranked))]
        np.testing.assert_allclose(best, [score for _, score in ranked], atol=1e-4)
        np.testing.assert_allclose(beams.log_prob[b, : len(ranked)].sum(-1), best, atol=1e-5)


def test_the_length_penalty_ranks_all_texts_as_its_formula_does(model):
    """The rank is by score / length^α over every text; for several seeds, another α has another winner."""
    net, tables_ = model
    prompt, budget = [A], 4
    winners: dict[int, set] = {}
    for seed in range(6):
        params = draw_params(net, jax.random.key(seed))
        texts = score_all_texts(net, params, prompt, budget)
        assert {len(text) for text in texts} == {1, 2, 3, 4} and len(texts) <= 128
        for alpha in (-1.0, 0.0, 0.6, 1.0, 3.0):
            beams = search(
                net, params, tables_, make_prompts([prompt]), [budget], 128, length_penalty=jnp.float32(alpha)
            )
            ranked = sorted(texts, key=lambda text: -texts[text] / len(text) ** alpha)
            ranks = [texts[text] / len(text) ** alpha for text in ranked]
            ranking = [tuple(beams.ids[0, w, : beams.length[0, w]].tolist()) for w in range(len(ranked))]
            assert sorted(ranking) == sorted(ranked)
            np.testing.assert_allclose([texts[text] / len(text) ** alpha for text in ranking], ranks, atol=1e-4)
            assert ranking[0] == ranked[0] or ranks[0] - ranks[1] < 1e-4
            winners.setdefault(seed, set()).add(ranking[0])
    assert sum(len(texts) > 1 for texts in winners.values()) >= 2, "another penalty chooses another text"


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_narrow_beam_keeps_the_best_of_each_step(model, rng, penalty):
    """A loop over lists keeps the same prefixes; the exhaustive search gives the score of each prefix."""
    net, tables_ = model
    row, budget, width = [B, OPEN], 4, 3
    tokens = make_prompts([row])
    params = draw_params(net, jax.random.key(int(rng.integers(1 << 30))))
    wanted = score_all_texts(net, params, row, budget)
    # The mass of a prefix is the sum over its texts.
    log_mass = {}
    for text, score in wanted.items():
        for n in range(len(text) + 1):
            log_mass[text[:n]] = np.logaddexp(log_mass.get(text[:n], -np.inf), score)
    beams = [()]
    for _ in range(budget):
        candidates = [b for b in beams if b in wanted]
        candidates += [p for p in log_mass if p and p[:-1] in beams and p[:-1] not in wanted]
        beams = sorted(candidates, key=lambda p: -log_mass[p] / max(len(p), 1) ** penalty)[:width]
    result = search(net, params, tables_, tokens, [budget], width, length_penalty=jnp.float32(penalty))
    texts = [tuple(result.ids[0, w, : result.length[0, w]].tolist()) for w in range(len(beams))]
    assert texts == beams
    np.testing.assert_allclose(result.score[0, : len(beams)], [log_mass[p] for p in beams], atol=1e-4)


def test_one_beam_is_greedy_and_numbers_are_fed_back(rng):
    """The model has a mixture head, whose numbers stay with their beams; for one row and for a ragged batch."""
    scheme, model, params, tables_ = build_parts("replace")
    tokens = requests.prompt_tokens([make_row(scheme, p) for p in ("3 cats and 40 birds", "no")], 32, 20)
    single = jax.tree.map(lambda x: x[:1], tokens)
    settings = dict(head="next", max_tokens=8, num_id=scheme.vocab.mark("[NUM]"))
    end, budget = scheme.vocab.mark("[EOS]"), jnp.asarray([8, 5], jnp.int32)
    request = sample.Request(
        single, budget[:1], jax.random.key(0)[None], jnp.float32(0), jnp.int32(0), jnp.float32(1)
    )
    greedy = jax.device_get(sample.generate(model, params, tables_, request, end_id=end, greedy=True, **settings))
    ends = jnp.full((2, 1), end, jnp.int32)
    narrow = beam.search(model, params, tables_, single, budget[:1], ends[:1], width=1, **settings)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), jax.device_get(beam.take_rank(narrow, 0)), greedy
    )
    wide = jax.device_get(beam.search(model, params, tables_, tokens, budget, ends, width=3, **settings))
    assert (wide.score[:, :1] >= wide.score).all() and wide.score[0, 0] >= greedy.log_prob.sum() - 1e-4
    is_written = np.arange(8) < wide.length[..., None]
    assert (wide.length[1] <= 5).all() and wide.numerals.valid.any()
    np.testing.assert_array_equal(wide.numerals.valid, (wide.ids == settings["num_id"]) & is_written)


@pytest.mark.parametrize("size", [50, 1024, 5 * beam.BLOCK + 7], ids=["narrow", "blocks", "not in blocks"])
def test_the_likeliest_are_a_stable_sort_of_all(rng, size):
    """In blocks or not, with many ties, and with rows in which all tokens but one are forbidden."""
    for count in (1, 3, 8, 9):
        mass = rng.integers(0, 6, (16, size)).astype(np.float32)
        mass[0], mass[1] = -np.inf, 1.0
        mass[0, size - 1] = 0.0
        mass[2, : size // 2] = -np.inf
        # Legal tokens in one block alone: the first, one in the middle, the last.
        for row, first in ((3, 5), (4, size // 2), (5, size - 12)):
            mass[row] = -np.inf
            mass[row, [first + 9, first, first + 4]] = 3.0, 1.0, 2.0
        ids, best_masses = jax.jit(beam.find_best, static_argnums=1)(mass, count)
        order = np.argsort(-mass, axis=1, kind="stable")[:, :count]
        masses = np.take_along_axis(mass, order, 1)
        np.testing.assert_array_equal(best_masses, masses)
        is_allowed = masses > -np.inf  # any forbidden id may fill the rest
        np.testing.assert_array_equal(np.where(is_allowed, ids, 0), np.where(is_allowed, order, 0))
