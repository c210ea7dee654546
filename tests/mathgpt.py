"""The numbers that MathGPT's released code gives on tiny random weights (see SOURCE.md beside them)."""

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
def scheme(data: pathlib.Path) -> trees_published.Scheme:
    """The scheme around the original's vocabularies."""
    marks = trees_published.Scheme.marks_of({"path": str(data / "mathgpt_vocab/vocab.json")})
    return trees_published.Scheme(vocab.build({"name": "gpt2", "path": str(data / "tokenizers/gpt2")}, marks=marks))


@functools.cache
def cases(data: pathlib.Path) -> dict[str, Any]:
    return json.loads(gzip.decompress((data / "mathgpt_reference/cases.json.gz").read_bytes()))


def offsets(first: int) -> np.ndarray:
    """The first id of each token type."""
    starts = np.cumsum([first, *SIZES.values()])
    return np.asarray([0, *starts[:-1], 0])


def flat(data: pathlib.Path, ids, types) -> np.ndarray:
    """Ids of the one vocabulary from ids within their types."""
    return np.asarray(ids) + offsets(scheme(data).symbols.first)[np.asarray(types)]


def to_layout(data: pathlib.Path, x: np.ndarray) -> np.ndarray:
    """The last axis from our vocabulary to the original's: text, then mathematics."""
    first = scheme(data).symbols.first
    return np.concatenate([x[..., : END_OF_TEXT + 1], x[..., first : first + sum(SIZES.values())]], axis=-1)


def document(article: dict[str, Any]) -> tuple:
    """An article as the original cuts it: each stretch of text by itself, an empty one from the third on a blank."""
    chunks = article["text"].split("[_mathGPT_formula_]")
    out: list[Any] = []
    for i, chunk in enumerate(chunks):
        last = i == len(chunks) - 1
        out.append(Text(" " if not chunk and i > 1 and not last else chunk))
        if not last and str(i) in article["formulas"]:
            out.append(Formula("", from_json(article["formulas"][str(i)]["opt"])))
    return tuple(segment for segment in out if segment != Text(""))


def documents(case: dict[str, Any]) -> list[tuple]:
    """The segments of a case, tokenised apart."""
    article = case["article"]
    if "text" in article:
        return [document(article)]
    prompt = article["prompt"] | {"text": "Question: " + article["prompt"]["text"]}
    return [document(prompt), (Text("[SEP] Equation: "),), document(article["label"])]


def levels_of(positions: np.ndarray) -> list[list[int]]:
    """Rows of −1-padded indices as lists."""
    return [[int(i) for i in row if i >= 0] for row in positions]


@functools.cache
def outputs(data: pathlib.Path) -> dict[str, np.ndarray]:
    return dict(np.load(data / "mathgpt_reference/outputs.npz"))


@functools.cache
def model(data: pathlib.Path) -> Model:
    """The original's default model at its tiny size."""
    of = scheme(data)
    first, pieces = of.symbol_pieces()
    known = dict(
        vocab_size=of.vocab_size, size=of.vocab.size, width=64, dim=64, symbols=(first, pieces),
        symbol_range=(first, len(pieces)),
    )  # fmt: skip
    names = ("linked", "token_type")
    embeds = {name: build("embed", {"name": name}, **known) for name in names}
    backbone = drawn.stack(
        dict(name="decoder", width=64, layers=2, heads=4, max_length=256), drawn.LEARNED | {"tree": {"name": "tree"}}
    )
    heads = {"next": build("heads", {"name": "joint"}, **known)}
    return Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(heads))


@functools.cache
def weights(data: pathlib.Path) -> dict[str, np.ndarray]:
    found = np.load(data / "mathgpt_reference/weights.npz")
    return {name: found[name].astype(np.float32) for name in found}


@functools.cache
def params(data: pathlib.Path) -> dict[str, Any]:
    """The original's weights under our names."""
    return to_params(data, weights(data))


def to_params(data: pathlib.Path, found: dict[str, np.ndarray]) -> dict[str, Any]:
    of = scheme(data)
    _, pieces = of.symbol_pieces()
    table = np.zeros((of.vocab_size, 64), np.float32)
    table[: END_OF_TEXT + 1] = found["gpt2_lm.transformer.wte.weight"]
    rows = np.concatenate([found[f"token_embeddings.{kind}.weight"] for kind in SIZES])
    unlinked = np.asarray([not one for one in pieces])
    out: dict[str, Any] = {
        "embeds_linked": {
            "table": table,
            "special": rows[unlinked],
            "down": found["shared_emb_perturbation.0.weight"].T,
            "up": found["shared_emb_perturbation.2.weight"].T,
        },
        "embeds_token_type": {"vectors": found["type_embeddings.weight"]},
        "heads_next": {
            "math_kernel": found["math_pred_layer.weight"],
            "math_bias": found["math_pred_layer.bias"],
        },
    }
    gpt = "gpt2_lm.transformer."
    backbone: dict[str, Any] = {
        "order_sequence": {"places": found[gpt + "wpe.weight"]},
        "order_tree": {"kernel": found["math_embedding_projection.weight"].T},
        "ln_f_scale": found[gpt + "ln_f.weight"],
        "ln_f_bias": found[gpt + "ln_f.bias"],
    }
    for layer in range(2):
        h = f"{gpt}h.{layer}."
        backbone[f"layer_{layer}"] = {
            "ln_1_scale": found[h + "ln_1.weight"],
            "ln_1_bias": found[h + "ln_1.bias"],
            "qkv_kernel": found[h + "attn.c_attn.weight"].reshape(64, 3, 4, 16),
            "qkv_bias": found[h + "attn.c_attn.bias"].reshape(3, 4, 16),
            "out_kernel": found[h + "attn.c_proj.weight"],
            "out_bias": found[h + "attn.c_proj.bias"],
            "ln_2_scale": found[h + "ln_2.weight"],
            "ln_2_bias": found[h + "ln_2.bias"],
            "up_kernel": found[h + "mlp.c_fc.weight"],
            "up_bias": found[h + "mlp.c_fc.bias"],
            "down_kernel": found[h + "mlp.c_proj.weight"],
            "down_bias": found[h + "mlp.c_proj.bias"],
        }
    return out | {"backbone": backbone}


def batch(data: pathlib.Path, which: list[dict[str, Any]], length: int, label_only: bool = False) -> Batch:
    """Cases as a padded language-model batch. What follows a token that the grammar cannot read has state 0."""
    grammar = scheme(data).grammar()
    shape = (len(which), length)
    ids, types, states, targets = (np.zeros(shape, np.int32) for _ in range(4))
    places = np.full((*shape, 32), -1, np.int32)
    segments, mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for b, case in enumerate(which):
        row = flat(data, case["token_ids"], case["token_types"])
        n = len(row)
        trace = grammars.run(grammar, row)
        assert trace.types is not None and trace.tree_positions is not None
        ids[b, :n], types[b, :n], segments[b, :n] = row, trace.types, 1
        # Text stands in no tree, even after a formula that was opened and never written.
        places[b, :n] = np.where(trace.types[:, None] == 0, -1, trace.tree_positions)
        targets[b, : n - 1], states[b, :n] = row[1:], np.maximum(trace.states[1:], 0)
        mask[b, case["prompt_length"] - 1 if label_only else 0 : n - 1] = True
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), shape)
    tokens = Tokens(ids, positions, segments, channels={"types": types, "tree_positions": places})
    return Batch(tokens, Targets(targets, mask), grammar_state=states, valid=np.ones(len(which), bool))
