"""Headlines: good and bad files of MathSum, the stand-in, the layout of the task, shortened questions, and scores."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax.build import build, find
from numjax.bundled import data
from numjax.bundled.data.mathsum import generate
from numjax.bundled.data.mathsum.read import find_fault, find_regions, restore_signs
from numjax.errors import DataError, UsageError
from numjax.expr import latex, printer
from numjax.expr.tree import Tree, from_json
from numjax.pipeline import batch as batches
from numjax.pipeline import features
from numjax.tasks.headline import mixed
from numjax.tasks.headline.task import Task
from numjax.text import document as documents
from numjax.text import vocab
from numjax.types import Formula, Mark, Text

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")

POST = "let <m> f ( x ) = x ^ 2 </m> -LRB- say -RRB- . is <m> 1 2 < f </m> ?"
TITLE = "when is <m> f </m> larger than <m> 1 2 </m> ?"


# ---------------------------------------------------------------------------------------------------
# Files.


def write(folder, split: str, pairs, zipped: bool = False) -> None:
    for kind, column in zip(("post", "title"), zip(*pairs, strict=True), strict=True):
        raw = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in column)
        name = f"{kind}.{split}" + ".gz" * zipped
        (folder / name).write_bytes(gzip.compress(raw) if zipped else raw)


def make_pairs(count: int, word: str = "q") -> list[tuple[str, str]]:
    return [(f"{word} {i} <m> x _ {i} </m> ?", f"on <m> x _ {i} </m> of {word}") for i in range(count)]


def load(path, tmp_path, **options) -> dict[str, list[dict]]:
    folder = tmp_path / "built"
    splits = data.prepare("mathsum", folder, path=str(path), **options).info.splits
    return {s: list(data.load("mathsum", s, folder, path=str(path), **options)) for s in SPLITS if s in splits}


@pytest.mark.parametrize("zipped", [False, True])
def test_splits_are_those_of_the_files(tmp_path, zipped):
    sizes = {"train": 30, "val": 4, "test": 6}
    for split, size in sizes.items():
        write(tmp_path, split, make_pairs(size, split), zipped)
    splits = load(tmp_path, tmp_path)
    assert {s: len(rows) for s, rows in splits.items()} == {"train": 30, "validation": 4, "test": 6}
    for split, name in zip(SPLITS, sizes, strict=True):
        assert [(r["post"], r["headline"]) for r in splits[split]] == make_pairs(sizes[name], name)
        assert [r["id"] for r in splits[split]] == [f"mathsum-{name}-{i + 1:06d}" for i in range(sizes[name])]
        assert all(r["prefix"] == "" for r in splits[split])
    assert len(load(tmp_path, tmp_path, size=5)["train"]) == 5


def test_without_validation_files_a_tenth_of_train_is_validation(tmp_path):
    write(tmp_path, "train", make_pairs(300))
    splits = load(tmp_path, tmp_path)
    assert splits.keys() == {"train", "validation"}
    assert 15 < len(splits["validation"]) < 50 and sum(map(len, splits.values())) == 300


def test_one_pair_of_files_can_be_divided_and_equal_questions_stay_in_one_split(tmp_path):
    pairs = make_pairs(300)
    write(tmp_path, "val", [*pairs, *((post, "another headline") for post, _ in pairs)])
    (tmp_path / "title.train").write_text("a headline without its question\n")
    with pytest.raises(DataError, match="splits=divided"):
        load(tmp_path, tmp_path)
    splits = load(tmp_path, tmp_path, splits="divided")
    assert sum(map(len, splits.values())) == 600
    posts = [{row["post"] for row in rows} for rows in splits.values()]
    assert not any(a & b for a, b in itertools.combinations(posts, 2))
    assert 80 < len(splits["test"]) < 160 and 25 < len(splits["validation"]) < 80
    assert load(tmp_path, tmp_path, splits="divided", seed=1) != splits


def test_bad_lines_are_skipped_and_named_and_the_rest_is_kept(tmp_path):
    bad_pairs = [
        ("", "a"),
        ("a", "  "),
        ("a <m> x", "b"),
        ("a </m> x", "b"),
        ("a", "b <m> x <m> y </m> </m>"),
        (b"\xff\xfe", "b"),
        ("a", b"caf\xe9"),
    ]
    good_pairs = make_pairs(20)
    write(tmp_path, "train", [*good_pairs[:10], *bad_pairs, *good_pairs[10:]])
    splits = load(tmp_path, tmp_path)
    assert {r["post"] for rows in splits.values() for r in rows} == {post for post, _ in good_pairs}
    skipped = data.load_skipped("mathsum", tmp_path / "built", path=str(tmp_path))
    assert [row["id"] for row in skipped] == [f"mathsum-train-{11 + i:06d}" for i in range(len(bad_pairs))]
    assert all(row["reason"] and "\n" not in row["reason"] for row in skipped)
    with pytest.raises(DataError, match="mathsum-train-000011"):
        data.load("mathsum", "train", tmp_path / "strict", path=str(tmp_path), strict=True)


def test_lines_end_at_line_ends_alone(tmp_path):
    post = "one\u2028two\x0bthree\x85 four"
    (tmp_path / "post.train").write_bytes("\ufeff".encode() + f"{post}\r\nsecond\r\n".encode())
    (tmp_path / "title.train").write_bytes(b"first\nother")
    rows = [row for rows in load(tmp_path, tmp_path).values() for row in rows]
    assert {(row["post"], row["headline"]) for row in rows} == {(post, "first"), ("second", "other")}


def test_bad_files_are_refused_in_one_line(tmp_path):
    with pytest.raises(DataError, match=r"post\.train and title\.train"):
        load(tmp_path, tmp_path)
    write(tmp_path, "train", make_pairs(5))
    (tmp_path / "title.train").write_text("only one\n")
    with pytest.raises(DataError, match=r"title\.train ends after line 1 and post\.train does not"):
        load(tmp_path, tmp_path)
    (tmp_path / "title.train.gz").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="keep one of them"):
        load(tmp_path, tmp_path)
    (tmp_path / "title.train").unlink()
    with pytest.raises(DataError, match="gzip"):
        load(tmp_path, tmp_path)
    (tmp_path / "title.train.gz").write_bytes(gzip.compress(b"a\n" * 5)[:-9])
    with pytest.raises(DataError, match="gzip"):
        load(tmp_path, tmp_path)


@pytest.mark.parametrize(
    "options", [{"region": "half"}, {"splits": "mine"}, {"marks": "none"}, {"size": -1}, {"seed": -1}]
)
def test_options_are_checked(tmp_path, options):
    with pytest.raises(UsageError):
        load("", tmp_path, **options)


def test_marks_outside_formulas_become_signs():
    text = "`` a '' -LRB- b :-RRB- <m> -LRB- '' </m> -LSB- -LCB- it 's -RCB- -RSB- ''"
    assert restore_signs(text) == "\" a \" ( b :) <m> -LRB- '' </m> [ { it 's } ] \""
    assert len(restore_signs(text).split()) == len(text.split())


def test_regions_are_each_formula_and_each_text_after_one():
    title = "on <m> a </m> <m> b </m> and <m> c </m>"
    formulas = list(find_regions(title, "formula"))
    assert [r.headline for r in formulas] == ["<m> a </m>", "<m> b </m>", "<m> c </m>"]
    assert [r.prefix for r in formulas] == ["on ", "on <m> a </m> ", "on <m> a </m> <m> b </m> and "]
    assert list(find_regions(title, "text")) == [("on <m> a </m> <m> b </m>", " and ")]
    assert list(find_regions("no formula", "formula")) == list(find_regions("no formula", "text")) == []
    for kind in ("all", "formula", "text"):
        assert all(title.startswith(r.prefix + r.headline) for r in find_regions(title, kind))
    assert find_fault("headline", title) == ""


def test_the_stand_in_has_the_form_of_the_files_and_parses():
    pairs = list(generate.generate_pairs(1500, 3))
    assert len({post for post, _ in pairs}) == 1500 and pairs == list(generate.generate_pairs(1500, 3))
    openings = set()
    for post, title in pairs:
        assert not find_fault("question", post) and not find_fault("headline", title)
        for text in (post, title):
            assert text == " ".join(text.split()) and "{how}" not in text
            assert not re.search("[A-Z]", re.sub("<m>.*?</m>|-[LR]RB-", "", text))
            for as_published in (False, True):
                assert not mixed.parse_document(text, parse, as_published)[1]
        # The headline's formulas are those of the question, or consist of its letters.
        question_formulas = set(re.findall(r"<m>(.*?)</m>", post))
        assert question_formulas & set(re.findall(r"<m>(.*?)</m>", title))
        openings.add(" ".join(title.split()[:2]))
    assert len(openings) >= len(generate.TEMPLATES) - 2


# ---------------------------------------------------------------------------------------------------
# Text with formulas.


def test_a_parsed_document_keeps_the_text():
    document, failures = mixed.parse_document(f" {POST}", parse)
    assert not failures
    expected = " let <m> f ( x ) = x ^ { 2 } </m> -LRB- say -RRB- . is <m> 12 < f </m> ?"
    assert documents.surface(document) == expected
    assert documents.merge(document) == document, "canonical"
    published, _ = mixed.parse_document(POST, mixed.make_text_document, as_published=True)
    chunks = [segment.text for segment in published if isinstance(segment, Text)]
    assert chunks == ["let ", " -LRB- say -RRB- . is ", " ?"]
    assert isinstance(published[1], Formula) and published[1].surface == " <m> f \\times x = x ^ { 2 } </m> "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "nothing to read"),
        (r"\frac { 1 } { 2", "not closed"),
        ("}", ""),
        (" + ".join("x" * 80), "children"),
        ("{ " * 40 + "x" + " } ^ 2" * 40, "levels deep"),
        (r"\text { " + "long " * 20 + "}", "bytes"),
    ],
)
def test_an_unparsable_formula_stays_text_and_the_others_are_parsed(body, reason):
    text = f"a <m> {body} </m> b <m> y </m> c"
    document, failures = mixed.parse_document(text, parse)
    assert [formula for formula, _ in failures] == [body.strip()] and reason in failures[0][1]
    assert [s.tree for s in document if isinstance(s, Formula)] == [Tree("V", "y")]
    assert documents.surface(document) == text and documents.merge(document) == document


def test_formulas_printed_as_text_parse_to_the_same_trees(real_data):
    """A system that writes text is trained on the same trees as a system that writes trees."""
    folder = real_data("mathsum")
    lines = (folder / "OFEQ-10k" / "title.val").read_text().split("\n")[:-1]
    lines += gzip.decompress((folder / "EXEQ-300k" / "title.val.gz").read_bytes()).decode().split("\n")[:2000]
    count = 0
    for line in lines:
        document, _ = mixed.parse_document(line, parse)
        trees = [s.tree for s in document if isinstance(s, Formula)]
        parts = mixed.split_written(parse(documents.surface(document)))
        if len(trees) == line.count("<m>"):
            assert [part.tree for part in parts if part.formula] == trees, line
            assert mixed.join_tokens(parts) == mixed.join_tokens(mixed.split_written(document))
            count += len(trees)
    assert count > 4000


# ---------------------------------------------------------------------------------------------------
# The task.

RECORD = {"id": "h", "post": POST, "prefix": "", "headline": TITLE}
NEXT_FORMULA = RECORD | {"prefix": "when is ", "headline": "<m> f </m>"}
NEXT_TEXT = RECORD | {"prefix": "when is <m> f </m>", "headline": " larger than "}


@functools.cache
def make_scheme(name: str, as_published: bool = False):
    task = Task(as_published=as_published)
    rows = [RECORD, *({"post": p, "prefix": "", "headline": t} for p, t in generate.generate_pairs(40, 0))]
    trees = (
        s.tree for row in rows for s in task.example({"id": "", **row}, parse).document if isinstance(s, Formula)
    )
    cls = find("text", name)
    marks = cls.marks_of({}, trees) if name.startswith("trees") else cls.marks
    return cls(vocab.build({"name": "sentencepiece", "size": 420, "model": "bpe"}, task.texts(rows), marks))


def list_texts(document) -> list[str]:
    return [s.name if isinstance(s, Mark) else documents.surface_of(s) for s in document]


def test_a_document_has_its_layout():
    example = Task().example(RECORD, parse)
    assert "|".join(list_texts(example.document)) == (
        "[CLS]|Question: let| <m> f ( x ) = x ^ { 2 } </m>| -LRB- say -RRB- . is| <m> 12 < f </m>| ?|[SEP]"
        "| Summary:| when is| <m> f </m>| larger than| <m> 12 </m>| ?|[EOS]"
    )
    assert example.loss_from == 8 and example.spare == ((5, 6), (4, 5), (3, 4), (2, 3), (1, 2))
    assert Task().prompt(RECORD, parse) == example.document[:8]
    formula = Task(region="formula").example(NEXT_FORMULA, parse)
    assert list_texts(formula.document[formula.loss_from - 2 :]) == [" Summary:", " when is", " <m> f </m>", "[EOS]"]
    text = Task(region="text").example(NEXT_TEXT, parse)
    assert list_texts(text.document[text.loss_from - 2 :]) == [" when is", " <m> f </m>", " larger than", "[EOS]"]


def test_a_document_as_published_has_its_layout():
    """Question: P, [SEP] Summary:, T and the end; each stretch is encoded by itself, with the blanks of the files."""
    task = Task(as_published=True)
    example = task.example(RECORD, parse)
    assert "|".join(list_texts(example.document)) == (
        "Question: let | <m> f \\times x = x ^ { 2 } </m> | -LRB- say -RRB- . is | <m> 12 < f </m> | ?"
        "|[SEP] Summary: |when is | <m> f </m> | larger than | <m> 12 </m> | ?|[EOS]"
    )
    assert example.spare == ((4, 5), (3, 4), (2, 3), (1, 2), (0, 1)) and example.loss_from == 6
    assert task.dataset["marks"] == "names" and Task().dataset["marks"] == "signs"
    for name in ("trees_published", "subword"):
        scheme = make_scheme(name, True)
        expected = []
        for segment in example.document:
            if isinstance(segment, Mark):
                expected.append(scheme.vocab.mark(segment.name))
            elif isinstance(segment, Formula) and name == "trees_published":
                expected += scheme._formula_tokens(segment.tree)
            else:
                expected += scheme.vocab.encode(documents.surface_of(segment))
        assert scheme.encode(example.document).ids.tolist() == expected


@pytest.mark.parametrize("name", ["trees", "subword"])
@pytest.mark.parametrize(
    ("region", "record"), [("all", RECORD), ("formula", NEXT_FORMULA), ("text", NEXT_TEXT)], ids=lambda x: str(x)[:7]
)
def test_only_the_part_to_generate_is_scored(name, region, record):
    scheme, options = make_scheme(name), make_config(length=400)
    encoded = features.encode(Task(region=region), scheme, [record], options, "train")
    row = encoded.rows[0]
    (target,) = batches.assemble([[row]], [[0]], kind="language_model", length=400, numerals=8, digits=8).targets[1]
    target_ids = [int(i) for i in row.ids[1:][target[: len(row.ids) - 1]]]
    assert scheme.vocab.mark("[EOS]") == target_ids[-1] and int(target.sum()) == len(target_ids)
    document = scheme.decode(target_ids)
    prediction = Task(region=region).predicted(document)
    assert prediction == {k: v for k, v in encoded.example(0).reference.items() if k != "unread"}
    prompt = scheme.decode(row.ids[: row.loss_from])
    text = documents.surface(scheme.decode(row.ids)).replace(" ", "")
    assert documents.surface((*prompt, *document)).replace(" ", "") == text


def test_unparsable_formulas_are_counted_in_the_prompt_and_refused_in_the_target():
    task = Task()
    question = RECORD | {"post": "what is <m> </m> and <m> \\frac { 1 </m> ?"}
    example = task.example(question, parse)
    assert example.reference["unread"] == 2 and not any(isinstance(s, Formula) for s in example.document[1:4])
    with pytest.raises(DataError, match=r"the formula .* cannot be read: \{ is not closed"):
        task.example(RECORD | {"headline": "on <m> { x </m>"}, parse)
    with pytest.raises(DataError, match="not one formula"):
        Task(region="formula").example(RECORD | {"headline": "on <m> x </m>"}, parse)
    with pytest.raises(DataError, match="not text alone"):
        Task(region="text").example(RECORD | {"headline": "on <m> x </m>"}, parse)
    # An unparsable formula in the prefix is only counted.
    continuation = NEXT_TEXT | {"prefix": "when is <m> { </m>"}
    assert Task(region="text").example(continuation, parse).reference == {"text": "larger than", "unread": 1}
    with pytest.raises(UsageError, match="region"):
        Task(region="formulas")


def test_a_typed_question_gets_the_layout_of_the_task():
    example = Task().example(RECORD, parse)
    assert Task().prompt_from_text(POST, parse) == example.document[: example.loss_from]
    laid_out = Task().prompt_from_text(f"Question: {POST} [SEP] Summary: on", parse)
    assert laid_out == Task().prompt({"post": POST, "prefix": "on"}, parse)


@pytest.mark.parametrize("region", ["all", "formula", "text"])
def test_a_question_without_a_headline_can_be_encoded(region):
    task = Task(region=region)
    encoded = features.encode(
        task, make_scheme("trees"), [{"id": "1", "post": POST}], make_config(length=400), "input"
    )
    assert not encoded.skipped
    assert encoded.example(0).document[: encoded.example(0).loss_from] == task.prompt(RECORD, parse)


# ---------------------------------------------------------------------------------------------------
# Questions that are too long.


def make_config(**changes) -> ConfigDict:
    return ConfigDict(dict(length=60, reserve=20, overflow="shorten", digits=8, pack=False) | changes)


def shorten_by_search(scheme, document, loss_from: int, spare, room: int):
    """Returns the document with the longest beginning of the question whose prompt fits, and a number of positions.

    A Text at the end of the question still loses that many positions; formulas and numbers stay or go as a whole.
    """
    first, end = spare[-1][0], spare[0][1]
    for last in range(end, first - 1, -1):
        shorter = (*document[:last], *document[end:])
        n_prompt = scheme.encode(shorter).starts[loss_from - (end - last)]
        text = scheme.encode(document[last - 1 : last]).ids if last > first else []
        if n_prompt <= room:
            return shorter, 0
        if last > first and isinstance(document[last - 1], Text) and n_prompt - room < len(text):
            return shorter, n_prompt - room
    raise AssertionError("nothing fits")


@pytest.mark.parametrize("name", ["trees", "subword"])
def test_a_long_question_loses_its_end_outside_formulas_and_numbers(name, rng):
    scheme, task = make_scheme(name), Task()
    posts = [
        f"{' '.join(['word'] * n)} {POST} 3.14159 is <m> \\frac {{ a }} {{ b + 271828 }} </m> ok" for n in range(24)
    ]
    rows = [RECORD | {"id": str(n), "post": post} for n, post in enumerate(posts)]
    encoded = features.encode(task, scheme, rows, make_config(), "train")
    assert not encoded.skipped and len(encoded.shortened) == len(rows)
    cuts = set()
    for row, record in zip(encoded.rows, rows, strict=True):
        example = task.example(record, scheme.parse)
        full = scheme.encode(example.document)
        loss_from = full.starts[example.loss_from]
        assert row.loss_from <= 40 and loss_from > 40
        shorter, n_lost = shorten_by_search(scheme, example.document, example.loss_from, example.spare, 40)
        expected = scheme.encode(shorter)
        separator = expected.starts[
            example.loss_from - (len(example.document) - len(shorter)) - 2
        ]  # the start of [SEP]
        indices = np.r_[: separator - n_lost, separator : len(expected.ids)][: 60 + 1]
        np.testing.assert_array_equal(row.ids, expected.ids[indices])
        np.testing.assert_array_equal(row.grammar_state, expected.grammar_state[indices])
        if name == "trees":
            np.testing.assert_array_equal(
                row.channels["tree_positions"], expected.channels["tree_positions"][indices]
            )
            np.testing.assert_array_equal(row.channels["types"], expected.channels["types"][indices])
        # The headline is complete unless it is longer than the room for it.
        assert row.ids[row.loss_from :].tolist() == full.ids[loss_from:][: 61 - row.loss_from].tolist()
        cuts.add(40 - row.loss_from)
    assert len(cuts) > 2, "formulas and numbers are not cut"


def test_the_cut_does_not_depend_on_the_headline():
    scheme, post = make_scheme("trees"), "why is that so ? " * 10
    rows = [RECORD | {"post": post, "headline": "x " * n} for n in (1, 8, 60)]
    encoded = features.encode(Task(), scheme, rows, make_config(), "test")
    prompts = [row.ids[: row.loss_from].tolist() for row in encoded.rows]
    assert prompts[0] == prompts[1] == prompts[2] and len(encoded) == 3
    assert len(encoded.rows[2].ids) == 61, "a headline that is too long loses its end"
    assert encoded.example(2).reference["text"].count("x") == 60, "but is scored as a whole"


def test_the_prefix_of_a_headline_is_never_cut():
    scheme = make_scheme("trees")
    rows = [NEXT_TEXT | {"id": str(n), "prefix": "given " * n + "<m> f </m>"} for n in (2, 60)]
    encoded = features.encode(Task(region="text"), scheme, rows, make_config(), "train")
    assert len(encoded) == 1
    assert documents.surface(scheme.decode(encoded.rows[0].ids)).endswith("Summary: given givenf larger than[EOS]")
    assert [(row["id"], "no more than 40 fit" in row["reason"]) for row in encoded.skipped] == [("60", True)]
    for options in (dict(reserve=0), dict(reserve=60)):
        with pytest.raises(UsageError, match=r"data\.reserve"):
            features.encode(Task(), scheme, [RECORD], make_config(**options), "train")


# ---------------------------------------------------------------------------------------------------
# Scores.


def test_both_systems_are_scored_against_the_same_text():
    references = {
        n: features.encode(Task(), make_scheme(n), [RECORD], make_config(), "test").example(0)
        for n in ("trees", "subword")
    }
    assert references["trees"].reference == references["subword"].reference
    assert references["trees"].reference == {"text": "when is f larger than 12 ?", "unread": 0}
    tree = latex.parse(r"\frac { a } { b }")
    assert isinstance(tree, Tree)
    tree_document = (Text(" so"), Formula(printer.latex(tree), tree), Text(" is  it"), Mark("[EOS]"), Text("x"))
    text_document = (*parse(r" so <m> \frac{a} {b } </m> is it"), Mark("[EOS]"))
    assert (
        Task().predicted(tree_document) == Task().predicted(text_document) == {"text": r"so \frac { a } { b } is it"}
    )
    for task in (Task(region="formula"), Task(region="formula", as_published=True)):
        predictions = [task.predicted(document) for document in (tree_document, text_document)]
        assert predictions[0]["tree"] == predictions[1]["tree"] == tree.to_json()
    assert Task(region="formula", as_published=True).predicted(tree_document)["text"] == "a / b"
    assert Task(region="text").predicted(tree_document) == {"text": "so"}
    assert Task(region="text").predicted((*tree_document[1:],)) == {"text": ""}


@pytest.mark.parametrize("document", [(), (Text("no formula"),), (Formula("", None),), (Text("<m> { x </m>"),)])
def test_predictions_without_a_formula_have_no_tree(document):
    assert Task(region="formula").predicted(document)["tree"] is None


def test_an_unclosed_formula_is_parsed_up_to_its_end():
    assert Task(region="formula").predicted(parse("<m> x + 1"))["tree"] == latex.parse("x + 1").to_json()  # type: ignore[union-attr]


def test_failures_are_charged_and_also_reported_without_the_charge():
    task = Task(region="formula")
    records = [NEXT_FORMULA | {"headline": f"<m> a + {i} </m>"} for i in range(4)]
    references = [json.loads(json.dumps(task.example(r, parse).reference)) for r in records]
    best = task.score(references, references)
    assert best["TED"] == best["TED_read"] == 0 and best["read"] == best["tree_match"] == 1 and best["ROUGE-L"] == 1
    empty = {"text": "", "tree": None}
    scores = task.score([references[0], references[2], empty, empty], references)
    assert scores["TED_read"] == 0.5 and scores["TED"] == (0 + 1 + 3 + 3) / 4 and scores["read"] == 0.5
    assert from_json(references[1]["tree"]).size == 3
    assert 0.4 < scores["ROUGE-L"] < best["ROUGE-L"] and scores["unread"] == 0
    headline = Task()
    headline_references = [headline.example(RECORD, parse).reference]
    assert headline.score(headline_references, headline_references)["BLEU-4"] == 1 and "TED" not in headline.score(
        headline_references, headline_references
    )


def test_published_scores_count_digits_and_weigh_recall():
    references = [
        Task(region="formula", as_published=True)
        .example(NEXT_FORMULA | {"headline": "<m> 1 2 </m>"}, parse)
        .reference
    ]
    empty = [{"text": "", "tree": None}]
    assert Task(region="formula", as_published=True).score(empty, references)["TED"] == 3
    assert Task(region="formula").score(empty, references)["TED"] == 1


def test_real_pairs_are_encoded_by_both_systems(real_data, tmp_path):
    """Both systems encode every question, and all but a few headlines."""
    path = str(real_data("mathsum") / "OFEQ-10k")
    rows = list(data.load("mathsum", "test", tmp_path, path=path, splits="divided"))
    assert 180 < len(rows) < 280
    ids_of_systems = []
    for name in ("trees", "subword"):
        encoded = features.encode(Task(), make_scheme(name), rows, make_config(length=300, reserve=100), "test")
        ids_of_systems.append([encoded.example(i).id for i in range(len(encoded))])
        assert {row["reason"][:11] for row in encoded.skipped} == {"the formula"}
    assert ids_of_systems[0] == ids_of_systems[1] and len(ids_of_systems[0]) >= len(rows) - 4


def test_a_headline_task_is_built_by_name():
    task = build("tasks", {"name": "headline", "path": "p", "region": "text", "size": 3})
    assert task.dataset == {
        "name": "mathsum", "path": "p", "region": "text", "splits": "files", "seed": 221, "marks": "signs", "size": 3,
    }  # fmt: skip
