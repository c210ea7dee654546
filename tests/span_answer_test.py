"""Span answers: characters ↔ positions, windows, WordPiece against a slow reference, SQuAD's splits and metric."""

from __future__ import annotations

import collections
import json
import re
import string
import unicodedata
from types import SimpleNamespace
from typing import Any

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


def encode_slowly(text: str, table: dict[str, int]) -> list[int]:
    """Encodes as BERT's published code does: clean, split, strip accents, take the longest pieces."""
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
            piece_ids, start = [], 0
            while start < len(piece):
                ends = range(len(piece), start, -1)
                names = (("##" if start else "") + piece[start:end] for end in ends)
                best = next(((name, end) for name, end in zip(names, ends, strict=True) if name in table), None)
                if best is None:
                    break
                piece_ids.append(table[best[0]])
                start = best[1]
            ids += [table["[UNK]"]] if start < len(piece) or len(piece) > 100 else piece_ids
    return ids


def test_wordpiece_is_trained_saved_and_loaded(words, tmp_path):
    assert vocab.build({"name": "wordpiece", "size": 300}, TEXTS * 5).pieces == words.pieces
    assert not words.exact and words.base <= 300 and words.mark_name(words.mark("[CLS]")) == "[CLS]"
    assert words.mark("[SEP]") < words.base <= words.mark("[EOS]") < words.size
    words.save(str(tmp_path / "saved"))
    loaded = vocab.load(str(tmp_path / "saved"))
    table = words.tokenizer.get_vocab()
    lines = sorted(table, key=table.get)
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    from_list = vocab.build({"name": "wordpiece", "path": str(tmp_path / "vocab.txt")})
    (tmp_path / "tokenizer.json").write_bytes(words.file)
    from_folder = vocab.build({"name": "wordpiece", "path": str(tmp_path)})
    for text in TEXTS:
        ids = words.encode(text)
        assert loaded.encode(text) == from_list.encode(text) == from_folder.encode(text) == ids
        assert ids == encode_slowly(text, table)
        assert words.encode(words.decode(ids)) == [i for i in ids if i != table["[UNK]"]], "encoded the same"
    assert words.decode(words.encode("It cost 1,250 then")) == "it cost 1 , 250 then"
    for number in ("7", "9876543210", "1.5e10", "-3"):
        assert words.tokenizer.token_to_id("[UNK]") not in words.encode(number), "a digit is never unknown"


def test_many_scripts_leave_pieces_for_words():
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(list(string.ascii_lowercase), rng.integers(4, 9))) for _ in range(150)})
    rare = [chr(c) for c in range(0x0561, 0x0587)] + [chr(c) for c in range(0xA000, 0xA000 + 900)]
    texts = [" ".join(words) for _ in range(40)] + [f"{a}{b}" for a, b in zip(rare, reversed(rare), strict=True)] * 3
    vocabulary = vocab.build({"name": "wordpiece", "size": 2000}, texts)
    table = vocabulary.tokenizer.get_vocab()
    single = [piece for piece in table if len(piece.removeprefix("##")) == 1]
    assert 128 < len(single) <= 500, "some characters of other scripts"
    assert all(vocabulary.encode(word) == [table[word]] for word in words), "frequent words are whole"


def test_a_cased_vocabulary_distinguishes_case(tmp_path):
    cased = vocab.build({"name": "wordpiece", "size": 300, "lower": False}, TEXTS * 5)
    assert cased.encode("The") != cased.encode("the")
    assert cased.decode(cased.encode("The Tigris")) == "The Tigris"


def test_a_vocab_txt_is_lower_cased_as_its_tokenizer_config_says(words, tmp_path):
    """A tokenizer.json has its own setting."""
    cased = vocab.build({"name": "wordpiece", "size": 300, "lower": False}, TEXTS * 5)
    table = cased.tokenizer.get_vocab()
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(table, key=table.get)) + "\n")
    block = {"name": "wordpiece", "path": str(tmp_path)}

    def encode(**options):
        return vocab.build(block | options).encode("The Tigris")

    lowered = cased.encode("the tigris")
    assert encode() == encode(lower=True) == lowered != cased.encode("The Tigris") == encode(lower=False)
    config = tmp_path / "tokenizer_config.json"
    for content in ("{", "[]", "{}", '{"do_lower_case": "no"}', '{"do_lower_case": true}'):
        config.write_text(content)
        assert encode() == encode(lower=True) == lowered
    with pytest.raises(UsageError, match=r"do_lower_case=True .* lower=False: set config\.scheme\.vocab\.lower=True"):
        encode(lower=False)
    config.write_text('{"do_lower_case": false}')
    assert encode() == encode(lower=False) == cased.encode("The Tigris") == encode(path=str(tmp_path / "vocab.txt"))
    with pytest.raises(
        UsageError, match=r"do_lower_case=False .* lower=True: set config\.scheme\.vocab\.lower=False"
    ):
        encode(lower=True)
    with pytest.raises(UsageError, match="lower='no': give True or False"):
        encode(lower="no")
    (tmp_path / "tokenizer.json").write_bytes(words.file)
    assert encode(lower=True) == words.encode("The Tigris")


