"""Embeddings of a numeral's characters, its value, and at random: against loops, published numbers and each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.embed import char_cnn, char_former, char_lstm, dice_linear, random, value
from numjax.errors import UsageError
from numjax.nn import by_length, characters, lstm
from numjax.numeral.exact import to_numeral
from numjax.plan import flops
from tests import drawn
from tests.runs_test import ROOT

PAD = characters.PAD


def text_of(ids) -> str:
    return "".join("0123456789D-e.%,+ ?"[i] for i in ids).rstrip()


def test_digits_are_spelled_the_shortest_way(rng):
    texts = "0 7 -7 1200 0.5 -0.00125 0.000001 123456.75 999999999999999 -0 3.14159265".split()
    scientific = {"1e15": "1e15", "0.0000001": "1e-7", "-1.25e300": "-1.25e300", "6.02e-123": "6.02e-123"}
    values = [Decimal(text) for text in (*texts, *scientific)]
    numerals = to_numeral(values, 20)
    found = characters.spell(numerals, 24)
    assert [text_of(row) for row in found] == [*texts, *scientific.values()]
    on_device = jax.jit(lambda n: characters.spell(n, 24))(numerals)
    np.testing.assert_array_equal(on_device, found)
    some = drawn.decimals(rng, 200, -20, 25)
    spelled = characters.spell(to_numeral(some, 20), 32)
    assert all(Decimal(text_of(row)) == v for row, v in zip(spelled, some, strict=True))
    np.testing.assert_array_equal(characters.spell(numerals, 5), found[:, :5])


def test_surfaces_are_read_as_they_are_written():
    found = characters.encode_surfaces(["-1,234.5%", "+007", "", "½$", "1E5"], 9)
    assert [text_of(row) for row in found] == ["-1,234.5%", "+007", "", "??", "1e5"]
    assert (found[2] == PAD).all() and found.dtype == np.int8
    assert text_of(characters.encode_surfaces(["123456"], 4)[0]) == "1234"


def make(module, surfaces, params=None, seed=0):
    numerals = to_numeral([Decimal(1)] * len(surfaces), 20)
    features = module.host_features(numerals, surfaces)
    params = params or drawn.draw(module, np.random.default_rng(seed), numerals, features, scale=0.5)
    return np.asarray(jax.jit(module.apply)({"params": params}, numerals, features)), params


SMALL_FORMER = char_former.Embed(dim=8, hidden=8, layers=2, mlp_width=16)


@pytest.mark.parametrize(
    "module",
    [
        char_lstm.Embed(dim=8, hidden=6, layers=2),
        char_cnn.Embed(dim=8, filters=5),
        SMALL_FORMER,
        SMALL_FORMER.clone(pool="average"),
    ],
)
def test_neither_padding_nor_neighbours_change_a_vector(module):
    surfaces = ["7", "1,234,567.89", "-12%", "10", "01"]
    whole, params = make(module, surfaces)
    shorter, _ = make(module.clone(length=12), surfaces, params)
    np.testing.assert_allclose(shorter, whole, rtol=1e-5, atol=1e-5)
    alone, _ = make(module.clone(length=1), ["7"], params)
    np.testing.assert_allclose(alone[0], whole[0], rtol=1e-5, atol=1e-5)
    assert np.abs(whole[3] - whole[4]).max() > 1e-3, "the order of characters counts"


SHORT = [
    char_lstm.Embed(dim=8, hidden=6, layers=2, length=12),
    SMALL_FORMER.clone(length=12),
    SMALL_FORMER.clone(length=12, pool="average"),
]


@pytest.mark.parametrize("module", SHORT)
@pytest.mark.parametrize("many", [1, 2, 7])
def test_strings_that_are_read_no_further_than_they_are_long_keep_their_vectors_and_gradients(module, many, rng):
    """Of two rows of eight, `many` of each have more than four characters: two are read to the end, or all are."""
    surfaces = []
    for _ in range(2):
        long = [str(n) for n in rng.integers(10**5, 10**9, many)]
        surfaces += rng.permutation(long + [str(n) for n in rng.integers(0, 10**4, 8 - many)]).tolist()
    numerals = to_numeral([Decimal(1)] * 16, 20)
    flat = module.host_features(numerals, surfaces)
    features = {name: ids.reshape(2, 8, -1) for name, ids in flat.items()}
    numerals = jax.tree.map(lambda x: x.reshape(2, 8, *x.shape[1:]), numerals)
    params = drawn.draw(module, rng, numerals, features, scale=0.5)
    wanted = rng.normal(size=(2, 8, 8))

    def loss(params, module):
        return (module.apply({"params": params}, numerals, features) * wanted).sum()

    short = module.clone(short=4)
    found = [jax.jit(lambda p, m=m: m.apply({"params": p}, numerals, features))(params) for m in (module, short)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    grads = [jax.jit(jax.grad(lambda p, m=m: loss(p, m)))(params) for m in (module, short)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), *grads)


@pytest.mark.parametrize("module", SHORT)
def test_one_number_alone_has_the_vector_that_it_has_among_others(module):
    surfaces = ["7", "123456", "12", "-3.5"]
    whole, params = make(module.clone(short=4), surfaces)
    numeral = jax.tree.map(lambda x: x[1], to_numeral([Decimal(1)] * 4, 20))
    features = {"characters": module.host_features(to_numeral([Decimal(1)] * 4, 20), surfaces)["characters"][1]}
    found = module.clone(short=4).apply({"params": params}, numeral, features)
    np.testing.assert_allclose(found, whole[1], rtol=1e-5, atol=1e-5)


def sharded() -> None:
    """A row of eight strings a device: the vectors and the gradient, against those of one device, where a row has one
    long string and where one row has more than its quarter."""
    jax.config.update("jax_num_cpu_devices", 4)
    rng, module = np.random.default_rng(0), SHORT[0].clone(short=4)
    surfaces = [str(n) for n in rng.integers(0, 10**4, 32)]
    surfaces[::8] = [str(n) for n in rng.integers(10**5, 10**9, 4)]
    uneven = [*surfaces[:8], *(str(n) for n in rng.integers(10**5, 10**9, 5)), *surfaces[13:]]
    numerals = to_numeral([Decimal(1)] * 32, 20)
    even, ids = (module.host_features(numerals, some)["characters"].reshape(4, 8, -1) for some in (surfaces, uneven))
    params = drawn.draw(module, rng, numerals, {"characters": ids}, scale=0.5)

    def run(params, ids):
        def embed(params):
            found = module.apply({"params": params}, numerals, {"characters": ids})
            return (found**2).sum(), found

        return jax.grad(embed, has_aux=True)(params)

    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["rows"], []))
    spread = jax.jit(run, in_shardings=(whole, split), out_shardings=(whole, split)).lower(params, ids).compile()
    apart = []
    for given in (even, ids):
        pairs = zip(jax.tree.leaves(jax.jit(run)(params, given)), jax.tree.leaves(spread(params, given)), strict=True)
        apart += [float(np.abs(np.asarray(one) - np.asarray(other)).max()) for one, other in pairs]
    text = spread.as_text()
    print(json.dumps({"apart": max(apart), "moved": [w for w in ("all-gather", "all-to-all") if w in text]}))


def test_rows_of_strings_are_sorted_where_they_lie():
    command = [sys.executable, "-c", "from tests.number_encoders_test import sharded; sharded()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["apart"] < 1e-4 and not found["moved"]


def test_fewer_characters_are_read_where_most_strings_are_short():
    module = char_lstm.Embed(dim=8, hidden=6, layers=2, length=32)
    ids = np.zeros((1, 64, 32), np.int8)
    numerals = jax.tree.map(lambda x: x[None], to_numeral([Decimal(1)] * 64, 20))
    params = jax.eval_shape(module.init, jax.random.key(0), numerals, {"characters": ids})

    def products(short):
        some = module.clone(short=short)
        jaxpr = jax.make_jaxpr(lambda p: some.apply(p, numerals, {"characters": ids}))(params).jaxpr
        branches = [eqn.params["branches"] for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]
        parts = [[flops.count(branch) for branch in found] for found in branches]
        return flops.count(jaxpr), flops.count(jaxpr, min), parts

    (whole, same, none), (most, least, [[long, brief]]) = products(0), products(8)
    assert none == [] and same == whole
    assert most == pytest.approx(whole, rel=0.01) and brief == pytest.approx(long / 4, rel=0.01)
    assert least == pytest.approx(whole * (1 / 4 + 3 / 4 / 4), rel=0.02)


def test_dropout_is_another_in_every_place_of_the_short_reading(rng):
    module = SMALL_FORMER.clone(length=12, short=4, dropout=0.5)
    surfaces = ["7"] * 8
    numerals = to_numeral([Decimal(1)] * 8, 20)
    features = module.host_features(numerals, surfaces)
    params = {"params": drawn.draw(module, rng, numerals, features, scale=0.5)}
    found = jax.jit(module.apply)(params, numerals, features, rngs={"dropout": jax.random.key(0)})
    assert len(np.unique(np.asarray(found)[:, 0])) == 8
    again = jax.jit(module.apply)(params, numerals, features, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_array_equal(again, found)


def test_the_convolution_is_a_loop_over_windows(rng):
    module = char_cnn.Embed(dim=9, filters=3, sizes=(2, 3, 5), char_dim=4, project=False)
    surfaces = ["7", "12", "-1.5", "1234567"]
    numerals = to_numeral([Decimal(1)] * 4, 20)
    params = drawn.draw(module, rng, numerals, module.host_features(numerals, surfaces), scale=1.0)
    found, _ = make(module, surfaces, params)
    for surface, vector in zip(surfaces, found, strict=True):
        x = np.stack([params["characters"]["0123456789D-e.%,+".index(c)] for c in surface])
        wanted = []
        for size in module.sizes:
            padded = np.pad(x, ((0, max(0, size - len(x))), (0, 0)))
            windows = [padded[i : i + size] for i in range(len(padded) - size + 1)]
            kernel, bias = params[f"size_{size}_kernel"], params[f"size_{size}_bias"]
            values = [np.einsum("sd,sdf->f", window, kernel) + bias for window in windows]
            wanted.append(np.maximum(np.max(values, axis=0), 0))
        np.testing.assert_allclose(vector, np.concatenate(wanted), rtol=1e-4, atol=1e-5)


def strings(folder) -> list[str]:
    return json.loads((folder / "numbed_strings.json").read_text())


def bidirectional(theirs, layers: int) -> dict[str, np.ndarray]:
    """PyTorch's LSTM: two biases that are added, gates before inputs."""
    params = {}
    for layer in range(layers):
        for way, suffix in (("forward", ""), ("backward", "_reverse")):
            of = f"l{layer}{suffix}"
            params[f"layer_{layer}_{way}_input_kernel"] = theirs[f"lstm.weight_ih_{of}"].T
            params[f"layer_{layer}_{way}_recurrent_kernel"] = theirs[f"lstm.weight_hh_{of}"].T
            params[f"layer_{layer}_{way}_bias"] = theirs[f"lstm.bias_ih_{of}"] + theirs[f"lstm.bias_hh_{of}"]
    return params


