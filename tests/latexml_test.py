"""Parsing with LaTeXML: with the real programs where they are installed, and with stand-ins that misbehave."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import sys
import tempfile

import pytest

from numjax.errors import UsageError
from numjax.expr.mathml import latexml
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree, from_json

needs_latexml = pytest.mark.skipif(not latexml.is_installed(), reason="LaTeXML is not installed")

# Replaces both programs. A formula becomes its text as one <ci>, "two" becomes two formulas, "gone" none. The program
# fails with "crash" in its batch, or with "stop" and other formulas; with "hang" it never ends.
FAKE = r"""#!{python}
import html, pathlib, re, sys, time
log = pathlib.Path({log!r})
source = pathlib.Path(sys.argv[-1]).read_text()
target = next(word for word in sys.argv if word.startswith("--dest=")).removeprefix("--dest=")
if sys.argv[0].endswith("post"):
    pathlib.Path(target).write_text(source)
    sys.exit()
formulas = re.findall(r"(numjaxformula\d+): \$(.*?) \$\n", source, re.DOTALL)
with log.open("a") as file:
    file.write(str(len(formulas)) + "\n")
if any("hang" in formula for _, formula in formulas):
    time.sleep(60)
if "crash" in source or ("stop" in source and len(formulas) > 1):
    sys.exit(1)
paragraphs = []
for word, formula in formulas:
    maths = [] if formula == "gone" else [formula] * (2 if formula == "two" else 1)
    elements = "".join("<Math><math><ci>" + html.escape(m) + "</ci></math></Math>" for m in maths)
    paragraphs.append("<p>" + word + ": " + elements + "</p>")
pathlib.Path(target).write_text("<document>" + "".join(paragraphs) + "</document>")
"""


@pytest.fixture
def batch_sizes(tmp_path, monkeypatch):
    """Puts stand-ins on the path; yields a function that returns the sizes of their batches."""
    log = tmp_path / "log"
    for name in ("latexml", "latexmlpost"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE.format(python=sys.executable, log=str(log)))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    yield lambda: [int(line) for line in log.read_text().split()] if log.exists() else []
    assert not list((tmp_path / "work").iterdir()), "no temporary file is left"


def list_symbols(trees) -> list[str]:
    return [tree.symbol if isinstance(tree, Tree) else "error" for tree in trees]


def test_parsing_is_refused_without_latexml(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not latexml.is_installed()
    with pytest.raises(UsageError, match="not on the path"):
        latexml.parse(["x"])


@pytest.mark.parametrize("options", [{"jobs": 0}, {"batch": 0}])
def test_options_are_checked(batch_sizes, options):
    with pytest.raises(UsageError, match="positive"):
        latexml.parse(["x"], **options)


@pytest.mark.parametrize("jobs", [1, 3])
def test_order_is_kept_over_batches(batch_sizes, jobs):
    formulas = [f"x{i}" for i in range(10)]
    assert list_symbols(latexml.parse(formulas, jobs=jobs, batch=4)) == formulas
    assert sorted(batch_sizes()) == [2, 4, 4]
    assert list_symbols(latexml.parse([])) == []


@pytest.mark.parametrize("bad", ["two", "gone", "crash"])
def test_a_bad_formula_is_isolated(batch_sizes, bad):
    formulas = ["a", "b", bad, "c", "d", "e", "f", "g"]
    assert list_symbols(latexml.parse(formulas)) == [f if f != bad else "error" for f in formulas]
    assert batch_sizes() == [8, 4, 2, 2, 1, 1, 4], "halved, and again"


def test_a_formula_that_fails_only_in_a_batch_is_parsed_by_itself(batch_sizes):
    assert list_symbols(latexml.parse(["a", "stop", "b"])) == ["a", "stop", "b"]


def test_a_program_that_hangs_is_stopped(batch_sizes, monkeypatch):
    monkeypatch.setattr(latexml, "START", 0.4)
    monkeypatch.setattr(latexml, "EACH", 0.0)
    assert list_symbols(latexml.parse(["hang"])) == ["error"]


def test_formulas_with_definitions_are_parsed_by_themselves(batch_sizes):
    assert list_symbols(latexml.parse(["a", r"\gdef\a{}b", "c"]))[::2] == ["a", "c"]
    assert sorted(batch_sizes()) == [1, 2]


@pytest.mark.parametrize(
    ("formula", "position"),
    [
        ("", 0),
        (" \n", 0),
        ("a}b{", 1),
        ("{{a}", 0),
        ("a$b", 1),
        ("a\n\nb", 1),
        ("a\x01", 1),
        ("a\ud800", 1),
        (r"a\input{/etc/passwd}", 1),
        (r"\csname input\endcsname", 0),
        ("a^^5cinput", 1),
        (r"\end {document}", 0),
    ],
)
def test_formulas_that_would_affect_others_are_not_run(batch_sizes, formula, position):
    trees = list(latexml.parse(["x", formula, "y"]))
    assert list_symbols(trees) == ["x", "error", "y"]
    assert isinstance(trees[1], Unreadable) and trees[1].at == position
    assert batch_sizes() == [2]


@pytest.mark.parametrize("formula", [r"\$5", r"\{a\}", r"\inputs", r"\partial", r"a\\b", "50%", "a \\"])
def test_harmless_formulas_that_look_similar_are_run(batch_sizes, formula):
    assert latexml.find_refusal(formula) is None
    assert "error" not in list_symbols(latexml.parse([formula]))


def test_closing_the_iterator_stops_the_remaining_batches(batch_sizes):
    trees = latexml.parse((f"x{i}" for i in range(1000)), batch=2)
    assert next(trees) == Tree("V", "x0")
    trees.close()  # type: ignore[attr-defined]
    assert len(batch_sizes()) < 6


@needs_latexml
def test_real_formulas_are_parsed_between_bad_ones():
    formulas = ["x=12+3", r"\frac{a}{b", r"\left( x", r"\frac{1}{2}", r"\nosuchmacro x", "50% - a - b"]
    trees = list(latexml.parse(formulas))
    assert trees[0] == from_json(
        ["U", "eq", [["V", "x", None], ["U", "plus", [["N", "12", None], ["N", "3", None]]]]]
    )
    assert trees[3] == from_json(["O", "divide", [["N", "1", None], ["N", "2", None]]])
    assert isinstance(trees[1], Unreadable)
    assert isinstance(trees[4], Unreadable) and "nosuchmacro" in trees[4].error
    half = ["O", "percent", [["N", "50", None]]]
    assert trees[5] == from_json(["O", "minus", [["O", "minus", [half, ["V", "a", None]]], ["V", "b", None]]])


@needs_latexml
def test_parsing_gives_the_published_trees(real_data):
    """Compares with the trees of the original pipeline for real formulas."""
    with gzip.open(pathlib.Path(real_data("latexml_trees")) / "trees.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["tree"]][::29]
    trees = list(latexml.parse((row["latex"] for row in rows), as_published=True))
    n_same = sum(tree == from_json(row["tree"]) for tree, row in zip(trees, rows, strict=True))
    assert n_same >= len(rows) - 1
