"""Headlines: MathSum's files good and bad, the stand-in, the task's layout, shortened questions, and scores."""

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


def made(count: int, what: str = "q") -> list[tuple[str, str]]:
    return [(f"{what} {i} <m> x _ {i} </m> ?", f"on <m> x _ {i} </m> of {what}") for i in range(count)]


def load(path, tmp_path, **options) -> dict[str, list[dict]]:
    folder = tmp_path / "built"
    there = data.prepare("mathsum", folder, path=str(path), **options).info.splits
    return {s: list(data.load("mathsum", s, folder, path=str(path), **options)) for s in SPLITS if s in there}


@pytest.mark.parametrize("zipped", [False, True])
def test_splits_are_those_of_the_files(tmp_path, zipped):
    sizes = {"train": 30, "val": 4, "test": 6}
    for split, size in sizes.items():
        write(tmp_path, split, made(size, split), zipped)
    found = load(tmp_path, tmp_path)
    assert {s: len(rows) for s, rows in found.items()} == {"train": 30, "validation": 4, "test": 6}
    for split, name in zip(SPLITS, sizes, strict=True):
        assert [(r["post"], r["headline"]) for r in found[split]] == made(sizes[name], name)
        assert [r["id"] for r in found[split]] == [f"mathsum-{name}-{i + 1:06d}" for i in range(sizes[name])]
        assert all(r["prefix"] == "" for r in found[split])
    assert len(load(tmp_path, tmp_path, size=5)["train"]) == 5


def test_without_validation_files_a_tenth_of_train_is_it(tmp_path):
    write(tmp_path, "train", made(300))
    found = load(tmp_path, tmp_path)
    assert found.keys() == {"train", "validation"}
    assert 15 < len(found["validation"]) < 50 and sum(map(len, found.values())) == 300


def test_what_there_is_can_be_divided_and_equal_questions_never_part(tmp_path):
    pairs = made(300)
    write(tmp_path, "val", [*pairs, *((post, "another headline") for post, _ in pairs)])
    (tmp_path / "title.train").write_text("a headline without its question\n")
    with pytest.raises(DataError, match="splits=divided"):
        load(tmp_path, tmp_path)
    found = load(tmp_path, tmp_path, splits="divided")
    assert sum(map(len, found.values())) == 600
    posts = [{row["post"] for row in rows} for rows in found.values()]
    assert not any(a & b for a, b in itertools.combinations(posts, 2))
    assert 80 < len(found["test"]) < 160 and 25 < len(found["validation"]) < 80
    assert load(tmp_path, tmp_path, splits="divided", seed=1) != found


def test_bad_lines_are_left_out_and_named_and_harm_no_other(tmp_path):
    bad = [
        ("", "a"),
        ("a", "  "),
        ("a <m> x", "b"),
        ("a </m> x", "b"),
        ("a", "b <m> x <m> y </m> </m>"),
        (b"\xff\xfe", "b"),
        ("a", b"caf\xe9"),
    ]
    good = made(20)
    write(tmp_path, "train", [*good[:10], *bad, *good[10:]])
    found = load(tmp_path, tmp_path)
    assert {r["post"] for rows in found.values() for r in rows} == {post for post, _ in good}
    left_out = data.load_skipped("mathsum", tmp_path / "built", path=str(tmp_path))
    assert [row["id"] for row in left_out] == [f"mathsum-train-{11 + i:06d}" for i in range(len(bad))]
    assert all(row["reason"] and "\n" not in row["reason"] for row in left_out)
    with pytest.raises(DataError, match="mathsum-train-000011"):
        data.load("mathsum", "train", tmp_path / "strict", path=str(tmp_path), strict=True)


def test_lines_end_at_line_ends_alone(tmp_path):
    post = "one\u2028two\x0bthree\x85 four"
    (tmp_path / "post.train").write_bytes("\ufeff".encode() + f"{post}\r\nsecond\r\n".encode())
    (tmp_path / "title.train").write_bytes(b"first\nother")
    rows = [row for rows in load(tmp_path, tmp_path).values() for row in rows]
    assert {(row["post"], row["headline"]) for row in rows} == {(post, "first"), ("second", "other")}


def test_bad_files_are_one_line(tmp_path):
    with pytest.raises(DataError, match=r"post\.train and title\.train"):
        load(tmp_path, tmp_path)
    write(tmp_path, "train", made(5))
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


