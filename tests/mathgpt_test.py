"""`as_published` equals MathGPT's code: its tokens, positions, masks, embeddings, losses, gradients and beams."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.decode import beam
from numjax.nn import grammar as masks
from numjax.text.grammar import automaton as grammars
from numjax.types import Formula, Tokens
from tests import mathgpt

# More than 63 children do not fit an index of six bits: the original trains on these cases with an infinite loss.
TOO_WIDE = {99, 100}


@pytest.fixture(scope="module")
def data(real_data):
    return real_data("mathgpt_reference").parent


def encode_case(scheme, case):
    """Returns the ids of a case from the scheme without its automaton."""
    ids = []
    for document in mathgpt.make_documents(case):
        for segment in document:
            is_formula = isinstance(segment, Formula)
            ids += scheme._formula_tokens(segment.tree) if is_formula else scheme.vocab.encode(segment.text)
    return [*ids, mathgpt.END_OF_TEXT]


def test_tokens_types_and_positions_of_every_case_are_the_originals(data):
    scheme, original = mathgpt.load_scheme(data), mathgpt.load_cases(data)
    grammar = scheme.grammar()
    for kind, names in original["vocab"].items():
        ours = [n for n in scheme.symbols.names.values() if n[0] == kind]
        assert [s if type != "!" else "" for _, type, s in ours] == [
            "" if name.startswith("Special") else name for name in names
        ]
    for case in original["cases"]:
        ids = encode_case(scheme, case)
        np.testing.assert_array_equal(
            ids, mathgpt.flatten_ids(data, case["token_ids"], case["token_types"]), case["id"]
        )
        trace = grammars.run(grammar, ids)
        assert trace.types is not None and trace.tree_positions is not None
        assert (trace.error is not None) == (case["id"] in TOO_WIDE), (case["id"], trace.error)
        n_valid = np.flatnonzero(trace.states >= 0).max()
        np.testing.assert_array_equal(trace.types[:n_valid], case["token_types"][:n_valid])
        positions = mathgpt.list_levels(trace.tree_positions)
        for i in range(n_valid):
            # Text after an opened but empty formula has the position of its root.
            is_unwritten = case["token_types"][i] == 0 and case["token_types"][i - 1] == 1
            assert is_unwritten or positions[i] == case["positions"][i]
        if case["id"] not in TOO_WIDE:
            features = [scheme.encode(document) for document in mathgpt.make_documents(case)]
            np.testing.assert_array_equal(np.concatenate([f.ids for f in features]), ids[:-1])


def test_inferred_positions_have_the_defect_of_the_generator(data):
    scheme = mathgpt.load_scheme(data)
    formulas = json.loads((data / "mathgpt_reference/positions.json").read_text())["formulas"]
    n_different = 0
    for formula in formulas:
        body = mathgpt.flatten_ids(data, formula["token_ids"], formula["token_types"])
        ids = [scheme.symbols.start, *body]
        for grammar, expected in (
            (scheme.grammar(), formula["true_positions"]),
            (scheme.generation_grammar(), formula["inferred_positions"]),
        ):
            trace = grammars.run(grammar, ids)
            assert trace.tree_positions is not None
            assert mathgpt.list_levels(trace.tree_positions)[1:] == expected
        n_different += formula["true_positions"] != formula["inferred_positions"]
    assert n_different == 92


def test_symbols_have_the_pieces_of_the_original(data):
    scheme = mathgpt.load_scheme(data)
    first, pieces = scheme.symbol_pieces()
    n_compared = 0
    for case in mathgpt.load_cases(data)["cases"]:
        ids = mathgpt.flatten_ids(data, case["token_ids"], case["token_types"])
        for token, expected in zip(ids, case["gpt_tokens"], strict=True):
            if token >= first:
                assert list(pieces[token - first]) == expected
                n_compared += bool(expected)
    assert n_compared > 1000


def is_trusted(case, summary):
    return case["id"] in summary["all_cases"] and case["id"] not in summary["mask_only_cases"]


@pytest.fixture(scope="module")
def reference(data):
    outputs = mathgpt.load_outputs(data)
    return outputs, json.loads(bytes(outputs["summary_json"]))


@pytest.fixture(scope="module")
def forward(data):
    """A function of a batch that returns (parts and sum of the embeddings, hidden states, logits in our layout).

    It is compiled once for each length.
    """
    model, params = mathgpt.build_model(data), mathgpt.load_params(data)

    @jax.jit
    def run(params, batch):
        def compute_embeddings(module):
            vectors = {name: module.embeds[name](batch.inputs) for name in module.embeds}
            vectors["tree"] = module.backbone.order["tree"].added(batch.inputs)
            return vectors | {"sum": module.embed(batch.inputs) + vectors["tree"]}

        outs, acts = model.apply({"params": params}, batch)
        out = outs["next"]
        logits = out.hidden @ out.weights["kernel"].T + out.weights["bias"]
        return model.apply({"params": params}, method=compute_embeddings), acts["final"], logits

    return lambda batch: jax.device_get(run(params, batch))


def test_embeddings_hidden_states_and_logits_are_the_originals(data, reference, forward):
    outputs, summary = reference
    n_checked = 0
    for case in mathgpt.load_cases(data)["cases"]:
        if not is_trusted(case, summary):
            continue
        n, prefix = len(case["token_ids"]), f"c{case['id']:03d}/"
        parts, hidden, logits = forward(mathgpt.make_batch(data, [case], 128 if n <= 128 else 256))
        for ours, theirs in (("linked", "token"), ("token_type", "type"), ("tree", "tree"), ("sum", "sum")):
            np.testing.assert_allclose(
                parts[ours][0, :n], outputs[f"{prefix}emb_{theirs}"], atol=1e-5, err_msg=prefix + theirs
            )
        np.testing.assert_allclose(hidden[0, :n], outputs[prefix + "hidden"], atol=1e-4)
        logits = mathgpt.convert_layout(data, logits[0, :n])
        np.testing.assert_allclose(
            logits.sum(-1), outputs[prefix + "sum_text"] + outputs[prefix + "sum_math"], atol=0.1
        )
        np.testing.assert_allclose(
            np.take_along_axis(logits, outputs[prefix + "top5_ids"], -1), outputs[prefix + "top5_logits"], atol=1e-4
        )
        if prefix + "logits" in outputs:
            np.testing.assert_allclose(logits, outputs[prefix + "logits"], atol=1e-4)
        if prefix + "logits_math" in outputs:
            np.testing.assert_allclose(
                logits[::8, mathgpt.END_OF_TEXT + 1 :], outputs[prefix + "logits_math"], atol=1e-4
            )
        n_checked += 1
    assert n_checked == 21


def test_masks_are_those_of_the_original(data, reference):
    """Compares each mask that the original states, up to the position at which the gold sequence violates one."""
    outputs, summary = reference
    grammar, scheme = mathgpt.load_scheme(data).grammar(), mathgpt.load_scheme(data)
    compute_classes = jax.jit(lambda states: masks.allowed_tokens(grammar, states, allow_given=False).classes)
    for case in mathgpt.load_cases(data)["cases"]:
        if case["id"] not in summary["all_cases"]:
            continue
        prefix = f"c{case['id']:03d}/"
        ids = mathgpt.flatten_ids(data, case["token_ids"], case["token_types"])
        states = grammars.run(grammar, ids).states[1:]
        n_valid = int((states >= 0).sum())
        assert n_valid == len(ids) or case["id"] in TOO_WIDE
        # One length, so that it compiles once.
        classes = np.asarray(compute_classes(np.pad(states[:n_valid], (0, 256 - n_valid))))[:n_valid]
        ours = mathgpt.convert_layout(data, classes[:, grammar.class_of])
        text, math = ours[:, : mathgpt.END_OF_TEXT + 1], ours[:, mathgpt.END_OF_TEXT + 1 :]
        bits = np.unpackbits(outputs[prefix + "math_allowed_bits"], axis=-1, bitorder="little")[:, : math.shape[1]]
        np.testing.assert_array_equal(
            text, np.repeat(outputs[prefix + "text_allowed"][:n_valid, None], text.shape[1], 1)
        )
        np.testing.assert_array_equal(math, bits[:n_valid] > 0, err_msg=prefix)
    assert scheme.vocab_size % 128 == 0


def compute_loss(data, params, batch):
    model, grammar = mathgpt.build_model(data), mathgpt.load_scheme(data).grammar()
    objective = build(
        "objectives", {"name": "nll", "head": "next", "constrain": True, "given": False}, grammar=grammar
    )
    outs, acts = model.apply({"params": params}, batch)
    return objective(model.heads, outs, acts, batch)


def test_losses_and_gold_log_probabilities_are_the_originals(data, reference):
    outputs, summary = reference
    model, params, grammar = mathgpt.build_model(data), mathgpt.load_params(data), mathgpt.load_scheme(data).grammar()

    @jax.jit
    def score_gold(params, batch):
        outs, _ = model.apply({"params": params}, batch)
        allowed = masks.allowed_tokens(grammar, batch.grammar_state, allow_given=False)
        head: Any = model.heads["next"]
        return [head.log_prob(outs["next"], batch.targets, mask)["token"] for mask in (allowed, None)]

    n_infinite = 0
    for case in mathgpt.load_cases(data)["cases"]:
        if case["id"] not in summary["all_cases"] or case["id"] in TOO_WIDE:
            continue
        n, prefix, expected = len(case["token_ids"]), f"c{case['id']:03d}/", summary["losses"][str(case["id"])]
        case_batch = mathgpt.make_batch(data, [case], 128 if n <= 128 else 256)
        masked_log_probs, plain_log_probs = (np.asarray(x)[0, : n - 1] for x in score_gold(params, case_batch))
        theirs = outputs[prefix + "logp_gold_masked"]
        np.testing.assert_array_equal(masked_log_probs < -1e20, np.isinf(theirs), err_msg=prefix)
        is_finite = np.isfinite(theirs)
        np.testing.assert_allclose(masked_log_probs[is_finite], theirs[is_finite], atol=1e-4)
        np.testing.assert_allclose(plain_log_probs, outputs[prefix + "logp_gold_unmasked"], atol=1e-4)
        if expected["loss_all_tokens"] == "inf":
            n_infinite += 1
        else:
            np.testing.assert_allclose(-masked_log_probs.mean(), expected["loss_all_tokens"], atol=1e-4)
        if isinstance(expected["loss_mwp_label_only"], float):
            label = masked_log_probs[case["prompt_length"] - 1 :]
            np.testing.assert_allclose(-label.mean(), expected["loss_mwp_label_only"], atol=1e-4)
    assert n_infinite == 4


def test_losses_and_gradients_of_padded_batches_are_the_originals(data, reference):
    outputs, summary = reference
    by_id = {case["id"]: case for case in mathgpt.load_cases(data)["cases"]}

    @jax.jit
    def value_and_grad(params, batch):
        def compute_mean(params):
            loss = compute_loss(data, params, batch)
            return loss.total / loss.count

        return jax.value_and_grad(compute_mean)(params)

    grads = {}
    for name, label_only in (("batch_mwp_label_only", True), ("batch_all_tokens", False)):
        padded_batch = mathgpt.make_batch(data, [by_id[i] for i in summary[name]["cases"]], 128, label_only)
        value, grads = jax.device_get(value_and_grad(mathgpt.load_params(data), padded_batch))
        np.testing.assert_allclose(value, summary[name]["loss"], atol=1e-4)

    # The same conversion of consecutive numbers gives the new position of each weight of the original.
    sizes = [x.size for x in mathgpt.load_weights(data).values()]
    starts = np.cumsum([1, *sizes])
    numbered_weights = {
        key: np.arange(start, start + x.size, dtype=np.float32).reshape(x.shape)
        for start, (key, x) in zip(starts, mathgpt.load_weights(data).items(), strict=False)
    }
    assert starts[-1] < 2**24
    gradient = np.zeros(starts[-1])
    jax.tree.map(
        lambda index, g: np.add.at(gradient, index.astype(int), g),
        mathgpt.convert_params(data, numbered_weights),
        grads,
    )
    for start, (key, x) in zip(starts, mathgpt.load_weights(data).items(), strict=False):
        ours, first = gradient[start : start + x.size], outputs[f"grad/{key}"].ravel()
        scale = max(np.abs(first).max(), 1e-3)
        np.testing.assert_allclose(ours[: first.size], first, atol=1e-3 * scale, err_msg=key)
        norm = summary["grad_norms_of_batch_all_tokens"][key]
        np.testing.assert_allclose(np.linalg.norm(ours), norm, rtol=1e-3, err_msg=key)


def make_prompts(data, runs, room=128):
    """Returns the prompts of the runs as one batch, padded on the left."""
    shape = (len(runs), room)
    ids, positions, segments, types = (np.zeros(shape, np.int32) for _ in range(4))
    tree_positions = np.full((*shape, 32), -1, np.int32)
    for b, run in enumerate(runs):
        run_types = np.asarray(run["prompt_token_types"])
        columns = slice(room - len(run_types), room)
        types[b, columns], positions[b, columns], segments[b, columns] = run_types, np.arange(len(run_types)), 1
        ids[b, columns] = mathgpt.flatten_ids(data, run["prompt_token_ids"], run_types)
        for i, tree_position in enumerate(run["prompt_positions"], room - len(run_types)):
            tree_positions[b, i, : len(tree_position)] = tree_position
    return Tokens(ids, positions, segments, channels={"types": types, "tree_positions": tree_positions})


@pytest.mark.parametrize(("name", "width"), [("beam", 3), ("greedy", 1)])
def test_beam_and_greedy_runs_generate_the_same(data, name, width):
    scheme, model, params = mathgpt.load_scheme(data), mathgpt.build_model(data), mathgpt.load_params(data)
    runs = json.loads((data / "mathgpt_reference/beam.json").read_text())["runs"]
    assert len(runs) == 28
    # One run must not end before its 24th token: our search has no such option.
    runs = [run for run in runs if name in run and not run["options"]["min_gen_len"]]
    assert len(runs) >= 20
    stop, start, max_tokens = scheme.symbols.stop, scheme.symbols.start, 24
    options = [run["options"] for run in runs]
    ends = [
        [mathgpt.END_OF_TEXT, stop if o["eval_formulas"] else -1, start if o["eval_text"] else -1] for o in options
    ]
    beams = jax.device_get(
        beam.search(
            model,
            params,
            scheme.generation_grammar(),
            make_prompts(data, runs),
            jnp.full(len(runs), 1000, jnp.int32),  # the original leaves no room to close open nodes
            jnp.asarray(ends, jnp.int32),
            head="next",
            max_tokens=max_tokens,
            width=width,
            num_id=-1,
        )
    )
    for b, run in enumerate(runs):
        expected = run["beam"]["final_beams"] if name == "beam" else [run["greedy"]]
        for w, theirs in enumerate(expected):
            length, message = sum(i != -100 for i in theirs["token_ids"]), f"{run['prompt']}, {w}"
            ids = mathgpt.flatten_ids(data, theirs["token_ids"][:length], theirs["token_types"][:length])
            assert beams.length[b, w] == length, message
            np.testing.assert_array_equal(beams.ids[b, w, :length], ids, err_msg=message)
            np.testing.assert_allclose(beams.score[b, w], -theirs["nll"], atol=1e-3, err_msg=message)
            np.testing.assert_allclose(beams.log_prob[b, w, :length], theirs["logp_each"][:length], atol=1e-4)
