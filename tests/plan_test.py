"""Plans: FLOPs and bytes as counted by hand, what does not fit, and the scale configs on TPUs that are not here."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tracemalloc

import jax
import jax.numpy as jnp
import pytest

from numjax.errors import UsageError
from numjax.plan import arithmetic, flops, topology
from numjax.plan.hlo import Collective, Program
from numjax.plan.plan import FILE, PROGRAM, _prepare
from numjax.runtime import chips
from numjax.train import runs

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A loop of three over an async gather in pieces, a reduce-scatter as TPUs say it, an update in place; then a sum.
TEXT = """HloModule jit_step, is_scheduled=true

%gather_start (param_0.1: bf16[1,128,64]) -> bf16[1,2048,64] {
  %param_0.1 = bf16[1,128,64]{2,1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.1 = bf16[1,2048,64]{2,1,0:T(8,128)(2,1)S(1)} all-gather(%param_0.1), channel_id=4, \
replica_groups=mesh['axis_0'=16,'axis_1'=1], device_ids=([16,16]T(1,0)) {'axis_0'}, frontend_attributes={chain_id="5"}
}

%gather_on (param_0.2: bf16[1,128,64]) -> bf16[1,2048,64] {
  %param_0.2 = bf16[1,128,64]{2,1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.2 = bf16[1,2048,64]{2,1,0:T(8,128)(2,1)} all-gather(%param_0.2), channel_id=4, \
replica_groups=mesh['axis_0'=16,'axis_1'=1], device_ids=([16,16]T(1,0)) {'axis_0'}, frontend_attributes={chain_id="5"}
}

%all-reduce-scatter.3 (input: bf16[256,64]) -> bf16[64,64] {
  %input = bf16[256,64]{1,0:T(8,128)(2,1)} parameter(0)
  %all-reduce.9 = bf16[256,64]{1,0:T(8,128)(2,1)} all-reduce(%input), channel_id=7, \
replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  %zero = s32[] constant(0)
  ROOT %dynamic-slice.1 = bf16[64,64]{1,0:T(8,128)(2,1)} dynamic-slice(%all-reduce.9, %zero, %zero), \
dynamic_slice_sizes={64,64}
}

%keep (stack: f32[3,8,64], new: f32[1,8,64], i: s32[]) -> f32[3,8,64] {
  %stack = f32[3,8,64]{2,1,0} parameter(0)
  %new = f32[1,8,64]{2,1,0} parameter(1)
  %i = s32[] parameter(2)
  %nought = s32[] constant(0)
  ROOT %dynamic-update-slice.1 = f32[3,8,64]{2,1,0} dynamic-update-slice(%stack, %new, %i, %nought, %nought)
}

%body (loop: (s32[], bf16[1,128,64], bf16[256,64], f32[3,8,64], f32[1,8,64])) -> (s32[], bf16[1,128,64]) {
  %loop = (s32[], bf16[1,128,64]{2,1,0}, bf16[256,64]{1,0}, f32[3,8,64]{2,1,0}, f32[1,8,64]{2,1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%loop), index=0
  %part = bf16[1,128,64]{2,1,0} get-tuple-element(%loop), index=1
  %sum = bf16[256,64]{1,0} get-tuple-element(%loop), index=2
  %stack.1 = f32[3,8,64]{2,1,0} get-tuple-element(%loop), index=3
  %new.1 = f32[1,8,64]{2,1,0} get-tuple-element(%loop), index=4
  %start = bf16[1,2048,64]{2,1,0:S(1)} fusion(%part), kind=kCustom, calls=%gather_start
  %on = bf16[1,2048,64]{2,1,0:S(1)} fusion(%part), kind=kCustom, calls=%gather_on
  %scattered = bf16[64,64]{1,0:S(1)} fusion(%sum), kind=kCustom, calls=%all-reduce-scatter.3
  %kept = f32[3,8,64]{2,1,0} fusion(%stack.1, %new.1, %i.1), kind=kLoop, calls=%keep
  ROOT %next = (s32[], bf16[1,128,64]{2,1,0}) tuple(%i.1, %part)
}

%condition (loop.1: (s32[], bf16[1,128,64])) -> pred[] {
  %three = s32[]{:T(128)} constant(3)
  %loop.1 = (s32[], bf16[1,128,64]{2,1,0}) parameter(0)
  %i.2 = s32[] get-tuple-element(%loop.1), index=0
  ROOT %less = pred[] compare(%i.2, %three), direction=LT
}

ENTRY %main (x: (s32[], bf16[1,128,64])) -> f32[10] {
  %x = (s32[], bf16[1,128,64]{2,1,0}) parameter(0)
  %while.1 = (s32[], bf16[1,128,64]{2,1,0}) while(%x), condition=%condition, body=%body
  %y = f32[10]{0} constant({...})
  ROOT %all-reduce.2 = f32[10]{0} all-reduce(%y), channel_id=9, replica_groups=[2,4]<=[8], to_apply=%add
}
"""


def test_what_a_program_moves_is_counted_as_by_hand():
    program = Program(TEXT)
    found = {(one.kind, one.devices): one.bytes * one.times for one in program.collectives()}
    gathered, scattered = 3 * 2048 * 64 * 2 * 15 / 16, 3 * 256 * 64 * 2 * 3 / 4
    assert found == {("all-gather", 16): gathered, ("reduce-scatter", 4): scattered, ("all-reduce", 4): 10 * 4 * 1.5}
    # In HBM: what is gathered and scattered is read; the update of the stack is read and written, the stack not.
    assert program.traffic() == 3 * (2 * 128 * 64 * 2 + 256 * 64 * 2 + 2 * 8 * 64 * 4 + 4)


def test_a_compiled_program_is_read_whole():
    def step(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0].sum()

    shapes = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((5, 16, 16), "float32")
    program = Program(jax.jit(jax.grad(step)).lower(*shapes).compile().as_text())
    assert sorted(times for times in program.times.values() if times > 1) == [5, 5]  # forward and backward
    assert not program.collectives() and program.traffic() > 5 * 2 * 16 * 16 * 4


def test_of_a_condition_flops_are_the_dearest_and_traffic_the_mean():
    x, w = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((3, 64, 64), "float32")

    def dear(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    def either(take, x, w):
        return jax.lax.cond(take, dear, lambda x, w: x, x, w)

    def program(step, *shapes):
        return Program(jax.jit(step).lower(*shapes).compile().as_text())

    both, one = program(either, jax.ShapeDtypeStruct((), "bool"), x, w), program(dear, x, w)
    assert (both.branches, one.branches) == (1, 0)
    assert both.traffic() == pytest.approx(one.traffic() / 2, rel=0.2)
    traced = jax.make_jaxpr(either)(True, x, w)
    assert flops.count(traced) == 3 * 2 * 64**3 and flops.count(traced, min) == 0


def test_flops_of_loops_gradients_and_kernels():
    x, w = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((5, 16, 16), "float32")

    def step(x, w, remat=False):
        layer = lambda x, w: (jnp.tanh(x @ w), None)  # noqa: E731
        return jax.lax.scan(jax.checkpoint(layer) if remat else layer, x, w)[0].sum()

    one = 5 * 2 * 8 * 16 * 16
    assert flops.count(jax.make_jaxpr(step)(x, w)) == one
    assert flops.count(jax.make_jaxpr(jax.grad(step, (0, 1)))(x, w)) == 3 * one
    assert flops.count(jax.make_jaxpr(jax.grad(lambda *a: step(*a, remat=True), (0, 1)))(x, w)) == 4 * one
    from numjax.nn.attention import attend

    q = jax.ShapeDtypeStruct((2, 256, 3, 64), "float32")
    kernel = jax.make_jaxpr(lambda q: attend(q, q, q, implementation="splash"))(q)
    assert flops.count(kernel) == 2 * 2 * 2 * 3 * 256 * 256 * 64  # two products, rows, heads


def test_flops_that_no_result_needs_do_not_count():
    def step(x):
        return jax.lax.scan(lambda x, _: (x @ x, (x @ x).sum()), x, length=3)[0]

    traced = jax.make_jaxpr(step)(jax.ShapeDtypeStruct((8, 8), "float32"))
    assert flops.count(traced) == 2 * flops.count(flops.drop_dead_code(traced)) == 2 * 3 * 2 * 8**3


def test_flops_are_those_of_all_devices():
    mesh = jax.sharding.AbstractMesh((2, 2, 1), ("data", "fsdp", "tensor"))
    rows = jax.sharding.PartitionSpec(("data", "fsdp"))
    spread = jax.shard_map(jnp.dot, mesh=mesh, in_specs=(rows, None), out_specs=rows)
    x, w = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((16, 16), "float32")
    assert flops.count(jax.make_jaxpr(spread)(x, w)) == flops.count(jax.make_jaxpr(jnp.dot)(x, w)) == 2 * 8 * 16 * 16


def test_a_chip_is_found_by_the_longest_name():
    assert chips.find("TPU v5 lite").name == "TPU v5e" and chips.find("TPU v5").name == "TPU v5p"
    assert chips.find("NVIDIA H200 SXM").memory > chips.find("NVIDIA H100 80GB HBM3").memory
    assert chips.find("cpu") is None


def planned(config: str, topology: str, workdir, **changes):
    module = importlib.import_module(f"numjax.bundled.configs.scale.{config}")
    made = module.get_config()
    with made.unlocked():
        made.topology = topology
        for key, value in changes.items():
            block, _, name = key.partition("_")
            made[block][name] = value
    return runs.run(made, str(workdir), "compile")


def test_a_plan_by_arithmetic_fits_and_its_sums_are_right(tmp_path):
    found = planned("decoder_1b3", "h100:64", tmp_path, mesh_fsdp=16, optim_batch_size=512)
    assert json.loads((tmp_path / FILE).read_text()) == found
    assert found["fits"] and found["mesh"] == {"data": 4, "fsdp": 16, "tensor": 1}
    parts = dict(found["per_chip_bytes"])
    assert parts.pop("available") == 80e9 and parts.pop("total") == pytest.approx(sum(parts.values()), abs=5)
    # Parameters: twelve squares of the width a layer, the vocabulary, positions; split over fsdp but for vectors.
    count = 24 * 12 * 2048**2 + 50304 * 2048 + 2048 * 2048
    assert found["parameters"] == pytest.approx(count, rel=1e-3)
    assert parts["parameters"] == pytest.approx(4 * count / 16, rel=0.06)
    assert parts["optimizer"] == pytest.approx(2 * parts["parameters"], rel=1e-3)
    assert found["fsdp_floor_bytes"] == 6 * found["parameters"] * 15 / 16
    assert found["flops"]["executed"] == pytest.approx(found["flops"]["model"] * 4 / 3)
    tokens = 512 * 2048 / 64
    per_token = 6 * (count - 2048 * 2048) + 12 * 24 * 2048 * 2048
    assert found["flops"]["model"] == pytest.approx(per_token * tokens, rel=1e-3)
    assert found["step_seconds"] == max(found["seconds"].values())
    assert found["mfu"] == pytest.approx(found["flops"]["model"] / 989e12 / found["step_seconds"], abs=1e-4)
    assert found["mfu_no_overlap"] < found["mfu"] < 1 and "arithmetic" in " ".join(found["assumptions"])


def test_arithmetic_refuses_a_backbone_that_it_cannot_count(tmp_path):
    config = importlib.import_module("numjax.bundled.configs.dice").get_config("smoke")
    config.topology = "h100:8"
    with pytest.raises(UsageError, match=r"estimates only transformers for GPUs, and this backbone is not one"):
        runs.run(config, str(tmp_path), "compile")


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_planned_batch_divides_over_the_mesh_where_rows_share_tables(accumulate, tmp_path):
    config = importlib.import_module("numjax.bundled.configs.luna").get_config("smoke")
    with config.unlocked():
        config.optim.update(batch_size=16, accumulate=accumulate)
    assert config.data.shared
    _, loader = _prepare(config, tmp_path, tmp_path, "gpu", 8)
    batch = loader.example_batch()
    assert batch.inputs.distinct.valid.shape[0] == 8 * accumulate
    assert all(len(x) % 8 == 0 for x in jax.tree.leaves(batch))


def test_microbatches_take_less_memory_and_more_gathers(tmp_path):
    whole, cut = (
        planned("decoder_1b3", "h100:8", tmp_path, mesh_fsdp=8, optim_batch_size=256, optim_accumulate=parts)
        for parts in (1, 8)
    )
    assert cut["per_chip_bytes"]["temporary"] < whole["per_chip_bytes"]["temporary"]
    assert cut["collective_bytes"]["all-gather"] == 8 * whole["collective_bytes"]["all-gather"]
    assert cut["flops"] == whole["flops"]
    with pytest.raises(UsageError, match=r"batch_size=100 does not divide over data × fsdp=64 × accumulate=1"):
        planned("decoder_1b3", "h100:64", tmp_path, optim_batch_size=100)


def test_collectives_between_groups_of_gpus_are_slower():
    chip = chips.find("NVIDIA H100")
    near = arithmetic.compute_times(chip, 0, 0, [Collective("all-reduce", 9e9, 8, 1)])
    far = arithmetic.compute_times(chip, 0, 0, [Collective("all-reduce", 9e9, 8, 1, span=64)])
    assert near.network == 9e9 / 450e9 and far.network == 9e9 / 50e9


def test_what_does_not_fit_is_refused_and_names_the_axis(tmp_path):
    with pytest.raises(UsageError, match=r"parameters and optimiser take 92.4 GiB .* enlarge config.mesh.fsdp to 2"):
        planned("decoder_7b", "h100:8", tmp_path, mesh_fsdp=1, optim_batch_size=64, backbone_layers=40)
    refused = json.loads((tmp_path / FILE).read_text())
    assert refused["fits"] is False and refused["step_seconds"] is None and refused["mfu"] is None
    with pytest.raises(UsageError, match=r"the step takes .* enlarge config.mesh.fsdp, lower .*remat=full"):
        tracemalloc.start()
        planned("decoder_7b", "h100:8", tmp_path, mesh_fsdp=1, optim_batch_size=1024, backbone_remat="none")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 28, "nothing of the size of the batch is computed"
    with pytest.raises(UsageError, match=r"the step takes .* enlarge config.mesh.data"):
        planned("decoder_7b", "h100:8", tmp_path, mesh_fsdp=4, mesh_data=1, mesh_tensor=2, optim_batch_size=4096)
    for name in ("v9:2", "h100:many", "v5e"):
        with pytest.raises(UsageError, match=r"give (one such as v5e:16x16|a number of GPUs)"):
            planned("decoder_124m", name, tmp_path)
    with pytest.raises(UsageError, match=r"needs --config.topology"):
        planned("decoder_124m", "", tmp_path)


def test_larger_axes_are_powers_of_two_and_no_larger_than_there_are_chips():
    assert arithmetic.find_next_size(4, 1.2, 16) == 8
    assert arithmetic.find_next_size(4, 3.9, 64) == 16
    assert arithmetic.find_next_size(4, 40, 16) == 16


tpu = pytest.mark.skipif(
    not (topology.COMPILER_FOLDER / "libtpu").exists() and importlib.util.find_spec("libtpu") is None,
    reason="the TPU compiler is not installed: make test puts it in place",
)


# Runs what follows it on the command line and says, last of all on stderr, how many KiB that took at most.
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def compiled(config: str, topology: str, workdir) -> tuple[dict, Program, int]:
    """The plan, the program, and KiB of memory, made in a process of its own as a user would."""
    words = [f"--config=scale/{config}", f"--config.topology={topology}", f"--workdir={workdir}", "--mode=compile"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, sys.executable, "-m", "numjax.main", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == json.loads((workdir / FILE).read_text()) and found["fits"]
    assert "MFU" in done.stderr and "GiB a chip" in done.stderr
    return found, Program((workdir / PROGRAM).read_text()), int(done.stderr.splitlines()[-1])


def squares(program: Program, length: int, rows: int, heads: int) -> list:
    """Arrays that hold a score for every pair of positions; activations look alike where the width is the length."""
    return [
        shape
        for shape in program.shapes()
        if shape.dims[-2:] == (length, length) and math.prod(shape.dims[:-2]) in (heads, rows * heads)
    ]


@tpu
def test_meshes_split_the_dimensions_of_a_torus():
    code = """
from numjax.runtime import shard
from numjax.plan import topology
topology.set_up()
mesh = shard.make_mesh(data=8, fsdp=8, devices=topology.find("v5p:4x4x4").devices)
print(mesh.devices.shape, len({tuple(device.coords) for device in mesh.devices.flat}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n")[0] == "(8, 8, 1) 64", done.stderr[-2000:]


@tpu
def test_124m_on_a_small_slice(tmp_path):
    found, program, _ = compiled("decoder_124m", "v5e:4x4", tmp_path)
    assert found["chips"] == 16 and found["mfu"] >= 0.40
    assert not squares(program, 1024, 8, 12)


@tpu
@pytest.mark.whole
def test_1b3_on_a_pod_slice(tmp_path):
    found, program, memory = compiled("decoder_1b3", "v5e:16x16", tmp_path)
    assert found["chips"] == 256 and found["rows"] == 4 * 256 and found["length"] == 2048
    assert found["mfu_no_overlap"] >= 0.50
    assert sum(found["collective_bytes"].values()) <= 1.25 * found["fsdp_floor_bytes"]
    assert not squares(program, 2048, 4, 16)
    assert memory < 4 * 2**20  # KiB
