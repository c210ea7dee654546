"""Losses and embeddings of numbers against packages of other authors, which `make_number_oracles.py` ran."""

from __future__ import annotations

import json
import pathlib
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.embed import ple
from numjax.numeral.exact import to_numeral
from numjax.text import vocab as vocabularies
from numjax.types import Mark, Number, Text
from tests import drawn

ORACLES = json.loads((pathlib.Path(__file__).parent / "fixtures" / "number_oracles.json").read_text())
FIRST_DIGIT = 4  # the id of 0; the ids before it are words
NAMES = {"reweigh": "reweigh", "squash_factor": "squash"}


@pytest.mark.parametrize("case", ORACLES["ntloss"], ids=lambda case: f"{case['form']} {case['options']}")
def test_the_distance_on_the_number_line_is_that_of_ntloss(case):
    options = {NAMES[name]: value for name, value in case["options"].items()}
    objective = build("objectives", dict(name="ntl", head="next", form=case["form"]) | options, **drawn.CONTEXT)
    logits, labels = np.asarray(case["logits"], np.float32), np.asarray(case["labels"])
    mass = np.asarray(jax.nn.softmax(logits, axis=-1)[..., FIRST_DIGIT:].sum(-1))
    values = jnp.arange(10.0)
    errors = objective.error(jnp.asarray(logits[..., FIRST_DIGIT:]), values, jnp.asarray(labels - FIRST_DIGIT), mass)
    np.testing.assert_allclose(np.asarray(errors)[labels >= FIRST_DIGIT].mean(), case["loss"], rtol=1e-5)


def test_piecewise_linear_bins_are_those_of_rtdl():
    case = ORACLES["bins"]
    features = ple.encode(np.asarray(case["numbers"]), tuple(case["edges"]), "linear")
    np.testing.assert_allclose(features, case["features"], atol=1e-5, rtol=1e-5)


def test_the_periodic_embedding_is_that_of_rtdl():
    case = ORACLES["periodic"]
    weights = {name: np.asarray(value, np.float32) for name, value in case["weights"].items()}
    part = build("embed", dict(name="periodic", dim=6, frequencies=5, as_published=True))
    numerals = to_numeral([Decimal(str(number)) for number in case["numbers"]], 20)
    params = {"frequency": weights["periodic.weight"][0], "kernel": weights["linear.weight"].T}
    vectors = part.apply({"params": params | {"bias": weights["linear.bias"]}}, numerals)
    np.testing.assert_allclose(vectors, case["vectors"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", ORACLES["chronos"], ids=lambda case: str(case["series"][0]))
def test_bins_of_a_series_are_those_of_chronos(case):
    vocabulary = vocabularies.build({"name": "sentencepiece", "size": 300}, ["next 12 34.5 = -6"])
    scheme = build("text", {"name": "bins"}, vocab=vocabulary)
    numbers = [Number(f"{x:f}", x) for x in (Decimal(repr(x)) for x in case["series"])]
    given = numbers[: case["given"]]
    segments = [segment for number in numbers for segment in (Text(" "), number)]
    row = scheme.encode((*segments[: 2 * len(given)], Mark("[SEP]"), *segments[2 * len(given) :]))
    names = [scheme.vocab.mark_name(token) for token in row.ids.tolist()]
    assert [int(name[2:-1]) + 3 for name in names if name in scheme.marks and name[1] == "b"] == case["ids"]
    after = scheme.after(given)
    nearest = [float(after.nearest(number.value)) for number in numbers]
    np.testing.assert_allclose(nearest, case["values"], rtol=1e-5, atol=1e-6)
    decoded = [s.value for s in scheme.decode(row.ids.tolist(), given) if isinstance(s, Number)]
    np.testing.assert_allclose([float(value) for value in decoded[len(given) :]], nearest[len(given) :], rtol=1e-8)
