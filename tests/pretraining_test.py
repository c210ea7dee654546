"""What digit aggregation is pre-trained on: sums, passages, their mixture, and gaps in texts."""

from __future__ import annotations

import collections
import itertools
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from numjax.build import build
from numjax.bundled import data
from numjax.bundled.data.fermat import generate as fermat
from numjax.bundled.data.fermat.read import PAPER
from numjax.bundled.data.pretraining import passages
from numjax.bundled.data.pretraining.sums import LONGEST, generate_sums
from numjax.bundled.experiments import texts
from numjax.bundled.experiments.digits import settings, unasked
from numjax.errors import DataError, UsageError
from numjax.numeral.words import spell
from numjax.tasks.span_corruption import SEPARATOR, draw_spans
from numjax.text import document as documents
from numjax.types import Mark
from tests.tasks_test import join_segments, parse

# A phrase of a question → what Python computes of the numbers A and B in their order in the text.
PHRASES = {
    r"plus|sum of|and .* more make|together|^Add .* and|increased by|more than": "A + B",
    r"^Add .* to": "A + B",
    r"minus|difference between|larger .* than|decreased by": "A - B",
    r"^Subtract|less than|must be added": "B - A",
    r"^Take": "B - A",
    r"^What is .* times|^Multiply|product of|^How many are .* groups|^\S+ times": "A * B",
    r"divided by|^Divide|^Share|quotient of": "A / B",
    r"go into": "B / A",
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
THEN = re.compile(r"(.*) , then (add|subtract|multiply by|divide by) (\S+) \.")
SIGNED = re.compile(r"^(?:What is |Compute |x = )?([\d.()+\-*/ ]+?)(?: =| \?| \.| \. Find x \.)?$")
SIGNS = {"add": "+", "subtract": "-", "multiply by": "*", "divide by": "/"}


def compute(question: str) -> Fraction:
    """Python's value of a question, from its words."""
    if match := SIGNED.fullmatch(question):
        return eval(NUMBER.sub(r"Fraction('\g<0>')", match[1]))
    if match := THEN.fullmatch(question):
        return eval(f"compute(match[1]) {SIGNS[match[2]]} Fraction(match[3])", globals(), {"match": match})
    a, b = map(Fraction, NUMBER.findall(question))
    for pattern, expression in PHRASES.items():
        if re.search(pattern, question):
            return eval(expression, {"A": a, "B": b})
    raise AssertionError(question)


def test_sums_have_the_values_that_python_computes():
    drawn = generate_sums(np.random.default_rng(11))
    sums = [next(drawn) for _ in range(10_000)]
    assert 9_000 < len({s.question for s in sums}) < 10_000, "short questions come again"
    for question, answer in sums:
        assert Fraction(answer) == compute(question) > 0, question
        assert len(answer) <= LONGEST and not re.search(r"\.\d*0$", answer)
    kinds = collections.Counter("then" in q or "(" in q for q, _ in sums)
    assert 0.15 < kinds[True] / 10_000 < 0.3
    without = {s.question for s in sums[:500]}
    again = generate_sums(np.random.default_rng(11), without)
    assert without.isdisjoint(next(again).question for _ in range(9_000))
    lengths = collections.Counter(len(n.partition(".")[0]) for q, _ in sums for n in NUMBER.findall(q))
    assert set(range(1, 7)) <= set(lengths) and any("." in answer for _, answer in sums)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents of numbered words, so that every passage tells where it comes from; one is too short."""
    root = tmp_path_factory.mktemp("texts")
    documents_ = [" ".join(f"w{d}x{i}" for i in range(70 + d)) for d in range(30)]  # of 70 to 99 words
    (root / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in documents_[:20]) + "{}\n")
    (root / "b.txt").write_text("\n\n".join([*documents_[20:], "too short"]))
    return root


def test_passages_are_all_words_of_the_documents_but_short_rests(folder):
    found = list(passages.list_passages(data.find_builder("text").files({"path": str(folder)}), folder))
    assert len({name for name, _ in found}) == len(found)
    by_document = collections.defaultdict(list)
    for _, text in found:
        words = text.split()
        assert passages.FEWEST <= len(words) <= passages.WORDS
        by_document[words[0].partition("x")[0]] += words
    for number in range(30):
        kept = 70 + number - ((70 + number) % passages.WORDS if (70 + number) % passages.WORDS < 8 else 0)
        assert by_document[f"w{number}"] == [f"w{number}x{i}" for i in range(kept)]


@pytest.mark.parametrize("count", [3, 7, 20])
def test_passages_are_repeated_until_there_are_enough(count):
    pairs = [(str(i), f"text {i}") for i in range(7)]
    names = [name for name, _ in passages.repeat_passages(lambda: iter(pairs), count, "train")]
    assert len(set(names)) == len(names) == count
    seen = collections.Counter(name.partition("#")[0] for name in names)
    assert max(seen.values()) - min([*seen.values(), *[0] * (len(seen) < 7)]) <= 1
    if count == 3:  # at equal distances, not the first three
        assert np.diff(sorted(map(int, seen))).min() >= 2
    with pytest.raises(
        DataError, match="no passage of 8 words or more is in validation: set path to a folder with mo"
    ):
        list(passages.repeat_passages(lambda: iter(()), 1, "validation"))


def test_the_mixture_has_its_shares_in_mixed_order_and_splits_share_nothing(folder, tmp_path):
    options = dict(path=str(folder), size=1000, texts=20, sums=50, validation=10)
    train, validation = (data.load("pretraining", split, tmp_path, **options) for split in ("train", "validation"))
    kinds = [row["kind"] for row in train]
    assert collections.Counter(kinds) == {"text": 200, "sum": 500, "problem": 300}
    assert len({tuple(kinds[i : i + 3]) for i in range(997)}) == 27, "kinds are mixed"
    assert len({row["id"] for row in train}) == 1000
    assert collections.Counter(row["kind"] for row in validation) == {"text": 10, "sum": 10, "problem": 10}
    assert {row["kind"] for row in validation[:10]} == {"text", "sum", "problem"}, "the first have all kinds"
    assert not {row["question"] for row in train} & {row["question"] for row in validation}
    assert all((row["answer"] == "") == (row["kind"] == "text") for row in [*train, *validation])
    assert all("/" not in row["answer"] and len(row["answer"]) <= LONGEST for row in train)
    assert [row["id"] for row in data.load_skipped("pretraining", tmp_path, **options)] == ["a.jsonl:21"]


def test_without_texts_the_other_two_keep_their_ratio(tmp_path):
    rows = data.load("pretraining", "train", tmp_path, size=210, texts=30, sums=50, validation=5)
    assert collections.Counter(row["kind"] for row in rows) == {"sum": 150, "problem": 60}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": 60, "sums": 50}, "texts=60 and sums=50 are percentages, of at most 100 together"),
        ({"sums": -1}, "are percentages"),
        ({"texts": 100, "sums": 0}, "texts=100 and no path; set path=FOLDER"),
        ({"size": 0}, "size and validation are at least 1"),
        ({"path": "nowhere"}, "no such file or folder; set path to a folder of text"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message, tmp_path):
    with pytest.raises((UsageError, DataError), match=message):
        data.load("pretraining", "train", tmp_path, **options)


# ---------------------------------------------------------------------------------------------------
# Gaps.


@pytest.mark.parametrize(("rate", "mean"), [(0.15, 3.0), (0.5, 1.0), (0.9, 5.0)])
def test_spans_are_apart_and_take_their_share_out(rate, mean):
    first_words, last_words, spans_of = [], [], collections.Counter()
    for count in [2, 3, 5, *range(8, 200)]:
        spans = draw_spans(count, rate, mean, f"text {count}")
        assert spans == draw_spans(count, rate, mean, f"text {count}")
        taken = min(max(round(count * rate), 1), count - 1)
        assert sum(stop - start for start, stop in spans) == taken
        bounds = [bound for span in spans for bound in span]
        assert bounds == sorted(bounds) and 0 <= bounds[0] and bounds[-1] <= count
        assert all(b < c for (_, b), (c, _) in itertools.pairwise(spans)), "a word between two gaps"
        assert len(spans) == min(max(round(taken / mean), 1), taken, count - taken)
        first_words.append(bounds[0] == 0)
        last_words.append(bounds[-1] == count)
        spans_of[tuple(spans)] += 1
    assert all(a != b for a, b in zip(first_words, last_words, strict=True))
    assert 0.35 < np.mean(first_words) < 0.65
    assert len(spans_of) > 150
    with pytest.raises(DataError, match="has none to take out and one to leave"):
        draw_spans(1, rate, mean, "x")


def test_every_division_into_spans_is_as_likely():
    """20 words, 6 of them in two spans: five divisions of the 6 and thirteen of the 14, each of both kinds."""
    counts = collections.Counter(tuple(draw_spans(20, 0.3, 3.0, str(i))) for i in range(26_000))
    assert len(counts) == 5 * 13 * 2
    assert 100 < min(counts.values()) and max(counts.values()) < 320  # 200 each; six standard deviations are 85


def make_task(**options):
    return build("tasks", {"name": "span_corruption", **options})


def test_the_spans_of_a_target_fill_the_gaps_of_its_source():
    task, rng = make_task(rate=0.3), np.random.default_rng(2)
    for number in range(200):
        words = [str(rng.choice(["egg", "costs", "3.50", "1,200", "of", "7%"])) for _ in range(rng.integers(4, 40))]
        text = " ".join(words)
        example = task.example({"id": f"t{number}", "kind": "text", "question": text, "answer": ""}, parse)
        assert example.source[-1] == Mark("[EOS]") and example.document[0] == Mark("[CLS]")
        spans = iter("".join(documents.surface_of(s) for s in example.document[1:-1]).split(SEPARATOR))
        filled = [
            next(spans) if segment == Mark("[MASK]") else documents.surface_of(segment)
            for segment in example.source[:-1]
        ]
        assert " ".join(" ".join(filled).split()) == " ".join(" ".join(words).split())
        assert next(spans, None) is None
        assert example.reference["answer"] == SEPARATOR.join(
            "".join(documents.surface_of(s) for s in example.document[1:-1]).split(SEPARATOR)
        )
    other = task.example({"id": "another", "kind": "text", "question": text, "answer": ""}, parse)
    assert join_segments(other.source) != join_segments(example.source), "the id decides where the gaps are"


def test_only_questions_are_scored_by_kind():
    task = make_task()
    references = [
        task.example({"id": str(i), "kind": kind, "question": "a b c d 1 2", "answer": answer}, parse).reference
        for i, (kind, answer) in enumerate([("text", ""), ("sum", "3"), ("sum", "4"), ("problem", "5")])
    ]
    scores = task.score([references[0]["answer"], "3", "5", "5"], references)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["accuracy/sum"] == 0.5 and scores["accuracy/problem"] == 1 and "accuracy/text" not in scores
    assert task.score([None], references[:1]) == {}


@pytest.mark.parametrize("options", [{"rate": 0.0}, {"rate": 1.0}, {"span": 0.5}])
def test_gaps_that_cannot_be_are_refused(options):
    with pytest.raises(UsageError, match="is a share between 0 and 1, and"):
        make_task(**options)


# ---------------------------------------------------------------------------------------------------
# The tables' scale overnight.


QUESTION = "Lena kept 8 coins and found {} others at the market of our town {} . How many ?"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Returns the folders of (MAWPS, SVAMP and ASDiv; FERMAT), whose problems have wordings of their own."""
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "cache"))
    for form in ("mawps", "svamp"):
        (tmp_path / "asked" / form).mkdir(parents=True)
    rows = [
        {"original_text": QUESTION.format(7, f"in {spell(i)} days"), "equation": f"X=8+{i}", "ans": 15}
        for i in range(20)
    ]
    (tmp_path / "asked/mawps/trainset.json").write_text(json.dumps(rows))
    rows = [
        {
            "ID": i,
            "Body": f"Omar {spell(i)} times ran a long way home from school",
            "Question": "How far?",
            "Answer": 4,
        }
        for i in range(3)
    ]
    (tmp_path / "asked/svamp/trainset.json").write_text(json.dumps(rows))
    (tmp_path / "asked/asdiv").mkdir()
    problem = "<Body>Paula swam 3 km in the cold lake before the sun came up.</Body><Question>How far?</Question>"
    (tmp_path / "asked/asdiv/ASDiv.xml").write_text(
        f"<ProblemSet><Problem ID='1'>{problem}<Answer>3 (km)</Answer><Formula>3=3</Formula></Problem></ProblemSet>"
    )
    files, views = fermat.generate_files(6, 5)
    header = "templates,answers,expressions\n"
    (tmp_path / "fermat").mkdir()
    (tmp_path / "fermat/templates.csv").write_text(
        header + "".join(f'"{r["templates"]}",{r["answers"]},x\n' for r in files)
    )
    for kind, index, suffix in (("questions", 0, "q"), ("answers", 1, "a")):
        (tmp_path / "fermat/test_sets" / kind).mkdir(parents=True)
        for view in PAPER:  # the published tables' views are enough
            text = "\n".join(json.dumps(row) for row in views[view][index])
            (tmp_path / f"fermat/test_sets/{kind}/{view}.{suffix}").write_text(text)
    return str(tmp_path / "asked"), str(tmp_path / "fermat")


