"""Encoders: weights of BERT and RoBERTa give the outputs of `transformers`; best spans are those of full search."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.bundled.configs import presets
from numjax.errors import UsageError
from numjax.heads.span import best_span, legal_positions
from numjax.model import Model
from numjax.pretrained import bert, seq2seq, weights
from numjax.types import Batch, Tokens
from tests import drawn
from tests.conftest import ROOT

FIXTURES = ROOT / "tests/fixtures"
SHAPES = {
    "bert": dict(width=32, layers=2, heads=4, mlp_ratio=2, max_length=16),
    "roberta": dict(width=16, layers=1, heads=2, mlp_ratio=2, max_length=16),
}


def make_model(family: str, **options) -> Model:
    preset = presets.PRESETS[family]
    shape = preset.backbone | SHAPES[family]
    context = dict(vocab_size=128, size=96, width=shape["width"], dim=shape["width"])
    heads = {"masked": {"name": "masked", "epsilon": shape.get("norm_epsilon", 1e-12)}, "span": {"name": "span"}}
    return Model(
        FrozenDict(token=build("embed", {"name": "token"}, **context)),
        FrozenDict(),
        drawn.build_backbone(shape | options, {"sequence": preset.positions}),
        FrozenDict({name: build("heads", block, **context) for name, block in heads.items()}),
    )


def load_params(family: str):
    """Returns the file's parameters, with the vocabulary padded to 128, and those of its pooler."""
    params = bert.read_params(FIXTURES / f"{family}.safetensors", heads=SHAPES[family]["heads"])
    params["embeds_token"]["table"] = np.pad(params["embeds_token"]["table"], ((0, 32), (0, 0)))
    params["heads_masked"]["bias"] = np.pad(params["heads_masked"]["bias"], (0, 32))
    pooler = params.pop("heads_label", None)
    return params, pooler


def make_inputs(arrays) -> Tokens:
    ids = arrays["ids"].astype(np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    return Tokens(ids, positions, (ids != 1).astype(np.int32), channels={"types": arrays["types"].astype(np.int32)})


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("family", list(SHAPES))
def test_encoders_give_the_outputs_of_transformers(family, scan):
    """`tests/make_bert_fixture.py` writes the files: hidden states, logits of masked tokens and of spans, pooler."""
    expected = np.load(FIXTURES / f"{family}.npz")
    params, pooler = load_params(family)
    if scan:
        from numjax.train.checkpoint import stack_layers

        params = stack_layers(params)
    tokens = make_inputs(expected)
    model = make_model(family, scan=scan, remat="full" if scan else "none")
    outs, acts = jax.jit(model.apply)({"params": params}, Batch(tokens))
    is_valid = tokens.segment_ids > 0
    np.testing.assert_allclose(acts["final"][is_valid], expected["hidden"][is_valid], atol=1e-4)
    head_out = outs["masked"]
    logits = head_out.hidden @ head_out.weights["kernel"].T + head_out.weights["bias"]
    np.testing.assert_allclose(logits[is_valid][:, :96], expected["logits"][is_valid], atol=1e-4)
    out = outs["span"]._replace(weights=outs["span"].weights | {"legal": is_valid})
    for name, scores in zip(("start", "end"), model.heads["span"].logits(out), strict=True):
        np.testing.assert_allclose(scores[is_valid], expected[name][is_valid], atol=1e-4)
    if pooler is not None:
        vector = np.tanh(acts["final"][:, 0] @ pooler["pooler_kernel"] + pooler["pooler_bias"])
        np.testing.assert_allclose(vector, expected["pooled"], atol=1e-4)
    assert (pooler is not None) == (family == "bert")


def test_further_types_do_not_change_a_pretrained_stack_at_first():
    """With types_std=0. Otherwise the sum of the tables, which is added at every position, changes all states."""
    expected = np.load(FIXTURES / "bert.npz")
    tokens = make_inputs(expected)
    types = np.stack([tokens.channels["types"], tokens.ids % 5, tokens.ids % 3], axis=-1)
    params, _ = load_params("bert")

    def compute_hidden(**options):
        model = make_model("bert", types=(2, 5, 3), **options)
        batch = Batch(tokens._replace(channels={"types": types}))
        new_params = jax.jit(model.init)(jax.random.key(0), batch)["params"]
        backbone = params["backbone"] | {name: new_params["backbone"][name] for name in ("types_1", "types_2")}
        return jax.jit(model.apply)({"params": params | {"backbone": backbone}}, batch)[1]["final"]

    is_valid = tokens.segment_ids > 0
    np.testing.assert_allclose(compute_hidden(types_std=0.0)[is_valid], expected["hidden"][is_valid], atol=1e-4)
    assert np.abs(compute_hidden(init_std=0.2)[is_valid] - expected["hidden"][is_valid]).max() > 0.1


@pytest.mark.parametrize("family", list(SHAPES))
def test_encoders_are_exported_and_loaded_without_change(family, tmp_path):
    from safetensors.numpy import load_file

    params, pooler = load_params(family)
    params |= {} if pooler is None else {"heads_label": pooler}
    bert.write_params(tmp_path / weights.FILE, params, size=96, family=family)
    tensors, exported = load_file(FIXTURES / f"{family}.safetensors"), load_file(tmp_path / weights.FILE)
    assert set(tensors) == set(exported)
    for name, x in tensors.items():
        np.testing.assert_array_equal(exported[name], x, err_msg=name)
    reloaded = bert.read_params(tmp_path, heads=SHAPES[family]["heads"])
    jax.tree.map(
        np.testing.assert_array_equal,
        reloaded,
        bert.read_params(FIXTURES / f"{family}.safetensors", SHAPES[family]["heads"]),
    )
    bare = {
        name: x
        for name, x in tensors.items()
        if not name.startswith(("cls.", "lm_head.", "qa_")) and "pooler" not in name
    }
    bare = {
        name.removeprefix(f"{family}.").replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in bare.items()
    }
    assert set(bert.to_params(bare, SHAPES[family]["heads"])) == {"backbone", "embeds_token"}, "only a stack"


def test_files_of_other_models_are_refused(tmp_path):
    with pytest.raises(UsageError, match="does not divide over 5 heads"):
        bert.read_params(FIXTURES / "bert.safetensors", heads=5)
    with pytest.raises(UsageError, match=r"no tensor 'embeddings\.word_embeddings\.weight'"):
        bert.to_params({}, 1)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as safetensors"):
        bert.read_params(tmp_path, heads=4)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 12}')
    with pytest.raises(UsageError, match="has 12 heads and this config 4"):
        bert.read_params(tmp_path, heads=4)
    with pytest.raises(UsageError, match="choose bert or roberta"):
        bert.to_tensors({}, 1, "berta")