def embedded(theirs) -> dict[str, np.ndarray]:
    return {
        "characters": theirs["embedding.weight"], "kernel": theirs["proj.weight"].T, "bias": theirs["proj.bias"],
    }  # fmt: skip


def check_shapes(module, params) -> None:
    wanted = jax.eval_shape(module.init, jax.random.key(0), to_numeral([Decimal(1)], 20))["params"]
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, wanted)


def test_the_lstm_gives_what_lunas_code_gives(real_data):
    """Hidden 32, three layers, the mean of all final states, projected to 64: their numbers, string by string."""
    folder = real_data("luna_reference")
    theirs = np.load(folder / "charlstm_h32_weights.npz")
    params = embedded(theirs) | bidirectional(theirs, 3)
    module = char_lstm.Embed(dim=64, parameters="0.1M")
    check_shapes(module, params)
    found, _ = make(module, strings(folder), params)
    np.testing.assert_allclose(found, np.load(folder / "charlstm_h32_outputs.npz")["single"], atol=1e-5)


@pytest.mark.parametrize("pool", char_former.POOLS)
def test_the_transformer_gives_what_lunas_code_gives(pool, real_data):
    """Without padding each string's vector; with `padded` that of all strings in one call, padded to 21."""
    folder = real_data("luna_reference")
    theirs = np.load(folder / "charformer_h8_weights.npz")
    params = embedded(theirs) | {"places": theirs["digit_embedding.weight"]}
    if pool == "lstm":
        params |= bidirectional(theirs, 3)
    for layer in range(3):
        of, block = f"encoder.layers.{layer}", f"block_{layer}"
        params |= {
            f"{block}_qkv_kernel": theirs[f"{of}.self_attn.in_proj_weight"].T.reshape(8, 3, 4, 2),
            f"{block}_qkv_bias": theirs[f"{of}.self_attn.in_proj_bias"].reshape(3, 4, 2),
        }
        names = {"out": "self_attn.out_proj", "up": "linear1", "down": "linear2"}
        for ours, name in names.items():
            params[f"{block}_{ours}_kernel"] = theirs[f"{of}.{name}.weight"].T
            params[f"{block}_{ours}_bias"] = theirs[f"{of}.{name}.bias"]
        for norm in (1, 2):
            params[f"{block}_ln_{norm}_scale"] = theirs[f"{of}.norm{norm}.weight"]
            params[f"{block}_ln_{norm}_bias"] = theirs[f"{of}.norm{norm}.bias"]
    module = char_former.Embed(dim=64, parameters="0.1M", pool=pool)
    check_shapes(module, params)
    wanted = np.load(folder / f"charformer_h8{'_avg' * (pool == 'average')}_outputs.npz")
    surfaces = strings(folder)
    found, _ = make(module, surfaces, params)
    np.testing.assert_allclose(found, wanted["single"], atol=1e-5)
    together, _ = make(module.clone(padded=True, length=max(map(len, surfaces))), surfaces, params)
    np.testing.assert_allclose(together, wanted["batched"], atol=1e-5)
    assert np.abs(wanted["batched"] - wanted["single"]).max() > 0.1


