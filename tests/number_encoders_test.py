"""Embeddings of a numeral's characters, its value, and random ones, against loops and published numbers."""

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


def decode_text(ids) -> str:
    return "".join("0123456789D-e.%,+ ?"[i] for i in ids).rstrip()


def test_digits_are_spelled_the_shortest_way(rng):
    texts = "0 7 -7 1200 0.5 -0.00125 0.000001 123456.75 999999999999999 -0 3.14159265".split()
    scientific = {"1e15": "1e15", "0.0000001": "1e-7", "-1.25e300": "-1.25e300", "6.02e-123": "6.02e-123"}
    values = [Decimal(text) for text in (*texts, *scientific)]
    numerals = to_numeral(values, 20)
    ids = characters.spell(numerals, 24)
    assert [decode_text(row) for row in ids] == [*texts, *scientific.values()]
    device_ids = jax.jit(lambda n: characters.spell(n, 24))(numerals)
    np.testing.assert_array_equal(device_ids, ids)
    random_values = drawn.draw_decimals(rng, 200, -20, 25)
    random_ids = characters.spell(to_numeral(random_values, 20), 32)
    assert all(Decimal(decode_text(row)) == v for row, v in zip(random_ids, random_values, strict=True))
    np.testing.assert_array_equal(characters.spell(numerals, 5), ids[:, :5])


def test_surfaces_are_encoded_character_by_character():
    ids = characters.encode_surfaces(["-1,234.5%", "+007", "", "½$", "1E5"], 9)
    assert [decode_text(row) for row in ids] == ["-1,234.5%", "+007", "", "??", "1e5"]
    assert (ids[2] == PAD).all() and ids.dtype == np.int8
    assert decode_text(characters.encode_surfaces(["123456"], 4)[0]) == "1234"


def embed_surfaces(module, surfaces, params=None, seed=0):
    numerals = to_numeral([Decimal(1)] * len(surfaces), 20)
    features = module.host_features(numerals, surfaces)
    params = params or drawn.draw_params(module, np.random.default_rng(seed), numerals, features, scale=0.5)
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
    vectors, params = embed_surfaces(module, surfaces)
    shorter_vectors, _ = embed_surfaces(module.clone(length=12), surfaces, params)
    np.testing.assert_allclose(shorter_vectors, vectors, rtol=1e-5, atol=1e-5)
    single_vector, _ = embed_surfaces(module.clone(length=1), ["7"], params)
    np.testing.assert_allclose(single_vector[0], vectors[0], rtol=1e-5, atol=1e-5)
    assert np.abs(vectors[3] - vectors[4]).max() > 1e-3, "the order of characters counts"


MODULES = [
    char_lstm.Embed(dim=8, hidden=6, layers=2, length=12),
    SMALL_FORMER.clone(length=12),
    SMALL_FORMER.clone(length=12, pool="average"),
]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("n_long", [1, 2, 7])
def test_short_encoding_keeps_vectors_and_gradients(module, n_long, rng):
    """Each of two rows has eight strings, `n_long` of more than four characters: two or all have full length."""
    surfaces = []
    for _ in range(2):
        texts = [str(n) for n in rng.integers(10**5, 10**9, n_long)]
        surfaces += rng.permutation(texts + [str(n) for n in rng.integers(0, 10**4, 8 - n_long)]).tolist()
    numerals = to_numeral([Decimal(1)] * 16, 20)
    flat = module.host_features(numerals, surfaces)
    features = {name: ids.reshape(2, 8, -1) for name, ids in flat.items()}
    numerals = jax.tree.map(lambda x: x.reshape(2, 8, *x.shape[1:]), numerals)
    params = drawn.draw_params(module, rng, numerals, features, scale=0.5)
    weights = rng.normal(size=(2, 8, 8))

    def loss(params, module):
        return (module.apply({"params": params}, numerals, features) * weights).sum()

    short = module.clone(short=4)
    vectors = [jax.jit(lambda p, m=m: m.apply({"params": p}, numerals, features))(params) for m in (module, short)]
    np.testing.assert_allclose(vectors[1], vectors[0], rtol=1e-5, atol=1e-5)
    grads = [jax.jit(jax.grad(lambda p, m=m: loss(p, m)))(params) for m in (module, short)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), *grads)


