"""Articles: good and bad pages with MathML, good and bad files in the original's form, and the stand-in."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import pathlib
import tarfile
import zipfile
from typing import Any

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data import build as command
from numjax.bundled.data import shards
from numjax.bundled.data.articles import generate, page
from numjax.bundled.data.articles.read import parse_json_formula, parse_mathml_formula, parse_piece
from numjax.bundled.data.pieces import Piece
from numjax.bundled.data.records import MENDED, read_notes
from numjax.errors import DataError, UsageError
from numjax.expr import latex, mathml, printer
from numjax.expr.canonical import find_problem, nest_left
from numjax.expr.tree import Tree, from_json
from numjax.text import document as documents
from numjax.text.document import article
from numjax.text.document.marked import IDENTIFIER
from numjax.types import Formula, Text
from tests.conftest import ROOT

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")

SUM = "<apply><plus/><ci>x</ci><cn>12</cn></apply>"


def make_math(content: str = SUM, tex: str = "x+12", attributes: str = "") -> str:
    presentation = "<mrow><mi>x</mi><mo>+</mo><mn>12</mn></mrow>"
    return (
        f'<math xmlns="http://www.w3.org/1998/Math/MathML" alttext="{tex}"{attributes}><semantics>{presentation}'
        f'<annotation-xml encoding="MathML-Content">{content}</annotation-xml>'
        f'<annotation encoding="application/x-tex">{tex}</annotation></semantics></math>'
    )


def make_page(body: str, head: str = "") -> str:
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head><body>{body}</body></html>'


def make_article(text: str, *trees: Any) -> dict:
    """Makes an article in the original's form."""
    formulas = {str(i): {"opt": tree, "tex": printer.latex(from_json(tree))} for i, tree in enumerate(trees)}
    return {"text": text, "formulas": formulas}


def make_piece(text: str, suffix: str = ".html") -> Piece:
    return Piece("a" + suffix, suffix, text.encode())


def parse_records(text: str, suffix: str = ".html") -> tuple[list[dict], list[dict]]:
    """Returns (records, remarks)."""
    entries = list(parse_piece(make_piece(text, suffix)))
    return [dict(r) for kind, r in entries if not kind], [{"kind": kind, **r} for kind, r in entries if kind]


def load_records(path, tmp_path, **options) -> list[dict]:
    all_options = {"validation": 0, "test": 0} | options
    return list(data.load("articles", "train", tmp_path / "built", path=str(path), **all_options))


# ---------------------------------------------------------------------------------------------------
# Pages.


def test_a_page_becomes_text_with_marks():
    body = (
        f"<h1>A &amp; B</h1>\n<p>If\n {make_math()} <b>then</b>, {make_math('<ci>y</ci>', 'y')}.<br/>So a &lt; b "
        f"<!-- {make_math()} --></p><table><tr><td>1</td><td>2</td></tr></table>"
        f'<script>if (a<b) {make_math()}</script><p title="x > y">Last</p>'
    )
    text, sources = page.extract_text(make_page(body, f"<title>none</title><style>{make_math()}</style>"))
    assert text == f"A & B\nIf {IDENTIFIER} then, {IDENTIFIER}.\nSo a < b\n1 2\nLast"
    assert len(sources) == 2
    assert mathml.parse(sources[0]) == latex.parse("x+12") and mathml.parse(sources[1]) == Tree("V", "y")


def test_a_page_cannot_forge_marks():
    forged = (
        f"<p>{IDENTIFIER} &#91;_mathGPT_formula_] [_math{IDENTIFIER}GPT_formula_] \ue000 &#xe000; {make_math()}</p>"
    )
    text, sources = page.extract_text(make_page(forged))
    assert text == IDENTIFIER and len(sources) == 1