def write_texts(folder, texts_):
    (folder / "wikitext2").mkdir(parents=True, exist_ok=True)
    (folder / "wikitext2" / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts_))


def test_texts_that_a_table_asks_in_any_split_are_left_out(asked, tmp_path):
    kept = "Another text with its own words about a market and its 7 stamps for all of us"
    questions = [QUESTION.format(95, f"in {spell(i)} days") for i in range(20)]  # by now in three splits
    questions += [f"Then Omar {spell(i)} times ran a long way home from school again" for i in range(3)]
    questions += ["Early Paula swam 30 km in the cold lake before the sun came up."]
    view = next(iter(data.load("fermat", "test", path=asked[1], views="paper", commuted=1, size=10)))
    questions += [f"One day {view['question']} she asked"]
    write_texts(tmp_path / "texts", [kept, *questions, kept])
    counts = unasked.collect(str(tmp_path / "texts"), tmp_path / "out", *asked)
    assert counts == {"wikitext2": {"kept": 1, "left out": 25}}
    assert [json.loads(line)["text"] for line in (tmp_path / "out" / "wikitext2.jsonl").open()] == [kept]


def test_texts_are_collected_again_only_if_a_file_changes(tmp_path, monkeypatch):
    def collect(*asked_texts):
        calls.clear()
        asked_file.write_text("".join(asked_texts))

        def list_asked():
            calls.append(1)
            return asked_texts

        sources = {"wikitext2": unasked.SOURCES["wikitext2"]}
        return texts.collect(
            str(tmp_path / "t"), tmp_path / "out", sources, lambda t: {"text": t}, list_asked, [str(asked_file)]
        )

    calls, asked_file = [], tmp_path / "asked.txt"
    first, second = ("one two three four five six seven eight", "a b c d e f g h")
    write_texts(tmp_path / "t", [first, second])
    assert collect()["wikitext2"] == {"kept": 2, "left out": 0} and calls
    assert collect()["wikitext2"] == {"kept": 2, "left out": 0} and not calls, "collected once"
    assert collect(first)["wikitext2"] == {"kept": 1, "left out": 1} and calls, "another question"
    write_texts(tmp_path / "t", [first])
    assert collect(first)["wikitext2"] == {"kept": 0, "left out": 1} and calls, "another text"
    calls.clear()
    (tmp_path / "out" / "wikitext2.jsonl").unlink()
    assert collect(first)["wikitext2"] == {"kept": 0, "left out": 1} and calls, "the texts are gone"
    kept_file = tmp_path / "out" / "wikitext2.jsonl"
    assert kept_file.is_file()
    write_counts = texts.files.write
    with monkeypatch.context() as patch:
        patch.setattr(texts.files, "write", lambda path, text: path.suffix == ".jsonl" and write_counts(path, text))
        collect(second)  # as if killed before the counts were written
    assert collect(first)["wikitext2"] == {"kept": 0, "left out": 1} and calls, "of another question"
    assert not kept_file.read_text()
    with pytest.raises(UsageError, match=r"--texts=.*: it has none of the folders wikitext2"):
        texts.collect(str(tmp_path / "none"), tmp_path / "new", {"wikitext2": iter}, dict, list)


