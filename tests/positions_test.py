"""Positions: equal to those of transformers, their properties, and that generation uses them as training does."""

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
# Options that make the effect of a part visible in a small stack.
LOUD = {
    "limbs": {"init_std": 0.5},
    "learned": {"init_std": 0.5},
    "sinusoidal": {"scale": 0.5},
    "random_offset": {"init_std": 0.5, "most": 3},
    "rank_bias": {"init_std": 0.5},
}
EVERY = [name for name in names("positions") if name != "none"]


def make_block(name: str, **more):
    return {"sequence": {"name": name} | LOUD.get(name, {}) | more}


def draw_tokens(rng, lengths, length=T, stack=None) -> Tokens:
    """Draws tokens with tree positions and the channels that the positions of a stack produce from the ids."""
    tokens, _ = drawn.draw_tokens(rng, lengths=[[n] for n in lengths], length=length)
    parts = [] if stack is None else list(stack.positions.values())
    is_known = any(part.part_name() == "rank_bias" for part in parts)
    tokens.ids[:, :2] = [14, 4] if is_known else [10, 1]  # the header of a number, and a digit
    channels = {TREE_POSITIONS.name: rng.integers(-1, 3, (*tokens.ids.shape, 3)).astype(np.int32)}
    for part in parts:
        for producer in part.producers():
            channels[producer.channel.name] = np.stack([producer.compute(row) for row in tokens.ids])
    return tokens._replace(channels=channels)


@pytest.mark.parametrize("scaling", list(SCALED))
def test_rope_equals_that_of_transformers(scaling):
    arrays = np.load(FIXTURE)
    part = build("positions", dict(name="rope", base=5000.0, scaling=scaling, **SCALED[scaling]))
    part = part.clone(stack=Stack(width=64, heads=4, size=16, max_length=128))
    positions = arrays["positions"]
    tokens = Tokens(np.zeros_like(positions), positions, np.ones_like(positions))
    angles, sharp = (
        part.apply({}, tokens, method="angles"),
        rotary.sharpness(scaling, SCALED[scaling].get("factor", 1)),
    )
    for name in "qk":
        rotated = rotary.turn(jnp.swapaxes(arrays[name], 1, 2), angles, sharp)
        np.testing.assert_allclose(jnp.swapaxes(rotated, 1, 2), arrays[f"{scaling}/{name}"], atol=2e-5)


@pytest.mark.parametrize("heads", [4, 6, 12])
def test_alibi_equals_that_of_transformers(heads):
    """transformers adds slope · key position: it differs by a constant for each query, which the softmax ignores."""
    theirs = np.load(FIXTURE)[f"alibi/{heads}"]
    part = alibi.Positions(stack=Stack(width=64, heads=heads, size=16))
    positions = np.arange(theirs.shape[-1])[None]
    ours = np.asarray(part.bias(jnp.asarray(positions), jnp.asarray(positions)))[0]
    expected = theirs - alibi.slopes(heads)[:, None, None] * positions.T
    is_visible = np.tri(len(positions[0]), dtype=bool)
    np.testing.assert_allclose(ours[:, is_visible], expected[:, is_visible], atol=1e-4)
    np.testing.assert_allclose(ours, np.swapaxes(ours, 1, 2))


