"""Probes: their examples against a slow count, all seeds at once against each alone, what planted vectors give."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from numjax.errors import DataError, UsageError
from numjax.probes import networks, probe, train
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


def slow_lists(size: int, count: int, rng) -> np.ndarray:
    """Places, one draw at a time, as the paper's appendix has it."""
    found = []
    for _ in range(count):
        top = int(rng.integers(10, size - 1))
        chosen = [top]
        even = rng.random() > 0.5
        while len(chosen) < 5:
            if even:
                place = int(rng.integers(0, top - 1))
            else:
                place = top - int(rng.normal(0, 5 if top <= 500 else 0.01 * top))
                place = max(0, min(place, top - 1))
            if place not in chosen:
                chosen.append(place)
        found.append([chosen[i] for i in rng.permutation(5)])
    return np.array(found)


@pytest.mark.parametrize("size", [20, 900])
def test_lists_are_distributed_as_stated(size, rng):
    pool, count = np.arange(size) * 3 + 1, 20_000
    found = draw_lists(pool, count, rng)
    assert found.shape == (count, 5) and (np.diff(np.sort(found, axis=1)) > 0).all() and np.isin(found, pool).all()
    places = (found - 1) // 3
    slow = slow_lists(size, 4000, rng)

    def features(of):
        top = of.max(axis=1)
        gaps = np.sort(top[:, None] - of, axis=1)[:, 1:]
        return [top, *gaps.T, *np.log(gaps).T, of.argmax(axis=1), of[:, 0], gaps[:, 3] < 20]

    for mine, theirs in zip(features(places), features(slow), strict=True):
        error = np.sqrt(np.var(mine) / len(mine) + np.var(theirs) / len(theirs))
        assert abs(mine.mean() - theirs.mean()) < 5 * error + 1e-9
        assert np.std(mine) == pytest.approx(np.std(theirs), rel=0.1)
    assert places.max(axis=1).min() == 10 and places.max() == size - 2
    assert np.bincount(places.argmax(axis=1)).min() > 0.18 * count


def test_a_split_shares_no_number_and_follows_its_seed():
    for count in (100, 1000):
        parts = split_numbers(count, np.random.default_rng(3))
        assert np.sort(np.concatenate(parts)).tolist() == list(range(count))
        assert len(parts.test) == count // 5 and len(parts.validation) == max(MIN_HELD_OUT, round(0.08 * count))
        published = split_numbers(count, np.random.default_rng(3), as_published=True)
        assert (published.test == parts.test).all() and (published.validation == parts.test).all()
        assert len(published.train) == count * 4 // 5
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
    used = [set(np.unique(part.items)) for part in parts]
    assert not used[0] & used[2] and not used[0] & used[1]
    assert (used[1] == used[2]) if as_published else not used[1] & used[2]
    for part in parts:
        if name == "max":
            chosen = np.take_along_axis(values[part.items], part.targets[:, None], axis=1)[:, 0]
            np.testing.assert_array_equal(chosen, values[part.items].max(axis=1))
        elif not as_published:
            middle = 199.5 * part.items.shape[1]
            np.testing.assert_allclose(part.targets, values[part.items].sum(axis=1) - middle)


def test_targets_as_published_are_cut_to_integers():
    values = np.arange(100.0)
    found = make_number_examples(values, np.arange(100), True).targets
    assert found[0] == -49 and found[49] == found[50] == 0 and found[99] == 49
    sums = make_pair_examples(values, np.arange(100), 50, np.random.default_rng(0), True)
    np.testing.assert_array_equal(sums.targets, values[sums.items].sum(axis=1) - 98)


def test_pairs_are_of_different_numbers_and_even():
    found = draw_pairs(np.arange(10), 20_000, np.random.default_rng(0))
    assert (found[:, 0] != found[:, 1]).all()
    counts = np.bincount(found[:, 0] * 10 + found[:, 1], minlength=100)
    assert abs(counts[counts > 0] - 20_000 / 90).max() < 5 * np.sqrt(20_000 / 90) and (counts > 0).sum() == 90


def planted(numbers, width: int, rng) -> np.ndarray:
    """Vectors of which one direction is the number."""
    direction, offset = rng.standard_normal((2, width))
    scaled = (numbers - numbers.mean()) / numbers.std()
    return scaled[:, None] * direction + offset


