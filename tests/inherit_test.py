"""Starts from pretrained files and from other runs: vocabulary, marks and parameters."""

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
from numjax.bundled.configs import presets
from numjax.config import origin
from numjax.errors import UsageError
from numjax.pretrained import seq2seq, weights
from numjax.runtime import files, shard
from numjax.system import assemble
from numjax.text import subword, vocab
from numjax.text.vocab import bytebpe, sentencepieces
from numjax.train import inherit
from numjax.types import TrainState
from tests import drawn
from tests.pretrained_test import FIXTURES

TEXTS = ["How many grams are 2 eggs? About 1200 grams.", "It cost 12 in 2019."] * 20


@pytest.fixture(scope="module")
def t5_model() -> bytes:
    """A sentencepiece model like that of T5: its own normalisation, a dummy prefix, no bytes, pad 0 and </s> 1."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=out, vocab_size=34, hard_vocab_limit=False, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    return out.getvalue()


def test_the_pieces_of_t5_are_encoded_exactly(t5_model, tmp_path):
    mine, theirs = sentencepieces.SentencePiece(t5_model), sentencepiece.SentencePieceProcessor(model_proto=t5_model)
    assert mine.known == theirs.vocab_size() and mine.base == mine.known + 256
    for text in ("How many eggs?", "It cost 12", "2 eggs"):
        assert mine.encode(" " + text) == theirs.encode(text), "its training texts begin with a blank"
    for text in ("naïve  two\tblanks\n", "∀ ½ ﬁ", "▁ x", " 12  12", "\ud800"):
        assert mine.decode(mine.encode(text)) == files.replace_surrogates(text)
    mine.save(str(tmp_path))
    loaded = vocab.load(str(tmp_path))
    assert loaded.encode("∀ 12") == mine.encode("∀ 12") and loaded.marks == mine.marks


def resize(name: str, rows: int, folder: pathlib.Path) -> pathlib.Path:
    """Writes a fixture with another number of tokens, whose vectors are random; returns the path."""
    rng, path = np.random.default_rng(0), folder / weights.FILE
    tensors = weights.load_tensors(FIXTURES / f"{name}.safetensors")
    shapes = {"shared.weight": (rows, 16), "model.shared.weight": (rows, 16), "lm_head.weight": (rows, 16)}
    shapes["final_logits_bias"] = (1, rows)
    for tensor in tensors.keys() & shapes.keys():
        tensors[tensor] = rng.normal(size=shapes[tensor]).astype(np.float32)
    weights.save_tensors(path, tensors)
    return path


def start_from(path: pathlib.Path, name: str, vocabulary: Any) -> tuple[Any, Any]:
    """(a run's parameters after a start from T5's or BART's file, those of the file)."""
    scheme, theirs = subword.Scheme(vocabulary), seq2seq.read_params(path, heads=2)
    size = scheme.vocab_size
    context = dict(width=16, dim=16, vocab_size=size, size=size)
    parts = dict(embeds={"token": build("embed", dict(name="token"), **context)})
    parts |= dict(heads={"next": build("heads", dict(name="token"), **context)})
    preset = presets.PRESETS[name]
    backbone = drawn.build_backbone(preset.backbone | dict(width=16, heads=2), {"sequence": preset.positions})
    config = ConfigDict(dict(backbone=dict(name="encoder_decoder"), optim={}))
    system: Any = types.SimpleNamespace(
        config=config, scheme=scheme, model=types.SimpleNamespace(backbone=backbone, **parts)
    )

    def make_zeros(path, x):
        rows = (size,) if path[0].key != "backbone" else x.shape[:1]
        return jnp.zeros((*rows, *x.shape[1:]), jnp.float32)

    params = jax.tree_util.tree_map_with_path(make_zeros, theirs)
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    layout = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=shard.replicated(mesh)), params)
    compiled: Any = types.SimpleNamespace(mesh=mesh, abstract_state=TrainState(jnp.int32(0), layout, ()))
    return inherit.load_pretrained(system, compiled, TrainState(jnp.int32(0), params, ()), path).params, theirs


