"""LUNA's pre-training end to end: the words of its config, and a teacher that is stopped and goes on."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from configs import luna
from numjax import runs, signals, train
from numjax.errors import Preempted


def test_the_order_of_words_changes_nothing():
    words = ("numtok=none", "distill=on", "shape=roberta", "laptop")
    found = {luna.get_config(",".join(some)).to_json(sort_keys=True) for some in itertools.permutations(words)}
    assert len(found) == 1
    config = luna.get_config("laptop,distill=on,numtok=none")
    assert config.objectives.masked.weight.end == 0.6 and config.objectives.distill.weight.end == 0.4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("numtok=none,numbed=dice", "leave it out with numtok=none"),
        ("numbed=dice,numtok=none", "leave it out with numtok=none"),
        ("numtok=none,regress=on", "with numtok=none they are pieces"),
        ("numtok=none,size=1M", "size= is of character encoders"),
        ("numbed=dice,numbed=char_lstm", "numbed=dice and char_lstm: choose one"),
        ("task=tatqa,distill=on", "belongs to pre-training"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words, says):
    with pytest.raises(ValueError, match=says):
        luna.get_config(f"smoke,{words}")


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_the_rate_and_the_teachers_share_rise_together(scale):
    config = luna.get_config(f"{scale},distill=on")
    assert config.optim.warmup == config.objectives.distill.weight.steps == config.objectives.masked.weight.steps > 0


def test_a_teacher_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Student and teacher are bit-equal to those of a run that was not stopped; a new run inherits the student."""
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "data"))
    config = luna.get_config("smoke,distill=on,numbed=dice")
    with config.unlocked():
        config.compile_cache = ""
        config.task.size = 60
        config.backbone.layers = 1
        config.optim.steps = 4
        config.eval.update(every=100, test=False, examples=8)
    ended = []
    finish = train._Run.finish

    def kept(self, state, position, workdir):
        ended.append(jax.device_get((state.params, state.ema)))
        return finish(self, state, position, workdir)

    monkeypatch.setattr(train._Run, "finish", kept)
    runs.run(config, str(tmp_path / "straight"), "train")
    with monkeypatch.context() as patch:
        patch.setattr(signals.Signals, "stop_at", lambda self, step: step == 2)
        with pytest.raises(Preempted):
            runs.run(config, str(tmp_path / "stopped"), "train")
    runs.run(config, str(tmp_path / "stopped"), "train")
    straight, stopped = ended
    jax.tree.map(np.testing.assert_array_equal, straight, stopped)
    apart = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), *straight)
    assert max(jax.tree.leaves(apart)) > 0, "the teacher lags behind"
    with config.unlocked():
        config.init_from = str(tmp_path / "straight")
        config.optim.learning_rate = 0.0
        config.optim.steps = 1
    runs.run(config, str(tmp_path / "next"), "train")
    params, ema = ended[-1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), params, ema)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), params["backbone"], straight[0]["backbone"]
    )
