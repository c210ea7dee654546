"""Large datasets: parts of shards put together, here or on any Beam runner."""

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
from tests.articles_test import BAD, BOMBS, html, write_corpus


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> pathlib.Path:
    """Good pages, one that is mended and bad ones, in several shards."""
    monkeypatch.setattr("numjax.bundled.data.articles.builder.SHARD_BYTES", 9_000)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(30):
        (folder / f"{i:02d}.html").write_bytes(generate.generate_page(i, 0).data or b"")
    (folder / "07.html").write_text(html(f"<p>Seven {BOMBS['entities']}</p>"))
    (folder / "11.html").write_bytes(b"\xff")
    (folder / "13.json").write_bytes(BAD["surrogate.json"])
    write_corpus(folder, ".tar.gz")
    return folder


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "dataset_info.json"}


def same_dataset(one: pathlib.Path, other: pathlib.Path) -> bool:
    about = [json.loads((folder / "dataset_info.json").read_text()) for folder in (one, other)]
    return files(one) == files(other) and about[0] == about[1]


def test_a_dataset_put_together_from_parts_is_the_same_to_the_byte(corpus, tmp_path):
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
    assert same_dataset(*folders) and {"skipped.jsonl", "mended.jsonl"} <= files(folders[0]).keys()
    assert [row["id"] for row in data.load_skipped("articles", tmp_path / "plain", path=str(corpus))] == [
        "11.html",
        "13.json",
    ]
    strict = Articles(data_dir=tmp_path / "strict", path=str(corpus), strict=True)
    strict.parts = parts
    with pytest.raises(DataError, match=r"^11\.html: "):
        strict.download_and_prepare()


def test_a_part_is_whole_or_not_there(corpus, tmp_path, monkeypatch):
    options = Articles.complete_options({"path": str(corpus)})
    source = Articles.shards(options)

    def breaks(cls, shard, options):
        yield from list(read(shard, options))[:2]
        raise OSError("the machine is gone")

    read = Articles.read_shard
    with monkeypatch.context() as patch:
        patch.setattr(Articles, "read_shard", classmethod(breaks))
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
    alone = paths[3]
    found = shards.group_files(paths, lambda path: path == alone, 100)
    assert [[pathlib.Path(name).name[0] for name in shard] for shard in found] == [
        ["0", "1"],
        ["2"],
        ["3"],
        ["4"],
        ["5", "6"],
    ]
    assert shards.group_files([], lambda path: False, 100) == []


def test_without_beam_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "apache_beam", None)
    assert command.main(["articles", f"--data_dir={tmp_path}", "--size=5", "--beam"]) == 2
    assert capsys.readouterr().err.strip().endswith("pip install 'numjax[beam]', or leave --beam out")


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", reason="apache_beam is not installed: pip install 'numjax[beam]'")


@pytest.mark.parametrize("runner", ["DirectRunner", "BundleBasedDirectRunner"])
def test_beam_builds_the_same_dataset(beam, runner, corpus, tmp_path, capsys):
    plain = data.prepare("articles", tmp_path / "plain", path=str(corpus))
    spread = data.prepare("articles", tmp_path / "spread", path=str(corpus), pipeline=Pipeline(runner))
    assert same_dataset(pathlib.Path(plain.data_dir), pathlib.Path(spread.data_dir))
    assert "of 7 shards" in capsys.readouterr().err or len(Articles.shards(plain.options)) != 7
    assert not list((tmp_path / "spread" / ".parts").rglob("part-*")), "parts are removed"


def test_beam_goes_on_with_the_shards_that_are_missing(beam, tmp_path, monkeypatch, capsys):
    options = {"size": 600}
    whole = Articles.read_shard

    def fails(cls, shard, options):
        if shard.start:
            raise OSError("a worker is gone")
        yield from whole(shard, options)

    with monkeypatch.context() as patch:
        patch.setattr(Articles, "read_shard", classmethod(fails))
        with pytest.raises(UsageError, match=r"a worker is gone.*run it again"):
            data.prepare("articles", tmp_path / "spread", pipeline=Pipeline(), **options)
    kept = list((tmp_path / "spread" / ".parts").rglob("part-*"))
    spread = data.prepare("articles", tmp_path / "spread", pipeline=Pipeline(), **options)
    assert f"{3 - len(kept)} of 3 shards" in capsys.readouterr().err
    plain = data.prepare("articles", tmp_path / "plain", **options)
    assert same_dataset(pathlib.Path(plain.data_dir), pathlib.Path(spread.data_dir))


def test_beam_refuses_what_it_cannot_do(beam, tmp_path):
    with pytest.raises(UsageError, match="gnc is not built by Beam"):
        data.prepare("gnc", tmp_path, size=400, pipeline=Pipeline())
    with pytest.raises(UsageError, match="beam_runner=NoRunner"):
        data.prepare("articles", tmp_path, size=5, pipeline=Pipeline("NoRunner"))
