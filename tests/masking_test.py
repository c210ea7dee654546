"""Masking on the host: its statistics, what it leaves alone, and that nothing but (seed, epoch, example) decides."""

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


def flat(rng, rows: int, length: int):
    """(examples, places, ids, offsets) of rows in which every fifth number has three pieces and its mark."""
    ids = rng.integers(0, scheme().vocab.base, (rows, length)).astype(np.int32)
    start = np.tile(np.arange(length), (rows, 1))
    for b in range(rows):
        for at in range(1 + b % 5, length - 4, 9):
            ids[b, at + 3] = scheme().vocab.mark("[NUM]")
            start[b, at : at + 4] = at
    ids[:, 0], ids[:, -1] = scheme().vocab.mark("[CLS]"), scheme().vocab.mark("[SEP]")
    offsets = np.stack([start, start + 1], axis=-1).reshape(-1, 2)
    examples, places = np.divmod(np.arange(rows * length), length)
    return examples, places, ids.ravel(), offsets


def test_shares_and_what_is_never_masked(rng):
    examples, places, ids, offsets = flat(rng, 800, 100)
    how = masking.make_masking(RATES, scheme())
    found = masking.mask(how, 3, 1, examples, places, ids, offsets)
    special = (ids == scheme().vocab.mark("[CLS]")) | (ids == scheme().vocab.mark("[SEP]"))
    assert not found.chosen[special].any()
    assert not found.hidden[~found.chosen].any() and (found.ids == ids)[~found.hidden].all()
    masked = found.ids == how.mask_id
    random = found.hidden & ~masked
    # Units are drawn, of up to four positions: five standard errors of a share of about 56,000 units.
    for share, of in ((found.chosen[~special], 0.15), (masked[found.chosen], 0.8), (random[found.chosen], 0.1)):
        assert abs(share.mean() - of) < 5 * np.sqrt(of * (1 - of) * 2.5 / len(share))
    assert np.isin(found.ids[random], how.tokens).all() and len(np.unique(found.ids[random])) > 0.9 * len(how.tokens)
    # Another epoch or seed masks others: two draws of 15% share as many as chance has it.
    for seed, epoch in ((3, 2), (4, 1)):
        again = masking.mask(how, seed, epoch, examples, places, ids, offsets).chosen
        assert abs((again & found.chosen).mean() - 0.15**2) < 0.003


def test_a_number_is_masked_with_its_pieces_unless_as_published(rng):
    rows = flat(rng, 300, 100)
    ids, offsets = rows[2:]
    number = np.flatnonzero(ids == scheme().vocab.mark("[NUM]"))
    assert (offsets[number - 3] == offsets[number]).all()
    whole = masking.mask(masking.make_masking(RATES, scheme()), 0, 0, *rows)
    for of in (whole.chosen, whole.hidden, whole.ids == scheme().vocab.mark("[MASK]")):
        pieces = np.stack([of[number - back] for back in range(4)])
        assert (pieces == pieces[0]).all() and pieces.any()
    single = masking.mask(
        masking.make_masking(RATES | {"literals": False, "separators": True}, scheme()), 0, 0, *rows
    )
    pieces = np.stack([single.chosen[number - back] for back in range(4)])
    # Each position by itself: seldom all four.
    assert (pieces == pieces[0]).all(axis=0).mean() < 0.7
    assert single.chosen[ids == scheme().vocab.mark("[SEP]")].any()
    assert not single.chosen[ids == scheme().vocab.mark("[CLS]")].any()


def test_hashes_are_uniform_and_tell_every_word_apart():
    drawn = masking.uniform(7, np.arange(200_000))
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, 50, (0, 1))[0]
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(4000)
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.02
    assert masking.uniform(1, 2) != masking.uniform(2, 1) and masking.uniform(-1, 0) != masking.uniform(1, 0)


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"keep": 0.6, "random": 0.5}, {"random": -0.1}])
def test_shares_that_are_none_are_refused(wrong):
    with pytest.raises(UsageError, match=r"data\.masking"):
        masking.make_masking(RATES | wrong, scheme())


def config():
    found: Any = encoded.make_config(length=64)
    found.data.masking = ConfigDict(RATES | {"rate": 0.4})
    return found


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    records = [{"id": r["id"], "text": r["text"], "table": TABLE} for r in encoded.make_records(rng, 11)]
    return features.encode(table_text.Task(), scheme(), records, config().data, "train")