@pytest.mark.parametrize(
    ("source", "text", "count"),
    [
        ("plain words", "plain words", 0),
        ("", "", 0),
        ("<p>open <math> and <b>never closed", "open and never closed", 0),
        ("<head><title>t</title><body>after an open head", "after an open head", 0),
        ("a <!-- never closed <math>x</math>", "a", 0),
        ("</svg></svg>seen<svg>not</svg>seen", "seenseen", 0),
        ("<m:math><m:ci>x</m:ci></m:math>, <math/>", f"{IDENTIFIER}, {IDENTIFIER}", 2),
        ('<math alttext="a<b">x</math>', IDENTIFIER, 1),
    ],
)
def test_odd_pages(source, text, count):
    page_text, sources = page.extract_text(source)
    assert page_text == text and len(sources) == count


@pytest.mark.parametrize(
    "bomb",
    ["<math>", '<math "<math" ', "<!--", "<a \"'", "<", "&", "<svg>", "<math><!--", "</head>", "<math alttext='"],
)
def test_pages_with_unclosed_markup_are_parsed_fast(bomb):
    # Each took minutes when the search for the end of a tag went on to the end of the page.
    text, sources = page.extract_text(bomb * 20_000)
    assert len(text) <= len(bomb) * 20_000 and text.count(IDENTIFIER) == len(sources) <= 20_000


# ---------------------------------------------------------------------------------------------------
# Formulas.


def test_content_mathml_comes_first():
    formula = parse_mathml_formula(make_math(SUM, "y"))
    assert (formula.tree, formula.tex, formula.reason) == (latex.parse("x+12"), "y", "")


BOMBS = {
    "entities": make_math("<apply><plus/><ci>&lol9;</ci></apply>"),
    "depth": make_math("<apply><minus/>" * 300 + "<ci>x</ci>" + "</apply>" * 300),
    "deepest": make_math("<apply><minus/>" * 20_000 + "<ci>x</ci>" + "</apply>" * 20_000),
    "shares": make_math(
        "<apply><plus/>"
        + "".join(
            f'<apply id="s{i}"><plus/><share href="#s{i + 1}"/><share href="#s{i + 1}"/></apply>' for i in range(40)
        )
        + '<ci id="s40">x</ci></apply>'
    ),
    "a share of itself": make_math('<apply id="a"><plus/><share href="#a"/><ci>x</ci></apply>'),
    "not well-formed": make_math("<apply><plus/><ci>x</apply>"),
    "wide": make_math("<apply><minus/>" + "<ci>x</ci>" * 100 + "</apply>"),
    "unknown": make_math("<bogus><ci>x</ci></bogus>"),
    "empty": make_math(""),
}


@pytest.mark.parametrize("name", BOMBS)
def test_formulas_with_bad_mathml_fall_back_to_their_tex(name):
    formula = parse_mathml_formula(BOMBS[name])
    assert formula.tree == latex.parse("x+12") and formula.tex == "x+12" and formula.reason
    records, remarks = parse_records(make_page(f"<p>Take {BOMBS[name]} away.</p>"))
    assert [r["text"] for r in records] == [f"Take {IDENTIFIER} away."] and records[0]["from_tex"] == 1
    assert [(r["kind"], r["id"]) for r in remarks] == [(shards.MENDED, "a.html")]
    assert "formula 0 read from its TeX" in remarks[0]["reason"] and "\n" not in remarks[0]["reason"]


def test_a_bomb_in_the_pages_document_type_is_never_expanded():
    lol = "".join(f'<!ENTITY lol{i + 1} "{f"&lol{i};" * 10}">' for i in range(9))
    records, _ = parse_records(
        f'<!DOCTYPE html [<!ENTITY lol0 "lol">{lol}]>' + make_page(f"<p>&lol9; {make_math()}</p>")
    )
    assert records[0]["text"].endswith(f"&lol9; {IDENTIFIER}") and len(records[0]["text"]) < 2000