def test_split_digits_are_words_anywhere(tmp_path):
    """This also holds for a loaded vocabulary, which keeps its pieces; decoded texts encode to the same ids."""
    whole = vocab.build({"name": "wordpiece", "size": 300}, [*TEXTS * 5, "2019 2019 2019"])
    whole.save(str(tmp_path))
    block = {"name": "wordpiece", "path": str(tmp_path / "tokenizer.json"), "split_digits": True}
    new = vocab.build({"name": "wordpiece", "size": 300, "split_digits": True}, [*TEXTS * 5, "2019 2019 2019"])
    for vocabulary in (new, vocab.build(block)):
        ones = [vocabulary.encode(digit) for digit in "2019"]
        assert all(len(one) == 1 for one in ones)
        for text in ("2019", "the2019", "$2,019.", "x20 19"):
            ids = vocabulary.encode(text)
            assert [one for one in ids if [one] in ones] == [one[0] for one in ones], text
            assert vocabulary.encode(vocabulary.decode(ids)) == ids
    assert len(whole.encode("2019")) < 4
    with pytest.raises(UsageError, match="not a WordPiece vocabulary"):
        (tmp_path / "x.json").write_text("{")
        vocab.build({"name": "wordpiece", "path": str(tmp_path / "x.json"), "split_digits": True})


def test_other_files_are_refused_as_wordpiece(tmp_path):
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
    for block, message in (
        ({"path": str(tmp_path / "none.txt")}, "cannot read"),
        ({"path": str(tmp_path / "..")}, "neither"),
        ({"size": 20}, "too small"),
    ):
        with pytest.raises(UsageError, match=message):
            vocab.build({"name": "wordpiece", **block}, TEXTS)
    with pytest.raises(UsageError, match="needs texts"):
        vocab.build({"name": "wordpiece"})


def test_bert_gives_the_ids_of_bert(real_data):
    """Google's vocab.txt on real contexts against the slow reference, and a sentence with known ids."""
    folder = real_data("tokenizers") / "bert-base-uncased"
    bert = vocab.build({"name": "wordpiece", "path": str(folder)})
    assert (bert.base, bert.mark("[PAD]"), bert.mark("[CLS]"), bert.mark("[SEP]"), bert.mark("[MASK]")) == (
        30522, 0, 101, 102, 103,
    )  # fmt: skip
    assert bert.encode("Hello, my dog is cute") == [7592, 1010, 2026, 3899, 2003, 10140]
    table = {line: i for i, line in enumerate((folder / "vocab.txt").read_text().splitlines())}
    records = data.load("squad", "test", path=str(real_data("squad_v1.1_dev")))
    contexts = sorted({records[i]["context"] for i in range(0, len(records), 40)})
    assert len(contexts) > 20
    for context in contexts:
        ids, spans = bert.cover(context)
        assert ids == encode_slowly(context, table)
        assert (spans[:, 0] < spans[:, 1]).all() and (np.diff(spans[:, 0]) >= 0).all()


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_positions_cover_their_characters(kind, request, rng):
    """Every character but a blank is covered, in order, by the token that encodes it."""
    vocabulary = request.getfixturevalue(kind)
    alphabet = "ab 12.,-%é東\U0001f600\n"
    random_texts = ["".join(rng.choice(list(alphabet), rng.integers(1, 40))) for _ in range(30)]
    for text in [*TEXTS, *random_texts]:
        ids, spans = vocabulary.cover(text)
        assert ids == vocabulary.encode(text) and spans.shape == (len(ids), 2)
        is_covered = np.zeros(len(text), bool)
        for token, (start, end) in zip(ids, spans, strict=True):
            is_covered[start:end] = True
            piece = vocabulary.bytes_of(token).decode(errors="replace")
            if kind == "pieces" and "\ufffd" not in piece:
                assert text[start:end] == piece
        missing = {c for c, is_there in zip(text, is_covered, strict=True) if not is_there}
        assert not {c for c in missing if c.strip()} and (kind == "words" or not missing)