def problem(name: str, rng, seeds=(0, 5, 9), width: int = 6):
    numbers = np.arange(300)
    vectors = planted(numbers, width, rng) + rng.standard_normal((300, width))
    found = [probe.make_examples(name, numbers.astype(float), seed, SMALL, False) for seed in seeds]
    parts = [train.Examples(*(np.stack(x) for x in zip(*split, strict=True))) for split in zip(*found, strict=True)]
    return vectors, parts, np.array(seeds)


def test_a_seed_is_trained_the_same_when_the_others_have_stopped(rng, monkeypatch):
    vectors, (fit_on, held, _), seeds = problem("add", rng, seeds=range(5))
    table, basis = networks.find_coordinates(vectors)
    network, rule = probe.make_network("add", 12), train.SGDOptions(clip=5.0, epochs=30, patience=2, batch_size=37)
    real, widths = train._run_epoch_all, []

    def counted(network, rule, table, train, held, seeds, now):
        widths.append(len(seeds))
        return real(network, rule, table, train, held, seeds, now)

    monkeypatch.setattr(train, "_run_epoch_all", counted)
    together = train.fit(network, rule, table, basis, fit_on, held, seeds)
    assert widths[0] == 5 and widths[-1] < 5 and len(widths) == together.epoch.max(), "fewer at the end"
    for s, seed in enumerate(seeds):
        one = functools.partial(jax.tree.map, lambda x, s=s: x[s : s + 1])
        alone = train.fit(network, rule, table, basis, one(fit_on), one(held), np.array([seed]))
        assert int(alone.epoch[0]) == int(together.epoch[s])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), one(together), alone)


@pytest.mark.parametrize("name", ["max", "add"])
def test_all_seeds_at_once_are_each_alone(name, rng):
    vectors, (fit_on, held, _), seeds = problem(name, rng)
    table, basis = networks.find_coordinates(vectors)
    network = probe.make_network(name, 12)
    rule = train.SGDOptions(clip=5.0, epochs=2, patience=9, batch_size=37)  # the last batch is smaller
    together = train.fit(network, rule, table, basis, fit_on, held, seeds)
    for s, seed in enumerate(seeds):
        now = train.init_training(network, basis, np.int32(seed))
        one = functools.partial(jax.tree.map, lambda x, s=s: x[s])
        step = jax.jit(functools.partial(train.run_epoch, network, rule))
        for _ in range(2):
            now = step(table, one(fit_on), one(held), np.int32(seed), now)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), one(together), now)
    assert (together.epoch == 2).all() and not together.running.any()
    flat = [np.concatenate([np.ravel(x[s]) for x in jax.tree.leaves(together.params)]) for s in range(3)]
    assert np.abs(flat[0] - flat[1]).max() > 0.01, "seeds differ"


