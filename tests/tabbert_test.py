"""TabBERT: cells, bins, windows, hidden states and losses as the authors' code gives them; and what is mended."""

from __future__ import annotations

import json
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.bundled.data.creditrans import read
from numjax.model import Model
from numjax.nn import characters
from numjax.nn import grammar as masks
from numjax.tasks import transactions
from numjax.text import rows
from numjax.text.vocab import cells
from numjax.types import Batch, Targets, Tokens
from tests import drawn
from tests.number_encoders_test import bidirectional, embedded

REGRESSION_EPSILON = 1e-12
KINDS = dict.fromkeys(transactions.COLUMNS, "label") | {"Timestamp": "time", "Amount": "amount"}


@pytest.fixture(scope="module")
def reference(real_data):
    return real_data("tabbert_reference")


@pytest.fixture(scope="module")
def table(real_data):
    """Every row of user 0."""
    path = next(real_data("creditrans").glob("*.csv.gz"))
    return [read.parse_transaction(cells) for _, cells in read.read_table(path)]


def texts(found, zeros="") -> list[list[str]]:
    """Cells as the task writes them."""
    return transactions.Task(time={"": "s", "000000": "us"}[zeros])._parse_rows(
        {"rows": [list(row.cells) for row in found]}
    )


@pytest.mark.parametrize("which", ["400 rows", "all rows"])
def test_bins_and_labels_are_the_authors(which, reference, table):
    if which == "400 rows":
        told = json.loads((reference / "vocab_and_losses.json").read_text())
        encoded, found = np.load(reference / "data_and_outputs.npz")["encoded_rows"], table[:400]
        edges = told["timestamp_bin_edges"], told["amount_bin_edges"]
        sizes = {name: len(told["vocab"][name]) for name in transactions.COLUMNS}
    else:
        told = json.loads((reference / "full_file_encoding.json").read_text())
        arrays = np.load(reference / "full_file_encoding.npz")
        encoded, found = arrays["encoded_rows"], table
        edges = arrays["timestamp_bin_edges"], arrays["amount_bin_edges"]
        sizes = told["vocab_sizes"]
    mine = texts(found, "000000")
    vocabulary = cells.Cells(cells.fit(mine, KINDS, signed=False))
    for column, want in zip((2, 3), edges, strict=True):
        np.testing.assert_allclose(vocabulary.columns[column].edges, want, rtol=1e-12, atol=1e-12)
    for i, column in enumerate(vocabulary.columns):
        values = [row[i] for row in mine]
        if column.kind == "label":
            # Theirs are numbered in the order of the values, unknown zips being 0.
            numeric = column.name in ("Merchant Name", "Zip", "MCC", "User", "Card")
            ranks = {v: int(v.replace(rows.MISSING, "0").removesuffix(".0")) if numeric else v for v in set(values)}
            order = {v: place for place, v in enumerate(sorted(ranks, key=ranks.__getitem__))}
            got = [int(v) for v in values] if column.name in ("User", "Card") else [order[v] for v in values]
        else:
            got = column.bin_numbers([float(v) for v in values])[0]
        np.testing.assert_array_equal(got, encoded[:, i], err_msg=column.name)
        assert len(column.values) == sizes[column.name]
        counts = [values.count(v) for v in column.values] if column.kind == "label" else []
        assert counts == sorted(counts, reverse=True), "the most frequent first"
    np.testing.assert_array_equal([row.fraud for row in found], encoded[:, 11])


def test_windows_are_the_authors(reference, table):
    told = json.loads((reference / "vocab_and_losses.json").read_text())
    arrays = np.load(reference / "data_and_outputs.npz")
    assert [w.label for w in read.make_windows(table[:400], 5)] == told["window_label"]
    frauds = [[row.fraud for row in w.rows] for w in read.make_windows(table[:400], 5)]
    np.testing.assert_array_equal(frauds, arrays["window_row_labels"])
    every = np.load(reference / "full_file_encoding.npz")["window_label"]
    np.testing.assert_array_equal([w.label for w in read.make_windows(table, 5)], every)


