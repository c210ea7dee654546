"""What positions do without options, and which texts their tables bound."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build, names
from numjax.errors import UsageError
from numjax.positions import abacus, alibi, learned, random_offset, relative, sinusoidal
from tests import drawn

WIDTH = drawn.CONTEXT["width"]


def stack(length=16, **more):
    return drawn.build_backbone(drawn.DECODER | {"max_length": length} | more)


def draw_tokens_with_channels(rng):
    tokens, _ = drawn.draw_tokens(rng)
    channels = {"digit_run": tokens.positions, "tree_positions": np.stack([tokens.positions] * 3, axis=-1)}
    channels["limb_power"] = tokens.positions
    channels["significance"] = np.stack([tokens.positions, tokens.positions], axis=-1)
    return tokens._replace(channels=channels)


@pytest.mark.parametrize("heads", range(1, 34))
def test_alibis_slopes_are_those_of_the_paper(heads):
    """Geometric for a power of two; else the power below, and every other slope of the power above."""
    power = max(2**n for n in range(6) if 2**n <= heads)
    wanted = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    wanted += [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)][::2]
    np.testing.assert_allclose(alibi.slopes(heads), wanted[:heads], rtol=1e-12)
    assert len({*wanted[:heads]}) == heads


@pytest.mark.parametrize("name", names("positions"))
def test_positions_are_bounded_exactly_if_their_table_grows_with_the_stack(rng, name):
    part = build("positions", {"name": name}, **drawn.CONTEXT)
    if not part.provides("added"):
        assert not part.bounded
        return
    given = draw_tokens_with_channels(rng)

    def shapes(length):
        module = part.clone(stack=stack(length), parent=None)
        return jax.eval_shape(lambda: module.init(jax.random.key(0), given, method="added"))

    grows = jax.tree.map(np.shape, shapes(16)) != jax.tree.map(np.shape, shapes(20))
    assert part.bounded == grows


@pytest.mark.parametrize("part", [learned, random_offset])
def test_tables_start_small_and_the_first_position_has_the_first_row(rng, part):
    module = part.Positions(stack(400))
    given, _ = drawn.draw_tokens(rng)
    params = module.init(jax.random.key(0), given, method="added")
    table = np.asarray(params["params"]["places"])
    assert table.shape == (400 + (100 if part is random_offset else 0), WIDTH)
    assert table.std() == pytest.approx(0.02, rel=0.05) and abs(table.mean()) < 0.001
    np.testing.assert_array_equal(module.apply(params, given, method="added"), table[given.positions])


def test_random_starts_are_each_of_the_allowed_ones(rng):
    module = random_offset.Positions(stack(16), most=3)
    table = np.arange(19.0)[:, None] * np.ones(WIDTH)
    zeros = np.zeros((400, 2), np.int32)
    given = drawn.draw_tokens(rng)[0]._replace(ids=zeros, positions=np.int32([[0, 1]] * 400), segment_ids=zeros + 1)
    params, rngs = {"params": {"places": jnp.asarray(table, jnp.float32)}}, {"dropout": jax.random.key(0)}
    added = module.apply(params, given, False, method="added", rngs=rngs)
    first, second = np.asarray(added)[..., 0].T
    assert {*first.tolist()} == {0.0, 1.0, 2.0, 3.0}
    np.testing.assert_array_equal(second, first + 1)


def test_sines_are_the_papers_at_the_default_scale(rng):
    given, _ = drawn.draw_tokens(rng)
    added = sinusoidal.Positions(stack()).apply({}, given, method="added")
    i = np.arange(WIDTH) // 2
    angles = given.positions[..., None] / 10_000.0 ** (2 * i / WIDTH)
    wanted = 0.02 * np.where(np.arange(WIDTH) % 2, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(added, wanted, atol=1e-6)


@pytest.mark.parametrize(("width", "heads", "fraction"), [(15, 3, 1.0), (16, 2, 0.2), (16, 16, 1.0)])
def test_rope_refuses_heads_without_pairs(rng, width, heads, fraction):
    module = build("positions", {"name": "rope", "fraction": fraction}, **drawn.CONTEXT)
    module = module.clone(stack=stack(width=width, heads=heads), parent=None)
    with pytest.raises(UsageError, match="no pairs"):
        module.apply({}, drawn.draw_tokens(rng)[0], method="angles")


def test_a_channel_of_ids_is_hidden_where_the_ids_are():
    run = abacus.Run((1, 2))
    assert run.compute(np.int32([1, 0, 2, 1])).tolist() == [1, 0, 1, 2] and run.channel.of_ids


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("relative", {"buckets": 32, "furthest": 16}, "fewer than furthest=16"),
        ("relative", {"buckets": 1}, "at least one"),
        ("rope", {"fraction": 1.5}, "fraction must be above 0 and at most 1"),
        ("rope", {"base": 1.0}, "base above 1"),
        ("rope", {"factor": 0.0, "scaling": "linear"}, "factor and slow above 0"),
        ("rope", {"slow": 0.0, "scaling": "yarn"}, "factor and slow above 0"),
        ("abacus", {"most": 0}, "most must be at least 1"),
        ("abacus", {"offset": -1}, "offset not negative"),
        ("random_offset", {"most": -1}, "most must be at least 0"),
        ("learned", {"offset": -1}, "offset must be at least 0"),
        ("tree", {"levels": 0}, "levels and bits must be at least 1"),
        ("tree", {"bits": 0}, "levels and bits must be at least 1"),
        ("tree", {"levels": 2}, "levels=2 are fewer than the 3 of the scheme's trees"),
        ("sinusoidal", {"base": 0.0}, "base must be above 0"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_computed(rng, name, options, says):
    part = build("positions", {"name": name} | options, **drawn.CONTEXT).clone(stack=stack(), parent=None)
    given = draw_tokens_with_channels(rng)
    method = next(m for m in ("added", "angles", "bias") if part.provides(m))
    values = (given.positions, given.positions) if method == "bias" else (given,)
    with pytest.raises(UsageError, match=f"positions {name}: .*{says}"):
        part.init({"params": jax.random.key(0)}, *values, method=method)


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 17), (32, 128), (4, 3), (2, 9)])
def test_all_distances_from_the_furthest_on_share_a_bucket_and_nearer_ones_keep_their_order(buckets, furthest):
    distances = np.arange(4 * furthest)
    index = np.asarray(relative.relative_buckets(-distances, False, buckets, furthest))
    assert index.min() == 0 and (np.diff(index) >= 0).all()
    assert (index[furthest:] == buckets - 1).all() and (index[: buckets // 2] == distances[: buckets // 2]).all()
