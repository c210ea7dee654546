"""Periodic embeddings: the formula in float64, and what becomes of large numbers."""

from __future__ import annotations

from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from tests import drawn

TEXTS = ["0", "1", "-1", "12.5", "-0.001", "9999", "123456"]


def embed(options, texts, rng, scale=0.3):
    part = build("embed", dict(name="periodic", dim=6, frequencies=5) | options)
    numerals = to_numeral([Decimal(text) for text in texts], 20)
    params = drawn.draw_params(part, rng, numerals, scale=scale)
    return np.asarray(part.apply({"params": params}, numerals)), params


@pytest.mark.parametrize(
    "options", [dict(), dict(scale=50.0), dict(map="linear", scale=1e3), dict(as_published=True)]
)
def test_the_formula(options, rng):
    x_embedded, params = embed(options, TEXTS, rng)
    w = {name: np.asarray(value, np.float64) for name, value in params.items()}
    z = np.asarray([float(text) for text in TEXTS]) / options.get("scale", 1.0)
    if "map" not in options and "as_published" not in options:
        z = np.sign(z) * np.log1p(np.abs(z))
    angles = 2 * np.pi * z[:, None] * w["frequency"]
    expected = np.maximum(np.concatenate([np.cos(angles), np.sin(angles)], -1) @ w["kernel"] + w["bias"], 0)
    # The angle of 123456 itself has an error of 0.02 in float32.
    np.testing.assert_allclose(x_embedded, expected, atol=0.1 if options.get("as_published") else 1e-4)


def test_large_numbers_keep_a_difference_by_default_and_not_as_published(rng):
    texts = ["1e20", "1.5e20", "1e25"]
    x_embedded, _ = embed({}, texts, rng)
    assert len(np.unique(x_embedded.round(3), axis=0)) == 3
    limited, _ = embed(dict(map="linear"), texts, rng)
    np.testing.assert_array_equal(limited[0], limited[1])
    published, _ = embed(dict(as_published=True), ["1e30", "1e35"], rng)
    assert np.isfinite(published).all()


def test_frequencies_start_with_the_published_spread():
    part = build("embed", dict(name="periodic"))
    params = part.init(jax.random.key(0), to_numeral([Decimal(1)], 20))["params"]
    assert params["frequency"].shape == (48,) and params["kernel"].shape == (96, 64)
    assert float(params["frequency"].std()) == pytest.approx(0.01, rel=0.4)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (dict(map="cube"), "periodic: map must be one of"),
        (dict(scale=-1.0), "scale must be above 0"),
        (dict(frequencies=0), "frequencies must be at least 1"),
        (dict(sigma=0.0), "sigma must be above 0"),
        (dict(dim=0), "dim must be above 0"),
    ],
)
def test_bad_options_give_one_line(options, line):
    with pytest.raises(UsageError, match=line):
        build("embed", dict(name="periodic") | options)
