"""The loader gives every document once, from any position, on any number of processes."""

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
    are_equal,
    concatenate_batches,
    encode,
    list_arrays,
    list_expected_segments,
    list_segments,
    make_config,
    make_loader,
    make_records,
    make_scheme,
    make_text_task,
)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_every_epoch_has_every_document_once(name, pack, rng):
    loader = make_loader(rng, scheme=name, pack=pack, overflow="split", count=31)
    expected = collections.Counter(list_expected_segments(loader.encoded))
    count = loader.batches_of_epoch(0)
    for epoch in range(3):
        segments, examples, tokens = collections.Counter(), 0, 0
        for i in range(epoch * count, (epoch + 1) * count):
            batch, n_examples, n_tokens = loader.batch(i)
            segments.update(list_segments(batch))
            examples, tokens = examples + n_examples, tokens + n_tokens
            assert batch.inputs.ids.shape in loader.shapes()
            assert batch.inputs.numerals.valid.shape == (4, loader.numerals)
            assert n_tokens == (batch.inputs.segment_ids > 0).sum()
        assert segments == expected and examples == len(loader.encoded) and tokens == loader.encoded.lengths.sum()


@pytest.mark.parametrize("limit", [0, 10])
@pytest.mark.parametrize("kind", ["language_model", "classify"])
def test_evaluation_has_each_row_once_and_marks_filler_rows(kind, limit, rng):
    loader = make_loader(rng, kind=kind, pack=True)
    example_ids, shapes = [], set()
    for batch in loader.epoch(6, limit):
        assert ((batch.example_id >= 0) == batch.valid).all()
        assert (batch.inputs.segment_ids.max(axis=1) == batch.valid).all()
        if batch.targets is not None:
            assert not batch.targets.mask[~batch.valid].any()
        for b in np.flatnonzero(batch.valid):
            row = loader.encoded.rows[int(batch.example_id[b])]
            length = len(row.ids) - (kind == "language_model")
            assert batch.inputs.ids[b, :length].tolist() == row.ids[:length].tolist()
        example_ids += batch.example_id[batch.valid].tolist()
        shapes.add(batch.inputs.ids.shape)
    assert sorted(example_ids) == list(range(limit or len(loader.encoded)))
    assert len(shapes) <= 4


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("pack", [False, True])
def test_resuming_at_a_position_gives_the_same_batches(pack, threads, rng):
    options = dict(pack=pack, threads=threads, prefetch=3)
    loader = make_loader(rng, **options)
    steps = 2 * loader.batches_of_epoch(0) + 2
    all_batches = [batch for batch, *_ in itertools.islice(loader.iterate(), steps)]
    assert not are_equal(all_batches[0], all_batches[loader.batches_of_epoch(0)])
    for step in (1, steps // 2, steps - 1):
        # A new process knows only the position.
        new_loader = Loader(loader.encoded, make_config(**options), seed=0, process=(0, 1))
        tail = [batch for batch, *_ in itertools.islice(new_loader.iterate(step * 4), steps - step)]
        assert all(are_equal(a, b) for a, b in zip(all_batches[step:], tail, strict=True))


@pytest.mark.parametrize("slices", [(0, 2), (1, 3), (3,), range(4)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_process_loads_the_slices_that_its_devices_hold(slices, shared, rng):
    config = make_config(batch_size=8, shared=shared)
    encoded = make_loader(rng, count=90, batch_size=8).encoded
    loader, whole_loader = (
        Loader(encoded, config, seed=0, process=process) for process in ((slices, 4), (range(4), 4))
    )
    for index in range(whole_loader.batches_of_epoch()):
        arrays, whole_arrays = list_arrays(loader.batch(index)[0]), list_arrays(whole_loader.batch(index)[0])
        for array, whole_array in zip(arrays, whole_arrays, strict=True):
            slice_length = len(whole_array) // 4  # two rows; one where rows share tables
            assert np.array_equal(
                array, np.concatenate([whole_array[slice_length * i : slice_length * (i + 1)] for i in slices])
            )


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("pack", [False, True])
def test_slices_of_all_processes_are_the_whole_batch(pack, processes, rng):
    whole, config = make_loader(rng, pack=pack, count=90), make_config(pack=pack)
    parts = [Loader(whole.encoded, config, seed=0, process=(index, processes)) for index in range(processes)]
    start = whole.batches_of_epoch(0) - 2  # across the end of the epoch, with filler rows
    iterators = [itertools.islice(part.iterate(start * 4), 5) for part in parts]
    for (expected, *counts), *got in zip(itertools.islice(whole.iterate(start * 4), 5), *iterators, strict=True):
        assert all(rest == counts for _, *rest in got)
        assert all(
            np.array_equal(a, b)
            for a, b in zip(list_arrays(expected), concatenate_batches([b for b, *_ in got]), strict=True)
        )
    evaluation_batches = [list(part.epoch(8)) for part in parts]
    for expected, *got in zip(whole.epoch(8), *evaluation_batches, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(list_arrays(expected), concatenate_batches(got), strict=True))


def test_without_a_mesh_processes_load_separate_rows_and_a_shared_row_is_refused(rng, monkeypatch):
    def fake_jax(processes, devices):
        module = SimpleNamespace(
            device_count=lambda: devices, process_count=lambda: processes, process_index=lambda: 1
        )
        monkeypatch.setitem(sys.modules, "jax", module)

    loader, config = make_loader(rng, kind="classify"), make_config()
    config.mesh = dict(tensor=2)
    fake_jax(2, 8)
    process_loader = Loader(loader.encoded, config, seed=0)
    assert are_equal(process_loader.batch(0)[0], Loader(loader.encoded, config, seed=0, process=(1, 2)).batch(0)[0])
    fake_jax(2, 2)
    with pytest.raises(UsageError, match=r"config\.mesh\.tensor=2 spans processes"):
        Loader(loader.encoded, config, seed=0)


def test_an_evaluation_batch_is_rounded_up_to_a_multiple_of_the_mesh(rng):
    encoded = make_loader(rng, kind="classify").encoded
    for batch_size, n_rows in ((1, 3), (6, 6), (7, 9)):
        batches = list(Loader(encoded, make_config(), seed=0, process=(range(3), 3)).epoch(batch_size))
        assert {len(batch.example_id) for batch in batches} == {n_rows}
        assert sorted(i for batch in batches for i in batch.example_id[batch.valid]) == list(range(len(encoded)))


def test_worker_processes_give_the_batches_of_threads(rng):
    loader = make_loader(rng, kind="classify")
    worker = Loader(loader.encoded, make_config(workers=1), seed=0, process=(0, 1))
    for (expected, *_), (got, *_) in zip(itertools.islice(loader.iterate(8), 4), worker.iterate(8), strict=False):
        assert are_equal(expected, got)


def test_a_loader_survives_pickling_without_its_records(rng):
    loader = make_loader(rng)
    copy = pickle.loads(pickle.dumps(loader))
    assert are_equal(loader.batch(3)[0], copy.batch(3)[0])
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
def test_the_example_batch_has_the_largest_shape_and_is_empty(kind, rng):
    loader = make_loader(rng, kind=kind, pack=True)
    blank = loader.example_batch()
    assert blank.inputs.ids.shape == loader.shapes()[-1] == max(loader.shapes())
    assert not blank.valid.any() and not blank.inputs.segment_ids.any() and (blank.example_id == -1).all()
    first = next(loader.iterate())[0]
    assert [(a.dtype, a.ndim) for a in list_arrays(blank)] == [(a.dtype, a.ndim) for a in list_arrays(first)]


def test_padding_holds_the_mark_and_a_state_that_allows_something(rng):
    config = make_config()
    config.objectives = dict(next=dict(constrain=True))
    scheme = make_scheme("digits")
    encoded = encode(make_text_task(), scheme, make_records(rng, 5), config)
    (batch,) = Loader(encoded, config, seed=0, process=(0, 1)).epoch(5)
    is_padding = batch.inputs.segment_ids == 0
    assert (batch.inputs.ids[is_padding] == scheme.vocab.mark("[PAD]")).all()
    grammar = scheme.grammar()
    assert (grammar.next_state[batch.grammar_state] >= 0).any(axis=-1).all()
    is_legal = grammar.next_state[batch.grammar_state, grammar.class_of[batch.targets.ids]] >= 0
    assert is_legal[batch.targets.mask].all()


@pytest.mark.parametrize("kind", ["classify", "language_model"])
def test_batches_by_characters_are_those_of_every_scheme(kind):
    def list_batches(scheme: str, by: str):
        loader = make_loader(np.random.default_rng(3), kind=kind, scheme=scheme, bucket_by=by, buckets=3, count=60)
        for i in range(loader.batches_of_epoch(0)):
            batch, count, _ = loader.batch(i)
            assert batch.inputs.ids.shape in loader.shapes() and (batch.inputs.segment_ids > 0).any(1).sum() == count
            yield batch.example_id.tolist()
        assert len({*loader.shapes()}) == len(loader.shapes()), "two buckets may need the same room"

    by_characters = [list(list_batches(scheme, "characters")) for scheme in SCHEMES]
    assert all(batches == by_characters[0] for batches in by_characters)
    assert list(list_batches("digits", "tokens")) != list(list_batches("subword", "tokens"))
    assert sorted(itertools.chain(*by_characters[0])) == sorted(itertools.chain(*list_batches("digits", "tokens")))


def test_batches_by_something_else_are_refused(rng):
    with pytest.raises(UsageError, match="bucket_by='words': choose one of tokens, characters"):
        make_loader(rng, bucket_by="words")
