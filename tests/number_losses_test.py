"""Losses on the distribution over digits: published examples, a slow computation, and a training run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import numgpt
from numjax.errors import UsageError
from numjax.types import Batch, HeadOut, Targets, Tokens
from tests import drawn
from tests.swapped import train_with_changes

DIGITS = tuple((token, token) for token in range(10))
HEADS = {"next": build("heads", {"name": "token"}, **drawn.CONTEXT)}
SIZE = 21  # tokens; the first ten are digits
# Name and options → the loss of a distribution p over values v and the target y, in float64.
LOSSES = {
    "was": ("ntl", {}),
    "mse": ("ntl", {"form": "mse"}),
    "squashed": ("ntl", {"squash": 2.0}),
    "reweighed": ("ntl", {"reweigh": True}),
    "dist2": ("dist2", {"temperature": 1.5}),
    "smmd": ("smmd", {"sigma": 1.5}),
}


def compute_loss(logits_TV, targets, mask=None, name="ntl", **options):
    """Returns the loss of one row; V hidden units stand for the tokens' logits."""
    objective = build("objectives", dict(name=name, head="next") | options, digit_symbols=DIGITS)
    size = logits_TV.shape[-1]
    out = HeadOut(np.asarray(logits_TV, np.float32)[None], {"kernel": np.eye(drawn.VOCAB, size, dtype=np.float32)})
    ids = np.asarray([targets], np.int32)
    mask = np.ones_like(ids, bool) if mask is None else np.asarray([mask])
    batch = Batch(Tokens(ids, ids, ids + 1), Targets(ids, mask))
    return jax.jit(lambda: objective(HEADS, {"next": out}, {}, batch))()


def slow_loss(kind: str, logits: np.ndarray, y: int) -> float:
    v = np.arange(10.0)
    p = np.exp(logits[:10]) / np.exp(logits[:10]).sum()
    d = np.abs(v - y)
    if kind == "was":
        return float(p @ d)
    if kind == "mse":
        return float((p @ v - y) ** 2)
    if kind == "squashed":
        squashed = [0.0 if x == 0 else 1 + (x - 1) / (9 - 1) for x in d]
        return float(p @ np.asarray(squashed))
    if kind == "reweighed":
        # The head's softmax is over the ids in use.
        full = np.zeros(HEADS["next"].size)
        full[: len(logits)] = logits
        m = np.exp(full[:10]).sum() / np.exp(full).sum()
        return float(m * (p @ d) + (1 - m) * 1.01 * 9)
    if kind == "dist2":
        t = np.exp(-(d**2) / 1.5)
        t /= t.sum()
        return float((t * np.log(t / p)).sum())
    r, k = p - (v == y), np.exp(-((v[:, None] - v) ** 2) / (2 * 1.5**2))
    rows = k.sum(1)
    return float(r @ k @ r + r @ (np.diag(rows) - k) @ r / (2 * rows.mean()))


def test_losses_are_those_of_published_examples():
    uniform = np.zeros((1, SIZE))
    peaks = np.full((1, SIZE), -60.0)
    peaks[0, [3, 5]] = 0
    for gold, was, mse in ((4, 2.5, 0.25), (9, 4.5, 20.25)):
        assert compute_loss(uniform, [gold]).total == pytest.approx(was)
        assert compute_loss(uniform, [gold], form="mse").total == pytest.approx(mse, rel=1e-5)
    assert compute_loss(peaks, [4]).total == pytest.approx(1)
    assert compute_loss(peaks, [4], form="mse").total == pytest.approx(0, abs=1e-6)
    assert compute_loss(uniform, [4], name="dist2").total == pytest.approx(1.2311, abs=5e-5)
    assert compute_loss(uniform, [4], name="smmd").total == pytest.approx(0.9006, abs=5e-5)
    # Six tenths of the probability on digits: 0.6 · 2.5 + 0.4 · 1.01 · 9.
    others = np.log(10 * 0.4 / 0.6 / (HEADS["next"].size - 10))
    mixed = np.full((1, drawn.VOCAB), others)
    mixed[0, :10] = 0
    assert compute_loss(mixed, [4], reweigh=True).total == pytest.approx(5.136, rel=1e-4)


def test_the_spread_target_has_the_published_probabilities():
    """The gradient of KL(t ‖ softmax) by the logits is p − t."""
    published = [0, 0.000070, 0.010332, 0.207532, 0.564131, 0.207532, 0.010332, 0.000070, 0, 0]
    objective = build("objectives", dict(name="dist2", head="next"), digit_symbols=DIGITS)
    values, gold, mass = np.arange(10.0, dtype=np.float32), np.float32(4), np.float32(1)
    gradient = jax.grad(lambda logits: objective.error(logits, values, gold, mass))(np.zeros(10, np.float32))
    np.testing.assert_allclose(0.1 - np.asarray(gradient), published, rtol=0, atol=6e-7)


def test_the_kernel_loss_is_the_sum_of_its_published_terms():
    v = np.arange(10.0)
    r, kernel = np.full(10, 0.1) - (v == 4), np.exp(-((v[:, None] - v) ** 2) / (2 * 2.0**2))
    rows = kernel.sum(1)
    alpha, first, second = 1 / (2 * rows.mean()), r @ kernel @ r, r @ (np.diag(rows) - kernel) @ r
    assert [round(x, 4) for x in (kernel[0, 1], alpha, first, second)] == [0.8825, 0.1182, 0.4346, 3.9420]
    loss = compute_loss(np.zeros((1, SIZE)), [4], name="smmd").total
    assert loss == pytest.approx(first + alpha * second, rel=1e-6)


