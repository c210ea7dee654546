"""What a compiled program moves, read from its text: memory traffic and collectives, with loops counted.

XLA's own cost analysis counts the body of a loop once, and a step that scans over its layers is little else.
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
# Operations that name or order values without moving them.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "while", "call",
    "conditional", "partition-id", "replica-id", "iota", "async-done", "copy-done", "slice-done", "all-gather-done",
    "all-reduce-done", "collective-permute-done", "add-dependency", "domain", "async-start", "async-update",
}  # fmt: skip

_NAME = r"%?([\w.\-]+)"
_HEAD = re.compile(rf"^(ENTRY )?{_NAME} \(.*\{{\s*$")
_LINE = re.compile(rf"^\s+(ROOT )?{_NAME} = (.*)$")
_SHAPE = re.compile(r"\b(pred|bf16|f8\w+|[sufc]\d+)\[([\d,]*)\](?:\{([^}]*)\})?")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|(?:branch|true|false)_computations?)=\{?(%[\w.\-]+(?:, ?%[\w.\-]+)*)"
)


class Shape(NamedTuple):
    """An array of a program.

    Attributes:
      type, dims: element type and sizes. near: it lies in on-chip memory, not in HBM.
    """

    type: str
    dims: tuple[int, ...]
    near: bool

    @property
    def bytes(self) -> float:
        return math.prod(self.dims) * BYTES.get(self.type, 4)


class Op(NamedTuple):
    """One instruction: its name, opcode, results, operand names, called computations, and the whole line."""

    name: str
    opcode: str
    results: tuple[Shape, ...]
    operands: tuple[str, ...]
    called: tuple[str, ...]
    root: bool
    line: str


class Collective(NamedTuple):
    """A collective of one device: its kind, bytes that the device sends a run, devices that take part, runs a
    step, the arrays that it results in, and over how many devices in a row those that take part are strewn."""

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
      times: name → how often a step runs it, for the computations that run by themselves (not fused ones).
      branches: conditions in the program, of each of which one branch runs.
    """

    def __init__(self, text: str):
        self.computations: dict[str, list[Op]] = {}
        self.branches = 0
        entry, current = "", ""
        for line in text.splitlines():
            if found := _HEAD.match(line):
                current = found[2]
                self.computations[current] = []
                entry = current if found[1] else entry
            elif current and (found := _LINE.match(line)):
                self.computations[current].append(_op(found[2], found[3], bool(found[1])))
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
                # One branch runs: each counts as if all were as likely.
                self.branches += 1
                for called in op.called:
                    self._visit(called, times / len(op.called))

    def _trips(self, op: Op, condition: str) -> int:
        """Runs of a loop that counts from zero to a constant, which is what scans become."""
        if known := re.search(r"known_trip_count[^\d]*(\d+)", op.line):
            return int(known[1])
        bounds = [re.search(r"constant\((\d+)\)", other.line) for other in self.computations[condition]]
        return max((int(found[1]) for found in bounds if found), default=1)

    def _running(self) -> Iterator[tuple[Op, float, Mapping[str, Op]]]:
        for name, times in self.times.items():
            by_name = {op.name: op for op in self.computations.get(name, ())}
            for op in by_name.values():
                yield op, times, by_name

    def shapes(self) -> Iterator[Shape]:
        """Every array that lies in memory of its own (not inside a fusion)."""
        for op, _, _ in self._running():
            yield from op.results

    def collectives(self) -> list[Collective]:
        """Every collective that runs, those inside fusions included; what is started, carried on beside other
        work and done is one."""
        found, seen = [], set()
        for name, times in self.times.items():
            for op, names, fused in self._inside(name):
                kind = op.opcode.removesuffix("-start")
                if kind not in COLLECTIVES:
                    continue
                if fused:
                    chain = re.search(r'(?:chain_id|async_collective_name)="?([\w.\-]+)', op.line)
                    channel = re.search(r"channel_id=(\d+)", op.line)
                    arrays = tuple((shape.type, shape.dims) for shape in op.results)
                    mark = (name, channel and channel[1], chain and chain[1], arrays)
                    if mark in seen:
                        continue
                    seen.add(mark)
                # How TPUs say reduce-scatter: a sum of which each device keeps a slice.
                if kind == "all-reduce" and "all-reduce-scatter" in fused:
                    kind = "reduce-scatter"
                devices = _group_size(op.line)
                size = sum(shape.bytes for other in op.operands if other in names for shape in names[other].results)
                whole = size * devices if kind == "all-gather" else size
                share = (devices - 1) / devices
                moved = {"all-reduce": 2 * share, "collective-permute": 1.0}.get(kind, share) * whole
                found.append(Collective(kind, moved, devices, times, op.results))
        return found

    def _inside(self, name: str, fused: str = "") -> Iterator[tuple[Op, Mapping[str, Op], str]]:
        """(instruction, its neighbours by name, the fused computation it is in) of a computation, fusions opened."""
        by_name = {op.name: op for op in self.computations.get(name, ())}
        for op in by_name.values():
            yield op, by_name, fused
            if op.opcode == "fusion":
                for called in op.called:
                    yield from self._inside(called, called)

    def traffic(self) -> float:
        """Bytes that a step reads from and writes to HBM: an upper bound, since an array that two operations
        share may have stayed near."""
        total = 0.0
        for op, times, names in self._running():
            if op.opcode in FREE or op.opcode.removesuffix("-start") in COLLECTIVES or not op.opcode:
                continue
            reads = [names[name] for name in op.operands if name in names]
            inner = self.computations.get(op.called[0], []) if op.opcode == "fusion" and op.called else None
            total += times * (
                _written(op, inner, names) + sum(_read(op, i, other, inner) for i, other in enumerate(reads))
            )
        return total


