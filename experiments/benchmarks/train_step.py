"""Measures the time and memory of a training step against PyTorch and against a plain GPT.

    python -m experiments.benchmarks.train_step [--contenders=gpt,numgpt,torch] [--rounds=7] [--steps=1]
        [--layers=6 --width=384 --heads=6 --length=256 --rows=8 --vocab=50257] [--peer=PYTHON] [--out=FILE]

Contenders take turns (see `pairs.py`):

    gpt             numjax: decoder, tied token head, clipping at norm 1, AdamW
    numgpt          the same with every numeral part: prototype embedding, concat+linear, mixture head (tied); a
                    tenth of the positions are numbers
    torch           PyTorch, eager, AdamW not fused, as its users run it on CPU (`torch_gpt.py`)
    torch-lean      the same, but drops the logits before the backward pass
    torch-compile   torch.compile and fused AdamW; compiles for a minute before the first round
    torch-tuned     eager, with fused AdamW and an allocator that keeps its memory
    torch-bfloat16  tuned, and autocast to bfloat16

All train the same parameters on the same batch, in float32 except the last. The first losses of gpt and torch are
compared, to show that both do the same work.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import tempfile
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs

SHAPE = dict(layers=6, width=384, heads=6, length=256, rows=8, vocab=50_257)
WIDE_SHAPE = SHAPE | dict(layers=12, width=768, heads=12, rows=2)
NUMERALS = 0.1  # share of positions that are numbers in numgpt's batch
SLOTS = 48
NUMJAX_CONTENDERS = ("gpt", "numgpt")
# A plain GPT on systems without huge pages.
SMALL_PAGES = "gpt-small-pages"
# Otherwise glibc returns big buffers at each step and fetches them again page by page.
KEEP = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"), "4294967296")
PEERS = {
    "torch": ([], {}),
    "torch-lean": (["--lean"], {}),
    "torch-compile": (["--fused", "--compile"], {}),
    "torch-tuned": (["--fused"], KEEP),
    "torch-bfloat16": (["--fused", "--bfloat16"], KEEP),
}
MATMUL = "matmul"  # the best that the processor can do: the same rounds, only products
MATMUL_SIZE = 2048
CONTENDERS = (*NUMJAX_CONTENDERS, SMALL_PAGES, MATMUL, *PEERS)


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    parser = options.make_parser("train_step", __doc__, SHAPE, rounds=7)
    options.add_contenders(parser, ("gpt", "numgpt", MATMUL, "torch"), CONTENDERS, (*NUMJAX_CONTENDERS, MATMUL))
    parser.add_argument("--steps", type=int, default=1, help="steps a turn")
    arguments = parser.parse_args(words)
    shape = options.parse_shape(arguments, SHAPE)
    if arguments.worker:
        work(arguments.worker, shape, pathlib.Path(arguments.files))
        return {}
    names = options.parse_contenders(arguments, CONTENDERS, PEERS, ["torch", "numpy"])
    result = measure(names, shape, arguments.rounds, arguments.steps, arguments.peer)
    print(pairs.format_table(make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out and why)."""
    peer_reason = pairs.explain_missing(peer, ["torch", "numpy"])
    peers = [] if peer_reason else ["torch", "torch-tuned"]
    # torch.compile needs a C++ compiler.
    compiler_reason = "" if peer_reason or shutil.which(os.environ.get("CXX", "g++")) else "no C++ compiler"
    compiled_peers = [] if peer_reason or compiler_reason else ["torch-compile"]
    table_rows = make_rows(
        measure([*NUMJAX_CONTENDERS, MATMUL, *peers, *compiled_peers], SHAPE, rounds=3, steps=1, peer=peer)
    )
    table_rows += make_rows(measure(["gpt", MATMUL, *peers], WIDE_SHAPE, rounds=3, steps=1, peer=peer))
    left_out = {"torch": peer_reason, "torch-compile": compiler_reason}
    return table_rows, [f"{name}: {reason}" for name, reason in left_out.items() if reason]


