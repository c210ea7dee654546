"""The automaton: tables against an independent parser, host against device, and budgets."""

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


def make_tree_grammar(max_depth=3, max_width=4):
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
    positioned_states = ("root", "child", "bits", "more", "part", "rest")
    return build(
        V, edges, "text", ("text", "ended"), given=[CLS], arity=ARITY, placed=positioned_states, max_depth=max_depth,
        max_width=max_width,
    )  # fmt: skip


def make_bracket_grammar(max_depth=4, max_width=3):
    """Returns a grammar of forests whose leaves are nodes: at the last level only empty nodes are legal."""
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


def make_flat_grammar():
    """Returns a grammar without a stack: numbers between marks, as in the `digits` scheme."""
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
    "trees": make_tree_grammar(),
    "narrow": make_tree_grammar(max_depth=2, max_width=3),
    "brackets": make_bracket_grammar(),
    "fenced": make_flat_grammar(),
}


def parse_text(ids, max_depth, max_width):
    """Returns whether the ids are a text of `make_tree_grammar`, and their tree positions.

    It is a recursive descent that shares nothing with the tables.
    """
    positions = []

    def parse_tree(index, path):
        positions.append(path)
        token = ids[index]
        if token in LEAVES:
            return index + 1
        if token == HEAD:
            least, most, kind = 1, max_width, "bits"
        else:
            (least, most), kind = ARITY[token], "child"
        if len(path) > max_depth:
            raise ValueError
        index, n_children, bits = index + 1, 0, ""
        while ids[index] != END:
            if n_children == min(most, max_width):
                raise ValueError
            if kind == "bits":
                bits += {BIT0: "0", BIT1: "1", POINT: "."}[ids[index]]
                positions.append((*path, n_children))
                index += 1
            else:
                index = parse_tree(index, (*path, n_children))
            n_children += 1
        positions.append((*path, n_children))
        whole, point, fraction = bits.partition(".")
        if n_children < least or (kind == "bits" and (not whole or (point and not fraction) or "." in fraction)):
            raise ValueError
        return index + 1

    try:
        index = 0
        while index < len(ids):
            if ids[index] == EOS:
                positions.append(())
                return index + 1 == len(ids), positions
            if ids[index] == START:
                positions.append(())
                index = parse_tree(index + 1, (0,))
                if ids[index] != STOP:
                    return False, positions
            elif ids[index] not in (A, B, CLS):
                return False, positions
            positions.append(())
            index += 1
    except (ValueError, IndexError, KeyError):
        return False, positions
    return True, positions


def draw_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return [rng.choice(LEAVES)]
    if rng.random() < 0.4:
        bits = [rng.choice(BITS) for _ in range(rng.randint(1, 3))]
        return [HEAD, *bits, *([POINT, BIT1] if rng.random() < 0.3 else []), END]
    op = rng.choice([DIV, SUM, NOT])
    children = [draw_tree(rng, depth - 1) for _ in range({DIV: 2, NOT: 1, SUM: rng.randint(2, 5)}[op])]
    return [op, *itertools.chain(*children), END]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([(3, 4), (2, 3), (5, 5)]))
def test_the_automaton_agrees_with_recursive_descent_on_mutated_texts(seed, limits):
    rng = random.Random(seed)
    ids = [A, START, *draw_tree(rng, rng.randint(1, 4)), STOP, CLS, B]
    for _ in range(rng.choice([0, 0, 1, 2])):
        index = rng.randrange(len(ids))
        ids[index : index + rng.randint(0, 1)] = [rng.randrange(V)] * rng.randint(0, 1)
    is_legal, positions = parse_text(ids, *limits)
    trace = host.run(_cache_tree_grammar(*limits), ids)
    assert (trace.error is None) == is_legal
    if is_legal:
        trace_positions = [tuple(int(i) for i in row if i >= 0) for row in trace.tree_positions]
        assert trace_positions == positions
        assert (trace.states >= 0).all()


@functools.cache
def _cache_tree_grammar(max_depth, max_width):
    return make_tree_grammar(max_depth, max_width)


def test_a_sequence_has_the_types_and_positions_worked_out_by_hand():
    ids = [A, START, DIV, X, HEAD, BIT1, BIT0, END, END, STOP, EOS]
    trace = host.run(GRAMMARS["trees"], ids)
    assert trace.error is None
    assert trace.types.tolist() == [0, 0, 1, 2, 3, 3, 3, 3, 1, 0, 0]
    positions = [[int(i) for i in row if i >= 0] for row in trace.tree_positions]
    assert positions == [[], [], [0], [0, 0], [0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2], [0, 2], [], []]


