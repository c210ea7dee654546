"""An encoder–decoder that starts from files of others: its vocabulary, its marks, its parameters."""

from __future__ import annotations

import importlib
import io
import json
import pathlib
import re
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece
from ml_collections import ConfigDict

from numjax.build import build
from numjax.config import origin
from numjax.errors import UsageError
from numjax.pretrained import seq2seq
from numjax.runtime import files, shard
from numjax.system import assemble
from numjax.text import subword, vocab
from numjax.text.vocab import bytebpe, sentencepieces
from numjax.train import inherit
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
    mine, theirs = sentencepieces.SentencePiece(t5_model), sentencepiece.SentencePieceProcessor(model_proto=t5_model)
    assert mine.known == theirs.vocab_size() and mine.base == mine.known + 256
    for text in ("How many eggs?", "It cost 12", "2 eggs"):
        assert mine.encode(" " + text) == theirs.encode(text), "what it has seen begins with a blank"
    for text in ("naïve  two\tblanks\n", "∀ ½ ﬁ", "▁ x", " 12  12", "\ud800"):
        assert mine.decode(mine.encode(text)) == files.replace_surrogates(text)
    mine.save(str(tmp_path))
    again = vocab.load(str(tmp_path))
    assert again.encode("∀ 12") == mine.encode("∀ 12") and again.marks == mine.marks


@pytest.mark.parametrize("name", ["flan", "bart"])
def test_vocabulary_and_marks_start_from_their_rows(name, t5_model, tmp_path):
    """Pieces from their own rows, marks from those of the same use, bytes that T5 does not spell from the mean."""
    scheme = subword.Scheme(sentencepieces.SentencePiece(t5_model))
    theirs = seq2seq.read_params(FIXTURES / f"{name}.safetensors", heads=2)
    config = ConfigDict(dict(backbone=dict(name="encoder_decoder"), optim={}))
    size = scheme.vocab_size
    known = dict(width=64, dim=64, vocab_size=size, size=size)
    parts = dict(embeds={"token": build("embed", dict(name="token"), **known)})
    parts |= dict(heads={"next": build("heads", dict(name="token"), **known)})
    model = types.SimpleNamespace(backbone=types.SimpleNamespace(heads=2), **parts)
    system = types.SimpleNamespace(config=config, scheme=scheme, model=model)

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
            np.testing.assert_array_equal(mine[scheme.vocab.mark(mark)], rows[seq2seq.map_marks(theirs)[mark]])
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


def test_rows_go_by_token_in_parts_of_any_name_and_in_no_other_part(tmp_path, monkeypatch):
    """Marks that stand in another order there, in a head called `lm`; a table of digits has rows of its own."""
    mine = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS)
    scheme = subword.Scheme(mine.with_marks(["[B]", "[A]"]))
    theirs = mine.with_marks(["[A]", "[B]", "[C]"])
    theirs.save(str(tmp_path / "vocabulary"))
    known = dict(width=4, dim=4, vocab_size=scheme.vocab_size, size=scheme.vocab.size)
    model = types.SimpleNamespace(
        embeds={name: build("embed", dict(name=name), **known) for name in ("token", "digit_sum")},
        heads={
            "lm": build("heads", dict(name="token", tied=False, bias=True), **known),
            "label": build("heads", dict(name="classify", num_classes=3), **known),
        },
    )

    def params(rows):
        numbered = jnp.arange(1.0, rows + 1)[:, None] * jnp.ones(4)
        digits = {"table": jnp.arange(40.0).reshape(10, 4)}
        label = {"kernel": jnp.arange(12.0).reshape(4, 3), "bias": jnp.arange(3.0)}
        lm = {"kernel": numbered, "bias": numbered[:, 0]}
        return {"embeds_token": {"table": numbered}, "embeds_digit_sum": digits, "heads_lm": lm, "heads_label": label}

    monkeypatch.setattr(inherit, "read_params", lambda source, layout: (params(subword.Scheme(theirs).vocab_size), 1))
    start = jax.tree.map(jnp.zeros_like, params(scheme.vocab_size))
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    layout = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=shard.replicated(mesh)), start)
    compiled: Any = types.SimpleNamespace(mesh=mesh, abstract_state=TrainState(jnp.int32(0), layout, ()))
    system: Any = types.SimpleNamespace(config=ConfigDict(dict(optim={})), scheme=scheme, model=model)
    system.task = types.SimpleNamespace(dataset={})
    done = inherit.load_pretrained(system, compiled, TrainState(jnp.int32(0), start, ()), tmp_path).params
    want = np.arange(1.0, mine.size + 3)
    want[[scheme.vocab.mark("[A]"), scheme.vocab.mark("[B]")]] = 1 + theirs.mark("[A]"), 1 + theirs.mark("[B]")
    for part, name in (("embeds_token", "table"), ("heads_lm", "kernel"), ("heads_lm", "bias")):
        np.testing.assert_array_equal(done[part][name].reshape(scheme.vocab_size, -1)[: len(want), 0], want)
    for part in ("embeds_digit_sum", "heads_label"):
        jax.tree.map(np.testing.assert_array_equal, done[part], params(1)[part])