# ---------------------------------------------------------------------------------------------------


def find_best_span(start, end, longest):
    """Returns the first of the best spans, by trying all."""
    spans = [(i, j) for i in range(len(start)) for j in range(i, min(i + longest, len(start)))]
    return max(spans, key=lambda ij: (start[ij[0]] + end[ij[1]], -ij[0], -ij[1]))


@pytest.mark.parametrize("longest", [1, 4, 50])
def test_best_span_is_that_of_exhaustive_search(longest, rng):
    # Few different values, so that there are ties.
    start, end = (rng.integers(0, 5, (40, 11)).astype(np.float32) for _ in range(2))
    first, last, score = jax.jit(best_span, static_argnums=2)(start, end, longest)
    for b in range(len(start)):
        assert (first[b], last[b]) == find_best_span(start[b], end[b], longest)
        assert score[b] == start[b, first[b]] + end[b, last[b]]


def test_answers_lie_in_the_context():
    tokens = Tokens(
        np.zeros((2, 8), np.int32), np.zeros((2, 8), np.int32),
        segment_ids=np.asarray([[1] * 7 + [0], [1] * 4 + [0] * 4]),
        channels={"types": np.asarray([[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 0, 0, 0, 0]])},
    )  # fmt: skip
    legal = np.asarray(legal_positions(tokens))
    np.testing.assert_array_equal(legal.nonzero()[0], [0, 0, 0, 1])
    np.testing.assert_array_equal(legal.nonzero()[1], [3, 4, 5, 2])
    head = build("heads", {"name": "span"}, width=4)
    h = np.random.default_rng(0).standard_normal((2, 8, 4)).astype(np.float32)
    out, _ = head.init_with_output(jax.random.key(0), h, tokens)
    parts = head.log_prob(out, np.asarray([[3, 5], [2, 2]]))
    best = np.asarray(head.best(out))
    np.testing.assert_array_equal(best[1, :2], [2, 2])
    assert best[1, 3] == 0 and parts["start"][1] == 0, "the only position is certain"
    total = sum(
        float(np.exp(sum(np.asarray(p)[0] for p in head.log_prob(out, np.asarray([[i, j], [2, 2]])).values())))
        for i in (3, 4, 5) for j in (3, 4, 5)
    )  # fmt: skip
    np.testing.assert_allclose(total, 1, rtol=1e-5)


def test_the_encoder_of_an_encoder_decoder_gives_the_same_states(rng):
    """Both load the same file; the encoder is the one that the test above compares with `transformers`."""
    params, _ = load_params("bert")
    shape = SHAPES["bert"]
    stack = drawn.build_backbone(presets.PRESETS["bert_reader"].backbone | shape)
    seq2seq_params = seq2seq.read_params(FIXTURES / "bert.safetensors", heads=shape["heads"])
    assert seq2seq.map_marks(seq2seq_params) == {} and "decoder" not in seq2seq_params["backbone"]
    tensors = weights.load_tensors(FIXTURES / "bert.safetensors")
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensors[name] for name in tensors
    }
    assert not tensors.keys() & {name for name in old if "LayerNorm" in name}
    jax.tree.map(np.testing.assert_array_equal, seq2seq.to_params(old, shape["heads"]), seq2seq_params)
    ids = rng.integers(0, 96, (2, 9)).astype(np.int32)
    positions = np.broadcast_to(np.arange(9, dtype=np.int32), ids.shape)
    segments = (np.arange(9) < [[9], [5]]).astype(np.int32)
    tokens = Tokens(ids, positions, segments, channels={"types": np.zeros_like(ids)})
    encoder = drawn.build_backbone(dict(name="encoder") | shape)
    expected, _, _ = encoder.apply({"params": params["backbone"]}, params["embeds_token"]["table"][ids], tokens)
    x = seq2seq_params["embeds_token"]["table"][ids]
    states, _ = stack.apply({"params": seq2seq_params["backbone"]}, x, tokens, method="encode")
    is_valid = segments[..., None] > 0
    np.testing.assert_allclose(np.where(is_valid, states, 0), np.where(is_valid, expected, 0), atol=2e-5)
    assert np.abs(np.where(is_valid, expected, 0)).max() > 0.5
