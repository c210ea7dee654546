"""Loads the outputs of MathGPT's released code on tiny random weights. SOURCE.md beside them tells their origin."""

from __future__ import annotations

import functools
import gzip
import json
import pathlib
from typing import Any

import numpy as np
from flax.core import FrozenDict

from numjax.build import build
from numjax.expr.tree import from_json
from numjax.model import Model
from numjax.text import trees_published, vocab
from numjax.text.grammar import automaton as grammars
from numjax.types import Batch, Formula, Targets, Text, Tokens
from tests import drawn

END_OF_TEXT = 50256
# Sizes of START, END_FORMULA, VAR, NUM, OP and END in the output layer, by token type.
SIZES = {1: 1, 2: 1, 3: 1182, 4: 12, 5: 1805, 6: 1}


@functools.cache
def load_scheme(data: pathlib.Path) -> trees_published.Scheme:
    """Loads the scheme with the vocabularies of the original code."""
    marks = trees_published.Scheme.marks_of({"path": str(data / "mathgpt_vocab/vocab.json")})
    return trees_published.Scheme(vocab.build({"name": "gpt2", "path": str(data / "tokenizers/gpt2")}, marks=marks))


@functools.cache
def load_cases(data: pathlib.Path) -> dict[str, Any]:
    return json.loads(gzip.decompress((data / "mathgpt_reference/cases.json.gz").read_bytes()))


def compute_offsets(first: int) -> np.ndarray:
    """Returns the first id of each token type."""
    starts = np.cumsum([first, *SIZES.values()])
    return np.asarray([0, *starts[:-1], 0])


def flatten_ids(data: pathlib.Path, ids, types) -> np.ndarray:
    """Converts ids within token types to ids of our single vocabulary."""
    return np.asarray(ids) + compute_offsets(load_scheme(data).symbols.first)[np.asarray(types)]


def convert_layout(data: pathlib.Path, x: np.ndarray) -> np.ndarray:
    """Converts the last axis from our vocabulary to that of the original: text, then mathematics."""
    first = load_scheme(data).symbols.first
    return np.concatenate([x[..., : END_OF_TEXT + 1], x[..., first : first + sum(SIZES.values())]], axis=-1)


def make_document(article: dict[str, Any]) -> tuple:
    """Splits an article as the original does. Each stretch of text is a segment of its own.

    An empty stretch becomes a blank, from the third stretch to the last but one.
    """
    chunks = article["text"].split("[_mathGPT_formula_]")
    segments: list[Any] = []
    for i, chunk in enumerate(chunks):
        is_last = i == len(chunks) - 1
        segments.append(Text(" " if not chunk and i > 1 and not is_last else chunk))
        if not is_last and str(i) in article["formulas"]:
            segments.append(Formula("", from_json(article["formulas"][str(i)]["opt"])))
    return tuple(segment for segment in segments if segment != Text(""))


def make_documents(case: dict[str, Any]) -> list[tuple]:
    """Returns the documents of a case. The original tokenises each by itself."""
    article = case["article"]
    if "text" in article:
        return [make_document(article)]
    prompt = article["prompt"] | {"text": "Question: " + article["prompt"]["text"]}
    return [make_document(prompt), (Text("[SEP] Equation: "),), make_document(article["label"])]


def list_levels(positions: np.ndarray) -> list[list[int]]:
    """Converts rows of indices to lists, without their padding of −1."""
    return [[int(i) for i in row if i >= 0] for row in positions]


@functools.cache
def load_outputs(data: pathlib.Path) -> dict[str, np.ndarray]:
    return dict(np.load(data / "mathgpt_reference/outputs.npz"))


@functools.cache
def build_model(data: pathlib.Path) -> Model:
    """Builds the default model of the original at the tiny size of the reference."""
    tree_scheme = load_scheme(data)
    first, pieces = tree_scheme.symbol_pieces()
    context = dict(
        vocab_size=tree_scheme.vocab_size, size=tree_scheme.vocab.size, width=64, dim=64, symbols=(first, pieces),
        symbol_range=(first, len(pieces)),
    )  # fmt: skip
    names = ("linked", "token_type")
    embeds = {name: build("embed", {"name": name}, **context) for name in names}
    backbone = drawn.build_backbone(
        dict(name="decoder", width=64, layers=2, heads=4, max_length=256),
        drawn.LEARNED_POSITIONS | {"tree": {"name": "tree"}},
    )
    heads = {"next": build("heads", {"name": "joint"}, **context)}
    return Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(heads))


