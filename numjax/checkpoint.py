"""Checkpoints: Orbax behind one module.

On disk a layer is an entry, `layer_0`, `layer_1`, …; models that scan over layers hold them stacked in memory
only. Beside the state each step keeps a JSON with the data position, the config and the metrics.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from absl import logging

from numjax.errors import UsageError

STACKED = "layers"


def split_layers(tree: Any) -> Any:
    """The tree as it lies on disk: each dict entry "layers" of stacked arrays becomes "layer_0", ….

    Works through dicts, tuples and NamedTuples, so optimiser states go along.
    """

    def split(node: dict) -> dict:
        out = {k: split_layers(v) for k, v in node.items() if k != STACKED}
        leaves = jax.tree.leaves(node[STACKED])
        count = leaves[0].shape[0] if leaves else 0
        for i in range(count):
            out[f"layer_{i}"] = jax.tree.map(lambda x, i=i: _index(x, i), node[STACKED])
        return out

    return _walk(tree, split, lambda node: STACKED in node)


def stack_layers(tree: Any) -> Any:
    """The inverse of `split_layers`."""

    def stack(node: dict) -> dict:
        names = sorted((k for k in node if _is_layer(k)), key=lambda k: int(k[6:]))
        out = {k: stack_layers(v) for k, v in node.items() if not _is_layer(k)}
        out[STACKED] = jax.tree.map(lambda *xs: jnp.stack(xs), *(node[name] for name in names))
        return out

    return _walk(tree, stack, lambda node: any(_is_layer(k) for k in node))


def is_stacked(params: Any) -> bool:
    """Whether the backbone's layers are stacked in memory."""
    return STACKED in params.get("backbone", {})


def _walk(tree, change, wanted):
    if isinstance(tree, Mapping):
        return change(dict(tree)) if wanted(tree) else {k: _walk(v, change, wanted) for k, v in tree.items()}
    if isinstance(tree, tuple):
        parts = [_walk(v, change, wanted) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, list):
        return [_walk(v, change, wanted) for v in tree]
    return tree


def _is_layer(name: str) -> bool:
    return name.startswith("layer_") and name[6:].isdigit()


def _index(x, i):
    if not isinstance(x, jax.ShapeDtypeStruct):
        return x[i]
    sharding = x.sharding
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec = jax.sharding.PartitionSpec(*tuple(sharding.spec)[1:])
        sharding = jax.sharding.NamedSharding(sharding.mesh, spec)
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype, sharding=sharding)


@dataclasses.dataclass
class Checkpoints:
    """The checkpoints of one workdir.

    Attributes:
      folder: where; `latest` ones lie in it by step.
      keep: how many to keep.
      asynchronous: write in the background.
    """

    folder: pathlib.Path
    keep: int = 2
    asynchronous: bool = True

    def __post_init__(self):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=self.keep,
            enable_async_checkpointing=self.asynchronous,
            create=True,
            cleanup_tmp_directories=True,
            # Two managers that save the same step at once must not meet at the same barrier.
            multiprocessing_options=ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=self.folder.name),
        )
        try:
            # Named handlers let a manager that has saved nothing yet read what lies there.
            handlers = {"state": ocp.StandardCheckpointHandler(), "meta": ocp.JsonCheckpointHandler()}
            self._manager = ocp.CheckpointManager(self.folder.absolute(), options=options, item_handlers=handlers)
        except OSError as error:
            raise UsageError(f"cannot write to {self.folder}: {error.strerror}; choose another --workdir") from error

    def steps(self) -> list[int]:
        """Finished steps, oldest first; what a killed run left half-written does not count."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, meta: Mapping[str, Any]) -> None:
        """Saves; returns before the files are complete when asynchronous.

        Raises:
          UsageError: the disk is full or may not be written; the earlier checkpoints stay.
        """
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(split_layers(state)), meta=ocp.args.JsonSave(dict(meta))
        )
        self._guard(lambda: self._manager.save(step, args=args, force=True))

    def wait(self) -> None:
        """Returns when everything saved is on disk."""
        self._guard(self._manager.wait_until_finished)

    def restore(self, abstract_state: Any, step: int | None = None) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, meta) of the newest step that can be read, or None; `abstract_state` gives shapes and
        shardings. A damaged step is named and the one before it is used."""
        for candidate in [step] if step is not None else reversed(self.steps()):
            try:
                found = self._read(candidate, abstract_state)
            except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files.
                self._unreadable(candidate, error)
                continue
            return candidate, *found
        if self.steps():
            raise UsageError(f"no checkpoint in {self.folder} can be read: move it away to start afresh")
        return None

    def _unreadable(self, step, error):
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        logging.error("checkpoint %d in %s cannot be read (%s): trying the one before", step, self.folder, reason)

    def restore_params(self, layout: Callable[[Any], Any] | None = None) -> tuple[Any, int] | None:
        """(parameters as they lie on disk, step) of the newest good step.

        Args:
          layout: shapes → a sharding for each; by default all is put on this process's first device.
        """
        for step in reversed(self.steps()):
            try:
                shapes = self._manager.item_metadata(step)["state"]  # type: ignore[index]
                shapes = getattr(shapes, "tree", shapes)
                shapes = jax.tree.map(lambda m: jax.ShapeDtypeStruct(m.shape, m.dtype), shapes)
                at = layout(shapes) if layout is not None else jax.tree.map(lambda _: _first_device(), shapes)
                target = jax.tree.map(
                    lambda m, place: jax.ShapeDtypeStruct(m.shape, m.dtype, sharding=place), shapes, at
                )
                args = ocp.args.Composite(state=ocp.args.StandardRestore(target))
                return self._manager.restore(step, args=args)["state"]["params"], step
            except Exception as error:
                self._unreadable(step, error)
        return None

    def _read(self, step, abstract_state):
        stacked = is_stacked(abstract_state.params) if hasattr(abstract_state, "params") else False
        args = ocp.args.Composite(
            state=ocp.args.StandardRestore(split_layers(abstract_state)), meta=ocp.args.JsonRestore()
        )
        found = self._manager.restore(step, args=args)
        state = found["state"]
        if stacked:
            place = jax.tree.map(lambda s: s.sharding, abstract_state)
            state = jax.jit(stack_layers, out_shardings=place)(state)
        return state, dict(found["meta"])

    def _guard(self, call):
        try:
            call()
        except OSError as error:
            raise UsageError(_write_error(self.folder, error.strerror or str(error))) from error
        except Exception as error:
            # TensorStore reports a full disk as ValueError or RuntimeError with the system's words inside.
            text = str(error)
            for words in ("No space left", "Disk quota", "Permission denied", "Read-only file system"):
                if words in text:
                    raise UsageError(_write_error(self.folder, words)) from error
            raise

    def close(self) -> None:
        """Waits and lets go of the folder."""
        self._guard(self._manager.wait_until_finished)
        self._manager.close()


def _first_device():
    return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])


def _write_error(folder, reason):
    return f"cannot write a checkpoint to {folder} ({reason}): make room and start again; earlier ones are kept"
