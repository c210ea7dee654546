"""Plans: FLOPs and bytes against counts by hand, what does not fit, and the scale configs on TPUs without a TPU."""

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

from numjax import modes
from numjax.errors import UsageError
from numjax.nn import cross_entropy
from numjax.plan import arithmetic, flops, topology
from numjax.plan.hlo import Collective, Program
from numjax.plan.plan import FILE, PROGRAM, _prepare
from numjax.runtime import chips

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A loop of three over an async gather in pieces, a reduce-scatter in the TPU's form, an update in place; then a sum.
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


def test_the_traffic_of_a_program_equals_a_count_by_hand():
    program = Program(TEXT)
    n_bytes = {
        (collective.kind, collective.devices): collective.bytes * collective.times
        for collective in program.collectives()
    }
    gather_bytes, scatter_bytes = 3 * 2048 * 64 * 2 * 15 / 16, 3 * 256 * 64 * 2 * 3 / 4
    assert n_bytes == {
        ("all-gather", 16): gather_bytes,
        ("reduce-scatter", 4): scatter_bytes,
        ("all-reduce", 4): 10 * 4 * 1.5,
    }
    # In HBM: the inputs of gather and scatter are loaded; of the stack only its update is loaded and stored.
    assert program.traffic() == 3 * (2 * 128 * 64 * 2 + 256 * 64 * 2 + 2 * 8 * 64 * 4 + 4)


def test_loops_of_a_compiled_program_are_counted():
    def step(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0].sum()

    shapes = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((5, 16, 16), "float32")
    program = Program(jax.jit(jax.grad(step)).lower(*shapes).compile().as_text())
    assert sorted(times for times in program.times.values() if times > 1) == [5, 5]  # forward and backward
    assert not program.collectives() and program.traffic() > 5 * 2 * 16 * 16 * 4


def test_a_loop_that_may_end_early_counts_as_its_most_rounds():
    def run(n, x, w):
        return jax.lax.while_loop(
            lambda state: (state[0] < 5) & (state[0] < n),
            lambda state: (state[0] + 1, jnp.tanh(state[1] @ w)),
            (0, x),
        )[1]

    kinds = ((), "int32"), ((8, 16), "float32"), ((16, 16), "float32")
    shapes = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
    assert flops.count(jax.make_jaxpr(run)(*shapes)) == 5 * 2 * 8 * 16 * 16
    program = Program(jax.jit(run).lower(*shapes).compile().as_text())
    assert max(program.times.values()) == 5


def test_a_loss_over_a_vocabulary_counts_all_positions():
    """Which ones are scored is not known before the run."""
    rows, length, width, vocabulary = 4, 32, 8, 512
    targets = jnp.zeros((rows, length), jnp.int32)

    def loss(hidden, kernel, weights):
        options = dict(size=vocabulary, chunk_rows=16)
        return cross_entropy.total_log_prob(hidden, kernel, targets, weights, **options)

    shapes = [
        jax.ShapeDtypeStruct(shape, "float32")
        for shape in ((rows, length, width), (vocabulary, width), (rows, length))
    ]
    step = jax.grad(loss, (0, 1))
    assert flops.count(jax.make_jaxpr(step)(*shapes)) == 3 * 2 * rows * length * width * vocabulary
    program = Program(jax.jit(step).lower(*shapes).compile().as_text())
    assert rows * length // 16 in program.times.values()