def test_characters_and_places_are_lunas(real_data):
    folder = real_data("luna_reference")
    wanted, surfaces = np.load(folder / "numbed_inputs.npz"), strings(folder)
    ids = characters.encode_surfaces(surfaces, wanted["char_ids"].shape[1])
    np.testing.assert_array_equal(ids, np.where(wanted["char_ids"] < 0, PAD, wanted["char_ids"]))
    found = jax.jit(char_former.places)(ids)
    np.testing.assert_array_equal(found, np.maximum(wanted["digit_map"], 0))


def test_places_count_from_the_point():
    surfaces = ["-1,234.50%", "7", "12345678901234.123456789012", ".5", "1.5e-12"]
    found = np.asarray(char_former.places(characters.encode_surfaces(surfaces, 28)))
    assert found[0, :10].tolist() == [0, 4, 0, 3, 2, 1, 0, 11, 12, 0] and not found[0, 10:].any()
    assert found[1, 0] == 1 and found[3, :2].tolist() == [0, 11] and found[4, :7].tolist() == [1, 0, 11, 0, 0, 2, 1]
    assert found[2, :15].tolist() == [10, 10, 10, 10, *range(10, 0, -1), 0] and found[2, 24:27].tolist() == [20] * 3


@pytest.mark.parametrize("module", [char_lstm.Embed(dim=8, hidden=6), SMALL_FORMER])
def test_a_vector_is_the_same_from_the_surface_and_from_the_digits(module, rng):
    values = [Decimal(0), *drawn.decimals(rng, 30, -6, 14)]
    surfaces = [f"{value.normalize():f}" for value in values]
    numerals = to_numeral(values, 20)
    written, params = make(module, surfaces)
    np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, numerals), written, atol=1e-5)