def test_a_formula_without_usable_mathml_and_tex_stays_text_or_is_lost():
    body = f"<p>A {make_math('<bogus><ci>x</ci></bogus>', '{x')} b {make_math('', '')} c.</p>"
    (record,), remarks = parse_records(make_page(body))
    assert (record["n_formulas"], record["from_tex"], record["as_text"], record["lost"]) == (2, 0, 1, 1)
    assert [" kept as text: " in remarks[0]["reason"], " left out: " in remarks[1]["reason"]] == [True, True]
    document = article.make_document(record["text"], json.loads(record["formulas"]), parse)
    assert document == (Text("A  <m> {x </m>  b  c."),)


def test_trees_of_the_original_are_nested():
    x, minus = ["V", "x", None], ["O", "minus", [["V", "a", None], ["V", "b", None], ["V", "c", None]]]
    formula = parse_json_formula({"opt": ["U", "eq", [x, minus]], "tex": "x=a-b-c"})
    assert formula.tree == latex.parse("x=a-b-c") and not formula.reason
    flat = Tree("O", "divide", [Tree("V", c) for c in "abcd"])
    assert nest_left(flat) == latex.parse("a/b/c/d") and find_problem(nest_left(flat)) is None and find_problem(flat)
    published = parse_json_formula({"opt": ["U", "eq", [x, minus]], "tex": ""}, as_published=True)
    assert published.tree == from_json(["U", "eq", [x, minus]])


@pytest.mark.parametrize(
    ("value", "tex"),
    [
        ({"opt": ["?", "x", None], "tex": "y"}, "y"),
        ({"opt": ["U", "eq"], "tex": "y"}, "y"),
        ({"opt": ["O", "divide", [["V", "x", None]]], "tex": "y"}, "y"),
        ({"tex": "y"}, "y"),
        ({"opt": functools.reduce(lambda t, _: ["O", "minus", [t]], range(5000), ["V", "x", None]), "tex": "y"}, "y"),
        ({"opt": ["N", "1,2", None]}, ""),
    ],
)
def test_invalid_trees_fall_back_to_tex(value, tex):
    formula = parse_json_formula(value)
    assert formula.reason and formula.tree == (Tree("V", "y") if tex else None)


# ---------------------------------------------------------------------------------------------------
# The original's form.

EQ = ["U", "eq", [["V", "x", None], ["N", "12", None]]]


def test_an_article_of_the_original_is_parsed():
    text = f"If {IDENTIFIER} then {IDENTIFIER} holds."
    (record,), remarks = parse_records(json.dumps(make_article(text, EQ, ["V", "y", None])), ".json")
    assert record["text"] == text and not remarks
    assert {k: from_json(f["opt"]) for k, f in json.loads(record["formulas"]).items()} == {
        "0": latex.parse("x=12"),
        "1": Tree("V", "y"),
    }


def test_a_formula_whose_key_is_missing_is_skipped_and_named():
    broken = make_article(f"If {IDENTIFIER} then {IDENTIFIER} holds.", EQ, EQ)
    del broken["formulas"]["0"]
    (record,), remarks = parse_records(json.dumps(broken), ".json")
    assert remarks == [
        {"kind": shards.MENDED, "id": "a.json", "reason": "formula 0 left out: is missing"},
    ]
    assert record["lost"] == 1 and list(json.loads(record["formulas"])) == ["1"]
    document = article.make_document(record["text"], json.loads(record["formulas"]), parse)
    assert document == (Text("If  then "), Formula("", latex.parse("x=12")), Text(" holds."))


BAD = {
    "not UTF-8.html": b"\xff\xfe",
    "empty.html": b"<html></html>",
    "broken.json": b'{"text": "a", ',
    "deep.json": b"[" * 100_000,
    "number.json": b"3",
    "no text.json": b'{"formulas": {}}',
    "no formulas.json": b'{"text": "a"}',
    "blank.json": b'{"text": " ", "formulas": {}}',
    "surrogate.json": b'{"text": "\\ud800", "formulas": {}}',
    "zero.json": b"",
    "cut.html.gz": gzip.compress(make_page("x" * 99_999 + "y").encode())[:60],
    "no.tar.gz": b"nothing",
    "no.zip": b"nothing",
    "no.html.bz2": b"nothing",
    "none.tar": b"\0" * 10240,
}


