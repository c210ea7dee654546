"""Encoders: weights of BERT and RoBERTa give here what they give there; spans are read as exhaustive search does."""

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


def model_of(family: str, **more) -> Model:
    preset = presets.PRESETS[family]
    shape = preset.backbone | SHAPES[family]
    known = dict(vocab_size=128, size=96, width=shape["width"], dim=shape["width"])
    heads = {"masked": {"name": "masked", "epsilon": shape.get("norm_epsilon", 1e-12)}, "span": {"name": "span"}}
    return Model(
        FrozenDict(token=build("embed", {"name": "token"}, **known)),
        FrozenDict(),
        drawn.stack(shape | more, {"sequence": preset.positions}),
        FrozenDict({name: build("heads", block, **known) for name, block in heads.items()}),
    )


def params_of(family: str):
    """As read, the vocabulary padded to 128."""
    params = bert.read_params(FIXTURES / f"{family}.safetensors", heads=SHAPES[family]["heads"])
    params["embeds_token"]["table"] = np.pad(params["embeds_token"]["table"], ((0, 32), (0, 0)))
    params["heads_masked"]["bias"] = np.pad(params["heads_masked"]["bias"], (0, 32))
    pooler = params.pop("heads_label", None)
    return params, pooler


def inputs_of(found) -> Tokens:
    ids = found["ids"].astype(np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    return Tokens(ids, positions, (ids != 1).astype(np.int32), channels={"types": found["types"].astype(np.int32)})


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("family", list(SHAPES))
def test_encoders_give_what_transformers_gives(family, scan):
    """`tests/make_bert_fixture.py` made the files: hidden states, logits of masked tokens and of spans, pooler."""
    found = np.load(FIXTURES / f"{family}.npz")
    params, pooler = params_of(family)
    if scan:
        from numjax.train.checkpoint import stack_layers

        params = stack_layers(params)
    tokens = inputs_of(found)
    model = model_of(family, scan=scan, remat="full" if scan else "none")
    outs, acts = jax.jit(model.apply)({"params": params}, Batch(tokens))
    seen = tokens.segment_ids > 0
    np.testing.assert_allclose(acts["final"][seen], found["hidden"][seen], atol=1e-4)
    masked = outs["masked"]
    logits = masked.hidden @ masked.weights["kernel"].T + masked.weights["bias"]
    np.testing.assert_allclose(logits[seen][:, :96], found["logits"][seen], atol=1e-4)
    out = outs["span"]._replace(weights=outs["span"].weights | {"legal": seen})
    for name, mine in zip(("start", "end"), model.heads["span"].logits(out), strict=True):
        np.testing.assert_allclose(mine[seen], found[name][seen], atol=1e-4)
    if pooler is not None:
        vector = np.tanh(acts["final"][:, 0] @ pooler["pooler_kernel"] + pooler["pooler_bias"])
        np.testing.assert_allclose(vector, found["pooled"], atol=1e-4)
    assert (pooler is not None) == (family == "bert")


def test_further_types_leave_a_pretrained_stack_at_first_what_it_was():
    """With types_std=0; else the tables' sum, which is there at every position, changes all that it reads."""
    found = np.load(FIXTURES / "bert.npz")
    tokens = inputs_of(found)
    more = np.stack([tokens.channels["types"], tokens.ids % 5, tokens.ids % 3], axis=-1)
    params, _ = params_of("bert")

    def hidden(**options):
        model = model_of("bert", types=(2, 5, 3), **options)
        batch = Batch(tokens._replace(channels={"types": more}))
        fresh = jax.jit(model.init)(jax.random.key(0), batch)["params"]
        known = params["backbone"] | {name: fresh["backbone"][name] for name in ("types_1", "types_2")}
        return jax.jit(model.apply)({"params": params | {"backbone": known}}, batch)[1]["final"]

    seen = tokens.segment_ids > 0
    np.testing.assert_allclose(hidden(types_std=0.0)[seen], found["hidden"][seen], atol=1e-4)
    assert np.abs(hidden(init_std=0.2)[seen] - found["hidden"][seen]).max() > 0.1


@pytest.mark.parametrize("family", list(SHAPES))
def test_encoders_go_there_and_back(family, tmp_path):
    from safetensors.numpy import load_file

    params, pooler = params_of(family)
    params |= {} if pooler is None else {"heads_label": pooler}
    bert.write_params(tmp_path / weights.FILE, params, size=96, family=family)
    theirs, mine = load_file(FIXTURES / f"{family}.safetensors"), load_file(tmp_path / weights.FILE)
    assert set(theirs) == set(mine)
    for name, x in theirs.items():
        np.testing.assert_array_equal(mine[name], x, err_msg=name)
    again = bert.read_params(tmp_path, heads=SHAPES[family]["heads"])
    jax.tree.map(
        np.testing.assert_array_equal,
        again,
        bert.read_params(FIXTURES / f"{family}.safetensors", SHAPES[family]["heads"]),
    )
    bare = {
        name: x
        for name, x in theirs.items()
        if not name.startswith(("cls.", "lm_head.", "qa_")) and "pooler" not in name
    }
    bare = {
        name.removeprefix(f"{family}.").replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in bare.items()
    }
    assert set(bert.to_params(bare, SHAPES[family]["heads"])) == {"backbone", "embeds_token"}, "a stack alone"


def test_what_is_no_bert_is_named(tmp_path):
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


def exhaustive(start, end, longest):
    """The first of the best spans, by trying all."""
    spans = [(i, j) for i in range(len(start)) for j in range(i, min(i + longest, len(start)))]
    return max(spans, key=lambda ij: (start[ij[0]] + end[ij[1]], -ij[0], -ij[1]))


@pytest.mark.parametrize("longest", [1, 4, 50])
def test_best_span_is_that_of_exhaustive_search(longest, rng):
    # Few different values, so that there are ties.
    start, end = (rng.integers(0, 5, (40, 11)).astype(np.float32) for _ in range(2))
    first, last, score = jax.jit(best_span, static_argnums=2)(start, end, longest)
    for b in range(len(start)):
        assert (first[b], last[b]) == exhaustive(start[b], end[b], longest)
        assert score[b] == start[b, first[b]] + end[b, last[b]]


def test_answers_stand_in_the_context_alone():
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
    chances = sum(
        float(np.exp(sum(np.asarray(p)[0] for p in head.log_prob(out, np.asarray([[i, j], [2, 2]])).values())))
        for i in (3, 4, 5) for j in (3, 4, 5)
    )  # fmt: skip
    np.testing.assert_allclose(chances, 1, rtol=1e-5)


def test_as_the_encoder_of_an_encoder_decoder_it_reads_the_same(rng):
    """The same file, through the encoder that is held against `transformers` above."""
    params, _ = params_of("bert")
    shape = SHAPES["bert"]
    stack = drawn.stack(presets.PRESETS["bert_reader"].backbone | shape)
    read = seq2seq.read_params(FIXTURES / "bert.safetensors", heads=shape["heads"])
    assert seq2seq.map_marks(read) == {} and "decoder" not in read["backbone"]
    ids = rng.integers(0, 96, (2, 9)).astype(np.int32)
    positions = np.broadcast_to(np.arange(9, dtype=np.int32), ids.shape)
    segments = (np.arange(9) < [[9], [5]]).astype(np.int32)
    tokens = Tokens(ids, positions, segments, channels={"types": np.zeros_like(ids)})
    encoder = drawn.stack(dict(name="encoder") | shape)
    wanted, _, _ = encoder.apply({"params": params["backbone"]}, params["embeds_token"]["table"][ids], tokens)
    x = read["embeds_token"]["table"][ids]
    found, _ = stack.apply({"params": read["backbone"]}, x, tokens, method="encode")
    inside = segments[..., None] > 0
    np.testing.assert_allclose(np.where(inside, found, 0), np.where(inside, wanted, 0), atol=2e-5)
    assert np.abs(np.where(inside, wanted, 0)).max() > 0.5
