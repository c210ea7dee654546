"""The automaton: tables against an independent reading of the grammar, host against device, and budgets."""

from __future__ import annotations

import functools
import itertools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax.decode import grammar as device
from numjax.text.grammar import automaton as host
from numjax.text.grammar.tables import Edge, build
from numjax.types import NEXT, POP, PUSH

# Text over A B with marked formulas `( tree )`; a tree is a leaf, an operator with its children and `end`, or
# a binary number: head, bits with at most one point that has a bit before and behind it, `end`.
PAD, A, B, START, STOP, X, Y, DIV, SUM, NOT, HEAD, BIT0, BIT1, POINT, END, EOS, CLS = range(17)
V = 20  # ids 17, 18, 19 are padding
LEAVES, BITS = (X, Y), (BIT0, BIT1)
ARITY = {DIV: (2, 2), SUM: (2, 9), NOT: (1, 1)}


def trees(max_depth=3, max_width=4):
    edges = [
        Edge("text", [A, B, CLS], "text"),
        Edge("text", [START], "root"),
        Edge("text", [EOS], "ended"),
        Edge("root", LEAVES, "stop", token_type=2),
        Edge("root", [DIV, SUM, NOT], "child", PUSH, "stop", token_type=1),
        Edge("root", [HEAD], "bits", PUSH, "stop", token_type=3),
        Edge("stop", [STOP], "text"),
        Edge("child", LEAVES, "child", NEXT, token_type=2),
        Edge("child", [DIV, SUM, NOT], "child", PUSH, "child", token_type=1),
        Edge("child", [HEAD], "bits", PUSH, "child", token_type=3),
        Edge("child", [END], op=POP, token_type=1),
        Edge("bits", BITS, "more", NEXT, token_type=3),
        Edge("more", BITS, "more", NEXT, token_type=3),
        Edge("more", [POINT], "part", NEXT, token_type=3),
        Edge("more", [END], op=POP, token_type=3),
        Edge("part", BITS, "rest", NEXT, token_type=3),
        Edge("rest", BITS, "rest", NEXT, token_type=3),
        Edge("rest", [END], op=POP, token_type=3),
    ]
    placed = ("root", "child", "bits", "more", "part", "rest")
    return build(
        V, edges, "text", ("text", "ended"), given=[CLS], arity=ARITY, placed=placed, max_depth=max_depth,
        max_width=max_width,
    )  # fmt: skip


def brackets(max_depth=4, max_width=3):
    """A forest in which every leaf is a node of its own: at the last level only empty nodes help."""
    edges = [
        Edge("out", [A], "out"),
        Edge("out", [X], "in", PUSH, "out"),
        Edge("out", [EOS], "ended"),
        Edge("in", [X, Y, DIV], "in", PUSH, "in"),
        Edge("in", [END], op=POP),
    ]
    return build(
        V, edges, "out", ["ended"], arity={Y: (0, 0), X: (1, 3), DIV: (2, 2)}, placed=["in"],
        max_depth=max_depth, max_width=max_width,
    )  # fmt: skip


def fenced():
    """No stack: numbers between marks, as the `digits` scheme has them."""
    edges = [
        Edge("text", [A, B], "text"),
        Edge("text", [START], "first"),
        Edge("text", [EOS], "ended"),
        Edge("first", BITS, "whole"),
        Edge("whole", BITS, "whole"),
        Edge("whole", [POINT], "part"),
        Edge("part", BITS, "rest"),
        Edge("rest", BITS, "rest"),
        Edge("whole", [STOP], "text"),
        Edge("rest", [STOP], "text"),
    ]
    return build(V, edges, "text", ("text", "ended"))


GRAMMARS = {
    "trees": trees(),
    "narrow": trees(max_depth=2, max_width=3),
    "brackets": brackets(),
    "fenced": fenced(),
}


def reads(ids, max_depth, max_width):
    """Whether the sequence is a text of `trees`: recursive descent, sharing nothing with the tables.
    Gives the tree positions too."""
    places = []

    def tree(at, path):
        places.append(path)
        token = ids[at]
        if token in LEAVES:
            return at + 1
        if token == HEAD:
            least, most, kind = 1, max_width, "bits"
        else:
            (least, most), kind = ARITY[token], "child"
        if len(path) > max_depth:
            raise ValueError
        at, n, spelled = at + 1, 0, ""
        while ids[at] != END:
            if n == min(most, max_width):
                raise ValueError
            if kind == "bits":
                spelled += {BIT0: "0", BIT1: "1", POINT: "."}[ids[at]]
                places.append((*path, n))
                at += 1
            else:
                at = tree(at, (*path, n))
            n += 1
        places.append((*path, n))
        whole, point, part = spelled.partition(".")
        if n < least or (kind == "bits" and (not whole or (point and not part) or "." in part)):
            raise ValueError
        return at + 1

    try:
        at = 0
        while at < len(ids):
            if ids[at] == EOS:
                places.append(())
                return at + 1 == len(ids), places
            if ids[at] == START:
                places.append(())
                at = tree(at + 1, (0,))
                if ids[at] != STOP:
                    return False, places
            elif ids[at] not in (A, B, CLS):
                return False, places
            places.append(())
            at += 1
    except (ValueError, IndexError, KeyError):
        return False, places
    return True, places


