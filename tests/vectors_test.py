"""Vectors of numbers by specification, and the parser of GloVe and word2vec text files."""

from __future__ import annotations

import gzip

import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import options
from numjax.errors import DataError, UsageError
from numjax.inspect import vectors
from numjax.pretrained import word_vectors

NUMBERS = [0, 1, "seven", 7, "1,000", "-3.5", 12.25, np.int64(99)]


@pytest.mark.parametrize("name", vectors.names())
def test_every_numeral_embedding_gives_vectors(name):
    has_fixed_dim = options("embed", name)["dim"].default == 0  # the embedding chooses its dim
    embedding = vectors.make(name if has_fixed_dim else f"{name}:dim=16", seed=3)
    host, device = embedding(NUMBERS), embedding.on_device(NUMBERS)
    assert host.shape == device.shape == (8, embedding.dim) and (has_fixed_dim or embedding.dim == 16)
    assert host.dtype == np.float64 and device.dtype == jnp.float32
    np.testing.assert_allclose(host, device, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(host[2], host[3])  # a word shares the vector of its numeral
    np.testing.assert_allclose(embedding([1])[0], host[1], rtol=1e-12)  # other numbers do not change it
    assert len(np.unique(host.round(6), axis=0)) == 7
    assert (
        embedding.has_vector(NUMBERS).all()
        and embedding([]).shape == (0, embedding.dim) == embedding.on_device([]).shape
    )


def test_seeds_ranges_and_options_reach_the_embedding():
    first, second = (vectors.make("prototype", seed)([1, 2]) for seed in (0, 1))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(vectors.make("prototype", 1)([1, 2]), second)
    embedding = vectors.make("dice:form=2,dim=8,as_printed=true,low=-2", seed=5, low=0.0, high=9.0, sigma=1.0)
    assert embedding.options == {
        "dim": 8, "form": "2", "low": -2.0, "high": 9.0, "out_of_range": "random", "as_printed": True, "seed": 5,
    }  # fmt: skip
    assert vectors.make("dice:seed=2", seed=5).options["seed"] == 2
    assert vectors.make("prototype:exponent_dim=None").options["exponent_dim"] is None
    assert vectors.has_options("dice", "low", "high") and not vectors.has_options("prototype", "seed")
    # An enforced range, also one without the numbers that are tried with every embedding.
    narrow = vectors.make("dice:low=5,high=9,out_of_range=error,dim=4")
    assert narrow([5, 9]).shape == (2, 4)
    with pytest.raises(DataError, match=r"10 lies outside DICE's range \[5, 9\]"):
        narrow([6, 10])


def test_chunks_are_one_array(monkeypatch):
    monkeypatch.setattr(vectors, "_CHUNK", 16)
    embedding = vectors.make("prototype:dim=8")
    rows = embedding(range(40))
    np.testing.assert_array_equal(rows[37], embedding([37])[0])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dices", "did you mean dice"),
        ("token", "does not embed numbers: choose"),
        ("dice:fo=d", "did you mean form"),
        ("dice:dim=x", "dim must be int, not 'x'"),
        ("dice:as_printed=maybe", "as_printed must be bool"),
        ("dice:low=5,high=5", "low must be below high"),
        ("dice:low=-1e308,high=1e308", "both finite"),
        ("dice:seed=-1", "seed must be 0 or more"),
        ("value:scale=0", "scale must be above 0"),
        ("digit_sum:dim=0", "digit_sum: dim must be at least 1, not 0"),
        ("prototype:low=5,high=2", "low must not be above high"),
        ("random:dim=0", "dimensions|make no embedding"),
        ("char_lstm:dim=-1", "char_lstm: dim must be at least 1, not -1"),
        ("dice:form", "write name or name:option=value"),
        ("", "write name or name:option=value"),
        ("dice:dim=3,dim=4", "given twice"),
        ("here/glove.txt", "no such file"),
        ("table:file=x", "table:path=FILE"),
    ],
)
def test_bad_specifications_are_named(spec, message):
    with pytest.raises(UsageError, match=message):
        vectors.make(spec)([1])