def test_bad_files_are_skipped_and_named(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, raw in BAD.items():
        (folder / name).write_bytes(raw)
    (folder / "good.html").write_text(make_page(f"<p>Good {make_math()}</p>"))
    (folder / "read me.txt").write_text("not read")
    assert [r["text"] for r in load_records(folder, tmp_path)] == [f"Good {IDENTIFIER}"]
    skipped = data.load_skipped("articles", tmp_path / "built", path=str(folder), validation=0, test=0)
    assert {row["id"] for row in skipped} == set(BAD) and all(row["reason"] for row in skipped)
    with pytest.raises(DataError, match=r"^blank\.json: holds no text"):
        load_records(folder, tmp_path / "strict", strict=True)


def test_empty_input_is_refused_in_one_line(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_records(tmp_path / "nowhere", tmp_path)
    (tmp_path / "void").mkdir()
    with pytest.raises(DataError, match=r"no \.html, .* there"):
        load_records(tmp_path / "void", tmp_path)
    for options in ({"validation": 0.6, "test": 0.6}, {"size": 0}, {"seed": -1}):
        with pytest.raises(UsageError):
            data.load("articles", "train", tmp_path, **options)


# ---------------------------------------------------------------------------------------------------
# Files.

PAGES = {
    f"Articles/{name}.html": make_page(f"<p>{name} {make_math()}</p>") for name in ("Abel's_theorem", "Zeta", "Ωmega")
}


def write_corpus(path: pathlib.Path, kind: str) -> None:
    if kind == ".zip":
        with zipfile.ZipFile(path / "wp.zip", "w") as archive:
            for name, text in PAGES.items():
                archive.writestr(name, text)
            archive.writestr(".hidden/x.html", "hidden")
    elif kind.startswith(".tar") or kind == ".tgz":
        with tarfile.open(path / f"wp{kind}", f"w:{ {'.tar': '', '.tgz': 'gz'}.get(kind, kind[5:]) }") as archive:
            for name, text in (*PAGES.items(), ("note.txt", "not read")):
                info = tarfile.TarInfo(f"./{name}")
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
    elif kind in (".json", ".jsonl"):
        articles = []
        for name in PAGES:
            articles.append(make_article(f"{name[9:-5]} {IDENTIFIER}", latex.parse("x+12").to_json()))  # type: ignore[union-attr]
        text = json.dumps(articles) if kind == ".json" else "".join(json.dumps(entry) + "\n\n" for entry in articles)
        (path / f"all{kind}").write_text(text)
    else:
        write = {"": lambda p, b: p.write_bytes(b), ".gz": write_gzip, ".bz2": write_bz2}[kind]
        (path / "Articles").mkdir()
        for name, text in PAGES.items():
            write(path / (name + kind), text.encode())


def write_gzip(path, raw):
    path.write_bytes(gzip.compress(raw))


def write_bz2(path, raw):
    path.write_bytes(bz2.compress(raw))


@pytest.mark.parametrize(
    "kind", ["", ".gz", ".bz2", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".json", ".jsonl"]
)
def test_every_form_of_file_gives_the_same_articles(kind, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_corpus(folder, kind)
    records = load_records(folder, tmp_path)
    assert sorted(r["text"] for r in records) == sorted(f"{name[9:-5]} {IDENTIFIER}" for name in PAGES)
    assert all(from_json(json.loads(r["formulas"])["0"]["opt"]) == latex.parse("x+12") for r in records)
    assert len({r["id"] for r in records}) == 3
    if "tar" in kind or kind == ".zip":
        assert {r["id"] for r in records} == {f"wp{kind}/{name}" for name in PAGES}


def test_articles_before_a_break_in_an_archive_are_kept(tmp_path):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for i in range(300):
            text = make_page(f"<p>Article {i} {np.random.default_rng(i).bytes(2000).hex()}</p>").encode()
            info = tarfile.TarInfo(f"{i:03d}.html")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    (tmp_path / "cut.tar.gz").write_bytes(raw.getvalue()[: len(raw.getvalue()) // 2])
    records = load_records(tmp_path / "cut.tar.gz", tmp_path)
    assert 50 < len(records) < 300 and [r["text"].split()[1] for r in records] == [
        str(i) for i in range(len(records))
    ]
    skipped = data.load_skipped(
        "articles", tmp_path / "built", path=str(tmp_path / "cut.tar.gz"), validation=0, test=0
    )
    assert any("cut short" in row["reason"] for row in skipped)


def test_an_article_that_is_too_large_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("numjax.bundled.data.pieces.LARGEST", 200)
    (tmp_path / "bomb.html.gz").write_bytes(gzip.compress(b"x" * 100_000))
    (tmp_path / "small.html").write_text("small")
    assert [r["text"] for r in load_records(tmp_path, tmp_path)] == ["small"]


def test_equal_articles_are_in_one_split_and_do_not_move(tmp_path):
    for i in range(60):
        (tmp_path / f"{i}.html").write_text(make_page(f"<p>Article {i % 30}</p>"))
    options = dict(path=str(tmp_path), validation=0.3, test=0.3)
    texts = {s: {r["text"] for r in data.load("articles", s, tmp_path, **options)} for s in SPLITS}
    assert sum(map(len, texts.values())) == 30 and all(texts.values())
    for i in range(30, 60):
        (tmp_path / f"{i}.html").unlink()
    assert texts == {s: {r["text"] for r in data.load("articles", s, tmp_path, **options)} for s in SPLITS}


# ---------------------------------------------------------------------------------------------------
# The stand-in.


def test_the_stand_ins_content_tex_and_splits_agree(data_dir):
    splits = {s: list(data.load("articles", s, data_dir, size=120, seed=3)) for s in SPLITS}
    rows = [row for split in splits.values() for row in split]
    assert len(rows) == 120 and not data.load_skipped("articles", data_dir, size=120, seed=3)
    symbols = set()
    for row in rows:
        assert row["n_formulas"] == row["text"].count(IDENTIFIER) > 0
        assert row["from_tex"] == row["as_text"] == row["lost"] == 0
        for formula in json.loads(row["formulas"]).values():
            # A page holds content MathML and TeX of each formula; two different parsers read them.
            tree = from_json(formula["opt"])
            assert tree == latex.parse(formula["tex"])
            symbols |= {(node.type, node.symbol) for node in tree.walk() if node.type not in "VN"}
    assert {("O", "divide"), ("O", "SUP"), ("O", "SUB"), ("U", "eq"), ("F", "sin")} <= symbols
    assert generate.generate_page(5, 3) == generate.generate_page(5, 3) != generate.generate_page(5, 4)


def test_sample_comes_from_the_builder(capsys, data_dir):
    assert command.main(["articles", f"--data_dir={data_dir}", "--size=100", "--sample=1"]) == 0
    assert capsys.readouterr().out == (ROOT / "data/articles/sample.jsonl").read_text()


def test_the_real_queries_are_parsed_without_loss(real_data, tmp_path):
    records = load_records(real_data("ntcir12_queries"), tmp_path)
    assert len(records) == 40 and sum(r["n_formulas"] for r in records) == 40
    assert sum(r["as_text"] + r["lost"] for r in records) == 0
    options = dict(path=str(real_data("ntcir12_queries")), validation=0, test=0)
    folder = pathlib.Path(data.prepare("articles", tmp_path / "built", **options).data_dir)
    assert len(read_notes(folder, MENDED)) == sum(r["from_tex"] for r in records) <= 5