@pytest.mark.parametrize("module", MODULES)
def test_one_number_alone_has_the_vector_that_it_has_among_others(module):
    surfaces = ["7", "123456", "12", "-3.5"]
    vectors, params = embed_surfaces(module.clone(short=4), surfaces)
    numeral = jax.tree.map(lambda x: x[1], to_numeral([Decimal(1)] * 4, 20))
    features = {"characters": module.host_features(to_numeral([Decimal(1)] * 4, 20), surfaces)["characters"][1]}
    vector = module.clone(short=4).apply({"params": params}, numeral, features)
    np.testing.assert_allclose(vector, vectors[1], rtol=1e-5, atol=1e-5)


def compare_shardings() -> None:
    """Prints how far vectors and gradient on four devices, a row of eight strings each, are from those of one device.

    In one batch each row has one long string; in the other, one row has more than its quarter.
    """
    jax.config.update("jax_num_cpu_devices", 4)
    rng, module = np.random.default_rng(0), MODULES[0].clone(short=4)
    surfaces = [str(n) for n in rng.integers(0, 10**4, 32)]
    surfaces[::8] = [str(n) for n in rng.integers(10**5, 10**9, 4)]
    uneven = [*surfaces[:8], *(str(n) for n in rng.integers(10**5, 10**9, 5)), *surfaces[13:]]
    numerals = to_numeral([Decimal(1)] * 32, 20)
    even, ids = (module.host_features(numerals, some)["characters"].reshape(4, 8, -1) for some in (surfaces, uneven))
    params = drawn.draw_params(module, rng, numerals, {"characters": ids}, scale=0.5)

    def run(params, ids):
        def embed(params):
            vectors = module.apply({"params": params}, numerals, {"characters": ids})
            return (vectors**2).sum(), vectors

        return jax.grad(embed, has_aux=True)(params)

    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    by_row, replicated = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["rows"], [])
    )
    sharded_run = (
        jax.jit(run, in_shardings=(replicated, by_row), out_shardings=(replicated, by_row))
        .lower(params, ids)
        .compile()
    )
    differences = []
    for batch in (even, ids):
        pairs = zip(
            jax.tree.leaves(jax.jit(run)(params, batch)),
            jax.tree.leaves(sharded_run(params, batch)),
            strict=True,
        )
        differences += [float(np.abs(np.asarray(single) - np.asarray(shared)).max()) for single, shared in pairs]
    text = sharded_run.as_text()
    print(
        json.dumps(
            {"difference": max(differences), "transfers": [w for w in ("all-gather", "all-to-all") if w in text]}
        )
    )


