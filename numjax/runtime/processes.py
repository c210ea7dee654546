"""Several processes as one program, through JAX's own distributed runtime.

One process needs none of this. A cluster that JAX knows (SLURM, GKE and other TPU pods, Open MPI, Kubernetes) is
found by JAX; elsewhere three variables say who is who, and `numjax.tools.launch` sets them on one machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from numjax.errors import DataError, Diverged, Lost, Preempted, UsageError

COORDINATOR, COUNT, INDEX = "NUMJAX_COORDINATOR", "NUMJAX_PROCESSES", "NUMJAX_PROCESS"
# A process that says nothing for so long is taken for dead, and all others stop.
HEARTBEAT = 30


def join() -> None:
    """Joins the other processes; call before anything else touches JAX's devices.

    Raises:
      UsageError: no cluster is found, or its variables are incomplete.
    """
    found: dict[str, Any] = {}
    if COORDINATOR in os.environ:
        try:
            found = dict(num_processes=int(os.environ[COUNT]), process_id=int(os.environ[INDEX]))
        except (KeyError, ValueError):
            raise UsageError(f"{COORDINATOR} is set: set {COUNT} and {INDEX} to whole numbers too") from None
        found["coordinator_address"] = os.environ[COORDINATOR]
    # The libraries that connect processes print there what belongs on the error stream.
    results = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(results, "w", buffering=1, encoding="utf-8")
    try:
        jax.distributed.initialize(**found, heartbeat_timeout_seconds=HEARTBEAT)
    except (ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"--distributed: cannot join the other processes ({reason}): start them with python -m "
            f"numjax.tools.launch, or set {COORDINATOR}=HOST:PORT, {COUNT} and {INDEX}"
        ) from error


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Ends that all processes share are reached by all; the loss of one is said in a line.

    Raises:
      Lost: another process is gone.
    """
    try:
        yield
    except (Diverged, Preempted):
        part()
        raise
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Lost(f"another process is gone or out of reach ({reason}): run the same command to go on") from error
    except (UsageError, DataError):
        raise
    except Exception:
        if jax.process_count() == 1:
            raise
        # An orderly end would wait for the others, who wait for this process in a collective.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


@functools.cache
def row_shards(mesh: Mesh) -> tuple[tuple[int, ...], int]:
    """Which slices of a batch's rows the devices of this process hold, ascending, and how many there are.

    They need not lie side by side where the mesh follows a torus, and where the axis `tensor` spans processes several
    of them hold the same ones. Each reads what it holds, so that the whole batch is that of one device, row for row.
    """
    rows = mesh.devices.reshape(-1, mesh.shape["tensor"])
    mine = [any(device.process_index == jax.process_index() for device in devices) for devices in rows]
    return tuple(np.flatnonzero(mine).tolist()), len(rows)


def join_rows(tree: Any, layout: NamedSharding, held: Sequence[int], shards: int) -> Any:
    """Arrays of the rows that this process holds (see `row_shards`), as global arrays of the rows of all."""
    if jax.process_count() == 1:
        return jax.device_put(jax.tree.map(np.asarray, tree), layout)

    def join(x):
        rows = len(x) // len(held)

        def shard(index):
            at = held.index((index[0].start or 0) // rows)
            return x[at * rows : (at + 1) * rows]

        return jax.make_array_from_callback((rows * shards, *x.shape[1:]), layout, shard)

    return jax.tree.map(lambda x: join(np.asarray(x)), tree)


def part() -> None:
    """Before an end that all processes know of: who left at once would be taken for dead by the others."""
    if jax.process_count() > 1:
        jax.distributed.shutdown()


def barrier(name: str) -> None:
    """Returns when all processes are here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def any_of(flag: bool) -> bool:
    """Whether the flag is set on any process, known to all of them."""
    if jax.process_count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def fetch(tree: Any) -> Any:
    """Global arrays as whole NumPy arrays, on every process."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))


def from_first(data: bytes) -> bytes:
    """What process 0 holds, on every process."""
    if jax.process_count() == 1:
        return data
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    block = np.zeros(size, np.uint8)
    if jax.process_index() == 0:
        block[:] = np.frombuffer(data, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(block), np.uint8).tobytes()
