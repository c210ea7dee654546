"""Kills, a full disk, damaged files and NaN: the messages of a run, and a restart that gives identical results.

`experiments/faults` kills at random moments and counts records. These tests kill once in each kind of moment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.futures import future

from numjax import modes
from numjax.bundled import data as datasets
from numjax.bundled.experiments.faults import verdict
from numjax.config import origin
from numjax.errors import DataError, Diverged, UsageError
from numjax.evals import report
from numjax.modes.data import load_data
from numjax.pipeline.loader import Loader
from numjax.runtime import files, log, shard, stop
from numjax.system import assemble
from numjax.text import vocab
from numjax.train import digests, workdir
from numjax.train.checkpoint import Checkpoints
from numjax.train.compile import make_compiled
from numjax.train.loop import train
from tests.runs_test import ROOT, cache, command, finish, lines, start, tiny, wait_for_step  # noqa: F401

# Orbax leaves coroutines behind when it cannot read a file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LIMIT = 240  # seconds; a process that hangs is killed
RATES = ("examples_per_second", "tokens_per_second", "seconds_per_step")


def make_config(**changes):
    """Returns the config that `command` gives a process."""
    settings = tiny(**changes)
    with settings.unlocked():
        del settings.task["size"]
    return settings


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory):
    """The workdir of a run without a fault."""
    folder = tmp_path_factory.mktemp("straight")
    modes.run(make_config(), str(folder), "train")
    return folder


@pytest.fixture
def run_copy(undisturbed_run, tmp_path):
    """A copy of that workdir, to be damaged."""
    return pathlib.Path(shutil.copytree(undisturbed_run, tmp_path / "copied"))


def load_params(workdir: pathlib.Path, folder: str = "checkpoints"):
    with contextlib.closing(Checkpoints(workdir / folder)) as checkpoints:
        return jax.device_get(checkpoints.restore_params())


def load_history(workdir: pathlib.Path) -> list[dict]:
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in RATES} for row in rows]


def assert_same_run(workdir: pathlib.Path, undisturbed_run: pathlib.Path) -> None:
    """Asserts that two runs have the same parameters bit for bit, and the same metrics and predictions."""
    for folder in ("checkpoints", "best"):
        (mine, step), (theirs, last) = load_params(workdir, folder), load_params(undisturbed_run, folder)
        assert step == last
        jax.tree.map(np.testing.assert_array_equal, mine, theirs)
    assert load_history(workdir) == load_history(undisturbed_run)
    predictions = "predictions/mme.validation.jsonl"
    assert (workdir / predictions).read_text() == (undisturbed_run / predictions).read_text()


def kill_when(process: subprocess.Popen, is_reached) -> None:
    """Kills the process as soon as `is_reached()`; fails when the run ends before that, or hangs."""
    wait_until(process, is_reached)
    process.kill()
    process.communicate()


def wait_until(process: subprocess.Popen, is_reached) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_reached():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the moment never came:\n{process.communicate()[1][-3000:]}")
        time.sleep(0.001)


def test_killed_while_compiling_saving_and_evaluating_a_run_resumes_with_identical_results(
    undisturbed_run, tmp_path, capsys
):
    run, checkpoints = tmp_path / "run", tmp_path / "run" / "checkpoints"

    def last_step():
        with contextlib.suppress(OSError, IndexError, json.JSONDecodeError):
            return lines(run)[-1]["step"]
        return 0

    # The loop has opened its files and compiles its first step.
    kill_when(start(run), lambda: (run / "metrics.jsonl").exists())
    assert last_step() == 0 and not list(checkpoints.glob("[0-9]*"))
    kill_when(start(run), lambda: list(checkpoints.glob("*.orbax-checkpoint-tmp")))
    assert list(checkpoints.glob("*.orbax-checkpoint-tmp"))
    kill_when(start(run), lambda: last_step() == 20)
    assert not lines(run, "validation")
    # The best parameters are saved; the checkpoint with their step is not.
    kill_when(start(run), lambda: (run / "best" / "20").exists())
    assert not (checkpoints / "20").exists()
    modes.run(make_config(), str(run), "train")
    assert "resumed" in capsys.readouterr().err
    assert_same_run(run, undisturbed_run)


def test_signals_outside_the_loop_end_a_run_at_once_with_a_message(tmp_path, request):
    """While records are encoded, while a step is compiled, and at any moment between."""
    moments = {
        signal.SIGTERM: lambda run: (run / "config.json").exists(),
        signal.SIGINT: lambda run: (run / "vocabulary").exists(),
    }
    for number, is_reached in moments.items():
        run = tmp_path / number.name
        process = start(run, "--mode=check")
        request.addfinalizer(process.kill)
        wait_until(process, functools.partial(is_reached, run))
        time.sleep(random.random())
        process.send_signal(number)
        code, output = finish(process)
        assert code == 143, output
        assert output.splitlines()[-1] == f"numjax: {stop.MESSAGE}"
        assert "Traceback" not in output and "Fatal" not in output


def test_two_runs_never_write_one_workdir(tmp_path, monkeypatch, request):
    """The second run waits for the first, which may be saving, and resumes from its checkpoint, or gives up."""
    first = start(tmp_path, "--config.optim.steps=100000")
    request.addfinalizer(first.kill)
    wait_for_step(first, 8)
    config_bytes = (tmp_path / "config.json").read_bytes()
    monkeypatch.setattr(workdir, "LOCK_WAIT", 0)
    for mode in ("train", "check"):
        with pytest.raises(UsageError, match=r"another process is at work in .* use another --workdir"):
            modes.run(make_config(**{"optim.steps": 100000, "data.threads": 1}), str(tmp_path), mode)
    assert (tmp_path / "config.json").read_bytes() == config_bytes
    second = start(tmp_path, "--config.optim.steps=100000")
    request.addfinalizer(second.kill)
    assert next(line for line in second.stderr if "waiting at most 20 seconds for it to end" in line)
    first.send_signal(signal.SIGTERM)
    assert finish(first)[0] == 143
    last_step = max(row["step"] for row in lines(tmp_path))
    wait_for_step(second, last_step + 3)
    second.send_signal(signal.SIGTERM)
    assert finish(second)[0] == 143
    steps = [row["step"] for row in lines(tmp_path)]
    assert steps == list(range(2, steps[-1] + 1))


def test_without_locks_a_run_continues_with_a_warning(tmp_path, monkeypatch, capsys):
    def flock(file, fault):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    for number in (errno.ENOLCK, errno.EOPNOTSUPP):
        with files.hold_lock(tmp_path / ".lock", "held", 0):
            assert f"no locks ({os.strerror(number)})" in capsys.readouterr().err
    number = errno.EIO
    with pytest.raises(OSError, match=os.strerror(number)), files.hold_lock(tmp_path / ".lock", "held", 0):
        raise AssertionError("the disk fails")


def test_nan_at_a_step_is_not_saved_and_a_missing_dataset_is_rebuilt(undisturbed_run, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "cache"))
    settings, run = make_config(), tmp_path / "run"
    system = assemble(settings, run)
    data = load_data(system, run, False)
    shutil.rmtree(tmp_path / "cache")
    loader = Loader(data.train, settings, seed=0, host_features=system.host_features)
    compiled = make_compiled(system, shard.mesh_from_config(settings), loader.example_batch())

    def step(seed, rate, state, batch):
        step_number = int(state.step)
        state, metrics = compiled.step(seed, rate, state, batch)
        if step_number == 19:  # the loss is still finite; the state to save at step 20 is not
            state = state._replace(params=jax.tree.map(lambda x: x * jnp.nan, state.params))
            metrics |= {"grad_norm": (jnp.float32(jnp.nan), jnp.float32(1))}
        return state, metrics

    with pytest.raises(Diverged, match="the gradient's norm is nan at step 19: checkpoint 15 is good"):
        train(system, data, run, 0, report.score_split, compiled._replace(step=step))
    params, last = load_params(run)
    assert last == 15 and all(np.isfinite(x).all() for x in jax.tree.leaves(params))
    modes.run(settings, str(run), "train")
    assert_same_run(run, undisturbed_run)


def damage(file: pathlib.Path, fault: str, rng: np.random.Generator) -> None:
    content = bytearray(file.read_bytes())
    if fault == "flip":
        bit = int(rng.integers(8 * len(content)))
        content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content if fault == "flip" else content[: len(content) // 2])
    if fault == "gone":
        file.unlink()


def test_no_damage_of_a_checkpoint_stays_undetected(tmp_path, rng, capsys):
    arrays = [jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((64, 96), (700,), (3,))]
    states = {step: {"params": {f"x{i}": x * step for i, x in enumerate(arrays)}} for step in (1, 2)}
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        for step, state in states.items():
            checkpoints.save(step, state, {"position": {"step": step, "examples": 8 * step}})
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), states[1])
    n_restored, n_state_files = {1: 0, 2: 0}, 0
    for file in [path for path in sorted((tmp_path / "2").rglob("*")) if path.is_file()]:
        content = file.read_bytes()
        n_state_files += len(content) > 10_000
        for fault in ("flip",) * 8 + ("truncate", "gone"):
            damage(file, fault, rng)
            with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
                step, state, meta = checkpoints.restore(shapes)
            assert (step == 1) == ("checkpoint 2 in" in (message := capsys.readouterr().err)), (file, fault, message)
            jax.tree.map(np.testing.assert_array_equal, state, states[step])
            assert meta == {"position": {"step": step, "examples": 8 * step}}
            assert step == 1 or len(content) < 10_000, (file, fault)
            file.write_bytes(content)
            n_restored[step] += 1
    # Some small files only repeat the content of others.
    assert n_state_files and min(n_restored.values()) > 10, n_restored


def test_a_damaged_checkpoint_is_saved_again_and_without_a_good_one_nothing_starts(
    undisturbed_run, run_copy, rng, capsys
):
    largest = max((run_copy / "checkpoints" / "40" / "state").rglob("*"), key=lambda path: path.stat().st_size)
    damage(largest, "flip", rng)
    modes.run(make_config(), str(run_copy), "train")
    messages = capsys.readouterr().err
    assert "checkpoint 40" in messages and "is damaged" in messages and "at step 35" in messages
    assert_same_run(run_copy, undisturbed_run)
    for name in ("35", "40"):
        for file in (run_copy / "checkpoints" / name).rglob("*"):
            if file.is_file():
                file.write_bytes(b"")
    with pytest.raises(UsageError, match="move it away to start afresh"):
        modes.run(make_config(), str(run_copy), "train")


def test_a_clock_that_jumps_while_a_save_is_written_does_not_end_it(tmp_path, monkeypatch):
    """Orbax measures the time of a save by the time of day."""
    hours = itertools.count()
    monkeypatch.setattr(future, "time", SimpleNamespace(time=lambda: 3600 * next(hours)))
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(1, {"x": jnp.ones(3)}, {})
        checkpoints.wait()
        assert checkpoints.steps() == [1]
    assert next(hours) > 2  # Orbax has asked this clock


def test_a_save_that_waits_too_long_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(ocp.CheckpointManager, "wait_until_finished", raise_timeout)
    with pytest.raises(UsageError, match=r"a save to .* waited too long, or the clock was set: start again"):
        Checkpoints(tmp_path).wait()


def raise_timeout(self):
    raise TimeoutError("Timeout waiting for key 'x'")


def test_checkpoints_after_the_restored_step_are_dropped(tmp_path):
    with contextlib.closing(Checkpoints(tmp_path, keep=5)) as checkpoints:
        for step in (10, 20, 30):
            checkpoints.save(step, {"x": jnp.full(3, float(step))}, {})
        checkpoints.wait()
        shapes = {"x": jax.ShapeDtypeStruct((3,), jnp.float32, sharding=jnp.zeros(3).sharding)}
        assert checkpoints.restore(shapes, newest=25)[0] == 20
        checkpoints.drop_after(10)
        assert checkpoints.steps() == [10]
        checkpoints.save(20, {"x": jnp.zeros(3)}, {})
        checkpoints.wait()
        step, state, _ = checkpoints.restore(shapes)
        assert step == 20 and not state["x"].any()


def test_checkpoints_without_digests_are_restored(tmp_path):
    state = {"params": {"x": jnp.arange(3.0)}}
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        parts = {"state": ocp.args.StandardSave(state), "meta": ocp.args.JsonSave({"seed": 1})}
        checkpoints._manager.save(7, args=ocp.args.Composite(**parts))
        checkpoints.wait()
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
        step, arrays, meta = checkpoints.restore(shapes)
    assert step == 7 and meta == {"seed": 1} and arrays["params"]["x"].tolist() == [0, 1, 2]


def test_the_verdict_of_kill_runs_counts_lost_and_repeated_records(tmp_path):
    def write(name, *rows, cut=""):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows) + cut)
        return verdict.trace_lineage(tmp_path / name)

    first_row, steps = {"from": 0}, [{"step": i, "ids": [2 * i % 4, 2 * i % 4 + 1]} for i in range(4)]
    whole_lineage = write("whole", first_row, *steps)
    clean_counts = {"records": 4, "records_lost": 0, "records_read_twice": 0, "records_twice_in_an_epoch": 0}

    def select_counts(lineage):
        return {
            name: value
            for name, value in verdict.compare_records(lineage, whole_lineage).items()
            if name in clean_counts
        }

    # Killed in step 2 and resumed from 1: the records of the lost steps do not count.
    assert (
        select_counts(write("resumed", first_row, *steps[:3], {"from": 1}, *steps[1:], cut='{"step": 4, "i'))
        == clean_counts
    )
    assert select_counts(write("jumped", first_row, *steps[:2], {"from": 3}, *steps[3:])) == clean_counts | {
        "records_lost": 2
    }
    repeated_steps = [steps[0], {"step": 1, "ids": [0, 1]}, *steps[2:]]
    assert select_counts(write("repeated", first_row, *repeated_steps)) == clean_counts | {
        "records_lost": 2, "records_read_twice": 2, "records_twice_in_an_epoch": 2,
    }  # fmt: skip
    # Each of two processes has half of each step.
    for i in range(2):
        write(f"shared.{i}", first_row, *({"step": row["step"], "ids": row["ids"][i : i + 1]} for row in steps))
    assert select_counts(verdict.trace_lineage(tmp_path / "shared")) == clean_counts


def test_digests_change_with_every_element_and_not_with_the_layout(rng):
    kinds = (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.uint8, jnp.bool_)
    x = rng.integers(0, 2, (4, 6))
    for kind in kinds:
        array = jnp.asarray(x, kind)
        hashes = {digests.digest_arrays({"a": array})["a"]}
        for index in np.ndindex(4, 6):
            other = x.copy()
            other[index] = 1 - other[index]
            hashes.add(digests.digest_arrays({"a": jnp.asarray(other, kind)})["a"])
        assert len(hashes) == 25
    floats = jnp.asarray(rng.normal(size=(4, 6)), jnp.float32)
    assert (
        len(
            {
                *digests.digest_arrays(
                    {"a": floats, "b": floats[::-1], "c": -floats, "d": floats.reshape(6, 4)}
                ).values()
            }
        )
        == 4
    )
    assert digests.digest_arrays({"a": jnp.float32(0.0)}) != digests.digest_arrays({"a": jnp.float32(-0.0)})


def test_damaged_vocabularies_and_configs_are_refused(run_copy, rng):
    folder = run_copy / "vocabulary"
    good_vocabulary, good_config = vocab.load(str(folder)), origin.load_config(run_copy)
    for file in [*folder.iterdir(), run_copy / "config.json"]:
        content, n_refused = file.read_bytes(), 0
        for fault in ("flip",) * 60 + ("truncate",):
            damage(file, fault, rng)
            try:
                if file.name == "config.json":
                    assert good_config.items() <= origin.load_config(run_copy).items()
                else:
                    vocabulary = vocab.load(str(folder))
                    assert vocabulary.pieces == good_vocabulary.pieces and vocabulary.marks == good_vocabulary.marks
            except UsageError:
                n_refused += 1
            file.write_bytes(content)
        assert n_refused > 40  # the rest is white space
    damage(folder / "sentencepiece.model", "flip", rng)
    with pytest.raises(UsageError, match="is damaged: bring it back, or delete the folder"):
        modes.run(make_config(), str(run_copy), "train")


def test_other_training_data_than_the_checkpoints_are_refused(run_copy):
    texts = [f"{a} and {b} make more" for a in range(300) for b in "abcdefghij"]
    block = {"name": "sentencepiece", "size": 400, "model": "bpe"}
    vocab.build(block, texts).save(str(run_copy / "vocabulary"))
    with pytest.raises(UsageError, match="the training data are not those of checkpoint 40"):
        modes.run(make_config(), str(run_copy), "train")


def test_damaged_datasets_are_named_with_the_way_to_rebuild_them(tmp_path, rng):
    def load_splits():
        return [list(datasets.load("mme", split, tmp_path, size=200)) for split in ("train", "validation", "test")]

    good_records = load_splits()
    folder = datasets.load("mme", "train", tmp_path, size=200).folder
    for file in [path for path in sorted(folder.iterdir()) if path.name != "features.json"]:
        content, n_refused = file.read_bytes(), 0
        for fault in ("flip",) * 20 + ("truncate",):
            damage(file, fault, rng)
            try:
                assert (
                    load_splits() == good_records
                )  # only padding is damaged, or fields of the list beside lengths and names
            except DataError as error:
                assert "is damaged" in str(error) and "delete it and run again" in str(error)
                n_refused += 1
            file.write_bytes(content)
        assert n_refused
    (folder / "mme-validation.array_record-00000-of-00001").unlink()
    with pytest.raises(DataError, match=r"mme-validation.* is missing"):
        modes.run(tiny(**{"data.dir": str(tmp_path), "task.size": 200}), str(tmp_path / "run"), "train")
    shutil.rmtree(folder)
    assert load_splits() == good_records


@contextlib.contextmanager
def limit_file_size(size: int):
    """No file can grow beyond `size` bytes: the system refuses to write, as with a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_metrics_that_no_longer_fit_are_reported_and_none_is_lost(tmp_path):
    writer = log.MetricsWriter(tmp_path, 0)
    for step in range(1, 6):
        writer.write(step, "train", {"loss": 1.0})
    size = (tmp_path / "metrics.jsonl").stat().st_size
    with (
        limit_file_size(size + 10),
        pytest.raises(UsageError, match=r"metrics.jsonl \(File too large\): make room and run"),
    ):
        with files.report_full_disk(tmp_path):
            writer.write(6, "train", {"loss": 1.0})
    writer.close()
    assert (tmp_path / "metrics.jsonl").stat().st_size == size + 10  # half a line is written
    writer = log.MetricsWriter(tmp_path, 5)
    writer.write(6, "train", {"loss": 1.0})
    writer.close()
    assert [row["step"] for row in lines(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_predictions_that_do_not_fit_leave_the_earlier_file(run_copy):
    file = run_copy / "predictions" / "mme.validation.jsonl"
    text = file.read_text()
    with (
        limit_file_size(len(text) // 2),
        pytest.raises(UsageError, match=r"cannot write .* \(File too large\): make room"),
    ):
        modes.run(make_config(), str(run_copy), "eval")
    assert file.read_text() == text and not list(run_copy.rglob("*.tmp"))


def test_events_have_the_format_of_tensorboard(tmp_path):
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    writer = log.MetricsWriter(tmp_path, 3)
    writer.write(4, "train", {"loss": 0.5})
    writer.close()
    (file,) = tmp_path.glob("events.out.tfevents.*")
    content, events = file.read_bytes(), []
    while content:
        size = int.from_bytes(content[:8], "little")
        head, data, tail = content[8:12], content[12 : 12 + size], content[12 + size : 16 + size]
        assert int.from_bytes(head, "little") == masked_crc32c(content[:8])
        assert int.from_bytes(tail, "little") == masked_crc32c(data)
        events.append(Event.FromString(data))
        content = content[16 + size :]
    assert [event.step for event in events] == [0, 3, 4] and events[0].file_version == "brain.Event:2"
    assert [(value.tag, value.simple_value) for value in events[2].summary.value] == [("train/loss", 0.5)]


NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def test_only_the_late_errors_of_a_failed_save_are_silenced(monkeypatch):
    printed_errors, unraisable_errors = [], []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: printed_errors.append(error))
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable_errors.append(args.exc_value))
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    log.quieten()
    errors = [RuntimeError("Event loop is closed"), RuntimeError("another"), ValueError("Event loop is closed")]
    for error in errors:
        sys.excepthook(type(error), error, None)
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert printed_errors == unraisable_errors == errors[1:]


def test_a_full_disk_is_one_line_and_with_room_the_run_resumes(undisturbed_run, tmp_path, capsys):
    """Uses a real file system without room for three checkpoints, in its own mount namespace, which needs no root."""
    disk, copy = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1400k tmpfs {disk}"
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "sh", "-c", mount], check=False).returncode:
        pytest.skip("no user namespaces here to mount a small disk in")
    run = " ".join(command(disk / "run"))
    process = subprocess.run(
        [*NAMESPACE, "sh", "-c", f"{mount}; {run}; echo $?; cp -r {disk}/run {copy}"],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    # TensorStore's threads meet closed event loops: the run still prints one line and no traceback.
    (message,) = [line for line in process.stderr.splitlines() if line.startswith("numjax: ")] or [
        process.stderr[-6000:]
    ]
    assert process.stdout == "2\n" and re.fullmatch(
        r"numjax: cannot write .*No space left.*make room.*are kept", message
    )
    assert "Traceback" not in process.stderr and "Event loop" not in process.stderr, process.stderr[-3000:]
    modes.run(make_config(), str(copy), "train")  # on a disk with room
    assert "resumed" in capsys.readouterr().err
    assert_same_run(copy, undisturbed_run)