def some_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return [rng.choice(LEAVES)]
    if rng.random() < 0.4:
        bits = [rng.choice(BITS) for _ in range(rng.randint(1, 3))]
        return [HEAD, *bits, *([POINT, BIT1] if rng.random() < 0.3 else []), END]
    op = rng.choice([DIV, SUM, NOT])
    children = [some_tree(rng, depth - 1) for _ in range({DIV: 2, NOT: 1, SUM: rng.randint(2, 5)}[op])]
    return [op, *itertools.chain(*children), END]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([(3, 4), (2, 3), (5, 5)]))
def test_agrees_with_recursive_descent_on_mutated_texts(seed, limits):
    rng = random.Random(seed)
    ids = [A, START, *some_tree(rng, rng.randint(1, 4)), STOP, CLS, B]
    for _ in range(rng.choice([0, 0, 1, 2])):
        at = rng.randrange(len(ids))
        ids[at : at + rng.randint(0, 1)] = [rng.randrange(V)] * rng.randint(0, 1)
    right, places = reads(ids, *limits)
    trace = host.run(_trees(*limits), ids)
    assert (trace.error is None) == right
    if right:
        given = [tuple(int(i) for i in row if i >= 0) for row in trace.tree_positions]
        assert given == places
        assert (trace.states >= 0).all()


@functools.cache
def _trees(max_depth, max_width):
    return trees(max_depth, max_width)


def test_sequence_read_by_hand():
    ids = [A, START, DIV, X, HEAD, BIT1, BIT0, END, END, STOP, EOS]
    trace = host.run(GRAMMARS["trees"], ids)
    assert trace.error is None
    assert trace.types.tolist() == [0, 0, 1, 2, 3, 3, 3, 3, 1, 0, 0]
    positions = [[int(i) for i in row if i >= 0] for row in trace.tree_positions]
    assert positions == [[], [], [0], [0, 0], [0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2], [0, 2], [], []]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([A, PAD], "token 1"),
        ([A, 19], "token 1"),
        ([A, 500], "token 1"),
        ([START, DIV, X, END], "lacks 1"),
        ([START, DIV, X, Y, X], "2 children already"),
        ([START, NOT, NOT, NOT, NOT], "3 deep"),
        ([START, X, STOP, EOS, A], "token 4"),
        ([START, HEAD, BIT0], "2 more at least"),
    ],
)
def test_validate_says_what_and_where(ids, says):
    assert says in host.validate(GRAMMARS["trees"], ids)


def test_builder_refuses_nonsense():
    with pytest.raises(ValueError, match="two edges"):
        build(4, [Edge("s", [1, 2], "s"), Edge("s", [2], "t")], "s", ["s"])
    with pytest.raises(ValueError, match="ever end"):
        build(4, [Edge("s", [1], "s")], "s", ["t"])
    with pytest.raises(ValueError, match="ever end"):  # needs one more level than there are
        build(
            6, [Edge("s", [1], "n", PUSH, "t"), Edge("n", [2], "n", PUSH, "m"), Edge("m", [3], op=POP)],
            "s", ["t"], max_depth=1, max_width=2,
        )  # fmt: skip
    with pytest.raises(ValueError, match="where it leads"):
        build(4, [Edge("s", [1], "s", PUSH)], "s", ["s"])


def test_digest_tells_tables_apart():
    assert host.digest(trees()) == host.digest(trees()) != host.digest(trees(max_width=5))
    assert host.digest(brackets()) != host.digest(brackets(max_depth=5))


@pytest.mark.parametrize("name", GRAMMARS)
def test_cost_is_the_shortest_way_to_an_end(name):
    """Breadth-first search over places from random ones finds the end after exactly `cost` tokens."""
    grammar = GRAMMARS[name]
    automaton = host.Automaton(grammar)
    tokens = [
        int(np.flatnonzero(grammar.class_of == c)[0])
        for c in range(1, grammar.given.shape[1])
        if not grammar.given[:, c].all()
    ]
    rng = random.Random(0)
    for _ in range(40):
        place = automaton.start()
        for _ in range(rng.randrange(9)):
            legal = np.flatnonzero(automaton.allowed(place))
            if len(legal):
                place = automaton.step(place, int(rng.choice(legal)))
        steps, front = 0, {place}
        while not any(automaton.accepts(p) for p in front) and steps < 7:
            steps, front = steps + 1, {q for p in front for t in tokens if (q := _try(automaton, p, t))}
        if any(automaton.accepts(p) for p in front):
            assert automaton.cost(place) == steps
        else:
            assert automaton.cost(place) > steps


def _try(automaton, place, token):
    try:
        return automaton.step(place, token)
    except host.Illegal:
        return None


@jax.jit
def observe(tables, g, remaining):
    mask = device.token_mask(device.allowed_tokens(tables, g, remaining))
    return mask, device.cost(tables, g), device.accepts(tables, g), device.tree_positions(tables, g)