@pytest.mark.parametrize("number", ["x", "", "two three", "1 2", "nan", float("nan"), float("inf")])
def test_texts_that_are_no_numbers_are_named(number):
    with pytest.raises(DataError, match=r"not one number|not a finite number|is not"):
        vectors.values([number])


ROWS = {"the": [1, 2], "7": [0.5, -1e-3], "seven": [3, 4], "1,000": [5, 6], "twenty-five": [7, 8], "second": [9, 9]}


def format_table(rows, header=False) -> str:
    lines = [f"{word} {' '.join(f'{x:g}' for x in vector)}\n" for word, vector in rows.items()]
    return (f"{len(rows)} 2\n" if header else "") + "".join(lines)


@pytest.mark.parametrize("form", ["glove", "word2vec", "gz"])
def test_tables_are_loaded(tmp_path, form):
    path = tmp_path / ("v.txt.gz" if form == "gz" else "v.txt")
    text = format_table(ROWS | {". . .": [1, 1]}, form == "word2vec")
    path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    embedding = vectors.make(str(path))
    assert (
        embedding.dim == 2
        and list(embedding.table.row) == ["7", "seven", "1,000", "twenty-five"]
        and embedding.table.n_words == 7
    )
    rows = embedding([7, "seven", 1000, "1,000", "7"])
    np.testing.assert_array_equal(rows, [ROWS[k] for k in ("7", "seven", "1,000", "1,000", "7")])
    assert embedding.on_device([7]).dtype == jnp.float32
    assert embedding.has_vector([7, 8, "eight", "25", "twenty-five"]).tolist() == [True, False, False, False, True]
    with pytest.raises(DataError, match=r"no row for 2 numbers \(8, eight\)"):
        embedding([7, 8, "eight"])


def test_a_number_and_its_only_coordinate_are_no_header(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("".join(f"{i} {i}\n" for i in range(12)))
    assert word_vectors.read_table(path).vectors.ravel().tolist() == list(range(12))


def test_the_first_of_repeated_words_counts(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("7 1 2\n7 3 4\n\u00e9t\u00e9 0 0\n")
    table = word_vectors.read_table(path)
    assert table.vectors.tolist() == [[1, 2]] and table.n_repeated == 1 and table.n_words == 3
    assert list(word_vectors.read_table(path, keep=lambda word: True).row) == ["7", "été"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7 1 2\n8 1\n", r"line 2: 1 numbers after the word, not 2"),
        ("7 1 2\nthe 1 x2\n", r"line 2: 'x2' is no number"),
        ("7 1 2\n8 1 nan\n", r"line 2: 'nan' is no number"),
        ("7 1 2\n8 1 1e-\n", r"line 2: '1e-' is no number"),
        ("7 1 2\n8 1 1e999\n", r"line 2: a number beyond every float"),
        ("7 1 2\n\n8 1 2\n", r"line 2"),
        ("3 2\n7 1 2\n8 1 2\n", r"2 rows, but its first line promises 3"),
        ("seven\n", r"line 1: no vector"),
        ("7 1 2\n8 3 4\n9 1 2 .5\n", r"line 3: 3 numbers after the word, not 2"),
        ("7 1 2\nthe old 1 2\nx 1 -2e3 4\n", r"line 3: 3 numbers after the word, not 2"),
        ("", "no vectors"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, message):
    path = tmp_path / "v.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        word_vectors.read_table(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_binary_and_damaged_files_are_named(tmp_path, rng):
    path = tmp_path / "v.bin"
    path.write_bytes(b"2 3\n7 " + rng.normal(size=3).astype(np.float32).tobytes() + b"\n")
    with pytest.raises(DataError, match=f"{path}"):
        word_vectors.read_table(path)
    packed = tmp_path / "v.gz"
    packed.write_bytes(gzip.compress(b"7 1 2\n" * 999)[:-9])
    with pytest.raises(DataError, match="damaged or cut short"):
        word_vectors.read_table(packed)
    with pytest.raises(DataError, match="No such file"):
        vectors.make("table:path=/nowhere/at/all.txt")
