"""Layouts of numbers: published examples, exact round trips, the nearest number that a layout has, and answers."""

from __future__ import annotations

import bisect
import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from numjax.build import find
from numjax.errors import DataError, UsageError
from numjax.numeral import format as formats
from numjax.text import vocab as vocabularies
from numjax.text.grammar import answers
from numjax.types import Mark, Number, Text

EDGES = ["0", "-0", "1", "-1", "9", "99999", "-99999", "10", "1000000", "0.5", "-0.25", "0.0001", "100.001", "7.10"]
# Layout and options → whether surfaces come back from the ids alone.
EXACT = [
    ("reversed", {}, True),
    ("reversed", {"which": "answers"}, True),
    ("reversed", {"places": 3}, True),
    ("header", {}, True),
    ("hints", {}, True),
    ("hints", {"which": "answers"}, True),
    ("hints", {"antialigned": True, "letters": 7}, True),
    ("chunks", {}, True),
    ("chunks", {"direction": "l2r"}, True),
    ("chunks", {"size": 1}, True),
    ("chunks", {"size": 4}, True),
    ("limbs", {}, True),
    ("limbs", {"parts": 1}, True),
    ("limbs", {"size": 1, "parts": 12}, True),
    ("limbs", {"size": 1, "parts": 12, "counted": 5}, True),
    ("limbs", {"size": 1, "parts": 12, "names": 8}, True),
    ("limbs", {"size": 3, "counted": 2, "names": 2}, True),
    ("places", {"fraction": 12}, False),
    ("places", {"fraction": 12, "plus": False}, False),
]
SCIENTIFIC = [
    {},
    {"form": "mantissa", "digits": 2, "least": -4, "most": 4},
    {"form": "signed", "digits": 2, "least": -4, "most": 4, "rounding": "half_up"},
    {"form": "number", "digits": 1, "least": -3, "most": 3},
    {"digits": 2, "least": -4, "most": 3, "exponent": "before", "rounding": "down"},
    {"digits": 4, "base": 2, "least": -6, "most": 5},
    {"digits": 2, "base": 16, "least": -3, "most": 2, "exponent": "before"},
    {"digits": 2, "least": 2, "most": 4, "exponent": "before"},  # no number but 0 has exponent 0
]


FP15 = {"form": "number", "least": -9, "most": 6, "subnormals": True}
SCIENTIFIC.append({"form": "number", "digits": 2, "least": -3, "most": 2, "subnormals": True})


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320}, ["How many grams are 2 eggs? 1,200 or -3.2%."])


def make_scheme(name, vocabulary, **options):
    return find("text", name)(vocabulary, **options)


def spell(scheme, text: str) -> list[str]:
    """The symbols of a text, marks by name."""
    ids = scheme.encode(scheme.parse(text)).ids
    return [scheme.vocab.mark_name(i) or scheme.vocab.decode([i]) for i in ids.tolist()]


def draw_surfaces(rng, count: int) -> list[str]:
    """Returns surfaces of up to 12 digits, some with a sign, a point, leading or trailing zeros."""
    surfaces = []
    for _ in range(count):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 13))))
        at = int(rng.integers(1, len(digits) + 1))
        fraction = f".{digits[at:]}" if digits[at:] and rng.random() < 0.5 else ""
        surfaces.append(("-" if rng.random() < 0.3 else "") + digits[:at] + fraction)
    return surfaces


