"""No change of a checkpoint's JSON passes: every value of it, changed to another valid one, is seen as damage."""

from __future__ import annotations

import contextlib
import copy
import json

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from numjax.errors import Lost, UsageError
from numjax.runtime import processes
from numjax.train.checkpoint import Checkpoints

STATE = {"params": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.float32([1, 2])}}
META = {"position": {"step": 1, "examples": 8}, "seed": 0, "name": "run"}


def leaves(tree, path=()):
    if not isinstance(tree, dict):
        return [path]
    return [leaf for key, value in tree.items() for leaf in leaves(value, (*path, key))]


def changed(record, path, change):
    """A copy of the record whose value at the path is changed."""
    copied = copy.deepcopy(record)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    change(inner, path[-1])
    return copied


def alter(inner, key):
    inner[key] = inner[key] + ("x" if isinstance(inner[key], str) else 1)


def rename(inner, key):
    inner[f"{key}x"] = inner.pop(key)


def drop(inner, key):
    del inner[key]


@pytest.fixture
def saved(tmp_path):
    with contextlib.closing(Checkpoints(tmp_path, asynchronous=False)) as checkpoints:
        checkpoints.save(1, jax.tree.map(jnp.asarray, STATE), META)
    (file,) = (path for path in (tmp_path / "1" / "meta").rglob("*") if b'"check"' in path.read_bytes())
    return file


def restore(folder):
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=jnp.zeros(1).sharding), STATE)
    with contextlib.closing(Checkpoints(folder, asynchronous=False)) as checkpoints:
        return checkpoints.restore(shapes)


def test_what_was_saved_is_restored(saved, tmp_path):
    step, state, meta = restore(tmp_path)
    assert step == 1 and meta == META
    jax.tree.map(np.testing.assert_array_equal, state, STATE)


@pytest.mark.parametrize("change", [alter, rename, drop])
def test_every_changed_value_of_the_json_is_damage(saved, tmp_path, capsys, change):
    record = json.loads(saved.read_text())
    paths = leaves(record)
    assert len(paths) == 4 + 2 + 1, "the caller's values, a digest an array, and the JSON's own"
    for path in paths:
        saved.write_text(json.dumps(changed(record, path, change)))
        with pytest.raises(UsageError, match="can be read: move it away to start afresh"):
            restore(tmp_path)
        assert "checkpoint 1 in" in capsys.readouterr().err, path
    saved.write_text(json.dumps(record))
    assert restore(tmp_path)[0] == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"), (OSError("gone"), "gone"),
        (RuntimeError("UNKNOWN: write failed: No space left on device (28)"), "No space left"),
    ],
)  # fmt: skip
def test_a_failed_write_is_reported_in_the_systems_words(tmp_path, error, reason):
    def fail():
        raise error

    with contextlib.closing(Checkpoints(tmp_path, asynchronous=False)) as checkpoints:
        with pytest.raises(UsageError) as caught:
            checkpoints._guard(fail)
        assert f"cannot write a checkpoint to {tmp_path} ({reason}):" in str(caught.value)
        with pytest.raises(ZeroDivisionError):
            checkpoints._guard(lambda: 1 / 0)


def test_a_damaged_step_is_reported_with_the_first_line_of_the_reason(saved, tmp_path, capsys, monkeypatch):
    with contextlib.closing(Checkpoints(tmp_path, asynchronous=False)) as checkpoints:

        def fail(*arguments, **options):
            raise ValueError("  the array is torn\nat chunk 3\n")

        monkeypatch.setattr(checkpoints._manager, "restore", fail)
        with pytest.raises(UsageError):
            checkpoints.restore(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), STATE))
        assert "is damaged (the array is torn): trying" in capsys.readouterr().err
        assert checkpoints.steps() == []


@pytest.mark.parametrize(
    "error",
    [
        ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer"),
        jax.errors.JaxRuntimeError("UNAVAILABLE: connection reset"),
    ],
)  # fmt: skip
def test_a_lost_process_is_no_damaged_checkpoint(saved, tmp_path, capsys, monkeypatch, error):
    """A process that ends while another opens or restores the checkpoints must not make a user move them away."""

    def fail(*arguments, **options):
        raise error

    with contextlib.closing(Checkpoints(tmp_path, asynchronous=False)) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(jax, "process_count", lambda: 2)
            patch.setattr(processes, "abandon", lambda code: pytest.fail(f"ended with {code}"))
            patch.setattr(checkpoints._manager, "restore", fail)
            with pytest.raises(Lost, match="another process is gone or out of reach"), processes.coordinate_exit():
                checkpoints.restore(STATE)
            patch.setattr(ocp, "CheckpointManager", fail)
            with pytest.raises(Lost, match="another process is gone or out of reach"), processes.coordinate_exit():
                Checkpoints(tmp_path)
            patch.setattr(jax, "process_count", lambda: 1)
            with pytest.raises(UsageError, match="has a damaged checkpoint"):
                Checkpoints(tmp_path)
        assert checkpoints.steps() == [1] and "damaged" not in capsys.readouterr().err
