"""Limbs of three digits: every surface comes back, numbers are aligned at the point, and a limb is three digits."""

from __future__ import annotations

import itertools
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.embed import limbs as embed
from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from numjax.positions import limbs as positions
from numjax.protocols import Stack
from numjax.text import limbs, vocab
from numjax.types import Mark, Number, Text, Tokens
from tests import drawn

TEXTS = ["7 + 12 = 19", "costs 1,200.50 or 0.5", "a b c ( ) e E + - . ,"] * 5


@pytest.fixture(scope="module")
def vocabulary():
    return vocab.build({"name": "sentencepiece", "size": 300, "split_digits": True}, TEXTS, ("[CLS]", "[SEP]"))


def make_scheme(vocabulary, **options):
    return build("text", {"name": "limbs", **options}, vocab=vocabulary)


@pytest.mark.parametrize(
    ("surface", "names"),
    [
        ("-1,234.5", "[#-1,] [.5] [:234] [:1]"),
        ("0", "[#] [:0]"),
        ("007", "[#] [:007]"),
        ("1.000", "[#1] [:000] [:1]"),
        ("+12345.6789", "[#+2] [.9] [:678] [:345] [:12]"),
        (".05", "[#1] [.05]"),
        ("1000000", "[#] [:000] [:000] [:1]"),
    ],
)
def test_numbers_are_these_limbs(surface, names):
    assert limbs.write_limbs(surface, 4) == tuple(names.split())
    assert limbs.read_limbs(names.split()) == surface
    assert limbs.read_limbs(names.replace("#", "=").split()) == surface


@pytest.mark.parametrize(
    ("surface", "names"),
    [
        ("-1,234.5", "[#-1,] [:5] [:4] [:3] [:2] [:1]"),
        ("0", "[#] [:0]"),
        ("007", "[#] [:7] [:0] [:0]"),
        ("1.000", "[#3] [:0] [:0] [:0] [:1]"),
        (".05", "[#2] [:5] [:0]"),
    ],
)
def test_with_size_1_each_digit_is_a_limb(surface, names):
    assert limbs.write_limbs(surface, 4, size=1) == tuple(names.split())
    assert limbs.read_limbs(names.split(), size=1) == surface
    assert limbs.read_limbs([*names.split()[:1], "[:1]", "[:12]"], size=1) is None


@pytest.mark.parametrize("size", limbs.SIZES)
def test_the_automata_take_what_is_read_and_no_more(size, rng):
    """Over all strings of up to four limbs of a small alphabet, behind each header."""
    parts, kinds = 2, limbs.list_limbs(size)
    names = ["[:0]", "[:1]"] if size == 1 else ["[:000]", "[:100]", "[:012]", "[:0]", "[:12]", "[.5]", "[.00]"]
    n_read = 0
    for (moves, complete), is_answer in (
        (limbs.make_moves(parts, kinds), False),
        (limbs.make_answer_moves(parts, kinds), True),
    ):
        next_states = {s: {name: to for names_, to in row.items() for name in names_} for s, row in moves.items()}
        for header in ("[#]", "[#1]", "[#2]", *["[#,]", "[#1,]"] * (not is_answer)):
            for count in range(1, 6 if size == 1 else 5):
                for written in itertools.product(names, repeat=count):
                    state = limbs.begin_state(header)
                    for name in written:
                        state = next_states.get(state, {}).get(name, "refused")
                    surface = limbs.read_limbs([header, *written], size)
                    is_number = surface is not None
                    if is_answer and surface is not None:
                        whole = surface.partition(".")[0]
                        is_number = bool(whole) and (whole == "0" or whole[0] != "0")
                    assert (state in complete) == is_number, (header, written, state)
                    n_read += is_number
    assert n_read > 50


@pytest.mark.parametrize(
    "surface", ["1e5", "(12)", "12%", "5.", "1,23", "12,34,567", "0.1234567890123", "", "-", "."]
)
def test_other_forms_have_no_limbs(surface):
    assert limbs.write_limbs(surface, 4) is None