@pytest.mark.parametrize(
    ("ids", "message"),
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
def test_validate_names_the_fault_and_its_token(ids, message):
    assert message in host.validate(GRAMMARS["trees"], ids)


def test_the_builder_refuses_invalid_grammars():
    with pytest.raises(ValueError, match="two edges"):
        build(4, [Edge("s", [1, 2], "s"), Edge("s", [2], "t")], "s", ["s"])
    with pytest.raises(ValueError, match="ever end"):
        build(4, [Edge("s", [1], "s")], "s", ["t"])
    with pytest.raises(ValueError, match="ever end"):  # needs one level more than max_depth
        build(
            6, [Edge("s", [1], "n", PUSH, "t"), Edge("n", [2], "n", PUSH, "m"), Edge("m", [3], op=POP)],
            "s", ["t"], max_depth=1, max_width=2,
        )  # fmt: skip
    with pytest.raises(ValueError, match="where it leads"):
        build(4, [Edge("s", [1], "s", PUSH)], "s", ["s"])


def test_different_tables_have_different_digests():
    assert (
        host.digest(make_tree_grammar())
        == host.digest(make_tree_grammar())
        != host.digest(make_tree_grammar(max_width=5))
    )
    assert host.digest(make_bracket_grammar()) != host.digest(make_bracket_grammar(max_depth=5))


@pytest.mark.parametrize("name", GRAMMARS)
def test_cost_is_the_shortest_way_to_an_end(name):
    """A breadth-first search from random configurations reaches an end after exactly `cost` tokens."""
    grammar = GRAMMARS[name]
    automaton = host.Automaton(grammar)
    tokens = [
        int(np.flatnonzero(grammar.class_of == c)[0])
        for c in range(1, grammar.given.shape[1])
        if not grammar.given[:, c].all()
    ]
    rng = random.Random(0)
    for _ in range(40):
        configuration = automaton.start()
        for _ in range(rng.randrange(9)):
            legal = np.flatnonzero(automaton.allowed(configuration))
            if len(legal):
                configuration = automaton.step(configuration, int(rng.choice(legal)))
        steps, frontier = 0, {configuration}
        while not any(automaton.accepts(p) for p in frontier) and steps < 7:
            steps, frontier = (
                steps + 1,
                {q for p in frontier for t in tokens if (q := _step_or_none(automaton, p, t))},
            )
        if any(automaton.accepts(p) for p in frontier):
            assert automaton.cost(configuration) == steps
        else:
            assert automaton.cost(configuration) > steps


def _step_or_none(automaton, configuration, token):
    try:
        return automaton.step(configuration, token)
    except host.Illegal:
        return None


@jax.jit
def observe(tables, g, remaining):
    mask = device.token_mask(device.allowed_tokens(tables, g, remaining))
    return mask, device.cost(tables, g), device.accepts(tables, g), device.tree_positions(tables, g)


step = jax.jit(device.step)
token_types = jax.jit(device.token_types)


@pytest.mark.parametrize("name", GRAMMARS)
def test_device_equals_host_on_random_walks_and_every_walk_ends_in_its_budget(name):
    """The walks prefer to open nodes, so that budget, depth and width all limit them."""
    grammar, rng = GRAMMARS[name], np.random.default_rng(1)
    automaton = host.Automaton(grammar)
    tables = jax.tree.map(jnp.asarray, grammar)
    n = 48
    least = int(grammar.end_cost[int(grammar.start)])
    budgets = np.concatenate([np.full(n // 4, least), rng.integers(least, least + 9, n // 2), np.full(n // 4, 40)])
    g, configurations, texts = device.init(tables, n), [automaton.start()] * n, [[] for _ in range(n)]
    is_opening = np.isin(np.arange(V), [START, DIV, SUM, NOT, HEAD, X, POINT])
    for t in range(40):
        remaining = np.maximum(budgets - t, 0)
        mask, cost, accepts, positions = map(np.asarray, observe(tables, g, jnp.asarray(remaining)))
        choices = np.zeros(n, np.int32)
        for b, configuration in enumerate(configurations):
            assert (mask[b] == automaton.allowed(configuration, int(remaining[b]))).all()
            assert cost[b] == automaton.cost(configuration) <= remaining[b]
            assert accepts[b] == automaton.accepts(configuration)
            assert tuple(i for i in positions[b].tolist() if i >= 0) == automaton.tree_position(configuration)
            assert not mask[b, [PAD, CLS, 17, 18, 19]].any()
            assert mask[b].any() or accepts[b]
            if mask[b].any():
                weights = mask[b] * np.where(is_opening, 4.0, 1.0)
                choices[b] = rng.choice(V, p=weights / weights.sum())
                texts[b].append(int(choices[b]))
                configurations[b] = automaton.step(configuration, int(choices[b]))
        types = np.asarray(token_types(tables, g, jnp.asarray(choices)))
        g = step(tables, g, jnp.asarray(choices))
        assert [*map(int, g.state)] == [p.state for p in configurations]
        for b, text in enumerate(texts):
            if text and len(text) == t + 1 and grammar.token_type.any():
                assert types[b] == host.run(grammar, text).types[-1]
    for text, budget in zip(texts, budgets, strict=True):
        assert len(text) <= budget
        assert host.validate(grammar, text) is None
    assert len({tuple(text) for text in texts}) > n // 4


def test_one_executable_serves_grammars_of_one_shape():
    one, other = make_tree_grammar(), make_tree_grammar()
    other = other._replace(next_state=np.where(other.next_state == 1, 0, other.next_state), start=np.int32(1))
    traces, masks = [], []

    @jax.jit
    def program(tables, token):
        traces.append(tables)
        g = device.step(tables, device.init(tables, 3), token)
        return device.token_mask(device.allowed_tokens(tables, g))

    for grammar in (one, other):
        masks.append(np.asarray(program(jax.tree.map(jnp.asarray, grammar), jnp.asarray([A, X, DIV]))))
    assert len(traces) == 1
    assert (masks[0] != masks[1]).any()


def test_ragged_prompts_are_consumed_and_finished_rows_stay():
    tables = jax.tree.map(jnp.asarray, GRAMMARS["trees"])
    automaton = host.Automaton(GRAMMARS["trees"])
    prompts = [[CLS, A, START, DIV, X], [START, HEAD, BIT0], [EOS]]
    ids, valid = np.zeros((3, 6), np.int32), np.zeros((3, 6), bool)
    for b, prompt in enumerate(prompts):
        ids[b, 6 - len(prompt) :], valid[b, 6 - len(prompt) :] = prompt, True  # padded on the left
    g = jax.jit(device.read_prompt)(tables, device.init(tables, 3), jnp.asarray(ids), jnp.asarray(valid))
    masks = np.asarray(observe(tables, g, jnp.full(3, 50))[0])
    for b, prompt in enumerate(prompts):
        configuration = functools.reduce(automaton.step, prompt, automaton.start())
        assert (masks[b] == automaton.allowed(configuration, 50)).all()
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


def make_ending_grammar():
    """Words (2, 3), then perhaps an ending without a choice: of two tokens, of five, or of two behind [NUM] (9)."""
    long = ["long 1", "long 2", "long 3", "long 4", "closed"]
    edges = [
        Edge("text", [2, 3], "text"),
        Edge("text", [4], "fenced"),
        Edge("fenced", [5], "closed"),
        Edge("closed", [1], "end"),
        Edge("text", [6], long[0]),
        *(Edge(state, [7], to) for state, to in itertools.pairwise(long)),
        Edge("text", [8], "number"),
        Edge("number", [9], "fenced"),
        Edge("text", [10], "either"),
        Edge("either", [1, 11], "end"),
    ]
    return build(12, edges, "text", ["end"])


def count_ending(tables, state, end_id, num_id):
    """How many tokens end a text from a state if none of them can be chosen, else 0; one token after another."""
    for length in range(1, device.LONGEST_ENDING + 1):
        classes = [tables.class_of[v] for v in range(len(tables.class_of))]
        ways = [v for v, c in enumerate(classes) if tables.next_state[state, c] >= 0 and not tables.given[state, c]]
        if len(ways) != 1 or tables.stack_op[state, classes[ways[0]]] or tables.recalled[classes[ways[0]]]:
            return 0
        if ways[0] == end_id:
            return length
        if ways[0] == num_id:
            return 0
        state = tables.next_state[state, classes[ways[0]]]
    return 0


@pytest.mark.parametrize("make", [make_ending_grammar, make_tree_grammar, make_bracket_grammar, make_flat_grammar])
def test_endings_are_those_found_token_by_token(make):
    tables = make()
    endings = device.find_endings(tables, 1, 9)
    expected = [count_ending(tables, state, 1, 9) for state in range(len(tables.accept))]
    assert endings.length.tolist() == expected
    if make is make_ending_grammar:
        # fenced, closed, and the last three of the long ending; not the number, though one stands behind it.
        assert sorted(length for length in expected if length) == [1, 2, 2, 3, 4]
