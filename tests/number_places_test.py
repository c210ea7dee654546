"""Losses that know a digit's decimal place: places by a slow count, published examples, slow losses in float64."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn.places import find_inside, find_places
from numjax.system import number_symbols
from numjax.text.vocab import registry
from numjax.types import Batch, HeadOut, Targets, Tokens
from tests import drawn

POINT, OPEN, CLOSE, TEXT = 10, 11, 12, 13
CONTEXT = {
    "digit_ids": tuple(range(10)),
    "digit_symbols": tuple((d, d) for d in range(10)),
    "marks": (("[R]", OPEN), ("[/R]", CLOSE)),
    "point_ids": (POINT,),
}
HEADS = {"next": build("heads", {"name": "token"}, **drawn.CONTEXT)}
SIZE = HEADS["next"].size
SPELLED = {".": POINT, "<": OPEN, ">": CLOSE}


def encode_text(text: str) -> np.ndarray:
    return np.asarray([int(c) if c.isdigit() else SPELLED.get(c, TEXT) for c in text], np.int32)


def compute_loss(text: str, logits_TV, mask=None, name="ntl", **options):
    """Returns the loss of one row; V hidden units stand for the tokens' logits."""
    objective = build("objectives", dict(name=name, head="next") | options, **CONTEXT)
    ids = encode_text(text)[None]
    mask = np.ones_like(ids, bool) if mask is None else np.asarray(mask)[None]

    def compute(hidden):
        out = HeadOut(hidden, {"kernel": jnp.eye(drawn.VOCAB, hidden.shape[-1])})
        loss = objective(HEADS, {"next": out}, {}, Batch(Tokens(ids, ids, ids + 1), Targets(ids, mask)))
        return loss.total, loss

    hidden = jnp.asarray(logits_TV, jnp.float32)[None]
    (_, loss), gradient = jax.jit(jax.value_and_grad(compute, has_aux=True))(hidden)
    assert np.isfinite(gradient).all()
    return loss, np.asarray(gradient[0])


def find_spans(text: str) -> list[tuple[int, int, bool]]:
    """The runs of digits and points that hold a digit: (start, end, whether it is reversed)."""
    spans, start = [], 0
    for end in range(1, len(text) + 1):
        if end < len(text) and (text[end] in "0123456789.") == (text[start] in "0123456789."):
            continue
        if any(c.isdigit() for c in text[start:end]):
            spans.append((start, end, text[:start].rfind("<") > text[:start].rfind(">")))
        start = end
    return spans


def slow_places(text: str) -> dict[int, int]:
    """Position → decimal place of each digit, by reading each number from left to right."""
    places = {}
    for start, end, is_reversed in find_spans(text):
        whole = text[start:end]
        at_point = whole.find(".")
        if is_reversed:
            digits = [i for i in range(end - 1, start - 1, -1) if text[i].isdigit()]
            n_whole = sum(c.isdigit() for c in whole[at_point + 1 :])
        else:
            digits = [i for i in range(start, end) if text[i].isdigit()]
            n_whole = sum(c.isdigit() for c in (whole[:at_point] if at_point >= 0 else whole))
        places |= {i: n_whole - 1 - rank for rank, i in enumerate(digits)}
    return places


def test_places_are_those_of_a_slow_count(rng):
    @jax.jit
    def find(ids):
        return find_places(ids < 10, ids == POINT, find_inside(ids, OPEN, CLOSE))

    texts = ["12.34 5 <4321> <43.21> .5 7. x9", "<.5> <5.> 007 <700>"]
    for _ in range(100):
        pieces = rng.choice(["1", "23", "456", "1.5", "20.75", ".25", "8.", " ", "x", "<", ">"], 12)
        texts.append(" ".join(pieces) if rng.random() < 0.5 else "".join(pieces))
    # A second point in a run is no case of its own.
    texts = [text for text in texts if all(text[a:b].count(".") < 2 for a, b, _ in find_spans(text))]
    assert len(texts) > 30
    for text in texts:
        places = jax.tree.map(lambda x: np.asarray(x[0]), find(encode_text(text.ljust(96))[None]))
        expected = slow_places(text)
        assert {i: int(places.place[i]) for i, c in enumerate(text) if c.isdigit()} == expected, text
        for start, end, _ in find_spans(text):
            digits = [expected[i] for i in range(start, end) if text[i].isdigit()]
            assert (places.least[start:end] == min(digits)).all() and (places.most[start:end] == max(digits)).all()
            assert len(set(places.number[start:end].tolist())) == 1


