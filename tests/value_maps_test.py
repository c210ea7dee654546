"""The maps of numbers that xVal's re-implementations use: published values, inverses, the embedding and the head."""

from __future__ import annotations

import math
from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import value_maps
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn

PUBLISHED = {
    "bittokens": {"1": 2.5, "10": 2.66667, "0.001": 2.0, "123.4": 2.84855, "1e15": 5.0},
    "log1p": {"1": 0.693147, "-3": -1.386294, "1000": 6.908755},
}
PAIRS = [(name, text, mapped) for name, values in PUBLISHED.items() for text, mapped in values.items()]
NUMBERS = ["0", "-0", "1", "-1", "999", "-1000", "0.001", "12345", "7.25", "1e6", "-0.5"]


@pytest.mark.parametrize(("name", "text", "mapped"), PAIRS)
def test_maps_have_the_published_values(name, text, mapped):
    part = build("embed", dict(name="value", map=name, dim=3))
    numerals = to_numeral([Decimal(text)], 20)
    tolerance = 6e-6 if name == "bittokens" else 6e-7  # the digits that are known
    for vectors in (part.host_vectors(numerals), part.apply({}, numerals)):
        assert vectors[0, 0] == pytest.approx(mapped, abs=tolerance) and not np.any(vectors[0, 1:])


def test_linear5_brings_the_largest_number_to_five():
    part = build("embed", dict(name="value", map="linear5", scale=800.0))
    vectors = part.host_vectors(to_numeral([Decimal(800), Decimal(-800), Decimal(160)], 20))
    np.testing.assert_allclose(vectors[:, 0], [5, -5, 1])


@pytest.mark.parametrize("name", value_maps.MAPS)
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_the_inverse_gives_the_number_back(name, scale, rng):
    exponents = rng.uniform(-4, 12, 500)
    x = np.concatenate([[0.0], 10.0**exponents * rng.choice([-1, 1], 500)])
    back = value_maps.invert_map(value_maps.apply_map(x, name, scale), name, scale)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-12)
    mapped = value_maps.apply_map(np.sort(x), name, scale)
    assert (np.diff(mapped) > 0).all(), "a larger number has a larger value"


@pytest.mark.parametrize("name", value_maps.MAPS)
def test_numbers_outside_of_every_range_stay_finite(name):
    x = np.asarray([np.inf, -np.inf, 1e300, -1e300])
    mapped = value_maps.apply_map(x, name, 1.0)
    assert np.isfinite(mapped).all() and (np.sign(mapped) == np.sign(x)).all()
    back = value_maps.invert_map(np.asarray([1e38, -1e38], np.float32), name, 1.0)
    assert np.isfinite(back).all() and (np.sign(back) == [1, -1]).all()
    assert value_maps.invert_map(np.asarray(0.1), "bittokens", 1.0) == 0, "inside of its jump at zero"


def write_numbers(name: str, scale: float) -> list[Decimal | None]:
    """Returns the numbers of a head whose MLP gives the float32 next to f(x), for each of `NUMBERS`."""
    context = {key: value for key, value in drawn.CONTEXT.items() if key != "width"}
    head = build("heads", dict(name="xval", width=1, map=name, scale=scale), **context)
    weights = {"number_up": np.zeros((1, 1), np.float32), "number_up_bias": np.zeros(1, np.float32)}
    weights |= {"number_down": np.zeros((1, 1), np.float32)}
    written = []
    for x in map(float, NUMBERS):
        u = np.asarray(value_maps.apply_map(np.asarray([x]), name, scale), np.float32)
        out = HeadOut(np.zeros((1, 1), np.float32), weights | {"number_down_bias": u})
        numerals = to_numeral([Decimal(x)], drawn.DIGITS)
        error = head.number_log_prob(out, numerals)["number"] + 0.5 * np.log(np.pi)
        assert abs(float(error[0])) <= 1e-9 + 1e-13 * float(u[0]) ** 2, "the loss has the same map"
        written += to_decimals(head.number(out, None)[0])
    return written


@pytest.mark.parametrize(
    ("name", "scale"), [("linear5", 1.0), ("log1p", 1.0), ("bittokens", 1.0), ("bittokens", 8.0)]
)
def test_a_head_that_predicts_the_mapped_value_writes_the_number(name, scale):
    for text, written in zip(NUMBERS, write_numbers(name, scale), strict=True):
        # A float32 of a logarithm keeps fewer digits of the number than one of the number.
        assert math.isclose(written, Decimal(text), rel_tol=2e-5, abs_tol=1e-8), (text, written)


def test_bittokens_ends_at_its_largest_number():
    options = dict(name="xval", map="bittokens", scale=10.0)
    head = build("heads", options, **drawn.CONTEXT)
    assert head.represents(Decimal("9.9999e15")) and not head.represents(Decimal("1.1e16"))
    assert head.represents(Decimal(0)) and not head.represents(Decimal("-2e16"))


@pytest.mark.parametrize("options", [dict(map="cube"), dict(scale=0.0), dict(scale=float("inf"))])
def test_bad_options_give_one_line(options):
    with pytest.raises(UsageError, match=r"^value: (map must be one of linear, linear5|scale must be above 0)"):
        build("embed", dict(name="value") | options)


@pytest.mark.parametrize("name", value_maps.MAPS)
def test_a_network_of_a_huge_value_has_gradients(name):
    part = build("embed", dict(name="value_mlp", map=name, dim=3))
    numerals = to_numeral([Decimal("1e25"), Decimal("-3e18"), Decimal(2)], 20)
    params = part.init(jax.random.key(0), numerals)["params"]
    grads = jax.grad(lambda p: part.apply({"params": p}, numerals).sum())(params)
    assert all(np.isfinite(g).all() and np.any(g) for g in jax.tree.leaves(grads))
