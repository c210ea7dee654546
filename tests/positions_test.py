"""Positions: what transformers makes of them, what they promise, and that writing reads them as training does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build, find, names
from numjax.errors import UsageError
from numjax.nn import rotary
from numjax.positions import alibi
from numjax.protocols import ACTS, Stack
from numjax.types import TREE_POSITIONS, Tokens
from tests import drawn, writing
from tests.conftest import ROOT

FIXTURE = ROOT / "tests/fixtures/positions.npz"  # made by make_positions_fixture.py
SCALED = {
    "none": {},
    "linear": dict(factor=4.0),
    "yarn": dict(factor=4.0, trained=32, slow=1.0, fast=32.0),
    "llama3": dict(factor=8.0, trained=32, slow=1.0, fast=4.0),
}
T = 12
# What makes what a part does visible in a small stack.
LOUD = {"learned": {"init_std": 0.5}, "sinusoidal": {"scale": 0.5}, "random_offset": {"init_std": 0.5, "most": 3}}
EVERY = [name for name in names("positions") if name != "none"]


def of(name: str, **more):
    return {"sequence": {"name": name} | LOUD.get(name, {}) | more}


def tokens_of(rng, lengths, length=T, stack=None) -> Tokens:
    """With tree positions, and what the positions of a stack make of the ids."""
    tokens, _ = drawn.tokens(rng, lengths=[[n] for n in lengths], length=length)
    found = {TREE_POSITIONS.name: rng.integers(-1, 3, (*tokens.ids.shape, 3)).astype(np.int32)}
    for part in () if stack is None else stack.positions.values():
        for one in part.producers():
            found[one.channel.name] = np.stack([one.compute(row) for row in tokens.ids])
    return tokens._replace(channels=found)


@pytest.mark.parametrize("scaling", list(SCALED))
def test_rope_is_that_of_transformers(scaling):
    found = np.load(FIXTURE)
    part = build("positions", dict(name="rope", base=5000.0, scaling=scaling, **SCALED[scaling]))
    part = part.clone(stack=Stack(width=64, heads=4, size=16, max_length=128))
    positions = found["positions"]
    tokens = Tokens(np.zeros_like(positions), positions, np.ones_like(positions))
    angles, sharp = (
        part.apply({}, tokens, method="angles"),
        rotary.sharpness(scaling, SCALED[scaling].get("factor", 1)),
    )
    for name in "qk":
        turned = rotary.turn(jnp.swapaxes(found[name], 1, 2), angles, sharp)
        np.testing.assert_allclose(jnp.swapaxes(turned, 1, 2), found[f"{scaling}/{name}"], atol=2e-5)


@pytest.mark.parametrize("heads", [4, 6, 12])
def test_alibi_is_that_of_transformers(heads):
    """Which adds slope · key's place: the same but for what the softmax does not see."""
    theirs = np.load(FIXTURE)[f"alibi/{heads}"]
    part = alibi.Positions(stack=Stack(width=64, heads=heads, size=16))
    at = np.arange(theirs.shape[-1])[None]
    ours = np.asarray(part.bias(jnp.asarray(at), jnp.asarray(at)))[0]
    wanted = theirs - alibi.slopes(heads)[:, None, None] * at.T
    seen = np.tri(len(at[0]), dtype=bool)
    np.testing.assert_allclose(ours[:, seen], wanted[:, seen], atol=1e-4)
    np.testing.assert_allclose(ours, np.swapaxes(ours, 1, 2))


def test_ntk_slows_the_slowest_pair_by_its_factor_and_keeps_the_fastest():
    plain, slowed = rotary.frequencies(8), rotary.frequencies(8, scaling="ntk", factor=4.0)
    np.testing.assert_allclose([slowed[0], slowed[-1]], [plain[0], plain[-1] / 4])
    assert (np.diff(plain / slowed) > 0).all()


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
@pytest.mark.parametrize("name", EVERY)
def test_they_tell_order_in_every_stack(name, kind, rng):
    """A text whose tokens change places gives other states; without positions an encoder's only move along."""
    stack, bare = (drawn.stack(drawn.DECODER | {"name": kind}, p) for p in (of(name), {"sequence": {"name": "none"}}))
    tokens = tokens_of(rng, [T, T], stack=stack)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    more = {"source": (x, tokens)} if stack.encodes else {}
    params = drawn.draw(stack, rng, x, tokens, **more)
    swapped = x[:, [1, 0, *range(2, T)]]

    def last(stack, params, x):
        more = {"source": (x, tokens)} if stack.encodes else {}
        return jax.jit(lambda x: stack.apply({"params": params}, x, tokens, **more)[0][:, -1])(x)

    assert np.abs(last(stack, params, x) - last(stack, params, swapped)).max() > 1e-3
    unplaced = jax.tree.map(lambda leaf: leaf, params)
    for side in [unplaced, *(unplaced[s] for s in ("encoder", "decoder") if s in unplaced)]:
        side.pop("order_sequence", None)
    # One layer of a causal stack sees a bag; the second sees what the first has made of each beginning.
    first = bare.clone(layers=1)
    if kind == "encoder":
        np.testing.assert_allclose(last(first, unplaced, x), last(first, unplaced, swapped), atol=1e-5)


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("name", names("positions"))
def test_reading_step_by_step_is_reading_at_once(name, window, rng):
    """Prompts of unlike length, padded on the left, then one position at a time."""
    stack = drawn.stack(drawn.DECODER | {"window": window, "kv_heads": 1}, of(name))
    tokens = tokens_of(rng, [9, 6, T], stack=stack)
    x = rng.standard_normal((3, T, 16)).astype(np.float32)
    params = drawn.draw(stack, rng, x, tokens)
    full = jax.jit(lambda x, t: stack.apply({"params": params}, x, t)[0])(x, tokens)
    lengths, prompt = [9, 6, T], 7
    later = T - prompt
    read = [max(1, n - later) for n in lengths]

    def left(a, fill):
        out = np.full((3, prompt, *a.shape[2:]), fill, a.dtype)
        for b, n in enumerate(read):
            out[b, prompt - n :] = a[b, :n]
        return out

    def part(take):
        names = ("ids", "positions", "segment_ids")
        moved = {name: take(getattr(tokens, name), 0) for name in names}
        return Tokens(**moved, channels={n: take(v, 0) for n, v in tokens.channels.items()})

    step = jax.jit(lambda x, t, cache: stack.apply({"params": params}, x, t, cache=cache))
    h, _, cache = step(left(x, 0), part(left), stack.init_cache(3, T + 2))
    for b, n in enumerate(read):
        np.testing.assert_allclose(h[b, prompt - n :], full[b, :n], atol=2e-5)
    for i in range(later):
        at = [min(n + i, lengths[b] - 1) for b, n in enumerate(read)]

        def one(a, fill, at=at):
            return a[np.arange(3), at][:, None]

        h, _, cache = step(one(x, 0), part(one), cache)
        for b, n in enumerate(read):
            if n + i < lengths[b]:
                np.testing.assert_allclose(h[b, 0], full[b, n + i], atol=2e-5, err_msg=f"row {b}, position {n + i}")


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("name", [n for n in EVERY if not find("positions", n).reads_channels])
def test_what_is_written_is_as_likely_as_when_it_is_read(name, window):
    """Greedily, sampled and in beams, which share a cache: a token's mass is that of the whole text read at once."""
    made = writing.writer(of(name), window=window, kv_heads=1)
    for temperature in (0.0, 1.5):
        writing.check_sampled(made, made.sampled(temperature))
    assert len(set(map(tuple, writing.check_beams(made, made.beams())))) > 3


