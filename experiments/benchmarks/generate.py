"""How fast text is written, beside Hugging Face's `generate`.

    python -m experiments.benchmarks.generate [--peer=.venv-compare/bin/python] [--rounds=7] [--rows=1,8]
        [--contenders=gpt,numgpt,transformers] [--prompt=32 --new=128]
        [--layers=6 --width=384 --heads=6 --vocab=50257 --length=256] [--out=FILE]

    gpt           numjax: decoder, tied token head, the grammar of running text
    numgpt        the same with every numeral part: prototype embedding, mixture head, numbers fed back
    transformers  GPT2LMHeadModel.generate with its cache (`transformers_gpt2.py`)

All have the same parameters and prompts, are greedy in float32 and write exactly --new tokens; how much of the
texts of gpt and transformers agrees is reported, so that nobody is fast by doing something else. Contenders take
turns (see `pairs.py`): only ratios mean anything.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np

from experiments import command
from experiments.benchmarks import options, pairs

SHAPE = dict(layers=6, width=384, heads=6, vocab=50_257, length=256, prompt=32, new=128)
OURS = ("gpt", "numgpt")
PEER = "transformers"
FLOORS = {1: 2.5, 8: 2.3}  # times the tokens/s of transformers, by rows


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    made = options.parser("generate", __doc__, SHAPE, rounds=7)
    options.add_contenders(made, (*OURS, PEER), (*OURS, PEER), OURS)
    made.add_argument("--rows", default="1,8", help="sizes of the batch, comma-separated")
    given = made.parse_args(words)
    shape = options.shape_of(given, SHAPE)
    if given.worker:
        work(given.worker, shape, pathlib.Path(given.files))
        return {}
    names = options.contenders(given, (*OURS, PEER), (PEER,), ["torch", "transformers"])
    result: dict[str, Any] = {"shape": shape, "rows": {}}
    for rows in options.batches(given, shape):
        result["rows"][rows] = measure(names, shape, rows, given.rounds, given.peer)
    print(pairs.table(lines(result)))
    pairs.write(result, given.out)
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out and why)."""
    why = pairs.lacking(peer, ["torch", "transformers"])
    names = [*OURS] if why else [*OURS, PEER]
    found = {rows: measure(names, SHAPE, rows, 3, peer) for rows in FLOORS}
    return lines({"shape": SHAPE, "rows": found}), [f"{PEER}: {why}"] if why else []


