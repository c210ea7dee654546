"""Texts cut into rows: formulas stay whole, nothing else is lost."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax import protocols
from numjax.errors import DataError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.pipeline import features, windows
from numjax.text import trees, vocab
from numjax.text.vocab import symbols
from numjax.types import Example, Features, Formula, Mark, Text
from tests import mathgpt as reference


def draw_spans(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Returns spans in order, some of which touch."""
    bounds = sorted(set(rng.integers(0, count + 1, int(rng.integers(0, 14))).tolist()))
    pairs = list(itertools.pairwise(bounds))
    return [pair for pair in pairs if rng.random() < 0.6]


def test_pieces_keep_spans_whole_and_every_target(rng):
    cases = set()
    for _ in range(3000):
        count, length = int(rng.integers(2, 80)), int(rng.integers(1, 30))
        spans = draw_spans(rng, count)
        pieces, lost_spans = windows.cut_pieces(count, length, spans)
        inner_positions = {p for start, stop in spans for p in range(start + 1, stop)}
        for start, stop in pieces:
            assert 2 <= stop - start <= length + 1
            # Neither the first nor the last position cuts a span.
            assert start not in inner_positions and (stop == count or stop not in inner_positions)
            assert not any(s < stop < e for s, e in spans)
        targets = [p for start, stop in pieces for p in range(start + 1, stop)]
        assert len(targets) == len(set(targets)) and targets == sorted(targets)
        assert set(lost_spans) <= set(spans) and all(stop - start >= length for start, stop in lost_spans)
        for start, stop in spans:
            is_in_a_piece = any(s <= start and stop <= e for s, e in pieces)
            assert is_in_a_piece != ((start, stop) in lost_spans) or stop - start == 1
        missing = set(range(1, count)) - set(targets) - {p for start, stop in lost_spans for p in range(start, stop)}
        # Only a first position is missing: that of a piece after a lost span, or of spans that touch.
        edges = {stop for _, stop in spans} | {start for start, _ in spans} | {stop - 1 for _, stop in lost_spans}
        assert missing <= edges | {start - 1 for start, _ in lost_spans}
        cases.add((bool(lost_spans), bool(missing), len(pieces) > 2))
        if not spans:
            assert not missing and pieces == [(a, min(a + length + 1, count)) for a in range(0, count - 1, length)]
    assert len(cases) >= 5


def test_cuts_equal_those_of_the_original(real_data):
    """The released code ends pieces before a formula or inside text; our pieces share the position before that."""
    folder = real_data("mathgpt_reference").parent
    case = reference.load_cases(folder)["split_case"]
    encoded = reference.load_scheme(folder).encode((*reference.make_document(case["article"]), Mark("[EOS]")))
    example = Example("x", (*reference.make_document(case["article"]), Mark("[EOS]")))
    spans = windows.find_formulas(example, encoded)
    assert len(spans) == 6 and len(encoded.ids) == case["sequence_length"]
    for max_length, lengths in case["piece_lengths_by_max_len"].items():
        pieces, lost_spans = windows.cut_pieces(len(encoded.ids), int(max_length), spans)
        n_lost = sum(stop - start for start, stop in lost_spans)
        assert n_lost == len(encoded.ids) - sum(lengths), "the formulas that are longer than a row are left out"
        if not lost_spans:
            ends = np.cumsum(lengths)[:-1].tolist()
            starts = {start for start, _ in spans}
            assert [stop - 1 for _, stop in pieces[:-1]] == [end - (end in starts) for end in ends]


# ---------------------------------------------------------------------------------------------------
# Rows of a scheme with trees.


@functools.cache
def make_scheme() -> trees.Scheme:
    marks = symbols.list_marks(symbols.count_symbols([latex.parse(r"x+y-z=\frac{1}{2}")]))  # type: ignore[list-item]
    texts = ["If then so we have the sum of all numbers"] * 9
    return trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320, "model": "bpe"}, texts, marks))


class DocumentTask(protocols.Task):
    """A task whose records are documents."""

    kind = "language_model"

    def example(self, record, parse):
        return Example(record["id"], record["document"], loss_from=1)


def make_formula(terms: int) -> Formula:
    tree = Tree("V", "x")
    for _ in range(terms - 1):
        tree = Tree("U", "eq", [tree, Tree("V", "y")])
    return Formula(" <m> … </m> ", tree)


def encode_document(document, length, strict=False):
    options = ConfigDict(dict(length=length, digits=8, overflow="split", pack=True))
    return features.encode(
        DocumentTask(), make_scheme(), [{"id": "a", "document": document}], options, "train", strict
    )


def test_rows_of_a_long_article_hold_whole_formulas(rng):
    for _ in range(40):
        document = [Mark("[CLS]")]
        for _ in range(int(rng.integers(3, 12))):
            if rng.random() < 0.8:
                document.append(Text(" ".join(rng.choice(["If", "then", "so", "we"], int(rng.integers(1, 9)))) + " "))
            document.append(make_formula(int(rng.integers(1, 6))))
        document = (*document, Mark("[EOS]"))
        features_of_document = make_scheme().encode(document)
        encoded = encode_document(document, 24)
        assert not encoded.skipped and encoded.lengths.max() <= 24
        formulas = []
        for row in encoded.rows:
            decoded = make_scheme().decode(row.ids)
            assert all(segment.tree is not None for segment in decoded if isinstance(segment, Formula))
            # A formula in a row is as in the whole text.
            formulas += [segment for segment in decoded if isinstance(segment, Formula)]
        assert formulas == [segment for segment in document if isinstance(segment, Formula)]
        row_ids = np.concatenate([row.ids[1:] for row in encoded.rows])
        assert len(row_ids) <= len(features_of_document.ids) - 1 <= len(row_ids) + len(formulas)


def test_a_formula_longer_than_a_row_is_left_out_and_named():
    document = (
        Mark("[CLS]"),
        Text("If "),
        make_formula(3),
        Text(" then "),
        make_formula(9),
        Text(" so we"),
        Mark("[EOS]"),
    )
    encoded = encode_document(document, 16)
    formulas = [s for row in encoded.rows for s in make_scheme().decode(row.ids) if isinstance(s, Formula)]
    assert formulas == [make_formula(3)]
    assert [(row["id"], row["reason"]) for row in encoded.skipped] == [
        ("a", f"left out formulas of {len(make_scheme().encode((make_formula(9),)).ids)} positions: data.length=16")
    ]
    text = "".join(s.text for row in encoded.rows for s in make_scheme().decode(row.ids) if isinstance(s, Text))
    assert "so we" in text
    with pytest.raises(DataError, match="record a of train: left out formulas"):
        encode_document(document, 16, strict=True)


def test_units_that_touch_have_the_positions_that_they_cover():
    offsets = np.asarray([(-1, -1), (0, 2), (2, 3), (3, 5), (5, 6), (6, 9), (9, 9)], np.int32)
    ids = np.arange(len(offsets))
    features_of_text = Features(
        ids, np.full(len(ids), -1), (), (0, len(ids)), np.zeros(len(ids) + 1), offsets=offsets
    )
    units = ((0, 3, 70), (3, 5, 80), (6, 8, 90))
    channel = windows.add_unit_channels(features_of_text, Example("a", (), units=units)).channels["units"]
    assert channel.tolist() == [[0, 0], [1, 70], [1, 70], [2, 80], [0, 0], [3, 90], [0, 0]]