def test_rows_of_strings_are_sorted_on_their_own_device():
    command = [sys.executable, "-c", "from tests.number_encoders_test import compare_shardings; compare_shardings()"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    result = json.loads(process.stdout.splitlines()[-1])
    assert result["difference"] < 1e-4 and not result["transfers"]


def test_short_encoding_takes_fewer_flops():
    module = char_lstm.Embed(dim=8, hidden=6, layers=2, length=32)
    ids = np.zeros((1, 64, 32), np.int8)
    numerals = jax.tree.map(lambda x: x[None], to_numeral([Decimal(1)] * 64, 20))
    params = jax.eval_shape(module.init, jax.random.key(0), numerals, {"characters": ids})

    def count_products(short):
        encoder = module.clone(short=short)
        jaxpr = jax.make_jaxpr(lambda p: encoder.apply(p, numerals, {"characters": ids}))(params).jaxpr
        branches = [eqn.params["branches"] for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]
        parts = [[flops.count(branch) for branch in choices] for choices in branches]
        return flops.count(jaxpr), flops.count(jaxpr, min), parts

    (full, full_least, full_branches), (most, least, [[long, brief]]) = count_products(0), count_products(8)
    assert full_branches == [] and full_least == full
    assert most == pytest.approx(full, rel=0.01) and brief == pytest.approx(long / 4, rel=0.01)
    assert least == pytest.approx(full * (1 / 4 + 3 / 4 / 4), rel=0.02)


def test_dropout_differs_between_equal_short_strings(rng):
    module = SMALL_FORMER.clone(length=12, short=4, dropout=0.5)
    surfaces = ["7"] * 8
    numerals = to_numeral([Decimal(1)] * 8, 20)
    features = module.host_features(numerals, surfaces)
    params = {"params": drawn.draw_params(module, rng, numerals, features, scale=0.5)}
    vectors = jax.jit(module.apply)(params, numerals, features, rngs={"dropout": jax.random.key(0)})
    assert len(np.unique(np.asarray(vectors)[:, 0])) == 8
    same_vectors = jax.jit(module.apply)(params, numerals, features, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_array_equal(same_vectors, vectors)


def test_the_convolution_equals_a_loop_over_windows(rng):
    module = char_cnn.Embed(dim=9, filters=3, sizes=(2, 3, 5), char_dim=4, project=False)
    surfaces = ["7", "12", "-1.5", "1234567"]
    numerals = to_numeral([Decimal(1)] * 4, 20)
    params = drawn.draw_params(module, rng, numerals, module.host_features(numerals, surfaces), scale=1.0)
    vectors, _ = embed_surfaces(module, surfaces, params)
    for surface, vector in zip(surfaces, vectors, strict=True):
        x = np.stack([params["characters"]["0123456789D-e.%,+".index(c)] for c in surface])
        expected = []
        for size in module.sizes:
            padded = np.pad(x, ((0, max(0, size - len(x))), (0, 0)))
            windows = [padded[i : i + size] for i in range(len(padded) - size + 1)]
            kernel, bias = params[f"size_{size}_kernel"], params[f"size_{size}_bias"]
            values = [np.einsum("sd,sdf->f", window, kernel) + bias for window in windows]
            expected.append(np.maximum(np.max(values, axis=0), 0))
        np.testing.assert_allclose(vector, np.concatenate(expected), rtol=1e-4, atol=1e-5)


def load_strings(folder) -> list[str]:
    return json.loads((folder / "numbed_strings.json").read_text())


def bidirectional(theirs, layers: int) -> dict[str, np.ndarray]:
    """Returns the parameters of PyTorch's LSTM: the sum of its two biases, and kernels transposed."""
    params = {}
    for layer in range(layers):
        for direction, suffix in (("forward", ""), ("backward", "_reverse")):
            name = f"l{layer}{suffix}"
            params[f"layer_{layer}_{direction}_input_kernel"] = theirs[f"lstm.weight_ih_{name}"].T
            params[f"layer_{layer}_{direction}_recurrent_kernel"] = theirs[f"lstm.weight_hh_{name}"].T
            params[f"layer_{layer}_{direction}_bias"] = (
                theirs[f"lstm.bias_ih_{name}"] + theirs[f"lstm.bias_hh_{name}"]
            )
    return params


def embedded(theirs) -> dict[str, np.ndarray]:
    return {
        "characters": theirs["embedding.weight"], "kernel": theirs["proj.weight"].T, "bias": theirs["proj.bias"],
    }  # fmt: skip


def check_shapes(module, params) -> None:
    expected = jax.eval_shape(module.init, jax.random.key(0), to_numeral([Decimal(1)], 20))["params"]
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, expected)


def test_the_lstm_gives_the_vectors_of_lunas_code(real_data):
    """Hidden 32, three layers, the mean of all final states, projected to 64: the authors' vectors."""
    folder = real_data("luna_reference")
    theirs = np.load(folder / "charlstm_h32_weights.npz")
    params = embedded(theirs) | bidirectional(theirs, 3)
    module = char_lstm.Embed(dim=64, parameters="0.1M")
    check_shapes(module, params)
    vectors, _ = embed_surfaces(module, load_strings(folder), params)
    np.testing.assert_allclose(vectors, np.load(folder / "charlstm_h32_outputs.npz")["single"], atol=1e-5)


@pytest.mark.parametrize("pool", char_former.POOLS)
def test_the_transformer_gives_the_vectors_of_lunas_code(pool, real_data):
    """Without padding, one string a call; with `padded`, all strings in one call, padded to 21."""
    folder = real_data("luna_reference")
    theirs = np.load(folder / "charformer_h8_weights.npz")
    params = embedded(theirs) | {"places": theirs["digit_embedding.weight"]}
    if pool == "lstm":
        params |= bidirectional(theirs, 3)
    for layer in range(3):
        prefix, block = f"encoder.layers.{layer}", f"block_{layer}"
        params |= {
            f"{block}_qkv_kernel": theirs[f"{prefix}.self_attn.in_proj_weight"].T.reshape(8, 3, 4, 2),
            f"{block}_qkv_bias": theirs[f"{prefix}.self_attn.in_proj_bias"].reshape(3, 4, 2),
        }
        names = {"out": "self_attn.out_proj", "up": "linear1", "down": "linear2"}
        for ours, name in names.items():
            params[f"{block}_{ours}_kernel"] = theirs[f"{prefix}.{name}.weight"].T
            params[f"{block}_{ours}_bias"] = theirs[f"{prefix}.{name}.bias"]
        for norm in (1, 2):
            params[f"{block}_ln_{norm}_scale"] = theirs[f"{prefix}.norm{norm}.weight"]
            params[f"{block}_ln_{norm}_bias"] = theirs[f"{prefix}.norm{norm}.bias"]
    module = char_former.Embed(dim=64, parameters="0.1M", pool=pool)
    check_shapes(module, params)
    expected = np.load(folder / f"charformer_h8{'_avg' * (pool == 'average')}_outputs.npz")
    surfaces = load_strings(folder)
    vectors, _ = embed_surfaces(module, surfaces, params)
    np.testing.assert_allclose(vectors, expected["single"], atol=1e-5)
    batch_vectors, _ = embed_surfaces(module.clone(padded=True, length=max(map(len, surfaces))), surfaces, params)
    np.testing.assert_allclose(batch_vectors, expected["batched"], atol=1e-5)
    assert np.abs(expected["batched"] - expected["single"]).max() > 0.1


def test_characters_and_decimal_places_equal_lunas(real_data):
    folder = real_data("luna_reference")
    expected, surfaces = np.load(folder / "numbed_inputs.npz"), load_strings(folder)
    ids = characters.encode_surfaces(surfaces, expected["char_ids"].shape[1])
    np.testing.assert_array_equal(ids, np.where(expected["char_ids"] < 0, PAD, expected["char_ids"]))
    places = jax.jit(char_former.places)(ids)
    np.testing.assert_array_equal(places, np.maximum(expected["digit_map"], 0))


def test_decimal_places_count_from_the_point():
    surfaces = ["-1,234.50%", "7", "12345678901234.123456789012", ".5", "1.5e-12"]
    places = np.asarray(char_former.places(characters.encode_surfaces(surfaces, 28)))
    assert places[0, :10].tolist() == [0, 4, 0, 3, 2, 1, 0, 11, 12, 0] and not places[0, 10:].any()
    assert (
        places[1, 0] == 1 and places[3, :2].tolist() == [0, 11] and places[4, :7].tolist() == [1, 0, 11, 0, 0, 2, 1]
    )
    assert places[2, :15].tolist() == [10, 10, 10, 10, *range(10, 0, -1), 0] and places[2, 24:27].tolist() == [20] * 3


@pytest.mark.parametrize("module", [char_lstm.Embed(dim=8, hidden=6), SMALL_FORMER])
def test_a_vector_is_the_same_from_the_surface_and_from_the_digits(module, rng):
    values = [Decimal(0), *drawn.draw_decimals(rng, 30, -6, 14)]
    surfaces = [f"{value.normalize():f}" for value in values]
    numerals = to_numeral(values, 20)
    vectors, params = embed_surfaces(module, surfaces)
    np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, numerals), vectors, atol=1e-5)


