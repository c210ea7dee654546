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
from numjax.types import Example, Formula, Mark, Text
from tests import mathgpt as reference


def spans(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Some that touch, some that do not, in order."""
    bounds = sorted(set(rng.integers(0, count + 1, int(rng.integers(0, 14))).tolist()))
    pairs = list(itertools.pairwise(bounds))
    return [pair for pair in pairs if rng.random() < 0.6]


def test_pieces_keep_spans_whole_and_every_target(rng):
    seen = set()
    for _ in range(3000):
        count, length = int(rng.integers(2, 80)), int(rng.integers(1, 30))
        whole = spans(rng, count)
        found, lost = windows.cut_pieces(count, length, whole)
        inside = {p for start, stop in whole for p in range(start + 1, stop)}
        for start, stop in found:
            assert 2 <= stop - start <= length + 1
            # Neither the first nor the last position cuts a span.
            assert start not in inside and (stop == count or stop not in inside)
            assert not any(s < stop < e for s, e in whole)
        targets = [p for start, stop in found for p in range(start + 1, stop)]
        assert len(targets) == len(set(targets)) and targets == sorted(targets)
        assert set(lost) <= set(whole) and all(stop - start >= length for start, stop in lost)
        for start, stop in whole:
            held = any(s <= start and stop <= e for s, e in found)
            assert held != ((start, stop) in lost) or stop - start == 1
        missing = set(range(1, count)) - set(targets) - {p for start, stop in lost for p in range(start, stop)}
        # Only a first position: of a piece after a lost span, or of one of spans that touch.
        edges = {stop for _, stop in whole} | {start for start, _ in whole} | {stop - 1 for _, stop in lost}
        assert missing <= edges | {start - 1 for start, _ in lost}
        seen.add((bool(lost), bool(missing), len(found) > 2))
        if not whole:
            assert not missing and found == [(a, min(a + length + 1, count)) for a in range(0, count - 1, length)]
    assert len(seen) >= 5


def test_cuts_are_the_originals(real_data):
    """Pieces of the released code end before a formula or amid text; ours share the text position before that."""
    where = real_data("mathgpt_reference").parent
    case = reference.cases(where)["split_case"]
    found = reference.scheme(where).encode((*reference.document(case["article"]), Mark("[EOS]")))
    example = Example("x", (*reference.document(case["article"]), Mark("[EOS]")))
    whole = windows.find_formulas(example, found)
    assert len(whole) == 6 and len(found.ids) == case["sequence_length"]
    for most, lengths in case["piece_lengths_by_max_len"].items():
        pieces, lost = windows.cut_pieces(len(found.ids), int(most), whole)
        gone = sum(stop - start for start, stop in lost)
        assert gone == len(found.ids) - sum(lengths), "the formulas that are longer than a row are left out"
        if not lost:
            ends = np.cumsum(lengths)[:-1].tolist()
            starts = {start for start, _ in whole}
            assert [stop - 1 for _, stop in pieces[:-1]] == [end - (end in starts) for end in ends]


# ---------------------------------------------------------------------------------------------------
# Rows of a scheme with trees.


@functools.cache
def scheme() -> trees.Scheme:
    marks = symbols.list_marks(symbols.count_symbols([latex.parse(r"x+y-z=\frac{1}{2}")]))  # type: ignore[list-item]
    texts = ["If then so we have the sum of all numbers"] * 9
    return trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320, "model": "bpe"}, texts, marks))


class Given(protocols.Task):
    """Records are documents."""

    kind = "language_model"

    def example(self, record, parse):
        return Example(record["id"], record["document"], loss_from=1)


def formula(terms: int) -> Formula:
    tree = Tree("V", "x")
    for _ in range(terms - 1):
        tree = Tree("U", "eq", [tree, Tree("V", "y")])
    return Formula(" <m> … </m> ", tree)


def encode(document, length, strict=False):
    options = ConfigDict(dict(length=length, digits=8, overflow="split", pack=True))
    return features.encode(Given(), scheme(), [{"id": "a", "document": document}], options, "train", strict)


def test_rows_of_a_long_article_hold_whole_formulas(rng):
    for _ in range(40):
        document = [Mark("[CLS]")]
        for _ in range(int(rng.integers(3, 12))):
            if rng.random() < 0.8:
                document.append(Text(" ".join(rng.choice(["If", "then", "so", "we"], int(rng.integers(1, 9)))) + " "))
            document.append(formula(int(rng.integers(1, 6))))
        document = (*document, Mark("[EOS]"))
        whole = scheme().encode(document)
        encoded = encode(document, 24)
        assert not encoded.skipped and encoded.lengths.max() <= 24
        found = []
        for row in encoded.rows:
            read = scheme().decode(row.ids)
            assert all(segment.tree is not None for segment in read if isinstance(segment, Formula))
            # A formula in a row stands as it does in the whole text.
            found += [segment for segment in read if isinstance(segment, Formula)]
        assert found == [segment for segment in document if isinstance(segment, Formula)]
        kept = np.concatenate([row.ids[1:] for row in encoded.rows])
        assert len(kept) <= len(whole.ids) - 1 <= len(kept) + len(found)


def test_a_formula_longer_than_a_row_is_left_out_and_named():
    document = (Mark("[CLS]"), Text("If "), formula(3), Text(" then "), formula(9), Text(" so we"), Mark("[EOS]"))
    encoded = encode(document, 16)
    found = [s for row in encoded.rows for s in scheme().decode(row.ids) if isinstance(s, Formula)]
    assert found == [formula(3)]
    assert [(row["id"], row["reason"]) for row in encoded.skipped] == [
        ("a", f"left out formulas of {len(scheme().encode((formula(9),)).ids)} positions: data.length=16")
    ]
    text = "".join(s.text for row in encoded.rows for s in scheme().decode(row.ids) if isinstance(s, Text))
    assert "so we" in text
    with pytest.raises(DataError, match="record a of train: left out formulas"):
        encode(document, 16, strict=True)
