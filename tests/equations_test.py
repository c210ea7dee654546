"""Equations that else only published weights and data would test, against loops in float64 over random numbers."""

from __future__ import annotations

from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.embed import char_lstm, linked
from numjax.nn import characters
from numjax.numeral.exact import to_numeral
from numjax.positions import tree
from numjax.types import TREE_POSITIONS, Tokens
from tests import drawn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def last_hidden(x_TD, kernel, recurrent, bias):
    """(all hidden states[T, H], the last) of an LSTM over one string."""
    hidden = cell = np.zeros(len(recurrent))
    states = []
    for x in x_TD:
        i, f, g, o = np.split(x @ kernel + hidden @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.stack(states), hidden


def string_vector(surface: str, params, layers: int) -> np.ndarray:
    """LUNA's CharLSTM: the mean of the final states of both directions of all layers, projected."""
    x = params["characters"][["0123456789D-e.%,+".index(character) for character in surface]]
    finals = []
    for layer in range(layers):
        parts = [[params[f"layer_{layer}_{way}_{part}"] for part in ("input_kernel", "recurrent_kernel", "bias")]
                 for way in ("forward", "backward")]  # fmt: skip
        forward, last_forward = last_hidden(x, *parts[0])
        backward, last_backward = last_hidden(x[::-1], *parts[1])
        finals += [last_forward, last_backward]
        x = np.concatenate([forward, backward[::-1]], axis=1)
    return np.mean(finals, axis=0) @ params["kernel"] + params["bias"]


@pytest.mark.parametrize("layers", [1, 3])
def test_char_lstm_is_the_mean_of_all_final_states(rng, layers):
    module = char_lstm.Embed(dim=7, hidden=5, layers=layers, char_dim=3, length=9)
    surfaces = ["7", "12", "-1.5", "1,234.5%", "9e-7"]
    numerals = to_numeral([Decimal(1)] * len(surfaces), 20)
    features = module.host_features(numerals, surfaces)
    params = drawn.draw_params(module, rng, numerals, features, scale=1.0)
    vectors = jax.jit(module.apply)({"params": params}, numerals, features)
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}
    wanted = [string_vector(surface, exact, layers) for surface in surfaces]
    np.testing.assert_allclose(vectors, wanted, rtol=1e-4, atol=1e-5)


def test_every_character_of_numbers_has_an_id_of_its_own():
    ids = characters.encode_surfaces(["0123456789", "-e.%,+"], 10)
    used = ids[ids != characters.PAD].tolist()
    assert len(used) == len({*used}) == 16 and max(used) < characters.COUNT


@pytest.mark.parametrize(("levels", "bits"), [(1, 1), (2, 3), (3, 2), (4, 4)])
def test_tree_positions_are_sums_of_the_kernels_rows(rng, levels, bits):
    """Level by level, least bit first, a row for each bit that is 0 and another for each that is 1; −1 has none."""
    module = tree.Positions(drawn.build_backbone(drawn.DECODER), levels=levels, bits=bits, init_std=1.0)
    # Every index at every level, none, and indices whose higher bits are dropped.
    indices = rng.integers(-1, 2 ** (bits + 1), (2, 2 ** (bits + 2), levels)).astype(np.int32)
    zeros = np.zeros(indices.shape[:2], np.int32)
    tokens = Tokens(zeros, zeros, zeros + 1, channels={TREE_POSITIONS.name: indices})
    kernel = rng.standard_normal((2 * levels * bits, drawn.CONTEXT["width"])).astype(np.float32)
    for used in {levels, 1}:  # a batch without deep trees has fewer levels
        part = tokens._replace(channels={TREE_POSITIONS.name: indices[..., :used]})
        added = module.apply({"params": {"kernel": kernel}}, part, method="added")
        wanted = np.zeros(added.shape)
        for at in np.ndindex(*indices.shape[:2]):
            for level, index in enumerate(indices[at][:used]):
                for bit in range(bits) if index >= 0 else ():
                    wanted[at] += kernel[2 * (level * bits + bit) + (index // 2**bit) % 2].astype(np.float64)
        np.testing.assert_allclose(added, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spellings", [((1, 2, 5), (), (3,), (0, 0), ()), ((4,),), ((), (2, 3))])
def test_linked_symbols_are_shifted_means_of_their_spelling(rng, spellings):
    """m + tanh(m A) B of the text rows that spell a symbol; special symbols, spelled by none, have own rows."""
    first, dim, hidden = 6, 5, 3
    module = linked.Embed(dim=dim, vocab_size=16, symbols=(first, spellings), hidden=hidden)
    ids = np.arange(first + len(spellings) + 2, dtype=np.int32)[None]  # text, symbols, and ids beyond them
    tokens = Tokens(ids, ids, np.ones_like(ids))
    params = drawn.draw_params(module, rng, tokens, scale=1.0)
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}
    assert exact["special"].shape == (sum(not spelling for spelling in spellings), dim)
    wanted = exact["table"][ids[0]]
    special = iter(exact["special"])
    for symbol, spelling in enumerate(spellings):
        if spelling:
            mean = exact["table"][list(spelling)].mean(axis=0)
            wanted[first + symbol] = mean + np.tanh(mean @ exact["down"]) @ exact["up"]
        else:
            wanted[first + symbol] = next(special)
    np.testing.assert_allclose(module.apply({"params": params}, tokens)[0], wanted, rtol=1e-4, atol=1e-5)


def test_linked_options_that_are_left_out_have_the_documented_values():
    module = linked.Embed(dim=48, vocab_size=512, symbols=(300, ((1,), *[()] * 200)))
    shapes = module.init(jax.random.key(0), drawn.draw_tokens(np.random.default_rng(0))[0])["params"]
    assert shapes["down"].shape == (48, 10) and float(shapes["special"].std()) == pytest.approx(0.02, rel=0.05)


def test_linked_initial_values_have_the_stated_spread():
    module = linked.Embed(dim=48, vocab_size=512, symbols=(500, ((1,), *[()] * 11)), hidden=80, special_std=0.5)
    params = module.init(jax.random.key(0), drawn.draw_tokens(np.random.default_rng(0))[0])["params"]
    spread = 0.1 * (2 / (48 + 80)) ** 0.5
    for name, std in {"table": 0.02, "special": 0.5, "down": spread, "up": spread}.items():
        assert float(params[name].std()) == pytest.approx(std, rel=0.1), name


def test_tree_positions_start_as_in_pytorch(rng):
    """The kernel's spread is that of PyTorch's uniform values in ±1/√n for n inputs: 1/√(3n)."""
    module = tree.Positions(drawn.build_backbone(drawn.DECODER), levels=5, bits=7)
    zeros = np.zeros((1, 2), np.int32)
    tokens = Tokens(zeros, zeros, zeros + 1, channels={TREE_POSITIONS.name: np.zeros((1, 2, 5), np.int32)})
    kernel = module.init(jax.random.key(0), tokens, method="added")["params"]["kernel"]
    assert kernel.shape == (70, drawn.CONTEXT["width"])
    assert float(kernel.std()) == pytest.approx(1 / (3 * 70) ** 0.5, rel=0.1)