@pytest.mark.parametrize("kind", ["words", "pieces"])
@pytest.mark.parametrize("apart", [False, True])
def test_schemes_give_offsets_and_types(kind, apart, request):
    scheme = subword.Scheme(request.getfixturevalue(kind), apart=apart, types=True)
    for text in TEXTS:
        document = (Mark("[CLS]"), *scheme.parse(TEXTS[0]), Mark("[SEP]"), *scheme.parse(text), Mark("[SEP]"))
        row = scheme.encode(document, offsets=True)
        assert scheme.encode(document).offsets is None
        surface = documents.surface(document)
        first = int(np.flatnonzero(row.ids == scheme.vocab.mark("[SEP]"))[0])
        np.testing.assert_array_equal(row.channels["types"], np.arange(len(row.ids)) > first)
        assert surface[slice(*row.offsets[first])] == "[SEP]" and surface[slice(*row.offsets[-1])] == "[SEP]"
        for n, number in enumerate(row.numbers):
            spans = row.offsets[row.numeral_index == n]
            assert number.surface in surface[spans[0, 0] : spans[-1, 1]], "sub-words of a number cover it"
        if not scheme.vocab.exact and not apart:
            new_ids = scheme.encode(scheme.decode(row.ids, row.numbers)).ids
            unknown = scheme.vocab.tokenizer.token_to_id("[UNK]")
            np.testing.assert_array_equal(new_ids, row.ids[row.ids != unknown])


def test_numbers_of_one_position_cover_all_of_themselves(pieces):
    scheme = replace.Scheme(pieces)
    row = scheme.encode((Mark("[CLS]"), *scheme.parse("from 1,200 to 7")), offsets=True)
    surface = "[CLS]from 1,200 to 7"
    numbers = [surface[slice(*span)] for span, n in zip(row.offsets, row.numeral_index, strict=True) if n >= 0]
    assert numbers == ["1,200", "7"]


# ---------------------------------------------------------------------------------------------------


def make_options(length: int, overflow: str = "windows", stride: int = 5):
    class DataOptions(dict):
        __getattr__ = dict.__getitem__

    return DataOptions(length=length, overflow=overflow, stride=stride, digits=8, pack=False, memory=64)


def draw_records(count: int) -> list[dict]:
    records = [record for _, record in parse_articles(make_articles(count, seed=3), "test")]
    assert not any(isinstance(record, ValueError) for record in records)
    return records


@pytest.mark.parametrize("kind", ["words", "pieces"])
@pytest.mark.parametrize("length", [60, 400])
def test_answers_survive_the_way_to_positions_and_back(kind, length, request):
    """Gold positions as a prediction give the characters of the answer; every window holds the question."""
    scheme = subword.Scheme(request.getfixturevalue(kind), types=True)
    task, records = span_answer.Task(), draw_records(6)
    encoded = features.encode(task, scheme, records, make_options(length), "train")
    assert encoded.kind == "span" and encoded.lengths.max() <= length
    gold = encoded.columns.labels["span"]
    answerable = {int(text) for text, (first, _) in zip(encoded.origin, gold, strict=True) if first >= 0}
    if length == 400:
        assert len(encoded) == len(records) == len(answerable)
    else:
        assert len(encoded) > len(set(encoded.origin.tolist()))
    # A window without the answer has a lower score.
    scores = {
        i: np.asarray([max(first, 5), max(last, 5), float(first >= 0), -1.0]) for i, (first, last) in enumerate(gold)
    }
    predictions, extra = make_predictions(encoded, scores)
    assert len(predictions) == len(set(encoded.origin.tolist())) and extra.keys() == predictions.keys()
    for i, text in predictions.items():
        record = records[encoded.origin[i]]
        if int(encoded.origin[i]) in answerable:
            assert record["answer"] in text and len(text) <= len(record["answer"]) + 6
            assert kind == "pieces" or text == record["answer"]
    for i in range(len(encoded)):
        row, record = encoded.rows[i], records[encoded.origin[i]]
        question = scheme.vocab.encode(record["question"])
        assert row.ids[1 : 1 + len(question)].tolist() == question
        assert row.ids[0] == scheme.vocab.mark("[CLS]") and row.ids[-1] == scheme.vocab.mark("[SEP]")