@pytest.mark.parametrize(
    "names",
    ["[#]", "[#1] [:1]" + " [:1]", "[#,] [:234]", "[#] [:1] [:234]", "[#2] [.5]", "[#] [.5]", "[#] [:12] [:3]"],
)
def test_limbs_that_are_no_number_are_not_read(names):
    assert limbs.read_limbs(names.split()) is None


def draw_surface(rng) -> str:
    """Draws a plain or grouped surface, also with zeros at its ends."""
    whole = "".join(map(str, rng.integers(0, 10, rng.integers(0, 14))))
    part = "".join(map(str, rng.integers(0, 10, rng.integers(0, 13))))
    if rng.random() < 0.3 and whole and whole[0] != "0":
        whole = f"{int(whole):,}"
    sign = str(rng.choice(["", "", "-", "+"]))
    return f"{sign}{whole}{'.' * bool(part)}{part}" if whole or part else "0"


def test_every_surface_comes_back_from_its_ids(vocabulary, rng):
    for options in (
        *(dict(values=True), dict(), dict(values=True, parts=1), dict(size=1), dict(size=1, parts=12)),
        *(dict(counted=2), dict(size=1, parts=12, counted=5), dict(size=1, values=True, counted=20)),
        *(dict(names=1), dict(size=1, parts=12, names=8), dict(size=1, values=True, counted=3, names=3)),
    ):
        scheme = make_scheme(vocabulary, **options)
        surfaces = [draw_surface(rng) for _ in range(200)]
        segments = [s for text in surfaces for s in (Number(text, Decimal(text.replace(",", ""))), Text(" a "))]
        document = (Mark("[CLS]"), *segments, Mark("[SEP]"), *segments)
        row = scheme.encode(document)
        assert scheme.decode(row.ids) == document
        for surface in surfaces:
            size = scheme.limbs.size
            names = limbs.write_limbs(surface, scheme.parts, size)
            # One more limb on each side of the point at most.
            n_most = sum(c.isdigit() for c in surface) / size + (3 if size > 1 else 1)  # without a name or a count
            assert names is None or len(names) <= n_most


def test_a_short_number_says_first_how_many_limbs_it_has_before_the_point(vocabulary):
    scheme = make_scheme(vocabulary, size=1, parts=12, counted=5)

    def name(*surfaces):
        document = tuple(Number(surface, Decimal(surface.replace(",", ""))) for surface in surfaces)
        row = scheme.encode(document)
        assert (row.numeral_index == -1).all()
        return [scheme.vocab.mark_name(token) for token in row.ids.tolist()]

    assert name("42", "-.5") == ["[|2]", "[#]", "[:2]", "[:4]", "[|0]", "[#-1]", "[:5]"]
    assert name("12345.6")[:2] == ["[|5]", "[#1]"] and name("1,234")[:2] == ["[|4]", "[#,]"]
    assert name("123456")[:2] == ["[#]", "[:6]"], "a longer number has no count"

    def read(text):
        return scheme.decode([scheme.vocab.mark(name) for name in text.split()])

    assert read("[|2] [#] [:2] [:4]") == (Number("42", Decimal(42)),)
    for wrong in ("[|4] [#] [:2] [:4]", "[#] [:2] [:4]", "[|2] [#1] [:2]", "[|2]", "[|1] [|2]", "[|2] [:2] [:4]"):
        assert read(wrong) == tuple(map(Mark, wrong.split())), wrong
    assert not [mark for mark in make_scheme(vocabulary, size=1).vocab.marks if mark.startswith("[|")]


def list_names(scheme, document, source=None) -> list[str]:
    row = scheme.encode(document, source=source)
    return [scheme.vocab.mark_name(token) or "" for token in row.ids.tolist()]