def _far(shapes: Sequence[Shape]) -> float:
    return sum(shape.bytes for shape in shapes if not shape.near)


def _read(op: Op, index: int, operand: Op, inner: Sequence[Op] | None) -> float:
    """Bytes of an operand that are read: of a slice only the slice."""
    whole = _far(operand.results)
    if inner is None:
        if op.opcode in ("dynamic-slice", "slice", "gather") and index == 0:
            return min(whole, sum(shape.bytes for shape in op.results))
        return 0.0 if op.opcode == "dynamic-update-slice" and index == 0 else whole
    parameter = next((o for o in inner if o.opcode == "parameter" and f"parameter({index})" in o.line), None)
    if parameter is None:
        return whole
    uses = [o for o in inner if parameter.name in o.operands]
    if uses and all(
        o.opcode in ("dynamic-slice", "slice", "gather") and o.operands[0] == parameter.name for o in uses
    ):
        return min(whole, sum(shape.bytes for o in uses for shape in o.results))
    if uses and all(o.opcode == "dynamic-update-slice" and o.operands[0] == parameter.name for o in uses):
        return 0.0
    return whole


def _written(op: Op, inner: Sequence[Op] | None, names: Mapping[str, Op]) -> float:
    """Bytes that are written: of an update in place only the update, of a copy that is started not its source."""
    whole = _far(op.results[:1] if op.opcode == "copy-start" else op.results)
    by_name = names if inner is None else {o.name: o for o in inner}
    updates = [o for o in inner or (op,) if o.opcode == "dynamic-update-slice" and len(o.operands) > 1]
    for update in updates:
        changed = by_name.get(update.operands[1])
        if changed is not None and whole >= update.results[0].bytes:
            whole -= update.results[0].bytes - changed.results[0].bytes
    return whole


def _op(name: str, rest: str, root: bool) -> Op:
    kind = re.search(r"(?:^|[\s)\}])([a-z][\w\-]*)\(", rest)
    if kind is None:
        return Op(name, "", (), (), (), root, rest)
    before, after = rest[: kind.start(1)], rest[kind.end() :]
    depth, end = 1, 0
    while depth and end < len(after):
        depth += (after[end] == "(") - (after[end] == ")")
        end += 1
    operands = tuple(re.findall(r"%([\w.\-]+)", after[:end]))
    called = _CALLED.findall(after[end:])
    names = tuple(word.strip().lstrip("%") for found in called for word in found.split(","))
    shapes = tuple(
        Shape(found[1], tuple(int(d) for d in found[2].split(",") if d), bool(re.search(r"S\([1-9]", found[3] or "")))
        for found in _SHAPE.finditer(before)
    )
    return Op(name, kind[1], shapes, operands, names, root, rest)


def _group_size(line: str) -> int:
    """Devices that a collective joins, from either way of writing its groups."""
    if found := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(found[1].split(","))
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]", line):
        return int(found[2])
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*)? \{([^}]*)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", found[2]))
    return 2
