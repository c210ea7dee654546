"""Probes: their examples against a slow count, all seeds at once against one at a time, planted vectors."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from numjax import numeral
from numjax.errors import DataError, UsageError
from numjax.probes import networks, numbers, probe, train
from numjax.probes.examples import (
    MIN_HELD_OUT,
    draw_lists,
    draw_pairs,
    make_number_examples,
    make_pair_examples,
    split_numbers,
)
from numjax.probes.probe import ProbeSizes

SMALL = ProbeSizes(train=400, held=60, hidden=12, epochs=4)


def draw_lists_slowly(size: int, count: int, rng) -> np.ndarray:
    """Draws lists of indices, one draw at a time, as in the paper's appendix."""
    lists = []
    for _ in range(count):
        top = int(rng.integers(10, size - 1))
        indices = [top]
        even = rng.random() > 0.5
        while len(indices) < 5:
            if even:
                index = int(rng.integers(0, top - 1))
            else:
                index = top - int(rng.normal(0, 5 if top <= 500 else 0.01 * top))
                index = max(0, min(index, top - 1))
            if index not in indices:
                indices.append(index)
        lists.append([indices[i] for i in rng.permutation(5)])
    return np.array(lists)


@pytest.mark.parametrize("size", [20, 900])
def test_lists_have_the_distribution_of_the_paper(size, rng):
    pool, count = np.arange(size) * 3 + 1, 20_000
    lists = draw_lists(pool, count, rng)
    assert lists.shape == (count, 5) and (np.diff(np.sort(lists, axis=1)) > 0).all() and np.isin(lists, pool).all()
    indices = (lists - 1) // 3
    slow_indices = draw_lists_slowly(size, 4000, rng)

    def compute_features(lists_N5):
        top = lists_N5.max(axis=1)
        gaps = np.sort(top[:, None] - lists_N5, axis=1)[:, 1:]
        return [top, *gaps.T, *np.log(gaps).T, lists_N5.argmax(axis=1), lists_N5[:, 0], gaps[:, 3] < 20]

    for mine, theirs in zip(compute_features(indices), compute_features(slow_indices), strict=True):
        error = np.sqrt(np.var(mine) / len(mine) + np.var(theirs) / len(theirs))
        assert abs(mine.mean() - theirs.mean()) < 5 * error + 1e-9
        assert np.std(mine) == pytest.approx(np.std(theirs), rel=0.1)
    assert indices.max(axis=1).min() == 10 and indices.max() == size - 2
    assert np.bincount(indices.argmax(axis=1)).min() > 0.18 * count


def test_a_split_shares_no_number_and_follows_its_seed():
    for count in (100, 1000):
        parts = split_numbers(count, np.random.default_rng(3))
        assert np.sort(np.concatenate(parts)).tolist() == list(range(count))
        assert len(parts.test) == count // 5 and len(parts.validation) == max(MIN_HELD_OUT, round(0.08 * count))
        published_parts = split_numbers(count, np.random.default_rng(3), as_published=True)
        assert (published_parts.test == parts.test).all() and (published_parts.validation == parts.test).all()
        assert len(published_parts.train) == count * 4 // 5
        assert (split_numbers(count, np.random.default_rng(4)).test != parts.test).any()
    with pytest.raises(DataError, match="too few"):
        split_numbers(20, np.random.default_rng(0))
    with pytest.raises(DataError, match="need 7 numbers"):
        draw_lists(np.arange(6), 5, np.random.default_rng(0))


@pytest.mark.parametrize("name", probe.PROBES)
@pytest.mark.parametrize("as_published", [False, True])
def test_numbers_of_test_are_never_trained_on(name, as_published):
    values = np.arange(50, 350)
    parts = probe.make_examples(name, values, 7, SMALL, as_published)
    items = [set(np.unique(part.items)) for part in parts]
    assert not items[0] & items[2] and not items[0] & items[1]
    assert (items[1] == items[2]) if as_published else not items[1] & items[2]
    for part in parts:
        if name == "max":
            largest = np.take_along_axis(values[part.items], part.targets[:, None], axis=1)[:, 0]
            np.testing.assert_array_equal(largest, values[part.items].max(axis=1))
        elif not as_published:
            middle = 199.5 * part.items.shape[1]
            np.testing.assert_allclose(part.targets, values[part.items].sum(axis=1) - middle)