@functools.cache
def load_weights(data: pathlib.Path) -> dict[str, np.ndarray]:
    arrays = np.load(data / "mathgpt_reference/weights.npz")
    return {name: arrays[name].astype(np.float32) for name in arrays}


@functools.cache
def load_params(data: pathlib.Path) -> dict[str, Any]:
    """Loads the weights of the original under our names."""
    return convert_params(data, load_weights(data))


def convert_params(data: pathlib.Path, weights: dict[str, np.ndarray]) -> dict[str, Any]:
    tree_scheme = load_scheme(data)
    _, pieces = tree_scheme.symbol_pieces()
    table = np.zeros((tree_scheme.vocab_size, 64), np.float32)
    table[: END_OF_TEXT + 1] = weights["gpt2_lm.transformer.wte.weight"]
    rows = np.concatenate([weights[f"token_embeddings.{kind}.weight"] for kind in SIZES])
    is_unlinked = np.asarray([not piece for piece in pieces])
    params: dict[str, Any] = {
        "embeds_linked": {
            "table": table,
            "special": rows[is_unlinked],
            "down": weights["shared_emb_perturbation.0.weight"].T,
            "up": weights["shared_emb_perturbation.2.weight"].T,
        },
        "embeds_token_type": {"vectors": weights["type_embeddings.weight"]},
        "heads_next": {
            "math_kernel": weights["math_pred_layer.weight"],
            "math_bias": weights["math_pred_layer.bias"],
        },
    }
    prefix = "gpt2_lm.transformer."
    backbone: dict[str, Any] = {
        "order_sequence": {"places": weights[prefix + "wpe.weight"]},
        "order_tree": {"kernel": weights["math_embedding_projection.weight"].T},
        "ln_f_scale": weights[prefix + "ln_f.weight"],
        "ln_f_bias": weights[prefix + "ln_f.bias"],
    }
    for layer in range(2):
        layer_prefix = f"{prefix}h.{layer}."
        backbone[f"layer_{layer}"] = {
            "ln_1_scale": weights[layer_prefix + "ln_1.weight"],
            "ln_1_bias": weights[layer_prefix + "ln_1.bias"],
            "qkv_kernel": weights[layer_prefix + "attn.c_attn.weight"].reshape(64, 3, 4, 16),
            "qkv_bias": weights[layer_prefix + "attn.c_attn.bias"].reshape(3, 4, 16),
            "out_kernel": weights[layer_prefix + "attn.c_proj.weight"],
            "out_bias": weights[layer_prefix + "attn.c_proj.bias"],
            "ln_2_scale": weights[layer_prefix + "ln_2.weight"],
            "ln_2_bias": weights[layer_prefix + "ln_2.bias"],
            "up_kernel": weights[layer_prefix + "mlp.c_fc.weight"],
            "up_bias": weights[layer_prefix + "mlp.c_fc.bias"],
            "down_kernel": weights[layer_prefix + "mlp.c_proj.weight"],
            "down_bias": weights[layer_prefix + "mlp.c_proj.bias"],
        }
    return params | {"backbone": backbone}


def make_batch(data: pathlib.Path, cases: list[dict[str, Any]], length: int, label_only: bool = False) -> Batch:
    """Makes a padded language-model batch of cases. The state is 0 after a token that the grammar rejects."""
    grammar = load_scheme(data).grammar()
    shape = (len(cases), length)
    ids, types, states, targets = (np.zeros(shape, np.int32) for _ in range(4))
    tree_positions = np.full((*shape, 32), -1, np.int32)
    segments, mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for b, case in enumerate(cases):
        row = flatten_ids(data, case["token_ids"], case["token_types"])
        n = len(row)
        trace = grammars.run(grammar, row)
        assert trace.types is not None and trace.tree_positions is not None
        ids[b, :n], types[b, :n], segments[b, :n] = row, trace.types, 1
        # Text has no tree position, even after a formula that has a start mark and no symbols.
        tree_positions[b, :n] = np.where(trace.types[:, None] == 0, -1, trace.tree_positions)
        targets[b, : n - 1], states[b, :n] = row[1:], np.maximum(trace.states[1:], 0)
        mask[b, case["prompt_length"] - 1 if label_only else 0 : n - 1] = True
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), shape)
    tokens = Tokens(ids, positions, segments, channels={"types": types, "tree_positions": tree_positions})
    return Batch(tokens, Targets(targets, mask), grammar_state=states, valid=np.ones(len(cases), bool))