@pytest.mark.parametrize("name", ["rope", "alibi", "relative"])
def test_only_distances_count(name, rng):
    tokens = tokens_of(rng, [T, T])
    stack = drawn.stack(drawn.DECODER, of(name))
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw(stack, rng, x, tokens)
    run = jax.jit(lambda t: stack.apply({"params": params}, x, t)[0])
    moved = tokens._replace(positions=tokens.positions + 70)
    np.testing.assert_allclose(run(tokens), run(moved), atol=3e-5)


def test_rope_turns_a_part_of_a_head_where_asked(rng):
    part = build("positions", dict(name="rope", fraction=0.5)).clone(stack=Stack(width=16, heads=2, size=8))
    tokens = tokens_of(rng, [T])
    angles = part.apply({}, tokens, method="angles")
    assert angles.shape == (1, T, 2)
    x = rng.standard_normal((1, T, 2, 8)).astype(np.float32)
    turned = np.asarray(rotary.turn(x, angles))
    np.testing.assert_array_equal(turned[..., 4:], x[..., 4:])
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5)
    assert np.abs(turned[:, 1:, :, :4] - x[:, 1:, :, :4]).min() > 0


def test_random_offsets_are_a_rows_own_and_none_where_nothing_is_drawn():
    part = build("positions", dict(name="random_offset", most=5)).clone(stack=Stack(width=4, max_length=8))
    ids = np.zeros((64, 8), np.int32)
    tokens = Tokens(ids, np.broadcast_to(np.arange(8, dtype=np.int32), ids.shape), ids + 1)
    places = jnp.arange(13.0)[:, None] * jnp.ones(4)
    still = part.apply({"params": {"places": places}}, tokens, method="added")
    np.testing.assert_array_equal(still[..., 0], tokens.positions)
    moved = [
        part.apply({"params": {"places": places}}, tokens, False, method="added", rngs={"dropout": jax.random.key(i)})
        for i in range(2)
    ]
    offsets = np.asarray(moved[0][..., 0]) - tokens.positions
    assert (offsets == offsets[:, :1]).all() and set(offsets[:, 0].tolist()) == set(range(6))
    assert not np.array_equal(moved[0], moved[1])


def test_sinusoidal_is_the_papers():
    part = build("positions", dict(name="sinusoidal", scale=1.0)).clone(stack=Stack(width=6, max_length=8))
    at = np.arange(5, dtype=np.int32)[None]
    found = np.asarray(part.added(Tokens(at, at, at + 1)))[0]
    for t in range(5):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            np.testing.assert_allclose(found[t, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-6)


def test_what_does_not_go_together_is_one_line(rng):
    x, tokens = np.zeros((1, T, 16), np.float32), tokens_of(rng, [T])
    cases = {
        "scaling must be one of": of("rope", scaling="cubic"),
        "are no pairs": of("rope", fraction=0.1),
        "several of the positions rotate": of("rope") | {"again": {"name": "rope"}},
    }
    for says, positions in cases.items():
        with pytest.raises(UsageError, match=says):
            drawn.stack(drawn.DECODER, positions).init(jax.random.key(0), x, tokens)
    short = drawn.stack(drawn.DECODER | {"max_length": 4}, of("learned"))
    with pytest.raises(UsageError, match=r"12 positions are more than backbone\.max_length=4"):
        short.init(jax.random.key(0), x, tokens)
    with pytest.raises(UsageError, match="positions need a stack"):
        build("positions", dict(name="learned")).init(jax.random.key(0), tokens, method="added")


@pytest.mark.parametrize("name", names("positions"))
def test_each_says_where_it_acts(name):
    acts = [place for place in ACTS if find("positions", name).provides(place)]
    assert acts or name == "none"