def test_a_step_is_that_of_plain_numpy(rng):
    """One epoch of the linear probe in one batch: momentum from rest, clipped."""
    vectors, (fit_on, held, _), seeds = problem("decode_linear", rng, seeds=(4,))
    table, basis = networks.find_coordinates(vectors)
    rule = train.SGDOptions(clip=5.0, epochs=2, batch_size=1000)
    network = probe.make_network("decode_linear")
    first = train.init_training(network, basis, np.int32(4))
    done = train.fit(network, rule, table, basis, fit_on, held, seeds)
    w = np.asarray(first.params["layer_0"]["kernel"], np.float64)[0]
    b = np.asarray(first.params["layer_0"]["bias"], np.float64)
    x, y, velocity = table[fit_on.items[0, :, 0]].astype(np.float64), fit_on.targets[0], 0.0
    for _ in range(2):
        off = (x @ w)[:, 0] + b - y
        gradient = np.append(2 * (off[:, None] * x).mean(0), 2 * off.mean())
        gradient *= min(1, 5 / np.linalg.norm(gradient))
        velocity = 0.5 * velocity + gradient
        w, b = w - 0.01 * velocity[:-1, None], b - 0.01 * velocity[-1:]
    np.testing.assert_allclose(done.params["layer_0"]["kernel"][0, 0], w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(done.params["layer_0"]["bias"][0], b, rtol=1e-4, atol=1e-5)


def test_early_stopping_keeps_the_best_and_a_stopped_seed_stays(rng):
    vectors, (fit_on, held, _), seeds = problem("decode", rng)
    # Of the middle seed nothing but noise is to be learned: it stops first.
    noise = np.array(fit_on.targets)
    noise[1] = 1e4 * rng.standard_normal(noise.shape[1])
    table, basis = networks.find_coordinates(vectors)
    network, seen = probe.make_network("decode", 12), []
    rule = train.SGDOptions(learning_rate=0.05, clip=5.0, epochs=25, patience=3)
    done = train.fit(
        network, rule, table, basis, fit_on._replace(targets=noise), held, seeds,
        lambda now: seen.append(jax.tree.map(np.array, now)),
    )  # fmt: skip
    for s in range(3):
        ends = [now for now in seen if now.epoch[s] == len(seen[: int(now.epoch[s])])]
        score = np.array([-np.asarray(train.scores(network, now.params, table, held))[s] for now in ends])
        trained = int(done.epoch[s])
        score = score[:trained]
        assert int(done.best_epoch[s]) == score.argmax() + 1
        np.testing.assert_allclose(done.best_score[s], score.max(), rtol=1e-4)
        kept = seen[score.argmax()].params
        jax.tree.map(
            lambda a, b, s=s: np.testing.assert_array_equal(a[s], b[s]), jax.tree.map(np.array, done.best), kept
        )
        assert trained == rule.epochs or trained == int(done.best_epoch[s]) + rule.patience
    assert len(set(np.asarray(done.epoch).tolist())) > 1, "they stop each for itself"


def test_the_coordinates_of_the_span_change_nothing(rng):
    numbers = np.arange(200)
    flat = planted(numbers, 40, rng) + rng.standard_normal((200, 3)) @ rng.standard_normal((3, 40))
    table, basis = networks.find_coordinates(flat)
    assert table.shape[1] == basis.shape[0] == 5
    np.testing.assert_allclose(table @ basis, flat, atol=1e-5)
    _, (fit_on, held, _), seeds = problem("add", rng)
    keep = functools.partial(jax.tree.map, lambda x: np.minimum(x, 199) if x.dtype == np.int32 else x)
    fit_on, held = keep(fit_on), keep(held)
    rule, network = train.SGDOptions(clip=5.0, epochs=2), probe.make_network("add", 12)
    short = train.fit(network, rule, table, basis, fit_on, held, seeds)
    whole = train.fit(network, rule, flat.astype(np.float32), np.eye(40, dtype=np.float32), fit_on, held, seeds)
    np.testing.assert_allclose(short.best_score, whole.best_score, rtol=2e-3)
    full, part = (np.asarray(x.params["layer_0"]["kernel"]) for x in (whole, short))
    np.testing.assert_allclose(np.einsum("rd,skdh->skrh", basis, full), part, atol=2e-3)


def test_a_planted_number_is_read_and_random_vectors_are_not(rng):
    numbers = np.arange(1000, 1200)
    sizes = ProbeSizes(epochs=80, hidden=16)
    clear = probe.run("decode_linear", planted(numbers, 8, rng), numbers, range(2), sizes)
    assert all(result.test < 0.5 and result.validation < 0.5 for result in clear)
    blind = probe.run("decode_linear", rng.standard_normal((200, 8)), numbers, range(2), sizes)
    assert all(result.test > 0.9 * numbers.std() for result in blind)
    assert [result.seed for result in blind] == [0, 1] and all(0 < r.best_epoch <= r.epochs <= 80 for r in clear)
    # The order in which numbers are given does not matter.
    turned = probe.run(
        "decode_linear", planted(numbers, 8, np.random.default_rng(2))[::-1], numbers[::-1], [0], sizes
    )
    again = probe.run("decode_linear", planted(numbers, 8, np.random.default_rng(2)), numbers, [0], sizes)
    assert turned == again


def test_the_largest_of_a_list_is_found_by_a_planted_number(rng):
    numbers = np.arange(150)
    found = probe.run("max", 3 * planted(numbers, 4, rng), numbers, [0], ProbeSizes(2000, 200, 8, 8))
    assert found[0].test > 0.6 and found[0].validation > 0.6  # chance is 0.2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(name="maximum"), "no probe is called 'maximum'"),
        (dict(seeds=[]), "one seed or more"),
        (dict(numbers=np.arange(99)), "do not match"),
        (dict(numbers=np.arange(100) // 2), "0 is given twice"),
        (dict(vectors_VD=np.full((100, 2), np.nan)), "the vector of 0 is not finite"),
        (dict(vectors_VD=np.ones((9, 2)), numbers=np.arange(9)), "9 numbers are too few"),
    ],
)
def test_bad_input_is_named(change, says):
    given = dict(name="decode", vectors_VD=np.ones((100, 2)), numbers=np.arange(100), seeds=[0]) | change
    with pytest.raises((UsageError, DataError), match=says):
        probe.run(**given)
