"""The contract of the training loop, with a step that only counts: order, intervals, positions and what is chosen."""

from __future__ import annotations

import contextlib
import json
import math
from types import SimpleNamespace

import ml_collections
import numpy as np
import pytest

from numjax.errors import Diverged, Preempted, UsageError
from numjax.runtime import log
from numjax.train import loop, workdir
from numjax.train.loop import Position
from numjax.types import TrainState

BATCH = 4
Progress = log.Progress
SCHEDULE = dict(learning_rate=1.0, schedule="linear", warmup=2, floor=0.0)


class Folder:
    """A folder of checkpoints that only lists what is done to it."""

    def __init__(self, name, events, tmp_path):
        self.name, self.events, self.folder, self.saved = name, events, tmp_path / name, {}

    def steps(self):
        return sorted(self.saved)

    def save(self, step, state, meta):
        self.events.append((self.name, step))
        self.saved[step] = state, meta

    def wait(self):
        self.events.append((f"{self.name} wait", None))


class RecordedProgress:
    def __init__(self, *arguments):
        self.counted = []

    def count(self, examples, tokens):
        self.counted.append((examples, tokens))

    def pause(self):
        return contextlib.nullcontext()

    def rates(self, step):
        return {}

    def print_line(self, step, means):
        pass

    def break_silence(self, step):
        pass


@pytest.fixture
def build_run(monkeypatch, tmp_path):
    """(options) → (a run whose state is the number of its steps, its events)."""

    def build(
        steps, *, eval_every=0, save_every=0, log_every=10**6, scores=None, metric="acc", loss=float, stop=None
    ):
        events: list = []
        values = dict(
            optim=dict(batch_size=BATCH, **SCHEDULE), eval=dict(every=eval_every, best=True, examples=0),
            data=dict(length=8),
            checkpoint=dict(every=save_every), log_every=log_every, profile_steps=(),
        )  # fmt: skip
        task = SimpleNamespace(metric=metric)
        system = SimpleNamespace(config=ml_collections.ConfigDict(values), model=None, task=task)

        def step(seed, rate, state, batch):
            assert batch == int(state.step), "each batch is trained on once, in order"
            # Linear decay after two steps of warm-up: the rate is that of the step, also after a resumption.
            expected_rate = batch / 2 if batch < 2 else 1 - (batch - 2) / (steps - 2)
            assert rate == pytest.approx(expected_rate, abs=1e-6)
            events.append(("step", batch))
            metrics = {"loss": (np.float32(loss(batch)), np.float32(1)), "grad_norm": (np.float32(1), np.float32(1))}
            return state._replace(step=state.step + 1), metrics

        def iterate(examples):
            assert examples % BATCH == 0
            n = examples // BATCH
            while True:
                events.append(("fetch", n))
                yield n, BATCH, 8 * BATCH
                n += 1

        def write(at, name, metrics):
            events.append((name, at) if name != "train" else (name, at, metrics["loss"]))

        evaluated = iter(scores or ())

        def score(*arguments, **options):
            return {"acc": next(evaluated, 0.5), "bad": math.nan}

        monkeypatch.setattr(loop.shard, "put", lambda batch, mesh: batch)
        monkeypatch.setattr(loop, "flops_per_token", lambda *a: 1.0)
        monkeypatch.setattr(loop.log, "Progress", RecordedProgress)
        profiler = SimpleNamespace(start_or_stop=lambda *a: None, close=lambda *a: None)
        monkeypatch.setattr(loop.profiling, "Profiler", lambda *a: profiler)
        splits = loop.Splits(SimpleNamespace(source=None, fingerprint="data"), object(), None)
        compiled = SimpleNamespace(step=step, mesh=None, abstract_state=None)
        signals = SimpleNamespace(stop_at=lambda at: at == stop)
        loader = SimpleNamespace(iterate=iterate, batches_of_epoch=lambda epoch: 5)
        folders = Folder("save", events, tmp_path), Folder("best", events, tmp_path)
        writer = SimpleNamespace(write=write)
        return loop._Run(system, splits, compiled, *folders, writer, loader, steps, 0, signals, score, None), events

    return build


def state_at(step):
    return TrainState(step=step, params={"x": step}, opt_state=("moments",), ema="average")


def begin(run, step=0):
    return run.loop(state_at(step), Position(step, step * BATCH, None, 0), {})


