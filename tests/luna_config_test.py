"""LUNA's pre-training end to end: the words of its config, and a teacher that is stopped and resumed."""

from __future__ import annotations

import functools
import itertools
import json
import pathlib

import jax
import numpy as np
import pytest

from numjax import api, inspect, modes
from numjax.bundled.configs import luna, tabbert
from numjax.errors import Preempted, UsageError
from numjax.inspect import encoders
from numjax.pipeline import batch as batches
from numjax.pipeline import source
from numjax.pipeline.loader import Loader
from numjax.runtime import shard, signals
from numjax.system import assemble
from numjax.train import loop, step


def test_the_order_of_words_changes_nothing():
    words = ("numtok=none", "distill=on", "shape=roberta", "laptop")
    configs = {luna.get_config(",".join(order)).to_json(sort_keys=True) for order in itertools.permutations(words)}
    assert len(configs) == 1
    config = luna.get_config("laptop,distill=on,numtok=none")
    for name, start, end in (("masked", 0.96, 0.6), ("distill", 0.04, 0.4)):
        assert (config.objectives[name].weight.start, config.objectives[name].weight.end) == (start, end)
    assert config.objectives.distill.momentum == 0.995
    assert config.objectives.masked.weight.steps == config.objectives.distill.weight.steps


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_each_string_of_a_batch_is_encoded_once(scale):
    for task in ("pretrain", "tatqa", "tabfact", "claims"):
        assert luna.get_config(f"{scale},task={task}").data.shared
    for task in ("pretrain", "fraud"):
        assert tabbert.get_config(f"{scale},task={task}").data.shared
        assert not tabbert.get_config(f"{scale},task={task},numtok=none").data.shared, "no string is encoded"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("numtok=none,numbed=dice", "numbed=dice needs embeds.numeral, and here is none: use it with numtok=addback"),
        ("numbed=dice,numtok=none", "numbed=dice needs embeds.numeral, and here is none: use it with numtok=addback"),
        ("numtok=none,regress=on", "needs objectives.masked=masked, and here it is nll: use it with numtok=addback"),
        ("numtok=none,size=1M", "needs embeds.numeral=char_lstm or char_former, and here is none"),
        ("numbed=dice,numbed=char_lstm", "numbed=dice and char_lstm: choose one"),
        ("task=tatqa,distill=on", "needs task=table_text, and here it is tatqa: use it with task=pretrain$"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        luna.get_config(f"smoke,{words}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("distill=on", {"data.masking.literals": (True, False), "data.masking.separators": (False, True),
                        "objectives.distill.each_microbatch": (False, True)}),
        ("numbed=char_former", {"data.masking.literals": (True, False), "data.masking.separators": (False, True),
                                "embeds.numeral.padded": (None, True)}),
        ("numbed=dice,task=tabfact", {"embeds.numeral.as_published": (None, True)}),
        ("task=tatqa", {"task.as_published": (False, True), "heads.answer.operands": ("numbers", "all"),
                        "heads.answer.tagged": ("found", "all"),
                        "objectives.tags_loss.average": ("row", "sum"),
                        "objectives.order_loss.average": ("row", "sum")}),
    ],
)  # fmt: skip
def test_a_config_as_published(words, expected):
    plain, published = (
        dict(flatten(luna.get_config(f"smoke,{words}{more}").to_dict())) for more in ("", ",as_published")
    )
    changes = {name: (plain.get(name), new) for name, new in published.items() if plain.get(name) != new}
    assert changes == expected | {"scheme.rules": ("accounting", "numtok")} and plain.keys() <= published.keys()


def flatten(block, above=""):
    for name, value in block.items():
        yield from flatten(value, f"{above}{name}.") if isinstance(value, dict) else [(f"{above}{name}", value)]


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_the_learning_rate_and_the_teachers_weight_rise_together(scale):
    config = luna.get_config(f"{scale},distill=on")
    assert config.optim.warmup == config.objectives.distill.weight.steps == config.objectives.masked.weight.steps > 0


