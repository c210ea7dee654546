"""xVal: its squared error, the number that it writes, and its input embedding from existing parts."""

from __future__ import annotations

from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import numgpt
from numjax.errors import UsageError
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn
from tests.swapped import train_with_changes


def make_case(rng, **options):
    head = build("heads", dict(name="xval") | options, **drawn.CONTEXT)
    h = rng.standard_normal((3, 12, 16)).astype(np.float32)
    inputs, _ = drawn.draw_tokens(rng, 3, 12)
    table = rng.standard_normal((drawn.VOCAB, 16)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, inputs, table)
    return head, head.apply({"params": params}, h, inputs, table), params, h


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("options", [dict(map="linear", scale=10.0), dict(map="log1p"), dict(map="log1p", scale=5.0)])
def test_the_loss_is_the_squared_error_of_the_mapped_value(options, rng):
    head, out, params, h = make_case(rng, **options)
    values = [Decimal(int(rng.integers(-500, 500))).scaleb(-1) for _ in range(36)]
    numerals = jax.tree.map(lambda x: x.reshape(3, 12, *x.shape[1:]), to_numeral(values, 20))
    log_probs = head.number_log_prob(out, numerals)["number"]
    w = {name: np.asarray(x, np.float64) for name, x in params.items()}
    u = (gelu(h @ w["number_up"] + w["number_up_bias"]) @ w["number_down"] + w["number_down_bias"])[..., 0]
    x = np.asarray([float(v) for v in values]).reshape(3, 12) / options.get("scale", 1.0)
    expected = x if options["map"] == "linear" else np.sign(x) * np.log1p(np.abs(x))
    np.testing.assert_allclose(-log_probs, (u - expected) ** 2 + 0.5 * np.log(np.pi), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("map", ["linear", "linear5", "log1p", "bittokens"])
def test_the_loss_of_any_number_is_finite_and_so_is_the_norm_of_its_gradient(map, rng):
    """An identifier of 20 digits in a text must not end a training."""
    head, out, params, _ = make_case(rng, map=map)
    values = [Decimal(text) for text in ("1e15", "-1e20", "1e30", "1e300")] * 9
    numerals = jax.tree.map(lambda x: x.reshape(3, 12, *x.shape[1:]), to_numeral(values, 20))

    def loss(weights):
        return -head.number_log_prob(out._replace(weights=weights), numerals)["number"].sum()

    value, grads = jax.value_and_grad(loss)(dict(params))
    assert np.isfinite(value)
    assert np.isfinite(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))


def write_number(head, u: float):
    """Returns the number of a head of width 1 whose MLP gives `u`, and the ends of its interval."""
    w = {
        "kernel": np.zeros((drawn.VOCAB, 1), np.float32),
        "number_up": np.zeros((1, 4), np.float32),
        "number_up_bias": np.zeros(4, np.float32),
        "number_down": np.zeros((4, 1), np.float32),
        "number_down_bias": np.full(1, u, np.float32),
    }
    numeral, estimate = head.number(HeadOut(np.zeros((1, 1), np.float32), w), None)
    ends = [to_decimals(end)[0] for end in (estimate.low, estimate.high)]
    return to_decimals(numeral)[0], ends


@pytest.mark.parametrize("text", ["0", "1", "-3", "1000", "0.001", "-123.45", "98765", "1e20", "-1e20"])
def test_a_sure_head_returns_the_values_that_it_represents(text):
    value = Decimal(text)
    head = build(
        "heads",
        dict(name="xval", width=1, scale=1e-3),
        **{k: drawn.CONTEXT[k] for k in drawn.CONTEXT if k != "width"},
    )
    u = float(np.sign(float(value)) * np.log1p(abs(float(value)) / 1e-3))
    number, (low, high) = write_number(head, u)
    assert head.represents(value)
    assert abs(number - value) <= abs(value) * Decimal("3e-5"), "as near as a float32 of its logarithm"
    assert low < number < high
    assert not head.represents(Decimal("123456")) and not head.represents(Decimal("1e40"))


def test_linear_values_are_exact_where_floats_are():
    context = {k: v for k, v in drawn.CONTEXT.items() if k != "width"}
    head = build("heads", dict(name="xval", width=1, map="linear", scale=1.0), **context)
    for text in ("0", "2", "-0.5", "1024", "-65536"):
        assert write_number(head, float(text))[0] == Decimal(text)
    assert write_number(head, float("1e35"))[0] == Decimal("1e30"), "clipped, as documented"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (dict(map="cube"), "map must be one of"),
        (dict(scale=0.0), "scale must be above 0"),
        (dict(keep=12), "keep must"),
    ],
)
def test_bad_options_give_one_line_errors(options, line, rng):
    with pytest.raises(UsageError, match=line):
        make_case(rng, **options)


def test_xval_is_trained_scored_and_generates_by_set_words_alone(tmp_path):
    words = "embeds.numeral=value:scale=100,fusion=replace", "heads.next=xval"
    model, metrics = train_with_changes(tmp_path, numgpt.get_config("smoke,task=generation"), *words)
    assert {"next/number", "next/token", "next/mass"} <= set(metrics) and metrics["NGR"] == 1
    generation = model.generate("Q: 3 and 4 are how many? A:", max_tokens=6)
    (number,) = generation.numbers
    assert (
        number["approximate"]
        and number["method"] == "density"
        and Decimal(number["value"]) == Decimal(generation.text.strip())
    )
    # A number's vector is its value times one vector, as in the paper.
    one, two = model.embed(["1", "2"])
    zero = model.embed("0")
    np.testing.assert_allclose(two - zero, 2 * (one - zero), atol=1e-6)