def test_the_stand_in_is_of_the_files_form_and_can_be_read():
    pairs = list(generate.generate_pairs(1500, 3))
    assert len({post for post, _ in pairs}) == 1500 and pairs == list(generate.generate_pairs(1500, 3))
    used = set()
    for post, title in pairs:
        assert not find_fault("question", post) and not find_fault("headline", title)
        for text in (post, title):
            assert text == " ".join(text.split()) and "{how}" not in text
            assert not re.search("[A-Z]", re.sub("<m>.*?</m>|-[LR]RB-", "", text))
            for as_published in (False, True):
                assert not mixed.parse_document(text, parse, as_published)[1]
        # The headline's formulas are the question's, or are made of its letters.
        asked = set(re.findall(r"<m>(.*?)</m>", post))
        assert asked & set(re.findall(r"<m>(.*?)</m>", title))
        used.add(" ".join(title.split()[:2]))
    assert len(used) >= len(generate.TEMPLATES) - 2


# ---------------------------------------------------------------------------------------------------
# Text with formulas.


def test_what_is_read_says_the_same():
    document, unread = mixed.parse_document(f" {POST}", parse)
    assert not unread
    printed = " let <m> f ( x ) = x ^ { 2 } </m> -LRB- say -RRB- . is <m> 12 < f </m> ?"
    assert documents.surface(document) == printed
    assert documents.merge(document) == document, "canonical"
    published, _ = mixed.parse_document(POST, mixed.make_text_document, as_published=True)
    chunks = [segment.text for segment in published if isinstance(segment, Text)]
    assert chunks == ["let ", " -LRB- say -RRB- . is ", " ?"]
    assert isinstance(published[1], Formula) and published[1].surface == " <m> f \\times x = x ^ { 2 } </m> "


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "nothing to read"),
        (r"\frac { 1 } { 2", "not closed"),
        ("}", ""),
        (" + ".join("x" * 80), "children"),
        ("{ " * 40 + "x" + " } ^ 2" * 40, "levels deep"),
        (r"\text { " + "long " * 20 + "}", "bytes"),
    ],
)
def test_a_formula_that_cannot_be_read_stays_text_and_harms_no_other(body, why):
    text = f"a <m> {body} </m> b <m> y </m> c"
    document, unread = mixed.parse_document(text, parse)
    assert [formula for formula, _ in unread] == [body.strip()] and why in unread[0][1]
    assert [s.tree for s in document if isinstance(s, Formula)] == [Tree("V", "y")]
    assert documents.surface(document) == text and documents.merge(document) == document


def test_what_is_printed_for_a_system_that_writes_text_reads_back(real_data):
    """The text that such a system is trained on has the trees that the other is trained on."""
    folder = real_data("mathsum")
    lines = (folder / "OFEQ-10k" / "title.val").read_text().split("\n")[:-1]
    lines += gzip.decompress((folder / "EXEQ-300k" / "title.val.gz").read_bytes()).decode().split("\n")[:2000]
    count = 0
    for line in lines:
        document, _ = mixed.parse_document(line, parse)
        trees = [s.tree for s in document if isinstance(s, Formula)]
        again = mixed.split_written(parse(documents.surface(document)))
        if len(trees) == line.count("<m>"):
            assert [part.tree for part in again if part.formula] == trees, line
            assert mixed.join_tokens(again) == mixed.join_tokens(mixed.split_written(document))
            count += len(trees)
    assert count > 4000


# ---------------------------------------------------------------------------------------------------
# The task.

RECORD = {"id": "h", "post": POST, "prefix": "", "headline": TITLE}
NEXT_FORMULA = RECORD | {"prefix": "when is ", "headline": "<m> f </m>"}
NEXT_TEXT = RECORD | {"prefix": "when is <m> f </m>", "headline": " larger than "}


@functools.cache
def scheme(name: str, as_published: bool = False):
    task = Task(as_published=as_published)
    rows = [RECORD, *({"post": p, "prefix": "", "headline": t} for p, t in generate.generate_pairs(40, 0))]
    trees = (
        s.tree for row in rows for s in task.example({"id": "", **row}, parse).document if isinstance(s, Formula)
    )
    cls = find("text", name)
    marks = cls.marks_of({}, trees) if name.startswith("trees") else cls.marks
    return cls(vocab.build({"name": "sentencepiece", "size": 420, "model": "bpe"}, task.texts(rows), marks))


def shown(document) -> list[str]:
    return [s.name if isinstance(s, Mark) else documents.surface_of(s) for s in document]


