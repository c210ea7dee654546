"""Target devices of a plan: TPU slices as the TPU compiler describes them, GPUs as a count and a data sheet."""

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
from numjax.runtime import chips, program

GPUS = {"a100": "NVIDIA A100", "h100": "NVIDIA H100", "h200": "NVIDIA H200"}
EXAMPLES = "v5e:16x16, v5p:8x8x8, v6e:16x16, h100:64"


class Topology(NamedTuple):
    """The target devices of a plan.

    Attributes:
      name: as in the config. chip: the type of each device. count: how many devices.
      devices: the devices to compile for; None if the plan is only arithmetic.
    """

    name: str
    chip: chips.Chip
    count: int
    devices: Sequence[Any] | None


# `make tpu` puts the compiler here. Inside the environment, every run on CPU would look for TPUs and print a message.
COMPILER_FOLDER = pathlib.Path(sys.prefix) / "tpu"

# Otherwise the TPU compiler asks the network which machine this is, and prints long messages when it gets no answer.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_MIN_LOG_LEVEL": "3",
    # No TPU is used, so several plans may run at once.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def set_up() -> None:
    """Keeps JAX on the CPU and the TPU compiler quiet. Call it before JAX looks for devices."""
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    jax.config.update("jax_platforms", "cpu")
    if (COMPILER_FOLDER / "libtpu").exists():
        sys.path.append(str(COMPILER_FOLDER))


def find(name: str) -> Topology:
    """Finds the target that config.topology names: a TPU generation and its torus, or a GPU and a count.

    Raises:
      UsageError: the name is unknown, or libtpu is not installed.
    """
    kind, _, size = name.partition(":")
    if kind in GPUS:
        if not (size.isascii() and size.isdecimal()) or int(size) < 1:
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
            f"{program.mode_of('compile')} for TPUs needs their compiler: make tpu, in the checkout"
        ) from None
    from jax.experimental import topologies

    try:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=name).devices
    except Exception as error:  # JaxRuntimeError or ValueError, depending on the mistake in the name
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"config.topology={name!r} is unknown ({reason}): give one such as {EXAMPLES}") from None
    chip = chips.find(devices[0].device_kind)
    if chip is None:
        raise UsageError(f"config.topology={name!r}: numjax.runtime.chips does not know {devices[0].device_kind!r}")
    return Topology(name, chip, len(devices), devices)
