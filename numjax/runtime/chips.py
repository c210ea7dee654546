"""Performance of accelerators from their vendors' data sheets, for MFU and for plans."""

from __future__ import annotations

from typing import NamedTuple


class Chip(NamedTuple):
    """One accelerator.

    Attributes:
      name: the name in plans.
      flops: dense bfloat16 FLOP/s. memory: bytes of HBM. bandwidth: of the HBM, bytes/s.
      network: bytes/s that a chip sends to others over all its links.
      dimensions: of the torus that its links span; 0 for switches.
      group: number of chips that share the network. between: bytes/s per chip from group to group.
    """

    name: str
    flops: float
    memory: float
    bandwidth: float
    network: float
    dimensions: int
    group: int = 0
    between: float = 0.0


GIB = 2.0**30
V5E = Chip("TPU v5e", 197e12, 16 * GIB, 819e9, 200e9, 2)
V5P = Chip("TPU v5p", 459e12, 95 * GIB, 2765e9, 600e9, 3)
H100 = Chip("NVIDIA H100", 989e12, 80e9, 3350e9, 450e9, 0, group=8, between=50e9)

# By the beginning of JAX's name of a device; the longest match counts.
CHIPS = {
    "TPU v4": Chip("TPU v4", 275e12, 32 * GIB, 1228e9, 300e9, 3),
    "TPU v5 lite": V5E,
    "TPU v5e": V5E,
    "TPU v5": V5P,
    "TPU v5p": V5P,
    "TPU v6 lite": Chip("TPU v6e", 918e12, 32 * GIB, 1600e9, 400e9, 2),
    "NVIDIA A100": Chip("NVIDIA A100", 312e12, 80e9, 2039e9, 300e9, 0, group=8, between=25e9),
    "NVIDIA H100": H100,
    "NVIDIA H200": H100._replace(name="NVIDIA H200", memory=141e9, bandwidth=4800e9),
}


def find(kind: str) -> Chip | None:
    """The chip of a device kind, None if unknown."""
    names = [name for name in CHIPS if kind.startswith(name)]
    return CHIPS[max(names, key=len)] if names else None