@pytest.mark.parametrize(
    ("name", "options", "text", "symbols"),
    [
        ("reversed", {}, "321", "[R] 1 2 3 [/R]"),
        ("reversed", {}, "-12.5", "[R] 5 . 2 1 - [/R]"),
        ("reversed", {"which": "answers"}, "321", "[F] 3 2 1 [/F]"),
        # A decimal number begins with the place of its last digit, if there is a mark for it.
        ("reversed", {"places": 3}, "-12.50", "[R] [10^-2] 0 5 . 2 1 - [/R]"),
        ("reversed", {"places": 3}, ".5", "[R] [10^-1] 5 . [/R]"),
        ("reversed", {"places": 3}, "321", "[R] 1 2 3 [/R]"),
        ("reversed", {"places": 3}, "1,200.5", "[R] [10^-1] 5 . 0 0 2 , 1 [/R]"),
        ("reversed", {"places": 3}, "0.1234", "[R] 4 3 2 1 . 0 [/R]"),
        ("reversed", {"places": 3}, "1.5e3", "[R] 3 e 5 . 1 [/R]"),
        ("header", {}, "42", "[F] 2 [:] 4 2 [/F]"),
        ("header", {}, "0.5", "[F] 1 . 1 [:] 0 . 5 [/F]"),
        ("header", {}, "-1,200.50", "[F] 4 . 2 [:] - 1 , 2 0 0 . 5 0 [/F]"),
        ("chunks", {}, "1234567", "1 234 567"),
        ("chunks", {"direction": "l2r"}, "1234567", "123 456 7"),
        ("chunks", {}, "12345.6789", "12 345 . 678 9"),
        ("chunks", {"direction": "l2r"}, "12345.6789", "123 45 . 678 9"),
        ("chunks", {}, "0007", "0 007"),
        ("chunks", {}, "1,200", "1 , 200"),
        ("places", {}, "12.3", "[+] [1e1] [2e0] [.] [3e-1]"),
        ("places", {"plus": False}, "12.3", "[1e1] [2e0] [.] [3e-1]"),
        ("scientific", {}, "3.14159", "[+] 3 1 4 [e-2]"),
        ("scientific", {}, "9.999", "[+] 1 0 0 [e-1]"),
        ("scientific", {}, ".0005", "[+] 5 0 0 [e-6]"),
        ("scientific", {}, "0", "[+] 0 0 0 [e0]"),
        ("scientific", {"form": "mantissa"}, "3.14159", "[+] 314 [e-2]"),
        ("scientific", {"form": "signed"}, "-3.14159", "[-314] [e-2]"),
        ("scientific", {"form": "number", "least": -9, "most": 7}, "3.14159", "[+314e-2]"),
        # Charton's FP15: fewer digits at the least exponent, −9, whose published name is 0.
        ("scientific", FP15, "3.14159", "[+314e-2]"),
        ("scientific", FP15, "1e-9", "[+001e-9]"),
        ("scientific", FP15, "-2.51e-8", "[-025e-9]"),
        ("scientific", FP15, "4.9e-10", "[+000e0]"),
        ("scientific", FP15, "9.97e-8", "[+100e-9]"),
        ("scientific", FP15, "1e9", "[+999e6]"),
        ("scientific", {"form": "number", "least": -9, "most": 7}, "1e-9", "[+000e0]"),
        # xVal's baselines write d.dd and the exponent of the first digit: 1.31e+0, -1.20e-4, 1.00e+1.
        ("scientific", {}, "1.3125619", "[+] 1 3 1 [e-2]"),
        ("scientific", {}, "-.00012", "[-] 1 2 0 [e-6]"),
        ("scientific", {}, "9.9996", "[+] 1 0 0 [e-1]"),
        ("scientific", {}, "3e10", "[+] 3 0 0 [e8]"),
        ("scientific", {}, "2e-8", "[+] 2 0 0 [e-10]"),
        ("scientific", {}, "12", "[+] 1 2 0 [e-1]"),
        # Their vocabulary ends at the exponents -7 and 7 of the first digit: 1e-8 is 0 there, as published.
        ("scientific", {"least": -9, "most": 5}, "1e-8", "[+] 0 0 0 [e0]"),
        ("scientific", {"least": -9, "most": 5}, "2e-8", "[+] 0 0 0 [e0]"),
        ("scientific", {"least": -9, "most": 5}, "3e10", "[+] 9 9 9 [e5]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "123.4", "[+] 1 2 3 4 [e-1]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "-.5", "[-] 5 0 0 0 [e-4]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "3.14159", "[+] 3 1 4 2 [e-3]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "-1234567", "[-] 1 2 3 5 [e3]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "1e20", "[+] 9 9 9 9 [e10]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "1e-7", "[+] 1 0 0 0 [e-10]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "6e-8", "[+] 1 0 0 0 [e-10]"),
        ("scientific", {"digits": 4, "least": -10, "most": 10}, "5e-8", "[+] 0 0 0 0 [e0]"),
        (
            "scientific",
            {"digits": 4, "least": -12, "most": 6, "exponent": "before", "rounding": "down"},
            "3.14159",
            "[+] [e+] 0 3 1 4 1",
        ),
        (
            "scientific",
            {"digits": 4, "least": -12, "most": 6, "exponent": "before", "rounding": "down"},
            "2.9999999",
            "[+] [e+] 0 2 9 9 9",
        ),
    ],
)
def test_published_examples(name, options, text, symbols, vocabulary):
    assert spell(make_scheme(name, vocabulary, **options), text) == symbols.split()


@pytest.mark.parametrize(("name", "options", "keeps_surface"), EXACT)
def test_every_number_comes_back(name, options, keeps_surface, vocabulary, rng):
    scheme = make_scheme(name, vocabulary, **options)
    surfaces = [*EDGES, *draw_surfaces(rng, 1500)]
    if keeps_surface:
        surfaces += ["007", "1,200", "1,234,567.50", "1.5e3", "2E-7", "50%", "+4", ".5"]
    for part in (surfaces[i : i + 25] for i in range(0, len(surfaces), 25)):
        document = (Mark("[CLS]"), *scheme.parse(" and ".join(part)), Mark("[EOS]"))
        features = scheme.encode(document)
        assert scheme.decode(features.ids, features.numbers) == document
        decoded = scheme.decode(features.ids)
        assert decoded == document if keeps_surface else values_of(decoded) == values_of(document)
        assert scheme.decode([*features.ids, scheme.vocab.mark("[PAD]")]) == decoded
        assert all(scheme.nearest(value) == value for value in values_of(document))


@pytest.mark.parametrize(("name", "options"), [(name, options) for name, options, _ in EXACT if name != "limbs"])
def test_symbols_of_a_number_are_marked_as_its_own(name, options, vocabulary):
    scheme, surfaces = make_scheme(name, vocabulary, **options), ["312", "45.75", "208"]
    hints = [i for i in range(scheme.vocab.size) if (scheme.vocab.mark_name(i) or "").startswith("[h")]
    features = scheme.encode(scheme.parse(" and ".join(surfaces)))
    owners = features.numeral_index[features.numeral_index >= 0]
    assert (np.diff(owners) >= 0).all() and set(owners.tolist()) == {0, 1, 2}
    for i, surface in enumerate(surfaces):
        others = [*surfaces[:i], surface.replace("2", "6").replace("7", "6"), *surfaces[i + 1 :]]
        changed = (scheme.encode(scheme.parse(" and ".join(others))).ids != features.ids) & ~np.isin(
            features.ids, hints
        )
        assert changed.any() and set(features.numeral_index[changed].tolist()) == {i}


ANSWERING = [(name, options) for name, options, _ in EXACT if name in ("reversed", "hints", "limbs")]
ANSWERING += [("digits", {"layout": layout}) for layout in ("agg", "pause", "value", "value_after", "value_alone")]
ANSWERING += [("limbs", {"size": 1, "values": True}), ("limbs", {"size": 1, "known": True}), ("carry_save", {})]


@pytest.mark.parametrize("given", ["12 eggs and 7.50 g", "no eggs"])
@pytest.mark.parametrize(("name", "options"), ANSWERING)
def test_a_target_behind_a_source_is_written_as_behind_the_mark(name, options, given, vocabulary):
    """An encoder–decoder writes all of its target, whether or not the source has numbers."""
    scheme = make_scheme(name, vocabulary, **options)
    source, target = scheme.parse(given), scheme.parse("so 12 or 345 and 12.25")
    ids = scheme.encode(target, source=scheme.encode(source)).ids.tolist()
    whole = scheme.encode((*source, Mark("[SEP]"), *target)).ids.tolist()
    assert ids == whole[len(whole) - len(ids) :] and whole[-len(ids) - 1] == scheme.vocab.mark("[SEP]")
    assert not set(scheme.unwritten) & set(ids)


def values_of(document):
    return [segment.value for segment in document if isinstance(segment, Number)]


@pytest.mark.parametrize("options", SCIENTIFIC)
def test_scientific_notation_has_the_nearest_number(options, vocabulary, rng):
    """Compares with a search among all numbers of the layout."""
    scheme = make_scheme("scientific", vocabulary, **options)
    digits, base = scheme.digits, Fraction(scheme.base)
    mantissas = range(scheme.base ** (digits - 1), scheme.base**digits)
    exponents = range(scheme.least, scheme.most + 1)
    smaller = range(mantissas[0] if scheme.subnormals else 0)
    sizes = {m * base**e for m in mantissas for e in exponents} | {m * base**scheme.least for m in smaller}
    sizes = sorted({Fraction(0), *sizes})
    drawn = [Decimal(f"{rng.uniform(-10, 10):.6f}e{rng.integers(-16, 16)}") for _ in range(300)]
    halves = [(a + b) / 2 for a, b in itertools.pairwise(sizes[:60])]
    values = [*map(Decimal, EDGES), *drawn, *(to_exact_decimal(x) for x in halves), Decimal("1e999999")]
    for value in values:
        nearest = scheme.nearest(value)
        size, result = min(abs(Fraction(value)), sizes[-1]) if value < 10**20 else sizes[-1], abs(Fraction(nearest))
        assert sizes[bisect.bisect_left(sizes, result)] == result and nearest.is_signed() == value.is_signed()
        above = bisect.bisect_right(sizes, size)
        if scheme.rounding == "down":
            assert result == sizes[above - 1]
        else:
            neighbours = sizes[above - 1 : above + 1]
            best = min(abs(x - size) for x in neighbours)
            candidates = [x for x in neighbours if abs(x - size) == best]
            assert result in candidates
            if scheme.rounding == "half_up":
                assert result == max(candidates)
        assert scheme.nearest(nearest) == nearest


def to_exact_decimal(x: Fraction) -> Decimal:
    places = next(n for n in range(200) if (x * 10**n).denominator == 1)
    return Decimal(f"{(x * 10**places).numerator}e-{places}")


def test_ties_of_scientific_notation_go_to_even_digits(vocabulary):
    scheme = make_scheme("scientific", vocabulary, digits=2)
    pairs = {"125": "120", "135": "140", "9.95": "10", "-0.00125": "-0.0012"}
    assert {value: formats.format(scheme.nearest(Decimal(value))) for value in pairs} == pairs


# A header may disagree with its number, which is then no number, and any letter may be a hint: see below.
ANSWERS = [(name, options) for name, options, _ in EXACT if name not in ("header", "hints")]
ANSWERS += [("scientific", options) for options in SCIENTIFIC]


@pytest.mark.parametrize(("name", "options"), ANSWERS)
def test_the_grammar_of_answers_has_one_text_for_each_number(name, options, vocabulary, rng):
    """What the grammar lets a model write is what `encode` writes for the number that it is read as."""
    scheme = make_scheme(name, vocabulary, **options).answering("number")
    prompt = scheme.encode((Mark("[CLS]"), *scheme.parse("What is 12 and 7? A:"))).ids
    grammar, automaton = scheme.grammar(), scheme.automaton()
    start, end = int(grammar.answer), scheme.vocab.mark("[EOS]")
    for _ in range(60):
        answer = walk(grammar, start, end, rng)
        document = scheme.decode([*prompt, *answer])
        *_, blank, number, mark = document
        assert isinstance(number, Number) and mark == Mark("[EOS]") and blank.text.endswith(" ")
        again = make_scheme(name, vocabulary, **options).encode((Text(" "), number, Mark("[EOS]"))).ids
        names = {
            scheme.vocab.mark(mark): -1 for mark in scheme.vocab.marks if mark.startswith("[@")
        }  # any is allowed
        if options.get("which") != "answers":  # these are forwards without the mark before answers
            assert [names.get(i, i) for i in again.tolist()] == [names.get(i, i) for i in answer]
    assert automaton.run(prompt).error is None


def walk(grammar, state: int, end: int, rng) -> list[int]:
    """Returns ids that the grammar accepts from `state`, drawn at random, at most about 15 of them."""
    ids: list[int] = []
    while not ids or ids[-1] != end:
        token_ids = np.flatnonzero(grammar.next_state[state][grammar.class_of] >= 0)
        classes = np.unique(grammar.class_of[token_ids])
        if len(ids) > 14 and end in token_ids:
            ids.append(end)
            break
        chosen = int(rng.choice(classes))
        ids.append(int(rng.choice(token_ids[grammar.class_of[token_ids] == chosen])))
        state = int(grammar.next_state[state, chosen])
    return ids


def test_reversed_moves_accept_the_mirrored_texts(rng):
    numbers = answers.number_moves()
    moves, ends = answers.reverse(numbers, answers.complete_states())
    texts = {"".join(rng.choice(list("-0123.9"), rng.integers(1, 7))) for _ in range(3000)}
    accepted = {text for text in texts if accepts(numbers, answers.complete_states(), text)}
    assert accepted == {text for text in texts if accepts(moves, ends, text[::-1])} and len(accepted) > 200


def test_counted_moves_accept_what_has_its_place(rng):
    moves, ends = answers.reverse(answers.number_moves(), answers.complete_states())
    counted, complete, firsts = answers.count_places(moves, ends, 3)
    assert len(firsts) == 4
    texts = {"".join(rng.choice(list("-0123.9"), rng.integers(1, 8))) for _ in range(4000)}
    texts = {text for text in texts if accepts(moves, ends, text)}
    seen = []
    for text in texts:
        _, point, digits = text[::-1].partition(".")
        place = len(digits) if point and len(digits) <= 3 else 0
        seen.append(place)
        assert [accepts(counted, complete, text, first) for first in firsts] == [k == place for k in range(4)]
    assert set(seen) == {0, 1, 2, 3} and any(len(t.partition(".")[0]) > 3 for t in texts if "." in t)


def accepts(moves, complete, text: str, state: str = "") -> bool:
    state = state or next(iter(moves))
    for character in text:
        state = next((to for kind, to in moves.get(state, {}).items() if character in kind), "")
    return state in complete


def test_characters_that_a_vocabulary_lacks_are_passed_over():
    moves = {"start": {"a b": "middle"}, "middle": {"c": "end"}}
    edges = answers.spelling_edges(moves, lambda character: {"a": [1], "b": [2, 3], "c": [4]}.get(character, []))
    texts = {(edge.state, *edge.tokens): edge.to for edge in edges}
    between = texts["start", 2]
    assert texts == {("start", 1): "middle", ("start", 2): between, (between, 3): "middle", ("middle", 4): "end"}


def test_only_answers_are_reversed_behind_their_mark(vocabulary):
    scheme = make_scheme("reversed", vocabulary, which="answers")
    document = (Mark("[CLS]"), *scheme.parse("12 + 30 ="), Mark("[SEP]"), *scheme.parse("42"), Mark("[EOS]"))
    features = scheme.encode(document)
    names = [scheme.vocab.mark_name(i) or scheme.vocab.decode([i]) for i in features.ids.tolist()]
    assert names[-5:-1] == ["[R]", "2", "4", "[/R]"] and names[1:5] == ["[F]", "1", "2", "[/F]"]
    assert scheme.decode(features.ids) == document


@pytest.mark.parametrize(
    ("symbols", "is_number"),
    [
        ("[R] [10^-2] 5 3 . 1 [/R]", True),
        ("[R] [10^-1] 5 3 . 1 [/R]", False),
        ("[R] 5 3 . 1 [/R]", False),
        ("[R] [10^-2] 5 3 [/R]", False),
        ("[R] [10^-2] 5 3 . [/R]", True),
        ("[R] 5 3 . [/R]", False),
        ("[R] 5 4 3 2 . 1 [/R]", True),
    ],
)
def test_a_wrong_place_is_no_number(symbols, is_number, vocabulary):
    scheme = make_scheme("reversed", vocabulary, places=3)
    marks = {name: scheme.vocab.mark(name) for name in scheme.marks}
    ids = [marks[name] if name in marks else scheme.vocab.encode(name)[0] for name in symbols.split()]
    assert bool(values_of(scheme.decode(ids))) == is_number


def test_fp15_has_its_published_number_of_symbols(vocabulary):
    """29,001 in all: here 0 has two, since −0 keeps its sign, and there is none for unknown numbers."""
    assert len(make_scheme("scientific", vocabulary, **FP15).marks) == 2 * (900 * 16 + 99) + 2 == 29_000


def test_a_wrong_count_is_no_number(vocabulary):
    scheme = make_scheme("header", vocabulary)
    ids = scheme.encode(scheme.parse("421")).ids.copy()
    at = spell(scheme, "421").index("3")
    ids[at] = scheme.vocab.encode("4")[0]
    assert not values_of(scheme.decode(ids))


def test_long_numbers_keep_their_digits(vocabulary):
    """Decimal's own arithmetic would round to 28 digits."""
    scheme = make_scheme("places", vocabulary, integer=60)
    value = Decimal("-" + "123456789" * 6)
    assert scheme.nearest(value) == value


@pytest.mark.parametrize("name", ["digits", "reversed", "header", "chunks", "hints"])
def test_numbers_in_words_keep_their_letters(name, vocabulary):
    options = {"layout": "digits"} if name == "digits" else {}
    scheme = make_scheme(name, vocabulary, rules="words", **options)
    document = (Mark("[CLS]"), *scheme.parse("twelve eggs and 1,200 grams, or twenty-one"), Mark("[EOS]"))
    assert values_of(document) == [12, 1200, 21]
    features = scheme.encode(document)
    assert scheme.decode(features.ids, features.numbers) == document == scheme.decode(features.ids)


def test_numbers_without_room_for_their_digits_are_refused(vocabulary):
    scheme = make_scheme("places", vocabulary, integer=3, fraction=2)
    for text in ("1234", "0.125", "1e30", "-4e-9"):
        with pytest.raises(DataError, match="more than 3 digits before the point or 2 behind it"):
            scheme.encode(scheme.parse(text))
    bare = make_scheme("places", vocabulary, plus=False)
    with pytest.raises(DataError, match=r"side by side: set scheme\.plus=True"):
        bare.encode((Number("12", Decimal(12)), Number("5", Decimal(5))))
    signed = make_scheme("places", vocabulary)
    pair = (Number("12", Decimal(12)), Number("5", Decimal(5)))
    assert values_of(signed.decode(signed.encode(pair).ids)) == [12, 5]


def test_scientific_notation_of_more_digits_than_python_writes(vocabulary):
    scheme = make_scheme("scientific", vocabulary, most=6000)
    for text in ("1e5000", "-1.2345e5000", "-0", "-1e-5"):
        value = scheme.nearest(Decimal(text))
        assert value == Decimal(text.replace("2345", "23")) and value.is_signed() == Decimal(text).is_signed()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("hints", {"letters": 1}, "letters must be from 2 to 10,000"),
        ("hints", {"which": "some"}, "which must be one of all, answers"),
        ("chunks", {"size": 5}, "size must be from 1 to 4"),
        ("chunks", {"direction": "left"}, "direction must be one of r2l, l2r"),
        ("reversed", {"which": "some"}, "which must be one of all, answers"),
        ("reversed", {"places": -1}, "places must lie between 0 and 100"),
        ("slots", {"digits": 0}, "must be at least 1, and their product at most 2000"),
        ("scientific", {"subnormals": True}, "set form=number"),
        ("places", {"integer": 0}, "integer must be at least 1"),
        ("scientific", {"form": "x"}, "form must be one of"),
        ("scientific", {"base": 7}, "base must be 2, 4, 5"),
        ("scientific", {"base": 2, "form": "signed"}, "set base=10 or form=digits"),
        ("scientific", {"least": 3, "most": 2}, "least not above most"),
        ("scientific", {"form": "number", "digits": 5}, "symbols: take fewer digits"),
        ("scientific", {"least": -700_000, "most": 700_000}, "symbols: take fewer digits or exponents"),
        ("scientific", {"digits": 4001}, "4001 digits are more than 4,000 decimal ones"),
        ("scientific", {"digits": 10**9}, "digits are more than 4,000 decimal ones"),
        ("scientific", {"form": "signed", "exponent": "before"}, "set form=digits"),
    ],
)
def test_bad_options_are_one_line(name, options, says, vocabulary):
    with pytest.raises(UsageError, match=says):
        make_scheme(name, vocabulary, **options)