def test_every_source_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "cache"))
    contents = {
        "ag_news/ag_news.csv": "".join(f'"3","Title {i}","Summary {i}"\n' for i in range(12)),
        "gsm8k/train.jsonl": "".join(
            json.dumps({"question": f"Question {i}?", "answer": f"{i}\n#### {i}"}) + "\n" for i in range(12)
        ),
        "math23k_en/math23k.jsonl": "".join(
            json.dumps({"text_en": f"Problem {i}", "equation": f"x={i}", "ans": str(i)}) + "\n" for i in range(12)
        ),
        "squad_v1.1_dev/dev-v1.1.json": json.dumps({"data": [
            {"title": f"T{i}", "paragraphs": [{"context": f"Context {i}", "qas": [
                {"id": f"q{i}", "question": "Which?", "answers": [{"text": "Context", "answer_start": 0}]}]}]}
            for i in range(12)
        ]}),
        "wikitext2/valid.txt": "\n\n".join(f"Document {i}" for i in range(12)),
    }  # fmt: skip
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    first_words = {"gsm8k": "Question", "math23k_en": "Problem", "squad_v1.1_dev": "Context", "wikitext2": "Document"}
    for name, read in unasked.SOURCES.items():
        found = set(read(tmp_path / name))
        words = (first_words[name],) if name in first_words else ("Title", "Summary")
        assert {w.rstrip("?.") for w in found} == {f"{word} {i}" for word in words for i in range(12)}, name


