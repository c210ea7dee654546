"""Span answers: characters ↔ positions, windows, WordPiece against a slow reference, SQuAD's splits and metric."""

from __future__ import annotations

import collections
import json
import re
import string
import unicodedata

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data.squad.generate import make_articles
from numjax.bundled.data.squad.read import has_number, is_strictly_numeric, parse_articles
from numjax.bundled.experiments import runs
from numjax.bundled.experiments.dice import table5
from numjax.errors import DataError, UsageError
from numjax.evals.report import make_predictions
from numjax.pipeline import features
from numjax.tasks import span_answer
from numjax.text import document as documents
from numjax.text import replace, subword, vocab
from numjax.types import Mark

TEXTS = [
    "The Tigris was launched in 1872, at a cost of £1,250.50 (or 3.5% more).",
    "Tokyo 東京 had 37,400,000 people; naïve Café owners paid −12.5 °C or 007 times 1e-3 …",
    "no number at all: isn't it? [SEP] stays text",
    "  blanks   2 \t and 30\nlines ",
]


@pytest.fixture(scope="module")
def words():
    return vocab.build({"name": "wordpiece", "size": 300}, TEXTS * 5)


@pytest.fixture(scope="module")
def pieces():
    return vocab.build({"name": "sentencepiece", "size": 320}, TEXTS * 5)


def slow_wordpiece(text: str, table: dict[str, int]) -> list[int]:
    """BERT's algorithm as its paper's code describes it: clean, split, strip accents, take the longest pieces."""
    text = "".join(" " if c in "\t\n\r" or unicodedata.category(c) == "Zs" else c for c in text)
    text = "".join(c for c in text if c not in "\0\ufffd" and (c == " " or unicodedata.category(c)[0] != "C"))
    chinese = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF))
    text = "".join(f" {c} " if any(low <= ord(c) <= high for low, high in chinese) else c for c in text)
    text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn").lower()
    ids = []
    for word in text.split():
        parts, part = [], ""
        for c in word:
            if c in string.punctuation or unicodedata.category(c).startswith("P"):
                parts += [part, c]
                part = ""
            else:
                part += c
        for piece in filter(None, (*parts, part)):
            found, start = [], 0
            while start < len(piece):
                ends = range(len(piece), start, -1)
                names = (("##" if start else "") + piece[start:end] for end in ends)
                best = next(((name, end) for name, end in zip(names, ends, strict=True) if name in table), None)
                if best is None:
                    break
                found.append(table[best[0]])
                start = best[1]
            ids += [table["[UNK]"]] if start < len(piece) or len(piece) > 100 else found
    return ids


def test_wordpiece_is_trained_saved_and_read_again(words, tmp_path):
    assert vocab.build({"name": "wordpiece", "size": 300}, TEXTS * 5).pieces == words.pieces
    assert not words.exact and words.base <= 300 and words.mark_name(words.mark("[CLS]")) == "[CLS]"
    assert words.mark("[SEP]") < words.base <= words.mark("[EOS]") < words.size
    words.save(str(tmp_path / "saved"))
    again = vocab.load(str(tmp_path / "saved"))
    table = words.tokenizer.get_vocab()
    lines = sorted(table, key=table.get)
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    listed = vocab.build({"name": "wordpiece", "path": str(tmp_path / "vocab.txt")})
    (tmp_path / "tokenizer.json").write_bytes(words.file)
    folder = vocab.build({"name": "wordpiece", "path": str(tmp_path)})
    for text in TEXTS:
        ids = words.encode(text)
        assert again.encode(text) == listed.encode(text) == folder.encode(text) == ids
        assert ids == slow_wordpiece(text, table)
        assert words.encode(words.decode(ids)) == [i for i in ids if i != table["[UNK]"]], "encoded the same"
    assert words.decode(words.encode("It cost 1,250 then")) == "it cost 1 , 250 then"
    for number in ("7", "9876543210", "1.5e10", "-3"):
        assert words.tokenizer.token_to_id("[UNK]") not in words.encode(number), "a digit is never unknown"


def test_many_scripts_leave_pieces_for_words():
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(list(string.ascii_lowercase), rng.integers(4, 9))) for _ in range(150)})
    rare = [chr(c) for c in range(0x0561, 0x0587)] + [chr(c) for c in range(0xA000, 0xA000 + 900)]
    texts = [" ".join(words) for _ in range(40)] + [f"{a}{b}" for a, b in zip(rare, reversed(rare), strict=True)] * 3
    made = vocab.build({"name": "wordpiece", "size": 2000}, texts)
    table = made.tokenizer.get_vocab()
    single = [piece for piece in table if len(piece.removeprefix("##")) == 1]
    assert 128 < len(single) <= 500, "and characters of other scripts, as far as they fit"
    assert all(made.encode(word) == [table[word]] for word in words), "whole words, which are frequent"