def test_layout():
    example = Task().example(RECORD, parse)
    assert "|".join(shown(example.document)) == (
        "[CLS]|Question: let| <m> f ( x ) = x ^ { 2 } </m>| -LRB- say -RRB- . is| <m> 12 < f </m>| ?|[SEP]"
        "| Summary:| when is| <m> f </m>| larger than| <m> 12 </m>| ?|[EOS]"
    )
    assert example.loss_from == 8 and example.spare == ((5, 6), (4, 5), (3, 4), (2, 3), (1, 2))
    assert Task().prompt(RECORD, parse) == example.document[:8]
    formula = Task(region="formula").example(NEXT_FORMULA, parse)
    assert shown(formula.document[formula.loss_from - 2 :]) == [" Summary:", " when is", " <m> f </m>", "[EOS]"]
    text = Task(region="text").example(NEXT_TEXT, parse)
    assert shown(text.document[text.loss_from - 2 :]) == [" when is", " <m> f </m>", " larger than", "[EOS]"]


def test_published_layout():
    """Question: P, [SEP] Summary:, T and the end, each stretch by itself and blanks as in the files."""
    task = Task(as_published=True)
    example = task.example(RECORD, parse)
    assert "|".join(shown(example.document)) == (
        "Question: let | <m> f \\times x = x ^ { 2 } </m> | -LRB- say -RRB- . is | <m> 12 < f </m> | ?"
        "|[SEP] Summary: |when is | <m> f </m> | larger than | <m> 12 </m> | ?|[EOS]"
    )
    assert example.spare == ((4, 5), (3, 4), (2, 3), (1, 2), (0, 1)) and example.loss_from == 6
    assert task.dataset["marks"] == "names" and Task().dataset["marks"] == "signs"
    for name in ("trees_published", "subword"):
        of = scheme(name, True)
        wanted = []
        for segment in example.document:
            if isinstance(segment, Mark):
                wanted.append(of.vocab.mark(segment.name))
            elif isinstance(segment, Formula) and name == "trees_published":
                wanted += of._formula_tokens(segment.tree)
            else:
                wanted += of.vocab.encode(documents.surface_of(segment))
        assert of.encode(example.document).ids.tolist() == wanted


@pytest.mark.parametrize("name", ["trees", "subword"])
@pytest.mark.parametrize(
    ("region", "record"), [("all", RECORD), ("formula", NEXT_FORMULA), ("text", NEXT_TEXT)], ids=lambda x: str(x)[:7]
)
def test_what_is_to_be_written_is_scored_and_nothing_else(name, region, record):
    of, options = scheme(name), config(length=400)
    encoded = features.encode(Task(region=region), of, [record], options, "train")
    row = encoded.rows[0]
    (target,) = batches.assemble([[row]], [[0]], kind="language_model", length=400, numerals=8, digits=8).targets[1]
    scored = [int(i) for i in row.ids[1:][target[: len(row.ids) - 1]]]
    assert of.vocab.mark("[EOS]") == scored[-1] and int(target.sum()) == len(scored)
    document = of.decode(scored)
    said = Task(region=region).predicted(document)
    assert said == {k: v for k, v in encoded.example(0).reference.items() if k != "unread"}
    prompt = of.decode(row.ids[: row.loss_from])
    whole = documents.surface(of.decode(row.ids)).replace(" ", "")
    assert documents.surface((*prompt, *document)).replace(" ", "") == whole


def test_formulas_that_cannot_be_read():
    task = Task()
    asked = RECORD | {"post": "what is <m> </m> and <m> \\frac { 1 </m> ?"}
    example = task.example(asked, parse)
    assert example.reference["unread"] == 2 and not any(isinstance(s, Formula) for s in example.document[1:4])
    with pytest.raises(DataError, match=r"the formula .* cannot be read: \{ is not closed"):
        task.example(RECORD | {"headline": "on <m> { x </m>"}, parse)
    with pytest.raises(DataError, match="not one formula"):
        Task(region="formula").example(RECORD | {"headline": "on <m> x </m>"}, parse)
    with pytest.raises(DataError, match="not text alone"):
        Task(region="text").example(RECORD | {"headline": "on <m> x </m>"}, parse)
    # In what is given it is only read.
    given = NEXT_TEXT | {"prefix": "when is <m> { </m>"}
    assert Task(region="text").example(given, parse).reference == {"text": "larger than", "unread": 1}
    with pytest.raises(UsageError, match="region"):
        Task(region="formulas")


def test_a_typed_question_is_asked_as_the_task_lays_it_out():
    example = Task().example(RECORD, parse)
    assert Task().prompt_from_text(POST, parse) == example.document[: example.loss_from]
    assert Task().prompt_from_text("Question: x [SEP] Summary: on", parse) is None


