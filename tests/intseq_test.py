"""IntSeqBERT: residues against Python's whole numbers, and the number that a head's residues and magnitude say."""

from __future__ import annotations

import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.embed import intseq as embed
from numjax.errors import UsageError
from numjax.heads import intseq
from numjax.nn import residues
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn

EDGES = ["0", "-0", "1", "-1", "9", "10", "-99", "100", "101", "9999", "-10000", "120000", "999999999", "1000000000"]
EDGES += ["999999999999999999", "-999999999999999999", "100000000000000000", "-123456789012345678"]
MODULI = list(range(2, 102))


def draw_integers(rng, count: int) -> list[Decimal]:
    values = []
    for _ in range(count):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 19))))
        values.append(Decimal(int(digits) * int(rng.choice([-1, 1]))))
    return values


def test_residues_are_those_of_python(rng):
    values = [*map(Decimal, EDGES), *draw_integers(rng, 200), Decimal("1e40"), Decimal("-7e1000")]
    number_residues, is_whole = jax.jit(lambda n: residues.find_residues(n, tuple(MODULI)))(to_numeral(values, 20))
    assert np.asarray(is_whole).all()
    for value, row in zip(values, np.asarray(number_residues).tolist(), strict=True):
        assert row == [int(value) % m for m in MODULI], value


def test_only_whole_numbers_that_are_known_have_residues():
    values = [Decimal(text) for text in ("12.5", "-0.25", "3", "1234567890123", "12.345")]
    numerals = to_numeral(values, 8)
    _, is_whole = residues.find_residues(numerals, tuple(MODULI))
    np.testing.assert_array_equal(is_whole, [False, False, True, False, False])
    hundredths, is_whole = residues.find_residues(numerals, tuple(MODULI), 2)
    np.testing.assert_array_equal(is_whole, [True, True, True, False, False])
    np.testing.assert_array_equal(hundredths[1], [-25 % m for m in MODULI])
    assert not embed.residue_features(numerals, 101)[0].any(), "no point of a circle"


def test_the_embedding_is_the_formula(rng):
    values = [Decimal(text) for text in ("0", "-0", "1", "-1", "999", "-12000", "0.5")]
    numerals = to_numeral(values, 20)
    part = build("embed", dict(name="intseq", dim=5, hidden=7))
    params = drawn.draw_params(part, rng, numerals)
    w = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    expected = []
    for value in values:
        v = 1 + math.log10(abs(value)) if value else 0.0
        up = np.asarray([v, (value > 0) - (value < 0)]) @ w["up"]["kernel"] + w["up"]["bias"]
        gelu = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
        angles = [2 * math.pi * (int(value) % m) / m for m in MODULI]
        pairs = np.ravel([(math.sin(a), math.cos(a)) for a in angles]) * (value == int(value))
        film = pairs @ w["film"]["kernel"] + w["film"]["bias"]
        expected.append((1 + film[:5]) * (gelu @ w["down"]["kernel"] + w["down"]["bias"]) + film[5:])
    np.testing.assert_allclose(part.apply({"params": params}, numerals), expected, rtol=1e-4, atol=1e-4)


def test_coprime_moduli_tell_all_numbers_apart():
    chosen, count = residues.choose_coprime(tuple(MODULI), 18)
    assert math.prod(sorted(chosen)[:count]) >= 10**18 > math.prod(sorted(chosen)[: count - 1])
    assert all(math.gcd(a, b) == 1 for i, a in enumerate(chosen) for b in chosen[:i])
    assert len(chosen) == 26 and chosen[:2] == (101, 97)  # one power of each prime
    assert residues.choose_coprime((2, 3, 4), 1) == ((4, 3), 2)
    assert residues.choose_coprime((2, 3, 4), 2) == ((), 0)