def test_dropout_falls_only_while_training():
    module = SMALL_FORMER.clone(dropout=0.5)
    numerals = to_numeral([Decimal(5)] * 2, 20)
    params = {"params": drawn.draw(module, np.random.default_rng(0), numerals)}
    apply = jax.jit(module.apply)
    still = np.asarray(apply(params, numerals))
    drawn_twice = [np.asarray(apply(params, numerals, rngs={"dropout": jax.random.key(k)})) for k in (0, 1)]
    np.testing.assert_allclose(still[0], still[1], atol=1e-6)
    assert np.abs(drawn_twice[0] - drawn_twice[1]).max() > 0.05 and np.abs(drawn_twice[0] - still).max() > 0.05


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        (char_lstm, {"0.1M": 92_256, "base": 364_672, "1M": 1_153_152, "9M": 9_178_352}),
        (char_former, {"0.1M": 116_952, "base": 505_440, "1M": 1_159_616, "9M": 8_858_496}),
    ],
)
def test_the_named_sizes(module, counts):
    """Before an encoder of BERT base's width; that they are LUNA's, but for a bias of its LSTMs, is tested below."""
    one = to_numeral([Decimal(1)], 20)
    for size, count in counts.items():
        made = module.Embed(dim=768, parameters=size)
        shapes = jax.eval_shape(made.init, jax.random.key(0), one, made.host_features(one, ["1"]))
        assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count, size


