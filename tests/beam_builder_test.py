"""Large datasets: parts, one for each shard, are built and joined in one process or on any Beam runner."""

from __future__ import annotations

import json
import pathlib

import pytest

from numjax.bundled import data
from numjax.bundled.data import build as command
from numjax.bundled.data import shards
from numjax.bundled.data.articles import generate
from numjax.bundled.data.articles.builder import Articles
from numjax.bundled.data.beam import Pipeline
from numjax.errors import DataError, UsageError
from tests.articles_test import BAD, BOMBS, make_page, write_corpus


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> pathlib.Path:
    """A folder of good pages, one that is mended and bad ones, in several shards."""
    monkeypatch.setattr("numjax.bundled.data.articles.builder.SHARD_BYTES", 9_000)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(30):
        (folder / f"{i:02d}.html").write_bytes(generate.generate_page(i, 0).data or b"")
    (folder / "07.html").write_text(make_page(f"<p>Seven {BOMBS['entities']}</p>"))
    (folder / "11.html").write_bytes(b"\xff")
    (folder / "13.json").write_bytes(BAD["surrogate.json"])
    write_corpus(folder, ".tar.gz")
    return folder


def load_files(folder: pathlib.Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "dataset_info.json"}


def is_same_dataset(one: pathlib.Path, other: pathlib.Path) -> bool:
    infos = [json.loads((folder / "dataset_info.json").read_text()) for folder in (one, other)]
    return load_files(one) == load_files(other) and infos[0] == infos[1]


def test_a_dataset_joined_from_parts_is_the_same_to_the_byte(corpus, tmp_path):
    plain = data.prepare("articles", tmp_path / "plain", path=str(corpus))
    source = Articles.shards(plain.options)
    assert len(source) > 5
    parts = [shards.locate_part(tmp_path / "parts", i, len(source)) for i in range(len(source))]
    for i in reversed(range(len(source))):
        assert shards.write_part("articles", source[i], plain.options, str(parts[i])) > 0
    assert shards.write_part("articles", source[0], plain.options, str(parts[0])) == -1, "it is there already"
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.name for p in parts}
    builder = Articles(data_dir=tmp_path / "put", path=str(corpus))
    builder.parts = parts
    builder.download_and_prepare()
    folders = pathlib.Path(plain.data_dir), pathlib.Path(builder.data_dir)
    assert is_same_dataset(*folders) and {"skipped.jsonl", "mended.jsonl"} <= load_files(folders[0]).keys()
    assert [row["id"] for row in data.load_skipped("articles", tmp_path / "plain", path=str(corpus))] == [
        "11.html",
        "13.json",
    ]
    strict = Articles(data_dir=tmp_path / "strict", path=str(corpus), strict=True)
    strict.parts = parts
    with pytest.raises(DataError, match=r"^11\.html: "):
        strict.download_and_prepare()


def test_a_part_is_complete_or_absent(corpus, tmp_path, monkeypatch):
    options = Articles.complete_options({"path": str(corpus)})
    source = Articles.shards(options)

    def fail_after_two_records(cls, shard, options):
        yield from list(load_shard(shard, options))[:2]
        raise OSError("the machine is gone")

    load_shard = Articles.read_shard
    with monkeypatch.context() as patch:
        patch.setattr(Articles, "read_shard", classmethod(fail_after_two_records))
        with pytest.raises(OSError, match="gone"):
            shards.write_part("articles", source[0], options, str(tmp_path / "parts" / "p"))
    assert list((tmp_path / "parts").iterdir()) == []
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"nothing")
    with pytest.raises(DataError, match="damaged"):
        list(shards.read_part(damaged))


def test_shards_keep_the_order_of_the_files(tmp_path):
    paths = []
    for i, size in enumerate((10, 10, 90, 10, 500, 10, 10)):
        paths.append(tmp_path / f"{i}.html")
        paths[-1].write_bytes(b"x" * size)
    single = paths[3]
    groups = shards.group_files(paths, lambda path: path == single, 100)
    assert [[pathlib.Path(name).name[0] for name in shard] for shard in groups] == [
        ["0", "1"],
        ["2"],
        ["3"],
        ["4"],
        ["5", "6"],
    ]
    assert shards.group_files([], lambda path: False, 100) == []


def test_without_beam_the_error_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "apache_beam", None)
    assert command.main(["articles", f"--data_dir={tmp_path}", "--size=5", "--beam"]) == 2
    assert capsys.readouterr().err.strip().endswith("make beam, in the checkout, or leave --beam out")


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", reason="apache_beam is not installed: make beam")


@pytest.mark.parametrize("runner", ["DirectRunner", "BundleBasedDirectRunner"])
def test_beam_builds_the_same_dataset(beam, runner, corpus, tmp_path, capsys):
    plain = data.prepare("articles", tmp_path / "plain", path=str(corpus))
    parallel = data.prepare("articles", tmp_path / "spread", path=str(corpus), pipeline=Pipeline(runner))
    assert is_same_dataset(pathlib.Path(plain.data_dir), pathlib.Path(parallel.data_dir))
    assert "of 7 shards" in capsys.readouterr().err or len(Articles.shards(plain.options)) != 7
    assert not list((tmp_path / "spread" / ".parts").rglob("part-*")), "parts are removed"


def test_beam_resumes_with_the_missing_shards(beam, tmp_path, monkeypatch, capsys):
    options = {"size": 600}
    load_shard = Articles.read_shard

    def load_first_shard(cls, shard, options):
        if shard.start:
            raise OSError("a worker is gone")
        yield from load_shard(shard, options)

    with monkeypatch.context() as patch:
        patch.setattr(Articles, "read_shard", classmethod(load_first_shard))
        with pytest.raises(UsageError, match=r"a worker is gone.*run it again"):
            data.prepare("articles", tmp_path / "spread", pipeline=Pipeline(), **options)
    parts = list((tmp_path / "spread" / ".parts").rglob("part-*"))
    parallel = data.prepare("articles", tmp_path / "spread", pipeline=Pipeline(), **options)
    assert f"{3 - len(parts)} of 3 shards" in capsys.readouterr().err
    plain = data.prepare("articles", tmp_path / "plain", **options)
    assert is_same_dataset(pathlib.Path(plain.data_dir), pathlib.Path(parallel.data_dir))


def test_beam_refuses_other_builders_and_runners(beam, tmp_path):
    with pytest.raises(UsageError, match="gnc is not built by Beam"):
        data.prepare("gnc", tmp_path, size=400, pipeline=Pipeline())
    with pytest.raises(UsageError, match="beam_runner=NoRunner"):
        data.prepare("articles", tmp_path, size=5, pipeline=Pipeline("NoRunner"))
