"""News: cleaned texts, numbers that stand for themselves, splits that share no wording, and bad files."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import pathlib
import re
from typing import Any

import matplotlib.text
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from numjax.bundled import data
from numjax.bundled.data.news.numbers import RUN, find_numbers, group_articles
from numjax.bundled.data.news.read import clean
from numjax.bundled.experiments.dice import table3
from numjax.bundled.experiments.numgpt import table2
from numjax.errors import DataError, UsageError
from numjax.tasks import magnitude
from numjax.text import document as documents
from numjax.types import Mark
from tests.tasks_test import parse

SPLITS = ("train", "validation", "test")


def write_news(folder: pathlib.Path, articles: list[list[str]], sentences: list[str]) -> str:
    """Writes both files in the form of their sources; returns the folder."""
    (folder / "deep").mkdir(parents=True)
    with gzip.open(folder / "deep" / "ag_news.csv.gz", "wt", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(articles)
    if sentences:
        (folder / "Sentences_50Agree.txt").write_text("".join(line + "\n" for line in sentences), encoding="utf-8")
    return str(folder)


def draw_words(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(rng.choice(list("abcdefgh"), 7)) for _ in range(count)]


def draw_articles(rng: np.random.Generator, count: int) -> list[list[str]]:
    """Articles of common phrases: many share a run of words, with other numbers in it."""
    phrases = [" ".join(draw_words(rng, RUN - 1)) for _ in range(4 * count)]
    articles = []
    for _ in range(count):
        numbers = [(f"{value:,}", str(value))[rng.integers(2)] for value in rng.integers(1, 10**7, 2).tolist()]
        parts = [f"{phrases[rng.choice(len(phrases))]} {number}" for number in numbers]
        own = draw_words(rng, RUN)
        articles.append([" ".join(own[:3]), " ".join([parts[0], *own, parts[1]])])
    return articles


def list_runs_slowly(text: str) -> set[str]:
    # A number with its decimals or commas is a word, or a part of one.
    number = r"[0-9]+(?: ?[.,][0-9]+)*"
    words = [re.sub(number, "0", word) for word in re.findall(rf"(?:{number}|[^\W_])+", text.lower())]
    return {" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (r"A second\team won  #36;10 million", "A second team won $10 million"),
        ("They #39;re up \\$3.50 &lt;b&gt;now&lt;/b&gt;", "They're up $3.50 now"),
        ("quot;We won,quot; she said", '"We won," she said'),
        ('AT&amp;amp;T  &lt;A HREF="http://x.y/11"&gt;gains 4&lt;/A&gt;', "AT&T gains 4"),
    ],
)
def test_what_a_crawler_left_is_cleaned(raw, text):
    assert clean(raw) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 hurt, 1,250 homeless", [(0, "12", 2), (9, "1,250", 4)]),
        ("up 3.5% to $46.10, or 0.75 percent", [(3, "3.5", 1), (12, "46.10", 2), (22, "0.75", 0)]),
        ("in 2004. Then 7.", [(3, "2004", 4), (14, "7", 1)]),
        ("profit of EUR 6.8 mn ( USD 8.9 mn )", [(14, "6.8", 1), (27, "8.9", 1)]),
        ("on 9/11 they won 2-1 at 10:30 in v2.1.3 of Q3 with A380s, the 3rd", []),
        ("EUR2 .5 m, 928 ,000, tel. +33 1 46 48, fell -4", []),
        ("a 5-year plan, 747-400s in Q1 2010", [(2, "5", 1), (30, "2010", 4)]),
        ("12345678 and 1234567 and 1e5", [(13, "1234567", 7)]),
        ("won 2 - 0 in '04 at 7 p.m., fell \N{MINUS SIGN}4, 2\N{EN DASH}1, room 0700", []),
        ("Feb 25 , 2009 - Finnish sales: 16 May 2011 - 3 shops", [(4, "25", 2), (9, "2009", 4), (31, "16", 2)]),
    ],
)
def test_numbers_stand_for_themselves(text, found):
    assert list(find_numbers(text)) == found
    assert all(text[offset : offset + len(digits)] == digits for offset, digits, _ in found)


def test_articles_with_a_common_run_are_one_group(rng):
    articles = draw_articles(rng, 60)
    runs = [set().union(*map(list_runs_slowly, texts)) for texts in articles]
    links = np.asarray([[bool(a & b) for b in runs] for a in runs])
    _, expected = connected_components(coo_array(links), directed=False)
    groups = group_articles(articles)
    assert 1 < len(set(groups)) < len(articles)
    for i, j in itertools.combinations(range(len(articles)), 2):
        assert (groups[i] == groups[j]) == (expected[i] == expected[j])
    # A text that is shorter than a run is compared as a whole.
    assert group_articles([["Oil at 50"], ["oil at 51!"], ["Oil at 50 again"]]) == [0, 0, 2]


def test_no_wording_stands_in_two_splits(rng, tmp_path):
    articles = draw_articles(rng, 300)
    path = write_news(tmp_path / "files", [["3", *texts] for texts in articles], [])
    splits = {s: list(data.load("news", s, tmp_path / "built", path=path)) for s in SPLITS}
    assert all(splits.values())
    runs = {s: set().union(*(list_runs_slowly(record["text"]) for record in splits[s])) for s in SPLITS}
    names = {s: {record["article"] for record in splits[s]} for s in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not runs[one] & runs[other] and not names[one] & names[other]
    everything = [record for records in splits.values() for record in records]
    assert len(everything) == 600 == len({record["id"] for record in everything})
    for record in everything:
        end = record["offset"] + record["length"]
        assert record["text"][record["offset"] : end] == record["number"]
        assert record["magnitude"] == record["label"] == len(record["number"].replace(",", ""))


def test_both_sources_are_read_and_bad_lines_are_named(tmp_path):
    articles = [["1", "Ten hurt", "Some 10 were hurt."], ["5", "No class", "7 a"], ["2", "two cells 8"]]
    sentences = ["Sales were EUR 3.5 mn .@positive", "no label 12", "Profit rose by 1,200 %@up", "@neutral"]
    sentences += [f"{'abcdefghij'[i // 10]}{'klmnopqrst'[i % 10]} sold {i} .@neutral" for i in range(100)]
    options: dict[str, Any] = dict(path=write_news(tmp_path / "files", articles, sentences), num_classes=7)
    records = data.load("news", "train+validation+test", tmp_path / "built", **options)
    found = {(r["id"], r["number"]) for r in records}
    assert found >= {("ag_news-000000-1-5", "10"), ("phrasebank-000000-0-15", "3.5"), ("phrasebank-000046-0-8", "42")}
    assert len(found) == 102
    problems = {"is not a class from 1 to 4, a title and a summary", "is not a sentence, @ and one of positive,"}
    assert [line["id"] for line in records.skipped] == [
        *(f"phrasebank-{i:06d}" for i in (1, 2, 3)), *(f"ag_news-{i:06d}" for i in (1, 2)),
    ]  # fmt: skip
    assert all(any(line["reason"].startswith(p) for p in problems) for line in records.skipped)
    with pytest.raises(DataError, match="phrasebank-000001: is not a sentence"):
        data.load("news", "train", tmp_path / "strict", strict=True, **options)


def test_a_missing_folder_is_named_in_a_line(tmp_path):
    with pytest.raises(UsageError, match="news: set path to the folder of AG News"):
        data.load("news", "train", tmp_path)
    with pytest.raises(DataError, match=r"no \*ag_news\*.csv .* there or below; set path"):
        data.load("news", "train", tmp_path, path=str(tmp_path))
    with pytest.raises(UsageError, match="num_classes=9"):
        data.load("news", "train", tmp_path, path=str(tmp_path), num_classes=9)
    for table in (table2, table3):
        with pytest.raises(UsageError, match="--variant=news needs --path"):
            table.main(["--scale=smoke", "--variant=news", f"--out={tmp_path}"])


def test_tables_of_news_are_named_apart_and_say_what_they_are(rng, tmp_path, capsys):
    path = write_news(tmp_path / "files", [["3", *texts] for texts in draw_articles(rng, 120)], [])
    words = ["--scale=smoke", "--seeds=1", "--variant=news", f"--path={path}", f"--out={tmp_path / 'out'}"]
    table2.main([*words, "--only=numgpt"])
    text = (tmp_path / "out" / "table2_news.md").read_text()
    assert "# Table 2: magnitude classification (other news)" in text and "**real news**" in text
    content = json.loads((tmp_path / "out" / "table2_news.json").read_text())
    (figure,) = table2.draw(content).values()
    assert figure.get_suptitle().endswith("(other news)")
    assert "the paper" not in [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    assert (tmp_path / "out" / "table2_news.png").is_file() and not (tmp_path / "out" / "table2.md").exists()
    capsys.readouterr()


def test_real_news_becomes_examples(real_data, tmp_path):
    folder = real_data("ag_news").parent
    real_data("financial_phrasebank")
    task = magnitude.Task(variant="news", path=str(folder))
    assert task.dataset["name"] == "news"
    splits = {s: list(data.load(data_dir=tmp_path, split=s, **task.dataset)) for s in SPLITS}
    assert sum(map(len, splits.values())) > 8000 and {r["label"] for r in splits["train"]} == set(range(8))
    runs = {s: set().union(*(list_runs_slowly(record["text"]) for record in splits[s])) for s in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not runs[one] & runs[other]
    for record in splits["test"]:
        example = task.example(record, parse)
        index = example.document.index(Mark("[MASK]"))
        before = "".join(documents.surface_of(segment) for segment in example.document[1:index])
        assert record["text"].startswith(before + record["number"])