def test_symbols_know_their_values(vocabulary):
    scheme = make_scheme("places", vocabulary, integer=3, fraction=1)
    values, digits = scheme.vocab.number_values, scheme.vocab.digit_values
    ids = [scheme.vocab.mark(name) for name in ("[3e1]", "[3e0]", "[3e-1]", "[0e1]")]
    assert values[ids].tolist() == [30, 3, 0.3, 0] and digits[ids].tolist() == [3, 3, 3, 0]
    signed = make_scheme("scientific", vocabulary, form="signed").vocab
    assert signed.number_values[signed.mark("[-314]")] == -314


def test_chunks_need_all_runs_of_digits(vocabulary):
    """0 … 9, 00 … 99 and 000 … 999: 1110 symbols, without which leading zeros are lost."""
    assert len(make_scheme("chunks", vocabulary).marks) == 1110
    for text, symbols in {"0": "0", "00": "00", "007": "007", "1.0005": "1 . 000 5"}.items():
        assert spell(make_scheme("chunks", vocabulary), text) == symbols.split()


@pytest.mark.parametrize("direction", ["r2l", "l2r"])
def test_chunks_stay_apart_where_blanks_are_dropped(direction, rng):
    words = vocabularies.build({"name": "wordpiece", "size": 320}, ["How many grams are 2 eggs? 1,200 or -3.2%."])
    scheme = make_scheme("chunks", words, direction=direction)
    for surfaces in (["2e-7", "3e-10", *draw_surfaces(rng, 20)] for _ in range(40)):
        features = scheme.encode((Mark("[CLS]"), *scheme.parse(" ".join([*surfaces, "eggs", "7"])), Mark("[EOS]")))
        assert values_of(scheme.decode(features.ids)) == [*map(Decimal, surfaces), 7]
    full, short = (scheme.vocab.mark(name) for name in ("234", "1"))
    inside = [scheme.vocab.mark("[F]"), full, short, short, scheme.vocab.mark("[/F]")]
    assert scheme.automaton().run(inside).error is not None, "only one group of a run is short"
    assert scheme.automaton().run([full]).error is not None, "a number stands between its fences"


