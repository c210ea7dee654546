"""--mode=compile: memory and time of a training step on devices that this machine does not have.

For TPUs, the TPU compiler compiles the real step for the topology, on any machine. Memory is what the compiler
allocates. FLOPs are counted in the traced program, collectives and memory traffic in the compiled program. Seconds
are these divided by the rates of the chip's data sheet. The GPU compiler needs a GPU, so for GPUs all is arithmetic.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import tempfile
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

from numjax.errors import UsageError
from numjax.pipeline import source
from numjax.pipeline.loader import Loader
from numjax.plan import arithmetic, flops, stand_in, topology
from numjax.plan.arithmetic import Times
from numjax.plan.hlo import Program
from numjax.runtime import log, program, shard
from numjax.system import VOCABULARY, System, assemble
from numjax.train.compile import Compiled, count_parameters, flops_per_token, make_compiled

FILE = "plan.json"
PROGRAM = "plan_hlo.txt"  # the compiled program, to look up details
GIB = 2.0**30
RECORDS = 2000  # of a dataset: more do not change the shapes of batches
VOCABULARY_SIZE = 50_257  # if the config names files that are missing


def plan(config: Any, folder: pathlib.Path) -> dict[str, Any]:
    """Plans the config's training step for config.topology, prints the plan and writes plan.json.

    Raises:
      UsageError: no topology or an unknown one, a mesh that does not fit it, or a step that does not fit the chips.
    """
    if not config.topology:
        raise UsageError(f"{program.mode_of('compile')} needs --config.topology, such as {topology.EXAMPLES}")
    target = topology.find(config.topology)
    platform = "gpu" if target.devices is None else "tpu"
    mesh = _mesh(config, target)
    parts = int(mesh.shape["data"] * mesh.shape["fsdp"])
    with tempfile.TemporaryDirectory() as scratch:
        system, loader = _prepare(config, folder, pathlib.Path(scratch), platform, parts)
        loader.check_batch()
        batch = loader.example_batch()
        compiled = make_compiled(system, mesh, batch)
    planner = _Planner(folder, target, system, compiled, batch)
    planner.check_state()
    if target.devices is None:
        planner.estimate()
    else:
        planner.compile()
    return planner.finish()


def _mesh(config: Any, target: topology.Topology) -> Any:
    if target.devices is not None:
        return shard.make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor, target.devices)
    sizes = shard.axis_sizes(target.count, config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
    device = AbstractDevice(device_kind=target.chip.name, num_cores=None, platform="gpu")
    return AbstractMesh(sizes, shard.AXES, axis_types=(AxisType.Auto,) * len(sizes), abstract_device=device)


def _prepare(
    config: Any, folder: pathlib.Path, scratch: pathlib.Path, platform: str, parts: int
) -> tuple[System, Loader]:
    """Makes the system, and batches of the right shapes, split by rows into `parts`. A missing vocabulary or text is
    replaced by a stand-in."""
    block = config.scheme.vocab
    vocabulary = None
    if not (folder / VOCABULARY).exists() and not block.get("path"):
        vocabulary = stand_in.Vocabulary(block.get("size", VOCABULARY_SIZE))
    config = config.copy_and_resolve_references()
    if vocabulary is not None and "answer" in config.task:
        config.task.answer = "text"  # the stand-in has no pieces that spell numbers
    if "path" in config.task and not config.task.path and config.task.name == "language_model":
        stand_in.write_text(scratch)
        with config.unlocked():
            config.task.path = str(scratch)
            config.data.dir = str(scratch / "built")
    system = assemble(config, folder, vocabulary=vocabulary, platform=platform)
    records = source.load(system.task.dataset, "train", config.data.dir or None)
    encoded = system.encode_split(records or [], "train", limit=RECORDS)
    process = range(parts), parts
    return system, Loader(encoded, config, seed=0, host_features=system.host_features, process=process)


class _Planner:
    """Collects the figures of a plan, and writes them as plan.json."""

    def __init__(
        self, folder: pathlib.Path, target: topology.Topology, system: System, compiled: Compiled, batch: Any
    ):
        self.folder, self.target, self.system, self.compiled, self.batch = folder, target, system, compiled, batch
        self.sizes = {name: int(compiled.mesh.shape[name]) for name in shard.AXES}
        state = compiled.abstract_state
        self.bytes: dict[str, float] = {
            "parameters": _local_bytes(state.params),
            "optimizer": _local_bytes((state.opt_state, state.ema)),
        }
        rows, length = batch.inputs.ids.shape
        source = 0 if batch.source is None else batch.source.ids.shape[1]
        self.accumulate = int(system.config.optim.accumulate)
        tokens = rows * (length + source)
        self.model_flops = flops_per_token(system.model, state, length, source) * tokens / target.count
        self.parameters = count_parameters(state)
        chip = target.chip
        self.assumptions = [
            f"{chip.name}: {chip.flops / 1e12:.0f} TFLOP/s bfloat16, {chip.memory / GIB:.0f} GiB at "
            f"{chip.bandwidth / 1e9:.0f} GB/s, {chip.network / 1e9:.0f} GB/s to other chips",
            f"matrix products run at {arithmetic.PEAK_SHARE:.0%} of the data sheet's peak, which is usual; MFU is of "
            "the peak",
            "step_seconds is the longest of computing, memory and collectives, all overlapped; "
            "mfu_no_overlap adds the collectives",
            "model FLOPs: 6 a multiplying parameter and token and 12 · layers · width · length for attention, "
            "masked or not",
        ]

    def check_state(self) -> None:
        """Raises UsageError, after writing plan.json, if parameters and optimiser alone do not fit."""
        state = sum(self.bytes.values())
        if state > self.target.chip.memory:
            larger = arithmetic.find_next_size(
                self.sizes["fsdp"], state / self.target.chip.memory, self.target.count // self.sizes["tensor"]
            )
            axis = "config.mesh.fsdp" if larger > self.sizes["fsdp"] else "the topology"
            to = f" to {larger}" if larger > self.sizes["fsdp"] else ""
            self._refuse(f"parameters and optimiser take {state / GIB:.1f} GiB a chip", f"enlarge {axis}{to}")

    def compile(self) -> None:
        """Compiles the step and takes memory, FLOPs, traffic and collectives from the result."""
        sharding = shard.batch_sharding(self.compiled.mesh)
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), self.batch)
        everywhere = shard.replicated(self.compiled.mesh)
        seed, rate = (jax.ShapeDtypeStruct((), kind, sharding=everywhere) for kind in (np.int32, np.float32))
        state = self.compiled.abstract_state
        traced = self.compiled.step.trace(seed, rate, state, shapes)  # type: ignore[attr-defined]
        self.flops = flops.count(flops.drop_dead_code(traced.jaxpr)) / self.target.count
        log.say(f"compiling for {self.target.count} × {self.target.chip.name}: this takes minutes")
        try:
            executable = traced.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            used = re.search(r"(?:[Uu]sed |temporaries \()([\d.]+\w)", str(error))
            self._refuse(f"the step takes {used[1] if used else 'more'} bytes a chip", self._remedy())
        memory = executable.memory_analysis()
        self.bytes["batch"] = float(_local_bytes(shapes))
        self.bytes["temporary"] = float(memory.temp_size_in_bytes + memory.generated_code_size_in_bytes)
        text = executable.as_text()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / PROGRAM).write_text(text, encoding="utf-8")
        program = Program(text)
        self.collectives, self.traffic = program.collectives(), program.traffic()
        self.assumptions += [
            "FLOPs: every matrix product of the step, what is recomputed and what a causal mask would skip included",
            "memory traffic: operands and results of every compiled operation, an upper bound",
            f"a collective uses one of the {self.target.chip.dimensions} dimensions of the torus",
        ]
        if program.branches:
            self.assumptions.append(
                f"of the branches of each condition ({program.branches}) FLOPs count the dearest, traffic and "
                "collectives the mean"
            )

    def estimate(self) -> None:
        """Estimates memory, FLOPs, traffic and collectives by arithmetic."""
        rows, length = self.batch.inputs.ids.shape
        if self.batch.source is not None:
            length += self.batch.source.ids.shape[1]
        estimates = arithmetic.estimate(
            self.system.model.backbone, self.parameters, rows, length, self.sizes, self.accumulate
        )
        self.flops = self.model_flops * estimates["passes"] / 3
        self.bytes["batch"] = _local_bytes(self.batch) / (self.sizes["data"] * self.sizes["fsdp"])
        self.bytes["temporary"], self.traffic, self.collectives = (
            estimates[k] for k in ("temporary", "traffic", "collectives")
        )
        self.assumptions += [
            "arithmetic, not a compiled program: bfloat16 activations, fused attention, AdamW, each collective whole",
            f"{self.target.chip.group} chips share {self.target.chip.network / 1e9:.0f} GB/s each; "
            f"beyond them {self.target.chip.between / 1e9:.0f} GB/s a chip",
        ]

    def finish(self) -> dict[str, Any]:
        """Prints, writes and returns the plan.

        Raises:
          UsageError: the step does not fit; plan.json is written first.
        """
        total = sum(self.bytes.values())
        if total > self.target.chip.memory:
            self._refuse(f"the step takes {total / GIB:.1f} GiB a chip", self._remedy())
        times = arithmetic.compute_times(self.target.chip, self.flops, self.traffic, self.collectives)
        report = self._make_report(True, times)
        self._write(report)
        _log_report(report, times, self.target)
        log.print_result(report)
        return report

    def _remedy(self) -> str:
        backbone = self.system.model.backbone
        remat = "" if backbone.remat in (None, "full") else ", or set config.backbone.remat=full"
        state = self.bytes["parameters"] + self.bytes["optimizer"]
        if 2 * state > self.target.chip.memory and self.sizes["data"] > 1:
            axis = "fsdp"
        else:
            # Fewer rows a chip; if each chip already has only one row, less of each row.
            axis = "data" if self.sizes["data"] * self.sizes["fsdp"] < self.target.count else "tensor"
        return f"enlarge config.mesh.{axis}, lower config.optim.batch_size or raise optim.accumulate{remat}"

    def _refuse(self, what: str, remedy: str) -> None:
        report = self._make_report(False, None)
        self._write(report)
        capacity = f"{self.target.chip.memory / GIB:.0f} GiB of {self.target.name}"
        shape = " × ".join(f"{name}={size}" for name, size in self.sizes.items())
        raise UsageError(f"it does not fit: {what}, more than the {capacity} with {shape}: {remedy}")

    def _write(self, report: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FILE).write_text(json.dumps(report, indent=1) + "\n")

    def _make_report(self, fits: bool, times: Times | None) -> dict[str, Any]:
        rows, length = self.batch.inputs.ids.shape
        bytes_by_kind: dict[str, float] = {}
        if times is not None:
            for collective in self.collectives:
                bytes_by_kind[collective.kind] = (
                    bytes_by_kind.get(collective.kind, 0.0) + collective.bytes * collective.times
                )
        rate = self.model_flops / self.target.chip.flops

        def utilisation(seconds: float) -> float:
            return round(rate / seconds, 4)

        return {
            "topology": self.target.name,
            "chips": self.target.count,
            "mesh": self.sizes,
            "parameters": self.parameters,
            "rows": rows,
            "length": length,
            **({} if self.batch.source is None else {"source_length": self.batch.source.ids.shape[1]}),
            "fits": fits,
            "per_chip_bytes": {k: round(v) for k, v in self.bytes.items()}
            | {"total": round(sum(self.bytes.values())), "available": round(self.target.chip.memory)},
            "flops": None if times is None else {"model": self.model_flops, "executed": self.flops},
            "memory_traffic_bytes": None if times is None else self.traffic,
            "collective_bytes": None if times is None else bytes_by_kind,
            "fsdp_floor_bytes": arithmetic.fsdp_floor(self.parameters, self.sizes),
            "seconds": None if times is None else times._asdict(),
            "step_seconds": None if times is None else times.overlapped,
            "mfu": None if times is None else utilisation(times.overlapped),
            "mfu_no_overlap": None if times is None else utilisation(times.serial),
            "assumptions": self.assumptions,
        }


def _local_bytes(tree: Any) -> float:
    """Bytes of arrays on one device; arrays without a sharding count whole."""

    def local_bytes(x):
        shape = x.shape
        sharding = getattr(x, "sharding", None)
        if sharding is not None and math.prod(shape):
            shape = sharding.shard_shape(shape)
        return math.prod(shape) * np.dtype(x.dtype).itemsize

    return float(sum(local_bytes(x) for x in jax.tree.leaves(tree)))


def _log_report(report: dict[str, Any], times: Times, target: topology.Topology) -> None:
    parts = report["per_chip_bytes"]
    memory = " · ".join(f"{name} {parts[name] / GIB:.2f}" for name in parts if name not in ("total", "available"))
    log.say(f"GiB a chip: {memory} · total {parts['total'] / GIB:.2f} of {parts['available'] / GIB:.0f}")
    network = " · ".join(f"{kind} {size / 1e9:.2f}" for kind, size in sorted(report["collective_bytes"].items()))
    log.say(f"GB sent a chip and step: {network or 'none'} (FSDP needs at least "
            f"{report['fsdp_floor_bytes'] / 1e9:.2f})")  # fmt: skip
    limits = " · ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in times._asdict().items())
    log.say(f"ms a step, matrix products at {arithmetic.PEAK_SHARE:.0%} of the data sheet's peak: {limits}")
    log.say(
        f"at best {report['step_seconds']:.3f} s a step, MFU {100 * report['mfu']:.0f}%; without overlap of the "
        f"collectives {100 * report['mfu_no_overlap']:.0f}%: see {FILE} for what this assumes"
    )