def make_log_probs(integers: list[int], rng, sure: float) -> np.ndarray:
    """Returns float32[N, 100, 101]: noise, in which the right residue of every modulus has the logit `sure`."""
    logits = rng.standard_normal((len(integers), 100, 101))
    for row, integer in enumerate(integers):
        logits[row, np.arange(100), [integer % m for m in MODULI]] = sure
    _, is_residue = intseq.lay_out_classes(101)
    logits = np.where(is_residue, logits, residues.NEVER)
    return np.array(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32), axis=-1))


def solve(log_probs, log10, digits: int, width: int):
    """Returns the digits of the number that residues and a magnitude say."""

    def rate(places):
        value = residues.value_of_places(places)
        return jnp.where(value > 0, -((jnp.log10(jnp.maximum(value, 1)) - log10[..., None]) ** 2), residues.NEVER)

    moduli = tuple(range(2, log_probs.shape[-2] + 2))
    return residues.solve(log_probs, moduli, digits, width, rate)


def join_digits(digits) -> list[int]:
    return [int("".join(map(str, row[::-1]))) for row in np.asarray(digits).tolist()]


@pytest.mark.parametrize("width", [1, 8])
def test_sure_residues_are_one_number_at_any_size(width, rng):
    integers = [abs(int(v)) for v in [*map(Decimal, EDGES), *draw_integers(rng, 60)] if int(v)]
    log10 = np.asarray([math.log10(n) for n in integers], np.float32)
    log_probs = make_log_probs(integers, rng, 9.0)
    run = jax.jit(solve, static_argnums=(2, 3))
    assert join_digits(run(log_probs, log10, 18, width)) == integers
    # The magnitude may be wrong by a factor of a thousand if the residues are sure.
    assert join_digits(run(log_probs, log10 + 3, 18, width)) == integers


def test_the_beam_mends_residues_that_are_second(rng):
    """Other moduli decide if the likeliest residue of one or two is wrong."""
    integers = [int(n) for n in rng.integers(1, 10**12, 40)]
    log_probs = make_log_probs(integers, rng, 9.0)
    for row, integer in enumerate(integers):
        for modulus in rng.choice([101, 97, 89, 83, 79, 73], 2, replace=False).tolist():
            right = log_probs[row, modulus - 2, integer % modulus]
            log_probs[row, modulus - 2, int(rng.integers(modulus))] = right + 0.1
    log10 = np.log10(np.asarray(integers)).astype(np.float32)
    assert join_digits(solve(log_probs, log10, 18, 16)) == integers
    assert join_digits(solve(log_probs, log10, 18, 1)) != integers


def test_without_a_beam_limit_the_number_is_the_best_of_all(rng):
    """Compares with every number below 100."""
    moduli = np.arange(2, 14)
    _, is_residue = intseq.lay_out_classes(13)
    logits = np.where(is_residue, 2 * rng.standard_normal((50, 12, 13)), residues.NEVER)
    log_probs = np.asarray(jax.nn.log_softmax(logits, axis=-1), np.float32)
    log10 = rng.uniform(0, 2, 50).astype(np.float32)
    numbers = np.arange(1, 100)
    scores = (
        sum(log_probs[:, i, numbers % m] for i, m in enumerate(moduli.tolist()))
        - (np.log10(numbers) - log10[:, None]) ** 2
    )
    assert residues.choose_coprime(tuple(range(2, 14)), 2) == ((13, 11, 9, 8, 7, 5), 3)
    digits = solve(log_probs, log10, 2, 13 * 11 * 9)
    assert join_digits(digits) == numbers[scores.argmax(-1)].tolist()


def make_head(**options):
    return build("heads", dict(name="intseq") | options, **(drawn.CONTEXT | {"digits": 20, "width": 4}))