def test_a_vocabulary_that_keeps_case_tells_it(tmp_path):
    cased = vocab.build({"name": "wordpiece", "size": 300, "lower": False}, TEXTS * 5)
    assert cased.encode("The") != cased.encode("the")
    assert cased.decode(cased.encode("The Tigris")) == "The Tigris"


def test_digits_that_are_split_are_words_wherever_they_stand(tmp_path):
    """Also those of a vocabulary that is read, whose pieces stay; what is decoded is encoded the same."""
    whole = vocab.build({"name": "wordpiece", "size": 300}, [*TEXTS * 5, "2019 2019 2019"])
    whole.save(str(tmp_path))
    read = {"name": "wordpiece", "path": str(tmp_path / "tokenizer.json"), "split_digits": True}
    trained = vocab.build({"name": "wordpiece", "size": 300, "split_digits": True}, [*TEXTS * 5, "2019 2019 2019"])
    for split in (trained, vocab.build(read)):
        ones = [split.encode(digit) for digit in "2019"]
        assert all(len(one) == 1 for one in ones)
        for text in ("2019", "the2019", "$2,019.", "x20 19"):
            ids = split.encode(text)
            assert [one for one in ids if [one] in ones] == [one[0] for one in ones], text
            assert split.encode(split.decode(ids)) == ids
    assert len(whole.encode("2019")) < 4
    with pytest.raises(UsageError, match="not a WordPiece vocabulary"):
        (tmp_path / "x.json").write_text("{")
        vocab.build({"name": "wordpiece", "path": str(tmp_path / "x.json"), "split_digits": True})


def test_what_is_no_wordpiece_is_named(tmp_path):
    cases = {
        "vocab.txt": "a\nb\n",
        "twice.txt": "[UNK]\na\na\n",
        "bpe.json": '{"model": {"type": "BPE"}}',
        "x.json": "{",
    }
    for name, content in cases.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(UsageError, match="not a WordPiece vocabulary"):
            vocab.build({"name": "wordpiece", "path": str(tmp_path / name)})
    for block, says in (
        ({"path": str(tmp_path / "none.txt")}, "cannot read"),
        ({"path": str(tmp_path / "..")}, "neither"),
        ({"size": 20}, "too small"),
    ):
        with pytest.raises(UsageError, match=says):
            vocab.build({"name": "wordpiece", **block}, TEXTS)
    with pytest.raises(UsageError, match="needs texts"):
        vocab.build({"name": "wordpiece"})


def test_bert_gives_the_ids_of_bert(real_data):
    """Google's vocab.txt on real contexts, against the slow reference, and two sentences known from BERT itself."""
    folder = real_data("tokenizers") / "bert-base-uncased"
    found = vocab.build({"name": "wordpiece", "path": str(folder)})
    assert (found.base, found.mark("[PAD]"), found.mark("[CLS]"), found.mark("[SEP]"), found.mark("[MASK]")) == (
        30522, 0, 101, 102, 103,
    )  # fmt: skip
    assert found.encode("Hello, my dog is cute") == [7592, 1010, 2026, 3899, 2003, 10140]
    table = {line: i for i, line in enumerate((folder / "vocab.txt").read_text().splitlines())}
    records = data.load("squad", "test", path=str(real_data("squad_v1.1_dev")))
    contexts = sorted({records[i]["context"] for i in range(0, len(records), 40)})
    assert len(contexts) > 20
    for context in contexts:
        ids, covered = found.cover(context)
        assert ids == slow_wordpiece(context, table)
        assert (covered[:, 0] < covered[:, 1]).all() and (np.diff(covered[:, 0]) >= 0).all()


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_positions_cover_their_characters(kind, request, rng):
    """Every character but a blank is covered, in order, and what is covered is what is encoded."""
    vocabulary = request.getfixturevalue(kind)
    alphabet = "ab 12.,-%é東\U0001f600\n"
    drawn = ["".join(rng.choice(list(alphabet), rng.integers(1, 40))) for _ in range(30)]
    for text in [*TEXTS, *drawn]:
        ids, covered = vocabulary.cover(text)
        assert ids == vocabulary.encode(text) and covered.shape == (len(ids), 2)
        seen = np.zeros(len(text), bool)
        for token, (start, end) in zip(ids, covered, strict=True):
            seen[start:end] = True
            piece = vocabulary.bytes_of(token).decode(errors="replace")
            if kind == "pieces" and "\ufffd" not in piece:
                assert text[start:end] == piece
        lost = {c for c, there in zip(text, seen, strict=True) if not there}
        assert not {c for c in lost if c.strip()} and (kind == "words" or not lost)