@pytest.mark.parametrize("region", ["all", "formula", "text"])
def test_a_question_alone_can_be_asked(region):
    task = Task(region=region)
    encoded = features.encode(task, scheme("trees"), [{"id": "1", "post": POST}], config(length=400), "input")
    assert not encoded.skipped
    assert encoded.example(0).document[: encoded.example(0).loss_from] == task.prompt(RECORD, parse)


# ---------------------------------------------------------------------------------------------------
# Questions that are too long.


def config(**changes) -> ConfigDict:
    return ConfigDict(dict(length=60, reserve=20, overflow="shorten", digits=8, pack=False) | changes)


def brute(of, document, loss_from: int, spare, room: int):
    """The document with the longest beginning of the question that leaves the prompt in its room, and how many of its
    last positions a Text at the end of it still loses; formulas and numbers are there or not."""
    first, end = spare[-1][0], spare[0][1]
    for last in range(end, first - 1, -1):
        less = (*document[:last], *document[end:])
        before = of.encode(less).starts[loss_from - (end - last)]
        text = of.encode(document[last - 1 : last]).ids if last > first else []
        if before <= room:
            return less, 0
        if last > first and isinstance(document[last - 1], Text) and before - room < len(text):
            return less, before - room
    raise AssertionError("nothing fits")


@pytest.mark.parametrize("name", ["trees", "subword"])
def test_a_long_question_loses_its_end_outside_formulas_and_numbers(name, rng):
    of, task = scheme(name), Task()
    posts = [
        f"{' '.join(['word'] * n)} {POST} 3.14159 is <m> \\frac {{ a }} {{ b + 271828 }} </m> ok" for n in range(24)
    ]
    rows = [RECORD | {"id": str(n), "post": post} for n, post in enumerate(posts)]
    encoded = features.encode(task, of, rows, config(), "train")
    assert not encoded.skipped and len(encoded.shortened) == len(rows)
    cuts = set()
    for row, record in zip(encoded.rows, rows, strict=True):
        example = task.example(record, of.parse)
        whole = of.encode(example.document)
        loss_from = whole.starts[example.loss_from]
        assert row.loss_from <= 40 and loss_from > 40
        less, lost = brute(of, example.document, example.loss_from, example.spare, 40)
        wanted = of.encode(less)
        place = wanted.starts[example.loss_from - (len(example.document) - len(less)) - 2]  # [SEP] stands there
        kept = np.r_[: place - lost, place : len(wanted.ids)][: 60 + 1]
        np.testing.assert_array_equal(row.ids, wanted.ids[kept])
        np.testing.assert_array_equal(row.grammar_state, wanted.grammar_state[kept])
        if name == "trees":
            np.testing.assert_array_equal(row.channels["tree_positions"], wanted.channels["tree_positions"][kept])
            np.testing.assert_array_equal(row.channels["types"], wanted.channels["types"][kept])
        # The headline is whole unless it is longer than what is left for it.
        assert row.ids[row.loss_from :].tolist() == whole.ids[loss_from:][: 61 - row.loss_from].tolist()
        cuts.add(40 - row.loss_from)
    assert len(cuts) > 2, "formulas and numbers are not cut"


def test_how_much_is_cut_does_not_follow_from_the_headline():
    of, long = scheme("trees"), "why is that so ? " * 10
    rows = [RECORD | {"post": long, "headline": "x " * n} for n in (1, 8, 60)]
    encoded = features.encode(Task(), of, rows, config(), "test")
    prompts = [row.ids[: row.loss_from].tolist() for row in encoded.rows]
    assert prompts[0] == prompts[1] == prompts[2] and len(encoded) == 3
    assert len(encoded.rows[2].ids) == 61, "a headline that is too long loses its end"
    assert encoded.example(2).reference["text"].count("x") == 60, "but is scored as a whole"


def test_what_is_given_of_a_headline_is_never_cut():
    of = scheme("trees")
    rows = [NEXT_TEXT | {"id": str(n), "prefix": "given " * n + "<m> f </m>"} for n in (2, 60)]
    encoded = features.encode(Task(region="text"), of, rows, config(), "train")
    assert len(encoded) == 1
    assert documents.surface(of.decode(encoded.rows[0].ids)).endswith("Summary: given givenf larger than[EOS]")
    assert [(row["id"], "no more than 40 fit" in row["reason"]) for row in encoded.skipped] == [("60", True)]
    for wrong in (dict(reserve=0), dict(reserve=60)):
        with pytest.raises(UsageError, match=r"data\.reserve"):
            features.encode(Task(), of, [RECORD], config(**wrong), "train")