def test_dropout_applies_only_in_training():
    module = SMALL_FORMER.clone(dropout=0.5)
    numerals = to_numeral([Decimal(5)] * 2, 20)
    params = {"params": drawn.draw_params(module, np.random.default_rng(0), numerals)}
    apply = jax.jit(module.apply)
    eval_vectors = np.asarray(apply(params, numerals))
    train_vectors = [np.asarray(apply(params, numerals, rngs={"dropout": jax.random.key(k)})) for k in (0, 1)]
    np.testing.assert_allclose(eval_vectors[0], eval_vectors[1], atol=1e-6)
    assert (
        np.abs(train_vectors[0] - train_vectors[1]).max() > 0.05
        and np.abs(train_vectors[0] - eval_vectors).max() > 0.05
    )


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        (char_lstm, {"0.1M": 92_256, "base": 364_672, "1M": 1_153_152, "9M": 9_178_352}),
        (char_former, {"0.1M": 116_952, "base": 505_440, "1M": 1_159_616, "9M": 8_858_496}),
    ],
)
def test_named_sizes_have_their_parameter_counts(module, counts):
    """Counts in front of an encoder of BERT base's width. The next test compares them with LUNA's."""
    numeral = to_numeral([Decimal(1)], 20)
    for size, count in counts.items():
        encoder = module.Embed(dim=768, parameters=size)
        shapes = jax.eval_shape(encoder.init, jax.random.key(0), numeral, encoder.host_features(numeral, ["1"]))
        assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count, size