@pytest.mark.parametrize("kind", ["words", "pieces"])
@pytest.mark.parametrize("apart", [False, True])
def test_schemes_give_offsets_and_types(kind, apart, request):
    scheme = subword.Scheme(request.getfixturevalue(kind), apart=apart, types=True)
    for text in TEXTS:
        document = (Mark("[CLS]"), *scheme.parse(TEXTS[0]), Mark("[SEP]"), *scheme.parse(text), Mark("[SEP]"))
        found = scheme.encode(document, offsets=True)
        assert scheme.encode(document).offsets is None
        surface = documents.surface(document)
        first = int(np.flatnonzero(found.ids == scheme.vocab.mark("[SEP]"))[0])
        np.testing.assert_array_equal(found.channels["types"], np.arange(len(found.ids)) > first)
        assert surface[slice(*found.offsets[first])] == "[SEP]" and surface[slice(*found.offsets[-1])] == "[SEP]"
        for n, number in enumerate(found.numbers):
            at = found.offsets[found.numeral_index == n]
            assert number.surface in surface[at[0, 0] : at[-1, 1]], "sub-words of a number cover it"
        if not scheme.vocab.exact and not apart:
            again = scheme.encode(scheme.decode(found.ids, found.numbers)).ids
            unknown = scheme.vocab.tokenizer.token_to_id("[UNK]")
            np.testing.assert_array_equal(again, found.ids[found.ids != unknown])


def test_numbers_of_one_position_cover_all_of_themselves(pieces):
    scheme = replace.Scheme(pieces)
    found = scheme.encode((Mark("[CLS]"), *scheme.parse("from 1,200 to 7")), offsets=True)
    surface = "[CLS]from 1,200 to 7"
    numbers = [surface[slice(*at)] for at, n in zip(found.offsets, found.numeral_index, strict=True) if n >= 0]
    assert numbers == ["1,200", "7"]


# ---------------------------------------------------------------------------------------------------


def options(length: int, overflow: str = "windows", stride: int = 5):
    class Block(dict):
        __getattr__ = dict.__getitem__

    return Block(length=length, overflow=overflow, stride=stride, digits=8, pack=False, memory=64)


def records_of(count: int) -> list[dict]:
    found = [record for _, record in parse_articles(make_articles(count, seed=3), "test")]
    assert not any(isinstance(record, ValueError) for record in found)
    return found


@pytest.mark.parametrize("kind", ["words", "pieces"])
@pytest.mark.parametrize("length", [60, 400])
def test_answers_go_to_positions_and_back(kind, length, request):
    """The gold positions, read as a prediction, give the answer's own characters; every window holds the question."""
    scheme = subword.Scheme(request.getfixturevalue(kind), types=True)
    task, records = span_answer.Task(), records_of(6)
    encoded = features.encode(task, scheme, records, options(length), "train")
    assert encoded.kind == "span" and encoded.lengths.max() <= length
    gold = encoded.columns.labels["span"]
    whole = {int(text) for text, (first, _) in zip(encoded.origin, gold, strict=True) if first >= 0}
    if length == 400:
        assert len(encoded) == len(records) == len(whole)
    else:
        assert len(encoded) > len(set(encoded.origin.tolist()))
    # A window without the answer says something worse.
    said = {
        i: np.asarray([max(first, 5), max(last, 5), float(first >= 0), -1.0]) for i, (first, last) in enumerate(gold)
    }
    found, extra = make_predictions(encoded, said)
    assert len(found) == len(set(encoded.origin.tolist())) and extra.keys() == found.keys()
    for i, text in found.items():
        record = records[encoded.origin[i]]
        if int(encoded.origin[i]) in whole:
            assert record["answer"] in text and len(text) <= len(record["answer"]) + 6
            assert kind == "pieces" or text == record["answer"]
    for i in range(len(encoded)):
        row, record = encoded.rows[i], records[encoded.origin[i]]
        question = scheme.vocab.encode(record["question"])
        assert row.ids[1 : 1 + len(question)].tolist() == question
        assert row.ids[0] == scheme.vocab.mark("[CLS]") and row.ids[-1] == scheme.vocab.mark("[SEP]")