def make_bart_vocabulary() -> bytebpe.ByteBPE:
    """The bytes, and the symbols of BART's files with their ids."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *bytebpe._byte_of_character(), "<mask>"]
    return bytebpe.ByteBPE(json.dumps({piece: i for i, piece in enumerate(pieces)}).encode(), b"#version: 0.2\n")


def make_source(name: str, t5_model: bytes, folder: pathlib.Path) -> tuple[pathlib.Path, Any]:
    """(a file with T5's 128 rows more than pieces, or with BART's, its vocabulary)."""
    vocabulary = make_bart_vocabulary() if name == "bart" else sentencepieces.SentencePiece(t5_model)
    return resize(name, vocabulary.known + (0 if name == "bart" else 128), folder), vocabulary


@pytest.mark.parametrize("name", ["flan", "bart"])
def test_vocabulary_and_marks_start_from_their_rows(name, t5_model, tmp_path):
    """Pieces start from their own rows, marks from the row of the same use, and bytes that T5 lacks from the mean."""
    path, vocabulary = make_source(name, t5_model, tmp_path)
    new_params, theirs = start_from(path, name, vocabulary)
    jax.tree.map(np.testing.assert_array_equal, new_params["backbone"], theirs["backbone"])
    marks = ("[CLS]", "[EOS]", "[PAD]", "[SEP]")
    text = np.flatnonzero([bool(vocabulary.bytes_of(i)) for i in range(vocabulary.known)])
    for part, leaf in (("embeds_token", "table"), ("heads_next", "kernel"), ("heads_next", "bias")):
        if leaf not in theirs.get(part, {}):
            continue
        mine, rows = new_params[part][leaf], theirs[part][leaf]
        np.testing.assert_array_equal(mine[text], rows[text])
        for mark in marks:
            np.testing.assert_array_equal(mine[vocabulary.mark(mark)], rows[seq2seq.map_marks(theirs)[mark]])
        fresh = mine[vocabulary.mark("[NUM]")]
        assert np.abs(fresh).max() > 0 and (mine[vocabulary.size :] == fresh).all()
        assert name == "bart" or (mine[vocabulary.known : vocabulary.base] == fresh).all(), "bytes"


@pytest.mark.parametrize(
    ("name", "surplus", "message"),
    [
        ("flan", 300, "its vocabulary has {rows} tokens and ours {known}"),
        ("flan", -1, "its vocabulary has {rows} tokens and ours {known}"),
        ("flan", 128, "its token 1 ends a text and ours is "),  # of T5's size, with other pieces
        ("bart", 8, "its vocabulary has {rows} tokens and ours {known}"),  # as GPT-2's
        ("bart", 0, "its token 2 ends a text and ours is "),
    ],
)
def test_another_vocabulary_than_that_of_t5_or_bart_is_refused(name, surplus, message, tmp_path):
    vocabulary = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS)
    path = resize(name, vocabulary.known + surplus, tmp_path)
    expected = message.format(rows=vocabulary.known + surplus, known=vocabulary.known)
    with pytest.raises(UsageError, match=re.escape(expected)):
        start_from(path, name, vocabulary)


@pytest.mark.parametrize("name", ["t5", "flan", "bart"])
def test_a_started_run_is_written_as_the_file_and_trained_marks_to_their_rows(name, t5_model, tmp_path):
    path, vocabulary = make_source(name, t5_model, tmp_path)
    params, theirs = start_from(path, name, vocabulary)
    written, tensors = tmp_path / "written.safetensors", weights.load_tensors(path)
    size, end = len(theirs["embeds_token"]["table"]), seq2seq.map_marks(theirs)["[EOS]"]
    tables = [tensor for tensor in tensors if tensor.endswith(("shared.weight", "lm_head.weight", "logits_bias"))]

    def write(**source):
        seq2seq.write_params(written, params, size, vocabulary, **source)
        return weights.load_tensors(written)

    same = write(source_params=theirs)
    assert same.keys() == tensors.keys()
    for tensor, x in tensors.items():
        np.testing.assert_array_equal(same[tensor], x, err_msg=tensor)
    for part in {"embeds_token", "heads_next"} & params.keys():
        params[part] = {leaf: x.at[vocabulary.mark("[EOS]")].set(7.0) for leaf, x in params[part].items()}
    trained, alone = write(source_params=theirs), write()
    for tensor in tables:
        mine, rows, lone = (x[tensor].reshape(size, -1) for x in (trained, tensors, alone))
        np.testing.assert_array_equal(np.flatnonzero((mine != rows).any(axis=1)), [end])
        assert (mine[end] == 7).all()
        np.testing.assert_array_equal(lone[: vocabulary.known], mine[: vocabulary.known])
        assert (lone[vocabulary.known :] == lone[-1]).all() and np.isfinite(lone[-1]).all()


def test_a_start_from_a_model_with_another_activation_is_refused(t5_model, tmp_path):
    path, vocabulary = make_source("flan", t5_model, tmp_path)
    (tmp_path / "config.json").write_text('{"feed_forward_proj": "gated-silu"}')
    with pytest.raises(UsageError, match="'gated-silu' and this config mlp='gelu_tanh'"):
        start_from(path, "flan", vocabulary)


def test_a_mark_that_is_also_a_piece_of_the_file_starts_from_the_row_of_its_use():
    mine = make_bart_vocabulary()
    system: Any = types.SimpleNamespace(scheme=types.SimpleNamespace(vocab=mine, vocab_size=mine.size + 3))
    uses = {"[PAD]": 1, "[CLS]": 2, "[EOS]": 2, "[SEP]": 0}
    rows = inherit._base_rows(system, mine.known, FIXTURES, uses, 0)
    assert {name: rows[mine.mark(name)] for name in uses} == uses
    other_tokens = set(range(mine.known)) - {mine.mark(name) for name in uses}
    assert all(rows[token] == token for token in other_tokens) and mine.mark("[CLS]") == 0
    assert rows[mine.size :] == [-1] * 3 and rows[mine.mark("[NUM]")] == -1


def test_rows_are_matched_by_token_only_in_parts_of_the_vocabulary(tmp_path, monkeypatch):
    """The source has its marks in another order, in a head called `lm`; a table of digits has its own rows."""
    mine = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS)
    scheme = subword.Scheme(mine.with_marks(["[B]", "[A]"]))
    theirs = mine.with_marks(["[A]", "[B]", "[C]"])
    theirs.save(str(tmp_path / "vocabulary"))
    context = dict(width=4, dim=4, vocab_size=scheme.vocab_size, size=scheme.vocab.size)
    model = types.SimpleNamespace(
        embeds={name: build("embed", dict(name=name), **context) for name in ("token", "digit_sum")},
        heads={
            "lm": build("heads", dict(name="token", tied=False, bias=True), **context),
            "label": build("heads", dict(name="classify", num_classes=3), **context),
        },
    )

    def make_params(rows):
        numbered = jnp.arange(1.0, rows + 1)[:, None] * jnp.ones(4)
        digits = {"table": jnp.arange(40.0).reshape(10, 4)}
        label = {"kernel": jnp.arange(12.0).reshape(4, 3), "bias": jnp.arange(3.0)}
        lm = {"kernel": numbered, "bias": numbered[:, 0]}
        return {"embeds_token": {"table": numbered}, "embeds_digit_sum": digits, "heads_lm": lm, "heads_label": label}

    monkeypatch.setattr(
        inherit, "read_params", lambda source, layout: (make_params(subword.Scheme(theirs).vocab_size), 1)
    )
    start = jax.tree.map(jnp.zeros_like, make_params(scheme.vocab_size))
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    layout = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=shard.replicated(mesh)), start)
    compiled: Any = types.SimpleNamespace(mesh=mesh, abstract_state=TrainState(jnp.int32(0), layout, ()))
    system: Any = types.SimpleNamespace(config=ConfigDict(dict(optim={})), scheme=scheme, model=model)
    system.task = types.SimpleNamespace(dataset={})
    new_params = inherit.load_pretrained(system, compiled, TrainState(jnp.int32(0), start, ()), tmp_path).params
    expected = np.arange(1.0, mine.size + 3)
    expected[[scheme.vocab.mark("[A]"), scheme.vocab.mark("[B]")]] = 1 + theirs.mark("[A]"), 1 + theirs.mark("[B]")
    for part, name in (("embeds_token", "table"), ("heads_lm", "kernel"), ("heads_lm", "bias")):
        np.testing.assert_array_equal(
            new_params[part][name].reshape(scheme.vocab_size, -1)[: len(expected), 0], expected
        )
    for part in ("embeds_digit_sum", "heads_label"):
        jax.tree.map(np.testing.assert_array_equal, new_params[part], make_params(1)[part])


def make_config(words: str) -> Any:
    name, _, argument = words.partition(":")
    return importlib.import_module(f"numjax.bundled.configs.{name}").get_config(argument)


def _make_workdir(config: Any, folder: pathlib.Path) -> pathlib.Path:
    """Returns a workdir that holds only its config."""
    folder.mkdir()
    origin.save_config(folder, json.loads(json.dumps(config.to_dict())))
    return folder


@pytest.mark.parametrize(
    ("source_words", "target_words", "message"),
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
def test_a_run_with_another_scheme_is_refused_as_a_start(source_words, target_words, message, tmp_path):
    source = _make_workdir(make_config(source_words), tmp_path / "source")
    with pytest.raises(UsageError, match=re.escape(message)):
        origin.check_scheme(make_config(target_words), source)


@pytest.mark.parametrize(
    ("source_words", "target_words", "messages"),
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
def test_a_run_with_the_same_scheme_or_plain_text_is_a_start(source_words, target_words, messages, tmp_path):
    source = _make_workdir(make_config(source_words), tmp_path / "source")
    assert origin.check_scheme(make_config(target_words), source) == messages


@pytest.mark.parametrize("start", [".", "seed_0"])
def test_the_start_is_checked_before_records_are_loaded(start, tmp_path):
    """Also where it is one of several seeds, whose config and vocabulary lie in the folder above."""
    config = make_config("tabbert:smoke,task=fraud")
    source = _make_workdir(make_config("tabbert:smoke,as_published"), tmp_path / "source")
    (source / "vocabulary").mkdir()
    (source / "vocabulary" / vocab.FILE).touch()
    (source / start).mkdir(exist_ok=True)
    with config.unlocked():
        config.init_from = str(source / start)

    def load_records():
        raise AssertionError("read")

    with pytest.raises(UsageError, match=r"scheme\.signs was False there"):
        assemble(config, tmp_path / "run", load_records)
    # The same holds in a workdir that already has its vocabulary.
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    system: Any = types.SimpleNamespace(config=config)
    compiled: Any = types.SimpleNamespace(mesh=mesh)
    with pytest.raises(UsageError, match=r"scheme\.signs was False there"):
        inherit.load_pretrained(system, compiled, TrainState(jnp.int32(0), {}, ()), source / start)


def test_missing_options_are_the_defaults_and_changed_number_options_are_reported(tmp_path):
    config = make_config("luna:smoke,numbed=dice")
    config.scheme.rules = "default"
    source = _make_workdir(config, tmp_path / "source")
    with config.unlocked():
        del config.scheme["rules"]
        config.embeds.numeral.update(of="log", sphere=3)
    assert origin.check_scheme(config, source) == ["embeds.numeral.sphere was 10 there and is 3 here"]
    with config.unlocked():
        del config.scheme["types"]
    with pytest.raises(UsageError, match=r"scheme\.types was True there and is False here"):
        origin.check_scheme(config, source)
    assert origin.check_scheme(config, tmp_path / "files of others") == []