def test_named_sizes_have_lunas_parameter_counts(real_data):
    """PyTorch's LSTM has two biases where ours has one; otherwise the counts are equal."""
    counts = json.loads((real_data("luna_reference") / "parameter_counts.json").read_text())
    encoders = {"CharLSTM": char_lstm, "TransPos": char_former}
    our_names = {"100K": "0.1M", "1M": "1M", "9M": "9M"}
    n_models, numeral = 0, to_numeral([Decimal(1)], 20)
    for name, models in counts.items():
        for settings in models.values():
            if settings["backbone"] not in encoders or name == "TransPosAvg":
                continue
            size = our_names.get((re.findall("100K|1M|9M", name) or ["base"])[0], "base")
            module = encoders[settings["backbone"]].Embed(dim=settings["out_emb_size"], parameters=size)
            shapes = jax.eval_shape(module.init, jax.random.key(0), numeral, module.host_features(numeral, ["1"]))
            count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
            assert count + 2 * settings["layers"] * 4 * settings["hidden_size"] == settings["parameters"], (
                name,
                size,
            )
            n_models += 1
    assert n_models == 19


@pytest.mark.parametrize("range_name", dice_linear.RANGES)
def test_dice_with_a_linear_layer_gives_lunas_vectors(range_name, real_data):
    theirs = np.load(real_data("luna_reference") / "dice_embedding.npz")
    module = dice_linear.Embed(dim=64, of=range_name, as_published=True)
    numerals = to_numeral([Decimal(repr(float(v))) for v in theirs["value"]], 20)
    # LUNA draws another rotation; the kernel turns it into ours.
    rotation = dice_linear.dice.rotation(10, 10, 0)
    kernel = rotation @ theirs[f"{range_name[:3]}_Q"].T.astype(np.float64) @ theirs[f"{range_name[:3]}_proj_weight"].T
    params = {"kernel": np.float32(kernel), "bias": theirs[f"{range_name[:3]}_proj_bias"]}
    apply = jax.jit(module.apply)
    for features in (None, module.host_features(numerals)):
        vectors = apply({"params": params}, numerals, features)
        np.testing.assert_allclose(vectors, theirs[f"{range_name[:3]}_output"], atol=1e-5)


def test_corrected_dice_separates_signs_and_small_numbers():
    values = [Decimal(text) for text in ("0.02", "0.5", "1.5", "2", "3000", "1e20")]
    numerals, negative = to_numeral(values, 20), to_numeral([-v for v in values], 20)
    theta = dice_linear.angle(numerals, "log", False)
    assert (np.diff(theta) > 0).all() and theta.min() >= 0 and theta.max() <= np.pi
    np.testing.assert_allclose(dice_linear.angle(negative, "log", False), -theta)
    linear = dice_linear.angle(to_numeral([Decimal(v) for v in (-(10**6), -(10**5), 0, 10**5)], 20), "value", False)
    np.testing.assert_allclose(linear, [0, 0, np.pi / 2, np.pi])
    points = dice_linear.Embed().host_features(numerals)["points"]
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-6)
    exact = dice_linear.dice.on_sphere(theta, 10) @ dice_linear.dice.rotation(10, 10, 0).T
    assert exact.dtype == np.float64
    np.testing.assert_array_equal(points, np.float32(exact), "computed in float64 and rounded once")


def test_pool_last_gives_the_last_states_of_wallace(rng):
    module = char_lstm.Embed(dim=10, hidden=5, char_dim=3, pool="last", project=False)
    vectors, params = embed_surfaces(module, ["123", "9"])
    assert set(params) == {
        "characters",
        *(f"layer_0_{w}_{p}" for w in ("forward", "backward") for p in lstm.shapes(3, 5)),
    }
    ids = characters.encode_surfaces(["123"], 3)
    x = np.asarray(params["characters"])[ids]
    for side, direction in enumerate(("forward", "backward")):
        weights = lstm.LstmWeights(*(params[f"layer_0_{direction}_{p}"] for p in lstm.shapes(3, 5)))
        _, last = lstm.lstm(x, weights, reverse=bool(side))
        np.testing.assert_allclose(vectors[0, 5 * side : 5 * side + 5], last.hidden[0], atol=1e-6)


