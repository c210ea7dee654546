"""The Regression Transformer's code of places: published values, and which tokens get it."""

from __future__ import annotations

import numpy as np
import pytest

from numjax.build import build
from numjax.embed import place_code
from numjax.errors import UsageError
from numjax.types import Tokens

SYMBOLS = ((3, 0.8), (5, 20.0), (9, 0.0))


def embed(ids, **options):
    part = build("embed", {"name": "place_code"} | options, dim=6, number_symbols=SYMBOLS)
    ids = np.asarray([ids], np.int32)
    return np.asarray(part.apply({}, Tokens(ids, ids, ids + 1)))[0]


def test_published_codes():
    expected = {"paper": [0.8, -0.4, 0.26667, -0.2, 0.16, -0.13333], "code": [8, -8, 2.6667, -2.6667, 1.6, -1.6]}
    np.testing.assert_allclose(embed([3])[0], expected["paper"], rtol=0, atol=5e-6)
    # Their code divides by a tenth of the largest value, here 1.
    np.testing.assert_allclose(embed([3], form="code", scale=0.1)[0], expected["code"], rtol=0, atol=5e-5)
    np.testing.assert_allclose(place_code.make_codes(np.asarray([0.8]), 6)[0], expected["paper"], rtol=0, atol=5e-6)


def test_only_numbers_have_a_code():
    vectors = embed([0, 3, 4, 5, 9, 10, 200])
    assert vectors.any(-1).tolist() == [False, True, False, True, False, False, False]
    np.testing.assert_allclose(vectors[3], vectors[1] * 25, rtol=1e-6)


def test_bad_options_are_one_line():
    for options, says in (({"form": "x"}, "form must be one of"), ({"scale": 0.0}, "scale must be above 0")):
        with pytest.raises(UsageError, match=says):
            embed([3], **options)
    ids = np.zeros((1, 2), np.int32)
    with pytest.raises(UsageError, match="choose scheme places"):
        build("embed", {"name": "place_code"}, dim=6).apply({}, Tokens(ids, ids, ids))
