"""Weights of other libraries give the same results here as in those libraries."""

from __future__ import annotations

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
from numjax.pretrained import bart, gpt2, seq2seq, t5, weights
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
    seq2seq.write_params(tmp_path / weights.FILE, padded, size=40)
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