def test_windows_leave_nothing_out(words):
    scheme, task = subword.Scheme(words, types=True), span_answer.Task()
    record = draw_records(1)[0]
    example = task.example(record, scheme.parse)
    whole = scheme.encode(example.document, offsets=True)
    fixed = len(whole.ids) - (whole.starts[example.slide[1]] - whole.starts[example.slide[0]])
    encoded = features.encode(task, scheme, [record], make_options(fixed + 9, stride=4), "train")
    offsets = {tuple(span) for span in encoded.columns.offsets.tolist()}
    assert offsets == {tuple(span) for span in whole.offsets.tolist()} and len(encoded) > 5
    short = features.encode(task, scheme, [record], make_options(fixed), "test")
    assert not len(short) and "leave no room" in short.skipped[0]["reason"]
    skipped = features.encode(task, scheme, [record], make_options(fixed + 9, "skip"), "test")
    assert "more than data.length" in skipped.skipped[0]["reason"]


def test_records_to_answer_need_no_answer(words):
    scheme, task = subword.Scheme(words, types=True), span_answer.Task()
    record = {"id": "q", "question": "When?", "context": "In 1872 or 1873."}
    encoded = features.encode(task, scheme, [record], make_options(60), "input")
    np.testing.assert_array_equal(encoded.columns.labels["span"], [[-1, -1]])
    text = encoded.example(0).document
    first = int(np.flatnonzero(encoded.columns.offsets[:, 0] == documents.surface(text).index("1873"))[0])
    predictions, _ = make_predictions(encoded, {0: np.asarray([first, first, 0.0, 0.0])})
    assert predictions[0] and "1873".startswith(predictions[0])
    with pytest.raises(DataError, match="answer_start=4 does not hold"):
        task.example(record | {"answer": "1872", "answer_start": 4, "answers": ["1872"]}, scheme.parse)
    with pytest.raises(DataError, match="'answers' must be a list"):
        task.example(record | {"answer": "1872", "answer_start": 3, "answers": "1872"}, scheme.parse)
    assert task.example(record | {"answer": " 1872", "answer_start": 2, "answers": "[]"}, scheme.parse).spans["span"]


# ---------------------------------------------------------------------------------------------------


def compute_official_scores(prediction: str, golds: list[str]) -> tuple[float, float]:
    """Returns exact match and F1, from the metric's description and without the task's code."""

    def list_words(text):
        letters = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return [word for word in re.split(r"\s+", re.sub(r"\b(?:a|an|the)\b", " ", letters)) if word]

    def compute_f1(gold):
        predicted_words, gold_words = list_words(prediction), list_words(gold)
        remaining_words, n_hits = list(gold_words), 0
        for word in predicted_words:
            if word in remaining_words:
                remaining_words.remove(word)
                n_hits += 1
        if not n_hits:
            return 0.0
        precision, recall = n_hits / len(predicted_words), n_hits / len(gold_words)
        return 2 * precision * recall / (precision + recall)

    return max(float(list_words(prediction) == list_words(gold)) for gold in golds), max(map(compute_f1, golds))


def invent_prediction(rng, context: str, answer: str) -> str:
    """Returns the answer, a part or an extension of it, another stretch, or nothing."""
    words = context.split()
    start = int(rng.integers(len(words)))
    other = " ".join(words[start : start + int(rng.integers(1, 6))])
    return [answer, f"The {answer.upper()}!", answer.split()[0], f"{answer} {other}", other, ""][int(rng.integers(6))]


def test_the_metric_is_squads_on_the_real_questions(real_data, rng):
    records = data.load("squad", "test", path=str(real_data("squad_v1.1_dev")))
    chosen = [records[i] for i in range(0, len(records), 2)]
    predictions = [invent_prediction(rng, r["context"], r["answer"]) for r in chosen]
    golds = [json.loads(r["answers"]) for r in chosen]
    expected = np.mean([compute_official_scores(*pair) for pair in zip(predictions, golds, strict=True)], axis=0)
    scores = span_answer.Task().score(predictions, [{"answers": g} for g in golds])
    np.testing.assert_allclose([scores["exact"], scores["f1"]], expected, rtol=1e-12)
    assert len(chosen) > 500 and 0.2 < scores["exact"] < scores["f1"] < 0.9
    gold_scores = span_answer.Task().score([g[0] for g in golds], [{"answers": g} for g in golds])
    assert gold_scores == {"exact": 1.0, "f1": 1.0}