class Theirs:
    """The first 400 rows under a scheme whose ids are the reference's, and the weights there."""

    def __init__(self, folder, table):
        self.told = json.loads((folder / "vocab_and_losses.json").read_text())
        self.arrays, self.weights = np.load(folder / "data_and_outputs.npz"), np.load(folder / "weights.npz")
        # Ties in frequency lie otherwise there: each token keeps its place.
        found = json.loads(cells.fit(texts(table[:400], "000000"), KINDS, signed=False))
        for column in found:
            name = column["name"]
            tokens = [token for token, _, _ in self.told["vocab"][name]]
            if column["kind"] != "label":
                column["values"] = [str(int(token)) for token in tokens]
            elif name not in ("User", "Card"):
                classes = [str(c) for c in self.told["label_encoder_classes"][name]]
                values = [classes[token] for token in tokens]
                column["values"] = [rows.MISSING if name == "Zip" and v == "0.0" else v for v in values]
        self.vocab = cells.Cells(json.dumps(found).encode())
        self.scheme = rows.Scheme(self.vocab, numbers=transactions.NUMBERS, signs=False)
        task = transactions.Task(time="us")
        records = [{"id": "w", "rows": [list(r.cells) for r in w.rows]} for w in read.make_windows(table[:400], 5)]
        self.features = [self.scheme.encode(task.example(record, self.scheme.parse).document) for record in records]

    def tokens(self, ids) -> Tokens:
        flat = np.asarray(ids, np.int32).reshape(len(ids), -1)
        positions = np.broadcast_to(np.arange(flat.shape[1], dtype=np.int32), flat.shape)
        return Tokens(flat, positions, np.ones_like(flat))

    def states(self, count: int) -> np.ndarray:
        return np.broadcast_to(np.arange(120, dtype=np.int32) % 12, (count, 120))


@pytest.fixture(scope="module")
def theirs(reference, table):
    return Theirs(reference, table)


def test_ids_are_the_authors(theirs):
    ids = np.stack([found.ids for found in theirs.features]).reshape(-1, 10, 12)
    np.testing.assert_array_equal(ids, theirs.arrays["window_ids"])
    for name, listed in theirs.told["vocab"].items():
        column = {c: i for i, c in enumerate(transactions.COLUMNS)}.get(name, -1)
        assert name == "Is Fraud?" or [theirs.vocab.locate(g) for _, g, _ in listed] == [
            (column, l) for _, _, l in listed
        ]
    assert theirs.vocab.mark("[NUM]") == 185, "theirs has a value of Is Fraud? there, which no cell has"


BLOCKS = {
    "backbone": dict(
        name="tabular", width=16, columns=12, layers=2, heads=12, mlp_ratio=0.5, field_heads=2, field_mlp_width=16
    ),
    "masked": dict(name="masked", inner=192, tied=False),
}


def model_of(scheme, fusion=None, **heads) -> Model:
    known = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=16, dim=16, digits=20)
    embeds, fusions = {"token": build("embed", {"name": "token"}, **known)}, {}
    if fusion:
        embeds["numeral"] = build("embed", dict(name="char_lstm", dim=16, hidden=8, layers=2), **known)
        fusions["numeral"] = fusion
    found = {name: build("heads", block, **known) for name, block in (heads or {"masked": BLOCKS["masked"]}).items()}
    return Model(
        FrozenDict(embeds),
        FrozenDict(fusions),
        drawn.stack(BLOCKS["backbone"]),
        FrozenDict(found),
    )


def attention(w, name, parts, heads) -> dict[str, np.ndarray]:
    """qkv and output of three PyTorch layers, [out, in] each."""
    width = parts[0][0].shape[1]
    kernel = np.stack([k.T.reshape(width, heads, -1) for k, _ in parts], axis=1)
    bias = np.stack([b.reshape(heads, -1) for _, b in parts])
    return {
        "qkv_kernel": kernel,
        "qkv_bias": bias,
        "out_kernel": w[f"{name}.weight"].T,
        "out_bias": w[f"{name}.bias"],
    }


def dense(w, **names) -> dict[str, np.ndarray]:
    found = {}
    for mine, name in names.items():
        kinds = ("scale", "bias") if mine.startswith("ln") else ("kernel", "bias")
        weight = w[f"{name}.weight"]
        found[f"{mine}_{kinds[0]}"] = weight if mine.startswith("ln") else weight.T
        found[f"{mine}_{kinds[1]}"] = w[f"{name}.bias"]
    return found


