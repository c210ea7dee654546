"""TabBERT: cells, bins, windows, hidden states and losses equal those of the authors' code, and of its fixed form."""

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


def write_cells(table, zeros="") -> list[list[str]]:
    """Returns the cells of a table as the task writes them."""
    return transactions.Task(time={"": "s", "000000": "us"}[zeros])._parse_rows(
        {"rows": [list(row.cells) for row in table]}
    )


@pytest.mark.parametrize("part", ["400 rows", "all rows"])
def test_bins_and_labels_equal_the_authors(part, reference, table):
    if part == "400 rows":
        results = json.loads((reference / "vocab_and_losses.json").read_text())
        encoded, selected_rows = np.load(reference / "data_and_outputs.npz")["encoded_rows"], table[:400]
        edges = results["timestamp_bin_edges"], results["amount_bin_edges"]
        sizes = {name: len(results["vocab"][name]) for name in transactions.COLUMNS}
    else:
        results = json.loads((reference / "full_file_encoding.json").read_text())
        arrays = np.load(reference / "full_file_encoding.npz")
        encoded, selected_rows = arrays["encoded_rows"], table
        edges = arrays["timestamp_bin_edges"], arrays["amount_bin_edges"]
        sizes = results["vocab_sizes"]
    cell_texts = write_cells(selected_rows, "000000")
    vocabulary = cells.Cells(cells.fit(cell_texts, KINDS, signed=False))
    for column, edge_values in zip((2, 3), edges, strict=True):
        np.testing.assert_allclose(vocabulary.columns[column].edges, edge_values, rtol=1e-12, atol=1e-12)
    for i, column in enumerate(vocabulary.columns):
        values = [row[i] for row in cell_texts]
        if column.kind == "label":
            # The authors number labels in the order of their values; an unknown zip is 0.
            numeric = column.name in ("Merchant Name", "Zip", "MCC", "User", "Card")
            ranks = {v: int(v.replace(rows.MISSING, "0").removesuffix(".0")) if numeric else v for v in set(values)}
            order = {v: index for index, v in enumerate(sorted(ranks, key=ranks.__getitem__))}
            codes = [int(v) for v in values] if column.name in ("User", "Card") else [order[v] for v in values]
        else:
            codes = column.bin_numbers([float(v) for v in values])[0]
        np.testing.assert_array_equal(codes, encoded[:, i], err_msg=column.name)
        assert len(column.values) == sizes[column.name]
        counts = [values.count(v) for v in column.values] if column.kind == "label" else []
        assert counts == sorted(counts, reverse=True), "the most frequent first"
    np.testing.assert_array_equal([row.fraud for row in selected_rows], encoded[:, 11])


def test_windows_equal_the_authors(reference, table):
    results = json.loads((reference / "vocab_and_losses.json").read_text())
    arrays = np.load(reference / "data_and_outputs.npz")
    assert [w.label for w in read.make_windows(table[:400], 5)] == results["window_label"]
    frauds = [[row.fraud for row in w.rows] for w in read.make_windows(table[:400], 5)]
    np.testing.assert_array_equal(frauds, arrays["window_row_labels"])
    labels = np.load(reference / "full_file_encoding.npz")["window_label"]
    np.testing.assert_array_equal([w.label for w in read.make_windows(table, 5)], labels)


class Reference:
    """The first 400 rows, a scheme with the ids of the authors' code, and its results and weights."""

    def __init__(self, folder, table):
        self.results = json.loads((folder / "vocab_and_losses.json").read_text())
        self.arrays, self.weights = np.load(folder / "data_and_outputs.npz"), np.load(folder / "weights.npz")
        # The authors order equally frequent tokens otherwise: their order is used.
        columns = json.loads(cells.fit(write_cells(table[:400], "000000"), KINDS, signed=False))
        for column in columns:
            name = column["name"]
            tokens = [token for token, _, _ in self.results["vocab"][name]]
            if column["kind"] != "label":
                column["values"] = [str(int(token)) for token in tokens]
            elif name not in ("User", "Card"):
                classes = [str(c) for c in self.results["label_encoder_classes"][name]]
                values = [classes[token] for token in tokens]
                column["values"] = [rows.MISSING if name == "Zip" and v == "0.0" else v for v in values]
        self.vocab = cells.Cells(json.dumps(columns).encode())
        self.scheme = rows.Scheme(self.vocab, numbers=transactions.NUMBERS, signs=False)
        task = transactions.Task(time="us")
        records = [{"id": "w", "rows": [list(r.cells) for r in w.rows]} for w in read.make_windows(table[:400], 5)]
        self.features = [self.scheme.encode(task.example(record, self.scheme.parse).document) for record in records]

    def make_tokens(self, ids) -> Tokens:
        flat = np.asarray(ids, np.int32).reshape(len(ids), -1)
        positions = np.broadcast_to(np.arange(flat.shape[1], dtype=np.int32), flat.shape)
        return Tokens(flat, positions, np.ones_like(flat))

    def make_states(self, count: int) -> np.ndarray:
        return np.broadcast_to(np.arange(120, dtype=np.int32) % 12, (count, 120))


