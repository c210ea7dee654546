"""How fast a training step is, and how much memory it takes, beside PyTorch and beside a plain GPT.

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

All train the same parameters on the same batch, in float32 save the last; the first losses of gpt and torch are
compared, so that nobody is fast by doing something else.
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
WIDE = SHAPE | dict(layers=12, width=768, heads=12, rows=2)
NUMERALS = 0.1  # share of positions that are numbers in numgpt's batch
SLOTS = 48
OURS = ("gpt", "numgpt")
# A plain GPT as on systems that give no huge pages.
SMALL_PAGES = "gpt-small-pages"
# glibc gives big buffers back at each step otherwise, and gets them anew page by page.
KEEP = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"), "4294967296")
PEERS = {
    "torch": ([], {}),
    "torch-lean": (["--lean"], {}),
    "torch-compile": (["--fused", "--compile"], {}),
    "torch-tuned": (["--fused"], KEEP),
    "torch-bfloat16": (["--fused", "--bfloat16"], KEEP),
}
MATMUL = "matmul"  # what the processor can do at best: the same rounds, nothing but products
MATMUL_SIZE = 2048
CONTENDERS = (*OURS, SMALL_PAGES, MATMUL, *PEERS)


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    made = options.parser("train_step", __doc__, SHAPE, rounds=7)
    options.add_contenders(made, ("gpt", "numgpt", MATMUL, "torch"), CONTENDERS, (*OURS, MATMUL))
    made.add_argument("--steps", type=int, default=1, help="steps a turn")
    given = made.parse_args(words)
    shape = options.shape_of(given, SHAPE)
    if given.worker:
        work(given.worker, shape, pathlib.Path(given.files))
        return {}
    names = options.contenders(given, CONTENDERS, PEERS, ["torch", "numpy"])
    result = measure(names, shape, given.rounds, given.steps, given.peer)
    print(pairs.table(rows(result)))
    pairs.write(result, given.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out and why)."""
    why = pairs.lacking(peer, ["torch", "numpy"])
    peers = [] if why else ["torch", "torch-tuned"]
    # Only where there is a compiler of C++ does torch.compile do anything.
    lacking = "" if why or shutil.which(os.environ.get("CXX", "g++")) else "no C++ compiler"
    more = [] if why or lacking else ["torch-compile"]
    made = rows(measure([*OURS, MATMUL, *peers, *more], SHAPE, rounds=3, steps=1, peer=peer))
    made += rows(measure(["gpt", MATMUL, *peers], WIDE, rounds=3, steps=1, peer=peer))
    left_out = {"torch": why, "torch-compile": lacking}
    return made, [f"{name}: {reason}" for name, reason in left_out.items() if reason]


def measure(names, shape: dict[str, int], rounds: int, steps: int, peer: str) -> dict[str, Any]:
    """What `pairs.drive` finds, with the shape and what each pair comes to."""
    sizes = [f"--{key}={value}" for key, value in shape.items() if key != "rows"]
    with tempfile.TemporaryDirectory() as folder:
        save(pathlib.Path(folder), shape)
        contenders = []
        for name in names:
            if name not in PEERS:
                words = [f"--worker={OURS[0] if name == SMALL_PAGES else name}", f"--files={folder}", *sizes]
                environment = {"JAX_PLATFORMS": "cpu"}
                if name == SMALL_PAGES:
                    environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=0"
                contenders.append(pairs.Contender(name, pairs.command("train_step", *words), environment))
            else:
                tuned, environment = PEERS[name]
                words = pairs.command("torch_gpt", f"--files={folder}", *sizes, *tuned, python=peer)
                contenders.append(pairs.Contender(name, words, environment))
        found = pairs.drive(contenders, rounds, steps)
    tokens = shape["rows"] * shape["length"]
    if best := found["contenders"].pop(MATMUL, None):
        found["matmul_gflops"] = best["flops"] / best["median"] / 1e9
    for one in found["contenders"].values():
        one["tokens_per_second"] = tokens / one["median"]
        if best:
            # The shapes are the same, so is the work; numgpt's own parts are left out of its share.
            one["share_of_matmul"] = model_flops(shape) / one["median"] / (best["flops"] / best["median"])
    found = {"benchmark": "train_step", "shape": shape, **found, "pairs": {}}
    for mine, other in PAIRS:
        if mine in names and other in names:
            found["pairs"][f"{mine} / {other}"] = {
                "speed": pairs.ratio(found, other, mine),
                "speed_by_processor_time": pairs.ratio(found, other, mine, "cpu_seconds"),
                "memory": pairs.memory(found, mine, other),
            }
    if "gpt" in names and "torch" in names:
        losses = [found["contenders"][name]["first_loss"] for name in ("gpt", "torch")]
        found["first_losses_differ_by"] = abs(losses[0] - losses[1])
    return found


def model_flops(shape: dict[str, int]) -> float:
    """FLOPs of a step: 6 a weight of the products and a token, and attention's 12·L·D·T a token."""
    layers, width = shape["layers"], shape["width"]
    weights = 12 * layers * width**2 + shape["vocab"] * width
    return shape["rows"] * shape["length"] * (6.0 * weights + 12.0 * layers * width * shape["length"])