@pytest.mark.parametrize(
    ("module", "message"),
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
def test_sizes_that_do_not_fit_are_refused(module, message):
    with pytest.raises(UsageError, match=message):
        jax.eval_shape(module.init, jax.random.key(0), to_numeral([Decimal(1)], 20))


def test_the_value_is_the_number():
    texts = ["0", "-0", "-12.5", "9999", "1e300", "-1e-300"]
    numerals = to_numeral([Decimal(text) for text in texts], 20)
    vectors = value.Embed(scale=2.0).host_vectors(numerals)
    assert vectors.dtype == np.float64 and vectors[:, 0].tolist() == [0, 0, -6.25, 4999.5, 1e30, -5e-301]
    wide = value.Embed(dim=3).apply({}, numerals)
    assert wide.shape == (6, 3) and not np.any(wide[:, 1:]) and float(wide[3, 0]) == 9999


def test_random_vectors_are_independent_gaussians(rng):
    module = random.Embed(dim=40, seed=3)
    numerals = to_numeral([Decimal(n) for n in range(2000)], 20)
    vectors = module.host_features(numerals)["vector"]
    np.testing.assert_array_equal(module.host_features(to_numeral([Decimal("7.0")], 20))["vector"][0], vectors[7])
    np.testing.assert_allclose(jax.jit(lambda n: module.apply({}, n))(numerals), vectors, atol=1e-5)
    assert np.abs(random.Embed(dim=40, seed=4).host_features(numerals)["vector"] - vectors).max() > 0.1
    assert vectors.mean() == pytest.approx(0, abs=4 / np.sqrt(40 * vectors.size))
    assert vectors.std() == pytest.approx(40**-0.5, rel=0.02)
    kurtosis = np.mean((vectors / vectors.std()) ** 4)
    assert kurtosis == pytest.approx(3, abs=0.1), "Gaussian"
    # Independent: no pair of numbers or of components is correlated.
    correlations = np.corrcoef(vectors)[np.triu_indices(2000, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(40) and correlations.std() == pytest.approx(40**-0.5, rel=0.05)
    assert np.abs(np.corrcoef(vectors.T)[np.triu_indices(40, 1)]).max() < 5 / np.sqrt(2000)
    steps = np.abs(np.corrcoef(np.concatenate([vectors[:-1], vectors[1:]], axis=1).T)[:40, 40:])
    assert steps.max() < 5 / np.sqrt(2000), "nor are neighbours"


def test_only_the_longest_quarter_is_encoded_at_full_length(rng):
    """The order of the strings does not matter. With one long string too many, all are encoded at full length."""

    def collect_shapes(n_long: int) -> set[int]:
        ids = np.full((16, 12), PAD)
        for row, size in enumerate(rng.permutation([12] * n_long + [3] * (16 - n_long))):
            ids[row, :size] = 1
        shapes = []

        def encode(part):
            jax.debug.callback(lambda _: shapes.append(part.shape), part[0, 0])
            return (part != PAD).sum(axis=-1, keepdims=True)

        counts = by_length.encode_by_length(encode, jax.numpy.asarray(ids), PAD, 4)
        jax.effects_barrier()
        np.testing.assert_array_equal(counts[:, 0], (ids != PAD).sum(axis=-1))
        return set(shapes)

    assert collect_shapes(4) == collect_shapes(0) == {(4, 12), (12, 4)}
    assert collect_shapes(5) == {(4, 12), (12, 12)}


def test_padded_encoding_keeps_all_characters(rng):
    """The published code pools over padding, so `short` changes nothing."""
    surfaces = [str(n) for n in rng.integers(0, 999, 16)]
    vectors, params = embed_surfaces(SMALL_FORMER.clone(padded=True, length=12), surfaces)
    short_vectors, _ = embed_surfaces(SMALL_FORMER.clone(padded=True, length=12, short=4), surfaces, params)
    np.testing.assert_array_equal(short_vectors, vectors)