@pytest.mark.parametrize("start", [0, 4, 6])
@pytest.mark.parametrize(("eval_every", "save_every"), [(3, 2), (2, 3), (4, 4), (100, 100), (0, 0)])
def test_steps_evaluations_and_saves_come_at_their_intervals_and_in_their_order(
    build_run, start, eval_every, save_every
):
    run, events = build_run(11, eval_every=eval_every, save_every=save_every)
    state, position = begin(run, start)
    assert (int(state.step), position.step, position.examples) == (11, 11, 11 * BATCH)
    assert [at for name, at, *_ in events if name == "step"] == [*range(start, 11)]
    assert [at for name, at, *_ in events if name == "fetch"] == [*range(start, 11)]
    eval_every = eval_every or 5  # an epoch
    save_every = save_every or eval_every
    for name, every in (("validation", eval_every), ("save", save_every)):
        wanted = [at for at in range(start + 1, 12) if at % every == 0 or at == 11]
        assert [at for event, at, *_ in events if event == name] == wanted
    order = [event[0] for event in events if event[0] in ("validation", "save", "fetch", "step")]
    for at, name in enumerate(order[1:], 1):
        # evaluate → save → fetch → step
        assert name != "validation" or order[at - 1] == "step"
        assert name != "save" or order[at - 1] in ("step", "validation")
        assert name != "step" or order[at - 1] == "fetch"
    for step, (saved, meta) in run.checkpoints.saved.items():
        assert int(saved.step) == step == meta["position"]["step"] and meta["position"]["examples"] == step * BATCH
        assert meta["data"] == "data" and meta["seed"] == 0
    waits = [event[0] for event in events[-2:]]
    assert waits == ["save wait", "best wait"]


@pytest.mark.parametrize(
    ("steps", "written"),
    [
        (11, [(4, [0, 1, 4]), (8, [9, 16, 25, 36]), (11, [49, 64, 81, 100])]),
        (8, [(4, [0, 1, 4]), (8, [9, 16, 25, 36, 49])]),
        (3, [(3, [0, 1, 4])]),
    ],
)
def test_every_steps_loss_is_written_in_one_interval(build_run, steps, written):
    run, events = build_run(steps, eval_every=100, save_every=6, log_every=4, loss=lambda step: step**2)
    begin(run)
    # The metrics of a step are collected after the next one is dispatched, those of the last one at the end.
    assert [event[1:] for event in events if event[0] == "train"] == [
        (at, pytest.approx(np.mean(losses))) for at, losses in written
    ]
    if steps > 6:
        assert run.checkpoints.saved[6][1]["recent"]["loss"] == [9 + 16 + 25, 3]
    assert run.checkpoints.saved[steps][1]["recent"] == {}


