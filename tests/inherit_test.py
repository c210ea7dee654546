"""An encoder–decoder that starts from files of others: its vocabulary, its marks, its parameters."""

from __future__ import annotations

import io
import json
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece
from ml_collections import ConfigDict

from numjax import inherit, shard
from numjax.errors import UsageError
from numjax.pretrained import seq2seq
from numjax.text import bytebpe, subword, vocab
from numjax.types import TrainState
from tests.pretrained_test import FIXTURES

TEXTS = ["How many grams are 2 eggs? About 1200 grams.", "It cost 12 in 2019."] * 20


@pytest.fixture(scope="module")
def t5_model() -> bytes:
    """A sentencepiece model as T5's: its own normalisation, a dummy prefix, no bytes, pad 0 and </s> 1."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=out, vocab_size=34, hard_vocab_limit=False, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    return out.getvalue()


def test_t5s_pieces_are_read_exactly(t5_model, tmp_path):
    mine, theirs = vocab.SentencePiece(t5_model), sentencepiece.SentencePieceProcessor(model_proto=t5_model)
    assert mine.known == theirs.vocab_size() and mine.base == mine.known + 256
    for text in ("How many eggs?", "It cost 12", "2 eggs"):
        assert mine.encode(" " + text) == theirs.encode(text), "what it has seen begins with a blank"
    for text in ("naïve  two\tblanks\n", "∀ ½ ﬁ", "▁ x", " 12  12", "\ud800"):
        assert mine.decode(mine.encode(text)) == vocab.scalar(text)
    mine.save(str(tmp_path))
    again = vocab.load(str(tmp_path))
    assert again.encode("∀ 12") == mine.encode("∀ 12") and again.marks == mine.marks


@pytest.mark.parametrize("name", ["flan", "bart"])
def test_vocabulary_and_marks_start_from_their_rows(name, t5_model, tmp_path):
    """Pieces from their own rows, marks from those of the same use, bytes that T5 does not spell from the mean."""
    scheme = subword.Scheme(vocab.SentencePiece(t5_model))
    theirs = seq2seq.read(FIXTURES / f"{name}.safetensors", heads=2)
    config = ConfigDict(dict(backbone=dict(name="encoder_decoder"), optim={}))
    backbone = types.SimpleNamespace(heads=2)
    system = types.SimpleNamespace(config=config, scheme=scheme, model=types.SimpleNamespace(backbone=backbone))
    size = scheme.vocab_size

    def blank(path, x):
        rows = (size,) if path[0].key != "backbone" else x.shape[:1]
        return jnp.zeros((*rows, *x.shape[1:]), jnp.float32)

    params = jax.tree_util.tree_map_with_path(blank, theirs)
    state = TrainState(jnp.int32(0), params, ())
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    layout = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=shard.replicated(mesh)), params)
    compiled = types.SimpleNamespace(mesh=mesh, abstract_state=TrainState(None, layout, ()))
    done = inherit.load_pretrained(system, compiled, state, FIXTURES / f"{name}.safetensors").params
    jax.tree.map(np.testing.assert_array_equal, done["backbone"], theirs["backbone"])
    known = scheme.vocab.known
    for path in (("embeds_token", "table"), ("heads_next", "kernel"), ("heads_next", "bias")):
        if path[1] not in theirs.get(path[0], {}):
            continue
        mine, rows = done[path[0]][path[1]], theirs[path[0]][path[1]]
        np.testing.assert_array_equal(mine[:known], rows[:known])
        for mark in ("[CLS]", "[EOS]", "[PAD]"):
            np.testing.assert_array_equal(mine[scheme.vocab.mark(mark)], rows[seq2seq.marks(theirs)[mark]])
        assert (mine[known] == mine[known + 7]).all() and np.abs(mine[known]).max() > 0
    system.scheme = subword.Scheme(vocab.build({"name": "sentencepiece", "size": 320}, TEXTS))
    with pytest.raises(UsageError, match="its vocabulary has 40 tokens and ours"):
        inherit.load_pretrained(system, compiled, state, FIXTURES / f"{name}.safetensors")


def test_a_mark_that_is_a_symbol_of_theirs_starts_from_the_row_of_its_use():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *bytebpe._byte_of_character(), "<mask>"]
    table = json.dumps({piece: token for token, piece in enumerate(pieces)}).encode()
    mine = bytebpe.ByteBPE(table, b"#version: 0.2\n")
    system: Any = types.SimpleNamespace(scheme=types.SimpleNamespace(vocab=mine, vocab_size=mine.size + 3))
    uses = {"[PAD]": 1, "[CLS]": 2, "[EOS]": 2, "[SEP]": 0}
    rows = inherit._base_rows(system, len(pieces), FIXTURES, uses)
    assert {name: rows[mine.mark(name)] for name in uses} == uses
    kept = set(range(len(pieces))) - {mine.mark(name) for name in uses}
    assert all(rows[token] == token for token in kept) and mine.mark("[CLS]") == 0
    assert rows[mine.size :] == [-1] * 3 and rows[mine.mark("[NUM]")] == -1
