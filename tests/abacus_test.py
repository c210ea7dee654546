"""Abacus: the paper's example, and equal places token by token and for the whole text."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import numgpt
from numjax.errors import UsageError
from numjax.positions import abacus
from numjax.protocols import Stack
from numjax.types import Tokens
from tests.swapped import train_with_changes

DIGITS = tuple((10 + digit, digit) for digit in range(10))
RUN = abacus.Run(tuple(token for token, _ in DIGITS))


def encode_text(text: str) -> np.ndarray:
    return np.asarray([10 + int(c) if c.isdigit() else 3 for c in text], np.int32)


def test_the_papers_example():
    assert RUN.compute(encode_text("321+54=861")).tolist() == [1, 2, 3, 0, 1, 2, 0, 1, 2, 3]
    assert RUN.compute(encode_text("")).tolist() == [] and RUN.compute(encode_text("7")).tolist() == [1]


def test_the_papers_offset_shifts_digits_alone():
    """With k = 7 the places of 321+54=861 are 8, 9, 10, 0, 8, 9, 0, 8, 9, 10; without training k is 0."""
    part = build("positions", dict(name="abacus"), digit_symbols=DIGITS).clone(stack=Stack(width=1))
    channel = np.repeat(RUN.compute(encode_text("321+54=861"))[None], 4096, axis=0)
    tokens = Tokens(*(np.zeros(channel.shape, np.int32) for _ in range(3)), channels={"digit_run": channel})
    variables = {"params": {"runs": jnp.arange(1.0, 128 + 99 + 1)[:, None]}}
    assert part.apply(variables, tokens, method="added")[0, :, 0].tolist() == [1, 2, 3, 0, 1, 2, 0, 1, 2, 3]
    x = part.apply(variables, tokens, False, method="added", rngs={"dropout": jax.random.key(0)})[..., 0]
    rows = {int(row[0]) - 1: row for row in np.asarray(x).tolist()}
    assert set(rows) == set(range(100)), "k is drawn from 0 … 99"
    assert rows[7] == [8, 9, 10, 0, 8, 9, 0, 8, 9, 10]


def test_steps_give_the_places_of_the_whole_text(rng):
    ids = rng.integers(3, 22, (16, 40)).astype(np.int32)
    ids = np.where(rng.random(ids.shape) < 0.2, rng.integers(31, 34, ids.shape), ids)
    for run in (RUN, PLACED):
        state, places = run.begin(16), []
        for t in range(40):
            state, step_places = run.step(state, jnp.asarray(ids[:, t]), None)
            places.append(np.asarray(step_places))
        np.testing.assert_array_equal(np.stack(places, axis=1), [run.compute(row) for row in ids])


MARKS = (("[SEP]", 2), ("[10^-1]", 31), ("[10^-2]", 32), ("[10^-3]", 33))
PLACED = abacus.Run(RUN.digits, ((31, 1), (32, 2), (33, 3)))


def test_behind_its_place_a_number_is_aligned_at_the_point():
    """12.35 and 4.6 and 807, from the last digit: 1 stands for the ones, −1 for the tenths."""
    ids = np.concatenate([[32], encode_text("53.21+"), [31], encode_text("6.4="), encode_text("708")])
    places = [0, -2, -1, 0, 1, 2, 0, 0, -1, 0, 1, 0, 1, 2, 3]
    assert PLACED.compute(ids).tolist() == places
    assert RUN.compute(ids).tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 1, 0, 1, 0, 1, 2, 3], "published: from each point"
    # Too few or too many digits before the point.
    odd = np.concatenate([[33], encode_text("5.1"), [31], encode_text("567.1")])
    assert PLACED.compute(odd).tolist() == [0, -3, 0, 1, 0, -1, 1, 2, 0, 1]


def test_places_behind_the_point_have_vectors_of_their_own():
    part = build("positions", dict(name="abacus", most=3, offset=2), digit_symbols=DIGITS, marks=MARKS)
    part = part.clone(stack=Stack(width=1))
    assert part.producers() == (PLACED,)
    ids = np.concatenate([[32], encode_text("53.4321+")])
    tokens = Tokens(
        *(np.zeros((1, 9), np.int32) for _ in range(3)), channels={"digit_run": PLACED.compute(ids)[None]}
    )
    shapes = jax.eval_shape(lambda: part.init(jax.random.key(0), tokens, method="added"))
    assert shapes["params"]["runs"].shape == (3 + 3 + 2, 1)
    variables = {"params": {"runs": 10 + jnp.arange(8.0)[:, None]}}
    x = part.apply(variables, tokens, method="added")[0, :, 0]
    assert x.tolist() == [0, 11, 12, 0, 13, 14, 15, 15, 0], "in order, and the last for all further places"
    rows = jax.tree.map(lambda x: np.repeat(x, 64, axis=0), tokens)
    shifted = part.apply(variables, rows, False, method="added", rngs={"dropout": jax.random.key(0)})[..., 0]
    assert {tuple(row) for row in np.asarray(shifted)[:, 1:5].tolist()} == {
        (11 + k, 12 + k, 0, 13 + k) for k in range(3)
    }


def test_slots_count_instead_of_digits():
    part = build("positions", dict(name="abacus", slots=True), digit_symbols=DIGITS, marks=MARKS, num_id=4)
    (run,) = part.producers()
    assert run.compute(np.asarray([5, 4, 4, 6, 12, 4])).tolist() == [0, 1, 2, 0, 0, 1]


def make_part(**options):
    return build("positions", dict(name="abacus") | options, digit_symbols=DIGITS).clone(stack=Stack(width=4))


def test_each_place_has_its_vector_and_text_has_none():
    part = make_part(most=3, offset=2)
    tokens = Tokens(
        *(np.zeros((1, 6), np.int32) for _ in range(3)),
        channels={"digit_run": RUN.compute(encode_text("1234+5"))[None]},
    )
    runs = (1 + jnp.arange(5.0))[:, None] * jnp.ones(4)
    variables = {"params": {"runs": runs}}
    assert part.apply(variables, tokens, method="added")[0, :, 0].tolist() == [1, 2, 3, 3, 0, 1]
    rows = jax.tree.map(lambda x: np.repeat(x, 64, axis=0), tokens)
    vectors = part.apply(variables, rows, False, method="added", rngs={"dropout": jax.random.key(0)})[..., 0]
    assert set(np.asarray(vectors[:, 0]).tolist()) == {1.0, 2.0, 3.0}, "one offset a row"
    np.testing.assert_array_equal(vectors[:, 1] - vectors[:, 0], np.ones(64))
    assert not vectors[:, 4].any()


def test_as_published_a_step_has_one_offset_and_text_a_vector():
    part = make_part(most=3, offset=2, draw="batch", text=True)
    channel = np.repeat(RUN.compute(encode_text("1234+5"))[None], 16, axis=0)
    tokens = Tokens(*(np.zeros((16, 6), np.int32) for _ in range(3)), channels={"digit_run": channel})
    variables = {"params": {"runs": (1 + jnp.arange(5.0))[:, None] * jnp.ones(4), "text": jnp.full(4, 9.0)}}
    firsts = set()
    for seed in range(20):
        x = part.apply(variables, tokens, False, method="added", rngs={"dropout": jax.random.key(seed)})
        assert (x[:, 4] == 9).all() and (x == x[:1]).all()
        firsts.add(float(x[0, 0, 0]))
    assert firsts == {1.0, 2.0, 3.0}
    with pytest.raises(UsageError, match="draw must be one of row, batch, not 'step'"):
        make_part(draw="step").producers()


def test_a_vocabulary_without_digits_is_refused():
    with pytest.raises(UsageError, match="no token of this vocabulary is a digit"):
        build("positions", dict(name="abacus")).producers()
    with pytest.raises(UsageError, match="no channel 'digit_run'"):
        make_part().init(jax.random.key(0), Tokens(*(np.zeros((1, 2), np.int32) for _ in range(3))), method="added")


@pytest.mark.whole
def test_set_adds_it_to_a_model_that_trains_and_generates(tmp_path):
    config = numgpt.get_config("smoke,task=generation,system=digits")
    model, _ = train_with_changes(tmp_path, config, "+positions.place=abacus")
    assert model.params["backbone"]["order_place"]["runs"].shape == (128 + 99, model.system.model.backbone.width)
    assert list(model.system.channels) == ["digit_run"]
    features = model.system.encode(model.system.scheme.parse("so 312 and 45"))
    assert features.channels["digit_run"][features.channels["digit_run"] > 0].tolist() == [1, 2, 3, 1, 2]
    for options in ({}, {"beams": 3}, {"temperature": 1.0}):
        (number,) = model.generate("Q: 312 and 45 are how many? A:", max_tokens=12, **options).numbers
        assert number["value"].replace(".", "").replace("-", "").isdigit()
