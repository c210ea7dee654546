"""`as_published` is MathGPT's code: its tokens, positions, masks, embeddings, losses, gradients and beams."""

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

# More children than 63 have no index of six bits: the original trains on them with an infinite loss.
TOO_WIDE = {99, 100}


@pytest.fixture(scope="module")
def data(real_data):
    return real_data("mathgpt_reference").parent


def ids_of(scheme, case):
    """What the scheme writes, without its automaton."""
    out = []
    for document in mathgpt.documents(case):
        for segment in document:
            tree = isinstance(segment, Formula)
            out += scheme._formula_tokens(segment.tree) if tree else scheme.vocab.encode(segment.text)
    return [*out, mathgpt.END_OF_TEXT]


def test_tokens_types_levels_and_positions_of_every_case(data):
    scheme, found = mathgpt.scheme(data), mathgpt.cases(data)
    grammar = scheme.grammar()
    for kind, names in found["vocab"].items():
        ours = [n for n in scheme.symbols.names.values() if n[0] == kind]
        assert [s if type != "!" else "" for _, type, s in ours] == [
            "" if name.startswith("Special") else name for name in names
        ]
    for case in found["cases"]:
        ids = ids_of(scheme, case)
        np.testing.assert_array_equal(ids, mathgpt.flat(data, case["token_ids"], case["token_types"]), case["id"])
        trace = grammars.run(grammar, ids)
        assert trace.types is not None and trace.tree_positions is not None
        assert (trace.error is not None) == (case["id"] in TOO_WIDE), (case["id"], trace.error)
        known = np.flatnonzero(trace.states >= 0).max()
        np.testing.assert_array_equal(trace.types[:known], case["token_types"][:known])
        places = mathgpt.levels_of(trace.tree_positions)
        for i in range(known):
            # Text after a formula that was opened and never written stands where its root would.
            dangling = case["token_types"][i] == 0 and case["token_types"][i - 1] == 1
            assert dangling or places[i] == case["positions"][i]
        if case["id"] not in TOO_WIDE:
            features = [scheme.encode(document) for document in mathgpt.documents(case)]
            np.testing.assert_array_equal(np.concatenate([f.ids for f in features]), ids[:-1])


def test_inferred_positions_with_the_generators_defect(data):
    scheme = mathgpt.scheme(data)
    found = json.loads((data / "mathgpt_reference/positions.json").read_text())["formulas"]
    differ = 0
    for formula in found:
        body = mathgpt.flat(data, formula["token_ids"], formula["token_types"])
        ids = [scheme.symbols.start, *body]
        for grammar, wanted in (
            (scheme.grammar(), formula["true_positions"]),
            (scheme.generation_grammar(), formula["inferred_positions"]),
        ):
            trace = grammars.run(grammar, ids)
            assert trace.tree_positions is not None
            assert mathgpt.levels_of(trace.tree_positions)[1:] == wanted
        differ += formula["true_positions"] != formula["inferred_positions"]
    assert differ == 92


def test_symbols_are_spelled_as_the_original_links_them(data):
    scheme = mathgpt.scheme(data)
    first, pieces = scheme.symbol_pieces()
    seen = 0
    for case in mathgpt.cases(data)["cases"]:
        ids = mathgpt.flat(data, case["token_ids"], case["token_types"])
        for token, linked in zip(ids, case["gpt_tokens"], strict=True):
            if token >= first:
                assert list(pieces[token - first]) == linked
                seen += bool(linked)
    assert seen > 1000


def trusted(case, summary):
    return case["id"] in summary["all_cases"] and case["id"] not in summary["mask_only_cases"]


@pytest.fixture(scope="module")
def reference(data):
    found = mathgpt.outputs(data)
    return found, json.loads(bytes(found["summary_json"]))


@pytest.fixture(scope="module")
def forward(data):
    """(embeddings' parts and sum, hidden, logits in our layout) of one case, compiled once a length."""
    model, params = mathgpt.model(data), mathgpt.params(data)

    @jax.jit
    def run(params, batch):
        def parts(m):
            found = {name: m.embeds[name](batch.inputs) for name in m.embeds}
            found["tree"] = m.backbone.order["tree"].added(batch.inputs)
            return found | {"sum": m.embed(batch.inputs) + found["tree"]}

        outs, acts = model.apply({"params": params}, batch)
        out = outs["next"]
        logits = out.hidden @ out.weights["kernel"].T + out.weights["bias"]
        return model.apply({"params": params}, method=parts), acts["final"], logits

    return lambda batch: jax.device_get(run(params, batch))