def test_windows_leave_nothing_out(words):
    scheme, task = subword.Scheme(words, types=True), span_answer.Task()
    record = records_of(1)[0]
    example = task.example(record, scheme.parse)
    whole = scheme.encode(example.document, offsets=True)
    fixed = len(whole.ids) - (whole.starts[example.slide[1]] - whole.starts[example.slide[0]])
    encoded = features.encode(task, scheme, [record], options(fixed + 9, stride=4), "train")
    seen = {tuple(at) for at in encoded.columns.offsets.tolist()}
    assert seen == {tuple(at) for at in whole.offsets.tolist()} and len(encoded) > 5
    short = features.encode(task, scheme, [record], options(fixed), "test")
    assert not len(short) and "leave no room" in short.skipped[0]["reason"]
    skipped = features.encode(task, scheme, [record], options(fixed + 9, "skip"), "test")
    assert "more than data.length" in skipped.skipped[0]["reason"]


def test_records_to_answer_need_no_answer(words):
    scheme, task = subword.Scheme(words, types=True), span_answer.Task()
    record = {"id": "q", "question": "When?", "context": "In 1872 or 1873."}
    encoded = features.encode(task, scheme, [record], options(60), "input")
    np.testing.assert_array_equal(encoded.columns.labels["span"], [[-1, -1]])
    text = encoded.example(0).document
    first = int(np.flatnonzero(encoded.columns.offsets[:, 0] == documents.surface(text).index("1873"))[0])
    found, _ = make_predictions(encoded, {0: np.asarray([first, first, 0.0, 0.0])})
    assert found[0] and "1873".startswith(found[0])
    with pytest.raises(DataError, match="answer_start=4 does not hold"):
        task.example(record | {"answer": "1872", "answer_start": 4, "answers": ["1872"]}, scheme.parse)
    with pytest.raises(DataError, match="'answers' must be a list"):
        task.example(record | {"answer": "1872", "answer_start": 3, "answers": "1872"}, scheme.parse)
    assert task.example(record | {"answer": " 1872", "answer_start": 2, "answers": "[]"}, scheme.parse).spans["span"]


# ---------------------------------------------------------------------------------------------------


def official(said: str, golds: list[str]) -> tuple[float, float]:
    """Exact match and F1 written anew from the metric's description, without what the task uses."""

    def bag(text):
        kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return [word for word in re.split(r"\s+", re.sub(r"\b(?:a|an|the)\b", " ", kept)) if word]

    def f1(gold):
        left, right = bag(said), bag(gold)
        rest, hits = list(right), 0
        for word in left:
            if word in rest:
                rest.remove(word)
                hits += 1
        if not hits:
            return 0.0
        precision, recall = hits / len(left), hits / len(right)
        return 2 * precision * recall / (precision + recall)

    return max(float(bag(said) == bag(gold)) for gold in golds), max(map(f1, golds))


def made_up(rng, context: str, answer: str) -> str:
    """The answer, more or less of it, another stretch, or nothing."""
    words = context.split()
    place = int(rng.integers(len(words)))
    other = " ".join(words[place : place + int(rng.integers(1, 6))])
    return [answer, f"The {answer.upper()}!", answer.split()[0], f"{answer} {other}", other, ""][int(rng.integers(6))]


def test_the_metric_is_squads_on_the_real_questions(real_data, rng):
    records = data.load("squad", "test", path=str(real_data("squad_v1.1_dev")))
    chosen = [records[i] for i in range(0, len(records), 2)]
    said = [made_up(rng, r["context"], r["answer"]) for r in chosen]
    golds = [json.loads(r["answers"]) for r in chosen]
    wanted = np.mean([official(*pair) for pair in zip(said, golds, strict=True)], axis=0)
    scores = span_answer.Task().score(said, [{"answers": g} for g in golds])
    np.testing.assert_allclose([scores["exact"], scores["f1"]], wanted, rtol=1e-12)
    assert len(chosen) > 500 and 0.2 < scores["exact"] < scores["f1"] < 0.9
    truth = span_answer.Task().score([g[0] for g in golds], [{"answers": g} for g in golds])
    assert truth == {"exact": 1.0, "f1": 1.0}


