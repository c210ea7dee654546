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


class Reader:
    size = VOCAB


def laid_out(rows: list[list[str | None]], length: int = LENGTH):
    """Targets of rows of answers, [F] d…d [/F] each and an end; None is an answer without a number."""
    ids, index = np.zeros((len(rows), length), np.int32), np.full((len(rows), length), -1, np.int32)
    mask = np.zeros((len(rows), length), bool)
    for b, answers in enumerate(rows):
        written = []
        for n, text in enumerate(answers):
            if text is not None:
                spelled = [(POINT if c == "." else DIGIT_IDS[int(c)], n) for c in text]
                written += [(OPEN, -1), *spelled, (CLOSE, -1)]
        written = [*written, (END, -1)] if answers else []
        for t, (token, number) in enumerate(written):
            ids[b, t], index[b, t], mask[b, t] = token, number, True
    blank = np.zeros((len(rows), NUMBERS))
    numerals = Numeral(blank, blank[..., None], blank, blank, blank > 0)
    tokens = Tokens(ids, ids, mask.astype(np.int32), numeral_index=index, numerals=numerals)
    return Batch(tokens, Targets(ids, mask, index), valid=np.ones(len(rows), bool))


@functools.cache
def compiled(**options):
    objective = build("objectives", dict(name="digit_aggregate", head="next", **options), digit_ids=DIGIT_IDS)

    def of(logits, table, batch):
        outs = {"next": HeadOut(logits, {"kernel": jnp.eye(VOCAB)})}
        loss = objective({"next": Reader}, outs, {"table": table}, batch)
        return loss.total, loss

    return jax.jit(jax.value_and_grad(of, (0, 1), has_aux=True))


def evaluated(batch, logits, table, **options):
    """The loss and its gradients to logits and table; the head's kernel is one, so that hidden states are logits."""
    (_, loss), grads = compiled(**options)(logits, table, batch)
    assert np.isfinite(np.asarray(grads[0])).all() and np.isfinite(np.asarray(grads[1])).all()
    assert loss.total.dtype == loss.count.dtype == jnp.float32
    return loss, grads


def expected(batch, logits, table, how, scale):
    """(Σ, count, how many were answered with a number), a number at a time."""
    total, count, answered, logits, table = 0.0, 0, 0, np.asarray(logits, np.float64), np.asarray(table, np.float64)
    rows = table[list(DIGIT_IDS)]
    digit = {token: d for d, token in enumerate(DIGIT_IDS)}
    for b in range(len(logits)):
        ids, index = batch.targets.ids[b], batch.targets.numeral_index[b]
        found = False
        for n in range(NUMBERS):
            at = np.flatnonzero((index == n) & batch.targets.mask[b])
            spelled = [t for t in at if ids[t] in digit]
            if not spelled:
                continue
            found, w = True, weights(len(spelled))
            gold = sum(w[i] * rows[digit[ids[t]]] for i, t in enumerate(spelled))
            if how == "soft":
                chances = [np.exp(logits[b, t, list(DIGIT_IDS)]) for t in spelled]
                said = sum(w[i] * (p / p.sum()) @ rows for i, p in enumerate(chances))
            else:
                best = [int(logits[b, t].argmax()) for t in [*at, at[-1] + 1]]
                best = [digit[i] for i in best if i in digit]
                said = sum(v * rows[d] for v, d in zip(weights(len(best)), best, strict=True)) if best else None
            count += 1
            if said is None:
                total += NO_NUMBER
                continue
            answered += 1
            distance = max(np.linalg.norm(said - gold), FLOOR)
            total += np.log2(distance if scale == "log2" else 1 + distance)
        if batch.targets.mask[b].any() and not found:
            total, count = total + NO_NUMBER, count + 1
    return total, count, answered


ROWS = [["7"], ["12", "3405"], ["0.5", "100", "42"], [None], ["99"], []]


@pytest.mark.parametrize("scale", ["log2", "log1p"])
@pytest.mark.parametrize("how", ["soft", "straight", "literal"])
def test_loss_is_eq_2_over_each_number(how, scale, rng):
    batch = laid_out(ROWS)
    logits = rng.normal(0, 2, (len(ROWS), LENGTH, VOCAB)).astype(np.float32)
    logits[4, :, :12] = -9  # the likeliest tokens are no digits
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    loss, (to_logits, to_table) = evaluated(batch, logits, table, prediction=how, scale=scale)
    total, count, answered = expected(batch, logits, table, how, scale)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert loss.count == count == 8  # seven numbers, and a row without one
    assert loss.parts["numeric"] == (answered, 8) and (answered == 7) == (how == "soft")
    # Only positions of digits, only the ten digits; the literal form moves the digits' vectors instead.
    reached = np.argwhere(np.asarray(to_logits).any(-1)).tolist()
    targets: Any = batch.targets
    spelled = np.isin(targets.ids, DIGIT_IDS) & (targets.numeral_index >= 0)
    assert (how == "literal") == (not reached)
    assert all(spelled[b, t] for b, t in reached)
    assert set(np.flatnonzero(np.asarray(to_logits).any((0, 1))).tolist()) <= set(DIGIT_IDS)
    moved = set(np.flatnonzero(np.asarray(to_table).any(-1)).tolist())
    assert moved <= set(DIGIT_IDS) and (how == "literal") == bool(moved)


