"""Plans: which examples go into which row and batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax.errors import UsageError
from numjax.pipeline import columns as stores
from numjax.pipeline import packing

sizes = st.lists(st.integers(1, 60), min_size=0, max_size=60).map(np.asarray)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 7), st.integers(0, 3))
def test_bucketed_plans_hold_every_example_once(lengths, batch, epoch):
    lengths = lengths.astype(np.int64)
    buckets = packing.choose_buckets(lengths, 3, 8)
    plan = packing.plan_buckets(lengths, buckets, batch, 1, epoch)
    assert sorted(plan.members.tolist()) == list(range(len(lengths)))
    assert len(plan.lengths) == -(-len(lengths) // batch)
    counts = np.diff(plan.row_starts)
    assert len(counts) == len(plan.lengths) * batch and set(counts.tolist()) <= {0, 1}
    for b, length in enumerate(plan.lengths):
        members, mask = plan.rows(b)
        assert length in buckets and (lengths[members] <= length).all() and mask.sum() == len(members) > 0
    assert sum(counts.reshape(-1, batch).sum(axis=1) < batch) <= 1
    second_plan = packing.plan_buckets(lengths, buckets, batch, 1, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(plan[:3], second_plan[:3], strict=True))


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 7))
def test_sequential_plans_hold_every_example_once_and_in_order(lengths, batch):
    lengths = lengths.astype(np.int64)
    buckets = packing.choose_buckets(lengths, 3, 8)
    plan = packing.plan_sequential(lengths, buckets, batch)
    assert sorted(plan.members.tolist()) == list(range(len(lengths)))
    full = np.diff(plan.row_starts).reshape(-1, batch).sum(axis=1)
    assert (full[:-1] == batch).all()
    for b, length in enumerate(plan.lengths):
        members, _ = plan.rows(b)
        assert (lengths[members] <= length).all()
        for size in buckets:
            indices = [i for i in members if np.searchsorted(buckets, lengths[i]) == buckets.index(size)]
            assert indices == sorted(indices)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), max_size=80), st.integers(1, 6), st.integers(0, 4))
def test_packed_rows_hold_every_example_once_within_room_and_numerals(examples, batch, epoch):
    lengths = np.asarray([length for length, _ in examples], np.int64)
    numbers = np.asarray([count for _, count in examples], np.int64)
    filling = packing.fill_rows(lengths, numbers, 40, 9)
    plan = packing.plan_packed(filling, batch, 5, epoch)
    assert sorted(plan.members.tolist()) == list(range(len(examples)))
    rows = np.split(plan.members, plan.row_starts[1:-1])
    assert all(lengths[row].sum() <= 40 and numbers[row].sum() <= 9 for row in rows)
    assert len(plan.lengths) == -(-(len(filling.row_starts) - 1) // batch)
    empty = [not len(row) for row in rows][: len(plan.row_starts) - 1]
    assert sum(empty) < batch and not any(empty[: len(filling.row_starts) - 1])
    second_plan = packing.plan_packed(filling, batch, 5, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(plan[:3], second_plan[:3], strict=True))


def test_packing_wastes_little_where_either_limit_binds(rng):
    lengths = rng.integers(3, 200, 5000)
    for room, numerals in ((512, 64), (512, 10)):
        numbers = rng.integers(0, 6, 5000)
        rows = len(packing.fill_rows(lengths, numbers, room, numerals).row_starts) - 1
        least = max(lengths.sum() / room, numbers.sum() / numerals)
        assert rows < 1.03 * least


def test_epochs_and_seeds_differ_in_order_and_in_what_is_packed_together(rng):
    lengths, numbers = rng.integers(1, 12, 200), rng.integers(0, 3, 200)
    filling = packing.fill_rows(lengths, numbers, 48, 16)

    def list_rows(seed, epoch):
        plan = packing.plan_packed(filling, 4, seed, epoch)
        return [frozenset(row.tolist()) for row in np.split(plan.members, plan.row_starts[1:-1])]

    base, later, other = list_rows(0, 0), list_rows(0, 1), list_rows(1, 0)
    assert len(base) == len(later) == len(other)
    assert len(set(base) & set(later)) < len(base) / 4 and len(set(base) & set(other)) < len(base) / 4
    plans = [
        packing.plan_buckets(lengths, [16], 4, seed, epoch).members.tolist() for seed in (0, 1) for epoch in (0, 1)
    ]
    assert len({tuple(plan) for plan in plans}) == 4


def test_an_example_larger_than_a_row_is_refused():
    with pytest.raises(UsageError, match="does not fit a packed row"):
        packing.fill_rows(np.asarray([9]), np.asarray([0]), 8, 4)
    with pytest.raises(UsageError, match="does not fit a packed row"):
        packing.fill_rows(np.asarray([1]), np.asarray([5]), 8, 4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=30).map(np.asarray), st.integers(1, 4))
def test_no_choice_of_as_many_buckets_pads_less(lengths, most):
    buckets = packing.choose_buckets(lengths, most, 8)
    values = sorted({-(-int(length) // 8) * 8 for length in lengths})

    def measure_rows(choice):
        return sum(min(size for size in choice if size >= length) for length in lengths)

    assert buckets == sorted(set(buckets)) and len(buckets) <= most and set(buckets) <= set(values)
    others = [c for c in itertools.combinations(values, len(buckets)) if c[-1] == values[-1]]
    assert measure_rows(buckets) == min(map(measure_rows, others))


def test_buckets_stay_below_the_context_and_are_few_if_more_save_nothing():
    assert packing.choose_buckets(np.asarray([3, 30, 50]), 4, 16, longest=50) == [16, 32, 50]
    assert packing.choose_buckets(np.asarray([100] * 99 + [90])) == [104]
    assert packing.choose_buckets(np.zeros(0, np.int64)) == [8]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=12))
def test_ranges_joins_aranges(pairs):
    starts, counts = np.asarray([s for s, _ in pairs], int), np.asarray([n for _, n in pairs], int)
    assert stores.ranges(starts, counts).tolist() == [s + i for s, n in pairs for i in range(n)]


def test_pairs_of_lengths_fit_their_shapes_which_are_as_small_as_can_be(rng):
    cases = set()
    for _ in range(60):
        one, other = (rng.integers(1, rng.choice([6, 50, 300]), 50) for _ in range(2))
        key, shapes = packing.pair_buckets(one, other)
        by_first = np.array_equal(key, one)
        assert by_first or np.array_equal(key, other)
        sizes = sorted(shapes)
        rooms = np.asarray([shapes[sizes[i]] for i in np.searchsorted(sizes, key)])
        assert (rooms >= np.stack([one, other], axis=1)).all() and (rooms % 8 == 0).all()
        assert all(shape[0 if by_first else 1] == size for size, shape in shapes.items())
        for size, shape in shapes.items():
            shorter = key <= size
            assert shape == tuple(-(-int(lengths[shorter].max()) // 8) * 8 for lengths in (one, other))
        cases.add((by_first, len(sizes) > 1))
    assert {by_first for by_first, _ in cases} == {True, False} == {has_several for _, has_several in cases}