def make_sure_output(head, value: Decimal) -> HeadOut:
    """Returns an output that is certain of this number: all of it is in the biases."""
    n_classes = sum(range(2, head.most + 1))
    scaled = int(value.scaleb(head.fraction))
    classes, _ = intseq.lay_out_classes(head.most)
    residue_bias, sign_bias = np.zeros(n_classes, np.float32), np.zeros(3, np.float32)
    residue_bias[[classes[m - 2, scaled % m] for m in range(2, head.most + 1)]] = 20
    sign_bias[1 + (value > 0) - (value < 0)] = 20
    v = 1 + math.log10(abs(value)) if value else 0.0
    w = {"magnitude_bias": np.full(1, v, np.float32), "sign_bias": sign_bias, "residue_bias": residue_bias}
    w |= {"kernel": np.zeros((drawn.VOCAB, 4), np.float32), "magnitude_kernel": np.zeros((4, 1), np.float32)}
    w |= {"sign_kernel": np.zeros((4, 3), np.float32), "residue_kernel": np.zeros((4, n_classes), np.float32)}
    return HeadOut(np.zeros((1, 4), np.float32), w)


@pytest.mark.parametrize(
    ("options", "texts"),
    [(dict(), EDGES), (dict(fraction=2, places=8, most=31), ["0", "0.01", "-0.25", "7", "-120", "999999.99", "1e5"])],
)
def test_a_certain_head_writes_every_number_that_it_represents(options, texts):
    head = make_head(**options)
    write, score = jax.jit(lambda out: head.number(out, None)[0]), jax.jit(head.number_log_prob)
    for text in texts:
        value = Decimal(text)
        out = make_sure_output(head, value)
        assert head.represents(value)
        assert to_decimals(write(out)) == [value], text
        parts = score(out, to_numeral([value], 20))
        assert float(parts["magnitude"][0]) == pytest.approx(-0.5 * math.log(math.pi), abs=1e-6)
        assert float(parts["sign"][0]) > -1e-6 and float(parts["residues"][0]) > -1e-3


@pytest.mark.parametrize("fraction", [0, 2])
def test_the_magnitude_decides_where_all_residues_are_equally_likely(fraction):
    head = make_head(most=13, fraction=fraction, places=5, beams=64)
    unsure = make_sure_output(head, Decimal(7))
    unsure.weights["residue_bias"][:] = 0
    for size in (2, 30, 400):
        unsure.weights["magnitude_bias"][:] = 1 + math.log10(size)
        (number,) = to_decimals(head.number(unsure, None)[0])
        assert number is not None and size / 2 < number < size * 2, (size, number)


def test_numbers_that_a_head_cannot_write():
    head = make_head()
    assert not any(head.represents(Decimal(text)) for text in ("1e18", "-0.5", "12.25", "1e30"))
    assert make_head(fraction=2).represents(Decimal("12.25")) and not make_head(fraction=2).represents(
        Decimal("1e16")
    )


def test_a_decimal_is_scored_by_magnitude_and_sign_alone():
    head = make_head()
    parts = head.number_log_prob(make_sure_output(head, Decimal(12)), to_numeral([Decimal("12.5")], 20))
    assert float(parts["residues"][0]) == 0 and float(parts["sign"][0]) > -1e-6


def test_a_certain_head_also_samples_its_number():
    head = make_head()
    out = make_sure_output(head, Decimal(-4711))
    out.weights["residue_bias"][:] *= 3  # more than any Gumbel noise
    out.weights["sign_bias"][:] *= 3
    for seed in range(5):
        assert to_decimals(head.number(out, jax.random.key(seed))[0]) == [Decimal(-4711)]


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("heads", dict(most=13), "do not tell numbers of 18 digits apart"),
        ("heads", dict(places=40), "places must lie between 1 and 36"),
        ("heads", dict(beams=0), "beams be at least 1"),
        ("heads", dict(fraction=-1), "fraction be at least 0"),
        ("embed", dict(most=1), "most must lie between 2 and 1000"),
        ("embed", dict(fraction=-1), "fraction must be at least 0"),
    ],
)
def test_bad_options_give_one_line(kind, options, line):
    with pytest.raises(UsageError, match=line):
        build(kind, dict(name="intseq") | options, **(drawn.CONTEXT | {"digits": 20}))
