"""Weights of other libraries give the same results here as in those libraries."""

from __future__ import annotations

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.bundled.configs import presets
from numjax.decode import sample
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pretrained import bart, bert, gpt2, seq2seq, t5, weights
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.types import Batch, Tokens
from tests import drawn
from tests.conftest import ROOT

FIXTURES = ROOT / "tests/fixtures"


def test_gpt2_gives_the_logits_of_transformers():
    """`tests/make_gpt2_fixture.py` made the file and the logits."""
    params = gpt2.read_params(FIXTURES / "gpt2.safetensors", heads=4)
    arrays = np.load(FIXTURES / "gpt2.npz")
    known = dict(vocab_size=96, size=96, width=32, dim=32)
    model = Model(
        FrozenDict(token=build("embed", {"name": "token"}, **known)),
        FrozenDict(),
        drawn.build_backbone(dict(name="decoder", width=32, layers=2, heads=4, max_length=16)),
        FrozenDict(next=build("heads", {"name": "token"}, **known)),
    )
    ids = arrays["ids"].astype(np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    outs, _ = jax.jit(model.apply)({"params": params}, Batch(Tokens(ids, positions, np.ones_like(ids))))
    logits = outs["next"].hidden @ outs["next"].weights["kernel"].T
    np.testing.assert_allclose(logits, arrays["logits"], atol=1e-4)


def test_gpt2_weights_survive_writing_and_loading(tmp_path):
    params = gpt2.read_params(FIXTURES / "gpt2.safetensors", heads=4)
    padded = params | {"embeds_token": {"table": np.pad(params["embeds_token"]["table"], ((0, 32), (0, 0)))}}
    gpt2.write_params(tmp_path / weights.FILE, padded, size=96)
    assert weights.has_weights(tmp_path) and not weights.has_weights(tmp_path / "none")
    loaded_params = gpt2.read_params(tmp_path, heads=4)
    jax.tree.map(np.testing.assert_array_equal, loaded_params, params)
    from safetensors.numpy import load_file

    theirs, mine = load_file(FIXTURES / "gpt2.safetensors"), load_file(tmp_path / weights.FILE)
    assert set(theirs) == set(mine)
    for name, x in theirs.items():
        np.testing.assert_array_equal(mine[name], x, err_msg=name)


def test_other_weights_are_refused_as_gpt2(tmp_path):
    with pytest.raises(UsageError, match="does not divide over 5 heads"):
        gpt2.read_params(FIXTURES / "gpt2.safetensors", heads=5)
    with pytest.raises(UsageError, match=r"no tensor 'wte\.weight'"):
        gpt2.to_params({}, 1)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as safetensors"):
        gpt2.read_params(tmp_path / "broken.safetensors", heads=4)


def test_another_number_of_heads_is_refused_as_gpt2(tmp_path):
    """The kernel of 4 heads divides over 8 too."""
    shutil.copy(FIXTURES / "gpt2.safetensors", tmp_path / weights.FILE)
    (tmp_path / "config.json").write_text('{"n_head": 4}')
    gpt2.read_params(tmp_path, heads=4)
    with pytest.raises(UsageError, match="its model has 4 heads and this config 8"):
        gpt2.read_params(tmp_path, heads=8)


# ---------------------------------------------------------------------------------------------------
# `tests/make_seq2seq_fixtures.py` made the files, the logits and the greedy texts.

# (sizes of the backbone, of the positions, first token, last token)
T5 = dict(layers=3, encoder_layers=2, head_size=6, mlp_width=24)
BUCKETS = dict(buckets=8, furthest=16)
SEQ2SEQ = {
    "t5": (T5, BUCKETS, 0, 1),
    "flan": (T5, BUCKETS, 0, 1),
    "bart": (dict(layers=2, mlp_width=24), {}, 2, 2),
}


def build_seq2seq_model(name):
    known = dict(vocab_size=40, size=40, width=16, dim=16)
    (sizes, positions, *_), preset = SEQ2SEQ[name], presets.PRESETS[name]
    return Model(
        FrozenDict(token=build("embed", {"name": "token"}, **known)),
        FrozenDict(),
        drawn.build_backbone(
            preset.backbone | dict(width=16, heads=2, max_length=32) | sizes,
            {"sequence": preset.positions | positions},
        ),
        FrozenDict(next=build("heads", preset.head, **known)),
    )


def whole(ids):
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    return Tokens(ids.astype(np.int32), positions, np.ones(ids.shape, np.int32))


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_encoder_decoders_give_the_logits_and_the_texts_of_transformers(name):
    params = seq2seq.read_params(FIXTURES / f"{name}.safetensors", heads=2)
    arrays, model = np.load(FIXTURES / f"{name}.npz"), build_seq2seq_model(name)
    source = whole(arrays["source"])._replace(segment_ids=arrays["valid"].astype(np.int32))
    _, _, first, last = SEQ2SEQ[name]
    most, rows = arrays["greedy"].shape[1] - 1, len(arrays["ids"])

    @jax.jit
    def logits(params):
        outs, _ = model.apply({"params": params}, Batch(whole(arrays["ids"]), source=source))
        weights = outs["next"].weights
        return outs["next"].hidden @ weights["kernel"].T + weights.get("bias", 0.0)

    np.testing.assert_allclose(logits(params), arrays["logits"], atol=1e-4)
    # Every token is allowed at any time.
    others = [i for i in range(40) if i != last]
    automaton = tables.build(40, [Edge("text", others, "text"), Edge("text", [last], "end")], "text", ("text", "end"))
    prompt, budget = whole(np.full((rows, 1), first)), jnp.full(rows, most, jnp.int32)
    if first == last:
        automaton = automaton._replace(
            next_state=np.where(automaton.next_state < 0, automaton.start, automaton.next_state)
        )
    keys = jax.random.split(jax.random.key(0), rows)
    request = sample.Request(prompt, budget, keys, jnp.float32(0), jnp.int32(0), jnp.float32(1), source)
    grammar = jax.tree.map(jnp.asarray, automaton)
    known = dict(head="next", max_tokens=most, num_id=-1, end_id=last, greedy=True)
    output = jax.device_get(sample.generate(model, params, grammar, request, **known))
    for b in range(rows):
        theirs = arrays["greedy"][b, 1:].tolist()
        theirs = theirs[: theirs.index(last) + 1] if last in theirs else theirs
        assert output.ids[b, : output.length[b]].tolist() == theirs


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_encoder_decoder_weights_survive_writing_and_loading(name, tmp_path):
    from safetensors.numpy import load_file

    params = seq2seq.read_params(FIXTURES / f"{name}.safetensors", heads=2)
    padded = jax.tree_util.tree_map_with_path(
        lambda path, x: np.pad(x, ((0, 7), *[(0, 0)] * (x.ndim - 1)))
        if path[0].key != "backbone" else x, params)  # fmt: skip
    family = bart if name == "bart" else t5
    weights.save_tensors(tmp_path / weights.FILE, family.to_tensors(padded, size=40))
    theirs, mine = load_file(FIXTURES / f"{name}.safetensors"), load_file(tmp_path / weights.FILE)
    assert theirs.keys() == mine.keys()
    for key, x in theirs.items():
        np.testing.assert_array_equal(mine[key], x, err_msg=key)
    shapes = jax.eval_shape(
        build_seq2seq_model(name).init,
        jax.random.key(0),
        Batch(whole(np.zeros((1, 4))), source=whole(np.zeros((1, 4)))),
    )["params"]
    assert jax.tree.map(np.shape, params) == jax.tree.map(lambda s: s.shape, shapes), "every parameter, and no other"
    assert (
        seq2seq.map_marks(params)["[EOS]"] == SEQ2SEQ[name][3]
        and seq2seq.map_marks(params)["[CLS]"] == SEQ2SEQ[name][2]
    )


def test_other_weights_are_refused_as_encoder_decoder(tmp_path):
    with pytest.raises(UsageError, match="neither T5's nor BART's nor BERT's weights"):
        seq2seq.read_params(FIXTURES / "gpt2.safetensors", heads=2)
    with pytest.raises(UsageError, match="does not divide over 5 heads"):
        seq2seq.read_params(FIXTURES / "t5.safetensors", heads=5)
    for module, message in ((t5, "not T5's weights"), (bart, "not BART's weights")):
        with pytest.raises(UsageError, match=message):
            seq2seq.to_params({module.TELLTALE: np.zeros((4, 4))}, 2)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as safetensors"):
        seq2seq.read_params(tmp_path / "broken.safetensors", heads=4)


# ---------------------------------------------------------------------------------------------------
# Files of models that are nearly these.

READERS = {
    "gpt2": (gpt2, 4),
    "bert": (bert, 4),
    "roberta": (bert, 2),
    "t5": (seq2seq, 2),
    "flan": (seq2seq, 2),
    "bart": (seq2seq, 2),
}
# Tensors of published files that are not needed here, by the fixture of the same model.
PUBLISHED = {
    "gpt2": """transformer.h.0.attn.bias transformer.h.1.attn.masked_bias score.weight
        v_head.summary.weight multiple_choice_head.summary.weight""",
    "bert": """bert.embeddings.position_ids cls.predictions.decoder.weight cls.predictions.decoder.bias
        cls.seq_relationship.weight cls.seq_relationship.bias classifier.weight""",
    "roberta": """roberta.embeddings.position_ids roberta.embeddings.token_type_ids lm_head.decoder.weight
        lm_head.decoder.bias classifier.dense.weight classifier.out_proj.bias""",
    "t5": """encoder.embed_tokens.weight decoder.embed_tokens.weight qa_outputs.bias classification_head.dense.weight
        decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight""",
    "flan": "encoder.embed_tokens.weight decoder.embed_tokens.weight classifier.weight",
    "bart": """lm_head.weight model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight
        model.encoder.version classification_head.dense.weight qa_outputs.weight""",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_heads_buffers_and_tied_tables_of_published_files_are_left_out(name):
    (module, heads), tensors = READERS[name], weights.load_tensors(FIXTURES / f"{name}.safetensors")
    extra = {key: np.zeros((1, 3), np.int64) for key in PUBLISHED[name].split()}
    assert not extra.keys() & tensors.keys()
    params = module.to_params(tensors, heads)
    jax.tree.map(np.testing.assert_array_equal, module.to_params(tensors | extra, heads), params)


def test_gpt2s_output_weights_are_the_tokens_table_or_refused():
    tensors = weights.load_tensors(FIXTURES / "gpt2.safetensors")
    table = tensors["transformer.wte.weight"]
    params = gpt2.to_params(tensors | {"lm_head.weight": table}, 4)
    jax.tree.map(np.testing.assert_array_equal, params, gpt2.to_params(tensors, 4))
    with pytest.raises(UsageError, match=r"'lm_head\.weight' is not the table of the tokens"):
        gpt2.to_params(tensors | {"lm_head.weight": table + 1e-3}, 4)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("gpt2", "transformer.h.0.ln_cross_attn.weight"),
        ("bert", "bert.encoder.layer.0.attention.self.distance_embedding.weight"),
        ("roberta", "roberta.encoder.LayerNorm.weight"),  # XLM-RoBERTa-XL
        ("flan", "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"),  # UMT5
        ("t5", "decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"),
        ("bart", "model.encoder.layer_norm.weight"),  # mBART
    ],
)
def test_a_tensor_that_the_model_has_no_place_for_is_named(name, tensor):
    (module, heads), tensors = READERS[name], weights.load_tensors(FIXTURES / f"{name}.safetensors")
    with pytest.raises(UsageError, match="weights: 1 tensors have no place there, the first is ") as caught:
        module.to_params(tensors | {tensor: np.ones(3, np.float32)}, heads)
    assert f"{tensor.partition('.')[2]}'" in str(caught.value)
    if name == "bert":
        with pytest.raises(UsageError, match="1 tensors have no place there"):
            seq2seq.to_params(tensors | {tensor: np.ones(3, np.float32)}, heads)