def measure(names, shape: dict[str, int], rounds: int, steps: int, peer: str) -> dict[str, Any]:
    """The result of `pairs.drive`, with the shape and the ratios of each pair."""
    sizes = [f"--{key}={value}" for key, value in shape.items() if key != "rows"]
    with tempfile.TemporaryDirectory() as folder:
        save(pathlib.Path(folder), shape)
        contenders = []
        for name in names:
            if name not in PEERS:
                words = [
                    f"--worker={NUMJAX_CONTENDERS[0] if name == SMALL_PAGES else name}",
                    f"--files={folder}",
                    *sizes,
                ]
                environment = {"JAX_PLATFORMS": "cpu"}
                if name == SMALL_PAGES:
                    environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=0"
                contenders.append(pairs.Contender(name, pairs.make_command("train_step", *words), environment))
            else:
                tuning_flags, environment = PEERS[name]
                words = pairs.make_command("torch_gpt", f"--files={folder}", *sizes, *tuning_flags, python=peer)
                contenders.append(pairs.Contender(name, words, environment))
        result = pairs.drive(contenders, rounds, steps)
    tokens = shape["rows"] * shape["length"]
    if matmul := result["contenders"].pop(MATMUL, None):
        result["matmul_gflops"] = matmul["flops"] / matmul["median"] / 1e9
    for entry in result["contenders"].values():
        entry["tokens_per_second"] = tokens / entry["median"]
        if matmul:
            # The shape is the same and so is the work; the share leaves out numgpt's own parts.
            entry["share_of_matmul"] = model_flops(shape) / entry["median"] / (matmul["flops"] / matmul["median"])
    result = {"benchmark": "train_step", "shape": shape, **result, "pairs": {}}
    for contender, rival in PAIRS:
        if contender in names and rival in names:
            result["pairs"][f"{contender} / {rival}"] = {
                "speed": pairs.ratio(result, rival, contender),
                "speed_by_processor_time": pairs.ratio(result, rival, contender, "cpu_seconds"),
                "memory": pairs.memory_ratio(result, contender, rival),
            }
    if "gpt" in names and "torch" in names:
        losses = [result["contenders"][name]["first_loss"] for name in ("gpt", "torch")]
        result["first_losses_differ_by"] = abs(losses[0] - losses[1])
    return result


def model_flops(shape: dict[str, int]) -> float:
    """FLOPs of a step: 6 per token and weight of the products, and attention's 12·L·D·T per token."""
    layers, width = shape["layers"], shape["width"]
    weights = 12 * layers * width**2 + shape["vocab"] * width
    return shape["rows"] * shape["length"] * (6.0 * weights + 12.0 * layers * width * shape["length"])


