"""Memory traffic and collectives of a compiled program, parsed from its text, with all runs of loops.

XLA's own cost analysis counts the body of a loop once, but most of a step is a scan over its layers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

BYTES = {
    "pred": 1, "s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "f8e4m3fn": 1, "f8e5m2": 1, "s16": 2, "u16": 2, "bf16": 2,
    "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "collective-permute", "all-to-all")
# Operations that name or order values but do not move them.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "while", "call",
    "conditional", "partition-id", "replica-id", "iota", "async-done", "copy-done", "slice-done", "all-gather-done",
    "all-reduce-done", "collective-permute-done", "add-dependency", "domain", "async-start", "async-update",
}  # fmt: skip

_NAME = r"%?([\w.\-]+)"
_HEAD = re.compile(rf"^(ENTRY )?{_NAME} \(.*\{{\s*$")
_LINE = re.compile(rf"^\s+(ROOT )?{_NAME} = (.*)$")
_SHAPE = re.compile(r"\b(pred|bf16|f8\w+|[sufc]\d+)\[([\d,]*)\](?:\{([^}]*)\})?")
_CALLS = re.compile(
    r"(?:calls|to_apply|body|condition|(?:branch|true|false)_computations?)=\{?(%[\w.\-]+(?:, ?%[\w.\-]+)*)"
)


class Shape(NamedTuple):
    """An array of a program.

    Attributes:
      type, dims: element type and sizes. on_chip: it is in on-chip memory, not in HBM.
    """

    type: str
    dims: tuple[int, ...]
    on_chip: bool

    @property
    def bytes(self) -> float:
        return math.prod(self.dims) * BYTES.get(self.type, 4)


class Op(NamedTuple):
    """An instruction: its name, opcode, results, names of operands, called computations, and its line."""

    name: str
    opcode: str
    results: tuple[Shape, ...]
    operands: tuple[str, ...]
    called: tuple[str, ...]
    root: bool
    line: str


class Collective(NamedTuple):
    """A collective of one device: its kind, bytes that the device sends a run, how many devices take part, runs a
    step, its results, and how many consecutive devices the participants are spread over."""

    kind: str
    bytes: float
    devices: int
    times: float
    results: tuple[Shape, ...] = ()
    span: int = 0


class Program:
    """A compiled module.

    Attributes:
      computations: name → instructions in order.
      times: name → how often a step runs the computation; without fused computations.
      branches: how many conditions the program has; one branch of each runs.
    """

    def __init__(self, text: str):
        self.computations: dict[str, list[Op]] = {}
        self.branches = 0
        entry, current = "", ""
        for line in text.splitlines():
            if match := _HEAD.match(line):
                current = match[2]
                self.computations[current] = []
                entry = current if match[1] else entry
            elif current and (match := _LINE.match(line)):
                self.computations[current].append(_parse_op(match[2], match[3], bool(match[1])))
        self.times: dict[str, float] = {}
        self._visit(entry, 1.0)

    def _visit(self, name: str, times: float) -> None:
        self.times[name] = self.times.get(name, 0.0) + times
        for op in self.computations.get(name, ()):
            if op.opcode == "while":
                body = re.search(r"body=%([\w.\-]+)", op.line)
                condition = re.search(r"condition=%([\w.\-]+)", op.line)
                if body and condition:
                    self._visit(body[1], times * self._trips(op, condition[1]))
            elif op.opcode in ("call", "async-start"):
                for called in op.called:
                    self._visit(called, times)
            elif op.opcode == "conditional":
                # One branch runs. Each counts as equally likely.
                self.branches += 1
                for called in op.called:
                    self._visit(called, times / len(op.called))

    def _trips(self, op: Op, condition: str) -> int:
        """How often a loop runs that counts from zero to a constant, as scans do, or at most if it may end early."""
        if trip_count := re.search(r"known_trip_count[^\d]*(\d+)", op.line):
            return int(trip_count[1])
        operations = [operation for operation, *_ in self._inside(condition)]
        bounds = [re.search(r"constant\((\d+)\)", operation.line) for operation in operations]
        return max((int(match[1]) for match in bounds if match), default=1)

    def _running(self) -> Iterator[tuple[Op, float, Mapping[str, Op]]]:
        for name, times in self.times.items():
            by_name = {op.name: op for op in self.computations.get(name, ())}
            for op in by_name.values():
                yield op, times, by_name

    def shapes(self) -> Iterator[Shape]:
        """Yields every array that has memory of its own (not inside a fusion)."""
        for op, _, _ in self._running():
            yield from op.results

    def collectives(self) -> list[Collective]:
        """Lists every collective that runs, also inside fusions. A collective that starts, runs beside other work and
        is done counts once."""
        results, keys = [], set()
        for name, times in self.times.items():
            for op, names, fused in self._inside(name):
                kind = op.opcode.removesuffix("-start")
                if kind not in COLLECTIVES:
                    continue
                if fused:
                    chain = re.search(r'(?:chain_id|async_collective_name)="?([\w.\-]+)', op.line)
                    channel = re.search(r"channel_id=(\d+)", op.line)
                    arrays = tuple((shape.type, shape.dims) for shape in op.results)
                    key = (name, channel and channel[1], chain and chain[1], arrays)
                    if key in keys:
                        continue
                    keys.add(key)
                # On TPUs a reduce-scatter is an all-reduce of which each device keeps a slice.
                if kind == "all-reduce" and "all-reduce-scatter" in fused:
                    kind = "reduce-scatter"
                devices = _group_size(op.line)
                size = sum(
                    shape.bytes for operand in op.operands if operand in names for shape in names[operand].results
                )
                total = size * devices if kind == "all-gather" else size
                share = (devices - 1) / devices
                sent_bytes = {"all-reduce": 2 * share, "collective-permute": 1.0}.get(kind, share) * total
                results.append(Collective(kind, sent_bytes, devices, times, op.results))
        return results

    def _inside(self, name: str, fused: str = "") -> Iterator[tuple[Op, Mapping[str, Op], str]]:
        """Yields (instruction, instructions of its computation by name, name of the fused computation that it is in),
        also for instructions inside fusions."""
        by_name = {op.name: op for op in self.computations.get(name, ())}
        for op in by_name.values():
            yield op, by_name, fused
            if op.opcode == "fusion":
                for called in op.called:
                    yield from self._inside(called, called)

    def traffic(self) -> float:
        """Bytes that a step reads from and writes to HBM. An upper bound: an array that two operations share may stay
        in on-chip memory."""
        total = 0.0
        for op, times, names in self._running():
            if op.opcode in FREE or op.opcode.removesuffix("-start") in COLLECTIVES or not op.opcode:
                continue
            operands = [names[name] for name in op.operands if name in names]
            inner = self.computations.get(op.called[0], []) if op.opcode == "fusion" and op.called else None
            total += times * (
                _output_bytes(op, inner, names)
                + sum(_input_bytes(op, i, operand, inner) for i, operand in enumerate(operands))
            )
        return total


def _hbm_bytes(shapes: Sequence[Shape]) -> float:
    return sum(shape.bytes for shape in shapes if not shape.on_chip)


def _input_bytes(op: Op, index: int, operand: Op, inner: Sequence[Op] | None) -> float:
    """Bytes of an operand that an instruction reads; for a slice, only the slice."""
    total = _hbm_bytes(operand.results)
    if inner is None:
        if op.opcode in ("dynamic-slice", "slice", "gather") and index == 0:
            return min(total, sum(shape.bytes for shape in op.results))
        return 0.0 if op.opcode == "dynamic-update-slice" and index == 0 else total
    parameter = next((o for o in inner if o.opcode == "parameter" and f"parameter({index})" in o.line), None)
    if parameter is None:
        return total
    uses = [o for o in inner if parameter.name in o.operands]
    if uses and all(
        o.opcode in ("dynamic-slice", "slice", "gather") and o.operands[0] == parameter.name for o in uses
    ):
        return min(total, sum(shape.bytes for o in uses for shape in o.results))
    if uses and all(o.opcode == "dynamic-update-slice" and o.operands[0] == parameter.name for o in uses):
        return 0.0
    return total


def _output_bytes(op: Op, inner: Sequence[Op] | None, names: Mapping[str, Op]) -> float:
    """Bytes that an instruction writes; for an update in place only the update; for a started copy not its source."""
    total = _hbm_bytes(op.results[:1] if op.opcode == "copy-start" else op.results)
    by_name = names if inner is None else {o.name: o for o in inner}
    updates = [o for o in inner or (op,) if o.opcode == "dynamic-update-slice" and len(o.operands) > 1]
    for update in updates:
        update_values = by_name.get(update.operands[1])
        if update_values is not None and total >= update.results[0].bytes:
            total -= update.results[0].bytes - update_values.results[0].bytes
    return total


def _parse_op(name: str, rest: str, root: bool) -> Op:
    kind = re.search(r"(?:^|[\s)\}])([a-z][\w\-]*)\(", rest)
    if kind is None:
        return Op(name, "", (), (), (), root, rest)
    result_text, operand_text = rest[: kind.start(1)], rest[kind.end() :]
    depth, end = 1, 0
    while depth and end < len(operand_text):
        depth += (operand_text[end] == "(") - (operand_text[end] == ")")
        end += 1
    operands = tuple(re.findall(r"%([\w.\-]+)", operand_text[:end]))
    called = _CALLS.findall(operand_text[end:])
    names = tuple(word.strip().lstrip("%") for group in called for word in group.split(","))
    shapes = tuple(
        Shape(match[1], tuple(int(d) for d in match[2].split(",") if d), bool(re.search(r"S\([1-9]", match[3] or "")))
        for match in _SHAPE.finditer(result_text)
    )
    return Op(name, kind[1], shapes, operands, names, root, rest)


def _group_size(line: str) -> int:
    """Number of devices in a group of a collective, from any of the three notations of groups."""
    if match := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(match[1].split(","))
    if match := re.search(r"replica_groups=\[(\d+),(\d+)\]", line):
        return int(match[2])
    if match := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*)? \{([^}]*)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", match[2]))
    return 2