# ---------------------------------------------------------------------------------------------------
# Scores.


def test_both_systems_are_held_against_the_same_text():
    references = {
        n: features.encode(Task(), scheme(n), [RECORD], config(), "test").example(0) for n in ("trees", "subword")
    }
    assert references["trees"].reference == references["subword"].reference
    assert references["trees"].reference == {"text": "when is f larger than 12 ?", "unread": 0}
    tree = latex.parse(r"\frac { a } { b }")
    assert isinstance(tree, Tree)
    by_tree = (Text(" so"), Formula(printer.latex(tree), tree), Text(" is  it"), Mark("[EOS]"), Text("x"))
    by_text = (*parse(r" so <m> \frac{a} {b } </m> is it"), Mark("[EOS]"))
    assert Task().predicted(by_tree) == Task().predicted(by_text) == {"text": r"so \frac { a } { b } is it"}
    for task in (Task(region="formula"), Task(region="formula", as_published=True)):
        found = [task.predicted(document) for document in (by_tree, by_text)]
        assert found[0]["tree"] == found[1]["tree"] == tree.to_json()
    assert Task(region="formula", as_published=True).predicted(by_tree)["text"] == "a / b"
    assert Task(region="text").predicted(by_tree) == {"text": "so"}
    assert Task(region="text").predicted((*by_tree[1:],)) == {"text": ""}


@pytest.mark.parametrize("document", [(), (Text("no formula"),), (Formula("", None),), (Text("<m> { x </m>"),)])
def test_what_is_no_formula_has_no_tree(document):
    assert Task(region="formula").predicted(document)["tree"] is None


def test_a_formula_that_was_not_closed_is_read_as_far_as_it_goes():
    assert Task(region="formula").predicted(parse("<m> x + 1"))["tree"] == latex.parse("x + 1").to_json()  # type: ignore[union-attr]


def test_failures_are_charged_and_shown_without_too():
    task = Task(region="formula")
    records = [NEXT_FORMULA | {"headline": f"<m> a + {i} </m>"} for i in range(4)]
    references = [json.loads(json.dumps(task.example(r, parse).reference)) for r in records]
    best = task.score(references, references)
    assert best["TED"] == best["TED_read"] == 0 and best["read"] == best["tree_match"] == 1 and best["ROUGE-L"] == 1
    empty = {"text": "", "tree": None}
    found = task.score([references[0], references[2], empty, empty], references)
    assert found["TED_read"] == 0.5 and found["TED"] == (0 + 1 + 3 + 3) / 4 and found["read"] == 0.5
    assert from_json(references[1]["tree"]).size == 3
    assert 0.4 < found["ROUGE-L"] < best["ROUGE-L"] and found["unread"] == 0
    headline = Task()
    whole = [headline.example(RECORD, parse).reference]
    assert headline.score(whole, whole)["BLEU-4"] == 1 and "TED" not in headline.score(whole, whole)


def test_published_scores_count_digits_and_weigh_recall():
    references = [
        Task(region="formula", as_published=True)
        .example(NEXT_FORMULA | {"headline": "<m> 1 2 </m>"}, parse)
        .reference
    ]
    empty = [{"text": "", "tree": None}]
    assert Task(region="formula", as_published=True).score(empty, references)["TED"] == 3
    assert Task(region="formula").score(empty, references)["TED"] == 1


def test_the_real_pairs(real_data, tmp_path):
    """Every question is encoded by both systems, and all but a few headlines."""
    path = str(real_data("mathsum") / "OFEQ-10k")
    rows = list(data.load("mathsum", "test", tmp_path, path=path, splits="divided"))
    assert 180 < len(rows) < 280
    kept = []
    for name in ("trees", "subword"):
        encoded = features.encode(Task(), scheme(name), rows, config(length=300, reserve=100), "test")
        kept.append([encoded.example(i).id for i in range(len(encoded))])
        assert {row["reason"][:11] for row in encoded.skipped} == {"the formula"}
    assert kept[0] == kept[1] and len(kept[0]) >= len(rows) - 4


def test_a_headline_task_is_built_by_name():
    task = build("tasks", {"name": "headline", "path": "p", "region": "text", "size": 3})
    assert task.dataset == {
        "name": "mathsum", "path": "p", "region": "text", "splits": "files", "seed": 221, "marks": "signs", "size": 3,
    }  # fmt: skip
