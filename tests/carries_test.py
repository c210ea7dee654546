"""Redundant digits: a number's probability is the sum over all strings that denote it, by brute force."""

from __future__ import annotations

import itertools
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import carries
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn

log_prob = jax.jit(carries.log_prob, static_argnums=(2, 3))
choose = jax.jit(carries.choose, static_argnums=1)
KINDS = [carries.Digits(0, 9), carries.Digits(0, 18), carries.Digits(0, 19), carries.Digits(-9, 18)]


def digits_of(value: int, places: int) -> np.ndarray:
    """The digits of a number modulo 10^places, lowest place first."""
    return np.asarray([value // 10**i % 10 for i in range(places)])


def draw_log_probs(rng, places: int, kind: carries.Digits) -> np.ndarray:
    return special.log_softmax(rng.standard_normal((places, kind.count)) * 2, axis=-1)


def sum_strings(log_probs: np.ndarray, kind: carries.Digits) -> dict[int, float]:
    """The probability of each number, over all strings, in float64."""
    sums: dict[int, float] = {}
    for string in itertools.product(range(kind.count), repeat=len(log_probs)):
        value = sum((s + kind.least) * 10**i for i, s in enumerate(string))
        sums[value] = sums.get(value, 0) + float(np.exp(sum(log_probs[i, s] for i, s in enumerate(string))))
    return sums


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(0, 9, (0,)), (0, 18, (0, 1)), (0, 19, (0, 1, 2)), (-9, 18, (-1, 0, 1)), (0, 81 * 3, tuple(range(27)))],
)
def test_the_carries_are_all_that_occur(least, most, expected):
    kind = carries.Digits(least, most)
    assert kind.carries == expected
    reached = {0}
    for _ in range(6):
        reached |= {(s + c) // 10 for s in range(least, most + 1) for c in reached}
    assert reached == set(expected)


@pytest.mark.parametrize(
    ("kind", "value", "places", "loss"),
    [
        (carries.Digits(0, 19), 12, 2, 5.298317),
        (carries.Digits(0, 19), 100, 3, 7.888585),
        (carries.Digits(0, 19), 199, 3, 7.600902),
        (carries.Digits(0, 19), 0, 4, 11.982929),
        (carries.Digits(-9, 18), 12, 2, 5.565797),
        (carries.Digits(-9, 18), 100, 3, 8.610319),
        (carries.Digits(-9, 18), 199, 3, 8.610319),
        (carries.Digits(-9, 18), 0, 4, 11.249376),
        (carries.Digits(0, 18), 12, 2, 5.195731),
        (carries.Digits(0, 18), 100, 3, 7.734705),
        (carries.Digits(0, 18), 199, 3, 8.833317),
        (carries.Digits(0, 18), 0, 4, 11.777756),
    ],
)
def test_uniform_digits_have_the_losses_of_a_count(kind, value, places, loss):
    log_probs = np.full((places, kind.count), -np.log(kind.count))
    result = -float(log_prob(log_probs, digits_of(value, places), kind))
    assert result == pytest.approx(loss, abs=2e-6)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_probability_of_every_number_is_the_sum_over_its_strings(kind, rng):
    places = 3
    log_probs = draw_log_probs(rng, places, kind)
    expected = sum_strings(log_probs, kind)
    # What is beyond the places is the last carry; all numbers together have probability 1.
    total = 0.0
    for last_carry in range(min(expected) // 10**places, max(expected) // 10**places + 1):
        values = range(last_carry * 10**places, (last_carry + 1) * 10**places)
        digits = np.stack([digits_of(value, places) for value in values])
        logs = jnp.broadcast_to(jnp.asarray(log_probs, jnp.float32), (len(values), *log_probs.shape))
        results = np.exp(np.asarray(log_prob(logs, digits, kind, last_carry), np.float64))
        np.testing.assert_allclose(results, [expected.get(value, 0) for value in values], rtol=1e-5, atol=1e-9)
        total += results.sum()
    assert total == pytest.approx(1, rel=1e-5)


def test_two_carries_at_once_are_counted():
    """19 at both places is 209, which takes a carry of 2."""
    kind = carries.Digits(0, 19)
    log_probs = np.full((3, 20), -np.inf)
    log_probs[[0, 1], 19] = 0
    log_probs[2, 0] = 0
    log_probs = np.maximum(log_probs, -1e3)
    assert float(log_prob(log_probs, digits_of(209, 3), kind)) == pytest.approx(0, abs=1e-6)
    assert choose(log_probs, kind)[0].tolist() == [9, 0, 2]


def test_a_string_and_its_resolved_form_have_one_number(rng):
    """Certain strings of redundant digits: no loss for the number, the same loss as for its resolved digits."""
    kind = carries.Digits(-9, 18)
    for _ in range(50):
        string = [*rng.integers(-9, 19, 5).tolist(), int(rng.integers(1, 9))]
        value = sum(s * 10**i for i, s in enumerate(string))
        if not 0 <= value < 10**6:
            continue
        for digits in (string, digits_of(value, 6).tolist()):
            log_probs = np.full((6, kind.count), -100.0)
            log_probs[np.arange(6), np.asarray(digits) - kind.least] = 0
            assert float(log_prob(log_probs, digits_of(value, 6), kind)) == pytest.approx(0, abs=1e-5)
            assert choose(log_probs, kind)[0].tolist() == digits_of(value, 6).tolist()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_chosen_number_is_that_of_the_likeliest_string(kind, rng):
    places = 3
    for _ in range(2):
        log_probs = draw_log_probs(rng, places, kind)
        best, best_value = -np.inf, -1
        for string in itertools.product(range(kind.count), repeat=places):
            value = sum((s + kind.least) * 10**i for i, s in enumerate(string))
            score = sum(log_probs[i, s] for i, s in enumerate(string))
            if 0 <= value < 10**places and score > best:
                best, best_value = score, value
        digits, score = choose(log_probs, kind)
        assert digits.tolist() == digits_of(best_value, places).tolist()
        assert float(score) == pytest.approx(best, rel=1e-5)


def test_drawn_numbers_have_their_probabilities(rng):
    kind, places, n_draws = carries.Digits(0, 19), 2, 20_000
    log_probs = draw_log_probs(rng, places, kind)
    sums = {value: p for value, p in sum_strings(log_probs, kind).items() if value < 100}
    digits, log_total = choose(
        jnp.broadcast_to(jnp.asarray(log_probs), (n_draws, places, kind.count)), kind, jax.random.key(3)
    )
    assert float(log_total[0]) == pytest.approx(np.log(sum(sums.values())), abs=1e-5)
    counts = np.bincount(np.asarray(digits @ jnp.asarray([1, 10])), minlength=100)
    expected = np.asarray([sums.get(value, 0) for value in range(100)]) / sum(sums.values()) * n_draws
    assert (((counts - expected) ** 2) / np.maximum(expected, 1e-9)).sum() < 99 + 5 * np.sqrt(2 * 99)


def test_the_gradient_is_that_of_finite_differences_and_always_finite(rng):
    kind = carries.Digits(0, 19)
    log_probs, digits = draw_log_probs(rng, 3, kind), digits_of(104, 3)
    gradient = np.asarray(jax.grad(lambda x: carries.log_prob(x, digits, kind))(jnp.asarray(log_probs, jnp.float32)))

    def exact(logs):
        return np.log(sum_strings(logs, kind)[104])

    for place, column in [(0, 4), (0, 14), (1, 0), (1, 9), (1, 10), (2, 0), (2, 1), (2, 7)]:
        step = np.zeros_like(log_probs)
        step[place, column] = 1e-4
        difference = (exact(log_probs + step) - exact(log_probs - step)) / 2e-4
        assert gradient[place, column] == pytest.approx(difference, abs=1e-4)
    sharp = np.full((3, 20), -1e4, np.float32)
    sharp[:, 5] = 0  # denotes 555 alone
    assert np.isfinite(jax.grad(lambda x: carries.log_prob(x, digits, kind))(jnp.asarray(sharp))).all()


def test_jit_and_vmap_are_eager(rng):
    kind = carries.Digits(-9, 18)
    log_probs = jnp.asarray(np.stack([draw_log_probs(rng, 4, kind) for _ in range(6)]).reshape(2, 3, 4, -1))
    digits = jnp.asarray(rng.integers(0, 10, (2, 3, 4)))
    rows = np.ndindex(2, 3)
    expected = [log_prob(log_probs[i, j], digits[i, j], kind) for i, j in rows]
    for function in (carries.log_prob, log_prob):
        np.testing.assert_allclose(np.ravel(function(log_probs, digits, kind)), expected, rtol=1e-6)
    with jax.disable_jit():
        chosen, scores = carries.choose(log_probs, kind)
    rows = np.ndindex(2, 3)
    np.testing.assert_array_equal(chosen.reshape(6, 4), [choose(log_probs[i, j], kind)[0] for i, j in rows])
    np.testing.assert_allclose(choose(log_probs, kind)[1], scores, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------
# The head.


def make_head(**options):
    return build("heads", dict(name="carry") | options, **(drawn.CONTEXT | {"width": 32, "digits": 20}))


def make_output(head, strings: list[list[int]], negative: list[bool]) -> HeadOut:
    """An output that is certain of these strings of redundant digits, lowest place first."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((len(strings), 32)).astype(np.float32)
    inputs, _ = drawn.draw_tokens(rng, len(strings), 8)
    table = np.zeros((drawn.VOCAB, 32), np.float32)
    params = head.init(jax.random.key(0), h[:, None], inputs, table)["params"]
    out = head.apply({"params": params}, h, inputs, table)
    wanted = np.zeros((len(strings), head.places, head.kind.count), np.float32)
    for row, string in enumerate(strings):
        wanted[row, np.arange(head.places), np.asarray(string) - head.least] = 50
    wanted = np.concatenate([wanted.reshape(len(strings), -1), np.where(negative, -50, 50)[:, None]], axis=1)
    # The normed rows are independent, so a matrix maps them to what is wanted.
    normed = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    kernel = np.linalg.lstsq(normed, wanted, rcond=None)[0]
    return out._replace(weights=dict(out.weights) | {"number_kernel": jnp.asarray(kernel, jnp.float32)})


def test_a_certain_head_writes_the_number_that_its_digits_denote(rng):
    head = make_head(integer=5, fraction=2, least=-9, most=18)
    strings = [[*rng.integers(-9, 19, 6).tolist(), int(rng.integers(1, 9))] for _ in range(20)]
    negative = (rng.random(20) < 0.5).tolist()
    values = [sum(s * 10**i for i, s in enumerate(string)) for string in strings]
    expected = [Decimal(v).scaleb(-2) * (-1 if n else 1) for v, n in zip(values, negative, strict=True)]
    out = make_output(head, strings, negative)
    numeral, _ = head.number(out, None)
    assert to_decimals(numeral) == expected
    assert to_decimals(head.number(out, jax.random.key(0))[0]) == expected
    parts = head.number_log_prob(out, to_numeral(expected, 20))
    assert float(min(part.min() for part in parts.values())) > -1e-3
    others = head.number_log_prob(out, to_numeral([value + Decimal("0.01") for value in expected], 20))
    assert float(others["digits"].max()) < -5


def test_digits_that_do_not_hold_a_number_are_refused():
    for options in (dict(most=8), dict(least=1)):
        with pytest.raises(UsageError, match="must hold 0 … 9"):
            make_output(make_head(**options), [[1] * 13], [False])