PAIRS = [(mine, other) for mine in OURS for other in PEERS] + [("numgpt", "gpt"), ("gpt", SMALL_PAGES)]
# Asked for on CPU. Nothing is of bfloat16 there: torch is ahead.
BOTH: dict[str, dict[str, Any]] = {
    "gpt / torch-tuned": dict(floor=1.15, goal=1.4),
    "numgpt / gpt time": dict(floor=1.05),
}
ASKED: list[tuple[dict[str, int], dict[str, dict[str, Any]]]] = [
    (
        SHAPE,
        BOTH
        | {
            "gpt / torch": dict(floor=1.6, goal=1.9),
            "gpt / torch-compile": dict(floor=1.3, goal=1.5),
            "gpt / torch memory": dict(floor=0.7, goal=0.6),
        },
    ),
    (WIDE, BOTH | {"gpt / torch": dict(floor=1.6, goal=1.8)}),
]


def rows(found: dict[str, Any]) -> list[pairs.Row]:
    """The table: tokens/s and memory beside torch, step time beside a plain GPT."""
    asked = next((bounds for shape, bounds in ASKED if shape == found["shape"]), {})
    train = "train" if found["shape"] == SHAPE else "train {layers}/{width}".format(**found["shape"])
    made = []
    for name, one in found["contenders"].items():
        made.append(pairs.Row(f"{train} {name}", one["tokens_per_second"], unit="tokens/s"))
        made.append(pairs.Row(f"{train} {name} peak memory", one["peak_mib"], unit="MiB"))
        if "share_of_matmul" in one:
            made.append(pairs.Row(f"{train} {name} share of matmul", one["share_of_matmul"]))
    for name, one in found["pairs"].items():
        if name.endswith(" / gpt"):
            time = {key: 1 / one["speed"][turned] for key, turned in TURNED.items()}
            made.append(_row(f"{train} {name} step time", time, lower=True, **asked.get(f"{name} time", {})))
            continue
        made.append(_row(f"{train} {name} tokens/s", one["speed"], **asked.get(name, {})))
        bounds = asked.get(f"{name} memory", {})
        made.append(pairs.Row(f"{train} {name} peak memory", one["memory"], lower=True, **bounds))
    return made


TURNED = {"median": "median", "least": "most", "most": "least"}


def _row(what: str, spread: dict[str, float], **more: Any) -> pairs.Row:
    return pairs.Row(what, spread["median"], spread["least"], spread["most"], **more)


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def save(folder: pathlib.Path, shape: dict[str, int]) -> None:
    """Parameters and a batch that all contenders share."""
    rng = np.random.default_rng(0)
    width, heads, layers = shape["width"], shape["heads"], shape["layers"]
    found = {
        "embeds_token/table": (padded(shape["vocab"]), width),
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
        found |= {f"backbone/layer_{i}/{name}": size for name, size in sizes.items()}

    def draw(name, size):
        if name.endswith("scale"):
            return np.ones(size, np.float32)
        return np.zeros(size, np.float32) if name.endswith("bias") else _normal(rng, size)

    np.savez(folder / "parameters.npz", **{name: draw(name, size) for name, size in found.items()})  # type: ignore
    ids = rng.integers(0, shape["vocab"] - 1, (shape["rows"], shape["length"] + 1)).astype(np.int32)
    np.savez(folder / "batch.npz", ids=ids[:, :-1], targets=ids[:, 1:])


def _normal(rng, size):
    return 0.02 * rng.standard_normal(size, dtype=np.float32)


def padded(vocab: int) -> int:
    """The vocabulary as numjax lays it out."""
    return -(-vocab // 128) * 128


def make_batch(shape: dict[str, int], folder: pathlib.Path, numerals: bool):
    """The shared batch; with `numerals`, a tenth of its positions are numbers."""
    from numjax.types import Batch, Numeral, Targets, Tokens

    saved = np.load(folder / "batch.npz")
    ids, targets = saved["ids"], saved["targets"]
    rows, length = ids.shape
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
    inputs, wanted = Tokens(ids, positions, np.ones_like(ids)), Targets(targets, np.ones(ids.shape, bool))
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
        wanted = wanted._replace(numeral_index=index[:, 1:])
    return Batch(inputs, wanted, valid=np.ones(rows, bool))


def make_model(shape: dict[str, int], numerals: bool):
    """A plain GPT, or the same with every numeral part; both with a tied output."""
    from numjax.build import build
    from numjax.model import Model
    from numjax.system import make_backbone

    width, vocab = shape["width"], shape["vocab"]
    known = dict(vocab_size=padded(vocab), size=vocab, num_id=vocab - 1, width=width, digits=20)
    embeds = {"token": build("embed", {"name": "token"}, dim=width, **known)}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype"}, **known)
    head = build("heads", {"name": "mixture" if numerals else "token", "tied": True}, **known)
    stack = {"name": "decoder", "width": width, "layers": shape["layers"], "heads": shape["heads"], "packed": False}
    backbone = make_backbone(stack | {"max_length": shape["length"]}, {"sequence": {"name": "learned"}})
    return Model(embeds, {"numeral": "concat+linear"} if numerals else {}, backbone, {"next": head})


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """A contender of numjax: answers how long N training steps took, or N products of large matrices."""
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
    optimizer, rate = optim.adamw(1e-4, 1000)
    objectives = {"next": build("objectives", {"name": "nll", "head": "next"})}
    body = functools.partial(train_step, model, objectives, {"next": 1.0}, optimizer, rate, 1)
    step = jax.jit(body, donate_argnums=(1,), compiler_options=compiler_options(jax.default_backend()))
    saved = np.load(folder / "parameters.npz")
    shapes = jax.eval_shape(lambda: init_params(model, batch, 0))
    rng = np.random.default_rng(2)

    def load(path, leaf):
        return saved[path_name(path)] if path_name(path) in saved else _normal(rng, leaf.shape)

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

    first = step_once()
    pairs.serve(turn, version=f"jax {jax.__version__}", first_loss=first)


if __name__ == "__main__":
    command.entry(main)