def test_a_number_that_repeats_another_has_its_name(vocabulary):
    scheme = make_scheme(vocabulary, size=1, parts=12, names=2, counted=1)
    numbers = {text: Number(text, Decimal(text)) for text in ("12", "7", ".5", "7.0", "123")}
    names = list_names(scheme, tuple(numbers[text] for text in ("12", "7", "7.0", "12", "7", "123", "7.0", "12")))
    assert " ".join(names) == (
        "[@1] [#] [:2] [:1] [|1] [#] [:7] [@2] [|1] [#1] [:0] [:7] [@1] [#] [:2] [:1] [|1] [#] [:7] "
        # The first name is taken again, and 12 is new.
        "[@1] [#] [:3] [:2] [:1] [@2] [|1] [#1] [:0] [:7] [@2] [#] [:2] [:1]"
    )
    assert "[@1]" not in list_names(scheme, (numbers[".5"],)), "one limb has no name"
    # What is written behind a source goes on with its names.
    source = scheme.encode((numbers["123"], numbers["12"]))
    assert list_names(scheme, (numbers["12"], numbers["7.0"]), source)[::4][:2] == ["[@2]", "[@1]"]
    assert not [mark for mark in make_scheme(vocabulary).vocab.marks if mark.startswith("[@")]


def test_names_of_random_numbers_are_those_of_the_last_new_ones(vocabulary, rng):
    scheme = make_scheme(vocabulary, size=3, names=3)
    surfaces = [f"{1000 + i}" for i in rng.integers(0, 6, 60)]
    written = [n for n in list_names(scheme, tuple(Number(s, Decimal(s)) for s in surfaces)) if n.startswith("[@")]
    new: list[str] = []  # the numbers that took a name, the latest last
    for surface, name in zip(surfaces, written, strict=True):
        if surface not in new[-3:]:
            new.append(surface)
        index = len(new) - 1 - new[::-1].index(surface)
        assert name == f"[@{index % 3 + 1}]"
    assert 6 < len(new) < 60


def test_the_digits_behind_a_name_are_the_number(vocabulary):
    scheme = make_scheme(vocabulary, size=1, names=2, counted=2)

    def read(text):
        ids = [scheme.vocab.mark(name) for name in text.split()]
        return scheme.decode(ids), scheme.automaton().run(ids).error

    for text in ("[@1] [|2] [#] [:2] [:4]", "[@2] [|2] [#] [:2] [:4]"):
        assert read(text) == ((Number("42", Decimal(42)),), None)
    for wrong in (
        *("[@1]", "[@1] [@2]", "[|2] [@1] [#] [:2] [:4]", "[@1] [:2]", "[@1] [#] [:2] [:4]", "[@1] [|2]"),
        *("[|2] [#] [:2] [:4]", "[|2] [#] [:3] [:2] [:4]"),
    ):
        document, error = read(wrong)
        assert document == tuple(map(Mark, wrong.split())) and error, wrong
    document, error = read("[@1] [|1] [#] [:2]")
    assert document == (Mark("[@1]"), Number("2", Decimal(2))) and error, "one limb has no name"


@pytest.mark.parametrize("size", limbs.SIZES)
@pytest.mark.parametrize("form", ["written", "answer"])
def test_the_automata_keep_to_the_count(size, form):
    """Over all strings of up to five limbs of a small alphabet, behind each header and each count."""
    parts, counted, kinds = 2, 3, limbs.list_limbs(size)
    plain, complete = (limbs.make_moves if form == "written" else limbs.make_answer_moves)(parts, kinds)
    moves, ends = limbs.count_down(plain, complete, counted)
    names = ["[:0]", "[:1]"] if size == 1 else ["[:000]", "[:100]", "[:12]", "[.5]"]

    def accepts(moves, ends, state, written):
        for name in written:
            state = next((to for names, to in moves.get(state, {}).items() if name in names), "refused")
        return state in ends

    n_taken = 0
    for header in ("[#]", "[#1]", "[#2]", "[#,]"):
        begin, behind = limbs.begin_state(header), int(header.strip("[#,]") or 0)
        for n_limbs in range(1, 8 if size == 1 else 6):
            for written in itertools.product(names, repeat=n_limbs):
                is_number = accepts(plain, complete, begin, written)
                n_whole = n_limbs - behind
                for count in range(counted + 1):
                    taken = accepts(moves, ends, f"{begin}, {count} left", written)
                    assert taken == (is_number and n_whole == count), (header, written, count)
                taken = accepts(moves, ends, f"{begin}, over {counted}", written)
                assert taken == (is_number and n_whole > counted), (header, written)
                n_taken += is_number
    assert n_taken > 50
    reached = {to for row in moves.values() for to in row.values()}
    assert reached <= moves.keys() | set(ends), "no state is without a way to an end"