@pytest.fixture(scope="module")
def authors(reference, table):
    return Reference(reference, table)


def test_ids_equal_the_authors(authors):
    ids = np.stack([features.ids for features in authors.features]).reshape(-1, 10, 12)
    np.testing.assert_array_equal(ids, authors.arrays["window_ids"])
    for name, tokens in authors.results["vocab"].items():
        column = {c: i for i, c in enumerate(transactions.COLUMNS)}.get(name, -1)
        assert name == "Is Fraud?" or [authors.vocab.locate(g) for _, g, _ in tokens] == [
            (column, label) for _, _, label in tokens
        ]
    assert authors.vocab.mark("[NUM]") == 185, "the authors have a value of Is Fraud? there, which no cell has"


BLOCKS = {
    "backbone": dict(
        name="tabular", width=16, columns=12, layers=2, heads=12, mlp_ratio=0.5, field_heads=2, field_mlp_width=16
    ),
    "masked": dict(name="masked", inner=192, tied=False),
}


def make_model(scheme, fusion=None, **heads) -> Model:
    context = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=16, dim=16, digits=20)
    embeds, fusions = {"token": build("embed", {"name": "token"}, **context)}, {}
    if fusion:
        embeds["numeral"] = build("embed", dict(name="char_lstm", dim=16, hidden=8, layers=2), **context)
        fusions["numeral"] = fusion
    head_modules = {
        name: build("heads", block, **context) for name, block in (heads or {"masked": BLOCKS["masked"]}).items()
    }
    return Model(
        FrozenDict(embeds),
        FrozenDict(fusions),
        drawn.build_backbone(BLOCKS["backbone"]),
        FrozenDict(head_modules),
    )


def convert_attention(w, name, parts, heads) -> dict[str, np.ndarray]:
    """Returns qkv and output of three PyTorch layers, [out, in] each."""
    width = parts[0][0].shape[1]
    kernel = np.stack([k.T.reshape(width, heads, -1) for k, _ in parts], axis=1)
    bias = np.stack([b.reshape(heads, -1) for _, b in parts])
    return {
        "qkv_kernel": kernel,
        "qkv_bias": bias,
        "out_kernel": w[f"{name}.weight"].T,
        "out_bias": w[f"{name}.bias"],
    }


def convert_dense(w, **names) -> dict[str, np.ndarray]:
    params = {}
    for key, name in names.items():
        kinds = ("scale", "bias") if key.startswith("ln") else ("kernel", "bias")
        weight = w[f"{name}.weight"]
        params[f"{key}_{kinds[0]}"] = weight if key.startswith("ln") else weight.T
        params[f"{key}_{kinds[1]}"] = w[f"{name}.bias"]
    return params


