"""Several processes as one program, through JAX's own distributed runtime.

A single process needs none of this. JAX detects the clusters that it knows (SLURM, GKE and other TPU pods, Open MPI,
Kubernetes). Elsewhere three environment variables give the coordinator, the number of processes and the index of
this one; `numjax.tools.launch` sets them on one machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from numjax.errors import DataError, Diverged, Lost, Preempted, UsageError

COORDINATOR, COUNT, INDEX = "NUMJAX_COORDINATOR", "NUMJAX_PROCESSES", "NUMJAX_PROCESS"
# Seconds without a sign of life after which a process counts as dead and all others stop.
HEARTBEAT = 30
# In the message of an error: a transport between processes failed.
TRANSPORTS = ("Gloo", "NCCL", "coordination service")


def join() -> None:
    """Joins the other processes; call it before anything else uses JAX's devices.

    Raises:
      UsageError: there is no cluster, or its variables are incomplete.
    """
    arguments: dict[str, Any] = {}
    if COORDINATOR in os.environ:
        try:
            arguments = dict(num_processes=int(os.environ[COUNT]), process_id=int(os.environ[INDEX]))
        except (KeyError, ValueError):
            raise UsageError(f"{COORDINATOR} is set: set {COUNT} and {INDEX} to whole numbers too") from None
        arguments["coordinator_address"] = os.environ[COORDINATOR]
    # The libraries that connect processes print to stdout what belongs on stderr.
    results = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(results, "w", buffering=1, encoding="utf-8")
    try:
        jax.distributed.initialize(**arguments, heartbeat_timeout_seconds=HEARTBEAT)
    except (ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"--distributed: cannot join the other processes ({reason}): start them with python -m "
            f"numjax.tools.launch, or set {COORDINATOR}=HOST:PORT, {COUNT} and {INDEX}"
        ) from error


@contextlib.contextmanager
def coordinate_exit() -> Iterator[None]:
    """Ends all processes together: before an error that all of them raise, each leaves the others in order; an error
    of one process ends that process at once; the loss of another process becomes a message of one line.

    Raises:
      Lost: another process is gone.
    """
    try:
        yield
    except (Diverged, Preempted):
        leave()
        raise
    except (UsageError, DataError):
        raise
    except Exception as error:
        if jax.process_count() == 1:
            raise
        if is_loss(error):
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            message = f"another process is gone or out of reach ({reason}): run the same command to go on"
            raise Lost(message) from error
        traceback.print_exc()
        abandon(1)


def is_loss(error: Exception) -> bool:
    """Whether the error says that another process is gone or out of reach.

    JAX raises `JaxRuntimeError`, but the transfer of a collective's result to the host raises `ValueError` with the
    same message.
    """
    if jax.process_count() == 1:
        return False
    return isinstance(error, jax.errors.JaxRuntimeError) or any(name in str(error) for name in TRANSPORTS)


def abandon(code: int) -> NoReturn:
    """Ends this process, one of several, immediately.

    An ordinary exit would hang: JAX's client waits for the other processes, and they wait for this one in a
    collective.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@functools.cache
def row_shards(mesh: Mesh) -> tuple[tuple[int, ...], int]:
    """(indices of the slices of a batch's rows that this process's devices hold, ascending; number of slices).

    The slices of a process need not be adjacent if the mesh follows a torus. If the axis `tensor` spans processes,
    several processes hold the same slices. Each process loads what it holds, so that the whole batch equals that of
    one device, row for row.
    """
    rows = mesh.devices.reshape(-1, mesh.shape["tensor"])
    is_own = [any(device.process_index == jax.process_index() for device in devices) for devices in rows]
    return tuple(np.flatnonzero(is_own).tolist()), len(rows)


def join_rows(tree: Any, layout: NamedSharding, shard_indices: Sequence[int], shards: int) -> Any:
    """Global arrays of all rows, from arrays of the rows that this process holds (see `row_shards`)."""
    if jax.process_count() == 1:
        return jax.device_put(jax.tree.map(np.asarray, tree), layout)

    def join(x):
        rows = len(x) // len(shard_indices)

        def shard(index):
            index_in_own = shard_indices.index((index[0].start or 0) // rows)
            return x[index_in_own * rows : (index_in_own + 1) * rows]

        return jax.make_array_from_callback((rows * shards, *x.shape[1:]), layout, shard)

    return jax.tree.map(lambda x: join(np.asarray(x)), tree)


def leave() -> None:
    """Leaves the other processes in order, before an exit that all of them make: without it, the others would take
    this process for dead."""
    if jax.process_count() > 1:
        jax.distributed.shutdown()


def barrier(name: str) -> None:
    """Waits until all processes have called it."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def is_any_set(flag: bool) -> bool:
    """Whether the flag is set on any process; the same result on all of them."""
    if jax.process_count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def fetch(tree: Any) -> Any:
    """Global arrays as NumPy arrays, whole on every process."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))


def broadcast_bytes(data: bytes) -> bytes:
    """The bytes of process 0, on every process."""
    if jax.process_count() == 1:
        return data
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    block = np.zeros(size, np.uint8)
    if jax.process_index() == 0:
        block[:] = np.frombuffer(data, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(block), np.uint8).tobytes()