def test_embeddings_hidden_states_and_logits(data, reference, forward):
    outputs, summary = reference
    checked = 0
    for case in mathgpt.cases(data)["cases"]:
        if not trusted(case, summary):
            continue
        n, of = len(case["token_ids"]), f"c{case['id']:03d}/"
        parts, hidden, logits = forward(mathgpt.batch(data, [case], 128 if n <= 128 else 256))
        for ours, theirs in (("linked", "token"), ("token_type", "type"), ("tree", "tree"), ("sum", "sum")):
            np.testing.assert_allclose(
                parts[ours][0, :n], outputs[f"{of}emb_{theirs}"], atol=1e-5, err_msg=of + theirs
            )
        np.testing.assert_allclose(hidden[0, :n], outputs[of + "hidden"], atol=1e-4)
        logits = mathgpt.to_layout(data, logits[0, :n])
        np.testing.assert_allclose(logits.sum(-1), outputs[of + "sum_text"] + outputs[of + "sum_math"], atol=0.1)
        np.testing.assert_allclose(
            np.take_along_axis(logits, outputs[of + "top5_ids"], -1), outputs[of + "top5_logits"], atol=1e-4
        )
        if of + "logits" in outputs:
            np.testing.assert_allclose(logits, outputs[of + "logits"], atol=1e-4)
        if of + "logits_math" in outputs:
            np.testing.assert_allclose(logits[::8, mathgpt.END_OF_TEXT + 1 :], outputs[of + "logits_math"], atol=1e-4)
        checked += 1
    assert checked == 21


def test_masks(data, reference):
    """Wherever the original states a mask, until the gold sequence breaks it."""
    outputs, summary = reference
    grammar, scheme = mathgpt.scheme(data).grammar(), mathgpt.scheme(data)
    classes_of = jax.jit(lambda states: masks.allowed_tokens(grammar, states, allow_given=False).classes)
    for case in mathgpt.cases(data)["cases"]:
        if case["id"] not in summary["all_cases"]:
            continue
        of = f"c{case['id']:03d}/"
        ids = mathgpt.flat(data, case["token_ids"], case["token_types"])
        states = grammars.run(grammar, ids).states[1:]
        known = int((states >= 0).sum())
        assert known == len(ids) or case["id"] in TOO_WIDE
        # One length, so that it compiles once.
        classes = np.asarray(classes_of(np.pad(states[:known], (0, 256 - known))))[:known]
        ours = mathgpt.to_layout(data, classes[:, grammar.class_of])
        text, math = ours[:, : mathgpt.END_OF_TEXT + 1], ours[:, mathgpt.END_OF_TEXT + 1 :]
        bits = np.unpackbits(outputs[of + "math_allowed_bits"], axis=-1, bitorder="little")[:, : math.shape[1]]
        np.testing.assert_array_equal(text, np.repeat(outputs[of + "text_allowed"][:known, None], text.shape[1], 1))
        np.testing.assert_array_equal(math, bits[:known] > 0, err_msg=of)
    assert scheme.vocab_size % 128 == 0


def loss_of(data, params, batch):
    model, grammar = mathgpt.model(data), mathgpt.scheme(data).grammar()
    objective = build(
        "objectives", {"name": "nll", "head": "next", "constrain": True, "given": False}, grammar=grammar
    )
    outs, acts = model.apply({"params": params}, batch)
    return objective(model.heads, outs, acts, batch)


def test_losses_and_gold_log_probabilities(data, reference):
    outputs, summary = reference
    model, params, grammar = mathgpt.model(data), mathgpt.params(data), mathgpt.scheme(data).grammar()

    @jax.jit
    def gold(params, batch):
        outs, _ = model.apply({"params": params}, batch)
        allowed = masks.allowed_tokens(grammar, batch.grammar_state, allow_given=False)
        head: Any = model.heads["next"]
        return [head.log_prob(outs["next"], batch.targets, mask)["token"] for mask in (allowed, None)]

    infinite = 0
    for case in mathgpt.cases(data)["cases"]:
        if case["id"] not in summary["all_cases"] or case["id"] in TOO_WIDE:
            continue
        n, of, wanted = len(case["token_ids"]), f"c{case['id']:03d}/", summary["losses"][str(case["id"])]
        found = mathgpt.batch(data, [case], 128 if n <= 128 else 256)
        masked, plain = (np.asarray(x)[0, : n - 1] for x in gold(params, found))
        theirs = outputs[of + "logp_gold_masked"]
        np.testing.assert_array_equal(masked < -1e20, np.isinf(theirs), err_msg=of)
        finite = np.isfinite(theirs)
        np.testing.assert_allclose(masked[finite], theirs[finite], atol=1e-4)
        np.testing.assert_allclose(plain, outputs[of + "logp_gold_unmasked"], atol=1e-4)
        if wanted["loss_all_tokens"] == "inf":
            infinite += 1
        else:
            np.testing.assert_allclose(-masked.mean(), wanted["loss_all_tokens"], atol=1e-4)
        if isinstance(wanted["loss_mwp_label_only"], float):
            label = masked[case["prompt_length"] - 1 :]
            np.testing.assert_allclose(-label.mean(), wanted["loss_mwp_label_only"], atol=1e-4)
    assert infinite == 4


