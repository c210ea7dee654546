"""Known numbers stand as they are read, and others are written from the lowest digit: text, grammar and places."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import number_runs
from numjax.protocols import Stack
from numjax.text import known, vocab
from numjax.types import Mark, Number, Text, Tokens
from tests.limbs_test import TEXTS, draw_surface, list_names


@pytest.fixture(scope="module")
def scheme():
    vocabulary = vocab.build({"name": "sentencepiece", "size": 300, "split_digits": True}, TEXTS, ("[CLS]", "[SEP]"))
    return build("text", dict(name="limbs", size=1, parts=12, known=True), vocab=vocabulary)


def make_number(surface: str) -> Number:
    return Number(surface, Decimal(surface.replace(",", "")))


def test_a_spelled_number_has_ranks_up_to_its_last_mark(scheme):
    number = make_number("4.05e-7")
    ids = scheme.encode((number, Text(" a "), Mark("[SEP]"), Text(" b "), number)).ids
    (producer,) = build("positions", dict(name="rank_bias"), stack=None, marks=list_marks(scheme)).producers()
    ranks = producer.compute(ids)
    given, written = np.flatnonzero(ids == scheme.vocab.mark("[F]")).tolist()
    end = int(np.flatnonzero(ids == scheme.vocab.mark("[/F]"))[0]) + 1
    assert end - given == 9 and ranks[:end].tolist() == [*range(9)]
    assert ranks[written:].tolist() == [*range(1, 10)] and not ranks[end:written].any()


def list_marks(scheme) -> tuple[tuple[str, int], ...]:
    return tuple((name, scheme.vocab.mark(name)) for name in scheme.vocab.marks)


@pytest.mark.parametrize(
    ("surface", "marks"),
    [
        ("-1,234.5", "[^-,] [:1] [:2] [:3] [:4] [.] [:5]"),
        ("0", "[^] [:0]"),
        ("007", "[^] [:0] [:0] [:7]"),
        ("+1.000", "[^+] [:1] [.] [:0] [:0] [:0]"),
        (".05", "[^] [.] [:0] [:5]"),
    ],
)
def test_known_numbers_are_their_characters(surface, marks):
    assert known.write(surface) == tuple(marks.split())
    assert known.read(marks.split()) == surface


@pytest.mark.parametrize(
    ("surface", "header"),
    [
        ("-1,234.5", "[^-1,]"),
        ("0", "[^0]"),
        ("12,000", "[^0,]"),
        ("+1.000", "[^+3]"),
        (".0500", "[^]"),
        ("7.25", "[^2]"),
    ],
)
def test_headers_may_say_how_many_digits_stand_behind_the_point(surface, header):
    plain, counted = known.write(surface), known.write(surface, 3)
    assert counted == (header, *plain[1:])
    assert known.read(counted) == surface
    for n in range(4):
        other = re.sub("[0-9]", str(n), header)
        assert (known.read([other, *plain[1:]]) is None) == (other != header)


def test_the_automaton_of_such_headers_takes_what_is_read_and_no_more():
    moves, ends = known.make_counted_moves(3)
    n_read = 0
    for header in known.list_counted(3):
        for count in range(7):
            for marks in itertools.product(("[:0]", "[:1]", known.POINT), repeat=count):
                state = known.begin_state(header)
                for mark in marks:
                    state = next((to for names, to in moves.get(state, {}).items() if mark in names), "refused")
                is_read = known.read([header, *marks]) is not None
                assert (state in ends) == is_read, (header, marks)
                n_read += is_read
    assert n_read > 500


@pytest.mark.parametrize("surface", ["1e5", "(12)", "5.", "1,23", "12,34,567", "", "-", "."])
def test_other_forms_are_not_written_so(surface):
    assert known.write(surface) is None


def test_the_automata_take_what_is_read_and_no_more():
    """Over all strings of up to six marks behind each header."""
    n_read = 0
    for header in known.HEADERS:
        for count in range(7):
            for marks in itertools.product(("[:0]", "[:1]", known.POINT), repeat=count):
                surface = known.read([header, *marks])
                is_answer = bool(surface and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", surface))
                for moves, ends, wanted in (
                    (known.MOVES, known.ENDS, surface is not None),
                    (known.ANSWER_MOVES, known.ANSWER_ENDS, is_answer),
                ):
                    state = known.begin_state(header)
                    for mark in marks:
                        state = next((to for names, to in moves.get(state, {}).items() if mark in names), "refused")
                    is_begun = moves is known.MOVES or header in known.ANSWER_HEADERS
                    assert (is_begun and state in ends) == wanted, (header, marks)
                n_read += is_answer
    assert n_read > 100
    assert known.read([]) is None and known.read(["[#]", "[:1]"]) is None and known.read(["[^]", "[.5]"]) is None


def test_only_numbers_to_be_found_are_written_lowest_first(scheme):
    twelve, half, seven, new = (make_number(text) for text in ("12", "3.5", "7", "47.5"))
    document = (twelve, half, seven, Mark("[SEP]"), new, twelve, seven, half, new)
    assert " ".join(list_names(scheme, document)) == (
        "[^] [:1] [:2] [^] [:3] [.] [:5] [^] [:7] [SEP] "
        # 7 has one digit, so no order; 47.5 repeats itself at the end.
        "[#1] [:5] [:7] [:4] [^] [:1] [:2] [#] [:7] [^] [:3] [.] [:5] [^] [:4] [:7] [.] [:5]"
    )
    # Text without the mark has nothing to be found.
    assert list_names(scheme, (new, twelve))[0] == "[^]"
    source = scheme.encode((twelve, seven))
    assert " ".join(list_names(scheme, (new, twelve), source)) == "[#1] [:5] [:7] [:4] [^] [:1] [:2]"


def test_only_headers_of_given_numbers_say_it(scheme):
    scheme = build("text", dict(name="limbs", size=1, parts=2, known=True, decimals=True), vocab=scheme.vocab)
    half, fine, new = (make_number(text) for text in ("3.5", "0.125", "47.5"))
    names = " ".join(list_names(scheme, (half, fine, Mark("[SEP]"), new, half)))
    assert names == (
        # 0.125 has more digits behind the point than there are headers.
        "[^1] [:3] [.] [:5] [^] [:0] [.] [:1] [:2] [:5] [SEP] [#1] [:5] [:7] [:4] [^] [:3] [.] [:5]"
    )
    counted = [scheme.vocab.mark(name) for name in known.list_counted(2)]
    assert all("set config.scheme.until to the mark" in scheme.unwritten[token] for token in counted)
    # They may be read, and are never generated.
    automaton, configuration = scheme.automaton(), scheme.automaton().start()
    for token in (None, scheme.vocab.mark("[SEP]"), scheme.vocab.mark("[^]")):
        configuration = configuration if token is None else automaton.step(configuration, token)
        assert not automaton.allowed(configuration)[counted].any()


@pytest.mark.parametrize("options", [{}, dict(counted=3, names=2), dict(decimals=True)])
def test_every_surface_comes_back_from_its_ids(scheme, options, rng):
    scheme = build("text", dict(name="limbs", size=1, parts=12, known=True) | options, vocab=scheme.vocab)
    surfaces = [draw_surface(rng) for _ in range(200)]
    segments = [s for text in surfaces for s in (make_number(text), Text(" a "))]
    document = (Mark("[CLS]"), *segments, Mark("[SEP]"), make_number("314"), Text(" b "), *segments)
    ids = scheme.encode(document).ids
    assert scheme.decode(ids) == document
    assert scheme.automaton().run(ids.tolist()).error is None


@pytest.mark.parametrize("marks", ["[^]", "[^,] [:1] [:2]", "[^] [:1] [.]", "[^] [.]", "[^] [:1] [.] [:2] [.] [:3]"])
def test_marks_that_are_no_number_stay_marks(scheme, marks):
    ids = [scheme.vocab.mark(name) for name in marks.split()]
    assert scheme.decode(ids) == tuple(map(Mark, marks.split()))
    assert scheme.automaton().run(ids).error


def test_decimals_are_those_of_known_numbers(scheme):
    with pytest.raises(UsageError, match=r"limbs: decimals=True says more of known numbers: set known=True"):
        build("text", dict(name="limbs", size=1, decimals=True), vocab=scheme.vocab)


@pytest.mark.parametrize("options", [{}, dict(size=3), dict(size=1, values=True)])
def test_what_does_not_go_with_it_is_refused(scheme, options):
    with pytest.raises(UsageError, match=r"limbs: known=True needs a position for each digit .* set size=1"):
        build("text", dict(name="limbs", known=True) | options, vocab=scheme.vocab)


def draw_row(scheme, rng) -> tuple[np.ndarray, int, list[str]]:
    """(ids, how many are given, the surfaces of the given numbers): given numbers, and an answer that repeats them
    between new ones. The last one is spelled."""
    surfaces = [*(draw_surface(rng) for _ in range(19)), "-4.5e12"]
    given = [s for text in surfaces for s in (make_number(text), Text(" a "))]
    written = [s for text in surfaces for s in (make_number(text), Text(" a "), make_number(draw_surface(rng)))]
    ids = scheme.encode((*given, Mark("[SEP]"), *written)).ids
    return ids, int(np.flatnonzero(ids == scheme.vocab.mark("[SEP]"))[0]), surfaces


def step_over(producer, ids) -> np.ndarray:
    state, values = producer.begin(1), []
    for token in ids:
        state, value = producer.step(state, jnp.asarray([token]), None)
        values.append(np.asarray(value[0]))
    return np.asarray(values)


@pytest.mark.parametrize(("name", "options"), [("limbs", dict(ahead=True)), ("limbs", {}), ("rank_bias", {})])
def test_the_decoder_counts_in_an_answer_as_the_host_does(scheme, name, options, rng):
    ids, n_given, _ = draw_row(scheme, rng)
    (producer,) = build("positions", dict(name=name) | options, stack=None, marks=list_marks(scheme)).producers()
    values, stepped = producer.compute(ids), step_over(producer, ids)
    np.testing.assert_array_equal(stepped[n_given:], values[n_given:])
    # A prompt alone has what it has in the whole row.
    np.testing.assert_array_equal(producer.compute(ids[: n_given + 1]), values[: n_given + 1])
    assert values[:n_given].any() and values[n_given:].any()


@pytest.mark.parametrize("name", ["limbs", "rank_bias"])
def test_positions_are_the_same_behind_headers_with_decimals(scheme, name, rng):
    other = build("text", dict(name="limbs", size=1, parts=12, known=True, decimals=True), vocab=scheme.vocab)
    surfaces = [draw_surface(rng) for _ in range(30)]
    document = (*map(make_number, surfaces), Mark("[SEP]"), make_number("3.14"), *map(make_number, surfaces))
    plain, counted = (
        build("positions", dict(name=name), stack=None, marks=list_marks(own))
        .producers()[0]
        .compute(own.encode(document).ids)
        for own in (scheme, other)
    )
    np.testing.assert_array_equal(counted, plain)
    assert plain.any()


def test_given_digits_have_their_powers_and_copied_ones_none(scheme, rng):
    ids, n_given, surfaces = draw_row(scheme, rng)
    (producer,) = build("positions", dict(name="limbs"), stack=None, marks=list_marks(scheme)).producers()
    values, names = producer.compute(ids), [scheme.vocab.mark_name(token) or "" for token in ids.tolist()]
    totals: dict[int, Decimal] = {}
    for at in range(n_given):
        power, number = values[at].tolist()
        if power and names[at].startswith("[:"):
            totals[number] = totals.get(number, Decimal(0)) + int(names[at][2]) * Decimal(10) ** (power - 13)
        if names[at].startswith("[^") and names[at + 1] != known.POINT:
            np.testing.assert_array_equal(values[at], values[at + 1])  # a header has the power of the first digit
        assert power >= 0
    plain = surfaces[:19]
    wanted = [abs(make_number(surface).value).quantize(Decimal(10) ** -12, "ROUND_DOWN") for surface in plain]
    assert [totals.get(number + 1, Decimal(0)) for number in range(19)] == wanted
    is_copied = False
    for at in range(n_given, len(ids)):
        is_copied = names[at] in known.HEADERS or (is_copied and names[at] in (*known.DIGITS, known.POINT))
        assert not (is_copied and values[at].any())


def test_a_copied_symbol_has_the_rank_of_the_one_that_comes_next(scheme, rng):
    ids, n_given, _ = draw_row(scheme, rng)
    (producer,) = build("positions", dict(name="rank_bias"), stack=None, marks=list_marks(scheme)).producers()
    ranks, names = producer.compute(ids), [scheme.vocab.mark_name(token) or "" for token in ids.tolist()]
    runs = number_runs.find_runs(np.isin(ids, producer.headers), np.isin(ids, producer.inside))
    own = {known.read(names[start:end]): ranks[start:end] for start, end in runs if start < n_given}
    n_copied = 0
    for start, end in runs:
        if start > n_given:
            given = own[known.read(names[start:end])]
            np.testing.assert_array_equal(given, np.arange(end - start))
            np.testing.assert_array_equal(ranks[start : end - 1], given[1:])
            n_copied += 1
    assert n_copied > 10
    assert not ranks[[name.startswith("[#") for name in names]].any()


def test_runs_are_those_of_a_loop(rng):
    for _ in range(50):
        ids = rng.integers(0, 5, 30)
        expected = []
        for start, token in enumerate(ids):
            if token == 1:
                end = start + 1
                while end < len(ids) and ids[end] in (2, 3):
                    end += 1
                expected.append((start, end))
        assert number_runs.find_runs(ids == 1, np.isin(ids, [2, 3])) == expected
        assert number_runs.count_given(ids, 4) == (ids.tolist().index(4) if 4 in ids else 0)
        fenced = []
        for start in np.flatnonzero(ids == 0).tolist():
            end = start + 1
            while end < len(ids) and ids[end] not in (0, 1, 4):
                end += 1
            fenced.append((start, end + (end < len(ids) and ids[end] == 4)))
        assert number_runs.find_fenced(ids == 0, ids == 4, ids == 1) == fenced
    assert number_runs.find_runs(np.zeros(len(ids), bool), ids == 2) == []


def test_the_bias_knows_only_how_far_ranks_are_apart():
    part = build("positions", dict(name="rank_bias", span=1, gain=2.0), stack=Stack(8, 2, 4, max_length=8))
    ranks = np.int32([[0, 5, 4, 9, 3]])
    tokens = Tokens(*(np.zeros((1, 5), np.int32) for _ in range(3)), channels={"rank": ranks})
    params = part.init(jax.random.key(0), ranks, ranks, method="bias")["params"]
    table = jnp.broadcast_to(jnp.arange(4.0)[:, None], params["distances"].shape)  # −1, 0, 1 and others
    index = part.apply({"params": {"distances": table}}, tokens, method="bias_index")
    bias = np.asarray(part.apply({"params": {"distances": table}}, index, index, method="bias"))
    for q, k in itertools.product(range(5), repeat=2):
        expected = min(max(ranks[0, k] - ranks[0, q], -1), 1) + 1 if ranks[0, q] and ranks[0, k] else 3
        assert (bias[0, :, q, k] == 2 * expected).all()
    with pytest.raises(UsageError, match="rank_bias: span must be at least 1"):
        part.clone(span=0).init(jax.random.key(0), ranks, ranks, method="bias")
    with pytest.raises(UsageError, match="rank_bias: no number stands as it is read: choose scheme limbs with known"):
        build("positions", dict(name="rank_bias"), stack=None, marks=(("[#]", 1), ("[:7]", 2))).producers()


def test_ranks_of_any_ids_are_those_that_the_decoder_steps_over(rng):
    marks = (("[^]", 1), ("[:3]", 2), ("[.]", 3), ("[F]", 4), ("[/F]", 5), ("[SEP]", 8))
    (producer,) = build("positions", dict(name="rank_bias"), stack=None, marks=marks).producers()
    for ids in rng.integers(1, 8, (60, 20)).astype(np.int32):  # nothing is given
        np.testing.assert_array_equal(step_over(producer, ids), producer.compute(ids))