def test_sub_splits_of_the_real_questions(real_data):
    """Counts of the 8,338 questions at hand, and that no context is in two splits."""
    path = str(real_data("squad_v1.1_dev"))
    seen = {}
    for numbers in (0, 1, 2):
        splits = {
            split: data.load("squad", split, path=path, numbers=numbers) for split in ("train", "validation", "test")
        }
        contexts = [{r["context"] for r in of} for of in splits.values()]
        assert not contexts[0] & contexts[1] and not contexts[0] & contexts[2] and not contexts[1] & contexts[2]
        for split, of in splits.items():
            for record in of:
                assert record["context"][record["answer_start"] :].startswith(record["answer"])
                if numbers == 1 or (numbers and split != "train"):
                    assert record["answer"].isdigit() and 1 <= int(record["answer"]) <= 30_000
                elif numbers:
                    assert any(w.isdigit() and 1 <= int(w) <= 30_000 for w in record["answer"].split())
        seen[numbers] = {split: len(of) for split, of in splits.items()}
    assert sum(seen[0].values()) == 8338 and sum(seen[1].values()) == 626
    assert seen[1]["test"] == seen[2]["test"] and seen[1]["train"] < seen[2]["train"] < seen[0]["train"]


def test_numeric_answers():
    assert all(map(is_strictly_numeric, ("1", "30000")))
    assert not any(map(is_strictly_numeric, ("0", "30001", "1,000", "10 apples", "٣", "", "9" * 5000)))
    assert all(map(has_number, ("10 apples", "in 1872")))
    assert not any(map(has_number, ("0 apples", "ten", "1,000 apples")))


def test_files_good_and_bad(tmp_path):
    made = make_articles(6, seed=1)
    for article in made["data"]:
        assert 2 <= len(article["paragraphs"]) <= 4
    assert make_articles(6, seed=1) == made != make_articles(6, seed=2)
    broken = {"id": "x", "question": "Who?", "answers": [{"text": "Nobody", "answer_start": 0}]}
    made["data"][0]["paragraphs"][0]["qas"] += [broken, {"question": "?", "answers": []}, 5]
    made["data"][1]["paragraphs"].append({"context": 3, "qas": [broken]})
    folder = tmp_path / "squad"
    folder.mkdir()
    (folder / "train-v1.1.json").write_text(json.dumps(made))
    (folder / "dev-v1.1.json").write_text(json.dumps(make_articles(2, seed=9)))
    where = dict(path=str(folder), data_dir=tmp_path / "built")
    splits = {split: data.load("squad", split, **where) for split in ("train", "validation", "test")}
    assert {r["title"] for r in splits["test"]} == {a["title"] for a in make_articles(2, seed=9)["data"]}
    titles = [{r["title"] for r in splits[split]} for split in ("train", "validation")]
    assert not titles[0] & titles[1] and len(titles[0] | titles[1]) == 6
    reasons = collections.Counter(
        row["reason"] for row in data.load_skipped("squad", tmp_path / "built", path=str(folder))
    )
    assert len(reasons) == 4 and sum(reasons.values()) == 4, reasons
    for content, says in (("[]", "no list under"), ('{"data": []}', "too few"), ("{", "breaks off")):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(DataError, match=says):
            data.load("squad", "train", path=str(tmp_path / "bad.json"), data_dir=tmp_path / "built")
    with pytest.raises(UsageError, match="numbers=3"):
        data.load("squad", "train", numbers=3, data_dir=tmp_path / "built")


def test_table5_runs_each_cell_and_shows_the_papers_numbers(tmp_path, monkeypatch):
    asked = []

    def train(system, data, folder, seed, compiled=None, note=None):
        config = system
        asked.append((config.task.numbers, config.optim.epochs, "numbers" in config.objectives, seed))
        return {"test": {"f1": 0.5 + config.optim.epochs / 100, "exact": 0.25 + seed / 10}}, None

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, place: config)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    table5.main(["--scale=smoke", "--seeds=2", f"--out={tmp_path}"])
    every = [(n, e, on, seed) for n in (1, 2) for e in (1, 2, 3) for on in (False, True) for seed in (0, 1)]
    assert asked == every
    text = (tmp_path / "table5.md").read_text()
    assert "| BERT + L_num | 90.23 | 51.00 ± 0.00 |" in text and "stand-in" in text and "## Sub-split 2" in text
    assert "89.15 | 30.00 ± 7.07" in text and (tmp_path / "table5.png").exists()


def test_dices_config_takes_every_word_of_span_answers():
    from numjax.bundled.configs import dice

    for scale in ("smoke", "laptop", "paper"):
        on = dice.get_config(f"{scale},task=squad,numbers=2,lnum=on,as_published")
        off = dice.get_config(f"{scale},task=squad,lnum=off,as_published")
        assert on.task.numbers == 2 and on.objectives.numbers.weight == 1e-3 and "numbers" not in off.objectives
        assert (on.objectives.numbers.within, on.objectives.numbers.pairs, on.eval.best) == ("batch", 1, False)
        assert on.backbone.max_length >= on.data.length
    for word in ("lnum=off", "numbers=1"):
        with pytest.raises(ValueError, match="task=squad"):
            dice.get_config(word)