def test_the_time_of_a_step_is_without_evaluations(build_run, monkeypatch):
    """Validations fall into the first and the last interval, and behind the last step."""
    run, _ = build_run(9, eval_every=2, save_every=100, log_every=3)
    clock, seconds = [0.0], {}
    monkeypatch.setattr(log, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(log, "Progress", Progress)
    step, score = run.compiled.step, run.score

    def take_step(*arguments):
        clock[0] += 1 + float(arguments[3] >= 6)
        return step(*arguments)

    def take_score(*arguments, **options):
        clock[0] += 1000
        return score(*arguments, **options)

    def write(at, name, metrics):
        if name == "train":
            seconds[at] = metrics["seconds_per_step"]

    run.compiled.step, run.score, run.writer.write = take_step, take_score, write
    begin(run)
    assert seconds == pytest.approx({3: 1.0, 6: 1.0, 9: 2.0})
    assert clock[0] == 6 + 3 * 2 + 5 * 1000


def test_a_finished_run_that_is_started_again_writes_no_line(build_run):
    run, events = build_run(8, log_every=4)
    begin(run, 8)
    assert not [event for event in events if event[0] == "train"]


@pytest.mark.parametrize(
    ("metric", "scores", "best", "kept"),
    [
        ("acc", [0.1, 0.3, 0.3, 0.2], 0.3, [2, 4]), ("-acc", [0.1, 0.3, 0.05, 0.05], -0.05, [2, 6]),
        ("acc", [math.nan, 0.2, math.nan, 0.1], 0.2, [4]), ("acc", [math.nan] * 4, None, []),
    ],
)  # fmt: skip
def test_the_best_step_is_the_first_with_the_best_score(build_run, metric, scores, best, kept):
    run, _ = build_run(8, eval_every=2, scores=scores, metric=metric)
    _, position = begin(run)
    assert position.best == best and position.best_step == (kept[-1] if kept else 0)
    assert run.best.steps() == kept
    for state, meta in run.best.saved.values():
        assert state.opt_state == () and state.ema is None and state.params, "parameters alone"
        assert all(math.isfinite(value) for value in meta["metrics"].values())
        assert "acc" in meta["metrics"] and "bad" not in meta["metrics"]


def test_a_best_that_is_nan_gives_way(build_run):
    run, _ = build_run(4, eval_every=2, scores=[-5.0, -6.0])
    _, position = run.loop(state_at(0), Position(0, 0, math.nan, 0), {})
    assert position.best == -5.0 and position.best_step == 2


def test_a_metric_that_is_not_scored_is_named(build_run):
    run, _ = build_run(4, eval_every=2, metric="-bleu")
    with pytest.raises(UsageError, match="chosen by bleu, which is not among acc, bad"):
        begin(run)


@pytest.mark.parametrize(("stop", "steps"), [(5, [2, 4, 5]), (4, [2, 4]), (0, [0])])
def test_a_signal_saves_its_step_once_and_stops(build_run, stop, steps):
    run, events = build_run(11, eval_every=100, save_every=2, stop=stop)
    with pytest.raises(Preempted, match=f"stopped at step {stop}"):
        begin(run)
    assert [at for name, at, *_ in events if name == "save"] == steps
    assert events[-1] == ("save wait", None) and ("step", stop) not in events


@pytest.mark.parametrize("bad", [0, 3, 4, 10])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_names_its_step_and_is_never_saved(build_run, bad, value):
    run, _ = build_run(11, eval_every=100, save_every=2, loss=lambda step: value if step == bad else 1.0)
    with pytest.raises(Diverged, match=f"the loss is {value} at step {bad}: ") as error:
        begin(run)
    assert run.checkpoints.steps() == [at for at in (2, 4, 6, 8, 10) if at <= bad]
    good = f"checkpoint {run.checkpoints.steps()[-1]} is good" if bad > 1 else "no checkpoint was saved yet"
    assert good in str(error.value)


def finish(build_run, monkeypatch, tmp_path, *, best=True, test=True, splits=("validation", "test"), restored=True):
    """{split: the parameters that it is scored with} of a run that has ended at step 8."""
    run, events = build_run(8)
    run.config = run.system.config = ml_collections.ConfigDict({"eval": {"best": best, "test": test}})
    run.splits = loop.Splits(None, *(name if name in splits else None for name in ("validation", "test")))
    run.best.restore = lambda shapes, newest: (newest, state_at(newest), {}) if restored else None
    run.compiled.abstract_state = state_at(0)
    scored = {}

    def score(system, compiled, params, encoded, split, workdir, tuned):
        assert encoded == split and workdir == tmp_path and set(tuned) == set(scored)
        scored[split] = params["x"]
        return {"acc": 1.0}

    run.score = score
    results = run.finish(state_at(8), Position(8, 32, 0.5, 6), tmp_path)
    assert results == {split: {"acc": 1.0} for split in scored}
    assert [event[0] for event in events] == [{"validation": "validation_best"}.get(name, name) for name in scored]
    return scored


def test_the_best_parameters_are_scored_on_the_splits_that_there_are(build_run, monkeypatch, tmp_path):
    given = build_run, monkeypatch, tmp_path
    assert finish(*given) == {"validation": 6, "test": 6}
    assert finish(*given, best=False) == finish(*given, restored=False) == {"validation": 8, "test": 8}
    assert finish(*given, test=False) == finish(*given, splits=("validation",)) == {"validation": 6}
    assert finish(*given, splits=("test",)) == {"test": 6} and finish(*given, splits=()) == {}


def test_the_folder_of_something_else_is_left_alone(tmp_path):
    """Another library's model has a config.json too; an unfinished run's own one, also a damaged one, is replaced."""
    config = ml_collections.ConfigDict({"task": {"name": "t"}, "log_every": 5})
    foreign = {"config.json": '{"model_type": "gpt2"}', "vocabulary/mine.txt": "words", "skipped.jsonl": "{}"}
    for content in (foreign["config.json"], "[1]", "{}"):
        for name, text in (foreign | {"config.json": content}).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=r"has a config.json that is not of a run: choose another --workdir"):
            workdir.claim(tmp_path, config)
        assert (tmp_path / "config.json").read_text() == content
        assert all(
            (tmp_path / name).read_text() == foreign[name] for name in ("vocabulary/mine.txt", "skipped.jsonl")
        )
    (tmp_path / "config.json").write_text('{"task": {"name": "t"}, "digest": "of another"')
    workdir.claim(tmp_path, config)
    assert not (tmp_path / "vocabulary").exists() and workdir._difference(tmp_path, config) is None