def test_a_condition_counts_the_most_flops_and_the_mean_traffic():
    x, w = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((3, 64, 64), "float32")

    def run_layers(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    def run_condition(take, x, w):
        return jax.lax.cond(take, run_layers, lambda x, w: x, x, w)

    def compile_program(step, *shapes):
        return Program(jax.jit(step).lower(*shapes).compile().as_text())

    condition, layers = (
        compile_program(run_condition, jax.ShapeDtypeStruct((), "bool"), x, w),
        compile_program(run_layers, x, w),
    )
    assert (condition.branches, layers.branches) == (1, 0)
    assert condition.traffic() == pytest.approx(layers.traffic() / 2, rel=0.2)
    jaxpr = jax.make_jaxpr(run_condition)(True, x, w)
    assert flops.count(jaxpr) == 3 * 2 * 64**3 and flops.count(jaxpr, min) == 0


def test_flops_count_loops_gradients_and_kernels():
    x, w = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((5, 16, 16), "float32")

    def step(x, w, remat=False):
        layer = lambda x, w: (jnp.tanh(x @ w), None)  # noqa: E731
        return jax.lax.scan(jax.checkpoint(layer) if remat else layer, x, w)[0].sum()

    forward = 5 * 2 * 8 * 16 * 16
    assert flops.count(jax.make_jaxpr(step)(x, w)) == forward
    assert flops.count(jax.make_jaxpr(jax.grad(step, (0, 1)))(x, w)) == 3 * forward
    assert flops.count(jax.make_jaxpr(jax.grad(lambda *a: step(*a, remat=True), (0, 1)))(x, w)) == 4 * forward
    from numjax.nn.attention import attend

    q = jax.ShapeDtypeStruct((2, 256, 3, 64), "float32")
    kernel = jax.make_jaxpr(lambda q: attend(q, q, q, implementation="splash"))(q)
    assert flops.count(kernel) == 2 * 2 * 2 * 3 * 256 * 256 * 64  # two products, rows, heads


def test_flops_that_no_result_needs_do_not_count():
    def step(x):
        return jax.lax.scan(lambda x, _: (x @ x, (x @ x).sum()), x, length=3)[0]

    jaxpr = jax.make_jaxpr(step)(jax.ShapeDtypeStruct((8, 8), "float32"))
    assert flops.count(jaxpr) == 2 * flops.count(flops.drop_dead_code(jaxpr)) == 2 * 3 * 2 * 8**3


def test_flops_are_those_of_all_devices():
    mesh = jax.sharding.AbstractMesh((2, 2, 1), ("data", "fsdp", "tensor"))
    rows = jax.sharding.PartitionSpec(("data", "fsdp"))
    sharded_dot = jax.shard_map(jnp.dot, mesh=mesh, in_specs=(rows, None), out_specs=rows)
    x, w = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((16, 16), "float32")
    assert (
        flops.count(jax.make_jaxpr(sharded_dot)(x, w))
        == flops.count(jax.make_jaxpr(jnp.dot)(x, w))
        == 2 * 8 * 16 * 16
    )


def test_a_chip_matches_its_longest_name():
    assert chips.find("TPU v5 lite").name == "TPU v5e" and chips.find("TPU v5").name == "TPU v5p"
    assert chips.find("NVIDIA H200 SXM").memory > chips.find("NVIDIA H100 80GB HBM3").memory
    assert chips.find("cpu") is None


def make_plan(config: str, topology: str, workdir, **changes):
    module = importlib.import_module(f"numjax.bundled.configs.scale.{config}")
    settings = module.get_config()
    with settings.unlocked():
        settings.topology = topology
        for key, value in changes.items():
            block, _, name = key.partition("_")
            settings[block][name] = value
    return modes.run(settings, str(workdir), "compile")


def test_a_plan_by_arithmetic_fits_and_its_sums_are_right(tmp_path):
    plan = make_plan("decoder_1b3", "h100:64", tmp_path, mesh_fsdp=16, optim_batch_size=512)
    assert json.loads((tmp_path / FILE).read_text()) == plan
    assert plan["fits"] and plan["mesh"] == {"data": 4, "fsdp": 16, "tensor": 1}
    parts = dict(plan["per_chip_bytes"])
    assert parts.pop("available") == 80e9 and parts.pop("total") == pytest.approx(sum(parts.values()), abs=5)
    # Parameters: twelve squares of the width a layer, the vocabulary, positions; split over fsdp but for vectors.
    count = 24 * 12 * 2048**2 + 50304 * 2048 + 2048 * 2048
    assert plan["parameters"] == pytest.approx(count, rel=1e-3)
    assert parts["parameters"] == pytest.approx(4 * count / 16, rel=0.06)
    assert parts["optimizer"] == pytest.approx(2 * parts["parameters"], rel=1e-3)
    assert plan["fsdp_floor_bytes"] == 6 * plan["parameters"] * 15 / 16
    assert plan["flops"]["executed"] == pytest.approx(plan["flops"]["model"] * 4 / 3)
    tokens = 512 * 2048 / 64
    per_token = 6 * (count - 2048 * 2048) + 12 * 24 * 2048 * 2048
    assert plan["flops"]["model"] == pytest.approx(per_token * tokens, rel=1e-3)
    assert plan["step_seconds"] == max(plan["seconds"].values())
    assert plan["mfu"] == pytest.approx(plan["flops"]["model"] / 989e12 / plan["step_seconds"], abs=1e-4)
    assert plan["mfu_no_overlap"] < plan["mfu"] <= arithmetic.PEAK_SHARE * 3 / 4 + 1e-4 and "arithmetic" in " ".join(
        plan["assumptions"]
    )


def test_arithmetic_refuses_a_backbone_that_it_cannot_count(tmp_path):
    config = importlib.import_module("numjax.bundled.configs.dice").get_config("smoke")
    config.topology = "h100:8"
    with pytest.raises(UsageError, match=r"estimates only transformers for GPUs, and this backbone is not one"):
        modes.run(config, str(tmp_path), "compile")


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
    whole_plan, microbatch_plan = (
        make_plan("decoder_1b3", "h100:8", tmp_path, mesh_fsdp=8, optim_batch_size=256, optim_accumulate=parts)
        for parts in (1, 8)
    )
    assert microbatch_plan["per_chip_bytes"]["temporary"] < whole_plan["per_chip_bytes"]["temporary"]
    assert microbatch_plan["collective_bytes"]["all-gather"] == 8 * whole_plan["collective_bytes"]["all-gather"]
    assert microbatch_plan["flops"] == whole_plan["flops"]
    with pytest.raises(UsageError, match=r"batch_size=100 does not divide over data × fsdp=64 × accumulate=1"):
        make_plan("decoder_1b3", "h100:64", tmp_path, optim_batch_size=100)


def test_collectives_between_groups_of_gpus_are_slower():
    chip = chips.find("NVIDIA H100")
    near_times = arithmetic.compute_times(chip, 0, 0, [Collective("all-reduce", 9e9, 8, 1)])
    far_times = arithmetic.compute_times(chip, 0, 0, [Collective("all-reduce", 9e9, 8, 1, span=64)])
    assert near_times.network == 9e9 / 450e9 and far_times.network == 9e9 / 50e9


def test_a_plan_that_does_not_fit_is_refused_and_names_the_axis(tmp_path):
    with pytest.raises(UsageError, match=r"parameters and optimiser take 92.4 GiB .* enlarge config.mesh.fsdp to 2"):
        make_plan("decoder_7b", "h100:8", tmp_path, mesh_fsdp=1, optim_batch_size=64, backbone_layers=40)
    plan = json.loads((tmp_path / FILE).read_text())
    assert plan["fits"] is False and plan["step_seconds"] is None and plan["mfu"] is None
    with pytest.raises(UsageError, match=r"the step takes .* enlarge config.mesh.fsdp, lower .*remat=full"):
        tracemalloc.start()
        make_plan("decoder_7b", "h100:8", tmp_path, mesh_fsdp=1, optim_batch_size=1024, backbone_remat="none")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 28, "nothing of the size of the batch is computed"
    with pytest.raises(UsageError, match=r"the step takes .* enlarge config.mesh.data"):
        make_plan("decoder_7b", "h100:8", tmp_path, mesh_fsdp=4, mesh_data=1, mesh_tensor=2, optim_batch_size=4096)
    for name in ("v9:2", "h100:many", "h100:²", "h100:٤", "v5e"):
        with pytest.raises(UsageError, match=r"give (one such as v5e:16x16|a number of GPUs)"):
            make_plan("decoder_124m", name, tmp_path)
    with pytest.raises(UsageError, match=r"needs --config.topology"):
        make_plan("decoder_124m", "", tmp_path)


def test_larger_axes_are_powers_of_two_and_no_larger_than_there_are_chips():
    assert arithmetic.find_next_size(4, 1.2, 16) == 8
    assert arithmetic.find_next_size(4, 3.9, 64) == 16
    assert arithmetic.find_next_size(4, 40, 16) == 16


tpu = pytest.mark.skipif(
    not (topology.COMPILER_FOLDER / "libtpu").exists() and importlib.util.find_spec("libtpu") is None,
    reason="the TPU compiler is not installed: make test puts it in place",
)


# Runs the rest of the command line, and prints its peak memory in KiB as the last line of stderr.
MEASURE_MEMORY = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def compile_plan(config: str, topology: str, workdir) -> tuple[dict, Program, int]:
    """Returns the plan, the program and KiB of memory of a run in a process of its own, as a user starts it."""
    words = [f"--config=scale/{config}", f"--config.topology={topology}", f"--workdir={workdir}", "--mode=compile"]
    process = subprocess.run(
        [sys.executable, "-c", MEASURE_MEMORY, sys.executable, "-m", "numjax.main", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    plan = json.loads(process.stdout.splitlines()[-1])
    assert plan == json.loads((workdir / FILE).read_text()) and plan["fits"]
    assert "MFU" in process.stderr and "GiB a chip" in process.stderr
    return plan, Program((workdir / PROGRAM).read_text()), int(process.stderr.splitlines()[-1])


def find_squares(program: Program, length: int, rows: int, heads: int) -> list:
    """Returns shapes with a score for every pair of positions; activations look alike if the width is the length."""
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
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert process.stdout.split("\n")[0] == "(8, 8, 1) 64", process.stderr[-2000:]


@tpu
@pytest.mark.whole
def test_the_124m_plan_fits_a_small_slice(tmp_path):
    plan, program, _ = compile_plan("decoder_124m", "v5e:4x4", tmp_path)
    assert plan["chips"] == 16 and plan["mfu"] >= 0.40
    assert not find_squares(program, 1024, 8, 12)


@tpu
@pytest.mark.whole
def test_the_1b3_plan_fits_a_pod_slice(tmp_path):
    plan, program, memory = compile_plan("decoder_1b3", "v5e:16x16", tmp_path)
    assert plan["chips"] == 256 and plan["rows"] == 4 * 256 and plan["length"] == 2048
    assert plan["mfu_no_overlap"] >= 0.50
    assert sum(plan["collective_bytes"].values()) <= 1.25 * plan["fsdp_floor_bytes"]
    assert not find_squares(program, 2048, 4, 16)
    assert memory < 4 * 2**20  # KiB