def list_hints(scheme, text: str) -> list[tuple[str, int]]:
    """(digit, index of the letter before it) for each digit of the numbers of a text, in the order of its tokens."""
    question, _, answer = text.partition("=")
    row = (Mark("[CLS]"), *scheme.parse(f"{question}="), Mark("[SEP]"), *scheme.parse(answer), Mark("[EOS]"))
    names = spell_row(scheme, row)
    pairs = itertools.pairwise(names)
    return [(digit, int(hint.strip("[h]"))) for hint, digit in pairs if hint.startswith("[h")]


def test_digits_of_a_place_have_one_letter(vocabulary):
    """The published example is a5b3+a2b1= with letters from a random one on."""
    scheme = make_scheme("hints", vocabulary, which="answers")
    (_, a), (_, b), *rest = list_hints(scheme, "53+21=74")
    assert (b - a) % 102 == 1 and rest == [("2", a), ("1", b), ("4", b), ("7", a)]
    source = scheme.encode(scheme.parse("53 + 21"))
    target = scheme.encode(scheme.parse("5"), source=source).ids.tolist()
    assert scheme.vocab.mark(f"[h{b}]") in target, "an answer has the letters of the encoder's input"
    published = make_scheme("hints", vocabulary, which="answers", antialigned=True)
    assert list_hints(published, "53+21=74") == [("5", a), ("3", b), ("2", a), ("1", b), ("4", a), ("7", b)]