def test_targets_as_published_are_cut_to_integers():
    values = np.arange(100.0)
    targets = make_number_examples(values, np.arange(100), True).targets
    assert targets[0] == -49 and targets[49] == targets[50] == 0 and targets[99] == 49
    sums = make_pair_examples(values, np.arange(100), 50, np.random.default_rng(0), True)
    np.testing.assert_array_equal(sums.targets, values[sums.items].sum(axis=1) - 98)


def test_pairs_are_of_different_numbers_and_even():
    pairs = draw_pairs(np.arange(10), 20_000, np.random.default_rng(0))
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = np.bincount(pairs[:, 0] * 10 + pairs[:, 1], minlength=100)
    assert abs(counts[counts > 0] - 20_000 / 90).max() < 5 * np.sqrt(20_000 / 90) and (counts > 0).sum() == 90


def test_numbers_whose_sums_exceed_float64_are_left_out():
    tables = [[["1", "1e400", "1.7e308"], ["2", "-1e400", "3"]]]
    lines = numbers.collect_lines(tables, numeral.load_finder("default"), 16)
    assert lines.literals == ["1", "2", "3"] and lines.values.tolist() == [1, 2, 3] and len(lines.cells) == 3
    assert [lines.literals[i] for i in lines.items] == ["2", "3", "1", "2"]
    large = numbers.collect_lines([[["8e307", "7e307"]]], numeral.load_finder("default"), 16)
    pair = np.asarray([[0, 1]])
    targets = numbers.make_targets(large.values, numbers.ExamplesByKind(pair[:, :1], pair, pair))
    assert targets["add"].significand.tolist() == [1.5] and targets["decode"].significand.tolist() == [8]


def plant_numbers(numbers, width: int, rng) -> np.ndarray:
    """Returns vectors whose one direction holds the number."""
    direction, offset = rng.standard_normal((2, width))
    scaled = (numbers - numbers.mean()) / numbers.std()
    return scaled[:, None] * direction + offset


def make_problem(name: str, rng, seeds=(0, 5, 9), width: int = 6):
    numbers = np.arange(300)
    vectors = plant_numbers(numbers, width, rng) + rng.standard_normal((300, width))
    examples = [probe.make_examples(name, numbers.astype(float), seed, SMALL, False) for seed in seeds]
    parts = [
        train.Examples(*(np.stack(x) for x in zip(*split, strict=True))) for split in zip(*examples, strict=True)
    ]
    return vectors, parts, np.array(seeds)


def test_a_seed_is_trained_the_same_when_the_others_have_stopped(rng, monkeypatch):
    vectors, (fit_on, held_out, _), seeds = make_problem("add", rng, seeds=range(5))
    table, basis = networks.find_coordinates(vectors)
    network, rule = probe.make_network("add", 12), train.SGDOptions(clip=5.0, epochs=30, patience=2, batch_size=37)
    original, widths = train._run_epoch_all, []

    def run_and_count(network, rule, table, train, held_out, seeds, state):
        widths.append(len(seeds))
        return original(network, rule, table, train, held_out, seeds, state)

    monkeypatch.setattr(train, "_run_epoch_all", run_and_count)
    joint = train.fit(network, rule, table, basis, fit_on, held_out, seeds)
    assert widths[0] == 5 and widths[-1] < 5 and len(widths) == joint.epoch.max(), "fewer at the end"
    for s, seed in enumerate(seeds):
        select_seed = functools.partial(jax.tree.map, lambda x, s=s: x[s : s + 1])
        single = train.fit(network, rule, table, basis, select_seed(fit_on), select_seed(held_out), np.array([seed]))
        assert int(single.epoch[0]) == int(joint.epoch[s])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), select_seed(joint), single)