def test_sub_splits_of_the_real_questions(real_data):
    """Checks counts of the 8,338 questions that we have, and that no context is in two splits."""
    path = str(real_data("squad_v1.1_dev"))
    counts = {}
    for numbers in (0, 1, 2):
        splits = {
            split: data.load("squad", split, path=path, numbers=numbers) for split in ("train", "validation", "test")
        }
        contexts = [{r["context"] for r in records} for records in splits.values()]
        assert not contexts[0] & contexts[1] and not contexts[0] & contexts[2] and not contexts[1] & contexts[2]
        for split, records in splits.items():
            for record in records:
                assert record["context"][record["answer_start"] :].startswith(record["answer"])
                if numbers == 1 or (numbers and split != "train"):
                    assert record["answer"].isdigit() and 1 <= int(record["answer"]) <= 30_000
                elif numbers:
                    assert any(w.isdigit() and 1 <= int(w) <= 30_000 for w in record["answer"].split())
        counts[numbers] = {split: len(records) for split, records in splits.items()}
    assert sum(counts[0].values()) == 8338 and sum(counts[1].values()) == 626
    assert counts[1]["test"] == counts[2]["test"] and counts[1]["train"] < counts[2]["train"] < counts[0]["train"]


def test_numeric_answers_are_classified():
    assert all(map(is_strictly_numeric, ("1", "30000")))
    assert not any(map(is_strictly_numeric, ("0", "30001", "1,000", "10 apples", "٣", "", "9" * 5000)))
    assert all(map(has_number, ("10 apples", "in 1872")))
    assert not any(map(has_number, ("0 apples", "ten", "1,000 apples")))


def test_good_files_load_and_bad_ones_are_refused(tmp_path):
    articles = make_articles(6, seed=1)
    for article in articles["data"]:
        assert 2 <= len(article["paragraphs"]) <= 4
    assert make_articles(6, seed=1) == articles != make_articles(6, seed=2)
    broken = {"id": "x", "question": "Who?", "answers": [{"text": "Nobody", "answer_start": 0}]}
    articles["data"][0]["paragraphs"][0]["qas"] += [broken, {"question": "?", "answers": []}, 5]
    articles["data"][1]["paragraphs"].append({"context": 3, "qas": [broken]})
    folder = tmp_path / "squad"
    folder.mkdir()
    (folder / "train-v1.1.json").write_text(json.dumps(articles))
    (folder / "dev-v1.1.json").write_text(json.dumps(make_articles(2, seed=9)))
    arguments = dict(path=str(folder), data_dir=tmp_path / "built")
    splits = {split: data.load("squad", split, **arguments) for split in ("train", "validation", "test")}
    assert {r["title"] for r in splits["test"]} == {a["title"] for a in make_articles(2, seed=9)["data"]}
    titles = [{r["title"] for r in splits[split]} for split in ("train", "validation")]
    assert not titles[0] & titles[1] and len(titles[0] | titles[1]) == 6
    reasons = collections.Counter(
        row["reason"] for row in data.load_skipped("squad", tmp_path / "built", path=str(folder))
    )
    assert len(reasons) == 4 and sum(reasons.values()) == 4, reasons
    for content, message in (("[]", "no list under"), ('{"data": []}', "too few"), ("{", "breaks off")):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(DataError, match=message):
            data.load("squad", "train", path=str(tmp_path / "bad.json"), data_dir=tmp_path / "built")
    with pytest.raises(UsageError, match="numbers=3"):
        data.load("squad", "train", numbers=3, data_dir=tmp_path / "built")


def test_table5_runs_each_cell_and_shows_the_papers_numbers(tmp_path, monkeypatch):
    calls = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = system
        calls.append((config.task.numbers, config.optim.epochs, "numbers" in config.objectives, seed))
        return {"test": {"f1": 0.5 + config.optim.epochs / 100, "exact": 0.25 + seed / 10}}, None

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: config)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    table5.main(["--scale=smoke", "--seeds=2", f"--out={tmp_path}"])
    expected = [(n, e, on, seed) for n in (1, 2) for e in (1, 2, 3) for on in (False, True) for seed in (0, 1)]
    assert calls == expected
    text = (tmp_path / "table5.md").read_text()
    assert "| BERT + L_num | 90.23 | 51.00 ± 0.00 |" in text and "stand-in" in text and "## Sub-split 2" in text
    assert "89.15 | 30.00 ± 7.07" in text and (tmp_path / "table5.png").exists()


