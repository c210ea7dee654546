"""L_num against float64 arithmetic on exact decimals; its value without numbers; the positions of its gradient."""

from __future__ import annotations

import functools
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from numjax.objectives.cosine_distance import Objective, relative_difference
from numjax.types import Batch, Tokens
from tests import drawn

FAR = [Decimal(t) for t in ("0", "-0", "1e300", "9e299", "-1e300", "1e-300", "3", "3", "-3", "29.5", "1e-38", "1e38")]


def exact_difference(x: Decimal, y: Decimal) -> float:
    total = abs(x) + abs(y)
    return float(2 * abs(x - y) / total) if total else 0.0


def test_relative_difference_is_exact_at_every_size(rng):
    values = [*FAR, *drawn.draw_decimals(rng, 20, -12, 12)]
    table = to_numeral(values, 20)
    rows, columns = (jax.tree.map(lambda x, a=a: np.expand_dims(x, a), table) for a in (1, 0))
    differences = jax.jit(relative_difference)(*jax.tree.map(jnp.asarray, (rows, columns)))
    expected = [[exact_difference(x, y) for y in values] for x in values]
    np.testing.assert_allclose(differences, expected, atol=2e-6)
    assert differences[0, 1] == 0 and differences[2, 4] == 2 and differences[0, 2] == 2 and differences[6, 7] == 0


def make_batch(rng, index, values, width: int = 6):
    """Makes a batch whose positions stand for numbers, and hidden states."""
    index = np.asarray(index, np.int32)
    ones = np.ones_like(index)
    tokens = Tokens(ones, ones, ones, numeral_index=index, numerals=drawn.make_numeral_table(values))
    hidden = rng.standard_normal((*index.shape, width)).astype(np.float32)
    return Batch(tokens, valid=np.ones(len(index), bool)), hidden


def sum_all_pairs(index, values, hidden, norm=abs):
    """Returns (sum, number) of all pairs of each row, in float64."""
    total, count = 0.0, 0
    for row, numbers, h in zip(index, values, np.asarray(hidden, np.float64), strict=True):
        numbers_present = [n for n in range(len(numbers)) if numbers[n] is not None and (np.asarray(row) == n).any()]
        vectors = {n: h[np.asarray(row) == n].mean(axis=0) for n in numbers_present}
        for i, a in enumerate(numbers_present):
            for b in numbers_present[i + 1 :]:
                x, y = vectors[a], vectors[b]
                cosine = 1 - x @ y / np.sqrt((x @ x) * (y @ y))
                total += norm(exact_difference(numbers[a], numbers[b]) - cosine)
                count += 1
    return total, count


@functools.partial(jax.jit, static_argnums=0)
def run(objective: Objective, hidden, batch: Batch, key=None):
    """Returns (the loss, the gradient of its sum to the hidden states)."""

    def total(h):
        loss = objective({}, {}, {"final": h}, batch, key)
        return loss.total, loss

    (_, loss), grad = jax.value_and_grad(total, has_aux=True)(hidden)
    return loss, grad


INDEX = [[0, 0, -1, 1, 2, 2, 2, -1], [-1, 0, 1, -1, 1, -1, -1, -1], [-1] * 8]


@pytest.mark.parametrize("norm", ["abs", "squared"])
def test_all_pairs_are_those_of_a_loop(norm, rng):
    values = [[Decimal(12), Decimal("-7.5"), Decimal(1000)], [Decimal(3), Decimal(4), None], [Decimal(1), None, None]]
    batch, hidden = make_batch(rng, INDEX, values)
    loss, _ = run(Objective(norm=norm), hidden, batch)
    total, count = sum_all_pairs(INDEX, values, hidden, abs if norm == "abs" else np.square)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert loss.count == count == 4 and set(loss.parts) == {"relative", "cosine"}


def test_pairs_of_a_batch_and_random_pairs(rng):
    values = [[Decimal(12), Decimal("-7.5"), Decimal(1000)], [Decimal(3), Decimal(4), None], [Decimal(1), None, None]]
    batch, hidden = make_batch(rng, INDEX, values)
    flat_index = [[i if i < 0 else i + 3 * b for b, row in enumerate(INDEX) for i in row]]
    total, count = sum_all_pairs(flat_index, [[*values[0], *values[1], *values[2]]], hidden.reshape(1, -1, 6))
    all_pairs, _ = run(Objective(within="batch"), hidden, batch)
    np.testing.assert_allclose(all_pairs.total, total, rtol=1e-5)
    assert all_pairs.count == count == 10 and all_pairs.count == len([1 for a in range(5) for _ in range(a)])
    # Random pairs: each row with two numbers gives as many as `pairs`; their mean is about that of all pairs.
    per_row = Objective(pairs=1000)
    drawn_pairs, _ = run(per_row, hidden, batch, jax.random.key(1))
    assert drawn_pairs.count == 2000
    rows = [sum_all_pairs(INDEX[b : b + 1], values[b : b + 1], hidden[b : b + 1]) for b in (0, 1)]
    np.testing.assert_allclose(drawn_pairs.total / 2000, np.mean([t / c for t, c in rows]), rtol=0.1)
    single_pair = Objective(within="batch", pairs=1)
    totals = {float(run(single_pair, hidden, batch, jax.random.key(i))[0].total) for i in range(12)}
    assert len(totals) > 3 and single_pair.whole_batch and not per_row.whole_batch
    pair_without_key = run(single_pair, hidden, batch)[0]
    assert (
        pair_without_key.count == 1
        and pair_without_key.total == run(single_pair, hidden, batch, jax.random.key(0))[0].total
    )