@pytest.mark.parametrize("name", ["max", "add"])
def test_training_all_seeds_at_once_equals_training_each(name, rng):
    vectors, (fit_on, held_out, _), seeds = make_problem(name, rng)
    table, basis = networks.find_coordinates(vectors)
    network = probe.make_network(name, 12)
    rule = train.SGDOptions(clip=5.0, epochs=2, patience=9, batch_size=37)  # the last batch is smaller
    joint = train.fit(network, rule, table, basis, fit_on, held_out, seeds)
    for s, seed in enumerate(seeds):
        state = train.init_training(network, basis, np.int32(seed))
        select_seed = functools.partial(jax.tree.map, lambda x, s=s: x[s])
        step = jax.jit(functools.partial(train.run_epoch, network, rule))
        for _ in range(2):
            state = step(table, select_seed(fit_on), select_seed(held_out), np.int32(seed), state)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), select_seed(joint), state)
    assert (joint.epoch == 2).all() and not joint.running.any()
    flat = [np.concatenate([np.ravel(x[s]) for x in jax.tree.leaves(joint.params)]) for s in range(3)]
    assert np.abs(flat[0] - flat[1]).max() > 0.01, "seeds differ"


def test_a_step_equals_plain_numpy(rng):
    """Two epochs of the linear probe in one batch: clipped gradients, and momentum from zero."""
    vectors, (fit_on, held_out, _), seeds = make_problem("decode_linear", rng, seeds=(4,))
    table, basis = networks.find_coordinates(vectors)
    rule = train.SGDOptions(clip=5.0, epochs=2, batch_size=1000)
    network = probe.make_network("decode_linear")
    first = train.init_training(network, basis, np.int32(4))
    state = train.fit(network, rule, table, basis, fit_on, held_out, seeds)
    w = np.asarray(first.params["layer_0"]["kernel"], np.float64)[0]
    b = np.asarray(first.params["layer_0"]["bias"], np.float64)
    x, y, velocity = table[fit_on.items[0, :, 0]].astype(np.float64), fit_on.targets[0], 0.0
    for _ in range(2):
        error = (x @ w)[:, 0] + b - y
        gradient = np.append(2 * (error[:, None] * x).mean(0), 2 * error.mean())
        gradient *= min(1, 5 / np.linalg.norm(gradient))
        velocity = 0.5 * velocity + gradient
        w, b = w - 0.01 * velocity[:-1, None], b - 0.01 * velocity[-1:]
    np.testing.assert_allclose(state.params["layer_0"]["kernel"][0, 0], w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.params["layer_0"]["bias"][0], b, rtol=1e-4, atol=1e-5)


def test_early_stopping_keeps_the_best_and_a_stopped_seed_does_not_change(rng):
    vectors, (fit_on, held_out, _), seeds = make_problem("decode", rng)
    # The middle seed has only noise to learn, so it stops first.
    noise = np.array(fit_on.targets)
    noise[1] = 1e4 * rng.standard_normal(noise.shape[1])
    table, basis = networks.find_coordinates(vectors)
    network, states = probe.make_network("decode", 12), []
    rule = train.SGDOptions(learning_rate=0.05, clip=5.0, epochs=25, patience=3)
    final = train.fit(
        network, rule, table, basis, fit_on._replace(targets=noise), held_out, seeds,
        lambda state: states.append(jax.tree.map(np.array, state)),
    )  # fmt: skip
    for s in range(3):
        epoch_states = [state for state in states if state.epoch[s] == len(states[: int(state.epoch[s])])]
        score = np.array(
            [-np.asarray(train.scores(network, state.params, table, held_out))[s] for state in epoch_states]
        )
        n_epochs = int(final.epoch[s])
        score = score[:n_epochs]
        assert int(final.best_epoch[s]) == score.argmax() + 1
        np.testing.assert_allclose(final.best_score[s], score.max(), rtol=1e-4)
        best_params = states[score.argmax()].params
        jax.tree.map(
            lambda a, b, s=s: np.testing.assert_array_equal(a[s], b[s]),
            jax.tree.map(np.array, final.best),
            best_params,
        )
        assert n_epochs == rule.epochs or n_epochs == int(final.best_epoch[s]) + rule.patience
    assert len(set(np.asarray(final.epoch).tolist())) > 1, "seeds stop at different epochs"


