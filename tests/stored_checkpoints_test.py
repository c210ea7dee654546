"""Whatever is in a checkpoint's files, restoring gives its arrays or one line, in bounded memory."""

from __future__ import annotations

import json
import pathlib
import resource
import shutil
from types import SimpleNamespace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax import modes
from numjax.errors import UsageError
from numjax.runtime import files
from numjax.train import checkpoint, inherit, loop
from numjax.train.checkpoint import Checkpoints
from tests import damage

PARAMS = {
    "backbone": {"layer_0": {"kernel": np.arange(128, dtype=np.float32).reshape(16, 8) / 7}},
    "embeds_token": {"table": np.ones((50, 8), np.float32)},
}


def save(folder: pathlib.Path, params: Any) -> None:
    checkpoints = Checkpoints(folder / "checkpoints", asynchronous=False)
    checkpoints.save(3, {"params": jax.tree.map(jnp.asarray, params)}, {"step": 3})
    checkpoints.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    """The files of a checkpoint."""
    folder = tmp_path_factory.mktemp("whole")
    save(folder, PARAMS)
    return list_files(folder)


def list_files(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lay(folder: pathlib.Path, contents: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in contents.items():
        files.write(folder / name, content)


def restore(folder: pathlib.Path) -> str:
    """ "" if the parameters are those that were saved, else the message."""
    try:
        params, step = inherit.read_params(folder)
    except UsageError as error:
        assert "\n" not in str(error)
        return str(error)
    assert step == 3
    jax.tree.map(np.testing.assert_array_equal, params, PARAMS)
    return ""


def damaged(content: bytes, rng: np.random.Generator):
    """A file damaged in some ways, always the same."""
    yield from (b"", b"[" * 100_000, b"1" * 5000, b"null", content[: len(content) // 2])
    for _ in range(3):
        index = int(rng.integers(len(content)))
        yield content[:index] + bytes([content[index] ^ 0x5A]) + content[index + 1 :]
        yield content[:index] + b"\xff" * 8 + content[index + 8 :]
    if content[:1] == b"{":
        value = json.loads(content)
        paths = list(damage.paths(value))
        for _ in range(6):
            path, lie = paths[int(rng.integers(len(paths)))], damage.LIES[int(rng.integers(len(damage.LIES)))]
            yield json.dumps(damage.replace(value, path, lie)).encode()


KINDS = ("_CHECKPOINT_METADATA", "meta/metadata", "state/_METADATA", "array_metadatas", "state/manifest", "state/d/")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_checkpoint_is_whole_or_one_line(kind, whole, tmp_path, rng):
    names = [name for name in whole if kind in name]
    messages = []
    for name in names:
        for content in damaged(whole[name], rng):
            lay(tmp_path / "run", whole | {name: content})
            messages.append(restore(tmp_path / "run"))
        lay(tmp_path / "run", {other: whole[other] for other in whole if other != name})
        messages.append(restore(tmp_path / "run"))
    assert any(messages) or kind == "array_metadatas", "else it proves nothing"


def test_a_shape_that_lies_takes_no_memory(whole, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    name = next(name for name in whole if name.endswith("state/_METADATA"))
    for shape in ([10**5, 10**5], [2**62], [-1, 8], [16, 8, 10**7], []):
        lied = whole[name].replace(b'"write_shape": [16, 8]', b'"write_shape": ' + json.dumps(shape).encode())
        assert lied != whole[name]
        lay(tmp_path / "run", whole | {name: lied})
        restore(tmp_path / "run")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def test_arrays_that_unpack_to_far_more_than_their_files_are_refused(tmp_path, monkeypatch, capsys):
    """A small file may hold a large array of zeros: it is not unpacked."""
    save(tmp_path, {"backbone": {"kernel": np.zeros((1 << 10, 1 << 12), np.float32)}})
    assert inherit.read_params(tmp_path)[1] == 3, "below the floor everything is read"
    monkeypatch.setattr(checkpoint, "UNCHECKED_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="holds no checkpoint that can be read"):
        inherit.read_params(tmp_path)
    assert "its arrays claim 16,777,216 bytes, and its files have" in capsys.readouterr().err
    save(tmp_path / "random", {"kernel": np.random.default_rng(0).normal(size=(1 << 9, 1 << 12)).astype(np.float32)})
    assert inherit.read_params(tmp_path / "random")[1] == 3, "weights do not pack"


@pytest.mark.parametrize("meta", [{}, {"position": {"step": 1}}, {"position": 3}, {"position": {}, "recent": [1]}])
def test_a_checkpoint_without_a_position_is_one_line(meta):
    checkpoints: Any = SimpleNamespace(restore=lambda state: (3, None, meta), folder="runs/x/checkpoints")
    splits: Any = SimpleNamespace(train=SimpleNamespace(fingerprint="f"))
    compiled: Any = SimpleNamespace(abstract_state=None)
    with pytest.raises(UsageError, match="checkpoint 3 in runs/x/checkpoints has no position"):
        loop._start(None, compiled, checkpoints, 0, splits)  # type: ignore[arg-type]


class Vector(nn.Module):
    @nn.compact
    def __call__(self):
        return self.param("vector", nn.initializers.zeros, (3,))


@pytest.mark.parametrize("params", [{"vector": np.zeros(2)}, {"other": np.zeros(3)}])
def test_a_checkpoint_of_another_config_is_one_line(params, monkeypatch):
    monkeypatch.setattr(modes, "_use_run", lambda *arguments: Vector().apply({"params": params}))
    with pytest.raises(UsageError, match=r"runs/x: its checkpoint is not of its config: .*vector") as caught:
        modes.run(None, "runs/x", "eval")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape", "rows"),
    [("table", (5, 4), [0, -1]), ("table", (5,), [0, 1]), ("a/places", (5, 4), None), ("a/places", (), None)],
)
def test_a_start_with_parameters_of_another_width_is_one_line(name, shape, rows):
    with pytest.raises(UsageError, match=r"there and \(2, 3\) here: use the same sizes"):
        inherit._fit(name, jnp.zeros(shape), jnp.zeros((2, 3)), rows=rows)
    assert inherit._fit(name, jnp.ones((5, 3)), jnp.zeros((2, 3)), rows=rows).shape == (2, 3)


def test_a_reader_leaves_a_step_that_is_being_saved_alone(tmp_path, whole):
    """As `numjax.load` of a run that still trains: another process would find its half-written folder gone."""
    unfinished = {"checkpoints/4.orbax-checkpoint-tmp/state/part": b"half", "checkpoints/.lock": b""}
    lay(tmp_path, whole | unfinished)
    assert restore(tmp_path) == ""
    assert list_files(tmp_path) == whole | unfinished