def test_given_numbers_have_values_and_written_ones_have_none(vocabulary):
    """So no value stands in the text before the digits of an answer."""
    scheme = make_scheme(vocabulary, values=True)
    number = Number("1234", Decimal(1234))
    row = scheme.encode((Mark("[CLS]"), number, Mark("[SEP]"), number))
    names = [scheme.vocab.mark_name(token) for token in row.ids.tolist()]
    assert names == ["[CLS]", "[=]", "[:234]", "[:1]", "[SEP]", "[#]", "[:234]", "[:1]"]
    assert row.numeral_index.tolist() == [-1, 0, -1, -1, -1, -1, -1, -1]
    assert scheme.unwritten.keys() == {scheme.vocab.mark(n) for n in scheme.vocab.marks if n.startswith("[=")}
    spelled = Number("1e5", Decimal(100_000))
    row = scheme.encode((spelled, Mark("[SEP]"), spelled))
    assert (row.numeral_index == -1).all(), "an answer that limbs do not write has no value either"
    silent = make_scheme(vocabulary)
    row = silent.encode((number, Mark("[SEP]"), number))
    assert (row.numeral_index == -1).all() and row.ids[0] == row.ids[4]


def test_a_bias_knows_only_how_far_powers_are_apart():
    part = build(
        "positions", dict(name="limbs_bias", span=1, numbers=2, gain=2.0), stack=Stack(8, 2, 4, max_length=8)
    )
    channel = np.asarray([[0, 0], [5, 1], [4, 1], [9, 3], [3, 2]], np.int32)[None]
    tokens = Tokens(*(np.zeros((1, 5), np.int32) for _ in range(3)), channels={"limb_power": channel})
    params = part.init(jax.random.key(0), tokens, method="added")["params"]
    table = jnp.broadcast_to(jnp.arange(4.0)[:, None], params["distances"].shape)  # −1, 0, 1 and others
    params = dict(params) | {"distances": table}
    index = part.apply({"params": params}, tokens, method="bias_index")
    bias = np.asarray(part.apply({"params": params}, index, index, method="bias"))
    for q, k in itertools.product(range(5), repeat=2):
        powers = channel[0, [q, k], 0]
        expected = min(max(powers[1] - powers[0], -1), 1) + 1 if powers.all() else 3
        assert (bias[0, :, q, k] == 2 * expected).all()
    added = np.asarray(part.apply({"params": params}, tokens, method="added"))[0]
    np.testing.assert_array_equal(added[1:], np.asarray(params["levels"])[[0, 0, 1, 1]])
    assert not added[0].any()
    with pytest.raises(UsageError, match="limbs_bias: span must be at least 1"):
        part.clone(span=0).init(jax.random.key(0), tokens, method="added")
    with pytest.raises(UsageError, match="limbs_bias: numbers must not be negative"):
        part.clone(numbers=-1).init(jax.random.key(0), tokens, method="added")


def make_producer(scheme, ahead: bool):
    marks = tuple((name, scheme.vocab.mark(name)) for name in scheme.vocab.marks)
    part = build("positions", dict(name="limbs", ahead=ahead), stack=drawn.CONTEXT.get("stack"), marks=marks)
    (producer,) = part.producers()
    return producer


