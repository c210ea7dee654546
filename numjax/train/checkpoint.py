"""Saves and restores checkpoints with Orbax.

On disk each layer is an entry, `layer_0`, `layer_1`, …; models that scan over layers have them stacked only in
memory. Beside the state each step has a JSON: the caller's `meta`, a digest of every array, and a digest of the JSON
itself. A step that does not match its digests is reported as damaged, and the step before it is used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from numjax.errors import UsageError
from numjax.runtime import files, log, processes
from numjax.train import digests, tensorstore_json

STACKED = "layers"
# Seconds that writing a save may take. Orbax measures them by the time of day, and a clock may be set meanwhile.
SAVE_TIMEOUT = 100 * 365 * 86_400
# Arrays of more bytes than this must not be more than so many times as large as their files: weights do not pack, so
# what claims more would only fill the memory.
UNCHECKED_BYTES = 256 << 20
PACKING = 100


def split_layers(tree: Any) -> Any:
    """The tree in its form on disk: each dict entry "layers" of stacked arrays becomes "layer_0", ….

    Works in dicts, lists, tuples and NamedTuples, so also in optimiser states.
    """

    def split(node: dict) -> dict:
        out = {k: split_layers(v) for k, v in node.items() if k != STACKED}
        leaves = jax.tree.leaves(node[STACKED])
        if not leaves:  # an optimiser's state of frozen layers: nothing is stacked
            return out | {STACKED: node[STACKED]}
        for i in range(leaves[0].shape[0]):
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


def _walk(tree, change, is_match):
    if isinstance(tree, Mapping):
        return change(dict(tree)) if is_match(tree) else {k: _walk(v, change, is_match) for k, v in tree.items()}
    if isinstance(tree, tuple):
        parts = [_walk(v, change, is_match) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, list):
        return [_walk(v, change, is_match) for v in tree]
    return tree


def _is_layer(name: Any) -> bool:
    # The keys of an optimiser's state may be anything: those of frozen and other parameters are True and False.
    return isinstance(name, str) and name.startswith("layer_") and name[6:].isdigit()


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
    """The checkpoints of one folder.

    Attributes:
      folder: the folder, with a folder for each step.
      keep: number of newest checkpoints to keep.
      asynchronous: write in the background.
      read_only: change nothing in the folder, where another process may be saving a step.
    """

    folder: pathlib.Path
    keep: int = 2
    asynchronous: bool = True
    read_only: bool = False

    def __post_init__(self):
        tensorstore_json.stop_leak()
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if self.read_only else self.keep,
            enable_async_checkpointing=self.asynchronous,
            create=not self.read_only,
            cleanup_tmp_directories=not self.read_only,
            async_options=ocp.options.AsyncOptions(timeout_secs=SAVE_TIMEOUT),
            # Two managers that save the same step at the same time must not use the same barrier.
            multiprocessing_options=ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=self.folder.name),
        )
        try:
            # Named handlers let a manager that has saved nothing yet restore existing steps.
            handlers = {"state": ocp.StandardCheckpointHandler(), "meta": ocp.JsonCheckpointHandler()}
            self._manager = ocp.CheckpointManager(self.folder.absolute(), options=options, item_handlers=handlers)
        except OSError as error:
            raise UsageError(f"cannot write to {self.folder}: {error.strerror}; choose another --workdir") from error
        except Exception as error:  # Orbax raises many kinds for damaged files
            if processes.is_loss(error):
                raise
            raise UsageError(
                f"{self.folder} has a damaged checkpoint ({_first_line(error)}): move the newest away, or all of them"
            ) from None
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """Finished steps, oldest first, without those that a killed run left half-written and damaged ones."""
        return sorted(set(self._manager.all_steps()) - self._damaged)

    def save(self, step: int, state: Any, meta: Mapping[str, Any]) -> None:
        """Saves a step; when asynchronous, it returns before the files are complete.

        Raises:
          UsageError: the disk is full or cannot be written; the earlier checkpoints are kept.
        """
        # A good step was restored instead, so the damaged ones only take room and may block this step's name.
        self._drop(self._damaged)
        state = split_layers(state)
        record = {"meta": json.loads(json.dumps(meta)), "digests": digests.digest_arrays(state)}
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave(record | {"check": _json_digest(record)})
        )
        self._guard(lambda: self._manager.save(step, args=args, force=True))

    def wait(self) -> None:
        """Waits until all saves are on disk."""
        self._guard(self._manager.wait_until_finished)

    def drop_after(self, step: int) -> None:
        """Removes the steps after `step`, which a stopped run has left if it resumes from `step`."""
        self._drop({later for later in self._manager.all_steps() if later > step})

    def _drop(self, steps):
        for step in sorted(set(steps) & set(self._manager.all_steps())):
            self._manager.delete(step)
        self._damaged -= set(steps)

    def restore(self, abstract_state: Any, newest: int | None = None) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, meta) of the newest good step, or None. A damaged step is reported, and the one before it is
        used.

        Args:
          abstract_state: shapes, types and shardings.
          newest: the last step to consider.

        Raises:
          UsageError: there are steps, but all are damaged.
        """
        target = split_layers(abstract_state)
        for candidate in self._candidates(newest):
            restored = self._restore_step(candidate, lambda step: target)
            if restored is None:
                continue
            state, meta = restored
            if is_stacked(getattr(abstract_state, "params", {})):
                shardings = jax.tree.map(lambda s: s.sharding, abstract_state)
                state = jax.jit(stack_layers, out_shardings=shardings)(state)
            return candidate, state, meta
        if self._damaged:
            raise UsageError(f"no checkpoint in {self.folder} can be read: move it away to start afresh")
        return None

    def restore_params(self, layout: Callable[[Any], Any] | None = None) -> tuple[Any, int] | None:
        """(parameters in their form on disk, step) of the newest good step, or None.

        Args:
          layout: shapes → a sharding for each; by default all arrays go to this process's first device.
        """

        def target(step):
            shapes: Any = self._manager.item_metadata(step)["state"]  # type: ignore[index]
            shapes = getattr(shapes, "tree", shapes)
            shapes = jax.tree.map(lambda m: jax.ShapeDtypeStruct(m.shape, m.dtype), shapes)
            _check_size(shapes, self.folder / str(step))
            shardings = layout(shapes) if layout is not None else jax.tree.map(lambda _: _first_device(), shapes)
            return jax.tree.map(
                lambda m, sharding: jax.ShapeDtypeStruct(m.shape, m.dtype, sharding=sharding), shapes, shardings
            )

        for step in self._candidates():
            restored: Any = self._restore_step(step, target)
            if restored is not None:
                return restored[0]["params"], step
        return None

    def _candidates(self, newest=None):
        return [step for step in reversed(self.steps()) if newest is None or step <= newest]

    def _restore_step(self, step, target):
        """(state in its form on disk, meta), or None if the step is damaged; all processes agree on this."""
        reason, state, meta, saved_digests = "", None, {}, None
        try:
            args = ocp.args.Composite(state=ocp.args.StandardRestore(target(step)), meta=ocp.args.JsonRestore())
            restored = self._manager.restore(step, args=args)
            state, (meta, saved_digests) = restored["state"], _unpack_json(restored["meta"])
        except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files.
            if processes.is_loss(error):
                raise
            reason = _first_line(error)
        if processes.is_any_set(bool(reason)):
            reason = reason or "another process cannot read it"
        elif saved_digests is not None:
            restored_digests = digests.digest_arrays(state)
            differing = sorted(
                name
                for name in saved_digests.keys() | restored_digests.keys()
                if saved_digests.get(name) != restored_digests.get(name)
            )
            if differing:
                reason = (
                    f"{len(differing)} of {len(restored_digests)} arrays are not what was saved, "
                    f"such as {differing[0]}"
                )
        if not reason:
            return state, meta
        self._damaged.add(step)
        log.say(f"checkpoint {step} in {self.folder} is damaged ({reason}): trying the one before")
        return None

    def _guard(self, call):
        try:
            call()
        except TimeoutError as error:
            # Orbax waits ten minutes for its own threads, by the time of day.
            raise UsageError(
                f"a save to {self.folder} waited too long, or the clock was set: start again; earlier ones are kept"
            ) from error
        except OSError as error:
            raise UsageError(_write_error(self.folder, error.strerror or str(error))) from error
        except Exception as error:
            # TensorStore reports a full disk as ValueError or RuntimeError with the system's words inside.
            text = str(error)
            for words in ("No space left", "Disk quota", "File too large", "Permission denied", "Read-only file"):
                if words in text:
                    raise UsageError(_write_error(self.folder, words)) from error
            raise

    def close(self) -> None:
        """Waits until all saves are on disk, then closes the folder."""
        self._guard(self._manager.wait_until_finished)
        self._manager.close()


def _check_size(shapes, folder):
    """Checks that arrays can come from the files of a folder, before there is memory for them."""
    claimed = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if claimed > max(UNCHECKED_BYTES, PACKING * stored):
        raise ValueError(f"its arrays claim {claimed:,} bytes, and its files have {stored:,}")


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:120]


def _json_digest(record):
    return files.digest(json.dumps({k: record[k] for k in ("meta", "digests")}, sort_keys=True).encode())


def _unpack_json(record):
    """(meta, digests) of a step's JSON; digests are None in checkpoints of older versions without digests."""
    if not {"check", "digests"} & record.keys():
        return dict(record), None
    if record.get("check") != _json_digest(record):
        raise ValueError("its JSON is not what was saved")
    return record["meta"], record["digests"]


def _first_device():
    return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])


def _write_error(folder, reason):
    return f"cannot write a checkpoint to {folder} ({reason}): make room and start again; earlier ones are kept"