def loader(rows, process=(0, 1), **more):
    return Loader(rows, config(), seed=5, process=process, **more)


def test_a_batch_hides_what_its_targets_ask_for(rows):
    batch: Any = loader(rows).batch(0)[0]
    inputs, targets = batch.inputs, batch.targets
    assert targets is not None and inputs.numeral_index is not None and targets.numeral_index is not None
    num, hidden, masked = scheme().vocab.mark("[NUM]"), 0, 0
    for b, example in enumerate(batch.example_id):
        row = rows.rows[int(example)]
        size = len(row.ids)
        assert targets.ids[b, :size].tolist() == row.ids.tolist() and not targets.mask[b, size:].any()
        values = to_decimals(Numeral(*(x[b] for x in inputs.numerals)))
        want = [None if i < 0 else to_decimals(row.numerals)[i] for i in row.numeral_index]
        assert [None if i < 0 else values[i] for i in targets.numeral_index[b, :size]] == want
        same = inputs.ids[b] == targets.ids[b]
        assert targets.mask[b][~same].all()
        # A number whose [NUM] is no more to be read has no vector either; the others keep theirs.
        assert (inputs.numeral_index[b] == np.where(same, targets.numeral_index[b], -1)).all()
        hidden += int(((targets.ids[b] == num) & ~same).sum())
        # A number's pieces share its [NUM]'s offsets, and its fate.
        start = rows.columns.starts[int(example)]
        offsets = rows.columns.offsets[start : start + size]
        for at in np.flatnonzero(row.ids == num):
            whole = np.flatnonzero((offsets == offsets[at]).all(axis=1))
            fates = {(bool(targets.mask[b, i]), inputs.ids[b, i] == scheme().vocab.mark("[MASK]")) for i in whole}
            assert len(whole) > 1 and len(fates) == 1
            masked += fates.pop()[0]
    assert hidden > 0 and masked > 10


TOLD = Channel("told", fill=-7, of_ids=True)


@dataclasses.dataclass(frozen=True)
class Copied(protocols.Producer):
    """What follows from the ids, and tells them."""

    channel: Channel = TOLD

    def compute(self, ids):
        return ids + 1


def test_a_channel_of_the_ids_is_hidden_with_them():
    rng = np.random.default_rng(0)
    records = [{"id": r["id"], "text": r["text"], "table": TABLE} for r in encoded.make_records(rng, 11)]
    makers = Copied(), Copied(Channel("stays", fill=-7))
    known: Any = table_text.Task(), scheme(), records, config().data, "train"
    batch: Any = loader(features.encode(*known, producers=makers)).batch(0)[0]
    changed = (batch.inputs.ids != batch.targets.ids) & (batch.inputs.segment_ids > 0)
    told, stays, used = *(batch.inputs.channels[name] for name in ("told", "stays")), batch.inputs.segment_ids > 0
    np.testing.assert_array_equal(stays, np.where(used, batch.targets.ids + 1, -7))
    assert changed.sum() > 10 and (told[changed] == -7).all() and (told[~used] == -7).all()
    kept = used & (told != -7)
    np.testing.assert_array_equal(told[kept], batch.targets.ids[kept] + 1)
    assert kept.sum() > changed.sum()


def test_masks_follow_the_example_alone(rows):
    """On any number of processes, resumed or straight, and each epoch anew."""
    one = loader(rows)
    parts = [loader(rows, (p, 2)) for p in range(2)]
    for index in range(4):
        whole = encoded.leaves(one.batch(index)[0])
        both = encoded.joined([part.batch(index)[0] for part in parts])
        assert all(np.array_equal(a, b) for a, b in zip(whole, both, strict=True))
    straight = one.iterate(0)
    for _ in range(3):
        next(straight)
    assert encoded.same(next(straight)[0], next(one.iterate(3 * one.batch_size))[0])

    def masks(epoch):
        found = {}
        for index in range(one.batches_of_epoch()):
            batch: Any = one.batch(epoch * one.batches_of_epoch() + index)[0]
            found |= {int(e): batch.targets.mask[b] for b, e in enumerate(batch.example_id) if e >= 0}
        return found

    first, second = masks(0), masks(1)
    assert first.keys() == second.keys() and any((first[e] != second[e]).any() for e in first)
    evaluated = [[encoded.leaves(b) for b in loader(rows).epoch(4)] for _ in range(2)]
    for pair in zip(*evaluated, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(*pair, strict=True))
