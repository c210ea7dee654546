"""The auxiliary loss of digit aggregation against float64 sums over the digits of each number."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn.digits import weights
from numjax.objectives.digit_aggregate import NO_NUMBER
from numjax.types import Batch, HeadOut, Numeral, Targets, Tokens

VOCAB, DIM, NUMBERS, LENGTH = 16, 5, 3, 18
DIGIT_IDS = (11, 3, 4, 5, 6, 7, 8, 9, 10, 2)
OPEN, POINT, CLOSE, END = 12, 13, 14, 15
FLOOR = 1e-3


class HeadStub:
    size = VOCAB


def make_batch(rows: list[list[str | None]], length: int = LENGTH):
    """Makes a batch with answers as targets: [F] d…d [/F] each, then an end; None is an answer without a number."""
    ids, index = np.zeros((len(rows), length), np.int32), np.full((len(rows), length), -1, np.int32)
    mask = np.zeros((len(rows), length), bool)
    for b, answers in enumerate(rows):
        sequence = []
        for n, text in enumerate(answers):
            if text is not None:
                digit_tokens = [(POINT if c == "." else DIGIT_IDS[int(c)], n) for c in text]
                sequence += [(OPEN, -1), *digit_tokens, (CLOSE, -1)]
        sequence = [*sequence, (END, -1)] if answers else []
        for t, (token, number) in enumerate(sequence):
            ids[b, t], index[b, t], mask[b, t] = token, number, True
    blank = np.zeros((len(rows), NUMBERS))
    numerals = Numeral(blank, blank[..., None], blank, blank, blank > 0)
    tokens = Tokens(ids, ids, mask.astype(np.int32), numeral_index=index, numerals=numerals)
    return Batch(tokens, Targets(ids, mask, index), valid=np.ones(len(rows), bool))


@functools.cache
def compile_loss(marks=(), **options):
    block = dict(name="digit_aggregate", head="next", **options)
    objective = build("objectives", block, digit_ids=DIGIT_IDS, marks=marks)

    def compute_loss(logits, table, batch):
        outs = {"next": HeadOut(logits, {"kernel": jnp.eye(VOCAB)})}
        loss = objective({"next": HeadStub}, outs, {"table": table}, batch)
        return loss.total, loss

    return jax.jit(jax.value_and_grad(compute_loss, (0, 1), has_aux=True))


def evaluate(batch, logits, table, **options):
    """Returns the loss and its gradients to logits and table; the kernel is an identity: hidden states are logits."""
    (_, loss), grads = compile_loss(**options)(logits, table, batch)
    assert np.isfinite(np.asarray(grads[0])).all() and np.isfinite(np.asarray(grads[1])).all()
    assert loss.total.dtype == loss.count.dtype == jnp.float32
    return loss, grads


def compute_expected(batch, logits, table, method, scale, step=1):
    """Returns (sum, count, number of predictions with a number), from a loop over numbers. With step −1 a number's
    last digit comes first."""
    total, count, answered, logits, table = 0.0, 0, 0, np.asarray(logits, np.float64), np.asarray(table, np.float64)
    rows = table[list(DIGIT_IDS)]
    digit = {token: d for d, token in enumerate(DIGIT_IDS)}
    for b in range(len(logits)):
        ids, index = batch.targets.ids[b], batch.targets.numeral_index[b]
        has_number = False
        for n in range(NUMBERS):
            positions = np.flatnonzero((index == n) & batch.targets.mask[b])
            digit_positions = [t for t in positions if ids[t] in digit][::step]
            if not digit_positions:
                continue
            has_number, w = True, weights(len(digit_positions))
            gold = sum(w[i] * rows[digit[ids[t]]] for i, t in enumerate(digit_positions))
            if method == "soft":
                probs = [np.exp(logits[b, t, list(DIGIT_IDS)]) for t in digit_positions]
                prediction = sum(w[i] * (p / p.sum()) @ rows for i, p in enumerate(probs))
            else:
                best = [int(logits[b, t].argmax()) for t in [*positions, positions[-1] + 1]]
                best = [digit[i] for i in best if i in digit][::step]
                prediction = sum(v * rows[d] for v, d in zip(weights(len(best)), best, strict=True)) if best else None
            count += 1
            if prediction is None:
                total += NO_NUMBER
                continue
            answered += 1
            distance = max(np.linalg.norm(prediction - gold), FLOOR)
            total += np.log2(distance if scale == "log2" else 1 + distance)
        if batch.targets.mask[b].any() and not has_number:
            total, count = total + NO_NUMBER, count + 1
    return total, count, answered


ROWS = [["7"], ["12", "3405"], ["0.5", "100", "42"], [None], ["99"], []]


@pytest.mark.parametrize("scale", ["log2", "log1p"])
@pytest.mark.parametrize("method", ["soft", "straight", "literal"])
def test_loss_is_eq_2_over_each_number(method, scale, rng):
    batch = make_batch(ROWS)
    logits = rng.normal(0, 2, (len(ROWS), LENGTH, VOCAB)).astype(np.float32)
    logits[4, :, :12] = -9  # the likeliest tokens are no digits
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    loss, (to_logits, to_table) = evaluate(batch, logits, table, prediction=method, scale=scale)
    total, count, answered = compute_expected(batch, logits, table, method, scale)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert loss.count == count == 8  # seven numbers, and a row without one
    assert loss.parts["numeric"] == (answered, 8) and (answered == 7) == (method == "soft")
    # Gradients are at digits' positions, to the ten digits only; the literal form moves the digits' vectors instead.
    positions = np.argwhere(np.asarray(to_logits).any(-1)).tolist()
    targets: Any = batch.targets
    is_digit = np.isin(targets.ids, DIGIT_IDS) & (targets.numeral_index >= 0)
    assert (method == "literal") == (not positions)
    assert all(is_digit[b, t] for b, t in positions)
    assert set(np.flatnonzero(np.asarray(to_logits).any((0, 1))).tolist()) <= set(DIGIT_IDS)
    changed_ids = set(np.flatnonzero(np.asarray(to_table).any(-1)).tolist())
    assert changed_ids <= set(DIGIT_IDS) and (method == "literal") == bool(changed_ids)


@pytest.mark.parametrize("method", ["soft", "literal"])
def test_a_reversed_number_has_its_first_digit_last(method, rng):
    batch = make_batch(ROWS)
    logits = rng.normal(0, 2, (len(ROWS), LENGTH, VOCAB)).astype(np.float32)
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    marks = (("[R]", OPEN), ("[/R]", CLOSE))
    loss, _ = evaluate(batch, logits, table, prediction=method, marks=marks)
    total, count, answered = compute_expected(batch, logits, table, method, "log2", step=-1)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert loss.count == count and loss.parts["numeric"] == (answered, count)
    assert abs(loss.total - evaluate(batch, logits, table, prediction=method)[0].total) > 0.1


def make_sure_logits(batch, predicted):
    """Makes logits that are certain of the digits of `predicted`."""
    return 40 * jax.nn.one_hot(predicted.targets.ids, VOCAB).astype(np.float32)


def test_the_loss_falls_as_the_prediction_moves_to_the_gold(rng):
    batch = make_batch([["7"], ["3405"], ["0.5", "100"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    ids: Any = batch.inputs.ids  # they are also the targets'
    gold = np.eye(10)[[[DIGIT_IDS.index(i) if i in DIGIT_IDS else 0 for i in row] for row in ids]]
    start, totals = rng.dirichlet(np.ones(10), gold.shape[:2]), []
    for step in np.linspace(0, 1, 9):
        logits = np.zeros((*gold.shape[:2], VOCAB), np.float32)
        logits[..., list(DIGIT_IDS)] = np.log(np.maximum((1 - step) * start + step * gold, 1e-30))
        totals.append(float(evaluate(batch, logits, table)[0].total))
    assert all(a > b for a, b in itertools.pairwise(totals)), totals
    assert totals[-1] == pytest.approx(4 * np.log2(FLOOR), rel=1e-5)


@pytest.mark.parametrize("method", ["soft", "straight", "literal"])
def test_zero_distance_costs_the_floor_and_has_no_gradient(method, rng):
    batch = make_batch([["7"], ["3405"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    loss, grads = evaluate(batch, make_sure_logits(batch, batch), table, prediction=method)
    assert loss.total == pytest.approx(2 * np.log2(FLOOR), rel=1e-5)
    assert not any(np.any(g) for g in grads)


def test_literal_digits_move_the_vectors_that_they_predict(rng):
    """W(l) is a constant: the gradient to the table is that of W(p)."""
    batch, predicted = make_batch([["35"]]), make_batch([["41"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    _, (_, to_table) = evaluate(batch, make_sure_logits(batch, predicted), table, prediction="literal")
    rows = table[list(DIGIT_IDS)].astype(np.float64)
    share = 1.5 * np.eye(10)[4] + 0.25 * np.eye(10)[1]
    difference = share @ rows - (1.5 * rows[3] + 0.25 * rows[5])
    expected = np.outer(share, difference) / (difference @ difference) / np.log(2)
    np.testing.assert_allclose(np.asarray(to_table)[list(DIGIT_IDS)], expected, rtol=1e-4, atol=1e-6)


def test_literal_predictions_of_another_length_use_the_weights_of_their_length(rng):
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    gold = make_batch([["35"], ["35"]])
    logits = np.array(make_sure_logits(gold, gold))
    logits[0, 3] = 40 * np.eye(VOCAB)[DIGIT_IDS[8]]  # 8 where [/F] should be: 358
    logits[1, 2] = 40 * np.eye(VOCAB)[CLOSE]  # [/F] where 5 should be: 3
    loss, (to_logits, _) = evaluate(gold, logits, table, prediction="straight")
    rows = table[list(DIGIT_IDS)].astype(np.float64)
    target = 1.5 * rows[3] + 0.25 * rows[5]
    predictions = (weights(3) @ rows[[3, 5, 8]], rows[3])
    total = sum(np.log2(np.linalg.norm(prediction - target)) for prediction in predictions)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert np.isfinite(np.asarray(to_logits)).all()


def test_numbers_beyond_the_longest_count_their_first_digits(rng):
    batch = make_batch([["123456"]])
    logits = rng.normal(0, 1, (1, LENGTH, VOCAB)).astype(np.float32)
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    short_batch = make_batch([["1234"]])
    total = evaluate(batch, logits, table, longest=4)[0].total
    np.testing.assert_allclose(total, evaluate(short_batch, logits, table)[0].total, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(prediction="hard"), "prediction must be one of soft, straight, literal"),
        (dict(scale="mse"), "scale must be one of log2, log1p"),
        (dict(floor=0.0), "floor=0.0 must be above 0"),
        (dict(aggregate="max"), "aggregate must be one of weighted, place, sum, mean"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        build("objectives", dict(name="digit_aggregate", head="next", **options))
    objective = build("objectives", dict(name="digit_aggregate", head="next"))
    with pytest.raises(UsageError, match="use scheme digits"):
        objective({}, {}, {}, make_batch([["1"]]))