def sure(batch, of):
    """Logits that leave no doubt of the digits of `of`."""
    return 40 * jax.nn.one_hot(of.targets.ids, VOCAB).astype(np.float32)


def test_the_loss_falls_as_the_prediction_moves_to_the_gold(rng):
    batch = laid_out([["7"], ["3405"], ["0.5", "100"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    ids: Any = batch.inputs.ids  # which are the targets'
    gold = np.eye(10)[[[DIGIT_IDS.index(i) if i in DIGIT_IDS else 0 for i in row] for row in ids]]
    other, totals = rng.dirichlet(np.ones(10), gold.shape[:2]), []
    for step in np.linspace(0, 1, 9):
        logits = np.zeros((*gold.shape[:2], VOCAB), np.float32)
        logits[..., list(DIGIT_IDS)] = np.log(np.maximum((1 - step) * other + step * gold, 1e-30))
        totals.append(float(evaluated(batch, logits, table)[0].total))
    assert all(a > b for a, b in itertools.pairwise(totals)), totals
    assert totals[-1] == pytest.approx(4 * np.log2(FLOOR), rel=1e-5)


@pytest.mark.parametrize("how", ["soft", "straight", "literal"])
def test_no_distance_costs_the_floor_and_has_no_gradient(how, rng):
    batch = laid_out([["7"], ["3405"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    loss, grads = evaluated(batch, sure(batch, batch), table, prediction=how)
    assert loss.total == pytest.approx(2 * np.log2(FLOOR), rel=1e-5)
    assert not any(np.any(g) for g in grads)


def test_what_literal_digits_move_are_the_vectors_that_they_predict(rng):
    """W(l) is a constant: the gradient to the table is that of W(p) alone."""
    batch, predicted = laid_out([["35"]]), laid_out([["41"]])
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    _, (_, to_table) = evaluated(batch, sure(batch, predicted), table, prediction="literal")
    rows = table[list(DIGIT_IDS)].astype(np.float64)
    share = 1.5 * np.eye(10)[4] + 0.25 * np.eye(10)[1]
    apart = share @ rows - (1.5 * rows[3] + 0.25 * rows[5])
    wanted = np.outer(share, apart) / (apart @ apart) / np.log(2)
    np.testing.assert_allclose(np.asarray(to_table)[list(DIGIT_IDS)], wanted, rtol=1e-4, atol=1e-6)


def test_literal_predictions_of_another_length_weigh_by_their_own(rng):
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    gold = laid_out([["35"], ["35"]])
    logits = np.array(sure(gold, gold))
    logits[0, 3] = 40 * np.eye(VOCAB)[DIGIT_IDS[8]]  # 8 where [/F] should be: 358
    logits[1, 2] = 40 * np.eye(VOCAB)[CLOSE]  # [/F] where 5 should be: 3
    loss, (to_logits, _) = evaluated(gold, logits, table, prediction="straight")
    rows = table[list(DIGIT_IDS)].astype(np.float64)
    wanted = 1.5 * rows[3] + 0.25 * rows[5]
    said = (weights(3) @ rows[[3, 5, 8]], rows[3])
    total = sum(np.log2(np.linalg.norm(one - wanted)) for one in said)
    np.testing.assert_allclose(loss.total, total, rtol=1e-5)
    assert np.isfinite(np.asarray(to_logits)).all()


def test_numbers_beyond_the_longest_count_their_first_digits(rng):
    batch = laid_out([["123456"]])
    logits = rng.normal(0, 1, (1, LENGTH, VOCAB)).astype(np.float32)
    table = rng.standard_normal((VOCAB, DIM)).astype(np.float32)
    short = laid_out([["1234"]])
    found = evaluated(batch, logits, table, longest=4)[0].total
    np.testing.assert_allclose(found, evaluated(short, logits, table)[0].total, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(prediction="hard"), "prediction must be one of soft, straight, literal"),
        (dict(scale="mse"), "scale must be one of log2, log1p"),
        (dict(floor=0.0), "floor=0.0 must be above 0"),
        (dict(aggregate="max"), "aggregate must be one of weighted, place, sum, mean"),
    ],
)
def test_what_cannot_be_is_named(options, says):
    with pytest.raises(UsageError, match=says):
        build("objectives", dict(name="digit_aggregate", head="next", **options))
    objective = build("objectives", dict(name="digit_aggregate", head="next"))
    with pytest.raises(UsageError, match="use scheme digits"):
        objective({}, {}, {}, laid_out([["1"]]))
