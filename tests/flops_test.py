"""The model FLOPs that the log divides by: those of the products in the gradient as JAX writes it down."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from numjax.build import build
from numjax.model import Model
from numjax.train.compile import flops_per_token
from numjax.train.step import losses
from numjax.types import TrainState
from tests import drawn
from tests.encoder_decoder_test import FORMS, draw_sources, make_model

OBJECTIVES = {"next": build("objectives", {"name": "nll", "head": "next"})}


def count_products(jaxpr) -> int:
    """Returns 2 · multiplications of all matrix products of a program, those of its inner programs included."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            total += 2 * math.prod(left[axis] for axis in contracted) * math.prod(out)
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += times * sum(map(count_products, jaxprs_in_params(equation.params)))
    return total


def count_step(model: Model, params, batch) -> int:
    def compute_loss(params):
        return losses(model, OBJECTIVES, params, batch, None)["next"].total

    return count_products(jax.make_jaxpr(jax.grad(compute_loss))(params).jaxpr)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_decoder_has_the_products_of_its_gradient(tied, layers):
    model = drawn.build_model(None, {"name": "token", "tied": tied}, layers=layers)
    batch = drawn.draw_batch(np.random.default_rng(0), lengths=[[16], [16]], length=16, numerals=False)
    params = drawn.draw_params(model, np.random.default_rng(0), batch)
    state = TrainState(jnp.int32(0), params, None)
    assert flops_per_token(model, state, 16) * 32 == count_step(model, params, batch)


@pytest.mark.parametrize("form", FORMS)
def test_an_encoder_and_a_decoder_have_those_of_theirs(form, rng):
    model = make_model(form, numerals=False, layers=2, encoder_layers=3)
    batch = drawn.draw_batch(rng, lengths=[[8], [8]], length=8, numerals=False)
    source = draw_sources(rng, (24, 24), 24)._replace(numerals=None, numeral_index=None)
    batch = batch._replace(source=source)
    params = drawn.draw_params(model, rng, batch)
    expected = count_step(model, params, batch)
    assert flops_per_token(model, TrainState(jnp.int32(0), params, None), 8, 24) * 2 * 32 == pytest.approx(expected)