@pytest.mark.parametrize("options", [{}, {"which": "answers"}, {"letters": 11}])
def test_hints_are_the_places_of_digits(options, vocabulary, rng):
    """Compares with the places of each surface's value; a row has one letter for each place."""
    scheme = make_scheme("hints", vocabulary, **options)
    starts, is_all = set(), "which" not in options
    for _ in range(300):
        surfaces = draw_surfaces(rng, 3)
        places = []
        for surface, is_reversed in zip(surfaces, (is_all, is_all, True), strict=True):
            whole, _, fraction = surface.lstrip("-").partition(".")
            forward = [*range(len(whole) - 1, -1, -1), *range(-1, -len(fraction) - 1, -1)]
            places += forward[::-1] if is_reversed else forward
        hints = [hint for _, hint in list_hints(scheme, f"{surfaces[0]} and {surfaces[1]} = {surfaces[2]}")]
        assert len({(hint + place) % scheme.letters for hint, place in zip(hints, places, strict=True)}) == 1
        starts.add((hints[0] + places[0]) % scheme.letters)
    assert len(starts) > 0.8 * scheme.letters, "rows begin at any letter"


def test_hints_do_not_change_what_is_written(vocabulary, rng):
    """Without its letters an answer is that of the layout without hints, whichever letters the model chose."""
    plain, scheme = (make_scheme(name, vocabulary, which="answers") for name in ("reversed", "hints"))
    answering = scheme.answering("number")
    grammar, end = answering.grammar(), scheme.vocab.mark("[EOS]")
    prompt = scheme.encode((Mark("[CLS]"), *scheme.parse("12 + 7 ="), Mark("[SEP]"))).ids.tolist()
    n_letters = 0
    for _ in range(60):
        answer = walk(grammar, int(grammar.answer), end, rng)
        names = [scheme.vocab.mark_name(i) or scheme.vocab.decode([i]) for i in answer]
        digits = [name for name in names if not name.startswith("[h")]
        hinted = [digit for hint, digit in itertools.pairwise(names) if hint.startswith("[h")]
        assert hinted == [name for name in names if name.isdigit()], "each digit has a letter"
        *_, number, mark = scheme.decode([*prompt, *answer])
        assert isinstance(number, Number) and mark == Mark("[EOS]")
        row = (Mark("[SEP]"), Text(" "), number, Mark("[EOS]"))
        assert spell_row(plain, row)[1:] == digits
        n_letters += len(set(names) - set(digits))
    assert n_letters > 100


def spell_row(scheme, document) -> list[str]:
    return [scheme.vocab.mark_name(i) or scheme.vocab.decode([i]) for i in scheme.encode(document).ids.tolist()]


def test_hints_need_digits_that_are_tokens(vocabulary, monkeypatch):
    encode = vocabulary.encode
    monkeypatch.setattr(vocabulary, "encode", lambda text: encode("six" if text == "6" else text))
    with pytest.raises(UsageError, match="each digit must be one token"):
        make_scheme("hints", vocabulary, letters=3)