def test_the_numbers_distance_is_that_of_the_package():
    """Expected digits 4.5 and 4.5 against 12: |49.5 − 12| / 61.5."""
    uniform = np.zeros((2, SIZE))
    loss, _ = compute_loss("12", uniform, level="number")
    assert loss.total == pytest.approx(0.6098, abs=5e-5) and loss.count == 1
    loss, _ = compute_loss("<21>", np.zeros((4, SIZE)), level="number")
    assert loss.total == pytest.approx(0.6098, abs=5e-5) and loss.count == 1


def slow_distance(text: str, logits: np.ndarray, *, reweigh: bool) -> list[float]:
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    mass, places, losses = p[:, :10].sum(-1), slow_places(text), []
    expected = (p[:, :10] / mass[:, None]) @ np.arange(10)
    for start, end, _ in find_spans(text):
        digits = [i for i in range(start, end) if text[i].isdigit()]
        e = sum(expected[i] * 10.0 ** places[i] for i in digits)
        y = sum(int(text[i]) * 10.0 ** places[i] for i in digits)
        m = np.mean(mass[digits])
        loss = abs(e - y) / (e + y)
        losses.append(m * loss + (1 - m) * 1.01 if reweigh else loss)
    return losses


@pytest.mark.parametrize("reweigh", [False, True])
@pytest.mark.parametrize("room", [0.0, 0.9])
def test_the_distance_is_a_loop_over_numbers(reweigh, room, rng):
    text = "12.34 . x 5 <4321> <43.21> 0 . 7"
    logits = rng.standard_normal((len(text), SIZE))
    expected = slow_distance(text, logits, reweigh=reweigh)
    loss, _ = compute_loss(text, logits, level="number", reweigh=reweigh, room=room)
    assert loss.count == len(expected) == 6
    assert loss.total == pytest.approx(sum(expected), rel=1e-4)
    # Numbers that are not scored do not count; few scored positions are computed alone.
    mask = np.arange(len(text)) >= text.index("<43.21>")
    loss, _ = compute_loss(text, logits, mask, level="number", reweigh=reweigh, room=room and 0.5)
    assert loss.count == 3 and loss.total == pytest.approx(sum(expected[3:]), rel=1e-4)


def test_the_distance_of_long_numbers_and_of_zero_is_bounded():
    """Also with `reweigh`, whose largest distance the package takes from whole numbers."""
    for text in ("9" * 60, "0" * 60, "0", "0." + "0" * 50 + "1"):
        for sharp in (0.0, 1.0, 200.0):
            logits = np.zeros((len(text), SIZE))
            logits[np.arange(len(text)), encode_text(text)] = sharp
            loss, _ = compute_loss(text, logits, level="number", reweigh=True)
            assert loss.count == 1 and 0 <= loss.total <= 1.01
            if sharp == 200:
                assert loss.total == pytest.approx(0, abs=1e-5)


def slow_entropy(text: str, logits: np.ndarray, *, gold: str, base: float, whole: float) -> list[float]:
    losses, places = [], slow_places(text)
    for start, end, _ in find_spans(text):
        digits = [i for i in range(start, end) if text[i].isdigit()]
        for i in digits:
            p = np.exp(logits[i, :10]) / np.exp(logits[i, :10]).sum()
            error = 0.0
            for v in range(10):
                is_gold = v == int(text[i])
                weight = 1.0 if is_gold and gold == "one" else p[v]
                error -= weight * math.log(p[v] if is_gold else 1 - p[v])
            rank = 1 + sum(places[j] < places[i] for j in digits)
            losses.append(error * (math.log(1 + rank, base) if base else 1) * (whole if places[i] >= 0 else 1))
    return losses


