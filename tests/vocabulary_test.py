"""Vocabularies: any text survives encoding and decoding, and bad configs and files give one-line errors."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle

import numpy as np
import pytest
import sentencepiece
from hypothesis import given

from numjax.errors import UsageError
from numjax.text import vocab
from numjax.text.vocab import base, bytebpe, sentencepieces
from tests.texts import (
    CORPUS,
    VOCABULARIES,
    make_sentencepiece,
    make_vocabulary,
    property_settings,
    surrogates,
    texts,
)


@pytest.fixture(scope="module")
def gpt2_folder(real_data):
    return real_data("tokenizers") / "gpt2"


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request):
    return make_vocabulary(request)


@property_settings
@given(texts)
def test_vocabulary_round_trips_any_text(vocabulary, text):
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert b"".join(map(vocabulary.bytes_of, ids)) == text.encode()
    assert all(0 <= i < vocabulary.base for i in ids)


@property_settings
@given(surrogates)
def test_lone_surrogates_become_replacement_characters(vocabulary, text):
    decoded = vocabulary.decode(vocabulary.encode(text))
    assert decoded == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_bytes_that_are_no_utf8_are_replaced(vocabulary):
    first, *_ = vocabulary.encode("\U0001f9ff")
    assert vocabulary.decode([first]) == "\ufffd"
    assert vocabulary.decode([*vocabulary.encode("a"), first, *vocabulary.encode("b")]) == "a\ufffdb"


def test_characters_of_numbers_are_pieces_in_every_vocabulary(vocabulary):
    for character in "0123456789+-.,%eE$()":
        assert len(vocabulary.encode(character)) == 1
    assert len(vocabulary.encode("\n")) == 1


def test_characters_that_the_vocabulary_lacks_are_listed_once(vocabulary):
    assert vocabulary.list_unknown(base.ALPHABET.replace(base.SPACE, " ")) == []
    listed = vocabulary.list_unknown("12 ☃ + ☃ 鬱 3")
    assert listed == ([] if vocabulary.kind == "bytebpe" else ["☃", "鬱"]), "byte-level BPE knows all bytes"


def test_marks_lie_behind_the_base(vocabulary):
    assert [vocabulary.mark(name) for name in base.MARKS] == list(range(vocabulary.base, vocabulary.base + 6))
    extended = vocabulary.with_marks(["[F]", "[/F]", "[CLS]"])
    assert extended.mark("[/F]") == vocabulary.size + 1 and extended.size == vocabulary.size + 2
    assert extended.mark_name(extended.mark("[F]")) == "[F]" and extended.mark_name(5) is None
    with pytest.raises(UsageError, match=r"\[F\]"):
        vocabulary.mark("[F]")


def test_gpt2_keeps_its_ids(gpt2_folder):
    v = vocab.build({"name": "gpt2", "path": str(gpt2_folder)})
    table = json.loads((gpt2_folder / "encoder.json").read_text())
    assert v.base == 50257
    assert v.encode("Hello world, 12") == [table[p] for p in ("Hello", "Ġworld", ",", "Ġ12")]
    assert v.encode("<|endoftext|>") != [50256] and v.bytes_of(50256) == b""


def test_gpt2_files_go_by_either_name(gpt2_folder, tmp_path):
    (tmp_path / "vocab.json").write_bytes((gpt2_folder / "encoder.json").read_bytes())
    (tmp_path / "merges.txt").write_bytes((gpt2_folder / "vocab.bpe").read_bytes())
    one, other = (vocab.build({"name": "gpt2", "path": str(f)}) for f in (gpt2_folder, tmp_path))
    assert one.pieces == other.pieces and one.encode(CORPUS[1]) == other.encode(CORPUS[1])


def test_loaded_pickled_and_copied_vocabularies_are_the_same(vocabulary, tmp_path):
    original = vocabulary.with_marks(["[AGG]"])
    original.save(str(tmp_path / "v"))
    for other in (vocab.load(str(tmp_path / "v")), pickle.loads(pickle.dumps(original)), copy.copy(original)):
        assert type(other) is type(original) and other.marks == original.marks and other.pieces == original.pieces
        assert [other.encode(t) for t in CORPUS] == [original.encode(t) for t in CORPUS]


def test_training_is_deterministic_and_follows_the_options():
    assert make_sentencepiece().model == make_sentencepiece().model
    joined_digits, split_digits = (
        vocab.build({"name": "sentencepiece", "size": 330, "model": "bpe", "split_digits": split}, ["the 2019"] * 9)
        for split in (False, True)
    )
    assert len(joined_digits.encode("2019")) < 4 == len(split_digits.encode("2019"))


@pytest.mark.parametrize("model", ["unigram", "bpe"])
@pytest.mark.parametrize("texts", [[], [""], ["\n"], ["0"], ["a"], ["\0"], ["\u2585"], ["x" * 20000], iter(["ab"])])
def test_small_corpora_lower_the_size_with_one_log_line(texts, model, caplog):
    caplog.set_level("INFO", logger="absl")
    v = vocab.build({"name": "sentencepiece", "size": 5000, "model": model}, texts)
    assert v.base < 5000
    assert len(caplog.records) == 1 and "lowered from 5000" in caplog.text
    assert v.decode(v.encode("a  0\n")) == "a  0\n" and len(v.encode("7")) == 1


def test_texts_are_cut_at_max_characters(caplog):
    caplog.set_level("INFO", logger="absl")
    block = {"name": "sentencepiece", "size": 290, "model": "bpe", "max_characters": 10}
    v = vocab.build(block, ["a" * 9, "zzzz"])
    assert "first 10 characters" in caplog.text
    assert len(v.encode("aaaa")) < 4 == len(v.encode("zzzz"))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"name": "wordpieces"}, "choose one of"),
        ({}, "choose one of"),
        ({"name": "sentencepiece", "sizes": 3}, "did you mean size"),
        ({"name": "sentencepiece", "chars": 3}, r"did you mean max_characters\b"),
        ({"name": "sentencepiece", "size": 100}, "give at least"),
        ({"name": "sentencepiece", "model": "word"}, "unigram or bpe"),
        ({"name": "sentencepiece", "coverage": 0.5}, "coverage"),
        ({"name": "sentencepiece", "path": "/nowhere/x.model"}, "cannot read"),
        ({"name": "gpt2"}, "needs path"),
        ({"name": "gpt2", "path": "/nowhere"}, "does not exist"),
    ],
)
def test_bad_blocks_give_one_line_errors(block, message):
    with pytest.raises(UsageError, match=message) as error:
        vocab.build(block, CORPUS)
    assert "\n" not in str(error.value)


def test_bad_files_give_one_line_errors(tmp_path):
    with pytest.raises(UsageError, match="needs texts"):
        vocab.build({"name": "sentencepiece"})
    with pytest.raises(UsageError, match=r"neither encoder\.json nor vocab\.json"):
        vocab.build({"name": "gpt2", "path": str(tmp_path)})
    for content in ("{", "[]", '{"a": 1}', '{"a": 0}'):
        (tmp_path / "vocab.json").write_text(content)
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
        with pytest.raises(UsageError, match="not GPT-2 vocabulary files"):
            vocab.build({"name": "gpt2", "path": str(tmp_path)})
    (tmp_path / "x.model").write_bytes(b"garbage")
    with pytest.raises(UsageError, match="not a sentencepiece model"):
        vocab.build({"name": "sentencepiece", "path": str(tmp_path / "x.model")})
    with pytest.raises(UsageError, match="no vocabulary in"):
        vocab.load(str(tmp_path / "absent"))
    (tmp_path / vocab.FILE).write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        vocab.load(str(tmp_path))


def test_a_model_has_no_pieces_for_ends_and_padding():
    """The marks are ours; a piece "</s>" would be one that no text has."""
    for model in ("unigram", "bpe"):
        v = vocab.build({"name": "sentencepiece", "size": 400, "model": model}, CORPUS)
        processor = sentencepiece.SentencePieceProcessor(model_proto=v.model)
        ends = (processor.bos_id(), processor.eos_id(), processor.pad_id())
        assert ends == (-1, -1, -1) and not {"<s>", "</s>", "<pad>"} & {*map(processor.id_to_piece, range(v.base))}


def test_bytes_stand_in_for_what_a_model_without_bytes_lacks():
    out = io.BytesIO()
    options: dict = dict(vocab_size=40, hard_vocab_limit=False, minloglevel=2, normalization_rule_name="identity")
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["one two ten"] * 9), model_writer=out, **options)
    v = sentencepieces.SentencePiece(out.getvalue(), ())
    assert v.known < v.base
    for text in ("one two", "one ☃ ten", "☃☃", "0"):
        assert v.decode(v.encode(text)) == text and v.list_unknown(text) == sorted({*text} & {*"☃0"})


def test_lines_to_train_on_have_no_reserved_characters():
    lines = [*base.training_lines(["a\0b\u2581c\u2585d\ne", "x" * 9000], 10_000)][len(base.ALPHABET) :]
    assert lines == ["a b c d", "e", "x" * 8192, "x" * 808]


def test_the_stand_ins_of_bytes_are_gpt2s():
    """Bytes that Latin-1 prints stand for themselves; the others are U+0100 onwards: a blank is "Ġ", U+0120."""
    stand_ins = bytebpe._byte_of_character()
    assert sorted(stand_ins.values()) == list(range(256)) and stand_ins["Ġ"] == 0x20 and stand_ins["Ċ"] == 0x0A
    own = {chr(b) for b in range(256) if chr(b).isprintable() and not chr(b).isspace()}
    assert {c for c, b in stand_ins.items() if ord(c) == b} == own and "\xad" not in own
    others = [c for c, _ in sorted(stand_ins.items(), key=lambda item: item[1]) if ord(c) >= 256]
    assert others == [chr(256 + i) for i in range(len(others))]


def test_bad_tokenizer_files_are_named(tmp_path):
    table = {c: i for i, c in enumerate(bytebpe._byte_of_character())} | {"☃": 256, "☃a": 257}
    (tmp_path / "vocab.json").write_text(json.dumps(table))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n☃ a\n")
    with pytest.raises(UsageError, match="the merge to '☃a' is none of bytes"):
        vocab.build({"name": "gpt2", "path": str(tmp_path)})
    for kind in ("BPE", "Unigram", "ZPiece"):
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": kind, "vocab": {}}}))
        with pytest.raises(UsageError, match=f"its model is {kind}"):
            vocab.build({"name": "wordpiece", "path": str(tmp_path / "tokenizer.json")})


def test_the_vocabulary_knows_which_tokens_are_numbers(vocabulary):
    """Python parses the text of each token by itself, also of marks that come later and of symbols."""
    assert len(vocabulary.digit_values) == len(vocabulary.number_digits) == vocabulary.size
    vocabulary = vocabulary.with_marks(
        ["NUM N 7", "NUM N 365", "NUM N 2.5", "VAR V 7", "NUM ! #1", "[7]", "[-314]", "[3e-1]"]
    )
    numerals_of_marks = {"NUM N 7": "7", "NUM N 365": "365", "NUM N 2.5": "2.5"}
    coded = {"[-314]": (-314, -1), "[3e-1]": (0.3, 3)}  # the symbols of other layouts
    vocabulary = vocabulary.with_marks([*numerals_of_marks, "VAR V 7", "NUM ! #1", "[7]", *coded])
    digits, values, number_digits = vocabulary.digit_values, vocabulary.number_values, vocabulary.number_digits
    assert len(digits) == len(values) == len(number_digits) == vocabulary.size
    number_ids = []
    for token in range(vocabulary.size):
        name = vocabulary.mark_name(token)
        if name in coded:
            assert (values[token], digits[token]) == coded[name] and (number_digits[token] == -1).all()
            number_ids.append(token)
            continue
        numeral = numerals_of_marks.get(name, "") if name else vocabulary.decode([token]).removeprefix(" ")
        numeral = numeral if all(c in "0123456789." for c in numeral) and numeral[:1].isdigit() else ""
        try:
            value = float(numeral) if numeral[-1:].isdigit() else math.nan
        except ValueError:
            value = math.nan
        np.testing.assert_equal(values[token], value)
        assert digits[token] == (int(numeral) if len(numeral) == 1 else -1)
        token_digits = [int(c) for c in numeral] if numeral.isdigit() else []
        assert (
            number_digits[token, : len(token_digits)].tolist() == token_digits
            and (number_digits[token, len(token_digits) :] == -1).all()
        )
        number_ids += [token] * (not math.isnan(value))
    assert vocabulary.number_ids == tuple(number_ids)
    assert sorted(set(digits.tolist())) == list(range(-1, 10)), "every digit is a token"
    points = tuple(i for i in range(vocabulary.size) if vocabulary.bytes_of(i) == b".")
    assert vocabulary.point_ids == points and set(vocabulary.encode(".")) <= set(points)
    assert vocabulary.mark("NUM N 365") in vocabulary.number_ids


@pytest.mark.parametrize("split", [False, True])
def test_wordpieces_are_numbers_within_words_too(split):
    vocabulary = vocab.build(
        {"name": "wordpiece", "size": 300, "split_digits": split}, ["12 a12 2012 b7 c8 7 8 2012 2012"] * 9
    )
    for text in ("7", "b9", "2012"):
        last = vocabulary.encode(text)[-1]
        numeral = vocabulary.decode([last]).strip()
        assert last in vocabulary.number_ids and vocabulary.number_values[last] == int(numeral)
        assert vocabulary.digit_values[last] == (int(numeral) if len(numeral) == 1 else -1)
        assert vocabulary.number_digits[last, : len(numeral)].tolist() == [int(c) for c in numeral]
    assert len(vocabulary.encode("2012")) == (4 if split else 1)


def test_pieces_of_several_digits_in_gpt2_are_numbers(gpt2_folder):
    vocabulary = vocab.build({"name": "gpt2", "path": str(gpt2_folder)}, None, ())
    (token,) = vocabulary.encode(" 2015")
    assert vocabulary.number_values[token] == 2015 and vocabulary.digit_values[token] == -1
    assert vocabulary.number_digits[token, :5].tolist() == [2, 0, 1, 5, -1]
    assert len(vocabulary.number_ids) > 1500