def test_the_named_sizes_are_lunas(real_data):
    """PyTorch's LSTM has a second bias where ours has one; else the counts are equal."""
    counts = json.loads((real_data("luna_reference") / "parameter_counts.json").read_text())
    encoders = {"CharLSTM": char_lstm, "TransPos": char_former}
    named = {"100K": "0.1M", "1M": "1M", "9M": "9M"}
    seen, one = 0, to_numeral([Decimal(1)], 20)
    for name, models in counts.items():
        for of in models.values():
            if of["backbone"] not in encoders or name == "TransPosAvg":
                continue
            size = named.get((re.findall("100K|1M|9M", name) or ["base"])[0], "base")
            module = encoders[of["backbone"]].Embed(dim=of["out_emb_size"], parameters=size)
            shapes = jax.eval_shape(module.init, jax.random.key(0), one, module.host_features(one, ["1"]))
            ours = sum(leaf.size for leaf in jax.tree.leaves(shapes))
            assert ours + 2 * of["layers"] * 4 * of["hidden_size"] == of["parameters"], (name, size)
            seen += 1
    assert seen == 19


@pytest.mark.parametrize("of", dice_linear.RANGES)
def test_dice_before_a_linear_layer_is_lunas(of, real_data):
    theirs = np.load(real_data("luna_reference") / "dice_embedding.npz")
    module = dice_linear.Embed(dim=64, of=of, as_published=True)
    numerals = to_numeral([Decimal(repr(float(v))) for v in theirs["value"]], 20)
    # Their rotation is drawn otherwise: turned into ours by the kernel.
    turn = dice_linear.dice.rotation(10, 10, 0)
    kernel = turn @ theirs[f"{of[:3]}_Q"].T.astype(np.float64) @ theirs[f"{of[:3]}_proj_weight"].T
    params = {"kernel": np.float32(kernel), "bias": theirs[f"{of[:3]}_proj_bias"]}
    apply = jax.jit(module.apply)
    for features in (None, module.host_features(numerals)):
        found = apply({"params": params}, numerals, features)
        np.testing.assert_allclose(found, theirs[f"{of[:3]}_output"], atol=1e-5)


def test_mended_dice_tells_signs_and_small_numbers_apart():
    values = [Decimal(text) for text in ("0.02", "0.5", "1.5", "2", "3000", "1e20")]
    numerals, negative = to_numeral(values, 20), to_numeral([-v for v in values], 20)
    theta = dice_linear.angle(numerals, "log", False)
    assert (np.diff(theta) > 0).all() and theta.min() >= 0 and theta.max() <= np.pi
    np.testing.assert_allclose(dice_linear.angle(negative, "log", False), -theta)
    linear = dice_linear.angle(to_numeral([Decimal(v) for v in (-(10**6), -(10**5), 0, 10**5)], 20), "value", False)
    np.testing.assert_allclose(linear, [0, 0, np.pi / 2, np.pi])
    points = dice_linear.Embed().host_features(numerals)["points"]
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-6)


def test_the_last_states_of_wallace(rng):
    module = char_lstm.Embed(dim=10, hidden=5, char_dim=3, pool="last", project=False)
    found, params = make(module, ["123", "9"])
    assert set(params) == {
        "characters",
        *(f"layer_0_{w}_{p}" for w in ("forward", "backward") for p in lstm.shapes(3, 5)),
    }
    ids = characters.encode_surfaces(["123"], 3)
    x = np.asarray(params["characters"])[ids]
    for at, way in enumerate(("forward", "backward")):
        weights = lstm.LstmWeights(*(params[f"layer_0_{way}_{p}"] for p in lstm.shapes(3, 5)))
        _, last = lstm.lstm(x, weights, reverse=bool(at))
        np.testing.assert_allclose(found[0, 5 * at : 5 * at + 5], last.hidden[0], atol=1e-6)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (char_lstm.Embed(dim=7, hidden=5, project=False), "dim must be 5, not 7"),
        (char_lstm.Embed(pool="first"), "pool must be one of mean, last"),
        (char_cnn.Embed(dim=7, filters=5, project=False), "dim must be 20, not 7"),
        (char_lstm.Embed(parameters="2M"), "parameters must be one of 0.1M, base, 1M, 9M, not '2M'"),
        (char_former.Embed(pool="last"), "pool must be one of lstm, average"),
        (char_former.Embed(hidden=6), "hidden=6 does not divide over heads=4"),
        (dice_linear.Embed(of="sqrt"), "of must be one of log, value"),
    ],
)
def test_sizes_that_do_not_fit_are_named(module, says):
    with pytest.raises(UsageError, match=says):
        jax.eval_shape(module.init, jax.random.key(0), to_numeral([Decimal(1)], 20))


