"""Quantiles and masses of the numbers that heads predict, against all numbers in float64 and the heads' samples."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from numjax.build import build
from numjax.nn import binary64, carries, gaussians
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut, Targets
from tests import drawn
from tests.carry_save_test import make_head, make_output, make_targets, sum_strings

LEVELS = np.asarray([0.02, 0.05, 0.25, 0.5, 0.75, 0.95, 0.98], np.float32)
WIDTH = drawn.CONTEXT["width"]


def make_case(name: str, rng, scale: float = 0.3, **options):
    """(head, its output at two rows of three positions), of random parameters."""
    head = build("heads", {"name": name} | options, **drawn.CONTEXT)
    inputs, _ = drawn.draw_tokens(rng, 2, 8)
    hidden = rng.standard_normal((2, 8, WIDTH)).astype(np.float32)
    table = rng.standard_normal((drawn.VOCAB, WIDTH)).astype(np.float32)
    params = head.init(jax.random.key(0), hidden, inputs, table)["params"]
    params = jax.tree.map(lambda x: (rng.standard_normal(x.shape) * scale).astype(np.float32), params)
    out = head.apply({"params": params}, hidden, inputs, table)
    return head, out._replace(hidden=out.hidden[:, :3])


def find_quantiles(head, out: HeadOut, levels=LEVELS) -> list[list[Any]]:
    """The quantiles at each position in turn."""
    values = to_decimals(
        jax.jit(lambda out: head.number_quantiles(out, drawn_targets(out), jnp.asarray(levels)))(out)._replace(
            valid=np.ones((*out.hidden.shape[:-1], len(levels)), bool)
        )
    )
    return [values[i : i + len(levels)] for i in range(0, len(values), len(levels))]


def drawn_targets(out: HeadOut, values=None) -> Targets:
    """Every position holds a number of its own."""
    shape = out.hidden.shape[:-1]
    numerals = None
    if values is not None:
        numerals = to_numeral(values, drawn.DIGITS)
        numerals = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), numerals)
    index = np.broadcast_to(np.arange(shape[-1]), shape)
    return Targets(np.full(shape, drawn.NUM), index >= 0, index, numerals)


def check_quantiles(quantiles, values: np.ndarray, masses: np.ndarray, levels=LEVELS) -> None:
    """Whether they are those of the masses of values, up to the rounding of float32."""
    order = np.argsort(values)
    values, sums = values[order], np.cumsum(masses[order]) / masses.sum()
    for level, quantile in zip(levels, quantiles, strict=True):
        low, high = (values[min(np.searchsorted(sums, float(level) + e), len(values) - 1)] for e in (-3e-4, 3e-4))
        slack = 1e-7 * abs(low)  # of a number that keeps eight digits
        assert low - slack <= float(quantile) <= high + slack, (level, quantile, low, high)


def list_masses(head, out: HeadOut, values: list[Decimal]) -> np.ndarray:
    """The mass of each value at each position, float64[values, positions], by the likelihood that is trained."""
    shape = out.hidden.shape[:-1]
    numerals = to_numeral([value for value in values for _ in range(math.prod(shape))], drawn.DIGITS)
    numerals = jax.tree.map(lambda x: x.reshape(len(values), *shape, *x.shape[1:]), numerals)
    targets = drawn_targets(out)
    score = jax.jit(jax.vmap(lambda numerals: head.number_log_mass(out, targets._replace(numerals=numerals))))
    return np.exp(np.asarray(score(numerals), np.float64).reshape(len(values), -1))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fone", {}),
        ("fone", {"signed": False}),
        ("carry", {}),
        ("carry", {"least": -9, "most": 18}),
        ("carry", {"least": 0, "most": 81, "signed": False}),
    ],
    ids=str,
)
def test_quantiles_of_places_are_those_of_all_numbers(rng, name, options):
    head, out = make_case(name, rng, integer=2, fraction=1, **options)
    sizes = [Decimal(i).scaleb(-1) for i in range(1000)]
    values = sizes + ([-size for size in sizes[1:]] if head.signed else [])
    masses = list_masses(head, out, values)
    np.testing.assert_allclose(masses.sum(0), 1, rtol=1e-4)
    np.testing.assert_allclose(list_masses(head, out, [Decimal("-0")])[0], masses[0], rtol=1e-5)
    for quantiles, own in zip(find_quantiles(head, out), masses.T, strict=True):
        check_quantiles(quantiles, np.asarray(values, float), own)
        assert quantiles == sorted(quantiles), "a central interval lies inside every larger one"


@pytest.mark.parametrize("name", ["fone", "carry", "bits", "mixture", "xval"])
def test_quantiles_are_those_of_the_heads_own_samples(rng, name):
    """The sampler is another way to the same distribution; all bits are uncertain."""
    options: dict[str, Any] = {"mantissas": "sampled", "density": "learned"} if name == "mixture" else {}
    options |= {"integer": 5, "fraction": 3} if name in ("fone", "carry") else {}  # all that a numeral keeps here
    head, out = make_case(name, rng, **options)
    one = HeadOut(out.hidden[0, :1], out.weights)
    count = 4000

    def draw(key):
        return head.step_scores(one, None, key).numeral

    samples = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), count))
    values: list[Any] = to_decimals(samples._replace(valid=np.ones((count, 1), bool)))
    samples = np.sort([float(value) for value in values])
    for level, quantile in zip(LEVELS, find_quantiles(head, out)[0], strict=True):
        q = float(quantile)
        five_sigma = 5 * math.sqrt(level * (1 - level) / count)
        slack = 1e-6 * abs(q)
        assert np.mean(samples <= q + slack) >= level - five_sigma, (name, level, q)
        assert np.mean(samples < q - slack) <= level + five_sigma, (name, level, q)


def test_quantiles_of_bits_are_those_of_all_their_numbers(rng):
    """All bits are certain but the sign, two of the exponent and three of the mantissa: 64 numbers."""
    head, out = make_case("bits", rng)
    bits = [0, 0, *[1] * 8, *[0] * 54]  # exponents around 0
    out, patterns, masses = list_patterns(rng, out, bits, [0, 11, 12, 13, 20])
    values = [np.frombuffer(int("".join(map(str, row)), 2).to_bytes(8, "big"), ">f8")[0] for row in patterns]
    check_quantiles(find_quantiles(head, out)[0], np.asarray(values), masses)


def list_patterns(rng, out: HeadOut, bits, free) -> tuple[HeadOut, np.ndarray, np.ndarray]:
    """(the output of a head `bits` that is sure of these bits but not of the free ones, all patterns that it may
    write, int[n, 64], their masses)."""
    logits = np.where(np.asarray(bits) > 0, 60.0, -60.0).astype(np.float32)
    logits[free] = rng.standard_normal(len(free))
    weights = dict(out.weights) | {"number_kernel": jnp.zeros((WIDTH, 64)), "number_bias": jnp.asarray(logits)}
    patterns = np.tile(np.asarray(bits), (2 ** len(free), 1))
    patterns[:, free] = list(itertools.product((0, 1), repeat=len(free)))
    p = special.expit(logits[free].astype(np.float64))
    return HeadOut(out.hidden[:1, :1], weights), patterns, np.prod(np.where(patterns[:, free], p, 1 - p), axis=1)


def to_bits(values) -> np.ndarray:
    """The patterns of floats, int[n, 64]."""
    return np.unpackbits(np.asarray(values, ">f8").view(np.uint8).reshape(-1, 8), axis=-1).astype(int)


@pytest.mark.parametrize("keep", [3, 15, 17])
def test_a_cell_of_bits_holds_all_that_is_written_as_its_number(rng, keep):
    """Both ends of the cell are written so, and what lies next to them is not."""
    values = [0.1, 1.0, 8.0, -4096.0, 1e22, 1e-5, 9007199254740993.0, 0.0, 5e-324, 2.5e-310, 1.7976931348623157e308]
    values = np.concatenate([values, rng.standard_normal(50) * 10.0 ** rng.integers(-300, 300, 50)])
    decode = jax.jit(lambda bits: binary64.decode(bits, drawn.DIGITS, keep))
    numbers = decode(to_bits(values))
    bits, low, high = jax.jit(lambda n: binary64.find_cell(n, drawn.DIGITS, keep))(numbers)
    signs = np.asarray(bits)[:, :1]

    def write(ends):
        return to_decimals(decode(np.concatenate([signs, ends], axis=-1)))

    written = to_decimals(numbers)
    assert write(low) == write(high) == written
    for ends, step in ((low, -1), (high, 1)):
        wholes = [int("".join(map(str, row)), 2) + step for row in np.asarray(ends).tolist()]
        inside = [0 <= whole < 2**63 for whole in wholes]
        beyond = write(np.asarray([[int(b) for b in f"{max(w, 0) % 2**63:063b}"] for w in wholes]))
        assert all(not ok or x != y for ok, x, y in zip(inside, beyond, written, strict=True))


def test_the_mass_of_a_number_of_bits_is_that_of_all_patterns_that_are_written_so(rng):
    """The last bits are uncertain, one in the middle, one of the exponent, and the sign."""
    head, out = make_case("bits", rng)
    score = jax.jit(lambda out, targets: head.number_log_mass(out, targets))
    for value in (0.1, 0.0):
        one, patterns, masses = list_patterns(rng, out, to_bits([value])[0], [0, 11, 12, 40, 60, 61, 62, 63])
        written = to_decimals(jax.jit(lambda x: binary64.decode(x, drawn.DIGITS, head.keep))(patterns))
        expected: dict[Decimal, float] = {}
        for number, mass in zip(written, masses, strict=True):
            expected[cast("Decimal", number)] = expected.get(cast("Decimal", number), 0.0) + mass
        assert len(expected) < len(patterns)
        count = len(patterns)
        one = HeadOut(np.broadcast_to(one.hidden, (1, count, WIDTH)), one.weights)
        numbers = [*expected, *[Decimal(0)] * (count - len(expected))]
        own = np.exp(np.asarray(score(one, drawn_targets(one, numbers)), np.float64))[0, : len(expected)]
        np.testing.assert_allclose(own, list(expected.values()), rtol=1e-4)
        assert own.sum() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("digits", [(0, 9), (0, 19), (-9, 18)], ids=str)
def test_quantiles_of_written_places_are_over_all_strings(digits, rng):
    """Two numbers of a row, of three places and of two; each has its quantiles at its highest place."""
    head = make_head(*digits)
    logs = special.log_softmax(rng.standard_normal((1, 7, digits[1] - digits[0] + 1)) * 2, axis=-1)
    targets = make_targets([[(1, 3), (1, 2)]])
    out = make_output(head, logs)
    quantiles = jax.jit(lambda out: head.number_quantiles(out, targets, jnp.asarray(LEVELS)))(out)
    values = to_decimals(quantiles._replace(valid=np.ones((1, 7, len(LEVELS)), bool)))
    for last, places in ((3, logs[0, 1:4]), (6, logs[0, 5:7])):
        table = sum_strings(places, digits[0])
        own = values[last * len(LEVELS) : (last + 1) * len(LEVELS)]
        check_quantiles(own, np.asarray(list(table), float), np.asarray(list(table.values())))


def test_quantiles_of_written_limbs_are_over_all_strings(rng):
    """Of one limb of three places, and of two limbs with digits that hold no carry."""
    for digits, positions in (((0, 19), 1), ((-9, 18), 1), ((0, 9), 2)):
        head = make_head(*digits, size=3)
        logs = special.log_softmax(rng.standard_normal((1, 1 + positions, 3, digits[1] - digits[0] + 1)) * 2, axis=-1)
        targets = make_targets([[(1, positions)]])
        quantiles = head.number_quantiles(make_output(head, logs), targets, jnp.asarray(LEVELS))
        values = to_decimals(quantiles._replace(valid=np.ones((1, 1 + positions, len(LEVELS)), bool)))
        table = sum_strings(logs[0, 1:].reshape(3 * positions, -1), digits[0])
        check_quantiles(values[-len(LEVELS) :], np.asarray(list(table), float), np.asarray(list(table.values())))


@pytest.mark.parametrize("digits", [(0, 9), (0, 19), (-9, 18)], ids=str)
def test_masses_of_written_places_are_those_of_all_strings(digits, rng):
    """Of two places, whose strings also denote numbers of three digits; no other number has a mass."""
    head = make_head(*digits)
    logs = special.log_softmax(rng.standard_normal((1, 3, digits[1] - digits[0] + 1)), axis=-1)
    out, targets, table = make_output(head, logs), make_targets([[(1, 2)]]), sum_strings(logs[0, 1:3], digits[0])
    values = sorted(int(value) for value in table)
    values += [values[-1] + 1, 300, 1005, 12345, *([values[0] - 1, -300] if digits[0] < 0 else [])]
    numerals = to_numeral([Decimal(value) for value in values for _ in range(3)], head.digits)
    numerals = jax.tree.map(lambda x: x.reshape(len(values), 1, 3, *x.shape[1:]), numerals)
    score = jax.jit(jax.vmap(lambda x: head.number_log_mass(out, targets._replace(numerals=x)).sum()))
    own = np.exp(np.asarray(score(numerals), np.float64))
    np.testing.assert_allclose(own, [table.get(value, 0.0) for value in values], rtol=2e-4, atol=1e-12)
    assert own.sum() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("density", ["printed", "learned"])
def test_quantiles_of_a_mixture_invert_its_distribution_function(rng, density):
    head, out = make_case("mixture", rng, density=density, low=-2, high=3, keep=7)
    masses = special.log_softmax(np.asarray(head._project(out, "exponent"), np.float64), axis=-1)
    means = np.asarray(head._project(out, "mantissa"), np.float64)
    deviations = np.exp(np.asarray(head._find_log_variance(out), np.float64) / 2)
    quantiles = find_quantiles(head, out)
    exponents = np.asarray([4, *range(-2, 4)])
    for i, index in enumerate(np.ndindex(2, 3)):
        p = np.exp(masses[index])

        def below(x, p=p, index=index):
            return (p[1:] * stats.norm.cdf((x * 10.0**-exponents - means[index]) / deviations[index])).sum()

        for level, quantile in zip(LEVELS.astype(float), quantiles[i], strict=True):
            x = float(quantile)
            reached = below(x * (1 + 1e-6 * np.sign(x))) + (p[0] if x >= 0 else 0)
            short = below(x * (1 - 1e-6 * np.sign(x))) + (p[0] if x > 0 else 0)
            assert short - 1e-5 <= level <= reached + 1e-5, (index, level, x)


@pytest.mark.parametrize("name", ["mixture", "xval"])
def test_masses_of_rounded_numbers_sum_to_one(rng, name):
    """With two digits there are few numbers; what lies beyond them has the rest."""
    options: dict[str, Any] = {"map": "log1p"}
    if name == "mixture":
        options = {"density": "learned", "low": -2, "high": 2}
    head, out = make_case(name, rng, keep=2, **options)
    sizes = [Decimal(m).scaleb(e - 1) for e in range(-9, 8) for m in range(10, 100)]
    masses = list_masses(head, out, [Decimal(0), *sizes, *(-size for size in sizes)])
    np.testing.assert_allclose(masses.sum(0), 1, rtol=2e-4)


def test_the_mass_of_a_narrow_cell_has_all_its_digits():
    centers, halves = (x.ravel() for x in np.meshgrid(np.linspace(-4, 4, 33), [*10.0 ** np.arange(-6.0, 1.5), 0.09]))
    expected = stats.norm.cdf(centers + halves) - stats.norm.cdf(centers - halves)
    expected = np.where(centers > 0, stats.norm.sf(centers - halves) - stats.norm.sf(centers + halves), expected)
    ends = (jnp.asarray(x, jnp.float32) for x in (centers - halves, centers + halves, centers, halves))
    np.testing.assert_allclose(np.exp(gaussians.log_mass(*ends)), expected, rtol=2e-3)


@pytest.mark.parametrize("name", ["fone", "carry_save"])
def test_the_mass_of_a_number_is_that_of_its_score(rng, name):
    head, out = make_case(name, rng, **({"integer": 5, "fraction": 3} if name == "fone" else {}))
    targets = drawn_targets(out, drawn.draw_decimals(rng, 6, -2, 3))
    parts = head.log_prob(out, targets)
    expected = sum(part for part_name, part in parts.items() if part_name != "token")
    np.testing.assert_array_equal(head.number_log_mass(out, targets), expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fone", {"integer": 2, "fraction": 1}),
        ("carry", {"integer": 2, "fraction": 1}),
        ("mixture", {}),
        ("xval", {}),
    ],
)
def test_quantiles_are_the_same_jitted_and_row_by_row(rng, name, options):
    head, out = make_case(name, rng, **options)
    with jax.disable_jit():
        eager = head.number_quantiles(out, drawn_targets(out), jnp.asarray(LEVELS))
    eager = to_decimals(eager._replace(valid=np.ones((2, 3, len(LEVELS)), bool)))
    rows = [HeadOut(out.hidden[b : b + 1], out.weights) for b in range(2)]
    for parts in ([out], rows):
        jitted = [value for part in parts for values in find_quantiles(head, part) for value in values]
        np.testing.assert_allclose(np.asarray(eager, float), np.asarray(jitted, float), rtol=2e-4, atol=1e-6)


def test_a_certain_number_has_an_interval_of_width_zero():
    log_probs = np.full((4, 20), carries.IMPOSSIBLE, np.float32)
    log_probs[np.arange(4), [15, 0, 8, 3]] = 0.0  # 15 + 0 + 800 + 3000
    digits, last = carries.find_quantiles(
        jnp.asarray(log_probs), carries.Digits(0, 19), jnp.asarray(LEVELS), jnp.zeros(len(LEVELS), bool)
    )
    assert (digits == np.asarray([5, 1, 8, 3])).all() and (last == 0).all()