def test_ntk_slows_the_slowest_pair_by_its_factor_and_keeps_the_fastest():
    plain, ntk = rotary.frequencies(8), rotary.frequencies(8, scaling="ntk", factor=4.0)
    np.testing.assert_allclose([ntk[0], ntk[-1]], [plain[0], plain[-1] / 4])
    assert (np.diff(plain / ntk) > 0).all()


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
@pytest.mark.parametrize("name", EVERY)
def test_order_matters_in_every_stack_with_positions(name, kind, rng):
    """Swapped tokens change the last state; without positions that of an encoder's layer stays the same."""
    stack, bare = (
        drawn.build_backbone(drawn.DECODER | {"name": kind}, p)
        for p in (make_block(name), {"sequence": {"name": "none"}})
    )
    tokens = draw_tokens(rng, [T, T], stack=stack)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    more = {"source": (x, tokens)} if stack.encodes else {}
    params = drawn.draw_params(stack, rng, x, tokens, **more)
    swapped = x[:, [1, 0, *range(2, T)]]

    def compute_last_state(stack, params, x):
        more = {"source": (x, tokens)} if stack.encodes else {}
        return jax.jit(lambda x: stack.apply({"params": params}, x, tokens, **more)[0][:, -1])(x)

    assert np.abs(compute_last_state(stack, params, x) - compute_last_state(stack, params, swapped)).max() > 1e-3
    bare_params = jax.tree.map(lambda leaf: leaf, params)
    for side in [bare_params, *(bare_params[s] for s in ("encoder", "decoder") if s in bare_params)]:
        side.pop("order_sequence", None)
    # One causal layer sees a bag of tokens; the second sees the result of the first for each prefix.
    one_layer = bare.clone(layers=1)
    if kind == "encoder":
        np.testing.assert_allclose(
            compute_last_state(one_layer, bare_params, x),
            compute_last_state(one_layer, bare_params, swapped),
            atol=1e-5,
        )


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("name", names("positions"))
def test_decoding_step_by_step_equals_one_pass(name, window, rng):
    """Prompts have different lengths and are padded on the left; then one position follows at a time."""
    stack = drawn.build_backbone(drawn.DECODER | {"window": window, "kv_heads": 1}, make_block(name))
    tokens = draw_tokens(rng, [9, 6, T], stack=stack)
    x = rng.standard_normal((3, T, 16)).astype(np.float32)
    params = drawn.draw_params(stack, rng, x, tokens)
    full = jax.jit(lambda x, t: stack.apply({"params": params}, x, t)[0])(x, tokens)
    lengths, prompt = [9, 6, T], 7
    later = T - prompt
    prompt_lengths = [max(1, n - later) for n in lengths]

    def pad_left(a, fill):
        out = np.full((3, prompt, *a.shape[2:]), fill, a.dtype)
        for b, n in enumerate(prompt_lengths):
            out[b, prompt - n :] = a[b, :n]
        return out

    def map_tokens(take):
        names = ("ids", "positions", "segment_ids")
        fields = {name: take(getattr(tokens, name), 0) for name in names}
        return Tokens(**fields, channels={n: take(v, 0) for n, v in tokens.channels.items()})

    step = jax.jit(lambda x, t, cache: stack.apply({"params": params}, x, t, cache=cache))
    h, _, cache = step(pad_left(x, 0), map_tokens(pad_left), stack.init_cache(3, T + 2))
    for b, n in enumerate(prompt_lengths):
        np.testing.assert_allclose(h[b, prompt - n :], full[b, :n], atol=2e-5)
    for i in range(later):
        indices = [min(n + i, lengths[b] - 1) for b, n in enumerate(prompt_lengths)]

        def take_one(a, fill, indices=indices):
            return a[np.arange(3), indices][:, None]

        h, _, cache = step(take_one(x, 0), map_tokens(take_one), cache)
        for b, n in enumerate(prompt_lengths):
            if n + i < lengths[b]:
                np.testing.assert_allclose(h[b, 0], full[b, n + i], atol=2e-5, err_msg=f"row {b}, position {n + i}")


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("name", [n for n in EVERY if not find("positions", n).reads_channels])
def test_generated_tokens_have_the_probability_of_one_pass(name, window):
    """Greedy, sampled and in beams, which share a cache: a token's mass is that of one pass over the whole text."""
    model = writing.make_text_model(make_block(name), window=window, kv_heads=1)
    for temperature in (0.0, 1.5):
        writing.check_samples(model, model.generate(temperature))
    assert len(set(map(tuple, writing.check_beams(model, model.search_beams())))) > 3


