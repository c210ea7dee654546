"""Times of a step from counts of FLOPs, memory traffic and sent bytes, at rates that a chip can reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.errors import UsageError
from numjax.plan.hlo import Collective
from numjax.runtime import program
from numjax.runtime.chips import Chip

BFLOAT16_BYTES = 2  # bytes of bfloat16
PEAK_SHARE = 0.8  # of the data sheet's FLOP/s, what large matrix products usually reach


class Times(NamedTuple):
    """Seconds that a step needs for matrix products, for memory traffic and for collectives."""

    compute: float
    memory: float
    network: float

    @property
    def overlapped(self) -> float:
        """Seconds if all three overlap."""
        return max(self)

    @property
    def serial(self) -> float:
        """Seconds if the collectives run after everything else."""
        return max(self.compute, self.memory) + self.network


def compute_times(chip: Chip, flops: float, traffic: float, collectives: Sequence[Collective]) -> Times:
    """Computes the times of one chip. `flops` and `traffic` (bytes) are per chip."""
    network = sum(
        collective.bytes * collective.times / _collective_bandwidth(chip, collective.span or collective.devices)
        for collective in collectives
    )
    return Times(flops / (PEAK_SHARE * chip.flops), traffic / chip.bandwidth, network)


def _collective_bandwidth(chip: Chip, span: int) -> float:
    """Bytes a second of a collective whose chips are within `span` consecutive chips."""
    if chip.dimensions:
        # A ring runs along one dimension of the torus and does not use the links of the others.
        return chip.network / chip.dimensions
    return chip.network if span <= chip.group else chip.between


def fsdp_floor(parameters: float, mesh: Mapping[str, int]) -> float:
    """The least bytes that a chip sends a step: bfloat16 parameters gathered for each pass, gradients scattered."""
    fsdp = mesh["fsdp"]
    return 3 * BFLOAT16_BYTES * parameters / mesh["tensor"] * (fsdp - 1) / fsdp


def estimate(
    backbone: Any, parameters: float, rows: int, length: int, mesh: Mapping[str, int], accumulate: int = 1
) -> dict[str, Any]:
    """Estimates temporary bytes, memory traffic and collectives of a decoder's step that cannot be compiled here.

    Counts bfloat16 activations of a pre-LN block with fused attention. Between its matrix products a layer has twelve
    activations of its width; `remat` says how many stay in memory. With remat, traffic has four passes: forward,
    recomputed, and backward.

    Returns:
      {"temporary": bytes, "traffic": bytes, "collectives": list, "passes": count}.

    Raises:
      UsageError: the backbone is not a transformer.
    """
    if backbone.remat is None:
        raise UsageError(
            f"{program.mode_of('compile')} estimates only transformers for GPUs, and this backbone is not one: set "
            f"config.topology to a TPU topology, such as v5e:2x2, or use {program.mode_of('check')}"
        )
    width, layers, tensor, fsdp = backbone.width, backbone.layers, mesh["tensor"], mesh["fsdp"]
    tokens = rows * length // (mesh["data"] * fsdp)
    activation = float(BFLOAT16_BYTES * tokens * width)
    n_kept = {"none": 16.0, "dots": 9.0, "full": 1.0}[backbone.remat]
    layer = parameters / max(1, layers)
    # Kept activations are those of one microbatch. Traffic counts all microbatches.
    temporary = activation / accumulate * (layers * n_kept / (tensor if n_kept > 1 else 1) + 20 / tensor)
    # Gathered weights and gradients of two layers, and the gradients of this chip's own parameters.
    temporary += 4 * BFLOAT16_BYTES * layer / tensor + 4 * parameters / (tensor * fsdp)
    passes = 3 if backbone.remat == "none" else 4
    traffic = passes * 14 * activation * layers / tensor + accumulate * passes * BFLOAT16_BYTES * parameters / tensor
    traffic += 28 * parameters / (tensor * fsdp)  # AdamW reads 16 bytes a parameter and writes 12
    collectives: list[Collective] = []
    if fsdp > 1:
        part = BFLOAT16_BYTES * parameters / tensor * (fsdp - 1) / fsdp
        span = fsdp * tensor
        collectives.append(Collective("all-gather", part, fsdp, 2.0 * accumulate, span=span))
        collectives.append(Collective("reduce-scatter", part, fsdp, float(accumulate), span=span))
    if mesh["data"] > 1:
        share = (mesh["data"] - 1) / mesh["data"]
        collectives.append(
            Collective(
                "all-reduce",
                2 * BFLOAT16_BYTES * share * parameters / (tensor * fsdp),
                mesh["data"],
                1,
                span=mesh["data"] * fsdp * tensor,
            )
        )
    if tensor > 1:
        collectives.append(Collective("all-reduce", 2 * activation * (tensor - 1) / tensor, tensor, 4.0 * layers))
    return {"temporary": temporary, "traffic": traffic, "collectives": collectives, "passes": passes}


def find_next_size(size: int, excess: float, chips: int) -> int:
    """Finds the smallest `size` · 2^n that fits what needs `excess` times the memory of a chip; at most `chips`."""
    return min(chips, size * 2 ** math.ceil(math.log2(max(excess, 1.0 + 1e-9))))