def test_at_overnight_all_rows_start_from_one_pre_training(tmp_path):
    words = ["--scale=overnight", "--mawps=M", "--fermat=F", "--texts=T"]
    options = settings.make_parser("").parse_args(words)
    options.out = tmp_path
    cells = settings.make_cells(options, tuple(settings.SYSTEMS))
    assert len({id(cell.start) for cell in cells}) == 1 and len(cells) == 10
    start = cells[0].start.config
    assert start.task.name == "span_corruption" and start.task.path == str(tmp_path / "texts")
    assert {cell.config.task.form for cell in cells} == {"mawps+svamp+asdiv", "fermat"}
    sizes = ("width", "layers", "heads", "name")
    for cell in cells:
        assert [cell.config.backbone[size] for size in sizes] == [start.backbone[size] for size in sizes]
        assert cell.config.scheme.vocab == start.scheme.vocab
    titles = [column.title for column in settings.make_columns("accuracy", "overnight")]
    assert titles[:4] == ["MAWPS", "SVAMP", "ASDiv", "Original"]
    for missing in ("mawps", "fermat", "texts"):
        given = settings.make_parser("").parse_args([word for word in words if missing not in word])
        with pytest.raises(UsageError, match=f"--scale=overnight reads real files: give --{missing}=FOLDER"):
            settings.prepare_texts(given)
    with pytest.raises(UsageError, match="is for --scale=overnight"):
        settings.prepare_texts(settings.make_parser("").parse_args(["--texts=T"]))
    with pytest.raises(UsageError, match="pre-trains its own t5"):
        settings.prepare_texts(settings.make_parser("").parse_args([*words, "--init=FLAN"]))