# What config.json of published models says, by preset.
_BERT = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
CONFIGS = {
    "gpt2": [
        {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "scale_attn_by_inverse_layer_idx": False}
    ],
    "bert": [_BERT, {"hidden_act": "gelu"}, {"layer_norm_eps": None}],
    "roberta": [_BERT | {"layer_norm_eps": 1e-05}],
    "t5": [
        {"layer_norm_epsilon": 1e-06, "relative_attention_max_distance": 128},
        {"feed_forward_proj": "relu", "dense_act_fn": "relu"},
    ],
    "flan": [{"layer_norm_epsilon": 1e-06, "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new"}],
    "bart": [{"activation_function": "gelu", "scale_embedding": False, "normalize_before": False}],
    "bert_reader": [_BERT],
}


def make_folder(folder, name, config):
    """Returns a folder with a fixture's tensors and a config.json."""
    shutil.copy(FIXTURES / f"{name}.safetensors", folder / weights.FILE)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("preset", CONFIGS)
def test_the_settings_of_published_models_are_those_of_their_presets(preset, tmp_path):
    backbone = drawn.build_backbone(presets.PRESETS[preset].backbone, {"sequence": presets.PRESETS[preset].positions})
    name = preset.removesuffix("_reader")
    module, heads = READERS[name]
    for config in CONFIGS[preset]:
        weights.check_layers(make_folder(tmp_path, name, config), backbone)
        params = module.read_params(tmp_path, heads)
        weights.check_function(tmp_path, backbone, *module.find_function(params))