def test_the_value_is_the_number():
    texts = ["0", "-0", "-12.5", "9999", "1e300", "-1e-300"]
    numerals = to_numeral([Decimal(text) for text in texts], 20)
    found = value.Embed(scale=2.0).host_vectors(numerals)
    assert found.dtype == np.float64 and found[:, 0].tolist() == [0, 0, -6.25, 4999.5, 1e30, -5e-301]
    wide = value.Embed(dim=3).apply({}, numerals)
    assert wide.shape == (6, 3) and not np.any(wide[:, 1:]) and float(wide[3, 0]) == 9999


def test_random_vectors_say_only_which_number_it_is(rng):
    module = random.Embed(dim=40, seed=3)
    numerals = to_numeral([Decimal(n) for n in range(2000)], 20)
    found = module.host_features(numerals)["vector"]
    np.testing.assert_array_equal(module.host_features(to_numeral([Decimal("7.0")], 20))["vector"][0], found[7])
    np.testing.assert_allclose(jax.jit(lambda n: module.apply({}, n))(numerals), found, atol=1e-5)
    assert np.abs(random.Embed(dim=40, seed=4).host_features(numerals)["vector"] - found).max() > 0.1
    assert found.mean() == pytest.approx(0, abs=4 / np.sqrt(40 * found.size))
    assert found.std() == pytest.approx(40**-0.5, rel=0.02)
    kurtosis = np.mean((found / found.std()) ** 4)
    assert kurtosis == pytest.approx(3, abs=0.1), "Gaussian"
    # Independent: no pair of numbers or of components goes together.
    between = np.corrcoef(found)[np.triu_indices(2000, 1)]
    assert np.abs(between).max() < 6 / np.sqrt(40) and between.std() == pytest.approx(40**-0.5, rel=0.05)
    assert np.abs(np.corrcoef(found.T)[np.triu_indices(40, 1)]).max() < 5 / np.sqrt(2000)
    steps = np.abs(np.corrcoef(np.concatenate([found[:-1], found[1:]], axis=1).T)[:40, 40:])
    assert steps.max() < 5 / np.sqrt(2000), "nor do neighbours"


def test_the_longest_quarter_is_read_to_the_end_and_the_rest_as_far_as_it_goes(rng):
    """Widths that are read, whatever the order of the strings; one string too many, and all are read to the end."""

    def widths(long: int) -> set[int]:
        ids = np.full((16, 12), PAD)
        for row, size in enumerate(rng.permutation([12] * long + [3] * (16 - long))):
            ids[row, :size] = 1
        seen = []

        def encode(part):
            jax.debug.callback(lambda _: seen.append(part.shape), part[0, 0])
            return (part != PAD).sum(axis=-1, keepdims=True)

        found = by_length.encode_by_length(encode, jax.numpy.asarray(ids), PAD, 4)
        jax.effects_barrier()
        np.testing.assert_array_equal(found[:, 0], (ids != PAD).sum(axis=-1))
        return set(seen)

    assert widths(4) == widths(0) == {(4, 12), (12, 4)}
    assert widths(5) == {(4, 12), (12, 12)}


def test_a_reading_with_its_padding_is_of_all_characters(rng):
    """As published, where `short` would leave padding out."""
    surfaces = [str(n) for n in rng.integers(0, 999, 16)]
    whole, params = make(SMALL_FORMER.clone(padded=True, length=12), surfaces)
    short, _ = make(SMALL_FORMER.clone(padded=True, length=12, short=4), surfaces, params)
    np.testing.assert_array_equal(short, whole)