def test_settings_that_change_no_parameter_may_differ(tmp_path):
    config = {
        "task": {"name": "t"},
        "model": {"mesh": 1, "width": 4},
        "mesh": {"data": 1},
        "log_every": 5,
        "eval": {"generate": True, "every": 2},
    }
    assert workdir._difference(tmp_path, ml_collections.ConfigDict(config)) is None, "nothing is there"
    workdir.save_config(tmp_path, config)

    def difference(*path, value):
        changed = json.loads(json.dumps(config))
        inner = changed
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        return workdir._difference(tmp_path, ml_collections.ConfigDict(changed))

    assert workdir._difference(tmp_path, ml_collections.ConfigDict(config)) is None
    for path in (("mesh", "data"), ("log_every",), ("eval", "generate")):
        assert difference(*path, value=99) is None, path
    for path in (("model", "mesh"), ("model", "width"), ("eval", "every")):
        assert difference(*path, value=99).startswith(f"{'.'.join(path)} was "), path


def test_a_trained_workdir_keeps_its_config_where_settings_hold_for_one_use(tmp_path):
    def claim(**options):
        values = {"task": {"name": "t"}, "log_every": 5, "width": 4}
        workdir.claim(tmp_path, ml_collections.ConfigDict(values | options.pop("values", {})), **options)
        return workdir.load_config(tmp_path)

    assert claim()["width"] == 4
    assert claim(values={"width": 8}, keep=False)["width"] == 8, "nothing is trained: another config replaces it"
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    assert claim(values={"width": 8, "log_every": 7}, keep=False)["log_every"] == 5
    assert claim(values={"width": 8, "log_every": 7})["log_every"] == 7
    with pytest.raises(UsageError, match=r"made by another config \(width was 8, now 4"):
        claim()


@pytest.mark.parametrize("fingerprint", ["a", "z"])
def test_other_training_data_than_the_checkpoints_are_refused(tmp_path, fingerprint):
    meta = {"position": Position(3, 12, None, 0)._asdict(), "recent": {"loss": [2.0, 4.0]}, "data": "m"}
    checkpoints = SimpleNamespace(folder=tmp_path, restore=lambda shapes: (3, state_at(3), meta))

    def begin_with(data):
        splits = loop.Splits(SimpleNamespace(fingerprint=data), None, None)
        return loop._start(None, SimpleNamespace(abstract_state=None), checkpoints, 0, splits)

    with pytest.raises(UsageError, match="the training data are not those of checkpoint 3"):
        begin_with(fingerprint)
    state, position, recent = begin_with("m")
    assert int(state.step) == position.step == 3 and recent == {"loss": (2.0, 4.0)}


@pytest.mark.parametrize("epochs", [0.1, 0.5, 1, 1.5, 2.25, 3])
def test_epochs_are_counted_in_batches(epochs):
    sizes = [10, 11, 8, 9]  # epochs may differ
    loader = SimpleNamespace(batches_of_epoch=lambda epoch: sizes[epoch])
    whole = sum(sizes[: int(epochs)])
    steps = loop.count_steps(ml_collections.ConfigDict({"optim": {"steps": 0, "epochs": epochs}}), loader)
    assert steps == max(1, whole + round((epochs - int(epochs)) * sizes[int(epochs)]))
    assert loop.count_steps(ml_collections.ConfigDict({"optim": {"steps": 7, "epochs": epochs}}), loader) == 7
    assert loop.count_steps(ml_collections.ConfigDict({"optim": {"steps": 1, "epochs": epochs}}), loader) == 1
    tiny = ml_collections.ConfigDict({"optim": {"steps": 0, "epochs": 0.01}})
    assert loop.count_steps(tiny, loader) == 1, "a run has a step"