def params_of(w, vocab_size: int):
    def padded(x):
        # Row 185 is that of Is Fraud?, [NUM] here.
        return np.pad(x, [(0, vocab_size - len(x))] + [(0, 0)] * (x.ndim - 1))

    layer = "tab_embeddings.transformer_encoder.layers.0"
    qkv = zip(
        np.split(w[f"{layer}.self_attn.in_proj_weight"], 3),
        np.split(w[f"{layer}.self_attn.in_proj_bias"], 3),
        strict=True,
    )
    fields = attention(w, f"{layer}.self_attn.out_proj", list(qkv), 2)
    fields |= dense(w, ln_1=f"{layer}.norm1", ln_2=f"{layer}.norm2", up=f"{layer}.linear1", down=f"{layer}.linear2")
    bert = "tb_model.bert"
    stack = {
        "order_sequence": {"places": w[f"{bert}.embeddings.position_embeddings.weight"]},
        "types_0": w[f"{bert}.embeddings.token_type_embeddings.weight"],
        **dense(w, ln_0=f"{bert}.embeddings.LayerNorm"),
    }
    for i in range(2):
        at = f"{bert}.encoder.layer.{i}"
        parts = [
            (w[f"{at}.attention.self.{n}.weight"], w[f"{at}.attention.self.{n}.bias"])
            for n in ("query", "key", "value")
        ]
        stack[f"layer_{i}"] = attention(w, f"{at}.attention.output.dense", parts, 12) | dense(
            w,
            ln_1=f"{at}.attention.output.LayerNorm",
            ln_2=f"{at}.output.LayerNorm",
            up=f"{at}.intermediate.dense",
            down=f"{at}.output.dense",
        )
    head = "tb_model.cls.predictions"
    return {
        "embeds_token": {"table": padded(w["tab_embeddings.word_embeddings.weight"])},
        "backbone": {
            "fields_0": fields,
            "kernel": w["tab_embeddings.lin_proj.weight"].T,
            "bias": w["tab_embeddings.lin_proj.bias"],
            "rows": stack,
        },
        "heads_masked": {
            "kernel": padded(w[f"{bert}.embeddings.word_embeddings.weight"]),
            "bias": padded(w[f"{head}.bias"]),
            **dense(w, transform=f"{head}.transform.dense", ln=f"{head}.transform.LayerNorm"),
        },
    }


def objective(scheme):
    return build(
        "objectives",
        dict(name="nll", head="masked", average="columns", columns=12, constrain=True, given=False),
        grammar=scheme.grammar(),
    )