def test_table5_tests_every_fold_once_overnight(tmp_path, monkeypatch):
    calls = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = system
        calls.append((config.task.fold, config.task.folds, seed))
        assert config.init_from == config.scheme.vocab.path == "pretrained:minilm"
        assert (config.backbone.width, config.backbone.layers, config.data.train_size) == (384, 6, 0)
        return {"test": {"f1": 0.5, "exact": seed / 10}}, None

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: config)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    words = ["--scale=overnight", "--bert=minilm", "--only=split1-epoch2", "--dirty", f"--out={tmp_path}"]
    table5.main(words)
    assert calls == [(fold, 5, fold) for fold in range(5) for _ in table5.SYSTEMS]
    assert "| 20.00 ± 15.81 |" in (tmp_path / "table5.md").read_text()
    with pytest.raises(UsageError, match="--seeds=6: at overnight each seed is one of 5 folds"):
        table5.main([*words, "--seeds=6"])
    with pytest.raises(UsageError, match="--scale=overnight starts from pretrained weights"):
        table5.main(["--scale=overnight", "--dirty", f"--out={tmp_path}"])


def test_table5_starts_both_systems_from_all_questions_of_a_fold_alone():
    names = [("split1-epoch2", system) for system in table5.SYSTEMS]
    options = SimpleNamespace(scale="overnight", bert="minilm", path="", as_published=False, first="all")
    starts = [table5.make_cell(options, *name, fold).start for fold in (0, 1) for name in names]
    keys = [runs.make_key(start) for start in starts if start]
    assert keys[0] == keys[1] != keys[2] == keys[3], "one for both systems, another for each fold"
    config = starts[2].config
    assert (config.task.numbers, config.task.fold, config.task.folds, "numbers" in config.objectives) == (
        0,
        1,
        5,
        False,
    )
    with pytest.raises(UsageError, match="--first=all is for --scale=overnight"):
        table5.main(["--scale=smoke", "--first=all"])


@pytest.mark.parametrize("is_real", [False, True])
def test_each_question_is_tested_in_one_fold(is_real, real_data, tmp_path):
    options: dict[str, Any] = {"path": str(real_data("squad_v1.1_dev"))} if is_real else {"size": 0}
    tested: list[str] = []
    for fold in range(5):
        splits = {
            s: data.load("squad", s, tmp_path, numbers=1, fold=fold, folds=5, **options)
            for s in ("train", "validation", "test")
        }
        titles = [{record["title"] for record in records} for records in splits.values()]
        assert not (titles[0] & titles[1] or titles[0] & titles[2] or titles[1] & titles[2])
        tested += [record["id"] for record in splits["test"]]
        with_words = data.load("squad", "test", tmp_path, numbers=2, fold=fold, folds=5, **options)
        assert [record["id"] for record in with_words] == [record["id"] for record in splits["test"]]
    everything = data.load("squad", "train+validation+test", tmp_path, numbers=1, **options)
    assert sorted(tested) == sorted(record["id"] for record in everything)
    for fold, folds in ((5, 5), (0, 1), (1, 0), (-1, 5)):
        with pytest.raises(UsageError, match=f"fold={fold} is none of folds={folds}"):
            data.load("squad", "train", tmp_path, fold=fold, folds=folds)


def test_dices_config_takes_every_word_of_span_answers():
    from numjax.bundled.configs import dice

    for scale in ("smoke", "laptop", "paper"):
        config = dice.get_config(f"{scale},task=squad,numbers=2,lnum=on,as_published")
        config_without_loss = dice.get_config(f"{scale},task=squad,lnum=off,as_published")
        assert (
            config.task.numbers == 2
            and config.objectives.numbers.weight == 1e-3
            and "numbers" not in config_without_loss.objectives
        )
        assert (config.objectives.numbers.within, config.objectives.numbers.pairs, config.eval.best) == (
            "batch",
            1,
            False,
        )
        assert config.backbone.max_length >= config.data.length
    for word in ("lnum=off", "numbers=1"):
        with pytest.raises(ValueError, match="task=squad"):
            dice.get_config(word)


@pytest.mark.parametrize(
    ("prediction", "gold", "f1"),
    [("a cat", "the dog", 0.0), ("", "dog", 0.0), ("two red cats", "Red cats!", 0.8), ("x x", "x", 2 / 3)],
)
def test_words_shared_by_two_answers(prediction, gold, f1):
    assert span_answer.overlap(prediction, gold) == pytest.approx(f1) == span_answer.overlap(gold, prediction)
