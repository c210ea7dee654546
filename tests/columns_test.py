"""Rows that are refused leave nothing behind, and parts of a row know where its segments begin."""

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax import build, protocols
from numjax.errors import DataError
from numjax.pipeline import features as encoding
from numjax.pipeline.columns import ColumnsWriter
from numjax.text import vocab as vocabularies
from numjax.types import UNITS, Example, Features, Mark

DIGITS = 4


def make_row(rng, channels=("types",), widths=(), offsets=False):
    """The features of a row of a drawn size, with drawn channels."""
    size = int(rng.integers(1, 6))
    arrays = {name: rng.integers(1, 90, (size, *widths)).astype(np.int32) for name in channels}
    return Features(
        ids=rng.integers(0, 90, size).astype(np.int32),
        numeral_index=np.full(size, -1, np.int32),
        numbers=(),
        starts=(0, size),
        grammar_state=np.zeros(size + 1, np.int32),
        channels=arrays,
        offsets=np.zeros((size, 2), np.int32) if offsets else None,
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (dict(channels=()), "types: of this record and the first, only one has numbers"),
        (dict(channels=("types", "units")), "units: of this record and the first"),
        (dict(offsets=True), "offsets: of this record and the first"),
        (dict(widths=(2,)), "types: 2 numbers at each position instead of 1 as in the first record"),
        (dict(labels={"other": 1}), r"labels \['other'\] instead of \['label'\]"),
        (dict(labels={"label": [1, 2]}), r"label 'label' is int32\[2\] instead of int32\[\]"),
        (dict(source=False), "some records have a source for an encoder and others have none"),
        (dict(source={"channels": ()}), "types: of this record and the first"),
        (dict(source={"widths": (3,)}), "types: 3 numbers at each position instead of 1"),
    ],
)
def test_a_row_that_is_refused_leaves_nothing_behind(bad, message, rng):
    tried, alone = ColumnsWriter(DIGITS), ColumnsWriter(DIGITS)
    good = [(make_row(rng), {"label": i}, make_row(rng)) for i in range(3)]
    for row, labels, source in good:
        for writer in (tried, alone):
            writer.add(row, 0, labels, source)
        options = dict(bad)
        bad_labels, bad_source = options.pop("labels", {"label": 70}), options.pop("source", {})
        with pytest.raises(DataError, match=message):
            bad_row = make_row(rng, **options)
            tried.add(bad_row, 0, bad_labels, None if bad_source is False else make_row(rng, **bad_source))
    columns, expected = tried.finish(), alone.finish()
    for i, (row, labels, source) in enumerate(good):
        for got in (columns.row(i), expected.row(i)):
            np.testing.assert_array_equal(got.ids, row.ids)
            np.testing.assert_array_equal(got.channels["types"], row.channels["types"])
            np.testing.assert_array_equal(got.source.ids, source.ids)
            np.testing.assert_array_equal(got.source.channels["types"], source.channels["types"])
            assert got.labels == labels
    assert len(columns.loss_from) == len(columns.labels["label"]) == len(good)
    assert columns.starts[-1] == len(columns.ids) == len(columns.channels["types"])


@pytest.mark.parametrize("form", ["slice", "bool", "index"])
def test_segments_of_a_cut_row_hold_what_is_left_of_them(form, rng):
    for _ in range(20):
        sizes = rng.integers(0, 5, 6)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        count = int(starts[-1])
        ids = rng.permutation(count).astype(np.int32)
        row = Features(ids, np.full(count, -1), (), tuple(starts.tolist()), np.zeros(count + 1))
        kept = rng.random(count) < 0.6
        if form == "slice":
            first = int(rng.integers(0, count + 1))
            keep = slice(first, int(rng.integers(first, count + 1)))
            kept = np.isin(np.arange(count), np.arange(count)[keep])
        else:
            keep = kept if form == "bool" else np.flatnonzero(kept)
        part = encoding.cut(row, keep)
        assert part.starts[-1] == len(part.ids)
        for segment in range(len(sizes)):
            inside = np.arange(starts[segment], starts[segment + 1])
            assert (
                part.ids[part.starts[segment] : part.starts[segment + 1]].tolist()
                == ids[inside[kept[inside]]].tolist()
            )