@pytest.mark.parametrize(("ahead", "size"), [(False, 3), (True, 3), (True, 1)])
def test_powers_are_those_of_1000_and_the_decoder_counts_as_the_host_does(ahead, size, vocabulary, rng):
    scheme = make_scheme(vocabulary, values=True, size=size)
    producer = make_producer(scheme, ahead)
    surfaces = [draw_surface(rng) for _ in range(30)]
    segments = [s for text in surfaces for s in (Number(text, Decimal(text.replace(",", ""))), Text(" a "))]
    ids = scheme.encode((*segments, Mark("[SEP]"), *segments)).ids
    values = producer.compute(ids)
    state, stepped = producer.begin(1), []
    for token in ids:
        state, value = producer.step(state, jnp.asarray([token]), None)
        stepped.append(value[0].tolist())
    assert stepped == values.tolist()
    own, end = make_producer(scheme, False).compute(ids), int(np.flatnonzero(ids == scheme.vocab.mark("[SEP]"))[0])
    np.testing.assert_array_equal(values[:end], own[:end])  # given headers tell no power
    if ahead:
        # What is written has the power of the limb behind it.
        is_limb = own[end + 1 :, 0] > 0
        np.testing.assert_array_equal(values[end:-1, 0][is_limb], own[end + 1 :, 0][is_limb])
    producer = make_producer(scheme, False)
    # The sum of all limbs by their powers is the number.
    for surface in surfaces:
        row = scheme.encode((Number(surface, Decimal(surface.replace(",", ""))),)).ids
        names = [scheme.vocab.mark_name(token) for token in row.tolist()]
        if limbs.write_limbs(surface, scheme.parts, size) is None:
            assert not producer.compute(row).any()
            continue
        total = Decimal(0)
        for name, (power, number) in zip(names, producer.compute(row).tolist(), strict=True):
            assert number == (power > 0)
            if power:
                digits = name[2:-1] if name[1] == ":" else name[2:-1].ljust(size, "0")
                total += int(digits) * Decimal(10**size) ** (power - 1 - producer.parts)
        assert total == abs(Decimal(surface.replace(",", "")))


def make_embed(scheme, **options):
    marks = tuple((name, scheme.vocab.mark(name)) for name in scheme.vocab.marks)
    context = drawn.CONTEXT | {"dim": 8, "vocab_size": scheme.vocab_size, "marks": marks}
    return build("embed", dict(name="limbs") | options, **context)