def test_the_coordinates_of_the_span_change_nothing(rng):
    numbers = np.arange(200)
    vectors = plant_numbers(numbers, 40, rng) + rng.standard_normal((200, 3)) @ rng.standard_normal((3, 40))
    table, basis = networks.find_coordinates(vectors)
    assert table.shape[1] == basis.shape[0] == 5
    np.testing.assert_allclose(table @ basis, vectors, atol=1e-5)
    _, (fit_on, held_out, _), seeds = make_problem("add", rng)
    clip_indices = functools.partial(jax.tree.map, lambda x: np.minimum(x, 199) if x.dtype == np.int32 else x)
    fit_on, held_out = clip_indices(fit_on), clip_indices(held_out)
    rule, network = train.SGDOptions(clip=5.0, epochs=2), probe.make_network("add", 12)
    short = train.fit(network, rule, table, basis, fit_on, held_out, seeds)
    whole = train.fit(
        network, rule, vectors.astype(np.float32), np.eye(40, dtype=np.float32), fit_on, held_out, seeds
    )
    np.testing.assert_allclose(short.best_score, whole.best_score, rtol=2e-3)
    full, part = (np.asarray(x.params["layer_0"]["kernel"]) for x in (whole, short))
    np.testing.assert_allclose(np.einsum("rd,skdh->skrh", basis, full), part, atol=2e-3)


def test_probes_decode_a_planted_number_and_not_random_vectors(rng):
    numbers = np.arange(1000, 1200)
    sizes = ProbeSizes(epochs=80, hidden=16)
    planted_results = probe.run("decode_linear", plant_numbers(numbers, 8, rng), numbers, range(2), sizes)
    assert all(result.test < 0.5 and result.validation < 0.5 for result in planted_results)
    random_results = probe.run("decode_linear", rng.standard_normal((200, 8)), numbers, range(2), sizes)
    assert all(result.test > 0.9 * numbers.std() for result in random_results)
    assert [result.seed for result in random_results] == [0, 1] and all(
        0 < r.best_epoch <= r.epochs <= 80 for r in planted_results
    )
    # The order of the numbers does not matter.
    reversed_results = probe.run(
        "decode_linear", plant_numbers(numbers, 8, np.random.default_rng(2))[::-1], numbers[::-1], [0], sizes
    )
    results = probe.run("decode_linear", plant_numbers(numbers, 8, np.random.default_rng(2)), numbers, [0], sizes)
    assert reversed_results == results


def test_a_planted_number_gives_the_largest_of_a_list(rng):
    numbers = np.arange(150)
    results = probe.run("max", 3 * plant_numbers(numbers, 4, rng), numbers, [0], ProbeSizes(2000, 200, 8, 8))
    assert results[0].test > 0.6 and results[0].validation > 0.6  # chance is 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(name="maximum"), "no probe is called 'maximum'"),
        (dict(seeds=[]), "one seed or more"),
        (dict(numbers=np.arange(99)), "do not match"),
        (dict(numbers=np.arange(100) // 2), "0 is given twice"),
        (dict(vectors_VD=np.full((100, 2), np.nan)), "the vector of 0 is not finite"),
        (dict(vectors_VD=np.ones((9, 2)), numbers=np.arange(9)), "9 numbers are too few"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = dict(name="decode", vectors_VD=np.ones((100, 2)), numbers=np.arange(100), seeds=[0]) | change
    with pytest.raises((UsageError, DataError), match=message):
        probe.run(**arguments)