step = jax.jit(device.step)
types_of = jax.jit(device.token_types)


@pytest.mark.parametrize("name", GRAMMARS)
def test_device_equals_host_on_random_walks_and_every_walk_ends_in_its_budget(name):
    """The walkers of a batch prefer to open nodes: budgets, depth and width all bite."""
    grammar, rng = GRAMMARS[name], np.random.default_rng(1)
    automaton = host.Automaton(grammar)
    tables = jax.tree.map(jnp.asarray, grammar)
    n = 48
    least = int(grammar.end_cost[int(grammar.start)])
    budgets = np.concatenate([np.full(n // 4, least), rng.integers(least, least + 9, n // 2), np.full(n // 4, 40)])
    g, places, texts = device.init(tables, n), [automaton.start()] * n, [[] for _ in range(n)]
    opens = np.isin(np.arange(V), [START, DIV, SUM, NOT, HEAD, X, POINT])
    for t in range(40):
        remaining = np.maximum(budgets - t, 0)
        mask, cost, accepts, positions = map(np.asarray, observe(tables, g, jnp.asarray(remaining)))
        chosen = np.zeros(n, np.int32)
        for b, place in enumerate(places):
            assert (mask[b] == automaton.allowed(place, int(remaining[b]))).all()
            assert cost[b] == automaton.cost(place) <= remaining[b]
            assert accepts[b] == automaton.accepts(place)
            assert tuple(i for i in positions[b].tolist() if i >= 0) == automaton.tree_position(place)
            assert not mask[b, [PAD, CLS, 17, 18, 19]].any()
            assert mask[b].any() or accepts[b]
            if mask[b].any():
                weights = mask[b] * np.where(opens, 4.0, 1.0)
                chosen[b] = rng.choice(V, p=weights / weights.sum())
                texts[b].append(int(chosen[b]))
                places[b] = automaton.step(place, int(chosen[b]))
        types = np.asarray(types_of(tables, g, jnp.asarray(chosen)))
        g = step(tables, g, jnp.asarray(chosen))
        assert [*map(int, g.state)] == [p.state for p in places]
        for b, text in enumerate(texts):
            if text and len(text) == t + 1 and grammar.token_type.any():
                assert types[b] == host.run(grammar, text).types[-1]
    for text, budget in zip(texts, budgets, strict=True):
        assert len(text) <= budget
        assert host.validate(grammar, text) is None
    assert len({tuple(text) for text in texts}) > n // 4


def test_one_executable_serves_grammars_of_one_shape():
    one, other = trees(), trees()
    other = other._replace(next_state=np.where(other.next_state == 1, 0, other.next_state), start=np.int32(1))
    traced, masks = [], []

    @jax.jit
    def program(tables, token):
        traced.append(tables)
        g = device.step(tables, device.init(tables, 3), token)
        return device.token_mask(device.allowed_tokens(tables, g))

    for grammar in (one, other):
        masks.append(np.asarray(program(jax.tree.map(jnp.asarray, grammar), jnp.asarray([A, X, DIV]))))
    assert len(traced) == 1
    assert (masks[0] != masks[1]).any()


def test_reads_ragged_prompts_and_lets_finished_rows_be():
    tables = jax.tree.map(jnp.asarray, GRAMMARS["trees"])
    automaton = host.Automaton(GRAMMARS["trees"])
    prompts = [[CLS, A, START, DIV, X], [START, HEAD, BIT0], [EOS]]
    ids, valid = np.zeros((3, 6), np.int32), np.zeros((3, 6), bool)
    for b, prompt in enumerate(prompts):
        ids[b, 6 - len(prompt) :], valid[b, 6 - len(prompt) :] = prompt, True  # padded on the left
    g = jax.jit(device.read_prompt)(tables, device.init(tables, 3), jnp.asarray(ids), jnp.asarray(valid))
    masks = np.asarray(observe(tables, g, jnp.full(3, 50))[0])
    for b, prompt in enumerate(prompts):
        place = functools.reduce(automaton.step, prompt, automaton.start())
        assert (masks[b] == automaton.allowed(place, 50)).all()
    after = step(tables, g, jnp.asarray([Y, END, A]))
    assert int(after.state[2]) == int(g.state[2]) and not masks[2].any()


def test_state_gathers_like_a_beam():
    tables = jax.tree.map(jnp.asarray, GRAMMARS["trees"])
    g = device.init(tables, 2)
    for column in ([START, START], [DIV, HEAD], [X, BIT1]):
        g = step(tables, g, jnp.asarray(column))
    beams = jax.tree.map(lambda x: x[jnp.asarray([1, 1, 0])], g)
    assert np.asarray(device.tree_positions(tables, beams)).tolist() == [
        [0, 1, -1, -1], [0, 1, -1, -1], [0, 1, -1, -1],
    ]  # fmt: skip
    beams = step(tables, beams, jnp.asarray([END, BIT0, HEAD]))
    assert np.asarray(device.tree_positions(tables, beams)).tolist() == [
        [-1] * 4, [0, 2, -1, -1], [0, 1, 0, -1],
    ]  # fmt: skip