@pytest.mark.parametrize("name", ["rope", "alibi", "relative"])
def test_only_distances_count(name, rng):
    tokens = draw_tokens(rng, [T, T])
    stack = drawn.build_backbone(drawn.DECODER, make_block(name))
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw_params(stack, rng, x, tokens)
    run = jax.jit(lambda t: stack.apply({"params": params}, x, t)[0])
    shifted_tokens = tokens._replace(positions=tokens.positions + 70)
    np.testing.assert_allclose(run(tokens), run(shifted_tokens), atol=3e-5)


def test_rope_rotates_only_a_fraction_of_a_head(rng):
    part = build("positions", dict(name="rope", fraction=0.5)).clone(stack=Stack(width=16, heads=2, size=8))
    tokens = draw_tokens(rng, [T])
    angles = part.apply({}, tokens, method="angles")
    assert angles.shape == (1, T, 2)
    x = rng.standard_normal((1, T, 2, 8)).astype(np.float32)
    rotated = np.asarray(rotary.turn(x, angles))
    np.testing.assert_array_equal(rotated[..., 4:], x[..., 4:])
    np.testing.assert_allclose(np.linalg.norm(rotated, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5)
    assert np.abs(rotated[:, 1:, :, :4] - x[:, 1:, :, :4]).min() > 0


def test_random_offsets_differ_by_row_and_are_zero_in_evaluation():
    part = build("positions", dict(name="random_offset", most=5)).clone(stack=Stack(width=4, max_length=8))
    ids = np.zeros((64, 8), np.int32)
    tokens = Tokens(ids, np.broadcast_to(np.arange(8, dtype=np.int32), ids.shape), ids + 1)
    table = jnp.arange(13.0)[:, None] * jnp.ones(4)
    eval_output = part.apply({"params": {"places": table}}, tokens, method="added")
    np.testing.assert_array_equal(eval_output[..., 0], tokens.positions)
    train_outputs = [
        part.apply({"params": {"places": table}}, tokens, False, method="added", rngs={"dropout": jax.random.key(i)})
        for i in range(2)
    ]
    offsets = np.asarray(train_outputs[0][..., 0]) - tokens.positions
    assert (offsets == offsets[:, :1]).all() and set(offsets[:, 0].tolist()) == set(range(6))
    assert not np.array_equal(train_outputs[0], train_outputs[1])


def test_sinusoidal_equals_the_papers_formula():
    part = build("positions", dict(name="sinusoidal", scale=1.0)).clone(stack=Stack(width=6, max_length=8))
    positions = np.arange(5, dtype=np.int32)[None]
    encoding = np.asarray(part.added(Tokens(positions, positions, positions + 1)))[0]
    for t in range(5):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            np.testing.assert_allclose(encoding[t, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-6)


def test_bad_options_are_refused_in_one_line(rng):
    x, tokens = np.zeros((1, T, 16), np.float32), draw_tokens(rng, [T])
    cases = {
        "scaling must be one of": make_block("rope", scaling="cubic"),
        "are no pairs": make_block("rope", fraction=0.1),
        "several of the positions rotate": make_block("rope") | {"again": {"name": "rope"}},
    }
    for message, positions in cases.items():
        with pytest.raises(UsageError, match=message):
            drawn.build_backbone(drawn.DECODER, positions).init(jax.random.key(0), x, tokens)
    short = drawn.build_backbone(drawn.DECODER | {"max_length": 4}, make_block("learned"))
    with pytest.raises(UsageError, match=r"12 positions are more than backbone\.max_length=4"):
        short.init(jax.random.key(0), x, tokens)
    with pytest.raises(UsageError, match="positions need a stack"):
        build("positions", dict(name="learned")).init(jax.random.key(0), tokens, method="added")


@pytest.mark.parametrize("name", names("positions"))
def test_each_part_provides_an_action(name):
    acts = [act for act in ACTS if find("positions", name).provides(act)]
    assert acts or name == "none"
