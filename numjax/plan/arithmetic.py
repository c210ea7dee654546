"""Times from counts: what a step takes when the chip does nothing but compute, move memory, or send."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.errors import UsageError
from numjax.plan.hlo import Collective
from numjax.runtime.chips import Chip

LOW = 2  # bytes of bfloat16


class Times(NamedTuple):
    """Seconds of a step: of its matrix products, its memory traffic and its collectives."""

    compute: float
    memory: float
    network: float

    @property
    def overlapped(self) -> float:
        """All three at once."""
        return max(self)

    @property
    def apart(self) -> float:
        """Collectives after everything else."""
        return max(self.compute, self.memory) + self.network


def times(chip: Chip, flops: float, traffic: float, collectives: Sequence[Collective]) -> Times:
    """Of one chip; `flops` and `traffic` are its own."""
    network = sum(one.bytes * one.times / _rate(chip, one.span or one.devices) for one in collectives)
    return Times(flops / chip.flops, traffic / chip.bandwidth, network)


def _rate(chip: Chip, span: int) -> float:
    """Bytes a second that a collective gets whose chips lie within so many in a row."""
    if chip.dimensions:
        # A ring lies along one dimension of the torus and leaves the links of the others alone.
        return chip.network / chip.dimensions
    return chip.network if span <= chip.group else chip.between


def fsdp_floor(parameters: float, mesh: Mapping[str, int]) -> float:
    """Bytes that a chip must send a step: bfloat16 parameters gathered for each pass, gradients scattered."""
    fsdp = mesh["fsdp"]
    return 3 * LOW * parameters / mesh["tensor"] * (fsdp - 1) / fsdp


def estimate(
    backbone: Any, parameters: float, rows: int, length: int, mesh: Mapping[str, int], accumulate: int = 1
) -> dict[str, Any]:
    """Temporary bytes, memory traffic and collectives of a step of a decoder that cannot be compiled here.

    Counts bfloat16 activations of a pre-LN block with fused attention: twelve of the layer's width between its
    matrix products, those that `remat` keeps in memory at once; four of the traffic's passes are forward,
    recomputed and backward.

    Raises:
      UsageError: the backbone is no transformer.
    """
    if backbone.remat is None:
        raise UsageError(
            "--mode=compile counts transformers on GPUs, and this backbone is none: set config.topology to a TPU's, "
            "such as v5e:2x2, whose compiler counts, or see --mode=check"
        )
    width, layers, tensor, fsdp = backbone.width, backbone.layers, mesh["tensor"], mesh["fsdp"]
    tokens = rows * length // (mesh["data"] * fsdp)
    one = float(LOW * tokens * width)
    kept = {"none": 16.0, "dots": 9.0, "full": 1.0}[backbone.remat]
    layer = parameters / max(1, layers)
    # What is kept is of one microbatch; what is read, of all of them.
    temporary = one / accumulate * (layers * kept / (tensor if kept > 1 else 1) + 20 / tensor)
    # Two layers' gathered weights and their gradients, and the gradients of this chip's own parameters.
    temporary += 4 * LOW * layer / tensor + 4 * parameters / (tensor * fsdp)
    passes = 3 if backbone.remat == "none" else 4
    traffic = passes * 14 * one * layers / tensor + accumulate * passes * LOW * parameters / tensor
    traffic += 28 * parameters / (tensor * fsdp)  # AdamW reads 16 bytes a parameter and writes 12
    found: list[Collective] = []
    if fsdp > 1:
        part = LOW * parameters / tensor * (fsdp - 1) / fsdp
        span = fsdp * tensor
        found.append(Collective("all-gather", part, fsdp, 2.0 * accumulate, span=span))
        found.append(Collective("reduce-scatter", part, fsdp, float(accumulate), span=span))
    if mesh["data"] > 1:
        share = (mesh["data"] - 1) / mesh["data"]
        found.append(
            Collective(
                "all-reduce",
                2 * LOW * share * parameters / (tensor * fsdp),
                mesh["data"],
                1,
                span=mesh["data"] * fsdp * tensor,
            )
        )
    if tensor > 1:
        found.append(Collective("all-reduce", 2 * one * (tensor - 1) / tensor, tensor, 4.0 * layers))
    return {"temporary": temporary, "traffic": traffic, "collectives": found, "passes": passes}


def next_size(have: int, needed: float, chips: int) -> int:
    """The power of two from `have` up that cuts what takes `needed` times the room down to fit, at most all chips."""
    return min(chips, have * 2 ** math.ceil(math.log2(max(needed, 1.0 + 1e-9))))