@pytest.mark.parametrize(
    ("preset", "changes", "offset", "model_type", "message"),
    [
        (
            "t5",
            {"scaled": True},
            None,
            "",
            "not divided by the root of the head's size: set config.backbone.scaled=False",
        ),
        ("flan", {"scaled": True}, None, "", r"set config\.backbone\.scaled=False"),
        ("bart", {"scaled": False}, 2, "", r"set config\.backbone\.scaled=True"),
        ("bart", {}, 0, "", r"row 2 of its table, and here row 0: set config\.positions\.sequence\.offset=2"),
        ("bert_reader", {}, 2, "", r"offset=0"),
        ("bert_reader", {}, 0, "roberta", r"offset=2"),
        ("bart", {}, 2, "blenderbot-small", r"offset=0"),
        ("gpt2", {}, 2, "", r"row 0 of its table, and here row 2: set config\.positions\.sequence\.offset=0"),
        ("bert", {}, 2, "bert", r"offset=0"),
        ("bert", {}, 0, "roberta", r"offset=2"),
    ],
)
def test_a_config_that_computes_another_function_is_refused(preset, changes, offset, model_type, message, tmp_path):
    positions = {"sequence": {"name": "relative"} if offset is None else {"name": "learned", "offset": offset}}
    backbone = drawn.build_backbone(presets.PRESETS[preset].backbone | changes, positions)
    module, heads = (seq2seq, 4) if preset == "bert_reader" else READERS[preset]
    config = {"model_type": model_type} if model_type else {}
    folder = make_folder(tmp_path, preset.removesuffix("_reader"), config)
    with pytest.raises(UsageError, match=message):
        weights.check_function(folder, backbone, *module.find_function(module.read_params(folder, heads)))


