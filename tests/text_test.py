"""Documents and schemes: every document survives encoding and decoding."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from numjax.errors import DataError, UsageError
from numjax.expr.tree import Tree
from numjax.text import addback, digits, document, limbs, replace, subword, vocab
from numjax.text.grammar import automaton as grammar
from numjax.types import Formula, Mark, Number, Text
from tests.texts import CORPUS, NUMERALS, SPECIAL_TEXTS, VOCABULARIES, make_vocabulary, property_settings, texts


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request):
    return make_vocabulary(request)


SCHEMES = {
    "subword": subword.Scheme,
    "apart": lambda v, **kw: subword.Scheme(v, apart=True, **kw),
    "digits": digits.Scheme,
    "fenced": lambda v, **kw: digits.Scheme(v, layout="digits", **kw),
    "aggregated": lambda v, **kw: digits.Scheme(v, layout="agg", **kw),
    "paused": lambda v, **kw: digits.Scheme(v, layout="pause", **kw),
    "aggregated behind": lambda v, **kw: digits.Scheme(v, layout="agg_after", until="", **kw),
    "replace": replace.Scheme,
    "addback": addback.Scheme,
}


@functools.cache
def make_scheme(name, vocabulary, rules):
    return SCHEMES[name](vocabulary, rules=rules)


@pytest.fixture(scope="module", params=SCHEMES)
def scheme(request, vocabulary):
    return SCHEMES[request.param](vocabulary)


@st.composite
def documents(draw):
    """Parsed texts with marks between them, and perhaps [EOS] at the end."""
    segments = []
    for text in draw(st.lists(texts, max_size=4)):
        segments += [*document.parse(text), Mark(draw(st.sampled_from(["[CLS]", "[SEP]", "[MASK]"])))]
    return (*segments, *document.parse(draw(texts)), *draw(st.sampled_from([(), (Mark("[EOS]"),)])))


@property_settings
@given(texts)
def test_parse_loses_nothing(text):
    parsed = document.parse(text)
    assert document.surface(parsed) == text
    assert document.merge(parsed) == parsed


@property_settings
@given(texts)
@example("5%3")
def test_what_is_written_is_the_text_up_to_the_first_mark(text):
    assert document.written_text((*document.parse(text), Mark("[EOS]"), Text("behind"))) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [(["0", "0"], "0 0"), (["1", "2", "3"], "1 2 3"), (["12", "-3"], "12 -3"), (["1.5", "2"], "1.5 2")],
)
def test_numbers_with_nothing_between_them_stay_apart(numbers, text):
    written = [Number(surface, Decimal(surface)) for surface in numbers]
    assert document.written_text(written) == text
    assert [s for s in document.parse(text) if isinstance(s, Number)] == written


def test_a_text_never_equals_a_mark():
    assert Text("[CLS]") != Mark("[CLS]") and Mark("[CLS]") != Text("[CLS]")
    assert len({Text("[CLS]"), Mark("[CLS]"), Mark("[CLS]")}) == 2 and Text("a") == Text("a")
    assert (Text("[CLS]"),) != (Mark("[CLS]"),)


def test_merge_gives_the_canonical_document():
    number = Number("5", Decimal(5))
    split = (Text(""), Text("a"), Text("b"), number, Text(""), number, Mark("[SEP]"), Text("c"), Text(""), Text("d"))
    assert document.merge(split) == (Text("ab"), number, number, Mark("[SEP]"), Text("cd"))


@settings(property_settings, max_examples=120)
@given(documents())
@example((*document.parse("".join(SPECIAL_TEXTS)), Mark("[SEP]"), *document.parse(" and ".join(NUMERALS))))
def test_document_survives_and_its_row_is_legal(scheme, doc):
    row = scheme.encode(doc)
    assert scheme.decode(row.ids, row.numbers) == doc
    assert row.numbers == tuple(s for s in doc if isinstance(s, Number))

    assert grammar.validate(scheme.grammar(), row.ids.tolist()) is None
    assert row.grammar_state.shape == (len(row.ids) + 1,)
    classes = scheme.grammar().class_of[row.ids]
    assert (scheme.grammar().next_state[row.grammar_state[:-1], classes] >= 0).all()

    assert len(row.starts) == len(doc) + 1 and row.starts[-1] == len(row.ids)
    assert list(row.starts) == sorted(row.starts)
    for n in range(len(row.numbers)):
        positions = np.flatnonzero(row.numeral_index == n)
        assert len(positions) and (np.diff(positions) == 1).all()
    assert set(row.numeral_index.tolist()) <= {-1, *range(len(row.numbers))}


@pytest.mark.parametrize("rules", ["numgpt", "numtok", "words"])
@settings(property_settings, max_examples=60)
@given(
    text=texts
    | st.lists(st.sampled_from(["twenty-three", "one hundred and five", "million", " ", "2"])).map(" ".join)
)
def test_document_survives_under_other_rules(vocabulary, rules, text):
    for name in SCHEMES:
        scheme = make_scheme(name, vocabulary, rules)
        doc = scheme.parse(text)
        row = scheme.encode(doc)
        assert scheme.decode(row.ids, row.numbers) == doc


def test_positions_of_numbers_spell_them(scheme):
    doc = scheme.parse("pay 1,234.5 or 50% of -7 now")
    row = scheme.encode(doc)
    for n, number in enumerate(row.numbers):
        ids = row.ids[row.numeral_index == n].tolist()
        if isinstance(scheme, (replace.Scheme, addback.Scheme)):
            assert ids == [scheme.vocab.mark("[NUM]")]
        elif isinstance(scheme, digits.Scheme):
            ids = [i for i in ids if scheme.vocab.mark_name(i) != digits.AGG]
            assert scheme.vocab.decode(ids) == number.surface and len(ids) == len(number.surface)
        else:
            assert number.surface in scheme.vocab.decode(ids)
            assert scheme.vocab.decode(ids).strip() == number.surface


def test_starts_are_where_the_segments_begin(scheme):
    doc = (Mark("[CLS]"), *scheme.parse("a b 12 c"), Mark("[SEP]"), Mark("[EOS]"))
    row = scheme.encode(doc)
    for segment, start in zip(doc, row.starts, strict=False):
        if isinstance(segment, Mark):
            assert row.ids[start] == scheme.vocab.mark(segment.name)
        elif isinstance(segment, Number):
            if isinstance(scheme, addback.Scheme):
                start = row.ids.tolist().index(scheme.vocab.mark("[NUM]"), start)
            marks = isinstance(scheme, digits.Scheme) and scheme.has_fences + (scheme.mark_before == digits.PAUSE)
            assert row.numeral_index[start + marks] == 0
            assert row.numeral_index[start - 1] == -1


def test_subword_baseline_encodes_as_a_plain_tokenizer(vocabulary):
    text = "He paid 1,200 to 3.5 for 50% of 10-20 eggs."
    scheme = subword.Scheme(vocabulary)
    assert scheme.encode(scheme.parse(text)).ids.tolist() == vocabulary.encode(text)
    apart_scheme = subword.Scheme(vocabulary, apart=True)
    segment_ids = [i for s in apart_scheme.parse(text) for i in vocabulary.encode(document.surface_of(s))]
    assert apart_scheme.encode(apart_scheme.parse(text)).ids.tolist() == segment_ids


def test_subword_splits_a_piece_that_holds_two_numbers():
    v = vocab.build({"name": "sentencepiece", "size": 400, "model": "bpe"}, ["10;20"] * 50)
    assert len(v.encode("10;20")) == 1
    row = (scheme := subword.Scheme(v)).encode(scheme.parse("10;20"))
    assert set(row.numeral_index.tolist()) >= {0, 1} and scheme.decode(row.ids) == scheme.parse("10;20")


def test_literal_marks_stay_text(scheme):
    doc = scheme.parse("[CLS] a [NUM] b [F] [/F] [EOS]")
    row = scheme.encode(doc)
    assert (row.ids < scheme.vocab.base).all()
    assert scheme.decode(row.ids, row.numbers) == (Text("[CLS] a [NUM] b [F] [/F] [EOS]"),)


@property_settings
@given(st.data())
def test_decode_takes_any_ids(scheme, data):
    ids = data.draw(st.lists(st.integers(0, scheme.vocab_size - 1) | st.integers(scheme.vocab.base), max_size=12))
    doc = scheme.decode(ids)
    document.surface(doc).encode()
    assert document.merge(doc) == doc


def test_padding_is_left_out_and_never_legal(scheme):
    v = scheme.vocab
    assert scheme.vocab_size % 128 == 0 and 0 <= scheme.vocab_size - v.size < 128
    doc = scheme.parse("a 5")
    row = scheme.encode(doc)
    assert scheme.decode([*row.ids, v.mark("[PAD]"), v.mark("[PAD]")], row.numbers) == doc
    legal = grammar.Automaton(scheme.grammar()).allowed(grammar.Automaton(scheme.grammar()).start())
    assert legal.shape == (scheme.vocab_size,)
    assert not legal[v.size :].any() and not legal[v.mark("[PAD]")] and not legal[v.mark("[CLS]")]
    assert legal[v.mark("[EOS]")] and legal[v.encode("a")[0]]
    assert legal[v.mark("[NUM]")] == isinstance(scheme, replace.Scheme)
    with pytest.raises(DataError):
        scheme.encode((Mark("[PAD]"),))
    with pytest.raises(DataError, match="token 1"):
        scheme.encode((Mark("[EOS]"), Text("a")))


def test_vocabulary_is_padded_to_the_multiple(vocabulary):
    scheme = replace.Scheme(vocabulary, pad_multiple=1000)
    assert scheme.vocab_size % 1000 == 0 and scheme.grammar().class_of.shape == (scheme.vocab_size,)


def test_formulas_are_written_as_their_surface(scheme):
    formula = Formula("x^2 + 1", Tree("O", "SUP"))
    row = scheme.encode((Text("let "), formula))
    assert document.surface(scheme.decode(row.ids, row.numbers)) == "let x^2 + 1"
    assert len(row.starts) == 3


def test_replace_without_numbers_left_keeps_the_mark(vocabulary):
    scheme = replace.Scheme(vocabulary)
    doc = scheme.parse("2 and 3")
    row = scheme.encode(doc)
    assert len(row.ids) == 2 + len(vocabulary.encode(" and "))
    assert scheme.decode(row.ids, row.numbers[:1]) == (doc[0], Text(" and "), Mark("[NUM]"))
    bare = (*doc, Text(" = "), Mark("[NUM]"))
    row = scheme.encode(bare)
    assert scheme.decode(row.ids, row.numbers) == bare
    with pytest.raises(DataError, match=r"\[NUM\]"):
        scheme.encode((Mark("[NUM]"), Text(" "), Number("3", Decimal(3))))


def test_addback_puts_the_mark_behind_the_pieces_of_a_plain_tokenizer(vocabulary):
    scheme, num = addback.Scheme(vocabulary, types=True), vocabulary.mark("[NUM]")
    text = scheme.parse("He paid 1,200 to 3.5 for x5 eggs")
    row = scheme.encode((Mark("[CLS]"), *text, Mark("[SEP]"), *scheme.parse("7"), Mark("[SEP]")), offsets=True)
    parts = [vocabulary.encode(part) for part in ("He paid 1,200", " to 3.5", " for x5", " eggs", "7")]
    expected = [[vocabulary.mark("[CLS]")], parts[0], [num], parts[1], [num], parts[2], [num], parts[3]]
    expected += [[vocabulary.mark("[SEP]")], parts[4], [num], [vocabulary.mark("[SEP]")]]
    assert row.ids.tolist() == [i for part in expected for i in part]
    assert [n.surface for n in row.numbers] == ["1,200", "3.5", "5", "7"]
    assert row.numeral_index[row.ids == num].tolist() == [0, 1, 2, 3] and (row.numeral_index >= 0).sum() == 4
    second = row.channels["types"].tolist().index(1)
    assert row.channels["types"].tolist() == [0] * second + [1] * (len(row.ids) - second)
    assert second == row.ids.tolist().index(vocabulary.mark("[SEP]")) + 1
    # A number's pieces and its mark cover the same characters, and nothing else does.
    surface = document.surface((Mark("[CLS]"), *text, Mark("[SEP]"), Text("7"), Mark("[SEP]")))
    assert row.offsets is not None
    for n, number in enumerate(row.numbers):
        start, end = row.offsets[row.numeral_index == n][0]
        positions = np.flatnonzero((row.offsets == (start, end)).all(axis=1))
        assert surface[start:end] == number.surface and (np.diff(positions) == 1).all()
        assert number.surface in vocabulary.decode(row.ids[positions[:-1]].tolist())
    with pytest.raises(DataError, match=r"\[NUM\]"):
        scheme.encode((Text("a "), Mark("[NUM]")))


@pytest.mark.parametrize("make", [digits.Scheme, SCHEMES["fenced"], limbs.Scheme, subword.Scheme, replace.Scheme])
def test_token_types_tell_what_stands_behind_the_first_separator(vocabulary, make):
    """Also of numbers on both sides, whose tokens are the same, and they change nothing else."""
    scheme, separator = make(vocabulary, types=True), vocabulary.mark("[SEP]")
    parts = ("4 of 1,200.5", "1,200.5 eggs", "7")
    row_document = (Mark("[CLS]"), *(s for part in parts for s in (*scheme.parse(part), Mark("[SEP]"))))
    row = scheme.encode(row_document)
    end = row.ids.tolist().index(separator) + 1
    assert row.channels["types"].tolist() == [0] * end + [1] * (len(row.ids) - end)
    assert row.ids.tolist() == make(vocabulary).encode(row_document).ids.tolist()
    assert scheme.decode(row.ids, row.numbers) == row_document


def test_addback_finds_the_numbers_that_stand_before_its_marks(vocabulary):
    scheme, num = addback.Scheme(vocabulary), vocabulary.mark("[NUM]")
    doc = scheme.parse("2 and 3")
    ids = scheme.encode(doc).ids.tolist()
    assert scheme.decode(ids) == doc
    assert scheme.decode(ids, [Number("9", Decimal(9))]) == doc
    assert scheme.decode([*ids, num]) == (*doc, Mark("[NUM]"))
    assert scheme.decode([*vocabulary.encode("so "), num]) == (Text("so "), Mark("[NUM]"))
    assert grammar.validate(scheme.grammar(), [num]) is not None


@pytest.mark.parametrize("scheme", [addback.Scheme, replace.Scheme])
@settings(property_settings, max_examples=100)
@given(texts | st.lists(st.sampled_from(NUMERALS)).map("Abc".join))
@example("".join(SPECIAL_TEXTS) + " and ".join(NUMERALS))
def test_numbers_in_word_pieces_survive_a_second_encoding(wordpieces, scheme, text):
    scheme, unknown = scheme(wordpieces), wordpieces.tokenizer.token_to_id("[UNK]")
    doc = (Mark("[CLS]"), *scheme.parse(text), Mark("[SEP]"))
    row = scheme.encode(doc)
    decoded = scheme.decode(row.ids, row.numbers)
    assert [s for s in decoded if isinstance(s, Number)] == list(row.numbers)
    # Unknown words become U+FFFD, which BERT's normaliser drops.
    known_ids = [[i for i in ids.tolist() if i != unknown] for ids in (row.ids, scheme.encode(decoded).ids)]
    assert known_ids[0] == known_ids[1]


@pytest.mark.parametrize("layout", ["digits", "agg", "agg_after", "pause"])
@pytest.mark.parametrize("surface", ["1 234.5", "-7", "(3.25%)"])
def test_the_grammar_of_fenced_digits_allows_what_word_pieces_write(wordpieces, layout, surface):
    scheme = digits.Scheme(wordpieces, layout=layout, until="" if layout == "pause" else "[SEP]")
    row = scheme.encode((Mark("[CLS]"), Text("about "), *scheme.parse(surface), Mark("[EOS]")))
    assert grammar.validate(scheme.grammar(), row.ids) is None


@pytest.fixture(scope="module")
def wordpieces():
    return vocab.build({"name": "wordpiece", "size": 300}, CORPUS)


def encode_parts(scheme, *parts):
    v = scheme.vocab
    return [i for p in parts for i in ([v.mark(p)] if p in ("[F]", "[/F]", "[EOS]") else v.encode(p))]


def test_fenced_decode_takes_what_a_model_may_write(vocabulary):
    scheme = digits.Scheme(vocabulary, layout="digits")
    ids = encode_parts(scheme, "a", "[F]", "1", "2", "[/F]", "[/F]", "[F]", "b")
    twelve = Number("12", Decimal(12))
    assert scheme.decode(ids) == (Text("a"), twelve, Mark("[/F]"), Mark("[F]"), Text("b"))
    assert scheme.decode(encode_parts(scheme, "[F]", "x", "[/F]", "y")) == (Text("xy"),)
    assert scheme.decode(encode_parts(scheme, "[F]", "[/F]")) == (Mark("[F]"), Mark("[/F]"))
    number = Number("12", Decimal("12.0"))
    assert scheme.decode(ids, [number])[1].value == Decimal("12.0")
    assert scheme.decode(ids, [Number("13", Decimal(13))])[1] == twelve


@pytest.mark.parametrize("surface", "1 -1 007 1,234.5 50% 1e-300 (1,746) 2. .5 -$5 $-5 2,5,000".split())
def test_number_grammar_takes_numbers(vocabulary, surface):
    scheme = digits.Scheme(vocabulary, layout="digits")
    assert grammar.validate(scheme.grammar(), encode_parts(scheme, "[F]", *surface, "[/F]")) is None


@pytest.mark.parametrize("surface", ["", "-", "1.2.3", "--1", "1-2", ".", "1e", "abc", "1a", "%", "1,,2", "1,"])
def test_number_grammar_refuses_other_texts(vocabulary, surface):
    scheme = digits.Scheme(vocabulary, layout="digits")
    assert grammar.validate(scheme.grammar(), encode_parts(scheme, "[F]", *surface, "[/F]")) is not None


def test_masked_walks_of_the_fenced_scheme_write_numbers_within_the_budget(vocabulary):
    scheme, rng = digits.Scheme(vocabulary, layout="digits"), random.Random(0)
    automaton = grammar.Automaton(scheme.grammar())
    fence, n_numbers = scheme.vocab.mark("[F]"), 0
    for budget in (3, 4, 7, 12) * 5:
        state, ids = automaton.step(automaton.start(), fence), [fence]
        for t in range(1, budget):
            legal = np.flatnonzero(automaton.allowed(state, budget - t))
            if not len(legal):
                break
            ids.append(int(rng.choice(legal)))
            state = automaton.step(state, ids[-1])
        assert grammar.validate(scheme.grammar(), ids) is None
        end = ids.index(scheme.vocab.mark("[/F]"))
        surface = scheme.vocab.decode(ids[1:end])
        assert any(c.isdigit() for c in surface) and surface.count(".") <= 1
        n_numbers += 1
    assert n_numbers == 20


def test_a_number_word_can_be_fenced_when_the_rules_have_words(vocabulary):
    scheme = digits.Scheme(vocabulary, rules="words", layout="digits")
    doc = (Text("about "), Number("twenty-three", Decimal(23)), Text(" or "), Number("2", Decimal(2)))
    row = scheme.encode(doc)
    assert scheme.decode(row.ids, row.numbers) == doc
    with pytest.raises(DataError):
        digits.Scheme(vocabulary, layout="digits").encode(doc)


def test_scheme_marks_are_refused_in_documents_and_unknown_marks_named(vocabulary):
    with pytest.raises(DataError, match=r"\[F\]"):
        digits.Scheme(vocabulary, layout="digits").encode((Mark("[F]"),))
    with pytest.raises(UsageError, match=r"\[FOO\]"):
        subword.Scheme(vocabulary).encode((Mark("[FOO]"),))


def test_invalid_text_never_crashes_a_long_number(vocabulary):
    text = "x " + "7" * 10_000 + "."
    for kind in SCHEMES.values():
        scheme = kind(vocabulary)
        row = scheme.encode(scheme.parse(text))
        assert document.surface(scheme.decode(row.ids, row.numbers)) == text


def test_the_text_modules_do_not_import_jax():
    code = (
        "import sys; import numjax.text.subword, numjax.text.digits, numjax.text.replace, numjax.text.grammar;"
        "assert not {'jax', 'flax'} & set(sys.modules), 'jax was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