def test_a_stopped_teacher_resumes_with_identical_results(tmp_path, monkeypatch):
    """Student and teacher equal those of a run without a stop, bit for bit; a new run starts from the student."""
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "data"))
    config = luna.get_config("smoke,distill=on,numbed=dice")
    with config.unlocked():
        config.compile_cache = ""
        config.task.size = 60
        config.backbone.layers = 1
        config.optim.steps = 4
        config.eval.update(every=100, test=False, examples=8)
    final_states = []
    finish = loop._Run.finish

    def record_state(self, state, position, workdir):
        final_states.append(jax.device_get((state.params, state.ema)))
        return finish(self, state, position, workdir)

    monkeypatch.setattr(loop._Run, "finish", record_state)
    modes.run(config, str(tmp_path / "straight"), "train")
    with monkeypatch.context() as patch:
        patch.setattr(signals.Signals, "stop_at", lambda self, step: step == 2)
        with pytest.raises(Preempted):
            modes.run(config, str(tmp_path / "stopped"), "train")
    modes.run(config, str(tmp_path / "stopped"), "train")
    undisturbed_state, resumed_state = final_states
    jax.tree.map(np.testing.assert_array_equal, undisturbed_state, resumed_state)
    differences = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), *undisturbed_state)
    assert max(jax.tree.leaves(differences)) > 0, "the teacher differs from the student"
    with config.unlocked():
        config.init_from = str(tmp_path / "straight")
        config.optim.learning_rate = 0.0
        config.optim.steps = 1
    modes.run(config, str(tmp_path / "next"), "train")
    params, ema = final_states[-1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), params, ema)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), params["backbone"], undisturbed_state[0]["backbone"]
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of task=pretrain with its initial parameters."""
    folder = tmp_path_factory.mktemp("pretrain")
    config = luna.get_config("smoke,numbed=dice")
    with config.unlocked():
        config.task.size = 60
        config.backbone.layers = 1
        config.data.update(dir=str(folder / "data"), buckets=1)
    system = assemble(config, folder)
    assert system.task.kind == "masked"
    parse, encode = system.scheme.parse, system.scheme.encode
    row = encode(system.task.example({"id": "x", "text": "12 of 7", "table": ""}, parse).document)
    batch = batches.from_features([row], config.data.digits, system.host_features)
    params = jax.jit(step.init_params, static_argnums=0)(system.model, batch, 0)
    return api.Loaded(system, params, 0, shard.make_mesh())


def test_a_pre_training_run_refuses_to_score_and_predict(model):
    """Masks depend on the index of a record in its list, so a single record has no likelihood of its own."""
    record = {"id": "1", "text": "sales were 1,200", "table": ""}
    for call in (model.score, lambda record: model.predict([record])):
        with pytest.raises(UsageError, match=r"there is nothing to .*: the run only pre-trains"):
            call(record)


def test_activations_of_a_pre_trained_encoder_are_of_the_unmasked_record(model, monkeypatch):
    """No part of the record is masked, with any seed."""
    record = {
        "text": "sales were 1,200 in 2019, costs 300",
        "table": '[["year", "tax"], ["2019", "45"], ["2018", "7"]]',
    }
    system, vocab, layers_of = model.system, model.system.scheme.vocab, encoders._layers
    all_inputs, all_activations = [], []

    def record_inputs(network, params, batch):
        all_inputs.append(jax.device_get(batch.inputs))
        return layers_of(network, params, batch)

    monkeypatch.setattr(encoders, "_layers", record_inputs)
    for seed in (0, 1):
        seeded = functools.partial(Loader, config=system.config, seed=seed, host_features=system.host_features)
        monkeypatch.setattr(model, "_loader", seeded)
        all_activations.append(inspect.read_activations(model, record))
    activations = all_activations[0]
    assert len(activations.tokens) > 30 and activations.surfaces[:4] == ("1,200", "2019", "300", "2019")
    for inputs in all_inputs:
        ids, slots = (x[0, : len(activations.tokens)].tolist() for x in (inputs.ids, inputs.numeral_index))
        names = [vocab.mark_name(i) or vocab.decode([i]).strip() for i in ids]
        positions = zip(names, slots, strict=True)
        assert [f"⟨{activations.surfaces[n]}⟩" if n >= 0 else name for name, n in positions] == activations.tokens
    np.testing.assert_array_equal(all_activations[0].layers, all_activations[1].layers)


def test_the_notebook_works_for_a_run_without_a_test_split(model):
    """Pre-training has no test split: the first example comes from validation."""
    path = pathlib.Path(__file__).parents[1] / "experiments" / "notebooks" / "luna_attention.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    (cell,) = [cell for cell in cells if "inspect.read_activations(model, record)" in cell]
    names = {"model": model, "np": np, "source": source, "inspect": inspect}
    exec(cell, names)
    records = source.load(model.system.task.dataset, "validation", model.system.config.data.dir)
    assert records is not None and names["record"] == records[0]


def test_many_tables_have_the_traits_and_operators_of_the_tasks():
    from numjax.tasks.tatqa import answers, traits

    config = luna.get_config("smoke,task=tatqa,tables=many")
    assert tuple(config.backbone.types[1:]) == traits.SIZES
    assert config.heads.answer.operators == len(answers.OPERATORS + answers.SHARES)