@pytest.mark.parametrize("harmonics", [1, 5])
def test_a_limb_is_the_sum_of_its_digits_and_its_logit_of_three(harmonics, vocabulary, rng):
    scheme = make_scheme(vocabulary)
    part = make_embed(scheme, harmonics=harmonics)
    tokens, _ = drawn.draw_tokens(rng)
    params = drawn.draw_params(part, rng, tokens)
    table = np.asarray(part.apply({"params": params}, method=lambda m: m.table), np.float64)
    w = {name: np.asarray(value, np.float64) for name, value in params.items()}

    def vector(place: int, digit: int):
        k = np.arange(1, harmonics + 1)
        code = np.concatenate([np.cos(2 * np.pi * k * digit / 10), np.sin(2 * np.pi * k * digit / 10)])
        return code @ w["turns"][place] + w["places"][place]

    def row(name: str):
        return table[scheme.vocab.mark(name)]

    for _ in range(20):
        a, b, c = rng.integers(0, 10, 3).tolist()
        np.testing.assert_allclose(row(f"[:{c}{b}{a}]"), vector(0, a) + vector(1, b) + vector(2, c), atol=1e-5)
        np.testing.assert_allclose(row(f"[:{b}{a}]"), vector(0, a) + vector(1, b) + w["empty"][0, 2], atol=1e-5)
        np.testing.assert_allclose(row(f"[.{c}]"), vector(2, c) + w["empty"][1, :2].sum(0), atol=1e-5)
    np.testing.assert_allclose(row("[#]"), w["table"][scheme.vocab.mark("[#]")], atol=1e-6)
    # The softmax over whole limbs is the product of three softmaxes over digits.
    h = rng.standard_normal(table.shape[1])
    full = np.asarray([row(name) for name in limbs.list_limbs(3).full]) @ h
    log_probs = full - np.logaddexp.reduce(full)
    by_place = []
    for place in range(3):
        logits = np.asarray([vector(place, digit) for digit in range(10)]) @ h
        by_place.append(logits - np.logaddexp.reduce(logits))
    for number in (0, 7, 314, 999):
        expected = sum(by_place[place][number // 10**place % 10] for place in range(3))
        assert log_probs[number] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("values", [False, True])
def test_a_header_is_the_sum_of_its_parts(values, vocabulary, rng):
    scheme = make_scheme(vocabulary, values=values, size=1, parts=3)
    tokens, _ = drawn.draw_tokens(rng)
    part, plain = make_embed(scheme, header_parts=True), make_embed(scheme)
    params = drawn.draw_params(part, rng, tokens)
    table = np.asarray(part.apply({"params": params}, method=lambda m: m.table), np.float64)
    own = np.asarray(plain.apply({"params": params}, method=lambda m: m.table))
    names = scheme._list_headers("#") + scheme._list_headers("=") * values
    for name in names:
        kind, sign, count, comma = name[1] == "=", "+" in name, name.strip("[#=+-,]") or "0", "," in name
        sign = 2 if "-" in name else int(sign)
        indices = dict(kind=int(kind), sign=sign, limbs=int(count), commas=int(comma))
        expected = sum(np.asarray(params[f"header_{part}"], np.float64)[i] for part, i in indices.items())
        np.testing.assert_allclose(table[scheme.vocab.mark(name)], expected, atol=1e-5, err_msg=name)
    others = np.setdiff1d(np.arange(len(table)), [scheme.vocab.mark(name) for name in names])
    np.testing.assert_array_equal(table[others], own[others])


def test_limbs_are_found_by_their_names():
    ids, digits = embed.list_limbs((("[CLS]", 1), ("[:12]", 5), ("[.5]", 7), ("[#1]", 8), ("[:034]", 9)))
    assert ids.tolist() == [5, 7, 9]
    assert digits.tolist() == [[2, 1, 10], [11, 11, 5], [4, 3, 0]]


def test_the_size_of_a_number_at_a_glance():
    # A model's width does not pad them: a fusion projects them, also where they are added.
    part = build("embed", dict(name="leading", low=-1, high=3, digits=2), dim=64)
    values = [Decimal(text) for text in ("0", "-0", "1", "-250", "0.5", "0.01", "99999")]
    vectors = np.asarray(part.apply({"params": {}}, to_numeral(values, 20)))
    assert vectors.shape == (7, 2 + 5 + 20)
    for value, row in zip(values, vectors, strict=True):
        digits = "".join(map(str, value.as_tuple().digits)).ljust(2, "0")[:2]
        expected = [-1 if value.is_signed() else 1, value == 0]
        expected += [bool(value) and value.adjusted() >= e for e in range(-1, 4)]
        expected += [int(digit) == d for digit in digits for d in range(10)]
        assert row.tolist() == [float(x) for x in expected], value
    jitted = jax.jit(lambda n: part.apply({"params": {}}, n))(to_numeral(values, 20))
    np.testing.assert_array_equal(jitted, vectors)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda v: make_scheme(v, parts=10), "parts must be from 0 to 9 with size=3, not 10"),
        (lambda v: make_scheme(v, parts=28, size=1), "parts must be from 0 to 27 with size=1, not 28"),
        (lambda v: make_scheme(v, size=2), "size must be 1 or 3 digits, not 2"),
        (lambda v: make_scheme(v, counted=-1), "counted must be at least 0, not -1"),
        (
            lambda v: positions.Positions(offset=-1).init(jax.random.key(0), None, method="added"),
            "offset not negative",
        ),
        (lambda v: build("positions", dict(name="limbs"), marks=()).producers(), "choose scheme limbs"),
        (lambda v: build("embed", dict(name="leading", low=3, high=2)), "low must not exceed high"),
        (lambda v: embed.Embed(dim=4, vocab_size=8).init(jax.random.key(0), None), "choose scheme limbs"),
        (lambda v: embed.Embed(dim=4, vocab_size=8, harmonics=6).init(jax.random.key(0), None), "from 1 to 5"),
    ],
)
def test_bad_options_give_one_line(make, line, vocabulary):
    with pytest.raises(UsageError, match=line):
        make(vocabulary)
    assert positions.Positions.reads_channels == ("limb_power",)
