"""The number token loss: its paper's examples, a slow computation, and training with it and a cross-entropy."""

from __future__ import annotations

import jax
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


def compute_loss(logits_TV, targets, mask=None, **options):
    """Returns the loss of one row; V hidden units stand for the tokens' logits."""
    objective = build("objectives", dict(name="ntl", head="next") | options, digit_symbols=DIGITS)
    size = logits_TV.shape[-1]
    out = HeadOut(np.asarray(logits_TV, np.float32)[None], {"kernel": np.eye(drawn.VOCAB, size, dtype=np.float32)})
    ids = np.asarray([targets], np.int32)
    mask = np.ones_like(ids, bool) if mask is None else np.asarray([mask])
    batch = Batch(Tokens(ids, ids, ids + 1), Targets(ids, mask))
    return jax.jit(lambda: objective(HEADS, {"next": out}, {}, batch))()


def make_uniform_logits(count: int):
    return np.zeros((count, 21))


@pytest.mark.parametrize(("gold", "was", "mse"), [(4, 2.5, 0.25), (9, 4.5, 20.25)])
def test_losses_are_those_of_the_papers_examples(gold, was, mse):
    assert compute_loss(make_uniform_logits(1), [gold]).total == pytest.approx(was)
    assert compute_loss(make_uniform_logits(1), [gold], form="mse").total == pytest.approx(mse, rel=1e-5)
    peaks = np.full((1, 21), -60.0)
    peaks[0, [3, 5]] = 0
    assert compute_loss(peaks, [4]).total == pytest.approx(1) and compute_loss(
        peaks, [4], form="mse"
    ).total == pytest.approx(0, abs=1e-6)


def test_the_loss_equals_a_loop_over_number_targets(rng):
    logits = rng.standard_normal((12, 21))
    targets = rng.integers(0, 21, 12)
    mask = rng.random(12) < 0.8
    for room in (0.0, 0.9):
        for form in ("was", "mse"):
            loss = compute_loss(logits, targets, mask, form=form, room=room)
            total, count = 0.0, 0
            for t in range(12):
                if mask[t] and targets[t] < 10:
                    p = np.exp(logits[t, :10]) / np.exp(logits[t, :10]).sum()
                    distances = np.abs(np.arange(10) - targets[t])
                    total += p @ distances if form == "was" else (p @ np.arange(10) - targets[t]) ** 2
                    count += 1
            assert count > 2 and loss.count == count
            assert loss.total == pytest.approx(total, rel=1e-4)


def test_tokens_of_several_digits_count_with_symbols_numbers():
    objective = build(
        "objectives", dict(name="ntl", head="next", symbols="numbers"), number_symbols=((2, 7.0), (5, 12.0))
    )
    ids = np.asarray([[5]], np.int32)
    out = HeadOut(np.zeros((1, 1, 21), np.float32), {"kernel": np.eye(drawn.VOCAB, 21, dtype=np.float32)})
    loss = objective(HEADS, {"next": out}, {}, Batch(Tokens(ids, ids, ids + 1), Targets(ids, ids > 0)))
    assert loss.total == pytest.approx(2.5) and loss.count == 1


def test_bad_options_are_refused_in_one_line():
    with pytest.raises(UsageError, match="no token of this vocabulary is a number"):
        build("objectives", dict(name="ntl", head="next"))
    for option, value in (("form", "was "), ("symbols", "letters")):
        with pytest.raises(UsageError, match=f"{option} must be one of"):
            build("objectives", {"name": "ntl", "head": "next", option: value}, digit_symbols=DIGITS)
    objective = build("objectives", dict(name="ntl", head="next"), digit_symbols=DIGITS)
    ids = np.zeros((1, 2), np.int32)
    with pytest.raises(UsageError, match="choose a task of kind language_model or masked"):
        objective(HEADS, {"next": HeadOut(np.zeros((1, 2, 21), np.float32), {})}, {}, Batch(Tokens(ids, ids, ids)))


def test_set_adds_it_to_a_cross_entropy(tmp_path):
    words = ("+objectives.ntl=ntl:head=next,weight=0.3",)
    model, metrics = train_with_changes(
        tmp_path / "run", numgpt.get_config("smoke,task=generation,system=digits"), *words
    )
    assert 0 < metrics["ntl"] < 9 and metrics["loss"] == pytest.approx(
        metrics["next"] + 0.3 * metrics["ntl"], rel=1e-4
    )
    assert model.generate("Q: 3 and 4 are how many? A:", max_tokens=12).ended
    # A task without tokens to predict is refused before anything is built.
    with pytest.raises(UsageError, match="is of tasks of kind language_model or masked"):
        train_with_changes(
            tmp_path / "label", numgpt.get_config("smoke,task=mwpas"), "+objectives.ntl=ntl:head=label"
        )
