"""Faults: kills, a full disk, damaged files, NaN: what a run says, and that a restart ends as if nothing had been.

`experiments/faults` kills at random moments and counts records; here each kind of moment is hit once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pathlib
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

from numjax.bundled import data as datasets
from numjax.bundled.experiments.faults import verdict
from numjax.config import origin
from numjax.errors import DataError, Diverged, Preempted, UsageError
from numjax.pipeline.loader import Loader
from numjax.runtime import files, log, shard
from numjax.system import assemble
from numjax.text import vocab
from numjax.train import digests, runs
from numjax.train.checkpoint import Checkpoints
from numjax.train.compile import make_compiled
from numjax.train.loop import train
from tests.runs_test import ROOT, cache, command, finish, lines, start, tiny, wait_for_step  # noqa: F401

# Orbax leaves coroutines behind when a file cannot be read.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LIMIT = 240  # seconds; a hung process is killed, never left
RATES = ("examples_per_second", "tokens_per_second", "seconds_per_step")


def config(**changes):
    """What `command` gives a process."""
    made = tiny(**changes)
    with made.unlocked():
        del made.task["size"]
    return made


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("straight")
    runs.run(config(), str(folder), "train")
    return folder


@pytest.fixture
def copied(straight, tmp_path):
    """A copy of it to damage."""
    return pathlib.Path(shutil.copytree(straight, tmp_path / "copied"))


def learned(workdir: pathlib.Path, folder: str = "checkpoints"):
    with contextlib.closing(Checkpoints(workdir / folder)) as checkpoints:
        return jax.device_get(checkpoints.restore_params())


def history(workdir: pathlib.Path) -> list[dict]:
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in RATES} for row in rows]


def same(workdir: pathlib.Path, straight: pathlib.Path) -> None:
    """Two runs have learned the same, bit for bit, and tell the same story, line for line."""
    for folder in ("checkpoints", "best"):
        (mine, step), (theirs, last) = learned(workdir, folder), learned(straight, folder)
        assert step == last
        jax.tree.map(np.testing.assert_array_equal, mine, theirs)
    assert history(workdir) == history(straight)
    predictions = "predictions/mme.validation.jsonl"
    assert (workdir / predictions).read_text() == (straight / predictions).read_text()


def kill_when(process: subprocess.Popen, reached) -> None:
    """Kills as soon as `reached()`; fails when the run ends before, or hangs."""
    end = time.monotonic() + LIMIT
    while not reached():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            pytest.fail(f"the moment never came:\n{process.communicate()[1][-3000:]}")
        time.sleep(0.001)
    process.kill()
    process.communicate()


def test_killed_while_compiling_saving_and_evaluating_it_goes_on_bit_for_bit(straight, tmp_path, capsys):
    run, saved = tmp_path / "run", tmp_path / "run" / "checkpoints"

    def last_step():
        with contextlib.suppress(OSError, IndexError, json.JSONDecodeError):
            return lines(run)[-1]["step"]
        return 0

    # The loop's files are open; its first step is being compiled.
    kill_when(start(run), lambda: (run / "metrics.jsonl").exists())
    assert last_step() == 0 and not list(saved.glob("[0-9]*"))
    kill_when(start(run), lambda: list(saved.glob("*.orbax-checkpoint-tmp")))
    assert list(saved.glob("*.orbax-checkpoint-tmp"))
    kill_when(start(run), lambda: last_step() == 20)
    assert not lines(run, "validation")
    # The better parameters are saved, and the position that says so is not.
    kill_when(start(run), lambda: (run / "best" / "20").exists())
    assert not (saved / "20").exists()
    runs.run(config(), str(run), "train")
    assert "resumed" in capsys.readouterr().err
    same(run, straight)


def test_sigterm_outside_the_loop_ends_at_once_and_says_so(tmp_path):
    late = []
    before = signal.signal(signal.SIGTERM, lambda *_: late.append(1))

    def send():
        while not (tmp_path / "config.json").exists():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(Preempted, match="run the same command to go on"):
            runs.run(config(), str(tmp_path), "check")
        sender.join()
        os.kill(os.getpid(), signal.SIGTERM)
        assert late == [1]  # and afterwards signals go where they went before
    finally:
        signal.signal(signal.SIGTERM, before)


def test_two_runs_never_write_one_workdir(tmp_path, monkeypatch, request):
    """Who comes second waits for the first, which may be saving, and goes on from there; or gives up."""
    first = start(tmp_path, "--config.optim.steps=100000")
    request.addfinalizer(first.kill)
    wait_for_step(first, 8)
    before = (tmp_path / "config.json").read_bytes()
    monkeypatch.setattr(runs, "LOCK_WAIT", 0)
    for mode in ("train", "check"):
        with pytest.raises(UsageError, match=r"another process is at work in .* use another --workdir"):
            runs.run(config(**{"optim.steps": 100000, "data.threads": 1}), str(tmp_path), mode)
    assert (tmp_path / "config.json").read_bytes() == before
    second = start(tmp_path, "--config.optim.steps=100000")
    request.addfinalizer(second.kill)
    assert next(line for line in second.stderr if "waiting at most 20 seconds for it to end" in line)
    first.send_signal(signal.SIGTERM)
    assert finish(first)[0] == 143
    stopped = max(row["step"] for row in lines(tmp_path))
    wait_for_step(second, stopped + 3)
    second.send_signal(signal.SIGTERM)
    assert finish(second)[0] == 143
    steps = [row["step"] for row in lines(tmp_path)]
    assert steps == list(range(2, steps[-1] + 1))


def test_without_locks_a_run_goes_on_and_says_so(tmp_path, monkeypatch, capsys):
    def flock(file, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    for number in (errno.ENOLCK, errno.EOPNOTSUPP):
        with files.hold_lock(tmp_path / ".lock", "held", 0):
            assert f"no locks ({os.strerror(number)})" in capsys.readouterr().err
    number = errno.EIO
    with pytest.raises(OSError, match=os.strerror(number)), files.hold_lock(tmp_path / ".lock", "held", 0):
        raise AssertionError("the disk fails")


def test_nan_at_a_step_is_not_saved_and_a_dataset_that_vanishes_is_built_anew(straight, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "cache"))
    settings, run = config(), tmp_path / "run"
    system = assemble(settings, run)
    data = runs.load_data(system, run, False)
    shutil.rmtree(tmp_path / "cache")
    loader = Loader(data.train, settings, seed=0, host_features=system.host_features)
    compiled = make_compiled(system, shard.mesh_from_config(settings), loader.example_batch(), 40)

    def step(seed, state, batch):
        at = int(state.step)
        state, metrics = compiled.step(seed, state, batch)
        if at == 19:  # the loss is still finite; what is saved at step 20 would not be
            state = state._replace(params=jax.tree.map(lambda x: x * jnp.nan, state.params))
            metrics |= {"grad_norm": (jnp.float32(jnp.nan), jnp.float32(1))}
        return state, metrics

    with pytest.raises(Diverged, match="the gradient's norm is nan at step 19: checkpoint 15 is good"):
        train(system, data, run, 0, compiled._replace(step=step))
    params, last = learned(run)
    assert last == 15 and all(np.isfinite(x).all() for x in jax.tree.leaves(params))
    runs.run(settings, str(run), "train")
    same(run, straight)


def damage(file: pathlib.Path, how: str, rng: np.random.Generator) -> None:
    content = bytearray(file.read_bytes())
    if how == "flip":
        bit = int(rng.integers(8 * len(content)))
        content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content if how == "flip" else content[: len(content) // 2])
    if how == "gone":
        file.unlink()


def test_no_damage_of_a_checkpoint_passes_unseen(tmp_path, rng, capsys):
    like = [jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((64, 96), (700,), (3,))]
    saved = {step: {"params": {f"x{i}": x * step for i, x in enumerate(like)}} for step in (1, 2)}
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        for step, state in saved.items():
            checkpoints.save(step, state, {"position": {"step": step, "examples": 8 * step}})
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), saved[1])
    found, state_files = {1: 0, 2: 0}, 0
    for file in [path for path in sorted((tmp_path / "2").rglob("*")) if path.is_file()]:
        content = file.read_bytes()
        state_files += len(content) > 10_000
        for how in ("flip",) * 8 + ("truncate", "gone"):
            damage(file, how, rng)
            with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
                step, state, meta = checkpoints.restore(shapes)
            assert (step == 1) == ("checkpoint 2 in" in (told := capsys.readouterr().err)), (file, how, told)
            jax.tree.map(np.testing.assert_array_equal, state, saved[step])
            assert meta == {"position": {"step": step, "examples": 8 * step}}
            assert step == 1 or len(content) < 10_000, (file, how)
            file.write_bytes(content)
            found[step] += 1
    # Some small files only repeat what others say.
    assert state_files and min(found.values()) > 10, found


def test_a_damaged_checkpoint_is_made_anew_and_without_a_good_one_nothing_starts(straight, copied, rng, capsys):
    largest = max((copied / "checkpoints" / "40" / "state").rglob("*"), key=lambda path: path.stat().st_size)
    damage(largest, "flip", rng)
    runs.run(config(), str(copied), "train")
    said = capsys.readouterr().err
    assert "checkpoint 40" in said and "is damaged" in said and "at step 35" in said
    same(copied, straight)
    for name in ("35", "40"):
        for file in (copied / "checkpoints" / name).rglob("*"):
            if file.is_file():
                file.write_bytes(b"")
    with pytest.raises(UsageError, match="move it away to start afresh"):
        runs.run(config(), str(copied), "train")


def test_steps_of_a_life_that_was_lost_give_way(tmp_path):
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


def test_checkpoints_of_before_there_were_digests_are_read(tmp_path):
    state = {"params": {"x": jnp.arange(3.0)}}
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        parts = {"state": ocp.args.StandardSave(state), "meta": ocp.args.JsonSave({"seed": 1})}
        checkpoints._manager.save(7, args=ocp.args.Composite(**parts))
        checkpoints.wait()
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
        step, found, meta = checkpoints.restore(shapes)
    assert step == 7 and meta == {"seed": 1} and found["params"]["x"].tolist() == [0, 1, 2]


def test_the_kill_runs_verdict_sees_what_is_lost_and_what_is_read_twice(tmp_path):
    def write(name, *rows, cut=""):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows) + cut)
        return verdict.trace_lineage(tmp_path / name)

    begin, steps = {"from": 0}, [{"step": i, "ids": [2 * i % 4, 2 * i % 4 + 1]} for i in range(4)]
    whole = write("whole", begin, *steps)
    none = {"records": 4, "records_lost": 0, "records_read_twice": 0, "records_twice_in_an_epoch": 0}

    def of(found):
        return {name: value for name, value in verdict.compare_records(found, whole).items() if name in none}

    # Killed in step 2, gone on from 1: what was taken in vain is forgotten.
    assert of(write("resumed", begin, *steps[:3], {"from": 1}, *steps[1:], cut='{"step": 4, "i')) == none
    assert of(write("jumped", begin, *steps[:2], {"from": 3}, *steps[3:])) == none | {"records_lost": 2}
    twice = [steps[0], {"step": 1, "ids": [0, 1]}, *steps[2:]]
    assert of(write("repeated", begin, *twice)) == none | {
        "records_lost": 2, "records_read_twice": 2, "records_twice_in_an_epoch": 2,
    }  # fmt: skip
    # Two processes have a half of each step.
    for i in range(2):
        write(f"shared.{i}", begin, *({"step": row["step"], "ids": row["ids"][i : i + 1]} for row in steps))
    assert of(verdict.trace_lineage(tmp_path / "shared")) == none


def test_digests_change_with_every_element_and_not_with_the_layout(rng):
    kinds = (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.uint8, jnp.bool_)
    x = rng.integers(0, 2, (4, 6))
    for kind in kinds:
        array = jnp.asarray(x, kind)
        seen = {digests.digest_arrays({"a": array})["a"]}
        for place in np.ndindex(4, 6):
            other = x.copy()
            other[place] = 1 - other[place]
            seen.add(digests.digest_arrays({"a": jnp.asarray(other, kind)})["a"])
        assert len(seen) == 25
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


def test_damaged_vocabularies_and_configs_are_refused(copied, rng):
    folder = copied / "vocabulary"
    good, right = vocab.load(str(folder)), origin.load_config(copied)
    for file in [*folder.iterdir(), copied / "config.json"]:
        content, refused = file.read_bytes(), 0
        for how in ("flip",) * 60 + ("truncate",):
            damage(file, how, rng)
            try:
                if file.name == "config.json":
                    assert right.items() <= origin.load_config(copied).items()
                else:
                    found = vocab.load(str(folder))
                    assert found.pieces == good.pieces and found.marks == good.marks
            except UsageError:
                refused += 1
            file.write_bytes(content)
        assert refused > 40  # the rest is white space
    damage(folder / "sentencepiece.model", "flip", rng)
    with pytest.raises(UsageError, match="is damaged: bring it back, or delete the folder"):
        runs.run(config(), str(copied), "train")


def test_other_training_data_than_the_checkpoints_are_refused(copied):
    texts = [f"{a} and {b} make more" for a in range(300) for b in "abcdefghij"]
    block = {"name": "sentencepiece", "size": 400, "model": "bpe"}
    vocab.build(block, texts).save(str(copied / "vocabulary"))
    with pytest.raises(UsageError, match="the training data are not those of checkpoint 40"):
        runs.run(config(), str(copied), "train")


def test_damaged_datasets_are_named_and_told_how_to_mend(tmp_path, rng):
    def read():
        return [list(datasets.load("mme", split, tmp_path, size=200)) for split in ("train", "validation", "test")]

    good = read()
    folder = datasets.load("mme", "train", tmp_path, size=200).folder
    for file in [path for path in sorted(folder.iterdir()) if path.name != "features.json"]:
        content, refused = file.read_bytes(), 0
        for how in ("flip",) * 20 + ("truncate",):
            damage(file, how, rng)
            try:
                assert read() == good  # padding, and what the list says beside lengths and names
            except DataError as error:
                assert "is damaged" in str(error) and "delete it and run again" in str(error)
                refused += 1
            file.write_bytes(content)
        assert refused
    (folder / "mme-validation.array_record-00000-of-00001").unlink()
    with pytest.raises(DataError, match=r"mme-validation.* is missing"):
        runs.run(tiny(**{"data.dir": str(tmp_path), "task.size": 200}), str(tmp_path / "run"), "train")
    shutil.rmtree(folder)
    assert read() == good


@contextlib.contextmanager
def room_for(size: int):
    """No file may grow beyond `size` bytes: the system refuses to write, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_metrics_that_no_longer_fit_are_said_and_none_is_lost(tmp_path):
    writer = log.MetricsWriter(tmp_path, 0)
    for step in range(1, 6):
        writer.write(step, "train", {"loss": 1.0})
    size = (tmp_path / "metrics.jsonl").stat().st_size
    with room_for(size + 10), pytest.raises(UsageError, match=r"metrics.jsonl \(File too large\): make room and run"):
        with files.report_full_disk(tmp_path):
            writer.write(6, "train", {"loss": 1.0})
    writer.close()
    assert (tmp_path / "metrics.jsonl").stat().st_size == size + 10  # the disk took half a line
    writer = log.MetricsWriter(tmp_path, 5)
    writer.write(6, "train", {"loss": 1.0})
    writer.close()
    assert [row["step"] for row in lines(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_predictions_that_do_not_fit_leave_the_earlier_ones(copied):
    file = copied / "predictions" / "mme.validation.jsonl"
    before = file.read_text()
    with (
        room_for(len(before) // 2),
        pytest.raises(UsageError, match=r"cannot write .* \(File too large\): make room"),
    ):
        runs.run(config(), str(copied), "eval")
    assert file.read_text() == before and not list(copied.rglob("*.tmp"))


def test_events_are_what_tensorboard_reads(tmp_path):
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


def test_a_part_that_a_split_lacks_is_no_score():
    found = {"loss": 1.0, "masked/token": 2.0, "masked/number": float("nan"), "em": float("nan")}
    assert log.format_metrics(found) == "loss 1.0000 · masked/token 2.0000 · em nan"


def test_only_what_a_failed_save_leaves_behind_is_not_told(monkeypatch):
    printed, unraisable = [], []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: printed.append(error))
    monkeypatch.setattr(sys, "unraisablehook", lambda found: unraisable.append(found.exc_value))
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    log.quieten()
    errors = [RuntimeError("Event loop is closed"), RuntimeError("another"), ValueError("Event loop is closed")]
    for error in errors:
        sys.excepthook(type(error), error, None)
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert printed == unraisable == errors[1:]


def test_a_full_disk_is_one_line_and_with_room_the_run_goes_on(straight, tmp_path, capsys):
    """A real file system without room for three checkpoints, in a mount namespace of its own, which needs no root."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1400k tmpfs {disk}"
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "sh", "-c", mount], check=False).returncode:
        pytest.skip("no user namespaces here to mount a small disk in")
    run = " ".join(command(disk / "run"))
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", f"{mount}; {run}; echo $?; cp -r {disk}/run {kept}"],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    # TensorStore's threads find their event loops closed; there is one line and no traceback.
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("numjax: ")] or [done.stderr[-6000:]]
    assert done.stdout == "2\n" and re.fullmatch(r"numjax: cannot write .*No space left.*make room.*are kept", said)
    assert "Traceback" not in done.stderr and "Event loop" not in done.stderr, done.stderr[-3000:]
    runs.run(config(), str(kept), "train")  # on a disk with room
    assert "resumed" in capsys.readouterr().err
    same(kept, straight)
