"""Weights of other libraries give here what they give there."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pretrained import gpt2
from numjax.types import Batch, Tokens
from tests.conftest import ROOT

FIXTURES = ROOT / "tests/fixtures"


def test_gpt2_gives_the_logits_of_transformers():
    """`tests/make_gpt2_fixture.py` made the file and the logits."""
    params = gpt2.read(FIXTURES / "gpt2.safetensors", heads=4)
    found = np.load(FIXTURES / "gpt2.npz")
    known = dict(vocab_size=96, size=96, width=32, dim=32)
    model = Model(
        FrozenDict(token=build("embed", {"name": "token"}, **known)),
        FrozenDict(),
        build("backbone", dict(name="decoder", width=32, layers=2, heads=4, max_length=16)),
        FrozenDict(next=build("heads", {"name": "token"}, **known)),
    )
    ids = found["ids"].astype(np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    outs, _ = jax.jit(model.apply)({"params": params}, Batch(Tokens(ids, positions, np.ones_like(ids))))
    logits = outs["next"].hidden @ outs["next"].weights["kernel"].T
    np.testing.assert_allclose(logits, found["logits"], atol=1e-4)


def test_gpt2_goes_there_and_back(tmp_path):
    params = gpt2.read(FIXTURES / "gpt2.safetensors", heads=4)
    padded = params | {"embeds_token": {"table": np.pad(params["embeds_token"]["table"], ((0, 32), (0, 0)))}}
    gpt2.write(tmp_path / gpt2.FILE, padded, size=96)
    assert gpt2.is_here(tmp_path) and not gpt2.is_here(tmp_path / "none")
    again = gpt2.read(tmp_path, heads=4)
    jax.tree.map(np.testing.assert_array_equal, again, params)
    from safetensors.numpy import load_file

    theirs, mine = load_file(FIXTURES / "gpt2.safetensors"), load_file(tmp_path / gpt2.FILE)
    assert set(theirs) == set(mine)
    for name, x in theirs.items():
        np.testing.assert_array_equal(mine[name], x, err_msg=name)


def test_what_is_no_gpt2_is_named(tmp_path):
    with pytest.raises(UsageError, match="does not divide over 5 heads"):
        gpt2.read(FIXTURES / "gpt2.safetensors", heads=5)
    with pytest.raises(UsageError, match=r"no tensor 'wte\.weight'"):
        gpt2.to_params({}, 1)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as safetensors"):
        gpt2.read(tmp_path / "broken.safetensors", heads=4)
