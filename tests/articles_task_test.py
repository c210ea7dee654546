"""Pre-training on articles: the document, the vocabulary of symbols, and the sizes of rows."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from numjax import build
from numjax.bundled import data
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.tree import Tree, from_json
from numjax.tasks.articles import Task
from numjax.text import document as documents
from numjax.text import vocab
from numjax.text.document import article
from numjax.text.document.marked import IDENTIFIER
from numjax.text.grammar import automaton as grammars
from numjax.text.vocab import symbols
from numjax.types import Formula, Mark, Text
from tests import mathgpt as reference
from tests.articles_test import parse

TRAINING = ["If then holds for the sequence of numbers 12 and 7, x y z.", "where  <m> x = 12 </m> "] * 9


@functools.cache
def build_scheme(name: str = "trees", **options):
    marks = build.find("text", name).marks  # type: ignore[attr-defined]
    if name == "trees":
        marks = symbols.list_marks(symbols.count_symbols([latex.parse(r"x+y-z=\frac{1}{2}")]))  # type: ignore[list-item]
    return build.build("text", {"name": name, **options}, vocab=vocab.build(VOCABULARY, TRAINING, marks))


VOCABULARY = {"name": "sentencepiece", "size": 330, "model": "bpe"}


def make_record(text: str, *formulas: str | None) -> dict:
    """Makes a record; None stands for a missing formula."""
    entries = {}
    for i, tex in enumerate(formulas):
        if tex is not None:
            tree = latex.parse(tex)
            entries[str(i)] = {"opt": tree.to_json() if isinstance(tree, Tree) else None, "tex": tex}
    return {"id": "r", "text": text.replace("F", IDENTIFIER), "formulas": json.dumps(entries)}


def test_formulas_become_trees_or_text_by_the_scheme():
    record = make_record("If F and 12, then F. FF", "x+12", "{y", "z", None)
    example = Task().example(record, parse)
    x, z = (Formula("", latex.parse(tex)) for tex in ("x+12", "z"))
    assert example.document[:3] == (Mark("[CLS]"), Text("If "), x) and example.loss_from == 1
    assert example.document[-2:] == (z, Mark("[EOS]"))
    assert (
        documents.surface(example.document) == "[CLS]If  <m> x+12 </m>  and 12, then  <m> {y </m> .  <m> z </m> [EOS]"
    )
    assert next(Task().texts([record])) == documents.surface(example.document[1:-1])
    features = build_scheme().encode(example.document)
    assert build_scheme().decode(features.ids) == example.document
    text_features = build_scheme("subword").encode(example.document)
    assert documents.surface(build_scheme("subword").decode(text_features.ids)) == documents.surface(example.document)


@pytest.mark.parametrize(
    "formulas", ["[]", "no", '{"0": 3}', '{"0": {"opt": null}}', '{"0": {"tex": "x"}}', "[" * 9999]
)
def test_a_bad_record_is_refused(formulas):
    with pytest.raises(DataError):
        Task().example({"id": "x", "text": "a", "formulas": formulas}, parse)
    with pytest.raises(ValueError, match="a tree"):
        Task().example(make_record("F") | {"formulas": '{"0": {"opt": ["?", "x", null], "tex": "x"}}'}, parse)


def test_the_published_article_is_that_of_the_original(real_data):
    folder = real_data("mathgpt_reference").parent
    cases = [case for case in reference.load_cases(folder)["cases"] if case["kind"] in ("article", "edge", "short")]
    assert len(cases) > 50
    for case in cases:
        if "text" in case["article"]:
            formulas = {k: {"tex": "", **fields} for k, fields in case["article"]["formulas"].items()}
            document = article.make_document(case["article"]["text"], formulas, parse, as_published=True)
            assert document == reference.make_document(case["article"]), case["id"]


def test_a_formula_that_the_grammar_lacks_is_written_as_text():
    deep_tree = functools.reduce(lambda tree, _: Tree("O", "minus", [tree]), range(60), Tree("V", "x"))
    formula = Formula(" <m> x </m> ", latex.parse("x"))
    document = (
        Mark("[CLS]"),
        Text("a"),
        formula,
        Formula(" <m> deep </m> ", deep_tree),
        Text("b"),
        formula,
        Mark("[EOS]"),
    )
    with pytest.raises(DataError, match="grammar"):
        build_scheme().encode(document)
    features = build_scheme(unfit="text").encode(document)
    assert build_scheme().decode(features.ids) == (
        *(Mark("[CLS]"), Text("a"), formula, Text(" <m> deep </m> b"), formula, Mark("[EOS]")),
    )
    assert len(features.starts) == len(document) + 1, "every segment keeps its start"
    assert grammars.validate(build_scheme().grammar(), features.ids) is None
    with pytest.raises(UsageError, match="unfit"):
        build.build("text", {"name": "trees", "unfit": "never"}, vocab=build_scheme().vocab)


def test_a_vocabulary_of_symbols_is_built_from_articles(data_dir, tmp_path):
    from numjax.bundled.configs import mathgpt
    from numjax.system import assemble

    config: Any = mathgpt.get_config("smoke,task=articles")
    with config.unlocked():
        config.task.size = 120
        config.data.dir = str(data_dir)
    system = assemble(config, tmp_path / "wiki")
    records = data.load("articles", "train", data_dir, size=120, validation=0.05, test=0.05)
    trees = [from_json(f["opt"]) for r in records for f in json.loads(r["formulas"]).values()]
    scheme: Any = system.scheme
    wanted = {(node.type, node.symbol) for tree in trees for node in tree.walk() if node.type in "UOFV"}
    assert len(wanted) > 30 and all(scheme.symbols.find_token(*key) is not None for key in wanted)
    assert [scheme.symbols.find_token("N", digit) is not None for digit in "0123456789."] == [True] * 11
    # Another task that starts from this run has the same tokens.
    config = mathgpt.get_config("smoke,task=gsm8k")
    with config.unlocked():
        config.task.size = 100
        config.data.dir, config.init_from = str(data_dir), str(tmp_path / "wiki")
    next_system = assemble(config, tmp_path / "after")
    assert next_system.scheme.vocab.marks == system.scheme.vocab.marks  # type: ignore[attr-defined]
    assert next_system.scheme.vocab.pieces == system.scheme.vocab.pieces  # type: ignore[attr-defined]


@pytest.mark.parametrize("system", ["mathgpt", "gpt"])
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("task", ["articles", "gsm8k", "math", "text", "equation"])
def test_rows_and_answers_fit_the_context(task, scale, system):
    from numjax.bundled.configs import mathgpt

    config: Any = mathgpt.get_config(f"{scale},task={task},system={system}")
    context = config.backbone.max_length
    assert config.data.length <= context
    if task in ("gsm8k", "math"):
        assert config.data.length + config.decode.max_tokens <= context, "no prompt may stop an evaluation"
    if task in ("articles", "text"):
        assert config.data.length == context and config.backbone.packed and config.data.overflow == "split"
    has_trees = system == "mathgpt" and task in ("articles", "gsm8k", "math")
    assert config.scheme.get("unfit") == ("text" if has_trees else None)


def test_caps_keep_the_most_frequent_symbols():
    counts = {kind: {f"{kind}{i:04d}": 5000 - i for i in range(1500)} for kind in "TVFO"} | {"N": {"12": 9}}
    names = symbols.list_marks(counts)
    n_symbols = {kind: sum(f" {kind} {kind}" in name for name in names) for kind in "TVFO"}
    assert n_symbols == {"T": 1000, "V": 1000, "F": 1500, "O": 1500} and "NUM N 12" not in names
    assert "OP T T0999" in names and "OP T T1000" not in names