def test_losses_and_gradients_of_padded_batches(data, reference):
    outputs, summary = reference
    by_id = {case["id"]: case for case in mathgpt.cases(data)["cases"]}

    @jax.jit
    def value_and_grad(params, batch):
        def mean(params):
            loss = loss_of(data, params, batch)
            return loss.total / loss.count

        return jax.value_and_grad(mean)(params)

    grads = {}
    for name, label_only in (("batch_mwp_label_only", True), ("batch_all_tokens", False)):
        found = mathgpt.batch(data, [by_id[i] for i in summary[name]["cases"]], 128, label_only)
        value, grads = jax.device_get(value_and_grad(mathgpt.params(data), found))
        np.testing.assert_allclose(value, summary[name]["loss"], atol=1e-4)

    # Where each of the original's numbers went: the same mapping, of numbers that count themselves.
    sizes = [x.size for x in mathgpt.weights(data).values()]
    starts = np.cumsum([1, *sizes])
    counting = {
        key: np.arange(start, start + x.size, dtype=np.float32).reshape(x.shape)
        for start, (key, x) in zip(starts, mathgpt.weights(data).items(), strict=False)
    }
    assert starts[-1] < 2**24
    gradient = np.zeros(starts[-1])
    jax.tree.map(lambda at, g: np.add.at(gradient, at.astype(int), g), mathgpt.to_params(data, counting), grads)
    for start, (key, x) in zip(starts, mathgpt.weights(data).items(), strict=False):
        ours, first = gradient[start : start + x.size], outputs[f"grad/{key}"].ravel()
        scale = max(np.abs(first).max(), 1e-3)
        np.testing.assert_allclose(ours[: first.size], first, atol=1e-3 * scale, err_msg=key)
        norm = summary["grad_norms_of_batch_all_tokens"][key]
        np.testing.assert_allclose(np.linalg.norm(ours), norm, rtol=1e-3, err_msg=key)


def prompts_of(data, runs, room=128):
    """The runs' prompts as one batch, padded on the left."""
    shape = (len(runs), room)
    ids, positions, segments, types = (np.zeros(shape, np.int32) for _ in range(4))
    places = np.full((*shape, 32), -1, np.int32)
    for b, run in enumerate(runs):
        of = np.asarray(run["prompt_token_types"])
        at = slice(room - len(of), room)
        types[b, at], positions[b, at], segments[b, at] = of, np.arange(len(of)), 1
        ids[b, at] = mathgpt.flat(data, run["prompt_token_ids"], of)
        for i, place in enumerate(run["prompt_positions"], room - len(of)):
            places[b, i, : len(place)] = place
    return Tokens(ids, positions, segments, channels={"types": types, "tree_positions": places})


@pytest.mark.parametrize(("name", "width"), [("beam", 3), ("greedy", 1)])
def test_beam_and_greedy_runs(data, name, width):
    scheme, model, params = mathgpt.scheme(data), mathgpt.model(data), mathgpt.params(data)
    runs = json.loads((data / "mathgpt_reference/beam.json").read_text())["runs"]
    assert len(runs) == 28
    # One run must not end before its 24th token, which ours cannot be told.
    runs = [run for run in runs if name in run and not run["options"]["min_gen_len"]]
    assert len(runs) >= 20
    stop, start, most = scheme.symbols.stop, scheme.symbols.start, 24
    options = [run["options"] for run in runs]
    ends = [
        [mathgpt.END_OF_TEXT, stop if o["eval_formulas"] else -1, start if o["eval_text"] else -1] for o in options
    ]
    found = jax.device_get(
        beam.search(
            model,
            params,
            scheme.generation_grammar(),
            prompts_of(data, runs),
            jnp.full(len(runs), 1000, jnp.int32),  # theirs leaves no room for closing what is open
            jnp.asarray(ends, jnp.int32),
            head="next",
            max_tokens=most,
            width=width,
            num_id=-1,
        )
    )
    for b, run in enumerate(runs):
        wanted = run["beam"]["final_beams"] if name == "beam" else [run["greedy"]]
        for w, theirs in enumerate(wanted):
            length, where = sum(i != -100 for i in theirs["token_ids"]), f"{run['prompt']}, {w}"
            ids = mathgpt.flat(data, theirs["token_ids"][:length], theirs["token_types"][:length])
            assert found.length[b, w] == length, where
            np.testing.assert_array_equal(found.ids[b, w, :length], ids, err_msg=where)
            np.testing.assert_allclose(found.score[b, w], -theirs["nll"], atol=1e-3, err_msg=where)
            np.testing.assert_allclose(found.log_prob[b, w, :length], theirs["logp_each"][:length], atol=1e-4)
