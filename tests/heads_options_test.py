"""What heads are without options: how their parameters start, and which numbers they can write."""

from __future__ import annotations

from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.build import build, names
from tests import drawn

WIDTH = 64
START = 0.02  # the standard deviation that GPT-2 and BERT start from


@pytest.mark.parametrize("name", names("heads"))
def test_kernels_start_small_scales_at_one_and_biases_at_zero(rng, name):
    head = build("heads", {"name": name}, **drawn.CONTEXT | {"width": WIDTH})
    batch = drawn.add_units(drawn.draw_batch(rng), rng)
    hidden = np.zeros((*batch.inputs.ids.shape, WIDTH), np.float32)
    table = np.zeros((drawn.VOCAB, WIDTH), np.float32)
    shapes = head.init(jax.random.key(0), hidden, batch.inputs, table).get("params", {})
    for path, values in jax.tree_util.tree_leaves_with_path(shapes):
        label = jax.tree_util.keystr(path)
        if "bias" in label:
            assert not values.any(), label
        elif "scale'" in label and "kernel" not in label and values.ndim == 1:
            assert (values == 1).all(), label
        else:
            # Within four standard errors of a normal sample's spread and mean.
            assert float(values.std()) == pytest.approx(START, rel=4 / (2 * values.size) ** 0.5), label
            assert abs(float(values.mean())) < 4 * START / values.size**0.5, label


@pytest.mark.parametrize(
    ("name", "written", "beyond"),
    [
        ("fone", ["999999999.9999", "-0.0001", "0", "100000000"], ["1000000000", "0.00001", "-1e-5"]),
        ("xval", ["12345", "-1.2345e29", "0", "1.5e-8"], ["123456", "1e30", "1e-9"]),
    ],
)
def test_the_numbers_that_a_head_can_write(name, written, beyond):
    head = build("heads", {"name": name}, **drawn.CONTEXT | {"digits": 20})
    assert all(head.represents(Decimal(text)) for text in written)
    assert not any(head.represents(Decimal(text)) for text in beyond)


@pytest.mark.parametrize("name", ["token", "fone", "xval", "masked"])
def test_heads_share_the_table_of_tokens_unless_an_option_says_otherwise(rng, name):
    batch = drawn.draw_batch(rng)
    hidden = np.zeros((*batch.inputs.ids.shape, drawn.CONTEXT["width"]), np.float32)
    table = np.zeros((drawn.VOCAB, drawn.CONTEXT["width"]), np.float32)
    for options, has_own in (({}, False), ({"tied": False}, True)):
        head = build("heads", {"name": name} | options, **drawn.CONTEXT)
        assert ("kernel" in head.init(jax.random.key(0), hidden, batch.inputs, table).get("params", {})) == has_own