def test_squashed_distances_are_those_of_the_package():
    for v in range(10):
        peak = np.full((1, SIZE), -60.0)
        peak[0, v] = 0
        expected = 0 if v == 0 else 1 + (v - 1) / 8
        assert compute_loss(peak, [0], squash=2.0).total == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", list(LOSSES))
def test_the_loss_equals_a_loop_over_targets_that_are_digits(kind, rng):
    logits = rng.standard_normal((12, SIZE))
    targets = rng.integers(0, SIZE, 12)
    targets[:4] = rng.integers(0, 10, 4)
    mask = rng.random(12) < 0.8
    mask[0] = True
    name, options = LOSSES[kind]
    expected = [slow_loss(kind, logits[t], targets[t]) for t in range(12) if mask[t] and targets[t] < 10]
    for room in (0.0, 0.9):
        loss = compute_loss(logits, targets, mask, name=name, room=room, **options)
        assert loss.count == len(expected)
        assert loss.total == pytest.approx(sum(expected), rel=1e-4)


@pytest.mark.parametrize("name", ["ntl", "dist2", "smmd"])
def test_the_loss_is_least_where_all_probability_is_on_the_digit(name, rng):
    sure = np.full((1, SIZE), -30.0)
    sure[0, 7] = 0
    least = compute_loss(sure, [7], name=name).total
    for _ in range(20):
        noisy = sure + rng.standard_normal((1, SIZE)) * 10
        assert compute_loss(noisy, [7], name=name).total >= least - 1e-5 or name == "dist2"
    if name != "dist2":  # whose target is spread over the neighbours
        assert least == pytest.approx(0, abs=1e-5)


def test_tokens_of_several_digits_count_with_symbols_numbers():
    objective = build(
        "objectives", dict(name="ntl", head="next", symbols="numbers"), number_symbols=((2, 7.0), (5, 12.0))
    )
    ids = np.asarray([[5]], np.int32)
    out = HeadOut(np.zeros((1, 1, SIZE), np.float32), {"kernel": np.eye(drawn.VOCAB, SIZE, dtype=np.float32)})
    loss = objective(HEADS, {"next": out}, {}, Batch(Tokens(ids, ids, ids + 1), Targets(ids, ids > 0)))
    assert loss.total == pytest.approx(2.5) and loss.count == 1


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ntl", {"form": "was "}, "ntl: form must be one of"),
        ("ntl", {"symbols": "letters"}, "ntl: symbols must be one of"),
        ("ntl", {"squash": 0.5}, "squash must be 0 or above 1"),
        ("dist2", {"temperature": 0.0}, "temperature must be above 0"),
        ("smmd", {"sigma": -1.0}, "sigma must be above 0"),
    ],
)
def test_bad_options_are_refused_in_one_line(name, options, says):
    with pytest.raises(UsageError, match=f"{name}: no token of this vocabulary is a number"):
        build("objectives", dict(name=name, head="next"))
    with pytest.raises(UsageError, match=says):
        build("objectives", {"name": name, "head": "next"} | options, digit_symbols=DIGITS)
    objective = build("objectives", dict(name=name, head="next"), digit_symbols=DIGITS)
    ids = np.zeros((1, 2), np.int32)
    with pytest.raises(UsageError, match=f"{name} needs target tokens: choose a task of kind"):
        objective(HEADS, {"next": HeadOut(np.zeros((1, 2, SIZE), np.float32), {})}, {}, Batch(Tokens(ids, ids, ids)))


def test_set_adds_it_to_a_cross_entropy(tmp_path):
    words = ("+objectives.ntl=ntl:head=next,weight=0.3,reweigh=True",)
    model, metrics = train_with_changes(
        tmp_path / "run", numgpt.get_config("smoke,task=generation,system=digits"), *words
    )
    assert 0 < metrics["ntl"] < 9.2 and metrics["loss"] == pytest.approx(
        metrics["next"] + 0.3 * metrics["ntl"], rel=1e-4
    )
    assert model.generate("Q: 3 and 4 are how many? A:", max_tokens=12).ended
    # A task without tokens to predict is refused before anything is built.
    with pytest.raises(UsageError, match="is of tasks of kind language_model or masked"):
        train_with_changes(
            tmp_path / "label", numgpt.get_config("smoke,task=mwpas"), "+objectives.ntl=ntl:head=label"
        )


@pytest.mark.parametrize("name", LOSSES)
def test_numbers_as_large_as_float32_holds_give_a_finite_loss_and_larger_ones_one_line(name, rng):
    part, options = LOSSES[name]
    block = dict(name=part, head="next", symbols="numbers") | options

    def symbols(largest):
        return tuple(enumerate([0.0, 1.0, 7e-9, -largest, largest]))

    largest = 4e18 if name == "mse" else 9e37
    objective = build("objectives", block, number_symbols=symbols(largest))
    values = jnp.float32([value for _, value in symbols(largest)])
    logits = jnp.asarray(rng.standard_normal((5, 5)), jnp.float32)
    error, gradient = jax.value_and_grad(lambda x: objective.error(x, values, values, jnp.ones(5)).sum())(logits)
    assert np.isfinite(error) and np.isfinite(gradient).all() and gradient.any()
    with pytest.raises(UsageError, match=r"a token of this vocabulary is the number -?1e"):
        build("objectives", block, number_symbols=symbols(1e19 if name == "mse" else 1e39))
