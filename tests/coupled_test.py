"""Coupled positions: the paper's example, a slow count of places, and no trace of what is still to be written."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.positions import coupled
from numjax.protocols import Stack
from numjax.text import vocab as vocabularies
from numjax.types import Tokens

SEP, FORWARD, END, BACKWARD, BACKWARD_END, TEXT = 1, 2, 3, 4, 5, 6
MARKS = {"[SEP]": SEP, "[F]": FORWARD, "[/F]": END, "[R]": BACKWARD, "[/R]": BACKWARD_END}
DIGITS = tuple((10 + digit, digit) for digit in range(10))
SPELLED = {"|": SEP, "(": FORWARD, ")": END, "<": BACKWARD, ">": BACKWARD_END}


def make_part(**options):
    context = {"digit_symbols": DIGITS, "marks": tuple(MARKS.items())}
    return build("positions", dict(name="coupled") | options, **context).clone(stack=Stack(width=4))


(PRODUCER,) = make_part().producers()


def encode_text(text: str) -> np.ndarray:
    return np.asarray([10 + int(c) if c.isdigit() else SPELLED.get(c, TEXT) for c in text], np.int32)


def test_the_papers_example():
    """653 + 049 = 0702, the answer with its last digit first; operands in the usual order."""
    (plain,) = make_part().clone(marks=(("[SEP]", SEP),)).producers()
    wanted = [4, 3, 2, 1, 4, 3, 2, 1, 1, 2, 3, 4, 5]
    assert plain.compute(encode_text("653+049=|2070"))[:, 0].tolist() == wanted
    places = PRODUCER.compute(encode_text("(653)+(049)=|<2070>"))
    is_digit = places[:, 1] > 0
    assert places[is_digit, 0].tolist() == [4, 3, 2, 4, 3, 2, 2, 3, 4, 5]
    assert places[is_digit, 1].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert (places[~is_digit] == [1, 0]).all()


def slow_places(text: str) -> list[int]:
    """Each digit's place: looked up in the text in which every number stands as it is read."""
    prompt, bar, answer = text.partition("|")
    if not bar:
        prompt, answer = "", text
    places = []
    for part, is_written in ((prompt + bar, False), (answer, True)):
        for i, c in enumerate(part):
            if not c.isdigit():
                places.append(1)
                continue
            first = i - len(part[: i + 1]) + len(part[: i + 1].rstrip("0123456789"))
            behind = len(part[i:]) - len(part[i:].lstrip("0123456789"))
            counts_up = is_written or part[:i].rfind("<") > part[:i].rfind(">")
            places.append(1 + (i - first if counts_up else behind))
    return places


def test_places_are_those_of_a_slow_count(rng):
    for _ in range(200):
        text = "".join(rng.choice(list("0123456789()<>+. |"), rng.integers(0, 40)))
        assert PRODUCER.compute(encode_text(text))[:, 0].tolist() == slow_places(text), text


def test_what_is_written_has_the_places_of_the_whole_text(rng):
    """A prompt as the host sees it, then a step a token."""
    step = jax.jit(lambda state, token: PRODUCER.step(state, token, None))
    for _ in range(20):
        prompt = "(" + "".join(rng.choice(list("0123456789()<>+."), 12)) + "|"
        ids = encode_text(prompt + "".join(rng.choice(list("0123456789()<>+."), 20)))
        state, written = PRODUCER.begin(1), []
        for token in ids:
            state, value = step(state, jnp.asarray([token]))
            written.append(np.asarray(value)[0])
        np.testing.assert_array_equal(np.stack(written)[len(prompt) :], PRODUCER.compute(ids)[len(prompt) :])


def test_a_position_says_nothing_about_what_is_written_behind_it(rng):
    for _ in range(50):
        ids = encode_text("(12)+(345)|" + "".join(rng.choice(list("0123456789<>()."), 20)))
        for end in range(len("(12)+(345)|"), len(ids)):
            np.testing.assert_array_equal(PRODUCER.compute(ids[:end]), PRODUCER.compute(ids)[:end])


def test_a_place_has_one_vector_in_operands_and_answer():
    part = make_part(most=3, offset=2, numbers=2)
    channel = np.concatenate([PRODUCER.compute(encode_text("(123)+(45)|<86100>")), np.zeros((2, 2), np.int32)])
    tokens = Tokens(
        *(np.zeros((1, len(channel)), np.int32) for _ in range(3)), channels={"significance": channel[None]}
    )
    places, levels = (
        (1 + jnp.arange(6.0))[:, None] * jnp.ones(4),
        (100 * (1 + jnp.arange(2.0)))[:, None] * jnp.ones(4),
    )
    variables = {"params": {"places": places, "levels": levels}}
    x = part.apply(variables, tokens, method="added")[0, :, 0]
    assert x[jnp.asarray([1, 2, 3])].tolist() == [104, 103, 102] and x[jnp.asarray([7, 8])].tolist() == [203, 202]
    assert x[12:17].tolist() == [202, 203, 204, 204, 204], (
        "places and numbers beyond the tables have the last vectors"
    )
    assert x[0] == x[5] == x[10] == 1 and x[-2:].tolist() == [0, 0]
    rows = jax.tree.map(lambda y: np.repeat(y, 64, axis=0), tokens)
    drawn = part.apply(variables, rows, False, method="added", rngs={"dropout": jax.random.key(0)})[..., 0]
    assert set(np.asarray(drawn[:, 0]).tolist()) == {1.0, 2.0, 3.0}, "one start a row"
    np.testing.assert_array_equal(drawn[:, 1] - drawn[:, 0], np.full(64, 103))
    assert not drawn[:, -1].any()


def test_the_scheme_with_reversed_answers_gives_all_numbers_their_places():
    vocabulary = vocabularies.build({"name": "sentencepiece", "size": 320}, ["12 + 34 = 46"])
    scheme = build("text", {"name": "reversed", "which": "answers"}, vocab=vocabulary)
    task = build("tasks", {"name": "arithmetic"})
    example = task.example(
        {"id": 0, "question": "653 + 49 =", "answer": "702", "accepted": "702", "operation": "add", "stream": "test"},
        scheme.parse,
    )
    symbols = [(scheme.vocab.encode(d)[0], int(d)) for d in "0123456789"]
    marks = tuple((name, scheme.vocab.mark(name)) for name in scheme.vocab.marks)
    (producer,) = build("positions", {"name": "coupled"}, digit_symbols=tuple(symbols), marks=marks).producers()
    places = producer.compute(scheme.encode(example.document).ids)
    assert places[places[:, 1] > 0, 0].tolist() == [4, 3, 2, 3, 2, 2, 3, 4]
    assert sorted(set(places[:, 1].tolist())) == [0, 1, 2, 3]


def test_what_it_cannot_use_is_refused():
    with pytest.raises(UsageError, match="no token of this vocabulary is a digit"):
        build("positions", dict(name="coupled")).producers()
    with pytest.raises(UsageError, match=r"has no mark '\[X\]'"):
        make_part(until="[X]").producers()
    assert isinstance(PRODUCER, coupled.Significance) and hash(PRODUCER)