MASKING = dict(rate=0.15, keep=0.1, random=0.1, separators=False, literals=False)
TEXTS = ("abc def", "12 34 abc def abc def")


class OwnTask(protocols.Task):
    """A task of two texts whose examples have drawn extras."""

    kind = "classify"
    channels = (UNITS,)

    def __init__(self, **extras):
        self.extras = extras

    def example(self, record, parse):
        first, second = (parse(text) for text in TEXTS)
        document = (Mark("[CLS]"), *first, Mark("[SEP]"), *second, Mark("[SEP]"))
        extras = self.extras | record.get("extras", {})
        return Example(record["id"], document, labels={"label": record.get("label", 0)}, **extras)


def encode_own(records=({"id": "a"},), *, kind="classify", extras=None, **options):
    """(the whole text encoded, the rows of records of `OwnTask`)."""
    vocab = vocabularies.build({"name": "sentencepiece", "size": 300}, list(TEXTS) * 5)
    scheme = build.build("text", {"name": "subword"}, vocab=vocab)
    task = OwnTask(**(extras or {}))
    task.kind = kind
    settings = dict(length=64, overflow="skip", digits=DIGITS, pack=False, masking=MASKING)
    whole = scheme.encode(task.example({"id": "whole"}, scheme.parse).document)
    return whole, encoding.encode(task, scheme, records, ConfigDict(settings | options), "train")


LIMITED = dict(limits=((1, 2, 1),))  # of "abc def" only the first position


def test_a_limited_text_can_be_shortened_further():
    whole, _ = encode_own()
    starts = whole.starts
    assert starts[2] - starts[1] > 1  # so the limit does something
    left = [*range(starts[1] + 1), *range(starts[2], starts[3]), *range(starts[4], starts[-1])]
    _, encoded = encode_own(extras=LIMITED | dict(spare=((3, 4),)), overflow="shorten", length=len(left))
    assert encoded.rows[0].ids.tolist() == whole.ids[left].tolist()


def test_a_limited_text_can_be_read_in_windows():
    whole, _ = encode_own()
    starts = whole.starts
    head, inside = [*range(starts[1] + 1), *range(starts[2], starts[3])], [*range(starts[3], starts[-2])]
    assert len(inside) > 5
    extras = LIMITED | dict(slide=(3, len(starts) - 2))
    _, encoded = encode_own(extras=extras, overflow="windows", length=len(head) + 5, stride=2)
    windows = [*range(0, len(inside) - 4, 2), len(inside) - 4]
    expected = [[*head, *inside[i : i + 4], starts[-2]] for i in dict.fromkeys(windows)]
    assert [row.ids.tolist() for row in encoded.rows] == [whole.ids[left].tolist() for left in expected]


@pytest.mark.parametrize("kind", ["classify", "masked"])
def test_units_beside_spans_and_masking(kind):
    begin = len("[CLS]abc def[SEP]")
    span = begin, begin + len("12 34")
    whole, encoded = encode_own(kind=kind, extras=dict(spans={"span": span}, units=((*span, 7),)))
    inside = np.flatnonzero(encoded.columns.channels["units"][:, 0])
    assert encoded.columns.labels["span"].tolist() == [[inside[0], inside[-1]]]
    assert (encoded.columns.channels["units"][inside] == [1, 7]).all()
    assert encoded.columns.offsets is not None and len(encoded.columns.offsets) == len(whole.ids)
    assert encode_own(extras=dict(units=((*span, 7),)))[1].columns.offsets is None


def test_labels_stay_with_their_records_when_one_has_no_units():
    units = {"units": ((5, 8, 7),)}
    records = [{"id": str(i), "label": i, "extras": {} if i == 1 else units} for i in range(4)]
    _, encoded = encode_own(records)
    assert [(row["id"], row["reason"].partition(":")[0]) for row in encoded.skipped] == [("1", "units")]
    assert [(encoded.example(i).id, int(row.labels["label"])) for i, row in enumerate(encoded.rows)] == [
        ("0", 0),
        ("2", 2),
        ("3", 3),
    ]
