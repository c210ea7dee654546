"""Numeracy-600K: its files good and bad, and the stand-in."""

from __future__ import annotations

import collections
import gzip
import json
import pathlib

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data.numeracy600k.generate import SHARES
from numjax.bundled.data.numeracy600k.generate import generate_records as stand_in
from numjax.errors import DataError, UsageError

SPLITS = ("train", "validation", "test")


def join(splits: dict[str, list[dict]]) -> list[dict]:
    return [record for records in splits.values() for record in records]


NAMES = {"titles": "Numeracy_600K_article_title.json", "comments": "Numeracy_600K_market_comment.json.gz"}


def write_array(folder: pathlib.Path, variant: str, records: list) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    path = folder / NAMES[variant]
    text = json.dumps(records, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("variant", ["titles", "comments"])
def test_numeracy600k_files_give_the_records_of_the_generator(variant, tmp_path):
    raw = list(stand_in(variant, 500, 4))
    write_array(tmp_path / "files", variant, raw)
    options = dict(variant=variant, path=str(tmp_path / "files"), seed=4)
    records = join({s: list(data.load("numeracy600k", s, tmp_path, **options)) for s in SPLITS})
    generated_records = join(
        {s: list(data.load("numeracy600k", s, tmp_path, variant=variant, size=500, seed=4)) for s in SPLITS}
    )
    assert records == generated_records and len(records) == 500
    for record in records:
        start, number = record["offset"], record["number"]
        assert record["text"][start : start + record["length"]] == number
        integer = number.replace(",", "").split(".")[0]
        assert record["label"] == (0 if integer == "0" else len(integer))


@pytest.mark.parametrize("variant", ["titles", "comments"])
def test_stand_in_has_the_published_class_shares(variant):
    counts = collections.Counter(record["magnitude"] for record in stand_in(variant, 20_000, 0))
    for magnitude, share in enumerate(SHARES[variant]):
        assert abs(counts[magnitude] / 200 - share) < 5 * np.sqrt(share * 100 / 20_000) + 0.02


def test_numeracy600k_keeps_equal_texts_together(load_splits):
    splits = load_splits("numeracy600k", size=3000)
    texts = [{record["text"] for record in splits[name]} for name in SPLITS]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert len(set().union(*texts)) < 3000


def test_numeracy600k_folds_seven_into_six(tmp_path):
    raw = [r for r in stand_in("comments", 60_000, 0) if r["magnitude"] >= 6][:60]
    assert {r["magnitude"] for r in raw} == {6, 7}
    write_array(tmp_path, "comments", raw)
    for classes, labels in ((8, {6, 7}), (7, {6})):
        options = dict(variant="comments", path=str(tmp_path), num_classes=classes)
        records = [r for s in ("train", "test") for r in data.load("numeracy600k", s, tmp_path / "built", **options)]
        assert {r["label"] for r in records} == labels and {r["magnitude"] for r in records} == {6, 7}


BAD_RECORDS = {
    "'99', but the number is '7'": dict(title="up 99 today", number="7", offset=3, length=2, magnitude=2),
    "outside a text of 5 characters": dict(title="up 99", number="99", offset=3, length=9, magnitude=2),
    "not a number": dict(title="up and away", number="up", offset=0, length=2, magnitude=2),
    "no whole number 'offset'": dict(title="up 99", number="99", offset=None, length=2, magnitude=2),
    "magnitude 8": dict(title="up 99", number="99", offset=3, length=2, magnitude=8),
    "has no 'title'": dict(number="99", offset=3, length=2, magnitude=2),
    "not a JSON object": ["99"],
    "surrogate": dict(title="\ud800 99", number="99", offset=2, length=2, magnitude=2),
}


@pytest.mark.parametrize("reason", BAD_RECORDS)
def test_numeracy600k_skips_and_names_a_bad_record(reason, tmp_path):
    raw: list = list(stand_in("titles", 100, 0))
    raw[40:40] = [BAD_RECORDS[reason]]
    path = tmp_path / "files" / NAMES["titles"]
    path.parent.mkdir()
    path.write_text(json.dumps(raw))
    options = dict(path=str(path), seed=0)
    records = data.load("numeracy600k", "train+validation+test", tmp_path, **options)
    assert len(records) == 100
    (skipped,) = records.skipped
    assert skipped["id"].startswith("titles-000040") and reason in skipped["reason"]
    assert data.load_skipped("numeracy600k", tmp_path, **options) == [skipped]
    # A strict load fails both where the data were built before and during the build.
    for data_dir in (tmp_path, tmp_path / "anew"):
        with pytest.raises(DataError, match="titles-000040"):
            data.load("numeracy600k", "train", data_dir, strict=True, **options)
    assert not list((tmp_path / "anew" / "numeracy600k").glob("*/*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b'{"id": 1}', "not a JSON array"),
        (b'[{"id": 1}, {"id": ', "breaks off"),
        (b'[{"id": 1} {"id": 2}]', "breaks off or is wrong at character 11"),
        (b'[{"title": "\xff"}]', "not UTF-8 at byte 12"),
        (b"[]", "no usable record"),
        (b'[{"id": 1, "offset": 3, "length": 1, "magnitude": 1}]', "no usable record: 1 left out.*without the text"),
    ],
)
def test_numeracy600k_refuses_bad_files_in_one_line(content, message, tmp_path):
    for name, file_bytes in (("market_comment.json", content), ("market_comment.json.gz", gzip.compress(content))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(file_bytes)
        with pytest.raises(DataError, match=message) as error:
            data.load("numeracy600k", "train", tmp_path / "built", path=str(folder), variant="comments")
        assert "\n" not in str(error.value)


def test_numeracy600k_refuses_truncated_absent_and_ambiguous_files(tmp_path):
    path = write_array(tmp_path / "files", "comments", list(stand_in("comments", 200, 0)))
    path.write_bytes(path.read_bytes()[:-500])
    options = dict(path=str(path.parent), data_dir=tmp_path)
    with pytest.raises(DataError, match="damaged or cut short"):
        data.load("numeracy600k", variant="comments", **options)
    with pytest.raises(DataError, match=r"no \*article_title\*.json"):
        data.load("numeracy600k", variant="titles", **options)
    (path.parent / "market_comment.json").write_text("[]")
    with pytest.raises(UsageError, match="several files"):
        data.load("numeracy600k", variant="comments", **options)


def test_a_changed_file_is_built_again(tmp_path):
    write_array(tmp_path / "files", "titles", list(stand_in("titles", 100, 0)))
    options = dict(path=str(tmp_path / "files"))
    records = data.load("numeracy600k", "train+test", tmp_path, **options)
    write_array(tmp_path / "files", "titles", list(stand_in("titles", 300, 0)))
    assert len(data.load("numeracy600k", "train+test", tmp_path, **options)) > 2 * len(records)


@pytest.mark.parametrize(("variant", "count"), [("titles", 729), ("comments", 4377)])
def test_numeracy600k_loads_real_sentences(variant, count, real_data, tmp_path):
    path = str(real_data("numeracy600k_format"))
    records = data.load("numeracy600k", "train+validation+test", tmp_path, path=path, variant=variant)
    assert len(records) == count and not records.skipped