PAIRS = [(ours, peer) for ours in NUMJAX_CONTENDERS for peer in PEERS] + [("numgpt", "gpt"), ("gpt", SMALL_PAGES)]
# Bounds on CPU. There are none for bfloat16, where torch is faster.
COMMON_BOUNDS: dict[str, dict[str, Any]] = {
    "gpt / torch-tuned": dict(floor=1.15, goal=1.4),
    "numgpt / gpt time": dict(floor=1.05),
}
BOUNDS: list[tuple[dict[str, int], dict[str, dict[str, Any]]]] = [
    (
        SHAPE,
        COMMON_BOUNDS
        | {
            "gpt / torch": dict(floor=1.6, goal=1.9),
            "gpt / torch-compile": dict(floor=1.3, goal=1.5),
            "gpt / torch memory": dict(floor=0.7, goal=0.6),
        },
    ),
    (WIDE_SHAPE, COMMON_BOUNDS | {"gpt / torch": dict(floor=1.6, goal=1.8)}),
]


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table: tokens/s and memory against torch, step time against a plain GPT."""
    shape_bounds = next((bounds for shape, bounds in BOUNDS if shape == result["shape"]), {})
    prefix = "train" if result["shape"] == SHAPE else "train {layers}/{width}".format(**result["shape"])
    table_rows = []
    for name, entry in result["contenders"].items():
        table_rows.append(pairs.BenchmarkRow(f"{prefix} {name}", entry["tokens_per_second"], unit="tokens/s"))
        table_rows.append(pairs.BenchmarkRow(f"{prefix} {name} peak memory", entry["peak_mib"], unit="MiB"))
        if "share_of_matmul" in entry:
            table_rows.append(pairs.BenchmarkRow(f"{prefix} {name} share of matmul", entry["share_of_matmul"]))
    for name, entry in result["pairs"].items():
        if name.endswith(" / gpt"):
            step_time = {key: 1 / entry["speed"][inverse_key] for key, inverse_key in INVERSE_KEYS.items()}
            table_rows.append(
                _make_row(f"{prefix} {name} step time", step_time, lower=True, **shape_bounds.get(f"{name} time", {}))
            )
            continue
        table_rows.append(_make_row(f"{prefix} {name} tokens/s", entry["speed"], **shape_bounds.get(name, {})))
        bounds = shape_bounds.get(f"{name} memory", {})
        table_rows.append(pairs.BenchmarkRow(f"{prefix} {name} peak memory", entry["memory"], lower=True, **bounds))
    return table_rows


INVERSE_KEYS = {"median": "median", "least": "most", "most": "least"}


def _make_row(title: str, spread: dict[str, float], **bounds: Any) -> pairs.BenchmarkRow:
    return pairs.BenchmarkRow(title, spread["median"], spread["least"], spread["most"], **bounds)


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def save(folder: pathlib.Path, shape: dict[str, int]) -> None:
    """Saves parameters and a batch that all contenders share."""
    rng = np.random.default_rng(0)
    width, heads, layers = shape["width"], shape["heads"], shape["layers"]
    shapes = {
        "embeds_token/table": (pad_vocab(shape["vocab"]), width),
        "backbone/order_sequence/places": (shape["length"], width),
        "backbone/ln_f_scale": (width,),
        "backbone/ln_f_bias": (width,),
    }
    for i in range(layers):
        sizes = dict(ln_1_scale=(width,), ln_1_bias=(width,), ln_2_scale=(width,), ln_2_bias=(width,))
        sizes |= dict(qkv_kernel=(width, 3, heads, width // heads), qkv_bias=(3, heads, width // heads))
        sizes |= dict(out_kernel=(width, width), out_bias=(width,))
        sizes |= dict(up_kernel=(width, 4 * width), up_bias=(4 * width,))
        sizes |= dict(down_kernel=(4 * width, width), down_bias=(width,))
        shapes |= {f"backbone/layer_{i}/{name}": size for name, size in sizes.items()}

    def draw(name, size):
        if name.endswith("scale"):
            return np.ones(size, np.float32)
        return np.zeros(size, np.float32) if name.endswith("bias") else _draw_normal(rng, size)

    np.savez(folder / "parameters.npz", **{name: draw(name, size) for name, size in shapes.items()})  # type: ignore
    ids = rng.integers(0, shape["vocab"] - 1, (shape["rows"], shape["length"] + 1)).astype(np.int32)
    np.savez(folder / "batch.npz", ids=ids[:, :-1], targets=ids[:, 1:])


def _draw_normal(rng, size):
    return 0.02 * rng.standard_normal(size, dtype=np.float32)


def pad_vocab(vocab: int) -> int:
    """The size of the vocabulary as numjax pads it."""
    return -(-vocab // 128) * 128


def make_batch(shape: dict[str, int], folder: pathlib.Path, numerals: bool):
    """The shared batch; with `numerals`, a tenth of its positions are numbers."""
    from numjax.types import Batch, Numeral, Targets, Tokens

    arrays = np.load(folder / "batch.npz")
    ids, targets = arrays["ids"], arrays["targets"]
    rows, length = ids.shape
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
    inputs, batch_targets = Tokens(ids, positions, np.ones_like(ids)), Targets(targets, np.ones(ids.shape, bool))
    if numerals:
        rng = np.random.default_rng(1)
        size = (rows, SLOTS)
        table = Numeral(
            sign=np.where(rng.random(size) < 0.5, -1, 1).astype(np.int8),
            digits=rng.integers(1, 10, (*size, 20)).astype(np.int8),
            n_digits=np.full(size, 20, np.int32),
            exponent=rng.integers(-8, 13, size).astype(np.int32),
            valid=np.ones(size, bool),
        )
        index = np.where(rng.random((rows, length + 1)) < NUMERALS, rng.integers(0, SLOTS, (rows, length + 1)), -1)
        index = index.astype(np.int32)
        inputs = inputs._replace(numeral_index=index[:, :-1], numerals=table)
        batch_targets = batch_targets._replace(numeral_index=index[:, 1:])
    return Batch(inputs, batch_targets, valid=np.ones(rows, bool))


def make_model(shape: dict[str, int], numerals: bool):
    """A plain GPT, or the same with every numeral part; both with a tied output."""
    from numjax.build import build
    from numjax.model import Model
    from numjax.system import make_backbone

    width, vocab = shape["width"], shape["vocab"]
    context = dict(vocab_size=pad_vocab(vocab), size=vocab, num_id=vocab - 1, width=width, digits=20)
    embeds = {"token": build("embed", {"name": "token"}, dim=width, **context)}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype"}, **context)
    head = build("heads", {"name": "mixture" if numerals else "token", "tied": True}, **context)
    stack = {"name": "decoder", "width": width, "layers": shape["layers"], "heads": shape["heads"], "packed": False}
    backbone = make_backbone(stack | {"max_length": shape["length"]}, {"sequence": {"name": "learned"}})
    return Model(embeds, {"numeral": "concat+linear"} if numerals else {}, backbone, {"next": head})


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """Serves a contender of numjax: a turn takes N training steps, or N products of large matrices."""
    import jax

    if name == MATMUL:
        size = MATMUL_SIZE
        a, product = jax.numpy.ones((size, size)), jax.jit(jax.numpy.dot)

        def multiply(times: int) -> None:
            for _ in range(times):
                product(a, a).block_until_ready()

        pairs.serve(multiply, flops=2 * size**3)
        return

    from numjax.build import build
    from numjax.runtime.shard import path_name
    from numjax.train import optim
    from numjax.train.step import compiler_options, init_params, train_step
    from numjax.types import TrainState

    numerals = name == "numgpt"
    model, batch = make_model(shape, numerals), make_batch(shape, folder, numerals)
    rate = optim.schedule("constant", 1e-4, 1000)
    optimizer = optim.adamw(rate)
    objectives = {"next": build("objectives", {"name": "nll", "head": "next"})}
    body = functools.partial(train_step, model, objectives, {"next": 1.0}, optimizer, rate, 1)
    step = jax.jit(body, donate_argnums=(1,), compiler_options=compiler_options(jax.default_backend()))
    arrays = np.load(folder / "parameters.npz")
    shapes = jax.eval_shape(lambda: init_params(model, batch, 0))
    rng = np.random.default_rng(2)

    def load(path, leaf):
        return arrays[path_name(path)] if path_name(path) in arrays else _draw_normal(rng, leaf.shape)

    params = jax.device_put(jax.tree_util.tree_map_with_path(load, shapes))
    state, batch = TrainState(jax.numpy.int32(0), params, jax.jit(optimizer.init)(params)), jax.device_put(batch)
    del params

    def step_once() -> float:
        nonlocal state
        state, metrics = step(0, state, batch)
        total, count = metrics["loss"]
        return float(total) / float(count)

    def turn(steps: int) -> dict[str, float]:
        return {"loss": [step_once() for _ in range(steps)][-1]}

    first_loss = step_once()
    pairs.serve(turn, version=f"jax {jax.__version__}", first_loss=first_loss)


if __name__ == "__main__":
    command.entry(main)