def measure(names: list[str], shape: dict[str, int], rows: int, rounds: int, peer: str) -> dict[str, Any]:
    """Rounds of turns at one size of the batch, with tokens/s and how much of the texts agrees."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        prompts = np.random.default_rng(0).integers(0, shape["vocab"], (rows, shape["prompt"]))
        np.save(files / "prompts.npy", prompts.astype(np.int32))
        save_parameters(files / "parameters.npz", shape)
        sizes = [f"--{name}={value}" for name, value in shape.items()]
        given = [f"--parameters={files / 'parameters.npz'}", f"--prompts={files / 'prompts.npy'}"]
        contenders = []
        for name in names:
            if name == PEER:
                own = [size for size in sizes if not size.startswith("--prompt=")]
                line = pairs.command("transformers_gpt2", *own, *given, python=peer)
            else:
                line = pairs.command("generate", f"--worker={name}", f"--files={folder}", *sizes)
            contenders.append(pairs.Contender(name, line, {"JAX_PLATFORMS": "cpu"}))
        found = pairs.drive(contenders, rounds, say=lambda text: print(f"{rows} rows, {text}", flush=True))
    written = {name: np.asarray(x.pop("written")) for name, x in found["contenders"].items()}
    for x in found["contenders"].values():
        x["tokens_per_second"] = rows * shape["new"] / x["median"]
    if {"gpt", PEER} <= set(names):
        found["agreement"] = float((written["gpt"] == written[PEER]).mean())
    for mine in OURS:
        for other in (PEER, "gpt"):
            if {mine, other} <= set(names) and mine != other:
                found[f"{mine} to {other}"] = {
                    "speed": pairs.ratio(found, other, mine),
                    "speed_by_cpu_time": pairs.ratio(found, other, mine, "cpu_seconds"),
                    "memory": pairs.memory(found, mine, other),
                }
    return found


def lines(result: dict[str, Any]) -> list[pairs.Row]:
    """The rows of the table."""
    out = []
    usual = all(result["shape"][name] == value for name, value in SHAPE.items())
    for rows, found in result["rows"].items():
        for name, x in found["contenders"].items():
            out.append(pairs.Row(f"{name}, {rows} rows", x["tokens_per_second"], unit="tokens/s"))
        for name, x in found.items():
            if " to " in name:
                floor = FLOORS.get(rows) if usual and name == f"gpt to {PEER}" else None
                out.append(pairs.Row(f"{name}, {rows} rows", *x["speed"].values(), floor=floor))
        if "agreement" in found:
            out.append(pairs.Row(f"same tokens, {rows} rows", 100 * found["agreement"], unit="%"))
    return out


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def make_model(shape: dict[str, int], numerals: bool):
    """(a plain GPT, or the same with every numeral part; ids of [NUM] and [EOS])."""
    from flax.core import FrozenDict

    from numjax.build import build
    from numjax.model import Model

    # Two reserved tokens behind the text; padded as the schemes do.
    num_id, end_id = shape["vocab"], shape["vocab"] + 1
    known = dict(vocab_size=-(-(end_id + 1) // 128) * 128, size=end_id + 1, num_id=num_id)
    known |= dict(width=shape["width"], digits=20)
    embeds = {"token": build("embed", {"name": "token"}, dim=shape["width"], **known)}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype"}, **known)
    head = build("heads", {"name": "mixture" if numerals else "token", "tied": True}, **known)
    sizes = {name: shape[name] for name in ("width", "layers", "heads")}
    backbone = build("backbone", {"name": "decoder", "max_length": shape["length"], **sizes})
    fusions = FrozenDict({"numeral": "concat+linear"} if numerals else {})
    return Model(FrozenDict(embeds), fusions, backbone, FrozenDict(next=head)), num_id, end_id


def read_prompts(path: pathlib.Path):
    """Tokens[B, P] without padding and without numbers."""
    from numjax.types import Numeral, Tokens

    ids = np.load(path)
    rows, slots = len(ids), 4
    table = Numeral(
        sign=np.ones((rows, slots), np.int8),
        digits=np.zeros((rows, slots, 20), np.int8),
        n_digits=np.zeros((rows, slots), np.int32),
        exponent=np.zeros((rows, slots), np.int32),
        valid=np.zeros((rows, slots), bool),
    )
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    none = np.full_like(ids, -1)
    return Tokens(ids, positions, np.ones_like(ids), numeral_index=none, numerals=table)


def save_parameters(path: pathlib.Path, shape: dict[str, int]) -> None:
    """The parameters of numgpt, of which gpt's and transformers' are a part."""
    import jax

    from numjax.shard import path_name
    from numjax.types import Batch

    model, *_ = make_model(shape, numerals=True)
    prompts = read_prompts(path.with_name("prompts.npy"))
    params = jax.jit(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])()
    leaves = jax.tree_util.tree_leaves_with_path(params)
    np.savez(path, **{path_name(at): np.asarray(leaf) for at, leaf in leaves})  # type: ignore


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """A contender of numjax: a turn writes all of the batch."""
    import jax
    import jax.numpy as jnp

    from numjax.decode import sample
    from numjax.shard import path_name
    from numjax.text import tables
    from numjax.types import Batch

    model, num_id, end_id = make_model(shape, name == "numgpt")
    prompts = read_prompts(folder / "prompts.npy")
    saved = np.load(folder / "parameters.npz")
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])
    params = jax.device_put(jax.tree_util.tree_map_with_path(lambda at, _: saved[path_name(at)], shapes))
    text = [*range(shape["vocab"]), *([num_id] if name == "numgpt" else [])]
    # Texts may end anywhere, but no token says so: all contenders write --new tokens.
    grammar = tables.build(model.heads["next"].vocab_size, [tables.Edge("text", text, "text")], "text", ["text"])
    request = sample.Request(
        prompt=prompts,
        budget=jnp.full(len(prompts.ids), shape["new"], jnp.int32),
        key=jax.random.key(0),
        temperature=jnp.float32(0),
        top_k=jnp.int32(0),
        top_p=jnp.float32(1),
    )
    grammar, request = jax.device_put((grammar, request))
    options = dict(head="next", most=shape["new"], num_id=num_id, end_id=end_id, greedy=True)

    def turn(times: int) -> dict[str, Any]:
        for _ in range(times):
            done = jax.device_get(sample.generate(model, params, grammar, request, **options))
        return {"written": done.ids.tolist(), "numbers": int((done.ids == num_id).sum())}

    turn(1)
    pairs.serve(turn, version=f"jax {jax.__version__}")


if __name__ == "__main__":
    command.entry(main)