def convert_params(w, vocab_size: int):
    def pad_rows(x):
        # Row 185 belongs to Is Fraud? there and to [NUM] here.
        return np.pad(x, [(0, vocab_size - len(x))] + [(0, 0)] * (x.ndim - 1))

    layer = "tab_embeddings.transformer_encoder.layers.0"
    qkv = zip(
        np.split(w[f"{layer}.self_attn.in_proj_weight"], 3),
        np.split(w[f"{layer}.self_attn.in_proj_bias"], 3),
        strict=True,
    )
    fields = convert_attention(w, f"{layer}.self_attn.out_proj", list(qkv), 2)
    fields |= convert_dense(
        w, ln_1=f"{layer}.norm1", ln_2=f"{layer}.norm2", up=f"{layer}.linear1", down=f"{layer}.linear2"
    )
    bert = "tb_model.bert"
    stack = {
        "order_sequence": {"places": w[f"{bert}.embeddings.position_embeddings.weight"]},
        "types_0": w[f"{bert}.embeddings.token_type_embeddings.weight"],
        **convert_dense(w, ln_0=f"{bert}.embeddings.LayerNorm"),
    }
    for i in range(2):
        prefix = f"{bert}.encoder.layer.{i}"
        parts = [
            (w[f"{prefix}.attention.self.{n}.weight"], w[f"{prefix}.attention.self.{n}.bias"])
            for n in ("query", "key", "value")
        ]
        stack[f"layer_{i}"] = convert_attention(w, f"{prefix}.attention.output.dense", parts, 12) | convert_dense(
            w,
            ln_1=f"{prefix}.attention.output.LayerNorm",
            ln_2=f"{prefix}.output.LayerNorm",
            up=f"{prefix}.intermediate.dense",
            down=f"{prefix}.output.dense",
        )
    head = "tb_model.cls.predictions"
    return {
        "embeds_token": {"table": pad_rows(w["tab_embeddings.word_embeddings.weight"])},
        "backbone": {
            "fields_0": fields,
            "kernel": w["tab_embeddings.lin_proj.weight"].T,
            "bias": w["tab_embeddings.lin_proj.bias"],
            "rows": stack,
        },
        "heads_masked": {
            "kernel": pad_rows(w[f"{bert}.embeddings.word_embeddings.weight"]),
            "bias": pad_rows(w[f"{head}.bias"]),
            **convert_dense(w, transform=f"{head}.transform.dense", ln=f"{head}.transform.LayerNorm"),
        },
    }


def make_objective(scheme):
    return build(
        "objectives",
        dict(name="nll", head="masked", average="columns", columns=12, constrain=True, given=False),
        grammar=scheme.grammar(),
    )


