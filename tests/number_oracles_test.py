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
from numjax.model import Model
from numjax.numeral.exact import to_numeral
from numjax.text import vocab as vocabularies
from numjax.types import Batch, HeadOut, Mark, Number, Targets, Text, Tokens
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


def test_values_enter_a_stack_as_those_of_x_transformers():
    """The vector of [NUM] times the value; its row of the table is the map of `embed/value`."""
    case = ORACLES["xval"]
    ids, table = np.asarray(case["ids"], np.int32), np.asarray(case["table"], np.float32)
    is_number = ids == case["num_id"]
    rows = [
        [Decimal(str(x)) for x, b in zip(*row, strict=True) if b]
        for row in zip(case["numbers"], is_number, strict=True)
    ]
    numerals = drawn.make_numeral_table([[*row, *[None] * (7 - len(row))] for row in rows], 20)
    index = np.where(is_number, np.cumsum(is_number, axis=1) - 1, -1).astype(np.int32)
    zeros = np.zeros(ids.shape, np.int32)
    tokens = Tokens(ids, zeros, zeros + 1, numeral_index=index, numerals=numerals)
    context = drawn.CONTEXT | {"vocab_size": 6, "size": 6, "num_id": case["num_id"], "width": 8}
    embeds = {
        "token": build("embed", {"name": "token"}, dim=8, **context),
        "numeral": build("embed", {"name": "value"}, dim=1),
    }
    backbone = drawn.build_backbone(drawn.DECODER | {"width": 8})
    model = Model(embeds, {"numeral": "replace"}, backbone, {"next": build("heads", {"name": "token"}, **context)})
    batch = Batch(tokens, Targets(ids, zeros > 0))
    params = jax.tree.map(np.asarray, model.init(jax.random.key(0), batch)["params"])
    params["embeds_token"]["table"] = table
    params["fuse_numeral"]["kernel"] = table[case["num_id"]][None]
    vectors = model.apply({"params": params}, tokens, method="embed")
    np.testing.assert_allclose(vectors, case["vectors"], atol=1e-5, rtol=1e-5)


def test_the_error_of_a_value_is_that_of_x_transformers():
    case = ORACLES["xval"]
    head = build("heads", dict(name="xval", map="linear", scale=1.0), **drawn.CONTEXT)
    sizes = {"number_up": (head.width, 4), "number_up_bias": (4,), "number_down": (4, 1)}
    weights = {key: np.zeros(shape, np.float32) for key, shape in sizes.items()}
    ids, hidden = np.asarray(case["ids"])[:, 1:], np.zeros((1, head.width), np.float32)
    count = 0
    for at in np.argwhere(ids == case["num_id"]):
        target = case["numbers"][at[0]][at[1] + 1]
        predicted, loss = (case[name][at[0]][at[1]] for name in ("predictions", "losses"))
        out = HeadOut(hidden, weights | {"number_down_bias": np.full(1, predicted, np.float32)})
        part = head.number_log_prob(out, to_numeral([Decimal(str(target))], 20))["number"][0]
        assert float(part) == pytest.approx(-loss - 0.5 * np.log(np.pi), rel=1e-5)
        count += 1
    assert count >= 4


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
