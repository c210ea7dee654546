"""BitTokens' base-10 code: its published example, exact digits, and a head that writes them."""

from __future__ import annotations

from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import base10
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn


def spell(text: str) -> str:
    """Returns the digits of a number's code, those of the exponent first."""
    digits = base10.encode(to_numeral([Decimal(text)], 20))[0].tolist()
    return f"{''.join(map(str, digits[:3]))} {''.join(map(str, digits[3:])).rstrip('0')}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("123.4", "502 1234"),
        ("-0.001", "497 1"),
        ("1e23", "523 1"),
        ("0", "500 "),
        ("-0", "500 "),
        ("12345678901234567.5", "516 12345678901234568"),
        ("99999999999999999.5", "517 1"),
        ("1e499", "999 1"),
        ("1e500", "999 99999999999999999"),
        ("-1e9999", "999 99999999999999999"),
        ("1e-500", "000 1"),
        ("1e-501", "500 "),
    ],
)
def test_a_number_has_its_digits(text, code):
    assert spell(text) == code


def test_every_number_of_the_range_comes_back(rng):
    values = drawn.draw_decimals(rng, 300, -480, 480)
    numerals = to_numeral([*values, Decimal("12345678901234567"), Decimal(0)], 20)
    decoded = jax.jit(lambda n: base10.decode(base10.encode(n), n.sign, 20))(numerals)
    assert to_decimals(decoded) == to_decimals(numerals)


def test_the_embedding_has_one_feature_of_ten_for_each_digit():
    part = build("embed", dict(name="base10"))
    plus, minus = np.asarray(part.apply({}, to_numeral([Decimal("123.4"), Decimal("-123.4")], 20)))
    assert plus[0] == 1 and minus[0] == 0 and (plus[1:] == minus[1:]).all()
    assert plus[1:].reshape(20, 10).argmax(-1).tolist()[:8] == [5, 0, 2, 1, 2, 3, 4, 0]
    assert plus[1:].reshape(20, 10).sum(-1).tolist() == [1] * 20
    grid = jax.tree.map(lambda x: x[None], to_numeral([Decimal("123.4"), Decimal("-123.4")], 20))
    np.testing.assert_array_equal(np.asarray(part.apply({}, grid))[0], [plus, minus])
    wide = np.asarray(build("embed", dict(name="base10", dim=210)).apply({}, to_numeral([Decimal("123.4")], 20)))
    assert (wide[0, :201] == plus).all() and not wide[0, 201:].any()
    with pytest.raises(UsageError, match="201 features do not fit dim=8"):
        build("embed", dict(name="base10", dim=8)).apply({}, to_numeral([Decimal(1)], 20))


def make_output(rng, count: int):
    head = build("heads", dict(name="base10"), **(drawn.CONTEXT | {"digits": 20}))
    h = rng.standard_normal((count, head.width)).astype(np.float32)
    weights = {
        "number_kernel": jnp.asarray(rng.standard_normal((head.width, 201)), jnp.float32),
        "number_bias": jnp.asarray(rng.standard_normal(201), jnp.float32),
    }
    return head, HeadOut(jnp.asarray(h), weights)


def test_the_likelihood_is_that_of_sign_and_digits(rng):
    head, out = make_output(rng, 4)
    texts = ["12.5", "-7e-30", "0", "-3"]
    outputs = np.asarray(out.hidden, np.float64) @ np.asarray(out.weights["number_kernel"], np.float64)
    outputs = outputs + np.asarray(out.weights["number_bias"], np.float64)
    logits = outputs[:, 1:].reshape(4, 20, 10)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    parts = head.number_log_prob(out, to_numeral(list(map(Decimal, texts)), 20))
    for i, text in enumerate(texts):
        exponent, mantissa = spell(text).split(" ")
        digits = list(map(int, exponent + mantissa.ljust(17, "0")))
        sign = -1 if text.startswith("-") else 1
        assert float(parts["digits"][i]) == pytest.approx(
            sum(log_probs[i, k, d] for k, d in enumerate(digits)), rel=1e-4
        )
        assert float(parts["sign"][i]) == pytest.approx(-np.log1p(np.exp(-sign * outputs[i, 0])), rel=1e-4)


def test_samples_have_the_shares_of_the_softmax(rng):
    head, out = make_output(rng, 1)
    many = out._replace(hidden=jnp.repeat(out.hidden, 4000, axis=0))
    numeral, _ = head.number(many, jax.random.key(1))
    (best,) = to_decimals(head.number(out, None)[0])
    assert set(np.asarray(numeral.sign).tolist()) == {-1, 1}
    outputs = np.asarray(out.hidden @ out.weights["number_kernel"] + out.weights["number_bias"], np.float64)[0]
    share = np.mean(np.asarray(numeral.sign) < 0)
    assert share == pytest.approx(1 / (1 + np.exp(outputs[0])), abs=0.03)
    logits = outputs[1:].reshape(20, 10)
    digits = "".join(map(str, logits.argmax(-1)))
    sign = "-" if outputs[0] < 0 else ""
    assert best == Decimal(f"{sign}{digits[3]}.{digits[4:]}e{int(digits[:3]) - 500}")
    hundreds = np.exp(logits[0]) / np.exp(logits[0]).sum()
    # Numbers with a mantissa that begins with 0 have a smaller exponent.
    plain = np.asarray(numeral.n_digits) == 17
    drawn_hundreds = np.bincount((np.asarray(numeral.exponent)[plain] + 500) // 100, minlength=10) / plain.sum()
    np.testing.assert_allclose(drawn_hundreds, hundreds, atol=0.04)
