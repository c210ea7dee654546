"""Characters of residues: against Python's whole numbers and fractions, and the number that a head's views say."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.heads import residues as heads
from numjax.nn import residue_codes, residues
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn

PRIMES = residue_codes.list_primes(53)
EDGES = ["0", "-0", "1", "-1", "7", "10", "-49", "0.1", "-0.00001", "12.5", "999999999.9999", "9999999999999", "1e12"]


def draw_values(rng, count: int) -> list[Decimal]:
    """Returns decimals of up to 13 digits before the point and 5 behind it."""
    integers = [int("".join(map(str, rng.integers(0, 10, rng.integers(1, 19))))) for _ in range(count)]
    return [Decimal(int(rng.choice([-1, 1])) * n).scaleb(-int(rng.integers(6))) for n in integers]


def find_residue(value: Decimal, prime: int) -> int:
    fraction = Fraction(value)
    return fraction.numerator * pow(fraction.denominator, -1, prime) % prime


def test_indices_are_those_of_the_smallest_generator():
    """Reference values of discrete logarithms."""
    assert residue_codes.find_indices(7) == (0, 2, 1, 4, 5, 3)
    assert residue_codes.find_indices(11) == (0, 1, 8, 2, 4, 9, 7, 3, 6, 5)
    assert residue_codes.find_indices(13) == (0, 1, 4, 2, 9, 5, 11, 3, 8, 10, 7, 6)
    assert residue_codes.list_primes(41) == (7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    assert math.prod(residue_codes.list_primes(41)) == 10_141_675_450_907


def test_residues_of_decimals_are_those_of_fractions(rng):
    values = [*map(Decimal, EDGES), *draw_values(rng, 200), Decimal("1e40"), Decimal("-7e1000"), Decimal("3e-50")]
    found, is_known = jax.jit(lambda n: residues.find_decimal_residues(n, PRIMES))(to_numeral(values, 20))
    assert np.asarray(is_known).all()
    for value, row in zip(values, np.asarray(found).tolist(), strict=True):
        assert row == [find_residue(value, p) for p in PRIMES], value
    _, is_known = residues.find_decimal_residues(to_numeral([Decimal("123456789"), Decimal("1e30")], 8), PRIMES)
    np.testing.assert_array_equal(is_known, [False, True])


def read_codes(values: list[Decimal], harmonics: int = 2) -> np.ndarray:
    """Returns the characters of each value by each prime as complex numbers, [N, R, 2, H]: additive and
    multiplicative."""
    part = build("embed", dict(name="residues", harmonics=harmonics))
    vector = np.asarray(part.apply({"params": {}}, to_numeral(values, 20)), np.float64)
    n_features = residue_codes.count_features(harmonics, True)
    codes = vector[:, : len(PRIMES) * n_features].reshape(len(values), len(PRIMES), n_features)
    pairs = codes[..., :-1].reshape(*codes.shape[:2], 2, 2, harmonics)
    pairs[:, :, 1] /= part.emphasis
    return pairs[..., 0, :] + 1j * pairs[..., 1, :]


def test_sums_and_products_are_rotations(rng):
    """The codes of a + b and a · b are products of those of a and b, also for decimals and below zero."""
    a, b = draw_values(rng, 40), draw_values(rng, 40)
    a, b = [x.quantize(Decimal("0.01")) % 1000 for x in a], [x.quantize(Decimal("0.01")) % 1000 for x in b]
    of_a, of_b = read_codes(a), read_codes(b)
    of_sum = read_codes([x + y for x, y in zip(a, b, strict=True)])
    of_product = read_codes([x * y for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(of_sum[:, :, 0], of_a[:, :, 0] * of_b[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(of_product[:, :, 1], of_a[:, :, 1] * of_b[:, :, 1], atol=1e-5)
    assert np.abs(of_product[:, :, 0] - of_a[:, :, 0] * of_b[:, :, 0]).max() > 0.1


def test_a_scale_of_the_head_is_one_of_its_kernel(rng):
    """p(r) = softmax(scale · (h W) · code of r)."""
    head, value = make_head(scale=5.0, integer=4, fraction=0, most=17), Decimal(1234)
    weights = {
        name: rng.standard_normal(w.shape).astype(np.float32) for name, w in make_sure_weights(head, value).items()
    }
    hidden = rng.standard_normal((1, head.width)).astype(np.float32)
    found = head.number_log_prob(HeadOut(hidden, weights), to_numeral([value], 20))["residues"][0]
    normed = np.asarray(head.norm(HeadOut(hidden, weights)), np.float64)[0]
    features = 5 * (normed @ weights["residue_kernel"] + weights["residue_bias"])
    primes = residue_codes.list_primes(17)
    expected = 0.0
    for prime, code, own in zip(
        primes, residue_codes.make_codes(primes, 1, True), np.split(features, len(primes)), strict=True
    ):
        logits = code[:prime] @ own
        expected += logits[1234 % prime] - math.log(np.exp(logits - logits.max()).sum()) - logits.max()
    assert float(found) == pytest.approx(expected, rel=1e-4)


def test_zero_has_a_flag_and_no_multiplicative_character():
    codes = residue_codes.make_codes((7, 11), 3, True)
    assert (codes[:, 0, -1] == 1).all() and (codes[:, 1:, -1] == 0).all()
    assert (codes[:, 0, 6:12] == 0).all() and (codes[0, 7:] == 0).all()
    np.testing.assert_allclose(np.square(codes[1, 1:11, :12]).sum(-1), 6, rtol=1e-6)


def test_alone_a_number_looks_like_one_that_is_larger_by_the_product_of_the_primes(rng):
    """So a model that has seen short numbers has seen long ones; with digits and magnitude it has not."""
    product = math.prod(residue_codes.list_primes(31))
    numbers = [int(n) for n in rng.integers(1, 1000, 20)]
    short, long = to_numeral(list(map(Decimal, numbers)), 20), to_numeral([Decimal(n + product) for n in numbers], 20)
    for alone in (True, False):
        part = build("embed", dict(name="residues", most=31, alone=alone))
        of_short, of_long = part.apply({"params": {}}, short), part.apply({"params": {}}, long)
        assert np.array_equal(of_short, of_long) == alone
        assert of_short.shape[-1] == 8 * residue_codes.count_features(1, True) + (1 if alone else 2 + 2 * 18)


def test_alone_the_head_writes_what_the_residues_say(rng):
    head = make_head(most=53, integer=13, fraction=3, alone=True)
    for value in [Decimal("-83.25"), Decimal(0), *draw_values(rng, 10)]:
        if not head.represents(value):
            continue
        out = make_sure_output(head, value, 400)
        for name in ("digit", "magnitude"):
            del out.weights[f"{name}_kernel"], out.weights[f"{name}_bias"]
        assert to_decimals(head.number(out, None)[0]) == [value]
        assert to_decimals(head.number(out, jax.random.key(0))[0]) == [value]
        parts = head.number_log_prob(out, to_numeral([value], 20))
        assert set(parts) == {"residues", "sign"} and float(sum(parts.values())[0]) > -0.2


def make_head(**options):
    return build("heads", dict(name="residues") | options, **(drawn.CONTEXT | {"digits": 20, "width": 4}))


def make_sure_weights(head, value: Decimal, sure: float = 400) -> dict[str, np.ndarray]:
    """Returns weights of a head that is certain of this number: all of it is in the biases."""
    primes = residue_codes.list_primes(head.most)
    codes = residue_codes.make_codes(primes, head.harmonics, head.multiplies)
    digits = np.zeros((head.places, 10), np.float32)
    scaled = int(abs(value).scaleb(head.fraction))
    for place in range(head.places):
        digits[place, scaled // 10**place % 10] = sure
    v = 1 + math.log10(abs(value)) if value else 0.0
    biases = {
        "residue": sure * np.ravel([code[find_residue(value, p)] for p, code in zip(primes, codes, strict=True)]),
        "digit": digits.reshape(-1),
        "magnitude": np.asarray([v]),
        "sign": np.asarray([-sure if value.is_signed() else sure]),
    }
    weights = {f"{name}_bias": np.asarray(bias, np.float32) for name, bias in biases.items()}
    weights |= {f"{name}_kernel": np.zeros((head.width, len(bias)), np.float32) for name, bias in biases.items()}
    return weights | {
        "number_scale": np.ones(head.width, np.float32), "number_bias": np.zeros(head.width, np.float32)
    }  # fmt: skip


def make_sure_output(head, value: Decimal, sure: float = 40) -> HeadOut:
    """Returns an output that is certain of this number."""
    kernel = {"kernel": np.zeros((drawn.VOCAB, head.width), np.float32)}
    return HeadOut(np.zeros((1, head.width), np.float32), make_sure_weights(head, value, sure) | kernel)


@pytest.mark.parametrize("multiplies", [True, False])
def test_a_certain_head_writes_every_number_that_it_represents(multiplies, rng):
    head = make_head(multiplies=multiplies, integer=13, fraction=5, most=61)
    write, score = jax.jit(lambda out: head.number(out, None)[0]), jax.jit(head.number_log_prob)
    for value in [*map(Decimal, EDGES), *draw_values(rng, 20)]:
        if not head.represents(value):
            continue
        out = make_sure_output(head, value, 400)
        assert to_decimals(write(out)) == [value], value
        parts = score(out, to_numeral([value], 20))
        assert float(parts["magnitude"][0]) == pytest.approx(-0.5 * math.log(math.pi), abs=1e-4)
        assert all(float(parts[name][0]) > -0.2 for name in ("sign", "residues", "digits")), (value, parts)


def test_a_grid_of_numbers_is_its_rows(rng):
    head = make_head(integer=5, fraction=2, most=31)
    values = [Decimal(v) for v in (7, -12, 350, 41, 0, 9)]
    weights = make_sure_weights(head, values[0], 1.0)
    weights = {name: rng.standard_normal(w.shape).astype(np.float32) for name, w in weights.items()}
    hidden = rng.standard_normal((6, head.width)).astype(np.float32)
    flat = head.number_log_prob(HeadOut(hidden, weights), to_numeral(values, 20))
    numerals = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), to_numeral(values, 20))
    grid = head.number_log_prob(HeadOut(hidden.reshape(2, 3, -1), weights), numerals)
    for name, part in flat.items():
        np.testing.assert_allclose(np.asarray(grid[name]).reshape(6), part, rtol=1e-5)


def blur(out: HeadOut, *names: str) -> HeadOut:
    """Returns the output without what it says by these views."""
    for name in names:
        out.weights[f"{name}_bias"][:] = 0
    return out


@pytest.mark.parametrize("text", ["4711", "-83.25", "0.00012", "1234567890123"])
@pytest.mark.parametrize("lost", ["residue", "digit", "magnitude"])
def test_any_view_may_be_lost(text, lost):
    """Residues or digits suffice, with or without the magnitude."""
    head = make_head(integer=13, fraction=5)
    out = blur(make_sure_output(head, Decimal(text), 400), lost)
    assert to_decimals(head.number(out, None)[0]) == [Decimal(text)]


def test_residues_mend_wrong_digits_and_digits_wrong_residues():
    head = make_head(integer=6, fraction=2)
    value, other = Decimal("4711.25"), Decimal("4721.25")
    sure, unsure = make_sure_output(head, value, 60), make_sure_output(head, other, 6)
    mixed = HeadOut(sure.hidden, dict(sure.weights, digit_bias=unsure.weights["digit_bias"]))
    assert to_decimals(head.number(mixed, None)[0]) == [value]
    residue_bias = sure.weights["residue_bias"].copy()
    residue_bias[:9] = make_sure_output(head, other, 60).weights["residue_bias"][:9]  # the prime 7 is wrong
    mixed = HeadOut(sure.hidden, dict(sure.weights, residue_bias=residue_bias))
    assert to_decimals(head.number(mixed, None)[0]) == [value]


def test_spare_primes_choose_among_many_likely_tuples(rng, monkeypatch):
    """Five primes are surest of all, of a wrong residue, so that 31 tuples seem likelier than the right one."""
    head = make_head(integer=13, fraction=0, signed=False)
    for value in rng.integers(10**11, 10**12, 10).tolist():
        out = make_sure_output(head, Decimal(value), 0)
        log_probs = np.full((1, len(PRIMES), max(PRIMES)), residues.NEVER, np.float32)
        for row, prime in enumerate(PRIMES):
            log_probs[0, row, :prime] = -8
            log_probs[0, row, value % prime] = 0
        for row in rng.choice(np.arange(4, len(PRIMES)), 5, replace=False):
            log_probs[0, row, (value + 1) % PRIMES[row]] = 1
        monkeypatch.setattr(heads.Head, "_residue_log_probs", lambda *_, array=log_probs: jnp.asarray(array))
        assert to_decimals(head.number(out, None)[0]) == [value]


def test_primes_of_which_nothing_is_known_are_not_needed(rng, monkeypatch):
    """Any ten of the thirteen primes tell numbers of thirteen digits apart."""
    head = make_head(integer=13, fraction=0, signed=False)
    for value in rng.integers(10**11, 10**12, 10).tolist():
        log_probs = np.full((1, len(PRIMES), max(PRIMES)), residues.NEVER, np.float32)
        unknown = rng.choice(len(PRIMES), 3, replace=False)
        for row, prime in enumerate(PRIMES):
            log_probs[0, row, :prime] = -math.log(prime) if row in unknown else -8
            if row not in unknown:
                log_probs[0, row, value % prime] = 0
        monkeypatch.setattr(heads.Head, "_residue_log_probs", lambda *_, array=log_probs: jnp.asarray(array))
        out = make_sure_output(head, Decimal(value), 0)
        assert to_decimals(head.number(out, None)[0]) == [value]


def test_the_written_number_is_the_best_of_all(rng):
    """Compares with the rating of every number, where the beam holds all of them."""
    numerals = to_numeral([Decimal(n) for n in range(100)], 20)
    head = make_head(integer=2, fraction=0, most=13, beams=1001, signed=False)
    params = drawn.draw_params(head, rng, np.zeros((1, 1, 4), np.float32), None, np.zeros((drawn.VOCAB, 4)))
    hidden = rng.standard_normal((30, 4)).astype(np.float32)
    out = head.apply({"params": params}, hidden, None, np.zeros((drawn.VOCAB, 4), np.float32))
    written = [int(x or 0) for x in to_decimals(head.number(out, None)[0])]
    for row, number in enumerate(written):
        row_out = HeadOut(np.repeat(hidden[row : row + 1], 100, axis=0), out.weights)
        parts = head.number_log_prob(row_out, numerals)
        totals = np.asarray(sum(parts.values()))
        assert totals[number] == pytest.approx(totals.max(), abs=1e-4)
    assert len(set(written)) > 5


def test_a_certain_head_also_samples_its_number():
    head = make_head(integer=6, fraction=2)
    out = make_sure_output(head, Decimal("-4711.5"), 2000)
    out.weights["magnitude_bias"][:] = 4.67
    for seed in range(5):
        assert to_decimals(head.number(out, jax.random.key(seed))[0]) == [Decimal("-4711.5")]


def test_codes_turn_into_residues_of_the_scaled_absolute_value(rng):
    head = make_head(integer=4, fraction=2, most=31)
    primes = residue_codes.list_primes(31)
    for value in (Decimal("12.34"), Decimal("-0.5"), Decimal(-977)):
        log_probs = np.full((1, len(primes), 31), residues.NEVER, np.float32)
        log_probs[0, np.arange(len(primes)), [find_residue(value, p) for p in primes]] = 0
        turned = np.asarray(head._turn_to_scaled(jnp.asarray(log_probs), jnp.asarray([value < 0])))
        assert turned[0].argmax(-1).tolist() == [int(abs(value) * 100) % p for p in primes]


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("heads", dict(most=13), "do not tell numbers of 13 digits apart"),
        ("heads", dict(most=5), "most must lie between 7 and 1000"),
        ("heads", dict(beams=0), "beams must be at least 1"),
        ("heads", dict(most=127, integer=30, fraction=10), "from 1 to 36"),
        ("embed", dict(harmonics=0), "harmonics be at least 1"),
        ("embed", dict(most=5), "most must lie between 7 and 1000"),
    ],
)
def test_bad_options_give_one_line(kind, options, line):
    with pytest.raises(UsageError, match=line):
        build(kind, dict(name="residues") | options, **(drawn.CONTEXT | {"digits": 20}))
    assert heads.Head.densities == ("residues", "digits", "magnitude"), "views overlap"