@pytest.mark.parametrize(("gold", "base", "whole"), [("one", 1.02, 2.0), ("entropy", 1.02, 2.0), ("one", 0.0, 1.0)])
def test_digit_entropy_is_a_loop_over_digits(gold, base, whole, rng):
    text = "12.34 . x 5 <4321> <43.21> 0.125"
    logits = rng.standard_normal((len(text), SIZE)) * 2
    options = {"gold": gold, "base": base, "whole": whole}
    expected = slow_entropy(text, logits, **options)
    for room in (0.0, 0.95):
        loss, _ = compute_loss(text, logits, name="digit_entropy", room=room, **options)
        assert loss.count == len(expected) == 17
        assert loss.total == pytest.approx(sum(expected), rel=1e-4)


def test_only_the_mended_entropy_never_rewards_giving_a_digit_up():
    """Its gradient always asks for more of the gold digit; that of the entropy's own weight asks for less near 0."""

    def pull(gold: str, p: float) -> float:
        logits = np.zeros((1, SIZE))
        logits[0, 4] = math.log(p / ((1 - p) / 9))
        return float(compute_loss("4", logits, name="digit_entropy", gold=gold)[1][0, 4])

    for p in (1e-6, 1e-3, 0.1, 0.3, 0.9, 0.999):
        assert pull("one", p) < 0
    assert pull("entropy", 0.05) > 0 > pull("entropy", 0.9)


@pytest.mark.parametrize("sharp", [30.0, 200.0])
def test_digit_entropy_is_finite_and_steep_where_a_digit_is_certain(sharp):
    right = np.zeros((1, SIZE))
    right[0, 7] = sharp
    loss, gradient = compute_loss("7", right, name="digit_entropy", base=0.0, whole=1.0)
    assert loss.total == pytest.approx(0, abs=1e-5) and np.abs(gradient).max() < 1e-5
    loss, gradient = compute_loss("3", right, name="digit_entropy", base=0.0, whole=1.0)
    # −log p of the gold digit, and −log(1 − p) of the wrong one, which the nine others leave.
    assert loss.total == pytest.approx(sharp + sharp - math.log(9), rel=1e-3)
    assert gradient[0, 3] < -0.9 and gradient[0, 7] > 0.9


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ntl", {"level": "word"}, "ntl: level must be one of token, number"),
        ("ntl", {"level": "number", "form": "mse"}, "level=number works on digits: leave symbols, form and squash"),
        ("digit_entropy", {"gold": "p"}, "digit_entropy: gold must be one of"),
        ("digit_entropy", {"symbols": "numbers"}, "it asks about digits"),
        ("digit_entropy", {"base": 1.0}, "base must be 0 or above 1, and whole above 0, not 1 and 2"),
    ],
)
def test_bad_options_are_refused_in_one_line(name, options, says):
    context = CONTEXT | {"number_symbols": CONTEXT["digit_symbols"]}
    with pytest.raises(UsageError, match=says):
        build("objectives", {"name": name, "head": "next"} | options, **context)


@pytest.mark.parametrize(("name", "options"), [("ntl", {"level": "number"}), ("digit_entropy", {})])
@pytest.mark.parametrize("scheme", ["hints", "header", "places", "chunks", "subword", "digits", "reversed"])
def test_places_are_read_only_where_digits_stand_side_by_side(name, options, scheme):
    """In hints a letter stands between any two, in header the digits of a count before them, and a symbol of places
    is a digit with its place."""
    lines = ["the cat has 12 apples and 345 pears 6 7 8 9 0"] * 20
    vocab = registry.build({"name": "sentencepiece", "size": 300, "split_digits": True}, lines)
    built = build("text", {"name": scheme}, vocab=vocab)
    context = built.aggregation() | number_symbols(built.vocab)
    block = {"name": name, "head": "next"} | options
    if scheme in ("digits", "reversed"):
        assert build("objectives", block, **context).needs_places
        return
    with pytest.raises(UsageError, match=f"{name}: it reads the places of digits that are tokens of their own"):
        build("objectives", block, **context)