@pytest.mark.parametrize("case", ["clean_all_labels", "masked", "masked_input_all_labels"])
def test_hidden_states_scores_and_losses_equal_the_authors(case, authors):
    model, scheme = make_model(authors.scheme), authors.scheme
    params = convert_params(authors.weights, scheme.vocab_size)
    ids, labels = authors.arrays[f"{case}_input_ids"], authors.arrays[f"{case}_labels"].reshape(4, 120)
    targets = Targets(np.maximum(labels, 0).astype(np.int32), labels >= 0)
    batch = Batch(authors.make_tokens(ids), targets, grammar_state=authors.make_states(4))
    outs, acts = jax.jit(model.apply)({"params": params}, batch)
    if f"{case}_field_encoder_output" in authors.arrays:
        fields = authors.arrays[f"{case}_field_encoder_output"].transpose(1, 0, 2).reshape(4, 120, 16)
        np.testing.assert_allclose(acts["fields"], fields, atol=1e-4)
        np.testing.assert_allclose(acts["rows"], authors.arrays[f"{case}_row_embeddings"], atol=1e-4)
        final = authors.arrays[f"{case}_sequence_output"].reshape(4, 120, 16)
        np.testing.assert_allclose(acts["final"], final, atol=1e-4)
        scores = outs["masked"].hidden @ params["heads_masked"]["kernel"].T + params["heads_masked"]["bias"]
        np.testing.assert_allclose(scores[..., :186], authors.arrays[f"{case}_prediction_scores"], atol=1e-4)
    expected = authors.results["mlm"][case]
    loss = make_objective(scheme)(model.heads, outs, acts, batch)
    np.testing.assert_allclose(loss.total / loss.count, expected["loss"], rtol=1e-5)
    allowed = masks.allowed_tokens(scheme.grammar(), jnp.asarray(authors.make_states(4)), allow_given=False)
    log_probs = np.asarray(model.heads["masked"].log_prob(outs["masked"], targets, allowed)["token"]).reshape(-1, 12)
    mask = (labels >= 0).reshape(-1, 12)
    for i, name in enumerate([*transactions.COLUMNS, "SPECIAL"]):
        field = expected["per_field"][name]
        assert mask[:, i].sum() == field["labels"]
        mean = -log_probs[mask[:, i], i].mean() if field["labels"] else 0.0
        np.testing.assert_allclose(mean, field["loss"], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------------------
# LUNA's number plugin.


@pytest.mark.parametrize("fusion", ["add", "replace"])
def test_numbers_join_their_cells_as_in_lunas_code(fusion, reference, authors):
    """Features, masked sequence output and losses agree, also those of the released code, which scores every cell."""
    results = json.loads((reference / "luna_numeric.json").read_text())
    arrays, luna_weights = (
        np.load(reference / "luna_numeric_outputs.npz"),
        np.load(reference / "luna_numeric_weights.npz"),
    )
    scheme, name = authors.scheme, {"add": "addback", "replace": "replace"}[fusion]
    regression = dict(name="regression", inner=192, dropout=0.0, epsilon=REGRESSION_EPSILON)
    model = make_model(scheme, fusion, masked=BLOCKS["masked"], number=regression)
    params = convert_params(authors.weights, scheme.vocab_size)
    params["embeds_token"]["table"][186] = luna_weights["num_token_embedding_row"]
    prefix = "tab_embeddings.number_model.model."
    char = {key.removeprefix(prefix): luna_weights[key] for key in luna_weights.files if key.startswith(prefix)}
    params["embeds_numeral"] = embedded(char) | bidirectional(char, 2)
    if fusion == "replace":
        # LUNA's code adds the number's vector to the row of [NUM].
        params["embeds_numeral"]["bias"] = params["embeds_numeral"]["bias"] + luna_weights["num_token_embedding_row"]
    head = "tb_model.cls.predictions.reg_head"
    params["heads_number"] = convert_dense(
        luna_weights, transform=f"{head}.fc1", value=f"{head}.fc2", ln=f"{head}.ln"
    )

    surfaces = [[s for row in window for s in row] for window in results["number_strings"]]
    table = drawn.make_numeral_table([[Decimal(s) for s in row] for row in surfaces], 20)
    character_ids = np.stack([characters.encode_surfaces(row, 32) for row in surfaces])
    index = np.full((4, 10, 12), -1, np.int32)
    index[..., results["number_columns"]] = np.arange(40).reshape(10, 4)
    index = index.reshape(4, 120)
    ids = arrays["input_ids"].reshape(4, 120)

    def make_inputs(ids, index):
        return authors.make_tokens(ids)._replace(
            numeral_index=index, numerals=table, features={"numeral/characters": character_ids}
        )

    apply = jax.jit(model.apply)
    _, acts = apply({"params": params}, Batch(make_inputs(ids, index)))
    np.testing.assert_allclose(acts["final"].reshape(4, 10, 192), arrays[f"{name}.features_unmasked"], atol=1e-4)
    is_mask, is_random, is_chosen = (
        arrays[key].reshape(4, 120) for key in ("replaced_by_mask", "replaced_by_random", "masked")
    )
    input_ids = np.where(is_mask, 4, np.where(is_random, arrays["random_words"].reshape(4, 120), ids))
    inputs = make_inputs(input_ids, np.where(is_mask | is_random, -1, index))
    for labels, mask in (("released", np.ones_like(is_chosen)), ("fixed", is_chosen)):
        batch = Batch(inputs, Targets(ids, mask, index), grammar_state=authors.make_states(4))
        outs, acts = apply({"params": params}, batch)
        final = arrays[f"{name}.sequence_output_masked"].reshape(4, 120, 16)
        np.testing.assert_allclose(acts["final"], final, atol=1e-4)
        classified = make_objective(scheme)(model.heads, outs, acts, batch)
        expected_loss = results["losses"][f"{name}|labels={labels}|regression=False"]["loss"]
        np.testing.assert_allclose(classified.total / classified.count, expected_loss, rtol=1e-5)
        numbers = build("objectives", dict(name="number", head="number", average="columns", columns=12))
        regressed = numbers(model.heads, outs, acts, batch)
        total = classified.total / classified.count + regressed.total / regressed.count
        expected_loss = results["losses"][f"{name}|labels={labels}|regression=True"]["loss"]
        np.testing.assert_allclose(total, expected_loss, rtol=1e-5)