def test_buckets_that_end_at_another_distance_are_refused(tmp_path):
    folder = make_folder(tmp_path, "t5", {"relative_attention_max_distance": 64})
    positions = {"sequence": {"name": "relative"}}
    with pytest.raises(UsageError, match=r"=64 and .* furthest=128: set config\.positions\.sequence\.furthest$"):
        weights.check_function(folder, drawn.build_backbone(presets.PRESETS["t5"].backbone, positions), False, {})


@pytest.mark.parametrize(
    ("preset", "config", "message"),
    [
        ("bert", {"hidden_act": "relu"}, "hidden_act='relu' and this config mlp='gelu' and gated=False: set "),
        ("bert", {"hidden_act": "gelu_new"}, r"config\.backbone\.mlp='gelu_tanh' and gated=False$"),
        ("bert", {"hidden_act": "quick_gelu"}, "numjax lacks it$"),
        ("bert", {"hidden_act": ["gelu"]}, "numjax lacks it$"),
        ("bert", {"layer_norm_eps": 0.1}, "layer_norm_eps=0.1 and this config norm_epsilon=1e-12: set "),
        ("bert", {"layer_norm_eps": "small"}, "layer_norm_eps='small'"),
        ("bert_reader", {"layer_norm_eps": 1e-5}, "norm_epsilon=1e-12"),
        ("gpt2", {"activation_function": "gelu"}, "set config.backbone.mlp='gelu'"),
        ("gpt2", {"layer_norm_epsilon": 1e-6}, "norm_epsilon=1e-05"),
        ("t5", {"feed_forward_proj": "gated-gelu"}, "mlp='gelu_tanh' and gated=True$"),
        ("flan", {"feed_forward_proj": "relu"}, "mlp='relu' and gated=False$"),
        ("flan", {"feed_forward_proj": "gated-silu"}, "mlp='silu' and gated=True$"),
        ("bart", {"activation_function": "relu"}, "mlp='relu' and gated=False$"),
    ],
)
def test_a_config_with_another_activation_or_norm_is_refused(preset, config, message, tmp_path):
    backbone = drawn.build_backbone(presets.PRESETS[preset].backbone)
    folder = make_folder(tmp_path, preset.removesuffix("_reader"), config)
    with pytest.raises(UsageError, match=message):
        weights.check_layers(folder, backbone)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bert", {"position_embedding_type": "relative_key"}),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
        ("gpt2", {"scale_attn_weights": False}),
        ("bart", {"scale_embedding": True}),  # PLBART
    ],
)
def test_a_config_with_a_setting_that_numjax_lacks_is_refused(name, config, tmp_path):
    module, heads = READERS[name]
    with pytest.raises(UsageError, match=rf"its model has {next(iter(config))}=.* and numjax reads only"):
        module.read_params(make_folder(tmp_path, name, config), heads)
