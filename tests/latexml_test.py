"""The way through LaTeXML: with the real programs where they are, and with stand-ins that misbehave everywhere."""

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

real = pytest.mark.skipif(not latexml.is_installed(), reason="LaTeXML is not installed")

# Stands in for both programs: a formula becomes its text as one <ci>, "two" two formulas, "gone" none; with "crash"
# or, in company, "stop" in the batch the program fails, with "hang" it never ends.
FAKE = r"""#!{python}
import html, pathlib, re, sys, time
log = pathlib.Path({log!r})
source = pathlib.Path(sys.argv[-1]).read_text()
target = next(word for word in sys.argv if word.startswith("--dest=")).removeprefix("--dest=")
if sys.argv[0].endswith("post"):
    pathlib.Path(target).write_text(source)
    sys.exit()
found = re.findall(r"(numjaxformula\d+): \$(.*?) \$\n", source, re.DOTALL)
with log.open("a") as file:
    file.write(str(len(found)) + "\n")
if any("hang" in formula for _, formula in found):
    time.sleep(60)
if "crash" in source or ("stop" in source and len(found) > 1):
    sys.exit(1)
paragraphs = []
for word, formula in found:
    maths = [] if formula == "gone" else [formula] * (2 if formula == "two" else 1)
    made = "".join("<Math><math><ci>" + html.escape(m) + "</ci></math></Math>" for m in maths)
    paragraphs.append("<p>" + word + ": " + made + "</p>")
pathlib.Path(target).write_text("<document>" + "".join(paragraphs) + "</document>")
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Stand-ins on the path; gives the sizes of the batches that were run."""
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
    assert not list((tmp_path / "work").iterdir()), "nothing is left behind"


def shown(found) -> list[str]:
    return [f.symbol if isinstance(f, Tree) else "error" for f in found]


def test_it_is_refused_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not latexml.is_installed()
    with pytest.raises(UsageError, match="not on the path"):
        latexml.parse(["x"])


@pytest.mark.parametrize("options", [{"jobs": 0}, {"batch": 0}])
def test_options_are_checked(fake, options):
    with pytest.raises(UsageError, match="positive"):
        latexml.parse(["x"], **options)


@pytest.mark.parametrize("jobs", [1, 3])
def test_order_is_kept_over_batches(fake, jobs):
    formulas = [f"x{i}" for i in range(10)]
    assert shown(latexml.parse(formulas, jobs=jobs, batch=4)) == formulas
    assert sorted(fake()) == [2, 4, 4]
    assert shown(latexml.parse([])) == []


@pytest.mark.parametrize("bad", ["two", "gone", "crash"])
def test_a_bad_formula_is_left_alone(fake, bad):
    formulas = ["a", "b", bad, "c", "d", "e", "f", "g"]
    assert shown(latexml.parse(formulas)) == [f if f != bad else "error" for f in formulas]
    assert fake() == [8, 4, 2, 2, 1, 1, 4], "halved, and again"


def test_what_fails_only_in_company_is_read_alone(fake):
    assert shown(latexml.parse(["a", "stop", "b"])) == ["a", "stop", "b"]


def test_what_never_ends_is_ended(fake, monkeypatch):
    monkeypatch.setattr(latexml, "START", 0.4)
    monkeypatch.setattr(latexml, "EACH", 0.0)
    assert shown(latexml.parse(["hang"])) == ["error"]


def test_definitions_are_kept_apart(fake):
    assert shown(latexml.parse(["a", r"\gdef\a{}b", "c"]))[::2] == ["a", "c"]
    assert sorted(fake()) == [1, 2]


@pytest.mark.parametrize(
    ("formula", "at"),
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
def test_what_would_spill_over_is_not_run(fake, formula, at):
    found = list(latexml.parse(["x", formula, "y"]))
    assert shown(found) == ["x", "error", "y"]
    assert isinstance(found[1], Unreadable) and found[1].at == at
    assert fake() == [2]


@pytest.mark.parametrize("formula", [r"\$5", r"\{a\}", r"\inputs", r"\partial", r"a\\b", "50%", "a \\"])
def test_what_only_looks_like_it_is_run(fake, formula):
    assert latexml.find_refusal(formula) is None
    assert "error" not in shown(latexml.parse([formula]))


def test_stopping_early_stops_the_rest(fake):
    found = latexml.parse((f"x{i}" for i in range(1000)), batch=2)
    assert next(found) == Tree("V", "x0")
    found.close()  # type: ignore[attr-defined]
    assert len(fake()) < 6


@real
def test_real_formulas_and_a_bad_one_amid_them():
    formulas = ["x=12+3", r"\frac{a}{b", r"\left( x", r"\frac{1}{2}", r"\nosuchmacro x", "50% - a - b"]
    found = list(latexml.parse(formulas))
    assert found[0] == from_json(
        ["U", "eq", [["V", "x", None], ["U", "plus", [["N", "12", None], ["N", "3", None]]]]]
    )
    assert found[3] == from_json(["O", "divide", [["N", "1", None], ["N", "2", None]]])
    assert isinstance(found[1], Unreadable)
    assert isinstance(found[4], Unreadable) and "nosuchmacro" in found[4].error
    half = ["O", "percent", [["N", "50", None]]]
    assert found[5] == from_json(["O", "minus", [["O", "minus", [half, ["V", "a", None]]], ["V", "b", None]]])


@real
def test_the_published_trees(real_data):
    """What the original pipeline made of real formulas."""
    with gzip.open(pathlib.Path(real_data("latexml_trees")) / "trees.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["tree"]][::29]
    found = list(latexml.parse((row["latex"] for row in rows), as_published=True))
    same = sum(tree == from_json(row["tree"]) for tree, row in zip(found, rows, strict=True))
    assert same >= len(rows) - 1
