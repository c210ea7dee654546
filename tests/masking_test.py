"""Masking on the host: its shares, the tokens it never masks, and masks that depend on (seed, epoch, example)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax import protocols
from numjax.build import build
from numjax.errors import UsageError
from numjax.numeral.exact import to_decimals
from numjax.pipeline import features, masking
from numjax.pipeline.loader import Loader
from numjax.tasks import table_text
from numjax.text import vocab
from numjax.types import Channel, Numeral
from tests import encoded

RATES = {"rate": 0.15, "keep": 0.1, "random": 0.1, "literals": True, "separators": False}
TABLE = '[["year", "eggs", "price"], ["2019", "1,234.5 of 7", "$ 3.25"], ["2020", "98765", "50%"]]'


@functools.cache
def scheme():
    texts = [" ".join(encoded.WORDS), "  ".join(encoded.NUMBERS), TABLE] * 3
    return build("text", {"name": "addback"}, vocab=vocab.build({"name": "sentencepiece", "size": 320}, texts))


def make_rows(rng, rows: int, length: int):
    """Returns (examples, places, ids, offsets) of rows; a number has three pieces and its mark."""
    ids = rng.integers(0, scheme().vocab.base, (rows, length)).astype(np.int32)
    starts = np.tile(np.arange(length), (rows, 1))
    for b in range(rows):
        for index in range(1 + b % 5, length - 4, 9):
            ids[b, index + 3] = scheme().vocab.mark("[NUM]")
            starts[b, index : index + 4] = index
    ids[:, 0], ids[:, -1] = scheme().vocab.mark("[CLS]"), scheme().vocab.mark("[SEP]")
    offsets = np.stack([starts, starts + 1], axis=-1).reshape(-1, 2)
    examples, places = np.divmod(np.arange(rows * length), length)
    return examples, places, ids.ravel(), offsets


def test_masking_has_its_shares_and_never_masks_special_tokens(rng):
    examples, places, ids, offsets = make_rows(rng, 800, 100)
    settings = masking.make_masking(RATES, scheme())
    masks = masking.mask(settings, 3, 1, examples, places, ids, offsets)
    is_special = (ids == scheme().vocab.mark("[CLS]")) | (ids == scheme().vocab.mark("[SEP]"))
    assert not masks.chosen[is_special].any()
    assert not masks.hidden[~masks.chosen].any() and (masks.ids == ids)[~masks.hidden].all()
    is_mask_token = masks.ids == settings.mask_id
    is_random = masks.hidden & ~is_mask_token
    # Units of up to four positions are drawn: five standard errors of a share of about 56,000 units.
    for selection, expected in (
        (masks.chosen[~is_special], 0.15),
        (is_mask_token[masks.chosen], 0.8),
        (is_random[masks.chosen], 0.1),
    ):
        assert abs(selection.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) * 2.5 / len(selection))
    assert np.isin(masks.ids[is_random], settings.tokens).all() and len(np.unique(masks.ids[is_random])) > 0.9 * len(
        settings.tokens
    )
    # Another epoch or seed gives independent masks: they overlap in 15% of 15%.
    for seed, epoch in ((3, 2), (4, 1)):
        other_masks = masking.mask(settings, seed, epoch, examples, places, ids, offsets).chosen
        assert abs((other_masks & masks.chosen).mean() - 0.15**2) < 0.003


def test_a_number_is_masked_with_its_pieces_unless_as_published(rng):
    rows = make_rows(rng, 300, 100)
    ids, offsets = rows[2:]
    number_positions = np.flatnonzero(ids == scheme().vocab.mark("[NUM]"))
    assert (offsets[number_positions - 3] == offsets[number_positions]).all()
    masks = masking.mask(masking.make_masking(RATES, scheme()), 0, 0, *rows)
    for array in (masks.chosen, masks.hidden, masks.ids == scheme().vocab.mark("[MASK]")):
        pieces = np.stack([array[number_positions - distance] for distance in range(4)])
        assert (pieces == pieces[0]).all() and pieces.any()
    single_masks = masking.mask(
        masking.make_masking(RATES | {"literals": False, "separators": True}, scheme()), 0, 0, *rows
    )
    pieces = np.stack([single_masks.chosen[number_positions - distance] for distance in range(4)])
    # Each position is drawn by itself, so all four agree less often.
    assert (pieces == pieces[0]).all(axis=0).mean() < 0.7
    assert single_masks.chosen[ids == scheme().vocab.mark("[SEP]")].any()
    assert not single_masks.chosen[ids == scheme().vocab.mark("[CLS]")].any()


def test_hashes_are_uniform_and_depend_on_every_word():
    draws = masking.uniform(7, np.arange(200_000))
    assert draws.min() >= 0 and draws.max() < 1
    counts = np.histogram(draws, 50, (0, 1))[0]
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(4000)
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.02
    assert masking.uniform(1, 2) != masking.uniform(2, 1) and masking.uniform(-1, 0) != masking.uniform(1, 0)


@pytest.mark.parametrize("options", [{"rate": 0.0}, {"keep": 0.6, "random": 0.5}, {"random": -0.1}])
def test_invalid_shares_are_refused(options):
    with pytest.raises(UsageError, match=r"data\.masking"):
        masking.make_masking(RATES | options, scheme())


def config():
    settings: Any = encoded.make_config(length=64)
    settings.data.masking = ConfigDict(RATES | {"rate": 0.4})
    return settings


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    records = [{"id": r["id"], "text": r["text"], "table": TABLE} for r in encoded.make_records(rng, 11)]
    return features.encode(table_text.Task(), scheme(), records, config().data, "train")


def make_loader(rows, process=(0, 1), **options):
    return Loader(rows, config(), seed=5, process=process, **options)


def test_a_batch_hides_the_tokens_that_its_targets_mask(rows):
    batch: Any = make_loader(rows).batch(0)[0]
    inputs, targets = batch.inputs, batch.targets
    assert targets is not None and inputs.numeral_index is not None and targets.numeral_index is not None
    num_id, n_hidden, n_masked = scheme().vocab.mark("[NUM]"), 0, 0
    for b, example in enumerate(batch.example_id):
        row = rows.rows[int(example)]
        size = len(row.ids)
        assert targets.ids[b, :size].tolist() == row.ids.tolist() and not targets.mask[b, size:].any()
        values = to_decimals(Numeral(*(x[b] for x in inputs.numerals)))
        expected = [None if i < 0 else to_decimals(row.numerals)[i] for i in row.numeral_index]
        assert [None if i < 0 else values[i] for i in targets.numeral_index[b, :size]] == expected
        is_unchanged = inputs.ids[b] == targets.ids[b]
        assert targets.mask[b][~is_unchanged].all()
        # A number with a hidden [NUM] has no vector either; the other numbers keep theirs.
        assert (inputs.numeral_index[b] == np.where(is_unchanged, targets.numeral_index[b], -1)).all()
        n_hidden += int(((targets.ids[b] == num_id) & ~is_unchanged).sum())
        # The pieces of a number have the offsets and the outcome of its [NUM].
        start = rows.columns.starts[int(example)]
        offsets = rows.columns.offsets[start : start + size]
        for index in np.flatnonzero(row.ids == num_id):
            pieces = np.flatnonzero((offsets == offsets[index]).all(axis=1))
            outcomes = {(bool(targets.mask[b, i]), inputs.ids[b, i] == scheme().vocab.mark("[MASK]")) for i in pieces}
            assert len(pieces) > 1 and len(outcomes) == 1
            n_masked += outcomes.pop()[0]
    assert n_hidden > 0 and n_masked > 10


COPY_CHANNEL = Channel("copy", fill=-7, of_ids=True)
NEAR_CHANNEL = Channel("near", fill=-7, of_ids=True, reach=1)
AHEAD_CHANNEL = Channel("ahead", fill=-7, of_ids=True, ahead=1)


@dataclasses.dataclass(frozen=True)
class CopyProducer(protocols.Producer):
    """A channel that is the ids plus one, so that it reveals them."""

    channel: Channel = COPY_CHANNEL

    def compute(self, ids):
        return ids + 1


def test_a_channel_computed_from_ids_is_hidden_with_them():
    rng = np.random.default_rng(0)
    records = [{"id": r["id"], "text": r["text"], "table": TABLE} for r in encoded.make_records(rng, 11)]
    channels = Channel("plain", fill=-7), NEAR_CHANNEL, AHEAD_CHANNEL
    producers = CopyProducer(), *map(CopyProducer, channels)
    arguments: Any = table_text.Task(), scheme(), records, config().data, "train"
    batch: Any = make_loader(features.encode(*arguments, producers=producers)).batch(0)[0]
    is_changed = (batch.inputs.ids != batch.targets.ids) & (batch.inputs.segment_ids > 0)
    copy_values, plain_values, is_used = (
        *(batch.inputs.channels[name] for name in ("copy", "plain")),
        batch.inputs.segment_ids > 0,
    )
    np.testing.assert_array_equal(plain_values, np.where(is_used, batch.targets.ids + 1, -7))
    assert is_changed.sum() > 10 and (copy_values[is_changed] == -7).all() and (copy_values[~is_used] == -7).all()
    is_visible = is_used & (copy_values != -7)
    np.testing.assert_array_equal(copy_values[is_visible], batch.targets.ids[is_visible] + 1)
    assert is_visible.sum() > is_changed.sum()
    # What depends on the id before is hidden with it, and not across the beginning of an example.
    is_hidden = copy_values == -7
    is_reached = np.roll(is_hidden, 1, axis=-1) & (np.asarray(batch.inputs.positions) > 0)
    np.testing.assert_array_equal(batch.inputs.channels["near"] == -7, is_hidden | (is_reached & is_used))
    assert (is_reached & is_used & ~is_hidden).any()
    is_seen = np.roll(is_hidden & (np.asarray(batch.inputs.positions) > 0), -1, axis=-1)
    np.testing.assert_array_equal(batch.inputs.channels["ahead"] == -7, is_hidden | (is_seen & is_used))


def test_masks_depend_only_on_seed_epoch_and_example(rows):
    """Masks are equal on any number of processes and after a resume, and differ between epochs."""
    loader = make_loader(rows)
    parts = [make_loader(rows, (p, 2)) for p in range(2)]
    for index in range(4):
        whole = encoded.list_arrays(loader.batch(index)[0])
        joined = encoded.concatenate_batches([part.batch(index)[0] for part in parts])
        assert all(np.array_equal(a, b) for a, b in zip(whole, joined, strict=True))
    iterator = loader.iterate(0)
    for _ in range(3):
        next(iterator)
    assert encoded.are_equal(next(iterator)[0], next(loader.iterate(3 * loader.batch_size))[0])

    def collect_masks(epoch):
        masks = {}
        for index in range(loader.batches_of_epoch()):
            batch: Any = loader.batch(epoch * loader.batches_of_epoch() + index)[0]
            masks |= {int(e): batch.targets.mask[b] for b, e in enumerate(batch.example_id) if e >= 0}
        return masks

    first, second = collect_masks(0), collect_masks(1)
    assert first.keys() == second.keys() and any((first[e] != second[e]).any() for e in first)
    evaluations = [[encoded.list_arrays(b) for b in make_loader(rows).epoch(4)] for _ in range(2)]
    for pair in zip(*evaluations, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(*pair, strict=True))