def configured(words: str) -> Any:
    name, _, argument = words.partition(":")
    return importlib.import_module(f"numjax.bundled.configs.{name}").get_config(argument)


def _kept(config: Any, folder: pathlib.Path) -> pathlib.Path:
    """A workdir that only says what made it."""
    folder.mkdir()
    origin.save_config(folder, json.loads(json.dumps(config.to_dict())))
    return folder


@pytest.mark.parametrize(
    ("trained", "wanted", "says"),
    [
        (
            "tabbert:smoke,numtok=replace,as_published", "tabbert:smoke,task=fraud",
            "scheme.signs was False there and is True here, embeds.numeral.fusion was 'replace' there and is 'add' "
            "here, task.time was 'ns' there and is 's' here: give the words",
        ),
        ("luna:smoke,numtok=replace", "luna:smoke,task=tatqa", "scheme.name was 'replace' there and is 'addback'"),
        ("luna:smoke,as_published", "luna:smoke,task=tatqa", "scheme.rules was 'numtok' there and is 'accounting'"),
        ("luna:smoke,numtok=addback", "luna:smoke,task=tatqa,numtok=none", "scheme.name was 'addback'"),
        ("luna:smoke,numbed=dice", "luna:smoke,task=tatqa", "embeds.numeral.name was 'dice_linear'"),
        ("luna:laptop", "luna:paper,task=tatqa,size=1M", "embeds.numeral.length was 16 there and is 32 here:"),
        ("mathgpt:smoke,task=gsm8k", "mathgpt:smoke,task=gsm8k,as_published", "scheme.name was 'trees' there"),
    ],
)  # fmt: skip
def test_a_run_that_reads_otherwise_is_no_start(trained, wanted, says, tmp_path):
    source = _kept(configured(trained), tmp_path / "source")
    with pytest.raises(UsageError, match=re.escape(says)):
        origin.check_scheme(configured(wanted), source)


@pytest.mark.parametrize(
    ("trained", "wanted", "told"),
    [
        ("tabbert:smoke,numtok=replace,as_published", "tabbert:smoke,numtok=replace,task=fraud,as_published", []),
        ("tabbert:smoke,numtok=none", "tabbert:smoke,task=fraud", []),
        ("mathgpt:smoke,task=articles", "mathgpt:smoke,task=headline", []),
        ("numgpt:smoke,task=text", "numgpt:laptop", []),
        (
            "luna:smoke,numtok=none", "luna:smoke,task=tatqa",
            ["scheme.name was 'subword' there and is 'addback' here"],
        ),
        (
            "mathgpt:smoke,task=text,system=gpt", "mathgpt:smoke,task=gsm8k",
            [
                "scheme.name was 'subword' there and is 'trees' here",
                "embeds.token.name was 'token' there and is 'linked' here",
            ],
        ),
    ],
)  # fmt: skip
def test_a_run_that_reads_alike_or_all_as_text_is_a_start(trained, wanted, told, tmp_path):
    source = _kept(configured(trained), tmp_path / "source")
    assert origin.check_scheme(configured(wanted), source) == told


def test_what_it_started_from_is_looked_at_before_records_are_read(tmp_path):
    config = configured("tabbert:smoke,task=fraud")
    source = _kept(configured("tabbert:smoke,as_published"), tmp_path / "source")
    (source / "vocabulary").mkdir()
    (source / "vocabulary" / vocab.FILE).touch()
    with config.unlocked():
        config.init_from = str(source)

    def records():
        raise AssertionError("read")

    with pytest.raises(UsageError, match=r"scheme\.signs was False there"):
        assemble(config, tmp_path / "run", records)
    # In a workdir that has its vocabulary already too.
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    system: Any = types.SimpleNamespace(config=config)
    compiled: Any = types.SimpleNamespace(mesh=mesh)
    with pytest.raises(UsageError, match=r"scheme\.signs was False there"):
        inherit.load_pretrained(system, compiled, TrainState(jnp.int32(0), {}, ()), source)


def test_options_left_out_are_the_defaults_and_those_of_numbers_are_told(tmp_path):
    config = configured("luna:smoke,numbed=dice")
    config.scheme.rules = "default"
    source = _kept(config, tmp_path / "source")
    with config.unlocked():
        del config.scheme["rules"]
        config.embeds.numeral.update(of="log", sphere=3)
    assert origin.check_scheme(config, source) == ["embeds.numeral.sphere was 10 there and is 3 here"]
    with config.unlocked():
        del config.scheme["types"]
    with pytest.raises(UsageError, match=r"scheme\.types was True there and is False here"):
        origin.check_scheme(config, source)
    assert origin.check_scheme(config, tmp_path / "files of others") == []
