"""Runs of configs/digits.py, from scratch and from files of T5, FLAN and BART."""

from __future__ import annotations

import json
import shutil

import jax
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax import modes
from numjax.build import build
from numjax.bundled.configs import digits
from numjax.bundled.experiments.digits import settings
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pretrained import seq2seq, weights
from numjax.tasks import word_problem
from numjax.train import workdir
from numjax.types import Batch
from tests import drawn
from tests.pretrained_test import FIXTURES, whole

# Sizes of the files of tests/fixtures that differ from the smoke sizes.
SIZES = dict(width=16, heads=2, max_length=32)
T5 = SIZES | dict(layers=3, encoder_layers=2, head_size=6, mlp_width=24)
FILES = {"t5": ("t5_1.0", T5), "flan": ("flan", T5), "bart": ("bart", SIZES | dict(layers=2))}


@pytest.mark.parametrize("name", FILES)
def test_the_config_of_a_file_gives_its_logits(name):
    """With the options that the config sets; buckets and sizes are those of the small files."""
    backbone, sizes = FILES[name]
    config = digits.get_config(f"smoke,backbone={backbone}").unlock()
    config.backbone.update(sizes)
    if name == "bart":
        config.backbone.mlp_width = 24  # BART's own is 4 · D
    else:
        config.positions.sequence.update(buckets=8, furthest=16)
    context = dict(vocab_size=40, size=40, width=16, dim=16)
    model = Model(
        FrozenDict(token=build("embed", {"name": "token"}, **context)),
        FrozenDict(),
        drawn.build_backbone(config.backbone.to_dict() | {"dtype": "float32"}, config.positions.to_dict()),
        FrozenDict(next=build("heads", config.heads.next, **context)),
    )
    params, arrays = seq2seq.read_params(FIXTURES / f"{name}.safetensors", heads=2), np.load(FIXTURES / f"{name}.npz")
    source = whole(arrays["source"])._replace(segment_ids=arrays["valid"].astype(np.int32))

    @jax.jit
    def logits(params):
        outs, _ = model.apply({"params": params}, Batch(whole(arrays["ids"]), source=source))
        return outs["next"].hidden @ outs["next"].weights["kernel"].T + outs["next"].weights.get("bias", 0.0)

    np.testing.assert_allclose(logits(params), arrays["logits"], atol=1e-4)


def test_flan_base_has_its_own_mlp():
    assert digits.get_config("paper,backbone=flan").backbone.mlp_width == 2048
    assert digits.get_config("paper,backbone=t5_1.0").backbone.mlp_width == 0


@pytest.mark.parametrize(("name", "key"), [("bart", "decoder_attention_heads"), ("t5", "num_heads")])
def test_another_number_of_heads_is_refused(name, key, tmp_path):
    """No tensor of BART shows the number of heads."""
    shutil.copy(FIXTURES / f"{name}.safetensors", tmp_path / weights.FILE)
    (tmp_path / "config.json").write_text(json.dumps({key: 2}))
    seq2seq.read_params(tmp_path, heads=2)
    with pytest.raises(UsageError, match=r"its model has 2 heads and this config 4: set config\.backbone\.heads"):
        seq2seq.read_params(tmp_path, heads=4)


def test_a_bare_bart_is_the_model_without_its_bias(tmp_path):
    all_tensors = weights.load_tensors(FIXTURES / "bart.safetensors")
    bare = {name.removeprefix("model."): x for name, x in all_tensors.items() if name != "final_logits_bias"}
    full_params, bare_params = (seq2seq.to_params(file_tensors, 2) for file_tensors in (all_tensors, bare))
    del full_params["heads_next"]
    jax.tree.map(np.testing.assert_array_equal, bare_params, full_params)


def test_tables_start_from_a_folder_and_take_the_paper_s_loss():
    options = settings.make_parser("").parse_args(
        ["--scale=smoke", "--init=FLAN", "--backbone=flan", "--as_published"]
    )
    config = settings.make_config(options, "mawps", settings.SYSTEMS["aux"])
    assert config.init_from == config.scheme.vocab.path == "FLAN"
    assert config.objectives.aux.prediction == "literal"
    options.backbone = "bart"
    assert settings.make_config(options, "mawps", "").scheme.vocab.to_dict() == {"name": "gpt2", "path": "FLAN"}


@pytest.mark.whole
def test_validation_chooses_the_same_epoch_without_generation(tmp_path, monkeypatch):
    """Perplexity needs no generation; without generation in validation, accuracies come only at the end."""
    results, has_accuracy = [], []
    for generate in (True, False):
        config = digits.get_config("smoke").unlock()
        config.task.size, config.eval.generate, config.optim.epochs = 60, generate, 2
        results.append(modes.run(config, str(tmp_path / str(generate)), "train"))
        rows = (tmp_path / str(generate) / "metrics.jsonl").read_text().splitlines()
        has_accuracy.append(["accuracy" in row for row in map(json.loads, rows) if row["split"] == "validation"])
    assert has_accuracy == [[True, True], [False, False]]
    assert results[0] == results[1] and "accuracy" in results[0]["test"]
    workdir.claim(tmp_path / "True", config)  # a run may resume with either setting
    monkeypatch.setattr(word_problem.Task, "metric", "accuracy")
    with pytest.raises(UsageError, match="chosen by accuracy, which is not among"):
        modes.run(config, str(tmp_path / "other"), "train")