def test_equal_numbers_cost_their_cosine_distance(rng):
    batch, hidden = make_batch(rng, [[0, 1]], [[Decimal("2.50"), Decimal("2.5")]])
    x, y = hidden[0].astype(np.float64)
    cosine = 1 - x @ y / np.sqrt((x @ x) * (y @ y))
    for norm, expected in (("abs", cosine), ("squared", cosine**2)):
        np.testing.assert_allclose(run(Objective(norm=norm), hidden, batch)[0].total, expected, rtol=1e-5)
    parallel = np.concatenate([hidden[:, :1], 3 * hidden[:, :1]], axis=1)
    np.testing.assert_allclose(run(Objective(), parallel, batch)[0].total, 0, atol=1e-6)


def test_states_of_an_encoder_belong_to_the_numbers_of_its_input(rng):
    values = [[Decimal(12), Decimal("-7.5"), Decimal(1000)], [Decimal(3), Decimal(4), None], [Decimal(1), None, None]]
    source, hidden = make_batch(rng, INDEX, values)
    target, _ = make_batch(rng, [[0, -1, -1]] * 3, [[Decimal(5), None, None]] * 3)
    batch = target._replace(source=source.inputs)
    loss = Objective(of="encoder/final")({}, {}, {"encoder/final": hidden}, batch)
    np.testing.assert_allclose(loss.total, run(Objective(), hidden, source)[0].total, rtol=1e-6)
    assert loss.count > 0 == Objective()({}, {}, {"final": hidden[:, :3]}, batch).count


def test_gradients_reach_only_positions_of_numbers(rng):
    values = [[Decimal(12), Decimal("-7.5"), Decimal(1000)], [Decimal(3), Decimal(4), None], [Decimal(1), None, None]]
    batch, hidden = make_batch(rng, INDEX, values)
    for objective in (Objective(), Objective(norm="squared"), Objective(within="batch")):
        _, grad = run(objective, hidden, batch)
        np.testing.assert_array_equal(np.abs(grad).sum(-1) > 0, np.asarray(INDEX) >= 0)
    typed_batch = batch._replace(
        inputs=batch.inputs._replace(channels={"types": np.asarray([[0, 0, 1, 1, 1, 1, 1, 1]] * 3)})
    )
    _, grad = run(Objective(token_type=1), hidden, typed_batch)
    np.testing.assert_array_equal(np.abs(grad).sum((0, 2)) > 0, [0, 0, 0, 1, 1, 1, 1, 0])


EDGES = [
    ([[-1, -1, -1]], [None, None]),
    ([[0, -1, -1]], [Decimal(5), None]),
    ([[0, 1, 1]], [Decimal(5), Decimal(5)]),
    ([[0, 1, 1]], [Decimal(0), Decimal("-0")]),
    ([[0, 1, 1]], [Decimal("1e300"), Decimal("-1e-300")]),
]


@pytest.mark.parametrize("options", [{}, {"pairs": 3}, {"within": "batch", "pairs": 1}, {"norm": "squared"}])
def test_loss_and_gradient_stay_finite(options, rng):
    """No number, one, equal ones, zeros, extremes; vectors of zeros, of ones, and so small that squares underflow."""
    objective = Objective(**options)
    for index, numbers in EDGES:
        batch, hidden = make_batch(rng, index, [numbers])
        for size in (0.0, 1.0, 1e-30):
            loss, grad = run(objective, size * np.ones_like(hidden), batch, jax.random.key(0))
            assert np.isfinite(loss.total) and np.isfinite(grad).all() and 0 <= loss.total <= 12
            if min(index[0]) < 0:
                assert loss.total == 0 and loss.count == 0 and not np.any(grad)


def test_bad_options_are_refused(rng):
    for options in ({"within": "rows"}, {"pairs": -1}, {"norm": "l1"}):
        with pytest.raises(UsageError, match="cosine_distance: "):
            Objective(**options)
    batch, hidden = make_batch(rng, [[0, 1]], [[Decimal(1), Decimal(2)]])
    with pytest.raises(UsageError, match="has no 'layer_9'; it has final"):
        Objective(of="layer_9")({}, {}, {"final": hidden}, batch)
    with pytest.raises(UsageError, match="the scheme marks none"):
        Objective()({}, {}, {"final": hidden}, batch._replace(inputs=batch.inputs._replace(numerals=None)))
    with pytest.raises(UsageError, match="no channel 'types'"):
        Objective(token_type=1)({}, {}, {"final": hidden}, batch)
