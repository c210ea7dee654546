"""Devices that are not there: TPU slices as their compiler knows them, GPUs as a shape and a data sheet."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from numjax.errors import UsageError
from numjax.runtime import chips

GPUS = {"a100": "NVIDIA A100", "h100": "NVIDIA H100", "h200": "NVIDIA H200"}
EXAMPLES = "v5e:16x16, v5p:8x8x8, v6e:16x16, h100:64"


class Topology(NamedTuple):
    """A target.

    Attributes:
      name: as given. chip: what each device is. count: how many.
      devices: what the compiler compiles for; None where there is only arithmetic.
    """

    name: str
    chip: chips.Chip
    count: int
    devices: Sequence[Any] | None


# Where `make tpu` puts the compiler: inside the environment every run on CPU would look for TPUs, and say so.
BESIDE = pathlib.Path(sys.prefix) / "tpu"

# The TPU compiler otherwise asks the network what machine this is, and tells at length that it got no answer.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_MIN_LOG_LEVEL": "3",
    # Nothing runs on a TPU, so several plans may be made at once.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def set_up() -> None:
    """Keeps JAX on the CPU and the TPU compiler quiet; call before JAX looks for devices."""
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    jax.config.update("jax_platforms", "cpu")
    if (BESIDE / "libtpu").exists():
        sys.path.append(str(BESIDE))


def find(name: str) -> Topology:
    """The target that config.topology names: a TPU generation and its torus, or a GPU and a number.

    Raises:
      UsageError: an unknown name, or libtpu is not installed.
    """
    kind, _, size = name.partition(":")
    if kind in GPUS:
        if not size.isdigit() or int(size) < 1:
            raise UsageError(f"config.topology={name!r}: give a number of GPUs, such as {kind}:64")
        chip = chips.find(GPUS[kind])
        assert chip is not None
        return Topology(name, chip, int(size), None)
    if not re.fullmatch(r"v\d\w*:\d+(x\d+)+", name):
        raise UsageError(f"config.topology={name!r} is not a topology: give one such as {EXAMPLES}")
    try:
        importlib.import_module("libtpu")
    except ImportError:
        raise UsageError(
            "--mode=compile for TPUs needs their compiler: make tpu, or pip install 'numjax[tpu]'"
        ) from None
    from jax.experimental import topologies

    try:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=name).devices
    except Exception as error:  # JaxRuntimeError or ValueError, by what is wrong with the name
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"config.topology={name!r} is unknown ({reason}): give one such as {EXAMPLES}") from None
    chip = chips.find(devices[0].device_kind)
    if chip is None:
        raise UsageError(
            f"config.topology={name!r}: nothing is known of {devices[0].device_kind!r} in numjax.runtime.chips"
        )
    return Topology(name, chip, len(devices), devices)