@pytest.mark.parametrize("case", ["clean_all_labels", "masked", "masked_input_all_labels"])
def test_hidden_states_scores_and_losses_are_the_authors(case, theirs):
    model, scheme = model_of(theirs.scheme), theirs.scheme
    params = params_of(theirs.weights, scheme.vocab_size)
    ids, labels = theirs.arrays[f"{case}_input_ids"], theirs.arrays[f"{case}_labels"].reshape(4, 120)
    targets = Targets(np.maximum(labels, 0).astype(np.int32), labels >= 0)
    batch = Batch(theirs.tokens(ids), targets, grammar_state=theirs.states(4))
    outs, acts = jax.jit(model.apply)({"params": params}, batch)
    if f"{case}_field_encoder_output" in theirs.arrays:
        fields = theirs.arrays[f"{case}_field_encoder_output"].transpose(1, 0, 2).reshape(4, 120, 16)
        np.testing.assert_allclose(acts["fields"], fields, atol=1e-4)
        np.testing.assert_allclose(acts["rows"], theirs.arrays[f"{case}_row_embeddings"], atol=1e-4)
        final = theirs.arrays[f"{case}_sequence_output"].reshape(4, 120, 16)
        np.testing.assert_allclose(acts["final"], final, atol=1e-4)
        scores = outs["masked"].hidden @ params["heads_masked"]["kernel"].T + params["heads_masked"]["bias"]
        np.testing.assert_allclose(scores[..., :186], theirs.arrays[f"{case}_prediction_scores"], atol=1e-4)
    want = theirs.told["mlm"][case]
    loss = objective(scheme)(model.heads, outs, acts, batch)
    np.testing.assert_allclose(loss.total / loss.count, want["loss"], rtol=1e-5)
    allowed = masks.allowed_tokens(scheme.grammar(), jnp.asarray(theirs.states(4)), allow_given=False)
    each = np.asarray(model.heads["masked"].log_prob(outs["masked"], targets, allowed)["token"]).reshape(-1, 12)
    mask = (labels >= 0).reshape(-1, 12)
    for i, name in enumerate([*transactions.COLUMNS, "SPECIAL"]):
        told = want["per_field"][name]
        assert mask[:, i].sum() == told["labels"]
        mean = -each[mask[:, i], i].mean() if told["labels"] else 0.0
        np.testing.assert_allclose(mean, told["loss"], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------------------
# LUNA's number plugin.


@pytest.mark.parametrize("fusion", ["add", "replace"])
def test_numbers_join_their_cells_as_in_lunas_code(fusion, reference, theirs):
    """Features, masked sequence output and all losses, those of the released code (every cell is scored) too."""
    told = json.loads((reference / "luna_numeric.json").read_text())
    arrays, more = np.load(reference / "luna_numeric_outputs.npz"), np.load(reference / "luna_numeric_weights.npz")
    scheme, name = theirs.scheme, {"add": "addback", "replace": "replace"}[fusion]
    regression = dict(name="regression", inner=192, dropout=0.0, epsilon=REGRESSION_EPSILON)
    model = model_of(scheme, fusion, masked=BLOCKS["masked"], number=regression)
    params = params_of(theirs.weights, scheme.vocab_size)
    params["embeds_token"]["table"][186] = more["num_token_embedding_row"]
    at = "tab_embeddings.number_model.model."
    char = {key.removeprefix(at): more[key] for key in more.files if key.startswith(at)}
    params["embeds_numeral"] = embedded(char) | bidirectional(char, 2)
    if fusion == "replace":
        # Their cell is the row of [NUM] with the number's vector added.
        params["embeds_numeral"]["bias"] = params["embeds_numeral"]["bias"] + more["num_token_embedding_row"]
    head = "tb_model.cls.predictions.reg_head"
    params["heads_number"] = dense(more, transform=f"{head}.fc1", value=f"{head}.fc2", ln=f"{head}.ln")

    surfaces = [[s for row in window for s in row] for window in told["number_strings"]]
    table = drawn.numeral_table([[Decimal(s) for s in row] for row in surfaces], 20)
    read_ids = np.stack([characters.encode_surfaces(row, 32) for row in surfaces])
    index = np.full((4, 10, 12), -1, np.int32)
    index[..., told["number_columns"]] = np.arange(40).reshape(10, 4)
    index = index.reshape(4, 120)
    ids = arrays["input_ids"].reshape(4, 120)

    def tokens(ids, index):
        return theirs.tokens(ids)._replace(
            numeral_index=index, numerals=table, features={"numeral/characters": read_ids}
        )

    apply = jax.jit(model.apply)
    _, acts = apply({"params": params}, Batch(tokens(ids, index)))
    np.testing.assert_allclose(acts["final"].reshape(4, 10, 192), arrays[f"{name}.features_unmasked"], atol=1e-4)
    masked, random, chosen = (
        arrays[key].reshape(4, 120) for key in ("replaced_by_mask", "replaced_by_random", "masked")
    )
    hidden = np.where(masked, 4, np.where(random, arrays["random_words"].reshape(4, 120), ids))
    inputs = tokens(hidden, np.where(masked | random, -1, index))
    for labels, mask in (("released", np.ones_like(chosen)), ("fixed", chosen)):
        batch = Batch(inputs, Targets(ids, mask, index), grammar_state=theirs.states(4))
        outs, acts = apply({"params": params}, batch)
        final = arrays[f"{name}.sequence_output_masked"].reshape(4, 120, 16)
        np.testing.assert_allclose(acts["final"], final, atol=1e-4)
        classified = objective(scheme)(model.heads, outs, acts, batch)
        want = told["losses"][f"{name}|labels={labels}|regression=False"]["loss"]
        np.testing.assert_allclose(classified.total / classified.count, want, rtol=1e-5)
        numbers = build("objectives", dict(name="number", head="number", average="columns", columns=12))
        regressed = numbers(model.heads, outs, acts, batch)
        total = classified.total / classified.count + regressed.total / regressed.count
        want = told["losses"][f"{name}|labels={labels}|regression=True"]["loss"]
        np.testing.assert_allclose(total, want, rtol=1e-5)
