"""The loader: every document once, from any position, on any number of processes."""

from __future__ import annotations

import collections
import itertools
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from numjax.errors import UsageError
from numjax.pipeline.loader import Loader
from tests.encoded import (
    SCHEMES,
    encode,
    expected_segments,
    joined,
    leaves,
    make_config,
    make_loader,
    make_records,
    make_scheme,
    make_text_task,
    same,
    segments_of,
)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_every_epoch_reads_every_document_once(name, pack, rng):
    loader = make_loader(rng, scheme=name, pack=pack, overflow="split", count=31)
    want = collections.Counter(expected_segments(loader.encoded))
    count = loader.batches_of_epoch(0)
    for epoch in range(3):
        found, examples, tokens = collections.Counter(), 0, 0
        for i in range(epoch * count, (epoch + 1) * count):
            batch, read, real = loader.batch(i)
            found.update(segments_of(batch))
            examples, tokens = examples + read, tokens + real
            assert batch.inputs.ids.shape in loader.shapes()
            assert batch.inputs.numerals.valid.shape == (4, loader.numerals)
            assert real == (batch.inputs.segment_ids > 0).sum()
        assert found == want and examples == len(loader.encoded) and tokens == loader.encoded.lengths.sum()


@pytest.mark.parametrize("limit", [0, 10])
@pytest.mark.parametrize("kind", ["language_model", "classify"])
def test_evaluation_reads_each_row_once_and_marks_what_fills_up(kind, limit, rng):
    loader = make_loader(rng, kind=kind, pack=True)
    seen, shapes = [], set()
    for batch in loader.epoch(6, limit):
        assert ((batch.example_id >= 0) == batch.valid).all()
        assert (batch.inputs.segment_ids.max(axis=1) == batch.valid).all()
        if batch.targets is not None:
            assert not batch.targets.mask[~batch.valid].any()
        for b in np.flatnonzero(batch.valid):
            row = loader.encoded.rows[int(batch.example_id[b])]
            length = len(row.ids) - (kind == "language_model")
            assert batch.inputs.ids[b, :length].tolist() == row.ids[:length].tolist()
        seen += batch.example_id[batch.valid].tolist()
        shapes.add(batch.inputs.ids.shape)
    assert sorted(seen) == list(range(limit or len(loader.encoded)))
    assert len(shapes) <= 4


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("pack", [False, True])
def test_reading_on_from_a_position_is_the_tail_of_reading_from_the_start(pack, threads, rng):
    options = dict(pack=pack, threads=threads, prefetch=3)
    loader = make_loader(rng, **options)
    steps = 2 * loader.batches_of_epoch(0) + 2
    straight = [batch for batch, *_ in itertools.islice(loader.iterate(), steps)]
    assert not same(straight[0], straight[loader.batches_of_epoch(0)])
    for step in (1, steps // 2, steps - 1):
        # A process that starts afresh knows nothing but the position.
        fresh = Loader(loader.encoded, make_config(**options), seed=0, process=(0, 1))
        tail = [batch for batch, *_ in itertools.islice(fresh.iterate(step * 4), steps - step)]
        assert all(same(a, b) for a, b in zip(straight[step:], tail, strict=True))


@pytest.mark.parametrize("held", [(0, 2), (1, 3), (3,), range(4)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_process_reads_the_slices_that_its_devices_hold(held, shared, rng):
    config = make_config(batch_size=8, shared=shared)
    encoded = make_loader(rng, count=90, batch_size=8).encoded
    mine, whole = (Loader(encoded, config, seed=0, process=process) for process in ((held, 4), (range(4), 4)))
    for index in range(whole.batches_of_epoch()):
        mine_too, of_all = leaves(mine.batch(index)[0]), leaves(whole.batch(index)[0])
        for got, want in zip(mine_too, of_all, strict=True):
            each = len(want) // 4  # two rows, or where rows share tables, one
            assert np.array_equal(got, np.concatenate([want[each * at : each * (at + 1)] for at in held]))


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("pack", [False, True])
def test_slices_of_all_processes_are_the_whole_batch(pack, processes, rng):
    whole, config = make_loader(rng, pack=pack, count=90), make_config(pack=pack)
    parts = [Loader(whole.encoded, config, seed=0, process=(index, processes)) for index in range(processes)]
    start = whole.batches_of_epoch(0) - 2  # over the epoch's end, where rows only fill up
    resumed = [itertools.islice(part.iterate(start * 4), 5) for part in parts]
    for (want, *counts), *got in zip(itertools.islice(whole.iterate(start * 4), 5), *resumed, strict=True):
        assert all(rest == counts for _, *rest in got)
        assert all(np.array_equal(a, b) for a, b in zip(leaves(want), joined([b for b, *_ in got]), strict=True))
    evaluated = [list(part.epoch(8)) for part in parts]
    for want, *got in zip(whole.epoch(8), *evaluated, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(leaves(want), joined(got), strict=True))


def test_without_a_mesh_processes_read_side_by_side_and_a_row_that_several_hold_is_refused(rng, monkeypatch):
    def started(processes, devices):
        running = SimpleNamespace(
            device_count=lambda: devices, process_count=lambda: processes, process_index=lambda: 1
        )
        monkeypatch.setitem(sys.modules, "jax", running)

    loader, config = make_loader(rng, kind="classify"), make_config()
    config.mesh = dict(tensor=2)
    started(2, 8)
    mine = Loader(loader.encoded, config, seed=0)
    assert same(mine.batch(0)[0], Loader(loader.encoded, config, seed=0, process=(1, 2)).batch(0)[0])
    started(2, 2)
    with pytest.raises(UsageError, match=r"config\.mesh\.tensor=2 spans processes"):
        Loader(loader.encoded, config, seed=0)


def test_an_evaluation_batch_is_rounded_up_to_what_the_mesh_divides(rng):
    encoded = make_loader(rng, kind="classify").encoded
    for asked, rows in ((1, 3), (6, 6), (7, 9)):
        batches = list(Loader(encoded, make_config(), seed=0, process=(range(3), 3)).epoch(asked))
        assert {len(batch.example_id) for batch in batches} == {rows}
        assert sorted(i for batch in batches for i in batch.example_id[batch.valid]) == list(range(len(encoded)))


def test_reader_processes_give_what_threads_give(rng):
    loader = make_loader(rng, kind="classify")
    worker = Loader(loader.encoded, make_config(workers=1), seed=0, process=(0, 1))
    for (want, *_), (got, *_) in zip(itertools.islice(loader.iterate(8), 4), worker.iterate(8), strict=False):
        assert same(want, got)


def test_a_loader_survives_pickling_without_its_records(rng):
    loader = make_loader(rng)
    copy = pickle.loads(pickle.dumps(loader))
    assert same(loader.batch(3)[0], copy.batch(3)[0])
    with pytest.raises(UsageError, match="encoded elsewhere"):
        copy.encoded.example(0)


def test_positions_and_batches_that_do_not_divide_are_refused(rng):
    loader = make_loader(rng)
    with pytest.raises(UsageError, match="keep the batch size"):
        loader.iterate(6)
    with pytest.raises(UsageError, match=r"batch_size=4 does not divide over data × fsdp=3 × accumulate=1"):
        Loader(loader.encoded, make_config(), seed=0, process=(0, 3)).check_batch()
    with pytest.raises(UsageError, match="a batch of 4 rows does not divide over 3"):
        Loader(loader.encoded, make_config(), seed=0, process=(0, 3)).batch(0)
    empty = Loader(loader.encoded.subset([]), make_config(), seed=0, process=(0, 1))
    with pytest.raises(UsageError, match="no example to read"):
        empty.iterate()
    assert list(empty.epoch(4)) == []


@pytest.mark.parametrize("kind", ["language_model", "classify"])
def test_the_example_batch_has_the_largest_shape_and_nothing_in_it(kind, rng):
    loader = make_loader(rng, kind=kind, pack=True)
    blank = loader.example_batch()
    assert blank.inputs.ids.shape == loader.shapes()[-1] == max(loader.shapes())
    assert not blank.valid.any() and not blank.inputs.segment_ids.any() and (blank.example_id == -1).all()
    real = next(loader.iterate())[0]
    assert [(a.dtype, a.ndim) for a in leaves(blank)] == [(a.dtype, a.ndim) for a in leaves(real)]


def test_padding_holds_the_mark_and_a_state_that_allows_something(rng):
    config = make_config()
    config.objectives = dict(next=dict(constrain=True))
    scheme = make_scheme("digits")
    encoded = encode(make_text_task(), scheme, make_records(rng, 5), config)
    (batch,) = Loader(encoded, config, seed=0, process=(0, 1)).epoch(5)
    blank = batch.inputs.segment_ids == 0
    assert (batch.inputs.ids[blank] == scheme.vocab.mark("[PAD]")).all()
    grammar = scheme.grammar()
    assert (grammar.next_state[batch.grammar_state] >= 0).any(axis=-1).all()
    legal = grammar.next_state[batch.grammar_state, grammar.class_of[batch.targets.ids]] >= 0
    assert legal[batch.targets.mask].all()
