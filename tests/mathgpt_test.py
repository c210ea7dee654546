"""`as_published` is MathGPT's code: its tokens, positions, masks, embeddings, losses, gradients and beams."""

from __future__ import annotations

import json

import numpy as np
import pytest

from numjax.text import grammar as grammars
from numjax.types import Formula
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
